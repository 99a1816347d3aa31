"""Figures of the peak-cap screen: 17 and 18 of [2], arXiv 2609.05406."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pypsa_aidc.plots.style import BLUE, BROWN, GREY, canvas, label_bars, legend, line, styled

if TYPE_CHECKING:
    from pypsa_aidc.headroom.region.demand import Demand
    from pypsa_aidc.headroom.region.screen import Screen

TOP = 400
"""Hours of the load-duration curve that are drawn."""


@styled
def plot_screen(screen: Screen, budget: float | None = None, paper: Mapping[str, float] | None = None) -> Figure:
    """Draw headroom over margin, median and band over the alignments (Fig. 17 of [2]).

    Parameters
    ----------
    screen
        With one margin or more.
    budget
        Which budget; the one nearest 0.5 % if None.
    paper
        Published headroom at a margin of 5 % by profile, MW, drawn as crosses.
    """
    table, chosen = _at_budget(screen, budget)
    figure, axes = canvas(2, 1, synthetic=screen.synthetic, height_ratios=[3, 2], height=6.4)
    left, right = axes[:, 0]
    for number, profile in enumerate(screen.data["profile"].to_numpy()):
        style = _line(number)
        rows = table[table["profile"] == profile]
        margin = 100 * rows["margin"]
        left.fill_between(margin, rows["p5"] / 1e3, rows["p95"] / 1e3, color=style["color"], alpha=0.15, linewidth=0)
        left.plot(margin, rows["headroom"] / 1e3, markersize=4, label=profile, **style)
        for given in [value for name, value in (paper or {}).items() if name == profile]:
            left.plot([5], [given / 1e3], color=style["color"], marker="x", markersize=8, linestyle="none")
    left.set(xlabel="margin of the cap over peak demand (%)", ylabel="headroom (GW)", ylim=(0, None))
    left.set_title(f"called in {100 * chosen:g} % of hours at most" + ("; x: paper" if paper else ""))
    legend(left)
    names = list(screen.data["profile"].to_numpy())
    middle = float(min(screen.data["margin"].to_numpy(), key=lambda value: abs(value - 0.05)))
    rows = table[table["margin"] == middle].set_index("profile").loc[names]
    base = rows["headroom"].iloc[0]
    gain = 100 * (rows["headroom"] / base - 1) if base > 0 else np.nan * rows["headroom"]
    drawn = np.isfinite(gain.to_numpy())
    shown = [(place, float(value)) for place, (value, there) in enumerate(zip(gain, drawn, strict=True)) if there]
    bars = right.barh(*zip(*shown, strict=True), color=[_line(place)["color"] for place, _ in shown]) if shown else None
    if bars is not None:
        label_bars(right, bars, [f"{value:+,.0f} %" if place else "0" for place, value in shown])
    right.margins(x=0.15)
    right.grid(visible=False, axis="y")
    right.set_yticks(range(len(names)), names)
    right.invert_yaxis()
    right.set(xlabel=f"more than '{names[0]}' (%)", title=f"at a margin of {100 * middle:g} %")
    return figure


@styled
def plot_ratios(screen: Screen) -> Figure:
    """Draw the top of the load-duration curve, and headroom ratios over margins and budgets (Fig. 18 of [2]).

    Ratios are to the first profile at the same margin and budget; there are none where that has no headroom.
    """
    figure, axes = canvas(2, 1, synthetic=screen.synthetic, height_ratios=[2, 3], height=6.4)
    left, right = axes[:, 0]
    _load_duration(left, screen.demand)
    left.set_title("(a) " + left.get_title(loc="left"))
    headroom = screen.data["headroom"].median("offset")
    base = headroom.isel(profile=0)
    ratios = (headroom / base.where(base > 0)).to_numpy().reshape(len(screen.profiles), -1)
    cases = [(m, b) for m in screen.data["margin"].to_numpy() for b in screen.data["budget"].to_numpy()]
    # Where the first profile has no headroom at one budget of a margin, it has none at the others either.
    shown = np.isfinite(ratios).all(axis=0)
    labels = [f"{100 * m:g} / {100 * b:g}" for (m, b), there in zip(cases, shown, strict=True) if there]
    for number, (profile, values) in enumerate(zip(screen.profiles[1:], ratios[1:], strict=True), 1):
        places = np.arange(len(labels)).reshape(-1, len(screen.data["budget"]))
        for block, part in zip(places, values[shown].reshape(places.shape), strict=True):
            label = profile.name if block[0] == 0 else None
            right.plot(block, part, markersize=4, label=label, **_line(number))
    right.set_xticks(range(len(labels)), labels, rotation=90, fontsize=7)
    right.set(xlabel="margin / budget (%)", ylabel=f"headroom over that of '{screen.profiles[0].name}'", yscale="log")
    right.set_title("(b) headroom ratios")
    legend(right)
    return figure


@styled
def plot_load_duration(demand: Demand) -> Figure:
    """Draw the top of the load-duration curve (Fig. 18a of [2])."""
    figure, axes = canvas()
    _load_duration(axes[0, 0], demand)
    return figure


def _load_duration(axes: Axes, demand: Demand) -> None:
    falling = demand.series.sort_values(ascending=False, kind="stable").head(TOP)
    axes.step(np.arange(falling.size), falling / 1e3, where="post", color=BLUE, label="demand")
    touched = falling.index.isin(demand.touched)
    if touched.any():
        axes.plot(
            np.flatnonzero(touched) + 0.5,
            falling[touched] / 1e3,
            color=BROWN,
            marker="o",
            markersize=3,
            linestyle="none",
            label="changed, filled or flagged",
        )
        legend(axes)
    axes.set(xlabel="hour, tightest first", ylabel="demand (GW)", title=f"load duration, {demand.region or 'demand'}")


def _at_budget(screen: Screen, budget: float | None) -> tuple[pd.DataFrame, float]:
    there = screen.data["budget"].to_numpy()
    chosen = float(min(there, key=lambda value: abs(value - (0.005 if budget is None else budget))))
    # What nothing limits has no place on an axis.
    table = screen.summary().replace(np.inf, np.nan)
    return table[table["budget"] == chosen], chosen


def _line(number: int) -> dict[str, Any]:
    """Of a profile: grey for the first, which the others are held against."""
    return {"color": GREY, "linestyle": "-", "marker": "o"} if number == 0 else line(number - 1)
