"""The horizon of a network as the jobs see it: windows of consecutive snapshots and the hours of each."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pypsa
from numpy.typing import NDArray

from pypsa_aidc.errors import Faults
from pypsa_aidc.training import Slots

_SHOWN = 3


@dataclass(frozen=True, eq=False)
class Window:
    """Consecutive snapshots within which each job does its tranche once.

    Parameters
    ----------
    period
        Investment period, or `None`.
    positions
        Positions of the window's snapshots in the optimised snapshots, shape (slots,).
    slots
        Their length in hours.
    weight
        Weight of each snapshot's hour in the objective: objective weighting (times that of the period) over hours.
    """

    period: Any
    positions: NDArray[np.int64]
    slots: Slots
    weight: NDArray[np.float64]


def network_snapshots(n: pypsa.Network, snapshots: pd.Index | None) -> pd.Index:
    """Return snapshots in the labelling of the network, also where a model labels them with flat tuples."""
    everything: pd.Index = n.snapshots
    if snapshots is None:
        return everything
    faults = Faults("snapshots")
    listed = isinstance(snapshots, Iterable) and not isinstance(snapshots, str)
    faults.require(listed, "snapshots", snapshots, "some of n.snapshots, as an index or a list")
    faults.raise_any()
    chosen: pd.Index = pd.Index(snapshots)
    if isinstance(everything, pd.MultiIndex) and not isinstance(chosen, pd.MultiIndex):
        chosen = pd.MultiIndex.from_tuples(list(chosen), names=everything.names)
    foreign = chosen.difference(everything, sort=False)
    faults.require(not len(foreign), "snapshots", list(foreign[:_SHOWN]), "snapshots of the network")
    faults.raise_any()
    return chosen


def windows(n: pypsa.Network, snapshots: pd.Index | None = None) -> tuple[Window, ...]:
    """Split the horizon into windows: one, or one for each investment period.

    The hours of a snapshot are its ``n.snapshot_weightings["stores"]``, as for PyPSA's storage; objective and
    generator weightings may differ from it (representative days). Snapshots of different length are fine.

    Parameters
    ----------
    n
        Network.
    snapshots
        Snapshots to be optimised; `None` for all.

    Raises
    ------
    InputError
        Snapshots are not sorted, a weighting is not positive, or weightings contradict the dates: a DAG step would
        be too long or too short.
    """
    chosen = network_snapshots(n, snapshots)
    weightings = n.snapshot_weightings.loc[chosen]
    faults = Faults("snapshots")
    faults.require(len(chosen) > 0, "snapshots", 0, "at least one")
    if isinstance(chosen, pd.MultiIndex):
        periods = chosen.get_level_values(0)
        groups = [(period, np.flatnonzero(periods == period)) for period in periods.unique()]
        times = chosen.get_level_values(1)
    else:
        groups, times = [(None, np.arange(len(chosen)))], chosen
    hours = weightings["stores"].to_numpy(float)
    for column in ("objective", "generators"):
        values = weightings[column].to_numpy(float)
        for position in np.flatnonzero(~(values > 0))[:_SHOWN]:
            faults.number(f"snapshot_weightings[{column!r}] at {chosen[position]}", float(values[position]), above=0)
    for position in np.flatnonzero(~(hours > 0))[:_SHOWN]:
        faults.number(f"snapshot_weightings['stores'] at {chosen[position]}", float(hours[position]), above=0)
    for _, positions in groups:
        _check_dates(times[positions], hours[positions], faults)
    faults.raise_any()
    objective = weightings["objective"].to_numpy(float)
    if isinstance(chosen, pd.MultiIndex):
        objective = objective * n.investment_period_weightings["objective"].reindex(periods).to_numpy(float)
    return tuple(
        Window(period, positions, Slots(hours[positions]), objective[positions] / hours[positions])
        for period, positions in groups
    )


def _check_dates(times: pd.Index, hours: NDArray[np.float64], faults: Faults) -> None:
    if not isinstance(times, pd.DatetimeIndex) or len(times) < 2:
        return
    steps = np.diff(times.to_numpy()) / np.timedelta64(1, "h")
    if (steps <= 0).any():
        position = int(np.argmax(steps <= 0))
        faults.add("snapshots", f"{times[position]} before {times[position + 1]}", "ascending dates", "Sort them.")
        return
    wrong = np.flatnonzero(np.abs(steps - hours[:-1]) > 1e-6)
    if len(wrong):
        first = int(wrong[0])
        faults.add(
            f"snapshot_weightings['stores'] at {times[first]} ({len(wrong)} snapshots)",
            float(hours[first]),
            f"{steps[first]:g}, the hours to the next snapshot {times[first + 1]}",
            "Set n.snapshot_weightings['stores'] to the hours of each snapshot (objective and generators may weigh "
            "it differently), or give the missing snapshots.",
        )
