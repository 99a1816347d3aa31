"""What all figures share: palette, sizes, axes that say what they show, and the word on made-up data."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import wraps
from itertools import pairwise
from math import ceil
from threading import RLock
from typing import Any, ParamSpec

import matplotlib.dates as dates
import matplotlib.style
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.collections import LineCollection
from matplotlib.container import BarContainer
from matplotlib.figure import Figure
from matplotlib.patheffects import withStroke
from matplotlib.rcsetup import cycler
from matplotlib.ticker import FuncFormatter, LogFormatter, LogLocator, NullFormatter, ScalarFormatter
from numpy.typing import NDArray

PALETTE = {
    "blue": "#0b4fa0",
    "orange": "#f0a50b",
    "green": "#1e6b3a",
    "pink": "#eba0d0",
    "sky": "#5aaaf5",
    "brown": "#b5520a",
    "grey": "#767a7e",
    "black": "#1a1a1a",
}
"""All colours of the package: any two differ by more than 20 CIELAB units, also to deuteranopes and protanopes."""

BLUE, ORANGE, GREEN, PINK, SKY, BROWN, GREY, BLACK = PALETTE.values()
CYCLE = (BLUE, ORANGE, GREEN, PINK, SKY, BROWN)
"""Colours of series, in order."""
DASHES: tuple[Any, ...] = ("-", (0, (5, 1.5)), (0, (1, 1)), (0, (6, 1.5, 1, 1.5)), (0, (3, 1, 1, 1, 1, 1)), (0, (9, 2)))
MARKS = ("o", "s", "^", "D", "v", "X")
HATCHES = ("", "////", "....", "\\\\\\\\", "xxxx", "----")
TINT = "#fbe9c4"
"""Background of spans, such as calls."""
MAP = "viridis"
"""Colour map of sizes: its lightness rises, so that it reads without colour vision."""

LAYER_COLOURS = {"floor": GREY, "shift": ORANGE, "eligible": GREEN, "standby": SKY}
LAYER_NAMES = {
    "floor": "floor",
    "shift": "shift (semantic pool, not an offer)",
    "eligible": "eligible, attributed (upper bound)",
    "standby": "standby",
}

WIDTH = 6.4
"""Inches of every figure: letters stay readable where a page is 400 pixels wide."""

STYLE: Any = {
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.prop_cycle": cycler(color=CYCLE),
    "axes.titlelocation": "left",
    "axes.titlesize": 10,
    "axes.labelsize": 9,
    "figure.titlesize": 10,
    "font.size": 9,
    "grid.color": "#e3e6e8",
    "grid.linewidth": 0.7,
    "hatch.linewidth": 0.6,
    "legend.frameon": False,
    "legend.fontsize": 8,
    "lines.linewidth": 1.6,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
}

_SMALL, _ROW, _TITLE = 8, 12.5, 5.0
"""Points: letters of ticks and legends, a row of a legend, and the least room below a title."""

Given = ParamSpec("Given")
_drawing = RLock()


@contextmanager
def house_style(settings: Mapping[str, Any] | None = None) -> Iterator[None]:
    """Draw and write in the house style, whatever style the user has set, and leave theirs as it was.

    The style of matplotlib is one for the whole process, so that only one thread at a time draws.
    """
    with _drawing, matplotlib.style.context(["default", STYLE | (settings or {})]):
        yield


def styled(plot: Callable[Given, Figure]) -> Callable[Given, Figure]:
    """Draw in the house style, whatever style the user has set, and leave theirs as it was.

    Numbers at the axes get thousands separators.
    """

    @wraps(plot)
    def drawn(*args: Given.args, **options: Given.kwargs) -> Figure:
        with house_style():
            figure = plot(*args, **options)
            for axes in figure.axes:
                for axis in (axes.xaxis, axes.yaxis):
                    _separate_thousands(axis)
            return figure

    return drawn


def canvas(
    rows: int = 1, columns: int = 1, *, height: float = 0.0, synthetic: bool = False, **options: Any
) -> tuple[Figure, NDArray[Any]]:
    """Make a figure of the width of all figures with a grid of axes; a figure of synthetic data says so.

    Parameters
    ----------
    rows, columns
        Of axes.
    height
        Inches; 3.2 for the first row and 2.4 for each further one if 0.
    synthetic
        Whether the data come from the synthetic fleet.
    options
        Passed on to `Figure.subplots`, e.g. ``width_ratios``.

    Returns
    -------
    Figure, array of Axes of shape (rows, columns)
    """
    figure = Figure(figsize=(WIDTH, height or 0.8 + 2.4 * rows), layout="constrained")
    if synthetic:
        figure.suptitle("synthetic fleet", x=0.995, ha="right", fontsize=_SMALL, color=BROWN)
    return figure, figure.subplots(rows, columns, squeeze=False, **options)


def line(number: int) -> dict[str, Any]:
    """Colour, dashes and marker of the series of a number: what tells lines apart, with and without colours."""
    place = number % len(CYCLE)
    return {"color": CYCLE[place], "linestyle": DASHES[number // len(CYCLE) % len(DASHES)], "marker": MARKS[place]}


def under(number: int, count: int) -> dict[str, Any]:
    """Colour, dashes and width of one of several lines that may coincide: each is narrower than the ones below it."""
    widths = np.linspace(1.2 + 1.1 * min(count - 1, 3), 1.2, count)
    return {"color": CYCLE[number % len(CYCLE)], "linewidth": widths[number], "linestyle": DASHES[number % len(DASHES)]}


def legend(axes: Axes) -> None:
    """Add a legend between title and axes, outside the data, unless there is nothing to name."""
    handles, labels = axes.get_legend_handles_labels()
    if not labels:
        return
    figure = axes.get_figure(root=True)
    assert figure is not None, "axes without a figure"
    grid = axes.get_subplotspec()
    share = 1.0 if grid is None else _share_of_width(grid)
    room = 72 * figure.get_figwidth() * share - 45
    entry = 4.4 * max(map(len, labels)) + 36
    columns = min(len(labels), max(int(room // entry), 1))
    place: dict[str, Any] = {"loc": "lower left", "bbox_to_anchor": (-0.01, 1.0), "borderaxespad": 0.2}
    axes.legend(handles, labels, ncols=columns, handlelength=2.2, columnspacing=1.2, borderpad=0.2, **place)
    title = axes.get_title(loc="left")
    axes.set_title(title, loc="left", pad=_TITLE + _ROW * ceil(len(labels) / columns))


def _share_of_width(grid: Any) -> float:
    ratios = grid.get_gridspec().get_width_ratios()
    return float(sum(ratios[grid.colspan.start : grid.colspan.stop]) / sum(ratios))


def label_bars(axes: Axes, bars: BarContainer, texts: Iterable[str], errors: Sequence[float] | None = None) -> None:
    """Write beyond the end of each bar, and beyond its error bar, and make room for it."""
    horizontal = bars.orientation == "horizontal"
    beyond = np.zeros(len(bars)) if errors is None else np.nan_to_num(np.asarray(errors, float))
    for bar, text, error in zip(bars, texts, beyond, strict=True):
        value = bar.get_width() if horizontal else bar.get_height()
        sign = -1 if value < 0 else 1
        start = bar.get_x() if horizontal else bar.get_y()
        end = start + value + sign * error
        if horizontal:
            at, offset, align = (end, bar.get_y() + bar.get_height() / 2), (4 * sign, 0), ("left", "center")
            align = align if sign > 0 else ("right", "center")
        else:
            at, offset, align = (bar.get_x() + bar.get_width() / 2, end), (0, 2 * sign), ("center", "bottom")
            align = align if sign > 0 else ("center", "top")
        axes.annotate(
            text,
            at,
            offset,
            textcoords="offset points",
            ha=align[0],
            va=align[1],
            fontsize=_SMALL,
            annotation_clip=False,
        )


def duration_axis(axes: Axes, durations: Sequence[int]) -> None:
    """Make the x axis logarithmic, with the durations themselves as ticks."""
    axes.set_xscale("log", base=2)
    axes.set_xticks(list(durations), [f"{h:,g}" for h in durations])
    axes.minorticks_off()
    axes.set_xlabel("duration (h)")


def power_unit(largest: float) -> tuple[str, float]:
    """Return the unit in which powers up to `largest` MW are drawn, and the factor from MW to it."""
    if largest >= 20_000:
        return "GW", 1e-3
    return ("kW", 1e3) if largest < 2 else ("MW", 1.0)


def positions(snapshots: pd.Index, labels: Iterable[object]) -> NDArray[np.int64]:
    """Return the places of labels, which are tuples where the snapshots have periods."""
    place = {label: position for position, label in enumerate(snapshots)}
    return np.array([place[label] for label in labels], dtype=np.int64)


def slot_edges(index: pd.Index) -> NDArray[np.float64]:
    """Borders of the slots, the last as long as the one before it; days since 1970, or numbers of slots."""
    if isinstance(index, pd.MultiIndex) or not isinstance(index, pd.DatetimeIndex):
        return np.arange(len(index) + 1.0)
    starts: NDArray[np.float64] = np.array(dates.date2num(index.to_pydatetime()))
    last = starts[-1] - starts[-2] if len(starts) > 1 else 1 / 24
    return np.append(starts, starts[-1] + last)


def time_axis(axes: Axes, index: pd.Index) -> None:
    """Label the time axis of slots drawn at `slot_edges`: whole dates in the label, short ones at the ticks."""
    edges = slot_edges(index)
    axes.set_xlim(edges[0], edges[-1])
    if isinstance(index, pd.MultiIndex):
        periods = index.get_level_values(0)
        starts = np.flatnonzero(np.append(True, periods[1:] != periods[:-1]))
        axes.set_xticks(starts, [str(periods[int(start)]) for start in starts])
        axes.set_xlabel("snapshot, by period")
        return
    if not isinstance(index, pd.DatetimeIndex):
        axes.set_xlabel("snapshot")
        return
    first, last = (pd.Timestamp(dates.num2date(edge)) for edge in (edges[0], edges[-1] - 1e-6))
    days = f"{first:%Y-%m-%d}" if first.date() == last.date() else f"{first:%Y-%m-%d} to {last:%Y-%m-%d}"
    axes.set_xlabel(f"time ({days})")
    span = edges[-1] - edges[0]
    locator: Any = dates.AutoDateLocator(minticks=3, maxticks=8)
    if 0.25 < span <= 3:
        locator = dates.HourLocator(byhour=range(0, 24, 3 if span <= 1.1 else 6 if span <= 2 else 12))
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(
        dates.ConciseDateFormatter(
            locator,
            formats=["%Y", "%b", "%d %b", "%H:%M", "%H:%M", "%S"],
            zero_formats=["", "%Y", "%d %b", "%d %b" if span > 1.1 else "%H:%M", "%H:%M", "%H:%M"],
            show_offset=False,
        )
    )


def _separate_thousands(axis: Axis) -> None:
    """Write numbers at the ticks as people read them; leaves words, dates and chosen ticks alone."""
    if isinstance(axis.get_major_formatter(), ScalarFormatter):
        axis.set_major_formatter(FuncFormatter(_number))
    elif axis.get_scale() != "linear" and isinstance(axis.get_major_formatter(), LogFormatter):
        axis.set_major_formatter(FuncFormatter(_number))
        low, high = sorted(axis.axes.get_xlim() if axis is axis.axes.xaxis else axis.axes.get_ylim())
        within_a_decade = axis.get_scale() == "log" and high < 15 * low
        if within_a_decade:
            axis.set_minor_locator(LogLocator(subs=(1.2, 1.5, 2.0, 3.0, 5.0, 7.0)))
        axis.set_minor_formatter(FuncFormatter(_number) if within_a_decade else NullFormatter())


def _number(value: float, _place: object = None) -> str:
    """A number at a tick.

    Examples
    --------
    >>> [_number(value) for value in (12000, -0.30000000000000004, 2.5e-7, 0.0)]
    ['12,000', '−0.3', '2.5e−07', '0']
    """
    return f"{value:,.9g}".replace("-", "−") if abs(value) < 1e7 else f"{value:.3g}".replace("e+0", "e")


def place_labels(axes: Axes, tags: Sequence[tuple[float, float, str]], gap: float = 5.0, side: int = 1) -> None:
    """Write texts beside points where they hide neither each other nor leave the axes; those without room are left out.

    Where there is a choice, no line of the axes runs through a text.

    Parameters
    ----------
    axes
        With everything else in place, limits included.
    tags
        Place and text of each, the most telling first.
    gap
        Points between a place and its text.
    side
        Where there is room on both, a text stands to the right (1) or to the left (-1).
    """
    figure = axes.get_figure(root=True)
    assert figure is not None, "axes without a figure"
    figure.draw_without_rendering()
    inside, scale = axes.get_window_extent(), figure.dpi / 72
    # No label on another's point.
    lines = _strokes(axes)
    taken = [(px - 3 * scale, px + 3 * scale, py - 3 * scale, py + 3 * scale) for px, py in _pixels(axes, tags)]
    for (px, py), (x, y, text) in zip(_pixels(axes, tags), tags, strict=True):
        width, height = 0.55 * 7 * scale * len(text), 8.5 * scale
        chosen: tuple[int, Any, Any, Any] | None = None
        for turn, up in ((1, 1), (1, -1), (-1, 1), (-1, -1), (0, 1), (0, -1), (1, 0), (-1, 0)):
            right = side * turn
            dx, dy = gap * right, 0.9 * gap * up
            low = px + dx * scale - (0 if right > 0 else width if right < 0 else width / 2)
            base = py + dy * scale - (0 if up > 0 else height if up < 0 else height / 2)
            box = (low, low + width, base, base + height)
            within = box[0] >= inside.x0 and box[1] <= inside.x1 and box[2] >= inside.y0 and box[3] <= inside.y1
            if within and not any(
                box[0] < x1 and box[1] > x0 and box[2] < y1 and box[3] > y0 for x0, x1, y0, y1 in taken
            ):
                crossed = int(((lines > box[::2]) & (lines < box[1::2])).all(axis=1).sum())
                if chosen is None or crossed < chosen[0]:
                    chosen = (crossed, box, (dx, dy), (right, up))
        if chosen is not None:
            _, box, offset, (right, up) = chosen
            taken.append(box)
            axes.annotate(
                text,
                (x, y),
                offset,
                textcoords="offset points",
                ha={1: "left", -1: "right", 0: "center"}[right],
                va={1: "bottom", -1: "top", 0: "center"}[up],
                fontsize=7,
                color=BLACK,
                zorder=6,
                path_effects=[withStroke(linewidth=2, foreground="white")],
            )


def _strokes(axes: Axes) -> NDArray[np.float64]:
    """Points along all lines of some axes, in pixels."""
    paths = [np.asarray(line.get_xydata(), float) for line in axes.lines]
    paths += [path for drawn in axes.collections if isinstance(drawn, LineCollection) for path in drawn.get_segments()]
    steps = np.linspace(0.0, 1.0, 65)[:, None]
    points = [a + steps * (b - a) for path in paths for a, b in pairwise(path)]
    return np.asarray(axes.transData.transform(np.vstack([np.empty((0, 2)), *points])))


def _pixels(axes: Axes, tags: Sequence[tuple[float, float, str]]) -> list[tuple[float, float]]:
    return [(float(px), float(py)) for px, py in (axes.transData.transform((x, y)) for x, y, _ in tags)]
