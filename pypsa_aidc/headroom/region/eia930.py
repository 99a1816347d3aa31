"""Hourly demand read from the files and the API of Form EIA-930, and from plain tables."""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd

from pypsa_aidc.errors import Faults
from pypsa_aidc.headroom.region.demand import HOUR, Demand, DemandWarning, findings, known_zone, no_findings
from pypsa_aidc.headroom.region.tables import Stamps, one_value_a_row, parse_stamps, plain_numbers, read_text

Layout = Literal["balance", "subregion", "api", "two-column"]
Column = Literal["raw", "imputed", "adjusted"]
PathLike = str | Path

COLUMNS = {"raw": "Demand (MW)", "imputed": "Demand (MW) (Imputed)", "adjusted": "Demand (MW) (Adjusted)"}
REGION = {"balance": "Balancing Authority", "subregion": "Sub-Region"}
UTC_END = "UTC Time at End of Hour"
US_DATE = "%m/%d/%Y %I:%M:%S %p"
EMPTY = ("", "MISSING", "NA", "N/A", "NaN", "nan", "null", "None")
"""Words that stand for a missing value."""
_SHOWN = 3
_ZONE = re.compile(r"[T:].*(?:Z|[+-]\d\d(?::?\d\d)?)$")
_OTHER_UNIT = re.compile(r"(?:^|[^a-z])(k|g|t)w", re.IGNORECASE)


@dataclass(frozen=True)
class Table:
    """What one file holds: `stamp` (hour ending, UTC), `region`, and a text column for each kind of value.

    `stamps` says in words how stamps were read, `value` how the file calls its only value, where it may choose. Of
    pages of the API, `announced` is the number of records that they say there are, `others` those not of demand.
    """

    path: Path
    layout: Layout
    rows: pd.DataFrame
    stamps: str
    value: str = ""
    announced: int | None = None
    others: int = 0


def read_demand(
    path: PathLike | Sequence[PathLike],
    *,
    layout: Layout | None = None,
    region: str | None = None,
    column: Column | None = None,
    stamps: Stamps | None = None,
    timezone: str | None = None,
    calendar: str = "UTC",
) -> Demand:
    """Read hourly demand.

    Form EIA-930 stamps an hour by its end; here and in PyPSA an hour is named by its beginning. The rule is: UTC,
    less one hour. ``01/01/2024 6:00:00 AM`` at the end of an hour becomes the hour that starts at 05:00 UTC.

    Parameters
    ----------
    path
        A file, or several of one layout (six-month files, pages of the API) that together are one series. Hours that
        come twice with the same value are listed as ``"duplicate"``.
    layout
        ``"balance"`` and ``"subregion"``: six-month CSV files. ``"api"``: JSON pages of version 2. ``"two-column"``:
        a plain table (CSV, semicolons or tabs, Excel) of stamp and MW, with a column of hours 1 to 24 or of regions
        between, or of a date and 24 columns of hours. Recognised from the file if None.
    region
        Code of the balancing authority or subregion, e.g. ``"8910"``; needed where a file holds several. In a
        two-column file, which has none, it is only the name.
    column
        ``"raw"``: as reported. ``"adjusted"``: corrected by EIA. ``"imputed"``: as reported, and EIA's imputation where
        there is one. If None, ``"adjusted"`` where the file has it, else ``"raw"``. Every hour in which it differs from
        the reported value is listed as ``"changed"``. Echoed in `Demand.column`; of two columns, the file's own name.
    stamps
        Whether the stamps of a two-column file mark the ``"ending"`` (if None) or the ``"beginning"`` of an hour.
        Echoed in `Demand.stamps`, with the time zone.
    timezone
        Of the stamps of a two-column file that state none; UTC if None. The repeated hour at the end of daylight saving
        is told apart by the order of the rows.
    calendar
        Time zone whose midnight starts days and years of the result.

    Returns
    -------
    Demand
        Every hour from the first to the last, NaN where a value or a row is missing.

    Raises
    ------
    InputError
        All faults of all files: no such file, no layout, several regions, an absent column, stamps or values that
        cannot be read, hours that do not exist or come twice with different values, pages that are missing.
    """
    paths = [Path(path)] if isinstance(path, str | Path) else [Path(one) for one in path]
    faults = Faults("Demand" if len(paths) != 1 else f"Demand in '{paths[0]}'")
    faults.require(len(paths) > 0, "path", [], "at least one file")
    for one in paths:
        faults.require(one.is_file(), "path", str(one), "an existing file")
    for name, value, kind in (("layout", layout, Layout), ("column", column, Column), ("stamps", stamps, Stamps)):
        known = get_args(kind)
        faults.require(value is None or value in known, name, value, f"one of {', '.join(known)}")
    for name, zone in (("timezone", timezone), ("calendar", calendar)):
        faults.require(zone is None or known_zone(zone), name, zone, "a time zone, e.g. 'America/Chicago'")
    faults.raise_any()
    read = [_table(one, layout, stamps, timezone, faults) for one in paths]
    faults.raise_any()
    tables = [table for table in read if table is not None]
    layouts = {table.layout for table in tables}
    faults.require(len(layouts) == 1, "files", sorted(layouts), "one layout")
    faults.raise_any()
    rows = pd.concat([table.rows for table in tables], ignore_index=True)
    _check_pages(tables, faults)
    chosen, name = _region(rows, region, tables[0].layout, faults)
    series, audit, read_column = _series(chosen, column, timezone, faults)
    named = ", ".join(one.name for one in paths[:_SHOWN]) + (", ..." if len(paths) > _SHOWN else "")
    told = "; ".join(dict.fromkeys(table.stamps for table in tables))
    source = f"{tables[0].layout}: {named}"
    return Demand(series, audit, source, name, tables[0].value or read_column, calendar, told)


def _table(
    path: Path, layout: Layout | None, stamps: Stamps | None, timezone: str | None, faults: Faults
) -> Table | None:
    """Read one file; what is wrong with it is noted, and then there may be no table."""
    given = {"stamps": stamps, "timezone": timezone}
    try:
        if layout == "api" or (layout is None and path.suffix == ".json"):
            _refuse(given, "api", faults)
            return _pages(path, faults)
        raw = read_text(path)
        raw = raw[[column for column in raw if _wanted(str(column))]]
    except (OSError, ValueError, ImportError) as error:
        faults.add(path.name, str(error).splitlines()[0], "a CSV, JSON or Excel file of hourly demand")
        return None
    found = layout or _recognised(list(raw.columns))
    layouts = "a six-month file of EIA-930, or two columns: stamp and MW, with at most hour and region between"
    faults.require(len(raw) > 0, path.name, "no rows", "at least one hour")
    if not len(raw):
        return None
    if found in REGION:
        _refuse(given, found, faults)
        rows = _six_months(raw, path, found, faults)
        return (
            None if rows is None else Table(path, found, rows.assign(file=path.name), _told(UTC_END, "ending", "UTC"))
        )
    before = len(faults)
    plain = one_value_a_row(raw, stamps, path.name, faults)
    faults.require(plain is not None, path.name, list(raw.columns)[:8], layouts)
    if plain is None or len(faults) > before:
        return None
    rows, told = _plain_table(plain, path, stamps, timezone, faults)
    return Table(path, "two-column", rows.assign(file=path.name), told, str(plain.attrs["what"]))


def _told(stamp: str, stamps: Stamps, zone: str) -> str:
    """Say how stamps are read."""
    return f"{stamp!r} as the {'end' if stamps == 'ending' else 'beginning'} of each hour, in {zone}"


def _zoned(stamps: pd.Series[str]) -> pd.Series[bool]:
    """Tell which stamps state a time zone."""
    return stamps.str.contains(_ZONE)


def _refuse(given: dict[str, str | None], layout: str, faults: Faults) -> None:
    for name, value in given.items():
        faults.require(value is None, name, value, f"None: layout '{layout}' states hours ending, in UTC")


def _wanted(column: str) -> bool:
    """Leave out the forty columns of generation and interchange, which make up most of a six-month file."""
    return not re.match(r"Net Generation|Total Interchange|Sum\(|Demand Forecast", column)


def _recognised(columns: list[str]) -> Layout | None:
    if UTC_END in columns and COLUMNS["raw"] in columns:
        return "subregion" if REGION["subregion"] in columns else "balance"
    return None


def _six_months(raw: pd.DataFrame, path: Path, layout: str, faults: Faults) -> pd.DataFrame | None:
    needed = [REGION[layout], UTC_END, COLUMNS["raw"]]
    absent = [name for name in needed if name not in raw]
    faults.require(not absent, path.name, list(raw.columns)[:8], f"the columns {', '.join(needed)}")
    if absent:
        return None
    stamps = pd.to_datetime(raw[UTC_END], format=US_DATE, errors="coerce")
    _note_stamps(raw[UTC_END], stamps, path, "month/day/year h:mm:ss AM or PM, UTC", faults)
    rows = pd.DataFrame({"stamp": stamps, "region": raw[REGION[layout]].str.strip(), "row": raw.index + 2})
    return rows.assign(**{kind: raw[name] for kind, name in COLUMNS.items() if name in raw})


def _plain_table(
    plain: pd.DataFrame, path: Path, stamps: Stamps | None, timezone: str | None, faults: Faults
) -> tuple[pd.DataFrame, str]:
    """Stamps in UTC at the end of each hour, and how they were read, in words."""
    when, what, text = str(plain.attrs["when"]), str(plain.attrs["what"]), plain["stamp"]
    unit = _OTHER_UNIT.search(what)
    faults.require(not unit, f"{path.name}, header", what, "MW", "Convert the values, and name the column demand_mw.")
    if plain.attrs["ending"]:
        # Hours by number have been turned into endings already.
        stamps = "ending"
    says_begin = re.search(r"begin|start", when, re.IGNORECASE) is not None
    contradicts = says_begin and stamps is None
    faults.require(not contradicts, "stamps", None, "'beginning' or 'ending'", f"The header says {when!r}.")
    late = text.str.contains(r"[ T]24:00").any()
    faults.require(not late or stamps != "beginning", "stamps", stamps, "'ending': no hour begins at 24:00")
    zoned = _zoned(text)
    faults.require(zoned.nunique() == 1, path.name, "stamps with and without a time zone", "one kind")
    if bool(zoned.all()):
        remedy = "If they are local times all the same, take the zone out of the stamps, then give timezone=."
        faults.require(timezone is None, "timezone", timezone, "None: the stamps state their own", remedy)
        parsed = pd.to_datetime(text, format="ISO8601", errors="coerce", utc=True).dt.tz_localize(None)
        problem = ""
    else:
        parsed, problem = parse_stamps(text.where(~zoned, ""))
    if problem:
        faults.add(f"{path.name}, '{when}'", problem, "dates that can be read in one way", "Write 2024-07-01 13:00.")
    elif zoned.nunique() == 1:
        _note_stamps(text.rename(when), parsed, path, "an ISO date and hour, or one such as 07/13/2024 17:00", faults)
    if timezone is not None and bool(parsed.notna().all()) and not bool(zoned.any()):
        parsed = _localised(parsed, text, path, timezone, faults)
    if stamps == "beginning":
        parsed = parsed + HOUR
    zone = "their own time zones" if bool(zoned.all()) else timezone or "UTC"
    rows = pd.DataFrame({"stamp": parsed, "region": plain["region"], "raw": plain["value"], "row": plain["row"]})
    return rows.assign(zoned=bool(zoned.all())), _told(when, stamps or "ending", zone)


def _localised(
    stamps: pd.Series[Any], text: pd.Series[str], path: Path, timezone: str, faults: Faults
) -> pd.Series[Any]:
    """Convert local stamps to UTC; an hour that the clock skips, or one of a repeated pair alone, is a fault."""
    open_ends = stamps.dt.tz_localize(timezone, ambiguous="NaT", nonexistent="NaT").isna()
    skipped = open_ends & stamps.dt.tz_localize(timezone, ambiguous="NaT", nonexistent="shift_forward").notna()
    for row in skipped.index[skipped][:_SHOWN]:
        faults.add(
            f"{path.name}, row {row + 2}",
            text[row],
            f"an hour that exists in {timezone}",
            "The clock is put forward there; are the stamps in standard time, e.g. 'Etc/GMT+6'?",
        )
    try:
        local = stamps[~skipped].dt.tz_localize(timezone, ambiguous="infer")
    except ValueError:
        unclear = stamps.index[open_ends & ~skipped][0]
        faults.add(
            f"{path.name}, row {unclear + 2}",
            text[unclear],
            f"the repeated hour of {timezone} twice, in order of time",
            "Complete it, or give the stamps in UTC.",
        )
        return stamps
    universal: pd.Series[Any] = local.dt.tz_convert("UTC").dt.tz_localize(None)
    return universal.reindex(stamps.index)


def _note_stamps(text: pd.Series[str], parsed: pd.Series[Any], path: Path, expected: str, faults: Faults) -> None:
    for row in text.index[parsed.isna()][:_SHOWN]:
        faults.add(f"{path.name}, row {row + 2}, '{text.name}'", text[row], expected)


def _pages(path: Path, faults: Faults) -> Table | None:
    """Read one or several pages of the API in a file."""
    content = json.loads(path.read_text(encoding="utf-8"))
    pages = content if isinstance(content, list) else [content]
    inner = [page.get("response", page) if isinstance(page, dict) else page for page in pages]
    for number, page in enumerate([*pages, *inner]):
        if isinstance(page, dict):
            _own_words(page, f"{path.name}, page {number % len(pages)}", faults)
    if len(faults):
        return None
    records: list[dict[str, Any]] = []
    for number, page in enumerate(inner):
        data = page.get("data") if isinstance(page, dict) else None
        if not isinstance(data, list):
            faults.add(f"{path.name}, page {number}", type(page).__name__, "response.data: a list of hours")
            continue
        frequency = page.get("frequency", "hourly")
        steps = ("hourly", "local-hourly")
        faults.require(frequency in steps, f"{path.name}, frequency", frequency, f"one of {', '.join(steps)}")
        records += data
    frame = pd.DataFrame(records)
    needed = {"period", "value"}
    faults.require(needed <= set(frame), path.name, list(frame.columns), "period and value in each record")
    if len(faults):
        return None
    others = 0
    if "type" in frame:
        # The announced total counts the other types that stand beside demand too.
        others = len(frame[frame["type"] != "D"].astype(str).drop_duplicates())
        frame = frame[frame["type"] == "D"].reset_index(drop=True)
        faults.require(len(frame) > 0, f"{path.name}, type", "no record of type D", "records of demand")
    units = set(frame.get("value-units", pd.Series(dtype=str)).dropna()) - {"megawatthours", "MWh"}
    faults.require(not units, f"{path.name}, value-units", sorted(map(str, units)), "megawatthours")
    text = frame["period"].astype(str)
    # "2024-01-01T06", in UTC, or "2024-01-01T01-05" in local time with its offset.
    full = text.str.replace(r"T(\d\d)(?=$|[+-])", r"T\1:00", regex=True).str.replace(
        r"([+-]\d\d)$", r"\1:00", regex=True
    )
    stamps = pd.to_datetime(full, format="ISO8601", errors="coerce", utc=True).dt.tz_localize(None)
    _note_stamps(text, stamps, path, "an hour such as 2024-01-01T06", faults)
    where = next((name for name in ("subba", "respondent") if name in frame), None)
    region = frame[where].astype(str) if where else ""
    value = frame["value"].map(lambda given: "" if given is None else str(given))
    totals = [int(page["total"]) for page in inner if isinstance(page, dict) and "total" in page]
    rows = pd.DataFrame({"stamp": stamps, "region": region, "raw": value, "row": frame.index, "file": path.name})
    told = _told("period", "ending", "UTC, or in the zone stated")
    return Table(path, "api", rows, told, announced=max(totals, default=None), others=others)


def _own_words(page: dict[str, Any], where: str, faults: Faults) -> None:
    """Pass on what the API itself says of a page: errors as faults, warnings as warnings."""
    if "error" in page:
        told = page["error"] if isinstance(page["error"], str) else json.dumps(page["error"])
        faults.add(where, told, "a page of data", "This is the answer of the API: mend the request and fetch it again.")
    for entry in page.get("warnings") or ():
        told = " ".join(map(str, entry.values())) if isinstance(entry, dict) else str(entry)
        warnings.warn(f"{where}: the API says: {told}", DemandWarning, stacklevel=5)


def _check_pages(tables: Sequence[Table], faults: Faults) -> None:
    """Compare the distinct records of all pages with the number that the API announces."""
    totals = [table.announced for table in tables if table.announced is not None]
    if not totals:
        return
    distinct = len(pd.concat([table.rows for table in tables])[["stamp", "region"]].drop_duplicates())
    seen = distinct + sum(table.others for table in tables)
    faults.require(seen >= max(totals), "pages", f"{seen} hours", f"the {max(totals)} of 'total'", "Fetch the others.")


def _region(rows: pd.DataFrame, region: str | None, layout: str, faults: Faults) -> tuple[pd.DataFrame, str]:
    there = sorted(rows["region"].unique())
    if there == [""]:
        return rows, region or ""
    if region is None and len(there) == 1:
        return rows, str(there[0])
    shown = ", ".join(there[:12]) + (", ..." if len(there) > 12 else "")
    faults.require(region in there, "region", region, f"one of {shown}", f"The {layout} file holds {len(there)}.")
    faults.raise_any()
    return rows[rows["region"] == region], str(region)


def _series(
    rows: pd.DataFrame, column: Column | None, timezone: str | None, faults: Faults
) -> tuple[pd.Series[float], pd.DataFrame, Column]:
    """Values by hour beginning, with the findings of reading."""
    present = [kind for kind in COLUMNS if kind in rows]
    kind: Column = column or ("adjusted" if "adjusted" in present else "raw")
    faults.require(kind in present, "column", kind, f"one of {', '.join(present)}")
    values = {name: _numbers(rows, name, faults) for name in dict.fromkeys(("raw", kind)) if name in present}
    faults.raise_any()
    chosen = values[kind] if kind != "imputed" else values[kind].fillna(values["raw"])
    table = pd.DataFrame({"hour": rows["stamp"] - HOUR, "raw": values["raw"], "chosen": chosen, "row": rows["row"]})
    table = table.assign(file=rows["file"], zoned=rows.get("zoned", False)).sort_values("hour", kind="stable")
    audit = [no_findings()]
    again = table.duplicated("hour")
    repeated, first = table[again], table[~again].set_index("hour")["chosen"].reindex(table.loc[again, "hour"])
    differing = ~np.isclose(repeated["chosen"], first, rtol=0, atol=0, equal_nan=True)
    for _, row in repeated[differing].head(_SHOWN).iterrows():
        both = table.loc[table["hour"] == row["hour"], "chosen"].tolist()
        hint = "If the stamps are local times with daylight saving, give timezone=." if timezone is None else ""
        if row["zoned"]:
            hint = "If they are local times with daylight saving, take the zone out of the stamps and give timezone=."
        faults.add(f"{row['file']}, row {row['row']}: hour {row['hour']} UTC", both, "one value for each hour", hint)
    faults.raise_any()
    same = repeated["chosen"]
    audit.append(findings(pd.DatetimeIndex(repeated["hour"]), "duplicate", same, same, "dropped"))
    table = table[~again].set_index("hour")
    differs = (table["raw"] != table["chosen"]) & ~(table["raw"].isna() & table["chosen"].isna())
    changed = table[differs]
    audit.append(
        findings(pd.DatetimeIndex(changed.index), "changed", changed["raw"], changed["chosen"], f"{kind} by the source")
    )
    hours = pd.date_range(table.index[0], table.index[-1], freq="h")
    # In zones such as India's all hours begin at half past in UTC; two kinds of minutes are steps below one hour.
    odd = table[~table.index.isin(hours)]
    for _, row in odd.head(_SHOWN).iterrows():
        faults.add(f"{row['file']}, row {row['row']}", "a part of an hour", "full hours", "Average first.")
    faults.raise_any()
    entries = [part for part in audit if len(part)]
    return table["chosen"].reindex(hours), pd.concat(entries, ignore_index=True) if entries else no_findings(), kind


def _numbers(rows: pd.DataFrame, kind: str, faults: Faults) -> pd.Series[float]:
    text = rows[kind].str.strip()
    empty = text.isin(EMPTY)
    plain, _ = plain_numbers(text.where(~empty, ""))
    numbers = pd.to_numeric(plain.where(~empty), errors="coerce").astype(float)
    wrong = rows[(numbers.isna() & ~empty) | np.isinf(numbers)]
    for _, row in wrong.head(_SHOWN).iterrows():
        faults.add(f"{row['file']}, row {row['row']}, {COLUMNS[kind]}", row[kind], "MW, or nothing for a missing hour")
    return numbers
