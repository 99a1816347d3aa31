"""Tables of hourly demand as utilities write them: separators, dates, hours ending 1 to 24, decimal commas."""

from __future__ import annotations

import re
from itertools import product
from pathlib import Path
from typing import Literal

import numpy as np
import pandas as pd

from pypsa_aidc.errors import Faults

Stamps = Literal["ending", "beginning"]

_SHOWN = 3
_MIDNIGHT = re.compile(r"^(.*?)[ T]+24:00(?::00)?$")
_HOUR_ENDING = re.compile(r"^(he|hr|hour|hour[ _-]?end(ing)?)$", re.IGNORECASE)
_HOUR_BEGINNING = re.compile(r"^(hb|hour[ _-]?begin(ning)?)$", re.IGNORECASE)
_HOUR_COLUMN = re.compile(r"^(?:he|hr|hour(?:[ _-]?ending)?|h)?[ _-]*0*(\d{1,2})$", re.IGNORECASE)
_DATES = tuple(
    f"{first}-{second}-{third}"
    for first, second, third in (
        ("%m", "%d", "%Y"),
        ("%d", "%m", "%Y"),
        ("%m", "%d", "%y"),
        ("%d", "%m", "%y"),
        ("%d", "%b", "%Y"),
        ("%d", "%b", "%y"),
        ("%Y", "%m", "%d"),
    )
)
_TIMES = ("", " %H:%M", " %H:%M:%S", " %I:%M %p", " %I:%M:%S %p", " %H")
_ORDERLY = 0.9
"""Share of the steps between rows that must be one hour (or one day, for dates alone) for a reading of the dates."""


def read_text(path: Path) -> pd.DataFrame:
    """Read a table as text: CSV with commas, semicolons or tabs, in UTF-8, UTF-16 or Latin-1, or a worksheet.

    Text throughout: ``"1,060"`` is no number yet, and ``"MISSING"`` must not pass for one.

    Raises
    ------
    OSError, ValueError
        The file cannot be read as a table.
    """
    if path.suffix.lower() in (".xlsx", ".xls", ".ods"):
        # One reader for all three; pandas' own choice depends on what else is installed.
        return pd.read_excel(path, dtype=str, keep_default_na=False, engine="calamine")
    for encoding in ("utf-8-sig", "utf-16", "latin-1"):
        try:
            header = ",".join(pd.read_csv(path, nrows=0, encoding=encoding).columns)
        except UnicodeError:
            continue
        break
    separator = max(",;\t", key=header.count)
    return pd.read_csv(path, sep=separator, dtype=str, keep_default_na=False, encoding=encoding)


def one_value_a_row(raw: pd.DataFrame, stamps: Stamps | None, name: str, faults: Faults) -> pd.DataFrame | None:
    """Bring a plain table to the columns stamp, value and, where the file has one, region.

    Known shapes: (stamp, MW); (date, hour, MW); (stamp, region, MW) and (date, hour, region, MW) in any order of
    the middle columns; and one row a day with 24 columns named 1 to 24, ``HE1`` or ``H01``.

    Parameters
    ----------
    raw
        The table as text.
    stamps
        What the hours mark, if declared.
    name
        Of the file, for messages.
    faults
        Receives what is wrong.

    Returns
    -------
    pandas.DataFrame or None
        Text columns `stamp`, `value`, `region` and the number `row` in the file; attrs ``when`` and ``what`` name
        the columns they come from, and ``ending`` is True where the table itself says that its hours are endings.
    """
    columns = [str(column) for column in raw.columns]
    raw = raw.set_axis(columns, axis=1)
    hours = {column: int(found[1]) for column in columns[1:] if (found := _HOUR_COLUMN.match(column.strip()))}
    if sorted(hours.values()) == list(range(1, 25)):
        return _by_day(raw, hours)
    hour = next((column for column in columns[1:-1] if _HOUR_ENDING.match(column) or _HOUR_BEGINNING.match(column)), "")
    region = [column for column in columns[1:-1] if column != hour]
    if len(columns) < 2 or len(region) > 1:
        return None
    rows = pd.DataFrame({"stamp": raw[columns[0]].str.strip(), "value": raw[columns[-1]], "row": raw.index + 2})
    rows["region"] = raw[region[0]].str.strip() if region else ""
    if region and pd.to_numeric(rows["region"], errors="coerce").notna().any():
        return None
    rows.attrs |= {"when": columns[0], "what": columns[-1], "ending": False}
    if hour:
        rows["stamp"] = _hour_column(rows["stamp"], raw[hour], hour, stamps, name, faults)
        rows.attrs |= {"when": f"{columns[0]}, {hour}", "ending": True}
    return rows


def _by_day(raw: pd.DataFrame, hours: dict[str, int]) -> pd.DataFrame:
    day = str(raw.columns[0])
    tall = raw.assign(row=raw.index + 2).melt(["row", day], list(hours), "hour", "value")
    ends = tall["hour"].map(hours).astype(str).str.zfill(2)
    rows = pd.DataFrame({"stamp": tall[day].str.strip() + " " + ends + ":00", "value": tall["value"], "region": ""})
    rows = rows.assign(row=tall["row"], order=tall["hour"].map(hours)).sort_values(["row", "order"], kind="stable")
    rows = rows.drop(columns="order").reset_index(drop=True)
    rows.attrs |= {"when": f"{day} and hours 1 to 24", "what": "hourly columns", "ending": True}
    return rows


def _hour_column(
    dates: pd.Series[str], hours: pd.Series[str], column: str, stamps: Stamps | None, name: str, faults: Faults
) -> pd.Series[str]:
    """Join dates and hours; 1 to 24 are endings, 0 to 23 beginnings where the header or the caller says so."""
    numbers = pd.to_numeric(hours.str.strip().str.replace(r"^(?:HE|H)\s*", "", regex=True), errors="coerce")
    begins = stamps == "beginning" or _HOUR_BEGINNING.match(column) is not None
    low, high = (0, 23) if begins else (1, 24)
    wrong = hours.index[~numbers.between(low, high) | (numbers % 1 != 0)]
    remedy = "An hour 25 is the repeated one of daylight saving: give stamps with a time zone, or in UTC."
    if not begins and (numbers == 0).any():
        remedy = "Hours 0 to 23 mark beginnings: give stamps='beginning'."
    for row in wrong[:_SHOWN]:
        faults.add(f"{name}, row {row + 2}, {column!r}", hours[row], f"a whole hour, {low} to {high}", remedy)
    ends = numbers.fillna(low).astype(int) + (1 if begins else 0)
    return dates + " " + ends.astype(str).str.zfill(2) + ":00"


def parse_stamps(text: pd.Series[str]) -> tuple[pd.Series[pd.Timestamp], str]:
    """Read local stamps, ISO 8601 or as utilities write them, where only one reading gives a sequence of hours.

    ``24:00`` is midnight at the end of its day. Month and day in either order, years of two or four digits, names of
    months, 12- and 24-hour clocks: every reading that fits all rows is tried, and counts if its rows follow each
    other by the hour. Two such readings that differ are refused.

    Parameters
    ----------
    text
        Stamps without a time zone.

    Returns
    -------
    stamps, problem
        NaT where a row cannot be read; and what is ambiguous, or ``""``.

    Examples
    --------
    >>> stamps, problem = parse_stamps(pd.Series(["07/13/24 23:00", "07/13/24 24:00"]))
    >>> str(stamps[1])
    '2024-07-14 00:00:00'
    """
    late = text.str.extract(_MIDNIGHT)[0]
    plain = text.where(late.isna(), late + " 00:00")
    extra = pd.to_timedelta(late.notna().astype(int) * 24, unit="h")
    iso = pd.to_datetime(plain, format="ISO8601", errors="coerce")
    if iso.notna().any():
        return iso + extra, ""
    even = plain.str.replace(r"[/.]", "-", regex=True).str.replace(r"\s+", " ", regex=True).str.upper()
    readings: dict[str, pd.Series[pd.Timestamp]] = {}
    for date, time in product(_DATES, _TIMES):
        # pandas tries the format on the first row only as long as errors are raised, which is quick where it is wrong.
        try:
            found = pd.to_datetime(even, format=date + time) + extra
        except ValueError:
            continue
        if not any(found.equals(other) for other in readings.values()):
            readings[date + time] = found
    orderly = {form: found for form, found in readings.items() if _is_orderly(found)}
    chosen = orderly or readings
    if len(chosen) == 1:
        return next(iter(chosen.values())), ""
    nothing = pd.Series(pd.NaT, text.index)
    if not chosen:
        return nothing, ""
    first = text.iloc[0]
    days = [f"{found.iloc[0]:%Y-%m-%d}" for found in chosen.values()]
    return nothing, f"{first!r} can be {' or '.join(dict.fromkeys(days))}"


def _is_orderly(stamps: pd.Series[pd.Timestamp]) -> bool:
    steps = np.diff(stamps.sort_values().to_numpy()) / np.timedelta64(1, "h")
    return bool(np.mean(np.isclose(steps, 1) | (steps == 0)) >= _ORDERLY) if len(steps) else True


def plain_numbers(text: pd.Series[str]) -> tuple[pd.Series[str], bool]:
    """Bring numbers with thousands separators or decimal commas to the form with a point.

    A comma is a thousands separator where every value with one has groups of three digits after it, as EIA writes;
    otherwise it is a decimal comma in the whole column, with points or spaces as thousands separators.

    Returns
    -------
    text, whether
        The numbers as text, and whether commas were taken for decimal ones.

    Examples
    --------
    >>> plain_numbers(pd.Series(["1000,5", "998,25"]))[0].tolist()
    ['1000.5', '998.25']
    >>> plain_numbers(pd.Series(["1,060", "998"]))[0].tolist()
    ['1060', '998']
    """
    with_comma = text[text.str.contains(",", regex=False)]
    grouped = with_comma.str.fullmatch(r"[+-]?\d{1,3}(,\d{3})+(\.\d*)?")
    if bool(grouped.all()):
        return text.str.replace(",", "", regex=False), False
    decimal = text.str.replace(r"(?<=\d)[.\s'](?=\d{3}(\D|$))", "", regex=True)
    # A point or a group of three beside decimal commas is neither: left as it is, it is refused with its row.
    mixed = with_comma[~with_comma.str.fullmatch(r"[+-]?\d{1,3}([.\s']\d{3})*,\d*|[+-]?\d+,\d*")]
    return decimal.str.replace(",", ".", regex=False).where(~text.index.isin(mixed.index), text), True
