from __future__ import annotations

from fractions import Fraction
from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pypsa_aidc import fleet
from pypsa_aidc.errors import InputError
from pypsa_aidc.fleet.studies.counterfactual import k_grid, trend

from .test_portfolio import small_fleet


@given(st.lists(st.integers(0, 30), min_size=3, max_size=40), st.integers(1, 6), st.integers(1, 100))
def test_shuffled_k_is_the_hypergeometric_quantile(values, h, percent):
    got = fleet.shuffled(np.array(values, dtype=float), [h], [percent / 100])[0, 0]
    n = len(values)
    if n < h:
        assert np.isnan(got)
        return
    share = {k: Fraction(comb(sum(v >= k for v in values), h), comb(n, h)) for k in values}
    # Ties: the expected share of windows holding k decides, over all orders of the hours.
    assert got == max(k for k in share if share[k] >= Fraction(percent, 100))


def test_shuffled_k_is_what_random_orders_give_on_average():
    rng = np.random.default_rng(0)
    series = rng.gamma(4.0, 1.0, 4000)
    closed = fleet.shuffled(series, [4], [0.95])[0, 0]
    drawn = [k_grid(rng.permutation(series), [4], [0.95], "sup")[0, 0] for _ in range(60)]
    assert closed == pytest.approx(np.mean(drawn), abs=4 * np.std(drawn) / np.sqrt(60))
    # For n much larger than h it is the marginal quantile at α^(1/h).
    assert closed == pytest.approx(np.quantile(series, 1 - 0.95**0.25), rel=2e-3)


def test_shuffling_changes_nothing_for_one_hour(envelope):
    result = fleet.counterfactuals(envelope, portfolio="supported", replicates=1)
    one = result.data["K"].sel(duration=1)
    np.testing.assert_allclose(one.sel(representation="time-shuffled"), one.sel(representation="observed"), rtol=1e-12)


@pytest.mark.parametrize("detrended", [True, False])
def test_shifting_keeps_the_gap_single_and_the_mean_where_it_was(detrended):
    rng = np.random.default_rng(1)
    clusters = rng.gamma(5.0, 1.0, (3, 900))
    clusters[:, 77] = np.nan
    rest = fleet.independent(clusters, [1, 24], [0.5], detrended=detrended, replicates=40, seed=3)
    # A shift of every cluster by itself cannot change a median of sums by much when they are independent already.
    observed = k_grid(clusters.sum(axis=0), [1, 24], [0.5], "sup")
    np.testing.assert_allclose(rest, observed, rtol=0.03)


def test_clusters_that_move_together_lose_by_comparison_with_independent_ones():
    rng = np.random.default_rng(2)
    common = np.exp(0.3 * rng.standard_normal(1500))
    clusters = np.stack([common * rng.gamma(50.0, 0.02, 1500) for _ in range(5)])
    rest = fleet.independent(clusters, [4], [0.95], replicates=20)
    assert rest[0, 0] > 1.1 * k_grid(clusters.sum(axis=0), [4], [0.95], "sup")[0, 0]


def test_one_cluster_alone_is_only_moved_in_time():
    series = np.random.default_rng(4).random((1, 500))
    moved = fleet.independent(series, [1], [0.5, 0.95], detrended=False, replicates=7)
    np.testing.assert_allclose(moved, k_grid(series[0], [1], [0.5, 0.95], "sup"), rtol=1e-12)


def test_trend_is_centred_and_follows_a_line():
    line = np.arange(600.0)
    inner = slice(100, 500)
    np.testing.assert_allclose(trend(line)[inner], line[inner] - 0.5, atol=1e-9)
    np.testing.assert_allclose(
        trend(np.stack([line, 2 * line]), 169)[:, inner], [line[inner], 2 * line[inner]], atol=1e-9
    )


def test_shares_reproduce_what_they_are_calibrated_to(envelope):
    result = fleet.counterfactuals(envelope, portfolio="supported", replicates=1)
    at_four = result.ratios.sel(representation="tail-calibrated share", duration=4, reliability=0.95).item()
    assert at_four == pytest.approx(1.0, abs=1e-12)
    # Required share times the workload's K is the observed K, by definition of Table 2.
    back = result.required_share * result.data.attrs["mean_share"] * result.data["workload_K"]
    np.testing.assert_allclose(back, result.data["K"].sel(representation="observed"), rtol=1e-12)
    constant = result.data["K"].sel(representation="mean share") / result.data["workload_K"]
    np.testing.assert_allclose(constant, result.data.attrs["mean_share"], rtol=1e-12)


def test_the_same_seed_gives_the_same_bytes():
    envelope = small_fleet(3)
    first, again = (fleet.counterfactuals(envelope, portfolio=None, replicates=3, seed=9) for _ in range(2))
    assert first.data.identical(again.data)


def test_representations_stand_on_one_series(envelope):
    table = fleet.representations(envelope)
    assert table.loc["trace-derived, idle retained", ["ratio_1h", "ratio_4h", "ratio_24h"]].tolist() == [1.0] * 3
    full, tier = table.loc["fully curtailable"], table.loc["20 % interruptible"]
    assert tier["K_4h"] == pytest.approx(0.2 * full["K_4h"])
    assert table.attrs["synthetic"]


def test_a_cell_outside_the_grid_is_refused(envelope):
    with pytest.raises(InputError, match="calibrated_at"):
        fleet.counterfactuals(envelope, (1, 2), (0.95,))
