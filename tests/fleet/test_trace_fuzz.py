"""Hundreds of damaged trace tables: each is read or refused, and nothing but our own errors comes out."""

from __future__ import annotations

import collections
import json
import shutil
import warnings

import numpy as np
import polars as pl
import pytest

from pypsa_aidc import fleet
from pypsa_aidc.errors import AIDCError

from . import made
from .test_simulated_truth import JOB_LISTS, population
from .test_trace import generic_rows, spot

TABLES = 350
POISON = [None, float("nan"), float("inf"), -1.0, 1e300, -0.0, 137.0, 1e-9]
WORDS = [None, "", "LP", "HP", "héhé/⚡", "a" * 5000, "null", "NaN", "low", "training"]


def column(rng: np.random.Generator, frame: pl.DataFrame) -> str:
    return str(rng.choice(frame.columns)) if frame.columns else ""


def damage(rng: np.random.Generator, frame: pl.DataFrame) -> pl.DataFrame:
    """One random fault."""
    name = column(rng, frame)
    if not name or not frame.height:
        return frame
    fault = rng.integers(9)
    if fault == 0:
        return frame.drop(name)
    if fault == 1:
        return frame.rename({name: f"{name}_"})
    if fault == 2:
        return frame.with_columns(pl.Series(name, [POISON[i] for i in rng.integers(len(POISON), size=frame.height)]))
    if fault == 3:
        values = [WORDS[i] for i in rng.integers(len(WORDS), size=frame.height)]
        return frame.with_columns(pl.Series(name, values, dtype=pl.String))
    if fault == 4:
        kinds = [pl.Boolean, pl.Int8, pl.Date, pl.Binary, pl.String, pl.Float32]
        kind = kinds[int(rng.integers(len(kinds)))]
        return frame.with_columns(pl.lit(None, dtype=kind).alias(name))
    if fault == 5:
        return frame.with_columns(pl.concat_list(pl.lit(1), pl.lit(2)).alias(name))
    if fault == 6:
        return frame.clear()
    if fault == 7:
        return frame.with_columns(pl.lit(rng.choice([True, False])).alias(name))
    return pl.concat([frame, frame])


def spoil(rng: np.random.Generator, path) -> None:
    """Damage a file or the folders around it, without regard to what it holds."""
    fault = rng.integers(6)
    if fault == 0:
        path.write_bytes(path.read_bytes()[: int(rng.integers(0, 40))])
    elif fault == 1:
        path.write_bytes(rng.bytes(200))
    elif fault == 2 and path.parent.name.startswith("hour="):
        target = path.parent.parent / rng.choice(
            ["hour=x", "hour=24", "hour=-1", "hour=", f"hour={int(rng.integers(24))}"]
        )
        if not target.exists():
            path.parent.rename(target)
    elif fault == 3 and path.parent.parent.name.startswith("day="):
        twin = path.parent.parent.parent / rng.choice(["day=00", "day=000", "day=1e3", "day=", "day=7"])
        if not twin.exists():
            shutil.copytree(path.parent.parent, twin)
    elif fault == 4:
        path.unlink()
    else:
        path.write_text("")


def one_trace(rng: np.random.Generator, folder):
    """A trace of a random layout with up to three damaged tables, and what the user says about it."""
    kind = rng.choice(["alibaba-2026", "generic", "spot-2026"])
    suffix = str(rng.choice(["parquet", "csv"]))
    if kind == "alibaba-2026":
        hours = {(0, hour): made.pods({}, {"priority_class": "HP"}) for hour in range(3)}
        made.alibaba(folder, hours, suffix)
    elif kind == "generic":
        made.write(generic_rows(), folder / f"pods.{suffix}")
    else:
        spot(folder)
    for _ in range(rng.integers(0, 4)):
        files = sorted(
            path for path in folder.rglob("*") if path.suffix in (".parquet", ".csv") and path.stat().st_size
        )
        if not files:
            break
        path = files[int(rng.integers(len(files)))]
        if rng.random() < 0.25:
            spoil(rng, path)
            continue
        try:
            frame = pl.read_parquet(path) if path.suffix == ".parquet" else pl.read_csv(path)
            made.write(damage(rng, frame), path)
        except (pl.exceptions.PolarsError, OSError):
            # The table was spoiled before, or the damage cannot be written to this format.
            continue
    scale = None if kind == "spot-2026" else rng.choice(["percent", "fraction", "absent"])
    return kind, scale


@pytest.mark.slow
def test_hundreds_of_damaged_traces_give_results_or_our_errors(tmp_path):
    rng = np.random.default_rng(20260904)
    outcomes: collections.Counter[str] = collections.Counter()
    for number in range(TABLES):
        folder = tmp_path / str(number)
        folder.mkdir()
        kind, scale = one_trace(rng, folder)
        with warnings.catch_warnings():
            # Warnings are a legal answer here; anything that is not ours must not come out.
            warnings.simplefilter("ignore", UserWarning)
            try:
                trace = fleet.Trace.read(folder, str(kind), utilisation=scale)
                statistics = fleet.Statistics.of(trace, max_rejected=float(rng.choice([0.0, 0.5, 1.0])))
                envelope = fleet.Envelope.of(statistics, model=fleet.PowerModel(other_rating=300.0))
                fleet.Surface.of(envelope)
            except AIDCError:
                outcomes["refused"] += 1
            else:
                outcomes["read"] += 1
    assert outcomes["read"] + outcomes["refused"] == TABLES
    # Neither a reader that refuses everything nor one that swallows everything would be a test.
    assert min(outcomes.values()) > TABLES // 5, outcomes


def prometheus(folder) -> None:
    """An hour of one GPU, as Prometheus answers."""
    labels = {"__name__": "DCGM_FI_DEV_POWER_USAGE", "UUID": "GPU-0", "modelName": "NVIDIA A100", "priority": "low"}
    series = {"metric": labels, "values": [[1772323200 + 60 * minute, "70.5"] for minute in range(60)]}
    (folder / "power.json").write_text(json.dumps({"data": {"resultType": "matrix", "result": [series]}}))


@pytest.mark.parametrize("tool", ["slurm", "kubernetes", "prometheus"])
def test_damaged_exports_of_tools_give_results_or_our_errors(tmp_path, tool):
    rng = np.random.default_rng(5)
    declared = {} if tool == "prometheus" else JOB_LISTS[tool](population(rng)[:9], tmp_path, rng)
    if tool == "prometheus":
        prometheus(tmp_path)
    path = min(tmp_path.iterdir())
    whole = path.read_text()
    words = ["Start", "AllocTRES", "status", "items", "metric", "values", "UUID", "2026", "|", '"', "0", "T", "{", "\n"]
    read = 0
    for _ in range(40):
        old, at = str(rng.choice(words)), int(rng.integers(len(whole)))
        changed = whole.replace(old, str(rng.choice(["", "x", '"', "-1", "null", "9999"])), int(rng.choice([1, 3, -1])))
        path.write_text(changed if rng.random() < 0.7 else whole[:at] + str(rng.choice(words)) + whole[at:][:at])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            try:
                if tool == "prometheus":
                    fleet.Envelope.from_power(tmp_path)
                else:
                    fleet.Envelope.of(fleet.Statistics.of(fleet.Trace.read(tmp_path, **declared)))
                read += 1
            except AIDCError:
                pass
    assert 3 < read < 37
