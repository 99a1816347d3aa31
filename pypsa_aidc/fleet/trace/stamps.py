"""Moments as numbers of hours or as stamps with a zone, told apart by what a column holds."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import polars as pl

from pypsa_aidc.errors import Faults

NOTHING = ("", "Unknown", "None", "NULL", "null", "N/A", "NaN", "nan")
"""What stands for no moment; Slurm writes ``Unknown`` for the end of a job that runs."""

_DATE = r"^\d{4}-\d\d-\d\d"
_ZONE = r"(Z|[+-]\d\d:?\d\d)$"


def known(source: str) -> pl.Expr:
    """Text of a column without what stands for nothing."""
    text = pl.col(source).cast(pl.String).str.strip_chars()
    return pl.when(~text.is_in(NOTHING)).then(text)


def has_stamps(frame: pl.LazyFrame, source: str, path: Path, faults: Faults) -> bool:
    """Whether a column holds stamps rather than numbers; stamps without a zone are noted as a fault."""
    kind = frame.collect_schema()[source]
    where = f"{path}, column '{source}'"
    zones = "stamps with a zone, e.g. 2026-03-01T08:00:00+01:00, or hours since the start of the trace"
    remedy = "Write the zone into the column, e.g. with pandas: to_datetime(…).dt.tz_localize('Europe/Berlin')."
    if isinstance(kind, pl.Datetime):
        faults.require(kind.time_zone is not None, where, "stamps without a zone", zones, remedy)
        return True
    if kind == pl.Date:
        faults.add(where, "dates", zones, remedy)
        return True
    if kind != pl.String:
        return False
    text = known(source)
    dated, bare = (
        frame.select(
            text.str.contains(_DATE).any().alias("dated"),
            text.filter(text.str.contains(_DATE) & ~text.str.contains(_ZONE)).min().alias("bare"),
        )
        .collect()
        .row(0)
    )
    faults.require(bare is None, where, bare, zones, remedy)
    return bool(dated)


def moment(frame: pl.LazyFrame, source: str) -> pl.Expr:
    """UTC moments of a column of stamps; null where there is none or it cannot be read."""
    if isinstance(frame.collect_schema()[source], pl.Datetime):
        return pl.col(source).dt.convert_time_zone("UTC").cast(pl.Datetime("us", "UTC"))
    # The format knows zones only with a colon; Slurm and strftime write them without.
    text = known(source).str.replace(r"([+-]\d\d)(\d\d)$", "${1}:${2}")
    return text.str.to_datetime("%+", time_unit="us", time_zone="UTC", strict=False)


def midnight(first: datetime) -> datetime:
    """UTC midnight before a moment: hour 0 of a trace of stamps, so that hours of the day are those of UTC."""
    return first.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)


def hours_since(moments: pl.Expr, origin: datetime) -> pl.Expr:
    """Hours from `origin`, exact to the microsecond."""
    return (moments - pl.lit(origin).cast(pl.Datetime("us", "UTC"))).dt.total_microseconds() / 3.6e9
