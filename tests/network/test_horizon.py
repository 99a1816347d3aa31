"""Snapshots of any length and weight: row 5 of the collected user reports."""

from __future__ import annotations

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


def test_weightings_that_contradict_the_dates_are_refused() -> None:
    n = site(grid())
    n.snapshot_weightings.loc[:, :] = 365.0
    with pytest.raises(aidc.InputError, match=r"stores'\] at 2030-01-01 00:00:00 \(7 snapshots\).*given 365"):
        n.aidc.optimize(**QUIET)


def test_a_missing_snapshot_is_named() -> None:
    n = grid(8)
    gap = n.copy(snapshots=n.snapshots.delete(3))
    with pytest.raises(aidc.InputError, match="2030-01-01 02:00:00.*expected 2"):
        windows(gap)


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
