"""Which clusters of an envelope a verb is about: the same choice, with the same default, for all verbs."""

from __future__ import annotations

from typing import Annotated

import typer

from pypsa_aidc import fleet
from pypsa_aidc.fleet.studies.backtest import WEEK

PortfolioOption = Annotated[
    str, typer.Option(help="Clusters of an envelope: all, supported (of at least 0.02 MW), or names with commas.")
]
LEAST_HOURS = 12 * WEEK
"""Of an envelope whose K can be tested: eight weeks of training, four of test."""


def named(portfolio: str) -> str | list[str] | None:
    """Return the option as `fleet.Surface.of` takes it."""
    if portfolio == "all":
        return None
    return portfolio if portfolio == "supported" else portfolio.split(",")


def peak_of(envelope: fleet.Envelope, clusters: tuple[str, ...]) -> float:
    """Return the highest power at the meter of some clusters together, MW."""
    return float(fleet.Envelope(envelope.data.sel(cluster=list(clusters))).facility.max())
