"""Hourly demand of a region, with a list of every hour that was changed or looks odd."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

import numpy as np
import numpy.typing as npt
import pandas as pd

from pypsa_aidc.errors import Faults, UnitWarning

if TYPE_CHECKING:
    from matplotlib.figure import Figure

HOUR = pd.Timedelta(hours=1)
AUDIT = ("snapshot", "rule", "old", "new", "action")
"""Columns of an audit: hour (UTC, beginning), what was found, MW before and after, what was done about it."""
PLAUSIBLE = (1.0, 2e5)
"""Mean demand, MW, outside which the unit is doubtful: a village, or more than any one planner's region."""


class DemandWarning(UserWarning):
    """An hour of demand that was changed, filled or flagged decides a result, or may have decided it."""


def known_zone(zone: str) -> bool:
    """Whether a name is one of a time zone."""
    try:
        ZoneInfo(zone)
    except (KeyError, ValueError, OSError):
        return False
    return True


def no_findings() -> pd.DataFrame:
    """Return an audit without an entry."""
    return findings(pd.DatetimeIndex([]), "", np.array([]), np.array([]), "")


def findings(
    hours: pd.DatetimeIndex, rule: str, old: npt.ArrayLike, new: npt.ArrayLike, action: str | npt.ArrayLike
) -> pd.DataFrame:
    """Return audit entries of one rule, MW."""
    columns = {"snapshot": hours, "rule": rule, "old": old, "new": new, "action": action}
    return pd.DataFrame(columns, columns=list(AUDIT)).astype({"old": float, "new": float, "rule": str, "action": str})


@dataclass(frozen=True, repr=False)
class Demand:
    """Hourly demand of a region.

    Attributes
    ----------
    series : pandas.Series
        MW; index the hour in UTC, by its beginning, ascending, without a time zone as PyPSA's snapshots are. An index
        with a time zone is converted to UTC. NaN where an hour is missing.
    audit : pandas.DataFrame
        One row for each hour and finding, columns `AUDIT`.
    source
        Where the numbers come from.
    region
        What they are the demand of.
    column
        Which column was read: ``"adjusted"``, or the name that a file of two columns gives it.
    calendar
        Time zone whose midnight starts days and years, e.g. ``"Etc/GMT+5"`` for the market time of MISO.
    stamps
        How the stamps of the source were read, in words.

    Raises
    ------
    InputError
        An index that is no ascending sequence of full hours, no value at all, infinite values, an unknown calendar.

    Warns
    -----
    UnitWarning
        If the mean is below 1 MW or above 200,000.

    Examples
    --------
    >>> Demand(pd.Series([9.0, 12.0], pd.date_range("2024-01-01", periods=2, freq="h")), region="an island")
    Demand(an island, 2 hours from 2024-01-01 00:00 UTC, peak 12 MW at 2024-01-01 01:00, 0 missing, 0 findings)
    """

    series: pd.Series[float]
    audit: pd.DataFrame = field(default_factory=no_findings)
    source: str = "given"
    region: str = ""
    column: str = "given"
    calendar: str = "UTC"
    stamps: str = ""

    def __post_init__(self) -> None:
        faults = Faults(f"Demand of {self.region}" if self.region else "Demand")
        index = self.series.index
        if not isinstance(index, pd.DatetimeIndex):
            faults.add("index", type(index).__name__, "hours: a DatetimeIndex in UTC")
            faults.raise_any()
            raise AssertionError
        if index.tz is not None:
            index = index.tz_convert("UTC").tz_localize(None)
        values = pd.to_numeric(self.series, errors="coerce").to_numpy(float)
        faults.require(bool(np.isfinite(values).any()), "series", f"{len(values)} hours", "at least one known hour")
        faults.require(not np.isinf(values).any(), "series", "inf", "finite MW, or NaN for a missing hour")
        if not known_zone(self.calendar):
            faults.add("calendar", self.calendar, "a time zone, e.g. 'America/Chicago' or 'Etc/GMT+5'")
            faults.raise_any()
        local = index.tz_localize("UTC").tz_convert(self.calendar).tz_localize(None)
        partial = index[(index != index.floor("h")) & (local != local.floor("h"))]
        remedy = "Average to hours first; or give calendar=, if hours begin at half past in UTC, as in India."
        faults.require(partial.empty, "index", str(partial[:1].tolist()), "full hours", remedy)
        repeated = index[index.duplicated()]
        faults.require(repeated.empty, "index", [str(hour) for hour in repeated[:3]], "each hour once")
        faults.require(bool(index.is_monotonic_increasing), "index", "hours out of order", "ascending hours")
        steps = np.diff(index.to_numpy())
        typical = pd.Timedelta(np.median(steps.astype("timedelta64[s]").astype(np.int64)), "s") if steps.size else HOUR
        faults.require(typical == HOUR, "index", f"steps of {typical}", "steps of one hour, apart from gaps")
        absent = [name for name in AUDIT if name not in self.audit]
        faults.require(not absent, "audit", list(self.audit.columns), f"the columns {', '.join(AUDIT)}")
        faults.raise_any()
        mean = float(np.nanmean(values))
        if not PLAUSIBLE[0] <= mean <= PLAUSIBLE[1]:
            text = f"{faults.subject}: the mean is {mean:.4g} MW. Is it in another unit? Give MW."
            warnings.warn(text, UnitWarning, stacklevel=3)
        clean = pd.Series(values, pd.DatetimeIndex(index.to_numpy(), name="snapshot"), name="demand")
        object.__setattr__(self, "series", clean)

    def __repr__(self) -> str:
        first = self.hours[0]
        return (
            f"Demand({self.region or 'unnamed'}, {len(self.series):,} hours from {first:%Y-%m-%d %H:%M} UTC, "
            f"peak {self.peak:,.6g} MW at {self.peak_hour:%Y-%m-%d %H:%M}, {len(self.missing)} missing, "
            f"{len(self.audit)} findings)"
        )

    @property
    def hours(self) -> pd.DatetimeIndex:
        """Hours by their beginning, UTC."""
        return pd.DatetimeIndex(self.series.index)

    @property
    def mw(self) -> npt.NDArray[np.float64]:
        """Demand, MW; shape (hours,)."""
        return np.asarray(self.series, dtype=np.float64)

    @property
    def peak(self) -> float:
        """Highest known demand, MW."""
        return float(self.series.max())

    @property
    def peak_hour(self) -> pd.Timestamp:
        """First hour of the highest known demand."""
        return pd.Timestamp(self.hours[int(np.nanargmax(self.mw))])

    @property
    def missing(self) -> pd.DatetimeIndex:
        """Hours without a value."""
        return self.hours[self.series.isna().to_numpy()]

    @property
    def touched(self) -> pd.DatetimeIndex:
        """Hours with any finding other than an identical repetition."""
        return pd.DatetimeIndex(self.audit.loc[self.audit["rule"] != "duplicate", "snapshot"].unique()).sort_values()

    @property
    def clock(self) -> npt.NDArray[np.int64]:
        """Hours since the first midnight of the calendar at or before the first hour; shape (hours,)."""
        first = self.local[0]
        since = (self.hours - self.hours[0]) // HOUR
        return since.to_numpy().astype(np.int64) + first.hour

    @property
    def local(self) -> pd.DatetimeIndex:
        """Beginning of the hours on the clock of the calendar."""
        return self.hours.tz_localize("UTC").tz_convert(self.calendar)

    def between(self, start: str | pd.Timestamp, end: str | pd.Timestamp) -> Demand:
        """Part of the demand, from the hour `start` up to but without the hour `end`, on the clock of the calendar.

        Raises
        ------
        InputError
            If no known hour is left.
        """
        first, last = (pd.Timestamp(edge).tz_localize(self.calendar) for edge in (start, end))
        inside = np.asarray((self.local >= first) & (self.local < last))
        part = self.series[inside]
        faults = Faults(f"Demand of {self.region}" if self.region else "Demand")
        span = f"{self.local[0]} to {self.local[-1]}"
        faults.require(bool(part.notna().any()), "between", f"{start} to {end}", f"a part of {span}")
        faults.raise_any()
        kept = self.audit[self.audit["snapshot"].isin(part.index)].reset_index(drop=True)
        return replace(self, series=part, audit=kept)

    def to_frame(self) -> pd.DataFrame:
        """One row for each hour: `demand`, MW, and `rule`, the findings in that hour."""
        rules = self.audit.groupby("snapshot")["rule"].agg(", ".join)
        return pd.DataFrame({"demand": self.series, "rule": rules.reindex(self.hours).fillna("")})

    def plot(self) -> Figure:
        """Draw the top of the load-duration curve (Fig. 18a of [2])."""
        from pypsa_aidc.plots.screen import plot_load_duration

        return plot_load_duration(self)
