from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pypsa_aidc.fleet.windows import dependable, dependable_of_rows, running_minima, successes

from . import naive

# Small integers make ties and zeros likely; None is a missing hour.
POWERS = st.lists(st.one_of(st.none(), st.integers(0, 6), st.floats(0, 1e6)), min_size=1, max_size=60)


def with_gaps(values: list[float | None]) -> list[float]:
    return [math.nan if value is None else float(value) for value in values]


@given(POWERS, st.sets(st.integers(1, 30), min_size=1, max_size=5))
def test_running_minima_are_the_minima_of_all_windows(values, durations):
    series = with_gaps(values)
    minima = running_minima(series, durations)
    for h in durations:
        got = minima[h]
        assert got.size == max(len(series) - h + 1, 0)
        assert got[~np.isnan(got)].tolist() == naive.window_minima(series, h)


@given(POWERS, st.integers(1, 12), st.integers(1, 1000))
def test_k_is_the_supremum_of_eq_2_with_exact_fractions(values, h, per_mille):
    series = with_gaps(values)
    expected = naive.k(series, h, Fraction(per_mille, 1000))
    got = dependable(running_minima(series, [h])[h], [per_mille / 1000])[0]
    assert got == expected or (math.isnan(got) and math.isnan(expected))


@given(st.integers(0, 10**6), st.decimals(min_value="0.000001", max_value=1, places=6))
def test_successes_are_exact_for_decimal_reliabilities(n, alpha):
    assert successes(n, float(alpha)) == math.ceil(n * Fraction(alpha))


def test_binary_rounding_does_not_ask_for_one_more():
    # 20 * (1 - 0.9) is 1.9999999999999996 in binary: floor would give 1 tail window where Eq. 2 allows 2.
    assert math.floor(20 * (1 - 0.9)) == 1
    assert successes(20, 0.9) == 18


@given(st.lists(st.integers(0, 20), min_size=1, max_size=50), st.integers(1, 100))
def test_interpolated_quantile_can_break_eq_2_but_the_supremum_never_does(values, percent):
    minima, alpha = np.array(values, dtype=float), percent / 100
    sup = dependable(minima, [alpha])[0]
    assert Fraction(int((minima >= sup).sum()), minima.size) >= Fraction(percent, 100)
    higher = minima[minima > sup]
    if higher.size:
        assert Fraction(int((minima >= higher.min()).sum()), minima.size) < Fraction(percent, 100)
    # Numpy's own interpolation is what method="linear" promises.
    assert dependable(minima, [alpha], "linear")[0] == np.quantile(minima, 1 - alpha)


@given(
    st.lists(st.tuples(st.integers(0, 9), st.integers(0, 4)), min_size=1, max_size=30),
    st.integers(1, 100),
    st.sampled_from(["sup", "linear"]),
)
def test_rows_have_the_order_statistic_of_what_they_hold(pairs, percent, method):
    held = np.sort(np.repeat([float(value) for value, _ in pairs], [count for _, count in pairs]))
    row = np.append([np.nan] * 3, held)[np.newaxis]
    got = dependable_of_rows(row, np.array([held.size]), [percent / 100], method)[0, 0]
    places = np.append([held.size] * 3, np.arange(held.size)[::-1])[np.newaxis]
    by_place = dependable_of_rows(places, np.array([held.size]), [percent / 100], method, np.append(held, np.nan))[0, 0]
    expected = dependable(held, [percent / 100], method)[0] if held.size else np.nan
    np.testing.assert_allclose([got, by_place], expected, rtol=1e-12)


def test_leading_axes_are_independent_series():
    rng = np.random.default_rng(0)
    series = rng.random((3, 40))
    series[:, 7] = np.nan
    together = dependable(running_minima(series, [4])[4], [0.5, 0.95])
    alone = [dependable(running_minima(row, [4])[4], [0.5, 0.95]) for row in series]
    np.testing.assert_array_equal(together, alone)
