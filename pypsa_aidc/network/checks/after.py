"""The audit: every constraint checked again, from decoded schedules and calls and the network's own results."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import pypsa
from numpy.typing import NDArray

from pypsa_aidc.errors import AIDCError, AuditError, NotSolvedError
from pypsa_aidc.network.checks.fleet_audit import fleet_checks
from pypsa_aidc.network.index import columns, rows
from pypsa_aidc.network.loads.fleet_spec import fleets
from pypsa_aidc.network.loads.site import Site, sites
from pypsa_aidc.network.model.budgets import SHEDS
from pypsa_aidc.network.model.calls import CALLS
from pypsa_aidc.network.model.horizon import Window
from pypsa_aidc.network.model.paths import PATH
from pypsa_aidc.network.model.storage import CHARGES, charging_and_discharging
from pypsa_aidc.network.relaxation import INTEGRAL
from pypsa_aidc.network.results import schedule
from pypsa_aidc.network.results.balance import nodal_residual
from pypsa_aidc.network.results.fleet_results import has_fleet_solution, solved_snapshots
from pypsa_aidc.training import Step, TrainingLoad
from pypsa_aidc.units import SLOT_TOLERANCE, W_PER_MW

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TOLERANCE = 1e-6

Floats = NDArray[np.float64]


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


class _Checks:
    def __init__(self) -> None:
        self.rows: list[tuple[str, str, float, str, bool]] = []

    def add(self, check: str, where: str, violation: float, unit: str, tolerance: float = TOLERANCE) -> None:
        violation = max(float(violation), 0.0) if not np.isnan(violation) else np.inf
        self.rows.append((check, where, violation, unit, violation <= tolerance))

    def report(self) -> AuditReport:
        return AuditReport(pd.DataFrame(self.rows, columns=["check", "where", "violation", "unit", "passed"]))


def audit(n: pypsa.Network, *, exclusive: tuple[str, ...] = ()) -> AuditReport:
    """Check a solved network again: paths, completion, GPUs, power, energy, calls, nodal balance, integrality.

    Works from decoded schedules and calls and PyPSA's results, not from the model, so that a wrong model, a solver that
    ignored integrality and loose tolerances all show.

    Parameters
    ----------
    n
        Solved network, just now or read from a file.
    exclusive
        Storages that must not charge and discharge at once.

    Returns
    -------
    AuditReport
        One row a check. It does not raise; ``report.raise_if_violated()`` does.

    Raises
    ------
    NotSolvedError
        There is no solution to audit.
    """
    checks = _Checks()
    try:
        snapshots = solved_snapshots(n) if fleets(n) else n.snapshots[:0]
        if sites(n) or not fleets(n):
            _, schedules = schedule.read(n)
            snapshots = schedule.solved_snapshots(n)
    except NotSolvedError:
        raise
    except AIDCError as error:
        _add_integrality(n, checks)
        checks.add("schedule", str(error).splitlines()[0], np.inf, "")
        return checks.report()
    _add_integrality(n, checks)
    for site in sites(n).values():
        for generator, load in site.loads.items():
            for window, steps in schedules[generator]:
                _add_job(checks, generator, load, window, steps)
        _add_site(n, checks, site, schedules, snapshots)
    for check in fleet_checks(n) if fleets(n) else ():
        checks.add(*check)
    residual = nodal_residual(n, snapshots)
    for bus in residual.columns:
        checks.add("nodal balance", f"bus {bus}", residual[bus].max(), "MW", _scale(n, TOLERANCE))
    for storage in exclusive:
        charge, discharge = charging_and_discharging(n, storage, snapshots)
        checks.add("exclusive charge and discharge", storage, np.minimum(charge, discharge).max(), "MW")
    return checks.report()


def _scale(n: pypsa.Network, tolerance: float) -> float:
    # Solvers hold rows to an absolute tolerance on scaled rows; a residual counts relative to the largest flow.
    largest = n.c.generators.dynamic["p"].abs().max(axis=None)
    return tolerance * max(1.0, float(largest) / 1e3 if np.isfinite(largest) else 1.0)


def _add_integrality(n: pypsa.Network, checks: _Checks) -> None:
    if not (schedule.has_solution(n) or has_fleet_solution(n)):
        return
    for name in [name for name in n.model.variables if name in (PATH, CALLS, SHEDS) or name.startswith(CHARGES)]:
        values = n.model.variables[name].solution.values
        checks.add("integrality", name, np.abs(values - np.round(values)).max(initial=0.0), "", INTEGRAL)


def _add_job(checks: _Checks, generator: str, load: TrainingLoad, window: Window, steps: tuple[Step, ...]) -> None:
    rules, slots = load.rules, window.slots
    where = generator if window.period is None else f"{generator}, period {window.period}"
    done = rules.progress + sum(step.segments for step in steps)
    missing = rules.count - done if not rules.continuity else abs(rules.count - done)
    checks.add("completion", where, missing, "segments")
    before = slots.ends[[step.start for step in steps]]
    checks.add("arrival", where, (rules.arrival - before).max(initial=0.0), "h")
    after = slots.ends[[step.stop for step in steps]]
    deadline = slots.total if load.deadline is None else load.deadline
    checks.add("deadline", where, (after - deadline).max(initial=0.0), "h")
    checks.add("enough time in each edge", where, _time_short(load, window, steps), "h", 10 * SLOT_TOLERANCE)
    overlaps = [max(0, first.stop - second.start) for first, second in pairwise(steps)]
    checks.add("one edge at a time", where, max(overlaps, default=0), "slots")
    checks.add("waiting", where, _forbidden_waits(load, window, steps), "h", 10 * SLOT_TOLERANCE)
    checks.add("mode changes", where, _forbidden_changes(load, steps), "changes")


def _time_short(load: TrainingLoad, window: Window, steps: tuple[Step, ...]) -> float:
    rules, short, done = load.rules, 0.0, load.rules.progress
    for step in steps:
        if rules.continuity:
            jump = round(step.segments)
            share = sum(rules.shares[done : done + jump])
            done += jump
        else:
            share = step.segments / rules.count
        need = load.hours(load.modes[step.mode]) * share
        if rules.continuity:
            need += jump * rules.checkpoint_hours + rules.restart_hours * step.restart
        short = max(short, need - float(window.slots.ends[step.stop] - window.slots.ends[step.start]))
    return short


def _forbidden_waits(load: TrainingLoad, window: Window, steps: tuple[Step, ...]) -> float:
    """Hours by which waits are not allowed or too short, or runs too short."""
    rules, ends = load.rules, window.slots.ends
    if not steps or not rules.continuity:
        return 0.0
    starts = [window.slots.ceil(rules.arrival), *(step.stop for step in steps[:-1])]
    waits = [float(ends[step.start] - ends[start]) for start, step in zip(starts, steps, strict=True)]
    if not rules.waiting:
        return max(waits)
    short_waits = [rules.min_wait - wait for wait in waits if wait > SLOT_TOLERANCE]
    runs, run = [], 0.0
    for step, wait in zip(steps, waits, strict=True):
        if wait > SLOT_TOLERANCE and run:
            runs.append(run)
            run = 0.0
        run += float(ends[step.stop] - ends[step.start])
    short_runs = [rules.min_run - length for length in runs]
    return max([0.0, *short_waits, *short_runs])


def _forbidden_changes(load: TrainingLoad, steps: tuple[Step, ...]) -> int:
    rule = load.rules.mode_changes
    if rule == "never":
        return len({step.mode for step in steps}) - 1 if steps else 0
    if rule == "after_wait":
        return sum(a.mode != b.mode and a.stop == b.start for a, b in pairwise(steps))
    return 0


def _add_site(
    n: pypsa.Network,
    checks: _Checks,
    site: Site,
    schedules: Mapping[str, list[tuple[Window, tuple[Step, ...]]]],
    snapshots: pd.Index,
) -> None:
    gpus, power = pd.Series(0.0, snapshots), pd.Series(0.0, snapshots)
    for generator, load in site.loads.items():
        for window, steps in schedules[generator]:
            labels = snapshots[window.positions]
            gpus.loc[labels] += schedule.series_of(steps, load, window.slots)[1]
            power.loc[labels] += schedule.step_power(steps, load, window.slots)
    checks.add("GPU pool", site.name, (gpus - site.spec.gpus).max(), "GPUs")
    if site.spec.idle_w:
        power += (site.spec.gpus - gpus) * site.spec.idle_w / W_PER_MW
    imported = columns(n.c.links.dynamic["p0"], [site.link]).loc[snapshots, site.link]
    static = n.links.loc[rows(n.links.index, site.link)]
    capacity = static["p_nom_opt"].max() if static["p_nom_extendable"].any() else static["p_nom"].max()
    checks.add("connection", site.name, (imported - capacity).max(), "MW")
    base = columns(n.get_switchable_as_dense("Load", "p_set"), [site.base]).loc[snapshots, site.base]
    efficiency = columns(n.get_switchable_as_dense("Link", "efficiency"), [site.link]).loc[snapshots, site.link]
    checks.add("energy of the site", site.name, (imported * efficiency - base - power).abs().max(), "MW")
