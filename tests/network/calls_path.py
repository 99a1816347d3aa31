"""Calls of a fleet on one bus as a shortest path, written without the package: the second opinion for the MILP."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np


def largest_size(
    room: np.ndarray,
    profile: np.ndarray,
    depths: Mapping[int, float],
    recovery: int,
    hours: float = np.inf,
    events: float = np.inf,
) -> float:
    """Largest L for which every hour with L·s > H lies in a call as deep as its excess.

    Given L, the fewest hours of calls by hour and number of events is a shortest path; the answer is one of H/s and
    H/(s − κ), at which what has to be covered changes.
    """
    candidates = [room / profile]
    for depth in depths.values():
        deeper = profile > depth
        candidates.append(room[deeper] / (profile[deeper] - depth))
    sizes = np.unique(np.concatenate(candidates))
    low, high = 0, len(sizes) - 1
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (
            (middle, high) if fits(sizes[middle], room, profile, depths, recovery, hours, events) else (low, middle - 1)
        )
    return float(sizes[low])


def fits(
    size: float,
    room: np.ndarray,
    profile: np.ndarray,
    depths: Mapping[int, float],
    recovery: int,
    hours: float = np.inf,
    events: float = np.inf,
) -> bool:
    """Whether a fleet of this size gets by with its calls."""
    count = len(room)
    most = int(min(events, count))
    excess = profile * size - room
    needed = excess > 1e-9
    fewest = np.full((count + 1, most + 1), np.inf)
    fewest[0, 0] = 0.0
    for start in range(count):
        for used in range(most + 1):
            spent = fewest[start, used]
            if not np.isfinite(spent):
                continue
            if not needed[start]:
                fewest[start + 1, used] = min(fewest[start + 1, used], spent)
            for duration, depth in depths.items() if used < most else ():
                stop = start + duration
                after = min(count, stop + recovery)
                if stop > count or spent + duration > hours or needed[stop:after].any():
                    continue
                if (excess[start:stop] <= depth * size + 1e-9).all():
                    fewest[after, used + 1] = min(fewest[after, used + 1], spent + duration)
    return bool((np.isfinite(fewest[count]) & (fewest[count] <= hours)).any())
