"""The synthetic fleet as a trace on disk: pods and servers, hour by hour, in the layout of the published one."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from pypsa_aidc.fleet.synthetic.cells import Family, atoms
from pypsa_aidc.fleet.trace.layout import ALIBABA_2026
from pypsa_aidc.fleet.trace.schema import STATES

WORDS = {
    "priority": {"high": "HP", "low": "LP"},
    "state": dict(zip(STATES, ("Unknown", "Standby"), strict=True)),
}
"""Words of the published trace for those of the schema."""


def write_pods(folder: Path, pods: list[Family], hours: npt.NDArray[np.int64], own: Mapping[str, Any]) -> None:
    """Write the pod table as hive partitions; every cell becomes one pod for each utilisation that occurs in it.

    Parameters
    ----------
    folder
        Of the trace.
    pods
        Families whose arrays begin with the first of `hours`.
    hours
        Hours to write.
    own
        Parameters of the families.
    """
    frames = []
    for pod in pods:
        active = pod.state == "active"
        held = pod.gpu_hours[: hours.size]
        levels = [
            (pod_level[: hours.size], share * (1 - own["unknown_share"] * active))
            for pod_level, share in atoms(pod.utilisation, own)
        ]
        levels += [(np.full(hours.size, np.nan), own["unknown_share"])] if active else []
        for number, (level, share) in enumerate(levels):
            frames.append(
                pl.DataFrame(
                    {
                        "at": hours,
                        "pod_id": f"{pod.cluster}/{pod.accelerator}/{pod.workload}/{pod.priority}/{pod.state}/{number}",
                        "server_id": f"{pod.cluster}/{pod.accelerator}",
                        "cluster_id": pod.cluster,
                        "state_public": WORDS["state"][pod.state],
                        "gpu_spec_public": pod.accelerator,
                        "priority_class": WORDS["priority"][pod.priority],
                        "job_type_public": pod.workload,
                        "gpu_request": share * held,
                        "cpu_request_cores": np.zeros(hours.size),
                        "used_gpu_hours": share * held,
                        "avg_gpu_sm_util": 100 * level,
                        "avg_cpu_request_util": np.full(hours.size, own["cpu_load"]),
                    }
                )
            )
    table = (
        pl.concat(frames).with_columns(pl.col("avg_gpu_sm_util").fill_nan(None)).filter(pl.col("used_gpu_hours") > 0)
    )
    _partitioned(folder / ALIBABA_2026.pods, table)


def write_servers(folder: Path, capacity: pl.DataFrame) -> None:
    """Write the server table as hive partitions; the servers of a cluster and accelerator are equal parts of it."""
    servers = pl.col("servers")
    table = capacity.select(
        pl.col("hour").alias("at"),
        pl.col("cluster").cast(pl.String).alias("cluster_id"),
        pl.col("accelerator").cast(pl.String).alias("gpu_spec_public"),
        (pl.col("gpus") / servers).alias("gpu_count"),
        (pl.col("cores") / servers).alias("cpu_capacity_cores"),
        pl.int_ranges(0, servers).alias("server_id"),
    ).explode("server_id")
    _partitioned(folder / ALIBABA_2026.servers, table.with_columns(pl.col("server_id").cast(pl.String)))


def _partitioned(folder: Path, table: pl.DataFrame) -> None:
    for (hour,), part in table.group_by("at", maintain_order=True):
        moment = int(str(hour))
        place = folder / f"day={moment // 24}" / f"hour={moment % 24:02d}"
        place.mkdir(parents=True, exist_ok=True)
        part.drop("at").write_parquet(place / "part-000.parquet")
