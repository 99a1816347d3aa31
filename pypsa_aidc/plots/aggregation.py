"""Figures of aggregation and scheduling: 2, 8, 9, 10 and 11 of [2]."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pypsa_aidc.plots.style import (
    BLACK,
    BLUE,
    BROWN,
    CYCLE,
    DASHES,
    GREEN,
    HATCHES,
    MARKS,
    ORANGE,
    canvas,
    label_bars,
    legend,
    line,
    styled,
)

if TYPE_CHECKING:
    from pypsa_aidc.fleet.studies.scaling import Composition, Scaling
    from pypsa_aidc.fleet.studies.scheduler import Backlog, Displacement
    from pypsa_aidc.fleet.studies.synchrony import Attribution, Synchrony

_PLAIN = str.maketrans("", "", "()'")
"""Takes the punctuation of a tuple out of the name of a parent."""


def _scatter(axes: Axes, scalings: Mapping[str, Scaling], title: str) -> None:
    """Units and the fit through them, one colour for each kind of unit."""
    for number, (kind, scaling) in enumerate(scalings.items()):
        units = scaling.units
        label = f"{kind}: β = {scaling.exponent:.3f}".lstrip(": ")
        look: dict[str, Any] = {"color": CYCLE[number], "marker": MARKS[number], "label": label}
        axes.scatter(units["mean"], units["sigma"], s=12, alpha=0.6, linewidths=0, **look)
        span = np.array([units["mean"].min(), units["mean"].max()])
        fit = scaling.prefactor * span**scaling.exponent
        axes.plot(span, fit, color=CYCLE[number], linestyle=DASHES[number], linewidth=1.2)
    axes.set(xscale="log", yscale="log", xlabel="mean power μ (MW)", ylabel="fluctuation σ (MW)", title=title)
    legend(axes)


@styled
def plot_scaling(scaling: Scaling) -> Figure:
    """Draw fluctuation over size with the fitted power law (Fig. 2a of [2], one kind of unit)."""
    figure, axes = canvas(1, 1)
    low, high = scaling.interval
    title = f"σ ∝ μ^β, P5–P95 of β {low:.2f} … {high:.2f}, R² = {scaling.r_squared:.2f}"
    _scatter(axes[0, 0], {"": scaling}, title)
    return figure


@styled
def plot_synchrony(synchrony: Synchrony) -> Figure:
    """Draw the synchrony ratio of each parent, its median, and the 1 of independent children."""
    ratios = synchrony.ratios.sort_values()
    figure, axes = canvas(1, 1)
    axis = axes[0, 0]
    positions = np.arange(len(ratios))
    error = None
    if len(ratios) == 1 and not np.isnan(synchrony.interval).any():
        error = np.abs(np.array(synchrony.interval) - synchrony.median)[:, None]
    axis.bar(positions, ratios, 0.65, color=BLUE, yerr=error, capsize=4, label="ratio of a parent")
    axis.axhline(synchrony.median, color=BROWN, linestyle="--", linewidth=1, label="median")
    axis.axhline(1, color=BLACK, linestyle=":", linewidth=1, label="independent children")
    names = [str(name).translate(_PLAIN).strip(", ") or "fleet" for name in ratios.index]
    axis.set_xticks(positions, names, rotation=90 if len(names) > 1 else 0, fontsize=7)
    axis.set(ylabel="synchrony ratio", ylim=(0, None))
    room = 0.6 if len(names) > 1 else 1.5
    axis.set_xlim(-room, len(names) - 1 + room)
    legend(axis)
    return figure


@styled
def plot_ratios(attribution: Attribution) -> Figure:
    """Draw the synchrony ratio of the fleet before and after calendar and capacity are taken out."""
    figure, axes = canvas(1, 1)
    axis = axes[0, 0]
    ratios = list(attribution.ratios.values())
    axis.bar(range(len(ratios)), ratios, 0.6, color=[BLUE, ORANGE, GREEN])
    axis.errorbar([0], ratios[:1], np.abs(np.array(attribution.interval) - ratios[0])[:, None], color=BLACK, capsize=4)
    axis.axhline(1, color=BLACK, linestyle=":", linewidth=1)
    axis.set_xticks(range(len(ratios)), [name.replace(" ", "\n") for name in attribution.ratios])
    axis.set(ylabel="synchrony ratio", title=f"{len(attribution.clusters)} clusters of steady capacity")
    return figure


@styled
def plot_attribution(scalings: Mapping[str, Scaling], attribution: Attribution, synthetic: bool = False) -> Figure:
    """Draw fluctuation over size, and how much excess variance calendar and capacity remove (Fig. 2 of [2])."""
    figure, axes = canvas(2, 1, synthetic=synthetic, height_ratios=[3, 2])
    left, right = axes[:, 0]
    _scatter(left, scalings, "(a) σ ∝ μ^β")
    remaining = [100 * (1 - removed) for removed in attribution.removed.values()]
    names = ["raw", "calendar removed", "capacity normalised too"]
    bars = right.barh(names, remaining, 0.6, color=[BLUE, ORANGE, GREEN])
    label_bars(right, bars, [f"{rest:.1f} %" for rest in remaining])
    right.invert_yaxis()
    right.margins(x=0.15)
    right.grid(visible=False, axis="y")
    right.set(xlabel="excess variance left (%)", title=f"(b) {len(attribution.clusters)} clusters of steady capacity")
    return figure


@styled
def plot_composition(composition: Composition, synthetic: bool = False) -> Figure:
    """Draw cluster variability over its share of training (Fig. 8 of [2])."""
    figure, axes = canvas(1, 1, synthetic=synthetic)
    axis = axes[0, 0]
    table = composition.clusters
    axis.scatter(100 * table["training_share"], 100 * table["variation"], s=18, color=BLUE, zorder=3)
    span = np.linspace(table["training_share"].min(), table["training_share"].max(), 100)
    low, high = composition.interval
    label = f"quadratic, curvature {composition.quadratic[0]:.2f} ({low:.2f} … {high:.2f})"
    axis.plot(100 * span, 100 * np.polyval(composition.quadratic, span), color=BROWN, label=label)
    axis.set(xlabel="training share of GPU-hours (%)", ylabel="coefficient of variation (%)", ylim=(0, None))
    legend(axis)
    return figure


@styled
def plot_plateaus(attribution: Attribution, synthetic: bool = False) -> Figure:
    """Draw synchrony within stretches of steady capacity against the whole window (Fig. 9 of [2])."""
    figure, axes = canvas(1, 1, synthetic=synthetic)
    axis = axes[0, 0]
    table = attribution.plateaus
    positions = np.arange(len(table))
    for number, kind in enumerate(("raw", "calendar removed", "capacity normalised")):
        axis.bar(
            positions + (number - 1) * 0.27,
            table[kind],
            0.27,
            color=(BLUE, ORANGE, GREEN)[number],
            hatch=HATCHES[number],
            edgecolor="white",
            label=kind,
        )
    axis.axhline(attribution.ratios["raw"], color=BLACK, linestyle="--", linewidth=1, label="whole window, raw")
    axis.axhline(1, color=BLACK, linestyle=":", linewidth=1)
    spans = [f"days\n{start // 24}–{end // 24}" for start, end in zip(table["start"], table["end"], strict=True)]
    axis.set_xticks(positions, spans, fontsize=7)
    axis.set(ylabel="synchrony ratio", ylim=(0, None))
    legend(axis)
    return figure


@styled
def plot_displacement(displacement: Displacement, delays: pd.DataFrame | None = None) -> Figure:
    """Draw what the scheduler displaced, its integral, and the delays behind it (Fig. 10 of [2])."""
    panels = 2 if delays is None else 3
    figure, axes = canvas(panels, 1, height=2.3 * panels, synthetic=bool(displacement.data.attrs["synthetic"]))
    days = displacement.data["hour"].to_numpy() / 24
    for axis, name, unit in ((axes[0, 0], "difference", "MW"), (axes[1, 0], "energy", "MWh")):
        axis.plot(days, displacement.data[name], linewidth=0.5, color=BLUE if unit == "MW" else BROWN)
        axis.axhline(0, color=BLACK, linewidth=0.6)
        axis.set(xlabel="day", ylabel=f"{name} ({unit})")
    axes[0, 0].set_title("actual less on arrival")
    axes[1, 0].set_title("running integral")
    if delays is not None:
        axis = axes[2, 0]
        for number, (priority, table) in enumerate(delays.groupby("priority")):
            style = {"color": CYCLE[number % len(CYCLE)], "linestyle": DASHES[number % len(DASHES)]}
            axis.step(table["delay"], table["share"], where="post", label=f"{priority} priority", **style)
        axis.set(
            xscale="log", xlabel="delay above 0 (h)", ylabel="share of GPU-hours that waited", title="observed delay"
        )
        legend(axis)
    return figure


@styled
def plot_backlog(backlog: Backlog) -> Figure:
    """Draw newly deferrable arrivals against the shift layer, daily means (Fig. 11 of [2])."""
    figure, axes = canvas(1, 1, synthetic=bool(backlog.data.attrs["synthetic"]))
    axis = axes[0, 0]
    hours = backlog.data["hour"].to_numpy()
    days = np.unique(hours // 24)
    daily = pd.Series(backlog.data["shift"].to_numpy()).groupby(hours // 24).mean()
    axis.plot(days, daily, color=BLACK, label="running shift layer")
    for number, horizon in enumerate(backlog.data["horizon"].to_numpy()):
        arrivals = pd.Series(backlog.data["arrivals"].sel(horizon=horizon).to_numpy()).groupby(hours // 24).mean()
        axis.plot(
            days,
            arrivals.where(arrivals > 0),
            markersize=3,
            linewidth=0.8,
            label=f"new arrivals delayed ≥ {horizon} h",
            **line(number),
        )
    axis.set(yscale="log", xlabel="day", ylabel="power, daily mean (MW)")
    legend(axis)
    return figure
