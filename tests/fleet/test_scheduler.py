from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pypsa_aidc import fleet
from pypsa_aidc.errors import InputError
from pypsa_aidc.fleet.trace.jobs import occupancy
from pypsa_aidc.fleet.trace.schema import SPAN_TYPES

from . import made

TIMES = st.lists(st.tuples(st.floats(-5, 30), st.floats(0, 20), st.floats(0, 9)), min_size=1, max_size=8)


@given(TIMES)
def test_occupancy_is_the_integral_of_the_rectangles(rectangles):
    start, length, height = (np.array(column) for column in zip(*rectangles, strict=True))
    got = occupancy(start, start + length, height, np.zeros(start.size, dtype=np.int64), 1, 0, 24)[0]
    for hour in range(24):
        overlap = np.clip(np.minimum(start + length, hour + 1) - np.maximum(start, hour), 0, None)
        assert got[hour] == pytest.approx(float(overlap @ height), abs=1e-9)


def spans(*rows):
    names = ("start", "end", "gpus", "delay", "workload", "priority")
    table = pl.DataFrame([dict(zip(names, row, strict=True)) for row in rows])
    table = table.with_columns(cluster=pl.lit("c"), accelerator=pl.lit("H20"), cores=pl.lit(0.0))
    return table.select(pl.col(name).cast(kind) for name, kind in SPAN_TYPES.items())


def test_a_delayed_job_is_compared_with_itself_on_arrival():
    one = spans((5.0, 8.0, 1.0, 2.0, "training", "high"))
    result = fleet.displacement(one, np.array([3.0]), (0, 10))
    assert result.data["actual"].to_numpy().tolist() == [0, 0, 0, 0, 0, 3, 3, 3, 0, 0]
    assert result.data["difference"].to_numpy().tolist() == [0, 0, 0, -3, -3, 0, 3, 3, 0, 0]
    # What was moved comes back: the integral ends at 0, and its depth is power times delay.
    assert result.data["energy"].to_numpy().tolist() == [0, 0, 0, -3, -6, -6, -3, 0, 0, 0]
    assert result.figures()["daily_swing"] == 6.0


def test_jobs_that_started_on_arrival_displace_nothing():
    jobs = spans((1.0, 4.0, 1.0, 0.0, "training", "high"), (2.5, 6.0, 1.0, None, "other", "low"))
    assert float(np.abs(fleet.displacement(jobs, np.array([1.0, 2.0]), (0, 10)).data["difference"]).max()) == 0.0


def test_backlog_counts_new_deferrable_high_priority_arrivals_that_had_waited():
    jobs = spans(
        (2.2, 9.0, 1.0, 1.0, "training", "high"),
        (2.9, 9.0, 1.0, 4.5, "offline_inference", "high"),
        (2.0, 9.0, 1.0, 9.0, "training", "low"),
        (2.0, 9.0, 1.0, 9.0, "online_inference", "high"),
        (3.0, 9.0, 1.0, 0.5, "training", "high"),
        (4.0, 9.0, 1.0, None, "training", "high"),
    )
    result = fleet.backlog(jobs, np.array([1.0, 2.0, 4.0, 8.0, 16.0, 32.0]), (0, 6))
    assert result.data["arrivals"].sel(horizon=1).to_numpy().tolist() == [0, 0, 3, 0, 0, 0]
    assert result.data["arrivals"].sel(horizon=4).to_numpy().tolist() == [0, 0, 2, 0, 0, 0]
    figures = result.figures()
    assert figures.loc[1, "mean"] == 0.5
    assert (figures[["p10", "K"]] == 0).all().all()
    shift = result.data["shift"].to_numpy()
    assert shift[5] == 1 + 2 + 16 + 32
    assert figures.loc[1, "share"] == pytest.approx(0.5 / shift.mean())


def test_power_of_a_span_is_that_of_its_workload_and_accelerator(synthetic):
    table = fleet.power_per_gpu(synthetic.statistics).set_index(["workload", "accelerator"])["power"]
    one = synthetic.execution.spans.head(50)
    power = fleet.span_power(one, synthetic.statistics)
    keys = zip(one["workload"].cast(pl.String), one["accelerator"].cast(pl.String), one["gpus"], strict=True)
    expected = [table[workload, board] * gpus for workload, board, gpus in keys]
    np.testing.assert_allclose(power, expected, rtol=1e-12)
    # An allocated GPU draws between idle and rating (Eq. 1 of [2]).
    for (_, board), value in table.items():
        assert 0.2 * fleet.RATINGS[board] / 1e6 <= value <= fleet.RATINGS[board] / 1e6


def test_delays_are_weighted_with_gpu_hours():
    jobs = spans((0.0, 3.0, 1.0, 2.0, "training", "high"), (0.0, 1.0, 1.0, 1.0, "training", "high"))
    table = fleet.delay_distribution(jobs)
    assert table["delay"].tolist() == [1.0, 2.0]
    assert table["share"].tolist() == [0.25, 1.0]


def test_hours_without_spans_are_refused():
    with pytest.raises(InputError, match="spans in these hours"):
        fleet.displacement(spans((5.0, 8.0, 1.0, 2.0, "training", "high")), np.array([3.0]), (100, 110))
    with pytest.raises(InputError, match="one value for each"):
        fleet.displacement(spans((5.0, 8.0, 1.0, 2.0, "training", "high")), np.array([3.0, 1.0]), (0, 10))


def trace_with_summary(folder):
    first = made.pods({"pod_id": "a"}, {"pod_id": "b", "priority_class": "HP", "used_gpu_hours": 1.0})
    second = made.pods({"pod_id": "a", "used_gpu_hours": 1.0}, {"pod_id": "c"})
    made.alibaba(folder, {(0, 23): first, (1, 1): second}, servers=False)
    summary = pl.DataFrame(
        {"pod_id": ["a", "b", "b", "d", "c"], "schedule_delay_sec": [7200, 3600, 1800, 60, None]},
        schema={"pod_id": pl.String, "schedule_delay_sec": pl.Int64},
    )
    made.write(summary, folder / "asi_opensource_job_execution_summary" / "part-000.parquet")
    return fleet.Trace.read(folder, utilisation="percent")


def test_spans_come_from_the_first_and_last_hour_of_a_pod(tmp_path):
    result = fleet.Execution.of(trace_with_summary(tmp_path / "trace"), keep=tmp_path / "kept")
    rows = result.spans.select("start", "end", "gpus", "delay").sort("start", "end").rows()
    # b: the shorter of two conflicting delays; c: listed without a delay; a: 3 GPU-hours over 3 hours.
    assert rows == [(23.0, 24.0, 1.0, 0.5), (23.0, 26.0, 1.0, 2.0), (25.0, 26.0, 2.0, None)]
    assert (result.conflicts, result.matched.height) == (1, 2)
    coverage = result.coverage()
    assert coverage.loc[0, "share"] == 1.0
    assert coverage.loc[1, "share"] == 0.0
    again = fleet.Execution.of(fleet.Trace.read(tmp_path / "trace", utilisation="percent"), keep=tmp_path / "kept")
    assert again.spans.equals(result.spans)


def test_spans_need_a_summary(tmp_path):
    made.alibaba(tmp_path, {(0, 0): made.pods({})})
    with pytest.raises(InputError, match="delay of each pod"):
        fleet.Execution.of(fleet.Trace.read(tmp_path, utilisation="percent"))
