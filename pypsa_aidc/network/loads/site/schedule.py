"""Decided schedules in a network: decoded from a solved model, kept as series of the job generators, read back."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import pypsa
from numpy.typing import NDArray

from pypsa_aidc.errors import Faults, NotSolvedError
from pypsa_aidc.network.loads.protocol import SOLVE
from pypsa_aidc.network.loads.site.gpu_value import in_queue, is_valued, occupied, values_of
from pypsa_aidc.network.loads.site.paths import PATH, Paths, PlacedGraph
from pypsa_aidc.network.loads.site.step_power import begun, edge_power, step_power
from pypsa_aidc.network.model.horizon import Window, dates_alike, network_snapshots, windows
from pypsa_aidc.network.pypsa_api import columns, rows
from pypsa_aidc.network.results.balance import injection
from pypsa_aidc.training import Slots, Step, TrainingLoad

if TYPE_CHECKING:
    from pypsa_aidc.network.loads.site.site import Site

MODE, GPUS, PROGRESS = "aidc_mode", "aidc_gpus", "aidc_progress"
"""Dynamic attributes of the job generators: position of the mode (-1 waiting), GPUs, segments done by the end.

Positions are those in `Site.jobs`. Modes ascend in GPUs, so those that fit into a pool are its first ones.
"""

POWER_TOLERANCE = 1e-6

Floats = NDArray[np.float64]
Steps = Mapping[tuple[str, object], tuple[Step, ...]]

Schedules = Mapping[str, list[tuple[Window, tuple[Step, ...]]]]
"""What each job generator runs in each window of the horizon."""


def decode(n: pypsa.Network, paths: Paths, scenario: str | None = None) -> Steps:
    """Decode the solution of the network's model into steps by generator and window, in one scenario.

    Raises
    ------
    AIDCError
        The solution is no path: the solver ignored integrality.
    """
    flow = n.model.variables[PATH].solution.values if paths.placed else np.zeros(0)
    if paths.ahead is not None:
        shift = paths.ahead.decided
        planned: dict[str, tuple[Step, ...]] = dict.fromkeys(paths.generators, ())
        for each, part in zip(paths.placed, paths.split(flow), strict=True):
            steps = each.graph.decode(part)
            planned[each.generator] = tuple(
                replace(step, start=step.start + shift, stop=step.stop + shift) for step in steps
            )
        return {(generator, None): (*paths.decided(generator), *planned[generator]) for generator in paths.generators}
    return {
        (generator, each.window.period): steps
        for each, part in zip(paths.placed, paths.split(flow), strict=True)
        if each.scenario in (None, scenario)
        for generator, steps in zip(each.generators, _decoded(each, part), strict=True)
    }


def _decoded(each: PlacedGraph, flow: Floats) -> list[tuple[Step, ...]]:
    return each.graph.decode_many(flow, len(each.generators)) if each.equals else [each.graph.decode(flow)]


def write_power(n: pypsa.Network, paths: Paths) -> None:
    """Give equal jobs that the model has together the power of the path that each of them got."""
    schedules, power = read(n, paths.sites), n.c.generators.dynamic["p"]
    chosen = solved_snapshots(n, paths.sites)
    for generator in dict.fromkeys(name for each in paths.placed if each.equals for name in each.generators):
        load = paths.generators[generator][1]
        for window, steps in schedules[generator]:
            for label in rows(n.generators.index, generator):
                power.loc[chosen[window.positions], label] = step_power(steps, load, window.slots)


def record(n: pypsa.Network, paths: Paths) -> None:
    """Decode the solution and keep it in the network, as dynamic attributes of the job generators."""
    chosen = network_snapshots(n, n.model.parameters["snapshots"].to_index())
    if paths.ahead is not None:
        # What windows before have decided belongs to it; what is planned after the window is not kept.
        last = int(paths.ahead.snapshots.get_indexer(chosen[-1:])[0]) + 1
        chosen = paths.ahead.snapshots[:last]
    index = n.generators.index
    columns = pd.Index([label for generator in paths.generators for label in rows(index, generator)])
    values = {attribute: pd.DataFrame(np.nan, n.snapshots, columns) for attribute in (MODE, GPUS, PROGRESS)}
    rolling = paths.ahead is not None  # over a single window, whatever a part of it looks like
    horizons = {
        site.name: windows(n, chosen, "once") if rolling else site.windows(n, chosen) for site in paths.sites.values()
    }
    for scenario in n.scenarios if n.has_scenarios else [None]:
        steps = decode(n, paths, scenario)
        for generator, (site, load) in paths.generators.items():
            own = generator if scenario is None else (scenario, generator)
            # Outside of all windows a job does not run, and has nothing to do.
            for attribute, number in ((MODE, -1.0), (GPUS, 0.0), (PROGRESS, float(load.rules.count))):
                values[attribute].loc[chosen, own] = number
            for window in horizons[site]:
                labels = chosen[window.positions]
                slots = window.slots if paths.ahead is None else paths.ahead.slots
                series = series_of(steps[generator, window.period], load, slots)
                for attribute, numbers in zip((MODE, GPUS, PROGRESS), series, strict=True):
                    values[attribute].loc[labels, own] = numbers[: len(labels)]
    for attribute, frame in values.items():
        frame.columns.names = index.names
        n.c.generators.dynamic[attribute] = frame
    paths.write_back(n)


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


def read(n: pypsa.Network, sites: Mapping[str, Site]) -> Schedules:
    """Read the schedules that are kept in a network, by generator.

    Raises
    ------
    NotSolvedError
        Nothing was solved with AIDC jobs.
    """
    chosen = solved_snapshots(n, sites)
    dynamic = n.c.generators.dynamic
    result: dict[str, list[tuple[Window, tuple[Step, ...]]]] = {}
    for site in sites.values():
        mode, progress = (columns(dynamic[attribute], list(site.jobs)) for attribute in (MODE, PROGRESS))
        horizon = site.windows(n, chosen)
        for generator, load in site.jobs.items():
            result[generator] = []
            for window in horizon:
                labels = chosen[window.positions]
                modes, done = (frame.loc[labels, generator].to_numpy() for frame in (mode, progress))
                result[generator].append((window, steps_from(modes, done, load, window.slots)))
    return result


def steps_before(n: pypsa.Network, site: Site, moment: object | None) -> list[tuple[str, Step]]:
    """Steps of all jobs of a site that start before a snapshot, or all steps."""
    own = {site.name: site}
    chosen = solved_snapshots(n, own)
    first = len(chosen) if moment is None else int(chosen.get_indexer(pd.Index([moment]))[0])
    return [
        (generator, step)
        for generator, runs in read(n, own).items()
        for window, steps in runs
        for step in steps
        if window.positions[step.start] < first
    ]


def fed_behind_the_meter(n: pypsa.Network, site: Site, snapshots: pd.Index) -> pd.Series:
    """Power in MW that components which are no parts of a site, such as its battery, feed into its IT bus."""
    own = [part for parts in site.parts.values() for part in parts]
    fed: pd.Series = columns(injection(n, snapshots, own), [site.bus])[site.bus]
    return fed


def cost_of_changes(n: pypsa.Network, site: Site) -> float:
    """Cost in USD of all changes of modes without a wait, weighted as the objective weighs the hour after them."""
    if not any(load.costs_changes for load in site.jobs.values()):
        return 0.0
    return sum(
        beginning.cost * float(window.weight[step.start])
        for generator, runs in read(n, {site.name: site}).items()
        for window, steps in runs
        for step, beginning in begun(steps, site.jobs[generator])
    )


def delay_costs(n: pypsa.Network, site: Site) -> float:
    """Cost in USD of the hours from arrival to completion of all jobs, weighted as the objective weighs them."""
    if not any(load.rules.delay_cost for load in site.jobs.values()):
        return 0.0
    return sum(
        load.rules.delay_cost * float((window.weight * window.slots.hours)[in_queue(steps, load, window.slots)].sum())
        for generator, runs in read(n, {site.name: site}).items()
        for load in [site.jobs[generator]]
        for window, steps in runs
    )


def gpu_costs(n: pypsa.Network, site: Site) -> dict[str, float]:
    """Worth in USD of the GPU-hours that each job of a site occupies, weighted as the objective weighs them."""
    if not is_valued(site):
        return {load.name: 0.0 for load in site.jobs.values()}
    return _occupied_hours(n, site, lambda load, snapshots: values_of(n, site, load, snapshots))


def gpu_hours(n: pypsa.Network, site: Site) -> float:
    """GPU-hours that the jobs of a site occupy, held ones included, weighted as the objective weighs them."""
    return sum(_occupied_hours(n, site, lambda _, snapshots: np.ones(len(snapshots))).values())


def _occupied_hours(
    n: pypsa.Network, site: Site, value: Callable[[TrainingLoad, pd.Index], Floats]
) -> dict[str, float]:
    found = {load.name: 0.0 for load in site.jobs.values()}
    chosen = solved_snapshots(n, {site.name: site})
    for generator, runs in read(n, {site.name: site}).items():
        load = site.jobs[generator]
        for window, steps in runs:
            weight = value(load, chosen[window.positions]) * window.weight * window.slots.hours
            found[load.name] += float((occupied(steps, load, window.slots) * weight).sum())
    return found


def solved_snapshots(n: pypsa.Network, sites: Mapping[str, Site]) -> pd.Index:
    """Snapshots for which the schedules of all jobs of some sites are kept.

    Raises
    ------
    NotSolvedError
        There are none.
    """
    kept = n.c.generators.dynamic.get(MODE, pd.DataFrame())
    generators = [generator for site in sites.values() for generator in site.jobs]
    solved: pd.Index = n.snapshots[:0] if kept.empty else n.snapshots[columns(kept, generators).notna().all(axis=1)]
    if not len(solved):
        raise NotSolvedError(
            f"no schedule of AIDC jobs in this network: it is not solved with them. {SOLVE} Power that a plain "
            "n.optimize() gave the jobs is their least energy at any time, not a schedule."
        )
    return solved


def check_power(n: pypsa.Network, site: Site, faults: Faults) -> None:
    """Note jobs whose power is not that of their schedule: the network was solved again without AIDC jobs."""
    schedules, chosen = read(n, {site.name: site}), solved_snapshots(n, {site.name: site})
    power = columns(n.c.generators.dynamic["p"], list(schedules))
    for generator, load in site.jobs.items():
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


def step_table(n: pypsa.Network, sites: Mapping[str, Site]) -> pd.DataFrame:
    """List what each job runs when, one row a training edge; see `Results.schedule`."""
    schedules, chosen = read(n, sites), solved_snapshots(n, sites)
    table = []
    for site in sites.values():
        for generator, load in site.jobs.items():
            for window, steps in schedules[generator]:
                labels = dates_alike(chosen[window.positions])
                done = load.rules.progress
                for step, beginning in begun(steps, load):
                    mode = load.modes[step.mode]
                    hours = float(window.slots.ends[step.stop] - window.slots.ends[step.start])
                    power = edge_power(step, beginning, load, window.slots)
                    if load.rules.continuity:
                        share = sum(load.rules.shares[done : done + round(step.segments)])
                        done += round(step.segments)
                        need = load.hours(mode) * share + round(step.segments) * load.rules.checkpoint_hours
                        need += beginning.hours
                    else:
                        need = hours
                    table.append(
                        {
                            "site": site.name,
                            "job": load.name,
                            "start": labels[step.start],
                            "last": labels[step.stop - 1],
                            "hours": hours,
                            **dict(zip(("pipeline", "tensor", "data"), mode.size, strict=False)),
                            "mode": mode.label,
                            "gpus": mode.gpus,
                            "it_power": mode.it_power,
                            "energy": float((power * window.slots.hours[step.start : step.stop]).sum()),
                            "segments": step.segments,
                            "restart": step.restart,
                            "boundary_idle": mode.gpus * (hours - need),
                        }
                    )
    frame = pd.DataFrame(table)
    frame.attrs["units"] = {"it_power": "MW", "energy": "MWh", "hours": "h", "boundary_idle": "GPU-h"}
    return frame


def job_series(n: pypsa.Network, sites: Mapping[str, Site], attribute: str) -> pd.DataFrame:
    """Kept series of each job; columns (site, job)."""
    chosen = solved_snapshots(n, sites)
    jobs = {generator: (site.name, load.name) for site in sites.values() for generator, load in site.jobs.items()}
    frame = columns(n.c.generators.dynamic[attribute], list(jobs)).loc[chosen]
    return frame.set_axis(pd.MultiIndex.from_tuples(list(jobs.values()), names=["site", "job"]), axis=1)


def mode_labels(n: pypsa.Network, sites: Mapping[str, Site]) -> pd.DataFrame:
    """Mode of each job in each snapshot as text; see `Results.modes`."""
    frame = job_series(n, sites, MODE)
    for site in sites.values():
        for load in site.jobs.values():
            labels = {-1.0: "", **{float(k): mode.label for k, mode in enumerate(load.modes)}}
            frame[site.name, load.name] = frame[site.name, load.name].map(labels)
    return frame


def work_done(n: pypsa.Network, sites: Mapping[str, Site]) -> pd.DataFrame:
    """Share of the tranche each job has done by the end of each snapshot; see `Results.progress`."""
    frame = job_series(n, sites, PROGRESS)
    for site in sites.values():
        for load in site.jobs.values():
            cumulative = np.concatenate([[0.0], np.cumsum(load.rules.shares)])
            done = frame[site.name, load.name].to_numpy(float)
            frame[site.name, load.name] = np.interp(done, np.arange(load.rules.count + 1), cumulative)
    return frame


def summary(n: pypsa.Network, site: Site, power: pd.DataFrame) -> dict[str, float]:
    """What the jobs of a site did: energy, GPUs, waiting, idle at the ends of edges; see `Results.summary`."""
    own, hours = {site.name: site}, n.snapshot_weightings["stores"].loc[power.index]
    if not site.loads:
        nothing = ("training_energy", "peak_gpus", "gpu_hours", "waiting_hours", "boundary_idle")
        return dict.fromkeys(nothing, 0.0)
    used = job_series(n, own, GPUS)[site.name].loc[power.index]
    before = work_done(n, own)[site.name].loc[power.index].shift(fill_value=1.0)
    before.loc[[power.index[window.positions[0]] for window in site.windows(n, power.index)]] = 0.0
    unfinished = before < 1 - 1e-9
    steps, jobs = step_table(n, own), [load.name for load in site.jobs.values()]
    return {
        "training_energy": float(power[site.name][jobs].mul(hours, axis=0).to_numpy().sum()),
        "peak_gpus": int(used.to_numpy().sum(axis=1).max()),
        "gpu_hours": float(used.mul(hours, axis=0).to_numpy().sum()),
        "waiting_hours": float(((used == 0) & unfinished).mul(hours, axis=0).to_numpy().sum()),
        "boundary_idle": float(steps["boundary_idle"].sum()) if len(steps) else 0.0,
        "modes_used": len(steps.groupby(["job", "mode"])) if len(steps) else 0,
    }
