"""A training load: the work of a job, the modes it may run in, and the rules it runs by."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import pandas as pd

from pypsa_aidc.errors import Faults, checked
from pypsa_aidc.plain import large, settle
from pypsa_aidc.training.job import Job
from pypsa_aidc.training.layout import Layout, Size
from pypsa_aidc.training.mode_table import Mode, ModeTable
from pypsa_aidc.training.rules import Rules
from pypsa_aidc.training.transitions import Beginning, Transition
from pypsa_aidc.units import SECONDS_PER_HOUR


@dataclass(frozen=True)
class TrainingLoad:
    """What a power system needs to know of a job: work, modes, rules and deadline.

    Parameters
    ----------
    name
        Unique among the jobs of a site.
    work
        C, FLOPs of the tranche (Eq. 7 of [1]).
    modes
        Modes the job may run in.
    rules
        Checkpoints, waiting, restarts.
    deadline
        T_dead in hours after the first snapshot; `None` is the end of the horizon.
    baseline
        Mode of fixed continuous training, for comparison; it need not be among `modes` and may be a dominated one.
    description
        Where `work` comes from, for people; not used in any computation.
    transitions
        What changes between single pairs of modes take. Pairs that are not listed cost `mode_change_cost` of the rules
        and are allowed as these say.
    gpu_value
        USD for each GPU-hour that the job occupies; `None` for the value of its site. A job that others should wait
        for has a higher one.

    Raises
    ------
    InputError
        Any field out of range, two modes of one size, or a transition of no mode or told twice.

    Examples
    --------
    >>> mode = Mode((1, 1, 8), gpus=8, flops_per_s=1e15, it_power=0.003)
    >>> load = TrainingLoad("A", work=1e15 * 3600 * 6, modes=(mode,), rules=Rules(segments=3))
    >>> load.hours(mode)
    6.0
    """

    name: str
    work: float
    modes: tuple[Mode, ...]
    rules: Rules = field(default_factory=Rules)
    deadline: float | None = None
    baseline: Mode | None = None
    description: str = ""
    transitions: tuple[Transition, ...] = ()
    gpu_value: float | None = None

    def __post_init__(self) -> None:
        faults = Faults(f"TrainingLoad {self.name!r}")
        faults.kind("name", self.name, str, "text")
        faults.number("work", self.work, above=0)
        faults.kind("rules", self.rules, Rules, "Rules")
        faults.kind("baseline", self.baseline, (Mode, type(None)), "a Mode, or None")
        faults.kind("description", self.description, str, "text")
        modes = tuple(self.modes) if isinstance(self.modes, Iterable) else ()
        faults.require(len(modes) > 0, "modes", self.modes, "at least one mode")
        for mode in modes:
            faults.kind("modes", mode, Mode, "a Mode")
        sizes = [(mode.size, mode.cap) for mode in modes if isinstance(mode, Mode)]
        for size, cap in sorted({size for size in sizes if sizes.count(size) > 1}):
            faults.add("modes", size if cap == 1 else (size, cap), "each (pipeline, tensor, data) once, or once a cap")
        if self.deadline is not None:
            arrival = self.rules.arrival if isinstance(self.rules, Rules) else 0.0
            faults.number("deadline", self.deadline, above=arrival)
        if self.gpu_value is not None:
            faults.number("gpu_value", self.gpu_value, at_least=0)
        labels = [mode.label for mode in modes if isinstance(mode, Mode)]
        given = tuple(self.transitions) if isinstance(self.transitions, Iterable) else (self.transitions,)
        pairs = [(each.before, each.after) for each in given if faults.kind("transitions", each, Transition, _PAIRS)]
        for pair in dict.fromkeys(pairs):
            faults.require(pairs.count(pair) == 1, "transitions", pair, "each pair of modes once")
            for label in pair:
                faults.require(label in labels, "transitions", label, f"one of {', '.join(labels)}")
        faults.raise_any()
        object.__setattr__(self, "transitions", given)
        object.__setattr__(self, "modes", tuple(sorted(modes, key=lambda mode: (mode.gpus, mode.size, -mode.cap))))
        settle(self, real=("work", "deadline", "gpu_value"))

    @classmethod
    @checked
    def of(
        cls,
        job: Job,
        modes: ModeTable | Iterable[Mode],
        rules: Rules | None = None,
        baseline: Size | Layout | None = None,
        *,
        transitions: tuple[Transition, ...] = (),
        gpu_value: float | None = None,
        **options: Any,
    ) -> TrainingLoad:
        """Build a load from a descriptor and its modes.

        Parameters
        ----------
        job
            Gives name, work and deadline.
        modes
            The effective modes of a table, or any modes.
        rules
            Rules, or leave out and give their fields as `options`.
        baseline
            Size (p, q, d) or `Layout` of the mode of fixed training, feasible but maybe dominated.
        transitions
            What changes between single pairs of modes take; see the class.
        gpu_value
            USD for each GPU-hour that the job occupies, at least 0; `None` for the value of its site.
        options
            Fields of `Rules`.

        Raises
        ------
        InputError
            No mode is left, with the number of candidates rejected for each reason; or both `rules` and `options`.
        """
        faults = Faults(f"TrainingLoad of job {getattr(job, 'name', job)!r}")
        faults.require(rules is None or not options, "rules", rules, "rules or their single fields, not both")
        known_job = faults.kind("job", job, Job, "a Job", "TrainingLoad(...) itself takes the work in FLOPs.")
        known_modes = faults.kind("modes", modes, Iterable, "a ModeTable or Modes", "See generate_modes.")
        if not (known_job and known_modes):
            faults.raise_any()
        if isinstance(modes, ModeTable):
            remedy = "Memory and FLOP/s of modes belong to one job."
            faults.require(modes.job == job.name, "modes", f"modes of job {modes.job!r}", f"of {job.name!r}", remedy)
        usable = tuple(modes)
        if not usable:
            frame = modes.frame if isinstance(modes, ModeTable) else None
            reasons = "" if frame is None else frame["reason"].str.split(":").str[0].value_counts().to_dict()
            faults.add("modes", reasons, "at least one feasible mode", "More GPUs, memory options or other candidates.")
        faults.raise_any()
        model = job.model
        share = f"{100 * job.tranche_ratio:.6g} % of {large(job.tokens)} tokens"
        description = f"{model.name}, {share}, batch {job.batch:,}"
        rules = Rules(**options) if rules is None else rules
        fixed = None
        if baseline is not None:
            fixed = modes.mode(baseline) if isinstance(modes, ModeTable) else _of_size(job.name, usable, baseline)
        return cls(job.name, job.tranche_flops, usable, rules, job.deadline, fixed, description, transitions, gpu_value)

    def _repr_html_(self) -> str:
        """Return what a notebook shows: the work, and what each mode makes of it."""
        from pypsa_aidc.markup import Table, card

        def tables() -> list[Table]:
            rules, deadline = self.rules, "end of the horizon" if self.deadline is None else self.deadline
            baseline = "none" if self.baseline is None else self.baseline.label
            terms = [
                ("what", self.description or "not stated", ""),
                ("work", self.work / 1e18, "EFLOP"),
                ("segments between checkpoints", rules.count, ""),
                ("arrival", rules.arrival, "h"),
                ("deadline", deadline, "" if self.deadline is None else "h"),
                ("may wait at checkpoints", rules.waiting, ""),
                ("mode of fixed training", baseline, ""),
            ]
            modes = [
                (mode.label, mode.gpus, mode.it_power, self.hours(mode), mode.it_power * self.hours(mode))
                for mode in self.modes
            ]
            names = ["mode", "gpus", "it_power", "hours", "energy"]
            units = {"it_power": "MW", "hours": "h", "energy": "MWh IT"}
            return [
                Table("Job", pd.DataFrame(terms, columns=["term", "value", "unit"])),
                Table("The whole of it in one mode", pd.DataFrame(modes, columns=names), units),
            ]

        return card(self, tables, title=f"TrainingLoad {self.name!r}", more="in .modes")

    def hours(self, mode: Mode) -> float:
        """Hours that the whole tranche takes in one mode without pause or loss."""
        return self.work / mode.flops_per_s / SECONDS_PER_HOUR

    def beginning(self, before: int | None, mode: int, *, waited: bool = False) -> Beginning | None:
        """Say what the first edge in a mode takes.

        Parameters
        ----------
        before
            Position of the mode of the edge before; `None` if there was none.
        mode
            Position of the mode.
        waited
            Whether the job has waited since.

        Returns
        -------
        Beginning or None
            Hours, energy and cost; `None` if the change is not allowed.
        """
        if waited:
            kept = self.rules.mode_changes == "never" and before not in (None, mode)
            return None if kept else Beginning(self.rules.restart_hours, self.rules.restart_energy, restart=True)
        if before in (None, mode):
            return Beginning()
        assert before is not None
        pair = (self.modes[before].label, self.modes[mode].label)
        listed = next((each for each in self.transitions if (each.before, each.after) == pair), None)
        if self.rules.mode_changes != "free" or (listed is not None and not listed.allowed):
            return None
        if listed is None:
            return Beginning(cost=self.rules.mode_change_cost)
        return Beginning(listed.hours, listed.energy, listed.cost)

    @property
    def tracks_mode(self) -> bool:
        """Whether what an edge takes depends on the mode of the edge before."""
        return bool(self.rules.mode_changes != "free" or self.rules.mode_change_cost or self.transitions)

    @property
    def has_memory(self) -> bool:
        """Whether what is allowed, or what it costs, depends on what the job did before, beside its progress."""
        return self.rules.has_memory or bool(self.transitions)

    @property
    def costs_changes(self) -> bool:
        """Whether a change of mode may cost money."""
        return bool(self.rules.mode_change_cost or any(each.cost for each in self.transitions))

    def repeated(self, tranches: int) -> TrainingLoad:
        """Return the load that does several tranches one after the other, with one deadline for all of them.

        Parameters
        ----------
        tranches
            How many, of the same work and the same segments each; the present deadline is that of all.

        Raises
        ------
        InputError
            Less than one tranche, or a tranche that has begun.
        """
        faults = Faults(f"TrainingLoad {self.name!r}, repeated")
        faults.number("tranches", tranches, at_least=1, integer=True)
        faults.require(self.rules.progress == 0, "progress", self.rules.progress, "0: no tranche has begun")
        faults.raise_any()
        segments = self.rules.segments
        shares = tuple(share / tranches for share in self.rules.shares) * tranches
        rules = replace(self.rules, segments=segments * tranches if isinstance(segments, int) else shares)
        return replace(self, work=self.work * tranches, rules=rules)

    def with_modes(self, modes: Iterable[Mode]) -> TrainingLoad:
        """Return the load with other modes, and the transitions between those that are left."""
        kept = tuple(modes)
        labels = {mode.label for mode in kept}
        pairs = tuple(each for each in self.transitions if {each.before, each.after} <= labels)
        return replace(self, modes=kept, transitions=pairs)

    def with_rules(self, **changes: Any) -> TrainingLoad:
        """Return the load with some fields of its rules changed."""
        return replace(self, rules=replace(self.rules, **changes))

    def within(self, gpus: int) -> TrainingLoad:
        """Return the load with its modes that fit into a pool of GPUs, or with all if none does."""
        fitting = tuple(mode for mode in self.modes if mode.gpus <= gpus)
        return self if len(fitting) in (0, len(self.modes)) else self.with_modes(fitting)

    def fixed(self, size: Size | None = None) -> TrainingLoad:
        """Return the load that runs in one mode from arrival to completion, without checkpoints, as S1 of [1].

        `size` is the (p, q, d) of the mode, by default that of the baseline.
        """
        left = self.work * sum(self.rules.shares[self.rules.progress :])
        rules = replace(self.rules, segments=1, progress=0, waiting=False, jump=None)
        return replace(self.with_modes((self.mode(size),)), work=left, rules=rules)

    def recorded(self, size: Size | None = None) -> TrainingLoad:
        """Return the fixed load with a checkpoint recorded after each segment, as S2 of [1].

        Where nothing may change at a checkpoint it ends no slot: the load takes as long as the fixed one, and longer
        only by the `checkpoint_hours` of every segment.
        """
        fixed, segments = self.fixed(size), self.rules.count - self.rules.progress
        return fixed.with_rules(
            checkpoint_hours=segments * self.rules.checkpoint_hours,
            checkpoint_energy=segments * self.rules.checkpoint_energy,
        )

    def slow(self, coverage: float = 0.9) -> TrainingLoad:
        """Return the load with every mode at the slow end of its prediction interval; measured modes stay as they are.

        A schedule that meets its deadline with it does so whatever the modes turn out to be, up to the other end.

        Parameters
        ----------
        coverage
            Probability that the throughput of a mode lies within its interval, in (0, 1).
        """

        def slowed(mode: Mode) -> Mode:
            return mode if mode.deviation is None else replace(mode, flops_per_s=mode.interval(coverage)[0])

        baseline = None if self.baseline is None else slowed(self.baseline)
        return replace(self, modes=tuple(map(slowed, self.modes)), baseline=baseline)

    def pausable(self, size: Size | None = None) -> TrainingLoad:
        """Return the load that may wait at checkpoints but runs in one mode only."""
        return self.with_modes((self.mode(size),))

    def idealized(self) -> TrainingLoad:
        """Return the load without checkpoint continuity, as S3 of [1]: a bound that no job can execute.

        It has no completion, and so no `delay_cost`: its cost leaves that out.
        """
        rules = Rules(
            segments=self.rules.segments,
            continuity=False,
            arrival=self.rules.arrival,
            progress=self.rules.progress,
        )
        return replace(self, rules=rules, transitions=())

    def mode(self, size: Size | None = None) -> Mode:
        """Return the mode of the given (p, q, d), or the baseline.

        Raises
        ------
        InputError
            No such mode, or no baseline.
        """
        if size is not None:
            return _of_size(self.name, self.modes if self.baseline is None else (*self.modes, self.baseline), size)
        faults = Faults(f"TrainingLoad {self.name!r}")
        if self.baseline is None:
            remedy = (
                "Give TrainingLoad.of(..., baseline=(p, q, d)); in a YAML file, the key baseline: [p, q, d] of the job."
            )
            faults.add("baseline", None, "the mode of fixed training", remedy)
        faults.raise_any()
        assert self.baseline is not None
        return self.baseline


_PAIRS = "a list of Transitions"


def _of_size(job: str, modes: Iterable[Mode], size: Size | Layout) -> Mode:
    by_size: dict[object, Mode] = {mode.size: mode for mode in sorted(modes, key=lambda mode: mode.cap)}
    if isinstance(size, Layout | tuple | list):
        size = size.size if isinstance(size, Layout) else Layout.of(size).size
    faults = Faults(f"TrainingLoad {job!r}")
    faults.require(size in by_size, "mode", size, f"one of {', '.join(mode.label for mode in by_size.values())}")
    faults.raise_any()
    return by_size[size]
