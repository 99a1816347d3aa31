"""Result of a peak-cap screen: headroom over alignments, margins and call budgets, and what limits it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import xarray as xr

from pypsa_aidc.errors import Faults
from pypsa_aidc.fleet.windows import Floats
from pypsa_aidc.headroom.region.demand import Demand
from pypsa_aidc.headroom.region.peak_cap import Integers, Mask, ratio, response
from pypsa_aidc.headroom.region.profile import Profile

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DIMS = ("profile", "margin", "budget", "offset")
RESIDUAL, BUDGET, NOTHING, INFEASIBLE = "residual hour", "call budget", "nothing", "infeasible"
BAND = (0.05, 0.95)
"""Quantiles over alignments that [2] prints beside the median."""
WORDS = {
    "headroom": ("MW", "largest admissible load"),
    "events": ("1", "stretches of called hours at that load"),
    "hours": ("h", "called hours at that load"),
    "longest": ("h", "longest stretch of called hours at that load"),
    "touched": ("1", "whether the binding or a called hour of demand was changed, filled or flagged"),
}


@dataclass(frozen=True)
class Ordered:
    """Hours of a demand, tightest first.

    Attributes
    ----------
    demand
        MW, descending.
    clock
        Hour on the clock of the demand.
    position
        Place in the demand.
    touched
        Whether it was changed, filled or flagged.
    """

    demand: Floats
    clock: Integers
    position: Integers
    touched: Mask

    @classmethod
    def of(cls, demand: Demand) -> Ordered:
        """Order a demand; of equal hours the earlier comes first."""
        order = np.argsort(-demand.mw, kind="stable")
        touched = np.asarray(demand.hours.isin(demand.touched))
        return cls(demand.mw[order], demand.clock[order], order, touched[order])


_UNITS = {
    **dict.fromkeys(("headroom", "p5", "p95"), "MW"),
    **{f"{name}{end}": "h" for name in ("hours", "longest") for end in ("", "_p5", "_p95")},
}


@dataclass(frozen=True, repr=False)
class Screen:
    """Headroom under a peak cap, and what limits it (App. E of [2]).

    Attributes
    ----------
    data : xarray.Dataset
        Over profile × margin × budget × offset: `headroom` (MW; NaN where infeasible, inf where nothing limits),
        `limiter` (``"residual hour"``, ``"call budget"``, ``"nothing"`` or ``"infeasible"``), `hour` (the binding hour,
        UTC, by its beginning; NaT without one), `events`, `hours`, `longest` and `touched`, all at that headroom.
        Attributes `period`, `offsets`, `region`, `column`, `source`, `synthetic`, and `peak`, MW.
    demand
        What was screened.
    profiles
        The loads, in order.
    """

    data: xr.Dataset
    demand: Demand
    profiles: tuple[Profile, ...]

    def __repr__(self) -> str:
        word = "synthetic, " if self.synthetic else ""
        table = self.summary()[["profile", "margin", "budget", "headroom", "p5", "p95", "limiter"]]
        shown = table.head(12).to_string(index=False, float_format=lambda value: f"{value:.4g}")
        more = f"\n... and {len(table) - 12} more cases" if len(table) > 12 else ""
        return f"Screen({word}MW, {self.data.sizes['offset']} offsets: {self.data.attrs['offsets']})\n{shown}{more}"

    def _repr_html_(self) -> str:
        """Return what a notebook shows: one row a case."""
        from pypsa_aidc.markup import Table, card

        return card(self, lambda: [Table("Headroom", self.summary(), _UNITS)], self.plot)

    @property
    def synthetic(self) -> bool:
        """Whether any of the loads comes from the synthetic fleet."""
        return bool(self.data.attrs["synthetic"])

    def summary(self) -> pd.DataFrame:
        """One row for each profile, margin and budget: medians over the offsets and their 5 % and 95 % quantiles.

        Columns `profile`, `margin`, `budget`, `headroom`, `p5`, `p95` (MW); `events`, `hours`, `longest` with
        ``_p5`` and ``_p95``; `limiter`, the most frequent one; `touched`, the share of alignments that rest on a
        changed, filled or flagged hour.
        """
        cases = pd.MultiIndex.from_product([self.data[name].to_numpy() for name in DIMS[:-1]], names=DIMS[:-1])
        table = cases.to_frame(index=False)
        flat = {name: self.data[name].to_numpy().reshape(len(cases), -1) for name in (*WORDS, "limiter")}
        for name in ("headroom", "events", "hours", "longest"):
            low, middle, high = quantiles(flat[name])
            prefix = "" if name == "headroom" else f"{name}_"
            table = table.assign(**{name: middle, f"{prefix}p5": low, f"{prefix}p95": high})
        limiter = pd.DataFrame(flat["limiter"]).mode(axis=1)[0].to_numpy()
        return table.assign(limiter=limiter, touched=flat["touched"].mean(axis=1))

    def response(self, size: float) -> xr.Dataset:
        """Count calls of a load of a given size instead of each one's own headroom.

        Parameters
        ----------
        size
            MW, at least 0.

        Returns
        -------
        xarray.Dataset
            `events`, `hours`, `longest` over profile × margin × offset; they do not depend on relief.
        """
        faults = Faults("Screen.response")
        faults.number("size", size, at_least=0)
        faults.raise_any()
        ordered = Ordered.of(self.demand)
        offsets = self.data["offset"].to_numpy()
        shape = tuple(self.data.sizes[name] for name in ("profile", "margin", "offset"))
        counts = {name: np.zeros(shape, np.int64) for name in ("events", "hours", "longest")}
        for row, profile in enumerate(self.profiles):
            for column, cap in enumerate(self.data["cap"].to_numpy()):
                sizes = np.full((1, offsets.size), float(size))
                found = response(cap - ordered.demand, ordered.clock, profile.load, offsets, sizes, ordered.touched)
                for name, values in counts.items():
                    values[row, column] = getattr(found, name)[0]
        coords = {name: self.data[name] for name in ("profile", "margin", "offset")}
        data = {name: (("profile", "margin", "offset"), values) for name, values in counts.items()}
        return xr.Dataset(data, coords, {"size": float(size), "synthetic": self.data.attrs["synthetic"]})

    def calls(
        self, profile: str, margin: float, budget: float, alignment: int = 0, size: float | None = None
    ) -> pd.DataFrame:
        """List the stretches of hours in which the load of one case exceeds the cap.

        Parameters
        ----------
        profile, margin, budget
            Of the case.
        alignment
            Position among the offsets.
        size
            MW; the headroom of the case if None.

        Returns
        -------
        pandas.DataFrame
            One row for each event: `start` (UTC), `hours`, `energy` (MWh) and `deepest` (MW) of the excess over the
            cap.

        Raises
        ------
        InputError
            A case that was not screened, or without a finite size.
        """
        faults = Faults("Screen.calls")
        asked = {"profile": profile, "margin": margin, "budget": budget}
        for name, value in asked.items():
            there = self.data[name].to_numpy().tolist()
            faults.require(value in there, name, value, f"one of {', '.join(map(str, there))}")
        last = self.data.sizes["offset"] - 1
        faults.number("alignment", alignment, at_least=0, at_most=last, integer=True)
        faults.raise_any()
        case = self.data.sel(asked).isel(offset=alignment)
        own = float(case["headroom"]) if size is None else size
        faults.number("size", own, at_least=0)
        faults.raise_any()
        (shape,) = (one for one in self.profiles if one.name == profile)
        load = shape.laid(self.demand.clock, int(case["offset"]))[0]
        slack = float(case["cap"]) - self.demand.mw
        called = ratio(slack, load) < own
        excess = pd.Series(np.where(called, own * load - slack, 0.0))
        clock = self.demand.clock
        begins = called & ~(np.append(False, called[:-1]) & (np.diff(clock, prepend=-2) == 1))
        event = pd.Series(np.cumsum(begins))[called]
        groups = excess[called].groupby(event)
        starts = self.demand.hours[begins]
        table = pd.DataFrame({"hours": groups.size(), "energy": groups.sum(), "deepest": groups.max()})
        return table.reset_index(drop=True).assign(start=starts)[["start", "hours", "energy", "deepest"]]

    def to_frame(self) -> pd.DataFrame:
        """One row for each profile, margin, budget and alignment, MW and hours."""
        numbered = self.data.assign_coords(alignment=("offset", np.arange(self.data.sizes["offset"])))
        table = numbered.swap_dims(offset="alignment").reset_coords("offset").to_dataframe().reset_index()
        return table[[*DIMS[:-1], "alignment", "offset", "headroom", "limiter", "hour", "events", "hours", "longest"]]

    def plot(self) -> Figure:
        """Draw headroom over margin, one line for each representation, with its band over offsets (Fig. 17 of [2])."""
        from pypsa_aidc.plots.screen import plot_screen

        return plot_screen(self)

    def plot_ratios(self) -> Figure:
        """Draw the load-duration curve and ratios over margins and budgets (Fig. 18 of [2])."""
        from pypsa_aidc.plots.screen import plot_ratios

        return plot_ratios(self)

    def save(self, path: str | Path) -> None:
        """Write the data as netCDF."""
        self.data.to_netcdf(path)


def quantiles(values: Floats) -> tuple[Floats, Floats, Floats]:
    """Lower end of the band, median and upper end over the last axis, without interpolating towards infinity."""
    finite = np.isfinite(values).all(axis=-1)
    low, middle, high = (np.full(finite.shape, np.nan) for _ in range(3))
    low[finite], middle[finite], high[finite] = np.quantile(values[finite], [BAND[0], 0.5, BAND[1]], axis=-1)
    unlimited = np.isinf(values).all(axis=-1)
    for part in (low, middle, high):
        part[unlimited] = np.inf
    return low, middle, high
