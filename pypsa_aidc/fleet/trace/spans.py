"""Execution spans: when a pod or job held accelerators, how many, and how long it had waited."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt
import polars as pl

from pypsa_aidc.errors import Faults
from pypsa_aidc.fleet.trace.audit import Audit
from pypsa_aidc.fleet.trace.jobs import read_jobs
from pypsa_aidc.fleet.trace.occupancy import occupancy
from pypsa_aidc.fleet.trace.schema import CAPACITY_TYPES, CELL_TYPES, KEYS, KNOTS, SPAN_TYPES
from pypsa_aidc.fleet.trace.trace import LONGEST_TRACE, Trace, reading, scan
from pypsa_aidc.progress import waiting


@waiting("jobs of the trace")
def aggregated_spans(trace: Trace) -> tuple[pl.DataFrame, pl.DataFrame, Audit, npt.NDArray[np.int64]]:
    """Cells, capacity, audit and observed hours of a trace of spans; CPU load is unknown throughout.

    Every hour between the first and the last event is observed: where no job ran, the fleet was idle.
    """
    spans, audit = read_jobs(trace)
    first, last = observed_hours(trace, spans)
    faults = Faults(f"Trace in '{trace.folder}'")
    faults.require(last > first, "spans", f"hours {first} … {last}", "at least one complete hour")
    remedy = "Times are hours; for seconds, give the layout scales={'start': 1 / 3600, …}."
    faults.require(
        last - first <= LONGEST_TRACE, "spans", f"hours {first} … {last}", f"at most {LONGEST_TRACE} hours", remedy
    )
    faults.raise_any()
    before = first - int(np.floor(float(spans["start"].min())))  # type: ignore[arg-type]
    if trace.layout.survivors and before > 0:
        reason = "hours before the first recorded end, which show survivors only and are dropped"
        audit = replace(audit, noted={**audit.noted, reason: before})
    names = list(KEYS[1:5])
    table = spans.with_columns(group=pl.struct(names).rank("dense").cast(pl.Int64) - 1).sort("group")
    kinds = table.unique("group", maintain_order=True).select(names)
    start, end, group = (table[name].to_numpy() for name in ("start", "end", "group"))
    axis = (group, kinds.height, first, last - first)
    gpus, utilisation = pl.col("gpus"), pl.col("utilisation")
    weights = {
        "gpu_hours": gpus,
        "gpu_hours_null": pl.when(utilisation.is_null()).then(gpus).otherwise(0.0),
        **{f"s{100 * b:.0f}": (gpus * (utilisation - b).clip(0)).fill_null(0.0) for b in KNOTS},
        "cpu_requested": pl.col("cores"),
    }
    held = table.select(**weights)
    touched = occupancy(np.floor(start), np.ceil(end), np.ones(start.size), *axis)
    hours = pl.Series("hour", np.tile(np.arange(first, last), kinds.height))
    cells = kinds.select(pl.all().repeat_by(last - first).explode()).with_columns(
        hours,
        state=pl.lit("active"),
        pods=pl.Series(touched.round().ravel()),
        cpu_used=pl.lit(0.0),
        **{
            name: pl.Series(occupancy(start, end, held[name].to_numpy(), *axis).clip(0).ravel())
            if held[name].sum() > 0
            else pl.lit(0.0)
            for name in held.columns
        },
    )
    cells = cells.filter(pl.col("gpu_hours") > 0)
    stock = _stock(trace)
    if "accelerator" not in trace.layout.pod_columns:
        sums = stock.group_by("cluster").agg(pl.col("servers", "gpus", "cores").sum())
        stock = sums.with_columns(accelerator=pl.lit("mixed")).sort("cluster")
    capacity = stock.join(pl.DataFrame({"hour": np.arange(first, last)}), how="cross")
    return (
        cells.select(pl.col(name).cast(kind) for name, kind in CELL_TYPES.items()),
        capacity.select(pl.col(name).cast(kind) for name, kind in CAPACITY_TYPES.items()),
        audit,
        np.arange(first, last),
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
    stock = _stock(trace).group_by("accelerator").agg(pl.col("servers", "gpus", "cores").sum())
    return stock.sort("accelerator")


def _stock(trace: Trace) -> pl.DataFrame:
    """Servers by cluster and accelerator; one cluster, named as the layout, where servers do not name theirs."""
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
        names = {
            name: pl.col(columns[name]).cast(pl.String) if name in columns else pl.lit(trace.layout.name)
            for name in ("cluster", "accelerator")
        }
        table = frame.select(**names).with_columns(frame.select(*sizes))
        bad = table.filter(pl.any_horizontal(pl.col("gpus", "cores").is_null() | (pl.col("gpus", "cores") < 0)))
        faults.require(bad.is_empty(), str(path), bad.head(3).rows(), "sizes of at least 0")
        frames.append(table)
    faults.raise_any()
    types = {"cluster": pl.String, "accelerator": pl.String, "gpus": pl.Float64, "cores": pl.Float64}
    table = pl.concat([pl.DataFrame(schema=types), *frames]).filter(pl.col("gpus") > 0)
    keys = ["cluster", "accelerator"]
    return table.group_by(keys).agg(pl.len().alias("servers"), pl.col("gpus", "cores").sum()).sort(keys)


def job_spans(trace: Trace) -> tuple[pl.DataFrame, Audit]:
    """Spans of a trace that lists one job a row (`SPAN_TYPES`), and the audit of reading them.

    A job that has begun but has no end runs to the end of the trace, the last moment in it; how many, the audit says.

    Raises
    ------
    InputError
        Missing columns or unreadable files.
    """
    spans, audit = read_jobs(trace)
    return spans.select(pl.col(name).cast(kind) for name, kind in SPAN_TYPES.items()), audit
