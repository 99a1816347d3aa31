"""Tables and figures as HTML, the same in notebooks and reports: escaped, with units, decimals under each other."""

from __future__ import annotations

import math
from base64 import b64encode
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from html import escape
from io import BytesIO
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

STYLE = """
.aidc table { border-collapse: collapse; color: inherit; background: none; font-size: .85rem;
  font-variant-numeric: tabular-nums; }
.aidc caption { padding: .5rem 0 .25rem; color: inherit; font-weight: 600; text-align: left; white-space: nowrap; }
.aidc th, .aidc td { padding: .3rem .6rem .3rem 0; border: 0; border-bottom: 1px solid rgba(128, 128, 128, .35);
  text-align: left; vertical-align: top; white-space: nowrap; }
.aidc th { border-bottom: 2px solid; font-weight: 600; vertical-align: bottom; white-space: normal; }
.aidc .unit { font-weight: 400; white-space: nowrap; }
.aidc td.words { min-width: min(14rem, 28vw); white-space: normal; }
.aidc th.number, .aidc td.number { text-align: right; }
.aidc .wide { margin: .5rem 0 1rem; overflow-x: auto; }
/* Figures are drawn on white, and stay so in the dark: colours of carriers are chosen for it. */
.aidc img { display: block; box-sizing: border-box; max-width: 100%; height: auto; padding: .25rem; background: #fff;
  border-radius: .3rem; }
"""
"""Looks of tables and figures; colours are those of the page around them, light or dark."""

LONGEST_LINE = 28
"""Characters of a cell beyond which its column may break into lines."""

DIGITS = 5
"""Significant digits of the largest number of a column; smaller ones keep its decimals."""

CENTS = 2
"""Least decimals of money, as long as it is below a million."""

LARGEST_FIGURE = 60_000
"""Characters of a figure in a notebook, which is kept with every output."""

NARROWER = (4.2, 4.8, 5.4)
"""Inches of a figure for a narrow page, the first that it fits into."""

_NAMES = {
    "p_nom": "rated power",
    "q": "q",
    "K": "K",
    "p5": "5 % quantile",
    "p95": "95 % quantile",
    "memory_gb": "memory",
    "flops_per_s": "throughput",
}
"""What columns are called where their name is none that a reader would know."""
_WORDS = {"gpu": "GPU", "gpus": "GPUs", "it": "IT", "aidc": "AIDC", "gpu hours": "GPU-hours"}


@dataclass(frozen=True)
class Table:
    """A table with units.

    Parameters
    ----------
    title
        Caption, and name of the sheet in a workbook.
    frame
        One row an entry; an index with names becomes leading columns.
    units
        Unit by column, shown in the header, beside those in ``frame.attrs["units"]``.
    long
        Whether it is a series for the workbook only, too long to be read.
    """

    title: str
    frame: pd.DataFrame = field(repr=False)
    units: Mapping[str, str] = field(default_factory=dict)
    long: bool = False

    @property
    def plain(self) -> pd.DataFrame:
        """The table with its index as columns and ``"name (unit)"`` as headers."""
        named = any(name is not None for name in self.frame.index.names)
        frame = self.frame.reset_index() if named else self.frame
        return frame.set_axis([self._header(column, frame[column].dtype) for column in frame.columns], axis=1)

    @property
    def numeric(self) -> list[bool]:
        """Whether each column of `plain` holds numbers, or mostly numbers."""
        return [_is_numeric(self.plain.iloc[:, column]) for column in range(self.plain.shape[1])]

    def cells(self, rows: int) -> list[list[str]]:
        """Return at most so many rows of `plain` as text; numbers of a column have the same decimals."""
        plain = self.plain.head(rows)
        columns = [
            # Years are names: nobody writes 2,030.
            list(map(str, plain.iloc[:, k]))
            if name == "year"
            else aligned(plain.iloc[:, k], CENTS if "(USD" in name else 0)
            for k, name in enumerate(plain.columns)
        ]
        return [list(row) for row in zip(*columns, strict=True)]

    def html(self, rows: int, more: str = "") -> str:
        """Return the table as HTML, with at most so many rows and then a word on where the others are."""
        plain, cells = self.plain, self.cells(rows)
        longest = [max((len(row[k]) for row in cells), default=0) for k in range(plain.shape[1])]
        classes = [
            ' class="number"' if number else ' class="words"' if length > LONGEST_LINE else ""
            for number, length in zip(self.numeric, longest, strict=True)
        ]
        head = "".join(
            f'<th scope="col"{kind}>{_head(str(name))}</th>' for name, kind in zip(plain.columns, classes, strict=True)
        )
        body = "\n".join(
            f"<tr>{''.join(f'<td{kind}>{escape(cell)}</td>' for cell, kind in zip(row, classes, strict=True))}</tr>"
            for row in cells
        )
        caption = f"<caption>{escape(self.title)}</caption>" if self.title else ""
        label = escape(self.title or "table")
        left = len(plain) - len(cells)
        return (
            f'<div class="wide" tabindex="0" role="region" aria-label="{label}"><table>{caption}'
            f"<thead><tr>{head}</tr></thead>\n<tbody>{body}</tbody></table></div>"
            + (f"<p>{left:,} more rows{' ' * bool(more)}{escape(more)}.</p>" if left > 0 else "")
        )

    def _header(self, column: object, kind: object) -> str:
        parts = column if isinstance(column, tuple) else (column,)
        name = header(" ".join(str(part) for part in parts if str(part)))
        given = self.frame.attrs.get("units", {})
        if isinstance(given, str):
            given = {} if getattr(kind, "kind", "O") not in "iuf" else {str(column): given}
        unit = self.units.get(str(column), given.get(str(column), ""))
        return f"{name} ({unit})" if unit and unit != "1" else name


def header(name: str) -> str:
    """Return the name of a column as a reader would say it.

    Examples
    --------
    >>> header("p_nom"), header("it_power"), header("gpu_hours"), header("waiting_hours")
    ('rated power', 'IT power', 'GPU-hours', 'waiting hours')
    """
    if name in _NAMES:
        return _NAMES[name]
    spaced = name.replace("_", " ")
    return _WORDS.get(spaced) or " ".join(_WORDS.get(word, word) for word in spaced.split(" "))


def aligned(column: pd.Series, least: int = 0) -> list[str]:
    """Return the values of a column as text; numbers have the decimals that the largest needs, or all if fewer do.

    Parameters
    ----------
    column
        Values of any kind.
    least
        Decimals that fractions below a million have at least.

    Examples
    --------
    >>> aligned(pd.Series([377.7, 0.5573, 0.0])), aligned(pd.Series([2.0, 24.0])), aligned(pd.Series([2.25, 5.625]))
    (['377.70', '0.56', '0.00'], ['2', '24'], ['2.250', '5.625'])
    >>> aligned(pd.Series([0.25, float("inf"), float("nan")])), aligned(pd.Series([900.0, 2e-7]))
    (['0.25', '∞', '–'], ['900', '2e-07'])
    """
    if column.dtype.kind != "f":
        return [shown(value) for value in column]
    values = column.to_numpy(float)
    finite = values[np.isfinite(values)]
    largest = float(np.abs(finite).max(initial=0.0))
    if 0 < largest < 1e-3:
        return [shown(value) if not np.isfinite(value) or value == 0 else f"{value:.2e}" for value in values]
    most = max(least if largest < 1e6 else 0, DIGITS - 1 - math.floor(math.log10(largest))) if largest else 0
    close = [places for places in range(most) if np.abs(finite - finite.round(places)).max() <= 1e-9 * largest]
    places = (close[0] and max(close[0], min(least, most))) if close else most
    return [_fixed(float(value), places) for value in values]


def _fixed(value: float, places: int) -> str:
    if not math.isfinite(value):
        return shown(value)
    if value and abs(value) < 0.5 * 10.0**-places:
        # What is there must not read as nothing.
        return f"{value:.0e}"
    return f"{value + 0.0:,.{places}f}"


def shown(value: object) -> str:
    """Return a value as a person reads it.

    Examples
    --------
    >>> [shown(value) for value in (1234.5678, 0.00001234, float("nan"), 7, True, None)]
    ['1,234.6', '1.23e-05', '–', '7', 'yes', '–']
    """
    if value is None or value is pd.NaT or value is pd.NA:
        return "–"
    if isinstance(value, bool | np.bool_):
        return "yes" if value else "no"
    if isinstance(value, pd.Timestamp):
        return f"{value:%Y-%m-%d %H:%M}"
    if isinstance(value, int | np.integer):
        return f"{value:,}"
    if isinstance(value, float | np.floating):
        return _number(float(value))
    if isinstance(value, tuple):
        # A tuple is a label: the numbers in it are names, such as the year of a period.
        return ", ".join(str(part) if isinstance(part, int | np.integer) else shown(part) for part in value)
    return str(value)


def usd(value: float) -> str:
    """Return USD as text, with cents below a million.

    Examples
    --------
    >>> usd(1079.0), usd(2.5e6)
    ('1,079.00', '2,500,000')
    """
    return f"{value:,.{CENTS if abs(value) < 1e6 else 0}f}"


def _number(value: float) -> str:
    if math.isnan(value):
        return "–"
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    if value == 0:
        return "0"
    if abs(value) >= 1e5:
        return f"{value:,.0f}"
    return f"{value:.2e}" if abs(value) < 1e-3 else f"{value:,.5g}"


def _is_numeric(column: pd.Series) -> bool:
    if column.dtype.kind in "iuf":
        return True
    known = [value for value in column if value is not None]
    count = sum(isinstance(value, int | float | np.number) and not isinstance(value, bool) for value in known)
    return column.dtype == object and 2 * count > len(known)


def _head(name: str) -> str:
    """Keep the unit in one piece."""
    before, bracket, unit = name.rpartition(" (")
    return f'{escape(before)} <span class="unit">({escape(unit)}</span>' if bracket else escape(name)


def card(
    thing: object,
    tables: Callable[[], Iterable[Table]],
    plot: Callable[[], Figure | Axes] | None = None,
    *,
    title: str = "",
    rows: int = 20,
    more: str = "in .to_frame()",
) -> str:
    """Return what a notebook shows of an object: headline, tables and a figure; what is missing is said in words.

    Parameters
    ----------
    thing
        The object.
    tables, plot
        Make the tables and the figure. Whatever error they raise is said in their place: a notebook that shows an
        object must not stop because there is nothing to show.
    title
        Headline; the first line of its `repr` if empty.
    rows
        Of a table, at most.
    more
        Where the other rows are.
    """
    parts: list[str] = []
    try:
        title = title or repr(thing).splitlines()[0]
        for table in tables():
            parts.append(table.html(rows, more) if len(table.frame) else _said(f"{table.title or 'Table'}: none"))
    except Exception as error:
        parts.append(_said(str(error)))
    title = title or type(thing).__name__
    try:
        parts += [f'<img src="{small(plot())}" width="560" alt="{escape(title)}">'] if plot is not None else []
    except Exception as error:
        parts.append(_said(f"No figure: {error}"))
    # What is missing for the tables is most often missing for the figure, too, and need not be said twice.
    told = [part for number, part in enumerate(parts) if part.replace("No figure: ", "") not in parts[:number]]
    return f'<div class="aidc"><style>{STYLE}</style><p><strong>{escape(title)}</strong></p>{"".join(told)}</div>'


def _said(text: str) -> str:
    return f"<p>{escape(' '.join(text.split()))}</p>"


def small(drawn: Figure | Axes) -> str:
    """Return a figure as a data URL of at most `LARGEST_FIGURE` characters."""
    figure = whole(drawn)
    address = data_url(svg(figure), "svg+xml")
    for dpi in (150, 110, 80, 50):
        if len(address) > LARGEST_FIGURE:
            address = data_url(png(figure, dpi), "png")
    return address


def whole(drawn: Figure | Axes) -> Figure:
    """Return the figure, of axes the one they are in."""
    found: Any = drawn
    if not hasattr(drawn, "savefig"):
        found = drawn.get_figure(root=True)
    figure: Figure = found
    assert figure is not None, "axes without a figure"
    return figure


def narrower(figure: Figure, wide: str, write: Callable[[], str]) -> str:
    """Return a figure drawn narrower, letters as they are, as far as no more of it is cut off than in full width.

    Parameters
    ----------
    figure
        As it has just been written.
    wide
        What `write` gave then; returned where nothing narrower will do.
    write
        Writes the figure.
    """
    width, height = float(figure.get_figwidth()), float(figure.get_figheight())
    full = figure.get_tightbbox()
    left, right = min(full.x0, 0.0), max(full.x1 - width, 0.0)
    try:
        for narrow in NARROWER:
            figure.set_size_inches(narrow, height)
            drawn, box = write(), figure.get_tightbbox()
            if box.x0 > left - 0.02 and box.x1 - narrow < right + 0.02:
                return drawn
    finally:
        figure.set_size_inches(width, height)
    return wide


def svg(figure: Figure) -> bytes:
    """Return a figure as SVG without date, letters drawn as paths so that no font is needed."""
    return _written(figure, {"svg.hashsalt": "pypsa_aidc", "svg.fonttype": "path"}, "svg", Date=None, Creator=None)


def png(figure: Figure, dpi: int) -> bytes:
    """Return a figure as PNG."""
    return _written(figure, {"savefig.dpi": dpi}, "png", Software=None)


def data_url(content: bytes, kind: str) -> str:
    """Return an image as an address that holds it."""
    return f"data:image/{kind};base64,{b64encode(content).decode()}"


def _written(figure: Figure, settings: Mapping[str, Any], kind: str, **metadata: None) -> bytes:
    """Write a figure as if the user had set no style of theirs, so that it is the same for everyone."""
    from pypsa_aidc.plots.style import house_style

    buffer = BytesIO()
    with house_style(settings):
        figure.savefig(buffer, format=kind, metadata=metadata)
    return buffer.getvalue()
