from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st

from pypsa_aidc import fleet
from pypsa_aidc.errors import InputError

from . import naive

pytestmark = pytest.mark.smoke

DURATIONS = (1, 2, 3, 5)
ALPHAS = (0.5, 0.75, 0.9, 1.0)
SERIES = st.lists(st.integers(0, 9), min_size=8, max_size=50).map(lambda values: np.array(values, dtype=float))


@given(SERIES)
def test_k_falls_in_reliability_and_in_duration_of_a_series_without_gap(series):
    K = fleet.Surface.of(series, DURATIONS, ALPHAS).K
    assert (K.diff("reliability") <= 0).all()
    assert (K.diff("duration") <= 0).all()


@given(SERIES, st.integers(0, 100))
def test_k_scales_with_the_realised_fraction(series, percent):
    q = percent / 100
    np.testing.assert_array_equal(fleet.Surface.of(series, q=q).K, q * fleet.Surface.of(series).K)


@given(st.floats(0, 1e6), st.integers(5, 40), st.sampled_from(["sup", "linear"]))
def test_k_of_a_constant_is_the_constant(level, hours, method):
    K = fleet.Surface.of(np.full(hours, level), DURATIONS, ALPHAS, method=method).K
    np.testing.assert_allclose(K, level, rtol=1e-15)


@given(SERIES, st.integers(1, 8), st.integers(1, 100))
def test_at_never_promises_more_than_eq_2_of_any_weaker_request(series, h, percent):
    K = fleet.Surface.of(series, (1, 2, 4, 8), (0.5, 0.9, 0.95, 1.0))
    promised = K.at(h, percent / 100)
    assert promised <= naive.k(series.tolist(), h, Fraction(percent, 100))


def test_at_rounds_up_to_the_grid_and_refuses_what_lies_beyond():
    series = np.random.default_rng(1).random(500)
    K = fleet.Surface.of(series, (1, 4, 24), (0.9, 0.95))
    assert K.at(8, 0.95) == float(K.K.sel(duration=24, reliability=0.95))
    assert K.at(3.5, 0.91) == float(K.K.sel(duration=4, reliability=0.95))
    assert K.at(4, 0.95) == float(K.K.sel(duration=4, reliability=0.95))
    with pytest.raises(InputError, match="duration") as error:
        K.at(25, 0.99)
    assert len(error.value.faults) == 2


def test_a_gap_cannot_make_a_longer_call_look_better():
    # The low last hour stands alone behind a gap, so no two-hour window sees it: K of 2 h exceeds K of 1 h.
    K = fleet.Surface.of([9.0, 9.0, math.nan, 1.0], (1, 2), (1.0,))
    assert K.K.to_numpy().ravel().tolist() == [1.0, 9.0]
    assert K.at(2, 1.0) == 1.0


def test_one_hour_and_a_day_long_call_says_zero_windows():
    K = fleet.Surface.of([3.0], (1, 24), (0.95,))
    assert K.windows == {1: 1, 24: 0}
    assert math.isnan(K.K.sel(duration=24).item())
    assert "0 windows" in repr(K)
    with pytest.raises(InputError, match="at least one valid window"):
        K.at(24, 0.95)


def test_nan_in_a_k_table_is_refused_by_name():
    good = fleet.Surface.of(np.arange(50.0), (1, 4), (0.9, 0.95)).data
    bad = good.copy(deep=True)
    bad["K"].loc[{"duration": 4, "reliability": 0.95}] = np.nan
    with pytest.raises(InputError, match="K at 4 h"):
        fleet.Surface(bad)


def test_all_faults_of_a_request_are_reported_together():
    with pytest.raises(InputError) as error:
        fleet.Surface.of([1.0, -2.0], durations=[4, 1], reliabilities=[1.5], q=2.0)
    text = str(error.value)
    assert all(word in text for word in ("durations", "reliabilities", "q:", "hour 1"))
    assert len(error.value.faults) >= 4


@pytest.mark.parametrize("series", [[], [[1.0]], ["a"], None, [np.inf]])
def test_what_is_no_series_is_refused(series):
    with pytest.raises(InputError):
        fleet.Surface.of(series)


def test_options_that_would_be_ignored_are_refused():
    with pytest.raises(InputError, match="single series"):
        fleet.Surface.of([1.0, 2.0], boundary="attributed")


def condition_by_hand(series, h, alpha, keep):
    minima = [
        min(series[t : t + h]) for t in range(len(series) - h + 1) if keep(t) and not np.isnan(series[t : t + h]).any()
    ]
    return naive.k(minima, 1, Fraction(str(alpha)))


def test_conditions_select_windows_by_their_start():
    series = np.random.default_rng(2).random(24 * 40)
    series[100] = np.nan
    cases = [
        (fleet.Condition(start_hours=[17, 18]), lambda t: t % 24 in (17, 18)),
        (fleet.Condition(weekdays=[6]), lambda t: t // 24 % 7 == 6),
        (fleet.Condition(months=[0]), lambda t: t + 4 <= 720),
        (fleet.Condition(starts=np.arange(series.size) % 5 == 0), lambda t: t % 5 == 0),
    ]
    for condition, keep in cases:
        K = fleet.Surface.of(series, (4,), (0.9,), condition=condition)
        assert K.K.item() == condition_by_hand(series, 4, 0.9, keep), condition


def test_condition_of_another_length_is_refused():
    with pytest.raises(InputError, match="one for each hour"):
        fleet.Surface.of(np.ones(5), condition=fleet.Condition(starts=[True]))


def test_a_shaped_call_that_is_flat_is_k():
    series = np.random.default_rng(3).random(300)
    assert fleet.shaped(series, [1.0] * 4, 0.9) == fleet.Surface.of(series, (4,), (0.9,)).K.item()
    assert fleet.shaped(series, [1.0, 0.5, 0.5, 0.0], 0.9) >= fleet.shaped(series, [1.0] * 4, 0.9)
    assert fleet.shaped(series, [0.5] * 4, 0.9) == pytest.approx(2 * fleet.shaped(series, [1.0] * 4, 0.9))


def test_surface_round_trips_through_netcdf(tmp_path, envelope):
    K = fleet.Surface.of(envelope, portfolio="supported", condition=fleet.Condition(start_hours=[3]))
    K.save(tmp_path / "k.nc")
    again = fleet.Surface.read(tmp_path / "k.nc")
    xr.testing.assert_equal(again.data, K.data)
    assert again.data.attrs["portfolio"] == K.data.attrs["portfolio"]
    (tmp_path / "broken.nc").write_bytes(b"nothing")
    with pytest.raises(InputError, match=r"broken\.nc"):
        fleet.Surface.read(tmp_path / "broken.nc")


def test_frame_names_units_through_its_columns(envelope):
    frame = fleet.Surface.of(envelope).to_frame()
    assert isinstance(frame, pd.DataFrame)
    assert {"duration", "reliability", "K", "firmness", "windows", "tail_windows"} <= set(frame.columns)


def test_clusters_may_be_named_in_any_order(envelope):
    names = list(envelope.clusters)
    forward, backward = (fleet.Surface.of(envelope, portfolio=order) for order in (names, names[::-1]))
    np.testing.assert_allclose(forward.K, backward.K, rtol=1e-12)


def test_results_say_that_they_are_synthetic(envelope):
    K = fleet.Surface.of(envelope)
    assert K.data.attrs["synthetic"] == 1
    assert "synthetic" in repr(K)
    assert "synthetic" in repr(envelope)


def test_average_response_counts_the_cooling(envelope):
    marginal, average = (fleet.Surface.of(envelope, response=response) for response in ("marginal", "average"))
    np.testing.assert_allclose(average.K, 1.2 * marginal.K, rtol=1e-12)
    assert average.data.attrs["response"] == "average"
