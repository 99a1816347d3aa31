"""A report as PDF pages for print."""

from __future__ import annotations

from html import escape
from io import BytesIO
from pathlib import Path
from typing import Any

import matplotlib as mpl

from pypsa_aidc.report.document import WORDS, Document, Notice, Picture, Section, Table
from pypsa_aidc.report.images import png

MOST_ROWS = 60
"""Rows of a table that are printed; all of them are in the workbook."""

_COLOURS = {"danger": ("#fdeadf", "#d55e00"), "warning": ("#fff4d6", "#e69f00"), "note": ("#e6f3fb", "#0072b2")}
_FONT, _BOLD = "DejaVuSans", "DejaVuSans-Bold"
_WIDTH = 500.0
"""Points between the margins of an A4 page."""


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

    story = [CondPageBreak(120), _text(section.title, 14, _BOLD, space=4)]
    story += [_text(text, 9) for text in section.text]
    story += [_picture(picture) for picture in section.pictures]
    for table in section.tables:
        if not table.long:
            story += _table(table)
    return story


def _picture(picture: Picture) -> Any:
    from reportlab.platypus import Image, KeepTogether

    size = [float(inches) for inches in picture.figure.get_size_inches()]
    width = min(_WIDTH, 72 * size[0])
    image = Image(BytesIO(png(picture.figure, 200)), width, width * size[1] / size[0])
    return KeepTogether([image, _text(picture.title, 8, colour="#57606a", space=8)])


def _table(table: Table) -> list[Any]:
    from reportlab.platypus import LongTable

    names, rows, numeric = list(map(str, table.plain.columns)), table.cells(MOST_ROWS), table.numeric
    size = 7.5 if len(names) <= 8 else 5.5
    longest = [
        max([len(word) for word in name.split()] + [len(row[k]) for row in rows]) for k, name in enumerate(names)
    ]
    share = [min(max(length, 4), 60) + 1.5 for length in longest]
    scale = min(_WIDTH / sum(share), 0.75 * size)
    cells = [
        [_text(cell, size, space=0, right=number) for cell, number in zip(row, numeric, strict=True)] for row in rows
    ]
    head = [_text(name, size, _BOLD, space=0, right=number) for name, number in zip(names, numeric, strict=True)]
    style = [
        ("LINEBELOW", (0, 0), (-1, 0), 1, "#1b1f24"),
        ("LINEBELOW", (0, 1), (-1, -1), 0.3, "#d5dae0"),
        ("VALIGN", (0, 0), (-1, -1), "TOP"),
        ("LEFTPADDING", (0, 0), (-1, -1), 1),
        ("RIGHTPADDING", (0, 0), (-1, -1), 2),
        ("TOPPADDING", (0, 0), (-1, -1), 1),
        ("BOTTOMPADDING", (0, 0), (-1, -1), 2),
    ]
    drawn = LongTable(
        [head, *cells],
        colWidths=[scale * part for part in share],
        repeatRows=1,
        style=style,
        hAlign="LEFT",
        spaceAfter=8,
    )
    more = len(table.frame) - MOST_ROWS
    note = [_text(f"{more:,} more rows are in the workbook (.xlsx) of this report.", 8)] if more > 0 else []
    return [_text(table.title, 9, _BOLD, space=2), drawn, *note]


def _number(canvas: Any, page: Any) -> None:
    canvas.setFont(_FONT, 7)
    canvas.drawRightString(page.pagesize[0] - page.rightMargin, 30, str(canvas.getPageNumber()))
