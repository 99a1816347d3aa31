"""Job lists of one's own: layouts that check themselves, stamps with a zone, missing ends, utilisation."""

from __future__ import annotations

import json

import numpy as np
import polars as pl
import pytest

from pypsa_aidc import fleet
from pypsa_aidc.errors import InputError

from . import made

COLUMNS = {
    "start": "Start",
    "end": "End",
    "submitted": "Submit",
    "gpus": "AllocGPUs",
    "workload": "Partition",
    "priority": "QOS",
}
WORDS = {"workload": {"train": "training", "batch": "offline_inference"}, "priority": {"normal": "high", "scav": "low"}}
JOBS = pl.DataFrame(
    {
        "Submit": ["2026-03-01T07:30:00+0100", "2026-03-01T09:00:00+0100", "2026-03-01T08:00:00Z", "Unknown"],
        "Start": ["2026-03-01T08:00:00+0100", "2026-03-01T10:00:00+0100", "2026-03-01T12:30:00Z", "Unknown"],
        "End": ["2026-03-01T18:00:00+0100", "Unknown", "2026-03-01T18:30:00Z", ""],
        "AllocGPUs": ["8", "4", "2", "1"],
        "Partition": ["train", "batch", "train", "train"],
        "QOS": ["normal", "scav", "scav", "normal"],
    }
)


def layout(**changes):
    columns = {**COLUMNS, **changes.pop("columns", {})}
    columns = {name: source for name, source in columns.items() if source}
    return fleet.Layout("slurm", "jobs", "jobs.csv", columns, **{"words": WORDS, **changes})


def read(folder, table=JOBS, own=None, **options):
    made.write(table, folder / "jobs.csv")
    return fleet.Statistics.of(fleet.Trace.read(folder, own or layout(), **options))


def gpu_hours(statistics):
    return dict(statistics.cells.group_by("hour").agg(pl.col("gpu_hours").sum()).sort("hour").iter_rows())


def test_stamps_become_utc_hours_and_running_jobs_run_to_the_end(tmp_path):
    statistics = read(tmp_path)
    # UTC: 07–17 with 8 GPUs, 09 to the end of the trace with 4, 12:30–18:30 with 2; the last complete hour is 17.
    expected = {h: 8.0 * (h < 17) + 4.0 * (h >= 9) + (1.0 if h == 12 else 2.0 * (h > 12)) for h in range(7, 18)}
    assert gpu_hours(statistics) == pytest.approx(expected)
    audit = statistics.audit
    assert audit.origin == "2026-03-01T00:00Z"
    assert "hour 0 is 2026-03-01T00:00Z" in str(audit)
    assert audit.noted == {"jobs without an end, taken to run to the end of the trace": 1}
    assert audit.skipped == {"jobs that never ran": 1}
    assert json.loads(json.dumps(audit.to_dict()))["skipped"] == dict(audit.skipped)
    spans, _ = fleet.job_spans(fleet.Trace.read(tmp_path, layout()))
    assert spans["delay"].to_list() == pytest.approx([0.5, 1.0, 4.5])
    assert spans["end"].to_list() == pytest.approx([17.0, 18.5, 18.5])


def test_stamps_and_hours_give_the_same(tmp_path):
    hours = {"Submit": [6.5, 8.0, 8.0, None], "Start": [7.0, 9.0, 12.5, None], "End": [17.0, None, 18.5, None]}
    numbers = JOBS.with_columns(**{name: pl.Series(values) for name, values in hours.items()})
    seconds = numbers.with_columns(pl.col(*hours) * 3600)
    factor = dict.fromkeys(("submitted", "start", "end"), 1 / 3600)
    found = [
        read(tmp_path / "stamps"),
        read(tmp_path / "hours", numbers),
        read(tmp_path / "seconds", seconds, layout(units=factor)),
    ]
    for other in found[1:]:
        assert gpu_hours(other) == pytest.approx(gpu_hours(found[0]))
        assert other.audit.origin == ""


def test_stamps_without_a_zone_or_beside_numbers_are_refused(tmp_path):
    bare = JOBS.with_columns(pl.col("End").str.replace(r"(Z|\+0100)$", ""))
    with pytest.raises(InputError, match="column 'End'.*2026-03-01T18:00:00.*stamps with a zone.*--zone"):
        read(tmp_path, bare)
    mixed = JOBS.with_columns(Submit=pl.Series(["1", "2", "3", "4"]))
    with pytest.raises(InputError, match=r"numbers in \['Submit'\].*same form"):
        read(tmp_path, mixed)
    with pytest.raises(InputError, match="units"):
        read(tmp_path, own=layout(units={"start": 1 / 3600}))


def test_stamps_of_parquet_and_of_an_hourly_table(tmp_path):
    moments = [pl.col(name).str.replace(r"([+]\d\d)(\d\d)$", "${1}:${2}") for name in ("Submit", "Start", "End")]
    typed = JOBS.with_columns(each.str.to_datetime("%+", time_zone="UTC", strict=False) for each in moments)
    made.write(typed, tmp_path / "jobs.parquet")
    own = fleet.Layout("slurm", "jobs", "jobs.parquet", COLUMNS, WORDS)
    assert gpu_hours(fleet.Statistics.of(fleet.Trace.read(tmp_path, own))) == gpu_hours(read(tmp_path / "csv"))
    table = pl.DataFrame({"hour": ["2026-03-02T01:00+01:00", "2026-03-02T01:00:00Z", "2026-03-02T03:00:00+01:00"]})
    words = {"cluster": "c", "accelerator": "A100", "workload": "training", "priority": "low"}
    table = table.with_columns(pl.lit(word).alias(key) for key, word in words.items()).with_columns(gpu_hours=1.0)
    folder = tmp_path / "hourly"
    made.write(table, folder / "pods.csv")
    stock = table.select("hour", "cluster", "accelerator").with_columns(gpus=8.0, cores=64.0)
    made.write(stock, folder / "servers.csv")
    statistics = fleet.Statistics.of(fleet.Trace.read(folder, "generic", utilisation="absent"))
    assert statistics.hours.tolist() == [0, 1, 2]
    assert statistics.valid.all()
    assert statistics.audit.origin == "2026-03-02T00:00Z"


def test_seconds_in_the_hour_column_say_what_they_are(tmp_path):
    table = pl.DataFrame({"hour": [1.7e9 + 3600 * h for h in range(3)], "gpu_hours": 1.0})
    words = {"cluster": "c", "accelerator": "A100", "workload": "training", "priority": "low"}
    made.write(table.with_columns(pl.lit(word).alias(key) for key, word in words.items()), tmp_path / "pods.csv")
    with pytest.raises(InputError, match="column 'hour'.*17000.*Seconds since 1970.*epoch-s"):
        fleet.Statistics.of(fleet.Trace.read(tmp_path, "generic", utilisation="absent"))


def test_rejections_name_column_value_and_known_words(tmp_path):
    bad = JOBS.with_columns(QOS=pl.Series(["normal", "debug", "scav", "normal"]), AllocGPUs=pl.lit("gpu:8"))
    with pytest.raises(InputError) as error:
        read(tmp_path, bad)
    text = str(error.value)
    assert "jobs.csv, column 'QOS', e.g. 'debug'; known are normal, scav" in text
    assert "gpus cannot be read (first in jobs.csv, column 'AllocGPUs', e.g. 'gpu:8')" in text


def test_utilisation_of_jobs_counts(tmp_path):
    table = JOBS.with_columns(Util=pl.Series(["80", "40", "", "0"]))
    own = layout(columns={"utilisation": "Util"})
    with pytest.raises(InputError, match=r"largest value.*80"):
        read(tmp_path, table, own)
    statistics = read(tmp_path, table, own, utilisation="percent")
    cell = statistics.cells.filter(pl.col("hour") == 14)
    # Hour 14: 8 GPUs at 80 % (high), 4 at 40 % and 2 unknown (low).
    assert cell.filter(pl.col("priority") == "high").select("s0", "s25", "s50", "s75").row(0) == pytest.approx(
        (6.4, 8 * 0.55, 8 * 0.3, 8 * 0.05)
    )
    assert cell["gpu_hours_null"].sum() == pytest.approx(2.0)
    assert cell["s25"].sum() == pytest.approx(8 * 0.55 + 4 * 0.15)
    high = table.with_columns(Util=pl.lit("137"))
    with pytest.raises(InputError, match="utilisation out of range"):
        read(tmp_path, high, own, utilisation="percent")
    clipped = read(tmp_path, high, own, utilisation="percent", out_of_range="clip")
    assert clipped.audit.noted["utilisations clipped to their range"] == 3
    assert clipped.cells["s75"].sum() == pytest.approx(0.25 * clipped.cells["gpu_hours"].sum())


def test_servers_of_clusters_and_no_servers(tmp_path):
    table = JOBS.with_columns(Site=pl.Series(["a", "b", "a", "a"]), Model=pl.lit("A100"))
    names = {"cluster": "Site", "accelerator": "Model"}
    stock = pl.DataFrame({"site": ["a", "b"], "gpu": ["A100", "A100"], "count": [16, 8], "cpu": [128, 64]})
    made.write(stock, tmp_path / "nodes.csv")
    servers = {"cluster": "site", "accelerator": "gpu", "gpus": "count", "cores": "cpu"}
    own = layout(columns=names, servers="nodes.csv", server_columns=servers)
    statistics = read(tmp_path, table, own)
    assert statistics.audit.noted.keys() == {"jobs without an end, taken to run to the end of the trace"}
    free = fleet.Envelope.of(statistics).data["unallocated"].sel(hour=14).to_numpy() * 1e6
    assert free.tolist() == pytest.approx([0.2 * 400 * (16 - 10), 0.2 * 400 * (8 - 4)])
    # Without servers there is nothing that jobs could exceed.
    bare = read(tmp_path, table)
    assert bare.capacity.is_empty()
    assert "servers hold" not in str(bare.audit)


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"columns": {"start": ""}}, "also 'start'"),
        ({"columns": {"gpus": ""}}, "also 'gpus'"),
        ({"columns": {"priority": ""}, "words": {}}, "also 'priority'"),
        ({"columns": {"end": ""}}, "also 'end' or 'duration'"),
        ({"columns": {"duration": "Elapsed"}}, "not both"),
        ({"columns": {"utilization": "Util"}}, "Did you mean 'utilisation'"),
        ({"columns": {"gpu_hours": "x"}}, "given 'gpu_hours'"),
        ({"words": {**WORDS, "priorty": {}}}, "Did you mean 'priority'"),
        ({"words": {"priority": {"scav": "lo"}}}, "Did you mean 'low'"),
        ({"units": {"begin": 1.0}}, "given 'begin'"),
        ({"units": {"start": -1.0}}, "above 0"),
        ({"summary": "x"}, "submitted"),
        ({"server_columns": {"gpus": "n"}}, "none without servers"),
        ({"servers": "n.csv", "server_columns": {"gpus": "n"}}, "also 'accelerator', 'cores'"),
        (
            {
                "columns": {"cluster": "Site"},
                "servers": "n.csv",
                "server_columns": dict.fromkeys(("accelerator", "gpus", "cores"), "n"),
            },
            "also 'cluster'",
        ),
    ],
)
def test_a_layout_checks_itself(changes, text):
    with pytest.raises(InputError, match=text):
        layout(**changes)


def test_the_kind_of_a_layout_is_checked():
    with pytest.raises(InputError, match="Did you mean 'jobs'"):
        fleet.Layout("mine", "job", "jobs.csv", COLUMNS)
    with pytest.raises(InputError, match="also 'cluster', 'accelerator', 'workload', 'priority', 'gpu_hours'"):
        fleet.Layout("mine", "hourly", "pods.csv", {"hour": "h"})
    with pytest.raises(InputError, match="window"):
        fleet.Layout("mine", "hourly", "pods.csv", {"hour": "h"}, window="survivors")


def test_without_workload_nothing_is_conservatively_eligible(tmp_path):
    own = layout(columns={"workload": ""}, words={"priority": WORDS["priority"]})
    statistics = read(tmp_path, own=own)
    assert set(statistics.cells["workload"].cast(pl.String)) == {"other"}
    model = fleet.PowerModel(other_rating=400.0)
    means = [
        float(fleet.Envelope.of(statistics, mapping, model).relief().mean()) for mapping in ("conservative", "central")
    ]
    assert means[0] == 0 < means[1]


def test_scales_bring_hourly_columns_to_our_units(tmp_path):
    from pypsa_aidc.fleet.trace.schema import POD_HOURS

    columns = {column.name: column.name for column in POD_HOURS}
    own = fleet.Layout("minutes", "hourly", "pods.csv", columns, units={"gpu_hours": 1 / 60})
    words = {"cluster": "c", "accelerator": "A100", "workload": "training", "priority": "low"}
    table = pl.DataFrame({"hour": [0, 1], "gpu_hours": [60.0, 120.0]})
    made.write(table.with_columns(pl.lit(word).alias(key) for key, word in words.items()), tmp_path / "pods.csv")
    statistics = fleet.Statistics.of(fleet.Trace.read(tmp_path, own, utilisation="absent"))
    assert statistics.cells["gpu_hours"].to_list() == pytest.approx([1.0, 2.0])


PER_GPU = 400 * 0.8 * 0.3 / 1e6
"""MW above rest of an A100 whose utilisation is unknown."""


def test_work_that_outlasts_a_call_by_hand(tmp_path):
    # Of a call of 3 h announced 2 h before: job a from 0 to 10 h outlasts those that start from 2 to 7, job b from 6 to
    # 12 h those that start at 8 and 9; job c never is eligible.
    rows = {"start": [0, 6, 0], "end": [10, 12, 14], "gpus": [2, 4, 1], "priority": ["low", "low", "high"]}
    table = pl.DataFrame({**rows, "accelerator": ["A100"] * 3, "workload": ["training"] * 3})
    own = fleet.Layout("l", "jobs", "jobs.csv", {name: name for name in table.columns}, window="whole")
    made.write(table, tmp_path / "jobs.csv")
    trace = fleet.Trace.read(tmp_path, own)
    statistics = fleet.Statistics.of(trace, notices=[0, 2], calls=[1, 3, 100])
    statistics.save(tmp_path / "kept")
    envelope = fleet.Envelope.of(fleet.Statistics.read(tmp_path / "kept"))
    expected = [0, 0, *[2] * 6, 4, 4, 0, 0]  # Calls from hour 12 on would end after the list.
    lasting = envelope.lasting(2, 3)
    assert lasting.relief().to_numpy()[:12, 0] == pytest.approx(np.array(expected) * PER_GPU)
    assert np.isnan(lasting.relief()[12:]).all()
    assert lasting.workload[:12].to_numpy() == pytest.approx(envelope.workload[:12].to_numpy())
    assert envelope.lasting(0, 1).relief().to_numpy() == pytest.approx(envelope.relief().to_numpy())
    terms = fleet.Contract.of(envelope, 3, 0.5, notice=2, response=0.5)
    assert terms.power == pytest.approx(2 * PER_GPU)
    raw = fleet.Surface.of(envelope, (3,), (0.5,)).at(3, 0.5)
    assert terms.basis["K of all windows and all work"] == f"{raw:.4g} MW"
    shown = terms.to_frame().set_index("term")["value"]
    assert (shown["notice"], shown["response time"]) == (2, 0.5)
    # Of 12 windows, 6 hold at most 5 GPUs: 1.2 times 176 W of each, less 96 W of the 4 that are eligible.
    assert terms.floor == pytest.approx((1.2 * 5 * 176 - 4 * 96) / 1e6)
    with pytest.raises(InputError, match="response.*at most the notice"):
        fleet.Contract.of(envelope, 3, 0.5, notice=0, response=1)
    with pytest.raises(InputError, match=r"notice: given 5.*\[0.0, 2.0\] h"):
        envelope.lasting(5, 3)
    hourly = fleet.Trace.read(
        made.alibaba(tmp_path / "hourly", {(0, 0): made.pods({})}), "alibaba-2026", utilisation="percent"
    )
    with pytest.raises(InputError, match="hourly tables do not say when work began"):
        fleet.Statistics.of(hourly, notices=[1])


SACCT = """\
JobID                      Start                 End        QOS                      AllocTRES
------------ ------------------- ------------------- ---------- ------------------------------
101          2026-01-05T00:00:00 2026-01-05T10:00:00    preempt          cpu=8,gres/gpu:a100=4
1234567.bat+ 2026-01-05T00:00:00 2026-01-05T10:00:00                     cpu=8,gres/gpu:a100=4
1234567      2026-01-05T02:00:00 2026-01-05T10:00:00     normal         cpu=16,gres/gpu:a100=8
"""


def test_columns_of_fixed_width_are_read_and_cut_values_refused_by_name(tmp_path):
    (tmp_path / "sacct.txt").write_text(SACCT, encoding="utf-8")
    statistics = fleet.Statistics.of(fleet.Trace.read(tmp_path, zone="UTC", window="whole"))
    assert gpu_hours(statistics) == pytest.approx({hour: 4.0 + 8.0 * (hour >= 2) for hour in range(10)})
    assert statistics.audit.skipped == {"steps of jobs that are counted as a whole": 1}
    cut = SACCT.replace("101         ", "12345678901+").replace(
        "         cpu=16,gres/gpu:a100=8", " billing=16,cpu=16,energy=1234+"
    )
    (tmp_path / "sacct.txt").write_text(SACCT + "101" * 10, encoding="utf-8")
    with pytest.raises(InputError, match="as wide as the dashes"):
        fleet.Trace.read(tmp_path, zone="UTC")
    (tmp_path / "sacct.txt").write_text(cut, encoding="utf-8")
    with pytest.raises(InputError, match=r"(?s)'JobID': given '12345678901\+, cut off.*'AllocTRES'.*--parsable2"):
        fleet.Statistics.of(fleet.Trace.read(tmp_path, zone="UTC", window="whole"))
