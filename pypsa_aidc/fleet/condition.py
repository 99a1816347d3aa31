"""Which windows count: all of them, or those that start at given hours, days or moments of stress."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import numpy as np
import numpy.typing as npt
import pandas as pd

from pypsa_aidc.errors import Faults
from pypsa_aidc.fleet.trace.stamps import check_zone

Booleans = npt.NDArray[np.bool_]

MONTH = 30 * 24
"""Hours of a trace month: relative traces have no calendar, [2] counts in 30-day windows."""


@dataclass(frozen=True)
class Condition:
    """Restriction of Eq. 2 of [2] to some of the windows.

    Attributes
    ----------
    start_hours
        Clock hours at which a window may start, 0 … 23: of `zone` for a trace of stamps, else counted from hour 0.
    weekdays
        Days at which a window may start, 0 … 6: Monday is 0 for a trace of stamps, else the first day of the trace.
    starts
        Whether a window may start in an hour, e.g. the planner's stress hours; one truth value for each hour.
    months
        Thirty-day windows that a window must lie in as a whole; 0 is the first.
    within
        Whether an hour may be part of a window at all, e.g. an era; one truth value for each hour.
    zone
        Whose clock and calendar `start_hours` and `weekdays` are of, e.g. ``"America/Chicago"``; for traces of stamps.

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
    zone: str = "UTC"

    def __post_init__(self) -> None:
        faults = Faults("Condition")
        check_zone(faults, self.zone)
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
            if value is not None and name != "zone"
        ]
        parts += [f"zone={self.zone!r}"] if self.zone != "UTC" else []
        return f"Condition({', '.join(parts)})"

    @classmethod
    def peaks(
        cls, series: pd.Series[float], hours: npt.NDArray[np.int64], origin: str, share: float = 0.05
    ) -> Condition:
        """Make a condition of the highest hours of a series, e.g. of a region's demand or of temperature.

        Parameters
        ----------
        series
            By stamps with a zone, of the beginning of what they measure; the mean of each hour of the trace counts.
        hours, origin
            Of the trace: `Envelope.data["hour"]` and `Envelope.origin`.
        share
            Of the hours that both have, how many count as stress, in (0, 1]; at least one.

        Raises
        ------
        InputError
            No stamps on one of both sides, no hour in common, or a share outside its range.

        Examples
        --------
        >>> demand = pd.Series([1.0, 9.0, 2.0], pd.date_range("2026-01-01", periods=3, freq="h", tz="UTC"))
        >>> Condition.peaks(demand, np.arange(3), "2026-01-01T00:00Z", share=0.3).starts.tolist()
        [False, True, False]
        """
        faults = Faults("Condition")
        faults.number("share", share, above=0, at_most=1)
        values = hourly_means(series, hours, origin, "series", faults)
        there = np.isfinite(values)
        faults.require(
            bool(there.any()), "series", f"{series.index.min()} … {series.index.max()}", "hours of the trace"
        )
        faults.raise_any()
        count = max(1, int(share * there.sum()))
        least = np.sort(values[there])[-count]
        return cls(starts=there & (np.where(there, values, -np.inf) >= least))

    def masks(self, hours: npt.NDArray[np.int64], origin: str = "") -> tuple[Booleans, Booleans]:
        """Hours that may be part of a window, and hours at which one may start; each of shape (hours,).

        Parameters
        ----------
        hours
            Of the trace, counted from hour 0.
        origin
            Moment of hour 0, UTC; empty for a trace without stamps.

        Raises
        ------
        InputError
            A mask that is not as long as the series, or a zone for a trace without stamps.
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
        clock, weekday = hours % 24, hours // 24 % 7
        if origin:
            local = moments(hours, origin, self.zone)
            clock, weekday = local.hour.to_numpy(), local.day_of_week.to_numpy()
        else:
            remedy = "Its hours count from its start: shift start_hours."
            faults.require(self.zone == "UTC", "zone", self.zone, "none for a trace without stamps", remedy)
            faults.raise_any()
        if self.start_hours is not None:
            starts &= np.isin(clock, self.start_hours)
        if self.weekdays is not None:
            starts &= np.isin(weekday, self.weekdays)
        return within, starts


def hourly_means(
    series: pd.Series[float], hours: npt.NDArray[np.int64], origin: str, name: str, faults: Faults
) -> npt.NDArray[np.float64]:
    """Mean of a series by stamps in each hour of a trace, NaN where it has none; faults with it are raised."""
    stamped = isinstance(series.index, pd.DatetimeIndex) and series.index.tz is not None
    faults.require(stamped, name, type(series.index).__name__, "stamps with a zone")
    faults.require(bool(origin), "origin", origin, "a trace of stamps")
    faults.raise_any()
    index = pd.DatetimeIndex(series.index).tz_convert("UTC")
    hour = (index - moments(np.zeros(1, np.int64), origin)[0]) // pd.Timedelta(hours=1)
    return np.asarray(series.groupby(hour).mean().reindex(hours), dtype=float)


def moments(hours: npt.NDArray[np.int64], origin: str, zone: str = "UTC") -> pd.DatetimeIndex:
    """Local moments of the hours of a trace whose hour 0 is at `origin`; shape (hours,)."""
    zero = datetime.fromisoformat(origin.replace("Z", "+00:00")).astimezone(UTC)
    stamps = pd.Timestamp(zero) + pd.to_timedelta(hours, unit="h")
    offset = zone[0] in "+-"
    return stamps.tz_convert(pd.Timestamp(f"2000-01-01T00:00{zone}").tz if offset else ZoneInfo(zone))
