"""Power of decided steps, from the steps alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from pypsa_aidc.training import Slots, Step, TrainingLoad
from pypsa_aidc.training.transitions import Beginning

Floats = NDArray[np.float64]


def begun(steps: Sequence[Step], load: TrainingLoad) -> Iterator[tuple[Step, Beginning]]:
    """Yield each step and what beginning it takes, after the one before it."""
    before: Step | None = None
    for step in steps:
        position = None if before is None else before.mode
        yield step, load.beginning(position, step.mode, waited=step.restart) or Beginning(restart=step.restart)
        before = step


def edge_power(step: Step, beginning: Beginning, load: TrainingLoad, slots: Slots) -> Floats:
    """IT power in MW of each slot of one step."""
    power = np.full(step.stop - step.start, load.modes[step.mode].it_power)
    power[0] += beginning.energy / slots.hours[step.start]
    if load.rules.checkpoint_energy:
        hours = slots.ends[step.stop] - slots.ends[step.start]
        power += step.segments * load.rules.checkpoint_energy / hours
    return power


def step_power(steps: Sequence[Step], load: TrainingLoad, slots: Slots) -> Floats:
    """IT power in MW of each slot."""
    power = np.zeros(len(slots))
    for step, beginning in begun(steps, load):
        power[step.start : step.stop] += edge_power(step, beginning, load, slots)
    return power
