"""Partitions reduced to cells: streamed, kept on disk when complete, picked up again by the next run."""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from pypsa_aidc.fleet.trace.audit import Audit, merged
from pypsa_aidc.fleet.trace.rows import ABOUT, CLIPPED, IDLE, SLACK, idle_hours, met, pod_rows, server_rows
from pypsa_aidc.fleet.trace.schema import CAPACITY_TYPES, CELL_TYPES, KEYS, KNOTS
from pypsa_aidc.fleet.trace.trace import Partition, Trace, reading, scan
from pypsa_aidc.progress import track

VERSION = 2
"""Of the partition results on disk: a change of what they hold makes kept ones stale."""

LOOKS_LIKE_FRACTIONS = "partitions declared in percent that never exceed 1 %"
ENOUGH_TO_TELL = 20
"""Rows with a utilisation before a partition's largest one says something about the scale."""


def aggregated(
    trace: Trace, keep: Path | None, count_servers: bool
) -> tuple[pl.DataFrame, pl.DataFrame, Audit, npt.NDArray[np.int64]]:
    """Cells, capacity, audit and observed hours of an hourly trace; see `Statistics.of`."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = keep or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        pods = [
            kept(folder, "pods", trace, piece, partial(_reduced_pods, trace, piece, count_servers), count_servers)
            for piece in track(trace.pods, "pods, by partition")
        ]
        servers = [
            kept(folder, "servers", trace, piece, partial(_reduced_servers, trace, piece))
            for piece in track(trace.servers, "servers, by partition")
        ]
    observed = pl.concat([frame["hour"] for frame, _ in pods]).unique().to_numpy()
    cells = _summed([frame.filter(_is_cell()) for frame, _ in pods], CELL_TYPES, KEYS)
    capacity = _summed([frame for frame, _ in servers], CAPACITY_TYPES, KEYS[:3])
    audit = merged((part for _, part in (*pods, *servers)), trace.label, trace.scale)
    return cells, capacity, audit, observed


def _is_cell() -> pl.Expr:
    """Tell cells from hours of which a partition only says that nothing ran: those have no other keys."""
    return pl.col("cluster").is_not_null()


def _summed(frames: list[pl.DataFrame], types: dict[str, Any], keys: tuple[str, ...]) -> pl.DataFrame:
    """One table of all partitions in the order of its keys; a cell that several partitions share is added up.

    Partitions of different hours cannot share a cell, and are only put in a row: the statistics of a long trace are the
    largest thing in memory, and should be there once.
    """
    pieces = sorted((frame for frame in frames if frame.height), key=lambda frame: int(frame["hour"][0]))
    table = pl.concat([pl.DataFrame(schema=types), *pieces])
    ends = [(int(frame["hour"][0]), int(frame["hour"][-1])) for frame in pieces]
    if all(last < first for (_, last), (first, _) in pairwise(ends)):
        return table
    return table.group_by(keys).agg(pl.exclude(keys).sum()).sort(keys)


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
    files = [(hour, str(path), path.stat().st_size, path.stat().st_mtime_ns) for hour, path in piece.files]
    settings = (
        VERSION,
        pl.__version__,
        trace.layout,
        trace.scale,
        trace.out_of_range,
        trace.overuse,
        trace.origin,
        options,
    )
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


def _reduced_pods(trace: Trace, piece: Partition, count_servers: bool) -> tuple[pl.DataFrame, Audit]:
    """Cells of one partition of the pod table with rows of only an hour where nothing ran, and its audit."""
    used, utilisation = pl.col("gpu_hours"), pl.col("utilisation")
    cores, load = pl.col("cpu_requested").fill_null(0), pl.col("cpu_load").fill_null(0)
    good = pl.col("reason").is_null()
    with reading(f"{trace.folder}, {piece.name}"):
        rows = pod_rows(trace, piece)
        # Faulty rows fall into one group for each reason, so that garbage in the keys cannot blow up the table.
        groups = rows.group_by("reason", *(pl.when(good).then(pl.col(key)).alias(key) for key in KEYS)).agg(
            pl.len().alias("pods"),
            used.sum(),
            used.filter(utilisation.is_null()).sum().alias("gpu_hours_null"),
            *((used * (utilisation - b).clip(0)).sum().alias(f"s{100 * b:.0f}") for b in KNOTS),
            cores.sum().alias("cpu_requested"),
            (cores * load.clip(0, 1)).sum().alias("cpu_used"),
            (good & pl.col("overused")).sum().alias("rows with more GPU-hours than requested"),
            (good & pl.col("clipped")).sum().alias(CLIPPED),
            (good & (load > 1)).sum().alias("CPU loads above 1 counted as 1"),
            utilisation.max().alias("top"),
            utilisation.count().alias("known"),
            pl.col("sample").min(),
        )
        per_server = rows.filter(good).group_by("hour", "server").agg(used.sum(), pl.col("server_gpus").max())
        overfull = per_server.filter(used > pl.col("server_gpus") * (1 + SLACK)).select(pl.len())
        idle = idle_hours(trace, piece)
        counts = [scan(path).select(pl.len()) for _, path in piece.files]
        tables = pl.collect_all([groups, idle, *counts, *([overfull] if count_servers else [])], engine="streaming")
    table, idle_only = tables[0], tables[1].cast(CELL_TYPES["hour"])
    total = sum(frame.item() for frame in tables[2 : 2 + len(counts)])
    cells = table.filter(good)
    faulty = table.filter(~good).sort("reason")
    noted = {name: int(cells[name].sum()) for name in cells.columns if " " in name}
    noted["server hours with more GPU-hours than accelerators"] = tables[-1].item() if count_servers else 0
    top, known = cells["top"].max(), cells["known"].sum()
    noted[LOOKS_LIKE_FRACTIONS] = int(
        trace.scale == "percent" and known >= ENOUGH_TO_TELL and isinstance(top, float) and top <= 0.01
    )
    noted = {reason: count for reason, count in noted.items() if count}
    rejected = dict(faulty.select("reason", "pods").iter_rows())
    skipped = total - int(table["pods"].sum())
    samples = {
        reason: met(trace.layout, piece.name, ABOUT[reason], value)
        for reason, value in faulty.select("reason", "sample").iter_rows()
    }
    audit = Audit(
        source=trace.label,
        scale=trace.scale,
        partitions=1,
        rows=total,
        skipped={IDLE: skipped} if skipped else {},
        rejected=rejected,
        noted=noted,
        examples={**dict.fromkeys(noted, piece.name), **samples},
        origin="" if trace.origin is None else f"{trace.origin:%Y-%m-%dT%H:%MZ}",
    )
    ordered = _ordered(cells, CELL_TYPES, KEYS)
    idle_only = idle_only.join(ordered, on="hour", how="anti")
    return pl.concat([ordered, idle_only], how="diagonal").sort(KEYS), audit


def _reduced_servers(trace: Trace, piece: Partition) -> tuple[pl.DataFrame, Audit]:
    """Capacity of one partition of the server table, and its audit."""
    good = pl.col("reason").is_null()
    keys = KEYS[:3]
    with reading(f"{trace.folder}, {piece.name}"):
        rows = server_rows(trace, piece)
        groups = rows.group_by("reason", *(pl.when(good).then(pl.col(key)).alias(key) for key in keys)).agg(
            pl.len().alias("servers"), pl.col("gpus").sum(), pl.col("cores").sum()
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
