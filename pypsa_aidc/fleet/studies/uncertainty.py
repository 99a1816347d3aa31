"""How sure K is: blocks of the past drawn again, the same blocks and the same power draw for every series."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import xarray as xr
from numpy.lib.stride_tricks import sliding_window_view

from pypsa_aidc.errors import Faults, checked
from pypsa_aidc.fleet.envelope import Envelope, Portfolio
from pypsa_aidc.fleet.layers import Boundary
from pypsa_aidc.fleet.power import PowerModel
from pypsa_aidc.fleet.studies.montecarlo import relief_draws
from pypsa_aidc.fleet.trace.statistics import Statistics
from pypsa_aidc.fleet.windows import (
    DURATIONS,
    RELIABILITIES,
    Floats,
    Method,
    check_grid,
    dependable_of_rows,
    running_minima,
)
from pypsa_aidc.progress import track

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Integers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Blocks:
    """Moving blocks drawn with replacement, one row for each replicate.

    Attributes
    ----------
    starts : array of shape (replicates, blocks)
        First hour of each block; the last block is cut so that a replicate is as long as the series.
    block, hours
        Length of a block and of the series, h.
    """

    starts: Integers
    block: int
    hours: int

    def _lengths(self, duration: int) -> Integers:
        """Windows of `duration` inside each block; those across two would join hours that were no neighbours."""
        lengths = np.full(self.starts.shape[1], self.block)
        lengths[-1] = self.hours - self.block * (self.starts.shape[1] - 1)
        return np.asarray(np.maximum(lengths - duration + 1, 0))

    def counts(self, duration: int) -> Integers:
        """How often each window of the series occurs in each replicate; shape (replicates, hours − duration + 1).

        Examples
        --------
        >>> Blocks(np.array([[0, 1]]), block=3, hours=5).counts(2)
        array([[1, 2, 0, 0]])
        """
        windows, width = self._lengths(duration), self.hours + 1
        first = self.starts + width * np.arange(len(self.starts))[:, np.newaxis]
        size = first.shape[0] * width
        begun, over = (np.bincount(hour[:, windows > 0].ravel(), minlength=size) for hour in (first, first + windows))
        counts: Integers = np.cumsum((begun - over).reshape(-1, width), axis=1)[:, : self.hours - duration + 1]
        return counts

    def taken(self, values: npt.NDArray[Any], duration: int) -> npt.NDArray[Any]:
        """Values of the windows that occur in each replicate, block after block.

        Parameters
        ----------
        values : array of shape (hours − duration + 1,) or (replicates, hours − duration + 1)
            By window; one row for each replicate if they have their own.
        duration
            Of the windows, h.

        Returns
        -------
        array of shape (replicates, windows in blocks)

        Examples
        --------
        >>> Blocks(np.array([[0, 1]]), block=3, hours=5).taken(np.array([10, 20, 30, 40]), 2)
        array([[10, 20, 20]])
        """
        windows = self._lengths(duration)
        parts = []
        for width, starts in ((windows[0], self.starts[:, :-1]), (windows[-1], self.starts[:, -1:])):
            if width and starts.size:
                strips = sliding_window_view(values, width, axis=-1)
                own = strips[starts] if values.ndim == 1 else strips[np.arange(len(starts))[:, np.newaxis], starts]
                parts.append(own.reshape(len(starts), -1))
        return np.concatenate(parts, axis=1)


def blocks(hours: int, block: int = 168, replicates: int = 200, seed: int | np.random.Generator = 0) -> Blocks:
    """Draw moving blocks, replicate after replicate, uniformly over all starts that fit.

    Parameters
    ----------
    hours
        Length of the series.
    block
        Length of a block, h, at most `hours`.
    replicates
        At least 1; the series as it is counts as none of them.
    seed
        Number or generator; the same one gives the same blocks.

    Raises
    ------
    InputError
        A block longer than the series, or a count that cannot be.
    """
    faults = Faults("Moving blocks")
    faults.number("block", block, at_least=1, at_most=hours, integer=True)
    faults.number("replicates", replicates, at_least=1, integer=True)
    faults.raise_any()
    rng = np.random.default_rng(seed)
    number = -(-hours // block)
    starts = np.stack([rng.integers(hours - block + 1, size=number) for _ in range(replicates)])
    return Blocks(starts, block, hours)


def resampled(
    series: Floats, drawn: Blocks, durations: Sequence[int], reliabilities: Sequence[float], method: Method = "sup"
) -> Floats:
    """K of every replicate of a series, without building the replicates.

    A replicate is a multiset of the windows of the series, so K is an order statistic with counts as weights.

    Parameters
    ----------
    series : array of shape (hours,) or (replicates, hours)
        MW; one row for each replicate if each has its own power draw.
    drawn
        Blocks; every duration must be shorter than a block.
    durations, reliabilities, method
        As for `pypsa_aidc.fleet.surface`.

    Returns
    -------
    array of shape (replicates, durations, reliabilities)
        MW.

    Raises
    ------
    InputError
        A block that is not longer than the longest duration, or rows that do not match the replicates.
    """
    faults = Faults("Block bootstrap")
    check_grid(faults, durations, reliabilities, method)
    longest = max(durations, default=0)
    remedy = "A block as long as the window holds one window, and its band has no width."
    faults.require(drawn.block > longest, "block", drawn.block, f"more than the longest duration, {longest} h", remedy)
    replicates = len(drawn.starts)
    faults.require(series.ndim == 1 or len(series) == replicates, "series", series.shape, f"{replicates} rows, or one")
    faults.require(series.shape[-1] == drawn.hours, "series", f"{series.shape[-1]} hours", f"{drawn.hours} hours")
    faults.raise_any()
    result = np.empty((replicates, len(durations), len(reliabilities)))
    minima = running_minima(series, durations)
    for column, h in enumerate(track(durations, "bootstrap, by duration")):
        result[:, column] = _replicates(minima[h], drawn, h, reliabilities, method)
    return result


def _replicates(minima: Floats, drawn: Blocks, duration: int, reliabilities: Sequence[float], method: Method) -> Floats:
    """K of every replicate from window minima of shape (windows,) or (replicates, windows).

    Of one series, windows are replaced by their places in its order: small whole numbers are partitioned fast.
    """
    if minima.ndim == 2:
        taken = drawn.taken(minima, duration)
        return dependable_of_rows(taken, (~np.isnan(taken)).sum(axis=-1), reliabilities, method)
    order, known = np.argsort(minima), minima.size - int(np.isnan(minima).sum())
    places = np.empty(order.size, np.uint16 if order.size < 2**16 else np.uint32)
    places[order] = np.arange(order.size)
    taken = drawn.taken(places, duration)
    counts = (taken < known).sum(axis=-1)
    return dependable_of_rows(taken, counts, reliabilities, method, minima[order])


def paired_interval(
    own: Floats, other: Floats, duration: int, reliability: float, method: Method = "sup", block: int = 168
) -> tuple[tuple[float, float], tuple[float, float]] | None:
    """Percentiles 5 and 95 of K of some windows, and of its ratio to K of others, of 200 replicates of the same blocks.

    Parameters
    ----------
    own, other : array of shape (windows,)
        Window minima by the hour of their start, MW; NaN for those that do not count.
    duration
        Of the windows, h.
    reliability, method
        Of K.
    block
        Of hours that stay together, h.

    Returns
    -------
    pair of pairs, or None
        MW, and a share. None where the windows are within one or two blocks, or in more than one replicate out of 20
        none of them counts: such an interval would say nothing.

    Examples
    --------
    >>> paired_interval(np.full(1000, 2.0), np.full(1000, 4.0), 1, 0.95)
    ((2.0, 2.0), (0.5, 0.5))
    """
    hours = own.size + duration - 1
    if duration >= block or hours < 3 * block:
        return None
    drawn = blocks(hours, block)
    K, beside = (_replicates(minima, drawn, duration, (reliability,), method)[:, 0] for minima in (own, other))
    there = np.isfinite(K) & np.isfinite(beside)
    if there.mean() < 0.95:
        return None
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(beside[there] > 0, K[there] / beside[there], 1.0)
    low, high = np.quantile(np.stack([K[there], ratio]), [0.05, 0.95], axis=1)
    return (float(low[0]), float(high[0])), (float(low[1]), float(high[1]))


@dataclass(frozen=True, repr=False)
class Bootstrap:
    """Replicates of K and of the fixed shares that stand against it, paired (Sec. 2.4 of [2]).

    Attributes
    ----------
    data : xarray.Dataset
        `K` (representation × replicate × duration × reliability, MW), representations ``"observed"``, ``"mean share"``
        and ``"tail-calibrated share"``. Attributes `block`, `power_draws`, `method`, `portfolio`, `source`,
        `synthetic`.
    """

    data: xr.Dataset

    def __repr__(self) -> str:
        word = "synthetic, " if self.data.attrs["synthetic"] else ""
        paired = "paired with power draws" if self.data.attrs["power_draws"] else "one power model"
        return (
            f"Bootstrap({word}{self.data.sizes['replicate']} replicates, {self.data.attrs['block']} h blocks, {paired})"
        )

    def band(self, quantiles: Sequence[float] = (0.05, 0.95)) -> xr.DataArray:
        """Quantiles of the observed K over the replicates, MW; quantile × duration × reliability."""
        return self.data["K"].sel(representation="observed", drop=True).quantile(list(quantiles), "replicate")

    def ratio_band(self, representation: str, quantiles: Sequence[float] = (0.05, 0.95)) -> xr.DataArray:
        """Quantiles of the ratio of a representation to the observed K of the same replicate."""
        K = self.data["K"]
        ratio = K.sel(representation=representation, drop=True) / K.sel(representation="observed", drop=True)
        return ratio.quantile(list(quantiles), "replicate").rename("ratio")

    def to_frame(self) -> pd.DataFrame:
        """Long table: `representation`, `replicate`, `duration`, `reliability`, `K` (MW)."""
        return self.data["K"].to_dataframe().reset_index()

    def plot(self) -> Figure:
        """Draw K over duration with its bootstrap band."""
        from pypsa_aidc.plots.dependable import plot_bootstrap

        return plot_bootstrap(self)


@checked
def bootstrap(
    envelope: Envelope,
    durations: Sequence[int] = DURATIONS,
    reliabilities: Sequence[float] = RELIABILITIES,
    *,
    portfolio: Portfolio = None,
    boundary: Boundary = "idle-retained",
    block: int = 168,
    replicates: int = 200,
    seed: int | np.random.Generator = 0,
    method: Method = "sup",
    calibrated_at: tuple[int, float] = (4, 0.95),
    statistics: Statistics | None = None,
    models: Sequence[PowerModel] | None = None,
) -> Bootstrap:
    """Moving-block bootstrap of K, joint across clusters, with the power model drawn anew in each replicate if asked.

    Parameters
    ----------
    envelope
        The fleet.
    durations, reliabilities, method
        As for `pypsa_aidc.fleet.surface`; they must contain `calibrated_at`.
    portfolio, boundary
        As for `Envelope.relief`.
    block
        h; longer than the longest duration.
    replicates, seed
        Number of replicates, and what they are drawn with.
    calibrated_at
        Cell at which the tail-calibrated share of each replicate equals its K.
    statistics, models
        Both or none: replicate `i` uses power model `i`, so `models` has one for each replicate.

    Returns
    -------
    Bootstrap

    Raises
    ------
    InputError
        A block that is not longer than the longest duration, or only one of `statistics` and `models`.
    """
    faults = Faults("Block bootstrap")
    there = calibrated_at[0] in durations and calibrated_at[1] in reliabilities
    faults.require(there, "calibrated_at", calibrated_at, "a point of the grid")
    if models is not None and statistics is not None:
        faults.require(len(models) == replicates, "models", f"{len(models)} models", f"{replicates}, one a replicate")
    else:
        neither = models is None and statistics is None
        faults.require(neither, "statistics, models", "one of them", "both, or none")
    faults.raise_any()
    names = envelope.portfolio(portfolio)
    if models is not None and statistics is not None:
        mapping = envelope.data.attrs["mapping"]
        powers = relief_draws(statistics, models, names, mapping, boundary)
        eligible, workload = powers["relief"].sum("cluster", skipna=False).to_numpy(), powers["workload"].to_numpy()
    else:
        eligible = envelope.relief(names, boundary).sum("cluster", skipna=False).to_numpy()
        power = envelope.data["power"].sel(cluster=list(names))
        workload = power.sum(("cluster", "layer"), skipna=False).to_numpy()
    drawn = blocks(eligible.shape[-1], block, replicates, seed)
    observed = resampled(eligible, drawn, durations, reliabilities, method)
    load = resampled(workload, drawn, durations, reliabilities, method)
    hours = np.where(np.isnan(eligible), 0, drawn.counts(1))
    mean_share = np.nansum(hours * eligible, axis=1) / np.nansum(hours * workload, axis=1)
    cell = durations.index(calibrated_at[0]), reliabilities.index(calibrated_at[1])
    # NaN in a replicate without dependable load.
    with np.errstate(invalid="ignore"):
        tail_share = observed[:, *cell] / load[:, *cell]
    K = np.stack([observed, mean_share[:, None, None] * load, tail_share[:, None, None] * load])
    data = xr.Dataset(
        {"K": (("representation", "replicate", "duration", "reliability"), K, {"units": "MW"})},
        coords={
            "representation": ["observed", "mean share", "tail-calibrated share"],
            "duration": list(durations),
            "reliability": list(reliabilities),
        },
        attrs={
            "block": block,
            "power_draws": int(models is not None),
            "method": method,
            "portfolio": list(names),
            "source": envelope.data.attrs["source"],
            "synthetic": int(envelope.synthetic),
        },
    )
    return Bootstrap(data)
