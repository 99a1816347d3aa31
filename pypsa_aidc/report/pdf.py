"""A report as PDF pages for print."""

from __future__ import annotations

from html import escape
from io import BytesIO
from pathlib import Path
from typing import Any

import matplotlib as mpl

from pypsa_aidc.markup import Table, png
from pypsa_aidc.report.document import WORDS, Document, Notice, Picture, Section

MOST_ROWS = 60
"""Rows of a table that are printed; all of them are in the workbook."""

_COLOURS = {"danger": ("#fdeadf", "#d55e00"), "warning": ("#fff4d6", "#e69f00"), "note": ("#e6f3fb", "#0072b2")}
_FONT, _BOLD = "DejaVuSans", "DejaVuSans-Bold"
_WIDTH = 500.0
"""Points between the margins of an A4 page."""
_FIGURE = 400.0
"""Points that a figure is wide: its letters have 7, and two of them go on a page."""
_FIRST_ROWS = 4
"""Rows of a table, its head among them, that stand below its caption before the page may end."""


def pdf(document: Document) -> bytes:
    """Write a document as PDF on A4.

    ReportLab sets text, and tables that go over several pages, in a few lines; matplotlib's PdfPages would need all of
    that by hand. The font is the one that comes with matplotlib, since those of PDF itself lack α and ≥.
    """
    from reportlab.lib.pagesizes import A4
    from reportlab.platypus import SimpleDocTemplate

    _register_fonts()
    buffer, margin = BytesIO(), (A4[0] - _WIDTH) / 2
    page = SimpleDocTemplate(
        buffer,
        pagesize=A4,
        leftMargin=margin,
        rightMargin=margin,
        title=document.title,
        author="pypsa_aidc",
        # The same content gives the same bytes: no date, no random identifier.
        invariant=1,
    )
    story = [_text(document.title, 18, _BOLD), _text(document.subtitle, 9, colour="#57606a")]
    story += [_notice(notice) for notice in document.notices]
    facts = [f"{fact.name}: {fact.value} {fact.unit}".strip() for fact in document.facts]
    story.append(_text(" · ".join(facts), 9, space=8))
    for section in document.sections:
        story += _section(section)
    page.build(story, onFirstPage=_number, onLaterPages=_number)
    return buffer.getvalue()


def _register_fonts() -> None:
    from reportlab.pdfbase import pdfmetrics
    from reportlab.pdfbase.ttfonts import TTFont

    folder = Path(mpl.get_data_path()) / "fonts" / "ttf"
    for name in (_FONT, _BOLD):
        if name not in pdfmetrics.getRegisteredFontNames():
            pdfmetrics.registerFont(TTFont(name, folder / f"{name}.ttf"))


def _text(
    text: str, size: float, font: str = _FONT, *, colour: str = "#1b1f24", space: float = 4, right: bool = False
) -> Any:
    from reportlab.lib.enums import TA_LEFT, TA_RIGHT
    from reportlab.lib.styles import ParagraphStyle
    from reportlab.platypus import Paragraph

    style = ParagraphStyle(
        "text",
        fontName=font,
        fontSize=size,
        leading=1.35 * size,
        textColor=colour,
        spaceAfter=space,
        alignment=TA_RIGHT if right else TA_LEFT,
        # Long names of files and components must not run out of their cell.
        splitLongWords=True,
    )
    return Paragraph(escape(text), style)


def _notice(notice: Notice) -> Any:
    from reportlab.platypus import Table as Box

    ground, line = _COLOURS[notice.level]
    style = [("BACKGROUND", (0, 0), (-1, -1), ground), ("LINEBEFORE", (0, 0), (0, -1), 4, line)]
    words = _text(f"{WORDS[notice.level]}. {notice.text}", 9, space=0)
    return Box([[words]], colWidths=[_WIDTH], style=style, spaceAfter=4)


def _section(section: Section) -> list[Any]:
    from reportlab.platypus import CondPageBreak

    head = [_text(section.title, 14, _BOLD, space=4), *(_text(text, 9) for text in section.text)]
    blocks = [_picture(picture) for picture in section.pictures]
    blocks += [_table(table) for table in section.tables if not table.long]
    # No heading and no caption stands alone at the end of a page.
    needed = sum(map(_height, head)) + (blocks[0][0] if blocks else 0.0)
    story = [CondPageBreak(needed), *head]
    for height, parts in blocks:
        story += [CondPageBreak(height), *parts]
    return story


def _height(part: Any) -> float:
    """Points from the top of a part to the next one."""
    return float(part.wrap(_WIDTH, 1e6)[1] + part.getSpaceAfter())


def _picture(picture: Picture) -> tuple[float, list[Any]]:
    """A figure with its caption, and the height in points that must be left on the page."""
    from reportlab.platypus import Image

    size = [float(inches) for inches in picture.figure.get_size_inches()]
    image = Image(BytesIO(png(picture.figure, 200)), _FIGURE, _FIGURE * size[1] / size[0], hAlign="LEFT")
    parts = [image, _text(picture.title, 8, colour="#57606a", space=8)]
    return sum(map(_height, parts)), parts


def _table(table: Table) -> tuple[float, list[Any]]:
    """A table with its caption, and the height in points of what must stand below the caption on its page."""
    from reportlab.platypus import LongTable

    names, rows, numeric = list(map(str, table.plain.columns)), table.cells(MOST_ROWS), table.numeric
    longest = [
        max([1.2 * len(word) for word in name.split()] + [len(row[k]) for row in rows]) for k, name in enumerate(names)
    ]
    share = [min(max(length, 4), 60) + 1.5 for length in longest]
    # A character is 0.62 of the letters' size wide; smaller than 5.5 points nobody reads.
    size = min(max(_WIDTH / sum(share) / 0.62, 5.5), 7.5)
    scale = min(_WIDTH / sum(share), 0.75 * size)
    cells = [
        [_text(cell, size, space=0, right=number) for cell, number in zip(row, numeric, strict=True)] for row in rows
    ]
    head = [_text(name, size, _BOLD, space=0, right=number) for name, number in zip(names, numeric, strict=True)]
    style = [
        ("LINEBELOW", (0, 0), (-1, 0), 1, "#1b1f24"),
        ("LINEBELOW", (0, 1), (-1, -1), 0.3, "#d5dae0"),
        ("VALIGN", (0, 0), (-1, -1), "TOP"),
        ("VALIGN", (0, 0), (-1, 0), "BOTTOM"),
        ("LEFTPADDING", (0, 0), (-1, -1), 1),
        ("RIGHTPADDING", (0, 0), (-1, -1), 5),
        ("TOPPADDING", (0, 0), (-1, -1), 1),
        ("BOTTOMPADDING", (0, 0), (-1, -1), 2),
    ]
    options = {"colWidths": [scale * part for part in share], "style": style, "hAlign": "LEFT", "spaceAfter": 8}
    caption = _text(table.title, 9, _BOLD, space=2)
    more = len(table.frame) - MOST_ROWS
    note = [_text(f"{more:,} more rows are in the workbook (.xlsx) of this report.", 8)] if more > 0 else []
    first = LongTable([head, *cells[: _FIRST_ROWS - 1]], **options)
    return _height(caption) + _height(first), [caption, LongTable([head, *cells], repeatRows=1, **options), *note]


def _number(canvas: Any, page: Any) -> None:
    canvas.setFont(_FONT, 7)
    canvas.drawRightString(page.pagesize[0] - page.rightMargin, 30, str(canvas.getPageNumber()))
