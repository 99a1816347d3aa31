"""Reports on solved networks with AIDCs, as one file: HTML, workbook or PDF."""

from pypsa_aidc.report.attachments import Headroom
from pypsa_aidc.report.document import Document, Fact, Notice, Picture, Section, Table
from pypsa_aidc.report.front import WRITERS, report

__all__ = ["WRITERS", "Document", "Fact", "Headroom", "Notice", "Picture", "Section", "Table", "report"]
