"""Layouts of published traces, known by name."""

from __future__ import annotations

from pypsa_aidc.fleet.trace.layout import Layout
from pypsa_aidc.fleet.trace.schema import POD_HOURS, PRIORITIES, SERVER_HOURS, STATES, WORKLOADS


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
