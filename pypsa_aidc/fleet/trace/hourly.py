"""Hourly tables: rows in the typed schema, each with the reason to leave it out, reduced to cells."""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
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
MOST = 1e6
"""GPU-hours, or cores, of a row; more is another unit."""

HUGE = f"gpu_hours above {MOST:,.0f}: GPU-seconds?"
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
    HUGE: "gpu_hours",
    "negative gpu_requested": "gpu_requested",
    "utilisation is not a number": "utilisation",
    "utilisation out of range": "utilisation",
    "CPU is negative or not a number": "cpu_requested",
}
"""Reason to leave out a pod row → the column that it is about."""

VERSION = 3
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
        Columns of `POD_HOURS`, plus `at` (h; of the sample, within the hour), `idle` (neither requests nor uses an
        accelerator), `reason` (null for a good row), `sample` (what stands in the column that the reason is about),
        `overused` and `clipped` (bool).

    Raises
    ------
    InputError
        A column is missing or has an impossible type; all such faults of the partition together.
    """
    return _checked(trace, _typed_rows(trace, partition, extra))


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
            text = value.cast(pl.String)
            selected.append(pl.when(text != "").then(text).alias(column.name))
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


def _word(name: str) -> pl.Expr:
    """Text of a column of words; the empty word where there is none."""
    return pl.col(name).fill_null("")


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
        **{f"unknown {name}": ~_word(name).is_in(list(words[name])) for name in words},
        "gpu_hours is not a number": _not_finite("gpu_hours"),
        "negative gpu_hours": pl.col("gpu_hours") < 0,
        HUGE: pl.col("gpu_hours") > MOST,
        "negative gpu_requested": pl.col("gpu_requested") < 0,
        "utilisation is not a number": pl.col("utilisation").is_not_null() & ~pl.col("utilisation").is_finite(),
        "utilisation out of range": outside if trace.out_of_range == "reject" else pl.lit(False),
        "CPU is negative or not a number": ~(
            (pl.col("cpu_requested").fill_null(0) >= 0)
            & (pl.col("cpu_load").fill_null(0) >= 0)
            & (pl.col("cpu_requested").fill_null(0) <= MOST)
            & pl.col("cpu_load").fill_null(0).is_finite()
        ),
    }
    sample = pl.coalesce(
        pl.when(pl.col("reason") == reason).then(pl.col(ABOUT[reason]).cast(pl.String)) for reason in reasons
    )
    hours = pl.min_horizontal("gpu_hours", "gpu_requested") if trace.overuse == "clip" else pl.col("gpu_hours")
    return (
        frame.with_columns(idle=_idle())
        .with_columns(
            reason=pl.when(~pl.col("idle")).then(first_that_holds(reasons)), overused=overused.fill_null(False)
        )
        .with_columns(sample=sample)
        .with_columns(
            clipped=outside.fill_null(False),
            utilisation=scaled.clip(0, 1),
            gpu_hours=hours,
            **{name: _word(name).replace_strict(dict(words[name]), default=None) for name in words},
        )
    )


# ------------------------------------------------------------------------------------------- from rows to cells
@dataclass(frozen=True)
class Hourly:
    """An hourly trace reduced: cells, capacity, audit, and the hours in which all clusters were seen."""

    cells: pl.DataFrame
    capacity: pl.DataFrame
    audit: Audit
    observed: npt.NDArray[np.int64]


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
    return (amount * GRAIN).cast(pl.Int128, strict=False).sum().cast(pl.Float64) / GRAIN


def _repeated(trace: Trace, piece: Partition) -> tuple[int, int, int]:
    """Rows, distinct rows, and distinct rows apart from their amounts, of those that name a pod (else of all)."""
    rows = _typed_rows(trace, piece)
    identified = "pod" in rows.collect_schema() and trace.layout.pod_columns.get("pod", "") in _columns_of(piece)
    amounts = ("gpu_hours", "gpu_requested", "utilisation", "cpu_requested", "cpu_load")
    given = [name for name in rows.collect_schema().names() if name != "hour"]
    whole = rows.filter(pl.col("pod").is_not_null()) if identified else rows.filter(~_idle())
    keys = [name for name in given if name not in amounts]
    counted = whole.select(
        pl.len().alias("rows"),
        pl.struct(given).hash().n_unique().alias("different"),
        (pl.struct(keys).hash().n_unique() if identified else pl.lit(0)).alias("keys"),
    )
    total, different, keyed = counted.collect(engine="streaming").row(0)
    return total, different, keyed if identified else different


def _columns_of(piece: Partition) -> list[str]:
    return scan(piece.files[0][1]).collect_schema().names()


def _reduced_pods(trace: Trace, piece: Partition, count_servers: bool) -> tuple[pl.DataFrame, Audit]:
    """Cells of one partition of the pod table with rows of only an hour and cluster that idled, and its audit."""
    used, utilisation = pl.col("gpu_hours"), pl.col("utilisation")
    cores, load = pl.col("cpu_requested").fill_null(0), pl.col("cpu_load").fill_null(0)
    good = pl.col("reason").is_null() & ~pl.col("idle")
    with reading(f"{trace.folder}, {piece.name}"):
        total, different, keyed = _repeated(trace, piece)
        rows = pod_rows(trace, piece)
        copies, conflicts = total - different, different - keyed
        identified = trace.layout.pod_columns.get("pod", "") in _columns_of(piece)
        if copies and (identified or trace.duplicates == "one"):
            once = rows.unique()
            rows = (
                pl.concat([once.filter(pl.col("pod").is_not_null()), rows.filter(pl.col("pod").is_null())])
                if identified and trace.duplicates != "one"
                else once
            )
        # Faulty rows fall into one group for each reason, so that garbage in the keys cannot blow up the table.
        place = pl.col("hour").is_finite() & (good | pl.col("idle")) & ~_bad_hour()
        kinds = [pl.when(place if key in ("hour", "cluster") else good).then(pl.col(key)).alias(key) for key in KEYS]
        active = used.fill_nan(None)
        groups = rows.group_by("reason", "idle", *kinds).agg(
            pl.len().alias("pods"),
            _exact(active).alias("gpu_hours"),
            _exact(pl.when(utilisation.is_null()).then(active)).alias("gpu_hours_null"),
            *(_exact(active * (utilisation - b).clip(0)).alias(f"s{100 * b:.0f}") for b in KNOTS),
            _exact(cores.fill_nan(0)).alias("cpu_requested"),
            _exact((cores * load.clip(0, 1)).fill_nan(0)).alias("cpu_used"),
            (good & pl.col("overused")).sum().alias("rows with more GPU-hours than requested"),
            (good & pl.col("clipped")).sum().alias(CLIPPED),
            (good & (load > 1)).sum().alias("CPU loads above 1 counted as 1"),
            utilisation.max().alias("top"),
            utilisation.count().alias("known"),
            pl.col("sample").min(),
        )
        asked = [groups]
        if trace.cadence < 1:
            asked.append(rows.filter(place).group_by("hour", "cluster").agg(pl.col("at").n_unique()))
        if count_servers and trace.cadence == 1:
            per_server = rows.filter(good).group_by("hour", "server").agg(used.sum(), pl.col("server_gpus").max())
            asked.append(per_server.filter(used > pl.col("server_gpus") * (1 + SLACK)).select(pl.len()))
        tables = pl.collect_all(asked, engine="streaming")
    table = tables[0]
    cells = table.filter(good)
    idle = table.filter(pl.col("idle"))
    faulty = table.filter(pl.col("reason").is_not_null()).sort("reason")
    noted = {name: int(cells[name].sum()) for name in cells.columns if " " in name}
    overfull = tables[-1].item() if count_servers and trace.cadence == 1 else 0
    noted["server hours with more GPU-hours than accelerators"] = overfull
    top, known = cells["top"].max(), cells["known"].sum()
    noted[LOOKS_LIKE_FRACTIONS] = int(
        trace.scale == "percent" and known >= ENOUGH_TO_TELL and isinstance(top, float) and top <= 0.01
    )
    counted_once = identified or trace.duplicates == "one"
    noted |= {COPIES if counted_once else UNNAMED_COPIES: copies, CONFLICTS: conflicts}
    noted = {reason: count for reason, count in noted.items() if count}
    rejected = dict(faulty.select("reason", "pods").iter_rows())
    skipped = int(idle["pods"].sum())
    samples = {
        reason: met(trace.layout, piece.name, ABOUT[reason], value)
        for reason, value in faulty.select("reason", "sample").iter_rows()
    }
    lost = {reason: hours for reason, hours in faulty.select("reason", "gpu_hours").iter_rows() if 0 < hours < 1e15}
    audit = Audit(
        source=trace.label,
        scale=trace.scale,
        partitions=len(piece.files) if piece.files[0][0] is None else 1,
        rows=int(table["pods"].sum()) + (copies if counted_once else 0),
        skipped={IDLE: skipped} if skipped else {},
        rejected=rejected,
        noted=noted,
        examples={**dict.fromkeys(noted, piece.name), **samples},
        origin=written(trace.origin),
        gpu_hours=float(cells["gpu_hours"].sum()) + sum(lost.values()),
        lost=lost,
    )
    ordered = _ordered(cells, CELL_TYPES, KEYS).with_columns(covered=pl.lit(1.0))
    places = idle.select(pl.col("hour").cast(CELL_TYPES["hour"]), pl.col("cluster").cast(CELL_TYPES["cluster"]))
    places = (
        places.filter(pl.col("hour").is_not_null())
        .unique()
        .join(ordered.select("hour", "cluster").unique(), on=["hour", "cluster"], how="anti", nulls_equal=True)
    )
    frame = pl.concat([ordered, places.with_columns(covered=pl.lit(1.0))], how="diagonal")
    if trace.cadence < 1:
        frame = _to_whole_hours(frame, tables[1], trace.cadence)
    return frame.sort(KEYS), audit


UNNAMED_COPIES = "rows that equal another one and name no pod"
CONFLICTS = "rows that say something else about a pod and hour than another one does"


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
            pl.len().alias("servers"), _exact(pl.col("gpus").fill_nan(0)), _exact(pl.col("cores").fill_nan(0))
        )
        table = groups.collect(engine="streaming")
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
