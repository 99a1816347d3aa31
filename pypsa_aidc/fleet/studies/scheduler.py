"""What the scheduler already moved, and what waiting jobs could have offered on top."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import polars as pl
import xarray as xr

from pypsa_aidc.errors import Faults
from pypsa_aidc.fleet.layers import DEFERRABLE
from pypsa_aidc.fleet.power import PowerModel, cell_power
from pypsa_aidc.fleet.trace.jobs import occupancy
from pypsa_aidc.fleet.trace.schema import SPAN_TYPES, SUMS
from pypsa_aidc.fleet.trace.statistics import Statistics
from pypsa_aidc.fleet.windows import Floats, dependable, running_minima

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DAY = 24


def power_per_gpu(statistics: Statistics, model: PowerModel | None = None) -> pd.DataFrame:
    """Mean power of an allocated GPU by workload and accelerator, MW.

    Spans carry no utilisation, so the fleet's mean of the same workload and accelerator stands in.

    Returns
    -------
    pandas.DataFrame
        Columns `workload`, `accelerator`, `power`.
    """
    power_model = model or PowerModel()
    keys = ["workload", "accelerator"]
    table = statistics.cells.group_by(*keys, "state").agg(pl.col(SUMS).sum()).filter(pl.col("gpu_hours") > 0)
    # Sorted before they are added up again: sums must not depend on the order in which groups come out.
    table = table.sort(*keys, "state")
    table = table.with_columns(energy=np.add(*cell_power(table, power_model)))
    total = table.group_by(keys).agg(power=pl.col("energy").sum() / pl.col("gpu_hours").sum())
    return total.with_columns(pl.col(keys).cast(pl.String)).sort(keys).to_pandas()


def span_power(spans: pl.DataFrame, statistics: Statistics, model: PowerModel | None = None) -> Floats:
    """Power of each span, MW: GPUs times the mean power of a GPU of its workload and accelerator; shape (spans,).

    A combination that the statistics never saw gets the mean over the accelerators of its workload.

    Raises
    ------
    InputError
        Missing columns, or a workload that the statistics never saw.
    """
    faults = Faults("Power of spans")
    missing = [name for name in SPAN_TYPES if name not in spans.columns]
    faults.require(not missing, "spans", spans.columns, f"also the columns {', '.join(missing)}")
    faults.raise_any()
    table = power_per_gpu(statistics, model)
    exact = table.set_index(["workload", "accelerator"])["power"]
    general = table.groupby("workload")["power"].mean()
    keys = spans.select(pl.col("workload").cast(pl.String), pl.col("accelerator").cast(pl.String)).to_pandas()
    unseen = sorted(set(keys["workload"]) - set(general.index))
    faults.require(not unseen, "spans['workload']", unseen, f"workloads of the statistics: {', '.join(general.index)}")
    faults.raise_any()
    own = exact.reindex(pd.MultiIndex.from_frame(keys)).to_numpy()
    unit = np.where(np.isnan(own), general.reindex(keys["workload"]).to_numpy(), own)
    return np.asarray(unit * spans["gpus"].to_numpy())


@dataclass(frozen=True, repr=False)
class Displacement:
    """Power as it ran against power had every job started on arrival (Sec. 2.5 and Fig. 10 of [2]).

    Attributes
    ----------
    data : xarray.Dataset
        `actual`, `arrival`, `difference` (MW, D = actual − arrival) and `energy` (MWh, its running integral), by hour.
        A translation in time that ignores capacity and dependencies: not a schedule that could have been run, and
        movements in both directions cancel within an hour.
    """

    data: xr.Dataset

    def __repr__(self) -> str:
        figures = self.figures()
        word = "synthetic, " if self.data.attrs["synthetic"] else ""
        tails = f"{figures['p99_up']:.3g} / {figures['p99_down']:.3g}"
        return f"Displacement({word}{figures['mean']:.4g} MW matched, P99 {tails} MW)"

    def figures(self) -> dict[str, float]:
        """`mean` (MW), `p99_up`, `p99_down` (MW), their shares of the mean, `daily_swing` (MWh, median), its share."""
        actual, difference = self.data["actual"].to_numpy(), self.data["difference"].to_numpy()
        mean = float(actual.mean())
        up, down = float(np.quantile(difference, 0.99)), float(-np.quantile(difference, 0.01))
        days = pd.Series(self.data["energy"].to_numpy()).groupby(self.data["hour"].to_numpy() // DAY)
        swing = float((days.max() - days.min()).median())
        return {
            "mean": mean,
            "p99_up": up,
            "p99_down": down,
            "p99_up_share": up / mean,
            "p99_down_share": down / mean,
            "daily_swing": swing,
            "daily_swing_share": swing / (DAY * mean),
        }

    def to_frame(self) -> pd.DataFrame:
        """By hour: `actual`, `arrival`, `difference` (MW), `energy` (MWh)."""
        return self.data.to_dataframe()

    def plot(self) -> Figure:
        """Draw difference and energy over time (Fig. 10a of [2])."""
        from pypsa_aidc.plots.aggregation import plot_displacement

        return plot_displacement(self)


def displacement(spans: pl.DataFrame, power: Floats, hours: tuple[int, int], synthetic: bool = False) -> Displacement:
    """Compare each span with a rectangle of equal length and power that starts when the job arrived.

    Parameters
    ----------
    spans : polars.DataFrame
        Columns of `SPAN_TYPES`; a missing `delay` counts as none.
    power : array of shape (spans,)
        MW, from `span_power`.
    hours
        First hour and the hour after the last one.
    synthetic
        Whether the spans come from the synthetic fleet.

    Returns
    -------
    Displacement

    Raises
    ------
    InputError
        No hours, no spans in them, or power of another length.
    """
    faults = Faults("Scheduler displacement")
    faults.require(hours[1] > hours[0], "hours", hours, "at least one hour")
    faults.require(power.shape == (spans.height,), "power", power.shape, f"one value for each of {spans.height} spans")
    faults.require(spans.height > 0, "spans", 0, "at least one")
    faults.raise_any()
    start, end = spans["start"].to_numpy(), spans["end"].to_numpy()
    delay = spans["delay"].fill_null(0).clip(0).to_numpy()
    axis = (np.zeros(spans.height, dtype=np.int64), 1, hours[0], hours[1] - hours[0])
    actual = occupancy(start, end, power, *axis)[0]
    faults.require(actual.max() > 0, "spans", f"none in hours {hours[0]} … {hours[1]}", "spans in these hours")
    faults.raise_any()
    arrival = occupancy(start - delay, end - delay, power, *axis)[0]
    difference = actual - arrival
    series = {"actual": actual, "arrival": arrival, "difference": difference}
    data = xr.Dataset(
        {name: ("hour", values, {"units": "MW"}) for name, values in series.items()}
        | {"energy": ("hour", np.cumsum(difference), {"units": "MWh"})},
        coords={"hour": np.arange(*hours)},
        attrs={"synthetic": int(synthetic)},
    )
    return Displacement(data)


@dataclass(frozen=True, repr=False)
class Backlog:
    """Power of newly arriving deferrable jobs that had waited at least so long (Sec. 3.3 and Fig. 11 of [2]).

    Attributes
    ----------
    data : xarray.Dataset
        `arrivals` (horizon × hour, MW) and `shift` (hour, MW: running high-priority training and offline inference).
        A recorded delay reflects the policy that ran; it is not what the workload would tolerate.
    """

    data: xr.Dataset

    def __repr__(self) -> str:
        word = "synthetic, " if self.data.attrs["synthetic"] else ""
        return f"Backlog({word}\n{self.figures()})"

    def figures(self, reliability: float = 0.95) -> pd.DataFrame:
        """By horizon, h: `mean`, `p10`, `K` (MW, of windows as long as the horizon), `share` of the shift layer."""
        shift = float(self.data["shift"].mean())
        rows = {}
        for horizon in self.data["horizon"].to_numpy():
            series = self.data["arrivals"].sel(horizon=horizon).to_numpy()
            K = dependable(running_minima(series, [int(horizon)])[int(horizon)], [reliability])[0]
            share = float(series.mean()) / shift if shift else float("nan")
            rows[int(horizon)] = {
                "mean": float(series.mean()),
                "p10": float(np.quantile(series, 0.1)),
                "K": K,
                "share": share,
            }
        return pd.DataFrame.from_dict(rows, orient="index").rename_axis("horizon")

    def to_frame(self) -> pd.DataFrame:
        """Long table: `horizon`, `hour`, `arrivals`, `shift` (MW)."""
        return self.data.to_dataframe().reset_index()

    def plot(self) -> Figure:
        """Draw arrivals against the shift layer (Fig. 11 of [2])."""
        from pypsa_aidc.plots.aggregation import plot_backlog

        return plot_backlog(self)


def backlog(
    spans: pl.DataFrame,
    power: Floats,
    hours: tuple[int, int],
    horizons: Sequence[int] = (1, 4),
    synthetic: bool = False,
) -> Backlog:
    """Replay arrivals: in each hour, the power of jobs that start in it and whose delay reached the horizon.

    Parameters
    ----------
    spans, power, hours, synthetic
        As for `displacement`.
    horizons
        h, at least 1.

    Returns
    -------
    Backlog
    """
    faults = Faults("Backlog replay")
    faults.require(hours[1] > hours[0], "hours", hours, "at least one hour")
    faults.require(power.shape == (spans.height,), "power", power.shape, f"one value for each of {spans.height} spans")
    for horizon in horizons:
        faults.number("horizons", horizon, at_least=1, integer=True)
    faults.raise_any()
    high = (spans["priority"].cast(pl.String) == "high") & spans["workload"].cast(pl.String).is_in(DEFERRABLE)
    chosen = high.to_numpy()
    start, end = spans["start"].to_numpy()[chosen], spans["end"].to_numpy()[chosen]
    delay, held = spans["delay"].fill_null(0).to_numpy()[chosen], power[chosen]
    length = hours[1] - hours[0]
    hour = np.floor(start).astype(np.int64) - hours[0]
    inside = (hour >= 0) & (hour < length)
    arrivals = [np.bincount(hour[pick], held[pick], length) for pick in (inside & (delay >= h) for h in horizons)]
    axis = (np.zeros(start.size, dtype=np.int64), 1, hours[0], length)
    data = xr.Dataset(
        {
            "arrivals": (("horizon", "hour"), np.array(arrivals, dtype=float), {"units": "MW"}),
            "shift": ("hour", occupancy(start, end, held, *axis)[0], {"units": "MW"}),
        },
        coords={"horizon": list(horizons), "hour": np.arange(*hours)},
        attrs={"synthetic": int(synthetic)},
    )
    return Backlog(data)


def delay_distribution(spans: pl.DataFrame) -> pd.DataFrame:
    """Distribution of delays above 0 by priority, weighted with GPU-hours (Fig. 10b of [2]).

    Returns
    -------
    pandas.DataFrame
        Columns `priority`, `delay` (h, ascending), `share` (of the GPU-hours that waited at all, cumulative).
    """
    waited = spans.filter(pl.col("delay") > 0).with_columns(
        pl.col("priority").cast(pl.String), hours=pl.col("gpus") * (pl.col("end") - pl.col("start"))
    )
    table = waited.group_by("priority", "delay").agg(pl.col("hours").sum()).sort("priority", "delay")
    share = (pl.col("hours").cum_sum() / pl.col("hours").sum()).over("priority")
    return table.select("priority", "delay", share=share).to_pandas()
