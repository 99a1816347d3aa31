"""What a checkpointed job may do between its segments: wait, restart, change mode."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any, Literal

from pypsa_aidc.errors import Faults
from pypsa_aidc.plain import settle

ModeChanges = Literal["free", "after_wait", "never"]


@dataclass(frozen=True)
class Rules:
    """Execution rules of a job on its checkpoint-state graph.

    Parameters
    ----------
    segments
        K_seg, checkpoint-to-checkpoint segments of the tranche (Eq. 9 of [1]); or the share of the work of each
        segment, summing to 1, where checkpoints are not evenly spaced.
    jump
        K_jump, most segments that one training edge may run without a choice in between; `None` for all. Longer
        jumps waste less of the last slot of an edge, since only whole slots are used.
    waiting
        Whether the job may wait at checkpoints. Without, it starts on arrival and runs until it is done.
    continuity
        Whether checkpoints bind at all. Without, the job may take any mode in any slot and only its total work
        counts (scenario S3 of [1]): an optimistic bound that no real job can execute.
    arrival
        Hours after the first snapshot before which the job cannot run.
    progress
        Segments that are already done at the start.
    restart_hours, restart_energy
        Time (h) and extra IT energy (MWh, drawn in the first slot) of the first edge after a wait. A warm-up of w hours
        at a share r of the throughput takes w·(1 - r) hours more: add them.
    checkpoint_hours, checkpoint_energy
        Time in hours to write the checkpoint at the end of each segment, at the power of the mode; and extra IT energy
        (MWh a checkpoint, for storage and network), drawn evenly over the edge that writes it.
    min_run, min_wait
        Least hours of uninterrupted running (completion excepted) and of waiting.
    mode_changes
        ``"free"``; ``"after_wait"`` keeps the mode from edge to edge and lets it change at a resume; ``"never"``
        keeps one mode for the whole tranche.
    mode_change_cost
        USD for each change of mode between two edges without a wait in between; what single pairs of modes cost
        otherwise, `TrainingLoad.transitions` says.
    held_gpus
        GPUs that the job keeps from its arrival to its completion, whether it computes on them or not: nobody else can
        use them, and their hours cost `gpu_value`. 0 frees whatever its mode does not need, and all while it waits.
    delay_cost
        USD for each hour from arrival to completion, the priority of a job in a queue: where jobs compete for GPUs or
        cheap hours, the one goes first whose delay costs more. It is a weight, not a rank: a job of 10 USD/h yields to
        eleven of 1 USD/h that it would delay as long, and waits where that saves more than 10 USD/h of energy.

    Raises
    ------
    InputError
        Any field out of range, or options that exclude each other; all of them at once.

    References
    ----------
    [1] Tong et al., arXiv:2610.13047 (2026), section IV.A.

    Examples
    --------
    >>> Rules(segments=12).has_memory
    False
    >>> Rules(segments=12, restart_hours=0.25).has_memory
    True
    """

    segments: int | Sequence[float] = 12
    jump: int | None = None
    waiting: bool = True
    continuity: bool = True
    arrival: float = 0.0
    progress: int = 0
    restart_hours: float = 0.0
    restart_energy: float = 0.0
    checkpoint_hours: float = 0.0
    checkpoint_energy: float = 0.0
    min_run: float = 0.0
    min_wait: float = 0.0
    mode_changes: ModeChanges = "free"
    mode_change_cost: float = 0.0
    held_gpus: int = 0
    delay_cost: float = 0.0

    def __post_init__(self) -> None:
        faults = Faults("Rules")
        for field in ("waiting", "continuity"):
            faults.flag(field, getattr(self, field))
        self._check_segments(faults)
        if self.jump is not None:
            faults.number("jump", self.jump, at_least=1, integer=True)
        for field in _AMOUNTS:
            faults.number(field, getattr(self, field), at_least=0)
        for field in ("progress", "held_gpus"):
            faults.number(field, getattr(self, field), at_least=0, integer=True)
        choices = ("free", "after_wait", "never")
        faults.require(self.mode_changes in choices, "mode_changes", self.mode_changes, f"one of {', '.join(choices)}")
        if not self.continuity:
            for field, neutral in _BOUND_TO_CHECKPOINTS.items():
                faults.require(
                    getattr(self, field) == neutral,
                    field,
                    getattr(self, field),
                    f"{neutral!r} with continuity=False",
                    "Without checkpoint continuity there is nothing to restart, wait for or keep.",
                )
        faults.raise_any()
        settle(self, whole=("jump", "progress", "held_gpus"), real=_AMOUNTS)

    def _check_segments(self, faults: Faults) -> None:
        given: Any = self.segments
        if isinstance(given, Real):
            faults.number("segments", given, at_least=1, integer=True)
        else:
            listed = isinstance(given, Iterable) and not isinstance(given, str | bytes)
            given = tuple(given) if listed else ()
            faults.require(len(given) > 0, "segments", self.segments, "a count or the share of each segment")
            for share in given:
                faults.number("segments", share, above=0, at_most=1)
            if not len(faults):
                faults.require(abs(sum(given) - 1) < 1e-9, "segments", sum(given), "shares that sum to 1")
        if not len(faults):
            object.__setattr__(
                self, "segments", int(float(given)) if isinstance(given, Real) else tuple(map(float, given))
            )
            faults.number("progress", self.progress, at_most=self.count - 1, integer=True)

    @property
    def count(self) -> int:
        """K_seg, number of segments."""
        return self.segments if isinstance(self.segments, int) else len(self.segments)

    @property
    def shares(self) -> tuple[float, ...]:
        """Share of the work of each segment."""
        return (1 / self.segments,) * self.segments if isinstance(self.segments, int) else tuple(self.segments)

    @property
    def uniform(self) -> bool:
        """Whether all segments are of one size, so that only their number matters and not their order."""
        return isinstance(self.segments, int) or max(self.segments) - min(self.segments) < 1e-12

    @property
    def has_memory(self) -> bool:
        """Whether what is allowed depends on what the job did before, beside its progress."""
        return bool(
            self.restart_hours
            or self.restart_energy
            or self.min_run
            or self.min_wait
            or self.mode_change_cost
            or self.mode_changes != "free"
            or self.held_gpus
            or self.delay_cost
        )


_AMOUNTS = (
    "arrival",
    "restart_hours",
    "restart_energy",
    "checkpoint_hours",
    "checkpoint_energy",
    "min_run",
    "min_wait",
    "mode_change_cost",
    "delay_cost",
)
_BOUND_TO_CHECKPOINTS: dict[str, object] = {
    "waiting": True,
    "restart_hours": 0.0,
    "restart_energy": 0.0,
    "checkpoint_hours": 0.0,
    "checkpoint_energy": 0.0,
    "min_run": 0.0,
    "min_wait": 0.0,
    "mode_changes": "free",
    "mode_change_cost": 0.0,
    "held_gpus": 0,
    "delay_cost": 0.0,
    "jump": None,
}
