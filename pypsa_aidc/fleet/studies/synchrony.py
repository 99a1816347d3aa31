"""Whether parts move together: synchrony ratios, and what calendar and capacity explain of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from pypsa_aidc.errors import Faults
from pypsa_aidc.fleet.power import PowerModel
from pypsa_aidc.fleet.studies.counterfactual import LEAST, TREND
from pypsa_aidc.fleet.studies.scaling import DETREND, UNITS, residuals, supported, unit_power
from pypsa_aidc.fleet.studies.uncertainty import blocks
from pypsa_aidc.fleet.trace.statistics import Statistics
from pypsa_aidc.progress import track

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LEVELS = (
    ("priorities in a workload", "cluster, workload, priority", "cluster, workload"),
    ("workloads in a cluster", "cluster, workload", "cluster"),
    ("clusters in the fleet", "cluster", ""),
)
"""Name, kind of the children and kind of their parent, of the three levels of [2]."""

CAPACITY_SHARE, CAPACITY_MW, CAPACITY_HOURS = 0.2, 0.05, 0.8
"""A cluster is kept for attribution while its weekly mean exceeds this share of its median and this power, MW, in this
share of the hours: normalising by a capacity near 0 would let idle clusters carry all the variance."""
PLATEAU_TOLERANCE, PLATEAU_DAYS = 0.05, 14
"""Relative range of the weekly mean of the fleet within a plateau, and its shortest length, days."""


def synchrony_ratio(residual: pd.DataFrame) -> float:
    """Divide the deviation of a sum by the root of the summed variances: 1 without covariance (Sec. 2.5 of [2]).

    Examples
    --------
    >>> together = pd.DataFrame({"a": [1.0, -1.0, 1.0, -1.0], "b": [1.0, -1.0, 1.0, -1.0]})
    >>> round(synchrony_ratio(together) ** 2, 12)
    2.0
    """
    return float(residual.sum(axis=1, min_count=1).std() / np.sqrt((residual.std() ** 2).sum()))


@dataclass(frozen=True)
class Synchrony:
    """Synchrony at one level of the hierarchy.

    Attributes
    ----------
    ratios : pandas.Series
        By parent with at least two supported children.
    median
        Of the ratios.
    interval
        Jackknife over the children, 90 %, where there is a single parent; else NaN.
    """

    ratios: pd.Series[float]
    median: float
    interval: tuple[float, float]

    def to_frame(self) -> pd.DataFrame:
        """One row a parent, empty for the fleet: `parent`, `ratio`, and `p5`, `p95`; units in ``attrs["units"]``."""
        low, high = self.interval
        frame = self.ratios.rename("ratio").rename_axis("parent").reset_index().assign(p5=low, p95=high)
        frame.attrs["units"] = dict.fromkeys(("ratio", "p5", "p95"), "1")
        return frame

    def plot(self) -> Figure:
        """Draw the ratio of each parent."""
        from pypsa_aidc.plots.aggregation import plot_synchrony

        return plot_synchrony(self)


def measure_synchrony(statistics: Statistics, model: PowerModel | None = None) -> dict[str, Synchrony]:
    """Synchrony of priorities in a workload, workloads in a cluster, clusters in the fleet (Sec. 3.2 of [2]).

    Parameters
    ----------
    statistics
        From `pypsa_aidc.fleet.trace.statistics` or the synthetic fleet.
    model
        Power model; the central one if None.

    Returns
    -------
    dict
        Level → `Synchrony`; a level without a parent of two children is left out.
    """
    result: dict[str, Synchrony] = {}
    for name, child, parent in track(LEVELS, "synchrony, by level"):
        rest = residuals(supported(unit_power(statistics, UNITS[child], model)))
        keys = list(UNITS.get(parent, ()))
        units = rest.columns.to_frame(index=False)
        groups = (
            [(key, rest.iloc[:, rows]) for key, rows in units.groupby(keys).indices.items()] if keys else [("", rest)]
        )
        ratios = pd.Series({str(key): synchrony_ratio(part) for key, part in groups if part.shape[1] > 1}, dtype=float)
        if ratios.empty:
            continue
        interval = (float("nan"), float("nan"))
        if not keys:
            count = rest.shape[1]
            left_out = np.array([synchrony_ratio(rest.drop(columns=[unit])) for unit in rest.columns])
            error = np.sqrt((count - 1) / count * ((left_out - left_out.mean()) ** 2).sum())
            interval = (float(ratios.iloc[0] - 1.645 * error), float(ratios.iloc[0] + 1.645 * error))
        result[name] = Synchrony(ratios, float(ratios.median()), interval)
    return result


@dataclass(frozen=True)
class Attribution:
    """What explains that clusters move together (Sec. 3.2, Figs 2b and 9 of [2]).

    Attributes
    ----------
    clusters
        The common set on which all ratios are taken.
    ratios
        Synchrony ratio of the residual ``"raw"``, ``"calendar removed"`` and ``"capacity normalised"`` (and calendar
        removed).
    interval
        Block-bootstrap quantiles 5 % and 95 % of the raw ratio.
    plateaus : pandas.DataFrame
        `start`, `end` (hour) and the three ratios within each stretch of steady capacity.
    """

    clusters: tuple[str, ...]
    ratios: dict[str, float]
    interval: tuple[float, float]
    plateaus: pd.DataFrame

    @property
    def removed(self) -> dict[str, float]:
        """Share of the excess variance R² − 1 of the raw residual that is gone after each step."""
        excess = {name: ratio**2 - 1 for name, ratio in self.ratios.items()}
        return {name: 1 - value / excess["raw"] for name, value in excess.items()}

    def to_frame(self) -> pd.DataFrame:
        """One row a residual: `residual`, `ratio`, `p5` and `p95` where drawn again, and `removed`, the share gone.

        Units are in ``attrs["units"]``; what holds within plateaus is in `plateaus`.
        """
        frame = pd.DataFrame({"ratio": self.ratios, "removed": self.removed}).rename_axis("residual").reset_index()
        for name, bound in zip(("p5", "p95"), self.interval, strict=True):
            frame[name] = np.where(frame["residual"] == "raw", bound, np.nan)
        frame.attrs["units"] = dict.fromkeys(("ratio", "removed", "p5", "p95"), "1")
        return frame

    def plot(self) -> Figure:
        """Draw the ratio raw, without calendar, and without capacity (Sec. 3.2 of [2])."""
        from pypsa_aidc.plots.aggregation import plot_ratios

        return plot_ratios(self)


def attribution(
    statistics: Statistics,
    *,
    model: PowerModel | None = None,
    replicates: int = 500,
    block: int = 168,
    seed: int | np.random.Generator = 0,
) -> Attribution:
    """Take calendar and capacity out of the residuals of clusters and see how much synchrony remains.

    Parameters
    ----------
    statistics
        From `pypsa_aidc.fleet.trace.statistics` or the synthetic fleet.
    model
        Power model; the central one if None.
    replicates, block, seed
        Of the block bootstrap of the raw ratio.

    Returns
    -------
    Attribution

    Raises
    ------
    InputError
        Fewer than two clusters of steady capacity.
    """
    power = supported(unit_power(statistics, ("cluster",), model))
    power.columns = power.columns.get_level_values("cluster")
    power = power.where(power.notna(), 0.0).where(pd.Series(statistics.valid, index=power.index), np.nan)
    capacity = power.rolling(TREND, min_periods=LEAST).mean().bfill()
    steady = capacity >= np.maximum(CAPACITY_SHARE * capacity.median(), CAPACITY_MW)
    kept = steady.loc[statistics.valid].mean() >= CAPACITY_HOURS
    names = list(power.columns[kept])
    faults = Faults("Attribution of covariance")
    faults.require(len(names) >= 2, "statistics", f"clusters of steady capacity: {names}", "at least two")
    faults.raise_any()
    common = power[names]
    raw = common - common.rolling(DETREND, center=True, min_periods=LEAST).mean()
    normalised = (raw * common.mean() / capacity[names]).where(steady[names])
    kinds = {"raw": raw, "calendar removed": without_calendar(raw), "capacity normalised": without_calendar(normalised)}
    kinds = {name: frame.dropna() for name, frame in kinds.items()}
    rows = []
    for start, end in plateaus(power.sum(axis=1, min_count=1)):
        part = {name: frame.loc[start:end] for name, frame in kinds.items()}
        if all(len(frame) > 7 * 24 for frame in part.values()):
            rows.append({"start": start, "end": end, **{name: synchrony_ratio(frame) for name, frame in part.items()}})
    drawn = blocks(len(raw), block, replicates, seed)
    rest = raw.to_numpy()
    offsets = np.arange(block)
    ratios = []
    for starts in track(drawn.starts, "bootstrap of synchrony"):
        sample = rest[(starts[:, np.newaxis] + offsets).ravel()[: len(rest)]]
        sample = sample[~np.isnan(sample[:, 0])]
        ratios.append(float(np.sqrt(sample.sum(axis=1).var() / sample.var(axis=0).sum())))
    low, high = np.quantile(ratios, [0.05, 0.95])
    columns = ["start", "end", *kinds]
    return Attribution(
        tuple(map(str, names)),
        {name: synchrony_ratio(frame) for name, frame in kinds.items()},
        (float(low), float(high)),
        pd.DataFrame(rows, columns=columns),
    )


def without_calendar(residual: pd.DataFrame) -> pd.DataFrame:
    """Residual less its mean over each hour of the weekly cycle."""
    return residual - residual.groupby(residual.index.to_numpy() % TREND).transform("mean")


def plateaus(fleet: pd.Series[float]) -> Sequence[tuple[int, int]]:
    """Stretches of at least 14 days in which the weekly mean of the fleet stays within 5 % of itself.

    Parameters
    ----------
    fleet : pandas.Series
        Index hour, MW.

    Returns
    -------
    sequence of (int, int)
        First and last hour, greedily from the start.
    """
    level = fleet.rolling(TREND, min_periods=LEAST).mean().dropna()
    values, hours = level.to_numpy(), level.index.to_numpy()
    found: list[tuple[int, int]] = []
    i = 0
    while i < values.size:
        low = high = total = values[i]
        j = i + 1
        while j < values.size:
            low, high, total = min(low, values[j]), max(high, values[j]), total + values[j]
            if (high - low) * (j - i + 1) > PLATEAU_TOLERANCE * total:
                break
            j += 1
        if j - i >= PLATEAU_DAYS * 24:
            found.append((int(hours[i]), int(hours[j - 1])))
            i = j
        else:
            i += 1
    return found
