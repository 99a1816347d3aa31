"""The surface K: power that is there for a duration with a reliability, and how it was found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import xarray as xr

from pypsa_aidc.errors import Faults, checked
from pypsa_aidc.fleet.condition import Condition
from pypsa_aidc.fleet.envelope import Envelope, Portfolio
from pypsa_aidc.fleet.layers import Boundary, Response
from pypsa_aidc.fleet.trace.audit import coverage_of
from pypsa_aidc.fleet.windows import (
    DURATIONS,
    RELIABILITIES,
    Floats,
    Method,
    check_grid,
    dependable,
    least_windows,
    running_minima,
    successes,
)
from pypsa_aidc.plain import read_saved

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, repr=False)
class Surface:
    """Dependable power over duration and reliability, with its provenance (Eq. 2 of [2]).

    Attributes
    ----------
    data : xarray.Dataset
        `K` (duration × reliability, MW; NaN where no window is valid), `windows` (duration) and `tail_windows`
        (duration × reliability): how many windows there are, and how many may fall short. Attributes `mean` (MW, of the
        series), `coverage` (hours that are there, longest hole), `q`, `method`, `portfolio`, `boundary`, `response`,
        `condition`, `source`, `synthetic`; from an envelope also `mapping` and `power_model`.

    Raises
    ------
    InputError
        An axis that is not ascending, a negative K, a K that is missing although there are windows.
    """

    data: xr.Dataset

    def __post_init__(self) -> None:
        faults = Faults("Surface")
        wanted = {"K": ("duration", "reliability"), "windows": ("duration",)}
        for name, dims in wanted.items():
            present = name in self.data and self.data[name].dims == dims
            faults.require(present, "data", sorted(map(str, self.data.data_vars)), f"'{name}' over {' × '.join(dims)}")
        faults.raise_any()
        durations, reliabilities = (self.data[name].to_numpy().tolist() for name in wanted["K"])
        K, windows = self.data["K"].to_numpy(), self.data["windows"].to_numpy()
        check_grid(faults, durations, reliabilities)
        for duration, row, valid in zip(durations, K, windows, strict=True):
            where = f"K at {duration} h"
            faults.require(not (row < 0).any(), where, row.tolist(), "MW of at least 0")
            faults.require(valid == 0 or not np.isnan(row).any(), where, row.tolist(), "no gap: there are windows")
        faults.raise_any()

    def __repr__(self) -> str:
        attrs, counts = self.data.attrs, self.data["windows"].to_numpy()
        word = "synthetic, " if attrs.get("synthetic") else ""
        rows = [
            f"  {duration:>4} h  "
            + (
                "0 windows"
                if not count
                else "  ".join(f"{value:10.4g}" for value in self.data["K"].sel(duration=duration).to_numpy())
            )
            for duration, count in zip(self.data["duration"].to_numpy(), counts, strict=True)
        ]
        header = "  ".join(f"{alpha:10.4g}" for alpha in self.data["reliability"].to_numpy())
        seen = f", {attrs['coverage']}" if "hole" in attrs.get("coverage", "") else ""
        title = f"Surface({word}MW, {attrs.get('method', '')}, q = {attrs.get('q', 1):g}{seen})"
        return "\n".join([title, f"          {header}", *rows])

    def _repr_html_(self) -> str:
        """Return what a notebook shows: K by duration and reliability."""
        from pypsa_aidc.markup import Table, card

        return card(self, lambda: [Table("Dependable power K", self.by_duration())], self.plot)

    @property
    def K(self) -> xr.DataArray:  # noqa: N802 - the symbol of Eq. 2
        """Dependable power, MW; duration × reliability."""
        return self.data["K"]

    @property
    def firmness(self) -> xr.DataArray:
        """K at q = 1 over the mean of the series; duration × reliability."""
        q, mean = self.data.attrs["q"], self.data.attrs["mean"]
        ratio = self.K / (q * mean) if q and mean else self.K * np.nan
        return ratio.rename("firmness").assign_attrs(units="1")

    @property
    def windows(self) -> dict[int, int]:
        """Number of valid windows by duration, h."""
        return {int(h): int(n) for h, n in self.data["windows"].to_series().items()}  # type: ignore[call-overload]

    @property
    def told(self) -> xr.DataArray:
        """Whether there are enough windows to say K; duration × reliability, always so without a condition."""
        least = [least_windows(float(alpha)) for alpha in self.data["reliability"].to_numpy()]
        enough: xr.DataArray = self.data["windows"] >= xr.DataArray(least, {"reliability": self.data["reliability"]})
        unconditional = self.data.attrs.get("condition", "none") == "none"
        told: xr.DataArray = (enough | unconditional).assign_coords(windows=self.data["windows"])
        return told

    def at(self, duration: float, reliability: float) -> float:
        """Dependable power for any duration and reliability that the grid covers, never more than the data support.

        Between grid points the next longer duration and the next higher reliability stand in; of all grid points that
        ask no more than that one, the smallest K is taken, so that gaps in the series cannot make it optimistic.

        Parameters
        ----------
        duration
            h, above 0 and at most the longest of the grid.
        reliability
            Above 0 and at most the highest of the grid.

        Returns
        -------
        float
            MW.

        Raises
        ------
        InputError
            Outside the grid, no window there, or under a condition fewer than `least_windows` of them.

        Examples
        --------
        >>> K = Surface.of([3.0, 1.0, 4.0, 1.0, 5.0, 9.0], durations=[1, 4], reliabilities=[0.5])
        >>> K.at(1, 0.5), K.at(2, 0.5)
        (4.0, 1.0)
        """
        faults = Faults("Surface.at")
        durations, reliabilities = (self.data[name].to_numpy() for name in ("duration", "reliability"))
        faults.number(
            "duration", duration, above=0, at_most=float(durations[-1]), remedy="Compute K for longer events."
        )
        faults.number("reliability", reliability, above=0, at_most=float(reliabilities[-1]), remedy="Compute K for it.")
        faults.raise_any()
        told = self.told.isel(
            duration=int(np.searchsorted(durations, duration - 1e-9)),
            reliability=int(np.searchsorted(reliabilities, reliability - 1e-9)),
        )
        remedy = "Take a longer trace, a wider condition or a lower reliability."
        least = f"at least {least_windows(reliability)}"
        faults.require(bool(told), "condition", f"{int(told['windows'])} windows", least, remedy)
        faults.raise_any()
        asked = self.K.isel(
            duration=slice(0, int(np.searchsorted(durations, duration - 1e-9)) + 1),
            reliability=slice(0, int(np.searchsorted(reliabilities, reliability - 1e-9)) + 1),
        )
        lowest = float(asked.min(skipna=False))
        faults.require(not np.isnan(lowest), "duration", duration, "a duration with at least one valid window")
        faults.raise_any()
        return lowest

    def to_frame(self) -> pd.DataFrame:
        """Long table: `duration` (h), `reliability`, `K` (MW), `firmness`, `windows`, `tail_windows`."""
        return self.data.assign(firmness=self.firmness).to_dataframe().reset_index()

    def by_duration(self) -> pd.DataFrame:
        """Return K as people read it: one row a duration (h), one column a reliability (MW), and the `windows`."""
        grid = pd.DataFrame(self.K.to_pandas())
        grid.columns = [f"K at {alpha:g}" for alpha in self.data["reliability"].to_numpy()]
        units = dict.fromkeys(grid.columns, "MW") | {"duration": "h"}
        grid["windows"] = self.data["windows"].to_series()
        grid.attrs["units"] = units
        return grid

    def plot(self) -> Figure:
        """Draw K over duration, one line for each reliability (Fig. 4a of [2])."""
        from pypsa_aidc.plots.dependable import plot_surface

        return plot_surface(self)

    def save(self, path: str | Path) -> None:
        """Write netCDF."""
        self.data.to_netcdf(path)

    @classmethod
    @checked
    def of(
        cls,
        source: Envelope | npt.ArrayLike,
        durations: Sequence[int] = DURATIONS,
        reliabilities: Sequence[float] = RELIABILITIES,
        *,
        portfolio: Portfolio = None,
        boundary: Boundary | None = None,
        response: Response | None = None,
        q: float = 1.0,
        method: Method = "sup",
        condition: Condition | None = None,
    ) -> Surface:
        """Dependable power of a portfolio, K_{α,h}(S; q) (Eq. 2 of [2]).

        K is per event and unconditional unless a `condition` is given: over start hours drawn from the past, hour
        means, an untouched baseline. See `pypsa_aidc.fleet.contract` for what a number of calls is worth. K falls with
        reliability, and with duration in a series without gaps; across gaps, longer windows see other hours, and
        `Surface.at` keeps to the lower value.

        Parameters
        ----------
        source
            An envelope, or one hourly series of relief, MW, NaN where an hour is missing.
        durations
            Ascending whole hours.
        reliabilities
            Ascending shares in (0, 1].
        portfolio, boundary, response
            As for `Envelope.relief` (None: all clusters, ``"idle-retained"``, ``"marginal"``); not with a series.
        q
            Fraction of the eligible power that the operator can really shed, 0 … 1; it scales K exactly.
        method
            ``"sup"``: Eq. 2 to the letter. ``"linear"``: interpolated quantile, as in the printed tables of [2].
        condition
            Restriction to some windows.

        Returns
        -------
        Surface

        Raises
        ------
        InputError
            A grid, fraction, portfolio or series that cannot be.

        Examples
        --------
        >>> Surface.of([2.0, 2.0, 2.0], durations=[1, 2], reliabilities=[0.95], q=0.5)
        Surface(MW, sup, q = 0.5)
                        0.95
             1 h           1
             2 h           1
        """
        faults = Faults("Surface")
        check_grid(faults, durations, reliabilities, method)
        faults.number("q", q, at_least=0, at_most=1)
        attrs: dict[str, Any] = {"q": float(q), "method": method, "condition": repr(condition) if condition else "none"}
        if isinstance(source, Envelope):
            faults.raise_any()
            relief = source.relief(portfolio, boundary or "idle-retained", response or "marginal")
            series, hours = relief.sum("cluster", skipna=False).to_numpy(), relief["hour"].to_numpy()
            attrs |= {"portfolio": list(map(str, relief["cluster"].to_numpy())), **relief.attrs}
            known = ("source", "synthetic", "mapping", "power_model")
            attrs |= {name: source.data.attrs[name] for name in known if name in source.data.attrs}
            attrs.pop("units")
        else:
            series = series_of(source, faults, portfolio=portfolio, boundary=boundary, response=response)
            hours = np.arange(series.size)
            attrs |= {"portfolio": "series", "source": "series", "synthetic": 0}
        attrs["coverage"] = str(coverage_of(~np.isnan(series)))
        origin = source.origin if isinstance(source, Envelope) else ""
        minima = window_minima(series, hours, durations, condition, origin)
        inside = condition.masks(hours, origin)[0] if condition else np.ones(hours.size, bool)
        there = series[inside & ~np.isnan(series)]
        attrs["mean"] = float(there.mean()) if there.size else float("nan")
        counts = {h: int((~np.isnan(m)).sum()) for h, m in minima.items()}
        data = xr.Dataset(
            {
                "K": (
                    ("duration", "reliability"),
                    q * np.array([dependable(minima[h], reliabilities, method) for h in durations]),
                    {"units": "MW", "long_name": "dependable power"},
                ),
                "windows": ("duration", [counts[h] for h in durations], {"units": "1", "long_name": "valid windows"}),
                "tail_windows": (
                    ("duration", "reliability"),
                    [[counts[h] - successes(counts[h], alpha) for alpha in reliabilities] for h in durations],
                    {"units": "1", "long_name": "windows that may fall short"},
                ),
            },
            coords={"duration": ("duration", list(durations), {"units": "h"}), "reliability": list(reliabilities)},
            attrs=attrs,
        )
        return Surface(data)

    @classmethod
    def read(cls, path: str | Path) -> Surface:
        """Read what `Surface.save` wrote.

        Raises
        ------
        InputError
            The file cannot be read or is no surface.
        """
        return read_saved(cls, path, "Surface.save")


def shaped(
    source: Envelope | npt.ArrayLike,
    profile: Sequence[float],
    reliability: float,
    *,
    portfolio: Portfolio = None,
    boundary: Boundary | None = None,
    method: Method = "sup",
) -> float:
    """Largest multiple of a call's shape that is there with a reliability: K of min_j C_{t+j}/w_j.

    A flat profile of ones gives K of that duration; a profile below 1 somewhere gives at least as much.

    Parameters
    ----------
    source, portfolio, boundary, method
        As for `surface`.
    profile
        Depth w_j of the call in each of its hours, at least 0 and not all 0.
    reliability
        In (0, 1].

    Returns
    -------
    float
        MW for a depth of 1; NaN where no window is valid.

    Examples
    --------
    >>> shaped([4.0, 1.0, 4.0, 1.0], [1.0, 0.5], 1.0), shaped([4.0, 1.0, 4.0, 1.0], [1.0, 1.0], 1.0)
    (1.0, 1.0)
    >>> shaped([4.0, 1.0, 4.0, 1.0], [1.0, 0.5], 0.5)
    2.0
    """
    faults = Faults("Shaped call")
    check_grid(faults, (max(len(profile), 1),), (reliability,), method)
    for weight in profile:
        faults.number("profile", weight, at_least=0)
    faults.require(any(weight > 0 for weight in profile), "profile", list(profile), "at least one hour with a depth")
    series = series_of(source, faults, portfolio=portfolio, boundary=boundary)
    starts = max(series.size - len(profile) + 1, 0)
    lowest = np.full(starts, np.inf)
    for offset, weight in enumerate(profile):
        # An hour of no depth asks for nothing, but a window over a missing hour still does not count.
        part = series[offset : offset + starts]
        lowest = np.minimum(lowest, part / weight if weight else np.where(np.isnan(part), np.nan, np.inf))
    return float(dependable(lowest, (reliability,), method)[0])


def series_of(source: Envelope | npt.ArrayLike, faults: Faults, **chosen: Any) -> Floats:
    """Hourly relief of an envelope, MW, as `chosen` for `Envelope.relief`; or a series, which offers no choice.

    What is wrong with it is raised with `faults`.
    """
    if isinstance(source, Envelope):
        faults.raise_any()
        given = {name: value for name, value in chosen.items() if value is not None}
        return source.relief(**given).sum("cluster", skipna=False).to_numpy()
    for name, value in chosen.items():
        faults.require(value is None, name, value, "None: a single series has no clusters or boundaries")
    try:
        values = np.asarray(source, dtype=float)
    except (TypeError, ValueError):
        faults.add("series", type(source).__name__, "an Envelope, or hourly MW")
        faults.raise_any()
    faults.require(values.ndim == 1 and values.size > 0, "series", f"shape {values.shape}", "one value for each hour")
    faults.require(not np.isinf(values).any(), "series", "inf", "finite MW, or NaN for a missing hour")
    negative = np.flatnonzero(values.ravel() < 0)
    where = f"series, hour {negative[0]}" if negative.size else "series"
    faults.require(not negative.size, where, values.ravel()[negative[:1]].tolist(), "MW of at least 0")
    faults.raise_any()
    return values


def window_minima(
    series: Floats,
    hours: npt.NDArray[np.int64],
    durations: Sequence[int],
    condition: Condition | None = None,
    origin: str = "",
) -> dict[int, Floats]:
    """Take the running minima of a series, with NaN for the windows that a condition leaves out."""
    if condition is None:
        return running_minima(series, durations)
    within, starts = condition.masks(hours, origin)
    minima = running_minima(np.where(within, series, np.nan), durations)
    return {h: np.where(starts[: m.size], m, np.nan) for h, m in minima.items()}
