"""What holds fleets back in a solved network: each limit of their terms, how far it is used, how often it binds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import pypsa

from pypsa_aidc.network.loads.fleet.audit import TOLERANCE
from pypsa_aidc.network.loads.fleet.budgets import SHEDDING, budget_periods
from pypsa_aidc.network.loads.fleet.operation import Operation, operations
from pypsa_aidc.network.loads.fleet.windows import relief_windows
from pypsa_aidc.units import SLOT_TOLERANCE

if TYPE_CHECKING:
    from pypsa_aidc.network.loads.fleet.fleet import Fleet

Row = tuple[str, float, float, str, int]
"""Name of the limit, what is used of it, what is allowed, unit, how often it is reached."""

_COLUMNS = ("limit", "used", "allowed", "unit", "reached")


def limit_table(n: pypsa.Network, fleets: Mapping[str, Fleet]) -> pd.DataFrame:
    """List the limits of some fleets of a solved network; see `Results.fleet_limits`."""
    table: list[dict[str, object]] = []
    sized: set[str] = set()
    for each in operations(n, fleets):
        name, period = each.fleet.name, each.window.period
        rows = [] if name in sized else list(_size(n.generators.loc[name], each))
        sized.add(name)
        rows += _on_relief(each)
        when = "" if period is None else f", period {period}"
        table += [{"fleet": name} | dict(zip(_COLUMNS, (row[0] + when, *row[1:]), strict=True)) for row in rows]
    return pd.DataFrame(table, columns=["fleet", *_COLUMNS])


def _size(static: pd.Series, each: Operation) -> Iterator[Row]:
    if not static["p_nom_extendable"]:
        return
    near = _near(each)
    least, most = float(static["p_nom_min"]), float(static["p_nom_max"])
    yield "largest size", each.size, most, "MW", int(each.size >= most - near)
    if least > 0:
        yield "least size", each.size, least, "MW", int(each.size <= least + near)


def _on_relief(each: Operation) -> Iterator[Row]:
    terms = each.fleet.terms
    if terms.form == "firm":
        return
    if terms.form == "path":
        most = each.share * each.size
        yield "relief along its series", *_highest(each.relief, most), "MW", _reached(each.relief, most, each)
    if terms.form == "calls":
        yield from _on_calls(each)
    if terms.form == "windows" or terms.chains:
        yield from _on_windows(each)
    yield from _on_budgets(each)


def _on_calls(each: Operation) -> Iterator[Row]:
    """Depth by duration, pauses, and the speed of the rebound."""
    terms, slots, events = each.fleet.terms, each.window.slots, each.events
    called = np.array([each.call[start] for start, _, _ in events])
    depth = np.array([depth for _, _, depth in events])
    for duration, share in zip(terms.durations, terms.depths, strict=True):
        own = depth[np.abs(called - duration) < SLOT_TOLERANCE] if len(events) else depth
        if len(own):
            most = share * each.size
            reached = int((own >= most - _near(each)).sum())
            yield f"depth of calls of {duration} h", float(own.max()), most, "MW", reached
    for pause in sorted(set(terms.recovery) - {0.0}):
        kinds = {hours for hours, own in zip(terms.durations, terms.recovery, strict=True) if own == pause}
        waits = [
            (float(slots.ends[start] - slots.ends[stop]), float(slots.hours[start - 1]))
            for (first, stop, _), (start, _, _) in pairwise(events)
            if round(each.call[first]) in kinds
        ]
        if waits:
            # A call that could not have come a snapshot earlier was held back.
            reached = sum(wait - slot < pause - SLOT_TOLERANCE for wait, slot in waits)
            yield "pause after calls, at least", min(wait for wait, _ in waits), pause, "h", reached
    if terms.rebound and each.rebound.max(initial=0.0) > _near(each):
        fastest = each.rebound_share * each.size
        yield "speed of the rebound", *_highest(each.rebound, fastest), "MW", _reached(each.rebound, fastest, each)


def _on_windows(each: Operation) -> Iterator[Row]:
    """The windows of each length that are full, or else the fullest of all."""
    slots = each.window.slots
    start, stop, energy = relief_windows(each.fleet.terms, slots)
    allowed = energy * each.size
    passed = np.concatenate([[0.0], np.cumsum(each.relief * slots.hours)])
    shed = passed[stop] - passed[start]
    hours = np.round(slots.ends[stop] - slots.ends[start], 9)
    full = (shed >= allowed - _near(each) * np.maximum(hours, 1.0)) & (allowed > 0)
    # Where no window is full, the fullest tells how much is left.
    filled = np.divide(shed, allowed, out=np.zeros_like(shed), where=allowed > 0)
    shown = np.unique(hours[full]) if full.any() else hours[[filled.argmax()]]
    for length in shown:
        own = np.flatnonzero(hours == length)
        fullest = own[filled[own].argmax()]
        yield (
            f"relief in windows of {length:g} h",
            float(shed[fullest]),
            float(allowed[fullest]),
            "MWh",
            int(full[own].sum()),
        )


def _on_budgets(each: Operation) -> Iterator[Row]:
    terms, slots = each.fleet.terms, each.window.slots
    if not terms.has_budget:
        return
    events = each.events
    shedding = np.zeros(len(slots))
    for start, stop, _ in events:
        shedding[start:stop] = 1.0
    starts = np.array([start for start, _, _ in events], dtype=int)
    shortest = float(terms.durations[0]) if terms.durations else float(slots.hours.min())
    for label, inside in budget_periods(each.fleet, each.snapshots, each.window.period):
        when = "" if label.startswith(("horizon", "period")) else f", {label}"
        if terms.hours is not None:
            used = float((slots.hours * shedding)[inside].sum())
            # A budget binds as soon as no further call fits into what is left of it.
            reached = int(terms.hours - used < shortest - SLOT_TOLERANCE)
            yield f"hours of relief{when}", used, float(terms.hours), "h", reached
        if terms.events is not None:
            count = int(inside[starts].sum())
            yield f"number of calls{when}", float(count), float(terms.events), "calls", int(count >= terms.events)


def _highest(power: np.ndarray, most: np.ndarray) -> tuple[float, float]:
    return float(power.max(initial=0.0)), float(most.max(initial=0.0))


def _reached(power: np.ndarray, most: np.ndarray, each: Operation) -> int:
    """Snapshots with power that is as high as it may be."""
    return int(((power > SHEDDING * max(each.size, 1.0)) & (power >= most - _near(each))).sum())


def _near(each: Operation) -> float:
    return TOLERANCE * max(1.0, each.size)
