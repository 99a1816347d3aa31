"""What a report consists of, whatever file it becomes: notices, facts, sections with text, pictures and tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from matplotlib.figure import Figure

from pypsa_aidc.markup import Table as Table

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
class Map:
    """A map to move about in, for reports that a browser shows.

    Parameters
    ----------
    title
        Caption.
    page
        A whole HTML page with everything it needs; it is shown in a frame that cannot reach the report around it.
    """

    title: str
    page: str = field(repr=False)


@dataclass(frozen=True)
class Section:
    """A part of the report under a heading.

    Parameters
    ----------
    title
        Heading.
    said
        What is said on what is shown.
    pictures, maps, tables
        What is shown.
    absent
        What a reader may look for and is not shown, and why.
    """

    title: str
    said: tuple[str, ...] = ()
    pictures: tuple[Picture, ...] = ()
    tables: tuple[Table, ...] = ()
    absent: tuple[str, ...] = ()
    maps: tuple[Map, ...] = ()

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
