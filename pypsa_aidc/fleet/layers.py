"""Which part of the workload a cell belongs to: floor, shift, eligible or standby."""

from __future__ import annotations

from typing import Literal, get_args

import polars as pl

from pypsa_aidc.errors import Faults

Mapping = Literal["conservative", "central", "liberal"]
Boundary = Literal["idle-retained", "attributed", "node-sleep"]
Response = Literal["marginal", "average"]

LAYERS = ("floor", "shift", "eligible", "standby")
DEFERRABLE = ("training", "offline_inference")


def layer_of(mapping: Mapping) -> pl.Expr:
    """Layer of a cell, by precedence standby > eligible > shift > floor (Sec. 2.3 of [2]).

    Parameters
    ----------
    mapping
        ``"central"``: all low-priority work is eligible. ``"conservative"``: only low-priority training and offline
        inference. ``"liberal"``: also high-priority offline inference.

    Returns
    -------
    polars.Expr
        An element of `LAYERS`, from the columns `state`, `priority` and `workload`.

    Raises
    ------
    InputError
        An unknown mapping.

    Examples
    --------
    >>> row = pl.DataFrame({"state": ["active"], "priority": ["high"], "workload": ["offline_inference"]})
    >>> [row.select(layer_of(mapping)).item() for mapping in ("central", "liberal")]
    ['shift', 'eligible']
    """
    faults = Faults("Layers")
    faults.require(mapping in get_args(Mapping), "mapping", mapping, f"one of {', '.join(get_args(Mapping))}")
    faults.raise_any()
    low, high = (pl.col("priority").cast(pl.String) == word for word in ("low", "high"))
    workload = pl.col("workload").cast(pl.String)
    deferrable = workload.is_in(DEFERRABLE)
    eligible = low & deferrable if mapping == "conservative" else low
    if mapping == "liberal":
        eligible |= high & (workload == "offline_inference")
    layer = (
        pl.when(pl.col("state").cast(pl.String) == "standby")
        .then(pl.lit("standby"))
        .when(eligible)
        .then(pl.lit("eligible"))
        .when(high & deferrable)
        .then(pl.lit("shift"))
        .otherwise(pl.lit("floor"))
    )
    return layer.cast(pl.Enum(LAYERS)).alias("layer")
