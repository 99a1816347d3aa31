"""What loads of given sizes are cut in each hour: why, in which events, and what they deliver of it themselves."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from pypsa_aidc.errors import Faults
from pypsa_aidc.headroom.bus.base_case import Floats
from pypsa_aidc.headroom.service.allocation import Allocation, Hours
from pypsa_aidc.headroom.service.limits import Rows
from pypsa_aidc.headroom.service.request import UNITS, Relief, Unit
from pypsa_aidc.network import UPS, Cooling, Genset

NO_CAUSE = "unknown"
_CUT = 1e-6
"""Share of the size (at least 1 MW of it) up to which a difference is a rounding."""


def cuts(allocation: Allocation) -> Floats:
    """What each load is cut in each hour, MW, shape (I, T)."""
    cut = allocation.size[:, None] - allocation.draw
    return np.where(cut > _CUT * np.maximum(1.0, allocation.size[:, None]), cut, 0.0)


def events(cut: Floats, hours: Hours) -> list[tuple[int, int]]:
    """First and last hour of each event of one load."""
    on = cut > 0
    begins = np.flatnonzero(on & ~(np.r_[False, on[:-1]] & ~hours.first))
    ends = np.flatnonzero(on & ~(np.r_[on[1:], False] & ~np.r_[hours.first[1:], True]))
    return list(zip(begins.tolist(), ends.tolist(), strict=True))


def delivered(cut: Floats, size: float, relief: Relief | None, hours: Hours) -> Floats:
    """What a load itself leaves undrawn of its cuts, MW, shape (T,): as early as it can, which is the most in all.

    Over each window of h hours no more than h·κ_h·L, beyond the longest event that is known nothing, and no more hours
    than it has.
    """
    found = np.zeros(cut.size)
    if relief is None or not cut.any():
        return found
    left = relief.hours
    for begin, end in events(cut, hours):
        for t in range(begin, end + 1):
            inside = (t - begin + 1) * hours.step <= relief.longest + 1e-9
            if not inside or left < hours.step - 1e-9:
                break
            room = cut[t]
            for length, depth in relief.windows:
                start = max(0, t - length + 1)
                room = min(room, length * depth * size - float(found[start:t].sum()))
            found[t] = max(room, 0.0)
            left -= hours.step * (found[t] > 0)
    return found


def attributed(
    cut: Floats, size: float, relief: Relief | None, units: Sequence[Unit], hours: Hours, snapshots: pd.Index
) -> dict[str, Floats]:
    """What a load leaves undrawn of its cuts by source, MW, shape (T,): its relief, then its units, cheapest first."""
    found = {} if relief is None else {relief.source: delivered(cut, size, relief, hours)}
    for unit in sorted(units, key=lambda each: each.marginal_cost):
        left = cut - total(found, cut.size)
        left = np.where(left > _CUT * max(1.0, size), left, 0.0)
        if isinstance(unit, Genset):
            given = delivered(left, 1.0, Relief(((1, unit.p_nom),), hours=unit.run_hours), hours)
        elif isinstance(unit, Cooling):
            # In MW of heat, which each hour's COP makes of the megawatts.
            cop = unit.cop_of(snapshots, Faults("cooling"))
            given = _from_store(left * cop, cut, unit.heat, unit.e_nom, unit.loss, hours) / cop
        else:
            stored = unit.battery if isinstance(unit, UPS) else unit
            held = stored.e_nom * math.sqrt(stored.efficiency)
            given = _from_store(left, cut, stored.p_nom, held, 0.0, hours)
        name = UNITS[type(unit)]
        found[name] = found.get(name, np.zeros(cut.size)) + given
    return found


def _from_store(wanted: Floats, cut: Floats, megawatts: float, held: float, loss: float, hours: Hours) -> Floats:
    """What a store gives of what is wanted, shape (T,), as early as it can.

    It is not filled during an event of `cut`, and what was taken within a day before an event is not back at its begin.
    """
    found, day = np.zeros(cut.size), round(24 / hours.step)
    for begin, end in events(cut, hours):
        left = held - hours.step * float(found[max(0, begin - day) : begin].sum())
        for t in range(begin, end + 1):
            left *= (1 - loss) ** hours.step
            found[t] = min(wanted[t], megawatts, max(left, 0.0) / hours.step)
            left -= hours.step * found[t]
    return found


def total(sources: Mapping[str, Floats], count: int) -> Floats:
    """Sum of all sources, shape (T,)."""
    return sum(sources.values(), start=np.zeros(count))


def causes(allocation: Allocation, cut: Floats, rows: Rows) -> tuple[np.ndarray, np.ndarray]:
    """Element and outage that each load is cut for in each hour, shape (I, T), "" where it is not."""
    loads, count = cut.shape
    element, outage = np.full((loads, count), "", dtype=object), np.full((loads, count), "", dtype=object)
    slack = rows.slack(allocation.draw)
    for load in range(loads):
        # Nothing keeps it from drawing more but the row with the least room for it.
        with np.errstate(divide="ignore"):
            ratio = np.where(rows.factor[:, load] > 1e-9, slack / np.maximum(rows.factor[:, load], 1e-9), np.inf)
        order = np.lexsort((ratio, rows.snapshot))
        hours, first = np.unique(rows.snapshot[order], return_index=True)
        tightest = order[first]
        known = np.isfinite(ratio[tightest])
        place = dict(zip(hours[known].tolist(), tightest[known].tolist(), strict=True))
        for t in np.flatnonzero(cut[load] > 0):
            row = place.get(int(t))
            element[load, t] = NO_CAUSE if row is None else rows.element[row]
            outage[load, t] = "" if row is None else rows.outage[row]
    return element, outage


def summary(cut: Floats, given: Floats, size: float, hours: Hours) -> dict[str, float]:
    """Hours, events, longest event, depth and energy of the cuts of one load, and what it does not deliver."""
    found = events(cut, hours)
    on = cut > 0
    return {
        "hours": float(hours.weight[on].sum()),
        "events": float(len(found)),
        "longest": float(max(((end - begin + 1) for begin, end in found), default=0) * hours.step),
        "depth": float(cut.max() / size) if size > 0 else 0.0,
        "energy": float((hours.weight * cut).sum()),
        "delivered": float((hours.weight * given).sum()),
        "undelivered": float((hours.weight * (cut - given)).sum()),
        "shortfall": float((cut - given).max(initial=0.0)),
        "shortfall_hours": float(hours.weight[cut - given > _CUT * max(1.0, size)].sum()),
    }


def by_hour(
    names: Sequence[str],
    snapshots: pd.Index,
    allocation: Allocation,
    given: Floats,
    cut: Floats,
) -> pd.DataFrame:
    """Every hour in which a load is cut: `cut`, `delivered` and `undelivered` (MW), `element` and `outage`."""
    element, outage = causes(allocation, cut, allocation.rows)
    load, t = np.nonzero(cut > 0)
    return pd.DataFrame(
        {
            "request": np.array(names, dtype=object)[load],
            "snapshot": snapshots[t],
            "cut": cut[load, t],
            "delivered": given[load, t],
            "undelivered": cut[load, t] - given[load, t],
            "element": element[load, t],
            "outage": outage[load, t],
        }
    )
