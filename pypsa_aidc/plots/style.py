"""What all figures share: size, colours, axes that say what they show, and the word on made-up data."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, ParamSpec

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.rcsetup import cycler

LAYER_COLOURS = {"floor": "#5b6770", "shift": "#d9a441", "eligible": "#3f8f6b", "standby": "#5a8fbf"}
LAYER_NAMES = {
    "floor": "floor",
    "shift": "shift (semantic pool, not an offer)",
    "eligible": "eligible, attributed (upper bound)",
    "standby": "standby",
}
CYCLE = ("#22577a", "#d1495b", "#3f8f6b", "#d9a441", "#7d5ba6", "#5b6770", "#8d6346")
"""Colours of lines, distinguishable in print."""

STYLE: Any = {
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.prop_cycle": cycler(color=CYCLE),
    "axes.titlelocation": "left",
    "axes.titlesize": 10,
    "axes.labelsize": 9,
    "grid.color": "#e3e6e8",
    "grid.linewidth": 0.7,
    "legend.frameon": False,
    "legend.fontsize": 8,
    "lines.linewidth": 1.6,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
}


Given = ParamSpec("Given")


def styled(plot: Callable[Given, Figure]) -> Callable[Given, Figure]:
    """Draw in the house style, whatever style the user has set, and leave theirs as it was."""

    @wraps(plot)
    def drawn(*args: Given.args, **options: Given.kwargs) -> Figure:
        with mpl.rc_context(STYLE):
            return plot(*args, **options)

    return drawn


def canvas(
    rows: int = 1,
    columns: int = 1,
    *,
    width: float = 7.2,
    height: float = 3.4,
    synthetic: bool = False,
    **options: Any,
) -> tuple[Figure, np.ndarray[Any, np.dtype[Any]]]:
    """Make a figure with a grid of axes; a figure of synthetic data says so.

    Parameters
    ----------
    rows, columns
        Of axes.
    width, height
        Inches.
    synthetic
        Whether the data come from the synthetic fleet.
    options
        Passed on to `Figure.subplots`, e.g. ``width_ratios``.

    Returns
    -------
    Figure, array of Axes of shape (rows, columns)
    """
    figure = Figure(figsize=(width, height), layout="constrained")
    if synthetic:
        figure.suptitle("synthetic fleet", x=0.995, ha="right", fontsize=7, color="#b03030")
    return figure, figure.subplots(rows, columns, squeeze=False, **options)


def legend(axes: Axes, **options: Any) -> None:
    """Add a legend, unless there is nothing to name."""
    handles, labels = axes.get_legend_handles_labels()
    if labels:
        axes.legend(handles, labels, **options)


def label_bars(axes: Axes, positions: Sequence[float], values: Sequence[float], text: str = "{:.2f}") -> None:
    """Write the value above each bar."""
    for position, value in zip(positions, values, strict=True):
        axes.annotate(
            text.format(value), (position, value), (0, 2), textcoords="offset points", ha="center", fontsize=8
        )
