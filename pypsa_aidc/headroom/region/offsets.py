"""Alignments of a load's recorded hours with the hours of demand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from pypsa_aidc.errors import Faults

Kind = Literal["random", "aligned", "all", "given"]
PAPER_COUNT, PAPER_SEED = 200, 6


@dataclass(frozen=True)
class Offsets:
    """Hours by which a recorded load is delayed, in a circle, before it is laid over the demand.

    Hour t of the demand, counted from a midnight of its calendar, meets hour (t − offset) mod n of a load of n hours.
    Where n is no multiple of a week, as 4,440 is not, the day of the week moves on with each repetition of the load.

    Attributes
    ----------
    kind
        ``"random"``: drawn evenly from all, as in App. E of [2]; this mixes day and night. ``"aligned"``: all
        multiples of `step`, which keep the hour of the day (24) or of the week (168) where the load starts at such a
        midnight. ``"all"``: every one. ``"given"``: those of `hours_given`.
    count, seed
        Of the random draws; a draw may come twice.
    step
        h, at least 1.
    hours_given
        h, whole numbers.

    Raises
    ------
    InputError
        Numbers out of range.

    Examples
    --------
    >>> aligned(24).hours(60).tolist()
    [0, 24, 48]
    >>> Offsets("given", hours_given=(61, -1)).hours(60).tolist()
    [1, 59]
    """

    kind: Kind = "random"
    count: int = PAPER_COUNT
    seed: int = PAPER_SEED
    step: int = 24
    hours_given: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        faults = Faults("Offsets")
        faults.require(self.kind in get_args(Kind), "kind", self.kind, f"one of {', '.join(get_args(Kind))}")
        faults.number("count", self.count, at_least=1, integer=True)
        faults.number("seed", self.seed, at_least=0, integer=True)
        faults.number("step", self.step, at_least=1, integer=True)
        for hour in self.hours_given:
            faults.number("hours_given", hour, integer=True)
        given = self.kind == "given"
        faults.require(
            bool(self.hours_given) == given,
            "hours_given",
            self.hours_given,
            "hours where, and only where, kind='given'",
        )
        faults.raise_any()

    def __str__(self) -> str:
        words = {
            "random": f"{self.count} random, seed {self.seed}",
            "aligned": f"multiples of {self.step} h",
            "all": "all",
            "given": f"{len(self.hours_given)} given",
        }
        return words[self.kind]

    def hours(self, length: int) -> npt.NDArray[np.int64]:
        """Offsets for a load of `length` hours, each at least 0 and below `length`."""
        if self.kind == "random":
            return np.random.default_rng(self.seed).integers(0, length, self.count)
        if self.kind == "given":
            return np.array(self.hours_given, dtype=np.int64) % length
        return np.arange(0, length, self.step if self.kind == "aligned" else 1)


def random(count: int = PAPER_COUNT, seed: int = PAPER_SEED) -> Offsets:
    """Offsets drawn evenly from all hours."""
    return Offsets("random", count=count, seed=seed)


def aligned(step: int = 24) -> Offsets:
    """All multiples of a day (24) or a week (168)."""
    return Offsets("aligned", step=step)


def every() -> Offsets:
    """Every offset once: the exact distribution."""
    return Offsets("all")


def given(hours: Sequence[int]) -> Offsets:
    """Offsets of one's own, h."""
    return Offsets("given", hours_given=tuple(hours))
