"""What a planner would have believed instead: fixed shares, shuffled hours, independent clusters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pandas as pd
import xarray as xr

from pypsa_aidc.errors import Faults, checked
from pypsa_aidc.fleet.envelope import Envelope, Portfolio
from pypsa_aidc.fleet.layers import Boundary
from pypsa_aidc.fleet.windows import (
    DURATIONS,
    RELIABILITIES,
    RELIABILITY_STEP,
    Floats,
    Method,
    check_grid,
    dependable,
    running_minima,
)
from pypsa_aidc.progress import track

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TREND = 168
"""Hours of the centred mean that the detrended shift leaves in place."""
LEAST = 24
"""Hours that a rolling mean needs."""

REPRESENTATIONS = (
    "observed",
    "mean share",
    "tail-calibrated share",
    "time-shuffled",
    "independent, detrended",
    "independent, raw",
)


def k_grid(series: Floats, durations: Sequence[int], reliabilities: Sequence[float], method: Method) -> Floats:
    """K of one series over a grid, MW; shape (durations, reliabilities)."""
    minima = running_minima(series, durations)
    return np.array([dependable(minima[h], reliabilities, method) for h in durations])


def shuffled(series: npt.ArrayLike, durations: Sequence[int], reliabilities: Sequence[float]) -> Floats:
    """K expected when the hours are put into random order: persistence is lost, the marginal kept.

    A window of h hours drawn without replacement from n holds k with probability C(m, h)/C(n, h), m the number of hours
    at or above k; K is the largest observed power at which that reaches α. For n ≫ h this is the quantile at α^(1/h).

    Parameters
    ----------
    series : array of shape (hours,)
        MW; NaN hours are left out.
    durations, reliabilities
        As for `pypsa_aidc.fleet.surface`.

    Returns
    -------
    array of shape (durations, reliabilities)
        MW; NaN where there are fewer hours than the window is long.

    Examples
    --------
    >>> shuffled([1.0, 2.0, 3.0, 4.0], [1, 2], [0.5])
    array([[3.],
           [2.]])
    """
    values = np.asarray(series, dtype=float)
    descending = np.sort(values[~np.isnan(values)])[::-1]
    n = descending.size
    result = np.full((len(durations), len(reliabilities)), np.nan)
    for row, h in enumerate(durations):
        if n < h:
            continue
        # log C(m, h) − log C(n, h) for m = h … n: each step from m − 1 to m multiplies by m/(m − h).
        m = np.arange(h + 1, n + 1)
        chance = np.concatenate([[0.0], np.cumsum(np.log(m) - np.log(m - h))])
        chance = np.exp(chance - chance[-1])
        for column, alpha in enumerate(reliabilities):
            reached = np.searchsorted(chance, alpha - 0.5 / RELIABILITY_STEP)
            result[row, column] = descending[h - 1 + reached]
    return result


def trend(values: Floats, window: int = TREND) -> Floats:
    """Centred rolling mean along the last axis, at least 24 hours; its first and last values fill the ends."""
    frame = pd.DataFrame(np.atleast_2d(values).T)
    mean = frame.rolling(window, center=True, min_periods=min(LEAST, window)).mean().bfill().ffill()
    return mean.to_numpy().T.reshape(values.shape)


def independent(
    clusters: Floats,
    durations: Sequence[int],
    reliabilities: Sequence[float],
    *,
    detrended: bool = True,
    replicates: int = 100,
    seed: int | np.random.Generator = 0,
    method: Method = "sup",
) -> Floats:
    """K expected when each cluster is moved in time on its own: persistence stays, co-movement goes (Sec. 2.4 of [2]).

    Parameters
    ----------
    clusters : array of shape (clusters, hours)
        MW; a missing hour is NaN in all clusters. The hours that are there are shifted in a circle and put back in
        place, so that the gap stays one gap.
    durations, reliabilities, method
        As for `pypsa_aidc.fleet.surface`.
    detrended
        Shift only what remains beside the centred 168-hour mean, so that growth stays where it is (the printed values
        of [2]); otherwise the series itself.
    replicates
        Sets of random shifts to average over, at least 1.
    seed
        Number or generator.

    Returns
    -------
    array of shape (durations, reliabilities)
        Mean K, MW.
    """
    faults = Faults("Independent clusters")
    check_grid(faults, durations, reliabilities, method)
    faults.number("replicates", replicates, at_least=1, integer=True)
    faults.raise_any()
    rng = np.random.default_rng(seed)
    there = ~np.isnan(clusters).any(axis=0)
    known = clusters[:, there]
    steady = trend(known) if detrended else np.zeros_like(known)
    moving, base = known - steady, steady.sum(axis=0)
    total = np.zeros((len(durations), len(reliabilities)))
    series = np.full(there.size, np.nan)
    for _ in track(range(replicates), "shifts of clusters"):
        shifts = rng.integers(0, known.shape[1], len(known))
        moved = base + sum(np.roll(row, shift) for row, shift in zip(moving, shifts, strict=True))
        series[there] = np.maximum(moved, 0.0)
        total += k_grid(series, durations, reliabilities, method)
    return total / replicates


@dataclass(frozen=True, repr=False)
class Counterfactuals:
    """K of the observed series and of what a planner might put in its place (Tables 2 and 3 of [2]).

    Attributes
    ----------
    data : xarray.Dataset
        `K` (representation × duration × reliability, MW) and `workload_K` (duration × reliability, MW).
        Attributes `mean` (eligible, MW), `mean_share` and `tail_share` (of workload power).
    """

    data: xr.Dataset

    def __repr__(self) -> str:
        word = "synthetic, " if self.data.attrs["synthetic"] else ""
        return (
            f"Counterfactuals({word}{self.data.sizes['representation']} representations)\n{self.table(0.95).round(3)}"
        )

    @property
    def ratios(self) -> xr.DataArray:
        """K of each representation over the observed one; above 1 it promises too much."""
        return xr.DataArray(self.data["K"] / self.data["K"].sel(representation="observed", drop=True), name="ratio")

    @property
    def required_share(self) -> xr.DataArray:
        """Share of workload power that reproduces each cell, over the mean eligible share (Table 2 of [2])."""
        share = self.data["K"].sel(representation="observed", drop=True) / self.data["workload_K"]
        return xr.DataArray(share / self.data.attrs["mean_share"], name="required_share")

    def table(self, reliability: float = 0.95) -> pd.DataFrame:
        """Observed K, firmness and the ratio of every other representation, by duration (Table 3 of [2])."""
        observed = self.data["K"].sel(representation="observed", reliability=reliability).to_series()
        ratios = self.ratios.sel(reliability=reliability)
        table = pd.DataFrame({"K": observed, "firmness": observed / self.data.attrs["mean"]})
        return table.assign(**{name: ratios.sel(representation=name).to_numpy() for name in REPRESENTATIONS[1:]})

    def to_frame(self) -> pd.DataFrame:
        """Long table: `representation`, `duration`, `reliability`, `K` (MW), `ratio`."""
        return xr.Dataset({"K": self.data["K"], "ratio": self.ratios}).to_dataframe().reset_index()

    def plot(self) -> Figure:
        """Draw K over duration for every representation (Fig. 4a of [2])."""
        from pypsa_aidc.plots.dependable import plot_counterfactuals

        return plot_counterfactuals(self)


@checked
def counterfactuals(
    envelope: Envelope,
    durations: Sequence[int] = DURATIONS,
    reliabilities: Sequence[float] = RELIABILITIES,
    *,
    portfolio: Portfolio = None,
    boundary: Boundary = "idle-retained",
    method: Method = "sup",
    calibrated_at: tuple[int, float] = (4, 0.95),
    replicates: int = 100,
    seed: int | np.random.Generator = 0,
) -> Counterfactuals:
    """Compare the observed K with fixed shares of workload power, shuffled hours and independent clusters.

    Parameters
    ----------
    envelope
        The fleet.
    durations, reliabilities, method
        As for `pypsa_aidc.fleet.surface`; they must contain `calibrated_at`.
    portfolio, boundary
        As for `Envelope.relief`; the workload of the same clusters is what a share is taken of.
    calibrated_at
        Duration, h, and reliability at which the tail-calibrated share equals the observed K by construction.
    replicates, seed
        Of the random shifts of independent clusters.

    Returns
    -------
    Counterfactuals
    """
    faults = Faults("Counterfactuals")
    check_grid(faults, durations, reliabilities, method)
    there = calibrated_at[0] in durations and calibrated_at[1] in reliabilities
    faults.require(there, "calibrated_at", calibrated_at, "a point of the grid")
    faults.raise_any()
    relief = envelope.relief(portfolio, boundary)
    names = relief["cluster"].to_numpy()
    clusters = np.ascontiguousarray(relief.to_numpy().T)
    eligible = clusters.sum(axis=0)
    workload = envelope.data["power"].sel(cluster=names).sum(("cluster", "layer"), skipna=False).to_numpy()
    grid = (durations, reliabilities)
    observed, load = k_grid(eligible, *grid, method), k_grid(workload, *grid, method)
    mean_share = float(np.nanmean(eligible) / np.nanmean(workload))
    cell = durations.index(calibrated_at[0]), reliabilities.index(calibrated_at[1])
    tail_share = float(observed[cell] / load[cell]) if load[cell] else float("nan")
    rng = np.random.default_rng(seed)
    shifted = {
        detrended: independent(clusters, *grid, detrended=detrended, replicates=replicates, seed=rng, method=method)
        for detrended in (True, False)
    }
    K = [observed, mean_share * load, tail_share * load, shuffled(eligible, *grid), shifted[True], shifted[False]]
    data = xr.Dataset(
        {
            "K": (("representation", "duration", "reliability"), np.array(K), {"units": "MW"}),
            "workload_K": (("duration", "reliability"), load, {"units": "MW"}),
        },
        coords={
            "representation": list(REPRESENTATIONS),
            "duration": list(durations),
            "reliability": list(reliabilities),
        },
        attrs={
            "mean": float(np.nanmean(eligible)),
            "mean_share": mean_share,
            "tail_share": tail_share,
            "method": method,
            "portfolio": list(map(str, names)),
            "boundary": boundary,
            "source": envelope.data.attrs["source"],
            "synthetic": int(envelope.synthetic),
        },
    )
    return Counterfactuals(data)


def representations(
    envelope: Envelope, durations: Sequence[int] = (1, 4, 24), reliability: float = 0.95, method: Method = "sup"
) -> pd.DataFrame:
    """Flexibility as planning studies represent it, on one series, a megawatt for a megawatt (Table 6 of [2]).

    The 30/50/20 row lets half of the load shift within the day and a fifth be interrupted; what must last the whole day
    cannot shift within it.

    Parameters
    ----------
    envelope
        The fleet; all clusters are used.
    durations, reliability, method
        As for `pypsa_aidc.fleet.surface`.

    Returns
    -------
    pandas.DataFrame
        Index representation; columns `applied_to`, `K_<h>h` (MW) and `ratio_<h>h` over the trace-derived row.
    """
    faults = Faults("Representations")
    check_grid(faults, durations, (reliability,), method)
    faults.raise_any()
    facility, workload = envelope.facility.to_numpy(), envelope.workload.to_numpy()
    eligible, attributed = (
        envelope.relief(None, boundary).sum("cluster", skipna=False).to_numpy()
        for boundary in ("idle-retained", "attributed")
    )

    def k(series: Floats) -> Floats:
        return k_grid(series, durations, (reliability,), method)[:, 0]

    mean_share = np.nanmean(eligible) / np.nanmean(workload)
    anchor = durations.index(4) if 4 in durations else 0
    observed, load = k(eligible), k(workload)
    # A fleet that idles long enough has neither K nor dependable load: no share then.
    tail_share = observed[anchor] / load[anchor] if load[anchor] else float("nan")
    shifting = np.array([0.2 if h >= 24 else 0.7 for h in durations])
    rows = {
        "fully curtailable": ("facility", k(facility)),
        "30/50/20 flexible and interruptible": ("facility", shifting * k(facility)),
        "20 % interruptible": ("facility", 0.2 * k(facility)),
        "attributed boundary": ("workload", k(attributed)),
        f"constant share, mean-calibrated ({mean_share:.1%})": ("workload", mean_share * load),
        "trace-derived, idle retained": ("workload", observed),
        f"constant share, tail-calibrated ({tail_share:.1%})": ("workload", tail_share * load),
    }
    table = pd.DataFrame(
        {"applied_to": [where for where, _ in rows.values()]}, index=pd.Index(rows, name="representation")
    )
    for column, h in enumerate(durations):
        table[f"K_{h}h"] = [values[column] for _, values in rows.values()]
        table[f"ratio_{h}h"] = table[f"K_{h}h"] / observed[column]
    table.attrs["synthetic"] = envelope.synthetic
    return table
