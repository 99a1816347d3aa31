"""The peak-cap screen: how much of a load fits under a regional cap, in closed form."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from itertools import product
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd
import xarray as xr

from pypsa_aidc.errors import Faults, UnitWarning, checked
from pypsa_aidc.fleet.windows import Floats
from pypsa_aidc.headroom.region.demand import Demand, DemandWarning
from pypsa_aidc.headroom.region.offsets import Offsets
from pypsa_aidc.headroom.region.peak_cap import ROOM, Integers, Limits, budget_limit, residual_limit, response
from pypsa_aidc.headroom.region.profile import Profile
from pypsa_aidc.headroom.region.screen import BUDGET, DIMS, INFEASIBLE, NOTHING, RESIDUAL, WORDS, Ordered, Screen
from pypsa_aidc.progress import track

Period = Literal["whole", "year"]
LIMITERS = (RESIDUAL, BUDGET, NOTHING, INFEASIBLE)


@checked
def screen_region(
    demand: Demand,
    profiles: Sequence[Profile],
    *,
    period: Period,
    margin: float | Sequence[float] | None = None,
    cap: float | None = None,
    budget: float | Sequence[float] = 0.005,
    offsets: Offsets | None = None,
) -> Screen:
    """Largest load under a regional peak cap (App. E of [2]), in closed form.

    With slack H = P_cap − D, load s and relief c ≤ s, the largest size that needs no more than its relief in any hour,
    and a call in no more than B hours of each period, is the smaller of min over s > c of H/(s − c) and of the
    (⌊B⌋ + 1)-th smallest H/s. It neglects network, reserves and contingencies, and how long a call lasts; see
    `screen_calls` for that.

    Parameters
    ----------
    demand
        Without missing hours.
    profiles
        Loads with different names; those with more than one hour are equally long.
    period
        What a budget is a share of: ``"whole"``, all hours at once (87.72 h of two years at 0.5 %, the numbers of [2]),
        or ``"year"``, the hours of each year of the demand's calendar (the text of [2]).
    margin
        m of P_cap = max D·(1 + m), above −1; 5 % if neither it nor a cap is given. Below 0 the demand itself exceeds
        the cap.
    cap
        P_cap, MW, in place of a margin.
    budget
        Share of the hours of each period in which the load may be called, 0 … 1; rounded down to hours.
    offsets
        Alignments; 200 random ones with seed 6 if None.

    Returns
    -------
    Screen

    Raises
    ------
    InputError
        Missing hours of demand, repeated names, profiles of different length, numbers out of range.

    Warns
    -----
    DemandWarning
        If changed, filled or flagged hours of demand bind or are called; if a share of a period is not even one hour.
    UnitWarning
        If a margin is more than the peak itself.

    Examples
    --------
    >>> hours = pd.date_range("2024-07-01", periods=4, freq="h")
    >>> demand = Demand(pd.Series([70.0, 100.0, 80.0, 60.0], hours))
    >>> found = screen_region(demand, [Profile("half", [1.0], [0.5])], period="whole", margin=0.1, budget=0.25)
    >>> round(found.data["headroom"].item(0), 9), found.data["limiter"].item(0)
    (20.0, 'residual hour')
    """
    faults = Faults("Peak-cap screen")
    faults.require(margin is None or cap is None, "margin", margin, "None beside a cap")
    margins, budgets = listed(0.05 if margin is None else margin), listed(budget)
    check_cases(demand, profiles, margins, budgets, period, faults)
    if cap is not None:
        faults.number("cap", cap, above=0)
    faults.raise_any()
    caps = np.array([float(cap)]) if cap is not None else demand.peak * (1 + np.array(margins))
    chosen = offsets or Offsets()
    delays = chosen.hours(max(profile.load.size for profile in profiles))
    labels = period_labels(demand, period)
    calls = allowed_calls(budgets, labels)
    ordered = Ordered.of(demand)
    found = blank((len(profiles), caps.size, len(budgets), delays.size))
    same_load: dict[bytes, list[int]] = {}
    for row, profile in enumerate(profiles):
        same_load.setdefault(profile.load.tobytes(), []).append(row)
    width = max(1, ROOM // len(demand.series))
    cases = [*product(range(0, delays.size, width), same_load.values(), enumerate(caps))]
    for first, rows, (column, limit) in track(cases, "screen, by alignments and cap"):
        part = slice(first, first + width)
        group = [profiles[row] for row in rows]
        case = _case(ordered, limit, group, delays[part], calls, labels[ordered.position])
        for name, values in case.items():
            found[name][rows, column, :, part] = values
    coords = {"margin": caps / demand.peak - 1 if cap is not None else margins, "budget": budgets, "offset": delays}
    attrs = {"period": period, "offsets": str(chosen)}
    return assembled(found, demand, tuple(profiles), caps, coords, attrs)


def listed(value: float | Sequence[float]) -> list[float]:
    """One number or several, as a list."""
    return [float(one) for one in np.atleast_1d(np.asarray(value, dtype=float))]


def check_cases(
    demand: Demand,
    profiles: Sequence[Profile],
    margins: Sequence[float],
    budgets: Sequence[float],
    period: str,
    faults: Faults,
) -> None:
    """Note what is wrong with the cases of a screen."""
    missing = demand.missing
    if len(missing):
        given = f"NaN in {len(missing)} of {len(demand.series)} hours, first {missing[0]} UTC"
        faults.add("demand", given, "MW in every hour", "Clean it first, with a policy for gaps.")
    faults.require(len(profiles) > 0, "profiles", 0, "at least one")
    names = [profile.name for profile in profiles]
    faults.require(len(set(names)) == len(names), "profiles", names, "each name once")
    lengths = sorted({profile.load.size for profile in profiles} - {1})
    faults.require(len(lengths) < 2, "profiles", f"{lengths} hours", "one length, or a single value for a flat load")
    faults.require(period in get_args(Period), "period", period, f"one of {', '.join(get_args(Period))}")
    for name, values in (("margin", margins), ("budget", budgets)):
        faults.require(len(values) > 0, name, list(values), "at least one value")
        faults.require(len(set(values)) == len(values), name, list(values), "each value once")
    for value in margins:
        faults.number("margin", value, above=-1)
        if value > 1:
            cap = f"a margin of {value:g} is a cap at {100 * (1 + value):g} % of the peak"
            text = f"{cap}. It is a share: {value / 100:g} for {value:g} %."
            warnings.warn(text, UnitWarning, stacklevel=4)
    for value in budgets:
        remedy = f"It is a share: {value / 100:g} for {value:g} %." if value > 1 else ""
        faults.number("budget", value, at_least=0, at_most=1, remedy=remedy)


def period_labels(demand: Demand, period: Period) -> Integers:
    """Number of the period that each hour belongs to, by the calendar of the demand."""
    years = np.asarray(demand.local.year)
    return np.asarray(years - years[0] if period == "year" else np.zeros(len(years)), dtype=np.int64)


def allowed_calls(budgets: Sequence[float], labels: Integers) -> Integers:
    """Whole hours that may be called, by budget and period; shape (budgets, periods).

    Examples
    --------
    >>> allowed_calls([0.005, 1.0], np.zeros(17544, int)).ravel()
    array([   87, 17544])
    """
    hours = np.bincount(labels)
    calls = np.floor(np.multiply.outer(budgets, hours) + 1e-9).astype(np.int64)
    for row, period in np.argwhere((calls == 0) & (np.asarray(budgets)[:, None] > 0) & (hours > 0)):
        text = f"{budgets[row]:.4g} of the {hours[period]} hours of period {period} are not one hour: no call there"
        warnings.warn(text, DemandWarning, stacklevel=3)
    return calls


def blank(shape: tuple[int, ...]) -> dict[str, np.ndarray[Any, np.dtype[Any]]]:
    """Results of which none is known yet; shape (profiles, margins, budgets, offsets)."""
    counts = {name: np.zeros(shape, np.int64) for name in ("events", "hours", "longest")}
    return {
        "headroom": np.full(shape, np.nan),
        "place": np.full(shape, -1),
        "limiter": np.full(shape, LIMITERS.index(INFEASIBLE)),
        "touched": np.zeros(shape, bool),
        **counts,
    }


def _case(
    ordered: Ordered, cap: float, profiles: list[Profile], offsets: Integers, calls: Integers, labels: Integers
) -> dict[str, np.ndarray[Any, np.dtype[Any]]]:
    """Screen loads of one shape at one cap; arrays of shape (profiles, budgets, offsets)."""
    slack, load = cap - ordered.demand, profiles[0].load
    found = blank((len(profiles), len(calls), offsets.size))
    if slack[0] < 0:
        found["place"][:] = ordered.position[0]
        return found
    budget = _budget_limit(slack, ordered.clock, load, offsets, calls, labels)
    for row, profile in enumerate(profiles):
        residual = residual_limit(slack, ordered.clock, load, profile.usable, offsets)
        size = np.minimum(residual.size, budget.size)
        by_residual = residual.size <= budget.size
        place = np.where(by_residual, residual.hour, budget.hour)
        limiter = np.where(by_residual, LIMITERS.index(RESIDUAL), LIMITERS.index(BUDGET))
        found["headroom"][row] = size
        found["limiter"][row] = np.where(np.isinf(size), LIMITERS.index(NOTHING), limiter)
        found["place"][row] = np.where(np.isinf(size), -1, ordered.position[place])
        found["touched"][row] = np.where(np.isinf(size), False, ordered.touched[place])
    sizes = found["headroom"].reshape(-1, offsets.size)
    asked = response(slack, ordered.clock, load, offsets, sizes, ordered.touched)
    for name in ("events", "hours", "longest"):
        found[name] = getattr(asked, name).reshape(found[name].shape)
    found["touched"] |= asked.marked.reshape(found["touched"].shape)
    return found


def _budget_limit(
    slack: Floats, clock: Integers, load: Floats, offsets: Integers, calls: Integers, labels: Integers
) -> Limits:
    """Tightest of the call budgets of all periods; shape (budgets, offsets)."""
    size, hour = np.full((len(calls), offsets.size), np.inf), np.full((len(calls), offsets.size), -1)
    for period in range(calls.shape[1]):
        inside = np.flatnonzero(labels == period)
        if not inside.size:
            continue
        limit = budget_limit(slack[inside], clock[inside], load, offsets, calls[:, period])
        tighter = limit.size < size
        size[tighter], hour[tighter] = limit.size[tighter], inside[limit.hour[tighter]]
    return Limits(size, hour)


def assembled(
    found: dict[str, np.ndarray[Any, np.dtype[Any]]],
    demand: Demand,
    profiles: tuple[Profile, ...],
    caps: Floats,
    coords: dict[str, Any],
    attrs: dict[str, Any],
) -> Screen:
    """Label the results, and say which of them rest on doubtful hours."""
    place = found["place"]
    hour = np.where(place >= 0, demand.hours.to_numpy()[place], np.datetime64("NaT", "ns"))
    variables = {name: (DIMS, found[name], {"units": unit, "long_name": long}) for name, (unit, long) in WORDS.items()}
    data = xr.Dataset(
        {
            **variables,
            "limiter": (DIMS, np.array(LIMITERS)[found["limiter"]]),
            "hour": (DIMS, hour, {"long_name": "binding hour, UTC, by its beginning"}),
            "cap": ("margin", caps, {"units": "MW"}),
            "clipped": ("profile", [profile.clipped for profile in profiles], {"long_name": "hours with c above s"}),
        },
        coords={"profile": [profile.name for profile in profiles], **coords},
        attrs={
            **attrs,
            "region": demand.region,
            "column": demand.column,
            "source": demand.source,
            "peak": demand.peak,
            "synthetic": int(any(profile.synthetic for profile in profiles)),
        },
    )
    resting = data["touched"].sum().item()
    if resting:
        hours = pd.DatetimeIndex(np.unique(hour[found["touched"]]))
        binding = hours.intersection(demand.touched)
        example = f", e.g. {binding[0]} UTC binds" if len(binding) else ""
        text = f"{resting} of {data['touched'].size} cases rest on changed, filled or flagged hours of demand{example}"
        warnings.warn(text, DemandWarning, stacklevel=3)
    return Screen(data, demand, profiles)
