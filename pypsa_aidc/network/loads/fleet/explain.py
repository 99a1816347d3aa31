"""Infeasibility in words where a fleet is too large for its terms: what would fit, and on which terms more would."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pypsa

from pypsa_aidc.errors import AIDCError
from pypsa_aidc.network.loads.fleet.terms import FleetTerms
from pypsa_aidc.network.loads.protocol import Reason
from pypsa_aidc.network.pypsa_api import copy_network, objective_of, rows, solve_network

if TYPE_CHECKING:
    from pypsa_aidc.network.loads.fleet.fleet import Fleet

_SEARCH_SECONDS = 10.0
"""Time for each question; what is not found by then is not told."""

_ENOUGH = 1e-6
"""Share of its size to which a fleet has to fit."""


def reason(n: pypsa.Network, fleet: Fleet, snapshots: pd.Index | None = None) -> Reason | None:
    """Say whether a fleet of given size is too large for the network on its terms.

    It gets a free size, the largest that is feasible is found, and found again without its budgets and pauses, and
    with all of its load sheddable.

    Parameters
    ----------
    n
        Network in which no dispatch was found.
    fleet
        One of its fleets.
    snapshots
        Part of ``n.snapshots`` that was optimised.
    """
    static = n.generators.loc[rows(n.generators.index, fleet.name)]
    if static["p_nom_extendable"].any():
        return None
    given, terms = float(static["p_nom"].min()), fleet.terms
    largest = _largest(n, fleet, terms, snapshots)
    if largest is None or largest >= given * (1 - _ENOUGH):
        return None
    words = f"fleet {fleet.name!r}: {given:g} MW do not fit ({terms}); at most {largest:.6g} MW do on these terms"
    more = [(label, _largest(n, fleet, other, snapshots)) for label, other in _looser(terms)]
    told = [
        f"{size:.6g} MW{' or more' if size >= given * (1 - _ENOUGH) else ''} {label}"
        for label, size in more
        if size is not None and size > largest * (1 + _ENOUGH)
    ]
    return Reason("; ".join([words, *told]) + ".")


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
    from pypsa_aidc.network.model.hook import compose, hook  # above the loads: it builds every kind

    copy = copy_network(n)
    other = replace(fleet, terms=terms)
    other.store(copy)
    kept = other.generators
    for part in (label for name in kept for label in rows(copy.generators.index, name)):
        copy.generators.loc[[part], ["p_nom_extendable", "p_nom_max"]] = [True, n.generators.at[part, "p_nom"]]
    copy.generators["e_sum_max"] = np.inf
    dropped = [part for part in fleet.generators if part not in kept]
    if dropped:
        copy.remove("Generator", dropped)

    def enlarge(network: pypsa.Network, _: pd.Index) -> None:
        m = network.model
        m.add_objective(-1.0 * m["Generator-p_nom"].sel(name=fleet.name), overwrite=True)

    quiet: dict[str, Any] = {
        "solver_name": "highs",
        "output_flag": False,
        "time_limit": _SEARCH_SECONDS,
        "io_api": "direct",
    }
    try:
        extra = compose(hook(whole_horizon=False), enlarge)
        status, _ = solve_network(copy, snapshots, extra, **quiet)
    except AIDCError:
        return None
    value = objective_of(copy.model)
    return -value if status == "ok" and np.isfinite(value) else None
