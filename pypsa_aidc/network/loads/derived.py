"""What jobs and fleets derive from the snapshots: peak power, the least energy of jobs, the most that fleets shed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import pandas as pd
import pypsa

from pypsa_aidc.network.index import columns, rows
from pypsa_aidc.network.loads.fleet_spec import Fleet, fleets
from pypsa_aidc.network.loads.site import Site, sites
from pypsa_aidc.network.model.budgets import budget_periods
from pypsa_aidc.network.model.horizon import network_snapshots, windows
from pypsa_aidc.training import TrainingLoad

_ROUNDING = 1e-9
"""Share by which a bound on energy is looser than what it bounds."""


def refresh(n: pypsa.Network, snapshots: pd.Index | None = None) -> None:
    """Bring what `add` and `add_fleet` derived from the snapshots up to date with the network as it is now.

    Sets `p_nom` of the job generators and `e_sum_min`, the least energy a job can need, and clears their `p_set`, in
    which a planner's copy carries decided power; and `e_sum_max` of the relief of fleets, the most energy that their
    budgets allow. `n.aidc.optimize` does it by itself; call it after changing snapshots or weightings if you use the
    hook alone.
    """
    found = sites(n)
    write_derived(n, derive(n, found.values(), snapshots))
    for site in found.values():
        _free(n, rows(n.generators.index, site.idle))
    for fleet in fleets(n).values():
        write_most_relief(n, fleet, snapshots)


def write_most_relief(n: pypsa.Network, fleet: Fleet, snapshots: pd.Index | None = None) -> None:
    """Write the most energy that the budgets of a fleet allow, and free it of power that was decided before."""
    for part in fleet.parts:
        _free(n, rows(n.generators.index, part))
    if fleet.terms.form != "firm":
        labels = rows(n.generators.index, fleet.relief)
        n.generators.loc[labels, "e_sum_max"] = most_relief(fleet, n, snapshots)


def derive(
    n: pypsa.Network, chosen: Iterable[Site], snapshots: pd.Index | None = None
) -> dict[str, tuple[float, float]]:
    """Peak power (MW) and least energy (MWh) of each job generator of some sites."""
    return {
        generator: (peak_power(load, n, snapshots), least_energy(load, n, snapshots))
        for site in chosen
        for generator, load in site.loads.items()
    }


def write_derived(n: pypsa.Network, values: Mapping[str, tuple[float, float]]) -> None:
    """Write what `derive` found, and free the jobs of power that was decided before."""
    for generator, (peak, least) in values.items():
        labels = rows(n.generators.index, generator)
        n.generators.loc[labels, "p_nom"] = peak
        n.generators.loc[labels, "e_sum_min"] = least
        _free(n, labels)


def _free(n: pypsa.Network, labels: pd.Index) -> None:
    n.generators.loc[labels, "p_set"] = np.nan
    n.generators_t.p_set = n.generators_t.p_set.drop(columns=labels, errors="ignore")


def least_energy(load: TrainingLoad, n: pypsa.Network, snapshots: pd.Index | None = None) -> float:
    """Energy in MWh, weighted as PyPSA weighs generators, below which no path of the load can be.

    Runs all work in the mode with the least energy for it, without the part of a slot that is left over.
    """
    lean = min(mode.it_power * load.hours(mode) for mode in load.modes)
    left = sum(load.rules.shares[load.rules.progress :]) * (1 - _ROUNDING)
    weighting = n.snapshot_weightings["generators"].to_numpy(float)
    if snapshots is not None:
        weighting = n.snapshot_weightings["generators"].loc[snapshots].to_numpy(float)
    return float(
        sum(lean * left * np.min(weighting[window.positions] / window.slots.hours) for window in windows(n, snapshots))
    )


def most_relief(fleet: Fleet, n: pypsa.Network, snapshots: pd.Index | None = None) -> float:
    """Energy in MWh, weighted as PyPSA weighs generators, above which no relief within a budget of hours can be.

    Infinite where the size of the fleet is free or its hours are not limited.
    """
    static = n.generators.loc[rows(n.generators.index, fleet.name)]
    if fleet.terms.hours is None or static["p_nom_extendable"].any():
        return float("inf")
    chosen = network_snapshots(n, snapshots)
    share = columns(n.get_switchable_as_dense("Generator", "p_max_pu"), [fleet.relief]).loc[chosen, fleet.relief]
    weight = n.snapshot_weightings["generators"].loc[chosen].to_numpy(float)
    deepest = float(share.max() * static["p_nom"].max()) * (1 + _ROUNDING)
    return sum(
        deepest * fleet.terms.hours * float(np.max((weight[window.positions] / window.slots.hours)[inside]))
        for window in windows(n, snapshots)
        for _, inside in budget_periods(fleet, chosen[window.positions], window.period)
    )


def peak_power(load: TrainingLoad, n: pypsa.Network, snapshots: pd.Index | None = None) -> float:
    """Most IT power in MW that the load can draw, the energy of a restart included."""
    restart = load.rules.restart_energy
    extra = restart / min(window.slots.hours.min() for window in windows(n, snapshots)) if restart else 0.0
    return float(max(mode.it_power for mode in load.modes) + extra)
