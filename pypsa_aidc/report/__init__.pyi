from .attachments import Headroom
from .document import Document, Fact, Map, Notice, Picture, Section, Table
from .front import WRITERS, report
from .service import service_report

__all__ = [
    "WRITERS",
    "Document",
    "Fact",
    "Headroom",
    "Map",
    "Notice",
    "Picture",
    "Section",
    "Table",
    "report",
    "service_report",
]
