"""Budgets of hours and events: the periods they count in, and relief along a series that keeps to them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import linopy
import numpy as np
import pandas as pd
import pypsa
from numpy.typing import NDArray

from pypsa_aidc.errors import Faults
from pypsa_aidc.network.loads.fleet.sizes import Sizes
from pypsa_aidc.network.model.ahead import Ahead
from pypsa_aidc.network.model.horizon import Window, network_snapshots, windows
from pypsa_aidc.network.model.linear import over, weighted_sum
from pypsa_aidc.network.model.recourse import View
from pypsa_aidc.network.pypsa_api import columns, rows

if TYPE_CHECKING:
    from pypsa_aidc.network.loads.fleet.fleet import Fleet

SHEDS = "AIDC-sheds"
"""Name of the binary variable that tells whether a fleet with relief along a series sheds in a snapshot."""

ROUNDING = 1e-9
"""Hours by which a budget may be passed: sums of binary fractions."""


SHEDDING = 1e-6
"""Share of the size of a fleet above which relief counts as such."""

_LOOSER = 1e-9
"""Share by which a bound on energy is looser than what it bounds."""


def budget_periods(fleet: Fleet, snapshots: pd.Index, period: object = None) -> list[tuple[str, NDArray[np.bool_]]]:
    """Periods in which the budgets of a fleet count anew.

    Parameters
    ----------
    fleet
        Its terms say whether by calendar year or by horizon.
    snapshots
        Those of one window of the horizon, in the labelling of the network; no budget reaches beyond one.
    period
        Investment period of the window, or `None`.

    Returns
    -------
    list of (label, mask)
        Masks over `snapshots`.

    Raises
    ------
    InputError
        Calendar years of snapshots that are no dates.
    """
    times = snapshots.get_level_values(1) if isinstance(snapshots, pd.MultiIndex) else snapshots
    if fleet.terms.per == "horizon":
        return [("horizon" if period is None else f"period {period}", np.full(len(times), True))]
    faults = Faults(f"fleet {fleet.name!r}")
    dated = isinstance(times, pd.DatetimeIndex)
    faults.require(dated, "per", "year", "dates as snapshots", "Give per='horizon', or set dates as snapshots.")
    faults.raise_any()
    years = pd.DatetimeIndex(times).year.to_numpy()
    return [(str(year), years == year) for year in np.unique(years)]


def most_relief(n: pypsa.Network, fleet: Fleet, snapshots: pd.Index | None = None) -> float:
    """Energy in MWh, weighted as PyPSA weighs generators, above which no relief within a budget of hours can be.

    Infinite where the size of the fleet is free or its hours are not limited.
    """
    static = n.generators.loc[rows(n.generators.index, fleet.name)]
    if fleet.terms.hours is None or static["p_nom_extendable"].any():
        return float("inf")
    chosen = network_snapshots(n, snapshots)
    share = n.get_switchable_as_dense("Generator", "p_max_pu").loc[chosen]
    most = float(share[rows(share.columns, fleet.relief)].to_numpy(float).max())
    weight = n.snapshot_weightings["generators"].loc[chosen].to_numpy(float)
    deepest = most * float(static["p_nom"].max()) * (1 + _LOOSER)
    return sum(
        deepest * fleet.terms.hours * float(np.max((weight[window.positions] / window.slots.hours)[inside]))
        for window in windows(n, snapshots)
        for _, inside in budget_periods(fleet, chosen[window.positions], window.period)
    )


def add_series_budget(
    view: View,
    fleets: Sequence[Fleet],
    horizon: Sequence[Window],
    snapshots: pd.Index | None,
    ahead: Ahead | None = None,
) -> linopy.Variable:
    """Let fleets with relief along a series shed in a limited number of hours; a binary z tells whether one does.

    In a rolling horizon hours that are over count, and hours after the window compete at expected prices.
    """
    n, m, p = view.n, view.m, view.variable("Generator-p")
    chosen = network_snapshots(n, snapshots)
    labels, count = p.indexes["snapshot"], len(fleets)
    names = pd.Index([fleet.relief for fleet in fleets], name="name")
    relief = p.sel(name=list(names))
    share = columns(n.get_switchable_as_dense("Generator", "p_max_pu"), list(names)).loc[chosen].to_numpy(float)
    z = m.add_variables(binary=True, coords=[labels, names], name=view.named(SHEDS))
    most = over(share * Sizes(view, fleets).limit, labels, names)
    m.add_constraints(relief - most * z <= 0, name=view.named("AIDC-relief_sheds"))
    entry, weight, spent, periods = [], [], [], []
    for position, fleet in enumerate(fleets):
        for window in horizon:
            for label, inside in budget_periods(fleet, chosen[window.positions], window.period):
                entry.append(window.positions[inside] * count + position)
                weight.append(window.slots.hours[inside])
                spent.append((fleet.terms.hours or 0.0) + ROUNDING)
                periods.append((position, label))
    index = pd.RangeIndex(len(entry), name="aidc_hours")
    row = np.repeat(np.arange(len(entry)), [len(entries) for entries in entry])
    hours = weighted_sum(z, np.concatenate(entry), row, np.concatenate(weight), {"aidc_hours": index})
    if ahead is not None:
        hours, gone = _with_rest(n, fleets, periods, hours, len(chosen), ahead)
        spent = list(np.maximum(np.array(spent) - gone, ROUNDING))
    m.add_constraints(hours <= over(np.array(spent), index), name=view.named("AIDC-relief_hours"))
    return z


def _with_rest(
    n: pypsa.Network,
    fleets: Sequence[Fleet],
    periods: Sequence[tuple[int, str]],
    hours: linopy.LinearExpression,
    count: int,
    ahead: Ahead,
) -> tuple[linopy.LinearExpression, NDArray[np.float64]]:
    """Hours of a window with those after it, at what they are expected to save, and hours that are over."""
    first, gone = ahead.border + count, np.zeros(len(periods))
    slots = np.arange(first, len(ahead.slots))
    entry, row, worth = [], [], np.zeros((len(slots), len(fleets)))
    for position, fleet in enumerate(fleets):
        share, cost = (
            columns(n.get_switchable_as_dense("Generator", attribute), [fleet.relief])
            .loc[ahead.snapshots, fleet.relief]
            .to_numpy(float)
            for attribute in ("p_max_pu", "marginal_cost")
        )
        size = float(n.generators.at[fleet.name, "p_nom"])
        saved = np.maximum(ahead.price[fleet.name] - cost, 0.0) * ahead.weight * ahead.slots.hours * share * size
        worth[:, position] = saved[first:]
        over_already = np.zeros(len(ahead.slots))
        if ahead.border:
            relief = n.c.generators.dynamic["p"][fleet.relief][ahead.snapshots[: ahead.border]].to_numpy(float)
            over_already[: ahead.border] = ahead.slots.hours[: ahead.border] * (relief > SHEDDING * max(size, 1.0))
        masks = dict(budget_periods(fleet, ahead.snapshots))
        for at, (owner, label) in enumerate(periods):
            if owner == position:
                gone[at] = over_already[masks[label]].sum()
                later = np.flatnonzero(masks[label][first:])
                entry.append(later * len(fleets) + position)
                row.append(np.full(len(later), at))
    if not len(slots):
        return hours, gone
    coords = [pd.RangeIndex(len(slots), name="aidc_later_hour"), pd.RangeIndex(len(fleets), name="aidc_fleet")]
    sheds = n.model.add_variables(lower=0, upper=1, coords=coords, name="AIDC-sheds_later")
    n.model.objective = n.model.objective.expression - (sheds * over(worth, *coords)).sum()
    entries = np.concatenate(entry)
    index = {"aidc_hours": pd.RangeIndex(len(periods), name="aidc_hours")}
    lengths = ahead.slots.hours[first + entries // len(fleets)]
    return hours + weighted_sum(sheds, entries, np.concatenate(row), lengths, index), gone
