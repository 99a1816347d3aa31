from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pypsa_aidc import fleet
from pypsa_aidc.errors import InputError
from pypsa_aidc.fleet.studies.backtest import derating

WEEK = 168


def test_folds_are_what_a_loop_over_origins_gives():
    series = np.random.default_rng(0).gamma(4.0, 1.0, 20 * WEEK)
    series[999] = np.nan
    result = fleet.Backtest.of(series, (1, 4), 0.9)
    assert result.summary["origins"].tolist() == [9, 9]
    for row in result.folds.itertuples():
        past, future = series[row.origin - 8 * WEEK : row.origin], series[row.origin : row.origin + 4 * WEEK]
        K = fleet.Surface.of(past, (int(row.duration),), (0.9,)).K.item()
        windows = np.lib.stride_tricks.sliding_window_view(future, int(row.duration)).min(axis=1)
        windows = windows[~np.isnan(windows)]
        assert row.K == K
        assert row.coverage == (windows >= K).mean()


def test_fifteen_origins_fit_the_published_window(envelope):
    # 4,440 h are 26.4 weeks: origins after week 8 … 22 (Sec. 2.4 of [2]).
    result = fleet.Backtest.of(envelope)
    assert result.summary["origins"].tolist() == [15, 15, 15]
    assert result.synthetic
    assert "synthetic" in repr(result)


@given(
    st.lists(st.tuples(st.integers(1, 5), st.lists(st.integers(0, 9), min_size=1, max_size=9)), min_size=1, max_size=5),
    st.integers(1, 100),
)
def test_derating_is_the_largest_factor_that_reaches_the_target(folds, percent):
    target = percent / 100
    pairs = [(float(offered), np.array(windows, dtype=float)) for offered, windows in folds]

    def coverage(factor):
        # A factor is a ratio of two of these numbers; comparing products would round it.
        return np.mean([(windows / offered >= factor).mean() for offered, windows in pairs])

    factor = derating(pairs, target)
    assert coverage(factor) >= target - 1e-9
    candidates = {w / offered for offered, windows in pairs for w in windows.tolist()}
    assert all(coverage(higher) < target + 1e-9 for higher in candidates if higher > factor)


def test_in_sample_derating_makes_the_mean_coverage_reach_the_target(envelope):
    result = fleet.Backtest.of(envelope, (4,))
    series = envelope.relief().sum("cluster", skipna=False).to_numpy()
    factor = result.summary.loc[4, "factor"]
    covered = []
    for row in result.folds.itertuples():
        future = series[row.origin : row.origin + 4 * WEEK]
        windows = np.lib.stride_tricks.sliding_window_view(future, 4).min(axis=1)
        covered.append((windows[~np.isnan(windows)] / row.offered >= factor).mean())
    assert np.mean(covered) >= 0.95 - 1e-9


def test_nested_derating_uses_only_tests_that_had_ended():
    series = np.concatenate([np.full(16 * WEEK, 10.0), np.full(14 * WEEK, 5.0)])
    series += 0.01 * np.random.default_rng(0).random(series.size)
    folds = fleet.Backtest.of(series, (1,), 0.95).folds
    # Tests last 4 weeks, so the first four origins know no finished test.
    assert folds["nested_factor"].isna().tolist()[:5] == [True] * 4 + [False]
    # The collapse at week 16 is known to nobody whose past tests ended before it.
    known = folds.loc[folds["origin"] <= 16 * WEEK, "nested_factor"].dropna()
    assert (known > 0.99).all()
    assert folds.loc[folds["origin"] > 20 * WEEK, "nested_factor"].max() < 0.6


def test_a_normalised_offer_follows_a_change_of_level():
    rng = np.random.default_rng(1)
    series = np.concatenate([rng.gamma(50.0, 0.02, 10 * WEEK), 3 * rng.gamma(50.0, 0.02, 10 * WEEK)])
    absolute, normalised = (fleet.Backtest.of(series[::-1].copy(), (1,), normalised=kind) for kind in (False, True))
    assert absolute.summary.loc[1, "worst"] < 0.2
    assert normalised.summary.loc[1, "worst"] > absolute.summary.loc[1, "worst"]


def test_a_short_series_is_refused():
    with pytest.raises(InputError, match="one origin"):
        fleet.Backtest.of(np.ones(11 * WEEK))
    with pytest.raises(InputError, match="single series"):
        fleet.Backtest.of(np.ones(20 * WEEK), portfolio="supported")
