"""Operating costs of a solved network, and what each AIDC pays."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pypsa

from pypsa_aidc.errors import NotSolvedError
from pypsa_aidc.network.loads.protocol import SOLVE
from pypsa_aidc.network.loads.registry import loads
from pypsa_aidc.network.pypsa_api import columns, names

_OPERATED = (
    ("Generator", "p", "marginal_cost"),
    ("Link", "p0", "marginal_cost"),
    ("StorageUnit", "p_dispatch", "marginal_cost"),
    ("Store", "p", "marginal_cost"),
)


TOTAL = "total"
"""Part of a bill that is the sum of the others."""


def operating(n: pypsa.Network) -> pd.DataFrame:
    """Operating costs by component and carrier, with rewards for feed-in stated as costs of curtailment.

    A generator with a negative `marginal_cost` of -c costs c for each MWh curtailed, less a constant of c times its
    available energy: PyPSA optimises the first, people read the second. Here such a generator costs c times its
    curtailed energy. The parts of the AIDCs cost nothing themselves and are left out, but for the relief of fleets,
    which costs its `marginal_cost`. The total is that of Eq. 35 of [1]; it differs from `n.objective` by that constant,
    and by investment, start-up, quadratic and mode-change costs, which it does not contain.

    Returns
    -------
    pandas.DataFrame
        Index (component, carrier); `energy` (MWh, weighted by the objective weighting) and `cost` (USD); curtailed
        energy under the component ``"Curtailment"``.

    Raises
    ------
    NotSolvedError
        The network has no dispatch.

    References
    ----------
    [1] Tong et al., arXiv:2610.13047 (2026), Eq. 35.
    """
    if all(n.c[component].dynamic[attribute].empty for component, attribute, _ in _OPERATED):
        raise NotSolvedError(f"no dispatch in this network, and so no operating costs. {SOLVE}")
    weight = n.snapshot_weightings["objective"]
    parts = _own(n)
    table = []
    for component, attribute, price in _OPERATED:
        static, dynamic = n.c[component].static, n.c[component].dynamic
        own = names(static.index).isin(parts)
        power = dynamic[attribute].drop(columns=static.index[own], errors="ignore")
        if power.empty:
            continue
        unit_cost = n.get_switchable_as_dense(component, price)[power.columns].loc[power.index]
        carrier = static["carrier"].reindex(power.columns)
        rewarded = (unit_cost < 0).any() & (component == "Generator")
        plain = power.columns[~rewarded.to_numpy()]
        table.append(_by_carrier(component, power[plain], unit_cost[plain], carrier, weight))
        paid = power.columns[rewarded.to_numpy()]
        if len(paid):
            curtailed = _available(n, paid, power.index) - power[paid]
            table.append(_by_carrier("Curtailment", curtailed, -unit_cost[paid], carrier, weight))
    frame = pd.concat(table) if table else pd.DataFrame(columns=["energy", "cost"])
    frame.attrs["units"] = {"energy": "MWh", "cost": "USD"}
    return frame


def rewards(n: pypsa.Network) -> float:
    """Return what all available energy with a reward for feed-in would earn, USD: the constant of `operating`."""
    price = n.get_switchable_as_dense("Generator", "marginal_cost")
    paid = price.columns[(price < 0).any().to_numpy() & ~names(price.columns).isin(_own(n))]
    power = n.c.generators.dynamic["p"]
    available = _available(n, paid, power.index)
    weight = n.snapshot_weightings["objective"].loc[power.index]
    return float(-(available * price[paid].loc[power.index]).mul(weight, axis=0).to_numpy().sum())


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
    """Energy and payments of each site and fleet, at the price of its bus.

    The price of the IT bus of a site is PUE times that of the grid bus.

    Parameters
    ----------
    n
        Solved network.
    power
        Power by (site, part), as `Results.power` gives it.

    Returns
    -------
    pandas.DataFrame
        Index (site, part), the last part of each ``"total"``; `level` (``"IT"`` for the parts of a site, before the
        PUE, ``"meter"`` for fleets and all totals), `energy` (MWh at that level), `payment` (USD, that of a total the
        sum) and `price` (USD/MWh, payment over energy; NaN where there is none). Relief of a fleet counts negative: it
        is what the fleet does not draw and does not pay. Payments are NaN where the network has no prices.
    """
    accounts = {(name, part): account for name, load in loads(n).items() for part, account in load.accounts(n).items()}
    table: dict[tuple[str, str], dict[str, float]] = {}
    totals: dict[str, float] = {}
    prices = n.c.buses.dynamic["marginal_price"]
    weight = n.snapshot_weightings["objective"].loc[power.index]
    for (name, part), account in accounts.items():
        energy = account.sign * power[name, part] * weight
        payment = energy * columns(prices, [account.bus])[account.bus].loc[power.index]
        table[name, part] = {"energy": float(energy.sum()), "payment": float(payment.sum(skipna=False))}
        totals[name] = totals.get(name, 0.0) + table[name, part]["payment"]
    for name, payment in totals.items():
        table[name, TOTAL] = {"energy": float((power[name, "meter"] * weight).sum()), "payment": payment}
    # Parts of a site or fleet together, the total after them.
    table = {key: table[key] for name in totals for key in table if key[0] == name}
    frame = pd.DataFrame.from_dict(table, orient="index")
    frame.insert(0, "level", [accounts[key].level if key in accounts else "meter" for key in table])
    frame["price"] = frame["payment"] / frame["energy"].where(frame["energy"] != 0)
    frame.index = pd.MultiIndex.from_tuples(list(table), names=["site", "part"])
    frame.attrs["units"] = {"energy": "MWh", "payment": "USD", "price": "USD/MWh"}
    return frame


def _by_carrier(
    component: str, power: pd.DataFrame, unit_cost: pd.DataFrame, carrier: pd.Series, weight: pd.Series
) -> pd.DataFrame:
    energy = power.mul(weight.loc[power.index], axis=0)
    parts = pd.DataFrame({"energy": energy.sum(), "cost": (energy * unit_cost).sum()})
    label = carrier.reindex(power.columns).replace("", np.nan)
    label = label.fillna(pd.Series(names(power.columns), power.columns))
    grouped = parts.groupby(label.to_numpy()).sum()
    grouped.index = pd.MultiIndex.from_product([[component], grouped.index], names=["component", "carrier"])
    return grouped
