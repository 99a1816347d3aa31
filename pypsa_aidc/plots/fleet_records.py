"""Figures of what was read from a trace: GPU-hours, coverage of the execution records, faulty rows."""

from __future__ import annotations

import numpy as np
import polars as pl
from matplotlib.figure import Figure

from pypsa_aidc.fleet.trace.audit import Audit
from pypsa_aidc.fleet.trace.execution import Execution
from pypsa_aidc.fleet.trace.statistics import Statistics
from pypsa_aidc.plots.style import CYCLE, canvas, legend, styled


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
        colour = CYCLE[number % len(CYCLE)]
        axis.stairs(top, edges, baseline=base, fill=True, color=colour, label=str(workload).replace("_", " "))
        base = top
    axis.set(xlabel="day", ylabel="used GPU-hours a day (GPU-h)", xlim=(edges[0], edges[-1]))
    axis.set_ylim(0, 1.3 * max(float(np.nanmax(base)), 1e-9))
    legend(axis, loc="upper left", ncols=3)
    return figure


@styled
def plot_execution(execution: Execution) -> Figure:
    """Draw the share of GPU-hours whose delay is known, by the day on which their span begins."""
    coverage = execution.coverage()
    figure, axes = canvas(1, 1, width=5.6)
    axis = axes[0, 0]
    axis.plot(coverage.index, 100 * coverage["share"], color=CYCLE[0], marker=".", markersize=3)
    axis.set(xlabel="first day of the span (day)", ylabel="GPU-hours with a delay (%)", ylim=(0, 103))
    return figure


@styled
def plot_audit(audit: Audit) -> Figure:
    """Draw how many rows were skipped, rejected or noted, by reason, beside all rows that were read."""
    table = audit.to_frame()
    names = ["all rows", *table["reason"]]
    counts = [audit.rows, *table["count"]]
    colours = {"skipped": CYCLE[5], "rejected": CYCLE[1], "noted": CYCLE[3]}
    figure, axes = canvas(1, 1, height=1.2 + 0.3 * len(names))
    axis = axes[0, 0]
    bars = axis.barh(names, counts, color=[CYCLE[0], *table["outcome"].map(colours)], height=0.65)
    axis.bar_label(bars, [f"{count:,}" for count in counts], padding=3, fontsize=8)
    axis.invert_yaxis()
    axis.set_xscale("symlog", linthresh=1)
    axis.set(xlabel="rows (count)", xlim=(0, 20 * max(*counts, 1)), title=audit.source[:80])
    return figure
