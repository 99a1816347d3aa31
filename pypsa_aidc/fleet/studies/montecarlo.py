"""Hourly power under many power models at once: the statistics are laid out once, each draw is a row of a product."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import polars as pl
import xarray as xr

from pypsa_aidc.errors import Faults
from pypsa_aidc.fleet.layers import Boundary, Mapping, layer_of
from pypsa_aidc.fleet.power import Coefficients, PowerModel, coefficients, features_of, power_draws
from pypsa_aidc.fleet.trace.schema import SUMS
from pypsa_aidc.fleet.trace.statistics import Statistics
from pypsa_aidc.progress import waiting

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Floats = npt.NDArray[np.float64]

BAND = (0.05, 0.5, 0.95)
"""Quantiles of a band."""


@dataclass(frozen=True)
class Design:
    """Statistics laid out so that power is a matrix product.

    Attributes
    ----------
    features : polars.DataFrame
        `accelerator`, `workload`, `state` of each feature.
    sums : array of shape (groups, features, 6)
        `SUMS` by group and feature.
    """

    features: pl.DataFrame
    sums: Floats

    def power(self, unit: Coefficients) -> tuple[Floats, Floats]:
        """Idle and active power, MW; each of shape (draws, groups)."""
        draws, groups = unit.idle.shape[0], self.sums.shape[0]
        active = unit.active.reshape(draws, -1) @ self.sums.reshape(groups, -1).T
        return unit.idle @ self.sums[:, :, 0].T, active


def design(cells: pl.DataFrame, group: npt.NDArray[np.int64], groups: int) -> Design:
    """Sum `cells` over the members of each group, by feature.

    Parameters
    ----------
    cells : polars.DataFrame
        Cells of `Statistics`.
    group : array of shape (cells,)
        Group of each cell, 0 … groups − 1.
    groups
        Number of groups.
    """
    features, code = features_of(cells)
    index = group * features.height + code
    size = groups * features.height
    sums = np.stack([np.bincount(index, cells[name].to_numpy(), size).astype(float) for name in SUMS], axis=-1)
    return Design(features, sums.reshape(groups, features.height, len(SUMS)))


@dataclass(frozen=True, repr=False)
class Ensemble:
    """Hourly fleet power under each draw of the power model.

    Attributes
    ----------
    data : xarray.Dataset
        `workload`, `host`, `unallocated`, `facility` (draw × hour), MW; NaN in missing hours.
    """

    data: xr.Dataset

    def __repr__(self) -> str:
        low, middle, high = self.band().mean("hour").to_numpy()
        word = "synthetic, " if self.data.attrs["synthetic"] else ""
        return f"Ensemble({word}{self.data.sizes['draw']} draws, facility {middle:.4g} MW ({low:.4g} … {high:.4g} MW))"

    def band(self, name: str = "facility", quantiles: Sequence[float] = BAND) -> xr.DataArray:
        """Pointwise quantiles over the draws, MW; quantile × hour.

        The draws shift the whole series, so a band narrows neither with its length nor when it is averaged over time.
        """
        values = np.quantile(self.data[name].to_numpy(), list(quantiles), axis=0)
        return xr.DataArray(
            values,
            dims=("quantile", "hour"),
            coords={"quantile": list(quantiles), "hour": self.data["hour"]},
            name=name,
            attrs={"units": "MW", "synthetic": self.data.attrs["synthetic"]},
        )

    def to_frame(self) -> pd.DataFrame:
        """Facility band by hour: columns `p5`, `p50`, `p95`, MW."""
        return pd.DataFrame(self.band().to_numpy().T, self.data["hour"].to_index(), ["p5", "p50", "p95"])

    def plot(self) -> Figure:
        """Draw the band over time and its clock-hour profile (Fig. 1 of [2])."""
        from pypsa_aidc.plots.envelope import plot_load

        return plot_load(self)


@waiting("fleet power under all draws")
def ensemble(statistics: Statistics, models: Sequence[PowerModel] | None = None) -> Ensemble:
    """Fleet power by hour under every model (Sec. 2.2 of [2]).

    Parameters
    ----------
    statistics
        From `pypsa_aidc.fleet.trace.statistics` or the synthetic fleet.
    models
        One for each draw; 300 draws with seed 0 if None.

    Returns
    -------
    Ensemble

    Raises
    ------
    InputError
        No model, or an accelerator without rating.
    """
    drawn = _drawn(models)
    hours, valid = statistics.hours, statistics.valid
    hour = statistics.cells["hour"].to_numpy() - hours[0]
    layout = design(statistics.cells, hour, hours.size)
    idle, active = layout.power(coefficients(drawn, layout.features))
    parameters = {name: np.array([[getattr(model, name)] for model in drawn]) for name in _SCALARS}
    running = (statistics.cells["state"].cast(pl.String) == "active").to_numpy()
    used = np.bincount(hour, statistics.cells["cpu_used"].to_numpy() * running, hours.size)
    stock = statistics.stock
    names = stock["accelerator"].unique().sort().to_list()
    free = np.zeros((len(names), hours.size))
    at = stock["accelerator"].cast(pl.Enum(names)).to_physical().to_numpy(), stock["hour"].to_numpy() - hours[0]
    np.add.at(free, at, stock["free"].to_numpy())
    cores = np.bincount(at[1], stock["cores"].to_numpy(), hours.size)
    rest = np.array([[model.idle_watts(name) for name in names] for model in drawn]).reshape(len(drawn), -1)
    workload = idle + active
    host = (parameters["host_idle"] * cores + (parameters["host_peak"] - parameters["host_idle"]) * used) / 1e6
    host += parameters["host_share"] * workload
    unallocated = rest @ free / 1e6
    facility = parameters["pue"] * (workload + host + unallocated)
    series = {"workload": workload, "host": host, "unallocated": unallocated, "facility": facility}
    data = {name: (("draw", "hour"), np.where(valid, values, np.nan)) for name, values in series.items()}
    attrs: dict[str, Any] = {
        "units": "MW",
        "source": statistics.audit.source,
        "synthetic": int(statistics.synthetic),
    }
    return Ensemble(xr.Dataset(data, coords={"draw": np.arange(len(drawn)), "hour": hours}, attrs=attrs))


_SCALARS = ("host_idle", "host_peak", "host_share", "pue")


def _drawn(models: Sequence[PowerModel] | None) -> tuple[PowerModel, ...]:
    drawn = power_draws() if models is None else tuple(models)
    faults = Faults("Power draws")
    faults.require(len(drawn) > 0, "models", 0, "at least one power model")
    faults.raise_any()
    return drawn


@waiting("relief under all draws")
def relief_draws(
    statistics: Statistics,
    models: Sequence[PowerModel],
    clusters: Sequence[str],
    mapping: Mapping = "central",
    boundary: Boundary = "idle-retained",
) -> xr.Dataset:
    """Eligible power by cluster, and workload power of the portfolio, under every model.

    Parameters
    ----------
    statistics, models
        As for `ensemble`.
    clusters
        The portfolio.
    mapping, boundary
        As for `pypsa_aidc.fleet.envelope` and `Envelope.relief`.

    Returns
    -------
    xarray.Dataset
        `relief` (draw × hour × cluster) and `workload` (draw × hour), MW; NaN in missing hours.

    Raises
    ------
    InputError
        No model, an unknown cluster, or an accelerator without rating.
    """
    drawn = _drawn(models)
    hours, valid = statistics.hours, statistics.valid
    names = list(clusters)
    known = set(statistics.clusters)
    faults = Faults("Relief under power draws")
    faults.require(set(names) <= known and len(names) > 0, "clusters", names, f"names among {', '.join(sorted(known))}")
    faults.raise_any()
    inside = statistics.cells.filter(pl.col("cluster").cast(pl.String).is_in(names))
    whole = design(inside, inside["hour"].to_numpy() - hours[0], hours.size)
    workload = np.add(*whole.power(coefficients(drawn, whole.features)))
    eligible = inside.filter(layer_of(mapping).cast(pl.String) == "eligible")
    code = eligible["cluster"].cast(pl.String).cast(pl.Enum(names)).to_physical().cast(pl.Int64).to_numpy()
    group = (eligible["hour"].to_numpy() - hours[0]) * len(names) + code
    part = design(eligible, group, hours.size * len(names))
    idle, active = part.power(coefficients(drawn, part.features))
    relief = (active if boundary == "idle-retained" else idle + active).reshape(len(drawn), hours.size, len(names))
    relief[:, ~valid] = np.nan
    return xr.Dataset(
        {
            "relief": (("draw", "hour", "cluster"), relief),
            "workload": (("draw", "hour"), np.where(valid, workload, np.nan)),
        },
        coords={"draw": np.arange(len(drawn)), "hour": hours, "cluster": names},
        attrs={"units": "MW", "source": statistics.audit.source, "synthetic": int(statistics.synthetic)},
    )
