"""Terms on which a fleet sheds power: how deep for how long, how often, and what is drawn again afterwards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, get_args

import numpy as np

from pypsa_aidc.errors import Faults, InputError
from pypsa_aidc.fleet import Surface

Form = Literal["firm", "path", "windows", "calls"]
Period = Literal["horizon", "year"]
Dependable = Surface | Mapping[int, float]
"""K in MW over duration in hours: a surface, or a table of one reliability."""


@dataclass(frozen=True)
class FleetTerms:
    """What a fleet load of size L may do, in shares of L; Sec. 5 of the network formulation of [2].

    Parameters
    ----------
    form
        ``"firm"``: no relief. ``"path"``: relief up to one series over time (1). ``"calls"``: calls by duration, each
        with a binary (2)–(6). ``"windows"``: mean relief over every window of a duration, without binaries.
    durations
        h, ascending whole hours: of calls, or of the windows.
    depths
        q·κ_h by duration, share of L in 0 … 1, falling: K over the peak of the fleet it was measured on.
    recovery
        R_h by duration, h without relief after a call; 0 allows calls without a pause, which then also keep to all
        windows.
    hours, events
        B and N, most hours with relief and most calls in each `per`; `None` for any number.
    per
        ``"horizon"`` (each investment period anew) or ``"year"``, the calendar year.
    between
        Whether windows of all whole hours up to the longest duration hold, K of those in between being that of the next
        longer one; otherwise only windows of the durations themselves.
    rebound
        ρ, share of the energy not drawn in a call that is drawn later.
    checkpoint
        T_ckpt, h between checkpoints; half of it is lost in each call and done again.
    block
        Whether a call sheds the same power in each of its hours ("=" in (3)), instead of up to its depth.

    Raises
    ------
    InputError
        A term outside its range, or one that its form has no use for.
    """

    form: Form = "firm"
    durations: tuple[int, ...] = ()
    depths: tuple[float, ...] = ()
    recovery: tuple[float, ...] = ()
    hours: float | None = None
    events: int | None = None
    per: Period = "horizon"
    between: bool = True
    rebound: float = 0.0
    checkpoint: float = 0.0
    block: bool = False

    def __post_init__(self) -> None:
        faults = Faults("terms of a fleet")
        faults.require(self.form in get_args(Form), "form", self.form, f"one of {', '.join(get_args(Form))}")
        faults.require(self.per in get_args(Period), "per", self.per, f"one of {', '.join(get_args(Period))}")
        by_duration = self.form in ("calls", "windows")
        for name, values in (("durations", self.durations), ("depths", self.depths)):
            faults.require(bool(values) is by_duration, name, values, "one or more" if by_duration else "none")
        faults.require(
            list(self.durations) == sorted(set(self.durations)), "durations", self.durations, "ascending, each once"
        )
        for duration in self.durations:
            faults.number("durations", duration, at_least=1, integer=True)
        for depth in self.depths:
            faults.number("depths", depth, at_least=0, at_most=1)
        faults.require(
            list(self.depths) == sorted(self.depths, reverse=True), "depths", self.depths, "falling with duration"
        )
        for hours in self.recovery:
            faults.number("recovery", hours, at_least=0)
        lengths = {len(self.durations), len(self.depths), len(self.recovery) if self.form == "calls" else 0}
        faults.require(len(lengths - {0}) <= 1, "depths, recovery", sorted(lengths), "one value for each duration")
        for name, budget in (("hours", self.hours), ("events", self.events)):
            if budget is not None:
                faults.number(name, budget, at_least=0, integer=name == "events")
        faults.number("rebound", self.rebound, at_least=0)
        faults.number("checkpoint", self.checkpoint, at_least=0)
        self._refuse_useless(faults)
        faults.raise_any()

    def _refuse_useless(self, faults: Faults) -> None:
        calls = "form 'calls', that is, surface= or contract="
        for name, used in (
            ("recovery", bool(self.recovery)),
            ("rebound", self.rebound > 0),
            ("checkpoint", self.checkpoint > 0),
            ("block", self.block),
        ):
            faults.require(not used or self.form == "calls", name, getattr(self, name), f"none, or {calls}")
        faults.require(self.between or self.form == "windows", "between", False, "true, or form 'windows'")
        for name in ("hours", "events"):
            given = getattr(self, name)
            forms = ("calls", "path") if name == "hours" else ("calls",)
            expected = f"none, relief=, or {calls}" if name == "hours" else f"none, or {calls}"
            remedy = "A budget of hours or events takes binaries of calls, or of hours along relief=."
            faults.require(given is None or self.form in forms, name, given, expected, remedy)
        faults.require(
            self.checkpoint == 0 or self.rebound > 0,
            "checkpoint",
            self.checkpoint,
            "0 without rebound",
            "Lost work is drawn again as part of the rebound: give rebound=.",
        )

    @property
    def has_budget(self) -> bool:
        """Whether hours or events are limited."""
        return self.hours is not None or self.events is not None

    @property
    def chains(self) -> bool:
        """Whether calls may follow each other without a pause."""
        return self.form == "calls" and min(self.recovery) == 0

    @property
    def spans_horizon(self) -> bool:
        """Whether snapshots are tied to each other, so that a rolling horizon would lose something."""
        return self.form in ("windows", "calls") or self.has_budget

    def depth(self, duration: float) -> float:
        """Share of L that is dependable for a duration: that of the next longer one, and 0 beyond the longest.

        Examples
        --------
        >>> terms = FleetTerms("windows", (1, 4), (0.05, 0.04))
        >>> terms.depth(1), terms.depth(2), terms.depth(5)
        (0.05, 0.04, 0.0)
        """
        position = int(np.searchsorted(self.durations, duration - 1e-9))
        return self.depths[position] if position < len(self.depths) else 0.0

    def __str__(self) -> str:
        """Terms in a few words.

        Examples
        --------
        >>> print(FleetTerms("calls", (1, 4), (0.05, 0.04), recovery=(4, 4), events=3))
        calls of 1 and 4 h, 4 to 5 % deep, pause 4 h, at most 3 events
        """
        if self.form == "firm":
            return "no relief"
        words = ["relief along a series"]
        if self.form in ("calls", "windows"):
            low, high = (f"{100 * depth:.3g}" for depth in (self.depths[-1], self.depths[0]))
            depth = high if low == high else f"{low} to {high}"
            many = len(self.durations) > 6
            which = f"{self.durations[0]} to {self.durations[-1]}" if many else _and(self.durations)
            words = [f"{self.form} of {which} h", f"{depth} % deep"]
        if self.form == "calls":
            pauses = sorted({f"{hours:.3g}" for hours in self.recovery}, key=float)
            words.append(f"pause {' to '.join(dict.fromkeys((pauses[0], pauses[-1])))} h")
        each = " a year" if self.per == "year" else ""
        words += [] if self.hours is None else [f"at most {self.hours:g} h{each}"]
        words += [] if self.events is None else [f"at most {self.events} events{each}"]
        words += [f"rebound {self.rebound:g}"] if self.rebound else []
        return ", ".join(words)


FIRM = FleetTerms()
"""No relief."""


def binding_windows(durations: Sequence[int]) -> list[int]:
    """Whole hours whose windows imply those of all hours up to the longest, where K is known for `durations` only.

    Between two known durations the depth is that of the longer one. Two windows one after the other, both of that
    depth, imply the window of their sum, so that from twice the shortest of them on there is nothing to add.

    Examples
    --------
    >>> binding_windows([1, 2, 4, 8])
    [1, 2, 3, 4, 5, 6, 7, 8]
    >>> binding_windows([1, 24])
    [1, 2, 3]
    """
    below = [0, *durations]
    return [h for low, high in pairwise(below) for h in range(low + 1, min(high, 2 * low + 1) + 1)]


def depths_of(
    K: Dependable, durations: Sequence[int], reliability: float | None, peak: float, faults: Faults
) -> tuple[float, ...]:
    """K of each duration over the peak of its fleet; between the durations of K by the rule of `Surface.at`.

    Faults, one for each duration that K does not cover or has no number for, are noted; NaN stands there then.
    """
    if isinstance(K, Surface):
        if reliability is None:
            faults.add("reliability", None, f"one of {K.K['reliability'].to_numpy().tolist()}, or between them")
            return tuple(np.nan for _ in durations)
        known = K.K["reliability"].to_numpy()
        before = len(faults)
        remedy = "A share: 0.95 for 95 %." if reliability > 1 else ""
        faults.number("reliability", reliability, at_least=known.min(), at_most=known.max(), remedy=remedy)
        if len(faults) > before:
            return tuple(np.nan for _ in durations)
        return tuple(_at(K, duration, reliability, faults) / peak for duration in durations)
    table = {}
    for duration, power in K.items():
        faults.number("surface, duration", duration, at_least=1, integer=True)
        faults.number(f"surface, K at {duration} h", power, at_least=0, remedy="Compute K for it, or leave it out.")
        table[duration] = float(power)
    faults.require(bool(table), "surface", dict(K), "K of at least one duration")
    listed = sorted(table)
    lowest = np.minimum.accumulate([table[duration] for duration in listed])
    where = np.searchsorted(listed, durations)
    for duration, position in zip(durations, where, strict=True):
        faults.require(
            position < len(listed), "durations", duration, f"at most {listed[-1] if listed else 0} h, the longest of K"
        )
    return tuple(float(lowest[position]) / peak if position < len(listed) else np.nan for position in where)


def _at(K: Surface, duration: int, reliability: float, faults: Faults) -> float:
    try:
        return K.at(duration, reliability)
    except InputError as error:
        for fault in error.faults:
            faults.add(f"surface, K at {duration} h: {fault.where}", fault.given, fault.expected, fault.remedy)
        return float("nan")


def _and(values: Sequence[int]) -> str:
    texts = [str(value) for value in values]
    return texts[0] if len(texts) == 1 else f"{', '.join(texts[:-1])} and {texts[-1]}"
