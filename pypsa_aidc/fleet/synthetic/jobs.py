"""Execution spans of the synthetic fleet: steady work that started at once, and the few jobs that had waited."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from pypsa_aidc.fleet.power import RATINGS
from pypsa_aidc.fleet.synthetic.series import Parameters, generator
from pypsa_aidc.fleet.trace.schema import SPAN_TYPES
from pypsa_aidc.fleet.windows import Floats


def spans(parameters: Parameters, seed: int) -> pl.DataFrame:
    """Draw execution spans with delays, over the days in which the published trace joins them completely.

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
    rng: np.random.Generator, parameters: Parameters, stream: dict[str, Any], first: int, last: int
) -> pl.DataFrame:
    """Jobs of one kind: Poisson arrivals from well before the window; lognormal length, power and delay."""
    lead = min(first, round(6 * stream["length"] * np.exp(stream["length_spread"] ** 2 / 2)))
    count = rng.poisson(stream["per_hour"] * (last - first + lead))

    def lognormal(name: str) -> Floats:
        return np.asarray(stream[name] * np.exp(stream[f"{name}_spread"] * rng.standard_normal(count)))

    start = np.sort(rng.uniform(first - lead, last, count))
    clusters = parameters["clusters"]
    weights = np.array([cluster["workload"] for cluster in clusters])
    place = rng.choice(len(clusters), count, p=weights / weights.sum())
    board = [clusters[i]["accelerators"][0] for i in place]
    # Sizes are set in power, so that the accelerator mix does not matter to what the replay shows.
    rating = np.array([RATINGS[name] for name in board])
    table = pl.DataFrame(
        {
            "start": start,
            "end": start + lognormal("length"),
            "gpus": lognormal("power") * 1e6 / rating,
            "delay": np.maximum(lognormal("delay"), stream["delay_least"]),
            "cluster": [clusters[i]["name"] for i in place],
            "accelerator": board,
            "cores": np.zeros(count),
        }
    ).with_columns(workload=pl.lit(stream["workload"]), priority=pl.lit(stream["priority"]))
    return table.select(pl.col(name).cast(kind) for name, kind in SPAN_TYPES.items())
