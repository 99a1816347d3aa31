"""Snapshots of any length and weight: row 5 of the collected user reports."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pypsa
import pytest

import pypsa_aidc as aidc
from pypsa_aidc.network.model.horizon import windows
from tests.network.tiny import QUIET, grid, job, site


def resampled(hours: list[float]) -> pypsa.Network:
    """The grid with snapshots of the given lengths."""
    n = pypsa.Network(snapshots=pd.Timestamp("2030-01-01") + pd.to_timedelta(np.cumsum([0, *hours[:-1]]), "h"))
    for column in n.snapshot_weightings:
        n.snapshot_weightings[column] = hours
    n.add("Bus", "grid")
    n.add("Generator", "market", bus="grid", p_nom=100.0, marginal_cost=np.arange(len(hours), 0.0, -1.0))
    return n


def test_two_hour_snapshots_count_two_hours() -> None:
    n = site(resampled([2.0] * 4), jobs=[job(hours=4.0, segments=2)])
    n.aidc.optimize(**QUIET)
    schedule = n.aidc.schedule()
    assert schedule["hours"].tolist() == [2.0, 2.0]
    assert schedule["energy"].sum() == pytest.approx(8.0)
    assert n.aidc.summary().loc["dc", "energy"] == pytest.approx(1.25 * (8 * 1.0 + 8.0))


def test_snapshots_of_one_and_three_hours() -> None:
    n = site(resampled([1.0, 3.0, 1.0, 3.0]), jobs=[job(hours=4.0, segments=4)])
    result = n.aidc.optimize(**QUIET)
    hours = n.snapshot_weightings["stores"]
    energy = (n.generators_t.p["dc A"] * hours).sum()
    assert energy == pytest.approx(n.aidc.schedule()["energy"].sum())
    # Cheapest: the last three hours (price 1) hold three segments in the slow mode, one more hour (price 2) the fourth.
    training = 1.25 * (3 * 2.0 * 1.0 + 1 * 2.0 * 2.0)
    base = 1.25 * (1.0 * (1 * 4 + 3 * 3 + 1 * 2 + 3 * 1))
    assert result.objective <= training + base + 1e-6


def test_representative_days_keep_their_hours() -> None:
    n = site(grid())
    plain = n.aidc.optimize(**QUIET).objective
    n.snapshot_weightings["objective"] = 365.0
    n.snapshot_weightings["generators"] = 365.0
    weighted = n.aidc.optimize(**QUIET)
    assert weighted.objective == pytest.approx(365 * plain)
    assert n.aidc.schedule()["hours"].sum() <= 8


def test_weightings_that_contradict_the_dates_count_and_are_told_once() -> None:
    """As in PyPSA's examples: hourly labels, each of which stands for three hours."""
    n = site(grid(), jobs=[job(hours=6.0, segments=2)])
    n.snapshot_weightings.loc[:, :] = 3.0
    with pytest.warns(aidc.SeriesWarning, match=r"00:00:00 comes 1 h later, .* is 3 h \(7 such snapshots\)") as told:
        result = n.aidc.optimize(**QUIET)
    assert len([each for each in told if issubclass(each.category, aidc.SeriesWarning)]) == 1
    # Two segments of three hours in the two cheapest snapshots: 1.25 · 2 MW · 3 h at 1 and at 2 USD/MWh; base 1 MW.
    assert n.aidc.schedule()["hours"].tolist() == [3.0, 3.0]
    assert result.objective == pytest.approx(1.25 * 3 * (2 * (1 + 2) + 36))
    assert "the weighting counts" in str(n.aidc.check().of("warning"))


def days(weight: float = 1.0) -> pypsa.Network:
    """Two representative days of four hours each, ten days apart."""
    hours = pd.date_range("2030-01-01", periods=4, freq="h")
    n = pypsa.Network(snapshots=hours.append(hours + pd.Timedelta("10D")))
    n.snapshot_weightings["objective"] = weight
    n.snapshot_weightings["generators"] = weight
    n.add("Bus", "grid", carrier="AC")
    n.add("Generator", "market", bus="grid", p_nom=100.0, marginal_cost=[4.0, 3, 2, 1, 40, 30, 20, 10])
    return n


def test_each_job_does_its_tranche_in_every_representative_day() -> None:
    n = site(days(weight=182.5), jobs=[job(hours=2.0, segments=2)], base_load=0.0, pue=1.0)
    with pytest.warns(aidc.SeriesWarning, match="jump from 2030-01-01 03:00:00 to 2030-01-11 00:00:00"):
        result = n.aidc.optimize(**QUIET)
    # Two hours at 2 MW in each, the cheapest ones.
    assert result.objective == pytest.approx(182.5 * 2 * (1 + 2 + 10 + 20))
    assert result.audit
    assert n.aidc.schedule().groupby(n.aidc.schedule()["start"].dt.day)["segments"].sum().tolist() == [2, 2]
    assert n.aidc.bill().loc[("dc", "total"), "payment"] == pytest.approx(result.objective)
    assert n.generators.loc["dc A", "e_sum_min"] == pytest.approx(182.5 * 2 * 4.0)


def priced(snapshots: pd.Index, price: list[float]) -> pypsa.Network:
    n = pypsa.Network(snapshots=snapshots)
    n.add("Bus", "grid", carrier="AC")
    n.add("Generator", "market", bus="grid", p_nom=100.0, marginal_cost=price)
    return n


ALONE = {"jobs": [job(hours=2.0, segments=2)], "base_load": 0.0, "pue": 1.0}


def test_a_missing_hour_does_not_make_a_job_run_twice() -> None:
    hours, price = pd.date_range("2030-01-01", periods=10, freq="h").delete(4), [9.0, 8, 7, 6, 5, 4, 3, 2, 1]
    with pytest.raises(aidc.InputError, match=r"1 h missing between 2030-01-01 03:00:00 and .*windows='once'"):
        site(priced(hours, price), **ALONE)
    once = site(priced(hours, price), windows="once", **ALONE)
    assert once.aidc.optimize(**QUIET).objective == pytest.approx(2 * (1 + 2))
    assert once.aidc.optimize_with_rolling_horizon(horizon=3, expected=1.5, **QUIET).audit
    assert once.aidc.schedule()["segments"].sum() == 2
    once.aidc.update("dc", windows="each")
    assert once.aidc.optimize(**QUIET).objective == pytest.approx(2 * (1 + 2 + 6 + 7))


def test_a_year_without_its_leap_day_is_one_window() -> None:
    hours = pd.date_range("2028-02-27", "2028-03-03", freq="h", inclusive="left")
    n = grid(24)
    n.set_snapshots(hours[hours.day != 29])
    assert len(windows(n, split=None)) == 1
    n.set_snapshots(hours[hours.day != 28])
    with pytest.raises(aidc.InputError, match="24 h missing"):
        windows(n, split=None)


def test_typical_periods_under_consecutive_labels(tmp_path: Path) -> None:
    """Two typical days of four hours, of 100 and 265 days, as time series aggregation labels them."""
    n = priced(pd.RangeIndex(8), [4.0, 3, 2, 1, 40, 30, 20, 10])
    for column in ("objective", "generators"):
        n.snapshot_weightings[column] = [100.0] * 4 + [265.0] * 4
    site(n, windows=["calm"] * 4 + ["windy"] * 4, **ALONE)
    assert n.aidc.optimize(**QUIET).objective == pytest.approx(100 * 2 * (1 + 2) + 265 * 2 * (10 + 20))
    assert n.aidc.bill().loc[("dc", "total"), "payment"] == pytest.approx(16_500)
    assert n.generators.loc["dc A", "e_sum_min"] == pytest.approx(4 * 365)
    n.aidc.update("dc", windows=[None] * 4 + ["windy"] * 4)
    assert n.aidc.optimize(**QUIET).objective == pytest.approx(265 * 2 * (10 + 20))
    assert n.aidc.summary().loc["dc", "waiting_hours"] == 2
    n.export_to_netcdf(tmp_path / "n.nc")
    again = aidc.load(tmp_path / "n.nc")
    assert again.aidc.audit()
    assert again.aidc.schedule()["start"].tolist() == [6, 7]
    with pytest.raises(aidc.InputError, match="hours that weigh 100 and 265"):
        n.aidc.update("dc", windows="once")
    with pytest.raises(aidc.InputError, match="5 labels"):
        n.aidc.update("dc", windows=[1, 1, 2, 2, 2])


def test_blocks_of_weights_without_windows_are_told() -> None:
    n = priced(pd.RangeIndex(8), [4.0, 3, 2, 1, 40, 30, 20, 10])
    n.snapshot_weightings["objective"] = [100.0] * 4 + [265.0] * 4
    site(n, **ALONE)
    with pytest.warns(aidc.SeriesWarning, match="weighs 100 before 4 and 265 from then on"):
        n.aidc.optimize(**QUIET)


@pytest.mark.filterwarnings("ignore::pypsa_aidc.errors.SeriesWarning")
def test_budgets_over_representative_days_are_refused() -> None:
    n = days()
    n.aidc.add_fleet("f", bus="grid", p_nom=10.0, surface={1: 1.0}, peak=10.0, events=1)
    with pytest.raises(aidc.UnsupportedError, match="jump"):
        n.aidc.optimize(**QUIET)


def test_unsorted_and_weightless_snapshots_are_named() -> None:
    n = grid(8)
    n.snapshot_weightings["stores"] = 0.0
    with pytest.raises(aidc.InputError, match="above 0"):
        windows(n)
    with pytest.raises(aidc.InputError, match="ascending"):
        windows(grid(8), grid(8).snapshots[::-1])


@pytest.mark.parametrize("minutes", [15, 30, 180])
def test_fifteen_minutes_to_three_hours(minutes: int) -> None:
    count, hours = 16, minutes / 60
    n = pypsa.Network(snapshots=pd.date_range("2030-01-01", periods=count, freq=f"{minutes}min"))
    for column in n.snapshot_weightings:
        n.snapshot_weightings[column] = hours
    n.add("Bus", "grid")
    n.add("Generator", "market", bus="grid", p_nom=100.0, marginal_cost=np.arange(count, 0.0, -1.0))
    site(n, jobs=[job(hours=8 * hours, segments=4)])
    n.aidc.optimize(**QUIET)
    assert n.aidc.schedule()["segments"].sum() == 4
    assert n.aidc.audit().passed
