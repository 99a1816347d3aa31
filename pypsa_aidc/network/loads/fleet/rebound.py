"""Energy that fleets draw again after their calls, work lost since the last checkpoint included."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from pypsa_aidc.network.loads.fleet.calls import Calls
from pypsa_aidc.network.loads.fleet.sizes import Sizes
from pypsa_aidc.network.model.horizon import Window, network_snapshots
from pypsa_aidc.network.model.linear import over, previous
from pypsa_aidc.network.model.recourse import View
from pypsa_aidc.network.pypsa_api import columns

if TYPE_CHECKING:
    from pypsa_aidc.network.loads.fleet.fleet import Fleet

DEBT = "AIDC-debt"
"""Name of the variable with the energy in MWh that a fleet has still to draw again, E of (6)."""


def add_rebound(
    view: View, calls: Calls, fleets: Sequence[Fleet], horizon: Sequence[Window], snapshots: pd.Index | None
) -> None:
    """Let fleets draw again what they shed: E_t = E_{t−1} + ρ(r_t + T/2·Σ_h x_{h,t}) − b_t, (6).

    Nothing is drawn again during a call, and all of it before the next call and the end of each window. The bound on E
    is what the deepest call leaves, since none starts with anything left from another.
    """
    n, m, p = view.n, view.m, view.variable("Generator-p")
    labels, loads = p.indexes["snapshot"], pd.Index([fleet.name for fleet in fleets], name="name")
    terms = [fleet.terms for fleet in fleets]
    limit = Sizes(view, fleets).limit
    ratio = np.array([each.rebound for each in terms])
    redone = ratio * np.array([each.checkpoint / 2 for each in terms])
    deepest = [
        max(depth * (hours + each.checkpoint / 2) for hours, depth in zip(each.durations, each.depths, strict=True))
        for each in terms
    ]
    most = np.broadcast_to(ratio * np.array(deepest) * limit, (len(labels), len(loads)))
    hours, first, last = np.zeros((len(labels), 1)), np.zeros((len(labels), 1)), np.zeros((len(labels), 1))
    for window in horizon:
        hours[window.positions, 0] = window.slots.hours
        first[window.positions[0]] = last[window.positions[-1]] = 1.0
    left = over(most * (1 - last), labels, loads)
    debt = m.add_variables(lower=0, upper=left, coords=[labels, loads], name=view.named(DEBT))
    before = previous(debt, first[:, 0] > 0)
    relief = (1 * p.sel(name=[fleet.relief for fleet in fleets])).assign_coords(name=loads)
    drawn = (1 * p.sel(name=[fleet.rebound for fleet in fleets])).assign_coords(name=loads)
    shed = relief * over(hours * ratio, labels, loads)
    lost = calls.starting(fleets, list(loads), depth=True) * over(np.broadcast_to(redone, most.shape), labels, loads)
    returned = drawn * over(np.broadcast_to(hours, most.shape), labels, loads)
    m.add_constraints(debt - before - shed - lost + returned == 0, name=view.named("AIDC-debt"))

    shares = columns(n.get_switchable_as_dense("Generator", "p_max_pu"), [fleet.rebound for fleet in fleets])
    fastest = over(shares.loc[network_snapshots(n, snapshots)].to_numpy(float) * limit, labels, loads)
    shedding = calls.shedding(fleets, list(loads), depth=False)
    m.add_constraints(drawn + shedding * fastest <= fastest, name=view.named("AIDC-rebound_after_call"))
    starting = calls.starting(fleets, list(loads), depth=False)
    ceiling = over(most, labels, loads)
    m.add_constraints(before + starting * ceiling <= ceiling, name=view.named("AIDC-rebound_before_call"))
