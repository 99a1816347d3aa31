"""Sufficient statistics: a trace reduced to what any power curve on the utilisation knots needs."""

from __future__ import annotations

import json
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import polars as pl

from pypsa_aidc.errors import Faults, UnitWarning, checked
from pypsa_aidc.fleet.trace import hourly, jobs
from pypsa_aidc.fleet.trace.audit import (
    Audit,
    Coverage,
    CoverageWarning,
    EraWarning,
    coverage_of,
    merged,
    warn_of_holes,
)
from pypsa_aidc.fleet.trace.hourly import SLACK, replace_table
from pypsa_aidc.fleet.trace.schema import CAPACITY_TYPES, CELL_TYPES, KEYS
from pypsa_aidc.fleet.trace.stamps import LONGEST_TRACE
from pypsa_aidc.fleet.trace.tables import reading
from pypsa_aidc.fleet.trace.trace import Trace

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LATE = 7 * 24
"""Hours after which the first appearance of a word counts as a new era."""


@dataclass(frozen=True, repr=False)
class Statistics:
    """A trace reduced to one row per hour, cluster, accelerator, workload, priority and state (Sec. 2.2 of [2]).

    Attributes
    ----------
    cells : polars.DataFrame
        Columns of `CELL_TYPES`: keys, `pods` (rows), GPU-hours (`SUMS`), `cpu_requested` and `cpu_used` (core-hours).
    capacity : polars.DataFrame
        Columns of `CAPACITY_TYPES`; empty where the trace has no servers.
    audit
        What was left out and why.
    synthetic
        Whether the numbers come from the synthetic fleet.
    observed : array of int
        Hours about which the trace says something, be it that nothing ran; those of the cells if None.
    lasting : polars.DataFrame
        Columns of `cells`, `notice` and `call` (h): of each hour in which a call might start, what began at least
        `notice` before it and runs to its end. None where it was not asked for.

    Raises
    ------
    InputError
        Missing columns, no cells, sums that are negative or not finite, a cell that occurs twice.

    References
    ----------
    [2] M. Li, "Beyond Scalar Flexibility", arXiv 2609.05406.
    """

    cells: pl.DataFrame
    capacity: pl.DataFrame
    audit: Audit
    synthetic: bool = False
    observed: npt.NDArray[np.int64] | None = None
    lasting: pl.DataFrame | None = None
    _bounds: tuple[int, int] = field(init=False)

    def __post_init__(self) -> None:
        faults = Faults(f"Sufficient statistics of {self.audit.source}")
        for name, types, keys in (("cells", CELL_TYPES, KEYS), ("capacity", CAPACITY_TYPES, KEYS[:3])):
            object.__setattr__(self, name, _typed(getattr(self, name), name, types, keys, faults))
        faults.require(self.cells.height > 0, "cells", "no rows", "at least one hour", "Nothing usable was read.")
        faults.raise_any()
        seen = self.cells["hour"].unique().to_numpy() if self.observed is None else np.unique(self.observed)
        object.__setattr__(self, "observed", seen.astype(np.int64))
        # A job in a declared gap has cells in hours that do not count as seen.
        ends = np.concatenate([seen[:1], seen[-1:], [self.cells["hour"].min(), self.cells["hour"].max()]])
        first, last = int(ends.min()), int(ends.max())
        faults.require(
            last - first <= LONGEST_TRACE, "cells['hour']", (first, last), f"a span of {LONGEST_TRACE} hours"
        )
        faults.raise_any()
        object.__setattr__(self, "_bounds", (first, last))

    def __repr__(self) -> str:
        return (
            f"Statistics({'synthetic, ' if self.synthetic else ''}{self.cells.height:,} cells, "
            f"{self.coverage}, {self.cells['cluster'].n_unique()} clusters, "
            f"{self.audit.source})"
        )

    @property
    def hours(self) -> npt.NDArray[np.int64]:
        """Hours from the first to the last one seen, without holes; shape (hours,)."""
        first, last = self._bounds
        return np.arange(first, last + 1)

    @property
    def valid(self) -> npt.NDArray[np.bool_]:
        """Whether the trace says something about an hour (and has servers in it, if it has a server table).

        An hour in which nothing ran is there, with 0 MW; K would be too high without it. Shape (hours,).
        """
        valid = np.isin(self.hours, np.asarray(self.observed))
        if self.capacity.height:
            valid &= np.isin(self.hours, self.capacity["hour"].unique().to_numpy())
        return valid

    @property
    def clusters(self) -> list[str]:
        """Names of all clusters that have pods or servers, in order."""
        names = pl.concat([frame["cluster"].cast(pl.String).unique() for frame in (self.cells, self.capacity)])
        return sorted(names.unique().to_list())

    @property
    def stock(self) -> pl.DataFrame:
        """`capacity` within the hours with `free`, the GPUs no pod holds: 0 where pods hold more than there are."""
        keys = list(KEYS[:3])
        held = self.cells.group_by(keys).agg(pl.col("gpu_hours").sum())
        table = self.capacity.filter(pl.col("hour").is_between(*self._bounds))
        table = table.join(held, on=keys, how="left", maintain_order="left")
        free = (pl.col("gpus") - pl.col("gpu_hours").fill_null(0)).clip(0)
        return table.with_columns(pl.col("cluster", "accelerator").cast(pl.String), free=free).drop("gpu_hours")

    @property
    def coverage(self) -> Coverage:
        """How many of the hours are valid, and the longest hole."""
        return coverage_of(self.valid)

    def eras(self) -> dict[str, int]:
        """First hour of every state, workload and priority that appears only after more than a week of trace.

        Returns
        -------
        dict
            E.g. ``{"state standby": 2616}``: a change of the schema, or a change of the fleet.
        """
        late: dict[str, int] = {}
        for name in ("state", "workload", "priority"):
            used = self.cells.select(name, "hour", "gpu_hours").filter(pl.col("gpu_hours") > 0)
            firsts = used.group_by(name).agg(pl.col("hour").min()).sort(name)
            late |= {f"{name} {word}": hour for word, hour in firsts.iter_rows() if hour - self._bounds[0] > LATE}
        return late

    def to_frame(self) -> pl.DataFrame:
        """Return the cells."""
        return self.cells

    def plot(self) -> Figure:
        """Draw used GPU-hours a day by workload."""
        from pypsa_aidc.plots.trace import plot_statistics

        return plot_statistics(self)

    def save(self, folder: str | Path) -> None:
        """Write the tables as parquet and the audit as JSON into `folder`."""
        target = Path(folder)
        target.mkdir(parents=True, exist_ok=True)
        replace_table(target / "cells.parquet", self.cells)
        replace_table(target / "capacity.parquet", self.capacity)
        replace_table(target / "observed.parquet", pl.DataFrame({"hour": self.observed}))
        if self.lasting is not None:
            replace_table(target / "lasting.parquet", self.lasting)
        record = {"synthetic": self.synthetic, "audit": self.audit.to_dict()}
        (target / "audit.json").write_text(json.dumps(record, indent=2), encoding="utf-8")

    @classmethod
    @checked
    def of(
        cls,
        trace: Trace,
        *,
        keep: str | Path | None = None,
        max_rejected: float = 0.01,
        count_servers: bool = True,
        gaps: Sequence[tuple[float, float]] = (),
        retired: Sequence[str] = (),
        notices: Sequence[float] = (),
        calls: Sequence[int] = (1, 2, 4, 8),
    ) -> Statistics:
        """Reduce a trace to its sufficient statistics, one partition after another.

        Peak memory is that of one partition (a day of an hourly trace) plus the statistics themselves. With `keep`, the
        result of each partition is written once it is complete; a later run with the same files and options picks it up
        and redoes what is missing, half-written or made from other files. The same rows give the same statistics to
        the last bit, in any order and in any number of files.

        Parameters
        ----------
        trace
            From `pypsa_aidc.fleet.trace.trace`.
        keep
            Folder for the partition results of an hourly trace; None computes everything anew.
        max_rejected
            Largest share of faulty rows, by number or by GPU-hours, 0 … 1, that is still only counted; beyond it the
            trace is refused. The same holds for rows that occur twice without naming a job or pod.
        count_servers
            Whether to count server hours whose pods use more GPU-hours than the server has accelerators.
        gaps
            Pairs of start and end, in hours of the trace as `Statistics.hours` counts them (hour 0 is midnight UTC of
            the first day where the trace has stamps), in which the record itself was down. Each hour that
            one touches is missing. Otherwise an hour between the first and the last event of a job list in which no job
            ran is idle: 0 MW, and valid. In an hourly trace, hours without any row are missing anyway, and so are
            those in which a cluster that was there before has neither a row nor a server.
        retired
            Clusters of an hourly trace that were taken out of service: after their last row they count as 0 MW.
        notices, calls
            Of a job list: notices of a call and durations of it, h, for which `lasting` says what is running when the
            call is announced and still runs when it ends. None unless a notice is given; 0 h is a call unannounced.

        Returns
        -------
        Statistics

        Warns
        -----
        UnitWarning
            Partitions whose utilisation looks as if it were in the other scale.
        EraWarning
            A state, workload or priority that first appears more than a week into the trace.
        CoverageWarning
            More than 5 % of the hours are missing.

        Raises
        ------
        InputError
            Unreadable files, missing columns, nothing usable, impossible gaps, or more than `max_rejected` faulty rows.
        """
        faults = Faults(f"Statistics of '{trace.folder}'")
        faults.number("max_rejected", max_rejected, at_least=0, at_most=1)
        listed = trace.layout.kind == "jobs"
        faults.require(keep is None or not listed, "keep", keep, "None: a job list is read in one go")
        faults.require(not (retired and listed), "retired", list(retired), "none: in a job list, no job is no power")
        faults.require(
            listed or not notices, "notices", list(notices), "none: hourly tables do not say when work began"
        )
        for notice in notices:
            faults.number("notices", notice, at_least=0)
        for call in calls:
            faults.number("calls", call, at_least=1, integer=True)
        gaps = faults.listed("gaps", gaps, "pairs of hours (start, end), as a list")
        for number, gap in enumerate(gaps):
            ends, before = faults.listed(f"gaps[{number}]", gap, "hours (start, end)"), len(faults)
            for moment in ends:
                faults.number(f"gaps[{number}]", moment)
            if len(faults) == before:
                ordered = len(ends) == 2 and ends[0] < ends[1]
                faults.require(ordered, f"gaps[{number}]", gap, "hours (start, end) in this order")
        faults.raise_any()
        if listed:
            found = jobs.aggregated_jobs(trace, sorted(set(notices)), sorted(set(calls)))
        else:
            found = hourly.aggregated(trace, None if keep is None else Path(keep), count_servers, retired)
        cells, capacity, audit, observed = found.cells, found.capacity, found.audit, found.observed
        unknown = sorted(set(retired) - set(cells["cluster"].cast(pl.String).unique()))
        faults.require(not unknown, "retired", unknown, "clusters of the trace")
        for number, (start, end) in enumerate(gaps):
            beside = (observed + 1 <= start) | (observed >= end)
            whole = f"{observed.min():g} … {observed.max() + 1:g}" if observed.size else "none left"
            faults.require(
                not beside.all(), f"gaps[{number}]", (start, end), f"a gap within the hours of the trace, {whole}"
            )
            observed = observed[beside]
            faults.require(
                observed.size > 0, f"gaps[{number}]", (start, end), f"less than all hours of the trace, {whole}"
            )
        if max(audit.rejected_share, audit.lost_share) > max_rejected:
            for reason, count in audit.rejected.items():
                share = audit.lost.get(reason, 0.0) / audit.gpu_hours if audit.gpu_hours else 0.0
                hours = f" ({100 * share:.0f} % of GPU-hours)" if share > 0 else ""
                given = f"{count:,} of {audit.rows - audit.skipped_rows:,} rows{hours}: {reason}"
                faults.add(audit.examples[reason], given, "no such rows", "Correct the trace, or raise max_rejected.")
        _refuse_copies(trace, audit, max_rejected, faults)
        faults.raise_any()
        audit = _with_overfull(cells, capacity, audit)
        result = Statistics(cells, capacity, audit, observed=observed, lasting=found.lasting)
        warn_of_holes(result.coverage, audit.source)
        alike = [name for name in result.clusters if name.lower() in {n.lower() for n in result.clusters if n != name}]
        if alike:
            text = f"clusters that differ in capitals only are taken for different ones: {', '.join(alike)}"
            warnings.warn(f"{audit.source}: {text}", UnitWarning, stacklevel=2)
        for looks in set(audit.noted) & {hourly.LOOKS_LIKE_FRACTIONS, jobs.LOOKS_LIKE_FRACTIONS}:
            first = f", first {audit.examples[looks]}" if looks in audit.examples else ""
            text = f"{audit.noted[looks]} {looks}{first}"
            warnings.warn(f"'{trace.folder}': {text}: fractions?", UnitWarning, stacklevel=2)
        if jobs.SILENT_ENDS in audit.noted:
            text = f"{audit.noted[jobs.SILENT_ENDS]} {jobs.SILENT_ENDS}, first {audit.examples[jobs.SILENT_ENDS]}"
            remedy = "if its list ends there, declare window="
            warnings.warn(f"{audit.source}: {text}; {remedy}", CoverageWarning, stacklevel=2)
        for word, hour in result.eras().items():
            text = f"{word} first appears on day {hour // 24}; before that, its absence may mean nothing"
            warnings.warn(f"{audit.source}: {text}", EraWarning, stacklevel=2)
        return result

    @classmethod
    def read(cls, folder: str | Path) -> Statistics:
        """Read what `Statistics.save` wrote.

        Raises
        ------
        InputError
            A file is missing or unreadable.
        """
        source = Path(folder)
        with reading(source):
            record = json.loads((source / "audit.json").read_text(encoding="utf-8"))
            cells, capacity, observed = (
                pl.read_parquet(source / f"{name}.parquet") for name in ("cells", "capacity", "observed")
            )
            kept = source / "lasting.parquet"
            lasting = pl.read_parquet(kept) if kept.exists() else None
        audit = Audit(**record["audit"])
        return Statistics(cells, capacity, audit, record["synthetic"], observed["hour"].to_numpy(), lasting)


def _typed(
    frame: pl.DataFrame, name: str, types: dict[str, Any], keys: tuple[str, ...], faults: Faults
) -> pl.DataFrame:
    """`frame` with the schema's columns and types; whatever does not fit is noted."""
    missing = [column for column in types if column not in frame.columns]
    if missing:
        faults.add(name, frame.columns, f"also the columns {', '.join(missing)}")
        return frame
    try:
        # A cast copies even where it changes nothing.
        fits = dict(frame.schema) == types
        typed = frame if fits else frame.select(pl.col(column).cast(kind) for column, kind in types.items())
    except pl.exceptions.PolarsError as error:
        faults.add(name, str(error).splitlines()[0], f"columns of types {', '.join(map(str, types.values()))}")
        return frame
    for column in keys:
        faults.require(not typed[column].has_nulls(), f"{name}['{column}']", None, "no missing values")
    sums = pl.exclude(*keys)
    bad = typed.select(sums.filter(sums.is_null() | (sums < 0) | ~sums.is_finite()).head(3).implode()).row(
        0, named=True
    )
    for column, given in bad.items():
        faults.require(not len(given), f"{name}['{column}']", list(given), "finite sums of at least 0")
    # Hashes of the keys take a fraction of the memory of the keys; only if two agree are the keys themselves compared.
    hashes = typed.select(pl.struct(keys).hash()).to_series()
    repeated = 0 if hashes.n_unique() == typed.height else typed.height - typed.select(keys).n_unique()
    faults.require(repeated == 0, name, f"{repeated} repeated keys", f"one row for each {', '.join(keys)}")
    return typed


def _refuse_copies(trace: Trace, audit: Audit, max_rejected: float, faults: Faults) -> None:
    """Note rows that occur twice where nothing says whether they are one or two things."""
    rows = max(audit.rows - audit.skipped_rows, 1)
    for reason in (hourly.UNNAMED_COPIES, jobs.UNNAMED_COPIES):
        count = audit.noted.get(reason, 0)
        if trace.duplicates == "refuse" and count > max_rejected * rows:
            remedy = (
                "Name the column of the job or pod, or say duplicates='one' (they are the same) or 'all' (they differ)."
            )
            faults.add(audit.examples.get(reason, str(trace.folder)), f"{count:,} of {rows:,} {reason}", "none", remedy)
    count = audit.noted.get(hourly.CONFLICTS, 0)
    if trace.duplicates == "refuse" and count > max_rejected * rows:
        remedy = "Keep one export, or say duplicates='one' (the larger counts) or 'all' (they differ)."
        given = f"{count:,} of {rows:,} {hourly.CONFLICTS}"
        faults.add(audit.examples.get(hourly.CONFLICTS, str(trace.folder)), given, "none", remedy)


def _with_overfull(cells: pl.DataFrame, capacity: pl.DataFrame, audit: Audit) -> Audit:
    """Note hours in which the pods of a cluster and accelerator use more than its servers hold."""
    if capacity.is_empty():
        return audit
    keys = list(KEYS[:3])
    used = cells.group_by(keys).agg(pl.col("gpu_hours").sum()).join(capacity, on=keys)
    overfull = used.filter(pl.col("gpu_hours") > pl.col("gpus") * (1 + SLACK)).sort(keys)
    if overfull.is_empty():
        return audit
    first = overfull.row(0, named=True)
    reason = "cluster hours with more GPU-hours than the servers hold"
    where = f"hour {first['hour']}, cluster {first['cluster']}, {first['accelerator']}"
    note = Audit(audit.source, noted={reason: overfull.height}, examples={reason: where})
    return merged([audit, note], audit.source, audit.scale)
