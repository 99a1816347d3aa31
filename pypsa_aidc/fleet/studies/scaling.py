"""How fluctuations grow with size: one unit, a cluster, a fleet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pandas as pd
import polars as pl

from pypsa_aidc.errors import Faults
from pypsa_aidc.fleet.power import PowerModel, cell_power
from pypsa_aidc.fleet.studies.counterfactual import trend
from pypsa_aidc.fleet.trace.schema import grouped
from pypsa_aidc.fleet.trace.statistics import Statistics
from pypsa_aidc.progress import track

if TYPE_CHECKING:
    from matplotlib.figure import Figure

UNITS: dict[str, tuple[str, ...]] = {
    "cluster, workload, priority": ("cluster", "workload", "priority"),
    "cluster, workload": ("cluster", "workload"),
    "cluster": ("cluster",),
}
"""Nested units of the scaling, from fine to coarse (Sec. 2.5 of [2])."""

DETREND = 169
"""Hours of the centred mean that is taken off before fluctuations are measured."""
LEAST_HOURS, LEAST_MEAN = 1500, 0.01
"""Support that a unit needs: hours with GPU-hours, and mean power, MW."""


def unit_power(statistics: Statistics, by: Sequence[str], model: PowerModel | None = None) -> pd.DataFrame:
    """GPU power of every unit by hour, MW.

    Parameters
    ----------
    statistics
        From `pypsa_aidc.fleet.trace.statistics` or the synthetic fleet.
    by
        Columns that make a unit, among `cluster`, `workload`, `priority`.
    model
        Power model; the central one of Table 4 of [2] if None.

    Returns
    -------
    pandas.DataFrame
        Index hour; one column for each unit (a MultiIndex over `by`); NaN in hours without GPU-hours of the unit.
    """
    power_model = model or PowerModel()
    cells = statistics.cells.filter(pl.col("gpu_hours") > 0)
    names, code = grouped(cells, by)
    hours = statistics.hours
    group = (cells["hour"].to_numpy() - hours[0]) * names.height + code
    size = hours.size * names.height
    power = np.bincount(group, np.add(*cell_power(cells, power_model)), size)
    power[np.bincount(group, minlength=size) == 0] = np.nan
    power = power.reshape(hours.size, names.height)
    power[~statistics.valid] = np.nan
    columns = pd.MultiIndex.from_frame(names.to_pandas())
    return pd.DataFrame(power, index=pd.Index(hours, name="hour"), columns=columns)


def supported(power: pd.DataFrame) -> pd.DataFrame:
    """Units with at least 1,500 hours and a mean of at least 0.01 MW (Sec. 2.1 of [2])."""
    return power.loc[:, (power.notna().sum() >= LEAST_HOURS) & (power.mean() >= LEAST_MEAN)]


def residuals(power: pd.DataFrame) -> pd.DataFrame:
    """Power less its centred 169-hour mean, MW."""
    return power - trend(power.to_numpy().T, DETREND).T


@dataclass(frozen=True, repr=False)
class Scaling:
    """Fit of σ ∝ μ^β across units of one kind (Sec. 2.5 and Fig. 2a of [2]).

    Attributes
    ----------
    units : pandas.DataFrame
        `mean` and `sigma` (MW, of the residual) of every supported unit.
    exponent
        β; 1/2 where units of one kind add up independently, 1 where they move together.
    prefactor
        σ at a mean of 1 MW, MW.
    r_squared
        Of the fit between the logarithms.
    interval
        Quantiles 5 % and 95 % of β when clusters are drawn again with all their units.
    """

    units: pd.DataFrame
    exponent: float
    prefactor: float
    r_squared: float
    interval: tuple[float, float]

    def __repr__(self) -> str:
        low, high = self.interval
        return f"Scaling(β = {self.exponent:.3f} ({low:.3f} … {high:.3f}), {len(self.units)} units)"

    def to_frame(self) -> pd.DataFrame:
        """Return the units."""
        return self.units

    def plot(self) -> Figure:
        """Draw fluctuation over size with the fit (Fig. 2a of [2])."""
        from pypsa_aidc.plots.aggregation import plot_scaling

        return plot_scaling(self)


def fluctuation_scaling(
    statistics: Statistics,
    kind: str = "cluster",
    *,
    model: PowerModel | None = None,
    replicates: int = 500,
    seed: int | np.random.Generator = 0,
) -> Scaling:
    """Fit how the size of fluctuations grows with the size of a unit.

    Parameters
    ----------
    statistics
        From `pypsa_aidc.fleet.trace.statistics` or the synthetic fleet.
    kind
        A key of `UNITS`.
    model
        Power model; the central one if None.
    replicates, seed
        Of the bootstrap over clusters.

    Returns
    -------
    Scaling

    Raises
    ------
    InputError
        An unknown kind, or fewer than three supported units.
    """
    faults = Faults("Fluctuation scaling")
    faults.require(kind in UNITS, "kind", kind, f"one of {', '.join(map(repr, UNITS))}")
    faults.number("replicates", replicates, at_least=1, integer=True)
    faults.raise_any()
    power = supported(unit_power(statistics, UNITS[kind], model))
    units = pd.DataFrame({"mean": power.mean(), "sigma": residuals(power).std()})
    units = units[units["sigma"] > 0]
    faults.require(len(units) >= 3, "statistics", f"{len(units)} supported {kind} units", "at least three")
    faults.raise_any()
    x, y = np.log(units["mean"].to_numpy()), np.log(units["sigma"].to_numpy())
    slope, intercept = _line(x, y)
    own = units.index.get_level_values("cluster")
    members = [np.flatnonzero(own == name) for name in own.unique()]
    rng = np.random.default_rng(seed)
    slopes = []
    for _ in track(range(replicates), "bootstrap over clusters"):
        chosen = np.concatenate([members[i] for i in rng.integers(len(members), size=len(members))])
        slopes.append(_line(x[chosen], y[chosen])[0])
    low, high = np.nanquantile(slopes, [0.05, 0.95])
    return Scaling(
        units, slope, float(np.exp(intercept)), float(np.corrcoef(x, y)[0, 1] ** 2), (float(low), float(high))
    )


def _line(x: npt.NDArray[np.float64], y: npt.NDArray[np.float64]) -> tuple[float, float]:
    """Least-squares slope and intercept; NaN where all x are the same."""
    spread = x - x.mean()
    variance = float(spread @ spread)
    slope = float(spread @ y) / variance if variance > 1e-12 else float("nan")
    return slope, float(y.mean() - slope * x.mean())


@dataclass(frozen=True)
class Composition:
    """Cluster variability against the share of training, with a quadratic through it (Fig. 8 of [2]).

    Attributes
    ----------
    clusters : pandas.DataFrame
        `training_share` of GPU-hours and coefficient of `variation` of the residual, by cluster.
    quadratic
        Curvature, slope and level of the fit.
    interval
        Quantiles 5 % and 95 % of the curvature when clusters are drawn again; it resolves nothing if 0 lies inside.
    """

    clusters: pd.DataFrame
    quadratic: tuple[float, float, float]
    interval: tuple[float, float]

    def to_frame(self) -> pd.DataFrame:
        """One row a cluster: `cluster`, `training_share` and `variation`; units in ``attrs["units"]``."""
        frame = self.clusters.reset_index()
        frame.attrs["units"] = {"training_share": "1", "variation": "1"}
        return frame

    def plot(self) -> Figure:
        """Draw variability over the share of training (Fig. 8 of [2])."""
        from pypsa_aidc.plots.aggregation import plot_composition

        return plot_composition(self)


def variability_by_training(
    statistics: Statistics,
    *,
    model: PowerModel | None = None,
    replicates: int = 500,
    seed: int | np.random.Generator = 0,
) -> Composition:
    """Fit the coefficient of variation of clusters over their share of training (App. B of [2]).

    Raises
    ------
    InputError
        Fewer than four supported clusters.
    """
    power = supported(unit_power(statistics, ("cluster",), model))
    hours = statistics.cells.group_by("cluster", "workload").agg(pl.col("gpu_hours").sum()).to_pandas()
    table = hours.pivot_table(index="cluster", columns="workload", values="gpu_hours", observed=True).fillna(0.0)
    share = (table["training"] if "training" in table else 0.0 * table.iloc[:, 0]) / table.sum(axis=1)
    names = power.columns.get_level_values("cluster")
    variation = (residuals(power).std() / power.mean()).to_numpy()
    clusters = pd.DataFrame({"training_share": share.reindex(names).to_numpy(), "variation": variation}, index=names)
    faults = Faults("Variability by training share")
    faults.require(len(clusters) >= 4, "statistics", f"{len(clusters)} supported clusters", "at least four")
    faults.raise_any()
    x, y = clusters["training_share"].to_numpy(), clusters["variation"].to_numpy()
    rng = np.random.default_rng(seed)
    bends = []
    for _ in track(range(replicates), "bootstrap over clusters"):
        chosen = rng.integers(len(x), size=len(x))
        if np.unique(x[chosen]).size >= 3:
            bends.append(np.polyfit(x[chosen], y[chosen], 2)[0])
    low, high = np.quantile(bends, [0.05, 0.95])
    bend, slope, level = map(float, np.polyfit(x, y, 2))
    return Composition(clusters, (bend, slope, level), (float(low), float(high)))
