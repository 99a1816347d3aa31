"""What a report consists of, whatever file it becomes: notices, facts, sections with text, pictures and tables."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

Level = Literal["danger", "warning", "note"]

WORDS: Mapping[Level, str] = {"danger": "Warning", "warning": "Caution", "note": "Note"}
"""What a notice of each level begins with, so that its meaning does not hang on a colour."""


@dataclass(frozen=True)
class Notice:
    """Something a reader must know before the numbers."""

    level: Level
    text: str


@dataclass(frozen=True)
class Fact:
    """One number of the overview, as text with its unit."""

    name: str
    value: str
    unit: str = ""


@dataclass(frozen=True)
class Picture:
    """A figure with what it shows in words, for those who cannot see it.

    Parameters
    ----------
    title
        Caption.
    alt
        What the figure shows, in a sentence with its main numbers.
    figure
        The figure.
    """

    title: str
    alt: str
    figure: Figure = field(repr=False)


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
        Unit by column, shown in the header.
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
        return frame.set_axis([self._header(column) for column in frame.columns], axis=1)

    @property
    def numeric(self) -> list[bool]:
        """Whether each column of `plain` holds numbers."""
        return [kind.kind in "iuf" for kind in self.plain.dtypes]

    def cells(self, rows: int) -> list[list[str]]:
        """Return at most so many rows of `plain` as text."""
        return [[shown(value) for value in row] for row in self.plain.head(rows).itertuples(index=False, name=None)]

    def _header(self, column: object) -> str:
        parts = column if isinstance(column, tuple) else (column,)
        name = " ".join(str(part) for part in parts if str(part)).replace("_", " ")
        unit = self.units.get(str(column), "")
        return f"{name} ({unit})" if unit else name


@dataclass(frozen=True)
class Section:
    """A part of the report under a heading.

    Parameters
    ----------
    title
        Heading.
    said
        What is said on what is shown.
    pictures, tables
        What is shown.
    absent
        What a reader may look for and is not shown, and why.
    """

    title: str
    said: tuple[str, ...] = ()
    pictures: tuple[Picture, ...] = ()
    tables: tuple[Table, ...] = ()
    absent: tuple[str, ...] = ()

    @property
    def text(self) -> tuple[str, ...]:
        """All paragraphs."""
        return (*self.said, *self.absent)

    @property
    def key(self) -> str:
        """The heading as the target of a link."""
        return "".join(letter if letter.isalnum() else "-" for letter in self.title.lower())


@dataclass(frozen=True)
class Document:
    """A whole report."""

    title: str
    subtitle: str
    notices: tuple[Notice, ...]
    facts: tuple[Fact, ...]
    sections: tuple[Section, ...]

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader of its numbers alone would miss: the notices, and what is not shown."""
        told = (f"{WORDS[notice.level]}. {notice.text}" for notice in self.notices)
        return (*told, *(f"{section.title}: {text}" for section in self.sections for text in section.absent))


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
