"""Figures of the peak-cap screen: 17 and 18 of [2], arXiv 2609.05406."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pypsa_aidc.headroom.region.demand import Demand
from pypsa_aidc.headroom.region.screen import Screen
from pypsa_aidc.plots.style import CYCLE, canvas, legend, styled

TOP = 400
"""Hours of the load-duration curve that are drawn."""


@styled
def plot_headroom(screen: Screen, budget: float | None = None, paper: Mapping[str, float] | None = None) -> Figure:
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
    figure, axes = canvas(1, 2, synthetic=screen.synthetic, width_ratios=[3, 2], height=3.8)
    left, right = axes[0]
    for profile, colour in zip(screen.data["profile"].to_numpy(), _colours(), strict=False):
        rows = table[table["profile"] == profile]
        margin = 100 * rows["margin"]
        left.fill_between(margin, rows["p5"] / 1e3, rows["p95"] / 1e3, color=colour, alpha=0.2, linewidth=0)
        left.plot(margin, rows["headroom"] / 1e3, color=colour, marker="o", markersize=3, label=profile)
        for given in [value for name, value in (paper or {}).items() if name == profile]:
            left.plot([5], [given / 1e3], color=colour, marker="x", markersize=7, linestyle="none")
    left.set(xlabel="margin of the cap over peak demand (%)", ylabel="headroom (GW)", ylim=(0, None))
    left.set_title(f"called in {100 * chosen:g} % of hours at most" + ("; x: paper" if paper else ""))
    legend(left, loc="upper left", fontsize=7)
    names = list(screen.data["profile"].to_numpy())
    middle = float(min(screen.data["margin"].to_numpy(), key=lambda value: abs(value - 0.05)))
    rows = table[table["margin"] == middle].set_index("profile").loc[names]
    base = rows["headroom"].iloc[0]
    gain = 100 * (rows["headroom"] / base - 1) if base > 0 else np.nan * rows["headroom"]
    drawn = np.isfinite(gain.to_numpy())
    right.barh(np.flatnonzero(drawn), gain[drawn], color=np.array(_colours())[: len(names)][drawn])
    right.set_yticks(range(len(names)), names, fontsize=7)
    right.invert_yaxis()
    right.set(xlabel=f"more than '{names[0]}' (%)", title=f"at a margin of {100 * middle:g} %")
    return figure


@styled
def plot_ratios(screen: Screen) -> Figure:
    """Draw the top of the load-duration curve, and headroom ratios over margins and budgets (Fig. 18 of [2]).

    Ratios are to the first profile at the same margin and budget; there are none where that has no headroom.
    """
    figure, axes = canvas(1, 2, synthetic=screen.synthetic, width_ratios=[2, 3], height=3.8)
    left, right = axes[0]
    _load_duration(left, screen.demand)
    left.set_title("(a) " + left.get_title(loc="left"))
    headroom = screen.data["headroom"].median("offset")
    base = headroom.isel(profile=0)
    ratios = (headroom / base.where(base > 0)).to_numpy().reshape(len(screen.profiles), -1)
    cases = [(m, b) for m in screen.data["margin"].to_numpy() for b in screen.data["budget"].to_numpy()]
    # Where the first profile has no headroom at one budget of a margin, it has none at the others either.
    shown = np.isfinite(ratios).all(axis=0)
    labels = [f"{100 * m:g} / {100 * b:g}" for (m, b), there in zip(cases, shown, strict=True) if there]
    for profile, values, colour in zip(screen.profiles[1:], ratios[1:], _colours()[1:], strict=False):
        places = np.arange(len(labels)).reshape(-1, len(screen.data["budget"]))
        for block, part in zip(places, values[shown].reshape(places.shape), strict=True):
            label = profile.name if block[0] == 0 else None
            right.plot(block, part, color=colour, marker="o", markersize=3, label=label)
    right.set_xticks(range(len(labels)), labels, rotation=90, fontsize=6)
    right.set(xlabel="margin / budget (%)", ylabel=f"headroom over that of '{screen.profiles[0].name}'", yscale="log")
    right.yaxis.set_major_formatter("{x:g}")
    right.yaxis.set_minor_formatter("{x:g}")
    right.set_title("(b) headroom ratios")
    legend(right, fontsize=7)
    return figure


@styled
def plot_load_duration(demand: Demand) -> Figure:
    """Draw the top of the load-duration curve (Fig. 18a of [2])."""
    figure, axes = canvas(width=4.2)
    _load_duration(axes[0, 0], demand)
    return figure


def _load_duration(axes: Axes, demand: Demand) -> None:
    falling = demand.series.sort_values(ascending=False, kind="stable").head(TOP)
    axes.step(np.arange(falling.size), falling / 1e3, where="post", color=CYCLE[0], label="demand")
    touched = falling.index.isin(demand.touched)
    if touched.any():
        axes.plot(
            np.flatnonzero(touched) + 0.5,
            falling[touched] / 1e3,
            color=CYCLE[1],
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


def _colours() -> list[str]:
    return [CYCLE[5], *CYCLE[:5], CYCLE[6]]
