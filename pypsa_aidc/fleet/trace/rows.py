"""Rows of a partition in the typed schema, each with the reason why it is to be left out."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import polars as pl

from pypsa_aidc.errors import Faults
from pypsa_aidc.fleet.trace.layout import Layout
from pypsa_aidc.fleet.trace.schema import POD_HOURS, SERVER_HOURS, Column
from pypsa_aidc.fleet.trace.stamps import hours_since, moment
from pypsa_aidc.fleet.trace.trace import LONGEST_TRACE, Partition, Trace, reading, scan

SLACK = 1e-3
"""Relative excess of used over requested GPU-hours that is still rounding."""
IDLE = "rows that neither request nor use an accelerator"
CLIPPED = "utilisations clipped to their range"
BEYOND = f"hour is beyond {LONGEST_TRACE:,}: seconds? Count hours from the start, or write stamps with a zone"
ABOUT = {
    BEYOND: "hour",
    "hour is not a whole number": "hour",
    "no cluster": "cluster",
    "no accelerator": "accelerator",
    "unknown workload": "workload",
    "unknown priority": "priority",
    "unknown state": "state",
    "gpu_hours is not a number": "gpu_hours",
    "negative gpu_hours": "gpu_hours",
    "negative gpu_requested": "gpu_requested",
    "utilisation is not a number": "utilisation",
    "utilisation out of range": "utilisation",
    "CPU is negative or not a number": "cpu_requested",
}
"""Reason to leave out a pod row → the column that it is about."""


def pod_rows(trace: Trace, partition: Partition, extra: tuple[str, ...] = ()) -> pl.LazyFrame:
    """Rows of a partition of the pod table in the typed schema, each with the reason why it is to be left out.

    Parameters
    ----------
    trace, partition
        What to read.
    extra
        Columns that are normally optional but needed now, e.g. ``("pod",)``.

    Returns
    -------
    polars.LazyFrame
        Columns of `POD_HOURS`, plus `reason` (null for a good row), `sample` (what stands in the column that the reason
        is about), `overused` and `clipped` (bool).

    Raises
    ------
    InputError
        A column is missing or has an impossible type; all such faults of the partition together.
    """
    faults = Faults(f"Pod table, partition '{partition.name}'")
    frames = [
        _typed(trace, hour, path, POD_HOURS, trace.layout.pod_columns, faults, extra) for hour, path in partition.files
    ]
    faults.raise_any()
    return pl.concat(_checked(trace, frame) for frame in frames)


def idle_hours(trace: Trace, partition: Partition) -> pl.LazyFrame:
    """Hours of which rows that `pod_rows` skips tell that nothing ran: the one column `hour`."""
    faults = Faults(f"Pod table, partition '{partition.name}'")
    columns = trace.layout.pod_columns
    frames = [_typed(trace, hour, path, POD_HOURS, columns, faults) for hour, path in partition.files]
    faults.raise_any()
    return pl.concat(frames).filter(_idle() & ~_bad_hour()).select("hour").unique()


def server_rows(trace: Trace, partition: Partition) -> pl.LazyFrame:
    """Rows of a partition of the server table in the typed schema, each with the reason why it is to be left out."""
    faults = Faults(f"Server table, partition '{partition.name}'")
    frames = [
        _typed(trace, hour, path, SERVER_HOURS, trace.layout.server_columns, faults) for hour, path in partition.files
    ]
    faults.raise_any()
    reasons = {
        f"server {BEYOND}": pl.col("hour").is_finite() & (pl.col("hour") > LONGEST_TRACE),
        "server hour is not a whole number": _bad_hour(),
        "server without cluster or accelerator": pl.col("cluster").is_null() | pl.col("accelerator").is_null(),
        "server with a negative or missing size": _not_finite("gpus")
        | _not_finite("cores")
        | (pl.col("gpus") < 0)
        | (pl.col("cores") < 0),
    }
    return pl.concat(frames).with_columns(reason=first_that_holds(reasons))


def _typed(
    trace: Trace,
    hour: int | None,
    path: Path,
    schema: tuple[Column, ...],
    sources: Mapping[str, str],
    faults: Faults,
    extra: tuple[str, ...] = (),
) -> pl.LazyFrame:
    """Select the schema's columns out of one file; faults of presence and type are noted, values come later."""
    with reading(path):
        frame = scan(path)
        types = frame.collect_schema()
    selected: list[pl.Expr] = []
    for column in schema:
        source = sources.get(column.name, "")
        if column.name == "hour" and hour is not None:
            selected.append(pl.lit(float(hour)).alias("hour"))
            continue
        if column.name == "utilisation" and trace.scale == "absent":
            selected.append(pl.lit(None, dtype=pl.Float64).alias(column.name))
            continue
        if source not in types:
            needed = column.required or column.name in extra or column.name == "utilisation"
            faults.require(not needed, str(path), f"columns {', '.join(types.names())}", f"a column '{source}'")
            default = pl.lit(column.default, dtype=pl.String if column.text else pl.Float64)
            selected.append(default.alias(column.name))
            continue
        kind = types[source]
        stamps = column.name == "hour" and trace.origin is not None
        impossible = kind.is_nested() or kind in (pl.Boolean, pl.Binary, pl.Object)
        if impossible or (kind.is_temporal() and not (column.text or stamps)):
            faults.add(f"{path}, column '{source}'", str(kind), "text" if column.text else "numbers")
            continue
        value = pl.col(source)
        if column.name == "hour" and trace.origin is not None:
            hours = hours_since(moment(frame, source), trace.origin)
            selected.append(hours.fill_null(float("nan")).alias("hour"))
        elif column.text:
            text = value.cast(pl.String)
            selected.append(pl.when(text != "").then(text).alias(column.name))
        else:
            number = value.cast(pl.Float64, strict=False)
            # Text that is not a number must not pass for a missing value.
            selected.append(pl.when(value.is_not_null() & number.is_null()).then(float("nan")).otherwise(number))
            selected[-1] = (selected[-1] * trace.layout.scales.get(column.name, 1)).alias(column.name)
    return frame.select(selected)


def met(layout: Layout, place: str, name: str, value: object = None) -> str:
    """Say where a fault was met: the place, the source's column, a value in it, and the words that are known there."""
    source = layout.pod_columns.get(name)
    if source is None:
        return place
    words = f"; known are {', '.join(layout.words[name])}" if name in layout.words else ""
    example = "" if value is None else f", e.g. {value!r}"
    return f"{place}, column '{source}'{example}{words}"


def first_that_holds(reasons: Mapping[str, pl.Expr]) -> pl.Expr:
    """Return the text of the first condition that holds for a row, null if none does."""
    return pl.coalesce(pl.when(holds).then(pl.lit(text)) for text, holds in reasons.items())


def _not_finite(name: str) -> pl.Expr:
    return pl.col(name).is_null() | ~pl.col(name).is_finite()


def _bad_hour() -> pl.Expr:
    hour = pl.col("hour")
    return _not_finite("hour") | (hour < 0) | (hour > LONGEST_TRACE) | (hour != hour.floor())


def _idle() -> pl.Expr:
    """Whether a row neither requests nor uses an accelerator."""
    return (pl.col("gpu_hours").fill_null(0) == 0) & (pl.col("gpu_requested").fill_null(0) <= 0)


def _checked(trace: Trace, frame: pl.LazyFrame) -> pl.LazyFrame:
    """Skip rows without accelerators, translate words, apply the scale, and give every faulty row its reason."""
    words = trace.layout.words
    scaled = pl.col("utilisation") / (100 if trace.scale == "percent" else 1)
    outside = (scaled < 0) | (scaled > 1)
    overused = pl.col("gpu_hours") > pl.col("gpu_requested") * (1 + SLACK)
    reasons: dict[str, pl.Expr] = {
        BEYOND: pl.col("hour").is_finite() & (pl.col("hour") > LONGEST_TRACE),
        "hour is not a whole number": _bad_hour(),
        "no cluster": pl.col("cluster").is_null(),
        "no accelerator": pl.col("accelerator").is_null(),
        **{f"unknown {name}": ~pl.col(name).is_in(list(words[name])).fill_null(False) for name in words},
        "gpu_hours is not a number": _not_finite("gpu_hours"),
        "negative gpu_hours": pl.col("gpu_hours") < 0,
        "negative gpu_requested": pl.col("gpu_requested") < 0,
        "utilisation is not a number": pl.col("utilisation").is_not_null() & ~pl.col("utilisation").is_finite(),
        "utilisation out of range": outside if trace.out_of_range == "reject" else pl.lit(False),
        "CPU is negative or not a number": ~(
            (pl.col("cpu_requested").fill_null(0) >= 0)
            & (pl.col("cpu_load").fill_null(0) >= 0)
            & pl.col("cpu_requested").fill_null(0).is_finite()
            & pl.col("cpu_load").fill_null(0).is_finite()
        ),
    }
    sample = pl.coalesce(
        pl.when(pl.col("reason") == reason).then(pl.col(ABOUT[reason]).cast(pl.String)) for reason in reasons
    )
    hours = pl.min_horizontal("gpu_hours", "gpu_requested") if trace.overuse == "clip" else pl.col("gpu_hours")
    return (
        frame.filter(~_idle())
        .with_columns(reason=first_that_holds(reasons), overused=overused.fill_null(False))
        .with_columns(sample=sample)
        .with_columns(
            clipped=outside.fill_null(False),
            utilisation=scaled.clip(0, 1),
            gpu_hours=hours,
            **{name: pl.col(name).replace_strict(dict(words[name]), default=None) for name in words},
        )
    )
