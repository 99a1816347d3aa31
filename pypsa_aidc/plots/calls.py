"""What a fleet on a network draws, sheds and draws again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from pypsa_aidc.plots.style import (
    BLACK,
    BLUE,
    GREY,
    ORANGE,
    PINK,
    TINT,
    canvas,
    legend,
    positions,
    power_unit,
    slot_edges,
    styled,
    time_axis,
)

if TYPE_CHECKING:
    from pypsa_aidc.network.results.accessor import Results

_LEAST_APART = 0.05
"""Share of the horizon between two calls of a fleet from which there is room for their durations."""


@styled
def plot_calls(results: Results, fleet: str) -> Figure:
    """Draw what a fleet draws at its meter, and below it relief and rebound, with its calls marked in both."""
    power, calls = pd.DataFrame(results.expected(results.power())[fleet]), results.calls()
    calls = calls[calls["fleet"] == fleet].drop_duplicates(["start", "last"])
    figure, axes = canvas(2, 1, sharex=True, height_ratios=[3, 2])
    upper, lower = axes[:, 0]
    edges = slot_edges(power.index)
    lefts, rights = edges[positions(power.index, calls["start"])], edges[positions(power.index, calls["last"]) + 1]
    highest = float(power[["load", "meter"]].to_numpy().max(initial=0.0))
    unit, scale = power_unit(highest)
    for axis in (upper, lower):
        for call, (left, right) in enumerate(zip(lefts, rights, strict=True)):
            axis.axvspan(left, right, color=TINT, linewidth=0, zorder=0, label="" if call else "call")
    # The load is below and wider: where nothing is called, both are the same.
    load: dict[str, Any] = {"color": BLACK, "linewidth": 2.6, "linestyle": (0, (3, 1)), "label": "load without relief"}
    upper.stairs(scale * power["load"].to_numpy(), edges, baseline=None, **load)
    upper.stairs(scale * power["meter"].to_numpy(), edges, baseline=None, color=BLUE, linewidth=1.6, label="meter")
    relief: dict[str, Any] = {"facecolor": ORANGE, "hatch": "////", "edgecolor": "white", "label": "relief"}
    lower.stairs(scale * power["relief"].to_numpy(), edges, fill=True, **relief)
    if power["rebound"].any():
        lower.stairs(-scale * power["rebound"].to_numpy(), edges, fill=True, color=PINK, label="rebound")
    middles = (lefts + rights) / 2
    if np.diff(middles, prepend=-np.inf).min(initial=np.inf) > _LEAST_APART * (edges[-1] - edges[0]):
        for middle, hours in zip(middles, calls["duration"], strict=True):
            place = {"transform": upper.get_xaxis_transform(), "ha": "center", "va": "top"}
            upper.text(middle, 0.98, f"{hours:g} h", fontsize=8, **place)
    # Room above the power, for the durations.
    upper.set(ylabel=f"power ({unit})", ylim=(0, 1.2 * scale * highest or 1.0), title=fleet)
    lower.axhline(0, color=GREY, linewidth=0.8)
    lower.set(ylabel=f"relief ({unit})", title="relief, and rebound below 0")
    for axis in (upper, lower):
        legend(axis)
    time_axis(lower, power.index)
    return figure
