"""The audit of a training site: every rule of its jobs, its pool and its connection, on the decoded schedules."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import pypsa

from pypsa_aidc.errors import Faults, StaleError
from pypsa_aidc.network.loads.protocol import Check
from pypsa_aidc.network.loads.site import schedule
from pypsa_aidc.network.loads.site.derived import most_change
from pypsa_aidc.network.loads.site.gpu_value import occupied
from pypsa_aidc.network.loads.site.step_power import begun, step_power
from pypsa_aidc.network.model.horizon import Window
from pypsa_aidc.network.pypsa_api import columns, dense, rows
from pypsa_aidc.training import Step, TrainingLoad
from pypsa_aidc.units import SLOT_TOLERANCE, W_PER_MW

if TYPE_CHECKING:
    from pypsa_aidc.network.loads.site.site import Site


def checks(n: pypsa.Network, site: Site) -> Iterator[Check]:
    """Check the jobs of a site one by one, then what they share.

    Raises
    ------
    StaleError
        The power of a job is not that of its schedule.
    """
    faults = Faults("AIDC schedules of the network")
    schedule.check_power(n, site, faults)
    faults.raise_any(StaleError)
    own = {site.name: site}
    schedules, snapshots = schedule.read(n, own), schedule.solved_snapshots(n, own)
    for generator, load in site.jobs.items():
        for window, steps in schedules[generator]:
            yield from _job(generator, load, window, steps)
    yield from _shared(n, site, schedules, snapshots)


def _job(generator: str, load: TrainingLoad, window: Window, steps: tuple[Step, ...]) -> Iterator[Check]:
    rules, slots = load.rules, window.slots
    where = generator if window.period is None else f"{generator}, period {window.period}"
    done = rules.progress + sum(step.segments for step in steps)
    missing = rules.count - done if not rules.continuity else abs(rules.count - done)
    yield Check("completion", where, missing, "segments")
    before = slots.ends[[step.start for step in steps]]
    yield Check("arrival", where, (rules.arrival - before).max(initial=0.0), "h")
    after = slots.ends[[step.stop for step in steps]]
    deadline = slots.total if load.deadline is None else load.deadline
    yield Check("deadline", where, (after - deadline).max(initial=0.0), "h")
    yield Check("enough time in each edge", where, _time_short(load, window, steps), "h", 10 * SLOT_TOLERANCE)
    overlaps = [max(0, first.stop - second.start) for first, second in pairwise(steps)]
    yield Check("one edge at a time", where, max(overlaps, default=0), "slots")
    yield Check("waiting", where, _forbidden_waits(load, window, steps), "h", 10 * SLOT_TOLERANCE)
    yield Check("mode changes", where, _forbidden_changes(load, steps), "changes")


def _time_short(load: TrainingLoad, window: Window, steps: tuple[Step, ...]) -> float:
    rules, short, done = load.rules, 0.0, load.rules.progress
    for step, beginning in begun(steps, load):
        if rules.continuity:
            jump = round(step.segments)
            share = sum(rules.shares[done : done + jump])
            done += jump
        else:
            share = step.segments / rules.count
        need = load.hours(load.modes[step.mode]) * share
        if rules.continuity:
            need += jump * rules.checkpoint_hours + beginning.hours
        short = max(short, need - float(window.slots.ends[step.stop] - window.slots.ends[step.start]))
    return short


def _forbidden_waits(load: TrainingLoad, window: Window, steps: tuple[Step, ...]) -> float:
    """Hours by which waits are not allowed or too short, or runs too short."""
    rules, ends = load.rules, window.slots.ends
    if not steps or not rules.continuity:
        return 0.0
    starts = [window.slots.ceil(rules.arrival), *(step.stop for step in steps[:-1])]
    waits = [float(ends[step.start] - ends[start]) for start, step in zip(starts, steps, strict=True)]
    if not rules.waiting:
        return max(waits)
    short_waits = [rules.min_wait - wait for wait in waits if wait > SLOT_TOLERANCE]
    runs, run = [], 0.0
    for step, wait in zip(steps, waits, strict=True):
        if wait > SLOT_TOLERANCE and run:
            runs.append(run)
            run = 0.0
        run += float(ends[step.stop] - ends[step.start])
    short_runs = [rules.min_run - length for length in runs]
    return max([0.0, *short_waits, *short_runs])


def _forbidden_changes(load: TrainingLoad, steps: tuple[Step, ...]) -> int:
    return sum(load.beginning(a.mode, b.mode, waited=a.stop < b.start) is None for a, b in pairwise(steps))


def _shared(n: pypsa.Network, site: Site, schedules: schedule.Schedules, snapshots: pd.Index) -> Iterator[Check]:
    """GPU pool, connection and energy of the site."""
    gpus, pool, power = (pd.Series(0.0, snapshots) for _ in range(3))
    for generator, load in site.jobs.items():
        for window, steps in schedules[generator]:
            labels = snapshots[window.positions]
            gpus.loc[labels] += schedule.series_of(steps, load, window.slots)[1]
            pool.loc[labels] += occupied(steps, load, window.slots)
            power.loc[labels] += step_power(steps, load, window.slots)
    yield Check("GPU pool", site.name, (pool - site.spec.gpus).max(), "GPUs")
    if site.spec.idle_w:
        power += (site.spec.gpus - gpus) * site.spec.idle_w / W_PER_MW
    imported = columns(n.c.links.dynamic["p0"], [site.link]).loc[snapshots, site.link]
    static = n.links.loc[rows(n.links.index, site.link)]
    capacity = static["p_nom_opt"].max() if static["p_nom_extendable"].any() else static["p_nom"].max()
    yield Check("connection", site.name, (imported - capacity).max(), "MW")
    for sign, (attribute, limit) in zip((1, -1), most_change(n, site, snapshots).items(), strict=True):
        if limit is not None:
            excess = (sign * imported.diff() - limit.loc[snapshots]).max()
            yield Check(attribute.replace("ramp_limit_", "ramp "), site.name, float(np.nan_to_num(excess)), "MW")
    base = dense(n, "Load", "p_set", site.base).loc[snapshots].iloc[:, 0]
    efficiency = dense(n, "Link", "efficiency", site.link).loc[snapshots].iloc[:, 0]
    others = schedule.fed_behind_the_meter(n, site, snapshots)
    yield Check("energy of the site", site.name, (imported * efficiency - base - power + others).abs().max(), "MW")
