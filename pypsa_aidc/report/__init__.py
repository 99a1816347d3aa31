"""Reports on solved networks with AIDCs, as one file: HTML, workbook or PDF."""

from pypsa_aidc.markup import Table
from pypsa_aidc.report.attachments import Headroom
from pypsa_aidc.report.document import Document, Fact, Map, Notice, Picture, Section
from pypsa_aidc.report.front import WRITERS, report

__all__ = ["WRITERS", "Document", "Fact", "Headroom", "Map", "Notice", "Picture", "Section", "Table", "report"]
