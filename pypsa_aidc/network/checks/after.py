"""The audit: every constraint checked again, from decoded schedules and calls and the network's own results."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pypsa

from pypsa_aidc.errors import AIDCError, AuditError, NotSolvedError
from pypsa_aidc.network.loads.decisions import built_in, has_solution, keep
from pypsa_aidc.network.loads.protocol import TOLERANCE, Check
from pypsa_aidc.network.loads.registry import decided_snapshots, loads
from pypsa_aidc.network.model.storage import CHARGES, charging_and_discharging
from pypsa_aidc.network.pypsa_api import INTEGRAL
from pypsa_aidc.network.results.balance import injection
from pypsa_aidc.network.results.scenarios import in_scenarios

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class AuditReport:
    """Outcome of an audit.

    Parameters
    ----------
    frame
        One row a check: `check`, `where`, `violation` (in `unit`, 0 where the constraint holds), `unit`, `passed`.
    """

    frame: pd.DataFrame = field(repr=False)

    def __repr__(self) -> str:
        return f"AuditReport({int(self.frame['passed'].sum())} of {len(self.frame)} checks passed)"

    def __bool__(self) -> bool:
        return self.passed

    @property
    def passed(self) -> bool:
        """Whether every check passed."""
        return bool(self.frame["passed"].all())

    @property
    def violations(self) -> pd.DataFrame:
        """The checks that failed, worst first."""
        return self.frame[~self.frame["passed"]].sort_values("violation", ascending=False)

    def by_check(self) -> pd.DataFrame:
        """Return one row a kind of check: how many were made, the worst `violation` (in `unit`), and if all passed."""
        return self.frame.groupby("check", sort=False).agg(
            checked=("where", "size"), worst=("violation", "max"), unit=("unit", "first"), passed=("passed", "all")
        )

    def _repr_html_(self) -> str:
        """Return what a notebook shows: violations and each kind of check."""
        from pypsa_aidc.markup import Table, card

        return card(self, lambda: [Table("Violations", self.violations), Table("Checks", self.by_check())], self.plot)

    def to_frame(self) -> pd.DataFrame:
        """Return a copy of all checks."""
        return self.frame.copy()

    def plot(self) -> Figure:
        """Draw the worst violation of each kind of check."""
        from pypsa_aidc.plots.solve import plot_audit

        return plot_audit(self)

    def raise_if_violated(self) -> None:
        """Raise `AuditError` with the failed checks, if any."""
        if not self.passed:
            lines = [
                f"  - {row.check} at {row.where}: off by {row.violation:.6g} {row.unit}"
                for row in self.violations.itertuples()
            ]
            raise AuditError("the solution breaks constraints:\n" + "\n".join(lines))


def audit(
    n: pypsa.Network, *, exclusive: tuple[str, ...] = (), recourse: Mapping[str, Any] | None = None
) -> AuditReport:
    """Check a solved network again: paths, completion, GPUs, power, energy, calls, nodal balance, integrality.

    Works from decoded schedules and calls and PyPSA's results, not from the model, so that a wrong model, a solver that
    ignored integrality and loose tolerances all show.

    Parameters
    ----------
    n
        Solved network, just now or read from a file.
    exclusive
        Storages that must not charge and discharge at once.
    recourse
        In a network with scenarios, the snapshot from which each of some loads may decide by scenario; what starts
        before, and all that other loads decide, has to be the same in all. `None`: not checked.

    Returns
    -------
    AuditReport
        One row a check, in each scenario if there are any. It does not raise; ``report.raise_if_violated()`` does.

    Raises
    ------
    NotSolvedError
        There is no solution to audit.
    """
    found = list(_integrality(n))
    if not n.has_scenarios:
        return _report([*found, *_checks(n, exclusive)])
    networks = in_scenarios(n)
    found += _same_decisions(networks, recourse) if recourse is not None else ()
    for scenario, one in networks.items():
        found += [each._replace(where=f"{each.where}, scenario {scenario}") for each in _checks(one, exclusive)]
    return _report(found)


def _same_decisions(networks: Mapping[str, pypsa.Network], recourse: Mapping[str, Any]) -> Iterator[Check]:
    """Whether all scenarios agree on what is decided before they are told apart."""
    first, *others = ((loads(one), one) for one in networks.values())
    for name, load in first[0].items():
        decided = load.decided_before(first[1], recourse.get(name))
        apart = sum(own[name].decided_before(one, recourse.get(name)) != decided for own, one in others)
        yield Check("same decisions in all scenarios", name, float(apart), "scenarios")


def _checks(n: pypsa.Network, exclusive: tuple[str, ...]) -> list[Check]:
    """Everything but integrality, in a network without scenarios."""
    found: list[Check] = []
    try:
        keep(n)
        snapshots = decided_snapshots(n)
        found += [check for load in loads(n).values() for check in load.audit(n)]
    except NotSolvedError:
        raise
    except AIDCError as error:
        found.append(Check("schedule", str(error).splitlines()[0], np.inf, ""))
        return found
    residual = injection(n, snapshots).abs()
    borne = _scale(n, TOLERANCE)
    found += [Check("nodal balance", f"bus {bus}", residual[bus].max(), "MW", borne) for bus in residual.columns]
    for storage in exclusive:
        charge, discharge = charging_and_discharging(n, storage, snapshots)
        found.append(Check("exclusive charge and discharge", storage, np.minimum(charge, discharge).max(), "MW"))
    return found


def _report(checks: list[Check]) -> AuditReport:
    rows = []
    for check in checks:
        violation = np.inf if np.isnan(check.violation) else max(float(check.violation), 0.0)
        rows.append((check.check, check.where, violation, check.unit, violation <= check.tolerance))
    return AuditReport(pd.DataFrame(rows, columns=["check", "where", "violation", "unit", "passed"]))


def _scale(n: pypsa.Network, tolerance: float) -> float:
    # Solvers hold rows to an absolute tolerance on scaled rows; a residual counts relative to the largest flow.
    largest = n.c.generators.dynamic["p"].abs().max(axis=None)
    return tolerance * max(1.0, float(largest) / 1e3 if np.isfinite(largest) else 1.0)


def _integrality(n: pypsa.Network) -> Iterator[Check]:
    if not has_solution(n):
        return
    integers = tuple(name for built in built_in(n) for name in built.integers)
    for name in [name for name in n.model.variables if name.startswith((*integers, CHARGES))]:
        values = n.model.variables[name].solution.values
        yield Check("integrality", name, np.abs(values - np.round(values)).max(initial=0.0), "", INTEGRAL)
