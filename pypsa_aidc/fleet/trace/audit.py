"""What was read, what was left out and why, and which hours are there: the record that travels with every result."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pandas as pd

if TYPE_CHECKING:
    from matplotlib.figure import Figure


MUCH = 0.05
"""Share of missing hours from which on results carry a warning."""


class EraWarning(UserWarning):
    """A word of the trace appears long after its start: a change of the schema may look like a change of the fleet."""


@dataclass(frozen=True)
class Audit:
    """Counts of one reading, by reason.

    Attributes
    ----------
    source
        What was read, e.g. the layout and its citation.
    scale
        Scale in which utilisation was declared: ``"percent"``, ``"fraction"`` or ``"absent"``.
    partitions
        Pieces the trace came in.
    rows
        All rows seen.
    skipped
        Rows that are not faulty but hold no accelerator, by reason: CPU-only pods, jobs that never ran.
    rejected
        Rows left out as faulty, by reason.
    noted
        Rows or cells that were kept although something about them is odd, by reason.
    gpu_hours
        GPU-hours of all rows that were not skipped, so far as they can be read.
    lost
        GPU-hours of the rejected rows, by reason, so far as they can be read.
    examples
        For each reason, where it was first met, with the column and a value where it is about one.
    origin
        Moment of hour 0, UTC, where the trace has stamps; else empty.
    """

    source: str
    scale: str = "absent"
    partitions: int = 0
    rows: int = 0
    skipped: Mapping[str, int] = field(default_factory=dict)
    rejected: Mapping[str, int] = field(default_factory=dict)
    noted: Mapping[str, int] = field(default_factory=dict)
    examples: Mapping[str, str] = field(default_factory=dict)
    origin: str = ""
    gpu_hours: float = 0.0
    lost: Mapping[str, float] = field(default_factory=dict)

    @property
    def skipped_rows(self) -> int:
        """All rows that were skipped."""
        return sum(self.skipped.values())

    @property
    def rejected_share(self) -> float:
        """Rejected rows over the rows that were not skipped; 0 where there are none."""
        considered = self.rows - self.skipped_rows
        return sum(self.rejected.values()) / considered if considered else 0.0

    @property
    def lost_share(self) -> float:
        """GPU-hours of rejected rows over those of all rows that were not skipped."""
        return sum(self.lost.values()) / self.gpu_hours if self.gpu_hours else 0.0

    def to_frame(self) -> pd.DataFrame:
        """One row for each reason: `outcome`, `reason`, `count`, `first_met`."""
        outcomes = [("skipped", self.skipped), ("rejected", self.rejected), ("noted", self.noted)]
        rows = [
            (outcome, reason, count, self.examples.get(reason, ""))
            for outcome, counts in outcomes
            for reason, count in counts.items()
        ]
        return pd.DataFrame(rows, columns=["outcome", "reason", "count", "first_met"])

    def plot(self) -> Figure:
        """Draw the counts of rows by reason."""
        from pypsa_aidc.plots.trace import plot_audit

        return plot_audit(self)

    def to_dict(self) -> dict[str, Any]:
        """Plain dictionary, ready for JSON."""
        return asdict(self)

    def __str__(self) -> str:
        pieces = f"{self.partitions} partition{'' if self.partitions == 1 else 's'}"
        scale = "no utilisation" if self.scale == "absent" else f"utilisation in {self.scale}"
        hour_zero = f", hour 0 is {self.origin}" if self.origin else ""
        lines = [f"{self.source}: {self.rows:,} rows in {pieces}, {scale}{hour_zero}"]
        for outcome, reason, count, where in self.to_frame().itertuples(index=False):
            hours = f", {self.lost[reason]:,.4g} GPU-hours" if outcome == "rejected" and self.lost.get(reason) else ""
            lines.append(f"  {outcome}: {count:,} {reason}{hours}" + (f" (first in {where})" if where else ""))
        return "\n".join(lines)


def merged(audits: Iterable[Audit], source: str, scale: str) -> Audit:
    """One audit that adds up `audits`; of several places where a reason was met, the first stays.

    Examples
    --------
    >>> parts = [Audit("a", rows=3, rejected={"negative gpu_hours": 1}), Audit("b", rows=2)]
    >>> merged(parts, "both", "fraction").rejected_share
    0.2
    """
    total: Counter[str] = Counter()
    skipped: Counter[str] = Counter()
    rejected: Counter[str] = Counter()
    noted: Counter[str] = Counter()
    examples: dict[str, str] = {}
    lost: Counter[str] = Counter()
    gpu_hours, origin = 0.0, ""
    for audit in audits:
        total.update(partitions=audit.partitions, rows=audit.rows)
        skipped.update(audit.skipped)
        rejected.update(audit.rejected)
        noted.update(audit.noted)
        examples = {**audit.examples, **examples}
        origin = origin or audit.origin
        gpu_hours += audit.gpu_hours
        lost.update(audit.lost)
    # Plain dictionaries: `asdict` takes a Counter apart wrongly.
    counts = (dict(skipped), dict(rejected), dict(noted))
    return Audit(source, scale, total["partitions"], total["rows"], *counts, examples, origin, gpu_hours, dict(lost))


class CoverageWarning(UserWarning):
    """More than 5 % of the hours of a record are missing: K sees only the others, and may be too high."""


@dataclass(frozen=True)
class Coverage:
    """Hours of a record and how many of them are there.

    Attributes
    ----------
    hours
        From the first to the last one.
    valid
        Those about which the record says something; an idle hour is one of them.
    longest_hole
        Most consecutive hours about which it says nothing.

    Examples
    --------
    >>> print(coverage_of(np.array([True, False, False, True])))
    2 of 4 h, longest hole 2 h
    """

    hours: int
    valid: int
    longest_hole: int

    def __str__(self) -> str:
        hole = f", longest hole {self.longest_hole:,} h" if self.longest_hole else ""
        return f"{self.valid:,} of {self.hours:,} h{hole}"

    @property
    def missing_share(self) -> float:
        """Missing over all hours, 0 … 1."""
        return 1 - self.valid / self.hours if self.hours else 0.0


def coverage_of(valid: npt.NDArray[np.bool_]) -> Coverage:
    """Coverage of an axis of hours, from whether each of them is there; shape (hours,)."""
    edges = np.flatnonzero(np.diff(np.concatenate([[True], valid, [True]]).astype(int)))
    holes = edges[1::2] - edges[::2]
    return Coverage(valid.size, int(valid.sum()), int(holes.max(initial=0)))


def warn_of_holes(coverage: Coverage, source: str) -> None:
    """Warn the caller's caller if much of a record is missing: idle hours that were left out would raise K."""
    if coverage.missing_share > MUCH:
        text = f"{source}: {coverage}. K sees only the hours that are there; if others were idle, give them rows of 0"
        warnings.warn(text, CoverageWarning, stacklevel=3)
