"""Random populations of jobs, written as tools write them: hourly megawatts are the truth, or the hour is missing."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from pypsa_aidc import fleet
from pypsa_aidc.errors import InputError
from pypsa_aidc.fleet.trace import telemetry

ORIGIN = pd.Timestamp("2026-03-27T00:00Z")  # Clocks change in Berlin two days later.
HOURS = 120
STEP = 30.0
"""Seconds of telemetry."""
ACTIVE = 176.0
"""W of an A100 at unknown utilisation."""


def population(rng: np.random.Generator) -> pd.DataFrame:
    """Jobs on the grid of telemetry, among them some that began long before the window."""
    count = int(rng.integers(30, 90))
    start = np.concatenate([rng.uniform(-60, HOURS, count), rng.uniform(-200, -60, 3)])
    length = np.concatenate([rng.exponential(8.0, count) + 0.05, rng.uniform(150, 300, 3)])
    slots = 3600 / STEP
    start, end = np.round(start * slots) / slots, np.round((start + length) * slots) / slots
    gpus, low = rng.integers(1, 9, start.size), rng.random(start.size) < 0.5
    return pd.DataFrame({"start": start, "end": np.maximum(end, start + 1 / slots), "gpus": gpus, "low": low})


def held(jobs: pd.DataFrame, hours: np.ndarray) -> np.ndarray:
    """GPU-hours in each hour, by overlap."""
    start, end = (jobs[name].to_numpy()[:, np.newaxis] for name in ("start", "end"))
    overlap = np.clip(np.minimum(end, hours + 1) - np.maximum(start, hours), 0, None)
    return (jobs["gpus"].to_numpy()[:, np.newaxis] * overlap).sum(axis=0)


def moments(hours: pd.Series) -> pd.Series:
    return ORIGIN + pd.to_timedelta((hours * 3600).round().astype(int), unit="s")


def seen(jobs: pd.DataFrame) -> pd.DataFrame:
    """Jobs that a window of the accounting shows: those that touch it."""
    return jobs[(jobs["end"] > 0) & (jobs["start"] < HOURS)].reset_index(drop=True)


def slurm(jobs: pd.DataFrame, folder: Path, rng: np.random.Generator) -> dict:
    """`sacct -S -E`: steps, rows twice, jobs still running, two monthly files."""
    rows = []
    for number, job in seen(jobs).iterrows():
        start, end = (f"{at:%Y-%m-%dT%H:%M:%S%z}" for at in moments(job[["start", "end"]].astype(float)))
        end = "Unknown" if job["end"] > HOURS else end
        qos, tres = "scavenger" if job["low"] else "normal", f"cpu=8,gres/gpu={job['gpus']},gres/gpu:a100={job['gpus']}"
        rows.append(f"{number}|{start}|{end}|{qos}|{tres}")
        rows.append(f"{number}.batch|{start}|{end}||{tres}")
    rows += [rows[i] for i in rng.integers(0, len(rows), 10)]
    rng.shuffle(rows)
    for part, name in enumerate(("march.txt", "april.txt")):
        (folder / name).write_text("\n".join(["JobID|Start|End|QOS|AllocTRES", *rows[part::2]]) + "\n")
    return {"window": ("2026-03-27T00:00:00Z", str(ORIGIN + pd.Timedelta(hours=HOURS)))}


def slurm_of_no_window(jobs: pd.DataFrame, folder: Path, rng: np.random.Generator) -> dict:
    slurm(jobs, folder, rng)
    return {}


def kubernetes(jobs: pd.DataFrame, folder: Path, rng: np.random.Generator) -> dict:
    items = []
    for number, job in seen(jobs).iterrows():
        start, end = (f"{at:%Y-%m-%dT%H:%M:%SZ}" for at in moments(job[["start", "end"]].astype(float)))
        over = job["end"] <= HOURS
        container = {"resources": {"limits": {"nvidia.com/gpu": str(job["gpus"])}}}
        items.append(
            {
                "kind": "Pod",
                "metadata": {"name": f"p{number}", "namespace": "ml", "uid": f"u{number}"},
                "spec": {
                    "priorityClassName": "preemptible" if job["low"] else "high",
                    "containers": [container],
                    "nodeSelector": {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB"},
                },
                "status": {
                    "phase": "Succeeded" if over else "Running",
                    "startTime": start,
                    "containerStatuses": [{"state": {"terminated": {"finishedAt": end}} if over else {}}],
                },
            }
        )
    (folder / "pods.json").write_text(json.dumps({"items": items}))
    return {"window": ("2026-03-27T00:00:00Z", str(ORIGIN + pd.Timedelta(hours=HOURS)))}


def helios(jobs: pd.DataFrame, folder: Path, rng: np.random.Generator) -> dict:
    """Naive local times, no priorities, epoch nowhere, semicolons."""
    table = seen(jobs)
    local = {
        name: moments(table[name]).dt.tz_convert("Asia/Shanghai").dt.strftime("%Y-%m-%d %H:%M:%S")
        for name in ("start", "end")
    }
    frame = pd.DataFrame(
        {"job_id": table.index, "gpu_num": table["gpus"], "start_time": local["start"], "end_time": local["end"]}
    )
    frame.sample(frac=1, random_state=1).to_csv(folder / "cluster_log.csv", index=False, sep=";")
    window = ("2026-03-27T00:00:00Z", str(ORIGIN + pd.Timedelta(hours=HOURS)))
    return {"zone": "Asia/Shanghai", "constants": {"accelerator": "A100", "priority": "low"}, "window": window}


JOB_LISTS = {maker.__name__: maker for maker in (slurm, slurm_of_no_window, kubernetes, helios)}


def compared(name: str, seed: int, folder: Path) -> int:
    """Check one population as one tool writes it, and return how many hours were there."""
    rng = np.random.default_rng([seed, len(name)])
    jobs = population(rng)
    declared = JOB_LISTS[name](jobs, folder, rng)
    statistics = fleet.Statistics.of(fleet.Trace.read(folder, **declared))
    zero = (pd.Timestamp(statistics.audit.origin) - ORIGIN) / pd.Timedelta(hours=1)
    hours = statistics.hours + zero
    truth = np.where(statistics.valid, held(jobs, hours) * ACTIVE / 1e6, np.nan)
    envelope = fleet.Envelope.of(statistics)
    inside = (hours >= 0) & (hours < HOURS)
    assert inside.all(), (hours[0], hours[-1])
    np.testing.assert_allclose(envelope.workload.to_numpy(), truth, rtol=1e-9, atol=1e-12)
    if name != "helios":
        low = held(jobs[jobs["low"]], hours) * ACTIVE / 1e6
        relief = envelope.relief(boundary="attributed").sum("cluster").to_numpy()
        np.testing.assert_allclose(relief, low, rtol=1e-9, atol=1e-12)
    if "window" in declared:
        assert hours.tolist() == list(range(HOURS))
    else:
        dropped = sum(count for reason, count in statistics.audit.noted.items() if "dropped" in reason)
        assert dropped > 0
    return int(statistics.valid.sum())


@pytest.mark.parametrize("name", JOB_LISTS)
def test_job_lists_give_the_truth_or_name_the_missing_hours(tmp_path, name):
    for seed in range(6):
        folder = tmp_path / str(seed)
        folder.mkdir()
        assert compared(name, seed, folder) >= 0.5 * HOURS


def samples(seed: int, folder: Path) -> None:
    """Power of eight GPUs every 30 s, with a silence, doubled rows and labels that change from job to job."""
    rng = np.random.default_rng(seed)
    slots, gpus = 24 * 120, 8
    low = rng.random((gpus, slots // 60)).repeat(60, axis=1) < 0.5
    watts = np.round(rng.uniform(60, 400, (gpus, slots // 15)).repeat(15, axis=1), 1)
    at = ORIGIN + pd.to_timedelta(np.arange(slots) * STEP, unit="s")
    table = pd.DataFrame(
        {
            "timestamp": np.tile(at.strftime("%Y-%m-%dT%H:%M:%SZ"), gpus),
            "UUID": np.repeat([f"GPU-{g}" for g in range(gpus)], slots),
            "modelName": "NVIDIA A100-SXM4-80GB",
            "priority": np.where(low.ravel(), "preemptible", "high"),
            "DCGM_FI_DEV_POWER_USAGE": watts.ravel(),
        }
    )
    silent = (5 * 120, 5 * 120 + int(rng.integers(20, 300)))
    gone = (table["UUID"] == "GPU-3") & np.tile((np.arange(slots) >= silent[0]) & (np.arange(slots) < silent[1]), gpus)
    kept = table[~gone]
    pd.concat([kept, kept.sample(200, random_state=seed)]).sample(frac=1, random_state=seed).to_csv(
        folder / "dcgm.csv.gz", index=False
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", fleet.CoverageWarning)
        envelope = fleet.Envelope.from_power(folder)
    lost = np.bincount(np.arange(*silent) // 120, minlength=24)
    missing = set(np.flatnonzero(lost > 0.05 * 120).tolist())
    assert set(envelope.data["hour"].to_numpy()[~envelope.valid].tolist()) == missing
    per_hour = watts.reshape(gpus, 24, 120).mean(axis=2).sum(axis=0) / 1e6
    # An hour that lost a few samples is the mean of the others, and told.
    there = envelope.valid & (lost == 0)
    np.testing.assert_allclose(envelope.workload.to_numpy()[there], per_hour[there], rtol=1e-9)
    eligible = np.where(low, watts, 0.0).sum(axis=0).reshape(24, 120) / 1e6
    measured = envelope.data.sel(layer="eligible").isel(cluster=0)
    np.testing.assert_allclose(measured["power"].to_numpy()[there], eligible.mean(axis=1)[there], rtol=1e-9, atol=1e-15)
    np.testing.assert_allclose(measured["lowest"].to_numpy()[there], eligible.min(axis=1)[there], rtol=1e-9, atol=1e-15)
    active = np.where(low, np.maximum(watts - 80.0, 0), 0.0).sum(axis=0).reshape(24, 120) / 1e6
    np.testing.assert_allclose(measured["active"].to_numpy()[there], active.mean(axis=1)[there], rtol=1e-9, atol=1e-12)


def test_telemetry_gives_the_truth_and_names_the_hours_of_a_silent_sensor(tmp_path):
    for seed in range(3):
        folder = tmp_path / str(seed)
        folder.mkdir()
        samples(seed, folder)


def test_meters_in_kilowatts_and_what_must_be_said_of_them(tmp_path):
    at = pd.date_range("2026-03-01", periods=96, freq="15min")
    pd.DataFrame({"time": at, "rack": "r1", "power": np.tile([100.0, 100.0, 140.0, 60.0], 24)}).to_csv(
        tmp_path / "rack.csv", index=False
    )
    with pytest.raises(InputError, match="power without a unit"):
        fleet.Envelope.from_power(tmp_path, zone="UTC", constants={"layer": "eligible"})
    with pytest.raises(InputError, match="label of what is interruptible"):
        fleet.Envelope.from_power(tmp_path, zone="UTC", unit="kW")
    envelope = fleet.Envelope.from_power(tmp_path, zone="UTC", unit="kW", constants={"layer": "eligible"})
    assert envelope.relief().to_numpy().ravel() == pytest.approx(np.full(24, 0.1))
    lowest = envelope.at_lowest()
    assert fleet.Surface.of(lowest, (1, 4), (1.0,)).at(4, 1.0) == pytest.approx(0.06)
    # 80 kW in a quarter of an hour.
    assert float(envelope.data["ramp"].max()) == pytest.approx(0.08 / 15)


def test_one_column_a_sensor_as_grafana_writes_it(tmp_path):
    # 300 W and 100 W, then the second GPU alone; a cell may hold its unit.
    rows = [f"2026-03-01 00:{m:02d}:00,{'300 W' if m < 30 else ''},0.1 kW" for m in range(0, 60, 5)]
    (tmp_path / "panel.csv").write_text("\n".join(["Time,GPU 0,GPU 1", *rows, *rows]))
    with pytest.raises(InputError, match="a table with times and power"):
        fleet.Envelope.from_power(tmp_path, zone="UTC", constants={"layer": "eligible"})
    power = telemetry.read_power(tmp_path, unit="W", zone="UTC", constants={"layer": "eligible"})
    assert power.hours["power"].to_list() == pytest.approx([400e-6])
    assert power.observed.is_empty()  # Half an hour of a sensor is no hour.
    assert power.audit.noted[telemetry.COPIES] == 18
    long = [
        "Time,Metric,Value",
        *(f"2026-03-01 00:{m:02d}:00,GPU {g},{100 + g}" for m in range(0, 60, 5) for g in (0, 1)),
    ]
    (tmp_path / "panel.csv").write_text("\n".join(long))
    asked = {"unit": "W", "zone": "UTC", "constants": {"layer": "eligible"}}
    with pytest.raises(InputError, match="--column sensor=Metric"):
        telemetry.read_power(tmp_path, **asked)
    power = telemetry.read_power(tmp_path, columns={"sensor": "Metric"}, **asked)
    assert power.hours["power"].to_list() == pytest.approx([201e-6])


def test_records_of_nvidia_smi_and_answers_to_expressions(tmp_path):
    rows = [
        f"2026/03/01 00:{m:02d}:00.123, {g}, NVIDIA A100-SXM4-80GB, {100 + g}.00 W" for m in range(60) for g in (0, 1)
    ]
    (tmp_path / "smi.csv").write_text("\n".join(["timestamp, index, name, power.draw [W]", *rows]))
    envelope = fleet.Envelope.from_power(tmp_path, zone="UTC", constants={"layer": "eligible"})
    assert envelope.relief(boundary="attributed").to_numpy().ravel() == pytest.approx([201e-6])
    assert envelope.relief().to_numpy().ravel() == pytest.approx([41e-6])  # 80 W each at rest.
    series = {"metric": {"pod": "a", "priority": "low"}, "values": [[1772323200 + 60 * m, "70"] for m in range(60)]}
    (tmp_path / "smi.csv").unlink()
    (tmp_path / "sum.json").write_text(json.dumps({"data": {"resultType": "matrix", "result": [series]}}))
    with pytest.raises(InputError, match="one of the metrics"):
        telemetry.read_power(tmp_path)
    assert telemetry.read_power(tmp_path, unit="W").hours["power"].to_list() == pytest.approx([70e-6])


def test_measured_layers_take_the_place_of_modelled_ones(tmp_path):
    rows = [f"2026-03-01T{h:02d}:00:00Z,c,A100,training,{p},10,50" for h in range(24) for p in ("low", "high")]
    head = "hour,cluster,accelerator,workload,priority,gpu_hours,utilisation"
    (tmp_path / "pods.csv").write_text("\n".join([head, *rows]))
    modelled = fleet.Envelope.of(fleet.Statistics.of(fleet.Trace.read(tmp_path / "pods.csv", utilisation="percent")))
    at = pd.date_range("2026-03-01T06:00", periods=48, freq="15min", tz="UTC")
    pd.DataFrame({"time": at, "cluster": "c", "power_kw": 2.5}).to_csv(tmp_path / "meter.csv", index=False)
    measured = fleet.Envelope.from_power(tmp_path / "meter.csv", constants={"layer": "eligible"})
    both = modelled.with_measured(measured, ["eligible"])
    assert both.data["hour"].to_numpy().tolist() == list(range(6, 18))
    layers = both.layers().mean("hour").to_series()
    assert layers["eligible"] == pytest.approx(0.0025)
    assert layers["shift"] == pytest.approx(0.0032)
