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
    view: View, fleets: Sequence[Fleet], horizon: Sequence[Window], snapshots: pd.Index | None
) -> linopy.Variable:
    """Let fleets with relief along a series shed in a limited number of hours; a binary z tells whether one does."""
    n, m, p = view.n, view.m, view.variable("Generator-p")
    chosen = network_snapshots(n, snapshots)
    labels, count = p.indexes["snapshot"], len(fleets)
    names = pd.Index([fleet.relief for fleet in fleets], name="name")
    relief = p.sel(name=list(names))
    share = columns(n.get_switchable_as_dense("Generator", "p_max_pu"), list(names)).loc[chosen].to_numpy(float)
    z = m.add_variables(binary=True, coords=[labels, names], name=view.named(SHEDS))
    most = over(share * Sizes(view, fleets).limit, labels, names)
    m.add_constraints(relief - most * z <= 0, name=view.named("AIDC-relief_sheds"))
    entry, weight, spent = [], [], []
    for position, fleet in enumerate(fleets):
        for window in horizon:
            for _, inside in budget_periods(fleet, chosen[window.positions], window.period):
                entry.append(window.positions[inside] * count + position)
                weight.append(window.slots.hours[inside])
                spent.append((fleet.terms.hours or 0.0) + ROUNDING)
    index = pd.RangeIndex(len(entry), name="aidc_hours")
    row = np.repeat(np.arange(len(entry)), [len(entries) for entries in entry])
    hours = weighted_sum(z, np.concatenate(entry), row, np.concatenate(weight), {"aidc_hours": index})
    m.add_constraints(hours <= over(np.array(spent), index), name=view.named("AIDC-relief_hours"))
    return z
