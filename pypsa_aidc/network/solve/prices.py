"""Prices of a network with integer decisions: all of them fixed, the rest solved again as an LP."""

from __future__ import annotations

import logging

import pypsa

from pypsa_aidc.errors import NotSolvedError
from pypsa_aidc.network.pypsa_api import relaxed, solved_quietly

logger = logging.getLogger(__name__)

_AGREEMENT = 1e-5
"""Relative difference up to which the LP's objective counts as that of the MILP."""


def price(n: pypsa.Network) -> str:
    """Fix every binary and integer of the solved model, solve the LP that is left, and assign its duals.

    A MILP has no duals; PyPSA leaves prices of 0.0 and market values that are wrong without a word. Afterwards
    `n.buses_t.marginal_price` and the statistics built on it are those of the LP with fixed paths and commitment:
    what one more MWh at a bus would cost while every job keeps its schedule. `n.objective` stays.

    Parameters
    ----------
    n
        Network with a solved model, by `n.aidc.optimize` or by ``n.optimize`` with the hook.

    Returns
    -------
    str
        ``"fixed-path LP"``, or ``"LP"`` if the model has no integers and its prices were right already.

    Raises
    ------
    NotSolvedError
        No solved model, a solution that is not integral, or an LP that does not reach the MILP's objective.
    """
    model = n._model
    if model is None or model.objective.value is None:
        raise NotSolvedError("aidc.prices needs a network that has just been solved: its model holds the paths to fix")
    if not (*model.binaries, *model.integers):
        return "LP"
    reached, solver_name = float(model.objective.value), str(model.solver_name or "highs")
    try:
        with relaxed(model, fixed=True):
            if not solved_quietly(model, solver_name):
                raise NotSolvedError(
                    f"the LP with fixed paths stopped with {model.termination_condition!r}; there are no prices"
                )
            n.optimize.assign_solution()
            n.optimize.assign_duals()
            n.optimize.post_processing()
    except ValueError as error:
        raise NotSolvedError(f"the solution is not integral, so no paths can be fixed: {error}") from error
    difference = abs(float(model.objective.value) - reached)
    if difference > _AGREEMENT * max(1.0, abs(reached)):
        logger.warning("the LP with fixed paths is %g USD from the MILP: its gap lies in the dispatch", difference)
    return "fixed-path LP"
