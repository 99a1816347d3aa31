"""How much of a record is there: hours, valid ones, and the longest hole."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

MUCH = 0.05
"""Share of missing hours from which on results carry a warning."""


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
