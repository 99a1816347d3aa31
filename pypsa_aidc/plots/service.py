"""Drawings of a service study: when loads are cut, for how many hours how deep, and how the batch fares by year."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pypsa_aidc.plots.style import BLUE, CYCLE, GREEN, HATCHES, MAP, canvas, label_bars, legend, styled

if TYPE_CHECKING:
    from pypsa_aidc.headroom import ServiceStudy

_WAYS = {"fixed": "fixed dispatch", "redispatch": "redispatch"}
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


@styled
def plot_replay(
    study: ServiceStudy, request: str | None = None, year: int | None = None, dispatch: str = "fixed"
) -> Figure:
    """Draw the mean cut over hours of the day and months, and the duration curve of all cuts.

    Parameters
    ----------
    study
        The study.
    request, year, dispatch
        As of `ServiceStudy.plot`.
    """
    table = study.cut(request, year, dispatch)
    dated = isinstance(table.index, pd.DatetimeIndex)
    figure, axes = canvas(2 if dated else 1, height=5.8 if dated else 3.2)
    which = f"{request or 'all requests'}{'' if year is None else f', {year}'}, {_WAYS[dispatch]}"
    if dated:
        _draw_map(axes[0, 0], table["cut"], f"Mean cut, {which}")
    _draw_duration(axes[-1, 0], table, which)
    return figure


@styled
def plot_allocation(study: ServiceStudy) -> Figure:
    """Draw the firm megawatts of each request and year, with the conditional ones on top, both ways of dispatch.

    Parameters
    ----------
    study
        The study.
    """
    table = study.allocation
    ways = list(table.index.unique("dispatch"))
    figure, axes = canvas(1, height=0.9 + 0.32 * len(table))
    area = axes[0, 0]
    place = np.arange(len(table))[::-1]
    firm, conditional = table["firm"].to_numpy(float), table["conditional"].to_numpy(float)
    for number, way in enumerate(ways):
        mine = table.index.get_level_values("dispatch") == way
        colour = CYCLE[number]
        area.barh(place[mine], firm[mine], 0.7, color=colour, label=f"firm, {_WAYS[way]}")
        more = (conditional - firm)[mine]
        drawn = {"facecolor": "white", "edgecolor": colour, "hatch": HATCHES[1]}
        bars = area.barh(place[mine], more, 0.7, left=firm[mine], label=f"conditional, {_WAYS[way]}", **drawn)
        hours = table["hours"].to_numpy(float)[mine]
        label_bars(area, bars, [f"{time:,.0f} h" if time else "" for time in hours])
    names = [" ".join(filter(None, (str(name), str(year)))) for year, name, _ in table.index]
    area.set_yticks(place, names)
    area.set_xlabel("MW; hours in which it is cut")
    area.set_title("Firm and conditional megawatts")
    legend(area)
    return figure


def _draw_map(axes: Axes, cut: pd.Series[float], title: str) -> None:
    index = pd.DatetimeIndex(cut.index)
    grid = np.full((12, 24), np.nan)
    np.put(grid, 24 * (index.month - 1) + index.hour, 0.0)
    mean = cut.groupby(24 * (index.month.to_numpy() - 1) + index.hour.to_numpy()).mean()
    np.put(grid, mean.index.to_numpy(), mean.to_numpy())
    highest = max(float(np.nanmax(grid)), 1e-9)
    drawn = axes.imshow(grid, aspect="auto", cmap=MAP, vmin=0.0, vmax=highest, interpolation="nearest")
    axes.set_xticks(range(0, 24, 3))
    axes.set_yticks(range(12), _MONTHS)
    axes.set_xlabel("hour of the day")
    axes.grid(visible=False)
    axes.set_title(title)
    figure = axes.get_figure(root=True)
    assert figure is not None, "axes without a figure"
    figure.colorbar(drawn, ax=axes, label="MW")


def _draw_duration(axes: Axes, table: pd.DataFrame, which: str) -> None:
    ordered = table.sort_values("cut", ascending=False)
    ordered = ordered[ordered["cut"] > 0]
    hours = np.arange(len(ordered) + 1)
    for name, colour, label in (("cut", BLUE, "cut"), ("delivered", GREEN, "of it delivered by the load itself")):
        values = np.append(ordered[name].to_numpy(float), 0.0)
        axes.step(hours, values, where="post", color=colour, label=label)
    axes.fill_between(hours, np.append(ordered["cut"].to_numpy(float), 0.0), step="post", color=BLUE, alpha=0.12)
    axes.set_xlim(0, max(len(ordered), 1))
    axes.set_ylim(bottom=0)
    axes.set_xlabel("snapshots with a cut, the deepest first")
    axes.set_ylabel("MW")
    axes.set_title(f"Duration of cuts, {which}")
    legend(axes)
