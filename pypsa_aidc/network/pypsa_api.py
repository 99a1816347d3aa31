"""The one door to what is private, version-dependent or process-wide about PyPSA and linopy."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import linopy
import pandas as pd
import pypsa
import xarray as xr


def names(index: pd.Index) -> pd.Index:
    """Return the component names of an index, with or without scenarios."""
    return index.get_level_values("name") if isinstance(index, pd.MultiIndex) else index


def rows(index: pd.Index, name: str) -> pd.Index:
    """Return the labels of one component, one a scenario."""
    return index[names(index) == name]


def columns(frame: pd.DataFrame, wanted: list[str]) -> pd.DataFrame:
    """Return the columns of some components by name; with scenarios, those of the first that has them."""
    if not isinstance(frame.columns, pd.MultiIndex):
        return frame.reindex(columns=wanted)
    first = frame.columns.get_level_values(0)[0] if len(frame.columns) else None
    return pd.DataFrame(frame.xs(first, axis=1, level=0)).reindex(columns=wanted)


def model_of(n: pypsa.Network) -> linopy.Model | None:
    """Return the model that a network was last built into, if it is still there."""
    model: linopy.Model | None = n._model
    return model


def forget_solution(n: pypsa.Network) -> None:
    """Take the model and the objective out of a network."""
    n._objective = None
    if n._model is not None:
        del n.model


def copy_network(n: pypsa.Network) -> pypsa.Network:
    """Copy a network without its model, which PyPSA refuses to copy once a solver has been attached to it."""
    model, n._model = n._model, None
    try:
        return n.copy()
    finally:
        n._model = model


@contextmanager
def quiet_pypsa(name: str = "pypsa", level: int = logging.ERROR) -> Iterator[None]:
    """Let a logger of PyPSA, and all below it, tell nothing less than errors, or than a level.

    Examples
    --------
    >>> with quiet_pypsa("pypsa.network.io"):
    ...     logging.getLogger("pypsa.network.io").isEnabledFor(logging.WARNING)
    False
    """
    logger = logging.getLogger(name)
    before = logger.level
    logger.setLevel(level)
    try:
        yield
    finally:
        logger.setLevel(before)


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
