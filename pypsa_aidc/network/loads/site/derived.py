"""What sites derive from the snapshots: peak power and least energy of jobs, ramps of the meter."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import pypsa

from pypsa_aidc.network.loads.protocol import free
from pypsa_aidc.network.model.horizon import Window, network_snapshots, windows
from pypsa_aidc.network.pypsa_api import names, rows
from pypsa_aidc.training import TrainingLoad

if TYPE_CHECKING:
    from pypsa_aidc.network.loads.site.site import Site

RAMPS = ("ramp_limit_up", "ramp_limit_down")
"""Attributes of a Link."""

_ROUNDING = 1e-9
"""Share by which a bound is looser than what it bounds."""


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


def write_ramps(n: pypsa.Network, site: Site, snapshots: pd.Index | None = None) -> None:
    """Write the ramp limits of a site as PyPSA has them, shares of the connection from one snapshot to the next."""
    labels = rows(n.links.index, site.link)
    for attribute, limit in most_change(n, site, snapshots).items():
        if limit is not None:
            assign(n, "Link", site.link, attribute, limit * (1 + _ROUNDING) / float(n.links.loc[labels, "p_nom"].max()))
        elif site.link in names(n.c.links.dynamic[attribute].columns):
            assign(n, "Link", site.link, attribute, np.nan)


def most_change(n: pypsa.Network, site: Site, snapshots: pd.Index | None = None) -> dict[str, pd.Series | None]:
    """Most change in MW of the meter from the snapshot before to each one, up and down; NaN where none is before.

    A meter that ramps R MW a minute changes its mean from one snapshot to the next by no more than R over the time
    between their middles. Over a jump of the dates, or from one window to the next, nothing is asked.

    Returns
    -------
    dict
        By attribute of the Link; `None` without a limit.
    """
    chosen = network_snapshots(n, snapshots)
    hours = n.snapshot_weightings["stores"].loc[chosen].to_numpy(float)
    between = np.full(len(chosen), np.nan)
    if not site.spec.ramps:
        return dict.fromkeys(RAMPS)
    # Jumps of the dates part snapshots even where the jobs' windows reach over them, and windows even without a jump.
    both = [np.full(len(chosen), -1), np.full(len(chosen), -1)]
    for member, parts in zip(both, (windows(n, chosen), site.windows(n, chosen)), strict=True):
        for at, window in enumerate(parts):
            member[window.positions] = at
    follows = (both[0][1:] == both[0][:-1]) & (both[1][1:] == both[1][:-1])
    between[1:][follows] = (30 * (hours[1:] + hours[:-1]))[follows]
    minutes = pd.Series(between, chosen).reindex(n.snapshots)
    return {
        attribute: None if rate is None else rate * minutes
        for attribute, rate in zip(RAMPS, site.spec.ramps, strict=True)
    }


def assign(n: pypsa.Network, component: str, name: str, attribute: str, value: float | pd.Series) -> None:
    """Put a number or a series in place of either."""
    static, dynamic = n.c[component].static, n.c[component].dynamic
    labels = rows(static.index, name)
    kept = dynamic[attribute].drop(columns=labels, errors="ignore")
    if isinstance(value, pd.Series):
        added = pd.DataFrame(dict.fromkeys(labels, value)).rename_axis(columns=kept.columns.names)
        kept = pd.concat([kept, added], axis=1)
    else:
        static.loc[labels, attribute] = value
    dynamic[attribute] = kept


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
    """Most IT power in MW that the load can draw, the energy of a restart and of checkpoints included."""
    extra = max(load.rules.restart_energy, *(each.energy for each in load.transitions), 0.0)
    # A checkpoint of the longest edge may be written in the shortest slot.
    extra += load.rules.checkpoint_energy * (load.rules.jump or load.rules.count)
    if extra:
        extra /= min(window.slots.hours.min() for window in horizon)
    return float(max(mode.it_power for mode in load.modes) + extra)
