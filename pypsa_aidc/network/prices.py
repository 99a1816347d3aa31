"""Prices of a network with integer decisions: all of them fixed, the rest solved again as an LP."""

from __future__ import annotations

import logging

import pypsa

from pypsa_aidc.errors import NotSolvedError

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
        Network with a solved model, by `aidc.optimize` or by ``n.optimize`` with the hook.

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
    integer = [*model.binaries, *model.integers]
    if not integer:
        return "LP"
    reached, solver_name = float(model.objective.value), str(model.solver_name or "highs")
    variables = [model.variables[name] for name in integer]
    try:
        for variable in variables:
            variable.fix()
            variable.relax()
    except ValueError as error:
        _restore(variables)
        raise NotSolvedError(f"the solution is not integral, so no paths can be fixed: {error}") from error
    level = logging.getLogger("linopy").level
    logging.getLogger("linopy").setLevel(logging.WARNING)
    try:
        quiet = {"log_to_console": False} if solver_name == "highs" else {}
        status, condition = model.solve(solver_name=solver_name, **quiet)
        if status != "ok" or condition != "optimal":
            raise NotSolvedError(f"the LP with fixed paths stopped with {condition!r}; there are no prices")
        difference = abs(float(model.objective.value) - reached)
        if difference > _AGREEMENT * max(1.0, abs(reached)):
            logger.warning("the LP with fixed paths is %g USD from the MILP: its gap lies in the dispatch", difference)
        n.optimize.assign_solution()
        n.optimize.assign_duals()
        n.optimize.post_processing()
    finally:
        logging.getLogger("linopy").setLevel(level)
        _restore(variables)
    return "fixed-path LP"


def _restore(variables: list[object]) -> None:
    for variable in variables:
        variable.unfix()  # type: ignore[attr-defined]
        variable.unrelax()  # type: ignore[attr-defined]
