"""Job lists: when each job held how many accelerators, which hours the list shows, and what it adds up to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from pypsa_aidc.errors import Faults
from pypsa_aidc.fleet.trace.audit import Audit
from pypsa_aidc.fleet.trace.hourly import CLIPPED, CONFLICTS, FAR, STALE, Hourly, first_that_holds, met
from pypsa_aidc.fleet.trace.schema import CAPACITY_TYPES, CELL_TYPES, JOBS, KEYS, KNOTS, SPAN_TYPES
from pypsa_aidc.fleet.trace.stamps import (
    EARLIEST,
    LATEST,
    LONGEST_TRACE,
    has_stamps,
    hours_in,
    hours_since,
    is_sentinel,
    known,
    localised,
    midnight,
    moment,
    written,
)
from pypsa_aidc.fleet.trace.tables import CUT_STEP, cut_values, hashed, number, reading, repeated, scan
from pypsa_aidc.fleet.trace.trace import Trace
from pypsa_aidc.progress import waiting

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

TIMES = ("start", "end", "submitted")
RUNNING = "jobs without an end, taken to run to the end of the trace"
STEPS = "steps of jobs that are counted as a whole"
COPIES = "rows that repeat another one, counted once"
UNNAMED_COPIES = "rows that equal another one and name no job"
SENTINELS = "moments of 1970, 2099 and the like, taken for none"
SURVIVORS = "hours before the first recorded end, which show survivors only and are dropped"
LEFTOVERS = "hours after the last recorded start, which show leftovers only and are dropped"
OUTSIDE = "hours outside the declared window"

THIN = 2.0
"""Beginning or end of a list, in median durations, from which on it can only be that of a window."""
CHEAP = 0.5
"""Share of the hours of a list that must be left where a beginning or end is dropped on suspicion."""
SAMPLE = 100_000
"""Rows at the beginning of a list that tell how it writes its stamps."""
SILENT_ENDS = "hours at an end of the list in which a cluster has no job, which count as 0 MW"
SILENCE = 3.0
"""Times its longest idle stretch, from which on the silence of a cluster is none of its own."""
MANY = 20
"""Jobs from which on it is: the beginning of a short list is most of it."""

STEP = rf"^\d+(_\d+|\+\d+)?\.(batch|extern|interactive|\d+)$|{CUT_STEP}"
"""Identifiers of the steps of a Slurm job, which share the GPUs of the job."""
GRES = r"(?:^|[,/:])(?:gres[/:])?gpu(?::([A-Za-z][\w.-]*))?[=:](\d+)"
"""GPUs in Slurm's text: ``gres/gpu:a100=8``, ``gres:gpu:2``, ``gpu:h100:4(S:0-3)``."""
CPUS = r"(?:^|,)cpu=(\d+)"


def read_jobs(trace: Trace) -> tuple[pl.DataFrame, Audit]:
    """Jobs that ran on accelerators, in the columns of `SPAN_TYPES`, `utilisation` (0 … 1, may be null) and `running`.

    Raises
    ------
    InputError
        Missing columns, unreadable files, stamps without a zone or beside numbers, nothing usable.
    """
    layout = trace.layout
    columns = layout.pod_columns
    faults = Faults(f"Jobs of the trace in '{trace.folder}'")
    frames = []
    for path in trace.paths:
        with reading(path):
            frame = scan(path).collect()
        missing = sorted(set(columns.values()) - set(frame.columns))
        faults.require(not missing, str(path), frame.columns, f"also the columns {', '.join(missing)}")
        for source, value in cut_values(path, columns.values()).items():
            remedy = f"Print it wider (sacct -o {source}%60,…), or use --parsable2."
            faults.add(f"{path}, column '{source}'", f"{value}, cut off", "whole values", remedy)
        if not missing:
            frames.append(frame)
    faults.raise_any()
    raw = (
        pl.concat(frames, how="diagonal_relaxed")
        if len({tuple(f.schema.items()) for f in frames}) > 1
        else pl.concat(frames)
    )
    total = raw.height
    raw = raw.filter(~pl.all_horizontal(pl.all().is_null())) if raw.width else raw
    skipped: Counter[str] = Counter()
    raw = _without_steps(raw, columns, skipped)
    path = trace.paths[0]
    filled = [name for name in TIMES if name in columns and _says_anything(raw, columns[name])]
    stamped = {
        name: has_stamps(
            raw.head(SAMPLE).lazy(),
            columns[name],
            layout.units.get(name, ""),
            layout.zone,
            f"{path}, column '{columns[name]}'",
            faults,
        )
        for name in filled
    }
    if len(set(stamped.values())) > 1 and not len(faults):
        stamps = [columns[name] for name, are in stamped.items() if are]
        numbers = [columns[name] for name, are in stamped.items() if not are]
        faults.add(str(path), f"stamps in {stamps}, numbers in {numbers}", "all times in the same form")
    scaled = [name for name, are in stamped.items() if are and _is_factor(layout.units.get(name, ""))]
    faults.require(not scaled, "units", scaled, "none for stamps, which say themselves what they are")
    faults.raise_any()
    raw, noted = _once(trace, raw)
    moments = {name: _moments(trace, raw, name) for name, are in stamped.items() if are}
    first = moments["start"]["at"].min() if "start" in moments else None
    origin = None if first is None else midnight(first)  # type: ignore[arg-type]
    hours = {
        name: found.select(
            pl.when("faulty").then(float("nan")).otherwise(hours_since(pl.col("at"), origin)).alias(f"hours {name}")
        ).to_series()
        for name, found in moments.items()
        if origin is not None
    }
    table = _typed(trace, raw.with_columns(hours.values()), origin)
    none = [found["sentinel"].alias(name) for name, found in moments.items()]
    noted[SENTINELS] = int(pl.DataFrame(none).select(pl.any_horizontal(pl.all()).sum()).item()) if none else 0
    reasons = _reasons(trace)
    table = table.with_columns(reason=first_that_holds({reason: holds for reason, (_, holds) in reasons.items()}))
    # Jobs that never started, and jobs without accelerators, are nothing that draws power; they are not faulty.
    idle = first_that_holds(
        {"jobs without accelerators": pl.col("gpus") == 0, "jobs that never ran": pl.col("start").is_null()}
    )
    table = table.with_columns(skip=idle)
    skipped.update(table["skip"].drop_nulls().to_list())
    ran = table.filter(pl.col("skip").is_null())
    ran = _without_stale(ran)
    good = ran.filter(pl.col("reason").is_null()).with_columns(running=pl.col("end").is_null())
    noted[RUNNING] = good["end"].null_count()
    noted[CLIPPED] = good.select(((pl.col("utilisation") < 0) | (pl.col("utilisation") > 1)).sum()).item()
    if trace.scale == "percent" and good["utilisation"].count() >= 20 and (good["utilisation"].max() or 0) <= 0.01:  # type: ignore[operator]
        noted[LOOKS_LIKE_FRACTIONS] = 1
    counts = dict(sorted(Counter(ran["reason"].drop_nulls().to_list()).items()))
    last = good.select(pl.max_horizontal(pl.col("start").max(), pl.col("end").max())).item() if good.height else 0.0
    begin = good["start"].min() if good.height else 0.0
    lost, all_hours = _lost(ran, begin, last)
    examples = {name: _example(trace, ran, reasons, name) for name in counts}
    audit = Audit(
        source=trace.label,
        scale=trace.scale,
        partitions=len(trace.pods),
        rows=total,
        skipped=dict(sorted(skipped.items())),
        rejected=counts,
        noted={reason: count for reason, count in noted.items() if count},
        examples=examples,
        origin=written(origin),
        gpu_hours=all_hours,
        lost=lost,
    )
    faults.require(good.height > 0, "jobs", f"{total} rows", "at least one that ran on accelerators", str(audit))
    faults.raise_any()
    return good.with_columns(pl.col("end").fill_null(last), pl.col("utilisation").clip(0, 1)), audit


LOOKS_LIKE_FRACTIONS = "utilisation declared in percent that never exceeds 1 %"


def _is_factor(unit: str | float) -> bool:
    return unit != "" and not (isinstance(unit, str) and unit.startswith("epoch"))


def _without_steps(raw: pl.DataFrame, columns: Mapping[str, str], skipped: Counter[str]) -> pl.DataFrame:
    """Leave out the steps of Slurm jobs, and headers that stand again in the middle of a file."""
    if "job" in columns:
        step = known(columns["job"]).str.contains(STEP).fill_null(False)
        whole = raw.filter(~step)
        if whole.height and whole.height < raw.height:
            skipped[STEPS] = raw.height - whole.height
            raw = whole
    source = columns["start"]
    if raw.schema[source] == pl.String:
        repeated = (pl.col(source) == source).fill_null(False)
        count = raw.select(repeated.sum()).item()
        if count:
            skipped["headers that are repeated"] = count
            raw = raw.filter(~repeated)
    return raw


def _once(trace: Trace, raw: pl.DataFrame) -> tuple[pl.DataFrame, dict[str, int]]:
    """Count each job once: equal rows of one job are one; of a job that ran and ended, the row with the end stays."""
    columns = trace.layout.pod_columns
    named = "job" in columns
    noted: dict[str, int] = {}
    distinct = raw if repeated(raw.lazy(), raw.columns).is_empty() else raw.unique(maintain_order=True)
    copies = raw.height - distinct.height
    if copies:
        once = named or trace.duplicates == "one"
        noted[COPIES if once else UNNAMED_COPIES] = copies
        raw = distinct if once else raw
    if not named:
        return raw, noted
    key = [known(columns[name]).alias(f"key {name}") for name in ("job", "namespace", "start") if name in columns]
    end = known(columns["end"]) if "end" in columns else known(columns["duration"])
    table = raw.with_columns(*key, ended=end.is_not_null())
    keys = [name for name in table.columns if name.startswith("key ")]
    named_rows = table.lazy().filter(pl.col("key job").is_not_null() & pl.col("key start").is_not_null())
    again = named_rows.filter(hashed(keys).is_in(repeated(named_rows, keys).implode())).collect()
    if again.height:
        # Of a job seen running and seen ended, the later knows more; between other versions nothing can choose.
        versions = again.group_by(keys).agg(pl.col("ended").sum().alias("ends"), pl.len().alias("rows"))
        plain = versions.filter(pl.col("ends") <= 1)
        superseded = int((plain["rows"] - 1).sum())
        conflicts = int(versions.filter(pl.col("ends") > 1).select((pl.col("rows") - 1).sum()).item() or 0)
        noted |= {"rows of jobs still running, of which another row has the end": superseded, CONFLICTS: conflicts}
        order = table.sort("ended", *raw.columns, descending=True, nulls_last=True)
        best = order.filter(pl.col("key job").is_not_null() & pl.col("key start").is_not_null()).unique(
            subset=keys, keep="first", maintain_order=True
        )
        others = table.filter(pl.col("key job").is_null() | pl.col("key start").is_null())
        if trace.duplicates != "all":
            raw = pl.concat([best, others]).select(raw.columns)
    return raw, {name: count for name, count in noted.items() if count}


def _says_anything(raw: pl.DataFrame, source: str) -> bool:
    """Whether anything stands in a column."""
    holds = known(source).is_not_null().any()
    return bool(raw.head(SAMPLE).select(holds).item() or raw.select(holds).item())


def _moments(trace: Trace, raw: pl.DataFrame, name: str) -> pl.DataFrame:
    """Moments of a column of stamps: `at` (UTC), `sentinel` (1970, 2099 and the like) and `faulty` (no moment).

    Millions of stamps are usually written in one way: it is tried first, and what it leaves is read with care.
    """
    source, unit, zone = trace.layout.pod_columns[name], trace.layout.units.get(name, ""), trace.layout.zone
    types = dict(raw.schema)

    def carefully(rows: pl.DataFrame) -> pl.DataFrame:
        at = moment(types, source, unit, zone, "earliest")
        table = rows.select(at=at, sentinel=is_sentinel(types, source, unit), text=known(source).is_not_null())
        return table.select("at", "sentinel", faulty=pl.col("text") & pl.col("at").is_null() & ~pl.col("sentinel"))

    if types[source] != pl.String or unit:
        return carefully(raw)
    for form in ("%+", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M:%S"):
        aware = form == "%+"
        if not aware and not zone:
            continue
        text = pl.col(source).str.to_datetime(form, time_unit="us", time_zone="UTC" if aware else None, strict=False)
        at = text if aware else localised(text, zone, "earliest")
        if raw.head(SAMPLE).select(at.is_not_null().mean()).item() < 0.5:
            continue
        found = raw.select(at=at).select(
            "at", sentinel=~pl.col("at").is_between(EARLIEST, LATEST), faulty=pl.lit(False)
        )
        rest = found["at"].is_null() | found["sentinel"].fill_null(False)
        slow = carefully(raw.filter(rest)).with_columns(row=rest.arg_true())
        fast = found.with_row_index("row").filter(~rest)
        return pl.concat([fast, slow.select(fast.columns)], how="vertical_relaxed").sort("row").drop("row")
    return carefully(raw)


def _typed(trace: Trace, raw: pl.DataFrame, origin: datetime | None) -> pl.DataFrame:
    """Columns of `JOBS` in hours, GPUs and our words; NaN where text is no number, null where there is nothing."""
    layout = trace.layout
    columns, words = layout.pod_columns, layout.words
    types = dict(raw.schema)
    given: dict[str, pl.Expr] = {}
    for column in JOBS:
        name = column.name
        unit = layout.units.get(name, "")
        if name in layout.constants:
            kind: Any = pl.String if column.text else pl.Float64
            given[name] = pl.lit(layout.constants[name], dtype=kind)
        elif name not in columns:
            given[name] = pl.lit(column.default, dtype=pl.String if column.text else pl.Float64)
        elif column.text:
            given[name] = known(columns[name])
        elif f"hours {name}" in types:
            given[name] = pl.col(f"hours {name}")
        elif origin is not None and name in TIMES:
            given[name] = pl.lit(None, dtype=pl.Float64)  # Nothing stands in the column.
        elif name == "duration":
            given[name] = _duration(types, columns[name], unit)
        else:
            comma = columns[name] in trace.decimal_commas
            value = number(types, columns[name], comma)
            value = value.fill_nan(None) if types[columns[name]].is_numeric() else value
            factor = hours_in(unit) if name in TIMES else 1.0 if name == "utilisation" else layout.factor(name)
            given[name] = _or_nan(value, known(columns[name])) * factor
    if "cluster" not in columns and "cluster" not in layout.constants:
        given["cluster"] = pl.lit(layout.name)
    for name in words:
        given[name] = given[name].fill_null("").replace_strict(dict(words[name]), default=None)
    share = 100 if trace.scale == "percent" else 1
    start = given["start"]
    gpus = given["gpus"].fill_null(0) if "gpus" in columns or "gpus" in layout.constants else pl.lit(0.0)
    table = raw.with_columns(
        **{f"given {name}": pl.col(source) for name, source in columns.items()},
    ).select(
        pl.col("^given .*$"),
        start=start,
        end=given["end"] if "end" in columns else start + given["duration"],
        delay=start - given["submitted"],
        per_worker=gpus,
        share=given["gpu_share"].fill_null(1.0),
        workers=given["workers"],
        cores=given["cores"].fill_null(0) * given["workers"],
        utilisation=pl.lit(None, dtype=pl.Float64) if trace.scale == "absent" else given["utilisation"] / share,
        **{name: given[name] for name in ("cluster", "accelerator", "workload", "priority")},
    )
    if "tres" in columns:
        table = _of_tres(table, "accelerator" in columns or "accelerator" in layout.constants, "cores" in columns)
    return table.with_columns(gpus=pl.col("per_worker") * pl.col("share") * pl.col("workers"))


def _duration(types: Mapping[str, pl.DataType], source: str, unit: str | float) -> pl.Expr:
    """Hours of a column of durations: numbers in a unit, or ``[days-]hours:minutes:seconds``."""
    text = known(source)
    if types[source] == pl.Duration:
        return pl.col(source).dt.total_microseconds() / 3.6e9
    clock = text.str.extract_groups(r"^(?:(\d+)-)?(\d+):(\d\d):(\d\d(?:\.\d+)?)$")
    parts = [clock.struct.field(str(i)).cast(pl.Float64, strict=False) for i in range(1, 5)]
    hours = parts[0].fill_null(0) * 24 + parts[1] + parts[2] / 60 + parts[3] / 3600
    return pl.coalesce(hours, _or_nan(number(types, source), text) * hours_in(unit))


def _of_tres(table: pl.DataFrame, named: bool, with_cores: bool) -> pl.DataFrame:
    """Rows with the GPUs of Slurm's text, one for each type of GPU that a job holds."""
    # Few texts stand in many rows.
    texts = table.select(tres=pl.col("given tres").fill_null("")).unique()
    long = (
        texts.with_columns(found=pl.col("tres").str.extract_all(GRES))
        .explode("found", keep_nulls=True)
        .with_columns(parts=pl.col("found").str.extract_groups(GRES))
        .select(
            "tres",
            kind=pl.col("parts").struct.field("1"),
            count=pl.col("parts").struct.field("2").cast(pl.Float64),
        )
    )
    typed = long.filter(pl.col("kind").is_not_null()).group_by("tres", "kind").agg(pl.col("count").max())
    whole = long.filter(pl.col("kind").is_null()).group_by("tres").agg(pl.col("count").max().fill_null(0))
    rest = whole.join(typed.group_by("tres").agg(pl.col("count").sum().alias("typed")), on="tres", how="left")
    rest = rest.filter(pl.col("typed").is_null() | (pl.col("count") > pl.col("typed"))).select(
        "tres", kind=pl.lit(None, dtype=pl.String), count=pl.col("count") - pl.col("typed").fill_null(0)
    )
    held = pl.concat([typed, rest]).sort("tres", "kind").with_columns(first=pl.col("tres").is_first_distinct())
    held = held.with_columns(cpus=pl.col("tres").str.extract(CPUS).cast(pl.Float64))
    joined = table.with_columns(tres=pl.col("given tres").fill_null("")).join(held, on="tres", how="left")
    accelerator = pl.col("accelerator") if named else pl.coalesce("kind", "accelerator")
    cores = pl.col("cores") if with_cores else pl.col("cpus").fill_null(0)
    return joined.with_columns(
        per_worker=pl.col("count").fill_null(0),
        accelerator=accelerator,
        cores=pl.when("first").then(cores).otherwise(0.0),
    ).drop("tres", "first", "cpus", "kind", "count")


def _or_nan(value: pl.Expr, text: pl.Expr) -> pl.Expr:
    """NaN for text that is no number: it must not pass for a missing value."""
    return pl.when(text.is_not_null() & value.is_null()).then(float("nan")).otherwise(value)


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
    reasons["gpus above 1,000,000"] = ("gpus", pl.col("gpus") > 1e6)
    share = pl.col("share")
    reasons["gpu_share outside 0 … 1: percent?"] = ("gpu_share", (share < 0) | (share > 1) | ~share.is_finite())
    utilisation = pl.col("utilisation")
    reasons["utilisation cannot be read"] = ("utilisation", ~utilisation.is_finite())
    if trace.out_of_range == "reject":
        reasons["utilisation out of range"] = ("utilisation", (utilisation < 0) | (utilisation > 1))
    return {
        **reasons,
        "ends before it starts": (ends, pl.col("end") < pl.col("start")),
        STALE: ("start", pl.lit(False)),
    }


def _example(trace: Trace, ran: pl.DataFrame, reasons: Mapping[str, tuple[str, pl.Expr]], reason: str) -> str:
    """Say where a reason was met: the column and the least of the values in it."""
    name = reasons[reason][0]
    name = "tres" if name == "gpus" and "tres" in trace.layout.pod_columns else name
    column = f"given {name}"
    value = ran.filter(pl.col("reason") == reason)[column].cast(pl.String).min() if column in ran.columns else None
    return met(trace.layout, trace.paths[0].name, name, value)


def _lost(ran: pl.DataFrame, begin: Any, last: float) -> tuple[dict[str, float], float]:
    """GPU-hours of the rejected rows by reason, within the hours of the others, and those of all rows."""
    held = pl.col("end").fill_nan(None).fill_null(last).clip(upper_bound=last) - pl.col("start").clip(lower_bound=begin)
    hours = (pl.col("gpus").fill_nan(None).clip(0, 1e6) * held.clip(0)).fill_null(0).fill_nan(0)
    table = ran.select("reason", hours=hours).group_by("reason").agg(pl.col("hours").sort().sum()).sort("reason")
    lost = {reason: amount for reason, amount in table.iter_rows() if reason is not None and amount > 0}
    return lost, float(table["hours"].sum())


def _without_stale(ran: pl.DataFrame) -> pl.DataFrame:
    """Reject a few jobs that lie months away from all others: one of them would stretch the trace by years."""
    good = ran.filter(pl.col("reason").is_null())
    if good.height < 10:
        return ran
    events = np.unique(np.concatenate([good["start"].to_numpy(), good["end"].drop_nulls().to_numpy()]))
    breaks = np.flatnonzero(np.diff(events) > FAR)
    if breaks.size == 0:
        return ran
    piece_of = np.concatenate([[0], np.cumsum(np.diff(events) > FAR)])
    pieces = piece_of[np.searchsorted(events, good["start"].to_numpy())]
    sizes = np.bincount(pieces, minlength=piece_of[-1] + 1)
    few = np.flatnonzero((sizes > 0) & (sizes <= max(1, 0.01 * good.height)))
    stale_starts = good["start"].to_numpy()[np.isin(pieces, few)]
    holds = pl.col("reason").is_null() & pl.col("start").is_in(np.unique(stale_starts).tolist())
    ran = ran.with_columns(reason=pl.when(holds).then(pl.lit(STALE)).otherwise(pl.col("reason")))
    # An end in the far future is no end that anyone has seen.
    far_end = events[breaks[-1] + 1 :] if events.size - breaks[-1] - 1 <= max(1, 0.01 * good.height) else events[:0]
    late = pl.col("reason").is_null() & pl.col("end").is_in(far_end.tolist())
    return ran.with_columns(reason=pl.when(late).then(pl.lit(STALE)).otherwise(pl.col("reason")))


# ------------------------------------------------------------------------------------------- from jobs to cells
@waiting("jobs of the trace")
def aggregated_jobs(trace: Trace, notices: Sequence[float] = (), durations: Sequence[int] = ()) -> Hourly:
    """Reduce a job list to cells; CPU load is unknown throughout.

    Every hour in the window of the list is observed: where no job ran, the fleet was idle. For each of `notices` and
    `durations`, h, cells of what outlasts a call: from `notice` after its start to ``duration − 1`` h before its end, a
    job had begun when a call that starts then was announced, and runs until it is over.
    """
    spans, audit = read_jobs(trace)
    first, last, notes = observed_hours(trace, spans, audit.origin)
    faults = Faults(f"Trace in '{trace.folder}'")
    remedy = "Jobs are shorter than an hour: declare the window of the list." if trace.layout.window == "found" else ""
    faults.require(last > first, "spans", f"hours {first} … {last}", "at least one complete hour", remedy)
    remedy = "Times are hours; for seconds, give the layout units={'start': 's', …}."
    faults.require(
        last - first <= LONGEST_TRACE, "spans", f"hours {first} … {last}", f"at most {LONGEST_TRACE} hours", remedy
    )
    faults.raise_any()
    ends = silent_ends(spans, first, last)
    notes |= {SILENT_ENDS: sum(ends.values())} if ends else {}
    examples = dict(audit.examples)
    if ends:
        name = next(iter(ends))
        examples[SILENT_ENDS] = f"cluster {name}, {ends[name]:,} h"
    audit = replace(audit, noted={**audit.noted, **notes}, examples=examples)
    # Jobs that still run do so to the end of a declared window, which may be later than the last event of the list.
    spans = spans.with_columns(
        end=pl.when("running").then(pl.max_horizontal("end", pl.lit(float(last)))).otherwise("end")
    )
    parts = [
        _cells(
            spans.with_columns(
                begun := pl.col("start") + notice, pl.max_horizontal(begun, pl.col("end") - (h - 1)).alias("end")
            ),
            first,
            last,
            pl.col("hour") == first,
        ).select(pl.lit(float(notice)).alias("notice"), pl.lit(h, dtype=pl.Int64).alias("call"), pl.all())
        for notice in notices
        for h in durations
    ]
    stock = _stock(trace)
    if (
        "accelerator" not in {**trace.layout.pod_columns, **trace.layout.constants}
        and "tres" not in trace.layout.pod_columns
    ):
        sums = stock.group_by("cluster").agg(pl.col("servers", "gpus", "cores").sum())
        stock = sums.with_columns(accelerator=pl.lit("mixed")).sort("cluster")
    capacity = stock.join(pl.DataFrame({"hour": np.arange(first, last)}), how="cross")
    return Hourly(
        _cells(spans, first, last),
        capacity.select(pl.col(name).cast(kind) for name, kind in CAPACITY_TYPES.items()).sort(KEYS[:3]),
        audit,
        np.arange(first, last),
        pl.concat(parts) if parts else None,
    )


def _cells(spans: pl.DataFrame, first: int, last: int, empty: pl.Expr | None = None) -> pl.DataFrame:
    """Cells of jobs over the hours ``first … last − 1``, those without GPU-hours only where `empty` holds."""
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
            name: pl.Series(occupancy(start, end, held[name].to_numpy(), *axis).ravel())
            if held[name].sum() > 0
            else pl.lit(0.0)
            for name in held.columns
        },
    )
    cells = cells.filter((pl.col("gpu_hours") > 0) | (pl.lit(False) if empty is None else empty))
    return cells.select(pl.col(name).cast(kind) for name, kind in CELL_TYPES.items()).sort(KEYS)


def observed_hours(trace: Trace, spans: pl.DataFrame, origin: str = "") -> tuple[int, int, dict[str, int]]:
    """First hour that a list shows completely, the hour after the last one, and what was dropped at both ends, h.

    A list of the jobs of a window shows, before the window, only those that survived into it, and after it only those
    that began in it. It cannot be told from a list of a fleet that had just begun; so a beginning is dropped if it is
    longer than two median jobs, or, from 20 jobs on, if at least half of the hours remain; and the same at the end. If
    jobs still run, the list was made when they did, and its end is complete.

    Parameters
    ----------
    trace, spans
        The layout's `window`, and `start`, `end` and `running` of the jobs, h.
    origin
        Moment of hour 0, for a window given in stamps.
    """
    window = trace.layout.window
    start, end = spans["start"].to_numpy(), spans["end"].to_numpy()
    running = spans["running"].to_numpy() if "running" in spans.columns else np.zeros(start.size, bool)
    begin, finish = float(start.min()), float(end.max())
    whole = (int(np.ceil(begin)), int(np.floor(finish)))
    if not isinstance(window, str):
        first, last = _declared(trace, window, origin)
        dropped = max(first - int(np.floor(begin)), 0) + max(int(np.ceil(finish)) - last, 0)
        return first, last, {OUTSIDE: dropped} if dropped else {}
    ended = end[~running]
    if window == "whole" or ended.size == 0:
        return *whole, {}
    head, tail = float(ended.min()), finish if running.any() else float(start.max())
    if window == "survivors":
        first, last = int(np.ceil(head)), whole[1]
    else:
        cheap = start.size >= MANY and tail - head >= CHEAP * (finish - begin)
        typical = float(np.median(ended - start[~running]))
        cut_head = cheap or head - begin > THIN * typical
        cut_tail = cheap or finish - tail > THIN * typical
        first = int(np.ceil(head)) if cut_head else whole[0]
        last = int(np.floor(tail)) if cut_tail else whole[1]
        if last <= first:
            first, last = whole
    notes = {SURVIVORS: first - int(np.floor(begin)), LEFTOVERS: int(np.ceil(finish)) - last}
    partial = {SURVIVORS: first == whole[0], LEFTOVERS: last == whole[1]}
    return first, last, {reason: hours for reason, hours in notes.items() if hours > 0 and not partial[reason]}


def silent_ends(spans: pl.DataFrame, first: int, last: int) -> dict[str, int]:
    """Hours at the ends of a list in which a cluster of many jobs has none, though it never was idle for that long.

    A dump of one cluster that covers less time than those of others looks like that; the hours count as 0 MW.

    Examples
    --------
    >>> hours = np.arange(30.0)
    >>> silent_ends(pl.DataFrame({"cluster": ["a"] * 30, "start": hours, "end": hours + 1}), 0, 100)
    {'a': 70}
    """
    found = {}
    for (name,), jobs in sorted(spans.group_by("cluster"), key=lambda item: str(item[0][0])):
        start, order = jobs["start"].to_numpy(), np.argsort(jobs["start"].to_numpy())
        busy = np.maximum.accumulate(jobs["end"].to_numpy()[order])
        inner = float((start[order][1:] - busy[:-1]).max(initial=0.0))
        silent = max(int(start.min()) - first, last - int(np.ceil(busy[-1])))
        if start.size >= MANY and silent > max(24.0, SILENCE * inner):
            found[str(name)] = silent
    return found


def _declared(trace: Trace, window: Any, origin: str) -> tuple[int, int]:
    """Whole hours of a declared window, from hours or stamps."""
    faults = Faults(f"Layout '{trace.layout.name}'")
    edges = []
    for given in window:
        if isinstance(given, (int, float)):
            edges.append(float(given))
            continue
        frame = pl.DataFrame({"at": [str(given)]})
        at = frame.select(moment(dict(frame.schema), "at", "", trace.layout.zone)).item()
        faults.require(
            at is not None and bool(origin), "window", given, "hours, or stamps with a zone where jobs have stamps"
        )
        faults.raise_any()
        zero = datetime.fromisoformat(origin.replace("Z", "+00:00"))
        edges.append((at - zero).total_seconds() / 3600)
    first, last = int(np.ceil(edges[0])), int(np.floor(edges[1]))
    faults.require(last > first, "window", list(window), "start and end, at least an hour apart")
    faults.raise_any()
    return first, last


def occupancy(start: Floats, end: Floats, held: Floats, group: Integers, groups: int, first: int, hours: int) -> Floats:
    """Mean of what is held in each hour, for each group; exact for fractions of an hour, the same in any order.

    Parameters
    ----------
    start, end : array of shape (spans,)
        Hours; what lies outside ``first … first + hours`` is cut off.
    held : array of shape (spans,)
        Height of each rectangle, e.g. GPUs or MW.
    group : array of shape (spans,)
        Group of each span, 0 … groups − 1.
    groups, first, hours
        Number of groups, first hour of the axis, length of the axis.

    Returns
    -------
    array of shape (groups, hours)
        In the unit of `held`.

    Examples
    --------
    >>> one = np.array([0])
    >>> occupancy(np.array([0.5]), np.array([2.25]), np.array([4.0]), one, 1, 0, 4)
    array([[2., 4., 1., 0.]])
    """
    steps = np.zeros(groups * (hours + 2))
    # Sums of whole numbers do not depend on the order of the jobs, as long as they stay below 2**53.
    total = float(np.abs(held).sum())
    grains = 2.0 ** (51 - np.ceil(np.log2(total))) if total > 0 else 1.0
    size = np.round(held * grains)
    for moment_, sign in ((start, 1.0), (end, -1.0)):
        position = np.clip(moment_ - first, 0, hours)
        whole = np.floor(position).astype(np.int64)
        late = np.round(size * (position - whole))
        index = group * (hours + 2) + whole
        steps += np.bincount(index, sign * (size - late), steps.size)
        steps += np.bincount(index + 1, sign * late, steps.size)
    return np.asarray(np.cumsum(steps.reshape(groups, hours + 2), axis=1)[:, :hours] / grains)


def inventory(trace: Trace) -> pl.DataFrame:
    """Servers of a job list by accelerator: `accelerator`, `servers`, `gpus`, `cores`; empty if it has none.

    Raises
    ------
    InputError
        Missing columns, numbers that are none or negative.
    """
    stock = _stock(trace).group_by("accelerator").agg(pl.col("servers", "gpus", "cores").sum())
    return stock.sort("accelerator")


def _stock(trace: Trace) -> pl.DataFrame:
    """Servers by cluster and accelerator; one cluster, named as the layout, where servers do not name theirs."""
    layout = trace.layout
    columns = layout.server_columns
    frames = []
    faults = Faults(f"Servers of the trace in '{trace.folder}'")
    for _, path in (file for piece in trace.servers for file in piece.files):
        with reading(path):
            frame = scan(path).collect()
        missing = sorted(set(columns.values()) - set(frame.columns))
        faults.require(not missing, str(path), frame.columns, f"also the columns {', '.join(missing)}")
        if missing:
            continue
        types = dict(frame.schema)
        sizes = [
            number(types, columns[name], columns[name] in trace.decimal_commas).alias(name) * layout.factor(name)
            for name in ("gpus", "cores")
        ]
        default = {"cluster": str(layout.constants.get("cluster", layout.name))}
        default["accelerator"] = str(layout.constants.get("accelerator", "mixed"))
        names = {
            name: pl.col(columns[name]).cast(pl.String) if name in columns else pl.lit(stand_in)
            for name, stand_in in default.items()
        }
        table = frame.select(**names).with_columns(frame.select(*sizes))
        bad = table.filter(pl.any_horizontal(pl.col("gpus", "cores").is_null() | (pl.col("gpus", "cores") < 0)))
        faults.require(bad.is_empty(), str(path), bad.head(3).rows(), "sizes of at least 0")
        frames.append(table)
    faults.raise_any()
    schema = {"cluster": pl.String, "accelerator": pl.String, "gpus": pl.Float64, "cores": pl.Float64}
    table = pl.concat([pl.DataFrame(schema=schema), *frames]).filter(pl.col("gpus") > 0)
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
    table = spans.select(pl.col(name).cast(kind) for name, kind in SPAN_TYPES.items())
    return table.sort("start", "end", *KEYS[1:5], "gpus", "cores", "delay"), audit
