"""Idle hours are there, with 0 MW; hours without a record are not, and are told."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest

from pypsa_aidc import fleet
from pypsa_aidc.errors import InputError, UnitWarning

from . import made
from .test_trace import spot

HOURS = 1440


def idle_half(folder, *, rows_of_zero: bool, servers: bool, requested: bool):
    """100 GPUs in every even hour of sixty days, none in the odd ones."""
    hours = np.arange(0, HOURS, 1 if rows_of_zero else 2)
    used = np.where(hours % 2 == 0, 100.0, 0.0)
    words = {"cluster": "c", "accelerator": "A100"}
    table = pl.DataFrame({"hour": hours, "gpu_hours": used}).with_columns(
        workload=pl.lit("training"), priority=pl.lit("low"), **{key: pl.lit(word) for key, word in words.items()}
    )
    made.write(table.with_columns(gpu_requested="gpu_hours") if requested else table, folder / "pods.csv")
    if servers:
        stock = pl.DataFrame({"hour": np.arange(HOURS), "gpus": 128.0, "cores": 64.0})
        made.write(stock.with_columns(**{k: pl.lit(w) for k, w in words.items()}), folder / "servers.csv")
    return fleet.Trace.read(folder, "generic", utilisation="absent")


@pytest.mark.parametrize("servers", [False, True])
@pytest.mark.parametrize("requested", [False, True])
def test_rows_of_zero_are_idle_hours(tmp_path, servers, requested):
    found = idle_half(tmp_path, rows_of_zero=True, servers=servers, requested=requested)
    statistics = fleet.Statistics.of(found)
    # The last hour, 1,439, is idle and counts.
    assert str(statistics.coverage) == "1,440 of 1,440 h"
    K = fleet.Surface.of(fleet.Envelope.of(statistics), (1, 4, 8), (0.95,))
    assert K.K.to_numpy().ravel().tolist() == [0.0, 0.0, 0.0]
    assert K.data.attrs["coverage"] == "1,440 of 1,440 h"
    statistics.save(tmp_path / "kept")
    assert fleet.Statistics.read(tmp_path / "kept").valid.all()


def test_hours_without_rows_are_missing_and_warned_of(tmp_path):
    found = idle_half(tmp_path, rows_of_zero=False, servers=True, requested=False)
    with pytest.warns(fleet.CoverageWarning, match="720 of 1,439 h, longest hole 1 h"):
        statistics = fleet.Statistics.of(found)
    assert "720 of 1,439 h, longest hole 1 h" in repr(fleet.Surface.of(fleet.Envelope.of(statistics), (1,), (0.95,)))


def test_partitions_of_idle_hours_are_kept(tmp_path):
    hours = {(day, 0): made.pods({"used_gpu_hours": 0.0, "gpu_request": 0.0} if day == 1 else {}) for day in range(2)}
    hours |= {(0, hour): made.pods({}) for hour in range(1, 24)}
    found = fleet.Trace.read(made.alibaba(tmp_path / "trace", hours), utilisation="percent")
    for _ in range(2):
        statistics = fleet.Statistics.of(found, keep=tmp_path / "kept")
        assert str(statistics.coverage) == "25 of 25 h"
    assert statistics.audit.skipped_rows == 1


def test_an_hour_of_rejected_rows_only_is_missing(tmp_path):
    hours = {(0, hour): made.pods({"used_gpu_hours": -1.0} if hour == 1 else {}) for hour in range(3)}
    with pytest.warns(fleet.CoverageWarning, match="2 of 3 h"):
        fleet.Statistics.of(
            fleet.Trace.read(made.alibaba(tmp_path, hours, servers=False), utilisation="percent"), max_rejected=1.0
        )


def test_a_job_list_is_idle_between_its_jobs(tmp_path):
    spot(tmp_path)
    # One job a day from 08:00 to 20:00, on a hundred days: nothing lasts a day.
    starts = 3600 * (24 * np.arange(100) + 8)
    jobs = pl.DataFrame({"submit_time": starts, "gpu_request": 10}).with_columns(
        duration=12 * 3600,
        worker_num=1,
        cpu_request=8,
        gpu_model=pl.lit("A10"),
        job_type=pl.lit("Spot"),
    )
    made.write(jobs, tmp_path / "job_info_df.csv")
    found = fleet.Trace.read(tmp_path, "spot-2026")
    statistics = fleet.Statistics.of(found)
    assert str(statistics.coverage) == "2,388 of 2,388 h"
    K = fleet.Surface.of(fleet.Envelope.of(statistics, "liberal"), (4,), (0.5, 0.95))
    assert K.K.to_numpy().ravel().tolist() == [0.0, 0.0]
    # The record was down from 20:30 of day 0 to 04:00 of day 2, across a job of day 1.
    gapped = fleet.Statistics.of(found, gaps=[(20.5, 52)])
    assert str(gapped.coverage) == "2,356 of 2,388 h, longest hole 32 h"
    assert np.isnan(fleet.Envelope.of(gapped).workload.sel(hour=33).item())
    with pytest.raises(InputError, match="gaps") as error:
        fleet.Statistics.of(found, gaps=[(5, 4), (0, float("nan"))])
    assert len(error.value.faults) >= 2
    with pytest.raises(InputError, match="within the hours of the trace"):
        fleet.Statistics.of(found, gaps=[(9000, 9010)])


def test_the_published_trace_misses_one_hour(synthetic, envelope):
    # Sec. 2.1 of [2].
    assert str(synthetic.statistics.coverage) == "4,439 of 4,440 h, longest hole 1 h"
    assert fleet.Surface.of(envelope).windows == {1: 4439, 2: 4437, 4: 4433, 8: 4425, 24: 4393}


def test_a_fleet_that_idles_has_no_share_and_no_band_but_no_failure(tmp_path):
    found = idle_half(tmp_path, rows_of_zero=True, servers=False, requested=False)
    envelope = fleet.Envelope.of(fleet.Statistics.of(found))
    sample = fleet.bootstrap(envelope, replicates=5)
    assert sample.band().sel(duration=4, reliability=0.95).to_numpy().tolist() == [0.0, 0.0]
    table = fleet.representations(envelope)
    assert table["K_4h"]["trace-derived, idle retained"] == 0.0
    assert np.isnan(fleet.counterfactuals(envelope, replicates=1).data.attrs["tail_share"])
    assert fleet.Backtest.of(envelope, train_weeks=4, test_weeks=2).summary.loc[4, "coverage"] == 1.0


def test_a_cluster_that_falls_silent_is_no_zero(tmp_path):
    # Two clusters of 3,200 W each; the record of one stops for three of ten hours.
    rows = [(hour, name) for hour in range(10) for name in ("a", "b") if not (name == "b" and 4 <= hour < 7)]
    frame = pd.DataFrame(rows, columns=["hour", "cluster"]).assign(layer="eligible", power=3200e-6)
    with pytest.warns(fleet.CoverageWarning, match="7 of 10 h"):
        envelope = fleet.Envelope.from_frame(frame, source="two meters")
    assert float(envelope.workload.mean()) == pytest.approx(6400e-6)
    assert fleet.Surface.of(envelope, (1,), (1.0,)).at(1, 1.0) == pytest.approx(6400e-6)
    # A job list of two dumps, of which one covers 30 h less.
    jobs = [(hour, hour + 1.0, name) for name, last in (("a", 100), ("b", 70)) for hour in range(last)]
    table = pl.DataFrame(jobs, ["start", "end", "cluster"], orient="row").with_columns(gpus=8)
    table = table.with_columns(priority=pl.lit("low"), accelerator=pl.lit("A100"), workload=pl.lit("training"))
    made.write(table, tmp_path / "jobs.csv")
    own = fleet.Layout("l", "jobs", "jobs.csv", {name: name for name in table.columns})
    with pytest.warns(fleet.CoverageWarning, match="cluster b, 29 h.*window="):
        fleet.Statistics.of(fleet.Trace.read(tmp_path, own))
    whole = fleet.Statistics.of(fleet.Trace.read(tmp_path, own, window=(0, 70)))
    assert whole.hours.size == 70


@pytest.mark.parametrize(("unit", "factor"), [("W", 1.0), ("kW", 1.0), ("MW", 1.0), ("W", 1e-3)])
def test_power_in_another_unit_is_told_by_what_gpus_can_draw(tmp_path, unit, factor):
    # A GPU of 300 W, given as it is or in kW, and declared in the unit.
    at = pd.date_range("2026-01-05", periods=241, freq="h")
    meter = pd.DataFrame({"time": at, "gpu": "0", "modelName": "NVIDIA A100-SXM4-80GB", "power": 300.0 * factor})
    meter.to_csv(tmp_path / "power.csv", index=False)
    declared = {"unit": unit, "zone": "UTC", "constants": {"layer": "eligible"}}
    if (unit, factor) == ("W", 1.0):
        fleet.Envelope.from_power(tmp_path / "power.csv", **declared)
        return
    with pytest.warns(UnitWarning, match="sensors of .*A100.* at rest it draws 80 W: is the unit W, kW or MW"):
        measured = fleet.Envelope.from_power(tmp_path / "power.csv", **declared)
    frame = (
        measured.data["power"]
        .to_dataframe()
        .reset_index()
        .assign(power=lambda table: 300e-6 * (table["layer"] == "eligible"))
    )
    modelled = fleet.Envelope.from_frame(frame, source="GPUs and ratings")
    modelled = fleet.Envelope(modelled.data.assign_attrs(origin=measured.origin))
    with pytest.warns(UnitWarning, match="0.0003 MW by GPUs and ratings"):
        modelled.with_measured(measured)
