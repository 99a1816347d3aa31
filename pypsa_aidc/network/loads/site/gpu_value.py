"""What GPU-hours are worth: of a site for all its jobs, by snapshot, or of single jobs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import pypsa
from numpy.typing import NDArray

from pypsa_aidc.network.pypsa_api import columns
from pypsa_aidc.training import Slots, Step, TrainingLoad

if TYPE_CHECKING:
    from pypsa_aidc.network.loads.site.site import Site

GPU_VALUE = "aidc_gpu_value"
"""Dynamic attribute of the site's Link: USD/GPU-h of each snapshot, where it is a series."""

Floats = NDArray[np.float64]


def values_of(n: pypsa.Network, site: Site, load: TrainingLoad, snapshots: pd.Index) -> Floats:
    """USD for each GPU-hour that a job of a site occupies, by snapshot."""
    if load.gpu_value is not None:
        return np.full(len(snapshots), load.gpu_value)
    if "gpu_value" in site.spec.series:
        series = columns(n.c.links.dynamic[GPU_VALUE], [site.link]).loc[snapshots, site.link]
        return np.asarray(series, dtype=float)
    return np.full(len(snapshots), site.spec.gpu_value)


def is_valued(site: Site) -> bool:
    """Whether the GPU-hours of any job of a site are worth anything."""
    own = [load.gpu_value for load in site.jobs.values()]
    of_site = site.spec.gpu_value or "gpu_value" in site.spec.series
    return bool(any(own) or (of_site and None in own))


def occupied(steps: Sequence[Step], load: TrainingLoad, slots: Slots, until: int | None = None) -> Floats:
    """GPUs that a job occupies in each slot: those of its modes, and no fewer than it holds until it is done.

    Parameters
    ----------
    steps
        What it runs.
    load
        The job.
    slots
        The horizon.
    until
        Border until which it holds its GPUs if the steps do not complete it; `None` is the end.
    """
    gpus = np.zeros(len(slots))
    for step in steps:
        gpus[step.start : step.stop] = load.modes[step.mode].gpus
    if load.rules.held_gpus:
        there = in_queue(steps, load, slots, until)
        gpus[there] = np.maximum(gpus[there], load.rules.held_gpus)
    return gpus


def in_queue(steps: Sequence[Step], load: TrainingLoad, slots: Slots, until: int | None = None) -> slice:
    """Slots from the arrival of a job to its completion, or to `until` if the steps do not complete it."""
    done = load.rules.progress + sum(step.segments for step in steps) > load.rules.count - 0.5
    return slice(slots.ceil(load.rules.arrival), steps[-1].stop if done else until)
