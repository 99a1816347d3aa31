"""The closed form of the peak-cap screen: the largest load that fits under a cap, and what limits it.

Every function takes the hours in ascending order of slack, so that whole tails of hours that cannot decide are left out
exactly: an hour whose slack over the largest need is no smaller than the limit found so far cannot lower it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pypsa_aidc.fleet.windows import Floats

Integers = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

FIRST_BLOCK = 64
"""Hours looked at before the first test whether the rest can matter."""
ROOM = 4_000_000
"""Values held at once, offsets times hours."""


@dataclass(frozen=True)
class Limits:
    """Largest sizes and the hours that set them.

    Attributes
    ----------
    size : array
        MW; inf where nothing limits.
    hour : array of the same shape
        Position in the hours given; −1 where nothing limits.
    """

    size: Floats
    hour: Integers


@dataclass(frozen=True)
class Response:
    """What a size asks of the load; arrays of one shape.

    Attributes
    ----------
    events
        Stretches of consecutive hours with a call.
    hours
        Hours with a call.
    longest
        Hours of the longest event.
    marked
        Whether one of them is a marked hour.
    """

    events: Integers
    hours: Integers
    longest: Integers
    marked: Mask


def ratio(slack: npt.ArrayLike, share: npt.ArrayLike) -> Floats:
    """Slack over share, MW; inf where the share is 0: such an hour asks for nothing.

    Examples
    --------
    >>> ratio([10.0, 0.0, 0.0], [0.5, 0.5, 0.0])
    array([20.,  0., inf])
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(np.asarray(share) > 0, np.divide(slack, share), np.inf)


def laid(series: Floats, clock: Integers, offsets: Integers) -> Floats:
    """Values of a circular series in the hours of a clock, delayed by each offset; shape (offsets, hours)."""
    if series.size == 1:
        return np.broadcast_to(series, (offsets.size, clock.size))
    return np.asarray(series[(clock[None, :] - offsets[:, None]) % series.size])


def residual_limit(slack: Floats, clock: Integers, load: Floats, relief: Floats, offsets: Integers) -> Limits:
    """Limit by what stays when everything is called: min over s > c of H/(s − c) (App. E of [2]).

    Parameters
    ----------
    slack : array of shape (hours,)
        H = P_cap − D, MW; ascending, at least 0.
    clock : array of shape (hours,)
        Hour of the demand that each belongs to.
    load, relief : array of shape (length,)
        s and c ≤ s, per unit.
    offsets : array of shape (offsets,)
        Delays of load and relief, h.

    Returns
    -------
    Limits
        Shape (offsets,).

    Examples
    --------
    >>> s, c, hours, offsets = np.ones(1), np.array([0.2]), np.arange(2), np.zeros(1, int)
    >>> residual_limit(np.array([8.0, 20.0]), hours, s, c, offsets).size
    array([10.])
    """
    need = load - relief
    top, rows = need.max(), np.arange(offsets.size)
    size, hour = np.full(offsets.size, np.inf), np.full(offsets.size, -1)
    first, width = 0, FIRST_BLOCK
    while top > 0 and first < slack.size and slack[first] / top < size.max():
        part = slice(first, first + width)
        found = ratio(slack[part], laid(need, clock[part], offsets))
        lowest = found.argmin(axis=1)
        better = found[rows, lowest] < size
        size[better] = found[rows, lowest][better]
        hour[better] = first + lowest[better]
        first += width
        width = max(FIRST_BLOCK, min(2 * width, ROOM // offsets.size))
    return Limits(size, hour)


def budget_limit(slack: Floats, clock: Integers, load: Floats, offsets: Integers, calls: Integers) -> Limits:
    """Limit by the hours that may be called: the (calls + 1)-th smallest H/s.

    Attained, since an hour is called only where the load exceeds its slack.

    Parameters
    ----------
    slack, clock, load, offsets
        As for `residual_limit`.
    calls : array of shape (budgets,)
        Hours that may be called, at least 0.

    Returns
    -------
    Limits
        Shape (budgets, offsets); inf where every hour may be called.

    Examples
    --------
    >>> one, hours, offsets = np.ones(1), np.arange(3), np.zeros(1, int)
    >>> budget_limit(np.array([0.0, 5.0, 9.0]), hours, one, offsets, np.array([0, 2, 3])).size.ravel()
    array([ 0.,  9., inf])
    """
    size, hour = np.full((calls.size, offsets.size), np.inf), np.full((calls.size, offsets.size), -1)
    ranks = np.unique(calls[calls < slack.size])
    if not ranks.size:
        return Limits(size, hour)
    # The ratios of the first hours bound the order statistic; no hour beyond that bound is among the smallest.
    head = slice(0, int(ranks[-1]) + 1)
    bound = ratio(slack[head], laid(load, clock[head], offsets)).max()
    kept = slice(0, int(np.searchsorted(slack / load.max(), bound, side="right")))
    found = ratio(slack[kept], laid(load, clock[kept], offsets))
    order = np.argpartition(found, ranks, axis=1)
    rows = np.arange(offsets.size)
    for row, rank in enumerate(calls):
        if rank < slack.size:
            hour[row] = order[:, rank]
            size[row] = found[rows, hour[row]]
    hour[np.isinf(size)] = -1
    return Limits(size, hour)


def response(slack: Floats, clock: Integers, load: Floats, offsets: Integers, sizes: Floats, marked: Mask) -> Response:
    """Count the hours, events and the longest event that loads of some sizes call for.

    Parameters
    ----------
    slack, clock, load, offsets
        As for `residual_limit`.
    sizes : array of shape (cases, offsets)
        MW; an infinite size counts every hour with a load.
    marked : array of shape (hours,)
        Hours of which one wants to know whether they are called.

    Returns
    -------
    Response
        Shape (cases, offsets).
    """
    kept = np.arange(int(np.searchsorted(slack / load.max(), sizes.max(initial=0.0), side="left")))
    kept = kept[np.argsort(clock[kept], kind="stable")]
    found = ratio(slack[kept], laid(load, clock[kept], offsets))
    follows = np.diff(clock[kept], prepend=-2) == 1
    unique, back = np.unique(sizes, axis=0, return_inverse=True)
    counts = [_count(found < size[:, None], follows, marked[kept]) for size in unique]
    events, hours, longest, touched = (np.stack(part)[back.ravel()] for part in zip(*counts, strict=True))
    return Response(events, hours, longest, touched)


def _count(called: Mask, follows: Mask, marked: Mask) -> tuple[Integers, Integers, Integers, Mask]:
    starts = called.copy()
    starts[:, 1:] &= ~(called[:, :-1] & follows[1:])
    place = np.arange(1, called.shape[1] + 1, dtype=np.int32)
    # Within an event hours lie side by side, so that its length is a difference of places.
    begun = np.maximum.accumulate(np.where(starts, place, 0), axis=1)
    longest = np.where(called, place + 1 - begun, 0).max(axis=1, initial=0)
    touched = np.asarray(called[:, marked].any(axis=1))
    return starts.sum(axis=1), called.sum(axis=1), longest.astype(np.int64), touched


def can_bind(slack: Floats, load: Floats, relief: Floats, calls: int) -> Mask:
    """Tell which hours can decide a screen of one alignment: a screen of those alone has the same result.

    Any single hour bounds the size by its residual, and any calls + 1 hours by the highest of their ratios; an hour
    that asks for no call at the lower of such bounds asks for none at any size that is admissible.

    Parameters
    ----------
    slack, load, relief : array of shape (hours,)
        MW, per unit, per unit; in any order.
    calls
        Hours that may be called.

    Returns
    -------
    array of bool, shape (hours,)
    """
    residual, whole = ratio(slack, load - relief), ratio(slack, load)
    bound = min(residual.min(), np.partition(whole, calls)[calls] if calls < whole.size else np.inf)
    return np.asarray(whole <= bound)
