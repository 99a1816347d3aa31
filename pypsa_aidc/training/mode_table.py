"""The 3D-parallel modes of a job, the rejected ones with their reason; Eqs. 12, 18 and 19 of [1]."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pandas as pd

from pypsa_aidc.errors import Faults
from pypsa_aidc.plain import settle
from pypsa_aidc.units import GB

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Size = tuple[int, int, int]

COLUMNS = ("pipeline", "tensor", "data", "gpus", "efficiency", "flops_per_s", "it_power", "memory_gb", "reason")
INFEASIBLE = ("divisibility", "memory", "pool")
"""First words of the reasons that make a mode infeasible, as opposed to dominated."""


@dataclass(frozen=True)
class Mode:
    """One executable mode: Eq. 19 of [1].

    Parameters
    ----------
    size
        (p, q, d): pipeline, tensor, data parallel.
    gpus
        n, GPUs occupied.
    flops_per_s
        X, training throughput in FLOP/s.
    it_power
        P, IT power in MW.
    memory
        M, bytes on the fullest GPU; `None` where a profile does not tell.
    """

    size: Size
    gpus: int
    flops_per_s: float
    it_power: float
    memory: float | None = None

    def __post_init__(self) -> None:
        faults = Faults(f"Mode {self.size}")
        three = isinstance(self.size, tuple | list) and len(self.size) == 3
        faults.require(three, "size", self.size, "(pipeline, tensor, data)")
        for size in self.size if three else ():
            faults.number("size", size, at_least=1, integer=True)
        faults.number("gpus", self.gpus, at_least=1, integer=True)
        if not len(faults):
            product = math.prod(map(int, self.size))
            faults.require(self.gpus == product, "gpus", self.gpus, f"{product}, pipeline × tensor × data")
        faults.number("flops_per_s", self.flops_per_s, above=0)
        faults.number("it_power", self.it_power, above=0)
        if self.memory is not None:
            faults.number("memory", self.memory, above=0)
        faults.raise_any()
        object.__setattr__(self, "size", tuple(map(int, self.size)))
        settle(self, whole=("gpus",), real=("flops_per_s", "it_power", "memory"))

    @property
    def label(self) -> str:
        """Sizes as ``p·q·d``, for tables and figures."""
        return "·".join(map(str, self.size))


@dataclass(frozen=True)
class ModeTable:
    """All candidate modes of a job, with the reason why each rejected one is out.

    Parameters
    ----------
    job
        Name of the job.
    frame
        One row a candidate: `pipeline`, `tensor`, `data`, `gpus`, `efficiency` (share of the peak),
        `flops_per_s`, `it_power` (MW), `memory_gb` (1e9 bytes), `reason` (empty for an effective mode).
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
            modes = self.frame[self.frame["reason"] == ""].drop(columns="reason")
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

    def mode(self, size: Size) -> Mode:
        """Return a feasible mode by its (p, q, d), dominated or not: baselines may well be dominated.

        Raises
        ------
        InputError
            The mode is not among the candidates, or is infeasible; the error gives the reason.
        """
        faults = Faults(f"ModeTable of job {self.job!r}")
        three = isinstance(size, tuple | list) and len(size) == 3
        faults.require(three, "mode", size, "(pipeline, tensor, data)")
        faults.raise_any()
        row = self.frame[(self.frame[["pipeline", "tensor", "data"]] == list(size)).all(axis=1)]
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
                (int(p), int(q), int(d)),
                int(n),
                float(x),
                float(power),
                None if pd.isna(memory) else float(memory) * GB,
            )
            for p, q, d, n, x, power, memory in zip(
                *(rows[c] for c in COLUMNS if c not in ("efficiency", "reason")), strict=True
            )
        )
