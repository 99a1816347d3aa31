"""The typed schema that every trace is brought into."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

WORKLOADS = ("training", "online_inference", "offline_inference", "other")
PRIORITIES = ("high", "low", "other")
STATES = ("active", "standby")
KEYS = ("hour", "cluster", "accelerator", "workload", "priority", "state")
"""A cell of the sufficient statistics: one combination of these."""

KNOTS = (0.0, 0.25, 0.5, 0.75)
"""Utilisation knots b of S_b = Σ w·max(u − b, 0); the fifth knot, 1, needs no statistic."""

SUMS = ("gpu_hours", "gpu_hours_null", "s0", "s25", "s50", "s75")
"""Statistics that a power curve weighs, GPU-hours: all, those of unknown utilisation, and S_b at the four knots."""

CELL_TYPES: dict[str, Any] = {
    "hour": pl.Int32,
    "cluster": pl.Categorical,
    "accelerator": pl.Categorical,
    "workload": pl.Enum(WORKLOADS),
    "priority": pl.Enum(PRIORITIES),
    "state": pl.Enum(STATES),
    "pods": pl.Int64,
    **dict.fromkeys(SUMS, pl.Float64),
    "cpu_requested": pl.Float64,
    "cpu_used": pl.Float64,
}
"""Columns of the cells: keys, number of pod rows, GPU-hours, core-hours."""

CAPACITY_TYPES: dict[str, Any] = {
    "hour": pl.Int32,
    "cluster": pl.Categorical,
    "accelerator": pl.Categorical,
    "servers": pl.Int64,
    "gpus": pl.Float64,
    "cores": pl.Float64,
}
"""Columns of the capacity: keys, servers, accelerators, CPU cores."""


@dataclass(frozen=True)
class Column:
    """One column of the schema: what it holds, in which unit, and what stands in when a table lacks it."""

    name: str
    unit: str
    meaning: str
    text: bool = False
    default: str | float | None = None
    required: bool = True


POD_HOURS = (
    Column("hour", "h", "whole hours since the start of the trace, or stamps with a zone on the hour"),
    Column("cluster", "", "where the pod ran", text=True),
    Column("accelerator", "", "accelerator model; decides the rating", text=True),
    Column("workload", "", f"one of {', '.join(WORKLOADS)}", text=True),
    Column("priority", "", f"one of {', '.join(PRIORITIES)}; low may be preempted", text=True),
    Column("state", "", f"one of {', '.join(STATES)}", text=True, default="active", required=False),
    Column("gpu_hours", "GPU-hours", "allocated in this hour, at least 0; an idle hour needs a row of 0"),
    Column(
        "gpu_requested",
        "GPUs",
        "requested; rows that neither request nor use a GPU are skipped",
        default=float("inf"),  # Without the column nothing is more than requested.
        required=False,
    ),
    Column("utilisation", "declared", "mean streaming-multiprocessor utilisation; may be null", required=False),
    Column("cpu_requested", "cores", "requested CPU cores, at least 0", default=0.0, required=False),
    Column("cpu_load", "1", "used over requested CPU; clipped to 0 … 1", default=0.0, required=False),
    Column("pod", "", "identifier; needed only for execution spans", text=True, required=False),
    Column(
        "server", "", "identifier; needed only to count servers filled beyond their size", text=True, required=False
    ),
    Column("server_gpus", "GPUs", "accelerators of that server", required=False),
)
"""Pod-hour table. The layout ``"generic"`` uses these names as they stand; `hour` is a column of the table there."""

SERVER_HOURS = (
    Column("hour", "h", "as in the pod table; an hour without a row here is missing"),
    Column("cluster", "", "where the server stands", text=True),
    Column("accelerator", "", "accelerator model", text=True),
    Column("gpus", "GPUs", "accelerators of the server, at least 0"),
    Column("cores", "cores", "CPU cores of the server, at least 0"),
)
"""Server-hour table; optional. Without it there is neither host power nor unallocated idle power."""

SPAN_TYPES: dict[str, Any] = {
    "start": pl.Float64,
    "end": pl.Float64,
    "gpus": pl.Float64,
    "delay": pl.Float64,
    "cluster": pl.Categorical,
    "accelerator": pl.Categorical,
    "workload": pl.Enum(WORKLOADS),
    "priority": pl.Enum(PRIORITIES),
    "cores": pl.Float64,
}
"""Execution spans: start and end in hours since the start of the trace, GPUs and CPU cores held throughout, the hours
waited before execution (null where unknown), and where and what it was."""

JOBS = (
    Column("job", "", "identifier; with it, rows that occur twice are counted once", text=True, required=False),
    Column("namespace", "", "what makes `job` unique, where it is not by itself", text=True, required=False),
    Column("start", "h", "when the job began to run; hours since the start of the trace, or stamps with a zone"),
    Column("end", "h", "when it stopped; empty: still running at the end of the trace", required=False),
    Column("duration", "h", "instead of `end`", required=False),
    Column("submitted", "h", "when it was submitted; its delay is the time to `start`", required=False),
    Column("gpus", "GPUs", "held throughout, of one worker", required=False),
    Column("tres", "", "instead of `gpus`: Slurm's text, e.g. ``gres/gpu:a100=8,cpu=64``", text=True, required=False),
    Column("gpu_share", "1", "share of each GPU, 0 … 1", default=1.0, required=False),
    Column("workers", "1", "workers of the job, each with `gpus` and `cores`", default=1.0, required=False),
    Column("cluster", "", "where it ran; one cluster without it", text=True, required=False),
    Column("accelerator", "", "model; decides the rating", text=True, default="mixed", required=False),
    Column("workload", "", f"one of {', '.join(WORKLOADS)}", text=True, default="other", required=False),
    Column("priority", "", f"one of {', '.join(PRIORITIES)}; low may be preempted", text=True),
    Column("utilisation", "declared", "mean over the job; may be null", required=False),
    Column("cores", "cores", "CPU cores held throughout, of one worker", default=0.0, required=False),
)
"""Job list: one row for each job. A `Layout` of kind ``"jobs"`` says which columns of a file these are."""


def grouped(cells: pl.DataFrame, by: Sequence[str]) -> tuple[pl.DataFrame, npt.NDArray[np.int64]]:
    """Each combination of words once, in the order of the words, and the row of it that each cell belongs to.

    Parameters
    ----------
    cells
        With columns `by` of words.
    by
        Names of them, at least one.

    Examples
    --------
    >>> cells = pl.DataFrame({"state": ["standby", "active", "standby"]}).cast(pl.Categorical)
    >>> table, row = grouped(cells, ["state"])
    >>> table["state"].to_list(), row.tolist()
    (['active', 'standby'], [1, 0, 1])
    """
    mixed = np.zeros(cells.height, np.int64)
    for name in by:
        # Numbers of the categories; a rank of words takes ten times as long.
        words = cells[name].cast(pl.Categorical) if cells.schema[name] == pl.String else cells[name]
        code = words.to_physical().to_numpy().astype(np.int64)
        mixed = mixed * (code.max(initial=0) + 1) + code
    size = mixed.max(initial=0) + 1
    first = np.zeros(size, np.int64)
    first[mixed[::-1]] = np.arange(mixed.size)[::-1]
    found = np.flatnonzero(np.bincount(mixed, minlength=size)) if mixed.size else np.empty(0, np.int64)
    table = cells.select(by)[first[found]].cast(pl.String).with_columns(code=found).sort(by)
    place = np.zeros(size, np.int64)
    place[table["code"].to_numpy()] = np.arange(table.height)
    return table.drop("code"), place[mixed]
