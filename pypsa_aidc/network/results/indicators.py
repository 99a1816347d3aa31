"""The indicators of Table IV of [1] for one solved network: cost, grid, curtailment, storage, green share, peaks."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
import pypsa

from pypsa_aidc.network.loads.registry import loads
from pypsa_aidc.network.model.storage import charging_and_discharging
from pypsa_aidc.network.results import costs
from pypsa_aidc.network.results.accessor import Results
from pypsa_aidc.network.results.scenarios import in_scenarios, probabilities


def indicators(n: pypsa.Network, storages: Sequence[str] = ()) -> dict[str, float]:
    """Compute the columns of Table IV of [1] for a solved network with AIDCs.

    Renewable generators are those with a time-varying `p_max_pu` of their own; every other generator that is not a
    part of an AIDC counts as grid. The green share is 1 minus grid over the load of all AIDCs, which assumes, as the
    paper does, that there is no other load: where there is, it means nothing.

    Parameters
    ----------
    n
        Solved network; with scenarios, each indicator is its expected value.
    storages
        Storages whose throughput counts.

    Returns
    -------
    dict
        `cost` (USD), `grid`, `curtailment`, `battery` (charge plus discharge; all MWh), `utilisation`, `green` (%),
        `peak`, `least` (kW at the meter, as in the paper), `peak_gpus`.

    References
    ----------
    [1] Tong et al., arXiv:2610.13047 (2026), Table IV.
    """
    if n.has_scenarios:
        weights, found = probabilities(n), {name: indicators(one, storages) for name, one in in_scenarios(n).items()}
        return {key: sum(weights[name] * own[key] for name, own in found.items()) for key in next(iter(found.values()))}
    accessor = Results(n)
    power = accessor.power()
    weight = n.snapshot_weightings["objective"].loc[power.index]
    generated = n.c.generators.dynamic["p"].loc[power.index]
    own = [part for load in loads(n).values() for part in load.parts.get("Generator", ())]
    renewable = n.c.generators.dynamic["p_max_pu"].columns.difference(own)
    grid = generated.columns.difference([*own, *renewable])
    available = n.c.generators.dynamic["p_max_pu"][renewable].loc[power.index] * n.generators.loc[renewable, "p_nom"]
    energy = {
        "grid": _energy(generated[grid], weight),
        "used": _energy(generated[renewable], weight),
        "available": _energy(available, weight),
    }
    meter = pd.DataFrame(power.xs("meter", axis=1, level="part")).sum(axis=1)
    load = float((meter * weight).sum())
    throughput = 0.0
    for storage in storages:
        for flow in charging_and_discharging(n, storage, power.index):
            throughput += float((flow * weight).sum())
    return {
        "cost": float(costs.operating_costs(n)["cost"].sum()),
        "grid": energy["grid"],
        "curtailment": energy["available"] - energy["used"],
        "battery": throughput,
        "utilisation": 100 * energy["used"] / energy["available"] if energy["available"] else float("nan"),
        "green": 100 * (1 - energy["grid"] / load),
        "peak": 1e3 * float(meter.max()),
        "least": 1e3 * float(meter.min()),
        "peak_gpus": float(accessor.gpus().to_numpy().sum(axis=1).max()),
    }


def _energy(power: pd.DataFrame, weight: pd.Series) -> float:
    return float(power.mul(weight, axis=0).to_numpy().sum())
