"""The one door to what is private, version-dependent or process-wide about PyPSA, linopy and HiGHS.

Elsewhere only their public interfaces are used, as their documentation has them. Nothing here changes what other
threads of the process see, but for warnings ignored for a moment, where it says why.
"""

from __future__ import annotations

import copy
import logging
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from functools import cache
from inspect import signature
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple, cast

import highspy
import linopy
import numpy as np
import pandas as pd
import pypsa
import xarray as xr
from numpy.typing import NDArray
from pypsa import Network as Network
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import splu

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

# Components by name, with scenarios and without


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


def dense(n: pypsa.Network, component: str, attribute: str, name: str) -> pd.DataFrame:
    """Return an attribute of one component over the snapshots, a column a scenario, be it a number or a series.

    PyPSA's own ``get_switchable_as_dense`` makes the table of all components first, which for each of many is slow.
    """
    static, dynamic = n.c[component].static, n.c[component].dynamic[attribute]
    labels = rows(static.index, name)
    values = {label: dynamic[label] if label in dynamic.columns else static.at[label, attribute] for label in labels}
    return pd.DataFrame(values, index=n.snapshots, columns=labels)


# Networks and their models


def model_of(n: pypsa.Network) -> linopy.Model | None:
    """Return the model that a network was last built into, if it is still there; ``n.model`` raises where it is not."""
    return n._model


def forget_solution(n: pypsa.Network) -> None:
    """Take the model and the objective out of a network."""
    n._objective = None
    if model_of(n) is not None:
        del n.model


def copy_network(n: pypsa.Network) -> pypsa.Network:
    """Copy a network without its model, which PyPSA refuses to copy once a solver has been attached to it."""
    # What is in the memo counts as copied: the copy has None for the model, and the network itself is not touched.
    return copy.deepcopy(n, {id(n._model): None})


def scenario_networks(n: pypsa.Network) -> dict[str, pypsa.Network]:
    """Return a network without scenarios and without a model for each scenario of a network, by its name."""
    whole = copy_network(n)
    return {str(scenario): whole.get_scenario(scenario) for scenario in n.scenarios}


def variable_in(variable: linopy.Variable, scenario: str | None) -> linopy.Variable:
    """Return a variable of PyPSA in one scenario, with snapshots before names as in networks without scenarios."""
    if scenario is None or "scenario" not in variable.dims:
        return variable
    data = variable.sel(scenario=scenario, drop=True).data
    order = [dim for dim in ("snapshot", "name") if dim in data.dims]
    return linopy.Variable(data.transpose(*order), variable.model, variable.name)


def risk_weights(m: linopy.Model | None, probability: Mapping[str, float], omega: float) -> dict[str, float]:
    """Weight of the operating cost of each scenario in the objective of a solved model with a risk preference.

    Its share of the expectation and, from the duals, of the tail; empty without such a model.
    """
    rows = {name: f"CVaR-excess-{name}" for name in probability}
    if m is None or not all(row in m.constraints and "dual" in m.constraints[row].data for row in rows.values()):
        return {}
    return {name: (1 - omega) * probability[name] + abs(float(m.constraints[row].dual)) for name, row in rows.items()}


def find_sub_networks(n: pypsa.Network) -> None:
    """Find the sub-networks of a network as ``n.determine_network_topology`` does, by a sparse matrix.

    PyPSA asks itself for a dense one of all buses, and copies it: 1.3 GB and 10 s for 9,000 buses.
    """
    matrix: Any = n.adjacency_matrix(branch_components=n.passive_branch_components, return_dataframe=False)
    answer = SimpleNamespace(values=matrix.tocsr(), index=n.buses.index)
    n.__dict__["adjacency_matrix"] = lambda **_: answer
    try:
        n.determine_network_topology()
    finally:
        del n.__dict__["adjacency_matrix"]


@contextmanager
def sparse_angles(n: pypsa.Network) -> Iterator[Callable[[], None]]:
    """Have voltage angles computed by sparse factorisation once PyPSA is done; what is yielded keeps PyPSA from it.

    PyPSA inverts a dense matrix of all buses by its singular values, the better part of an hour for 9,000 buses, where
    it finds its objects for sub-networks. It needs them until a model is built, and not to solve it.
    """
    hidden: list[pd.Series] = []

    def hide() -> None:
        static = n.c.sub_networks.static
        if "obj" in static and not n.has_scenarios:
            hidden.append(static.pop("obj"))

    try:
        yield hide
    finally:
        if hidden:
            n.c.sub_networks.static["obj"] = hidden[0]
    power = n.c.buses.dynamic["p"]
    if not hidden or power.empty:
        return
    if hidden[0].isna().any():  # in a copy, which has the rows of sub-networks without their objects
        find_sub_networks(n)
        hidden[0] = n.c.sub_networks.static["obj"]
    angles = pd.DataFrame(0.0, power.index, n.buses.index)
    for sub in hidden[0]:
        buses = sub.buses_o
        if len(buses) > 1:
            sub.calculate_B_H(skip_pre=True)
            found, injected = np.zeros((len(buses), len(power))), power[buses].to_numpy(float).T
            try:
                found[1:] = splu(sub.B.tocsc()[1:, 1:]).solve(injected[1:])
            except RuntimeError:  # singular: branches that are inactive, or of infinite impedance, split it
                found = np.linalg.pinv(sub.B.toarray()) @ injected
            angles[buses] = (found - found.mean(axis=0)).T
    n.c.buses.dynamic["v_ang"] = angles


def solve_network(
    n: pypsa.Network,
    snapshots: pd.Index | None,
    extra_functionality: Callable[[pypsa.Network, pd.Index], Any] | None = None,
    branch_outages: pd.MultiIndex | None = None,
    *,
    again: bool = False,
    **options: Any,
) -> tuple[str, str]:
    """Build and solve a network, secured against outages where there are any; PyPSA's status and condition.

    `again` solves the model that is there.
    """
    chosen = cast("Sequence[Any] | None", snapshots)
    if branch_outages is None:
        with sparse_angles(n) as hide:

            def last(network: pypsa.Network, window: pd.Index) -> None:
                if extra_functionality is not None:
                    extra_functionality(network, window)
                hide()

            if again:
                ended = n.optimize.solve_model(extra_functionality=last, **options)
            else:
                ended = n.optimize(chosen, extra_functionality=last, **options)
    else:
        ended = n.optimize.optimize_security_constrained(
            chosen, branch_outages=branch_outages, extra_functionality=extra_functionality, **options
        )
    return str(ended[0]), str(ended[1])


def renew_limits(n: pypsa.Network) -> None:
    """Put the highest output of Generators, `p_max_pu`, into the model of a network once more, as it is now."""
    m, most = n.model, n.get_switchable_as_dense("Generator", "p_max_pu")
    for kind in ("fix", "ext"):
        name = f"Generator-{kind}-p-upper"
        if name not in m.constraints:
            continue
        own = m.constraints[name].indexes["name"]
        p = m["Generator-p"].sel(name=own)
        share = xr.DataArray(most.loc[p.indexes["snapshot"], own].to_numpy(float), p.coords, ("snapshot", "name"))
        m.remove_constraints(name)
        if kind == "fix":
            size = xr.DataArray(n.generators.loc[own, "p_nom"].to_numpy(float), {"name": own}, ("name",))
            m.add_constraints(p <= share * size, name=name)
        else:
            m.add_constraints(p - share * m["Generator-p_nom"].sel(name=own) <= 0, name=name)


def is_near_optimal(m: linopy.Model) -> bool:
    """Whether a model looks for alternatives (MGA): its costs are bounded, and its objective is something else."""
    return "budget" in m.constraints


def widen_budget(n: pypsa.Network, cost: linopy.LinearExpression, spent: float) -> None:
    """Put a cost into the budget of a model that looks for alternatives, and what the optimum spent on it.

    PyPSA allows ``(1 + slack)`` times the costs that its statistics tell of the optimum; the slack is read from that.

    Parameters
    ----------
    n
        Network with the optimum in its results, and the model.
    cost, spent
        The cost in the model, and its value in the optimum, USD.
    """
    m, weight = n.model, n.investment_period_weightings["objective"]

    def told(frame: Any) -> float:
        return float((frame.sum() * weight).sum() if n.has_investment_periods else frame.sum())

    optimum = told(n.statistics.capex()) + told(n.statistics.opex())
    budget = m.constraints["budget"]
    bounded, most = budget.lhs, float(budget.rhs)
    factor = (most + told(n.statistics.installed_capex())) / optimum if optimum else 1.0
    m.remove_constraints("budget")
    m.add_constraints(bounded + cost <= most + factor * spent, name="budget")


def assign(n: pypsa.Network) -> None:
    """Write the values and duals of a network's solved model into the network.

    All three steps, since PyPSA divides prices and adds losses in the last to what the first two have set.
    """
    n.optimize.assign_solution()
    n.optimize.assign_duals()
    with sparse_angles(n) as hide:
        hide()
        n.optimize.post_processing()


@cache
def arguments_of_optimize() -> frozenset[str]:
    """Names of what ``n.optimize`` and linopy take themselves; the rest goes to the solver."""
    calls = (pypsa.Network().optimize.__call__, linopy.Model.solve)
    return frozenset(name for call in calls for name in signature(call).parameters)


def solvers() -> list[str]:
    """Names of the solvers that are installed."""
    return list(linopy.available_solvers)


def is_highs_option(name: str) -> bool:
    """Whether HiGHS knows an option.

    Examples
    --------
    >>> is_highs_option("time_limit"), is_highs_option("timelimit")
    (True, False)
    """
    # Not all options have an attribute of HighsOptions.
    highs = cast("Any", highspy).Highs()
    highs.setOptionValue("output_flag", False)
    return bool(highs.getOptionValue(name)[0] == highspy.HighsStatus.kOk)


def listen_to_search(n: pypsa.Network, note: Callable[[float], None]) -> bool:
    """Have HiGHS tell the relative gap while it searches, many times a second; whether it does so now.

    linopy lets HiGHS ask whether Ctrl-C was pressed. This reads the gap off the same question: the search, and so the
    result, stays the same.
    """
    model = model_of(n)
    solver: Any = None if model is None or model.solver is None else model.solver.solver_model
    if not hasattr(solver, "cbMipInterrupt"):
        return False
    solver.cbMipInterrupt.subscribe(lambda event: note(float(event.data_out.mip_gap)))
    return True


# Quiet


_hushed: ContextVar[tuple[tuple[str, int], ...]] = ContextVar("hushed", default=())


def _heard(record: logging.LogRecord) -> bool:
    return not any(
        record.levelno < level and (record.name == name or record.name.startswith(f"{name}."))
        for name, level in _hushed.get()
    )


@contextmanager
def quiet_pypsa(name: str = "pypsa", level: int = logging.ERROR) -> Iterator[None]:
    """Let a logger, and all below it, tell nothing less than errors, or than a level, in this thread alone.

    Levels of loggers belong to the process; a filter can ask who is speaking. It stays on the loggers, and lets
    everything through outside of this.

    Examples
    --------
    >>> from io import StringIO
    >>> heard, logger = StringIO(), logging.getLogger("pypsa.network.io")
    >>> logger.addHandler(logging.StreamHandler(heard))
    >>> with quiet_pypsa("pypsa.network"):
    ...     logger.warning("unheard")
    >>> logger.warning("heard")
    >>> heard.getvalue().split()
    ['heard']
    """
    for other in [logging.getLogger(name), *logging.Logger.manager.loggerDict.values()]:
        if isinstance(other, logging.Logger) and (other.name == name or other.name.startswith(f"{name}.")):
            other.addFilter(_heard)
    token = _hushed.set((*_hushed.get(), (name, level)))
    try:
        yield
    finally:
        _hushed.reset(token)


def index_warnings_ignored(snapshots: pd.Index) -> AbstractContextManager[None]:
    """Keep linopy from announcing, for each constraint, its coming refusal of the index that PyPSA still uses.

    Warnings can only be ignored for the whole process, until Python 3.14. So this happens for investment periods
    alone, whose snapshots have that index, while constraints are built, and only for linopy's announcement.
    """
    return _index_warnings_ignored() if isinstance(snapshots, pd.MultiIndex) else nullcontext()


@contextmanager
def _index_warnings_ignored() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=r".*uses dimension 'snapshot', a `pd\.MultiIndex`")
        yield


def network_of_case(tables: dict[str, Any]) -> pypsa.Network:
    """Make a network of the tables of a case, in the layout of PYPOWER, without a word."""
    n = pypsa.Network()
    # PyPSA warns of a function of its own that it calls itself; of the process, as above.
    with quiet_pypsa("pypsa.network"), warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        n.import_from_pypower_ppc(tables)
    return n


# Models made linear for a while

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
def solution_kept(m: linopy.Model) -> Iterator[None]:
    """Put the values of all variables, the objective and the status back, whatever is solved in between."""
    kept = {name: m.variables[name].solution.copy() for name in m.variables}
    objective, status, condition = m.objective.value, m.status, m.termination_condition
    try:
        yield
    finally:
        for name, solution in kept.items():
            m.variables[name].solution = solution
        m.objective.set_value(float(objective if objective is not None else "nan"))
        m.status, m.termination_condition = status, condition


def solved_quietly(m: linopy.Model, solver_name: str = "highs", **options: Any) -> bool:
    """Solve a model without output; whether it was solved to optimality."""
    quiet = {"output_flag": False, "io_api": "direct"} if solver_name == "highs" else {}
    with quiet_pypsa("linopy"):
        status, condition = m.solve(solver_name=solver_name, **{**options, **quiet})
    return bool(status == "ok" and condition == "optimal")


AGREEMENT = 1e-5
"""Relative difference up to which an objective counts as that of a solution; solvers bear 1e-6 in each row."""


def objective_of(m: linopy.Model) -> float:
    """Value of the objective; NaN without a solution."""
    value = m.objective.value
    return float("nan") if value is None else float(value)


def misstates_objective(m: linopy.Model) -> bool:
    """Whether the solver's objective is not what its own solution costs.

    HiGHS 1.16 leaves terms out where presolve, after a first schedule, decides everything; its bound and gap are then
    those of the wrong number, and the solution itself is right.
    """
    reported, paid = objective_of(m), float(m.objective.expression.solution)
    return abs(reported - paid) > AGREEMENT * max(1.0, abs(reported), abs(paid))


def bound_of(m: linopy.Model) -> float:
    """Best bound that the solver has proven; NaN where it tells none."""
    report = None if m.solver is None else m.solver.report
    return float("nan") if report is None or report.dual_bound is None else float(report.dual_bound)


# Matrices and HiGHS


class Programme(NamedTuple):
    """A model without integrality: costs, bounds, matrix, and the labels of its rows."""

    cost: Floats
    low: Floats
    high: Floats
    matrix: Any
    row_low: Floats
    row_high: Floats
    labels: Ints

    def highs(self) -> Any:
        """Give it to HiGHS."""
        highs = cast("Any", highspy).Highs()
        highs.setOptionValue("output_flag", False)
        count, rows = len(self.low), len(self.row_low)
        highs.addVars(count, self.low, self.high)
        highs.changeColsCost(count, np.arange(count, dtype=np.int32), self.cost)
        matrix = self.matrix
        highs.addRows(rows, self.row_low, self.row_high, matrix.nnz, matrix.indptr, matrix.indices, matrix.data)
        return highs

    def part(self, columns: Ints, rows: Ints) -> Programme:
        """Some columns, and the rows that have entries in no others."""
        matrix = self.matrix[rows][:, columns].tocsr()
        bounds = self.low[columns], self.high[columns]
        return Programme(
            self.cost[columns], *bounds, matrix, self.row_low[rows], self.row_high[rows], self.labels[rows]
        )

    def components(self) -> tuple[Ints, Ints]:
        """Tell the parts apart that no row ties together: the number of its part for each column, and for each row."""
        rows, columns = self.matrix.shape
        entries = self.matrix.tocoo()
        graph = coo_array((np.ones(entries.nnz), (entries.row + columns, entries.col)), shape=(rows + columns,) * 2)
        _, found = connected_components(graph, directed=False)
        return found[:columns], found[columns:]


def relaxation_of(m: linopy.Model) -> Programme:
    """Take the integrality off a model, for HiGHS.

    PyPSA states the bounds of dispatch as rows of one entry. Here they become bounds of columns: what is left is a
    sixth of the rows, and a solve from a kept basis, which skips presolve, takes a fraction of the time.
    """
    matrices: Any = m.matrices
    matrix, low, high = matrices.A.tocsr(), np.array(matrices.lb, dtype=float), np.array(matrices.ub, dtype=float)
    row_low = np.where(matrices.sense != "<", matrices.b, -np.inf)
    row_high = np.where(matrices.sense != ">", matrices.b, np.inf)
    single = np.diff(matrix.indptr) == 1
    column, entry = matrix.indices[matrix.indptr[:-1][single]], matrix.data[matrix.indptr[:-1][single]]
    first, second = row_low[single] / entry, row_high[single] / entry
    np.maximum.at(low, column, np.minimum(first, second))
    np.minimum.at(high, column, np.maximum(first, second))
    cost, labels = np.asarray(matrices.c, dtype=float), np.asarray(matrices.clabels)
    return Programme(cost, low, high, matrix[~single], row_low[~single], row_high[~single], labels[~single])


def is_optimal(highs: Any) -> bool:
    """Whether HiGHS ended its last solve with an optimum."""
    return bool(highs.getModelStatus() == highspy.HighsModelStatus.kOptimal)


def whole_numbers_of(highs: Any, columns: Sequence[int], options: Mapping[str, Any], seconds: float) -> Any:
    """Copy a programme of HiGHS, with some columns in whole numbers; some seconds, and options that HiGHS knows."""
    copy = cast("Any", highspy).Highs()
    copy.setOptionValue("output_flag", False)
    copy.passModel(highs.getLp())
    for option, value in options.items():
        if option not in ("log_file", "output_flag", "time_limit"):
            copy.setOptionValue(option, value)
    copy.setOptionValue("time_limit", max(seconds, 0.1))
    kinds = np.full(len(columns), int(highspy.HighsVarType.kInteger), dtype=np.uint8)
    copy.changeColsIntegrality(len(columns), np.asarray(columns, dtype=np.int32), kinds)
    return copy


def searched(highs: Any, start: Floats | None) -> tuple[Floats, float, float, bool] | None:
    """Let HiGHS search, from a solution if there is one: solution, objective, bound, and whether the gap is closed."""
    if start is not None:
        first = cast("Any", highspy).HighsSolution()
        first.col_value = list(start)
        highs.setSolution(first)
    # In a thread of its own it may have another number of threads than HiGHS had before, and Ctrl-C ends it.
    highs.HandleUserInterrupt = True
    running = highs.startSolve()
    try:
        while running.is_alive():
            running.join(0.1)
    except KeyboardInterrupt:
        highs.cancelSolve()
        running.join()
        raise
    info = highs.getInfo()
    if info.primal_solution_status != highspy.SolutionStatus.kSolutionStatusFeasible:
        return None
    values = np.array(highs.getSolution().col_value)
    return values, float(info.objective_function_value), float(info.mip_dual_bound), is_optimal(highs)


def write_solution(m: linopy.Model, values: Floats, file: Path) -> None:
    """Write a HiGHS solution file: all columns and rows, by linopy's names for them.

    Rows are computed here: those that HiGHS keeps from a scaled solve are off by more than it later tolerates.
    """
    matrices: Any = m.matrices
    lines = ["Model status", "Unknown", "", "# Primal solution values", "Feasible", "Objective 0"]
    for title, letter, labels, numbers in (
        ("Columns", "x", matrices.vlabels, values),
        ("Rows", "c", matrices.clabels, matrices.A @ values),
    ):
        lines.append(f"# {title} {len(labels)}")
        lines += [f"{letter}{label} {value:.17g}" for label, value in zip(labels, numbers, strict=True)]
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")


def irreducible_set(m: linopy.Model) -> list[str]:
    """Constraints that cannot hold together, in words; the solver's own set, empty where it has none."""
    try:
        labels = m.compute_infeasibilities()
    except (RuntimeError, ValueError, NotImplementedError):
        return []
    return [_in_words(m, label) for label in labels]


def least_violations(m: linopy.Model, kept: str, seconds: float) -> list[tuple[str, float]]:
    """Constraints that give way, in words, and by how much, with the least sum of violations; the worst first.

    Parameters
    ----------
    m
        Infeasible model; its whole numbers stay whole.
    kept
        First part of the names of the constraints that must not give way, as bounds must not.
    seconds
        Time for the search; the best found by then counts, and nothing if nothing is.
    """
    highs, labels = cast("Any", m.to_highspy()), np.asarray(m.matrices.clabels)
    highs.setOptionValue("output_flag", False)
    highs.setOptionValue("time_limit", seconds)
    own = [m.constraints[name].labels.values.ravel() for name in m.constraints if name.startswith(kept)]
    penalty = np.where(np.isin(labels, np.concatenate([*own, np.empty(0)])), -1.0, 1.0)
    highs.feasibilityRelaxation(-1.0, -1.0, 1.0, None, None, penalty)
    solution, lp = highs.getSolution(), highs.getLp()
    if not solution.value_valid:
        return []
    value, low, high = (np.asarray(each) for each in (solution.row_value, lp.row_lower_, lp.row_upper_))
    given = np.maximum(0.0, np.maximum(low - value, value - high))
    worst = np.argsort(-given, kind="stable")
    return [(_in_words(m, int(labels[row])), float(given[row])) for row in worst if given[row] > _NOTICEABLE]


_NOTICEABLE = 1e-6
"""Violation of a row from which it counts as one."""


def _in_words(m: linopy.Model, label: int) -> str:
    name, where = cast("tuple[str, Mapping[str, object]]", m.constraints.get_label_position(label))
    return f"{name} at {', '.join(map(str, where.values()))}"
