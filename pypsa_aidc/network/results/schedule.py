"""Decided schedules in a network: decoded from a solved model, kept as series of the job generators, read back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from weakref import WeakKeyDictionary, WeakSet

import linopy
import numpy as np
import pandas as pd
import pypsa
from numpy.typing import NDArray

from pypsa_aidc.errors import Faults, NotSolvedError, StaleError
from pypsa_aidc.network.index import columns, rows
from pypsa_aidc.network.loads.site import Site, sites
from pypsa_aidc.network.model.horizon import Window, network_snapshots, windows
from pypsa_aidc.network.model.paths import PATH, Paths
from pypsa_aidc.training import Slots, Step, TrainingLoad

MODE, GPUS, PROGRESS = "aidc_mode", "aidc_gpus", "aidc_progress"
"""Dynamic attributes of the job generators: position of the mode (-1 waiting), GPUs, segments done by the end."""

SOLVE = (
    "Solve it with n.aidc.optimize(), with n.optimize(extra_functionality=aidc.extra_functionality) or, from a file, "
    "with `pypsa-aidc dispatch FILE --scenario S4 --out FOLDER`, which writes FOLDER/S4.nc."
)
"""What makes a schedule, for those who lack one."""

POWER_TOLERANCE = 1e-6

Floats = NDArray[np.float64]
Steps = Mapping[tuple[str, object], tuple[Step, ...]]

_paths_of_model: WeakKeyDictionary[linopy.Model, Paths] = WeakKeyDictionary()
_recorded: WeakSet[linopy.Model] = WeakSet()


def remember_paths(m: linopy.Model, paths: Paths) -> None:
    """Keep the paths of a model for as long as the model lives, to decode its solution."""
    _paths_of_model[m] = paths


def model_paths(n: pypsa.Network) -> Paths | None:
    """Return the paths that were put into the network's present model, if any."""
    model = n._model
    return None if model is None else _paths_of_model.get(model)


def has_solution(n: pypsa.Network) -> bool:
    """Whether the network's present model has AIDC jobs and values for them."""
    return model_paths(n) is not None and "solution" in n.model.variables[PATH].data


def decode(n: pypsa.Network) -> Steps:
    """Decode the solution of the network's model into steps by generator and window.

    Raises
    ------
    NotSolvedError
        There is no model with AIDC jobs, or it has no solution.
    AIDCError
        The solution is no path: the solver ignored integrality.
    """
    paths = model_paths(n)
    if paths is None or not has_solution(n):
        raise NotSolvedError(
            "no solution with AIDC jobs: solve with n.aidc.optimize() or "
            "n.optimize(extra_functionality=aidc.extra_functionality)"
        )
    flow = n.model.variables[PATH].solution.values
    return {
        (each.generator, each.window.period): each.graph.decode(part)
        for each, part in zip(paths.placed, paths.split(flow), strict=True)
    }


def record(n: pypsa.Network, snapshots: pd.Index | None = None) -> Steps:
    """Decode the solution and keep it in the network, as dynamic attributes of the job generators.

    Returns
    -------
    mapping
        Steps by generator and window.
    """
    steps = decode(n)
    chosen = network_snapshots(n, snapshots)
    found = sites(n)
    loads = {generator: load for site in found.values() for generator, load in site.loads.items()}
    horizon = windows(n, snapshots)
    values = {attribute: pd.DataFrame(np.nan, n.snapshots, list(loads)) for attribute in (MODE, GPUS, PROGRESS)}
    for window in horizon:
        labels = chosen[window.positions]
        for generator, load in loads.items():
            series = series_of(steps[generator, window.period], load, window.slots)
            for attribute, numbers in zip((MODE, GPUS, PROGRESS), series, strict=True):
                values[attribute].loc[labels, generator] = numbers
    for attribute, frame in values.items():
        frame.columns.name = "name"
        n.c.generators.dynamic[attribute] = _spread(n, frame)
    _recorded.add(n.model)
    return steps


def series_of(steps: Sequence[Step], load: TrainingLoad, slots: Slots) -> tuple[Floats, Floats, Floats]:
    """Turn steps into series over slots: position of the mode, GPUs, segments done by the end (Eq. 31 of [1])."""
    mode = np.full(len(slots), -1.0)
    gpus = np.zeros(len(slots))
    gained = np.zeros(len(slots))
    for step in steps:
        mode[step.start : step.stop] = step.mode
        gpus[step.start : step.stop] = load.modes[step.mode].gpus
        gained[step.stop - 1] += step.segments
    return mode, gpus, load.rules.progress + np.cumsum(gained)


def steps_from(mode: Floats, progress: Floats, load: TrainingLoad, slots: Slots) -> tuple[Step, ...]:
    """Turn series over slots back into steps: an edge starts after a wait or an edge and ends with progress.

    Before its arrival a job does not wait: it is not there.
    """
    arrival = slots.ceil(load.rules.arrival)
    steps: list[Step] = []
    start: int | None = None
    done = float(load.rules.progress)
    waited = False
    for slot in range(len(mode)):
        if mode[slot] < 0:
            waited = slot >= arrival
            continue
        start = slot if start is None else start
        if progress[slot] > done + 1e-9:
            steps.append(Step(start, slot + 1, int(mode[slot]), float(progress[slot] - done), waited))
            done, start, waited = float(progress[slot]), None, False
    return tuple(steps)


def read(n: pypsa.Network) -> tuple[dict[str, Site], dict[str, list[tuple[Window, tuple[Step, ...]]]]]:
    """Read the schedules that are kept in a network, by generator; those of a model just solved are recorded first.

    Raises
    ------
    NotSolvedError
        Nothing was solved with AIDC jobs.
    StaleError
        The power of a job is not that of its schedule: the network was solved again without AIDC jobs.
    """
    found = sites(n)
    dynamic = n.c.generators.dynamic
    generators = [generator for site in found.values() for generator in site.loads]
    if has_solution(n) and n.model not in _recorded:
        record(n, n.model.parameters["snapshots"].to_index())
    if MODE not in dynamic or dynamic[MODE].empty:
        raise NotSolvedError(
            f"no schedule of AIDC jobs in this network: it is not solved with them. {SOLVE} Power that a plain "
            "n.optimize() gave the jobs is their least energy at any time, not a schedule."
        )
    mode, progress = (columns(dynamic[attribute], generators) for attribute in (MODE, PROGRESS))
    chosen = n.snapshots[mode.notna().all(axis=1)]
    result: dict[str, list[tuple[Window, tuple[Step, ...]]]] = {generator: [] for generator in generators}
    for site in found.values():
        for generator, load in site.loads.items():
            for window in windows(n, chosen):
                labels = chosen[window.positions]
                modes, done = (frame.loc[labels, generator].to_numpy() for frame in (mode, progress))
                steps = steps_from(modes, done, load, window.slots)
                result[generator].append((window, steps))
    _refuse_stale(n, found, result, chosen)
    return found, result


def step_power(steps: Sequence[Step], load: TrainingLoad, slots: Slots) -> Floats:
    """IT power in MW of each slot, from the steps alone."""
    power = np.zeros(len(slots))
    for step in steps:
        power[step.start : step.stop] += load.modes[step.mode].it_power
        if step.restart:
            power[step.start] += load.rules.restart_energy / slots.hours[step.start]
    return power


def solved_snapshots(n: pypsa.Network) -> pd.Index:
    """Snapshots for which a schedule is kept."""
    frame = n.c.generators.dynamic[MODE]
    solved: pd.Index = n.snapshots[frame.notna().any(axis=1)]
    return solved


def _refuse_stale(
    n: pypsa.Network,
    found: Mapping[str, Site],
    schedules: Mapping[str, list[tuple[Window, tuple[Step, ...]]]],
    chosen: pd.Index,
) -> None:
    faults = Faults("AIDC schedules of the network")
    power = columns(n.c.generators.dynamic["p"], list(schedules))
    for site in found.values():
        for generator, load in site.loads.items():
            for window, steps in schedules[generator]:
                given = power.loc[chosen[window.positions], generator].to_numpy()
                difference = float(np.max(np.abs(given - step_power(steps, load, window.slots)), initial=0.0))
                faults.require(
                    difference <= POWER_TOLERANCE * max(1.0, float(np.max(given, initial=0.0))),
                    f"Generator {generator!r}, p",
                    f"differs by {difference:.6g} MW from its schedule",
                    "the power of the schedule",
                    "The network was solved again without AIDC jobs: solve with n.aidc.optimize().",
                )
    faults.raise_any(StaleError)


def _spread(n: pypsa.Network, frame: pd.DataFrame) -> pd.DataFrame:
    """Give a frame by generator the columns that the network uses, one a scenario where it has them."""
    index = n.generators.index
    if not isinstance(index, pd.MultiIndex):
        return frame
    labels = [label for generator in frame.columns for label in rows(index, generator)]
    spread = frame[[label[-1] for label in labels]]
    return spread.set_axis(pd.MultiIndex.from_tuples(labels, names=index.names), axis=1)
