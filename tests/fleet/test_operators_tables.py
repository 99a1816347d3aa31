"""Tables as operators have them: the right megawatts by hand, or one clear error.

An A100 of 400 W draws 0.2·400 W at rest and, where utilisation is unknown, 0.3 of the other 0.8: 176 W. At 50 %
training draws 0.75 of them: 320 W.
"""

from __future__ import annotations

import bz2
import gzip
import json
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from pypsa_aidc import fleet
from pypsa_aidc.errors import InputError, UnitWarning

A100 = {"accelerator": "A100"}
UNKNOWN, HALF = 176.0, 320.0
HOURLY = "hour,cluster,accelerator,workload,priority,gpu_hours,utilisation"


def write(folder: Path, name: str, *lines: str, encoding: str = "utf-8") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text("\n".join(lines) + "\n", encoding=encoding)
    return folder


def watts(folder: Path, **declared) -> np.ndarray:
    """Workload by hour, W; NaN where an hour is missing."""
    statistics = fleet.Statistics.of(fleet.Trace.read(folder, **declared))
    return fleet.Envelope.of(statistics).workload.to_numpy() * 1e6


def audit(folder: Path, **declared) -> fleet.Audit:
    return fleet.Statistics.of(fleet.Trace.read(folder, **declared)).audit


def hourly(hours: range, gpus: float = 10.0, cluster: str = "c", tail: str = "") -> list[str]:
    return [f"{h},{cluster},A100,training,low,{gpus},50.0{tail}" for h in hours]


def days(first: int, last: int, gpus: int, qos: str = "scavenger") -> list[str]:
    return [f"2026-03-{d:02d}T00:00:00+0000,2026-03-{d + 1:02d}T00:00:00+0000,{gpus},{qos}" for d in range(first, last)]


# ------------------------------------------------------------------------------------------- windows of job lists
def test_a_list_cut_at_its_beginning_drops_the_hours_of_survivors(tmp_path):
    survivor = "2026-02-01T00:00:00+0000,2026-03-11T00:00:00+0000,10,scavenger"
    folder = write(tmp_path, "jobs.csv", "Start,End,GPUs,QOS", survivor, *days(1, 11, 90))
    assert watts(folder, constants=A100) == pytest.approx(np.full(9 * 24, 100 * UNKNOWN))
    noted = audit(folder, constants=A100).noted
    assert noted["hours before the first recorded end, which show survivors only and are dropped"] == 29 * 24
    whole = watts(folder, constants=A100, window="whole")
    assert whole[0] == pytest.approx(10 * UNKNOWN)
    assert whole.size == 38 * 24
    told = watts(folder, constants=A100, window=("2026-03-01T00:00Z", "2026-03-11T00:00Z"))
    assert told == pytest.approx(np.full(240, 100 * UNKNOWN))


def test_a_list_cut_at_its_end_drops_the_hours_of_leftovers(tmp_path):
    left = "2026-03-05T00:00:00+0000,2026-03-25T00:00:00+0000,1,scav"
    folder = write(tmp_path, "jobs.csv", "Start,End,GPUs,QOS", *days(1, 6, 100, "scav"), left)
    assert watts(folder, constants=A100) == pytest.approx(np.full(96, 100 * UNKNOWN))
    noted = audit(folder, constants=A100).noted
    assert noted["hours after the last recorded start, which show leftovers only and are dropped"] == 480


def test_a_stale_job_does_not_stretch_the_trace(tmp_path):
    stale = "2017-03-01T00:00:00+0000,2017-03-01T05:00:00+0000,8,normal"
    rows = [
        f"2026-03-{d:02d}T{h:02d}:00:00Z,2026-03-{d:02d}T{h + 6:02d}:00:00Z,4,normal"
        for d in range(1, 20)
        for h in (0, 6, 12)
    ]
    folder = write(tmp_path, "jobs.csv", "Start,End,GPUs,QOS", stale, *rows)
    statistics = fleet.Statistics.of(fleet.Trace.read(folder, constants=A100, duplicates="all"), max_rejected=0.05)
    assert statistics.audit.rejected == {"rows more than 60 days away from all others": 1}
    assert statistics.hours.size < 19 * 24


@pytest.mark.parametrize("never", ["2099-12-31T00:00:00Z", "1970-01-01T00:00:00Z"])
def test_sentinels_are_no_moments(tmp_path, never):
    folder = write(
        tmp_path,
        "jobs.csv",
        "Start,End,GPUs,QOS",
        f"2026-03-01T00:00:00Z,{never},2,normal",
        "2026-03-01T00:00:00Z,2026-03-01T05:00:00Z,1,low",
    )
    assert watts(folder, constants=A100) == pytest.approx(np.full(5, 3 * UNKNOWN))
    assert audit(folder, constants=A100).noted["moments of 1970, 2099 and the like, taken for none"] == 1


# ------------------------------------------------------------------------------------------- twice, or not at all
def test_equal_rows_without_a_name_are_refused_unless_it_is_said_what_they_are(tmp_path):
    folder = write(tmp_path, "pods.csv", HOURLY, *hourly(range(48)), *hourly(range(48)))
    with pytest.raises(InputError, match="48 of 96 rows that equal another one.*duplicates='one'"):
        watts(folder, utilisation="percent")
    assert watts(folder, utilisation="percent", duplicates="one") == pytest.approx(np.full(48, 10 * HALF))
    assert watts(folder, utilisation="percent", duplicates="all") == pytest.approx(np.full(48, 20 * HALF))


def test_overlapping_exports_of_named_pods_count_once(tmp_path):
    write(tmp_path, "pods_a.csv", f"{HOURLY},pod", *hourly(range(48), tail=",p1"))
    folder = write(tmp_path, "pods_b.csv", f"{HOURLY},pod", *hourly(range(24, 72), tail=",p1"))
    assert watts(folder, utilisation="percent") == pytest.approx(np.full(72, 10 * HALF))
    assert audit(folder, utilisation="percent").noted["rows that repeat another one, counted once"] == 24
    write(tmp_path, "pods_b.csv", f"{HOURLY},pod", *hourly(range(24, 72), 11.0, tail=",p1"))
    with pytest.raises(InputError, match="24 of 96 rows that say something else"):
        watts(folder, utilisation="percent")


def test_overlapping_exports_of_jobs_count_once_and_the_end_that_is_known_counts(tmp_path):
    head = "JobID,Start,End,GPUs,QOS"
    write(
        tmp_path,
        "jan.csv",
        head,
        "1,2026-03-01T00:00:00Z,Unknown,4,normal",
        "2,2026-03-01T00:00:00Z,2026-03-01T06:00:00Z,1,low",
    )
    folder = write(
        tmp_path,
        "feb.csv",
        head,
        "1,2026-03-01T00:00:00Z,2026-03-01T04:00:00Z,4,normal",
        "2,2026-03-01T00:00:00Z,2026-03-01T06:00:00Z,1,low",
    )
    expected = [5 * UNKNOWN] * 4 + [UNKNOWN] * 2
    assert watts(folder, constants=A100) == pytest.approx(expected)


def test_steps_of_a_job_are_its_own(tmp_path):
    start, end = "2026-03-01T08:00:00Z", "2026-03-01T12:00:00Z"
    rows = [
        f"{name}|{start}|{end}|{qos}|cpu=64,gres/gpu=8"
        for name, qos in (("101", "normal"), ("101.batch", ""), ("101.0", ""))
    ]
    folder = write(tmp_path, "jobs.txt", "JobID|Start|End|QOS|AllocTRES", *rows)
    assert watts(folder, constants=A100) == pytest.approx(np.full(4, 8 * UNKNOWN))
    assert audit(folder, constants=A100).skipped == {"steps of jobs that are counted as a whole": 2}


def test_gaps_are_those_of_each_cluster(tmp_path):
    folder = write(tmp_path, "pods.csv", HOURLY, *hourly(range(200), cluster="a"), *hourly(range(120), cluster="b"))
    with pytest.warns(fleet.CoverageWarning, match="120 of 200 h"):
        power = watts(folder, utilisation="percent")
    assert power[:120] == pytest.approx(np.full(120, 6400.0))
    assert np.isnan(power[120:]).all()
    found = fleet.Trace.read(folder, utilisation="percent")
    retired = fleet.Envelope.of(fleet.Statistics.of(found, retired=["b"])).workload.to_numpy() * 1e6
    assert retired[120:] == pytest.approx(np.full(80, 3200.0))


def test_a_cluster_without_pods_counts_everywhere(tmp_path):
    servers = [f"{h},{c},A100,100,1000" for c in "ab" for h in range(48)]
    write(tmp_path, "servers.csv", "hour,cluster,accelerator,gpus,cores", *servers)
    folder = write(tmp_path, "pods.csv", HOURLY, *hourly(range(48), cluster="a"))
    statistics = fleet.Statistics.of(fleet.Trace.read(folder, utilisation="percent"))
    envelope = fleet.Envelope.of(statistics)
    # (3.2 + (90 + 100)·80 W + 2000 cores · 1.5 W) · 1.2.
    assert envelope.facility.to_numpy() * 1e3 == pytest.approx(np.full(48, 25.68))
    table = fleet.accounting(envelope, fleet.ensemble(statistics, [fleet.PowerModel()]))
    assert table.loc["facility power"].to_numpy() * 1e3 == pytest.approx([25.68, 25.68])
    write(
        tmp_path, "servers.csv", "hour,cluster,accelerator,gpus,cores", *(row.replace(",b,", ",A,") for row in servers)
    )
    with pytest.warns(UnitWarning, match="capitals only.*A, a"):
        watts(folder, utilisation="percent")


def test_rejected_rows_weigh_their_gpu_hours(tmp_path):
    rows = [f"{i},2026-03-01T00:00:00Z,2026-03-02T00:00:00Z,normal,10" for i in range(199)]
    folder = write(
        tmp_path,
        "jobs.csv",
        "JobID,Start,End,QOS,GPUs",
        *rows,
        "199,2026-03-01T00:00:00Z,2026-03-02T00:00:00Z,urgent,4096",
    )
    with pytest.raises(InputError, match="1 of 200 rows .67 % of GPU-hours.: unknown priority"):
        watts(folder, constants=A100)
    assert watts(folder, constants=A100, words={"priority": {"urgent": "high"}})[0] == pytest.approx(6086 * UNKNOWN)


# ------------------------------------------------------------------------------------------- units
def test_epochs_are_refused_with_a_guess_and_read_with_a_unit(tmp_path):
    rows = ["1772352000,1772366400,10,normal", "1772355600,1772438400,10,scavenger"]
    folder = write(tmp_path, "jobs.csv", "Start,End,GPUs,QOS", *rows)
    with pytest.raises(InputError, match="looks like epoch-s.*--unit start=epoch-s"):
        watts(folder, constants=A100)
    expected = np.array([10] + [20] * 3 + [10] * 20) * UNKNOWN
    for unit, factor in {"epoch-s": 1, "epoch-ms": 1000, "epoch-us": 10**6, "epoch-ns": 10**9}.items():
        scaled = [
            ",".join(str(int(part) * factor) if i < 2 else part for i, part in enumerate(row.split(",")))
            for row in rows
        ]
        write(tmp_path, "jobs.csv", "Start,End,GPUs,QOS", *scaled)
        assert watts(folder, constants=A100, units={"start": unit, "end": unit}) == pytest.approx(expected)


def test_shares_of_a_gpu_are_fractions_or_declared(tmp_path):
    folder = write(
        tmp_path, "jobs.csv", "Start,End,GPUs,QOS,Share", "2026-03-01T08:00:00Z,2026-03-01T12:00:00Z,1,normal,50"
    )
    with pytest.raises(InputError, match="gpu_share outside 0 … 1: percent"):
        watts(folder, constants=A100)
    assert watts(folder, constants=A100, units={"gpu_share": "percent"}) == pytest.approx(np.full(4, 0.5 * UNKNOWN))


def test_fractions_declared_as_percent_in_a_job_list_are_told(tmp_path):
    rows = [f"{i},2026-03-01T00:00:00Z,2026-03-01T09:00:00Z,1,normal,0.0{i % 9}" for i in range(30)]
    folder = write(tmp_path, "jobs.csv", "JobID,Start,End,GPUs,QOS,Util", *(row.replace("0.0", "0.00") for row in rows))
    with pytest.warns(UnitWarning, match="never exceeds 1 %"):
        watts(folder, constants=A100, utilisation="percent")


def test_cpu_jobs_and_gpus_of_two_kinds(tmp_path):
    rows = [
        "1|2026-03-01T00:00:00Z|2026-03-01T04:00:00Z|normal|cpu=8,mem=4G",
        "2|2026-03-01T00:00:00Z|2026-03-01T04:00:00Z|normal|",
        "3|2026-03-01T00:00:00Z|2026-03-01T04:00:00Z|normal|gres/gpu:a100=4,gres/gpu:h100=2,gres/gpu=6",
    ]
    folder = write(tmp_path, "sacct.txt", "JobID|Start|End|QOS|AllocTRES|", *(f"{row}|" for row in rows))
    # An H100 of 700 W draws 0.44 of it.
    assert watts(folder) == pytest.approx(np.full(4, 4 * 176 + 2 * 308))
    assert audit(folder).skipped == {"jobs without accelerators": 2}


# ------------------------------------------------------------------------------------------- tools
def test_slurm_with_elapsed(tmp_path):
    folder = write(
        tmp_path,
        "sacct.txt",
        "JobID|Start|Elapsed|QOS|AllocTRES",
        "7|2026-03-01T08:00:00|1-02:00:00|preempt|gres/gpu:a100=8",
    )
    found = watts(folder, zone="Europe/Berlin")
    assert found == pytest.approx(np.full(26, 8 * UNKNOWN))


def test_helios_needs_a_zone_and_a_priority(tmp_path):
    head = "job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue"
    ran = "1,u1,vcA,8,32,1,COMPLETED,2020-04-01 00:00:01,2020-04-01 00:00:05,2020-04-01 04:00:05,14400,4"
    folder = write(tmp_path, "jobs.csv", head, ran, "2,u2,vcB,1,4,1,CANCELLED,2020-04-01 00:10:00,,,0,0")
    with pytest.raises(InputError, match="--constant priority=high"):
        fleet.Trace.read(folder, constants=A100, zone="Asia/Shanghai")
    with pytest.raises(InputError, match="stamps with a zone.*--zone"):
        watts(folder, constants={**A100, "priority": "low"})
    found = fleet.Statistics.of(fleet.Trace.read(folder, constants={**A100, "priority": "low"}, zone="Asia/Shanghai"))
    assert found.cells["gpu_hours"].to_list() == pytest.approx([8.0] * 3)  # The first and last hour are no whole ones.
    assert found.audit.origin == "2020-03-31T00:00Z"
    assert found.hours.tolist() == [17, 18, 19]
    assert found.audit.skipped == {"jobs that never ran": 1}


PODS = [
    ("a", "high-priority", 1, "2026-03-01T22:30:00Z", "2026-03-02T01:15:00Z"),
    ("b", "preemptible", 2, "2026-03-01T23:00:00Z", ""),
    ("c", "", 4, "2026-03-01T23:00:00Z", "2026-03-02T00:00:00Z"),
    ("d", "preemptible", 1, "2026-03-02T02:00:00Z", "2026-03-02T04:00:00Z"),
]


def test_pods_of_kubernetes(tmp_path):
    head = "namespace,pod,priorityClassName,node,nvidia_gpu,start_time,end_time"
    table = write(tmp_path / "csv", "pods.csv", head, *(f"ml,{p},{c},n1,{g},{s},{e}" for p, c, g, s, e in PODS))
    items = [
        {
            "kind": "Pod",
            "metadata": {"name": pod, "namespace": "ml", "uid": f"uid-{pod}", "creationTimestamp": start},
            "spec": {
                "priorityClassName": kind or None,
                "containers": [{"resources": {"requests": {"cpu": "500m"}, "limits": {"nvidia.com/gpu": str(gpus)}}}],
                "nodeSelector": {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB"},
            },
            "status": {
                "phase": "Succeeded" if end else "Running",
                "startTime": start,
                "containerStatuses": [{"state": {"terminated": {"finishedAt": end}} if end else {"running": {}}}],
            },
        }
        for pod, kind, gpus, start, end in PODS
    ]
    (tmp_path / "json").mkdir()
    (tmp_path / "json" / "pods.json").write_text(json.dumps({"kind": "List", "items": items}))
    expected = np.array([7, 3, 2.25, 3, 3]) * UNKNOWN
    assert watts(table, constants=A100) == pytest.approx(expected)
    assert watts(tmp_path / "json") == pytest.approx(expected)
    envelope = fleet.Envelope.of(fleet.Statistics.of(fleet.Trace.read(tmp_path / "json")))
    # Preemptible: 2, 2, 2, 3, 3 GPUs.
    assert envelope.relief(boundary="attributed").to_numpy().ravel() * 1e6 == pytest.approx(
        np.array([2, 2, 2, 3, 3]) * UNKNOWN
    )


@pytest.mark.parametrize(("resource", "share"), [("mig-3g.20gb", 3 / 7), ("gpu", 1.0), ("gpu.shared", None)])
def test_parts_of_gpus_that_pods_hold(tmp_path, resource, share):
    item = {
        "metadata": {"name": "p", "namespace": "ml", "uid": "u"},
        "spec": {
            "priorityClassName": "high",
            "containers": [{"resources": {"limits": {f"nvidia.com/{resource}": "2"}}}],
            "nodeSelector": {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB"},
        },
        "status": {
            "phase": "Succeeded",
            "startTime": "2026-03-01T00:00:00Z",
            "containerStatuses": [{"state": {"terminated": {"finishedAt": "2026-03-01T01:00:00Z"}}}],
        },
    }
    (tmp_path / "pods.json").write_text(json.dumps({"items": [item]}))
    if share is None:  # Of GPUs that pods take turns on, nobody knows the share.
        with pytest.raises(InputError, match=r"gpus cannot be read .*2 gpu\.shared"):
            watts(tmp_path)
    else:
        assert watts(tmp_path) == pytest.approx([2 * share * UNKNOWN])


def test_names_with_quotes_and_dates_with_slashes(tmp_path):
    # sacct does not quote: a quote belongs to the name. Excel writes 2026/3/1 8:00.
    head = "JobID|JobName|QOS|Start|End|AllocTRES"
    rows = [
        f"{n}|{name}|normal|2026/3/1 {n}:00|2026/03/01 {n + 1:02d}:00:00|gres/gpu:a100={n}"
        for n, name in ((1, '"a'), (2, 'b"'))
    ]
    folder = write(tmp_path, "sacct.txt", head, *rows)
    assert watts(folder, zone="UTC", window="whole") == pytest.approx([UNKNOWN, 2 * UNKNOWN])


def test_what_kube_state_metrics_says_of_gpus(tmp_path):
    asked, info = [], []
    for pod, gpus, kind in (("a", "2", "preemptible"), ("b", "4", "high-priority")):
        labels = {"namespace": "ml", "pod": pod, "node": "n1"}
        values = [[1772323200 + 60 * i, gpus] for i in range(120)]
        name = "kube_pod_container_resource_requests"
        asked.append({"metric": {"__name__": name, "resource": "nvidia_com_gpu", **labels}, "values": values})
        asked.append({"metric": {"__name__": name, "resource": "cpu", **labels}, "values": values})
        info.append({"metric": {"__name__": "kube_pod_info", "priority_class": kind, **labels}, "values": values[:1]})
    answer = {"status": "success", "data": {"resultType": "matrix", "result": asked + info}}
    (tmp_path / "answer.json").write_text(json.dumps(answer))
    envelope = fleet.Envelope.of(fleet.Statistics.of(fleet.Trace.read(tmp_path, constants=A100)))
    assert envelope.workload.to_numpy() * 1e6 == pytest.approx(np.full(2, 6 * UNKNOWN))
    eligible = envelope.relief(boundary="attributed").to_numpy().ravel()
    assert eligible * 1e6 == pytest.approx(np.full(2, 2 * UNKNOWN))


@pytest.mark.parametrize(("metric", "half"), [("DCGM_FI_PROF_SM_ACTIVE", 0.5), ("DCGM_FI_DEV_GPU_UTIL", 50)])
def test_samples_of_utilisation_know_their_scale(tmp_path, metric, half):
    stamps = pd.date_range("2026-03-01", periods=240, freq="30s", tz="UTC").strftime("%Y-%m-%dT%H:%M:%SZ")
    rows = [f"{at},GPU-{g},NVIDIA A100-SXM4-80GB,training,low,{half}" for at in stamps for g in range(8)]
    folder = write(tmp_path, "dcgm.csv", f"timestamp,UUID,modelName,workload,priority,{metric}", *rows)
    assert watts(folder) == pytest.approx(np.full(2, 8 * HALF))


def test_acme_and_philly(tmp_path):
    times = "submit_time,start_time,end_time,fail_time,stop_time,duration,queue"
    head = f"job_id,user,node_num,gpu_num,cpu_num,type,state,{times}"
    stamps = [f"2023-03-04 {hour:02d}:00:00+08:00" for hour in (8, 8, 12)]
    row = f"dlc1,u1,2,16,120,Pretrain,COMPLETED,{','.join(stamps)},,,14400.0,0.0"
    acme = write(tmp_path / "acme", "trace_seren.csv", head, row)
    statistics = fleet.Statistics.of(fleet.Trace.read(acme, constants={**A100, "priority": "high"}))
    assert statistics.cells["gpu_hours"].to_list() == [16.0] * 4
    assert set(statistics.cells["workload"].cast(pl.String)) == {"training"}
    attempts = [
        {
            "start_time": f"2017-10-09 0{hour}:00:00",
            "end_time": f"2017-10-09 0{hour + 2}:00:00",
            "detail": [{"ip": "m1", "gpus": ["gpu0", "gpu1"]}],
        }
        for hour in (1, 4)
    ]
    jobs = [
        {
            "jobid": "application_1",
            "vc": "x",
            "status": "Pass",
            "submitted_time": "2017-10-09 00:30:00",
            "attempts": attempts,
        }
    ]
    (tmp_path / "philly").mkdir()
    (tmp_path / "philly" / "cluster_job_log.json").write_text(json.dumps(jobs))
    found = watts(tmp_path / "philly", zone="America/Los_Angeles", constants={**A100, "priority": "low"})
    assert found == pytest.approx(np.array([2, 2, 0, 2, 2]) * UNKNOWN)


# ------------------------------------------------------------------------------------------- files
def packed(name: str, text: str) -> dict[str, bytes]:
    raw = text.encode()
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(raw)
    return {
        f"{name}.csv.gz": gzip.compress(raw),
        f"{name}.csv.zst": sink.getvalue().to_pybytes(),
        f"{name}.csv.bz2": bz2.compress(raw),
    }


JOB_ROWS = ["2026-03-01T00:00:00Z,2026-03-01T05:00:00Z,2.5,low", "2026-03-01T00:00:00Z,2026-03-01T05:00:00Z,1.5,normal"]
JOB_TEXT = "\n".join(["JobID,Start,End,GPUs,QOS", *(f"{i},{row}" for i, row in enumerate(JOB_ROWS))]) + "\n"
POD_TEXT = "\n".join([HOURLY, *hourly(range(5), 12.5)]) + "\n"
READERS = {
    "jobs": (JOB_TEXT, {"constants": A100}, 4 * UNKNOWN),
    "pods": (POD_TEXT, {"utilisation": "percent"}, 12.5 * HALF),
}
KINDS = [
    "csv.gz",
    "csv.zst",
    "csv.bz2",
    "tsv",
    "semicolon",
    "comma",
    "utf-16",
    "bom",
    "windows",
    "zip",
    "parquet",
    "jsonl",
    "json",
    "two files",
    "preamble",
]


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("kind", KINDS)
def test_every_reader_reads_every_kind_of_file(tmp_path, reader, kind):
    text, declared, expected = READERS[reader]
    frame = pd.read_csv(pa.BufferReader(text.encode()))
    target = tmp_path / f"{reader}.csv"
    if kind.startswith("csv."):
        name = f"{reader}.{kind}"
        (tmp_path / name).write_bytes(packed(reader, text)[name])
    elif kind == "tsv":
        (tmp_path / f"{reader}.tsv").write_text(text.replace(",", "\t"))
    elif kind == "semicolon":
        target.write_text(text.replace(",", ";"))
    elif kind == "comma":
        frame.to_csv(target, sep=";", decimal=",", index=False)
    elif kind == "utf-16":
        target.write_text(text, encoding="utf-16")
    elif kind == "bom":
        target.write_text(text, encoding="utf-8-sig")
    elif kind == "windows":
        target.write_bytes("\n".join(f"{line},Büro" for line in text.splitlines()).encode("cp1252"))
    elif kind == "zip":
        with zipfile.ZipFile(tmp_path / "export.zip", "w") as archive:
            archive.writestr(f"{reader}.csv", text)
    elif kind == "parquet":
        frame.to_parquet(tmp_path / f"{reader}.parquet")
    elif kind == "jsonl":
        frame.to_json(tmp_path / f"{reader}.jsonl", orient="records", lines=True)
    elif kind == "json":
        frame.to_json(tmp_path / f"{reader}.json", orient="records")
    elif kind == "two files":
        head, *rows = text.splitlines()
        for number, row in enumerate(rows):
            (tmp_path / f"{reader}_{number}.csv").write_text(f"{head}\n{row}\n")
    else:
        target.write_text(f"sep=,\n{text}")
    assert watts(tmp_path, **declared) == pytest.approx(np.full(5, expected))
    single = [path for path in tmp_path.iterdir() if path.is_file()]
    if len(single) == 1:
        assert watts(single[0], **declared) == pytest.approx(np.full(5, expected))


def test_thousands_are_not_taken_for_decimals(tmp_path):
    rows = [f'{h},c,A100,training,low,"1,{h:03d}",50.0' for h in range(5)]
    with pytest.raises(InputError, match="column 'gpu_hours'.*1,234.*decimal point"):
        watts(write(tmp_path, "pods.csv", HOURLY, *rows), utilisation="percent")


def test_a_damaged_archive_is_named(tmp_path):
    (tmp_path / "pods.csv.zst").write_bytes(b"\x28\xb5\x2f\xfd" + bytes(50))
    with pytest.raises(InputError, match=r"(?s)pods.csv.zst.*readable table"):
        fleet.Trace.read(tmp_path, utilisation="percent")


# ------------------------------------------------------------------------------------------- samples and zones
def test_samples_within_the_hour_add_up_and_gaps_in_them_are_missing(tmp_path):
    stamps = pd.date_range("2026-03-01", periods=360, freq="30s", tz="UTC")
    rows = [f"{at.isoformat()},c,A100,training,low,{10 / 120},50.0" for at in stamps]
    folder = write(tmp_path, "pods.csv", HOURLY, *rows)
    assert watts(folder, utilisation="percent") == pytest.approx(np.full(3, 10 * HALF))
    write(tmp_path, "pods.csv", HOURLY, *rows[:130], *rows[190:])
    with pytest.warns(fleet.CoverageWarning):
        power = watts(folder, utilisation="percent")
    assert power[[0, 2]] == pytest.approx(np.full(2, 10 * HALF))
    assert np.isnan(power[1])
    write(tmp_path, "pods.csv", HOURLY, *rows[:130], *rows[132:])
    assert watts(folder, utilisation="percent") == pytest.approx(np.full(3, 10 * HALF))


def test_hours_of_half_hour_zones(tmp_path):
    stamps = pd.date_range("2026-03-28", periods=48, freq="h", tz="Asia/Kolkata")
    for rows, zone in (([str(at) for at in stamps], ""), ([str(at)[:19] for at in stamps], "Asia/Kolkata")):
        folder = write(tmp_path, "pods.csv", HOURLY, *(f"{at},c,A100,training,low,10.0,50.0" for at in rows))
        declared = {"utilisation": "percent"} | ({"zone": zone} if zone else {})
        assert watts(folder, **declared) == pytest.approx(np.full(48, 10 * HALF))
        assert audit(folder, **declared).origin == "2026-03-27T00:30Z"


def test_weekdays_are_those_of_the_calendar(tmp_path):
    # 1 October 2026 is a Thursday; at weekends nothing is used.
    stamps = pd.date_range("2026-10-01", periods=672, freq="h", tz="UTC")
    rows = [f"{at:%Y-%m-%dT%H:%M:%SZ},c,A100,training,low,10000.0,{50.0 if at.weekday() < 5 else 0.0}" for at in stamps]
    envelope = fleet.Envelope.of(
        fleet.Statistics.of(fleet.Trace.read(write(tmp_path, "pods.csv", HOURLY, *rows), utilisation="percent"))
    )
    working = fleet.Condition(weekdays=range(5))
    # Above rest: 10,000 · 400 W · 0.8 · 0.75.
    assert fleet.Surface.of(envelope, (1,), (1.0,), condition=working).at(1, 1.0) == pytest.approx(2.4)
    assert fleet.Surface.of(envelope, (1,), (0.5,), condition=fleet.Condition(weekdays=[5, 6])).at(1, 0.5) == 0.0
    # Midnight in Chicago is 05:00 UTC in October: Friday evening there is Saturday morning here.
    late = fleet.Condition(weekdays=[4], start_hours=[20], zone="America/Chicago")
    few = fleet.Surface.of(envelope, (1,), (1.0,), condition=late)
    assert few.K.item() == 0.0
    with pytest.raises(InputError, match="4 windows.*at least 20"):
        few.at(1, 1.0)


# ------------------------------------------------------------------------------------------- the same bytes
@pytest.mark.parametrize("reader", ["jobs", "pods"])
def test_any_order_and_any_split_give_the_same_bytes(tmp_path, reader):
    rng = np.random.default_rng(3)
    if reader == "jobs":
        start = pd.Timestamp("2026-03-01T00:00Z") + pd.to_timedelta(np.round(rng.uniform(0, 200, 400), 4), unit="h")
        table = pd.DataFrame(
            {
                "JobID": range(400),
                "Start": start,
                "End": start + pd.to_timedelta(rng.uniform(0.1, 30, 400), unit="h"),
                "GPUs": rng.uniform(0, 9, 400),
                "QOS": rng.choice(["low", "normal"], 400),
                "Util": rng.uniform(0, 1, 400),
            }
        )
        declared = {"constants": A100, "utilisation": "fraction"}
    else:
        table = pd.DataFrame(
            {
                "hour": rng.integers(0, 50, 3000),
                "cluster": rng.choice(["a", "b"], 3000),
                "accelerator": "A100",
                "workload": "training",
                "priority": rng.choice(["low", "high"], 3000),
                "gpu_hours": rng.uniform(0, 9, 3000),
                "utilisation": rng.uniform(0, 1, 3000),
                "pod": range(3000),
            }
        )
        declared = {"utilisation": "fraction"}
    contents = []
    for number, pieces in enumerate((1, 1, 3)):
        folder = tmp_path / str(number)
        folder.mkdir()
        shuffled = table if number == 0 else table.sample(frac=1, random_state=number)
        for piece in range(pieces):
            shuffled.iloc[piece::pieces].to_csv(folder / f"{reader}_{piece}.csv", index=False)
        statistics = fleet.Statistics.of(fleet.Trace.read(folder, **declared))
        statistics.save(folder / "kept")
        fleet.Envelope.of(statistics).save(folder / "envelope.nc")
        contents.append(
            [(folder / name).read_bytes() for name in ("kept/cells.parquet", "kept/observed.parquet", "envelope.nc")]
            + [statistics.audit.gpu_hours]
        )
    assert contents[0] == contents[1] == contents[2]


# ------------------------------------------------------------------------------------------- layouts in YAML
def test_a_layout_goes_through_yaml_and_its_faults_are_all_told(tmp_path):
    folder = write(tmp_path / "trace", "jobs.csv", "Start,End,GPUs,QOS", *days(1, 3, 8))
    found = fleet.Trace.read(folder, constants=A100, window="whole")
    found.layout.save(tmp_path / "trace.yaml")
    assert fleet.Layout.read(tmp_path / "trace.yaml") == found.layout
    assert watts(folder, layout=tmp_path / "trace.yaml") == pytest.approx(np.full(48, 8 * UNKNOWN))
    (tmp_path / "bad.yaml").write_text("layout: {name: x, kind: job, pods: jobs.csv, pod_colums: {}}\n")
    with pytest.raises(InputError, match="3 faults"):
        fleet.Layout.read(tmp_path / "bad.yaml")


def test_kinds_of_accelerators_as_tools_spell_them():
    model = fleet.PowerModel(ratings={**fleet.RATINGS, "A100": 250.0})
    names = ["NVIDIA A100-SXM4-80GB", "a100", "nvidia_a100_80gb_pcie", "NVIDIA-A100-SXM4-40GB"]
    assert [model.rating(name) for name in names] == [250.0] * 4
    assert fleet.PowerModel().rating("NVIDIA H100 PCIe") == 350.0
    assert fleet.PowerModel().rating("a100_3g.20gb") == pytest.approx(400 * 3 / 7)
    with pytest.raises(InputError, match="gaudi2"):
        model.rating("gaudi2")
    with pytest.raises(InputError, match=r"curves: given \['trainig'\]"):
        fleet.PowerModel(curves={**fleet.ANCHORED, "trainig": fleet.ANCHORED["training"]})


def test_bands_lie_around_the_values_of_the_user():
    own = fleet.PowerModel(
        ratings={**fleet.RATINGS, "A100": 250.0}, pue=1.6, idle_fraction=0.1, online_floor=0.2, host_idle=3.5
    )
    draws = fleet.power_draws(300, seed=1, central=own)
    for name in ("pue", "idle_fraction", "online_floor", "host_idle", "host_peak", "null_value"):
        values = [getattr(draw, name) for draw in draws]
        assert min(values) < getattr(own, name) < max(values), name
    ratings = [draw.rating("A100") for draw in draws]
    # Table 4 of [2] draws 300 … 460 W around 400.
    assert 0.75 * 250 <= min(ratings) < 200 < 280 < max(ratings) <= 1.15 * 250


def test_levels_caps_and_rest_of_an_accelerator():
    cells = pl.DataFrame(
        {
            "hour": [0, 1],
            "cluster": "c",
            "accelerator": "A100",
            "workload": "training",
            "priority": "low",
            "state": "active",
            "pods": 1,
            "gpu_hours": 1.0,
            "gpu_hours_null": 0.0,
            "s0": [0.5, 1.0],
            "s25": [0.25, 0.75],
            "s50": [0.0, 0.5],
            "s75": [0.0, 0.25],
            "cpu_requested": 0.0,
            "cpu_used": 0.0,
        }
    )
    empty = pl.DataFrame(schema=fleet.CAPACITY_TYPES)
    statistics = fleet.Statistics(cells, empty, fleet.Audit("by hand"))

    def power(**changes):
        return (fleet.Envelope.of(statistics, model=fleet.PowerModel(**changes)).workload.to_numpy() * 1e6).tolist()

    # Levels may fall at the top; at 50 % 300 W and at 100 % 280 W.
    levels = {"A100": (60.0, 200.0, 300.0, 310.0, 280.0)}
    assert power(levels=levels) == pytest.approx([300.0, 280.0])
    assert power(caps={"A100": 250.0}) == pytest.approx([250.0, 250.0])
    assert power(idle={"A100": 50.0}) == pytest.approx([50 + 350 * 0.75, 400.0])
    with pytest.raises(InputError, match="levels"):
        fleet.PowerModel(levels={"A100": (60.0, 200.0)})
