"""How fast the kernels are against a naive way, both in one run: `python benchmarks.py [million rows …]`.

Ratios mean something on any machine, seconds only on the one they were measured on.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl

from pypsa_aidc import fleet
from pypsa_aidc.fleet.power import cell_power
from pypsa_aidc.fleet.studies.counterfactual import k_grid
from pypsa_aidc.fleet.windows import DURATIONS, RELIABILITIES

ROWS_A_DAY = 500_000
DRAWS = 300
NAIVE_DRAWS = 6
MEASURE = """
import json, re, sys, time
import polars as pl
from pypsa_aidc import fleet

def bare():
    w, u = pl.col("used_gpu_hours"), pl.col("avg_gpu_sm_util") / 100
    cores = pl.col("cpu_request_cores")
    sums = {f"s{b}": (w * (u - b).clip(0)).sum() for b in (0, 0.25, 0.5, 0.75)}
    sums |= {"null": pl.when(u.is_null()).then(w).sum(), "used": (cores * pl.col("avg_cpu_request_util")).sum()}
    keys = ("day", "hour", "cluster_id", "gpu_spec_public", "job_type_public", "priority_class", "state_public")
    rows = pl.scan_parquet(sys.argv[1] + "/*/*/*/*.parquet", hive_partitioning=True).group_by(keys)
    return rows.agg(pl.len(), w.sum(), cores.sum(), **sums).collect(engine="streaming")

def ours():
    return fleet.Statistics.of(fleet.Trace.read(sys.argv[1], utilisation="percent"))

def best(call):
    spent = []
    for _ in range(3):
        # Not the clock on the wall: other programs take part of the processors.
        start, cpu = time.perf_counter(), time.process_time()
        result = call()
        spent.append((time.process_time() - cpu, time.perf_counter() - start))
    return result, *min(spent)

statistics, cpu, seconds = best(ours)
# Not ru_maxrss: a child inherits that from the process that started it.
peak = int(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1]) / 1024
times_bare = cpu / best(bare)[1]
result = {"rows": statistics.audit.rows, "cells": statistics.cells.height, "seconds": seconds, "peak_MiB": peak}
print(json.dumps({**result, "statistics_MiB": statistics.cells.estimated_size("mb"), "times_bare": times_bare}))
"""
"""A trace is reduced, and the same sums are made by a bare group-by of the same files without a look at any row."""


def seconds(call: Callable[[], object], least: float = 0.5) -> float:
    """Best of as many runs as fit into about `least` seconds."""
    best, total = np.inf, 0.0
    while total < least:
        start = time.perf_counter()
        call()
        spent = time.perf_counter() - start
        best, total = min(best, spent), total + spent
    return float(best)


def naive_k(series: np.ndarray) -> np.ndarray:
    """K of 20 cells by a pandas rolling minimum and bisection on the share of windows."""
    result = np.empty((len(DURATIONS), len(RELIABILITIES)))
    for i, h in enumerate(DURATIONS):
        minima = pd.Series(series).rolling(h).min().dropna().to_numpy()
        for j, alpha in enumerate(RELIABILITIES):
            low, high = 0.0, float(minima.max())
            for _ in range(60):
                middle = (low + high) / 2
                low, high = (middle, high) if (minima >= middle).mean() >= alpha else (low, middle)
            result[i, j] = low
    return result


def naive_draw(statistics: fleet.Statistics, model: fleet.PowerModel) -> np.ndarray:
    """Hourly workload power of one draw, row by row of the statistics."""
    power = np.zeros(statistics.hours.size)
    idle, active = cell_power(statistics.cells, model)
    np.add.at(power, statistics.cells["hour"].to_numpy() - statistics.hours[0], idle + active)
    return power


def kernels() -> pd.DataFrame:
    made = fleet.SyntheticFleet.generate()
    envelope = fleet.Envelope.of(made.statistics)
    series = envelope.relief("supported").sum("cluster", skipna=False).to_numpy()
    ours = k_grid(series, DURATIONS, RELIABILITIES, "sup")
    np.testing.assert_allclose(naive_k(series), ours, rtol=1e-12)
    rows = [
        (
            "K of 20 cells",
            seconds(lambda: naive_k(series)),
            seconds(lambda: k_grid(series, DURATIONS, RELIABILITIES, "sup")),
        )
    ]
    models = fleet.power_draws(DRAWS)
    start = time.perf_counter()
    for model in models[:NAIVE_DRAWS]:
        naive_draw(made.statistics, model)
    naive = (time.perf_counter() - start) * DRAWS / NAIVE_DRAWS
    start = time.perf_counter()
    ensemble = fleet.ensemble(made.statistics, models)
    fast = time.perf_counter() - start
    alone = naive_draw(made.statistics, models[3])
    together = ensemble.data["workload"].isel(draw=3).to_numpy()
    np.testing.assert_allclose(together[made.statistics.valid], alone[made.statistics.valid], rtol=1e-11)
    rows.append((f"{DRAWS} draws of the power model", naive, fast))
    table = pd.DataFrame(rows, columns=["task", "naive_seconds", "seconds"])
    return table.assign(ratio=table["naive_seconds"] / table["seconds"])


def pod_table(folder: Path, days: int, seed: int = 0) -> None:
    """A made-up pod table in the 2026 layout, half a million rows a day, with as many cells an hour as the real one.

    The published trace has 858,816 cells in 4,439 hours, 193 an hour; here a cluster has one board and two priorities.
    """
    rng = np.random.default_rng(seed)
    boards = np.array(list(fleet.RATINGS))
    per_hour = ROWS_A_DAY // 24
    for day in range(days):
        for hour in range(24):
            n = per_hour
            cluster = rng.integers(0, 17, n)
            request = rng.choice([0.0, 0.25, 0.5, 1.0, 2.0, 8.0], n)
            table = pl.DataFrame(
                {
                    "pod_id": rng.choice(10**6, n, replace=False),
                    "server_id": rng.integers(0, 4000, n),
                    "cluster_id": cluster,
                    "state_public": rng.choice(["Unknown", "Standby"], n, p=[0.99, 0.01]),
                    "gpu_spec_public": boards[cluster % boards.size],
                    "server_gpu_count": np.full(n, 1e9),
                    "priority_class": rng.choice(["HP", "LP"], n),
                    "job_type_public": rng.choice(["training", "online_inference", "offline_inference", "dev"], n),
                    "gpu_request": request,
                    "cpu_request_cores": rng.integers(1, 64, n).astype(float),
                    "used_gpu_hours": request * rng.random(n),
                    "avg_gpu_sm_util": np.where(rng.random(n) < 0.02, np.nan, 100 * rng.random(n)),
                    "avg_cpu_request_util": rng.random(n),
                }
            ).with_columns(
                pl.col("pod_id", "server_id", "cluster_id").cast(pl.String), pl.col("avg_gpu_sm_util").fill_nan(None)
            )
            place = folder / "asi_opensource_pod_hourly" / f"day={day}" / f"hour={hour:02d}"
            place.mkdir(parents=True)
            table.write_parquet(place / "part-000.parquet")


def aggregation(millions: list[int]) -> pd.DataFrame:
    """Aggregate tables of several sizes, each in a process of its own."""
    rows = []
    for size in millions:
        with tempfile.TemporaryDirectory() as folder:
            pod_table(Path(folder), round(size * 1e6 / ROWS_A_DAY))
            done = subprocess.run([sys.executable, "-c", MEASURE, folder], capture_output=True, text=True, check=True)
            result = json.loads(done.stdout)
            shutil.rmtree(Path(folder) / "asi_opensource_pod_hourly")
        rows.append({**result, "rows_per_second": result["rows"] / result["seconds"]})
    return pd.DataFrame(rows)


if __name__ == "__main__":
    sizes = [int(word) for word in sys.argv[1:]] or [5, 50]
    here = Path(__file__).parent / "results"
    here.mkdir(exist_ok=True)
    for name, table in (("kernels", kernels()), ("aggregation", aggregation(sizes))):
        table.to_csv(here / f"benchmark_{name}.csv", index=False, float_format="%.6g")
        print(table.to_string(index=False))
