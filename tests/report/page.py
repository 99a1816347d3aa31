"""A web page as a reader's program sees it: its links, identifiers, tables and images."""

from __future__ import annotations

from base64 import b64decode
from html.parser import HTMLParser
from pathlib import Path

VOID = {"meta", "link", "img", "source", "br", "hr", "input"}


class Page(HTMLParser):
    """What a page consists of; `stack` is empty at the end of a well-formed page."""

    def __init__(self, page: Path | str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.stack: list[str] = []
        self.text: list[str] = []
        self.tables: dict[str, list[list[str]]] = {}
        self._caption, self._rows = "", [[]]
        self.feed(page if isinstance(page, str) else page.read_text(encoding="utf-8"))
        self.close()

    def handle_starttag(self, tag, attrs) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.stack.append(tag)
        if tag == "table":
            self._caption, self._rows = "", []
        elif tag == "tr":
            self._rows.append([])
        elif tag in ("th", "td"):
            self._rows[-1].append("")

    def handle_endtag(self, tag) -> None:
        assert self.stack, f"</{tag}> closes nothing"
        assert self.stack.pop() == tag
        if tag == "table":
            self.tables[self._caption] = self._rows

    def handle_data(self, data) -> None:
        if self.stack and self.stack[-1] not in ("style", "title"):
            self.text.append(data)
        if self.stack and self.stack[-1] == "caption":
            self._caption += data
        elif self.stack and {"th", "td"} & set(self.stack[-2:]):
            self._rows[-1][-1] += data

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attrs for name, attrs in self.tags if name == tag]

    @property
    def words(self) -> str:
        return " ".join(" ".join(self.text).split())

    @property
    def notices(self) -> list[str]:
        return [str(attrs["class"]).split()[1] for attrs in self.all("p") if "notice" in str(attrs.get("class"))]

    @property
    def images(self) -> list[tuple[str, bytes, str]]:
        """Type, content and alternative text of each image, all of which must be inside the page."""
        found = []
        for attrs in self.all("img"):
            head, content = str(attrs["src"]).split(",", 1)
            assert head in ("data:image/svg+xml;base64", "data:image/png;base64")
            found.append((head, b64decode(content, validate=True), str(attrs["alt"])))
        return found
