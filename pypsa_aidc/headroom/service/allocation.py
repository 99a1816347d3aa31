"""Sizes of a batch of loads within common limits: by the order of the queue, pro rata, or the largest sum."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import coo_array, csr_array

from pypsa_aidc.errors import NotSolvedError
from pypsa_aidc.headroom.bus.base_case import Floats, Integers
from pypsa_aidc.headroom.bus.response import Response, largest_site
from pypsa_aidc.headroom.service.limits import Limits, Rows
from pypsa_aidc.headroom.service.request import Budget

Fairness = Literal["queue", "pro rata", "largest sum"]
FAIRNESS = ("queue", "pro rata", "largest sum")
_ROUNDS = 200
_TIGHT = 1e-6
_GAP = 1e-7
_TIME = 120.0
"""Seconds after which a mixed-integer programme has to do with what it has found."""


@dataclass(frozen=True, eq=False)
class Hours:
    """The hours of a study.

    Attributes
    ----------
    weight : numpy.ndarray
        Hours a year that each snapshot stands for, shape (T,).
    step : float
        Hours from one snapshot to the next.
    first : numpy.ndarray
        Whether a snapshot does not follow the one before it, shape (T,).
    """

    weight: Floats
    step: float
    first: NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Terms:
    """What decides the conditional size of one load: a budget, windows of relief, or neither."""

    budget: Budget | None = None
    windows: tuple[tuple[int, float], ...] = ()

    @property
    def firm(self) -> bool:
        """Whether it may not be cut at all."""
        return self.budget is None and not self.windows


@dataclass(frozen=True, eq=False)
class Allocation:
    """Sizes, draws, and the rows that were met on the way.

    Attributes
    ----------
    size : numpy.ndarray
        MW, shape (I,).
    draw : numpy.ndarray
        MW, shape (I, T); below the size where the load is cut.
    rows : Rows
    gap : float
        Share by which the sum may be below the largest; 0 where it is exact.
    """

    size: Floats
    draw: Floats
    rows: Rows
    gap: float = 0.0


def firm_sizes(limits: Limits, most: Floats, hours: int, fairness: Fairness) -> Allocation:
    """Sizes that hold in every hour and outage.

    Parameters
    ----------
    limits
        Of the network.
    most
        Nameplates, MW, shape (I,).
    hours
        T.
    fairness
        ``"queue"``: the first gets all it can have, the next what is left. ``"pro rata"``: equal shares of the
        nameplates; where a load can get no more, the others go on. ``"largest sum"``.
    """
    if fairness != "queue":
        terms = [Terms()] * most.size
        return _joint(limits, most, terms, _every_hour(hours), np.zeros(most.size), fairness)
    size, rows = np.zeros(most.size), Rows.none(most.size)
    for load in range(most.size):
        size[load] = most[load]
        for _ in range(_ROUNDS):
            draw = np.repeat(size[:, None], hours, axis=1)
            found = limits.broken(draw, load)
            if not len(found):
                break
            rows = rows.and_(found)
            size[load] = min(size[load], float(rows.most(load, draw).min()))
        else:
            raise NotSolvedError(f"study: sizes did not settle within {_ROUNDS} rounds.")
    return Allocation(size, np.repeat(size[:, None], hours, axis=1), rows)


def conditional_sizes(
    limits: Limits, most: Floats, terms: Sequence[Terms], hours: Hours, firm: Allocation, fairness: Fairness
) -> Allocation:
    """Largest sizes with which each load is cut no more than its terms allow; firm megawatts are never cut.

    Parameters
    ----------
    limits, most, fairness
        As of `firm_sizes`.
    terms
        Of each load.
    hours
        Of the study.
    firm
        The firm sizes.
    """
    if all(each.firm for each in terms):
        return firm
    if fairness != "queue":
        return _joint(limits, most, terms, hours, firm.size, fairness, firm.rows)

    def sized(load: int, room: Floats) -> float:
        if terms[load].firm:
            return float(firm.size[load])
        size = _largest(np.where(room < most[load] * (1 - 1e-12), room, np.inf), float(most[load]), terms[load], hours)
        return max(size, float(firm.size[load]))

    return _in_order(limits, most, firm, sized)


def served(
    limits: Limits, size: Floats, firm: Allocation, hours: Hours, fairness: Fairness, rows: Rows | None = None
) -> Allocation:
    """Draws of loads of given sizes, cut as little as the limits ask for; firm megawatts only if they do not fit.

    By queue the last is cut first; otherwise the sum of all cuts is the least in each hour.
    """
    if fairness == "queue":
        return _in_order(limits, size, firm, lambda load, _: float(size[load]))
    programme = _Programme(limits, size, [Terms(Budget())] * size.size, hours, np.minimum(firm.size, size))
    programme.rows = firm.rows if rows is None else rows
    programme.fixed = dict(enumerate(size))
    return programme.least_cut()


def _in_order(limits: Limits, most: Floats, firm: Allocation, sized: Callable[[int, Floats], float]) -> Allocation:
    """Let one load after another draw what those ahead of it and the firm megawatts of those behind leave."""
    draw, size, rows = np.minimum(firm.draw, most[:, None]), firm.size.copy(), firm.rows
    for load in range(most.size):
        draw[load] = most[load]
        for _ in range(_ROUNDS):
            found = limits.broken(draw, load)
            if not len(found):
                break
            rows = rows.and_(found)
            draw[load] = np.minimum(draw[load], rows.most(load, draw))
        else:
            raise NotSolvedError(f"study: draws did not settle within {_ROUNDS} rounds.")
        size[load] = sized(load, draw[load])
        draw[load] = np.minimum(draw[load], size[load])
    return Allocation(size, draw, rows)


def _largest(room: Floats, most: float, terms: Terms, hours: Hours) -> float:
    """Largest size, at most `most`, that a load of its own may have where it can draw `room` in each hour."""
    if terms.windows:
        load = np.ones(room.size)
        size, _ = largest_site(room[None], Response(load, load, terms.windows))
        most = min(most, float(size[0]))
    if terms.budget is not None:
        most = min(most, within_budget(room, most, terms.budget, hours))
    return most


def within_budget(room: Floats, most: float, budget: Budget, hours: Hours) -> float:
    """Largest size up to which every size is cut within a budget: hours join in the order of their room.

    Parameters
    ----------
    room
        Most that can be drawn in each hour, MW, shape (T,).
    most
        Largest size that is asked for, MW.
    budget, hours
        Terms, and what they count.
    """
    lowest = float(room.min())
    if budget.depth < 1:
        most = min(most, lowest / (1 - budget.depth))
    order = np.argsort(room, kind="stable")
    order = order[room[order] < most * (1 - 1e-12)]
    cut = np.zeros(room.size, dtype=bool)
    start, end = np.arange(room.size), np.arange(room.size)  # of the event at each of its two ends
    used, events, position = 0.0, 0, 0
    while position < order.size:
        value = room[order[position]]
        while position < order.size and room[order[position]] <= value * (1 + 1e-12):
            t = int(order[position])
            left, right = t, t
            used, events = used + float(hours.weight[t]), events + 1
            if t > 0 and cut[t - 1] and not hours.first[t]:
                left, events = int(start[t - 1]), events - 1
            if t + 1 < room.size and cut[t + 1] and not hours.first[t + 1]:
                right, events = int(end[t + 1]), events - 1
            cut[t], end[left], start[right] = True, right, left
            long = budget.longest is not None and (right - left + 1) * hours.step > budget.longest + 1e-9
            if long or (budget.hours is not None and used > budget.hours + 1e-9):
                return float(value)
            position += 1
        if budget.events is not None and events > budget.events:
            return float(value)
    return most


def _joint(
    limits: Limits,
    most: Floats,
    terms: Sequence[Terms],
    hours: Hours,
    firm: Floats,
    fairness: Fairness,
    rows: Rows | None = None,
) -> Allocation:
    programme = _Programme(limits, most, terms, hours, firm)
    if rows is not None:
        programme.rows = rows
    for load in range(most.size):
        if most[load] <= 0 or (terms[load].firm and rows is not None):
            programme.fixed[load] = float(firm[load])
    if fairness == "largest sum":
        found = programme.largest(np.ones(most.size))
        programme.fixed = dict(enumerate(found.size))
    else:
        while len(programme.fixed) < most.size:
            active = [load for load in range(most.size) if load not in programme.fixed]
            share = programme.common_share(active)
            reached = {load: max(share * float(most[load]), float(firm[load])) for load in active}
            stuck = active if share >= 1 - 1e-9 else programme.stuck(reached)
            programme.fixed |= {load: reached[load] for load in stuck}
    return programme.least_cut()


class _Programme:
    """The mixed-integer programme of sizes L, cuts r and their events, over rows that are added as they are broken.

    Σ_i a_ri (L_i − r_it) ≤ m_r; r within the terms; without a budget there are no binaries. Only hours of rows have
    cuts: in others there is no reason for one.
    """

    def __init__(self, limits: Limits, most: Floats, terms: Sequence[Terms], hours: Hours, firm: Floats) -> None:
        self._limits, self._most, self._terms, self._hours, self._firm = limits, most, terms, hours, firm
        self.rows = Rows.none(most.size)
        self.fixed: dict[int, float] = {}
        self.gap = 0.0

    def largest(self, weights: Floats) -> Allocation:
        """Maximise the weighted sum of sizes."""
        return self._settled(lambda model: model.maximise(weights))

    def common_share(self, active: Sequence[int]) -> float:
        """Largest share of their nameplates that some loads can have together."""
        found = self._settled(lambda model: model.maximise_share(active))
        return float(min(found.size[load] / self._most[load] for load in active))

    def stuck(self, reached: dict[int, float]) -> list[int]:
        """Which loads can get no more than they have reached while the others keep theirs."""
        held = []
        before = dict(self.fixed)
        for load, size in reached.items():
            self.fixed = before | {other: value for other, value in reached.items() if other != load}
            weights = np.zeros(self._most.size)
            weights[load] = 1.0
            if self.largest(weights).size[load] <= size + _TIGHT * max(1.0, self._most[load]):
                held.append(load)
        self.fixed = before
        return held or list(reached)

    def least_cut(self) -> Allocation:
        """Sizes as they are fixed, cut as little as possible."""
        return self._settled(lambda model: model.minimise_cut())

    def _settled(self, solve: Callable[[_Model], tuple[Floats, Floats, float]]) -> Allocation:
        for _ in range(_ROUNDS):
            model = _Model(self.rows, self._most, self._terms, self._hours, self._firm, self.fixed)
            size, draw, gap = solve(model)
            found = self._limits.broken(draw)
            if not len(found):
                return Allocation(size, draw, self.rows, gap)
            self.rows = self.rows.and_(found)
        raise NotSolvedError(f"study: sizes did not settle within {_ROUNDS} rounds.")


class _Model:
    """One solve over the rows that are known."""

    def __init__(
        self,
        rows: Rows,
        most: Floats,
        terms: Sequence[Terms],
        hours: Hours,
        firm: Floats,
        fixed: dict[int, float],
    ) -> None:
        self._rows, self._hours, self._loads, self._fixed = rows, hours, most.size, fixed
        touched = np.unique(rows.snapshot)
        self._cut: dict[tuple[int, int], int] = {}
        self._on: dict[tuple[int, int], int] = {}
        entry: dict[int, float]
        lower = [fixed.get(load, float(firm[load])) for load in range(most.size)]
        upper = [fixed.get(load, float(most[load])) for load in range(most.size)]
        # A size that is fixed may be a solver's tolerance too large for the rows.
        lower = [value - _GAP * max(1.0, value) if load in fixed else value for load, value in enumerate(lower)]
        self._share = len(lower)
        lower.append(0.0)
        upper.append(1.0)
        integer = [0] * len(lower)
        entries: list[tuple[dict[int, float], float, float]] = []
        for load, term in enumerate(terms):
            if term.firm:
                continue
            kept = float(min(firm[load], upper[load])) * (1 - _GAP)
            for t in touched:
                self._cut[load, int(t)] = len(lower)
                lower.append(0.0)
                upper.append(float(most[load]))
                integer.append(0)
                entries.append(({self._cut[load, int(t)]: 1.0, load: -1.0}, -np.inf, -kept))
            if term.windows:
                entries += self._windows(load, term.windows)
            budget = term.budget
            if budget is None:
                continue
            if budget.depth < 1:
                entries += [({self._cut[load, int(t)]: 1.0, load: -budget.depth}, -np.inf, 0.0) for t in touched]
            if budget.hours is None and budget.longest is None and budget.events is None:
                continue
            for t in touched:
                self._on[load, int(t)] = len(lower)
                lower.append(0.0)
                upper.append(1.0)
                integer.append(1)
                entries.append(
                    ({self._cut[load, int(t)]: 1.0, self._on[load, int(t)]: -float(most[load])}, -np.inf, 0.0)
                )
            entries += self._budget(load, budget, touched, lower, upper, integer)
        for number in range(len(rows)):
            t = int(rows.snapshot[number])
            entry = {}
            for load in np.flatnonzero(rows.factor[number]).tolist():
                factor = float(rows.factor[number, load])
                entry[load] = factor
                if (load, t) in self._cut:
                    entry[self._cut[load, t]] = -factor
            entries.append((entry, -np.inf, float(rows.room[number])))
        self._lower, self._upper, self._integer = np.array(lower), np.array(upper), np.array(integer)
        self._entries = entries

    def maximise(self, weights: Floats) -> tuple[Floats, Floats, float]:
        """Maximise the weighted sum of sizes."""
        cost = np.zeros(self._lower.size)
        cost[: self._loads] = -weights
        return self._solve(cost, [])

    def maximise_share(self, active: Sequence[int]) -> tuple[Floats, Floats, float]:
        """Maximise the share of the nameplate that some loads have in common."""
        cost = np.zeros(self._lower.size)
        cost[self._share] = -1.0
        most = self._upper
        self._lower[list(active)] = 0.0
        return self._solve(cost, [({load: 1.0, self._share: -float(most[load])}, 0.0, np.inf) for load in active])

    def minimise_cut(self) -> tuple[Floats, Floats, float]:
        """Minimise the energy that is cut."""
        cost = np.zeros(self._lower.size)
        for (_, t), column in self._cut.items():
            cost[column] = float(self._hours.weight[t])
        return self._solve(cost, [])

    def _solve(self, cost: Floats, more: list[tuple[dict[int, float], float, float]]) -> tuple[Floats, Floats, float]:
        entries = self._entries + more
        where = [(number, column) for number, (entry, _, _) in enumerate(entries) for column in entry]
        values = [value for entry, _, _ in entries for value in entry.values()]
        shape = (len(entries), self._lower.size)
        constraints = []
        if entries:
            # Rows may hold no load at all.
            places = np.array(where, dtype=np.int64).reshape(-1, 2)
            matrix = csr_array(coo_array((values, (places[:, 0], places[:, 1])), shape=shape))
            constraints = [LinearConstraint(matrix, [low for _, low, _ in entries], [high for _, _, high in entries])]
        found = milp(
            cost,
            integrality=self._integer,
            bounds=Bounds(self._lower, self._upper),
            constraints=constraints,
            options={"mip_rel_gap": 1e-4, "time_limit": _TIME},
        )
        if found.x is None:
            raise NotSolvedError(f"study: HiGHS stopped with {found.message!r}.")
        gap = float(found.mip_gap) if self._integer.any() and found.mip_gap is not None else 0.0
        if self._integer.any():
            # A solver's 1e-6 of an event would be a cut of that share of the nameplate, which no later solve allows.
            whole = np.where(self._integer == 1, np.round(found.x), np.nan)
            lower, upper = (np.where(np.isnan(whole), bound, whole) for bound in (self._lower, self._upper))
            exact = milp(cost, bounds=Bounds(lower, upper), constraints=constraints, options={"time_limit": _TIME})
            found = exact if exact.x is not None else found
        size = np.maximum(found.x[: self._loads], 0.0)
        for load, value in self._fixed.items():
            size[load] = value
        draw = np.repeat(size[:, None], self._hours.weight.size, axis=1)
        for (load, t), column in self._cut.items():
            draw[load, t] -= found.x[column]
        return size, np.maximum(draw, 0.0), gap

    def _windows(self, load: int, windows: Sequence[tuple[int, float]]) -> list[tuple[dict[int, float], float, float]]:
        count = self._hours.weight.size
        entries = []
        for length, depth in windows:
            span = min(length, count)
            # A window holds what one that starts at a cut hour holds, or less.
            starts = {min(t, count - span) for (own, t) in self._cut if own == load}
            for start in sorted(starts):
                inside = [self._cut[load, t] for t in range(start, start + span) if (load, t) in self._cut]
                entries.append((dict.fromkeys(inside, 1.0) | {load: -length * depth}, -np.inf, 0.0))
        return entries

    def _budget(
        self, load: int, budget: Budget, touched: Integers, lower: list[float], upper: list[float], integer: list[int]
    ) -> list[tuple[dict[int, float], float, float]]:
        on = {int(t): self._on[load, int(t)] for t in touched}
        entries: list[tuple[dict[int, float], float, float]] = []
        if budget.hours is not None:
            entries.append(({on[t]: float(self._hours.weight[t]) for t in on}, -np.inf, budget.hours))
        first = self._hours.first
        if budget.longest is not None:
            span = int(budget.longest / self._hours.step + 1e-9) + 1
            for t in on:
                inside = range(t, t + span)
                if all(each in on for each in inside) and not first[t + 1 : t + span].any():
                    entries.append(({on[each]: 1.0 for each in inside}, -np.inf, span - 1.0))
        if budget.events is not None:
            starts: dict[int, float] = {}
            for t in on:
                column = len(lower)
                lower.append(0.0)
                upper.append(1.0)
                integer.append(0)
                starts[column] = 1.0
                entry = {on[t]: 1.0, column: -1.0}
                if t - 1 in on and not first[t]:
                    entry[on[t - 1]] = -1.0
                entries.append((entry, -np.inf, 0.0))
            entries.append((starts, -np.inf, float(budget.events)))
        return entries


def _every_hour(hours: int) -> Hours:
    return Hours(np.ones(hours), 1.0, np.zeros(hours, dtype=bool))
