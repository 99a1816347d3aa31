"""Hourly tables: rows in the typed schema, each with the reason to leave it out, reduced to cells."""

from __future__ import annotations

import hashlib
import json
import operator
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from pypsa_aidc.errors import Faults
from pypsa_aidc.fleet.trace.audit import Audit, merged
from pypsa_aidc.fleet.trace.layout import Layout
from pypsa_aidc.fleet.trace.schema import (
    CAPACITY_TYPES,
    CELL_TYPES,
    KEYS,
    KNOTS,
    POD_HOURS,
    SERVER_HOURS,
    Column,
)
from pypsa_aidc.fleet.trace.stamps import LONGEST_TRACE, hours_since, moment, written
from pypsa_aidc.fleet.trace.tables import number, on_disk, reading, scan
from pypsa_aidc.fleet.trace.trace import Partition, Trace
from pypsa_aidc.progress import track

SLACK = 1e-3
"""Relative excess of used over requested GPU-hours that is still rounding."""
IDLE = "rows that neither request nor use an accelerator"
CLIPPED = "utilisations clipped to their range"
BEYOND = f"hour is beyond {LONGEST_TRACE:,}: seconds? Count hours from the start, or write stamps with a zone"
NO_MOMENT = "hour cannot be read, or is one that the clock shows twice or never: write the zone into the stamps"
MOST = 1e6
"""GPU-hours, or cores, of a row; more is another unit."""

HUGE = f"gpu_hours above {MOST:,.0f}: GPU-seconds?"
ABOUT = {
    BEYOND: "hour",
    "hour is not a whole number": "hour",
    NO_MOMENT: "hour",
    "no cluster": "cluster",
    "no accelerator": "accelerator",
    "unknown workload": "workload",
    "unknown priority": "priority",
    "unknown state": "state",
    "gpu_hours is not a number": "gpu_hours",
    "negative gpu_hours": "gpu_hours",
    HUGE: "gpu_hours",
    "negative gpu_requested": "gpu_requested",
    "utilisation is not a number": "utilisation",
    "utilisation out of range": "utilisation",
    "CPU is negative or not a number": "cpu_requested",
}
"""Reason to leave out a pod row → the column that it is about."""

VERSION = 5
"""Of the partition results on disk: a change of what they hold makes kept ones stale."""

LOOKS_LIKE_FRACTIONS = "partitions declared in percent that never exceed 1 %"
ENOUGH_TO_TELL = 20
"""Rows with a utilisation before a partition's largest one says something about the scale."""

GRAIN = 2.0**60
"""Parts of a GPU-hour in which amounts are added up: sums of whole numbers do not depend on the order of the rows."""

COVERED = 0.95
"""Share of its samples from which on an hour counts as seen; it is then scaled to a whole one."""

FAR = 60 * 24
"""Hours without any row beyond which a few rows are stale ones and no part of the trace."""
STALE = f"rows more than {FAR // 24} days away from all others"
COPIES = "rows that repeat another one, counted once"
LOST_SAMPLES = "cluster hours with less than 95 % of their samples, missing"
FILLED_SAMPLES = "cluster hours with a few samples missing, scaled to whole hours"
SILENT = "cluster hours without a row between the first of the cluster and the end of the trace, missing"
LATER = "hours before the first row of a cluster, counted as 0 MW"


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
        Columns of `POD_HOURS`, plus `idle` (no accelerator is asked for or used) and `reason` (null for good rows).

    Raises
    ------
    InputError
        A column is missing or has an impossible type; all such faults of the partition together.
    """
    words = trace.layout.words
    rows = _with_faults(trace, _typed_rows(trace, partition, extra))
    texts = [column.name for column in POD_HOURS if column.text and column.name not in words]
    return rows.with_columns(
        reason=_reason(trace),
        **{name: pl.when(pl.col(name) != "").then(pl.col(name)) for name in texts},
        **{name: _translated(name, words[name]) for name in words},
    )


def _typed_rows(trace: Trace, partition: Partition, extra: tuple[str, ...] = ()) -> pl.LazyFrame:
    faults = Faults(f"Pod table, partition '{partition.name}'")
    columns = trace.layout.pod_columns
    frames = [_typed(trace, hour, path, POD_HOURS, columns, faults, extra) for hour, path in partition.files]
    faults.raise_any()
    return pl.concat(frames) if len(frames) > 1 else frames[0]


def server_rows(trace: Trace, partition: Partition) -> pl.LazyFrame:
    """Rows of a partition of the server table in the typed schema, each with the reason why it is to be left out."""
    faults = Faults(f"Server table, partition '{partition.name}'")
    columns = trace.layout.server_columns
    frames = [_typed(trace, hour, path, SERVER_HOURS, columns, faults) for hour, path in partition.files]
    faults.raise_any()
    reasons = {
        f"server {BEYOND}": pl.col("hour").is_finite() & (pl.col("hour") > LONGEST_TRACE),
        "server hour is not a whole number": _bad_hour(),
        "server without cluster or accelerator": _no_text("cluster") | _no_text("accelerator"),
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
    layout = trace.layout
    selected: list[pl.Expr] = []
    for column in schema:
        source = sources.get(column.name, "")
        if column.name == "hour" and hour is not None:
            selected += [pl.lit(float(hour)).alias("hour"), pl.lit(float(hour)).alias("at")]
            continue
        if column.name in layout.constants:
            kind: Any = pl.String if column.text else pl.Float64
            selected.append(pl.lit(layout.constants[column.name], dtype=kind).alias(column.name))
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
            hours = hours_since(moment(types, source, layout.units.get("hour", ""), layout.zone), trace.origin)
            hours = hours.fill_null(float("nan"))
            # A stamp within the hour is a sample of it.
            selected += [hours.floor().alias("hour"), hours.alias("at")]
        elif column.text:
            selected.append(value.cast(pl.String).alias(column.name))
        else:
            exact = types[source].is_numeric()
            parsed = value.cast(pl.Float64) if exact else number(types, source, source in trace.decimal_commas)
            # Text that is not a number must not pass for a missing value.
            if not exact:
                parsed = pl.when(value.is_not_null() & parsed.is_null()).then(float("nan")).otherwise(parsed)
            factor = layout.factor(column.name) if column.name != "utilisation" else 1.0
            selected.append((parsed * factor if factor != 1.0 else parsed).alias(column.name))
            if column.name == "hour":
                selected.append((parsed * factor).alias("at"))
    return frame.select(selected)


def met(layout: Layout, place: str, name: str, value: object = None) -> str:
    """Say where a fault was met: the place, the source's column, a value in it, and the words that are known there."""
    source = layout.pod_columns.get(name)
    if source is None:
        return place
    words = f"; known are {', '.join(layout.words[name])}" if name in layout.words else ""
    example = "" if value is None or value == "NaN" else f", e.g. {value!r}"
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


def _no_text(name: str) -> pl.Expr:
    return pl.col(name).is_null() | (pl.col(name) == "")


def _translated(name: str, words: Mapping[str, str]) -> pl.Expr:
    """Schema words of a column of words; the empty word stands for nothing."""
    return pl.col(name).cast(pl.String).fill_null("").replace_strict(dict(words), default=None, return_dtype=pl.String)


def _number_faults(trace: Trace) -> dict[str, pl.Expr]:
    """Reasons to leave a row out that lie in its numbers, those of the hour first."""
    scaled = pl.col("utilisation") / (100 if trace.scale == "percent" else 1)
    cores, load = (pl.col(name).fill_null(0) for name in ("cpu_requested", "cpu_load"))
    return {
        BEYOND: pl.col("hour").is_finite() & (pl.col("hour") > LONGEST_TRACE),
        ("hour is not a whole number" if trace.origin is None else NO_MOMENT): _bad_hour(),
        "gpu_hours is not a number": _not_finite("gpu_hours"),
        "negative gpu_hours": pl.col("gpu_hours") < 0,
        HUGE: pl.col("gpu_hours") > MOST,
        "negative gpu_requested": pl.col("gpu_requested") < 0,
        "utilisation is not a number": ~pl.col("utilisation").is_finite(),
        "utilisation out of range": ~scaled.is_between(0, 1) if trace.out_of_range == "reject" else pl.lit(False),
        "CPU is negative or not a number": ~(cores.is_between(0, MOST) & (load >= 0) & load.is_finite()),
    }


OF_THE_HOUR = 2
"""Reasons of `_number_faults` that are about the hour, and go before those about labels."""


def _label_faults(words: Mapping[str, Mapping[str, str]]) -> dict[str, pl.Expr]:
    """Reasons to leave a row out that lie in its labels."""
    return {
        **{f"no {name}": _no_text(name) for name in ("cluster", "accelerator")},
        **{f"unknown {name}": ~pl.col(name).fill_null("").is_in(list(words[name])) for name in words},
    }


def _with_faults(trace: Trace, frame: pl.LazyFrame) -> pl.LazyFrame:
    """Tell which rows are idle, number the faults in the numbers of the others, and bring these to their scale."""
    scaled = pl.col("utilisation") / (100 if trace.scale == "percent" else 1)
    overused = pl.col("gpu_hours") > pl.col("gpu_requested") * (1 + SLACK)
    hours = pl.min_horizontal("gpu_hours", "gpu_requested") if trace.overuse == "clip" else pl.col("gpu_hours")
    holds = _number_faults(trace).values()
    # Numbers instead of texts: millions of rows are looked at.
    first = pl.coalesce(pl.when(fault).then(pl.lit(code, dtype=pl.UInt8)) for code, fault in enumerate(holds))
    return frame.with_columns(
        idle=_idle(),
        fault=pl.when(~_idle()).then(first),
        overused=overused.fill_null(False),
        clipped=(~scaled.is_between(0, 1)).fill_null(False),
        utilisation=scaled.clip(0, 1),
        gpu_hours=hours,
        given=pl.col("utilisation"),
    )


def _reason(trace: Trace) -> pl.Expr:
    """Why rows with a `fault` and labels are to be left out; null for good and for idle ones."""
    names = dict(enumerate(_number_faults(trace)))
    numbers = pl.col("fault").replace_strict(names, default=None, return_dtype=pl.String)
    labels = first_that_holds(_label_faults(trace.layout.words))
    return pl.when(~pl.col("idle")).then(
        pl.coalesce(pl.when(pl.col("fault") < OF_THE_HOUR).then(numbers), labels, numbers)
    )


# ------------------------------------------------------------------------------------------- from rows to cells
@dataclass(frozen=True)
class Hourly:
    """A trace reduced: cells, capacity, audit, hours in which all clusters were seen, what outlasts calls."""

    cells: pl.DataFrame
    capacity: pl.DataFrame
    audit: Audit
    observed: npt.NDArray[np.int64]
    lasting: pl.DataFrame | None = None


def aggregated(trace: Trace, keep: Path | None, count_servers: bool, retired: Sequence[str] = ()) -> Hourly:
    """Reduce an hourly trace; see `Statistics.of`."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = keep or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        pods = [
            kept(folder, "pods", trace, piece, partial(_reduced_pods, trace, piece, count_servers), count_servers)
            for piece in track(_disjoint(trace), "pods, by partition")
        ]
        servers = [
            kept(folder, "servers", trace, piece, partial(_reduced_servers, trace, piece))
            for piece in track(trace.servers, "servers, by partition")
        ]
    audit = merged((part for _, part in (*pods, *servers)), trace.label, trace.scale)
    rows = pl.concat([pl.DataFrame(schema={**CELL_TYPES, "covered": pl.Float64}), *(frame for frame, _ in pods)])
    capacity = _summed([frame for frame, _ in servers], CAPACITY_TYPES, KEYS[:3])
    rows, audit = _without_stale(rows, audit)
    is_cell = pl.col("accelerator").is_not_null()
    seen = rows.select("hour", "cluster", "covered").unique().sort("hour", "cluster")
    cells = rows.filter(is_cell).drop("covered").sort(KEYS)
    observed, audit = _seen_by_all(seen, capacity, audit, retired)
    # Of cells in their order, so that partitions do not matter to the last bit.
    audit = replace(audit, gpu_hours=float(cells["gpu_hours"].sum()) + sum(audit.lost.values()))
    return Hourly(cells, capacity, audit, observed)


def _disjoint(trace: Trace) -> tuple[Partition, ...]:
    """Partitions without an hour in common: files that share hours are read as one, or their cells would be split."""
    loose = [piece for piece in trace.pods if piece.files[0][0] is None]
    if len(loose) < 2:
        return trace.pods
    ranges = []
    for piece in loose:
        with reading(f"{trace.folder}, {piece.name}"):
            hours = (
                _typed_rows(trace, piece)
                .filter(~_bad_hour())
                .select(pl.col("hour").min(), pl.col("hour").max().alias("last"))
            )
            first, last = hours.collect(engine="streaming").row(0)
        ranges.append((float("-inf") if first is None else first, float("-inf") if last is None else last, piece))
    groups: list[tuple[float, list[Partition]]] = []
    for first, last, piece in sorted(ranges, key=lambda item: (item[0], item[1], item[2].name)):
        if groups and first <= groups[-1][0]:
            groups[-1] = (max(groups[-1][0], last), [*groups[-1][1], piece])
        else:
            groups.append((last, [piece]))
    return tuple(
        Partition(" and ".join(piece.name for piece in group), tuple(file for piece in group for file in piece.files))
        for _, group in groups
    )


def _without_stale(rows: pl.DataFrame, audit: Audit) -> tuple[pl.DataFrame, Audit]:
    """Reject a few rows that are months away from all others: one of them would stretch the trace by years."""
    hours = rows["hour"].unique().sort().to_numpy()
    if hours.size == 0:
        return rows, audit
    piece = np.concatenate([[0], np.cumsum(np.diff(hours) > FAR)])
    if piece[-1] == 0:
        return rows, audit
    table = rows.join(pl.DataFrame({"hour": hours, "piece": piece}).cast({"hour": rows["hour"].dtype}), on="hour")
    sizes = table.group_by("piece").agg(pl.col("pods").sum().fill_null(0)).sort("pods", "piece", descending=True)
    few = sizes.filter(pl.col("pods") <= max(1.0, 0.01 * float(sizes["pods"].sum())))["piece"].to_list()
    stale = table.filter(pl.col("piece").is_in(few))
    if stale.is_empty() or len(few) == sizes.height:
        return rows, audit
    count, hour = int(stale["pods"].sum()), int(stale["hour"][0])
    rejected = {**audit.rejected, STALE: count}
    lost = {**audit.lost, STALE: float(stale["gpu_hours"].sum())}
    audit = replace(audit, rejected=rejected, lost=lost, examples={**audit.examples, STALE: f"hour {hour}"})
    return table.filter(~pl.col("piece").is_in(few)).select(rows.columns), audit


def _seen_by_all(
    seen: pl.DataFrame, capacity: pl.DataFrame, audit: Audit, retired: Sequence[str]
) -> tuple[npt.NDArray[np.int64], Audit]:
    """Hours in which no cluster is silent that was there before, and the audit with those in which one is.

    A cluster with servers in an hour is there, be it idle. Before its first row it is not there yet.
    """
    thin = seen.filter(pl.col("covered") < COVERED)
    filled = seen.filter(pl.col("covered").is_between(COVERED, 1 - 1e-9)).height
    full = seen.filter(pl.col("covered") >= COVERED).select("hour", "cluster")
    there = pl.concat([full, capacity.select("hour", "cluster")]).filter(pl.col("cluster").is_not_null()).unique()
    hours = np.setdiff1d(seen["hour"].unique().to_numpy(), thin["hour"].unique().to_numpy()).astype(np.int64)
    notes = {LOST_SAMPLES: thin.height, FILLED_SAMPLES: filled}
    examples: dict[str, str] = {}
    if hours.size == 0:
        return hours, audit
    last, missing = int(hours[-1]), []
    for (name,), group in sorted(there.group_by("cluster"), key=lambda item: str(item[0][0])):
        own = np.sort(group["hour"].to_numpy())
        end = int(own[-1]) if name in retired else last
        silent = np.setdiff1d(hours[(hours >= own[0]) & (hours <= end)], own)
        early = int((hours < own[0]).sum())
        for reason, count, where in ((SILENT, silent.size, silent[:1]), (LATER, early, hours[:1])):
            if count:
                notes[reason] = notes.get(reason, 0) + int(count)
                examples.setdefault(reason, f"cluster {name}, {count:,} h from hour {int(where[0]):,}")
        missing.append(silent)
    noted = {reason: count for reason, count in notes.items() if count}
    audit = replace(audit, noted={**audit.noted, **noted}, examples={**audit.examples, **examples})
    return np.setdiff1d(hours, np.concatenate(missing)) if missing else hours, audit


def _summed(frames: list[pl.DataFrame], types: dict[str, Any], keys: tuple[str, ...]) -> pl.DataFrame:
    """One table of all partitions in the order of its keys; a key that several partitions share is added up."""
    table = pl.concat([pl.DataFrame(schema=types), *(frame for frame in frames if frame.height)])
    repeated = len(frames) > 1 and table.select(keys).is_duplicated().any()
    return (table.group_by(keys).agg(pl.exclude(keys).sum()) if repeated else table).sort(keys)


def kept(
    folder: Path,
    table: str,
    trace: Trace,
    piece: Partition,
    make: Callable[[], tuple[pl.DataFrame, Audit]],
    *options: object,
) -> tuple[pl.DataFrame, Audit]:
    """Take the result of a partition from disk if it is complete and fits, else make it and keep it.

    Parameters
    ----------
    folder
        Where results are kept.
    table
        What kind of result it is, e.g. ``"pods"``.
    trace, piece
        The partition.
    make
        Computes the result.
    options
        Whatever else the result depends on.
    """
    name = f"{table}-{hashlib.sha256(piece.name.encode()).hexdigest()[:16]}"
    data, record = folder / f"{name}.parquet", folder / f"{name}.json"
    files = [
        (hour, str(path), on_disk(path).stat().st_size, on_disk(path).stat().st_mtime_ns) for hour, path in piece.files
    ]
    read_as = (trace.scale, trace.out_of_range, trace.overuse, trace.duplicates, trace.origin, trace.cadence)
    settings = (VERSION, pl.__version__, trace.layout, read_as, sorted(trace.decimal_commas), options)
    fingerprint = hashlib.sha256(repr((files, settings)).encode()).hexdigest()
    try:
        known = json.loads(record.read_text(encoding="utf-8"))
        if known["fingerprint"] == fingerprint and known["bytes"] == data.stat().st_size:
            return pl.read_parquet(data), Audit(**known["audit"])
    except (OSError, ValueError, KeyError, TypeError, pl.exceptions.PolarsError):
        pass
    record.unlink(missing_ok=True)
    frame, audit = make()
    replace_table(data, frame)
    # The record comes last: without it, or with another size in it, the partition counts as not done.
    known = {"fingerprint": fingerprint, "bytes": data.stat().st_size, "audit": audit.to_dict()}
    temporary = record.with_suffix(".tmp")
    temporary.write_text(json.dumps(known), encoding="utf-8")
    temporary.replace(record)
    return frame, audit


def replace_table(path: Path, frame: pl.DataFrame) -> None:
    """Write a parquet file so that it is there completely or not at all."""
    temporary = path.with_suffix(".tmp")
    frame.write_parquet(temporary)
    temporary.replace(path)


def _exact(amount: pl.Expr) -> pl.Expr:
    """Sum of amounts that is the same in any order of the rows: of whole grains, in 128 bits."""
    return (amount * GRAIN).cast(pl.Int128, strict=False).sum()


def _amounts(table: pl.DataFrame) -> pl.DataFrame:
    """Whole grains of a table as amounts again."""
    whole = [name for name, kind in table.schema.items() if kind == pl.Int128]
    return table.with_columns(pl.col(whole).cast(pl.Float64) / GRAIN)


def _repeated(rows: pl.LazyFrame, identified: bool) -> tuple[int, int]:
    """Count rows that equal another one, and those that say something else about the same pod and moment."""
    told = rows.filter(~_no_text("pod")) if identified else rows.filter(~_idle())
    few = ("at", "pod") if identified else ("at", "gpu_hours", "utilisation", "cluster")
    hashes = np.sort(told.select(_mixed(few)).collect(engine="streaming").to_series().to_numpy())
    again = hashes[1:][hashes[1:] == hashes[:-1]]
    if again.size == 0:
        return 0, 0
    amounts = ("gpu_hours", "gpu_requested", "utilisation", "cpu_requested", "cpu_load")
    names = [name for name in rows.collect_schema().names() if name != "hour"]
    keys = [name for name in names if name not in amounts]
    alike = told.filter(_mixed(few).is_in(pl.Series(np.unique(again)).implode()))
    counts = alike.select(pl.len(), _mixed(names).n_unique().alias("whole"), _mixed(keys).n_unique().alias("keyed"))
    total, whole, keyed = counts.collect(engine="streaming").row(0)
    return total - whole, whole - keyed if identified else 0


def _mixed(columns: Sequence[str]) -> pl.Expr:
    """Hash of several columns, which is the same in any order of the rows."""
    hashes = [pl.col(name).hash(seed=seed) for seed, name in enumerate(columns)]
    return reduce(operator.xor, hashes)


def _once(trace: Trace, rows: pl.LazyFrame, identified: bool) -> pl.LazyFrame:
    """Rows of which equal ones are counted once: those that name a pod, and all if the user says so."""
    if trace.duplicates == "one" or not identified:
        return rows.unique()
    return pl.concat([rows.filter(~_no_text("pod")).unique(), rows.filter(_no_text("pod"))])


def _reduced_pods(trace: Trace, piece: Partition, count_servers: bool) -> tuple[pl.DataFrame, Audit]:
    """Cells of one partition of the pod table with rows of only an hour and cluster that idled, and its audit."""
    utilisation = pl.col("utilisation")
    cores, load = pl.col("cpu_requested").fill_null(0), pl.col("cpu_load").fill_null(0)
    count_servers = count_servers and trace.cadence == 1
    with reading(f"{trace.folder}, {piece.name}"):
        identified = trace.layout.pod_columns.get("pod", "") in scan(piece.files[0][1]).collect_schema()
        typed = _typed_rows(trace, piece)
        copies, conflicts = _repeated(typed, identified)
        counted_once = identified or trace.duplicates == "one"
        rows = _with_faults(trace, _once(trace, typed, identified) if copies and counted_once else typed)
        # Labels are looked at once for each group, not for each row; and numbers only where some are faulty.
        sound = pl.col("fault").is_null() & ~pl.col("idle")
        used = pl.when(sound).then(pl.col("gpu_hours"))
        # One hash in place of six keys, five of them texts, takes a quarter of the time off.
        groups = rows.group_by(_mixed(KEYS).alias("group")).agg(
            *(pl.col(key).first() for key in KEYS),
            sound.sum().cast(pl.Int64).alias("pods"),
            pl.col("idle").sum(),
            pl.col("fault").count(),
            _exact(used).alias("gpu_hours"),
            _exact(pl.when(utilisation.is_null()).then(used)).alias("gpu_hours_null"),
            *(_exact(used * (utilisation - b).clip(0)).alias(f"s{100 * b:.0f}") for b in KNOTS),
            _exact(pl.when(sound).then(cores)).alias("cpu_requested"),
            _exact(pl.when(sound).then(cores * load.clip(0, 1))).alias("cpu_used"),
            (sound & pl.col("overused")).sum().alias("rows with more GPU-hours than requested"),
            (sound & pl.col("clipped")).sum().alias(CLIPPED),
            (sound & (load > 1)).sum().alias("CPU loads above 1 counted as 1"),
            utilisation.max().alias("top"),
            utilisation.count().alias("known"),
        )
        asked = [groups]
        if trace.cadence < 1:
            counted = rows.filter(~_bad_hour()).group_by("hour", "cluster").agg(pl.col("at").n_unique())
            asked.append(counted)
        tables = pl.collect_all(asked, engine="streaming")
        table = tables[0].drop("group").with_columns(label=first_that_holds(_label_faults(trace.layout.words)))
        faulty = table.filter(pl.col("label").is_not_null() & (pl.col("pods") > 0)).select(
            "pods", "gpu_hours", *KEYS, reason="label"
        )
        if table["fault"].sum():
            numbers = rows.filter(pl.col("fault").is_not_null()).group_by("fault", "idle", *KEYS)
            bad = numbers.agg(pl.len().cast(pl.Int64).alias("pods"), _exact(pl.col("gpu_hours"))).collect(
                engine="streaming"
            )
            faulty = pl.concat([faulty, bad.with_columns(reason=_reason(trace)).select(faulty.columns)])
        samples = _samples(trace, piece, rows, faulty)
        bad_labels = bool(table["label"].count())
        overfull = _overfull(trace, rows, bad_labels) if count_servers else 0
    words = trace.layout.words
    cells = (
        table.filter(pl.col("label").is_null() & (pl.col("pods") > 0))
        .with_columns(_translated(name, words[name]).alias(name) for name in words)
        .group_by(KEYS)
        .agg(pl.exclude(*KEYS, "top", "fault", "idle", "label").sum(), pl.col("top").max())
    )
    cells = _amounts(cells)
    idle = table.filter(pl.col("idle") > 0)
    by_reason = _amounts(faulty.group_by("reason").agg(pl.col("pods", "gpu_hours").sum()).sort("reason"))
    noted = {name: int(cells[name].sum()) for name in cells.columns if " " in name}
    noted["server hours with more GPU-hours than accelerators"] = overfull
    top, known = cells["top"].max(), cells["known"].sum()
    noted[LOOKS_LIKE_FRACTIONS] = int(
        trace.scale == "percent" and known >= ENOUGH_TO_TELL and isinstance(top, float) and top <= 0.01
    )
    noted |= {COPIES if counted_once else UNNAMED_COPIES: copies, CONFLICTS: conflicts}
    noted = {reason: count for reason, count in noted.items() if count}
    skipped = int(idle["idle"].sum())
    lost = {name: hours for name, hours in by_reason.select("reason", "gpu_hours").iter_rows() if 0 < hours < 1e15}
    audit = Audit(
        source=trace.label,
        scale=trace.scale,
        partitions=len(piece.files) if piece.files[0][0] is None else 1,
        rows=int(table.select(pl.sum_horizontal("pods", "idle", "fault").sum()).item())
        + (copies if counted_once else 0),
        skipped={IDLE: skipped} if skipped else {},
        rejected=dict(by_reason.select("reason", "pods").iter_rows()),
        noted=noted,
        examples={**dict.fromkeys(noted, piece.name), **samples},
        origin=written(trace.origin),
        lost=lost,
    )
    ordered = _ordered(cells, CELL_TYPES, KEYS).with_columns(covered=pl.lit(1.0))
    places = idle.filter(~_bad_hour()).select(
        pl.col("hour").cast(CELL_TYPES["hour"]),
        pl.when(~_no_text("cluster")).then(pl.col("cluster")).cast(CELL_TYPES["cluster"]),
    )
    places = places.unique().join(
        ordered.select("hour", "cluster").unique(), on=["hour", "cluster"], how="anti", nulls_equal=True
    )
    frame = pl.concat([ordered, places.with_columns(covered=pl.lit(1.0))], how="diagonal")
    if trace.cadence < 1:
        frame = _to_whole_hours(frame, tables[1], trace.cadence)
    return frame.sort(KEYS), audit


def _overfull(trace: Trace, rows: pl.LazyFrame, bad_labels: bool) -> int:
    """Count server hours whose pods use more GPU-hours than the server has accelerators."""
    sound = pl.col("fault").is_null() & ~pl.col("idle")
    if bad_labels:
        sound &= ~pl.any_horizontal(*_label_faults(trace.layout.words).values())

    def over(used: pl.Expr) -> int:
        used = pl.when(pl.col("server").is_not_null()).then(used)
        by_server = rows.group_by(_mixed(("hour", "server"))).agg(used.sum(), pl.col("server_gpus").max())
        full = by_server.select((pl.col("gpu_hours") > pl.col("server_gpus") * (1 + SLACK)).sum())
        return int(full.collect(engine="streaming").item())

    # Where all rows fit, the sound ones do, and nobody need look which are.
    return over(pl.when(sound).then(pl.col("gpu_hours"))) if over(pl.col("gpu_hours").clip(0)) else 0


def _samples(trace: Trace, piece: Partition, rows: pl.LazyFrame, faulty: pl.DataFrame) -> dict[str, str]:
    """For each reason of faulty rows, where it was met and the least of the values that it is about."""
    reasons = faulty["reason"].unique().sort().to_list()
    codes = {name: code for code, name in enumerate(_number_faults(trace))}
    numbers = [reason for reason in reasons if reason in codes]
    least: dict[str, object] = {}
    if numbers:
        values = [
            pl.col("given" if ABOUT[reason] == "utilisation" else ABOUT[reason])
            .filter(pl.col("fault") == codes[reason])
            .cast(pl.String)
            .min()
            .alias(reason)
            for reason in numbers
        ]
        least = rows.select(values).collect(engine="streaming").row(0, named=True)
    for reason in set(reasons) - set(numbers):
        least[reason] = faulty.filter(pl.col("reason") == reason)[ABOUT[reason]].cast(pl.String).min()
    return {reason: met(trace.layout, piece.name, ABOUT[reason], least[reason]) for reason in reasons}


UNNAMED_COPIES = "rows that equal another one and name no pod"
CONFLICTS = "rows that say something else about a pod or job than another one does"


def _to_whole_hours(frame: pl.DataFrame, samples: pl.DataFrame, cadence: float) -> pl.DataFrame:
    """Scale the cells of hours with nearly all of their samples to whole hours, and say how many there were."""
    share = samples.select(
        pl.col("hour").cast(CELL_TYPES["hour"]),
        pl.col("cluster").cast(CELL_TYPES["cluster"]),
        (pl.col("at") * cadence).clip(0, 1).round(9).alias("share"),
    )
    table = frame.drop("covered").join(share, on=["hour", "cluster"], how="left", nulls_equal=True)
    amounts = [name for name, kind in CELL_TYPES.items() if kind == pl.Float64]
    factor = pl.when(pl.col("share") >= COVERED).then(1 / pl.col("share")).otherwise(1.0)
    table = table.with_columns(pl.col(amounts) * factor)
    return table.rename({"share": "covered"}).with_columns(pl.col("covered").fill_null(1.0)).select(frame.columns)


def _reduced_servers(trace: Trace, piece: Partition) -> tuple[pl.DataFrame, Audit]:
    """Capacity of one partition of the server table, and its audit."""
    good = pl.col("reason").is_null()
    keys = KEYS[:3]
    with reading(f"{trace.folder}, {piece.name}"):
        rows = server_rows(trace, piece)
        groups = rows.group_by("reason", *(pl.when(good).then(pl.col(key)).alias(key) for key in keys)).agg(
            pl.len().alias("servers"), _exact(pl.col("gpus")), _exact(pl.col("cores"))
        )
        table = _amounts(groups.collect(engine="streaming"))
    faulty = table.filter(~good).sort("reason")
    rejected = dict(faulty.select("reason", "servers").iter_rows())
    audit = Audit(
        source=trace.label,
        scale=trace.scale,
        partitions=1,
        rows=int(table["servers"].sum()),
        rejected=rejected,
        examples=dict.fromkeys(rejected, piece.name),
    )
    return _ordered(table.filter(good), CAPACITY_TYPES, keys), audit


def _ordered(table: pl.DataFrame, types: dict[str, Any], keys: tuple[str, ...]) -> pl.DataFrame:
    return table.select(pl.col(name).cast(kind) for name, kind in types.items()).sort(keys)
