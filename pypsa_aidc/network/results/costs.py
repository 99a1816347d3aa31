"""Costs of a solved network by component, and what each AIDC pays."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress

import numpy as np
import pandas as pd
import pypsa

from pypsa_aidc.errors import AIDCError, NotSolvedError
from pypsa_aidc.network.loads.protocol import SOLVE
from pypsa_aidc.network.loads.registry import loads, solved
from pypsa_aidc.network.pypsa_api import columns, names

_OPERATED = (("Generator", "p"), ("Link", "p0"), ("Process", "p"), ("StorageUnit", "p_dispatch"), ("Store", "p"))
"""Components with a `marginal_cost`, linear and quadratic, and the power that it is for."""

_KEPT = (
    ("Store", "e", "marginal_cost_storage"),
    ("StorageUnit", "state_of_charge", "marginal_cost_storage"),
    ("StorageUnit", "spill", "spill_cost"),
)
_COMMITTED = (("start_up", "start_up_cost"), ("shut_down", "shut_down_cost"), ("status", "stand_by_cost"))
_BUILT = {
    "Generator": "p_nom",
    "Line": "s_nom",
    "Transformer": "s_nom",
    "Link": "p_nom",
    "Process": "p_nom",
    "Store": "e_nom",
    "StorageUnit": "p_nom",
}

TOTAL = "total"
"""Part of a bill that is the sum of the others."""


def operating_costs(n: pypsa.Network) -> pd.DataFrame:
    """Costs by component and carrier, with rewards for feed-in stated as costs of curtailment.

    A generator with a negative `marginal_cost` of -c costs c for each MWh curtailed, less a constant of c times its
    available energy: PyPSA optimises the first, people read the second. Here such a generator costs c times its
    curtailed energy. The total is that of Eq. 35 of [1], and of all other terms of PyPSA's objective; less `rewards`,
    it is ``n.objective + n.objective_constant``, with the weights of snapshots and investment periods. Parts of
    AIDCs that cost nothing themselves are left out.

    Parameters
    ----------
    n
        Solved network without scenarios.

    Returns
    -------
    pandas.DataFrame
        Index (component, carrier); `energy` (MWh, weighted by the objective weighting) and `cost` (USD, with quadratic
        and storage costs, start-ups and stand-by); curtailed energy under the component ``"Curtailment"``, what is
        built under ``"Investment"``, mode changes of jobs under ``"Mode changes"`` and the site, what the GPU-hours
        of its jobs are worth under ``"GPUs"``, and their hours in the queue under ``"Delay"``.

    Raises
    ------
    NotSolvedError
        The network has no dispatch.

    References
    ----------
    [1] Tong et al., arXiv:2610.13047 (2026), Eq. 35.
    """
    if all(n.c[component].dynamic[attribute].empty for component, attribute in _OPERATED):
        raise NotSolvedError(f"no dispatch in this network, and so no operating costs. {SOLVE}")
    chosen = _solved_snapshots(n)
    table = [*_marginal(n, chosen), *_other(n, chosen), *_investment(n), *_own_costs(n)]
    whole = pd.concat(table) if table else pd.DataFrame(columns=["energy", "cost"])
    frame = whole.groupby(level=["component", "carrier"], sort=False).sum() if len(whole) else whole
    frame.attrs["units"] = {"energy": "MWh", "cost": "USD"}
    return frame


def operating_objective(costs: pd.DataFrame, n: pypsa.Network) -> float:
    """What a scenario costs in PyPSA's objective without investment: `operating_costs` less its constant, USD."""
    return float(costs["cost"].drop("Investment", level="component", errors="ignore").sum()) - rewards(n)


def with_risk(
    costs: pd.DataFrame, risk: Mapping[str, float], scenarios: Mapping[str, tuple[float, float]]
) -> pd.DataFrame:
    """Costs with what a risk preference adds to their expectation.

    Parameters
    ----------
    costs
        Expected costs.
    risk
        PyPSA's `alpha` and `omega`; empty for none.
    scenarios
        Probability and operating cost in USD of each scenario.
    """
    if not risk:
        return costs
    probability, cost = (np.array(values) for values in zip(*scenarios.values(), strict=True))
    excess = np.maximum(cost[None, :] - cost[:, None], 0.0) @ probability
    expected, tail = float(probability @ cost), float((cost + excess / (1 - risk["alpha"])).min())
    row = pd.DataFrame(0.0, pd.MultiIndex.from_tuples([("Risk", "CVaR")], names=costs.index.names), costs.columns)
    row["cost"] = risk["omega"] * (tail - expected)
    whole = pd.concat([costs, row])
    told = {"alpha": risk["alpha"], "omega": risk["omega"], "expected": expected, "cvar": tail}
    whole.attrs = costs.attrs | {"risk": told}
    return whole


def rewards(n: pypsa.Network) -> float:
    """Return what all available energy with a reward for feed-in would earn, USD: the constant of `operating`."""
    chosen = _solved_snapshots(n)
    price = n.get_switchable_as_dense("Generator", "marginal_cost").loc[chosen]
    paid = price.columns[(price < 0).any().to_numpy() & ~names(price.columns).isin(_own(n))]
    available = _available(n, paid, chosen)
    return float(-(available * price[paid]).mul(objective_weight(n, chosen), axis=0).to_numpy().sum())


def objective_weight(n: pypsa.Network, snapshots: pd.Index) -> pd.Series:
    """Weight of each snapshot in the objective, that of its investment period included."""
    weight: pd.Series = n.snapshot_weightings["objective"].loc[snapshots]
    if isinstance(snapshots, pd.MultiIndex):
        periods = n.investment_period_weightings["objective"].reindex(snapshots.get_level_values(0))
        weight = weight * periods.to_numpy(float)
    return weight


def _solved_snapshots(n: pypsa.Network) -> pd.Index:
    """Snapshots that were optimised, as far as the AIDCs in the network tell."""
    if loads(n):
        with suppress(AIDCError):
            return solved(n)
    everything: pd.Index = n.snapshots
    return everything


def _marginal(n: pypsa.Network, chosen: pd.Index) -> Iterator[pd.DataFrame]:
    weight, parts = objective_weight(n, chosen), _own(n)
    for component, attribute in _OPERATED:
        static, dynamic = n.c[component].static, n.c[component].dynamic
        power = dynamic[attribute].loc[chosen] if not dynamic[attribute].empty else dynamic[attribute]
        if power.empty:
            continue
        unit_cost = n.get_switchable_as_dense(component, "marginal_cost")[power.columns].loc[chosen]
        pieces = dynamic.get("marginal_cost_piecewise_opt", pd.DataFrame())
        if len(pieces.columns):
            unit_cost = unit_cost.add(pieces.loc[chosen], fill_value=0.0)[power.columns]
        square = n.get_switchable_as_dense(component, "marginal_cost_quadratic")[power.columns].loc[chosen]
        free = names(power.columns).isin(parts) & ((unit_cost == 0) & (square == 0)).all().to_numpy()
        rewarded = (unit_cost < 0).any().to_numpy() & (component == "Generator") & ~names(power.columns).isin(parts)
        plain = power.columns[~rewarded & ~free]
        carrier = static["carrier"].reindex(power.columns)
        yield _by_carrier(component, power[plain] * unit_cost[plain], carrier, weight, power[plain])
        yield _by_carrier(component, power**2 * square, carrier, weight)
        paid = power.columns[rewarded]
        if len(paid):
            curtailed = _available(n, paid, chosen) - power[paid]
            yield _by_carrier("Curtailment", -unit_cost[paid] * curtailed, carrier, weight, curtailed)


def _other(n: pypsa.Network, chosen: pd.Index) -> Iterator[pd.DataFrame]:
    """Costs of what is stored and spilled, and of commitment."""
    weight = objective_weight(n, chosen)
    kept = [(component, attribute, cost, weight) for component, attribute, cost in _KEPT]
    # PyPSA weighs neither start-ups nor shut-downs.
    once = pd.Series(1.0, chosen)
    kept += [
        (component, attribute, cost, weight if attribute == "status" else once)
        for component in ("Generator", "Link", "Process")
        for attribute, cost in _COMMITTED
    ]
    for component, attribute, cost, weighting in kept:
        static, values = n.c[component].static, n.c[component].dynamic[attribute]
        if values.empty or cost not in static:
            continue
        costed = values.columns
        if "committable" in static and (attribute, cost) in _COMMITTED:
            costed = costed[static["committable"].reindex(costed).astype(bool)]
        unit_cost = n.get_switchable_as_dense(component, cost)[costed].loc[chosen]
        carrier = static["carrier"].reindex(costed)
        yield _by_carrier(component, values.loc[chosen, costed] * unit_cost, carrier, weighting)


def _investment(n: pypsa.Network) -> Iterator[pd.DataFrame]:
    """Costs of all capacity that was free to be built, for the periods in which it is there."""
    for component, attribute in _BUILT.items():
        own = n.c[component]
        if own.static.empty:
            continue
        static = own.static[own.static[f"{attribute}_extendable"].astype(bool) & own.static["active"].astype(bool)]
        if static.empty:
            continue
        years = pd.Series(1.0, static.index)
        if len(n.investment_periods):
            weight = n.investment_period_weightings["objective"]
            active = [own.get_active_assets(period).reindex(static.index) * weight[period] for period in weight.index]
            years = sum(active[1:], active[0])
        unit = own.periodized_cost.to_series().reindex(static.index)
        cost = (static[f"{attribute}_opt"] * unit * years).to_frame().T
        if (cost != 0).any(axis=None):
            carrier = static["carrier"] if "carrier" in static else pd.Series("", static.index)
            yield _by_carrier("Investment", cost, carrier, pd.Series(1.0, cost.index))


def _own_costs(n: pypsa.Network) -> Iterator[pd.DataFrame]:
    """Costs of what loads decide and no component has, such as changes of modes; one row a load where there are any."""
    for name, what, cost in ((name, *each) for name, load in loads(n).items() for each in load.own_costs(n).items()):
        if cost:
            index = pd.MultiIndex.from_tuples([(what, name)], names=["component", "carrier"])
            yield pd.DataFrame({"energy": 0.0, "cost": cost}, index)


def _own(n: pypsa.Network) -> list[str]:
    """Components of loads, which cost nothing themselves, but for relief."""
    return [part for load in loads(n).values() for part in load.costless]


def _available(n: pypsa.Network, generators: pd.Index, snapshots: pd.Index) -> pd.DataFrame:
    """Available power of generators with what was built, MW."""
    static = n.generators
    capacity = static["p_nom"].where(~static["p_nom_extendable"], static["p_nom_opt"])[generators]
    available: pd.DataFrame = n.get_switchable_as_dense("Generator", "p_max_pu")[generators].loc[snapshots] * capacity
    return available


def bill(n: pypsa.Network, power: pd.DataFrame) -> pd.DataFrame:
    """Energy and payments of each site and fleet, at the price of the bus that its meter is at.

    A site pays for what its meter takes from the grid bus: each MW of IT takes PUE times as much. The price of the IT
    bus itself is not asked: where the connection is full, it contains what a larger one would be worth, which nobody
    pays, and where the site draws exactly what the connection bears, it is not even determined.

    Parameters
    ----------
    n
        Solved network without scenarios.
    power
        Power by (site, part), as `Results.power` gives it.

    Returns
    -------
    pandas.DataFrame
        Index (site, part), the last part of each ``"total"``; `level` (``"IT"`` for the parts of a site, before the
        PUE, ``"meter"`` for fleets and all totals), `energy` (MWh at that level), `payment` (USD, that of a total the
        sum; weighted by snapshots and investment periods as the objective), `price` (USD/MWh, payment over energy; NaN
        where there is none), `mean_price` (USD/MWh over time at that level) and `timing` (USD, what the energy would
        cost at the mean price less what it does cost). Relief of a fleet counts negative: it is what the fleet does
        not draw and does not pay. Payments are NaN where the network has no prices. Where a site has a `gpu_value`,
        there is also `gpu_cost` (USD), what the GPU-hours of each job are worth: no payment for energy, and no part of
        `payment`.
    """
    accounts = {(name, part): account for name, load in loads(n).items() for part, account in load.accounts(n).items()}
    table: dict[tuple[str, str], dict[str, float]] = {}
    totals: dict[str, float] = {}
    prices = n.c.buses.dynamic["marginal_price"]
    weight = objective_weight(n, power.index)
    for (name, part), account in accounts.items():
        energy = account.sign * power[name, part] * weight
        price = columns(prices, [account.bus])[account.bus].loc[power.index]
        metered = pd.Series(account.metered, n.snapshots).loc[power.index] * price
        payment, mean = energy * metered, float((metered * weight).sum(skipna=False) / weight.sum())
        table[name, part] = {"energy": float(energy.sum()), "payment": float(payment.sum(skipna=False)), "mean": mean}
        totals[name] = totals.get(name, 0.0) + table[name, part]["payment"]
    for name, paid in totals.items():
        own = [row for (owner, _), row in table.items() if owner == name]
        taken = float((power[name, "meter"] * weight).sum())
        at_mean = sum(row["mean"] * row["energy"] for row in own)
        table[name, TOTAL] = {"energy": taken, "payment": paid, "mean": at_mean / taken if taken else np.nan}
    worth = {name: load.worth(n) for name, load in loads(n).items()}
    # Parts of a site or fleet together, the total after them.
    table = {key: table[key] for name in totals for key in table if key[0] == name}
    frame = pd.DataFrame.from_dict(table, orient="index")
    frame.insert(0, "level", [accounts[key].level if key in accounts else "meter" for key in table])
    frame["price"] = frame["payment"] / frame["energy"].where(frame["energy"] != 0)
    frame["mean_price"] = frame.pop("mean")
    frame["timing"] = frame["mean_price"] * frame["energy"] - frame["payment"]
    if any(worth.values()):
        frame["gpu_cost"] = [
            sum(worth[name].values()) if part == TOTAL else worth[name].get(part, 0.0) for name, part in table
        ]
    frame.index = pd.MultiIndex.from_tuples(list(table), names=["site", "part"])
    usd = {"payment": "USD", "timing": "USD", "price": "USD/MWh", "mean_price": "USD/MWh"}
    usd |= {"gpu_cost": "USD"} if "gpu_cost" in frame else {}
    frame.attrs["units"] = {"energy": "MWh"} | usd
    return frame


def _by_carrier(
    component: str, cost: pd.DataFrame, carrier: pd.Series, weight: pd.Series, power: pd.DataFrame | None = None
) -> pd.DataFrame:
    """Sums by carrier, or by name where there is none, of costs in USD/h and power in MW."""
    energy = 0.0 if power is None else power.mul(weight, axis=0).sum()
    parts = pd.DataFrame({"energy": energy, "cost": cost.mul(weight, axis=0).sum()}, cost.columns)
    label = carrier.reindex(cost.columns).replace("", np.nan)
    label = label.fillna(pd.Series(names(cost.columns), cost.columns))
    grouped = parts.groupby(label.to_numpy()).sum()
    grouped.index = pd.MultiIndex.from_product([[component], grouped.index], names=["component", "carrier"])
    # Rows of nothing but further costs are only there where there are any.
    return grouped if power is not None else grouped[grouped["cost"] != 0]
