"""A series bent, as little as it takes, until its K surface is a given one."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.optimize import isotonic_regression

from pypsa_aidc.fleet.studies.counterfactual import k_grid
from pypsa_aidc.fleet.windows import DURATIONS, RELIABILITIES, Floats

ROUNDS = 30
"""Of the fit by persistence, which brings the surface near and its order right."""
DAMPING = 0.6
SETTLING = 6
"""Of the common map, which makes it exact; moving the mean moves the upper quantiles a little."""


def impose(series: Floats, target: Floats, mean: float) -> Floats:
    """Return `series` with the K surface `target` and the mean `mean`, keeping its ups and downs in their order.

    An hour that is the lowest of no window longer than w cannot move K of a longer duration. So hours are fitted by
    the longest window they are the lowest of, the longest first; what is left is closed by one rising map of all hours,
    which moves every K to where the map takes it, exactly. Where the order of the cells differs from that of the
    target, the cells concerned meet in the middle.

    Parameters
    ----------
    series : array of shape (hours,)
        MW, above 0; NaN where an hour is missing.
    target : array of shape (durations, reliabilities)
        Interpolated K over `DURATIONS` × `RELIABILITIES`, MW, as the tables of [2] print it.
    mean
        MW.

    Returns
    -------
    array of shape (hours,)
        MW.
    """
    current = best = series
    lowest = (np.inf, np.inf)
    for _ in range(ROUNDS):
        reached = k_grid(current, DURATIONS, RELIABILITIES, "linear")
        rating = (float(np.abs(_reachable(reached, target) / target - 1).max()), _steepness(reached, target))
        if rating < lowest:
            lowest, best = rating, current
        current = _by_persistence(current, reached, target, mean)
    current = best
    for _ in range(SETTLING):
        reached = k_grid(current, DURATIONS, RELIABILITIES, "linear")
        order = np.argsort(reached, axis=None, kind="stable")
        current = _mapped(current, reached.ravel()[order], _reachable(reached, target).ravel()[order])
        current = _lifted(current, 1.001 * target.max(), mean, 1.0)
    return current


def _reachable(reached: Floats, target: Floats) -> Floats:
    """K that a rising map of all hours can make of `reached`: the target, with cells out of order set to their mean."""
    order = np.argsort(reached, axis=None, kind="stable")
    result = np.empty(target.size)
    result[order] = np.exp(isotonic_regression(np.log(target.ravel()[order])).x)
    return result.reshape(target.shape)


def _steepness(reached: Floats, target: Floats) -> float:
    """Largest slope of the map from `reached` to `target`: where it is steep, it tears neighbouring hours apart."""
    order = np.argsort(target, axis=None)
    steps = np.diff(np.log(reached.ravel()[order]))
    return float(np.max(np.diff(np.log(target.ravel()[order])) / np.maximum(steps, 1e-12)))


def _by_persistence(series: Floats, reached: Floats, target: Floats, mean: float) -> Floats:
    """One damped round of the fit by the longest window that an hour is the lowest of."""
    width = persistence(series)
    result = series.copy()
    limits = (*DURATIONS[1:], np.inf)
    for row, longest in enumerate(limits):
        shortest = DURATIONS[row] if row else 0
        members = (width >= shortest) & (width < longest) & ~np.isnan(series)
        aim = reached[row] * (target[row] / reached[row]) ** DAMPING
        order = np.argsort(reached[row])
        result[members] = _mapped(series[members], reached[row][order], np.maximum.accumulate(aim[order]))
    return _lifted(result, float(np.nanmedian(result)), mean, 0.8)


def persistence(series: Floats) -> npt.NDArray[np.int64]:
    """Length of the longest window around each hour in which no other hour is lower; 0 for a missing hour.

    Of equal hours the last one counts as the lowest.

    Examples
    --------
    >>> persistence(np.array([3.0, 1.0, 2.0, np.nan, 5.0])).tolist()
    [1, 3, 1, 0, 1]
    """
    levels = np.where(np.isnan(series), -np.inf, series).tolist()
    left, right = [-1] * len(levels), [len(levels)] * len(levels)
    rising: list[int] = []
    for hour, level in enumerate(levels):
        while rising and levels[rising[-1]] >= level:
            right[rising.pop()] = hour
        left[hour] = rising[-1] if rising else -1
        rising.append(hour)
    width: npt.NDArray[np.int64] = np.array(right) - np.array(left) - 1
    width[np.isnan(series)] = 0
    return width


def _mapped(series: Floats, given: Floats, wanted: Floats) -> Floats:
    """Take `given` levels to `wanted` ones, piecewise linearly between the logarithms, by a constant ratio outside."""
    x, y = np.log(given), np.log(wanted)
    distinct = np.concatenate([[True], np.diff(x) > 1e-9])
    level = np.log(series)
    return np.asarray(np.exp(level + np.interp(level, x[distinct], (y - x)[distinct])))


def _lifted(series: Floats, above: float, mean: float, damping: float) -> Floats:
    """Stretch what lies above a level until the mean is right; the low hours, which make K, stay where they are."""
    upper = series > above
    excess = series[upper] - above
    missing = (mean - np.nanmean(series)) * np.count_nonzero(~np.isnan(series))
    result = series.copy()
    result[upper] = above + excess * (1 + damping * missing / excess.sum())
    return result
