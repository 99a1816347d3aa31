"""Execution spans of the synthetic fleet: steady work that started at once, and the few jobs that had waited."""

from __future__ import annotations

import numpy as np
import polars as pl

from pypsa_aidc.fleet.power import PowerModel
from pypsa_aidc.fleet.schema import SPAN_TYPES
from pypsa_aidc.fleet.synthetic.series import Parameters, generator


def spans(parameters: Parameters, seed: int) -> pl.DataFrame:
    """Execution spans with delays, over the days in which the published trace joins them completely.

    Returns
    -------
    polars.DataFrame
        Columns of `SPAN_TYPES`, sorted by start.
    """
    own = parameters["jobs"]
    rng = generator(own["stream"], seed)
    first, last = 24 * own["first_day"], int(parameters["hours"])
    frames = [_stream(rng, parameters, stream, first, last) for stream in own["streams"]]
    return pl.concat(frames).sort("start", "end", "gpus", "cluster")


def _stream(
    rng: np.random.Generator, parameters: Parameters, stream: dict[str, object], first: int, last: int
) -> pl.DataFrame:
    """Jobs of one kind: Poisson arrivals from well before the window, lognormal length, size and delay."""
    rate, length, spread = (float(stream[name]) for name in ("per_hour", "length", "length_spread"))  # type: ignore[arg-type]
    lead = min(first, round(6 * length * np.exp(spread**2 / 2)))
    count = rng.poisson(rate * (last - first + lead))
    start = np.sort(rng.uniform(first - lead, last, count))
    duration = length * np.exp(spread * rng.standard_normal(count))
    clusters = parameters["clusters"]
    weights = np.array([cluster["workload"] for cluster in clusters])
    place = rng.choice(len(clusters), count, p=weights / weights.sum())
    board = [clusters[i]["accelerators"][0] for i in place]
    rating = np.array([PowerModel().rating(name) for name in board])
    # Sizes are set in power, so that the accelerator mix does not matter to what the replay shows.
    size = float(stream["power"]) * np.exp(float(stream["power_spread"]) * rng.standard_normal(count))  # type: ignore[arg-type]
    delay = np.maximum(
        float(stream["delay"]) * np.exp(float(stream["delay_spread"]) * rng.standard_normal(count)),
        float(stream["delay_least"]),
    )  # type: ignore[arg-type]
    table = pl.DataFrame(
        {
            "start": start,
            "end": start + duration,
            "gpus": size * 1e6 / rating,
            "delay": delay,
            "cluster": [clusters[i]["name"] for i in place],
            "accelerator": board,
            "cores": np.zeros(count),
        }
    ).with_columns(workload=pl.lit(stream["workload"]), priority=pl.lit(stream["priority"]))
    return table.select(pl.col(name).cast(kind) for name, kind in SPAN_TYPES.items())
