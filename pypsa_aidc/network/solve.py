"""Solving a network with AIDCs: checked before, with status, schedule, prices and audit after."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import pandas as pd
import pypsa

from pypsa_aidc.errors import AIDCError, InfeasibleError, NotSolvedError
from pypsa_aidc.network import schedule
from pypsa_aidc.network.audit import AuditReport, audit
from pypsa_aidc.network.checks import check_network
from pypsa_aidc.network.derived import refresh
from pypsa_aidc.network.hook import ExtraFunctionality, compose, hook
from pypsa_aidc.network.index import names
from pypsa_aidc.network.infeasible import explain
from pypsa_aidc.network.outages import secure_outages
from pypsa_aidc.network.paths import Paths
from pypsa_aidc.network.prices import price
from pypsa_aidc.network.site import sites
from pypsa_aidc.training import Formulation

RESULT = "aidc_result"
"""Column of `n.links` with the status of the last solve as JSON, for every site."""


@dataclass(frozen=True)
class Result:
    """How a solve ended.

    Parameters
    ----------
    status
        ``"optimal"``, or the solver's word for why it stopped with a feasible schedule, such as ``"time_limit"``.
    objective
        Value of PyPSA's objective in USD.
    bound
        Best bound in USD that the solver has proven.
    gap
        ``|objective - bound| / |objective|``.
    solver
        Name of the solver.
    formulation
        Formulation of the checkpoint-state graphs.
    edges, edges_before_pruning
        Binaries for the jobs, and what they would have been without pruning.
    build_seconds, solve_seconds
        Time to build the model, and to solve it.
    prices
        Where the prices in the network come from: ``"fixed-path LP"``, ``"LP"`` without integers, or ``"none"``.
    skipped_outages
        Outages left out of a security-constrained solve because they split the network.
    audit
        Report of the audit; `None` if it was switched off.
    """

    status: str
    objective: float
    bound: float
    gap: float
    solver: str
    formulation: Formulation
    edges: int
    edges_before_pruning: int
    build_seconds: float
    solve_seconds: float
    prices: str
    skipped_outages: tuple[str, ...] = ()
    audit: AuditReport | None = field(default=None, compare=False)

    @property
    def optimal(self) -> bool:
        """Whether the solver has proven optimality within its tolerance."""
        return self.status == "optimal"

    def __repr__(self) -> str:
        checked = "not audited" if self.audit is None else repr(self.audit)
        return (
            f"Result({self.status}: objective {self.objective:.6g} USD, gap {self.gap:.3%}, {self.edges} edges "
            f"(of {self.edges_before_pruning}), prices from {self.prices}, {checked})"
        )


def optimize(
    n: pypsa.Network,
    snapshots: pd.Index | None = None,
    *,
    formulation: Formulation = "time",
    exclusive: Sequence[str] = (),
    prices: bool = True,
    raise_on_violation: bool = True,
    branch_outages: Sequence[str] | str | None = None,
    extra_functionality: ExtraFunctionality | None = None,
    **kwargs: Any,
) -> Result:
    """Solve a network with its AIDC jobs, and write schedule, prices and status into it.

    Parameters
    ----------
    n
        Network with sites (without any, this is ``n.optimize`` with checks and a `Result`).
    snapshots
        Part of ``n.snapshots`` to optimise; each job then does its whole tranche within it.
    formulation
        ``"time"`` (default) or ``"literal"``, see `checkpoint_graph`; both have the same optimum.
    exclusive
        StorageUnits and Stores that must not charge and discharge at once (Eq. 34d of [1]).
    prices
        Whether to solve again with all paths fixed, for prices. A MILP has none, and PyPSA would leave zeros;
        without, prices are NaN.
    raise_on_violation
        Whether a failed audit raises; otherwise it is only in the result.
    branch_outages
        Lines whose outage must not overload any other (PyPSA's security-constrained optimisation), or ``"all"``.
        Outages that split the network cannot be secured and are listed in the result.
    extra_functionality
        Further ``f(n, snapshots)`` of yours, called after the jobs are in the model.
    kwargs
        Passed to ``n.optimize``: ``solver_name``, ``solver_options``, ``transmission_losses``,
        ``multi_investment_periods``, ``mip_rel_gap`` and so on.

    Returns
    -------
    Result
        Status, objective, gap, audit.

    Raises
    ------
    InputError
        The network holds something PyPSA would solve wrongly (NaN load, negative capacity), or stale sites.
    InfeasibleError
        No dispatch exists; the message says which job is how many GPU-hours short and what would do.
    NotSolvedError
        The solver stopped without a feasible schedule. The network then holds no results.
    AuditError
        The solution breaks a constraint.

    References
    ----------
    [1] Tong et al., arXiv:2610.13047 (2026), Eq. 36.
    """
    check_network(n, snapshots)
    refresh(n, snapshots=snapshots)
    has_sites = bool(sites(n))
    built: list[Paths] = []
    times = [time.perf_counter()]

    def note(_: pypsa.Network, __: pd.Index) -> None:
        times.append(time.perf_counter())

    attach = hook(formulation=formulation, exclusive=exclusive, whole_horizon=False, on_built=built.append)
    both = compose(attach, extra_functionality, note)
    outages, skipped = secure_outages(n, branch_outages)
    if outages is None:
        status, condition = n.optimize(snapshots, extra_functionality=both, **kwargs)
    else:
        status, condition = n.optimize.optimize_security_constrained(
            snapshots, branch_outages=outages, extra_functionality=both, **kwargs
        )
    times.append(time.perf_counter())
    _refuse_no_solution(n, snapshots, status, condition, formulation)
    m = n.model
    objective, bound = float(m.objective.value), _bound(n)
    has_integers = bool(len(m.binaries.labels) or len(m.integers.labels)) if len(m.variables) else False
    source = "LP"
    if has_integers:
        source = price(n) if prices and _decodes(n, has_sites) else "none"
    if source == "none":
        n.buses_t.marginal_price = n.buses_t.marginal_price * np.nan
    report = audit(n, exclusive=tuple(exclusive)) if has_sites else None
    result = Result(
        status=condition,
        objective=objective,
        bound=bound if has_integers else objective,
        gap=abs(objective - bound) / max(abs(objective), 1e-9) if has_integers else 0.0,
        solver=str(m.solver_name),
        formulation=formulation,
        edges=sum(paths.edges for paths in built),
        edges_before_pruning=sum(paths.edges_before_pruning for paths in built),
        build_seconds=times[1] - times[0],
        solve_seconds=times[2] - times[1],
        prices=source,
        skipped_outages=skipped,
        audit=report,
    )
    if report is not None and raise_on_violation and not report.passed:
        clear_results(n)
        report.raise_if_violated()
    _store(n, result)
    return result


def clear_results(n: pypsa.Network) -> None:
    """Empty every result in the network, so that no zeros or earlier values pass for an optimum."""
    for component in n.components.values():
        outputs = component.defaults[component.defaults["status"].str.startswith("Output")]
        for attribute in outputs.index:
            if attribute in component.dynamic:
                empty = component.static.index[:0]
                component.dynamic[attribute] = pd.DataFrame(index=n.snapshots, columns=empty, dtype=float)
            elif attribute in component.static and attribute.endswith("_opt"):
                component.static[attribute] = np.nan
    for attribute in (schedule.MODE, schedule.GPUS, schedule.PROGRESS):
        n.c.generators.dynamic.pop(attribute, None)
    if RESULT in n.links:
        n.links[RESULT] = ""
    n._objective = None


def _bound(n: pypsa.Network) -> float:
    report = n.model.solver.report if n.model.solver is not None else None
    return float("nan") if report is None or report.dual_bound is None else float(report.dual_bound)


def _decodes(n: pypsa.Network, has_sites: bool) -> bool:
    if not has_sites:
        return True
    try:
        schedule.record(n, n.model.parameters["snapshots"].to_index())
    except AIDCError:
        return False
    return True


def _refuse_no_solution(
    n: pypsa.Network, snapshots: pd.Index | None, status: str, condition: str, formulation: Formulation
) -> None:
    value = n.model.objective.value
    solved = status == "ok" and value is not None and np.isfinite(value)
    if solved:
        return
    infeasible = condition in ("infeasible", "infeasible_or_unbounded")
    text = explain(n, snapshots, formulation=formulation) if infeasible else ""
    bound = _bound(n)
    clear_results(n)
    if infeasible and text:
        raise InfeasibleError(text)
    known = f" The best bound is {bound:.6g} USD." if np.isfinite(bound) else ""
    raise NotSolvedError(
        f"the solver stopped with {condition!r} ({status}) and without a feasible dispatch; the network holds no "
        f"results.{known} Give it more time, a looser gap, or another solver."
    )


def _store(n: pypsa.Network, result: Result) -> None:
    """Keep the status with each site, as JSON in a string column that survives every file format."""
    # Times are left out: the same call should give the same file.
    left_out = ("audit", "build_seconds", "solve_seconds")
    content = {key: value for key, value in asdict(result).items() if key not in left_out}
    content["audit"] = None if result.audit is None else result.audit.passed
    text = json.dumps(content)
    if RESULT not in n.links:
        n.links[RESULT] = ""
    n.links[RESULT] = n.links[RESULT].fillna("").astype(object)
    for site in sites(n).values():
        n.links.loc[n.links.index[names(n.links.index) == site.link], RESULT] = text
