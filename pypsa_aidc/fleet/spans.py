"""Execution spans: when a pod or job held accelerators, how many, and how long it had waited."""

from __future__ import annotations

import numpy as np
import polars as pl

from pypsa_aidc.errors import Faults
from pypsa_aidc.fleet.audit import Audit
from pypsa_aidc.fleet.occupancy import occupancy
from pypsa_aidc.fleet.schema import CAPACITY_TYPES, CELL_TYPES, KEYS, SPAN_TYPES, SUMS
from pypsa_aidc.fleet.trace import LONGEST_TRACE, Trace, first_that_holds, reading, scan
from pypsa_aidc.progress import waiting


@waiting("jobs of the trace")
def aggregated_spans(trace: Trace) -> tuple[pl.DataFrame, pl.DataFrame, Audit]:
    """Cells, capacity and audit of a trace of spans; utilisation and CPU load are unknown throughout."""
    spans, audit = job_spans(trace)
    first, last = observed_hours(trace, spans)
    faults = Faults(f"Trace in '{trace.folder}'")
    faults.require(last > first, "spans", f"hours {first} … {last}", "at least one complete hour")
    faults.require(last - first <= LONGEST_TRACE, "spans", f"hours {first} … {last}", f"at most {LONGEST_TRACE} hours")
    faults.raise_any()
    names = list(KEYS[1:5])
    table = spans.with_columns(group=pl.struct(names).rank("dense").cast(pl.Int64) - 1).sort("group")
    kinds = table.unique("group", maintain_order=True).select(names)
    start, end, group = (table[name].to_numpy() for name in ("start", "end", "group"))
    axis = (group, kinds.height, first, last - first)
    held = {name: occupancy(start, end, table[name].to_numpy(), *axis) for name in ("gpus", "cores")}
    touched = occupancy(np.floor(start), np.ceil(end), np.ones(start.size), *axis)
    hours = pl.Series("hour", np.tile(np.arange(first, last), kinds.height))
    cells = kinds.select(pl.all().repeat_by(last - first).explode()).with_columns(
        hours,
        state=pl.lit("active"),
        pods=pl.Series(touched.round().ravel()),
        cpu_requested=pl.Series(held["cores"].clip(0).ravel()),
        cpu_used=pl.lit(0.0),
        **{name: pl.lit(0.0) for name in SUMS},
    )
    used = pl.Series(held["gpus"].clip(0).ravel())
    cells = cells.with_columns(gpu_hours=used, gpu_hours_null=used).filter(pl.col("gpu_hours") > 0)
    stock = inventory(trace)
    if "accelerator" not in trace.layout.pod_columns:
        stock = stock.select(pl.lit("mixed").alias("accelerator"), pl.col("servers", "gpus", "cores").sum()).head(1)
    capacity = stock.join(pl.DataFrame({"hour": np.arange(first, last)}), how="cross").with_columns(
        cluster=pl.lit(trace.layout.name)
    )
    return (
        cells.select(pl.col(name).cast(kind) for name, kind in CELL_TYPES.items()),
        capacity.select(pl.col(name).cast(kind) for name, kind in CAPACITY_TYPES.items()),
        audit,
    )


def observed_hours(trace: Trace, spans: pl.DataFrame) -> tuple[int, int]:
    """First hour that the spans show completely, and the hour after the last one.

    A list of jobs that ended after some moment shows only survivors before the first recorded end.
    """
    begins = spans["end"].min() if trace.layout.survivors else spans["start"].min()
    ends = spans["end"].max()
    return int(np.ceil(float(begins))), int(np.floor(float(ends)))  # type: ignore[arg-type]


def inventory(trace: Trace) -> pl.DataFrame:
    """Servers of a trace of spans by accelerator: `accelerator`, `servers`, `gpus`, `cores`; empty if it has none.

    Raises
    ------
    InputError
        Missing columns, numbers that are none or negative.
    """
    columns = trace.layout.server_columns
    frames = []
    faults = Faults(f"Servers of the trace in '{trace.folder}'")
    for _, path in (file for piece in trace.servers for file in piece.files):
        with reading(path):
            frame = scan(path).collect()
        missing = sorted(set(columns.values()) - set(frame.columns))
        faults.require(not missing, str(path), frame.columns, f"also the columns {', '.join(missing)}")
        if missing:
            continue
        sizes = [
            pl.col(columns[name]).cast(pl.Float64, strict=False).alias(name) * trace.layout.scales.get(name, 1)
            for name in ("gpus", "cores")
        ]
        table = frame.select(pl.col(columns["accelerator"]).cast(pl.String).alias("accelerator"), *sizes)
        bad = table.filter(pl.any_horizontal(pl.col("gpus", "cores").is_null() | (pl.col("gpus", "cores") < 0)))
        faults.require(bad.is_empty(), str(path), bad.head(3).rows(), "sizes of at least 0")
        frames.append(table)
    faults.raise_any()
    empty = pl.DataFrame(schema={"accelerator": pl.String, "gpus": pl.Float64, "cores": pl.Float64})
    table = pl.concat([empty, *frames]).filter(pl.col("gpus") > 0)
    return (
        table.group_by("accelerator").agg(pl.len().alias("servers"), pl.col("gpus", "cores").sum()).sort("accelerator")
    )


def job_spans(trace: Trace) -> tuple[pl.DataFrame, Audit]:
    """Spans of a trace that lists one job a row (`SPAN_TYPES`), and the audit of reading them.

    Raises
    ------
    InputError
        Missing columns or unreadable files.
    """
    columns, scales = trace.layout.pod_columns, trace.layout.scales
    faults = Faults(f"Jobs of the trace in '{trace.folder}'")
    frames, place = [], trace.pods[0].name
    for _, path in (file for piece in trace.pods for file in piece.files):
        with reading(path):
            frame = scan(path).collect()
        missing = sorted(set(columns.values()) - set(frame.columns))
        faults.require(not missing, str(path), frame.columns, f"also the columns {', '.join(missing)}")
        if not missing:
            frames.append(frame.select(sorted(set(columns.values()))))
    faults.raise_any()
    raw = pl.concat(frames, how="vertical_relaxed")

    def number(name: str, default: float | None = None) -> pl.Expr:
        if name not in columns:
            return pl.lit(default, dtype=pl.Float64)
        return pl.col(columns[name]).cast(pl.Float64, strict=False) * scales.get(name, 1)

    def text(name: str, default: str) -> pl.Expr:
        return pl.col(columns[name]).cast(pl.String) if name in columns else pl.lit(default)

    start = number("start")
    words = trace.layout.words
    table = raw.select(
        start=start,
        end=number("end") if "end" in columns else start + number("duration"),
        gpus=number("gpus") * number("gpu_share", 1) * number("workers", 1),
        delay=start - number("submitted"),
        cluster=text("cluster", trace.layout.name),
        accelerator=text("accelerator", "mixed"),
        cores=number("cores", 0) * number("workers", 1),
        **{name: text(name, "").replace_strict(dict(words[name]), default=None) for name in words},
    )
    times = pl.col("start", "end", "gpus", "cores")
    reason = first_that_holds(
        {
            "unknown workload": pl.col("workload").is_null(),
            "unknown priority": pl.col("priority").is_null(),
            "no accelerator": pl.col("accelerator").is_null(),
            "not a number": pl.any_horizontal(times.is_null() | ~times.is_finite()),
            "negative number": pl.any_horizontal(times < 0),
            "ends before it starts": pl.col("end") < pl.col("start"),
        }
    )
    # Jobs that never started, and jobs without accelerators, are nothing that draws power; they are not faulty.
    ran = table.filter(raw[columns["start"]].is_not_null() & ~(pl.col("gpus") == 0).fill_null(False))
    ran = ran.with_columns(reason=reason)
    counts = ran.filter(pl.col("reason").is_not_null()).group_by("reason").len().sort("reason")
    rejected = dict(counts.iter_rows())
    audit = Audit(
        source=trace.label,
        partitions=len(trace.pods),
        rows=raw.height,
        skipped=raw.height - ran.height,
        rejected=rejected,
        examples=dict.fromkeys(rejected, place),
    )
    good = ran.filter(pl.col("reason").is_null())
    faults.require(good.height > 0, "jobs", f"{raw.height} rows", "at least one that ran on accelerators", str(audit))
    faults.raise_any()
    return good.select(pl.col(name).cast(kind) for name, kind in SPAN_TYPES.items()), audit
