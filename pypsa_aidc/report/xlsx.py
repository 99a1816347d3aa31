"""A report as a workbook: an overview, one sheet a table, and the figures."""

from __future__ import annotations

import math
from io import BytesIO
from typing import Any

import numpy as np
import pandas as pd

from pypsa_aidc.markup import Table, png, shown
from pypsa_aidc.report.document import WORDS, Document

LONGEST_NAME, MOST_ROWS = 31, 1_048_575
"""Limits of the file format: characters of a sheet's name, and rows below its header."""


def xlsx(document: Document) -> bytes:
    """Write a document as a workbook; numbers stay numbers, and text is never taken for a formula.

    Returns
    -------
    bytes
        The file; XlsxWriter gives the same bytes for the same content, which openpyxl does not.
    """
    import xlsxwriter

    buffer = BytesIO()
    options = {"in_memory": True, "strings_to_formulas": False, "strings_to_urls": False, "strings_to_numbers": False}
    with xlsxwriter.Workbook(buffer, options) as workbook:
        workbook.set_properties({"title": document.title, "created": pd.Timestamp("2000-01-01").to_pydatetime()})
        bold = workbook.add_format({"bold": True, "bottom": 1, "text_wrap": True, "valign": "bottom"})
        _overview(workbook, document, bold)
        for table in _tables(document):
            _sheet(workbook, table, bold)
        _figures(workbook, document, bold)
    return buffer.getvalue()


def _tables(document: Document) -> list[Table]:
    return [table for section in document.sections for table in section.tables]


def _overview(workbook: Any, document: Document, bold: Any) -> None:
    sheet = workbook.add_worksheet("Overview")
    lines: list[tuple[str, ...]] = [(document.title,), (document.subtitle,), ()]
    lines += [(f"{WORDS[notice.level]}. {notice.text}",) for notice in document.notices]
    lines += [(), *((fact.name, fact.value, fact.unit) for fact in document.facts)]
    for section in document.sections:
        lines += [(), (section.title,), *((text,) for text in section.text)]
        lines += [("sheet", table.title[:LONGEST_NAME]) for table in section.tables]
    headings = {document.title, *(section.title for section in document.sections)}
    for row, line in enumerate(lines):
        for column, text in enumerate(line):
            sheet.write_string(row, column, text, bold if len(line) == 1 and text in headings else None)
    sheet.set_column(0, 0, 28)
    sheet.set_column(1, 1, 24)


def _sheet(workbook: Any, table: Table, bold: Any) -> None:
    sheet = workbook.add_worksheet(table.title[:LONGEST_NAME])
    plain = table.plain.head(MOST_ROWS)
    time = workbook.add_format({"num_format": "yyyy-mm-dd hh:mm"})
    for column, name in enumerate(plain.columns):
        sheet.write_string(0, column, str(name), bold)
        values = plain.iloc[:, column]
        for row, value in enumerate(values, start=1):
            _cell(sheet, row, column, value, time)
        widest = max([len(word) for word in str(name).split()] + [len(shown(value)) for value in values[:200]])
        sheet.set_column(column, column, min(widest + 2, 60))
    sheet.freeze_panes(1, 0)


def _cell(sheet: Any, row: int, column: int, value: object, time: Any) -> None:
    if isinstance(value, bool | np.bool_):
        sheet.write_boolean(row, column, bool(value))
    elif isinstance(value, pd.Timestamp) and value.tzinfo is None:
        sheet.write_datetime(row, column, value.to_pydatetime(warn=False), time)
    elif isinstance(value, int | float | np.number) and math.isfinite(value):
        sheet.write_number(row, column, float(value))
    elif not _missing(value):
        sheet.write_string(row, column, shown(value))


def _missing(value: object) -> bool:
    return value is None or value is pd.NaT or value is pd.NA or (isinstance(value, float) and math.isnan(value))


def _figures(workbook: Any, document: Document, bold: Any) -> None:
    sheet, row = workbook.add_worksheet("Figures"), 0
    for picture in (picture for section in document.sections for picture in section.pictures):
        sheet.write_string(row, 0, picture.title, bold)
        image = {"image_data": BytesIO(png(picture.figure, 96)), "description": picture.alt}
        sheet.insert_image(row + 1, 0, "figure.png", image)
        # A row is 15 points high unless somebody says otherwise.
        row += 3 + math.ceil(float(picture.figure.get_figheight()) * 72 / 15)
    sheet.set_column(0, 0, 40)
