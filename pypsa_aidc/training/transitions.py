"""What it takes to begin an edge: a restart after a wait, or a change from one mode to another without one."""

from __future__ import annotations

from dataclasses import dataclass

from pypsa_aidc.errors import Faults
from pypsa_aidc.plain import settle


@dataclass(frozen=True)
class Transition:
    """What a change from one mode to another takes, where no wait lies in between.

    Elastic training may split or join replicas within a second where the other sizes stay as they are, and needs
    minutes where every shard of the model moves: so it is said by pair.

    Parameters
    ----------
    before, after
        Labels of the two modes, as `Mode.label` gives them: ``"4·4·32"``, ``"4·4·32@80%"``.
    cost
        USD for each such change.
    energy
        Extra IT energy in MWh, drawn in the first slot after the change.
    hours
        Hours of the first edge after the change in which no work is done.
    allowed
        Whether the change is possible at all; if not, the job has to wait in between.

    Raises
    ------
    InputError
        A field out of range, a change of a mode into itself, or a cost of what is not allowed; all of them at once.

    Examples
    --------
    >>> Transition("4·4·32", "4·4·16", hours=0.05).allowed
    True
    """

    before: str
    after: str
    cost: float = 0.0
    energy: float = 0.0
    hours: float = 0.0
    allowed: bool = True

    def __post_init__(self) -> None:
        faults = Faults(f"Transition from {self.before} to {self.after}")
        for field in ("before", "after"):
            faults.kind(field, getattr(self, field), str, "the label of a mode", "See Mode.label.")
        faults.require(self.before != self.after, "after", self.after, "another mode than before")
        for field in ("cost", "energy", "hours"):
            faults.number(field, getattr(self, field), at_least=0)
        faults.flag("allowed", self.allowed)
        free = not (self.cost or self.energy or self.hours)
        faults.require(free or self.allowed, "allowed", self.allowed, "True beside a cost, energy or hours")
        faults.raise_any()
        settle(self, real=("cost", "energy", "hours"))


@dataclass(frozen=True)
class Beginning:
    """What beginning an edge takes.

    Parameters
    ----------
    hours
        Hours in which no work is done.
    energy
        Extra IT energy in MWh, drawn in the first slot.
    cost
        USD.
    restart
        Whether the edge follows a wait.
    """

    hours: float = 0.0
    energy: float = 0.0
    cost: float = 0.0
    restart: bool = False
