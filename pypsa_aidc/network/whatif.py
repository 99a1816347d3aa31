"""What a site costs and what its freedom saves; what one more of anything is worth: each by solving again."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pypsa

from pypsa_aidc.errors import Faults, InfeasibleError, InputError, NotSolvedError, UnsupportedError
from pypsa_aidc.network.loads.protocol import Change, Freedom
from pypsa_aidc.network.loads.registry import loads, remove, sites
from pypsa_aidc.network.loads.site.add import update
from pypsa_aidc.network.loads.site.schedule import gpu_hours
from pypsa_aidc.network.model.horizon import windows
from pypsa_aidc.network.pypsa_api import copy_network, rows
from pypsa_aidc.network.results.costs import objective_weight
from pypsa_aidc.network.results.scenarios import in_scenarios, probabilities
from pypsa_aidc.network.solve.optimize import optimize
from pypsa_aidc.progress import track

_GAP = 1e-6
_ROUNDING = 1e-8
"""Share of the objective within which two solves of the same problem may differ."""

_FREEDOMS: tuple[Freedom, ...] = ("fixed", "waiting", "free")
_CASES = ("without", *_FREEDOMS)


def compare(
    n: pypsa.Network,
    /,
    site: str | None = None,
    snapshots: pd.Index | None = None,
    *,
    only: Sequence[str] = _CASES,
    **options: Any,
) -> pd.DataFrame:
    """Cost of a network without a site or all sites, and with their jobs fixed, free to wait, and free in modes too.

    Other sites, fleets and all storage stay as they are in every case. The network itself is not changed.

    Parameters
    ----------
    n
        Network with sites; it need not be solved.
    site
        Name of the site; `None` for all sites together.
    snapshots
        Part of ``n.snapshots`` to optimise.
    only
        Some of the cases, in any order: ``"without"`` the sites; ``"fixed"``, every job in its baseline mode from
        arrival to completion (S1 of [1]); ``"waiting"``, in that mode but free to wait at checkpoints; ``"free"``, the
        jobs as they are (S4).
    options
        Passed to `optimize`; ``mip_rel_gap`` is 1e-6 where nothing else is said.

    Returns
    -------
    pandas.DataFrame
        Index `case`, in the order of `only`; `cost` (objective of PyPSA, USD over the horizon), `added` (USD, against
        ``"without"``), `saved` (USD, against ``"fixed"``), `price` (USD/MWh, mean at the grid buses of the sites over
        the hours; expected, with scenarios), `gpu_hours` (GPU-hours that the jobs occupy, held ones included, weighted
        as the objective: times what one costs, the money that all else is to be compared with), `status` and `gap`
        (relative). Without a solution, `status` is ``"no
        solution"`` and all else NaN; ``attrs["failures"]`` says why, by case.

    Raises
    ------
    InputError
        No such site, a case that does not exist, or a job without baseline in ``"fixed"`` or ``"waiting"``.

    References
    ----------
    [1] Tong et al., arXiv:2610.13047 (2026), Table III.
    """
    chosen = _chosen(n, site, only)
    buses = [bus for name in chosen for bus in {account.bus for account in loads(n)[name].accounts(n).values()}]
    table, failures = {}, {}
    for case in only:
        copy = copy_network(n)
        for name, changes in chosen.items():
            if case == "without":
                remove(copy, name)
            else:
                changes[case](copy)
        try:
            result = optimize(copy, snapshots, **tight(options))
        except NotSolvedError as error:
            table[case] = {"cost": np.nan, "price": np.nan, "gpu_hours": np.nan, "status": "no solution", "gap": np.nan}
            failures[case] = str(error)
            continue
        price = float(np.mean([_mean_price(copy, bus) for bus in buses]))
        hours = np.nan if case == "without" else _gpu_hours(copy, chosen)
        table[case] = {"cost": result.objective, "price": price, "gpu_hours": hours}
        table[case] |= {"status": result.status, "gap": result.gap}
    frame = pd.DataFrame.from_dict(table, orient="index").rename_axis("case")
    for position, (name, reference, sign) in enumerate((("added", "without", 1), ("saved", "fixed", -1)), start=1):
        against = frame["cost"].get(reference, np.nan)
        frame.insert(position, name, sign * (frame["cost"] - against) + 0.0)
    # No site, no jobs that could save anything.
    frame.loc[frame.index == "without", "saved"] = np.nan
    frame.attrs["units"] = {"cost": "USD", "added": "USD", "saved": "USD", "price": "USD/MWh", "gap": "1"}
    frame.attrs["units"]["gpu_hours"] = "GPU-h"
    frame.attrs["failures"] = failures
    return frame


def break_even(
    n: pypsa.Network,
    /,
    site: str | None = None,
    snapshots: pd.Index | None = None,
    *,
    case: str = "free",
    **options: Any,
) -> pd.DataFrame:
    """Find the value of a GPU-hour up to which a flexible schedule saves more than its GPU-hours are worth.

    A flexible schedule saves money for energy, and may occupy GPUs for longer: it waits while it holds them, restarts,
    or runs in slower modes. The value at which nothing is left of the saving is found by solving at a value, taking the
    ratio of what that schedule saves to the GPU-hours that it takes more, and solving again at this value, until no
    schedule is better than the fixed one: each ratio is a lower bound, and the last one the highest there is. The
    network itself is not changed; values of a GPU-hour that it has are left aside.

    Parameters
    ----------
    n
        Network with sites; it need not be solved.
    site
        Name of the site; `None` for all sites together.
    snapshots
        Part of ``n.snapshots`` to optimise.
    case
        ``"free"``, the jobs as they are, or ``"waiting"``, in their baseline mode but free to wait; either against the
        jobs in their baseline mode from arrival to completion.
    options
        Passed to `optimize`; ``mip_rel_gap`` is 1e-6 where nothing else is said.

    Returns
    -------
    pandas.DataFrame
        One row a solve, index `gpu_value` (USD/GPU-h): `energy_saved` (USD, all but GPU-hours, against the fixed
        schedule), `more_gpu_hours` (GPU-h, against the fixed schedule; negative where flexible modes need fewer) and
        `saved` (USD, with GPU-hours at this value). ``attrs["break_even"]`` is the value in USD/GPU-h: 0 where nothing
        is saved even if GPU-hours are free, infinite where a schedule saves money and takes no GPU-hours more.

    Raises
    ------
    InputError
        No such site, another case, or a job without baseline.
    NotSolvedError
        The fixed or the flexible jobs have no solution.
    UnsupportedError
        A risk preference and `recourse`: the risk of energy and that of GPU-hours are no sum.

    Notes
    -----
    Without `held_gpus` in the rules of a job, a waiting job leaves its GPUs to others at once and waiting costs nothing
    but the restart: the break-even value is then high or infinite. With it, each hour of waiting costs them.
    """
    faults = Faults("n.aidc.break_even")
    faults.require(case in ("free", "waiting"), "case", case, "'free' or 'waiting'")
    faults.raise_any()
    if n.has_risk_preference and options.get("recourse") is not None:
        raise UnsupportedError(
            "break-even with a risk preference and recourse: GPU-hours then differ between scenarios, and their worth "
            "is no sum beside the risk. Leave out one of them, or compare n.aidc.optimize at several gpu_value."
        )
    chosen = _chosen(n, site, ("fixed", case))

    def solved(which: str, value: float) -> tuple[float, float, float]:
        copy = copy_network(n)
        for name, changes in chosen.items():
            changes[which](copy)
            jobs = [replace(load, gpu_value=None) for load in sites(copy)[name].loads.values()]
            update(copy, name, jobs=jobs, gpu_value=value)
        result = optimize(copy, snapshots, **{"prices": False, **tight(options)})
        hours = _gpu_hours(copy, chosen)
        return result.objective - value * hours, hours, abs(result.objective - result.bound)

    fixed_cost, fixed_hours, _ = solved("fixed", 0.0)
    table: dict[float, dict[str, float]] = {}
    value = 0.0
    while value not in table:
        cost, hours, uncertainty = solved(case, value)
        saving, more = fixed_cost - cost, hours - fixed_hours
        table[value] = {"energy_saved": saving, "more_gpu_hours": more, "saved": saving - value * more}
        least = max(uncertainty, _ROUNDING * max(1.0, abs(fixed_cost) + value * fixed_hours))
        if table[value]["saved"] <= least:
            break
        value = saving / more if more > _ROUNDING * fixed_hours else np.inf
        if np.isinf(value):
            break
    frame = pd.DataFrame.from_dict(table, orient="index").rename_axis("gpu_value")
    frame.attrs["units"] = {"energy_saved": "USD", "more_gpu_hours": "GPU-h", "saved": "USD"}
    frame.attrs["break_even"] = value
    return frame


def _chosen(n: pypsa.Network, site: str | None, only: Sequence[str]) -> dict[str, dict[str, Change]]:
    """For each load to compare, the change to each case but ``"without"``."""
    found = loads(n)
    known = {name: load for name, load in found.items() if load.restricted("free") is not None}
    faults = Faults("n.aidc.compare")
    if known:
        faults.require(site is None or site in known, "site", site, f"one of {sorted(known)}")
    else:
        there = f"{', '.join(found)}: no freedom that could be taken" if found else "no AIDC"
        faults.add("n", there, "a load with jobs", "Add one with n.aidc.add.")
    cases = faults.listed("only", only, f"a list of some of {', '.join(_CASES)}")
    faults.require(bool(cases), "only", only, f"some of {', '.join(_CASES)}")
    for case in cases:
        faults.require(case in _CASES, "only", case, f"some of {', '.join(_CASES)}")
        faults.require(cases.count(case) == 1, "only", case, "each case once")
    faults.raise_any()
    chosen: dict[str, dict[str, Change]] = {name: {} for name in known if site in (None, name)}
    for name, changes in chosen.items():
        try:
            for case in (case for case in _FREEDOMS if case in cases):
                change = known[name].restricted(case)
                assert change is not None
                changes[case] = change
        except InputError as error:
            for fault in error.faults:
                faults.add(fault.where, fault.given, fault.expected, f"{fault.remedy} Or only=['without', 'free'].")
    faults.raise_any()
    return chosen


def _gpu_hours(n: pypsa.Network, names: Iterable[str]) -> float:
    """GPU-hours that the jobs of some sites occupy; their expectation, with scenarios."""
    if not n.has_scenarios:
        return sum(gpu_hours(n, sites(n)[name]) for name in names)
    weights = probabilities(n)
    return sum(weights[scenario] * _gpu_hours(one, names) for scenario, one in in_scenarios(n).items())


def _mean_price(n: pypsa.Network, bus: str) -> float:
    """Mean price at a bus; PyPSA leaves those of scenarios multiplied by their probability."""
    prices = n.c.buses.dynamic["marginal_price"]
    price = prices[rows(prices.columns, bus)].sum(axis=1, min_count=1).dropna()
    weight = objective_weight(n, price.index)
    return float((price * weight).sum() / weight.sum()) if len(price) else np.nan


def values(
    n: pypsa.Network,
    /,
    snapshots: pd.Index | None = None,
    *,
    gpus: int = 1,
    p_nom: float = 1.0,
    deadline: float = 1.0,
    only: Sequence[str] = ("gpus", "p_nom", "deadline", "waiting", "relief"),
    **options: Any,
) -> pd.DataFrame:
    """Value of more GPUs, connection and time, of waiting and of relief, each by solving again with or without it.

    Discrete decisions have no marginal value: the first extra GPU is often worth nothing and a whole server much. So
    a step is taken and the optimum compared. The network itself is not changed.

    Parameters
    ----------
    n
        Network with sites or fleets; it need not be solved.
    snapshots
        Part of ``n.snapshots`` to optimise.
    gpus
        Step of the pool; modes too large for the present one come in with it.
    p_nom
        Step of the connection in MW.
    deadline
        Step of the deadlines in hours, for all jobs of a site, but not beyond the horizon.
    only
        Which of ``"gpus"``, ``"p_nom"``, ``"deadline"`` and ``"waiting"`` to compute for each site (one without a
        deadline before the end of the horizon has no row for it), and whether ``"relief"`` for each fleet that has
        terms.
    options
        Passed to `optimize`; ``mip_rel_gap`` is 1e-6 where nothing else is said, since small values drown in a gap.

    Returns
    -------
    pandas.DataFrame
        Index (site, what); `step`, `unit`, `value` (USD over the horizon: what the objective falls by with the step,
        or rises by without waiting or relief; infinite if there is no solution without it), `uncertainty` (USD, the
        sum of the two gaps) and `significant`, whether the value is larger than that and than a solver's rounding.

    Raises
    ------
    InputError
        A step that is not positive, an unknown word in `only`, or nothing that has any of these values.
    InfeasibleError
        The network is infeasible as it is.
    """
    faults = Faults("n.aidc.values")
    faults.number("gpus", gpus, at_least=1, integer=True)
    faults.number("p_nom", p_nom, above=0)
    faults.number("deadline", deadline, above=0)
    horizon = min(window.slots.total for window in windows(n, snapshots))
    known = ("gpus", "p_nom", "deadline", "waiting", "relief")
    asked = faults.listed("only", only, f"a list of some of {', '.join(known)}")
    faults.require(bool(asked), "only", only, f"some of {', '.join(known)}")
    for word in asked:
        faults.require(word in known, "only", word, f"some of {', '.join(known)}")
    faults.raise_any()
    steps = {"gpus": float(gpus), "p_nom": p_nom, "deadline": deadline}
    questions: list[tuple[str, str, float, str, bool, Change]] = []
    for name, load in loads(n).items():
        offered = {change[0]: change for change in load.changes(steps, horizon)}
        questions += [(name, *offered[word]) for word in only if word in offered]
    there = f"{', '.join(loads(n))}: nothing that has such a value" if loads(n) else "no AIDC"
    faults.require(bool(questions), "n", there, f"at least one with {' or '.join(only)}")
    faults.raise_any()
    present = _solve(n, snapshots, options)
    table: dict[tuple[str, str], dict[str, object]] = {}
    for name, word, step, unit, taken, change in track(questions, "values, one solve each"):
        other = copy_network(n)
        change(other)
        try:
            solved = _solve(other, snapshots, options)
            value = solved[0] - present[0] if taken else present[0] - solved[0]
            uncertainty = present[1] + solved[1]
        except InfeasibleError:
            value, uncertainty = float("inf"), 0.0
        table[name, word] = {"step": step, "unit": unit, "value": value, "uncertainty": uncertainty}
        rounding = _ROUNDING * max(1.0, abs(present[0]))
        table[name, word]["significant"] = bool(abs(value) > max(uncertainty, rounding))
    frame = pd.DataFrame.from_dict(table, orient="index")
    frame.index = pd.MultiIndex.from_tuples(list(table), names=["site", "what"])
    frame.attrs["units"] = {"value": "USD", "uncertainty": "USD"}
    return frame


def _solve(n: pypsa.Network, snapshots: pd.Index | None, options: dict[str, Any]) -> tuple[float, float]:
    copy = copy_network(n)
    result = optimize(copy, snapshots, **{"prices": False, **tight(options)})
    return result.objective, abs(result.objective - result.bound)


def tight(options: dict[str, Any]) -> dict[str, Any]:
    """Options of `optimize` with a gap small enough for differences, where none is given and HiGHS solves."""
    solver = options.get("solver_name") or pypsa.options.params.optimize.solver_name
    given = "mip_rel_gap" in {**options, **(options.get("solver_options") or {})}
    return options if given or solver != "highs" else {**options, "mip_rel_gap": _GAP}
