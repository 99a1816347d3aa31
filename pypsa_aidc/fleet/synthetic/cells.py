"""Cells of sufficient statistics whose central power is exactly that of the synthetic series."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from pypsa_aidc.fleet.power import PowerModel
from pypsa_aidc.fleet.synthetic.noise import remembering
from pypsa_aidc.fleet.synthetic.series import Parameters, generator
from pypsa_aidc.fleet.trace.schema import CAPACITY_TYPES, CELL_TYPES, KEYS, KNOTS
from pypsa_aidc.fleet.windows import Floats

ATOMS = ((-1.0, 0.25), (0.0, 0.5), (1.0, 0.25))
"""Utilisation within a cell: shares of the GPU-hours a step below, at, and a step above the mean."""
HALVINGS = 50


@dataclass(frozen=True)
class Family:
    """Pods of one kind in one cluster, on one accelerator, over all hours.

    Attributes
    ----------
    cluster, accelerator, workload, priority, state
        What they are.
    gpu_hours, utilisation : array of shape (hours,)
        Allocated GPU-hours, and the mean of the known utilisations.
    """

    cluster: str
    accelerator: str
    workload: str
    priority: str
    state: str
    gpu_hours: Floats
    utilisation: Floats


def split(parameters: Parameters, active: Floats, whole: Floats, workload: Floats, seed: int) -> dict[str, Floats]:
    """Workload power by cluster and layer, MW.

    Parameters
    ----------
    parameters
        Of the synthetic fleet.
    active, whole : array of shape (clusters, hours)
        Idle-retained and attributed eligible power.
    workload : array of shape (hours,)
        All workload power.
    seed
        Of the noise.

    Returns
    -------
    dict of str to array of shape (clusters, hours)
        `floor`, `shift` and `standby`; with `whole` they sum to `workload` in every hour.
    """
    own = parameters["split"]
    clusters = parameters["clusters"]
    rng = generator(own["stream"], seed)
    count, hours = active.shape
    days = np.arange(hours) / 24
    share = np.array([cluster["workload"] for cluster in clusters])[:, np.newaxis] * np.ones(hours)
    for row, cluster in zip(share, clusters, strict=True):
        if "commissioned" in cluster and not cluster.get("small"):
            row *= 0.05 + 0.95 / (1 + np.exp(-np.clip((days - cluster["commissioned"]) / 2.0, -60, 60)))
    # What one cluster has more, the others have less: the fleet's sum is given.
    relative = own["cluster_size"] * share.mean(axis=1, keepdims=True) ** (own["cluster_power"] - 1)
    total = share * np.exp(relative * remembering(rng, own["cluster_memory"], hours, count))
    total *= workload / total.sum(axis=0)
    standby_share = np.interp(days, own["standby_days"], own["standby"], left=0.0) / 100
    standby_share[days < own["standby_from"]] = 0.0
    hosts = np.array([cluster["standby"] for cluster in clusters])[:, np.newaxis]
    standby = standby_share * workload * hosts
    rest = np.maximum(total - whole - standby, own["least"] * share * workload)
    rest *= (workload - (whole + standby).sum(axis=0)) / rest.sum(axis=0)
    lean = np.exp(own["lean_spread"] * rng.standard_normal((count, 1)))
    wander = own["lean_size"] * share.mean(axis=1, keepdims=True) ** -own["lean_power"]
    lean = lean * np.exp(wander * remembering(rng, own["lean_memory"], hours, count))
    wanted = np.interp(days, own["shift_days"], own["shift"]) / 100 * workload
    wanted = wanted * np.exp(own["shift_size"] * remembering(rng, own["shift_memory"], hours)[0])
    # A logistic share keeps both parts positive; its level is found so that the fleet's shift layer comes out.
    low, high = np.full(hours, -12.0), np.full(hours, 12.0)
    for _ in range(HALVINGS):
        level = (low + high) / 2
        shift = rest / (1 + np.exp(-level) / lean)
        below = shift.sum(axis=0) < wanted
        low, high = np.where(below, level, low), np.where(below, high, level)
    return {"floor": rest - shift, "shift": shift, "standby": standby}


def families(
    parameters: Parameters, active: Floats, whole: Floats, parts: Mapping[str, Floats], seed: int
) -> list[Family]:
    """Pods by cluster, accelerator and kind whose power at the central model is that of the series.

    Low-priority pods work exactly as hard as the ratio of active to idle power asks; the others work at a level of
    their own, and their number follows.
    """
    own = parameters["families"]
    rng = generator(own["stream"], seed)
    model = PowerModel()
    hours = workload_hours(active)
    result: list[Family] = []
    for index, cluster in enumerate(parameters["clusters"]):
        boards = dict(zip(cluster["accelerators"], own["accelerator_shares"], strict=True))
        power = {"eligible": whole[index, hours], **{layer: values[index, hours] for layer, values in parts.items()}}
        ratio = active[index, hours] / np.maximum(power["eligible"] - active[index, hours], 1e-12)
        work = model.idle_fraction * ratio / (1 - model.idle_fraction)
        for layer, kinds in own["layers"].items():
            shares = _shares(rng, own, kinds, float(power[layer].mean()), hours.size)
            for kind, share in zip(kinds, shares, strict=True):
                priority = "low" if layer == "eligible" else "high"
                state = "standby" if layer == "standby" else "active"
                if layer == "eligible":
                    utilisation = _utilisation_for(model, kind["workload"], work, own)
                else:
                    noise = remembering(rng, kind["memory"], hours.size)[0]
                    utilisation = np.clip(kind["utilisation"] * np.exp(kind["size"] * noise), 0.0, 0.95)
                idle = model.idle_fraction
                span = idle + (state == "active") * (1 - idle) * mean_work(model, kind["workload"], utilisation, own)
                for board, part in boards.items():
                    held = part * share * power[layer] * 1e6 / (model.rating(board) * span)
                    who = (cluster["name"], board, kind["workload"], priority, state)
                    result.append(Family(*who, gpu_hours=held, utilisation=utilisation))
    return result


def _shares(
    rng: np.random.Generator, own: Mapping[str, Any], kinds: list[dict[str, Any]], power: float, hours: int
) -> Floats:
    """Shares of a layer's power by kind, summing to 1; the smaller the layer of a cluster, the more they wander."""
    wander = (max(power, own["smallest"]) / own["wander_at"]) ** -own["wander_power"]
    noise = np.concatenate([remembering(rng, own["wander_memory"], hours) for _ in kinds])
    sizes = np.array([[kind["wander"]] for kind in kinds])
    shares = np.array([[kind["share"]] for kind in kinds]) * np.exp(wander * sizes * noise)
    return np.asarray(shares / shares.sum(axis=0))


def workload_hours(active: Floats) -> npt.NDArray[np.int64]:
    """Hours that are there."""
    return np.flatnonzero(~np.isnan(active).any(axis=0))


def atoms(utilisation: Floats, own: Mapping[str, Any]) -> list[tuple[Floats, float]]:
    """Utilisations within a cell and their shares of the GPU-hours of known utilisation."""
    step = np.minimum(np.minimum(own["spread"], utilisation), 1 - utilisation)
    return [(utilisation + side * step, weight) for side, weight in ATOMS]


def mean_work(model: PowerModel, kind: str, utilisation: Floats, own: Mapping[str, Any]) -> Floats:
    """Mean share of the span that the pods of a cell draw, those of unknown utilisation included."""
    weights = model.span_weights(kind)
    unknown = own["unknown_share"]
    known = sum(share * model.value(kind, u) for u, share in atoms(utilisation, own))
    return np.asarray((1 - unknown) * known + unknown * (weights[0] + weights[1]))


def _utilisation_for(model: PowerModel, kind: str, work: Floats, own: Mapping[str, Any]) -> Floats:
    """Mean utilisation at which a cell works as hard as asked, by halving: the curve rises."""
    low, high = np.zeros(work.size), np.ones(work.size)
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        below = mean_work(model, kind, middle, own) < work
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return (low + high) / 2


def tables(
    parameters: Parameters,
    pods: list[Family],
    hours: npt.NDArray[np.int64],
    parts: Mapping[str, Floats],
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Cells and capacity of the synthetic fleet.

    Parameters
    ----------
    parameters
        Of the synthetic fleet.
    pods
        From `families`.
    hours : array of shape (hours,)
        Hours that are there.
    parts
        `host`, `host_idle` and `unallocated` of these hours, MW.
    """
    own = parameters["families"]
    model = PowerModel()
    unknown = own["unknown_share"]
    used_cores = (parts["host"] - parts["host_idle"]) * 1e6 / (model.host_peak - model.host_idle)
    low, rest = (
        sum(
            (pod.gpu_hours for pod in pods if pod.state == "active" and (pod.priority == "low") == wanted),
            np.zeros(hours.size),
        )
        for wanted in (True, False)
    )
    frames = []
    for pod in pods:
        known = pod.gpu_hours * (1 - unknown) if pod.state == "active" else pod.gpu_hours
        levels = atoms(pod.utilisation, own)
        sums = {f"s{100 * b:.0f}": known * sum(share * np.maximum(u - b, 0) for u, share in levels) for b in KNOTS}
        share = own["low_cores"] / low if pod.priority == "low" else (1 - own["low_cores"]) / rest
        cores = used_cores * share * pod.gpu_hours if pod.state == "active" else np.zeros(hours.size)
        frames.append(
            pl.DataFrame(
                {
                    "hour": hours,
                    "pods": np.full(hours.size, len(ATOMS) + (pod.state == "active")),
                    "gpu_hours": pod.gpu_hours,
                    "gpu_hours_null": pod.gpu_hours - known,
                    **sums,
                    "cpu_requested": cores / own["cpu_load"],
                    "cpu_used": cores,
                }
            ).with_columns(**{name: pl.lit(getattr(pod, name)) for name in KEYS[1:]})
        )
    cells = pl.concat(frames).filter(pl.col("gpu_hours") > 0)
    cells = cells.select(pl.col(name).cast(kind) for name, kind in CELL_TYPES.items()).sort(KEYS)
    return cells, _capacity(parameters, cells, hours, parts)


def _capacity(
    parameters: Parameters, cells: pl.DataFrame, hours: npt.NDArray[np.int64], parts: Mapping[str, Floats]
) -> pl.DataFrame:
    """Servers that hold the pods, the unallocated GPUs and all CPU cores, in proportion to the occupied rating."""
    model = PowerModel()
    keys = KEYS[:3]
    whole = pl.DataFrame(
        {
            "hour": hours,
            "idle": parts["unallocated"] * 1e6 / model.idle_fraction,
            "all_cores": parts["host_idle"] * 1e6 / model.host_idle,
        },
        schema_overrides={"hour": pl.Int32},
    )
    rating = pl.col("accelerator").cast(pl.String).replace_strict(dict(model.ratings))
    occupied = pl.col("gpu_hours") * pl.col("rating")
    table = (
        # Sorted before anything is summed over the hour: sums must not depend on the order in which groups come out.
        cells.group_by(keys)
        .agg(pl.col("gpu_hours").sum())
        .sort(keys)
        .with_columns(rating=rating)
        .with_columns(share=occupied / occupied.sum().over("hour"))
        .join(whole, on="hour", maintain_order="left")
        .with_columns(
            gpus=pl.col("gpu_hours") + pl.col("share") * pl.col("idle") / pl.col("rating"),
            cores=pl.col("share") * pl.col("all_cores"),
        )
        .with_columns(servers=(pl.col("gpus") / parameters["gpus_per_server"]).ceil())
    )
    return table.select(pl.col(name).cast(kind) for name, kind in CAPACITY_TYPES.items())
