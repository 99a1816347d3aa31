"""What one more GPU, MW of connection or hour, and the permission to wait are worth at each site."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pandas as pd
import pypsa

from pypsa_aidc.errors import Faults, InfeasibleError
from pypsa_aidc.network.index import rows
from pypsa_aidc.network.loads.addition import update
from pypsa_aidc.network.loads.fleet_spec import Fleet, fleets
from pypsa_aidc.network.loads.site import Site, copy_network, sites
from pypsa_aidc.network.model.horizon import windows
from pypsa_aidc.network.solve.optimize import optimize
from pypsa_aidc.progress import track

_GAP = 1e-6
_ROUNDING = 1e-8
"""Share of the objective within which two solves of the same problem may differ."""

Change = Callable[[pypsa.Network], None]


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
        Step of the pool. Modes too large for the present pool were left out by `add` and do not come back.
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
    of_sites: dict[str, tuple[float, str, Callable[[Site], Change]]] = {
        "gpus": (gpus, "GPUs", lambda site: partial(_more_gpus, site=site, step=gpus)),
        "p_nom": (p_nom, "MW", lambda site: partial(_larger_connection, site=site, step=p_nom)),
        "deadline": (deadline, "h", lambda site: partial(_later, site=site, step=deadline, horizon=horizon)),
        "waiting": (1, "", lambda site: partial(_no_waiting, site=site)),
    }
    asked = faults.listed("only", only, f"a list of some of {', '.join(of_sites)}, relief")
    faults.require(bool(asked), "only", only, f"some of {', '.join(of_sites)}, relief")
    for word in asked:
        faults.require(word in (*of_sites, "relief"), "only", word, f"some of {', '.join(of_sites)}, relief")
    faults.raise_any()
    questions: list[tuple[str, str, float, str, Change]] = []
    for site in sites(n).values():
        dated = any(load.deadline is not None and load.deadline < horizon for load in site.loads.values())
        for word in (word for word in only if word in of_sites and (dated or word != "deadline")):
            step, unit, change_of = of_sites[word]
            questions.append((site.name, word, step, unit, change_of(site)))
    if "relief" in only:
        flexible = [fleet for fleet in fleets(n).values() if fleet.terms.form != "firm"]
        questions += [(fleet.name, "relief", 1.0, "", partial(_no_relief, fleet=fleet)) for fleet in flexible]
    faults.require(bool(questions), "n", "no site or fleet", f"at least one with {' or '.join(only)}")
    faults.raise_any()
    present = _solve(n, snapshots, options)
    table: dict[tuple[str, str], dict[str, object]] = {}
    for name, word, step, unit, change in track(questions, "values, one solve each"):
        other = copy_network(n)
        change(other)
        try:
            solved = _solve(other, snapshots, options)
            value = solved[0] - present[0] if word in ("waiting", "relief") else present[0] - solved[0]
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


def _more_gpus(n: pypsa.Network, site: Site, step: int) -> None:
    update(n, site.name, gpus=site.spec.gpus + step)


def _larger_connection(n: pypsa.Network, site: Site, step: float) -> None:
    labels = rows(n.links.index, site.link)
    n.links.loc[labels, ["p_nom", "p_nom_min"]] += step


def _later(n: pypsa.Network, site: Site, step: float, horizon: float) -> None:
    loads = [
        load if load.deadline is None else replace(load, deadline=min(load.deadline + step, horizon))
        for load in site.loads.values()
    ]
    update(n, site.name, jobs=loads)


def _no_relief(n: pypsa.Network, fleet: Fleet) -> None:
    n.generators.loc[rows(n.generators.index, fleet.relief), "p_max_pu"] = 0.0
    series = n.c.generators.dynamic["p_max_pu"]
    series.loc[:, rows(series.columns, fleet.relief)] = 0.0


def _no_waiting(n: pypsa.Network, site: Site) -> None:
    without = {"waiting": False, "min_wait": 0.0, "restart_hours": 0.0, "restart_energy": 0.0}
    update(n, site.name, jobs=[load.with_rules(**without) for load in site.loads.values()])
