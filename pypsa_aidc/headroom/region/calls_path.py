"""Calls of limited depth on one bus: the cheapest way to cover the hours over the cap, as a shortest path.

A call of class h lasts h whole hours and can shed up to κ_h per unit of size in each of them. The states of the path
are hours and calls made so far, its length the hours called. For a given size it answers whether the calls suffice; the
largest size follows by bisection over the finite set of ratios at which an hour changes sides, hence exactly.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pandas as pd

from pypsa_aidc.errors import Faults
from pypsa_aidc.fleet.windows import Floats
from pypsa_aidc.headroom.region.peak_cap import Mask, ratio

_NEVER = np.iinfo(np.int64).max // 4


@dataclass(frozen=True)
class CallRules:
    """What calls a contract allows.

    Attributes
    ----------
    depths
        κ by duration, h: what a call of that length sheds at most, per unit of size, at least 0. Usually K over the
        peak of the load, for the reliability agreed on.
    hours
        Most hours called in all, at least 0; None for any number.
    events
        Most calls, at least 0; None for any number.
    recovery
        Hours after a call in which there is no relief, at least 0: one number, or one for each duration. With 0,
        calls may follow each other, and a chain of short calls reaches the depth of the short call for longer.

    Raises
    ------
    InputError
        No durations, numbers out of range, a recovery for durations that are not offered.

    Examples
    --------
    >>> CallRules({1: 0.05, 4: 0.04}, events=3, recovery=4).after(1)
    4
    """

    depths: Mapping[int, float]
    hours: int | None = None
    events: int | None = None
    recovery: int | Mapping[int, int] = field(default=0)

    def __post_init__(self) -> None:
        faults = Faults("Call rules")
        faults.require(len(self.depths) > 0, "depths", dict(self.depths), "at least one duration")
        for duration, depth in self.depths.items():
            faults.number("depths, duration", duration, at_least=1, integer=True)
            faults.number(f"depths[{duration}]", depth, at_least=0)
        for name, value in (("hours", self.hours), ("events", self.events)):
            if value is not None:
                faults.number(name, value, at_least=0, integer=True, remedy="None for any number.")
        if isinstance(self.recovery, Mapping):
            same = set(self.recovery) == set(self.depths)
            faults.require(same, "recovery", sorted(self.recovery), f"the durations {sorted(self.depths)}")
        pauses = self.recovery.values() if isinstance(self.recovery, Mapping) else [self.recovery]
        for pause in pauses:
            faults.number("recovery", pause, at_least=0, integer=True)
        faults.raise_any()

    def after(self, duration: int) -> int:
        """Hours without relief after a call of a duration."""
        return int(self.recovery[duration] if isinstance(self.recovery, Mapping) else self.recovery)


@dataclass(frozen=True)
class CallPlan:
    """Largest size that calls can keep under a cap.

    Attributes
    ----------
    size
        MW; inf where nothing limits.
    hour
        Position of the hour whose ratio is that size; −1 where nothing limits.
    calls : pandas.DataFrame
        A plan with the fewest called hours at that size: `start` (position), `duration` (h), `depth` (MW, what the
        deepest hour of the call needs).
    budget_binds
        Whether more hours or calls would admit a larger size.
    """

    size: float
    hour: int
    calls: pd.DataFrame
    budget_binds: bool


def cover(size: float, slack: Floats, load: Floats, rules: CallRules) -> list[tuple[int, int]] | None:
    """Find calls that keep a load of a given size under the cap, with the fewest called hours.

    Parameters
    ----------
    size
        MW, at least 0.
    slack : array of shape (hours,)
        P_cap − D of consecutive hours, MW.
    load : array of shape (hours,)
        s, per unit.
    rules
        What calls there are; a call ends within the hours given.

    Returns
    -------
    list of (int, int) or None
        Start and duration, h, of each call, ascending; None if no calls suffice.

    Examples
    --------
    >>> cover(10.0, np.array([12.0, 9.8, 12.0, 12.0]), np.ones(4), CallRules({1: 0.01, 2: 0.03}))
    [(0, 2)]
    >>> cover(10.0, np.array([12.0, 9.8, 12.0, 12.0]), np.ones(4), CallRules({1: 0.01})) is None
    True
    """
    path = _Path.of(slack, load, rules)
    short, kept = path.shortened(size, rules)
    calls = short.cover(size, rules)
    return None if calls is None else [(int(kept[start]), duration) for start, duration in calls]


def largest_size(slack: npt.ArrayLike, load: npt.ArrayLike, rules: CallRules) -> CallPlan:
    """Largest size that calls can keep under the cap.

    Parameters
    ----------
    slack, load, rules
        As for `cover`; slack at least 0.

    Returns
    -------
    CallPlan

    Raises
    ------
    InputError
        Arrays of different length, NaN, a negative slack (no size is admissible), a negative load.

    Examples
    --------
    >>> plan = largest_size([20.0, 9.5, 9.8, 20.0], np.ones(4), CallRules({1: 0.06, 2: 0.05}, recovery=1))
    >>> float(plan.size), plan.calls[["start", "duration"]].to_numpy().tolist()
    (10.0, [[1, 2]])
    """
    room, share = np.asarray(slack, dtype=float), np.asarray(load, dtype=float)
    faults = Faults("Calls under a cap")
    faults.require(room.ndim == 1 and room.size > 0, "slack", f"shape {room.shape}", "one value for each hour")
    faults.require(room.shape == share.shape, "load", f"shape {share.shape}", f"that of slack, {room.shape}")
    for name, values in (("slack", room), ("load", share)):
        bad = np.flatnonzero(~np.isfinite(values) | (values < 0))
        if bad.size:
            faults.add(f"{name}, hour {bad[0]}", float(values.flat[bad[0]]), "a finite number of at least 0")
    faults.raise_any()
    path = _Path.of(room, share, rules)
    size, hour = path.largest(rules)
    free = CallRules(rules.depths, recovery=rules.recovery)
    limited = rules.hours is not None or rules.events is not None
    binds = limited and np.isfinite(size) and path.largest(free)[0] > size
    calls = cover(size, room, share, rules) or []
    deepest = np.where(np.isfinite(size), size, 0.0) * share - room
    table = pd.DataFrame(calls, columns=["start", "duration"], dtype=np.int64)
    depth = [max(float(deepest[start : start + duration].max()), 0.0) for start, duration in calls]
    return CallPlan(size, hour, table.assign(depth=np.array(depth, dtype=float)), binds)


@dataclass(frozen=True)
class _Path:
    """Ratios at which hours change sides; `whole` asks for a call above it, `within[h]` breaks a call of class h."""

    whole: Floats
    within: dict[int, Floats]

    @classmethod
    def of(cls, slack: Floats, load: Floats, rules: CallRules) -> _Path:
        depths = {duration: rules.depths[duration] for duration in sorted(rules.depths)}
        return cls(ratio(slack, load), {h: ratio(slack, np.maximum(load - depth, 0.0)) for h, depth in depths.items()})

    @property
    def highest(self) -> float:
        """Size beyond which some hour is over the cap whatever is called."""
        return float(np.max(list(self.within.values()), axis=0).min())

    def shortened(self, size: float, rules: CallRules) -> tuple[_Path, npt.NDArray[np.int64]]:
        """Cut idle stretches down to what calls on both sides of them can reach, for sizes up to a given one.

        Returns the path of the hours that stay, and their positions; it has the same calls.
        """
        reach = max(h + rules.after(h) for h in self.within)
        need = np.flatnonzero(self.whole < size)
        edges = np.zeros(self.whole.size + 1, np.int64)
        np.add.at(edges, np.maximum(need - reach, 0), 1)
        np.add.at(edges, np.minimum(need + reach + 1, self.whole.size), -1)
        kept = np.flatnonzero(np.cumsum(edges[:-1]) > 0)
        return _Path(self.whole[kept], {h: part[kept] for h, part in self.within.items()}), kept

    def largest(self, rules: CallRules) -> tuple[float, int]:
        """Bisect over the ratios: what is feasible at one is feasible at every smaller one."""
        highest = self.highest
        short, _ = self.shortened(highest, rules)
        ratios = np.concatenate([short.whole, *short.within.values(), [highest]])
        sizes = np.unique(ratios[(ratios >= min(self.whole.min(), highest)) & (ratios <= highest)])
        low, high = 0, sizes.size - 1
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if short.cover(sizes[middle], rules) is not None else (low, middle - 1)
        size = float(sizes[low])
        everywhere = np.concatenate([self.whole, *self.within.values()])
        return size, -1 if np.isinf(size) else int(np.flatnonzero(everywhere == size)[0]) % self.whole.size

    def cover(self, size: float, rules: CallRules) -> list[tuple[int, int]] | None:
        """Find the shortest path for one size."""
        need = self.whole < size
        if not need.any():
            return []
        hours, needed = need.size, np.flatnonzero(need)
        durations = [h for h in self.within if h <= hours]
        starts = {h: self._starts(h, size, need, rules.after(h)) for h in durations}
        # Between calls only hours shortly before a needed one matter: elsewhere a call would cover nothing.
        longest = max(self.within)
        near = (needed[:, None] - np.arange(longest)[None, :]).ravel()
        nodes = np.append(np.unique(near[near >= 0]), hours)
        # Each call covers a needed hour: as many calls as there are such hours need not be counted.
        shift = int(rules.events is not None and rules.events < needed.size)
        counted = 1 + shift * (rules.events or 0)
        used = np.full((nodes.size, counted), _NEVER)
        used[0, 0] = 0
        targets = {h: np.searchsorted(nodes, np.minimum(nodes + h + rules.after(h), hours)) for h in durations}
        for place, start in enumerate(nodes[:-1]):
            row = used[place]
            if row.min() >= _NEVER:
                continue
            if not need[start]:
                np.minimum(used[place + 1], row, out=used[place + 1])
            for h in durations:
                if starts[h][start]:
                    target = used[targets[h][place]]
                    np.minimum(target[shift:], row[: counted - shift] + h, out=target[shift:])
        budget = _NEVER - 1 if rules.hours is None else rules.hours
        if used[-1].min() > budget:
            return None
        return _backwards(used, nodes, need, starts, targets, shift)

    def _starts(self, h: int, size: float, need: Mask, pause: int) -> Mask:
        """Tell where a call of h hours can start: deep enough, of use, and nothing needed while it recovers."""
        broken = np.concatenate([[0], np.cumsum(need & (self.within[h] < size))])
        asked = np.concatenate([[0], np.cumsum(need)])
        begin = np.arange(need.size - h + 1)
        end, rest = begin + h, np.minimum(begin + h + pause, need.size)
        possible = np.zeros(need.size, bool)
        possible[: begin.size] = (
            (broken[end] == broken[begin]) & (asked[end] > asked[begin]) & (asked[rest] == asked[end])
        )
        return possible


def _backwards(
    used: npt.NDArray[np.int64],
    nodes: npt.NDArray[np.int64],
    need: Mask,
    starts: dict[int, Mask],
    targets: dict[int, npt.NDArray[np.int64]],
    shift: int,
) -> list[tuple[int, int]]:
    """Read the calls off the labels, from the end."""
    place, count = used.shape[0] - 1, int(used[-1].argmin())
    calls: list[tuple[int, int]] = []
    while place > 0:
        length = used[place, count]
        if not need[nodes[place - 1]] and used[place - 1, count] == length:
            place -= 1
            continue
        place, h = next(
            (before, h)
            for h, reached in targets.items()
            for before in np.flatnonzero(reached[:place] == place)
            if starts[h][nodes[before]] and count >= shift and used[before, count - shift] + h == length
        )
        count -= shift
        calls.append((int(nodes[place]), int(h)))
    return calls[::-1]
