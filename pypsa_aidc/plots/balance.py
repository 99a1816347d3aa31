"""What feeds a network and what it feeds, over time; Fig. 8 of [1]."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from pypsa_aidc.plots.style import (
    BLACK,
    BLUE,
    BROWN,
    CYCLE,
    GREY,
    WIDTH,
    legend,
    power_unit,
    slot_edges,
    styled,
    time_axis,
)

MOST_SOURCES = 6
"""Largest sources, each drawn apart; the others are drawn together, since colours run out before carriers do."""

OTHERS = "other sources"
NO_SOURCES = ("storage", "curtailment", "AIDC", "other load")
_LITTLE = 0.05
"""Share of the whole power below which the AIDCs get axes of their own, since nobody could see them else."""
_DUST = 5e-3
"""Share of the largest power below which storage and curtailment would be lines without an area."""


@styled
def plot_balances(balances: Mapping[str, pd.DataFrame], carriers: pd.DataFrame) -> Figure:
    """Draw sources, storage and loads of one network or of several runs of it, one panel each.

    Parameters
    ----------
    balances
        By title, from ``n.aidc.balance()``, MW.
    carriers
        ``n.carriers``: its `color` and `nice_name` are used where they are given.
    """
    drawn = {title: fewer_sources(frame) for title, frame in balances.items()}
    sources = dict.fromkeys(str(name) for frame in drawn.values() for name in frame if name not in NO_SOURCES)
    colours, names = source_colours(carriers, list(sources)), _nice_names(carriers)
    small = {title: _is_small(frame) for title, frame in drawn.items()}
    heights = [ratio for own in small.values() for ratio in ((3.0, 1.2) if own else (3.0,))]
    figure = Figure(figsize=(WIDTH, 0.8 + 0.85 * sum(heights)), layout="constrained")
    axes = iter(figure.subplots(len(heights), 1, sharex=True, squeeze=False, height_ratios=heights)[:, 0])
    last: Axes | None = None
    for title, frame in drawn.items():
        last = next(axes)
        _draw_balance(last, frame, colours, names)
        last.set_title(title)
        legend(last)
        if small[title]:
            last = next(axes)
            _draw_alone(last, frame["AIDC"])
    if last is not None:
        time_axis(last, next(iter(drawn.values())).index)
    return figure


def _draw_balance(axes: Axes, frame: pd.DataFrame, colours: Mapping[str, str], names: Mapping[str, str]) -> None:
    largest = float(frame.abs().to_numpy().max())
    unit, scale = power_unit(largest)
    edges, base, below = slot_edges(frame.index), np.zeros(len(frame)), np.zeros(len(frame))
    dust = _DUST * scale * largest
    axes.set_ylabel(f"power ({unit})")
    stacked: list[tuple[NDArray[np.float64], dict[str, Any], str]] = []
    for source in [str(name) for name in frame if name not in NO_SOURCES]:
        look: dict[str, Any] = {"facecolor": colours[source], "edgecolor": "white", "linewidth": 0.4}
        stacked.append((scale * frame[source].to_numpy(), look, names.get(source, source)))
    look = {"facecolor": "white", "edgecolor": GREY, "hatch": "....", "linewidth": 0.6}
    stacked.append((scale * frame["storage"].to_numpy(), look, "storage, charging below 0"))
    for power, look, label in stacked:
        top = base + power.clip(min=0)
        if max(power.max(), -power.min()) > dust or label in colours.keys() | names.values():
            axes.stairs(top, edges, baseline=base, fill=True, label=label, **look)
        if power.min() < -dust:
            axes.stairs(below + power.clip(max=0), edges, baseline=below, fill=True, **look)
            below = below + power.clip(max=0)
        base = top
    lost = scale * frame["curtailment"].to_numpy()
    if lost.max() > dust:
        style: dict[str, Any] = {"facecolor": "none", "edgecolor": BROWN, "hatch": "////"}
        axes.stairs(base + lost, edges, baseline=base, fill=True, label="curtailment", **style)
    other, own = (scale * frame[name].to_numpy() for name in ("other load", "AIDC"))
    if other.max() > dust:
        axes.stairs(
            other, edges, baseline=None, color=BLACK, linewidth=1.4, linestyle=(0, (4, 1.5)), label="other load"
        )
        label = "other load + AIDC"
    else:
        label = "AIDC"
    axes.stairs(other + own, edges, baseline=None, color="white", linewidth=3.4)
    axes.stairs(other + own, edges, baseline=None, color=BLACK, linewidth=1.8, label=label)
    axes.axhline(0, color=GREY, linewidth=0.8, zorder=0)


def _draw_alone(axes: Axes, power: pd.Series) -> None:
    unit, scale = power_unit(float(power.max()))
    axes.stairs(scale * power.to_numpy(), slot_edges(power.index), fill=True, color=BLUE)
    axes.set(ylabel=f"AIDC ({unit})", ylim=(0, None), title="AIDC alone, at the meter")


def _is_small(frame: pd.DataFrame) -> bool:
    whole = float((frame["AIDC"] + frame["other load"]).max())
    return float(frame["AIDC"].max()) < _LITTLE * whole


def fewer_sources(frame: pd.DataFrame) -> pd.DataFrame:
    """Keep the largest sources of a balance that feed at all, and add up the others."""
    sources = frame.drop(columns=list(NO_SOURCES)).sum().sort_values(ascending=False, kind="stable")
    kept = list(sources.index[:MOST_SOURCES][sources.to_numpy()[:MOST_SOURCES] > 0])
    rest = frame[sources.index.difference(kept)].sum(axis=1)
    fewer = frame[[name for name in frame if name in kept]]
    fewer = fewer.assign(**{OTHERS: rest}) if rest.abs().max() > 0 else fewer
    return fewer.join(frame[list(NO_SOURCES)])


def source_colours(carriers: pd.DataFrame, sources: Sequence[str]) -> dict[str, str]:
    """Colours of the network's carriers where they have one, and of the palette where not."""
    given = carriers["color"].fillna("").to_dict()
    free = iter([colour for colour in CYCLE if colour not in given.values()] * len(sources))
    return {name: GREY if name == OTHERS else str(given.get(name) or next(free, GREY)) for name in sources}


def _nice_names(carriers: pd.DataFrame) -> dict[str, str]:
    given = carriers["nice_name"].fillna("")
    return {str(name): str(nice) for name, nice in given.items() if nice}
