"""The modes of a training job: what they do with their power, and what they hold in memory; Fig. 9 of [1]."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from pypsa_aidc.plots.style import BLACK, BLUE, BROWN, GREY, canvas, legend, place_labels, power_unit, styled

if TYPE_CHECKING:
    from pypsa_aidc.training import ModeTable

_NAMED = 8
"""Modes of the frontier that are named at most: more names would cover the modes."""
_PETA = 1e15


@styled
def plot_modes(table: ModeTable) -> Figure:
    """Draw the throughput of each feasible mode over its power, with memory as size, and memory over GPUs.

    Effective modes, those that no other dominates, are joined by a line; they are named pipeline·tensor·data.
    """
    from pypsa_aidc.training.layout import labels

    frame = table.to_frame()
    shown = frame[~frame["reason"].str.startswith(("divisibility", "memory", "pool"))]
    effective = (shown["reason"] == "").to_numpy()
    frontier = shown[effective].sort_values("it_power")
    figure, axes = canvas(2, 1, height=6.4)
    upper, lower = axes[:, 0]
    unit, scale = power_unit(float(shown["it_power"].max()))
    sizes = _sizes(shown["memory_gb"])
    for axis, x, y in (
        (upper, scale * shown["it_power"], shown["flops_per_s"] / _PETA),
        (lower, shown["gpus"], shown["memory_gb"]),
    ):
        axis.scatter(x[~effective], y[~effective], sizes[~effective], color=GREY, alpha=0.45, linewidths=0)
        axis.scatter(x[effective], y[effective], sizes[effective], color=BLUE, edgecolors=BLACK, zorder=3)
    upper.plot(
        scale * frontier["it_power"], frontier["flops_per_s"] / _PETA, color=BROWN, linewidth=1.2, label="frontier"
    )
    upper.scatter([], [], 30, color=BLUE, edgecolors=BLACK, label="effective")
    upper.scatter([], [], 30, color=GREY, alpha=0.45, linewidths=0, label="feasible, dominated")
    known = shown["memory_gb"].dropna()
    if len(known):
        for memory in (known.min(), known.max()):
            area = float(_sizes(pd.Series([memory]), float(known.max()))[0])
            upper.scatter([], [], area, facecolors="none", edgecolors=BLACK, label=f"{memory:,.3g} GB a GPU")
    upper.set(xlabel=f"IT power ({unit})", ylabel="throughput (PFLOP/s)", xlim=(0, None), ylim=(0, None))
    upper.set_title(f"{table.job}: {len(shown)} feasible, {len(frontier)} effective modes".lstrip(": "))
    upper.margins(0.08)
    legend(upper)
    lower.set_xscale("log", base=2)
    counts = 2.0 ** np.arange(np.floor(np.log2(shown["gpus"].min())), np.ceil(np.log2(shown["gpus"].max())) + 1)
    lower.set_xticks(counts, [f"{count:,g}" for count in counts])
    lower.minorticks_off()
    lower.set(xlabel="GPUs", ylabel="memory on the fullest GPU (GB)", ylim=(0, None))
    lower.set_title("memory of the same modes")
    named = _spread(frontier)
    names = labels(named)
    place_labels(upper, [*zip(scale * named["it_power"], named["flops_per_s"] / _PETA, names, strict=True)], side=-1)
    return figure


def _sizes(memory: pd.Series, most: float | None = None) -> np.ndarray:
    """Areas of markers in square points; the same for all where the memory is not known."""
    largest = float(memory.max()) if most is None else most
    return (90 * memory / largest).fillna(30.0).to_numpy(float) + 8


def _spread(frontier: pd.DataFrame) -> pd.DataFrame:
    """At most so many modes, apart from each other in power, the largest among them."""
    span = frontier["it_power"].max() / _NAMED
    chosen: list[int] = []
    last = np.inf
    for place, power in reversed(list(enumerate(frontier["it_power"]))):
        if last - power >= span:
            chosen.append(place)
            last = power
    return frontier.iloc[chosen]
