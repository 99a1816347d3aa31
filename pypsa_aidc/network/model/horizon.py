"""The horizon of a network as the jobs see it: windows of consecutive snapshots and the hours of each."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

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

Runs = tuple[tuple[str, str | None], ...]
"""First snapshot of each run of snapshots with one label, as text, and the label; `None` for no window."""

Split = Literal["each", "once"] | Runs | None
"""How a load reads the horizon: see `windows`."""

_WAY_OUT = (
    "Give the missing snapshots; or say what they mean: windows='once' for one tranche over all of them, as if the "
    "dates were consecutive, windows='each' for one in each stretch."
)


@dataclass(frozen=True, eq=False)
class Window:
    """Snapshots within which each job does its tranche once, one after the other as if nothing lay between.

    Parameters
    ----------
    period
        What tells it from others: nothing (`None`) for a single one, the investment period, where a horizon or a
        period has several, the first snapshot, or the label that it was given.
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


def dates_alike(labels: pd.Index) -> pd.Index:
    """Give dates one resolution, microseconds, for tables: files have others than the network that was written."""
    return labels.as_unit("us") if isinstance(labels, pd.DatetimeIndex) else labels


def windows(n: pypsa.Network, snapshots: pd.Index | None = None, split: Split = "each") -> tuple[Window, ...]:
    """Split the horizon into windows: at investment periods, and where the dates jump (representative days).

    The hours of a snapshot are its ``n.snapshot_weightings["stores"]``, as for PyPSA's storage; objective and
    generator weightings may differ from it (representative days). Snapshots of different length are fine. The dates
    jump where the next snapshot comes later than usual, and later than the hours of the snapshot before it; a year
    without its 29 February does not.

    Parameters
    ----------
    n
        Network.
    snapshots
        Snapshots to be optimised; `None` for all.
    split
        ``"each"``: a window from jump to jump. `None`: as well, but a gap that is shorter than what lies beside it is
        no day left out, and refused. ``"once"``: one window, or one an investment period, whatever the dates. Runs
        with labels: a window for each label, and none for snapshots without.

    Raises
    ------
    InputError
        Dates that do not ascend, a weighting that is not positive, a small gap that nobody has explained, or a window
        over jumps whose hours weigh differently: its jobs would all run where an hour counts least.
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
    found: list[tuple[Any, NDArray[np.int64]]] = []
    for period, positions in groups:
        if split == "once":
            found.append((period, positions))
        elif split is None or split == "each":
            parts = np.split(positions, np.flatnonzero(_jumps(times[positions], hours[positions])) + 1)
            if split is None:
                _refuse_small_gaps(times, hours, parts, faults)
            for part in parts:
                name = period if len(parts) == 1 else str(times[part[0]] if period is None else chosen[part[0]])
                found.append((name, part))
        else:
            labels = _labels_of(times, split)
            found += [(label, np.flatnonzero(labels == label)) for label in pd.unique(labels[labels != ""])]
    weights = objective / hours
    for name, part in found if split not in (None, "each") else ():
        low, high = float(weights[part].min()), float(weights[part].max())
        faults.require(
            high <= low * (1 + _ROUNDING),
            "windows" if name is None else f"window {name}",
            f"hours that weigh {low:g} and {high:g}",
            "one weight within each window: a job would run where an hour counts least, and do the work of many days",
            "Give each weight a window of its own, or windows='each'.",
        )
    faults.require(bool(found), "windows", "no snapshot in any", "at least one")
    faults.raise_any()
    return tuple(Window(name, part, Slots(hours[part]), weights[part]) for name, part in found)


def runs_of(labels: Sequence[object], snapshots: pd.Index, faults: Faults) -> Runs:
    """Turn a label for each snapshot into runs, as they are kept with a load; faults are noted.

    Parameters
    ----------
    labels
        One a snapshot, of any kind; `None`, NaN and ``""`` for no window.
    snapshots
        Those of the network: ascending dates or whole numbers, which a part of them can be found among again.
    faults
        Receives the faults.
    """
    remedy = "'each' and 'once' need no labels."
    ordered = isinstance(snapshots, pd.DatetimeIndex) or pd.api.types.is_integer_dtype(snapshots)
    ordered = ordered and not isinstance(snapshots, pd.MultiIndex) and bool(snapshots.is_monotonic_increasing)
    faults.require(ordered, "windows", "labels", "ascending dates or whole numbers as snapshots", remedy)
    faults.require(len(labels) == len(snapshots), "windows", f"{len(labels)} labels", f"{len(snapshots)}, one each")
    names = [None if pd.isna(label) or label == "" else str(label) for label in labels]  # type: ignore[call-overload]
    faults.require(any(name is not None for name in names), "windows", "no label", "at least one snapshot with one")
    if len(labels) != len(snapshots):
        return ()
    starts = [at for at, name in enumerate(names) if not at or name != names[at - 1]]
    return tuple((str(snapshots[at]), names[at]) for at in starts)


def _labels_of(times: pd.Index, runs: Runs) -> NDArray[np.object_]:
    """Label of each snapshot, empty for none."""
    dated = isinstance(times, pd.DatetimeIndex)
    starts = pd.DatetimeIndex([first for first, _ in runs]) if dated else pd.Index([int(first) for first, _ in runs])
    at = starts.searchsorted(times, side="right") - 1
    names = np.array([name or "" for _, name in runs], dtype=object)
    return np.where(at < 0, "", names[np.maximum(at, 0)])


def doubts(n: pypsa.Network, snapshots: pd.Index | None = None, *, explained: bool = False) -> str:
    """Say how the dates of snapshots and their weightings disagree, and where the dates jump; empty if they do not.

    PyPSA reads hours from the weightings alone, and so does this package. With `explained`, all loads have been told
    what their windows are, and of that nothing is said.
    """
    chosen = network_snapshots(n, snapshots)
    weightings = n.snapshot_weightings.loc[chosen]
    hours = weightings["stores"].to_numpy(float)
    weights = weightings["objective"].to_numpy(float) / hours
    groups, times = _periods(chosen)
    told: list[str] = []
    for _, positions in groups:
        own, lengths = times[positions], hours[positions]
        jumps = _jumps(own, lengths)
        if not explained:
            told += _undeclared(own, weights[positions], jumps)
        if not isinstance(own, pd.DatetimeIndex) or len(own) < 2:
            continue
        steps = _steps(own)
        wrong = np.flatnonzero((np.abs(steps - lengths[:-1]) > _ROUNDING) & ~jumps)
        if len(wrong):
            first = int(wrong[0])
            told.append(
                f"the next snapshot after {own[first]} comes {steps[first]:g} h later, its weighting for stores is "
                f"{lengths[first]:g} h ({len(wrong)} such snapshots): the weighting counts"
            )
    return "; ".join(dict.fromkeys(told))


def _undeclared(times: pd.Index, weights: NDArray[np.float64], jumps: NDArray[np.bool_]) -> list[str]:
    """What is taken for granted of the windows of an investment period."""
    told = []
    if jumps.any():
        first = int(np.flatnonzero(jumps)[0])
        told.append(
            f"the dates jump from {times[first]} to {times[first + 1]} ({int(jumps.sum())} jumps): each job does its "
            "tranche once in each stretch between jumps"
        )
    # Typical periods under consecutive labels: whole blocks of snapshots weigh more or less than others.
    change = np.flatnonzero((np.abs(np.diff(weights)) > _ROUNDING * weights[1:]) & ~jumps) + 1
    blocks = np.diff([0, *change, len(weights)])
    if len(change) and blocks.min() > 1:
        told.append(
            f"an hour weighs {weights[change[0] - 1]:g} before {times[change[0]]} and {weights[change[0]]:g} from then "
            "on, without a jump: jobs run where it weighs least. Typical periods need windows=, a label for each "
            "snapshot"
        )
    return told


def _refuse_small_gaps(
    times: pd.Index, hours: NDArray[np.float64], parts: Sequence[NDArray[np.int64]], faults: Faults
) -> None:
    """Note gaps shorter than the longer stretch beside them: hours that are missing, and no days that were left out."""
    lengths = [float(hours[part].sum()) for part in parts]
    dates, small = list(times) if len(parts) > 1 else [], []
    for at, (before, after) in enumerate(pairwise(parts)):
        last, first = int(before[-1]), int(after[0])
        missing = float((dates[first] - dates[last]) / pd.Timedelta("1h")) - hours[last]
        if missing < max(lengths[at], lengths[at + 1]) - _ROUNDING:
            small.append((missing, dates[last], dates[first]))
    if small:
        missing, end, start = small[0]
        more = f", and {len(small) - 1} more such gaps" if len(small) > 1 else ""
        given = f"{missing:g} h missing between {end} and {start}{more}"
        faults.add("snapshots", given, "no gap: each job would do its tranche on either side", _WAY_OUT)


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
    for at in map(int, np.flatnonzero(jumps)):
        due = times[at] + pd.Timedelta(hours[at], "h")
        jumps[at] = not (due.month == 2 and due.day == 29 and times[at + 1] == due + pd.Timedelta("1D"))
    return jumps


def _check_order(times: pd.Index, faults: Faults) -> None:
    if not isinstance(times, pd.DatetimeIndex) or len(times) < 2:
        return
    steps = _steps(times)
    if (steps <= 0).any():
        position = int(np.argmax(steps <= 0))
        faults.add("snapshots", f"{times[position]} before {times[position + 1]}", "ascending dates", "Sort them.")
