"""A report as one HTML file: semantic, without scripts, and with everything it shows inside it."""

from __future__ import annotations

from base64 import b64encode
from html import escape
from importlib.resources import files

from pypsa_aidc.report.document import WORDS, Document, Notice, Picture, Section, Table
from pypsa_aidc.report.images import png, svg

MOST_ROWS = 200
"""Rows of a table that are shown; all of them are in the workbook."""

LONGEST_LINE = 32
"""Characters of a cell beyond which its column may break into lines."""

LARGEST_VECTOR = 600_000
"""Bytes from which a figure is embedded as pixels: beyond, a vector figure is slow to draw."""


def html(document: Document) -> bytes:
    """Write a document as one HTML page in UTF-8.

    Parameters
    ----------
    document
        Any text in it may hold anything: it is escaped.

    Returns
    -------
    bytes
        A page that asks for nothing else: styles and figures are inside, and its policy forbids the rest.
    """
    style = (files("pypsa_aidc.report") / "style.css").read_text(encoding="utf-8")
    contents = "".join(
        f'<li><a href="#{section.key}">{escape(section.title)}</a></li>' for section in document.sections
    )
    facts = "".join(
        f"<div><dt>{escape(fact.name)}</dt><dd>{escape(fact.value)} <span>{escape(fact.unit)}</span></dd></div>"
        for fact in document.facts
    )
    parts = [
        "<!DOCTYPE html>",
        '<html lang="en">',
        "<head>",
        '<meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; img-src data:; '
        "style-src 'unsafe-inline'\">",
        f"<title>{escape(document.title)}</title>",
        # Without an icon of its own, a browser would ask the server for one.
        '<link rel="icon" href="data:,">',
        f"<style>\n{style}</style>",
        "</head>",
        "<body>",
        f"<header><h1>{escape(document.title)}</h1><p>{escape(document.subtitle)}</p></header>",
        *map(_notice, document.notices),
        f'<dl class="facts">{facts}</dl>',
        f'<nav aria-label="Contents"><ol>{contents}</ol></nav>',
        "<main>",
        *map(_section, document.sections),
        "</main>",
        "</body>",
        "</html>",
    ]
    return ("\n".join(parts) + "\n").encode()


def _notice(notice: Notice) -> str:
    role = "alert" if notice.level == "danger" else "note"
    return (
        f'<p class="notice {notice.level}" role="{role}"><strong>{WORDS[notice.level]}.</strong> '
        f"{escape(notice.text)}</p>"
    )


def _section(section: Section) -> str:
    readable = [table for table in section.tables if not table.long]
    parts = [
        f'<section aria-labelledby="{section.key}">',
        f'<h2 id="{section.key}">{escape(section.title)}</h2>',
        *(f"<p>{escape(text)}</p>" for text in section.text),
        *map(_picture, section.pictures),
        *map(_table, readable),
        "</section>",
    ]
    return "\n".join(parts)


def _picture(picture: Picture) -> str:
    vector = svg(picture.figure)
    kind, content = ("svg+xml", vector) if len(vector) <= LARGEST_VECTOR else ("png", png(picture.figure, 150))
    width = round(96 * float(picture.figure.get_figwidth()))
    return (
        f'<figure><div class="wide" tabindex="0" role="region" aria-label="{escape(picture.title)}">'
        f'<img src="data:image/{kind};base64,{b64encode(content).decode()}" alt="{escape(picture.alt)}" '
        f'width="{width}"></div><figcaption>{escape(picture.title)}</figcaption></figure>'
    )


def _head(name: str) -> str:
    """Keep the unit in one piece."""
    before, bracket, unit = name.rpartition(" (")
    return f'{escape(before)} <span class="unit">({escape(unit)}</span>' if bracket else escape(name)


def _table(table: Table) -> str:
    plain, cells = table.plain, table.cells(MOST_ROWS)
    longest = [max((len(row[column]) for row in cells), default=0) for column in range(plain.shape[1])]
    classes = [
        ' class="number"' if number else ' class="words"' if length > LONGEST_LINE else ""
        for number, length in zip(table.numeric, longest, strict=True)
    ]
    head = "".join(
        f'<th scope="col"{kind}>{_head(str(name))}</th>' for name, kind in zip(plain.columns, classes, strict=True)
    )
    body = "\n".join(
        "<tr>" + "".join(f"<td{kind}>{escape(cell)}</td>" for cell, kind in zip(row, classes, strict=True)) + "</tr>"
        for row in cells
    )
    more = len(plain) - MOST_ROWS
    rest = f"<p>{more:,} more rows are in the workbook (.xlsx) of this report.</p>" if more > 0 else ""
    return (
        f'<div class="wide" tabindex="0" role="region" aria-label="{escape(table.title)}"><table>'
        f"<caption>{escape(table.title)}</caption><thead><tr>{head}</tr></thead>\n<tbody>{body}</tbody></table></div>{rest}"
    )
