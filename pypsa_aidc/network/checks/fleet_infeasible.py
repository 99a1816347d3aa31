"""Infeasibility in words where a fleet is too large for its terms: what would fit, and on which terms more would."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pypsa

from pypsa_aidc.errors import AIDCError
from pypsa_aidc.network.loads.fleet_spec import Fleet, fleets, store_fleet
from pypsa_aidc.network.loads.fleet_terms import FleetTerms
from pypsa_aidc.network.loads.site import copy_network
from pypsa_aidc.network.model.hook import compose, hook

_SEARCH_SECONDS = 10.0
"""Time for each question; what is not found by then is not told."""

_ENOUGH = 1e-6
"""Share of its size to which a fleet has to fit."""


def explain_fleets(n: pypsa.Network, snapshots: pd.Index | None = None) -> str:
    """Say which fleets of given size are too large for the network on their terms.

    Each fleet in turn gets a free size, the largest that is feasible is found, and found again without its budgets and
    pauses, and with all of its load sheddable.

    Parameters
    ----------
    n
        Network in which no dispatch was found.
    snapshots
        Part of ``n.snapshots`` that was optimised.

    Returns
    -------
    str
        One sentence a fleet that does not fit; empty if no fleet alone makes the network infeasible.
    """
    reasons = []
    for fleet in fleets(n).values():
        if n.generators.at[fleet.name, "p_nom_extendable"]:
            continue
        given, terms = float(n.generators.at[fleet.name, "p_nom"]), fleet.terms
        largest = _largest(n, fleet, terms, snapshots)
        if largest is None or largest >= given * (1 - _ENOUGH):
            continue
        words = f"fleet {fleet.name!r}: {given:g} MW do not fit ({terms}); at most {largest:.6g} MW do on these terms"
        more = [(label, _largest(n, fleet, other, snapshots)) for label, other in _looser(terms)]
        told = [
            f"{size:.6g} MW{' or more' if size >= given * (1 - _ENOUGH) else ''} {label}"
            for label, size in more
            if size is not None and size > largest * (1 + _ENOUGH)
        ]
        reasons.append("; ".join([words, *told]) + ".")
    return "\n".join(reasons)


def _looser(terms: FleetTerms) -> list[tuple[str, FleetTerms]]:
    found = []
    if terms.has_budget:
        found.append(("without limits of hours and events", replace(terms, hours=None, events=None)))
    if terms.form == "calls" and max(terms.recovery) > 1:
        free = replace(terms, hours=None, events=None, recovery=(1.0,) * len(terms.durations))
        found.append(("with pauses of 1 h and no such limits", free))
    if terms.rebound:
        found.append(("without rebound", replace(terms, rebound=0.0, checkpoint=0.0)))
    return found


def _largest(n: pypsa.Network, fleet: Fleet, terms: FleetTerms, snapshots: pd.Index | None) -> float | None:
    """Largest size in MW, up to the given one, at which the network is feasible; `None` if not even 0 is."""
    copy = copy_network(n)
    store_fleet(copy, replace(fleet, terms=terms))
    kept = list(replace(fleet, terms=terms).parts)
    for part in kept:
        copy.generators.loc[part, ["p_nom_extendable", "p_nom_max"]] = [True, n.generators.at[part, "p_nom"]]
    copy.generators["e_sum_max"] = np.inf
    dropped = [part for part in fleet.parts if part not in kept]
    if dropped:
        copy.remove("Generator", dropped)

    def enlarge(network: pypsa.Network, _: pd.Index) -> None:
        m = network.model
        m.add_objective(-1.0 * m["Generator-p_nom"].sel(name=fleet.name), overwrite=True)

    quiet = {"solver_name": "highs", "output_flag": False, "time_limit": _SEARCH_SECONDS, "io_api": "direct"}
    try:
        extra = compose(hook(whole_horizon=False), enlarge)
        status, _ = copy.optimize(snapshots, extra_functionality=extra, **quiet)
    except AIDCError:
        return None
    value = copy.model.objective.value
    return -float(value) if status == "ok" and value is not None and np.isfinite(value) else None
