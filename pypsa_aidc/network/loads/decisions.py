"""What has been decided in a network: put into its model, decoded from the solution, kept in the network."""

from __future__ import annotations

from collections.abc import Sequence
from weakref import WeakKeyDictionary, WeakSet

import linopy
import pandas as pd
import pypsa

from pypsa_aidc.errors import Faults, NotSolvedError
from pypsa_aidc.network.loads.protocol import Built
from pypsa_aidc.network.pypsa_api import forget_solution, model_of

_built: WeakKeyDictionary[linopy.Model, tuple[Built, ...]] = WeakKeyDictionary()
_recorded: WeakSet[linopy.Model] = WeakSet()


OUTDATED = "aidc_outdated"
"""Column of `n.links` and `n.generators` that says what has changed the network since it was solved."""


def remember(n: pypsa.Network, built: Sequence[Built]) -> None:
    """Keep what was put into the network's model for as long as the model lives."""
    _built[n.model] = tuple(built)


def built_in(n: pypsa.Network) -> tuple[Built, ...]:
    """Return what was put into the network's present model, one for each kind of load."""
    model = model_of(n)
    return () if model is None else _built.get(model, ())


def has_solution(n: pypsa.Network) -> bool:
    """Whether the network's present model has loads of this package and values for them."""
    return bool(built_in(n)) and "solution" in n.model.variables["Generator-p"].data


def record(n: pypsa.Network) -> None:
    """Decode the solution of the network's model and keep it in the network, for files and copies.

    `n.aidc.optimize` does it by itself. Schedules of jobs and calls of fleets become dynamic attributes of their
    Generators.

    Raises
    ------
    NotSolvedError
        There is no model with AIDCs, or it has no solution.
    AIDCError
        The solution is no path: the solver ignored integrality.
    """
    if not has_solution(n):
        raise NotSolvedError(
            "no solution with AIDC jobs or fleets: solve with n.aidc.optimize() or "
            "n.optimize(extra_functionality=aidc.extra_functionality)"
        )
    for built in built_in(n):
        built.record(n)
    _recorded.add(n.model)
    for static in (n.links, n.generators):
        if OUTDATED in static:
            static[OUTDATED] = ""


def outdate(n: pypsa.Network, what: str) -> None:
    """Make all results of a network stale, since it is another one now.

    Parameters
    ----------
    n
        Network.
    what
        What changed it, for people.
    """
    forget_solution(n)
    for static in (n.links, n.generators):
        if len(static):
            static[OUTDATED] = what


def check_outdated(n: pypsa.Network, faults: Faults) -> None:
    """Note a fault where the results are those of another network."""
    for static in (n.links, n.generators):
        words = static[OUTDATED].fillna("").astype(str) if OUTDATED in static else pd.Series(dtype=str)
        if (words != "").any():
            what = words[words != ""].iloc[0]
            remedy = "Solve with n.aidc.optimize()."
            faults.add("results", f"those from before {what}", "the results of this network", remedy)
            return


def keep(n: pypsa.Network) -> None:
    """Record the solution of the network's model, if there is one that is not yet."""
    if has_solution(n) and n.model not in _recorded:
        record(n)
