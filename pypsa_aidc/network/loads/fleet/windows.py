"""Mean relief over every window of a duration: K by duration without binaries, exact for relief of constant depth."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from pypsa_aidc.network.loads.fleet.sizes import Sizes
from pypsa_aidc.network.loads.fleet.terms import FleetTerms, binding_windows
from pypsa_aidc.network.model.horizon import Window
from pypsa_aidc.network.model.linear import weighted_sum
from pypsa_aidc.network.model.recourse import View
from pypsa_aidc.training import Slots
from pypsa_aidc.units import SLOT_TOLERANCE

if TYPE_CHECKING:
    from pypsa_aidc.network.loads.fleet.fleet import Fleet

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def relief_windows(terms: FleetTerms, slots: Slots) -> tuple[Ints, Ints, Floats]:
    """Windows that relief has to keep to, and the energy that each allows for a fleet of 1 MW.

    Windows of all lengths up to the longest duration, the depth of each being that of the next longer duration of the
    terms (`Surface.at`), less those that follow from others. With ``between=False``, only of the durations themselves
    and of single slots; snapshots of different length always take all.

    Returns
    -------
    start, stop
        First slot of each window and the first after it.
    energy
        MWh per MW: hours of the window times the depth of that duration.
    """
    longest, count = terms.durations[-1], len(slots)
    if slots.are_uniform:
        known = sorted({int((h + SLOT_TOLERANCE) // slots.hours[0]) for h in terms.durations} - {0})
        lengths = (binding_windows(known) if terms.between else sorted({1, *known})) or [1]
    else:
        lengths = list(range(1, int(np.max(slots.stops(longest) - np.arange(count + 1))) + 1))
    start, stop, energy = [], [], []
    for length in lengths:
        first = np.arange(max(count - length + 1, 0))
        span = slots.ends[first + length] - slots.ends[first]
        # A slot alone has to keep to K even where it is longer than the longest duration, for which K says nothing.
        kept = (span <= longest + SLOT_TOLERANCE) | (length == 1)
        start.append(first[kept])
        stop.append(first[kept] + length)
        depths = {hours: terms.depth(hours) for hours in np.unique(span[kept])}
        energy.append(np.array([hours * depths[hours] for hours in span[kept]]))
    return np.concatenate(start), np.concatenate(stop), np.concatenate(energy)


def add_relief_windows(view: View, fleets: Sequence[Fleet], horizon: Sequence[Window]) -> None:
    """Keep the relief of fleets to all their windows: Σ_{j<h} r_{t+j} ≤ h·q·κ_h·L."""
    relief = view.variable("Generator-p").sel(name=[fleet.relief for fleet in fleets])
    entry, weight, lengths, first, owner, most = [], [], [], [], [], []
    for position, fleet in enumerate(fleets):
        for window in horizon:
            start, stop, energy = relief_windows(fleet.terms, window.slots)
            length = stop - start
            before = np.repeat(np.cumsum(length) - length, length)
            slot = np.repeat(start, length) + np.arange(length.sum()) - before
            entry.append(window.positions[slot] * len(fleets) + position)
            weight.append(window.slots.hours[slot])
            lengths.append(length)
            first.append(window.positions[start])
            owner.append(np.full(len(start), position))
            most.append(energy)
    index = pd.RangeIndex(sum(map(len, most)), name="aidc_window")
    row = np.repeat(np.arange(len(index)), np.concatenate(lengths))
    shed = weighted_sum(relief, np.concatenate(entry), row, np.concatenate(weight), {"aidc_window": index})
    allowed = Sizes(view, fleets).allowed(np.concatenate(owner), np.concatenate(most), np.concatenate(first), index)
    view.m.add_constraints(shed - allowed <= 0, name=view.named("AIDC-relief_windows"))
