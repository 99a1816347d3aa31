"""The modes of a job, the rejected ones with their reason; Eqs. 12, 18 and 19 of [1]."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from statistics import NormalDist
from typing import TYPE_CHECKING

import pandas as pd

from pypsa_aidc.errors import Faults, InputError
from pypsa_aidc.plain import settle
from pypsa_aidc.training.layout import AXES, Layout, Size, labels
from pypsa_aidc.units import GB

if TYPE_CHECKING:
    from matplotlib.figure import Figure

INFEASIBLE = ("divisibility", "memory", "pool")
"""First words of the reasons that make a mode infeasible, as opposed to dominated."""


@dataclass(frozen=True)
class Mode:
    """One executable mode: Eq. 19 of [1].

    Parameters
    ----------
    size
        (p, q, d): pipeline, tensor, data parallel; all seven sizes of `Layout` where more than that differs from 1.
    gpus
        n, GPUs occupied.
    flops_per_s
        X, training throughput in FLOP/s.
    it_power
        P, IT power in MW.
    memory
        M, bytes on the fullest GPU; `None` where a profile does not tell.
    deviation
        Standard deviation of the logarithm of `flops_per_s`, as the model or its calibration has it; `None` where it is
        not known. It does not take part in comparisons.
    cap
        Power over that of the same layout without a power cap; 1 for none.
    """

    size: Size
    gpus: int
    flops_per_s: float
    it_power: float
    memory: float | None = None
    deviation: float | None = field(default=None, compare=False)
    cap: float = 1.0

    def __post_init__(self) -> None:
        faults = Faults(f"Mode {self.size}")
        try:
            layout = Layout.of(self.size)
        except InputError as error:
            layout = None
            for fault in error.faults:
                faults.add("size", fault.given, fault.expected)
        faults.number("gpus", self.gpus, at_least=1, integer=True)
        if layout is not None and not len(faults):
            product = "pipeline × tensor × data" if layout.context == 1 else "pipeline × tensor × data × context"
            faults.require(self.gpus == layout.gpus, "gpus", self.gpus, f"{layout.gpus}, {product}")
        faults.number("flops_per_s", self.flops_per_s, above=0)
        faults.number("it_power", self.it_power, above=0)
        if self.memory is not None:
            faults.number("memory", self.memory, above=0)
        if self.deviation is not None:
            faults.number("deviation", self.deviation, at_least=0)
        faults.number("cap", self.cap, above=0, at_most=1)
        faults.raise_any()
        assert layout is not None
        object.__setattr__(self, "size", layout.size)
        settle(self, whole=("gpus",), real=("flops_per_s", "it_power", "memory", "deviation", "cap"))

    @property
    def label(self) -> str:
        """Sizes as ``p·q·d`` and what differs from 1 beyond them, for tables and figures."""
        return self.layout.label if self.cap == 1 else f"{self.layout.label}@{100 * self.cap:.4g}%"

    @property
    def layout(self) -> Layout:
        """The sizes by name."""
        return Layout.of(self.size)

    def interval(self, coverage: float = 0.9) -> tuple[float, float]:
        """Return the prediction interval of `flops_per_s`.

        Parameters
        ----------
        coverage
            Probability that the throughput is within, in (0, 1).

        Raises
        ------
        InputError
            Nothing is known of the deviation, as for measured modes; or `coverage` is out of range.

        Examples
        --------
        >>> low, high = Mode((1, 1, 8), 8, 1e15, 0.005, deviation=0.1).interval()
        >>> round(low / 1e15, 3), round(high / 1e15, 3)
        (0.848, 1.179)
        """
        faults = Faults(f"Mode {self.label}")
        faults.number("coverage", coverage, above=0, at_most=0.9999)
        faults.require(self.deviation is not None, "deviation", None, "a mode that a model was asked for")
        faults.raise_any()
        assert self.deviation is not None
        factor = math.exp(NormalDist().inv_cdf((1 + coverage) / 2) * self.deviation)
        return self.flops_per_s / factor, self.flops_per_s * factor


@dataclass(frozen=True)
class ModeTable:
    """All candidate modes of a job, with the reason why each rejected one is out.

    Parameters
    ----------
    job
        Name of the job.
    frame
        One row a candidate: the sizes of `Layout`, `gpus`, `efficiency` (share of the peak), `flops_per_s`, `it_power`
        (MW), `memory_gb` (1e9 bytes), `busy` (share of the time that the busiest stage computes), `deviation` (standard
        deviation of the logarithm of the throughput), `reason` (empty for an effective mode). What was rejected before
        it was evaluated has no values.
    """

    job: str
    frame: pd.DataFrame = field(repr=False, compare=False)

    def __iter__(self) -> Iterator[Mode]:
        return iter(self.effective)

    def __len__(self) -> int:
        return int((self.frame["reason"] == "").sum())

    def __repr__(self) -> str:
        return (
            f"ModeTable({self.job!r}: {len(self.frame)} candidates, {len(self.feasible)} feasible, "
            f"{len(self)} effective)"
        )

    def _repr_html_(self) -> str:
        """Return what a notebook shows: the effective modes, why the others are out, and the figure."""
        from pypsa_aidc.markup import Table, card

        def tables() -> list[Table]:
            modes = self.frame[self.frame["reason"] == ""]
            modes = modes.drop(columns=[*AXES, "busy", "reason"]).assign(mode=labels(modes))
            modes = modes[["mode", *modes.columns.drop("mode")]]
            modes = modes.assign(efficiency=100 * modes["efficiency"], flops_per_s=modes["flops_per_s"] / 1e15)
            units = {"efficiency": "%", "flops_per_s": "PFLOP/s", "it_power": "MW", "memory_gb": "GB"}
            reasons = self.frame["reason"].str.extract(r"^(\w*)")[0].replace("", "effective").value_counts()
            return [
                Table("Effective modes", modes, units),
                Table("Candidates", reasons.rename_axis("outcome").rename("count").to_frame()),
            ]

        return card(self, tables, self.plot)

    @property
    def effective(self) -> tuple[Mode, ...]:
        """A_eff: feasible modes that no other dominates, by GPUs."""
        return self._modes(self.frame[self.frame["reason"] == ""])

    @property
    def feasible(self) -> tuple[Mode, ...]:
        """A, Eq. 18: modes that pass divisibility, memory and GPU limit, dominated ones included."""
        return self._modes(self.frame[~self.frame["reason"].str.startswith(INFEASIBLE)])

    def mode(self, size: Size | Layout) -> Mode:
        """Return a feasible mode by its size, dominated or not: baselines may well be dominated.

        A size of three is that layout with micro-batches of one sequence, one chunk and neither context nor expert
        parallelism.

        Raises
        ------
        InputError
            The mode is not among the candidates, or is infeasible; the error gives the reason.
        """
        faults = Faults(f"ModeTable of job {self.job!r}")
        try:
            layout = size if isinstance(size, Layout) else Layout.of(size)
        except InputError as error:
            for fault in error.faults:
                faults.add("mode", fault.given, fault.expected)
            raise InputError(faults.subject, tuple(faults)) from None
        row = self.frame[(self.frame[list(AXES)] == [getattr(layout, axis) for axis in AXES]).all(axis=1)]
        faults.require(not row.empty, "mode", size, "one of the candidates", "Add its sizes to Candidates.")
        if not row.empty:
            reason = row["reason"].iloc[0]
            faults.require(
                not reason.startswith(INFEASIBLE), "mode", size, "a feasible mode", f"Rejected for {reason}."
            )
        faults.raise_any()
        return self._modes(row)[0]

    def to_frame(self) -> pd.DataFrame:
        """Return a copy of all candidates with their attributes and reasons."""
        return self.frame.copy()

    def plot(self) -> Figure:
        """Draw throughput over power and memory over GPUs of the feasible modes, the effective ones marked."""
        from pypsa_aidc.plots.modes import plot_modes

        return plot_modes(self)

    @staticmethod
    def _modes(rows: pd.DataFrame) -> tuple[Mode, ...]:
        return tuple(
            Mode(
                tuple(int(entry[axis]) for axis in AXES),
                int(entry["gpus"]),
                float(entry["flops_per_s"]),
                float(entry["it_power"]),
                None if pd.isna(entry["memory_gb"]) else float(entry["memory_gb"]) * GB,
                None if pd.isna(entry["deviation"]) else float(entry["deviation"]),
            )
            for entry in rows.to_dict("records")
        )
