"""Reports before they become a file, which is what takes time: for tests of what they say."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module

import pypsa

from pypsa_aidc.report import Document
from pypsa_aidc.report.attachments import Attachments

# The function of the same name hides the package on `pypsa_aidc`.
front = import_module("pypsa_aidc.report.front")


@dataclass
class Composed:
    """A document with what tests ask of it."""

    document: Document

    @property
    def levels(self) -> list[str]:
        return [notice.level for notice in self.document.notices]

    @property
    def words(self) -> str:
        texts = [self.document.title, self.document.subtitle]
        texts += [notice.text for notice in self.document.notices]
        for section in self.document.sections:
            texts += [section.title, *section.text, *(picture.alt for picture in section.pictures)]
            texts += [cell for table in section.tables for row in table.cells(99) for cell in row]
        return "\n".join(texts)

    @property
    def tables(self) -> dict[str, list[list[str]]]:
        """Header and rows of each table, as text."""
        return {
            table.title: [list(table.plain.columns), *table.cells(99)]
            for section in self.document.sections
            for table in section.tables
        }

    @property
    def alternatives(self) -> list[str]:
        return [picture.alt for section in self.document.sections for picture in section.pictures]

    @property
    def pictures(self) -> list[str]:
        return [picture.title for section in self.document.sections for picture in section.pictures]


def composed(n: pypsa.Network, **given: object) -> Composed:
    return Composed(front.compose(n, Attachments(**given)))  # type: ignore[arg-type]
