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
_ROUNDING = 1e-6
_UNUSUAL = 1.5
"""Times the usual step of the dates from which a step may be a jump."""


@dataclass(frozen=True, eq=False)
class Window:
    """Consecutive snapshots within which each job does its tranche once.

    Parameters
    ----------
    period
        What tells it from others: nothing (`None`) for a single one, the investment period, or where a horizon or a
        period has several, the first snapshot.
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
    """Split the horizon into windows: at investment periods, and where the dates jump (representative days).

    The hours of a snapshot are its ``n.snapshot_weightings["stores"]``, as for PyPSA's storage; objective and
    generator weightings may differ from it (representative days). Snapshots of different length are fine. The dates
    jump where the next snapshot comes later than usual, and later than the hours of the snapshot before it.

    Parameters
    ----------
    n
        Network.
    snapshots
        Snapshots to be optimised; `None` for all.

    Raises
    ------
    InputError
        Dates that do not ascend, or a weighting that is not positive.
    """
    chosen = network_snapshots(n, snapshots)
    weightings = n.snapshot_weightings.loc[chosen]
    faults = Faults("snapshots")
    faults.require(len(chosen) > 0, "snapshots", 0, "at least one")
    groups, times = _periods(chosen)
    hours = weightings["stores"].to_numpy(float)
    for column in ("objective", "generators", "stores"):
        values = weightings[column].to_numpy(float)
        for position in np.flatnonzero(~(values > 0))[:_SHOWN]:
            faults.number(f"snapshot_weightings[{column!r}] at {chosen[position]}", float(values[position]), above=0)
    for _, positions in groups:
        _check_order(times[positions], faults)
    faults.raise_any()
    objective = weightings["objective"].to_numpy(float)
    if isinstance(chosen, pd.MultiIndex):
        weight = n.investment_period_weightings["objective"]
        objective = objective * weight.reindex(chosen.get_level_values(0)).to_numpy(float)
    found = []
    for period, positions in groups:
        parts = np.split(positions, np.flatnonzero(_jumps(times[positions], hours[positions])) + 1)
        for part in parts:
            name = period if len(parts) == 1 else str(times[part[0]] if period is None else chosen[part[0]])
            found.append(Window(name, part, Slots(hours[part]), objective[part] / hours[part]))
    return tuple(found)


def doubts(n: pypsa.Network, snapshots: pd.Index | None = None) -> str:
    """Say how the dates of snapshots and their weightings disagree, and where the dates jump; empty if they do not.

    PyPSA reads hours from the weightings alone, and so does this package.
    """
    chosen = network_snapshots(n, snapshots)
    hours = n.snapshot_weightings["stores"].loc[chosen].to_numpy(float)
    groups, times = _periods(chosen)
    told: list[str] = []
    for _, positions in groups:
        own, lengths = times[positions], hours[positions]
        if not isinstance(own, pd.DatetimeIndex) or len(own) < 2:
            continue
        jumps, steps = _jumps(own, lengths), _steps(own)
        wrong = np.flatnonzero((np.abs(steps - lengths[:-1]) > _ROUNDING) & ~jumps)
        if len(wrong):
            first = int(wrong[0])
            told.append(
                f"the next snapshot after {own[first]} comes {steps[first]:g} h later, its weighting for stores is "
                f"{lengths[first]:g} h ({len(wrong)} such snapshots): the weighting counts"
            )
        if jumps.any():
            first = int(np.flatnonzero(jumps)[0])
            told.append(
                f"the dates jump from {own[first]} to {own[first + 1]} ({int(jumps.sum())} jumps): each job does its "
                "tranche once in each stretch between jumps"
            )
    return "; ".join(dict.fromkeys(told))


def _periods(chosen: pd.Index) -> tuple[list[tuple[Any, NDArray[np.int64]]], pd.Index]:
    """Positions of the snapshots of each investment period, and all snapshots without their period."""
    if not isinstance(chosen, pd.MultiIndex):
        return [(None, np.arange(len(chosen)))], chosen
    periods = chosen.get_level_values(0)
    return [(period, np.flatnonzero(periods == period)) for period in periods.unique()], chosen.get_level_values(1)


def _steps(times: pd.DatetimeIndex) -> NDArray[np.float64]:
    return np.asarray(np.diff(times.to_numpy()) / np.timedelta64(1, "h"), dtype=float)


def _jumps(times: pd.Index, hours: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Whether the dates jump after each snapshot but the last."""
    if not isinstance(times, pd.DatetimeIndex) or len(times) < 2:
        return np.full(max(len(times) - 1, 0), False)
    steps = _steps(times)
    jumps: NDArray[np.bool_] = (steps > _UNUSUAL * np.median(steps)) & (steps > hours[:-1] + _ROUNDING)
    return jumps


def _check_order(times: pd.Index, faults: Faults) -> None:
    if not isinstance(times, pd.DatetimeIndex) or len(times) < 2:
        return
    steps = _steps(times)
    if (steps <= 0).any():
        position = int(np.argmax(steps <= 0))
        faults.add("snapshots", f"{times[position]} before {times[position + 1]}", "ascending dates", "Sort them.")
