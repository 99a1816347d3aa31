"""Cleaning (row 22 of the reported faults): what is flagged, what becomes of it, and what is said about the cap."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest

from pypsa_aidc.errors import InputError
from pypsa_aidc.headroom import Demand, DemandWarning, Offsets, Profile, clean, read_demand, screen_region

HOURS = 24 * 14


def daily(changes: dict[int, float] | None = None) -> Demand:
    """Two weeks between 60 and 100 MW, the highest hour at 15:00 of day 7."""
    time = np.arange(HOURS)
    values = 80 + 18 * np.sin(2 * np.pi * (time % 24 - 9) / 24)
    values[7 * 24 + 15] += 2
    for hour, value in (changes or {}).items():
        values[hour] = value
    return Demand(pd.Series(values, pd.date_range("2024-07-01", periods=HOURS, freq="h")), region="made up")


def test_sound_demand_stays_as_it_is() -> None:
    before = daily()
    after = clean(before)
    pd.testing.assert_series_equal(before.series, after.series)
    assert after.audit.empty


@pytest.mark.parametrize(
    ("value", "rule"), [(0.0, "zero"), (-5.0, "negative"), (1.0, "spike"), (97.0, "spike"), (np.nan, "missing")]
)
def test_each_kind_of_odd_hour_is_listed_and_filled(value: float, rule: str) -> None:
    hour = 50
    tidy = clean(daily({hour: value}), gaps="interpolate")
    (entry,) = tidy.audit.to_dict("records")
    expected = (daily().mw[hour - 1] + daily().mw[hour + 1]) / 2
    assert entry["rule"] == rule
    assert entry["snapshot"] == pd.Timestamp("2024-07-01") + pd.Timedelta(hours=hour)
    assert entry["old"] == pytest.approx(value, nan_ok=True)
    assert entry["new"] == pytest.approx(expected)
    assert entry["action"] == "interpolated"
    assert tidy.mw[hour] == pytest.approx(expected)


def test_stuck_values_are_flagged_but_kept() -> None:
    tidy = clean(daily(dict.fromkeys(range(30, 36), 70.0)))
    assert tidy.audit["rule"].tolist() == ["repeated"] * 6
    assert tidy.audit["action"].unique().tolist() == ["kept"]
    assert tidy.mw[33] == 70.0
    gone = clean(daily(dict.fromkeys(range(30, 36), 70.0)), gaps="drop", replace=("repeated",))
    assert len(gone.series) == HOURS - 6


def test_a_spike_at_the_peak_hour_is_taken_out_and_said_so() -> None:
    """Ten times the neighbour at the peak hour must not set the cap."""
    peak = 7 * 24 + 15
    with pytest.warns(DemandWarning, match=r"hours above the peak of 98 MW were replaced \(1 h\)"):
        tidy = clean(daily({peak: 1000.0}), gaps="interpolate")
    assert tidy.peak == pytest.approx(98.0, abs=0.7)
    # Kept on request, it sets the cap, and that is said as well.
    with pytest.warns(DemandWarning, match="the peak of 1,000 MW .* is a flagged hour: spike"):
        kept = clean(daily({peak: 1000.0}), replace=())
    assert kept.peak == 1000.0


def test_a_gap_that_may_hide_the_peak_is_said_so() -> None:
    with pytest.warns(DemandWarning, match="missing hours may hide the peak that sets the cap"):
        clean(daily(dict.fromkeys(range(8 * 24 + 10, 8 * 24 + 20), np.nan)), gaps="interpolate")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        # At night nothing is hidden.
        clean(daily(dict.fromkeys(range(8 * 24, 8 * 24 + 5), np.nan)), gaps="interpolate")


def test_policies_for_gaps() -> None:
    two_days = daily(dict.fromkeys(range(100, 148), np.nan))
    with pytest.raises(InputError, match=r"48 h missing.*gaps='interpolate'"):
        clean(two_days)
    with pytest.raises(InputError, match=r"2024-07-05 04:00:00 to 2024-07-07 03:00:00 UTC.*a gap of 48 h.*limit=24"):
        clean(two_days, gaps="interpolate")
    with pytest.warns(DemandWarning):
        assert not len(clean(two_days, gaps="interpolate", limit=48).missing)
    with pytest.warns(DemandWarning):
        dropped = clean(two_days, gaps="drop")
    assert len(dropped.series) == HOURS - 48
    assert dropped.audit["action"].unique().tolist() == ["dropped"]
    # Dropped hours do not shift the clock of those after them.
    assert dropped.clock[100] == 148
    with pytest.raises(InputError, match="3 h missing at an end"):
        clean(daily({0: np.nan, 1: np.nan, 2: np.nan}), gaps="interpolate")
    with pytest.raises(InputError, match=r"(?s)gaps.*limit.*spike.*repeated"):
        clean(daily(), gaps="guess", limit=0, spike=1.0, repeated=1)


def test_a_screen_that_rests_on_a_touched_hour_says_so() -> None:
    peak = 7 * 24 + 15
    with pytest.warns(DemandWarning, match="may hide the peak"):
        tidy = clean(daily({peak: np.nan, peak + 24: 99.9}), gaps="interpolate")
    shapes = [Profile("firm", [1.0], [0.0]), Profile("some", [1.0], [0.1])]
    options = {"period": "whole", "budget": 1.0, "offsets": Offsets("all")}
    found = screen_region(tidy, shapes[:1], margin=0.05, **options)
    assert not found.data["touched"].any()
    with pytest.warns(DemandWarning, match="1 of 1 cases rest on changed, filled or flagged hours"):
        called = screen_region(tidy, shapes[1:], margin=0.5, **options)
    assert called.data["touched"].item()


def test_missing_hours_of_miso_south(shared_data) -> None:
    """Settlement 10: 47 hours, interpolated; the mean of 20.202 GW and the peak of 32.436 GW are those of [2]."""
    path = shared_data / "eia930" / "miso_south_8910_2024_2025.csv"
    with pytest.warns(DemandWarning, match="missing hours may hide the peak"):
        tidy = clean(read_demand(path), gaps="interpolate")
    assert (len(tidy.series), len(tidy.audit), tidy.peak) == (17544, 47, 32436.0)
    assert tidy.mw.mean() == pytest.approx(20202.48, abs=0.005)
    # Stamped 22:00, the end of the hour.
    assert tidy.peak_hour == pd.Timestamp("2025-07-22 21:00")


def test_the_missing_peak_day_of_2024_is_doubted(shared_data) -> None:
    long = read_demand(shared_data / "eia930" / "miso_south_8910_2020_2024_with_gaps.csv", calendar="Etc/GMT+5")
    year = long.between("2024-01-01", "2024-12-31 18:00")
    with pytest.warns(DemandWarning, match="missing hours may hide the peak that sets the cap"):
        clean(year, gaps="interpolate")


@pytest.mark.parametrize("name", ["zero_at_peak.csv", "low_at_peak.csv"])
def test_bad_hours_that_hide_the_peak_are_told_as_missing_ones_are(shared_data, name: str) -> None:
    demand = read_demand(shared_data.parent / "cases" / "headroom" / name)
    with pytest.warns(DemandWarning, match=r"missing or replaced hours may hide the peak .*1,299 of 1,339 MW"):
        clean(demand, gaps="interpolate")


def test_a_plateau_of_another_level_is_told_with_the_peak_without_it(shared_data) -> None:
    """Six days at 2.5 times their neighbours; the same month without them peaks at 1,340 MW."""
    demand = read_demand(shared_data.parent / "cases" / "headroom" / "level_shift.csv")
    with pytest.warns(
        DemandWarning, match=r"is a flagged hour: level .*without the 144 h of this rule the peak is 1,337"
    ):
        kept = clean(demand, gaps="drop")
    assert kept.peak == 3350.0
    with pytest.warns(DemandWarning, match="were replaced"):
        tidy = clean(demand, gaps="drop", replace=("level",))
    assert tidy.peak == 1337.0
