"""What training jobs do when: modes and checkpoints, GPUs, progress and power; Figs. 10 and 11 of [1]."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from pypsa_aidc.plain import ALL
from pypsa_aidc.plots.style import (
    BLACK,
    BROWN,
    CYCLE,
    DASHES,
    GREY,
    HATCHES,
    WIDTH,
    canvas,
    legend,
    positions,
    power_unit,
    slot_edges,
    styled,
    time_axis,
    under,
)

if TYPE_CHECKING:
    from pypsa_aidc.network.results.accessor import Results

_BAR, _LETTER = 0.4, 7.0
"""Height of the highest bar of a job in rows, and points of the letters above the bars."""
_ROW, _SIDES = 0.9, 1.2
"""Inches of a row of the Gantt chart, and of what lies beside its axes."""


@styled
def plot_gantt(steps: pd.DataFrame, snapshots: pd.Index) -> Figure:
    """Draw what each job runs when: one row a job, a bar an edge as high as its GPUs, a mark a checkpoint.

    Parameters
    ----------
    steps
        Training edges, from ``n.aidc.schedule()``.
    snapshots
        Snapshots of the schedule, in order.
    """
    jobs = pd.MultiIndex.from_frame(steps[["site", "job"]]).unique()
    figure, axes = canvas(height=1.3 + _ROW * len(jobs))
    axis = axes[0, 0]
    edges, several = slot_edges(snapshots), steps["site"].nunique() > 1
    placed = steps.assign(
        left=edges[positions(snapshots, steps["start"])],
        right=edges[positions(snapshots, steps["last"]) + 1],
        height=_BAR * steps["gpus"] / steps["gpus"].max(),
    )
    looks = _looks(jobs)
    for row, (site, job) in enumerate(jobs):
        own = placed[(placed["site"] == site) & (placed["job"] == job)].sort_values("left")
        floor = float(len(jobs) - 1 - row)
        axis.hlines(floor, edges[0], edges[-1], color=GREY, linewidth=0.8, zorder=0)
        width = own["right"] - own["left"]
        axis.bar(
            own["left"], own["height"], width, floor, color=looks[site, job]["color"], align="edge", edgecolor="white"
        )
        axis.plot(own["right"], np.full(len(own), floor), "D", color=BLACK, markersize=2.8, clip_on=False, zorder=3)
        again = own.loc[own["restart"], "left"]
        # Below the line, and to the right of where the bar begins: nothing restarts before it does.
        axis.scatter(
            again, np.full(len(again), floor - 0.07), 55, color=BROWN, marker=_RIGHT_OF_START, linewidths=0, zorder=3
        )
        _label_modes(axis, own, floor, edges[-1] - edges[0])
    axis.plot([], [], "D", color=BLACK, markersize=3.5, linestyle="none", label="checkpoint")
    if placed["restart"].any():
        axis.scatter([], [], 55, color=BROWN, marker=">", linewidths=0, label="restart after waiting")
    names = [f"{site}\n{job}" if several else str(job) for site, job in jobs]
    axis.set_yticks(np.arange(len(jobs))[::-1] + _BAR / 2, names)
    axis.tick_params(axis="y", length=0)
    axis.grid(visible=False)
    axis.set(ylim=(-0.25, len(jobs)), ylabel=f"job (height: GPUs, most {steps['gpus'].max():,g})")
    axis.set_title("modes, pipeline·tensor·data")
    legend(axis)
    time_axis(axis, snapshots)
    return figure


_RIGHT_OF_START: Any = [(0.0, -0.5), (0.0, 0.5), (0.9, 0.0), (0.0, -0.5)]
"""A triangle that begins at its place instead of lying around it; its first corner is the place."""


def by_scenario(steps: pd.DataFrame) -> pd.DataFrame:
    """Steps with jobs named by scenario where they do not do the same in all of them."""
    if "scenario" not in steps:
        return steps
    key, apart = steps["site"] + "\0" + steps["job"], steps["scenario"] != ALL
    split = key.isin(key[apart])
    copies = [steps[~split]]
    for name in dict.fromkeys(steps.loc[apart, "scenario"]):
        own = steps[split & (~apart | (steps["scenario"] == name))]
        copies.append(own.assign(job=own["job"] + f" in {name}"))
    return pd.concat(copies)


@styled
def plot_overview(results: Results) -> Figure:
    """Draw power at the meter of each AIDC, and GPUs and progress of each job, over time.

    Jobs have the colour of their site; of one site alone, each has a colour of its own.
    """
    power = results.expected(results.power())
    meter = pd.DataFrame(power.xs("meter", axis=1, level="part"))
    edges, trained = slot_edges(power.index), bool(results.sites)
    figure, axes = canvas(3 if trained else 1, 1, sharex=True, height=7.2 if trained else 3.2)
    first = axes[0, 0]
    unit, scale = power_unit(float(meter.to_numpy().max()))
    alone = meter.shape[1] == 1
    for number, name in enumerate(meter):
        style = {"color": BLACK, "linewidth": 1.6} if alone else under(number, meter.shape[1])
        first.stairs(scale * meter[name].to_numpy(), edges, baseline=None, label=str(name), **style)
    first.set(ylabel=f"power ({unit})", ylim=(0, None), title="power at the meter")
    legend(first)
    if trained:
        second, third = axes[1:, 0]
        gpus, steps = results.expected(results.gpus()), results.schedule()
        looks = _looks(gpus.columns, sites=list(meter))
        for key in gpus.columns:
            name = " ".join(map(str, tuple(key)))
            second.stairs(gpus[key].to_numpy(), edges, baseline=None, label=name, **looks[key])
            third.plot(*_progress_line(results, steps, key, edges), **looks[key])
        second.set(ylabel="GPUs", ylim=(0, None), title="GPUs in use")
        third.set(ylabel="progress (%)", ylim=(0, 103), title="progress")
        legend(second)
    time_axis(axes[-1, 0], power.index)
    return figure


@styled
def plot_composition(results: Results, site: str) -> Figure:
    """Draw what the load of a site consists of, at the meter: base, each job, idle GPUs (Fig. 10 of [1])."""
    power = pd.DataFrame(results.expected(results.power())[site])
    parts = [str(part) for part in power if part not in ("IT", "meter")]
    figure, axes = canvas()
    axis = axes[0, 0]
    unit, scale = power_unit(float(power["meter"].max()))
    overhead = (power["meter"] / power["IT"]).fillna(1.0).to_numpy()
    base, edges = np.zeros(len(power)), slot_edges(power.index)
    jobs = iter(range(len(parts)))
    for part in parts:
        colour, hatch = (GREY, "") if part == "base" else ("#c9cdd1", "") if part == "idle" else _fill(next(jobs))
        top = base + scale * power[part].to_numpy() * overhead
        label = {"base": "base load", "idle": "idle GPUs"}.get(part, part)
        style: dict[str, Any] = {"facecolor": colour, "hatch": hatch, "edgecolor": "white", "linewidth": 0.4}
        axis.stairs(top, edges, baseline=base, fill=True, label=label, **style)
        base = top
    axis.stairs(
        scale * power["meter"].to_numpy(), edges, baseline=None, color=BLACK, linewidth=1.6, label="at the meter"
    )
    axis.set(ylabel=f"power ({unit})", ylim=(0, None), title=f"{site}: power at the meter by part")
    legend(axis)
    time_axis(axis, power.index)
    return figure


@styled
def plot_execution(results: Results, site: str) -> Figure:
    """Draw GPU use, stacked by job and below the pool, and training progress of one site (Fig. 11 of [1])."""
    steps, everywhere = results.schedule(), results.expected(results.gpus())
    gpus = pd.DataFrame(everywhere[site]) if site in everywhere else everywhere.iloc[:, :0]
    figure, axes = canvas(2, 1, sharex=True)
    upper, lower = axes[:, 0]
    edges, base = slot_edges(gpus.index), np.zeros(len(gpus))
    for number, job in enumerate(gpus):
        colour, hatch = _fill(number)
        top = base + gpus[job].to_numpy()
        style: dict[str, Any] = {"facecolor": colour, "hatch": hatch, "edgecolor": "white", "linewidth": 0.4}
        upper.stairs(top, edges, baseline=base, fill=True, label=str(job), **style)
        base = top
        lower.plot(*_progress_line(results, steps, (site, job), edges), label=str(job), **under(number, gpus.shape[1]))
    pool = results.sites[site].spec.gpus
    upper.axhline(pool, color=BLACK, linestyle=(0, (4, 2)), linewidth=1.2, label=f"pool of {pool:,}")
    upper.set(ylabel="GPUs", ylim=(0, 1.08 * pool), title=f"{site}: GPUs in use")
    lower.set(ylabel="progress (%)", ylim=(0, 103), title="progress")
    legend(upper)
    if gpus.shape[1] > 1:
        legend(lower)
    time_axis(lower, gpus.index)
    return figure


def _fill(number: int) -> tuple[str, str]:
    return CYCLE[number % len(CYCLE)], HATCHES[number // len(CYCLE) % len(HATCHES)]


def _looks(jobs: pd.Index, sites: list[Any] | None = None) -> dict[Any, dict[str, Any]]:
    """Colour, width and dashes of each job: colour by site and dashes by job, or of a single site both by job."""
    order = list(dict.fromkeys(site for site, _ in jobs)) if sites is None else sites
    looks: dict[Any, dict[str, Any]] = {}
    for site in dict.fromkeys(site for site, _ in jobs):
        own = [key for key in jobs if key[0] == site]
        for number, key in enumerate(own):
            style = under(number, len(own))
            if len(order) > 1:
                style["color"] = CYCLE[order.index(site) % len(CYCLE)]
                style["linestyle"] = DASHES[number % len(DASHES)]
            looks[key] = style
    return looks


def _progress_line(
    results: Results, steps: pd.DataFrame, key: Any, edges: NDArray[np.float64]
) -> tuple[list[float], list[float]]:
    """Times and shares of the tranche (%): a job gains evenly while an edge runs, and nothing in the rest of a slot."""
    done = results.expected(results.progress())[key]
    own = steps[(steps["site"] == key[0]) & (steps["job"] == key[1])]
    firsts, lasts = positions(done.index, own["start"]), positions(done.index, own["last"])
    share = 100 * done.to_numpy(float)
    (load,) = [each for each in results.sites[key[0]].loads.values() if each.name == key[1]]
    begun = 100 * float(sum(load.rules.shares[: load.rules.progress]))
    if "scenario" in own and (own["scenario"] != ALL).any():
        # What is expected of several paths gains in each of their slots.
        return list(edges), [begun, *share]
    times, shares = [edges[0]], [begun]
    periods = done.index.get_level_values(0) if isinstance(done.index, pd.MultiIndex) else np.zeros(len(done))
    starts = np.append(0, np.flatnonzero(periods[1:] != periods[:-1]) + 1)
    last_start = 0
    for first, last, row in zip(firsts, lasts, own.itertuples(), strict=True):
        start = starts[starts <= first].max()
        if start > last_start:
            # Each investment period begins the work anew.
            times += [edges[start], edges[start]]
            shares += [shares[-1], begun]
            last_start = start
        idle = float(row.boundary_idle) / float(row.gpus) / float(row.hours)
        length = edges[last + 1] - edges[first]
        times += [edges[first], edges[last + 1] - idle * length, edges[last + 1]]
        shares += [shares[-1], share[last], share[last]]
    return [*times, edges[-1]], [*shares, shares[-1]]


def _label_modes(axes: Axes, own: pd.DataFrame, floor: float, span: float) -> None:
    """Write the mode once above each stretch that runs through in it, upright or on its side, where there is room.

    The highest stretches come first. A label may stand over lower bars beside its own, but neither over a higher one
    nor over another label.
    """
    mode = own["mode"]
    new = (mode != mode.shift()) | (own["left"] > own["right"].shift() + 1e-9)
    stretches = own.assign(mode=mode).groupby(new.cumsum())
    table = pd.DataFrame({"left": stretches["left"].min(), "right": stretches["right"].max()})
    table = table.assign(height=stretches["height"].max(), mode=stretches["mode"].first())
    # Points of the axes: what letters need is known only there.
    across = 72 * (WIDTH - _SIDES) / span
    down = 72 * _ROW
    taken: list[tuple[float, float, float, float]] = []
    table = table.sort_values("height", ascending=False, kind="stable")
    columns = (table[name].to_list() for name in ("left", "right", "height", "mode"))
    for left, right, height_of, name in zip(*columns, strict=True):
        long, thick = 0.56 * _LETTER * len(name), 1.25 * _LETTER
        middle = (left + right) / 2
        for width, height, turn in ((long, thick, 0), (thick, long, 90)):
            low, high = middle - width / across / 2, middle + width / across / 2
            below = table.loc[(table["left"] < high) & (table["right"] > low), "height"].max()
            base, top = floor + below + 2 / down, floor + below + (2 + height) / down
            free = all(low >= x1 or high <= x0 or base >= y1 or top <= y0 for x0, x1, y0, y1 in taken)
            if free and top <= floor + 0.9 and below <= height_of + 1e-9:
                taken.append((low, high, base, top))
                axes.text(middle, base, name, ha="center", va="bottom", rotation=turn, fontsize=_LETTER)
                break
