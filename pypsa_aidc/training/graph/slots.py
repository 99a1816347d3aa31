"""The slots of a horizon: their length in hours, and which one a given hour falls into."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from pypsa_aidc.errors import Faults
from pypsa_aidc.units import SLOT_TOLERANCE

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Slots:
    """Slots of a horizon.

    Parameters
    ----------
    hours
        Length of each slot in hours, shape (slots,), all above 0.

    Raises
    ------
    InputError
        No slot, or one of no length.

    Examples
    --------
    >>> Slots.uniform(4, 0.25).total
    1.0
    """

    hours: Floats

    def __post_init__(self) -> None:
        faults = Faults("Slots")
        hours = np.asarray(self.hours, dtype=float)
        faults.require(hours.ndim == 1 and len(hours) > 0, "hours", hours.shape, "one length for each slot")
        bad = np.flatnonzero(~(np.isfinite(hours) & (hours > 0)))
        for slot in bad[:5]:
            faults.number(f"hours[{slot}]", float(hours[slot]), above=0)
        faults.raise_any()
        object.__setattr__(self, "hours", hours)

    @classmethod
    def uniform(cls, count: int, hours: float = 1.0) -> Slots:
        """Return `count` slots of one length."""
        return cls(np.full(count, float(hours)))

    def __len__(self) -> int:
        return len(self.hours)

    @cached_property
    def ends(self) -> Floats:
        """Hours at the border of slots, shape (slots + 1,), the first 0."""
        return np.concatenate([[0.0], np.cumsum(self.hours)])

    @property
    def total(self) -> float:
        """Length of the horizon in hours."""
        return float(self.ends[-1])

    @property
    def are_uniform(self) -> bool:
        """Whether all slots are of one length."""
        return bool(np.ptp(self.hours) <= SLOT_TOLERANCE)

    def stops(self, need: float) -> Ints:
        """First border at which `need` hours have passed since each border; beyond the horizon, slots + 1."""
        stop = np.searchsorted(self.ends, self.ends + need - SLOT_TOLERANCE)
        return np.maximum(stop, np.arange(len(self) + 1) + 1)

    def ceil(self, hour: float) -> int:
        """First border at or after `hour`, counting on beyond the horizon with slots of the last length."""
        if hour <= self.total + SLOT_TOLERANCE:
            return int(np.searchsorted(self.ends, hour - SLOT_TOLERANCE))
        return len(self) + int(np.ceil((hour - self.total) / self.hours[-1] - SLOT_TOLERANCE))

    def hour(self, border: int) -> float:
        """Hour of a border, counting on beyond the horizon with slots of the last length."""
        beyond = max(border - len(self), 0)
        return float(self.ends[min(border, len(self))] + beyond * self.hours[-1])

    def after(self, border: int, need: float) -> int:
        """First border at which `need` hours have passed since `border`, also beyond the horizon."""
        return max(self.ceil(self.hour(border) + need), border + 1)

    def window(self, arrival: float, deadline: float | None, faults: Faults) -> tuple[int, int]:
        """First and last border between arrival and deadline; faults are noted, not raised."""
        end = self.total if deadline is None else deadline
        faults.require(
            end <= self.total + SLOT_TOLERANCE,
            "deadline",
            deadline,
            f"at most {self.total:g} h, the length of the horizon",
            "Leave it out for the end of the horizon, or extend the snapshots.",
        )
        first = self.ceil(arrival)
        last = int(np.searchsorted(self.ends, end + SLOT_TOLERANCE, side="right")) - 1
        faults.require(
            first < last,
            "arrival and deadline",
            (arrival, deadline),
            "at least one whole slot in between",
        )
        return first, last

    def repeated(self, values: Sequence[float] | float) -> Floats:
        """Return `values` as one number for each slot."""
        return np.broadcast_to(np.asarray(values, dtype=float), self.hours.shape).copy()
