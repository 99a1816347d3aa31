"""What it is worth in a network with scenarios to know more, to decide later, or to plan with all scenarios at all."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import pypsa
import xarray as xr

from pypsa_aidc.errors import Faults, NotSolvedError, UnsupportedError
from pypsa_aidc.network.loads.decisions import built_in
from pypsa_aidc.network.model.hook import ExtraFunctionality, compose
from pypsa_aidc.network.model.recourse import Given
from pypsa_aidc.network.pypsa_api import copy_network, scenario_networks
from pypsa_aidc.network.results.scenarios import probabilities
from pypsa_aidc.network.solve.optimize import optimize
from pypsa_aidc.network.solve.result import Result
from pypsa_aidc.network.whatif import tight

_WORTH = {
    "plan of the mean": "value of the stochastic solution (VSS)",
    "here and now": "",
    "recourse": "value of deciding later",
    "perfect foresight": "expected value of perfect information (EVPI)",
}


def value_of_information(
    n: pypsa.Network, /, snapshots: pd.Index | None = None, *, recourse: Given = None, **options: Any
) -> pd.DataFrame:
    """Expected cost of a network with scenarios by what is known when its jobs, calls and capacities are decided.

    ``"plan of the mean"``: schedules, calls and capacities of the network of mean values, kept in every scenario;
    ``"here and now"``: decided once, for all scenarios; ``"recourse"``: schedules and calls by scenario from a snapshot
    on; ``"perfect foresight"``: all decided in each scenario alone. Dispatch follows the scenario in all of them, so
    that each costs at most as much as the one before. The network itself is not changed.

    Parameters
    ----------
    n
        Network with scenarios; it need not be solved.
    snapshots
        Part of ``n.snapshots`` to optimise.
    recourse
        As for `optimize`; `None` leaves the row out.
    options
        Passed to `optimize`; ``mip_rel_gap`` is 1e-6 where nothing else is said.

    Returns
    -------
    pandas.DataFrame
        Index `plan`; `cost` (expected objective, USD; infinite where the plan of the mean cannot be kept in some
        scenario), `value` (USD, the difference to ``"here and now"``) and what it is the value of, in words; `status`
        and `gap` (relative, the worst).

    Raises
    ------
    InputError
        No scenarios, or scenarios that differ in what has no mean.
    UnsupportedError
        A risk preference: the risk of a sum over scenarios is no sum over networks.
    InfeasibleError
        The network is infeasible as it is.

    References
    ----------
    [1] Birge and Louveaux, Introduction to Stochastic Programming (2011), Ch. 4.
    """
    faults = Faults("n.aidc.value_of_information")
    remedy = "n.set_scenarios({name: probability}) makes scenarios."
    faults.require(n.has_scenarios, "network", "no scenarios", "at least two of them", remedy)
    faults.raise_any()
    if n.has_risk_preference:
        raise UnsupportedError(
            "value of information with a risk preference: with perfect foresight there is one network a scenario, and "
            "none to which the preference applies. Compare n.aidc.optimize(recourse=...) with and without."
        )
    mean = mean_network(n)
    wanted = {"prices": False, **tight(options)}
    extra: ExtraFunctionality | None = wanted.pop("extra_functionality", None)

    def solved(network: pypsa.Network, plan: Mapping[str, xr.DataArray] | None = None, **more: Any) -> Result:
        kept = compose(extra, None if plan is None else lambda own, _: _keep(own, plan))
        return optimize(network, snapshots, extra_functionality=kept, **{**wanted, **more})

    first = solved(copy_network(n))
    found = {"here and now": (first.objective, first.status, first.gap)}
    solved(mean)
    try:
        fixed = solved(copy_network(n), _plan(mean), warm_start=False)
        found["plan of the mean"] = fixed.objective, fixed.status, fixed.gap
    except NotSolvedError:
        found["plan of the mean"] = float("inf"), "no solution", float("nan")
    if recourse is not None:
        later = solved(copy_network(n), recourse=recourse)
        found["recourse"] = later.objective, later.status, later.gap
    weights, alone = probabilities(n), {name: solved(one) for name, one in scenario_networks(n).items()}
    known = sum(weights[name] * each.objective for name, each in alone.items())
    ended = next((each.status for each in alone.values() if not each.optimal), "optimal")
    found["perfect foresight"] = known, ended, max(each.gap for each in alone.values())
    table = {
        plan: {"cost": found[plan][0], "value": abs(found[plan][0] - first.objective), "of": worth}
        | {"status": found[plan][1], "gap": found[plan][2]}
        for plan, worth in _WORTH.items()
        if plan in found
    }
    frame = pd.DataFrame.from_dict(table, orient="index").rename_axis("plan")
    frame.attrs["units"] = {"cost": "USD", "value": "USD", "gap": "1"}
    return frame


def mean_network(n: pypsa.Network) -> pypsa.Network:
    """Return a network without scenarios in which each value is the mean of those in the scenarios.

    Raises
    ------
    InputError
        Scenarios that differ in something that has no mean: a name, a switch, a limit that is infinite in one of them.
    """
    networks, weights = scenario_networks(n), probabilities(n)
    mean = copy_network(next(iter(networks.values())))
    faults = Faults("mean of scenarios")
    for component in mean.components:
        inputs = component.defaults.index[component.defaults["status"].str.startswith("Input")]
        own = {scenario: one.c[component.name] for scenario, one in networks.items()}
        for attribute in inputs.intersection(component.static.columns):
            for name in component.static.index:
                values = {scenario: each.static.at[name, attribute] for scenario, each in own.items()}
                where = f"{component.name} {name!r}, {attribute}"
                component.static.at[name, attribute] = _mean(values, weights, where, faults)
        for attribute in inputs.intersection(list(component.dynamic)):
            for name in dict.fromkeys(label for each in own.values() for label in each.dynamic[attribute].columns):
                values = {
                    scenario: one.get_switchable_as_dense(component.name, attribute)[name].to_numpy()
                    for scenario, one in networks.items()
                }
                where = f"{component.name} {name!r}, {attribute}"
                component.dynamic[attribute][name] = _mean(values, weights, where, faults)
    faults.raise_any()
    return mean


def _mean(values: Mapping[str, Any], weights: Mapping[str, float], where: str, faults: Faults) -> Any:
    """Weighted mean of values, or of series, that differ between scenarios."""
    first, *others = (np.atleast_1d(np.asarray(value)) for value in values.values())
    if all(pd.Series(first).equals(pd.Series(other)) for other in others):
        return next(iter(values.values()))
    numbers = all(np.issubdtype(each.dtype, np.number) and np.isfinite(each).all() for each in (first, *others))
    faults.require(numbers, where, "not alike in all scenarios", "numbers, which have a mean")
    return sum(weights[name] * value for name, value in values.items()) if numbers else next(iter(values.values()))


def _plan(n: pypsa.Network) -> dict[str, xr.DataArray]:
    """What a solved network without scenarios has decided, of all that is decided once for all scenarios."""
    whole = {name for built in built_in(n) for name in built.integers if name in n.model.variables}
    capacity = {name for name in n.model.variables if name.endswith("_nom")}
    plan = {name: n.model.variables[name].solution for name in sorted(whole | capacity)}
    return {name: values.round() if name in whole else values for name, values in plan.items()}


def _keep(n: pypsa.Network, plan: Mapping[str, xr.DataArray]) -> None:
    """Fix what a plan has decided in a model with scenarios."""
    m = n.model
    for name, values in plan.items():
        for own in [each for each in m.variables if each == name or each.startswith(f"{name} in ")]:
            m.add_constraints(m[own] == values, name=f"AIDC-plan {own}")
