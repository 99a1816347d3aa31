"""A report as one HTML file: semantic, with everything it shows inside it, and without scripts but those of a map."""

from __future__ import annotations

from html import escape
from importlib.resources import files

from pypsa_aidc import markup
from pypsa_aidc.report.document import WORDS, Document, Map, Notice, Picture, Section

MOST_ROWS = 200
"""Rows of a table that are shown; all of them are in the workbook."""

LARGEST_VECTOR = 150_000
"""Bytes from which a figure is embedded as pixels: beyond, a vector figure is slow to draw."""

NARROW = "(max-width: 36rem)"
"""Pages for which figures are drawn narrower instead of smaller, so that their letters stay readable."""

POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"
MAP_POLICY = f"{POLICY}; script-src 'unsafe-inline'; worker-src blob:; connect-src data: blob:; frame-src 'self'"
"""What the page may do; a map inherits it, and so may not fetch anything either."""


def html(document: Document) -> bytes:
    """Write a document as one HTML page in UTF-8.

    Parameters
    ----------
    document
        Any text in it may hold anything: it is escaped.

    Returns
    -------
    bytes
        A page that asks for nothing else: styles, figures and maps are inside, and its policy forbids the rest.
    """
    style = (files("pypsa_aidc.report") / "style.css").read_text(encoding="utf-8")
    policy = MAP_POLICY if any(section.maps for section in document.sections) else POLICY
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
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
        f"<title>{escape(document.title)}</title>",
        # Without an icon of its own, a browser would ask the server for one.
        '<link rel="icon" href="data:,">',
        f"<style>{markup.STYLE}{style}</style>",
        "</head>",
        '<body class="aidc">',
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
    rest = "are in the workbook (.xlsx) of this report"
    parts = [
        f'<section aria-labelledby="{section.key}">',
        f'<h2 id="{section.key}">{escape(section.title)}</h2>',
        *(f"<p>{escape(text)}</p>" for text in section.text),
        *map(_picture, section.pictures),
        *map(_map, section.maps),
        *(table.html(MOST_ROWS, rest) for table in section.tables if not table.long),
        "</section>",
    ]
    return "\n".join(parts)


def _picture(picture: Picture) -> str:
    wide = _image(picture)
    narrow = markup.narrower(picture.figure, wide, lambda: _image(picture))
    return (
        f'<figure><picture><source media="{NARROW}" srcset="{narrow}"><img src="{wide}" alt="{escape(picture.alt)}">'
        f"</picture><figcaption>{escape(picture.title)}</figcaption></figure>"
    )


def _image(picture: Picture) -> str:
    vector = markup.svg(picture.figure)
    if len(vector) <= LARGEST_VECTOR:
        return markup.data_url(vector, "svg+xml")
    return markup.data_url(markup.png(picture.figure, 150), "png")


def _map(shown: Map) -> str:
    title = escape(shown.title)
    return (
        f'<figure><iframe title="{title}" sandbox="allow-scripts" srcdoc="{escape(shown.page)}"></iframe>'
        f"<figcaption>{title}</figcaption></figure>"
    )
