"""Which windows count: all of them, or those that start at given hours, days or moments of stress."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pypsa_aidc.errors import Faults

Booleans = npt.NDArray[np.bool_]

MONTH = 30 * 24
"""Hours of a trace month: relative traces have no calendar, [2] counts in 30-day windows."""


@dataclass(frozen=True)
class Condition:
    """Restriction of Eq. 2 of [2] to some of the windows.

    Attributes
    ----------
    start_hours
        Clock hours at which a window may start, 0 … 23; trace-local for a relative trace.
    weekdays
        Days of the weekly cycle at which a window may start, 0 … 6; day 0 is the first of a relative trace.
    starts
        Whether a window may start in an hour, e.g. the planner's stress hours; one truth value for each hour.
    months
        Thirty-day windows that a window must lie in as a whole; 0 is the first.
    within
        Whether an hour may be part of a window at all, e.g. an era; one truth value for each hour.

    Examples
    --------
    >>> Condition(start_hours=[17, 18], weekdays=[0, 1, 2, 3, 4])
    Condition(start_hours=(17, 18), weekdays=(0, 1, 2, 3, 4))
    """

    start_hours: Sequence[int] | None = None
    weekdays: Sequence[int] | None = None
    starts: Sequence[bool] | Booleans | None = None
    months: Sequence[int] | None = None
    within: Sequence[bool] | Booleans | None = None

    def __post_init__(self) -> None:
        faults = Faults("Condition")
        for name, top in (("start_hours", 23), ("weekdays", 6), ("months", 10**6)):
            values = getattr(self, name)
            if values is None:
                continue
            object.__setattr__(self, name, tuple(values))
            faults.require(len(values) > 0, name, list(values), "at least one value")
            for value in values:
                faults.number(name, value, at_least=0, at_most=top, integer=True)
        for name in ("starts", "within"):
            if getattr(self, name) is not None:
                mask = np.asarray(getattr(self, name))
                faults.require(mask.dtype == bool and mask.ndim == 1, name, mask.dtype, "one truth value for each hour")
                object.__setattr__(self, name, mask)
        faults.raise_any()

    def __repr__(self) -> str:
        parts = [
            f"{name}={value if isinstance(value, tuple) else f'{int(value.sum())} of {value.size} hours'}"
            for name, value in vars(self).items()
            if value is not None
        ]
        return f"Condition({', '.join(parts)})"

    def masks(self, hours: npt.NDArray[np.int64]) -> tuple[Booleans, Booleans]:
        """Hours that may be part of a window, and hours at which one may start; each of shape (hours,).

        Raises
        ------
        InputError
            A mask that is not as long as the series.
        """
        faults = Faults("Condition")
        within, starts = np.ones(hours.size, bool), np.ones(hours.size, bool)
        for name, mask in (("within", within), ("starts", starts)):
            given = getattr(self, name)
            if given is not None:
                faults.require(
                    given.size == hours.size, name, f"{given.size} values", f"{hours.size}, one for each hour"
                )
                faults.raise_any()
                mask &= given
        if self.months is not None:
            within &= np.isin(hours // MONTH, self.months)
        if self.start_hours is not None:
            starts &= np.isin(hours % 24, self.start_hours)
        if self.weekdays is not None:
            starts &= np.isin(hours // 24 % 7, self.weekdays)
        return within, starts
