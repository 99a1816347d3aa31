"""What was read, what was left out and why: the record that travels with every result made from a trace."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import pandas as pd

if TYPE_CHECKING:
    from matplotlib.figure import Figure


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

    @property
    def skipped_rows(self) -> int:
        """All rows that were skipped."""
        return sum(self.skipped.values())

    @property
    def rejected_share(self) -> float:
        """Rejected rows over the rows that were not skipped; 0 where there are none."""
        considered = self.rows - self.skipped_rows
        return sum(self.rejected.values()) / considered if considered else 0.0

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
            lines.append(f"  {outcome}: {count:,} {reason}" + (f" (first in {where})" if where else ""))
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
    origin = ""
    for audit in audits:
        total.update(partitions=audit.partitions, rows=audit.rows)
        skipped.update(audit.skipped)
        rejected.update(audit.rejected)
        noted.update(audit.noted)
        examples = {**audit.examples, **examples}
        origin = origin or audit.origin
    # Plain dictionaries: `asdict` takes a Counter apart wrongly.
    counts = (dict(skipped), dict(rejected), dict(noted))
    return Audit(source, scale, total["partitions"], total["rows"], *counts, examples, origin)
