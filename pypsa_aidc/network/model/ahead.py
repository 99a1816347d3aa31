"""What a window of a rolling horizon knows beside its own snapshots: what has been decided, and what lies ahead."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from pypsa_aidc.training import Slots, Step

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Ahead:
    """The place of one window in a longer horizon.

    The jobs of a window are planned to their end: their paths go on through the slots after the window, where no
    network is modelled but energy has an expected price. So no window rushes or postpones what a later one can or
    cannot do, and what is left always fits before the deadline.

    Parameters
    ----------
    snapshots
        Those of the whole horizon.
    slots
        Their length.
    border
        Slots that are over when the window begins.
    decided
        Slots until which the jobs are decided already, at least `border`: the dispatch of the window is found anew,
        as after an error of a forecast, and the jobs are not.
    steps
        For each job generator, the steps that were decided so far; those that start before `decided` count.
    price
        For each load, the expected price of its energy (of a site, at IT level) in USD/MWh in each slot of the horizon,
        shape (slots,).
    connection
        For each site, the IT power in MW that its connection leaves to jobs in each slot, shape (slots,).
    weight
        Weight of an hour of each slot in the objective, shape (slots,).
    """

    snapshots: pd.Index
    slots: Slots
    border: int
    decided: int
    steps: Mapping[str, tuple[Step, ...]]
    price: Mapping[str, Floats]
    connection: Mapping[str, Floats]
    weight: Floats

    @property
    def rest(self) -> Slots:
        """Slots in which something is still to be decided."""
        return Slots(self.slots.hours[self.decided :])
