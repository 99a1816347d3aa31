"""Solving a network with AIDCs: checked before, with status, schedules, prices and audit after."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas as pd
import pypsa

from pypsa_aidc.errors import AIDCError, AuditError, InfeasibleError, NotSolvedError, UnsupportedError
from pypsa_aidc.network.checks.after import audit
from pypsa_aidc.network.checks.explain import explain
from pypsa_aidc.network.checks.quadratic import QUADRATIC
from pypsa_aidc.network.checks.refusals import refusals
from pypsa_aidc.network.loads.decisions import built_in, record
from pypsa_aidc.network.loads.protocol import TOLERANCE, Built, Start
from pypsa_aidc.network.loads.registry import loads
from pypsa_aidc.network.model.ahead import Ahead
from pypsa_aidc.network.model.hook import ExtraFunctionality, compose, hook
from pypsa_aidc.network.model.horizon import network_snapshots
from pypsa_aidc.network.model.recourse import Given, Recourse
from pypsa_aidc.network.model.storage import charging_and_discharging, check_exclusive
from pypsa_aidc.network.pypsa_api import (
    bound_of,
    discrete,
    misstates_objective,
    objective_of,
    risk_weights,
    solve_network,
)
from pypsa_aidc.network.solve.gap import Gap
from pypsa_aidc.network.solve.outages import secure_outages
from pypsa_aidc.network.solve.prices import price
from pypsa_aidc.network.solve.result import Result, clear_results, store_result
from pypsa_aidc.network.solve.solver_options import SolverOptions
from pypsa_aidc.progress import waiting
from pypsa_aidc.training import Formulation

logger = logging.getLogger(__name__)

_MISSTATED = "the solver's objective is not what its own solution costs. Another solver, or version of it, would do."


def optimize(
    n: pypsa.Network,
    /,
    snapshots: pd.Index | None = None,
    *,
    formulation: Formulation = "time",
    exclusive: Sequence[str] | str = (),
    warm_start: bool = True,
    prices: bool = True,
    raise_on_violation: bool = True,
    branch_outages: Sequence[str] | str | None = None,
    recourse: Given = None,
    search_limit: float | None = None,
    extra_functionality: ExtraFunctionality | None = None,
    **kwargs: Any,
) -> Result:
    """Solve a network with its AIDC jobs and fleets, and write schedules, calls, prices and status into it.

    Parameters
    ----------
    n
        Network with sites or fleets (without any, this is ``n.optimize`` with checks and a `Result`).
    snapshots
        Part of ``n.snapshots`` to optimise; each job then does its whole tranche within it.
    formulation
        ``"time"`` (default) or ``"literal"``, see `checkpoint_graph`; both have the same optimum.
    exclusive
        StorageUnits and Stores that must not charge and discharge at once (Eq. 34d of [1]). Their binaries are only
        put into the model where a solution without them does both, which it does when burning energy pays.
    warm_start
        Whether HiGHS starts from a schedule made at the prices of the LP relaxation. It finds good schedules sooner;
        it never changes the optimum. Other solvers, and models with variables of any other kind, do without.
    prices
        Whether to solve again with all paths fixed, for prices and nothing else. A MILP has none, and PyPSA would leave
        zeros; without, or where they cannot be found (in time), prices are NaN.
    raise_on_violation
        Whether a failed audit raises; otherwise it is only in the result.
    branch_outages
        Lines whose outage must not overload any other (PyPSA's security-constrained optimisation), or ``"all"``.
        Outages that split the network cannot be secured and are listed in the result.
    recourse
        In a network with scenarios, what is decided when. By default the schedules of jobs and the calls of fleets are
        decided once, here and now, for all scenarios. With a snapshot, only what starts before it is, and what runs
        over it; from there on each scenario has its own. Snapshots by name of a load, such as ``{"fleet": t}``, give it
        to these loads only. Everything else, as relief within calls, PyPSA decides by scenario anyway.
    search_limit
        With HiGHS, seconds after which the search for a better schedule ends. Unlike ``time_limit``, which it takes the
        place of, it never ends a solve without one: building, the first schedule and prices come on top, an LP has
        no limit, and where the search has found no schedule by then, it goes on until there is one.
    extra_functionality
        Further ``f(n, snapshots)`` of yours, called after jobs and fleets are in the model.
    kwargs
        Passed to ``n.optimize``: ``solver_name``, ``solver_options``, ``transmission_losses``,
        ``multi_investment_periods``, ``mip_rel_gap`` and so on. With HiGHS, ``time_limit`` bounds building, first
        schedule, search and prices together.

    Returns
    -------
    Result
        Status, objective, gap, audit.

    Raises
    ------
    InputError
        The network holds something PyPSA would solve wrongly (NaN load, negative capacity), or stale sites.
    InfeasibleError
        No dispatch exists; the message says which job is how many GPU-hours short, or which fleet too large for its
        terms, and what would do.
    NotSolvedError
        The solver stopped without a feasible schedule. The network then holds no results.
    UnsupportedError
        Quadratic costs beside decisions in whole numbers, with a solver that cannot do both.
    AuditError
        The solution breaks a constraint.

    References
    ----------
    [1] Tong et al., arXiv:2610.13047 (2026), Eq. 36.
    """
    options = SolverOptions.of(kwargs, search_limit)
    exclusive = (exclusive,) if isinstance(exclusive, str) else tuple(exclusive or ())
    linearized = bool(kwargs.get("linearized_unit_commitment"))
    for refusal in refusals(n, snapshots, quadratic=options.bears_quadratic_and_integers, linearized=linearized):
        raise refusal
    check_exclusive(n, exclusive)
    found = loads(n)
    chosen = network_snapshots(n, snapshots)
    by_scenario = Recourse.of(n, chosen, recourse, found)
    moments = {name: chosen[first] for name, first in by_scenario.moments.items()} if by_scenario else {}
    outages, skipped = secure_outages(n, branch_outages)
    switched: list[str] = []
    warm_start = warm_start and bool(found)
    while True:
        solve = _Solve(
            formulation, tuple(switched), warm_start, prices, extra_functionality, options, recourse=recourse
        )
        status, condition = solve.run(n, snapshots, outages)
        if condition == "time_limit" and not np.isfinite(objective_of(n.model)) and options.go_on_to_the_first():
            logger.info("no schedule within %g s: the search goes on to the first", search_limit)
            warm_start = False
            continue
        _refuse_no_solution(n, snapshots, status, condition, formulation)
        if misstates_objective(n.model):
            if not warm_start:
                clear_results(n)
                raise AuditError(_MISSTATED)
            logger.info("the solver's objective is not what its solution costs: solved again without a first schedule")
            warm_start = False
            continue
        condition, objective, bound = solve.proven(n, condition)
        both = [storage for storage in exclusive if storage not in switched and _does_both(n, storage)]
        if not both:
            break
        logger.info("%s charge and discharge at once: solved again with their binaries", ", ".join(both))
        switched += both
    source = _priced(n, options) if prices or not discrete(n.model) else "none"
    if source == "none":
        n.buses_t.marginal_price = n.buses_t.marginal_price * np.nan
    report = audit(n, exclusive=tuple(exclusive), recourse=moments) if found else None
    if report is not None and raise_on_violation and not report.passed:
        clear_results(n)
        report.raise_if_violated()
    result = Result(
        status=condition,
        objective=objective,
        bound=bound,
        gap=abs(objective - bound) / max(abs(objective), 1e-9),
        prices=source,
        skipped_outages=skipped,
        exclusive=tuple(switched),
        recourse={name: str(snapshot) for name, snapshot in moments.items()},
        risk=_risk(n),
        audit=report,
        **solve.told(n),
    )
    store_result(n, result)
    return result


def solve_again(n: pypsa.Network, /, **kwargs: Any) -> Result:
    """Solve the model that `optimize` has left in a network once more, after numbers in it were changed; no prices.

    Parameters
    ----------
    n
        Network without scenarios, as changed as its model is.
    kwargs
        Options of the solver, as for `optimize`.

    Raises
    ------
    InfeasibleError, NotSolvedError, AuditError
        As `optimize`.
    """
    options = SolverOptions.of(kwargs)
    for warm_start in (True, False):
        solve = _Solve("time", (), warm_start, False, None, options, loads=built_in(n), again=True)
        status, condition = solve.run(n, None, None)
        _refuse_no_solution(n, None, status, condition, "time")
        if not misstates_objective(n.model):
            break
    else:
        clear_results(n)
        raise AuditError(_MISSTATED)
    record(n)
    n.buses_t.marginal_price = n.buses_t.marginal_price * np.nan
    report = audit(n)
    if not report.passed:
        clear_results(n)
        report.raise_if_violated()
    condition, objective, bound = solve.proven(n, condition)
    gap = abs(objective - bound) / max(abs(objective), 1e-9)
    result = Result(
        status=condition, objective=objective, bound=bound, gap=gap, prices="none", audit=report, **solve.told(n)
    )
    store_result(n, result)
    return result


def _risk(n: pypsa.Network) -> dict[str, Any]:
    """Risk preference of a network, with the weights of its scenarios in the objective."""
    if not n.has_scenarios or n.risk_preference is None:
        return {}
    own = {str(name): float(weight) for name, weight in n.scenario_weightings["weight"].items()}
    return {**n.risk_preference, "weights": risk_weights(n.model, own, n.risk_preference["omega"])}


def solve_window(
    n: pypsa.Network,
    snapshots: pd.Index,
    ahead: Ahead,
    *,
    formulation: Formulation,
    prices: bool,
    extra_functionality: ExtraFunctionality | None,
    options: Mapping[str, Any],
) -> tuple[str, float, float, Sequence[Built]]:
    """Solve one window of a rolling horizon, and write dispatch, schedules and prices of its snapshots.

    Returns
    -------
    condition, objective, bound, built
        As the solver ended, USD, and what each kind of load has put into the model.

    Raises
    ------
    InfeasibleError, NotSolvedError
        There is no dispatch, or none was found.
    """
    solver = SolverOptions.of(options)
    solve = _Solve(formulation, (), False, prices, extra_functionality, solver, ahead)
    status, condition = solve.run(n, snapshots, None)
    value = n.model.objective.value
    if status != "ok" or value is None or not np.isfinite(value):
        span = f"window from {snapshots[0]} to {snapshots[-1]}"
        if condition in ("infeasible", "infeasible_or_unbounded"):
            raise InfeasibleError(
                f"{span}: no dispatch serves the loads of the network and what its jobs have decided and still have "
                "to do. If a forecast was wrong, more supply, a later deadline or a larger connection would do."
            )
        raise NotSolvedError(f"{span}: the solver stopped with {condition!r} and without a feasible dispatch.")
    if misstates_objective(n.model):
        raise AuditError(f"{span}: {_MISSTATED}")
    record(n)
    has_integers = bool(discrete(n.model))
    bound = bound_of(n.model) if has_integers else float(value)
    if has_integers and (not prices or _priced(n, solver) == "none"):
        n.buses_t.marginal_price.loc[snapshots] = np.nan
    return condition, float(value), bound, solve.loads


@dataclass
class _Solve:
    """One build and solve, with its times."""

    formulation: Formulation
    exclusive: tuple[str, ...]
    warm_start: bool
    prices: bool
    extra_functionality: ExtraFunctionality | None
    options: SolverOptions
    ahead: Ahead | None = None
    again: bool = False
    recourse: Given = None
    loads: Sequence[Built] = ()
    starts: Sequence[Start] = ()
    started: float = 0.0
    built: float = 0.0
    ended: float = 0.0
    shown: ExitStack = field(default_factory=ExitStack)

    def run(self, n: pypsa.Network, snapshots: pd.Index | None, outages: pd.MultiIndex | None) -> tuple[str, str]:
        """Build and solve; PyPSA's status and condition."""
        attach = hook(
            formulation=self.formulation,
            exclusive=self.exclusive,
            whole_horizon=False,
            on_built=self._note,
            ahead=self.ahead,
            recourse=self.recourse,
        )
        self.started = time.perf_counter()
        options = self.options
        # `_finish` does what linopy would do again for each solve.
        arguments = {"sanitize_infinities": False, **options.arguments, "solver_name": options.name}
        arguments["solver_options"] = options.options
        with TemporaryDirectory() as folder, self.shown:
            self._show("building the model")
            start = Path(folder) / "start.sol"
            if options.is_highs:
                arguments.setdefault("io_api", "direct")
                if self.warm_start:
                    arguments.setdefault("warmstart_fn", start)
            own_start = start if arguments.get("warmstart_fn") == start else None
            built = () if self.again else (attach, self.extra_functionality)
            extra = compose(*built, partial(self._finish, start=own_start))
            ended = solve_network(n, snapshots, extra, outages, again=self.again, **arguments)
        self.ended = time.perf_counter()
        for each in self.starts:
            each.release()
        return ended

    def proven(self, n: pypsa.Network, condition: str) -> tuple[str, float, float]:
        """Condition, objective and bound, which an LP has reached, with what the search of parts has left open."""
        objective = objective_of(n.model)
        bound = bound_of(n.model) if discrete(n.model) else objective
        if not all(each.optimal for each in self.starts):
            condition = "time_limit"
        return condition, objective, bound - sum(each.gap for each in self.starts)

    def told(self, n: pypsa.Network) -> dict[str, Any]:
        """What a `Result` tells of how it was found."""
        return {
            "solver": str(n.model.solver_name),
            "formulation": self.formulation,
            "edges": sum(built.edges for built in self.loads),
            "edges_before_pruning": sum(built.edges_before_pruning for built in self.loads),
            "build_seconds": self.built - self.started,
            "solve_seconds": self.ended - self.built,
        }

    def _note(self, built: Sequence[Built]) -> None:
        self.loads = built

    def _finish(self, n: pypsa.Network, _: pd.Index, start: Path | None) -> None:
        self.built = time.perf_counter()
        if n.model.is_quadratic and discrete(n.model) and not self.options.bears_quadratic_and_integers:
            raise UnsupportedError(f"a quadratic objective beside decisions in whole numbers. {QUADRATIC}")
        # linopy drops rows without a limit, of lines without a rating, only when it solves: too late for labels that
        # the first schedule has looked up.
        n.model.constraints.sanitize_infinities()
        options = self.options
        if start is not None and self.loads:
            self._show("looking for a first schedule", None, lambda: options.words)
            self.starts = [built.write_start(n, start, options) for built in self.loads]
            options.relaxation_seconds = min(each.seconds for each in self.starts)
        options.fit_size(sum(built.edges for built in self.loads))
        whole_numbers = bool(discrete(n.model))
        limit = options.limit_search(prices=self.prices and whole_numbers, whole_numbers=whole_numbers)
        self._show("solving", limit, Gap(n))

    def _show(self, label: str, limit: float | None = None, state: Callable[[], str] | None = None) -> None:
        """Say what is going on now, in place of what was."""
        self.shown.close()
        self.shown.enter_context(waiting(label, limit, state))


def _does_both(n: pypsa.Network, storage: str) -> bool:
    charge, discharge = charging_and_discharging(n, storage, n.model.parameters["snapshots"].to_index())
    return bool((np.minimum(charge, discharge) > TOLERANCE).any())


@waiting("solving again for prices")
def _priced(n: pypsa.Network, options: SolverOptions) -> str:
    """Where prices come from, ``"none"`` if there are none; the results of the solve stay as they are."""
    if not _decodes(n):
        return "none"
    try:
        return price(n, **options.for_prices)
    except (NotSolvedError, UnsupportedError) as error:
        logger.warning("AIDC: no prices: %s", error)
        return "none"


def _decodes(n: pypsa.Network) -> bool:
    """Keep schedules and calls in the network, of the solution that was found; whether it has any."""
    try:
        record(n)
    except NotSolvedError:  # without loads there is nothing to decode
        return True
    except AIDCError:
        return False
    return True


@waiting("looking for the reason")
def _explained(n: pypsa.Network, snapshots: pd.Index | None, formulation: Formulation) -> str:
    return explain(n, snapshots, formulation=formulation)


def _refuse_no_solution(
    n: pypsa.Network, snapshots: pd.Index | None, status: str, condition: str, formulation: Formulation
) -> None:
    if status == "ok" and np.isfinite(objective_of(n.model)):
        return
    infeasible = condition in ("infeasible", "infeasible_or_unbounded")
    text = _explained(n, snapshots, formulation) if infeasible else ""
    bound = bound_of(n.model)
    clear_results(n)
    if infeasible and text:
        raise InfeasibleError(text)
    known = f" The best bound is {bound:.6g} USD." if np.isfinite(bound) else ""
    raise NotSolvedError(
        f"the solver stopped with {condition!r} ({status}) and without a feasible dispatch; the network holds no "
        f"results.{known} Give it more time, a looser gap, or another solver."
    )
