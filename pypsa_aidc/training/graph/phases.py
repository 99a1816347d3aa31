"""What a job remembers beside its progress, as the phases of a small automaton that multiply the graph's nodes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from pypsa_aidc.training.load import TrainingLoad
from pypsa_aidc.training.transitions import Beginning

ANY_MODE = -1


@dataclass(frozen=True)
class Phase:
    """A memory state: just started, running (in which mode, for how many slots), or idle."""

    kind: Literal["free", "fresh", "idle", "run"]
    mode: int = ANY_MODE
    elapsed: int = 0


class Phases:
    """All phases that the rules of a job make necessary; a single one where the rules need no memory.

    Parameters
    ----------
    load
        The job.
    min_run
        Least running time in slots.
    """

    def __init__(self, load: TrainingLoad, min_run: int) -> None:
        self.load = load
        self.rules = rules = load.rules
        self.min_run = max(min_run, 1)
        self.modes = range(len(load.modes))
        self.tracks_mode = load.tracks_mode
        tracked = list(self.modes) if self.tracks_mode else [ANY_MODE]
        if load.has_memory:
            idle_modes = [ANY_MODE, *self.modes] if rules.mode_changes == "never" else [ANY_MODE]
            self.all = (
                Phase("fresh"),
                *(Phase("idle", mode) for mode in idle_modes),
                *(Phase("run", mode, slots) for mode in tracked for slots in range(1, self.min_run + 1)),
            )
        else:
            self.all = (Phase("free"),)
        self.index = {phase: position for position, phase in enumerate(self.all)}

    def __len__(self) -> int:
        return len(self.all)

    def waits(self) -> Iterator[tuple[int, int, bool]]:
        """Yield waiting moves: from phase, to phase, whether the least waiting time applies."""
        if not self.rules.waiting:
            return
        for position, phase in enumerate(self.all):
            if phase.kind in ("free", "idle"):
                yield position, position, False
            elif phase.kind == "fresh" or phase.elapsed >= self.min_run:
                kept = phase.mode if self.rules.mode_changes == "never" else ANY_MODE
                yield position, self.index[Phase("idle", kept)], True

    def runs(self) -> Iterator[tuple[int, int, Beginning]]:
        """Yield training moves: from phase, mode, and what beginning there takes."""
        for position, phase in enumerate(self.all):
            before = None if phase.mode == ANY_MODE else phase.mode
            for mode in self.modes:
                beginning = self.load.beginning(before, mode, waited=phase.kind == "idle")
                if beginning is not None:
                    yield position, mode, beginning

    def after(self, position: int, mode: int) -> list[int]:
        """Phase after training in `mode` from phase `position`, by slots run: entry ℓ-1 for ℓ = 1 .. `min_run`."""
        phase = self.all[position]
        if phase.kind == "free":
            return [position] * self.min_run
        tracked = mode if self.tracks_mode else ANY_MODE
        return [
            self.index[Phase("run", tracked, min(phase.elapsed + slots, self.min_run))]
            for slots in range(1, self.min_run + 1)
        ]

    def completes(self) -> Iterator[int]:
        """Yield the phases from which a job that has done its work may end."""
        return (position for position, phase in enumerate(self.all) if phase.kind in ("free", "run"))
