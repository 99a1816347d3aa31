"""The state of a job in the middle of its schedule: what is done, what still runs, what it remembers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from pypsa_aidc.training.graph.graph import CheckpointGraph, Formulation, Step, checkpoint_graph
from pypsa_aidc.training.graph.phases import ANY_MODE, Phase, Phases
from pypsa_aidc.training.graph.slots import Slots
from pypsa_aidc.training.load import TrainingLoad
from pypsa_aidc.units import SLOT_TOLERANCE


@dataclass(frozen=True)
class JobState:
    """What the future of a job depends on at a border between two slots.

    Parameters
    ----------
    border
        Slots of the horizon that are over.
    progress
        Segments done by the end of the edge that runs at the border, or by the border if none does.
    running
        The edge that runs across the border and cannot be stopped; `None` if there is none.
    free
        Border from which the next edge may start: the end of the running edge, of a wait that is too short to be
        ended, or the border itself.
    phase
        What the rules make the job remember then, see `Phases`.
    """

    border: int
    progress: int
    running: Step | None
    free: int
    phase: Phase

    @classmethod
    def at(cls, load: TrainingLoad, slots: Slots, steps: Sequence[Step], border: int) -> JobState:
        """Read the state off a schedule, of which only what starts before the border counts.

        Parameters
        ----------
        load
            The load, with checkpoint continuity.
        slots
            The whole horizon.
        steps
            Steps of the schedule, in order of time.
        border
            Slots that are over, 0 to ``len(slots)``.

        Examples
        --------
        >>> from pypsa_aidc.training import Mode, Rules
        >>> mode = Mode((1, 1, 8), gpus=8, flops_per_s=1e15, it_power=0.5)
        >>> load = TrainingLoad("A", work=1e15 * 3600 * 6, modes=(mode,), rules=Rules(segments=3))
        >>> state = JobState.at(load, Slots.uniform(9), [Step(1, 3, 0, 1), Step(4, 6, 0, 1)], 5)
        >>> state.progress, state.free, state.running
        (2, 6, Step(start=4, stop=6, mode=0, segments=1, restart=False))
        """
        past = [step for step in steps if step.start < border]
        running = past[-1] if past and past[-1].stop > border else None
        done = load.rules.progress + round(sum(step.segments for step in past))
        free = running.stop if running else border
        arrival = min(slots.ceil(load.rules.arrival), len(slots))
        if not load.has_memory:
            return cls(border, done, running, max(free, arrival), Phase("free"))
        if past and past[-1].stop == free:
            return cls(border, done, running, free, _running_phase(load, slots, past))
        since = past[-1].stop if past else arrival
        if free <= since:
            return cls(border, done, running, since, Phase("fresh"))
        kept = past[-1].mode if past and load.rules.mode_changes == "never" else ANY_MODE
        rested = int(slots.stops(load.rules.min_wait)[since]) if since < len(slots) else since
        return cls(border, done, running, max(free, rested), Phase("idle", kept))

    def remaining(self, load: TrainingLoad, slots: Slots, formulation: Formulation = "time") -> CheckpointGraph | None:
        """Build the graph of all that may still happen, over the slots after the border.

        Returns
        -------
        CheckpointGraph or None
            Paths from the state to completion, with slot 0 at the border; `None` where all segments are done or
            under way.

        Raises
        ------
        InfeasibleError
            What is left cannot be done by the deadline.
        """
        if self.progress >= load.rules.count:
            return None
        hours = float(slots.ends[self.border])
        left = Slots(slots.hours[self.border :])
        deadline = slots.total if load.deadline is None else load.deadline
        arrival = max(float(slots.ends[min(self.free, len(slots))]) - hours, 0.0)
        rest = replace(
            load, rules=replace(load.rules, progress=self.progress, arrival=arrival), deadline=deadline - hours
        )
        return checkpoint_graph(rest, left, formulation, self.phase)


def _running_phase(load: TrainingLoad, slots: Slots, past: Sequence[Step]) -> Phase:
    """Phase at the end of the last step: its mode, and how many slots the job has run without a pause."""
    elapsed, start = 0, past[-1].stop
    for step in reversed(past):
        if step.stop != start:
            break
        elapsed, start = elapsed + step.stop - step.start, step.start
    phases = Phases(load, int(np.ceil(load.rules.min_run / slots.hours[0] - SLOT_TOLERANCE)))
    mode = past[-1].mode if phases.tracks_mode else ANY_MODE
    return Phase("run", mode, min(elapsed, phases.min_run))
