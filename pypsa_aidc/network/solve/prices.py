"""Prices of a network with integer decisions: all of them fixed, the rest solved again as an LP, for its duals only."""

from __future__ import annotations

import logging
from typing import Any

import pypsa

from pypsa_aidc.errors import NotSolvedError, UnsupportedError
from pypsa_aidc.network.loads.decisions import built_in
from pypsa_aidc.network.pypsa_api import (
    assign,
    discrete,
    foreign,
    model_of,
    objective_of,
    relaxed,
    solution_kept,
    solved_quietly,
)

logger = logging.getLogger(__name__)

_AGREEMENT = 1e-5
"""Relative difference up to which the LP's objective counts as that of the MILP."""


def price(n: pypsa.Network, /, **solver_options: Any) -> str:
    """Fix every binary and integer of the solved model, solve the LP that is left, and assign its duals.

    A MILP has no duals; PyPSA leaves prices of 0.0 and market values that are wrong without a word. Afterwards
    `n.buses_t.marginal_price` and the statistics built on it are those of the LP with fixed paths and commitment:
    what one more MWh at a bus would cost while every job keeps its schedule. Dispatch and `n.objective` stay those of
    the MILP: an LP has many optima, of which not each keeps to what the binaries stand for.

    Parameters
    ----------
    n
        Network with a solved model, by `n.aidc.optimize` or by ``n.optimize`` with the hook.
    solver_options
        Options of the solver for the LP: threads, a time limit, tolerances.

    Returns
    -------
    str
        ``"fixed-path LP"``, or ``"LP"`` if the model has no integers and its prices were right already (``"QP"`` with
        quadratic costs).

    Raises
    ------
    NotSolvedError
        No solved model, a solution that is not integral, or an LP that was not solved to optimality (in time).
    UnsupportedError
        Semi-continuous variables, special ordered sets or indicators, which nothing here can fix; scenarios with global
        constraints, for which PyPSA assigns no duals.
    """
    model = model_of(n)
    if model is None or model.objective.value is None:
        raise NotSolvedError("aidc.prices needs a network that has just been solved: its model holds the paths to fix")
    kind = "QP" if model.is_quadratic else "LP"
    if not discrete(model):
        if model.termination_condition != "optimal":
            raise NotSolvedError(f"the {kind} stopped with {model.termination_condition!r}: its duals are no prices")
        return kind
    if foreign(model):
        raise UnsupportedError(
            f"no prices: {', '.join(foreign(model))} are neither continuous nor whole numbers, so that what would be "
            "left with all decisions fixed is not known. State them with binaries."
        )
    if n.has_scenarios and len(n.c.global_constraints.static):
        raise UnsupportedError("no prices: PyPSA assigns no duals in a network with scenarios and global constraints")
    reached, solver_name = float(model.objective.value), str(model.solver_name or "highs")
    try:
        with solution_kept(model), relaxed(model, fixed=True):
            if not solved_quietly(model, solver_name, sanitize_infinities=False, **solver_options):
                raise NotSolvedError(
                    f"the LP with fixed paths stopped with {model.termination_condition!r}; there are no prices"
                )
            difference = abs(objective_of(model) - reached)
    except ValueError as error:
        raise NotSolvedError(f"the solution is not integral, so no paths can be fixed: {error}") from error
    if difference > _AGREEMENT * max(1.0, abs(reached)):
        logger.warning(
            "the LP with fixed paths is %g USD from the objective that the solver reported for the MILP: its gap lies "
            "in the dispatch or, where this is more than the gap, that objective is not the cost of the dispatch",
            difference,
        )
    assign(n)
    for built in built_in(n):
        built.write_back(n)
    return f"fixed-path {kind}"
