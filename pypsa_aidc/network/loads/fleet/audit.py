"""The audit of fleets: their terms checked again from the calls and series that a solved network holds."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pypsa

from pypsa_aidc.network.loads.fleet.budgets import budget_periods
from pypsa_aidc.network.loads.fleet.operation import Operation, operations
from pypsa_aidc.network.loads.fleet.windows import relief_windows
from pypsa_aidc.network.loads.protocol import Check

if TYPE_CHECKING:
    from pypsa_aidc.network.loads.fleet.fleet import Fleet

TOLERANCE = 1e-6
"""Share of the size of a fleet by which a power may be off; hours and counts may be off by as much as it is."""


def checks(n: pypsa.Network, fleet: Fleet) -> Iterator[Check]:
    """Check a fleet of a solved network: load, relief, calls, budgets, pauses and the energy drawn again.

    Raises
    ------
    NotSolvedError
        Nothing was solved with fleets.
    """
    static = n.generators
    for each in operations(n, {fleet.name: fleet}):
        period = each.window.period
        where = fleet.name if period is None else f"{fleet.name}, period {period}"
        near = TOLERANCE * max(1.0, each.size)
        if static.at[fleet.name, "p_nom_extendable"]:
            sizes = static.loc[list(fleet.generators), "p_nom_opt"].to_numpy(float)
            yield Check("one size", where, float(np.ptp(sizes)), "MW", near)
        yield Check("load of its profile", where, _most(np.abs(each.load - each.profile * each.size)), "MW", near)
        if fleet.terms.form == "firm":
            continue
        yield Check("relief within load", where, _most(each.relief - each.load), "MW", near)
        yield Check("relief within its share", where, _most(each.relief - each.share * each.size), "MW", near)
        yield Check("relief of at least 0", where, _most(-each.relief), "MW", near)
        yield from _spent(each, where)
        if fleet.terms.form == "calls":
            yield from _calls(each, where, near)
        if fleet.terms.form == "windows" or fleet.terms.chains:
            start, stop, energy = relief_windows(fleet.terms, each.window.slots)
            shed = np.concatenate([[0.0], np.cumsum(each.relief * each.window.slots.hours)])
            over = shed[stop] - shed[start] - energy * each.size
            yield Check("relief in every window", where, _most(over), "MWh", near * fleet.terms.durations[-1])


def _spent(each: Operation, where: str) -> Iterator[Check]:
    """Hours and events against their budgets, hours from the relief itself."""
    terms, hours = each.fleet.terms, each.window.slots.hours
    if not terms.has_budget:
        return
    shedding = np.zeros(len(hours))
    for start, stop, _ in each.events:
        shedding[start:stop] = 1.0
    starts = np.array([start for start, _, _ in each.events], dtype=int)
    for label, inside in budget_periods(each.fleet, each.snapshots, each.window.period):
        if terms.hours is not None:
            yield Check(
                "hours of calls",
                f"{where}, {label}",
                float((hours * shedding)[inside].sum() - terms.hours),
                "h",
                1e-6,
            )
        if terms.events is not None:
            yield Check(
                "number of calls", f"{where}, {label}", float(inside[starts].sum() - terms.events), "calls", 1e-6
            )


def _calls(each: Operation, where: str, near: float) -> Iterator[Check]:
    terms, hours, events = each.fleet.terms, each.window.slots.hours, each.events
    ends = each.window.slots.ends
    durations = np.array(terms.durations, dtype=float)
    called = each.call[each.call > 0]
    distance = np.abs(called[:, None] - durations).min(axis=1) if len(called) else np.zeros(0)
    yield Check("durations of calls", where, _most(distance), "h", 1e-6)
    kinds = [int(np.abs(durations - each.call[start]).argmin()) for start, _, _ in events]
    over = [depth - terms.depths[kind] * each.size for (_, _, depth), kind in zip(events, kinds, strict=True)]
    yield Check("depth of calls", where, _most(over), "MW", near)
    allowed, pauses = np.zeros(len(hours)), []
    for (start, stop, depth), kind in zip(events, kinds, strict=True):
        allowed[start:stop] += depth
        pauses.append((ends[start], ends[stop], terms.recovery[kind]))
    yield Check("relief in calls", where, _most(each.relief - allowed), "MW", near)
    if terms.block:
        yield Check("whole depth of calls", where, _most(allowed - each.relief), "MW", near)
    early = [stop + pause - start for (_, stop, pause), (start, _, _) in pairwise(pauses)]
    yield Check("pause after calls", where, _most(early), "h", 1e-6)
    if terms.rebound:
        yield from _returned(each, where, allowed, near)


def _returned(each: Operation, where: str, allowed: np.ndarray, near: float) -> Iterator[Check]:
    """Energy balance of the rebound, its speed, and when it must not or no longer be."""
    terms, hours = each.fleet.terms, each.window.slots.hours
    lost = np.zeros(len(hours))
    for start, _, depth in each.events:
        lost[start] = depth * terms.checkpoint / 2
    owed = np.cumsum(terms.rebound * (each.relief * hours + lost) - each.rebound * hours)
    before = [owed[start - 1] for start, _, _ in each.events if start > 0]
    energy = near * max(1.0, float(terms.durations[-1]))
    yield Check("energy drawn again at the end", where, abs(float(owed[-1])), "MWh", energy)
    yield Check("energy drawn again before calls", where, _most(np.abs(before)), "MWh", energy)
    yield Check("rebound not ahead of calls", where, _most(-owed), "MWh", energy)
    yield Check("no rebound in calls", where, _most(each.rebound[allowed > 0]), "MW", near)
    yield Check("rebound within its share", where, _most(each.rebound - each.rebound_share * each.size), "MW", near)


def _most(violations: object) -> float:
    return float(np.max(np.asarray(violations, dtype=float), initial=0.0))
