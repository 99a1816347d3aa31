"""What an hourly load looks like: level, growth, swing, clock profile, persistence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pandas as pd
import xarray as xr

from pypsa_aidc.errors import Faults
from pypsa_aidc.fleet.envelope import SUPPORT, Envelope
from pypsa_aidc.fleet.studies.montecarlo import Ensemble
from pypsa_aidc.fleet.windows import Floats

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class LoadShape:
    """Figures of an hourly load (Sec. 3.1 of [2]).

    Attributes
    ----------
    mean, peak, trough
        MW.
    first_week, last_week
        Means of the daily means of the first and the last seven days, MW.
    load_factor
        Mean over maximum.
    daily_swing
        Mean over the days of maximum less minimum, MW.
    clock : array of shape (24,)
        Mean of each clock hour, MW.
    autocorrelation
        By lag, h, over the pairs of hours that are both there.
    """

    mean: float
    peak: float
    trough: float
    first_week: float
    last_week: float
    load_factor: float
    daily_swing: float
    clock: Floats
    autocorrelation: dict[int, float]

    @property
    def growth(self) -> float:
        """Last week over first week, less 1."""
        return self.last_week / self.first_week - 1

    @property
    def clock_swing(self) -> float:
        """Highest less lowest clock hour, over the mean of the clock hours."""
        return float((self.clock.max() - self.clock.min()) / self.clock.mean())

    @property
    def peak_hour(self) -> int:
        """Clock hour of the highest mean."""
        return int(np.nanargmax(self.clock))

    @property
    def trough_hour(self) -> int:
        """Clock hour of the lowest mean."""
        return int(np.nanargmin(self.clock))

    def to_frame(self) -> pd.DataFrame:
        """Columns `quantity`, `value`, `unit`."""
        rows = [
            *((name, getattr(self, name), "MW") for name in ("mean", "peak", "trough", "first_week", "last_week")),
            ("growth", self.growth, "1"),
            ("load_factor", self.load_factor, "1"),
            ("daily_swing", self.daily_swing, "MW"),
            ("clock_swing", self.clock_swing, "1"),
            ("peak_hour", self.peak_hour, "h"),
            ("trough_hour", self.trough_hour, "h"),
            *((f"autocorrelation_{lag}h", value, "1") for lag, value in self.autocorrelation.items()),
        ]
        return pd.DataFrame(rows, columns=["quantity", "value", "unit"])

    def plot(self) -> Figure:
        """Draw clock-hour profile and autocorrelation."""
        from pypsa_aidc.plots.envelope import plot_load_shape

        return plot_load_shape(self)


def load_shape(series: xr.DataArray, lags: Sequence[int] = (24, 168)) -> LoadShape:
    """Describe an hourly load.

    Parameters
    ----------
    series : xarray.DataArray
        Dimension hour, MW; NaN in missing hours.
    lags
        For the autocorrelation, h, at least 0.

    Raises
    ------
    InputError
        No hour dimension, no value, or a load that is never above 0.
    """
    faults = Faults("Load shape")
    faults.require(series.dims == ("hour",), "series", series.dims, "one dimension, hour")
    faults.raise_any()
    values, hours = series.to_numpy().astype(float), series["hour"].to_numpy()
    known = values[~np.isnan(values)]
    faults.require(known.size > 0 and known.max(initial=0) > 0, "series", known.size, "hours with a load above 0")
    for lag in lags:
        faults.number("lags", lag, at_least=0, integer=True)
    faults.raise_any()
    days = pd.Series(values).groupby(hours // 24)
    daily, swing = days.mean().dropna(), (days.max() - days.min()).mean()
    clock = pd.Series(values).groupby(hours % 24).mean().reindex(range(24)).to_numpy()
    return LoadShape(
        mean=float(known.mean()),
        peak=float(known.max()),
        trough=float(known.min()),
        first_week=float(daily.iloc[:7].mean()),
        last_week=float(daily.iloc[-7:].mean()),
        load_factor=float(known.mean() / known.max()),
        daily_swing=float(swing),
        clock=clock,
        autocorrelation={lag: autocorrelation(values, lag) for lag in lags},
    )


def autocorrelation(values: npt.ArrayLike, lag: int) -> float:
    """Autocorrelation over the pairs of hours that are both there; NaN where there is none, or nothing varies.

    Examples
    --------
    >>> round(autocorrelation([1.0, -1.0, 1.0, -1.0], 1), 3)
    -1.0
    """
    centred = np.asarray(values, dtype=float)
    centred = centred - np.nanmean(centred)
    product = centred[: max(centred.size - lag, 0)] * centred[lag:]
    paired = product[~np.isnan(product)]
    variance = float(np.nanmean(centred**2))
    return float(paired.mean()) / variance if paired.size and variance else float("nan")


def composition(envelope: Envelope) -> pd.Series[float]:
    """Shares of IT energy: `workload`, `host`, `unallocated` (Fig. 7a of [2])."""
    data = envelope.data
    parts = {
        "workload": envelope.workload,
        "host": data["host_idle"].sum("cluster", skipna=False)
        + data["host_active"].sum(("cluster", "layer"), skipna=False),
        "unallocated": data["unallocated"].sum("cluster", skipna=False),
    }
    total = float(envelope.it.sum())
    return pd.Series({name: float(part.sum()) / total for name, part in parts.items()}, name="share of IT energy")


def accounting(envelope: Envelope, ensemble: Ensemble | None = None) -> pd.DataFrame:
    """Set the electrical boundaries of a fleet beside each other, mean MW (Table 1 of [2]).

    Parameters
    ----------
    envelope
        At the central power model.
    ensemble
        Adds the median over power draws of what it holds.

    Returns
    -------
    pandas.DataFrame
        Index quantity; columns `central` and, with an ensemble, `median`, MW.
    """
    retained = float(envelope.relief().sum("cluster", skipna=False).mean())
    attributed = float(envelope.relief(boundary="attributed").sum("cluster", skipna=False).mean())
    averaged = envelope.relief(response="average")
    by_cluster = envelope.relief().mean("hour")
    supported = float(by_cluster.where(by_cluster >= SUPPORT, 0.0).sum())
    host = float(envelope.data["host_active"].sel(layer="eligible").sum("cluster", skipna=False).mean())
    rows = {
        "workload power": float(envelope.workload.mean()),
        "IT power": float(envelope.it.mean()),
        "facility power": float(envelope.facility.mean()),
        "eligible, attributed, all clusters": attributed,
        "of it idle draw that stays": attributed - retained,
        "eligible, idle retained, all clusters": retained,
        "eligible, idle retained, supported clusters": supported,
        "host relief of evicted pods": host,
        "relief at the meter, marginal": retained,
        "relief at the meter, average PUE": float(averaged.sum("cluster", skipna=False).mean()),
    }
    table = pd.DataFrame({"central": rows}).rename_axis("quantity")
    if ensemble is not None:
        data = ensemble.data
        medians = {
            "workload power": data["workload"],
            "IT power": data["workload"] + data["host"] + data["unallocated"],
            "facility power": data["facility"],
        }
        table["median"] = pd.Series({name: float(values.median("draw").mean()) for name, values in medians.items()})
    return table
