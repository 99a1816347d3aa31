"""Models made linear for a while: relaxed, or fixed at their solution; and built and solved without a word."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import linopy
import xarray as xr

INTEGRAL = 1e-5
"""Distance from a whole number up to which a value counts as one: ten times the solvers' own tolerance."""


def discrete(m: linopy.Model) -> tuple[str, ...]:
    """Names of all variables and constraints that are more than an LP: whole numbers, and everything in `foreign`."""
    return (*m.binaries, *m.integers, *foreign(m))


def foreign(m: linopy.Model) -> tuple[str, ...]:
    """Names of what is neither continuous nor a whole number: semi-continuous, in a special ordered set, an indicator.

    Their bounds do not mean what those of other variables mean, and nothing here relaxes or fixes them.
    """
    return (*m.variables.semi_continuous, *m.variables.sos, *m.indicator_constraints)


@contextmanager
def relaxed(m: linopy.Model, *, fixed: bool = False) -> Iterator[None]:
    """Take the integrality off all variables, and put it back afterwards.

    Parameters
    ----------
    m
        Model.
    fixed
        Whether to fix them at their present solution as well.

    Raises
    ------
    ValueError
        `fixed`, and the solution is not integral; or the model holds what is neither relaxed nor fixed.
    """
    if foreign(m):
        raise ValueError(f"{', '.join(foreign(m))}: neither continuous nor a whole number")
    variables = [m.variables[name] for name in (*m.binaries, *m.integers)]
    try:
        for variable in variables:
            if fixed:
                variable.fix(_rounded(variable))
            variable.relax()
        yield
    finally:
        for variable in variables:
            variable.unfix()
            variable.unrelax()


def _rounded(variable: linopy.Variable) -> xr.DataArray:
    """Solution of an integer variable, rounded; linopy itself refuses what solvers tolerate."""
    rounded: xr.DataArray = variable.solution.round()
    if float(abs(variable.solution - rounded).max()) > INTEGRAL:
        raise ValueError(f"{variable.name} is not integral")
    # Masked entries have no solution.
    return rounded.fillna(0.0)


@contextmanager
def suppress_index_warnings() -> Iterator[None]:
    """Keep linopy from announcing, for each constraint, its coming refusal of the index PyPSA still uses."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=r".*uses dimension 'snapshot', a `pd\.MultiIndex`")
        yield


def solved_quietly(m: linopy.Model, solver_name: str = "highs", **options: object) -> bool:
    """Solve a model without output; whether it was solved to optimality."""
    level = logging.getLogger("linopy").level
    logging.getLogger("linopy").setLevel(logging.ERROR)
    quiet = {"output_flag": False, "io_api": "direct"} if solver_name == "highs" else {}
    try:
        status, condition = m.solve(solver_name=solver_name, **{**options, **quiet})
    finally:
        logging.getLogger("linopy").setLevel(level)
    return bool(status == "ok" and condition == "optimal")
