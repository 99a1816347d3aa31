"""Figures, drawn from plain frames; knows neither networks nor training. Colours are Okabe and Ito's, safe for all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import cycle
from typing import Any

import matplotlib.dates
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

BLACK, ORANGE, SKY, GREEN, YELLOW, BLUE, RED, PURPLE = [
    "#000000",
    "#E69F00",
    "#56B4E9",
    "#009E73",
    "#F0E442",
    "#0072B2",
    "#D55E00",
    "#CC79A7",
]
GREY = "#9a9a9a"
_JOB_COLOURS = (BLUE, ORANGE, GREEN, PURPLE, SKY, RED, YELLOW)


def modes(frame: pd.DataFrame, title: str = "", ax: Axes | None = None) -> Axes:
    """Draw feasible modes over p, q and d, coloured by memory, with the effective ones ringed (Fig. 9 of [1]).

    Parameters
    ----------
    frame
        As `ModeTable.to_frame` gives it.
    title
        Title, for example the job.
    ax
        Three-dimensional axes; `None` makes a figure.
    """
    if ax is None:
        ax = Figure(figsize=(6, 5), layout="constrained").add_subplot(projection="3d")
    space: Any = ax
    shown = frame[~frame["reason"].str.startswith(("divisibility", "memory", "pool"))]
    effective = shown[shown["reason"] == ""]
    place = ["pipeline", "tensor", "data"]
    points = space.scatter(
        *np.log2(shown[place].to_numpy(float)).T, c=shown["memory_gb"], cmap="viridis", s=22, alpha=0.9
    )
    space.scatter(
        *np.log2(effective[place].to_numpy(float)).T,
        s=95,
        facecolors="none",
        edgecolors=RED,
        linewidths=1.6,
        label="effective",
    )
    for name, axis in zip(place, (space.xaxis, space.yaxis, space.zaxis), strict=True):
        ticks = np.arange(0, np.log2(max(shown[name].max(), 2)) + 1)
        axis.set_ticks(ticks, [f"{2**tick:g}" for tick in ticks])
        axis.set_label_text(name)
    space.figure.colorbar(points, ax=space, label="memory per GPU (GB)", shrink=0.7)
    space.set_title(f"{title}: {len(shown)} feasible, {len(effective)} effective modes".lstrip(": "))
    space.legend(loc="upper left")
    return ax


def balance(frames: Mapping[str, pd.DataFrame], colours: Mapping[str, str] | None = None) -> Figure:
    """Draw source, storage, grid and load over time, one panel a scenario (Fig. 8 of [1]).

    Parameters
    ----------
    frames
        Balances by title, in MW: one column a source, and optionally ``"storage"`` (positive when discharging),
        ``"curtailment"``, ``"AIDC"`` and ``"other load"``.
    colours
        Colours of sources, for example those of PyPSA's carriers.
    """
    figure = Figure(figsize=(9, 3.2 * len(frames)), layout="constrained")
    axes = figure.subplots(len(frames), 1, sharex=True, squeeze=False)[:, 0]
    palette = {"storage": GREEN, "curtailment": RED} | dict(colours or {})
    for ax, (title, frame) in zip(axes, frames.items(), strict=True):
        unit, scale = power_unit(frame.abs().to_numpy().max())
        sources = [column for column in frame if column not in ("AIDC", "other load", "curtailment")]
        edges, free = slot_edges(frame.index), cycle(_JOB_COLOURS)
        base = np.zeros(len(frame))
        for column in sources:
            supply = scale * frame[column].clip(lower=0).to_numpy()
            ax.stairs(
                base + supply,
                edges,
                baseline=base,
                fill=True,
                color=palette.get(str(column)) or next(free),
                label=column,
            )
            base = base + supply
        if "curtailment" in frame and frame["curtailment"].max() > 1e-9:
            lost = scale * frame["curtailment"].to_numpy()
            ax.stairs(
                base + lost,
                edges,
                baseline=base,
                fill=True,
                facecolor="none",
                edgecolor=RED,
                hatch="////",
                label="curtailment",
            )
        if "storage" in frame and frame["storage"].min() < -1e-9:
            ax.stairs(
                scale * frame["storage"].clip(upper=0).to_numpy(),
                edges,
                fill=True,
                color=GREEN,
                alpha=0.5,
                label="charging",
            )
        if "AIDC" in frame:
            ax.stairs(scale * frame["AIDC"].to_numpy(), edges, color=BLACK, linewidth=2, label="AIDC load")
        if "other load" in frame and frame["other load"].max() > 1e-9:
            whole = scale * (frame["other load"] + frame.get("AIDC", 0.0)).to_numpy()
            ax.stairs(whole, edges, color=BLACK, linewidth=1.5, linestyle="--", label="all load")
        ax.set(ylabel=f"power ({unit})", title=title)
        ax.margins(x=0)
        format_time(ax, frame.index)
        ax.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)
    return figure


def composition(power: pd.DataFrame, title: str = "") -> Figure:
    """Draw what the load of a site consists of, at the meter (Fig. 10 of [1]).

    Parameters
    ----------
    power
        Power of one site in MW by part, as ``n.aidc.power()[site]`` gives it: IT parts, ``"IT"`` and ``"meter"``.
    title
        Title, for example the scenario.
    """
    figure = Figure(figsize=(9, 3.4), layout="constrained")
    ax = figure.subplots()
    parts = [part for part in power if part not in ("IT", "meter")]
    unit, scale = power_unit(power["meter"].max())
    overhead = (power["meter"] / power["IT"]).fillna(1.0).to_numpy()
    base, edges = np.zeros(len(power)), slot_edges(power.index)
    colours = dict(zip(parts, [GREY, *_JOB_COLOURS * len(parts)], strict=False))
    for part in parts:
        top = base + scale * power[part].to_numpy() * overhead
        ax.stairs(top, edges, baseline=base, fill=True, color=colours[part], label=part)
        base = top
    ax.stairs(scale * power["meter"].to_numpy(), edges, color=BLACK, linewidth=1.5, label="at the meter")
    ax.set(ylabel=f"power ({unit})", title=title)
    ax.margins(x=0)
    format_time(ax, power.index)
    ax.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)
    return figure


def execution(gpus: pd.DataFrame, progress: pd.DataFrame, pool: float | None = None, title: str = "") -> Figure:
    """Draw GPU use and training progress of one site (Fig. 11 of [1]).

    Parameters
    ----------
    gpus, progress
        GPUs in use and share of the tranche done, one column a job.
    pool
        Size of the GPU pool, drawn as a line.
    title
        Title, for example the scenario.
    """
    figure = Figure(figsize=(9, 5.2), layout="constrained")
    upper, lower = figure.subplots(2, 1, sharex=True)
    edges, base = slot_edges(gpus.index), np.zeros(len(gpus))
    for job, colour in zip(gpus.columns, cycle(_JOB_COLOURS), strict=False):
        top = base + gpus[job].to_numpy()
        upper.stairs(top, edges, baseline=base, fill=True, color=colour, label=str(job))
        base = top
        lower.step(
            edges, np.concatenate([[0.0], 100 * progress[job].to_numpy()]), where="post", color=colour, label=str(job)
        )
    if pool is not None:
        upper.axhline(pool, color=RED, linestyle="--", label="pool")
    upper.set(ylabel="GPUs", title=title)
    lower.set(ylabel="progress (%)", ylim=(-2, 104))
    for ax in (upper, lower):
        ax.margins(x=0.01)
        ax.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)
    format_time(lower, gpus.index)
    return figure


def gantt(steps: pd.DataFrame, snapshots: pd.Index, title: str = "") -> Figure:
    """Draw what each job runs when: one row a job, a bar an edge as high as its GPUs, a mark a checkpoint.

    Parameters
    ----------
    steps
        Training edges as ``n.aidc.schedule()`` gives them: `site`, `job`, `start` and `end` (snapshots, the last
        included), `mode`, `gpus`, `restart`.
    snapshots
        Snapshots of the schedule, in order.
    title
        Title, for example the scenario.
    """
    jobs = pd.MultiIndex.from_frame(steps[["site", "job"]]).unique()
    figure = Figure(figsize=(9, 1.5 + 0.75 * len(jobs)), layout="constrained")
    ax = figure.subplots()
    edges, several = slot_edges(snapshots), steps["site"].nunique() > 1
    placed = steps.assign(
        left=edges[positions(snapshots, steps["start"])],
        right=edges[positions(snapshots, steps["last"]) + 1],
        height=0.75 * steps["gpus"] / steps["gpus"].max(),
    )
    for row, ((site, job), colour) in enumerate(zip(jobs, cycle(_JOB_COLOURS), strict=False)):
        own = placed[(placed["site"] == site) & (placed["job"] == job)]
        floor = len(jobs) - 1 - row
        ax.hlines(floor, edges[0], edges[-1], color=GREY, linewidth=0.8, zorder=0)
        width = own["right"] - own["left"]
        ax.bar(own["left"], own["height"], width, floor, color=colour, alpha=0.7, align="edge", edgecolor="white")
        label = "" if row else "checkpoint"
        ax.plot(own["right"], np.full(len(own), floor), "D", color=BLACK, markersize=4, clip_on=False, label=label)
        again = own.loc[own["restart"], "left"]
        ax.plot(again, np.full(len(again), floor + 0.06), ">", color=RED, markersize=6)
        _label_modes(ax, own, floor, edges[-1] - edges[0])
    if placed["restart"].any():
        ax.plot([], [], ">", color=RED, markersize=6, linestyle="none", label="restart")
    names = [f"{site} {job}" if several else str(job) for site, job in jobs]
    ax.set_yticks(np.arange(len(jobs))[::-1] + 0.375, names)
    ax.tick_params(axis="y", length=0)
    ax.set(title=title, ylim=(-0.25, len(jobs) - 0.1), ylabel=f"job (height: GPUs, most {steps['gpus'].max():g})")
    ax.margins(x=0)
    format_time(ax, snapshots)
    ax.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)
    return figure


def positions(snapshots: pd.Index, labels: pd.Series) -> NDArray[np.int64]:
    """Return the places of labels, which are tuples where the snapshots have periods."""
    place = {label: position for position, label in enumerate(snapshots)}
    return np.array([place[label] for label in labels], dtype=np.int64)


def _label_modes(ax: Axes, own: pd.DataFrame, floor: float, span: float) -> None:
    """Write the mode p·q·d once into each stretch that runs through in it, where it fits."""
    mode = own["mode"]
    new = (mode != mode.shift()) | (own["left"] > own["right"].shift() + 1e-9)
    stretches = own.assign(mode=mode).groupby(new.cumsum())
    lefts, rights = stretches["left"].min().to_numpy(float), stretches["right"].max().to_numpy(float)
    heights, names = stretches["height"].min().to_numpy(float), stretches["mode"].first().map(str)
    for left, right, height, name in zip(lefts, rights, heights, names, strict=True):
        if right - left > 0.009 * len(name) * span:
            ax.text((left + right) / 2, floor + height / 2, name, ha="center", va="center", fontsize=8)


def sites(power: pd.DataFrame, gpus: pd.DataFrame, progress: pd.DataFrame) -> Figure:
    """Draw meter power, GPUs and progress of all sites over time, columns as the accessor gives them."""
    figure = Figure(figsize=(9, 7.5), layout="constrained")
    first, second, third = figure.subplots(3, 1, sharex=True)
    edges = slot_edges(power.index)
    meter = power.xs("meter", axis=1, level="part")
    unit, scale = power_unit(meter.to_numpy().max())
    for site, colour in zip(meter.columns, cycle(_JOB_COLOURS), strict=False):
        first.stairs(scale * meter[site].to_numpy(), edges, color=colour, linewidth=2, baseline=None, label=str(site))
    for key, colour in zip(gpus.columns, cycle(_JOB_COLOURS), strict=False):
        label = " ".join(map(str, key))
        second.stairs(gpus[key].to_numpy(), edges, color=colour, linewidth=1.5, baseline=None, label=label)
        done = np.concatenate([[0.0], 100 * progress[key].to_numpy()])
        third.step(edges, done, where="post", color=colour, label=label)
    for ax, label in ((first, f"at the meter ({unit})"), (second, "GPUs"), (third, "progress (%)")):
        ax.set_ylabel(label)
        ax.margins(x=0)
        ax.set_ylim(bottom=0)
        ax.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)
    format_time(third, power.index)
    return figure


def sensitivity(frames: Mapping[str, pd.DataFrame], labels: Sequence[str]) -> Figure:
    """Draw cost against a parameter, one panel each, the paper's values beside ours (Fig. 12 of [1]).

    Parameters
    ----------
    frames
        By title: index the parameter, columns ``"ours"`` and ``"paper"`` in USD, NaN where there is none.
    labels
        Name of the parameter of each panel.
    """
    figure = Figure(figsize=(4 * len(frames), 3.4), layout="constrained")
    axes = figure.subplots(1, len(frames), squeeze=False)[0]
    for ax, label, (title, frame) in zip(axes, labels, frames.items(), strict=True):
        ax.plot(frame.index, frame["ours"], "o-", color=BLUE, label="ours")
        ax.plot(frame.index, frame["paper"], "x", color=RED, markersize=9, markeredgewidth=2, label="paper")
        ax.set(xlabel=label, ylabel="cost (USD)", title=title)
        ax.legend(frameon=False)
    return figure


def power_unit(largest: float) -> tuple[str, float]:
    """Return the unit in which powers up to `largest` MW are drawn, and the factor from MW to it."""
    return ("kW", 1e3) if largest < 5 else ("MW", 1.0)


def slot_edges(index: pd.Index) -> NDArray[np.float64]:
    """Borders of the slots, the last as long as the one before it."""
    if isinstance(index, pd.MultiIndex) or not isinstance(index, pd.DatetimeIndex):
        return np.arange(len(index) + 1.0)
    starts = matplotlib.dates.date2num(index.to_pydatetime())
    last = starts[-1] - starts[-2] if len(starts) > 1 else 1 / 24
    return np.append(starts, starts[-1] + last)


def format_time(ax: Axes, index: pd.Index) -> None:
    """Label the time axis of slots drawn at `slot_edges`."""
    if not isinstance(index, pd.DatetimeIndex):
        ax.set_xlabel("snapshot")
        return
    if index[-1] - index[0] <= pd.Timedelta(hours=36):
        ax.xaxis.set_major_locator(matplotlib.dates.HourLocator(interval=3))
        ax.xaxis.set_major_formatter(matplotlib.dates.DateFormatter("%H:%M"))
        ax.set_xlabel(f"{index[0]:%Y-%m-%d}")
        return
    ax.set_xlabel("time")
    locator = matplotlib.dates.AutoDateLocator()
    ax.xaxis.set_major_locator(locator)
    ax.xaxis.set_major_formatter(matplotlib.dates.ConciseDateFormatter(locator))
