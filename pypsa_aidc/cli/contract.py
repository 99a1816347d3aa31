"""Which clusters of an envelope a verb is about, and the contract made of them: one default for all verbs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pypsa_aidc import fleet as fleets
from pypsa_aidc.errors import Faults

PortfolioOption = Annotated[
    str, typer.Option(help="Clusters of an envelope: all, supported (of at least 0.02 MW), or names with commas.")
]
DURATION, RELIABILITY = 4, 0.95
"""Of a call, where nothing else is said."""
LEAST_HOURS = 12 * 168
"""Of an envelope whose K can be tested: eight weeks of training, four of test."""


def named(portfolio: str) -> str | list[str] | None:
    """Return the option as `fleet.Surface.of` takes it."""
    if portfolio == "all":
        return None
    return portfolio if portfolio == "supported" else portfolio.split(",")


def contract_of(
    envelope: Path, portfolio: str, duration: int | None, reliability: float | None, q: float | None
) -> tuple[fleets.Envelope, fleets.Contract, float]:
    """Read an envelope, and make the contract of some clusters; with it their highest power together at the meter, MW.

    Raises
    ------
    InputError
        No envelope, or as `fleet.Contract.of`.
    """
    load = fleets.Envelope.read(envelope)
    clusters = load.portfolio(named(portfolio))
    terms = fleets.Contract.of(
        load,
        DURATION if duration is None else duration,
        RELIABILITY if reliability is None else reliability,
        q=1.0 if q is None else q,
        portfolio=clusters,
    )
    peak = float(fleets.Envelope(load.data.sel(cluster=list(clusters))).facility.max())
    return load, terms, peak


def relief_of(
    faults: Faults,
    surface: Path | None,
    envelope: Path | None,
    portfolio: str,
    duration: int | None,
    reliability: float | None,
    q: float | None,
    peak: float | None,
) -> tuple[fleets.Surface | fleets.Contract | None, float | None]:
    """Relief by duration from a file, and the peak of the fleet it belongs to; what has no use for it is refused."""
    faults.require(surface is None or envelope is None, "--surface, --envelope", "both", "one of them")
    for name, value in (("--reliability", reliability), ("--peak", peak)):
        given = surface is not None or envelope is not None
        faults.require(value is None or given, name, value, "nothing without --surface or --envelope")
    for name, value in (("--duration", duration), ("--q", q)):
        remedy = "A surface has all durations, and its own q." if surface is not None else ""
        faults.require(value is None or envelope is not None, name, value, "nothing without --envelope", remedy)
    faults.require(portfolio == "all" or envelope is not None, "--portfolio", portfolio, "nothing without --envelope")
    if surface is not None:
        faults.number("--peak", peak, above=0, remedy="MW at the meter of the fleet that K was measured on.")
    faults.raise_any()
    if surface is not None:
        return fleets.Surface.read(surface), peak
    if envelope is None:
        return None, None
    _, terms, highest = contract_of(envelope, portfolio, duration, reliability, q)
    return terms, highest if peak is None else peak
