from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest
import xarray as xr

from pypsa_aidc import fleet
from pypsa_aidc.errors import InputError
from pypsa_aidc.fleet.studies.scaling import UNITS, residuals, supported, unit_power
from pypsa_aidc.fleet.studies.synchrony import plateaus, synchrony_ratio, without_calendar
from pypsa_aidc.fleet.trace.schema import CAPACITY_TYPES


def test_units_sum_to_the_workload(synthetic, envelope):
    for by in UNITS.values():
        units = unit_power(synthetic.statistics, by)
        np.testing.assert_allclose(units.sum(axis=1, min_count=1), envelope.workload, rtol=1e-11)


def test_support_needs_hours_and_power():
    index = pd.RangeIndex(2000)
    power = pd.DataFrame({"weak": 0.009, "short": np.where(index < 1499, 1.0, np.nan), "good": 1.0}, index=index)
    assert list(supported(power).columns) == ["good"]


def test_residuals_leave_nothing_of_a_straight_line():
    line = pd.DataFrame({"a": np.arange(1000.0)})
    assert residuals(line)["a"].iloc[84:-84].abs().max() < 1e-9


def scaled_fleet(exponent: float) -> fleet.Statistics:
    """Clusters whose fluctuation is exactly 0.05·μ^β MW, as GPU-hours of idle 400 W boards."""
    rng = np.random.default_rng(0)
    noise = rng.standard_normal(2000)
    frames = []
    for i, mean in enumerate((0.05, 0.2, 0.8, 3.0)):
        power = mean + 0.02 * mean**exponent * np.roll(noise, 100 * i)
        frames.append(pd.DataFrame({"hour": range(2000), "cluster": f"c{i}", "power": power}))
    table = pd.concat(frames)
    cells = pl.DataFrame(table.to_dict("list")).select(
        "hour",
        "cluster",
        accelerator=pl.lit("H20"),
        workload=pl.lit("training"),
        priority=pl.lit("high"),
        state=pl.lit("standby"),
        pods=pl.lit(1),
        gpu_hours=pl.col("power") / (400e-6 * 0.2),
        **{name: pl.lit(0.0) for name in ("gpu_hours_null", "s0", "s25", "s50", "s75", "cpu_requested", "cpu_used")},
    )
    return fleet.Statistics(cells, pl.DataFrame(schema=CAPACITY_TYPES), fleet.Audit("made up"))


@pytest.mark.parametrize("exponent", [0.5, 0.75, 1.0])
def test_scaling_recovers_the_exponent_it_was_made_with(exponent):
    result = fleet.fluctuation_scaling(scaled_fleet(exponent), "cluster", replicates=50)
    # The noise of each unit is the same series shifted, so σ differs only at the ends of the rolling mean.
    assert result.exponent == pytest.approx(exponent, abs=0.01)
    assert result.interval[0] - 0.02 <= exponent <= result.interval[1] + 0.02
    assert result.r_squared > 0.999


def test_scaling_refuses_unknown_units_and_too_few(synthetic):
    with pytest.raises(InputError, match="kind"):
        fleet.fluctuation_scaling(synthetic.statistics, "rack")


def test_synchrony_is_one_without_covariance_and_root_n_in_step():
    rng = np.random.default_rng(0)
    alone = pd.DataFrame(rng.standard_normal((200_000, 4)))
    assert synchrony_ratio(alone) == pytest.approx(1.0, abs=0.01)
    step = pd.DataFrame(np.repeat(rng.standard_normal((100, 1)), 9, axis=1))
    assert synchrony_ratio(step) == pytest.approx(3.0, rel=1e-12)
    # Var(Σ)/Σvar = 1 + excess: for two series with correlation ρ and equal size R² = 1 + ρ.
    x = rng.standard_normal(50_000)
    pair = pd.DataFrame({"a": x, "b": 0.6 * x + 0.8 * rng.standard_normal(50_000)})
    assert synchrony_ratio(pair) ** 2 == pytest.approx(1 + pair.corr().iloc[0, 1], rel=1e-3)


def test_three_levels_with_a_jackknife_for_the_last(synthetic):
    levels = fleet.measure_synchrony(synthetic.statistics)
    assert list(levels) == ["priorities in a workload", "workloads in a cluster", "clusters in the fleet"]
    last = levels["clusters in the fleet"]
    assert last.interval[0] < last.median < last.interval[1]
    assert np.isnan(levels["workloads in a cluster"].interval).all()
    for level in levels.values():
        frame = level.to_frame()
        assert frame["ratio"].median() == level.median
        assert frame["parent"].to_list() == list(level.ratios.index)
        np.testing.assert_array_equal(frame[["p5", "p95"]], [level.interval] * len(frame))
        assert frame.attrs["units"] == {"ratio": "1", "p5": "1", "p95": "1"}


def test_a_calendar_is_removed_completely():
    hours = np.arange(168 * 10)
    weekly = pd.DataFrame({"a": np.sin(2 * np.pi * (hours % 168) / 168)}, index=hours)
    assert without_calendar(weekly)["a"].abs().max() < 1e-12


def test_plateaus_end_where_the_level_steps():
    fleet_power = pd.Series(np.where(np.arange(1600) < 800, 10.0, 12.0))
    found = plateaus(fleet_power)
    assert len(found) == 2
    # The weekly mean leaves ±5 % some 40 h after the step, and stays within it only from a while before it is complete.
    assert found[0][0] == 23
    assert 800 <= found[0][1] < 850
    assert found[1][1] == 1599


def test_attribution_reports_shares_of_excess_variance(synthetic):
    result = fleet.attribution(synthetic.statistics, replicates=20)
    ratios = result.ratios
    expected = 1 - (ratios["calendar removed"] ** 2 - 1) / (ratios["raw"] ** 2 - 1)
    assert result.removed["calendar removed"] == pytest.approx(expected)
    assert result.removed["raw"] == 0.0
    assert result.interval[0] < ratios["raw"] < result.interval[1]
    assert ((result.plateaus["end"] - result.plateaus["start"]) >= 14 * 24 - 1).all()
    frame = result.to_frame()
    assert frame.attrs["units"] == dict.fromkeys(("ratio", "removed", "p5", "p95"), "1")
    rows = frame.set_index("residual")
    assert rows["ratio"].to_dict() == ratios
    assert rows["removed"].to_dict() == result.removed
    # Only the raw residual is drawn again in blocks.
    assert tuple(rows.loc["raw", ["p5", "p95"]]) == result.interval
    assert rows[["p5", "p95"]].drop("raw").isna().all(axis=None)


def test_training_share_and_variability(synthetic):
    result = fleet.variability_by_training(synthetic.statistics, replicates=50)
    assert result.clusters["training_share"].between(0, 1).all()
    assert result.interval[0] <= result.interval[1]
    frame = result.to_frame()
    assert frame.attrs["units"] == {"training_share": "1", "variation": "1"}
    pd.testing.assert_frame_equal(frame.set_index("cluster"), result.clusters)


def test_load_shape_of_a_known_series():
    hours = np.arange(14 * 24)
    series = xr.DataArray(
        10 + hours // 168 + np.cos(2 * np.pi * (hours - 17) / 24), dims="hour", coords={"hour": hours}
    )
    shape = fleet.load_shape(series, (0, 24))
    assert (shape.peak_hour, shape.trough_hour) == (17, 5)
    assert shape.growth == pytest.approx(0.1)
    assert shape.daily_swing == pytest.approx(2.0)
    assert shape.autocorrelation[0] == pytest.approx(1.0)
    assert shape.load_factor == pytest.approx(10.5 / 12.0)
    with pytest.raises(InputError, match="hour"):
        fleet.load_shape(series.rename(hour="time"))


def test_composition_sums_to_one(envelope):
    assert fleet.composition(envelope).sum() == pytest.approx(1.0)
