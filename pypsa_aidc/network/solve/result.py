"""How a solve ended: told to the caller, kept with sites and fleets, and wiped where there is nothing to keep."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pypsa

from pypsa_aidc.network.checks.after import AuditReport
from pypsa_aidc.network.loads import registry
from pypsa_aidc.network.pypsa_api import forget_solution
from pypsa_aidc.network.spec.column import store
from pypsa_aidc.training import Formulation

if TYPE_CHECKING:
    from matplotlib.figure import Figure

RESULT = "aidc_result"
"""Column of `n.links` (sites) and `n.generators` (fleets) with the status of the last solve as JSON."""


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
    exclusive
        Storages that binaries kept from charging and discharging at once, because a solution without them did both.
    recourse
        Snapshot from which each load decided by scenario, where there are any that did.
    risk
        With a risk preference, its `alpha` and `omega`, and the `weights` of the scenarios in the objective.
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
    exclusive: tuple[str, ...] = ()
    recourse: Mapping[str, str] = field(default_factory=dict)
    risk: Mapping[str, Any] = field(default_factory=dict)
    audit: AuditReport | None = field(default=None, compare=False)

    @property
    def optimal(self) -> bool:
        """Whether the solver has proven optimality within its tolerance."""
        return self.status == "optimal"

    def __repr__(self) -> str:
        checked = "not audited" if self.audit is None else repr(self.audit)
        return (
            f"Result({self.status}: objective {self.objective:.6g} USD, {gap_words(self.gap)}, {self.edges} edges "
            f"(of {self.edges_before_pruning}), prices from {self.prices}, {checked})"
        )

    def _repr_html_(self) -> str:
        """Return what a notebook shows: how it ended, with the figure."""
        from pypsa_aidc.markup import Table, card

        return card(self, lambda: [Table("", self.to_frame())], self.plot)

    def to_frame(self) -> pd.DataFrame:
        """Columns `quantity`, `value`, `unit`."""
        rows = [
            ("status", self.status, ""),
            ("objective", self.objective, "USD"),
            ("bound", self.bound, "USD"),
            ("gap", self.gap, "1"),
            ("solver", self.solver, ""),
            ("formulation", self.formulation, ""),
            ("edges", self.edges, "1"),
            ("edges before pruning", self.edges_before_pruning, "1"),
            ("time to build", self.build_seconds, "s"),
            ("time to solve", self.solve_seconds, "s"),
            ("origin of prices", self.prices, ""),
            ("outages left out", ", ".join(self.skipped_outages) or "none", ""),
            ("audit", "none" if self.audit is None else "passed" if self.audit.passed else "failed", ""),
        ]
        return pd.DataFrame(rows, columns=["quantity", "value", "unit"])

    def plot(self) -> Figure:
        """Draw objective and bound, edges before and after pruning, and the times to build and to solve."""
        from pypsa_aidc.plots.solve import plot_result

        return plot_result(self)


def gap_words(gap: float) -> str:
    """A relative gap for people; a solver that was stopped early may not have a bound yet."""
    return f"gap {gap:.3%}" if np.isfinite(gap) else "no bound yet"


def clear_results(n: pypsa.Network) -> None:
    """Empty every result in the network, model included, so that no zeros or earlier values pass for an optimum."""
    for component in n.components.values():
        outputs = component.defaults[component.defaults["status"].str.startswith("Output")]
        for attribute in outputs.index:
            if attribute in component.dynamic:
                empty = component.static.index[:0]
                component.dynamic[attribute] = pd.DataFrame(index=n.snapshots, columns=empty, dtype=float)
            elif attribute in component.static and attribute.endswith("_opt"):
                component.static[attribute] = np.nan
    for attribute in (attribute for kind in registry.KINDS for attribute in kind.decisions):
        n.c.generators.dynamic.pop(attribute, None)
    for component in {kind.component for kind in registry.KINDS}:
        if RESULT in n.c[component].static:
            n.c[component].static[RESULT] = ""
    forget_solution(n)


def store_result(n: pypsa.Network, result: Result) -> None:
    """Keep the status with each load, as JSON in a string column that survives every file format."""
    # Times are left out: the same call should give the same file.
    left_out = ("audit", "build_seconds", "solve_seconds")
    content = {key: value for key, value in asdict(result).items() if key not in left_out}
    content["audit"] = None if result.audit is None else result.audit.passed
    text = json.dumps(content)
    for kind, own in registry.by_kind(n):
        store(n.c[kind.component].static, {load.holder: text for load in own.values()}, RESULT)


def stored_result(n: pypsa.Network) -> dict[str, object]:
    """Status of the last solve, as any load keeps it; empty without one."""
    holders = [n.c[kind.component].static for kind in registry.KINDS]
    texts = [text for static in holders if RESULT in static for text in static[RESULT].fillna("") if text]
    return dict(json.loads(texts[0])) if texts else {}
