"""Small traces, written by hand in the published layouts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl

POD = {
    "pod_id": "p1",
    "workload_id": None,
    "server_id": "s1",
    "cluster_id": "c1",
    "state_public": "Unknown",
    "gpu_spec_public": "A100",
    "server_gpu_count": 8.0,
    "server_cpu_capacity_cores": 96.0,
    "priority_class": "LP",
    "job_type_public": "training",
    "gpu_request": 2.0,
    "cpu_request_cores": 16.0,
    "used_gpu_hours": 2.0,
    "avg_gpu_sm_util": 40.0,
    "avg_cpu_request_util": 0.5,
}
SERVER = {
    "server_id": "s1",
    "cluster_id": "c1",
    "gpu_spec_public": "A100",
    "gpu_count": 8.0,
    "cpu_capacity_cores": 96.0,
}


def pods(*changes: dict[str, Any]) -> pl.DataFrame:
    """Rows of the 2026 pod table: the standard pod with changes, each row a pod of its own."""
    rows = [{**POD, "pod_id": f"p{number}", **change} for number, change in enumerate(changes, 1)]
    return pl.DataFrame(rows, infer_schema_length=None)


def alibaba(
    folder: Path, hours: dict[tuple[int, int], pl.DataFrame], suffix: str = "parquet", servers: bool = True
) -> Path:
    """Write a trace in the 2026 layout; every hour gets one server of the standard kind."""
    for (day, hour), frame in hours.items():
        write(frame, folder / "asi_opensource_pod_hourly" / f"day={day}" / f"hour={hour:02d}" / f"part-000.{suffix}")
        if servers:
            place = folder / "asi_opensource_server_hourly" / f"day={day}" / f"hour={hour:02d}" / f"part-000.{suffix}"
            write(pl.DataFrame([SERVER]), place)
    return folder


def write(frame: pl.DataFrame, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".csv":
        frame.write_csv(path)
    else:
        frame.write_parquet(path)
