"""The typed schema that every trace is brought into, and the published layouts that are known by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

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
    Column("hour", "h", "hours since the start of the trace"),
    Column("cluster", "", "where the pod ran", text=True),
    Column("accelerator", "", "accelerator model; decides the rating", text=True),
    Column("workload", "", f"one of {', '.join(WORKLOADS)}", text=True),
    Column("priority", "", f"one of {', '.join(PRIORITIES)}; low may be preempted", text=True),
    Column("state", "", f"one of {', '.join(STATES)}", text=True, default="active", required=False),
    Column("gpu_hours", "GPU-hours", "allocated in this hour, at least 0"),
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
    Column("hour", "h", "hours since the start of the trace"),
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


@dataclass(frozen=True)
class Layout:
    """How a published trace is laid out on disk and which of its columns and words mean what.

    Attributes
    ----------
    name
        What a user writes.
    kind
        ``"hourly"``: one row per pod and hour, utilisation known. ``"spans"``: one row per job, no utilisation.
    pods, servers, summary
        Names of the tables inside the folder (a sub-folder of hive partitions, or a glob of files); empty if none.
    pod_columns, server_columns, summary_columns
        Schema name → source column; of the summary, `pod` and `delay`.
    words
        Schema column → {source word: schema word}. A word that is not listed is rejected and counted.
    citation
        Whom to cite.
    scales
        Schema column → factor that brings the source's numbers to the schema's unit.
    survivors
        Whether the table lists only jobs that ended after some moment: before the first recorded end, it then shows
        survivors only, and those hours are dropped.
    """

    name: str
    kind: Literal["hourly", "spans"]
    pods: str
    servers: str
    summary: str
    pod_columns: Mapping[str, str]
    server_columns: Mapping[str, str]
    words: Mapping[str, Mapping[str, str]]
    citation: str
    scales: Mapping[str, float] = field(default_factory=dict)
    survivors: bool = False
    summary_columns: Mapping[str, str] = field(default_factory=dict)


def _same(*names: str) -> dict[str, str]:
    return {name: name for name in names}


GENERIC = Layout(
    name="generic",
    kind="hourly",
    pods="pods*",
    servers="servers*",
    summary="summary",
    summary_columns=_same("pod", "delay"),
    pod_columns={column.name: column.name for column in POD_HOURS},
    server_columns={column.name: column.name for column in SERVER_HOURS},
    words={"workload": _same(*WORKLOADS), "priority": _same(*PRIORITIES), "state": _same(*STATES)},
    citation="the user's own table",
)

ALIBABA_2026 = Layout(
    name="alibaba-2026",
    kind="hourly",
    pods="asi_opensource_pod_hourly",
    servers="asi_opensource_server_hourly",
    summary="asi_opensource_job_execution_summary",
    summary_columns={"pod": "pod_id", "delay": "schedule_delay_sec"},
    scales={"delay": 1 / 3600},
    pod_columns={
        "cluster": "cluster_id",
        "accelerator": "gpu_spec_public",
        "workload": "job_type_public",
        "priority": "priority_class",
        "state": "state_public",
        "gpu_hours": "used_gpu_hours",
        "gpu_requested": "gpu_request",
        "utilisation": "avg_gpu_sm_util",
        "cpu_requested": "cpu_request_cores",
        "cpu_load": "avg_cpu_request_util",
        "pod": "pod_id",
        "server": "server_id",
        "server_gpus": "server_gpu_count",
    },
    server_columns={
        "cluster": "cluster_id",
        "accelerator": "gpu_spec_public",
        "gpus": "gpu_count",
        "cores": "cpu_capacity_cores",
    },
    words={
        "workload": {
            **_same("training", "online_inference", "offline_inference", "other"),
            "dev": "other",
            "unknown": "other",
        },
        "priority": {"HP": "high", "LP": "low", "Other": "other"},
        # Used GPU-hours, not the state, tell whether a pod is active: "Unknown" stands on almost every row.
        "state": {
            "Standby": "standby",
            **dict.fromkeys(("Running", "Pending", "Succeeded", "Failed", "Unknown"), "active"),
        },
    },
    citation="Alibaba cluster-trace-gpu-v2026 (Li et al., OSDI 2026)",
)

OPENB_2023 = Layout(
    name="openb-2023",
    kind="spans",
    pods="*pod*.csv",
    servers="*node*.csv",
    summary="",
    pod_columns={
        "start": "scheduled_time",
        "end": "deletion_time",
        "submitted": "creation_time",
        "gpus": "num_gpu",
        "gpu_share": "gpu_milli",
        "priority": "qos",
        "workload": "qos",
        "cores": "cpu_milli",
    },
    server_columns={"accelerator": "model", "gpus": "gpu", "cores": "cpu_milli"},
    scales={"start": 1 / 3600, "end": 1 / 3600, "submitted": 1 / 3600, "gpu_share": 1e-3, "cores": 1e-3},
    survivors=True,
    words={
        "priority": {"LS": "high", "BE": "low", "Burstable": "high", "Guaranteed": "high"},
        "workload": {
            "LS": "online_inference",
            "BE": "offline_inference",
            "Burstable": "training",
            "Guaranteed": "training",
        },
    },
    citation="Alibaba cluster-trace-gpu-v2023, openb (Weng et al., USENIX ATC 2023)",
)

SPOT_2026 = Layout(
    name="spot-2026",
    kind="spans",
    pods="*job*.csv",
    servers="*node*.csv",
    summary="",
    pod_columns={
        "start": "submit_time",
        "duration": "duration",
        "gpus": "gpu_request",
        "workers": "worker_num",
        "accelerator": "gpu_model",
        "priority": "job_type",
        "workload": "job_type",
        "cores": "cpu_request",
    },
    server_columns={"accelerator": "gpu_model", "gpus": "gpu_capacity_num", "cores": "cpu_num"},
    scales={"start": 1 / 3600, "duration": 1 / 3600},
    words={"priority": {"HP": "high", "Spot": "low"}, "workload": {"HP": "other", "Spot": "other"}},
    citation="Alibaba cluster-trace-v2026-spot-gpu (Duan et al., ASPLOS 2026)",
)

LAYOUTS = {layout.name: layout for layout in (GENERIC, ALIBABA_2026, OPENB_2023, SPOT_2026)}
