"""What jobs derive from the snapshots: peak power and least energy."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import pypsa

from pypsa_aidc.network.loads.protocol import free
from pypsa_aidc.network.model.horizon import Window
from pypsa_aidc.network.pypsa_api import rows
from pypsa_aidc.training import TrainingLoad

if TYPE_CHECKING:
    from pypsa_aidc.network.loads.site.site import Site

_ROUNDING = 1e-9
"""Share by which a bound on energy is looser than what it bounds."""


def derive(
    n: pypsa.Network, chosen: Iterable[Site], snapshots: pd.Index | None = None
) -> dict[str, tuple[float, float]]:
    """Peak power (MW) and least energy (MWh) of each job generator of some sites."""
    return {
        generator: (peak_power(load, own), least_energy(load, n, snapshots, own))
        for site in chosen
        for own in [site.windows(n, snapshots)]
        for generator, load in site.loads.items()
    }


def write_derived(n: pypsa.Network, values: Mapping[str, tuple[float, float]]) -> None:
    """Write what `derive` found, and free the jobs of power that was decided before."""
    free(n, list(values))
    for generator, (peak, least) in values.items():
        labels = rows(n.generators.index, generator)
        n.generators.loc[labels, "p_nom"] = peak
        n.generators.loc[labels, "e_sum_min"] = least


def least_energy(load: TrainingLoad, n: pypsa.Network, snapshots: pd.Index | None, horizon: Sequence[Window]) -> float:
    """Energy in MWh, weighted as PyPSA weighs generators, below which no path of the load can be.

    Runs all work in the mode with the least energy for it, without the part of a slot that is left over.
    """
    lean = min(mode.it_power * load.hours(mode) for mode in load.modes)
    left = sum(load.rules.shares[load.rules.progress :]) * (1 - _ROUNDING)
    weighting = n.snapshot_weightings["generators"].to_numpy(float)
    if snapshots is not None:
        weighting = n.snapshot_weightings["generators"].loc[snapshots].to_numpy(float)
    return float(sum(lean * left * np.min(weighting[window.positions] / window.slots.hours) for window in horizon))


def peak_power(load: TrainingLoad, horizon: Sequence[Window]) -> float:
    """Most IT power in MW that the load can draw, the energy of a restart included."""
    restart = load.rules.restart_energy
    extra = restart / min(window.slots.hours.min() for window in horizon) if restart else 0.0
    return float(max(mode.it_power for mode in load.modes) + extra)
