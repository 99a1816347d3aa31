"""Hourly means of things that are held from one moment to another."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]


def occupancy(start: Floats, end: Floats, held: Floats, group: Integers, groups: int, first: int, hours: int) -> Floats:
    """Mean of what is held in each hour, for each group; exact for fractions of an hour.

    Parameters
    ----------
    start, end : array of shape (spans,)
        Hours; what lies outside ``first … first + hours`` is cut off.
    held : array of shape (spans,)
        Height of each rectangle, e.g. GPUs or MW.
    group : array of shape (spans,)
        Group of each span, 0 … groups − 1.
    groups, first, hours
        Number of groups, first hour of the axis, length of the axis.

    Returns
    -------
    array of shape (groups, hours)
        In the unit of `held`.

    Examples
    --------
    >>> one = np.array([0])
    >>> occupancy(np.array([0.5]), np.array([2.25]), np.array([4.0]), one, 1, 0, 4)
    array([[2., 4., 1., 0.]])
    """
    steps = np.zeros(groups * (hours + 2))
    for moment, sign in ((start, 1.0), (end, -1.0)):
        position = np.clip(moment - first, 0, hours)
        whole = np.floor(position).astype(np.int64)
        fraction = position - whole
        index = group * (hours + 2) + whole
        steps += np.bincount(index, sign * held * (1 - fraction), steps.size)
        steps += np.bincount(index + 1, sign * held * fraction, steps.size)
    level = np.cumsum(steps.reshape(groups, hours + 2), axis=1)[:, :hours]
    # Adding and taking away leaves rounding behind where nothing is held any more.
    noise = 1e-12 * np.abs(held).sum()
    return np.where(np.abs(level) <= noise, 0.0, level)
