"""Figures of what was read from a trace: GPU-hours, coverage of the execution records, faulty rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from matplotlib.figure import Figure

from pypsa_aidc.plots.style import BLUE, BROWN, CYCLE, GREY, HATCHES, ORANGE, canvas, label_bars, legend, styled

if TYPE_CHECKING:
    from pypsa_aidc.fleet.trace.audit import Audit
    from pypsa_aidc.fleet.trace.execution import Execution
    from pypsa_aidc.fleet.trace.statistics import Statistics


@styled
def plot_statistics(statistics: Statistics) -> Figure:
    """Draw used GPU-hours a day, stacked by workload."""
    daily = (
        statistics.cells.group_by((pl.col("hour") // 24).alias("day"), "workload")
        .agg(pl.col("gpu_hours").sum())
        .sort("day")
        .to_pandas()
        .pivot(index="day", columns="workload", values="gpu_hours")
        .fillna(0.0)
    )
    # A day without any record is a hole in the figure, not a day without work.
    daily = daily.reindex(range(int(daily.index[0]), int(daily.index[-1]) + 1))
    figure, axes = canvas(1, 1, synthetic=statistics.synthetic)
    axis = axes[0, 0]
    edges = np.append(daily.index.to_numpy(float), daily.index[-1] + 1.0)
    base = np.zeros(len(daily))
    for number, workload in enumerate(daily):
        top = base + daily[workload].to_numpy()
        style: dict[str, Any] = {
            "facecolor": CYCLE[number % len(CYCLE)],
            "hatch": HATCHES[number // len(CYCLE) % len(HATCHES)],
            "edgecolor": "white",
            "linewidth": 0.3,
        }
        axis.stairs(top, edges, baseline=base, fill=True, label=str(workload).replace("_", " "), **style)
        base = top
    axis.set(xlabel="day", ylabel="used GPU-hours a day (GPU-h)", xlim=(edges[0], edges[-1]))
    axis.set_ylim(0, None)
    legend(axis)
    return figure


@styled
def plot_execution(execution: Execution) -> Figure:
    """Draw the share of GPU-hours whose delay is known, by the day on which their span begins."""
    coverage = execution.coverage()
    figure, axes = canvas(1, 1)
    axis = axes[0, 0]
    axis.plot(coverage.index, 100 * coverage["share"], color=BLUE, marker=".", markersize=3)
    axis.set(xlabel="first day of the span (day)", ylabel="GPU-hours with a delay (%)", ylim=(0, 103))
    return figure


@styled
def plot_audit(audit: Audit) -> Figure:
    """Draw how many rows were skipped, rejected or noted, by reason, beside all rows that were read; 0 and 1 linear."""
    table = audit.to_frame()
    names = ["all rows", *table["reason"]]
    counts = [audit.rows, *table["count"]]
    colours = {"skipped": GREY, "rejected": BROWN, "noted": ORANGE}
    figure, axes = canvas(1, 1, height=1.1 + 0.28 * len(names))
    axis = axes[0, 0]
    bars = axis.barh(names, counts, color=[BLUE, *table["outcome"].map(colours)], height=0.65)
    label_bars(axis, bars, [f"{count:,}" for count in counts])
    for outcome in dict.fromkeys(table["outcome"]):
        axis.barh([0], [0], color=colours[outcome], label=outcome)
    axis.grid(visible=False, axis="y")
    axis.invert_yaxis()
    axis.set_xscale("symlog", linthresh=1)
    axis.set(xlabel="rows (count)", xlim=(0, 8 * max(*counts, 1)), title=audit.source[:80])
    legend(axis)
    return figure
