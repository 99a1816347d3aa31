"""Running minima of an hourly series and the order statistic that turns them into dependable power."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from pypsa_aidc.errors import Faults

Floats = npt.NDArray[np.float64]
Method = Literal["sup", "linear"]

DURATIONS = (1, 2, 4, 8, 24)
"""Event durations of [2], h."""

RELIABILITIES = (0.5, 0.9, 0.95, 0.99)
"""Reliability levels of [2]."""

RELIABILITY_STEP = 10**9
"""A reliability is read to nine decimals: 20 windows at 0.9 need 18 successes, where binary 0.9 would ask for 19."""


def running_minima(series: npt.ArrayLike, durations: Iterable[int]) -> dict[int, Floats]:
    """Lowest power of every window of `h` consecutive hours, for all `h` at once (inner part of Eq. 2 of [2]).

    A window that touches a missing hour (NaN) is NaN. Minima over powers of two are shared by all durations, so the
    cost is one pass over the series per doubling.

    Parameters
    ----------
    series : array of shape (..., hours)
        Hourly power, MW; NaN where an hour is missing.
    durations
        Window lengths, h; whole numbers of at least 1.

    Returns
    -------
    dict of int to array of shape (..., hours − h + 1)
        Entry ``t`` is the minimum over hours ``t … t + h − 1``, MW; empty where the series is shorter than the window.

    References
    ----------
    [2] M. Li, "Beyond Scalar Flexibility", arXiv 2609.05406, Eq. 2.

    Examples
    --------
    >>> running_minima([3, 1, 4, 1, 5], [2, 3])
    {2: array([1., 1., 1., 1.]), 3: array([1., 1., 1.])}
    """
    level = np.asarray(series, dtype=float)
    hours = level.shape[-1]
    wanted = sorted(set(durations))
    minima: dict[int, Floats] = {}
    width = 1
    for h in wanted:
        while 2 * width <= h and level.shape[-1]:
            level = np.minimum(level[..., :-width], level[..., width:])
            width *= 2
        starts = max(hours - h + 1, 0)
        if starts == 0 or width == h:
            minima[h] = level[..., :starts]
        else:
            minima[h] = np.minimum(level[..., :starts], level[..., h - width : h - width + starts])
    return minima


def successes(windows: int, reliability: float) -> int:
    """Fewest windows out of `windows` that make their share at least `reliability`: ⌈n·α⌉ without binary rounding.

    Examples
    --------
    >>> successes(20, 0.9), successes(4437, 0.95)
    (18, 4216)
    """
    return -(-windows * round(reliability * RELIABILITY_STEP) // RELIABILITY_STEP)


def least_windows(reliability: float) -> int:
    """Fewest windows that say anything about a reliability: one in which a call may fall short, 20 at 95 %.

    Examples
    --------
    >>> least_windows(0.95), least_windows(0.99), least_windows(1.0)
    (20, 100, 20)
    """
    return math.ceil(round(1 / (1 - reliability), 6)) if reliability < 1 else 20


def dependable(minima: npt.ArrayLike, reliabilities: Sequence[float], method: Method = "sup") -> Floats:
    """Largest power that at least a share α of the windows holds: the outer part of Eq. 2 of [2].

    Parameters
    ----------
    minima : array of shape (..., windows)
        Window minima, MW. Missing windows (NaN) are left out; along leading axes the same windows must be missing.
    reliabilities : sequence of length A
        Levels α in (0, 1].
    method
        ``"sup"``: the order statistic ``m[n − ⌈n·α⌉]``, which is Eq. 2 to the letter. ``"linear"``: the interpolated
        quantile of NumPy, which the printed tables of [2] use and which can lie above the supremum.

    Returns
    -------
    array of shape (..., A)
        MW; NaN where there is no window.

    Examples
    --------
    >>> dependable([4, 1, 3, 2], [0.5, 0.75, 1.0])
    array([3., 2., 1.])
    >>> dependable([4, 1, 3, 2], [0.5], "linear")
    array([2.5])
    """
    m = np.array(minima, dtype=float)
    rows = m.reshape(math.prod(m.shape[:-1]), m.shape[-1])
    known = m.shape[-1] - np.count_nonzero(np.isnan(rows[:1]))
    K = dependable_of_rows(rows, np.full(len(rows), known), reliabilities, method)
    return K.reshape(*m.shape[:-1], len(reliabilities))


def dependable_of_rows(
    minima: npt.NDArray[Any],
    counts: npt.NDArray[np.int64],
    reliabilities: Sequence[float],
    method: Method = "sup",
    values: Floats | None = None,
) -> Floats:
    """`dependable` of rows that miss windows of their own.

    Parameters
    ----------
    minima : array of shape (rows, windows)
        MW, NaN where missing; or their places in `values`, of missing ones above all others. Is put into another order.
    counts : array of shape (rows,)
        Windows of each row that are not missing.
    reliabilities, method
        As for `dependable`.
    values : array of shape (places,)
        MW.

    Returns
    -------
    array of shape (rows, A)
        MW; NaN in rows without a window.

    Examples
    --------
    >>> rows = np.array([[3.0, 3.0, 1.0, 3.0], [2.0, np.nan, 1.0, np.nan]])
    >>> dependable_of_rows(rows, np.array([4, 2]), [0.75, 1.0])
    array([[3., 1.],
           [1., 1.]])
    """
    if minima.size == 0 or not counts.any():
        return np.full((len(minima), len(reliabilities)), np.nan)
    numbers = sorted(set(counts.tolist()))
    last = np.maximum(np.array(numbers) - 1, 0)[:, np.newaxis]
    if method == "sup":
        below = np.array([[n - successes(n, alpha) for alpha in reliabilities] for n in numbers])
        position = above = below
    else:
        position = last * (1 - np.asarray(reliabilities))
        below = np.floor(position).astype(int)
        above = np.minimum(below + 1, last)
    if len(numbers) == 1:
        # Each place settles what lies above it, so that the next one is looked for below it only.
        end = minima.shape[1]
        for rank in sorted({*below[0].tolist(), *above[0].tolist()}, reverse=True):
            minima[:, :end].partition(rank, axis=-1)
            end = rank
        low, high = minima[:, below[0]], minima[:, above[0]]
    else:
        minima.sort(axis=-1)
        row_of = np.searchsorted(numbers, counts)
        low, high = (np.take_along_axis(minima, rank[row_of], axis=1) for rank in (below, above))
        position, below = position[row_of], below[row_of]
    if values is not None:
        low, high = values[low], values[high]
    result = low if method == "sup" else low + (high - low) * (position - below)
    result[counts == 0] = np.nan
    return np.asarray(result, dtype=float)


def check_grid(faults: Faults, durations: Sequence[int], reliabilities: Sequence[float], method: str = "sup") -> None:
    """Note every fault of a duration–reliability grid: whole hours, shares in (0, 1], ascending, a known method."""
    ranges: dict[str, dict[str, Any]] = {
        "durations": {"at_least": 1, "integer": True},
        "reliabilities": {"at_least": 1 / RELIABILITY_STEP, "at_most": 1},
    }
    for name, axis in (("durations", durations), ("reliabilities", reliabilities)):
        values, before = faults.listed(name, axis, "at least one value, as a list"), len(faults)
        for value in values:
            faults.number(name, value, **ranges[name])
        if len(faults) == before:
            ascending = bool(values) and values == sorted(set(values))
            faults.require(ascending, name, values, "at least one value, ascending and without repetition")
    faults.require(method in get_args(Method), "method", method, f"one of {', '.join(get_args(Method))}")
