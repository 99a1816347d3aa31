"""Ratings of branches by season, and for as long as an outage lasts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
import pypsa

from pypsa_aidc.errors import Faults
from pypsa_aidc.headroom.bus.base_case import BRANCHES


@dataclass(frozen=True)
class Ratings:
    """Factors of s_nom · s_max_pu.

    Parameters
    ----------
    season
        Factor by month, 1 … 12, above 0; 1 for months that are not named. Or a table with months as rows and labels of
        branches, such as ``"Line 12"``, as columns; branches without a column keep their rating.
    emergency
        Factor after an outage, at least 1; or by hours for which such a rating holds: {0.25: 1.3, 4: 1.15, 24: 1.1}.
    outage_hours
        Hours for which a flow after an outage has to be borne until the system is adjusted: the rating for that long
        counts, or for the next longer time that `emergency` names.

    Examples
    --------
    >>> Ratings(emergency={0.25: 1.3, 4: 1.15}, outage_hours=1).after_outage
    1.15
    """

    season: Mapping[int, float] | pd.DataFrame = field(default_factory=dict)
    emergency: float | Mapping[float, float] = 1.0
    outage_hours: float = 1.0

    def __post_init__(self) -> None:
        faults = Faults("Ratings")
        months = self.season.index if isinstance(self.season, pd.DataFrame) else list(self.season)
        for month in months:
            faults.number("season, month", month, at_least=1, at_most=12, integer=True)
        if isinstance(self.season, pd.DataFrame):
            values = self.season.to_numpy(dtype=float, na_value=np.nan)
            faults.require(bool((values > 0).all()), "season", self.season.min().min(), "factors above 0")
        else:
            for month, factor in self.season.items():
                faults.number(f"season, month {month}", factor, above=0)
        faults.number("outage_hours", self.outage_hours, above=0)
        table = self.emergency if isinstance(self.emergency, Mapping) else {np.inf: self.emergency}
        faults.require(bool(table), "emergency", {}, "a factor")
        for hours, factor in table.items():
            faults.number(f"emergency for {hours:g} h", factor, at_least=1)
        if not len(faults):
            longest = max(table)
            faults.require(longest >= self.outage_hours, "outage_hours", self.outage_hours, f"at most {longest:g}")
        faults.raise_any()

    @property
    def after_outage(self) -> float:
        """Factor that counts after an outage."""
        if not isinstance(self.emergency, Mapping):
            return float(self.emergency)
        return float(self.emergency[min(hours for hours in self.emergency if hours >= self.outage_hours)])

    def check(self, n: pypsa.Network, faults: Faults) -> None:
        """Note seasons without dates, and columns that are no branch."""
        if not len(self.season):
            return
        dates = n.snapshots.levels[1] if isinstance(n.snapshots, pd.MultiIndex) else n.snapshots
        faults.require(isinstance(dates, pd.DatetimeIndex), "ratings, season", "months", "snapshots with dates")
        if isinstance(self.season, pd.DataFrame):
            known = {f"{kind} {name}" for kind in BRANCHES for name in n.c[kind].static.index}
            for label in self.season.columns:
                faults.require(label in known, "ratings, season", label, "a branch, such as 'Line 12'")

    def apply(self, n: pypsa.Network) -> None:
        """Put the seasons into ``s_max_pu`` of a network."""
        if not len(self.season) or not isinstance(n.snapshots, pd.DatetimeIndex):
            return
        months = n.snapshots.month
        for kind in BRANCHES:
            static = n.c[kind].static
            if static.empty:
                continue
            limit = n.get_switchable_as_dense(kind, "s_max_pu").copy()
            by_month: dict[Any, float]
            for name in static.index:
                if isinstance(self.season, pd.DataFrame):
                    column = self.season.get(f"{kind} {name}")
                    by_month = {} if column is None else dict(column)
                else:
                    by_month = {**self.season}
                limit[name] *= np.array([by_month.get(month, 1.0) for month in months])
            n.c[kind].dynamic["s_max_pu"] = limit
