"""A job list read into spans: numbers or stamps, words, and the reason for every row that is left out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from datetime import datetime

import polars as pl

from pypsa_aidc.errors import Faults
from pypsa_aidc.fleet.trace.audit import Audit
from pypsa_aidc.fleet.trace.rows import CLIPPED, first_that_holds, met
from pypsa_aidc.fleet.trace.schema import JOBS
from pypsa_aidc.fleet.trace.stamps import has_stamps, hours_since, known, midnight, moment
from pypsa_aidc.fleet.trace.trace import Trace, reading, scan

TIMES = ("start", "end", "submitted")
RUNNING = "jobs without an end, taken to run to the end of the trace"


def read_jobs(trace: Trace) -> tuple[pl.DataFrame, Audit]:
    """Jobs that ran on accelerators, in the columns of `SPAN_TYPES` and `utilisation` (0 … 1, may be null); and audit.

    Raises
    ------
    InputError
        Missing columns, unreadable files, stamps without a zone or beside numbers, nothing usable.
    """
    columns = trace.layout.pod_columns
    faults = Faults(f"Jobs of the trace in '{trace.folder}'")
    frames = []
    path = trace.pods[0].files[0][1]
    for _, path in (file for piece in trace.pods for file in piece.files):
        with reading(path):
            frame = scan(path).collect()
        missing = sorted(set(columns.values()) - set(frame.columns))
        faults.require(not missing, str(path), frame.columns, f"also the columns {', '.join(missing)}")
        if not missing:
            frames.append(frame.select(sorted(set(columns.values()))))
    faults.raise_any()
    raw = pl.concat(frames, how="vertical_relaxed")
    filled = [name for name in TIMES if name in columns and raw.select(known(columns[name]).is_not_null().any()).item()]
    stamped = {name: has_stamps(raw.lazy(), columns[name], path, faults) for name in filled}
    if len(set(stamped.values())) > 1:
        stamps = [columns[name] for name, are in stamped.items() if are]
        numbers = [columns[name] for name, are in stamped.items() if not are]
        faults.add(str(path), f"stamps in {stamps}, numbers in {numbers}", "all times in the same form")
    scaled = [name for name, are in stamped.items() if are and name in trace.layout.scales]
    faults.require(not scaled, "scales", scaled, "none for stamps, which say themselves what they are")
    faults.raise_any()
    first = raw.select(moment(raw.lazy(), columns["start"]).min()).item() if stamped.get("start") else None
    origin = None if first is None else midnight(first)
    table = _typed(trace, raw, origin)
    reasons = _reasons(trace)
    table = table.with_columns(reason=first_that_holds({reason: holds for reason, (_, holds) in reasons.items()}))
    table = table.with_columns(raw.select(known(source).alias(f"given {name}") for name, source in columns.items()))
    # Jobs that never started, and jobs without accelerators, are nothing that draws power; they are not faulty.
    idle = first_that_holds(
        {"jobs without accelerators": pl.col("gpus") == 0, "jobs that never ran": pl.col("start").is_null()}
    )
    table = table.with_columns(skip=idle)
    ran = table.filter(pl.col("skip").is_null())
    counts = Counter(ran["reason"].drop_nulls().to_list())
    good = ran.filter(pl.col("reason").is_null())
    noted = {RUNNING: good["end"].null_count()}
    noted[CLIPPED] = good.select(((pl.col("utilisation") < 0) | (pl.col("utilisation") > 1)).sum()).item()
    examples = {}
    for reason in sorted(counts):
        name = reasons[reason][0]
        value = ran.filter(pl.col("reason") == reason)[f"given {name}"][0] if name in columns else None
        examples[reason] = met(trace.layout, path.name, name, value)
    audit = Audit(
        source=trace.label,
        scale=trace.scale,
        partitions=len(trace.pods),
        rows=raw.height,
        skipped=dict(sorted(Counter(table["skip"].drop_nulls().to_list()).items())),
        rejected=dict(sorted(counts.items())),
        noted={reason: count for reason, count in noted.items() if count},
        examples=examples,
        origin="" if origin is None else f"{origin:%Y-%m-%dT%H:%MZ}",
    )
    faults.require(good.height > 0, "jobs", f"{raw.height} rows", "at least one that ran on accelerators", str(audit))
    faults.raise_any()
    last = good.select(pl.max_horizontal(pl.col("start").max(), pl.col("end").max())).item()
    return good.with_columns(pl.col("end").fill_null(last), pl.col("utilisation").clip(0, 1)), audit


def _typed(trace: Trace, raw: pl.DataFrame, origin: datetime | None) -> pl.DataFrame:
    """Columns of `JOBS` in hours, GPUs and our words; NaN where text is no number, null where there is nothing."""
    columns, scales, words = trace.layout.pod_columns, trace.layout.scales, trace.layout.words
    given: dict[str, pl.Expr] = {}
    for column in JOBS:
        name = column.name
        if name not in columns:
            given[name] = pl.lit(column.default, dtype=pl.String if column.text else pl.Float64)
        elif column.text:
            given[name] = known(columns[name])
        elif origin is not None and name in TIMES:
            hours = hours_since(moment(raw.lazy(), columns[name]), origin)
            given[name] = _or_nan(hours, known(columns[name]))
        else:
            given[name] = _or_nan(_number(raw, columns[name]), known(columns[name])) * scales.get(name, 1)
    given["cluster"] = given["cluster"] if "cluster" in columns else pl.lit(trace.layout.name)
    for name in words:
        given[name] = given[name].replace_strict(dict(words[name]), default=None)
    share = 100 if trace.scale == "percent" else 1
    utilisation = given["utilisation"] / share
    start = given["start"]
    return raw.select(
        start=start,
        end=given["end"] if "end" in columns else start + given["duration"],
        delay=start - given["submitted"],
        gpus=given["gpus"] * given["gpu_share"] * given["workers"],
        cores=given["cores"] * given["workers"],
        utilisation=pl.lit(None, dtype=pl.Float64) if trace.scale == "absent" else utilisation,
        **{name: given[name] for name in ("cluster", "accelerator", "workload", "priority")},
    )


def _number(raw: pl.DataFrame, source: str) -> pl.Expr:
    if raw.schema[source].is_numeric():
        return pl.col(source).cast(pl.Float64).fill_nan(None)
    return known(source).cast(pl.Float64, strict=False)


def _or_nan(number: pl.Expr, text: pl.Expr) -> pl.Expr:
    """NaN for text that is no number: it must not pass for a missing value."""
    return pl.when(text.is_not_null() & number.is_null()).then(float("nan")).otherwise(number)


def _reasons(trace: Trace) -> Mapping[str, tuple[str, pl.Expr]]:
    """Reason to leave a row out → the schema column that it is about, and when it holds."""
    columns = trace.layout.pod_columns
    ends = "end" if "end" in columns else "duration"
    reasons = {f"unknown {name}": (name, pl.col(name).is_null()) for name in ("workload", "priority")}
    reasons |= {f"no {name}": (name, pl.col(name).is_null()) for name in ("cluster", "accelerator")}
    for name, source in {"start": "start", "end": ends, "gpus": "gpus", "cores": "cores"}.items():
        value = pl.col(name)
        missing = value.is_null() if name in ("gpus", "cores") else pl.lit(False)
        reasons[f"{source} cannot be read"] = (source, missing | ~value.is_finite())
        if source != "duration":
            reasons[f"negative {source}"] = (source, value < 0)
    utilisation = pl.col("utilisation")
    reasons["utilisation cannot be read"] = ("utilisation", ~utilisation.is_finite())
    if trace.out_of_range == "reject":
        reasons["utilisation out of range"] = ("utilisation", (utilisation < 0) | (utilisation > 1))
    return {**reasons, "ends before it starts": (ends, pl.col("end") < pl.col("start"))}
