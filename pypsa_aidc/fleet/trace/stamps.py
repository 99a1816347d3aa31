"""Moments as stamps, as seconds since 1970 or as numbers of hours, told apart by what a column holds and declares."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import polars as pl

from pypsa_aidc.errors import Faults
from pypsa_aidc.fleet.trace.tables import number

NOTHING = ("", "Unknown", "None", "NONE", "NULL", "null", "N/A", "NaN", "nan", "NaT", "-", "<no value>", "<none>")
"""What stands for no moment; Slurm writes ``Unknown`` for the end of a job that runs."""

LONGEST_TRACE = 100 * 8784
"""Hours; a longer one is a column in another unit."""

HOURS = {"h": 1.0, "min": 1 / 60, "s": 1 / 3600, "ms": 1 / 3.6e6, "us": 1 / 3.6e9, "ns": 1 / 3.6e12, "d": 24.0}
"""Units of numbers of time, in hours."""

EPOCHS = {"epoch-s": 1_000_000, "epoch-ms": 1000, "epoch-us": 1, "epoch-ns": 1e-3}
"""Units of numbers since 1970, in microseconds."""

EARLIEST, LATEST = datetime(1972, 1, 1, tzinfo=UTC), datetime(2090, 1, 1, tzinfo=UTC)
"""What lies outside is no moment but stands for none: zero seconds since 1970, or the year 2099 for "never"."""

_DATE = r"^\d{4}-\d\d-\d\d"
_ZONE = r"(Z|[+-]\d\d:?\d\d|[+-]\d\d)$"
_OFFSET = re.compile(r"[+-]\d\d:\d\d")
_STAMPS = "stamps with a zone, e.g. 2026-03-01T08:00:00+01:00, or hours since the start of the trace"
_REMEDY = "Declare the zone of the column (zone: Europe/Berlin; on the command line --zone Europe/Berlin)."


def known(source: str) -> pl.Expr:
    """Text of a column without what stands for nothing."""
    text = pl.col(source).cast(pl.String).str.strip_chars()
    return pl.when(~text.is_in(NOTHING)).then(text)


def _stamp(source: str) -> pl.Expr:
    """Text of a column of stamps, with dashes and two digits where ``2026/3/1 8:00`` has neither."""
    dashed = known(source).str.replace(r"^(\d{4})/(\d{1,2})/(\d{1,2})", "${1}-0${2}-0${3}")
    padded = dashed.str.replace(r"^(\d{4})-0?(\d\d)-0?(\d\d)", "${1}-${2}-${3}")
    return padded.str.replace(r"([T ])(\d):", "${1}0${2}:")


def check_zone(faults: Faults, zone: str) -> None:
    """Note a zone that is neither a name of the IANA database nor an offset such as ``+05:30``."""
    if not zone or _OFFSET.fullmatch(zone):
        return
    try:
        ZoneInfo(zone)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        faults.add("zone", zone, "a name such as Europe/Berlin, or an offset such as +05:30")


def has_stamps(frame: pl.LazyFrame, source: str, unit: str | float, zone: str, where: str, faults: Faults) -> bool:
    """Whether a column holds moments rather than numbers since the start; what cannot be told is noted as a fault."""
    kind = frame.collect_schema()[source]
    if isinstance(unit, str) and unit in EPOCHS:
        return True
    if isinstance(kind, pl.Datetime):
        faults.require(kind.time_zone is not None or bool(zone), where, "stamps without a zone", _STAMPS, _REMEDY)
        return True
    if kind == pl.Date:
        faults.require(bool(zone), where, "dates", _STAMPS, _REMEDY)
        return True
    if kind.is_numeric():
        _no_epoch(frame.select(pl.col(source).cast(pl.Float64).alias("x")), unit, where, faults)
        return False
    if kind != pl.String:
        return False
    text = _stamp(source)
    dated, bare, other = (
        frame.select(
            text.str.contains(_DATE).any().alias("dated"),
            text.filter(text.str.contains(_DATE) & ~text.str.contains(f"[T ].*{_ZONE}")).min().alias("bare"),
            text.filter(text.str.contains(r"^\d{1,2}[/.]\d{1,2}[/.]\d{4}")).min().alias("other"),
        )
        .collect()
        .row(0)
    )
    faults.require(
        other is None, where, other, "year-month-day", "Day and month cannot be told apart: write ISO dates."
    )
    faults.require(bare is None or bool(zone), where, bare, _STAMPS, _REMEDY)
    if not dated and other is None:
        _no_epoch(frame.select(text.cast(pl.Float64, strict=False).alias("x")), unit, where, faults)
    return bool(dated)


def _no_epoch(frame: pl.LazyFrame, unit: str | float, where: str, faults: Faults) -> None:
    """Note numbers that can only count from 1970, with the unit that they seem to have."""
    value = frame.select(pl.col("x").filter(pl.col("x").is_finite()).median()).collect().item()
    if value is None or abs(value) * hours_in(unit) <= LONGEST_TRACE:
        return
    guess = epoch_guess(float(value))
    if guess:
        moment = datetime.fromtimestamp(value * EPOCHS[guess] / 1e6, UTC)
        remedy = f"Seconds since 1970? As {guess} it is {moment:%Y-%m-%dT%H:%MZ}: declare units {{column: '{guess}'}}."
    else:
        remedy = "Declare its unit, e.g. units {column: 's'}."
    faults.add(where, value, f"hours since the start of the trace, at most {LONGEST_TRACE:,}", remedy)


def epoch_guess(value: float) -> str:
    """Unit in which a number is a moment of 1990 … 2060; empty if in none.

    Examples
    --------
    >>> epoch_guess(1772352000), epoch_guess(1772352000000), epoch_guess(12.0)
    ('epoch-s', 'epoch-ms', '')
    """
    low, high = (datetime(year, 1, 1, tzinfo=UTC).timestamp() * 1e6 for year in (1990, 2060))
    return next((unit for unit, factor in EPOCHS.items() if low <= value * factor <= high), "")


def hours_in(unit: str | float) -> float:
    """Hours in a unit of numbers, given by name or as a factor."""
    return HOURS.get(unit, 1.0) if isinstance(unit, str) else float(unit)


def moment(
    types: Mapping[str, pl.DataType],
    source: str,
    unit: str | float = "",
    zone: str = "",
    ambiguous: Literal["earliest", "null"] = "null",
) -> pl.Expr:
    """UTC moments of a column of stamps; null where there is none or it cannot be read.

    Parameters
    ----------
    types
        Types of the table's columns.
    source, unit
        The column, and its unit if it counts from 1970.
    zone
        Of stamps that name none.
    ambiguous
        What becomes of a local time that the clock shows twice.
    """
    kind = types[source]
    if isinstance(unit, str) and unit in EPOCHS:
        microseconds = (number(types, source) * EPOCHS[unit]).round(0)
        inside = microseconds.is_between(-1e17, 1e17)
        found = pl.when(inside).then(microseconds).cast(pl.Int64).cast(pl.Datetime("us", "UTC"))
    elif isinstance(kind, pl.Datetime) and kind.time_zone is not None:
        found = pl.col(source).dt.convert_time_zone("UTC").cast(pl.Datetime("us", "UTC"))
    elif isinstance(kind, (pl.Datetime, pl.Date)):
        found = localised(pl.col(source).cast(pl.Datetime("us")), zone or "UTC", ambiguous)
    else:
        # The format knows zones only with a colon and times only with seconds; tools write them without.
        text = (
            _stamp(source)
            .str.replace(r"([T ]\d\d:\d\d)(Z|[+-]|$)", "${1}:00${2}")
            .str.replace(r"([T ].*[+-]\d\d)$", "${1}:00")
            .str.replace(r"([T ].*[+-]\d\d)(\d\d)$", "${1}:${2}")
        )
        found = text.str.to_datetime("%+", time_unit="us", time_zone="UTC", strict=False)
        if zone:
            bare = text.str.replace("T", " ", literal=True).str.replace(r"^(\S+)$", "${1} 00:00:00")
            local = bare.str.to_datetime("%Y-%m-%d %H:%M:%S%.f", time_unit="us", strict=False)
            found = pl.coalesce(found, localised(local, zone, ambiguous))
    return pl.when(found.is_between(EARLIEST, LATEST)).then(found)


def is_sentinel(types: Mapping[str, pl.DataType], source: str, unit: str | float = "") -> pl.Expr:
    """Whether something stands in a column of stamps that is no moment: 1970, 2099 or a year like them."""
    if isinstance(unit, str) and unit in EPOCHS:
        microseconds = number(types, source) * EPOCHS[unit]
        bounds = (EARLIEST.timestamp() * 1e6, LATEST.timestamp() * 1e6)
        return microseconds.is_not_null() & ~microseconds.is_between(*bounds)
    if types[source].is_temporal():
        year = pl.col(source).dt.year()
    else:
        year = _stamp(source).str.extract(r"^(\d{4})-\d\d-\d\d").cast(pl.Int32, strict=False)
    return (year.is_not_null() & ~year.is_between(EARLIEST.year, LATEST.year - 1)).fill_null(False)


def localised(local: pl.Expr, zone: str, ambiguous: Literal["earliest", "null"]) -> pl.Expr:
    """UTC moments of local ones, by the name of their zone or its offset."""
    if _OFFSET.fullmatch(zone):
        hours, minutes = int(zone[1:3]), int(zone[4:])
        offset = timedelta(hours=hours, minutes=minutes) * (-1 if zone[0] == "-" else 1)
        return (local - pl.lit(offset)).dt.replace_time_zone("UTC")
    placed = local.dt.replace_time_zone(zone, ambiguous=ambiguous, non_existent="null")
    return placed.dt.convert_time_zone("UTC")


def midnight(first: datetime) -> datetime:
    """UTC midnight before a moment: hour 0 of a trace of stamps, so that hours of the day are those of UTC."""
    return first.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)


def hours_since(moments: pl.Expr, origin: datetime) -> pl.Expr:
    """Hours from `origin`, exact to the microsecond."""
    return (moments - pl.lit(origin).cast(pl.Datetime("us", "UTC"))).dt.total_microseconds() / 3.6e9


def written(origin: datetime | None) -> str:
    """Moment of hour 0 as text; empty without stamps."""
    return "" if origin is None else f"{origin:%Y-%m-%dT%H:%MZ}"
