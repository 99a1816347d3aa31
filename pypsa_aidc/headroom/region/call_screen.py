"""The peak-cap screen with calls whose depth K limits by their duration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product

import numpy as np

from pypsa_aidc.errors import Faults
from pypsa_aidc.fleet import Surface
from pypsa_aidc.headroom.region.calls_path import CallRules, largest_size
from pypsa_aidc.headroom.region.demand import HOUR, Demand
from pypsa_aidc.headroom.region.offsets import Offsets
from pypsa_aidc.headroom.region.profile import Profile
from pypsa_aidc.headroom.region.screen import BUDGET, NOTHING, RESIDUAL, Ordered, Screen
from pypsa_aidc.headroom.region.screening import (
    LIMITERS,
    allowed_calls,
    assembled,
    blank,
    check_cases,
    listed,
    period_labels,
)
from pypsa_aidc.progress import track


def call_depths(surface: Surface, reliability: float, peak: float) -> dict[int, float]:
    """Depth of calls by duration, κ_h = K_{α,h} over the peak of the load.

    Parameters
    ----------
    surface
        K of the fleet, at the meter.
    reliability
        α, on the grid of the surface or between its levels; then the next higher one stands in.
    peak
        Power that the size of the load is measured in, MW, above 0; for a profile of `profiles` the mean of
        `Envelope.peak`.

    Returns
    -------
    dict of int to float
        κ by duration, h, per unit; never more for a longer call.

    Raises
    ------
    InputError
        A duration without windows, a reliability the surface does not cover, a peak of 0.
    """
    faults = Faults("Depth of calls")
    faults.number("peak", peak, above=0)
    faults.raise_any()
    return {int(h): surface.at(float(h), reliability) / peak for h in surface.data["duration"].to_numpy()}


def screen_calls(
    demand: Demand,
    load: Profile,
    depths: Mapping[int, float],
    *,
    margin: float | Sequence[float] = 0.05,
    budget: float | Sequence[float] = 0.005,
    events: int | None = None,
    recovery: int = 1,
    offsets: Offsets | None = None,
) -> Screen:
    """Largest load under a regional peak cap whose relief comes in calls of whole hours, limited by K.

    Unlike in `screen`, a call of h hours counts h hours of the budget whatever is needed in them, sheds at most κ_h per
    unit of size, and is followed by hours without relief.

    Parameters
    ----------
    demand
        Consecutive hours, none missing.
    load
        Shape of the load; its relief is not used.
    depths
        κ by duration, h; see `call_depths`.
    margin
        m of P_cap = max D·(1 + m), at least 0.
    budget
        Share of all hours that may be called, 0 … 1; rounded down to hours.
    events
        Most calls; None for any number.
    recovery
        Hours without relief after each call, at least 1: without any, short calls could be chained into a long one.
    offsets
        As for `screen`.

    Returns
    -------
    Screen
        With the one profile ``"calls limited by K"``. `events` are calls, `hours` called hours, `longest` the longest
        call, of the plan with the fewest called hours.

    Raises
    ------
    InputError
        Missing hours of demand, numbers out of range.

    Warns
    -----
    DemandWarning
        As for `screen`.
    """
    faults = Faults("Peak-cap screen with calls")
    margins, budgets = listed(margin), listed(budget)
    shape = Profile("calls limited by K", load.load, 0 * load.load, load.synthetic, load.source)
    check_cases(demand, [shape], margins, budgets, "whole", faults)
    for value in margins:
        faults.number("margin", value, at_least=0)
    faults.number("recovery", recovery, at_least=1, integer=True)
    steps = np.diff(demand.clock)
    if (steps != 1).any():
        hole = demand.hours[int(np.flatnonzero(steps != 1)[0])] + HOUR
        faults.add("demand", f"no hour {hole} UTC", "consecutive hours", "Interpolate gaps instead of dropping them.")
    faults.raise_any()
    chosen = offsets or Offsets()
    delays = chosen.hours(load.load.size)
    caps = demand.peak * (1 + np.array(margins))
    calls = allowed_calls(budgets, period_labels(demand, "whole"))[:, 0]
    found = blank((1, caps.size, len(budgets), delays.size))
    touched = np.zeros(len(demand.series), bool)
    ordered = Ordered.of(demand)
    touched[ordered.position] = ordered.touched
    cases = [*product(enumerate(caps), enumerate(calls), enumerate(delays))]
    for (column, cap), (row, hours), (place, delay) in track(cases, "screen of calls, by alignment"):
        rules = CallRules(depths, hours=int(hours), events=events, recovery=recovery)
        plan = largest_size(cap - demand.mw, shape.laid(demand.clock, int(delay))[0], rules)
        limiter = NOTHING if np.isinf(plan.size) else BUDGET if plan.budget_binds else RESIDUAL
        case = (0, column, row, place)
        found["headroom"][case] = plan.size
        found["place"][case] = plan.hour
        found["limiter"][case] = LIMITERS.index(limiter)
        found["events"][case] = len(plan.calls)
        found["hours"][case] = plan.calls["duration"].sum()
        found["longest"][case] = plan.calls["duration"].max() if len(plan.calls) else 0
        inside = [touched[start : start + h].any() for start, h in plan.calls[["start", "duration"]].to_numpy()]
        found["touched"][case] = any(inside) or (plan.hour >= 0 and touched[plan.hour])
    coords = {"margin": margins, "budget": budgets, "offset": delays}
    attrs = {"period": "whole", "offsets": str(chosen), "recovery": recovery, "call_depths": str(dict(depths))}
    return assembled(found, demand, (shape,), caps, coords, attrs)
