"""What has been decided in a network: put into its model, decoded from the solution, kept in the network."""

from __future__ import annotations

from collections.abc import Sequence
from weakref import WeakKeyDictionary, WeakSet

import linopy
import pypsa

from pypsa_aidc.errors import NotSolvedError
from pypsa_aidc.network.loads.protocol import Built
from pypsa_aidc.network.pypsa_api import model_of

_built: WeakKeyDictionary[linopy.Model, tuple[Built, ...]] = WeakKeyDictionary()
_recorded: WeakSet[linopy.Model] = WeakSet()


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


def keep(n: pypsa.Network) -> None:
    """Record the solution of the network's model, if there is one that is not yet."""
    if has_solution(n) and n.model not in _recorded:
        record(n)
