"""Hourly power of the synthetic fleet: eligible work by cluster, all work, hosts and idle GPUs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from pypsa_aidc.fleet.condition import MONTH
from pypsa_aidc.fleet.power import PowerModel
from pypsa_aidc.fleet.studies.counterfactual import trend
from pypsa_aidc.fleet.synthetic.calibration import impose
from pypsa_aidc.fleet.synthetic.noise import remembering
from pypsa_aidc.fleet.windows import Floats

Parameters = Mapping[str, Any]

MEAN_ROUNDS = 4
"""In which the thirty-day means are brought to their targets; they interact through the interpolation between them."""
CLUSTER_ROUNDS = 2
"""In which clusters are rescaled to the fleet and the fleet is bent to its surface."""


def generator(stream: int, seed: int) -> np.random.Generator:
    """Source of noise of one part; seed 0 gives the calibrated fleet, another seed another of the same surface."""
    return np.random.default_rng([stream, seed])


def hours_of(parameters: Parameters) -> npt.NDArray[np.int64]:
    """All hours of the trace, the missing one included."""
    return np.arange(int(parameters["hours"]))


def eligible(parameters: Parameters, seed: int) -> Floats:
    """Idle-retained eligible power, MW; shape (clusters, hours), NaN in the missing hour.

    Each cluster is its mean, times the slow level of the fleet, times a clock and a weekly profile, times noise of
    three time constants that is partly common; some clusters are commissioned inside the window. The sum of the large
    clusters is then bent to the published K surface, hour by hour in equal proportion.
    """
    own = parameters["eligible"]
    large = [cluster for cluster in parameters["clusters"] if not cluster.get("small")]
    hours = hours_of(parameters)
    days = hours / 24
    common_rng, own_rng = (generator(stream, seed) for stream in own["streams"])
    common = [remembering(common_rng, memory, hours.size)[0] for memory in own["common_memory"]]
    private = [remembering(own_rng, memory, hours.size, len(large)) for memory in own["own_memory"]]
    loading = np.exp(own["loading_spread"] * own_rng.standard_normal(len(large)))
    loading /= loading.mean()
    volatility = np.exp(own["volatility_spread"] * own_rng.standard_normal(len(large)))
    volatility[0] = own["volatility_first"]
    volatility /= np.sqrt((volatility**2).mean())
    shared = sum(size * noise for size, noise in zip(own["common_size"], common, strict=True))
    single = sum(size * noise for size, noise in zip(own["own_size"], private, strict=True))
    power = np.exp(np.outer(loading, shared) + volatility[:, np.newaxis] * single)
    clock = np.asarray(own["clock"]) / np.mean(own["clock"]) - 1
    clock = 0.25 * np.roll(clock, 1) + 0.5 * clock + 0.25 * np.roll(clock, -1)
    power *= (1 + own["clock_amplitude"] * clock)[hours % 24]
    power *= 1 + own["week_amplitude"] * np.asarray(own["week"])[hours // 24 % 7]
    power *= np.exp(np.interp(days, own["slow_days"], own["slow"]))
    for row, cluster in zip(power, large, strict=True):
        if "commissioned" in cluster:
            before = cluster["level_before"]
            ramp = 1 / (1 + np.exp(-np.clip((days - cluster["commissioned"]) / cluster["ramp"], -60, 60)))
            row *= before + (1 - before) * ramp
    means = np.array([cluster["eligible"] for cluster in large])[:, np.newaxis]
    power *= means / power.mean(axis=1, keepdims=True)
    _to_monthly_means(power, hours, np.asarray(own["months"]) * own["month_factors"])
    power *= means / power.mean(axis=1, keepdims=True)
    power[:, parameters["missing_hour"]] = np.nan
    target, mean = np.asarray(own["K"]), float(own["mean"])
    for round_ in range(CLUSTER_ROUNDS):
        if round_:
            power *= means / np.nanmean(power, axis=1, keepdims=True)
        fleet = power.sum(axis=0)
        power *= impose(fleet, target, mean) / fleet
    small_rng = generator(own["small_stream"], seed)
    rows = [*power]
    for cluster in (cluster for cluster in parameters["clusters"] if cluster.get("small")):
        row = np.exp(cluster["size"] * remembering(small_rng, cluster["memory"], hours.size)[0])
        row *= days > cluster["commissioned"]
        row[parameters["missing_hour"]] = np.nan
        rows.append(row * cluster["eligible"] / np.nanmean(row))
    return np.array(rows)


def _to_monthly_means(power: Floats, hours: npt.NDArray[np.int64], means: Floats) -> None:
    """Scale all clusters, smoothly in time, until the fleet has these means in its thirty-day windows."""
    month = hours // MONTH
    centres = np.array([hours[month == index].mean() for index in range(len(means))])
    for _ in range(MEAN_ROUNDS):
        fleet = power.sum(axis=0)
        ratio = [mean / fleet[month == index].mean() for index, mean in enumerate(means)]
        power *= np.interp(hours, centres, ratio)


def attributed(parameters: Parameters, active: Floats, seed: int) -> Floats:
    """Eligible power with the idle draw of its GPUs, MW; shape (clusters, hours).

    The idle draw follows the active power less than in proportion: what varies is how hard low-priority GPUs work as
    well as how many there are. It is bounded so that the mean work of a GPU stays on its curve.
    """
    own = parameters["attributed"]
    rng = generator(own["stream"], seed)
    idle = PowerModel().idle_fraction
    noise = np.concatenate([remembering(rng, own["memory"], row.size) for row in active])
    mean = np.nanmean(active, axis=1, keepdims=True)
    draw = mean * (active / mean) ** own["power"] * np.exp(own["size"] * noise)
    fewest, most = (active * idle / (1 - idle) / work for work in reversed(own["work"]))
    for _ in range(CLUSTER_ROUNDS):
        draw = np.clip(draw * own["idle"] / np.nanmean(draw.sum(axis=0)), fewest, most)
    return np.asarray(active + draw)


def workload(parameters: Parameters, fleet_eligible: Floats, seed: int) -> Floats:
    """Power of all allocated GPUs, MW; shape (hours,), bent to the K surface that Table 2 of [2] implies."""
    own = parameters["workload"]
    hours = hours_of(parameters)
    rng = generator(own["stream"], seed)
    level = np.interp(hours / 24, own["level_days"], own["level"])
    phase = 2 * np.pi * (hours % 24 - own["clock_trough"]) / 24
    clock = -np.cos(phase) + own["clock_harmonic"] * np.cos(2 * phase)
    clock /= np.abs(clock).max()
    weekend = 1 - own["weekend"] * (hours // 24 % 7 >= 5)
    power = level * (1 + own["clock_amplitude"] * clock * weekend)
    power += own["fast_size"] * remembering(rng, own["fast_memory"], hours.size)[0]
    power += own["slow_size"] * remembering(rng, own["slow_memory"], hours.size)[0]
    power += own["hourly_size"] * rng.standard_normal(hours.size)
    power += own["surge_size"] * np.maximum(
        remembering(rng, own["surge_memory"], hours.size)[0] - own["surge_above"], 0
    )
    known = np.where(np.isnan(fleet_eligible), np.nanmean(fleet_eligible), fleet_eligible)
    power += own["coupling"] * (known - trend(known, 169))
    power[parameters["missing_hour"]] = np.nan
    return impose(power, np.asarray(own["K"]), float(own["mean"]))


def facility_parts(parameters: Parameters, power: Floats, seed: int) -> dict[str, Floats]:
    """Power around the workload, MW; each of shape (hours,), without the gap.

    Returns
    -------
    dict
        `host` (all host power), `host_idle` (its idle part, which follows the installed capacity) and `unallocated`
        (idle GPUs).
    """
    own = parameters["facility"]
    hours = hours_of(parameters)
    rng = generator(own["stream"], seed)
    known = np.asarray(pd.Series(power).interpolate(), dtype=float)
    capacity = trend(known, own["capacity_window"])
    installed = (capacity / capacity.mean()) ** own["capacity_power"]
    installed /= installed.mean()
    used = own["dynamic_share"] * (known / known.mean()) ** own["dynamic_power"]
    host = installed * (1 - own["dynamic_share"]) + used
    host *= own["host"] / host.mean()
    host += own["noise_size"] * remembering(rng, own["noise_memory"], hours.size)[0]
    host -= own["clock_size"] * np.cos(2 * np.pi * (hours % 24 - 5) / 24)
    idle = np.exp(own["idle_size"] * remembering(rng, own["idle_memory"], hours.size)[0])
    idle *= np.exp(-own["idle_coupling"] * (known - capacity))
    idle *= own["unallocated"] / idle.mean()
    return {"host": host, "host_idle": installed * own["host_idle"], "unallocated": idle}
