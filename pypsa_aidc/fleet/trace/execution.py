"""Execution spans of an hourly trace: when each pod was seen first and last, joined to how long it had waited."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd
import polars as pl

from pypsa_aidc.errors import Faults, checked
from pypsa_aidc.fleet.trace.audit import Audit
from pypsa_aidc.fleet.trace.hourly import kept, pod_rows
from pypsa_aidc.fleet.trace.schema import SPAN_TYPES
from pypsa_aidc.fleet.trace.tables import reading, scan
from pypsa_aidc.fleet.trace.trace import Partition, Trace
from pypsa_aidc.progress import track

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BUCKETS = 16
"""Pieces, by hash of the pod, that are joined one after another: a pod runs across partitions, all pods fit nowhere."""
TRAITS = ("cluster", "accelerator", "workload", "priority")


@dataclass(frozen=True, repr=False)
class Execution:
    """Execution spans of a trace, and how well they could be joined to the recorded delays (Sec. 2.1 of [2]).

    Attributes
    ----------
    spans : polars.DataFrame
        Columns of `SPAN_TYPES`; `delay` is null for a pod that the execution summary does not list.
    conflicts
        Pods that the summary lists with more than one delay; their shortest one is taken.
    """

    spans: pl.DataFrame
    conflicts: int = 0

    def __repr__(self) -> str:
        matched = self.matched.height
        return f"Execution({self.spans.height:,} spans, {matched:,} with a delay, {self.conflicts:,} conflicts)"

    @property
    def matched(self) -> pl.DataFrame:
        """Spans whose delay is known."""
        return self.spans.filter(pl.col("delay").is_not_null())

    def coverage(self) -> pd.DataFrame:
        """GPU-hours by first day of the span: `total`, `matched`, `share`; a jump of it is an artefact of records."""
        hours = pl.col("gpus") * (pl.col("end") - pl.col("start"))
        table = self.spans.group_by((pl.col("start") // 24).cast(pl.Int64).alias("day")).agg(
            hours.sum().alias("total"), hours.filter(pl.col("delay").is_not_null()).sum().alias("matched")
        )
        return table.with_columns(share=pl.col("matched") / pl.col("total")).sort("day").to_pandas().set_index("day")

    def plot(self) -> Figure:
        """Draw the share of GPU-hours with a known delay by day."""
        from pypsa_aidc.plots.trace import plot_execution

        return plot_execution(self)

    @classmethod
    @checked
    def of(cls, trace: Trace, *, keep: str | Path | None = None) -> Execution:
        """Find the first and last hour of every pod, and join the delays of the execution summary.

        The public summary has durations and delays but no timestamps, so the span comes from the pod table; a pod that
        pauses in between counts as held throughout at its mean.

        Parameters
        ----------
        trace
            An hourly trace with a pod identifier and an execution summary.
        keep
            Folder for the results of partitions; None computes everything anew.

        Returns
        -------
        Execution

        Raises
        ------
        InputError
            A layout without pods and hours, no summary, missing columns, unreadable files.
        """
        faults = Faults(f"Execution spans of '{trace.folder}'")
        faults.require(trace.layout.kind == "hourly", "layout", trace.layout.name, "an hourly layout")
        faults.require(bool(trace.summary), "summary", trace.layout.summary, "a table with the delay of each pod")
        faults.raise_any()
        delays = _delays(trace)
        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(keep) if keep is not None else Path(scratch)
            folder.mkdir(parents=True, exist_ok=True)
            pieces = [
                kept(folder, "spans", trace, piece, partial(_seen, trace, piece))[0]
                for piece in track(trace.pods, "executions, by partition")
            ]
        parts, conflicts = [], 0
        for bucket in track(range(BUCKETS), "executions and their delays"):
            mine = pl.concat(piece.filter(pl.col("bucket") == bucket) for piece in pieces)
            pods = mine.group_by("pod").agg(
                pl.col("first").min(), pl.col("last").max(), pl.col("gpu_hours").sum(), pl.col(*TRAITS, "cores").min()
            )
            with reading(f"{trace.folder}, {trace.layout.summary}"):
                own = (
                    delays.filter(_bucket() == bucket)
                    .group_by("pod")
                    .agg(pl.col("delay").min(), (pl.col("delay").n_unique() > 1).alias("conflict"))
                    .collect(engine="streaming")
                )
            conflicts += int(own["conflict"].sum())
            held = pl.col("last") - pl.col("first") + 1
            spans = pods.join(own, on="pod", how="left").select(
                "delay", *TRAITS, "cores", start="first", end=pl.col("last") + 1, gpus=pl.col("gpu_hours") / held
            )
            parts.append(spans.select(pl.col(name).cast(kind) for name, kind in SPAN_TYPES.items()))
        table = pl.concat(parts).sort("start", "end", "gpus", *TRAITS)
        faults.require(table.height > 0, "pods", 0, "at least one with GPU-hours")
        faults.raise_any()
        return Execution(table, conflicts)


def _bucket() -> pl.Expr:
    return pl.col("pod").hash(seed=0) % BUCKETS


def _delays(trace: Trace) -> pl.LazyFrame:
    """Delay of every pod in the summary, h; rows without a delay or with a negative one are left out."""
    columns = trace.layout.summary_columns
    faults = Faults(f"Execution summary of '{trace.folder}'")
    frames = []
    for path in trace.summary:
        with reading(path):
            frame = scan(path)
            names = frame.collect_schema().names()
        missing = sorted(set(columns.values()) - set(names))
        faults.require(not missing, str(path), names, f"also the columns {', '.join(missing)}")
        delay = pl.col(columns["delay"]).cast(pl.Float64, strict=False) * trace.layout.factor("delay")
        frames.append(frame.select(pod=pl.col(columns["pod"]).cast(pl.String), delay=delay))
    faults.raise_any()
    return pl.concat(frames).filter(pl.col("delay").is_finite() & (pl.col("delay") >= 0))


def _seen(trace: Trace, piece: Partition) -> tuple[pl.DataFrame, Audit]:
    """First and last hour, GPU-hours and traits of every pod of one partition."""
    with reading(f"{trace.folder}, {piece.name}"):
        rows = pod_rows(trace, piece, ("pod",)).filter(
            pl.col("reason").is_null() & ~pl.col("idle") & pl.col("pod").is_not_null() & (pl.col("gpu_hours") > 0)
        )
        table = (
            rows.group_by("pod")
            .agg(
                pl.col("hour").min().alias("first"),
                pl.col("hour").max().alias("last"),
                pl.col("gpu_hours").sum(),
                pl.col(TRAITS).min(),
                pl.col("cpu_requested").max().fill_null(0).alias("cores"),
            )
            .with_columns(bucket=_bucket())
            .sort("pod")
            .collect(engine="streaming")
        )
    return table, Audit(trace.label, trace.scale, partitions=1, rows=table.height)
