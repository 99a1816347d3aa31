from __future__ import annotations

import os
import re
import warnings

import numpy as np
import polars as pl
import pytest

from pypsa_aidc import fleet
from pypsa_aidc.errors import InputError, UnitWarning

from . import made

pytestmark = pytest.mark.smoke


def read(folder, **options):
    return fleet.Statistics.of(fleet.Trace.read(folder, utilisation="percent"), **options)


def hour_of(statistics, **keys):
    return statistics.cells.filter(*(pl.col(name).cast(pl.String) == value for name, value in keys.items()))


@pytest.mark.parametrize("suffix", ["parquet", "csv"])
def test_one_pod_becomes_its_sufficient_statistics(tmp_path, suffix):
    made.alibaba(tmp_path, {(0, 0): made.pods({})}, suffix)
    row = read(tmp_path).cells.row(0, named=True)
    # 2 GPU-hours at 40 %: S_b = 2·max(0.4 − b, 0), Sec. 2.2 of [2].
    expected = {"gpu_hours": 2.0, "gpu_hours_null": 0.0, "s0": 0.8, "s25": 0.3, "s50": 0.0, "s75": 0.0}
    assert {name: pytest.approx(row[name]) for name in expected} == expected
    assert (row["hour"], row["workload"], row["priority"], row["state"]) == (0, "training", "low", "active")
    assert (row["cpu_requested"], row["cpu_used"]) == (16.0, 8.0)


def test_hours_count_from_the_start_of_the_trace_and_a_missing_one_is_a_gap(tmp_path):
    made.alibaba(tmp_path, {(0, 22): made.pods({}), (1, 0): made.pods({})})
    with pytest.warns(fleet.CoverageWarning, match="2 of 3 h, longest hole 1 h"):
        statistics = read(tmp_path)
    assert statistics.hours.tolist() == [22, 23, 24]
    assert statistics.valid.tolist() == [True, False, True]


def test_unknown_utilisation_is_kept_apart(tmp_path):
    made.alibaba(
        tmp_path, {(0, 0): made.pods({}, {"avg_gpu_sm_util": None, "used_gpu_hours": 1.0, "gpu_request": 1.0})}
    )
    row = read(tmp_path).cells.row(0, named=True)
    assert (row["gpu_hours"], row["gpu_hours_null"], row["s0"]) == (3.0, 1.0, pytest.approx(0.8))


def test_states_and_workloads_are_translated(tmp_path):
    changes = [
        {"state_public": "Standby", "priority_class": "HP", "job_type_public": "dev"},
        {"state_public": "Running", "priority_class": "Other", "job_type_public": "unknown"},
    ]
    made.alibaba(tmp_path, {(0, 0): made.pods(*changes)})
    cells = read(tmp_path).cells.sort("priority")
    assert cells.select("workload", "priority", "state").rows() == [
        ("other", "high", "standby"),
        ("other", "other", "active"),
    ]


def test_rejected_rows_are_counted_by_reason(tmp_path):
    changes = [
        {},
        {"used_gpu_hours": -1.0},
        {"used_gpu_hours": float("nan")},
        {"cluster_id": None},
        {"gpu_spec_public": ""},
        {"job_type_public": "poetry"},
        {"priority_class": None},
        {"state_public": "Dreaming"},
        {"avg_gpu_sm_util": 137.0},
        {"avg_gpu_sm_util": -3.0},
        {"cpu_request_cores": -1.0},
        {"gpu_request": 0.0, "used_gpu_hours": 0.0},
        {"gpu_request": None, "used_gpu_hours": None},
    ]
    made.alibaba(tmp_path, {(3, 7): made.pods(*changes)})
    audit = read(tmp_path, max_rejected=1.0).audit
    assert audit.rejected == {
        "CPU is negative or not a number": 1,
        "gpu_hours is not a number": 1,
        "negative gpu_hours": 1,
        "no accelerator": 1,
        "no cluster": 1,
        "unknown priority": 1,
        "unknown state": 1,
        "unknown workload": 1,
        "utilisation out of range": 2,
    }
    # Thirteen pods and one server.
    assert (audit.rows, audit.skipped) == (14, {"rows that neither request nor use an accelerator": 2})
    assert audit.rejected_share == 10 / 12
    assert audit.examples["no cluster"] == "day=3, column 'cluster_id'"
    workload = audit.examples["unknown workload"]
    assert workload.startswith("day=3, column 'job_type_public', e.g. 'poetry'; known are training, online_inference")
    assert audit.examples["utilisation out of range"] == "day=3, column 'avg_gpu_sm_util', e.g. '-3.0'"
    assert set(audit.to_frame()["reason"]) == {*audit.rejected, *audit.skipped}


def test_too_many_rejected_rows_are_refused_with_every_reason(tmp_path):
    made.alibaba(tmp_path, {(0, 0): made.pods({}, {"used_gpu_hours": -1.0}, {"cluster_id": None})})
    with pytest.raises(InputError, match="negative gpu_hours") as error:
        read(tmp_path)
    assert len(error.value.faults) == 2
    assert "day=0" in str(error.value)


# --------------------------------------------------------------------------------- row 23: scales
def test_scale_must_be_declared_and_the_largest_value_is_named(tmp_path):
    made.alibaba(tmp_path, {(0, 0): made.pods({"avg_gpu_sm_util": 93.0})})
    with pytest.raises(InputError, match=re.escape("93.0")):
        fleet.Trace.read(tmp_path)


def test_137_percent_is_counted_and_clipped_only_by_option(tmp_path):
    rows = [{"server_id": f"s{i}"} for i in range(200)]
    made.alibaba(tmp_path, {(0, 0): made.pods(*rows, {"avg_gpu_sm_util": 137.0})}, servers=False)
    statistics = read(tmp_path)
    assert statistics.audit.rejected == {"utilisation out of range": 1}
    clipped = fleet.Statistics.of(fleet.Trace.read(tmp_path, utilisation="percent", out_of_range="clip"))
    assert clipped.audit.rejected == {}
    assert clipped.audit.noted == {"utilisations clipped to their range": 1}
    assert clipped.cells["s75"].sum() == pytest.approx(2 * 0.25)


def test_a_partition_in_the_other_scale_is_named(tmp_path):
    percent, fraction = made.pods(*[{}] * 30), made.pods(*[{"avg_gpu_sm_util": 0.4}] * 30)
    made.alibaba(tmp_path, {(0, 23): percent, (1, 0): fraction}, servers=False)
    with pytest.warns(UnitWarning, match="day=1"):
        fleet.Statistics.of(fleet.Trace.read(tmp_path, utilisation="percent"), count_servers=False)
    with pytest.raises(InputError, match="utilisation out of range"):
        fleet.Statistics.of(fleet.Trace.read(tmp_path, utilisation="fraction"), count_servers=False)


# --------------------------------------------------------------------------------- row 24: eras
def test_a_state_that_appears_mid_trace_gives_an_era_warning(tmp_path):
    hours = {(day, hour): made.pods({}) for day in range(11) for hour in range(24)}
    hours[(11, 0)] = made.pods({"state_public": "Standby"})
    made.alibaba(tmp_path, hours, servers=False)
    with pytest.warns(fleet.EraWarning, match=r"state standby first appears on day 11"):
        statistics = read(tmp_path)
    assert statistics.eras() == {"state standby": 264}


# --------------------------------------------------------------------------------- row 25: more used than there
def test_more_used_than_requested_is_counted_and_clipped_only_by_option(tmp_path):
    made.alibaba(tmp_path, {(0, 0): made.pods({"used_gpu_hours": 3.0})})
    kept = read(tmp_path)
    assert kept.audit.noted == {"rows with more GPU-hours than requested": 1}
    assert kept.cells["gpu_hours"].sum() == 3.0
    clipped = fleet.Statistics.of(fleet.Trace.read(tmp_path, utilisation="percent", overuse="clip"))
    assert clipped.cells["gpu_hours"].sum() == 2.0


def test_more_used_than_the_server_holds_is_counted_by_server_and_by_cluster(tmp_path):
    made.alibaba(tmp_path, {(0, 0): made.pods(*[{"gpu_request": 5.0, "used_gpu_hours": 5.0}] * 2)})
    noted = read(tmp_path).audit.noted
    assert noted == {
        "server hours with more GPU-hours than accelerators": 1,
        "cluster hours with more GPU-hours than the servers hold": 1,
    }
    envelope = fleet.Envelope.of(read(tmp_path))
    assert envelope.data["unallocated"].item() == 0.0


# --------------------------------------------------------------------------------- row 22: zeros, spikes, long gaps
def test_a_long_gap_stays_a_gap_and_a_spike_stays_a_spike(tmp_path):
    many = {"used_gpu_hours": 20.0, "gpu_request": 20.0}
    hours = {(0, h): made.pods(many if h == 3 else {}) for h in range(6)}
    hours |= {(3, h): made.pods({}) for h in range(6)}
    made.alibaba(tmp_path, hours, servers=False)
    with pytest.warns(fleet.CoverageWarning, match="12 of 78 h, longest hole 66 h"):
        envelope = fleet.Envelope.of(read(tmp_path))
    assert envelope.valid.sum() == 12
    assert envelope.data.sizes["hour"] == 78
    K = fleet.Surface.of(envelope, (1, 4, 24), (0.5, 1.0))
    assert K.windows == {1: 12, 4: 6, 24: 0}
    # The spike cannot lift what four consecutive hours hold.
    assert len(set(K.K.sel(duration=4).to_numpy().tolist())) == 1


# --------------------------------------------------------------------------------- row 29: empty inputs
def test_an_empty_folder_is_refused(tmp_path):
    with pytest.raises(InputError, match="asi_opensource_pod_hourly"):
        fleet.Trace.read(tmp_path, utilisation="percent")
    with pytest.raises(InputError, match="existing folder"):
        fleet.Trace.read(tmp_path / "nowhere", utilisation="percent")


def test_a_table_without_rows_is_refused(tmp_path):
    made.alibaba(tmp_path, {(0, 0): made.pods({}).clear()})
    with pytest.raises(InputError, match="Nothing usable"):
        read(tmp_path)


def test_one_hour_gives_zero_day_long_windows(tmp_path):
    made.alibaba(tmp_path, {(0, 0): made.pods({})})
    K = fleet.Surface.of(fleet.Envelope.of(read(tmp_path)))
    assert K.windows == {1: 1, 2: 0, 4: 0, 8: 0, 24: 0}
    assert "0 windows" in repr(K)


# --------------------------------------------------------------------------------- partitions
def test_a_partition_twice_is_refused(tmp_path):
    made.alibaba(tmp_path, {(1, 0): made.pods({})}, servers=False)
    made.write(made.pods({}), tmp_path / "asi_opensource_pod_hourly" / "day=01" / "hour=0" / "part-000.parquet")
    with pytest.raises(InputError, match="one folder for each hour"):
        fleet.Trace.read(tmp_path, utilisation="percent")


def test_the_same_file_in_two_formats_or_two_copies_is_refused(tmp_path):
    made.alibaba(tmp_path, {(1, 0): made.pods({})}, servers=False)
    made.alibaba(tmp_path, {(1, 0): made.pods({})}, "csv", servers=False)
    with pytest.raises(InputError, match="one of the two"):
        fleet.Trace.read(tmp_path, utilisation="percent")
    generic = tmp_path / "generic"
    for name in ("pods-a.csv", "pods-b.csv"):
        made.write(generic_rows(), generic / name)
    with pytest.raises(InputError, match="already in"):
        fleet.Trace.read(generic, "generic", utilisation="fraction")


@pytest.mark.parametrize("place", ["day=x/hour=01", "day=1/hour=24", "day=1", "day=99999999/hour=0"])
def test_unreadable_partition_names_are_refused(tmp_path, place):
    made.write(made.pods({}), tmp_path / "asi_opensource_pod_hourly" / place / "part-000.parquet")
    with pytest.raises(InputError):
        fleet.Trace.read(tmp_path, utilisation="percent")


def test_missing_columns_of_several_files_are_reported_together(tmp_path):
    made.alibaba(tmp_path, {(0, 0): made.pods({}).drop("cluster_id"), (0, 1): made.pods({}).drop("used_gpu_hours")})
    with pytest.raises(InputError) as error:
        read(tmp_path)
    assert "'cluster_id'" in str(error.value)
    assert "'used_gpu_hours'" in str(error.value)


def test_a_broken_file_is_named(tmp_path):
    made.alibaba(tmp_path, {(0, 0): made.pods({})})
    broken = tmp_path / "asi_opensource_pod_hourly" / "day=0" / "hour=01" / "part-000.parquet"
    broken.parent.mkdir()
    broken.write_bytes(b"PAR1 but not for long")
    with pytest.raises(InputError, match="hour=01"):
        read(tmp_path)


def test_numbers_of_another_type_are_refused_by_column(tmp_path):
    made.alibaba(tmp_path, {(0, 0): made.pods({}).with_columns(used_gpu_hours=pl.lit(True))})
    with pytest.raises(InputError, match="used_gpu_hours"):
        read(tmp_path)


# --------------------------------------------------------------------------------- resuming
def test_a_second_run_takes_up_what_is_complete_and_redoes_the_rest(tmp_path):
    hours = {(day, hour): made.pods({"used_gpu_hours": 1 + 0.1 * day}) for day in range(3) for hour in range(24)}
    trace_folder, keep = made.alibaba(tmp_path / "trace", hours), tmp_path / "kept"
    first = read(trace_folder, keep=keep)
    results = sorted(keep.glob("pods-*.parquet"))
    assert len(results) == 3
    written = {path: path.stat().st_mtime_ns for path in results}
    # A half-written result, a result without record, and a leftover of an interrupted write.
    half, lost, _ = results
    half.write_bytes(half.read_bytes()[:100])
    lost.with_suffix(".json").unlink()
    (keep / "pods-interrupted.tmp").write_bytes(b"half")
    again = read(trace_folder, keep=keep)
    assert again.cells.equals(first.cells)
    assert again.capacity.equals(first.capacity)
    redone = [path.stat().st_mtime_ns != before for path, before in written.items()]
    assert redone == [True, True, False]


def test_results_of_other_files_or_options_are_not_taken_up(tmp_path):
    folder, keep = made.alibaba(tmp_path / "trace", {(0, 0): made.pods({"used_gpu_hours": 3.0})}), tmp_path / "kept"
    assert read(folder, keep=keep).cells["gpu_hours"].sum() == 3.0
    clipped = fleet.Statistics.of(fleet.Trace.read(folder, utilisation="percent", overuse="clip"), keep=keep)
    assert clipped.cells["gpu_hours"].sum() == 2.0
    path = folder / "asi_opensource_pod_hourly" / "day=0" / "hour=00" / "part-000.parquet"
    made.pods({}, {}).write_parquet(path)
    os.utime(path, ns=(1, 1))
    assert read(folder, keep=keep).cells["gpu_hours"].sum() == 4.0


def test_statistics_round_trip(tmp_path, synthetic):
    synthetic.statistics.save(tmp_path)
    again = fleet.Statistics.read(tmp_path)
    assert again.cells.equals(synthetic.statistics.cells)
    assert again.audit == synthetic.statistics.audit
    assert again.synthetic
    with pytest.raises(InputError, match="nowhere"):
        fleet.Statistics.read(tmp_path / "nowhere")


# --------------------------------------------------------------------------------- other layouts
def generic_rows() -> pl.DataFrame:
    return pl.DataFrame(
        {
            "hour": [0, 0, 1, 1],
            "cluster": ["a", "b", "a", "b"],
            "accelerator": ["H20", "H20", "H20", "H20"],
            "workload": ["training", "other", "training", "other"],
            "priority": ["low", "high", "low", "high"],
            "gpu_hours": [4.0, 2.0, 5.0, 0.0],
            "utilisation": [0.5, None, 0.25, None],
        }
    )


def test_a_generic_table_needs_only_its_required_columns(tmp_path):
    made.write(generic_rows(), tmp_path / "pods.csv")
    statistics = fleet.Statistics.of(fleet.Trace.read(tmp_path, "generic", utilisation="fraction"))
    assert statistics.cells.height == 4
    assert statistics.capacity.is_empty()
    envelope = fleet.Envelope.of(statistics)
    # 4 GPUs of 400 W, idle 0.2; training at 0.5 draws 0.75 of the span: 4·400·0.8·0.75 W.
    assert envelope.relief("a").to_numpy().ravel()[0] == pytest.approx(4 * 400 * 0.8 * 0.75 / 1e6)


def test_a_generic_hour_must_be_whole(tmp_path):
    made.write(generic_rows().with_columns(hour=pl.Series([0.5, 0.0, 1.0, 1.0])), tmp_path / "pods.csv")
    with pytest.raises(InputError, match="hour is not a whole number"):
        fleet.Statistics.of(fleet.Trace.read(tmp_path, "generic", utilisation="fraction"))


def spot(folder):
    jobs = pl.DataFrame(
        {
            "job_name": [1, 2, 3],
            "organization": [1, 1, 2],
            "gpu_model": ["A10", "A10", "H800"],
            "cpu_request": [20, 8, 4],
            "gpu_request": [1, 1, 2],
            "worker_num": [1, 2, 1],
            "submit_time": [0, 5400, 3600],
            "duration": [7200, 1800, 3600],
            "job_type": ["HP", "Spot", "Spot"],
        }
    )
    nodes = pl.DataFrame(
        {"gpu_model": ["A10", "H800"], "gpu_capacity_num": [4, 8], "cpu_num": [128, 192], "node_name": [0, 1]}
    )
    made.write(jobs, folder / "job_info_df.csv")
    made.write(nodes, folder / "node_info_df.csv")
    return folder


def test_spot_jobs_become_exact_hourly_gpu_hours(tmp_path):
    statistics = fleet.Statistics.of(fleet.Trace.read(spot(tmp_path), "spot-2026"))
    table = statistics.cells.select(pl.col("accelerator").cast(pl.String), "priority", "hour", "gpu_hours").sort(
        "accelerator", "priority", "hour"
    )
    assert table.rows() == [
        ("A10", "high", 0, 1.0),
        ("A10", "high", 1, 1.0),
        ("A10", "low", 1, 1.0),  # two workers for the second half of hour 1
        ("H800", "low", 1, 2.0),
    ]
    assert statistics.capacity.select("gpus", "cores").sum().row(0) == (24.0, 640.0)


def test_overlapping_lists_of_a_release_are_refused(tmp_path):
    spot(tmp_path)
    made.write(pl.read_csv(tmp_path / "job_info_df.csv").head(2), tmp_path / "job_info_small.csv")
    with pytest.raises(InputError, match="folder of its own"):
        fleet.Trace.read(tmp_path, "spot-2026")


def test_folders_above_the_trace_are_not_read_as_partitions(tmp_path):
    folder = made.alibaba(tmp_path / "day=monday", {(0, 0): made.pods({})})
    assert read(folder).hours.tolist() == [0]


def test_a_trace_of_spans_takes_no_scale(tmp_path):
    with pytest.raises(InputError, match="has none"):
        fleet.Trace.read(spot(tmp_path), "spot-2026", utilisation="percent")


def test_spans_without_sense_are_rejected_by_reason(tmp_path):
    spot(tmp_path)
    table = pl.read_csv(tmp_path / "job_info_df.csv")
    bad = table.with_columns(
        duration=pl.Series([-3600, 1800, 3600]),
        job_type=pl.Series(["HP", "Cold", "Spot"]),
        submit_time=pl.Series([7200, 5400, 3600]),
    )
    made.write(bad, tmp_path / "job_info_df.csv")
    with pytest.raises(InputError) as error:
        fleet.Statistics.of(fleet.Trace.read(tmp_path, "spot-2026"))
    assert "ends before it starts" in str(error.value)
    assert "unknown workload" in str(error.value)


def test_openb_shows_only_the_hours_it_covers(shared_data):
    statistics = fleet.Statistics.of(fleet.Trace.read(shared_data / "gpu_traces", "openb-2023"))
    # Deletion times run from 9,964,972 s to 12,902,960 s: complete hours 2769 … 3583.
    assert (statistics.hours[0], statistics.hours[-1]) == (2769, 3583)
    # 897 pending pods never ran, 1,088 hold no GPU; 36 are both (crosstab of the file).
    assert statistics.audit.rows == 8152
    assert statistics.audit.skipped == {"jobs that never ran": 861, "jobs without accelerators": 1088}
    assert list(statistics.audit.noted.values()) == [2769]
    assert "2,769 hours before the first recorded end" in str(statistics.audit)
    assert "8,152 rows in 1 partition, no utilisation" in str(statistics.audit)
    assert len(statistics.audit.to_frame()) == 3
    by_hand = pl.read_csv(shared_data / "gpu_traces" / "openb_2023_pods.csv").filter(
        pl.col("scheduled_time").is_not_null() & (pl.col("num_gpu") > 0)
    )
    start, end = (by_hand[name].to_numpy() / 3600 for name in ("scheduled_time", "deletion_time"))
    held = (by_hand["num_gpu"] * by_hand["gpu_milli"] / 1000).to_numpy()
    inside = np.clip(np.minimum(end, 3584) - np.maximum(start, 2769), 0, None)
    assert statistics.cells["gpu_hours"].sum() == pytest.approx(float(held @ inside), rel=1e-12)


def test_unknown_layouts_and_options_are_refused(tmp_path):
    with pytest.raises(InputError, match="alibaba-2026"):
        fleet.Trace.read(tmp_path, "philly")
    made.alibaba(tmp_path, {(0, 0): made.pods({})})
    with pytest.raises(InputError, match="out_of_range"):
        fleet.Trace.read(tmp_path, utilisation="percent", out_of_range="guess")


def test_an_ordinary_trace_gives_no_warning(tmp_path):
    made.alibaba(tmp_path, {(0, hour): made.pods({}) for hour in range(3)})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read(tmp_path)
