"""Balances of a solved network: at each bus, and of the whole system by source."""

from __future__ import annotations

from collections.abc import Collection

import pandas as pd
import pypsa

from pypsa_aidc.network.pypsa_api import names

_ONE_PORTS = (("Generator", "p", 1.0), ("StorageUnit", "p", 1.0), ("Store", "p", 1.0), ("Load", "p", -1.0))


def injection(n: pypsa.Network, snapshots: pd.Index, without: Collection[str] = ()) -> pd.DataFrame:
    """Power in MW that components feed into every bus, less what they draw; 0 at each bus for all components.

    Returns
    -------
    pandas.DataFrame
        One row a snapshot, one column a bus (and scenario, where there are any).
    """

    def others(frame: pd.DataFrame) -> pd.DataFrame:
        return frame[frame.columns[~names(frame.columns).isin(list(without))]]

    buses = n.buses.index
    total = pd.DataFrame(0.0, index=snapshots, columns=buses)
    for component, attribute, default_sign in _ONE_PORTS:
        static = n.c[component].static
        sign = static.get("sign", default_sign)
        # PyPSA writes the set points of inactive loads into its results, too.
        total = _add(total, others(n.c[component].dynamic[attribute]), static["bus"][static["active"]], sign, snapshots)
    for component in n.branch_components:
        static = n.c[component].static
        for column in [name for name in static.columns if name.startswith("bus") and name[3:].isdigit()]:
            flow = n.c[component].dynamic.get(f"p{column[3:]}")
            if flow is not None:
                total = _add(total, others(flow), static[column], -1.0, snapshots)
    return total


def system_balance(n: pypsa.Network, snapshots: pd.Index, own: Collection[str], meter: pd.Series) -> pd.DataFrame:
    """Sum up what feeds a network and what it feeds, by source.

    Parameters
    ----------
    n
        Solved network without scenarios.
    snapshots
        Snapshots to show.
    own
        Generators and Loads that are parts of AIDCs.
    meter
        Power of all AIDCs at their meters, MW.

    Returns
    -------
    pandas.DataFrame
        MW: one column a carrier of generators, ``"storage"`` (positive when it feeds), ``"curtailment"`` (of
        generators with a series of `p_max_pu`), ``"AIDC"`` and ``"other load"``.
    """
    generators = n.generators.index.difference(own)
    power = n.c.generators.dynamic["p"].loc[snapshots].reindex(columns=generators, fill_value=0.0)
    label = n.generators["carrier"][generators].replace("", "generation")
    result: pd.DataFrame = (power * n.generators["sign"][generators]).T.groupby(label.to_numpy()).sum().T
    storage = pd.Series(0.0, snapshots)
    for component in ("StorageUnit", "Store"):
        flows = n.c[component].dynamic["p"]
        storage = storage + flows.loc[snapshots].sum(axis=1) if not flows.empty else storage
    result["storage"] = storage
    varying = n.c.generators.dynamic["p_max_pu"].columns.intersection(generators)
    capacity = n.generators["p_nom"].where(~n.generators["p_nom_extendable"], n.generators["p_nom_opt"])
    available = n.c.generators.dynamic["p_max_pu"].loc[snapshots, varying] * capacity[varying]
    result["curtailment"] = (available - power[varying]).sum(axis=1).clip(lower=0.0)
    result["AIDC"] = meter
    loads = n.c.loads.dynamic["p"].loc[snapshots]
    result["other load"] = loads[loads.columns.difference(own)].sum(axis=1)
    result = result.rename_axis(columns="source")
    result.attrs["units"] = "MW"
    return result


def _add(
    total: pd.DataFrame, power: pd.DataFrame, bus: pd.Series, sign: pd.Series | float, snapshots: pd.Index
) -> pd.DataFrame:
    connected = bus.index[bus.astype(str) != ""].intersection(power.columns)
    if connected.empty:
        return total
    signed = power.loc[snapshots, connected] * (sign[connected] if isinstance(sign, pd.Series) else sign)
    if isinstance(connected, pd.MultiIndex):
        scenario = connected.get_level_values(0)
        target = pd.MultiIndex.from_arrays([scenario, bus[connected]], names=total.columns.names)
    else:
        target = pd.Index(bus[connected], name=names(total.columns).name)
    at_bus = signed.set_axis(target, axis=1).T.groupby(level=list(range(target.nlevels))).sum().T
    return total.add(at_bus.reindex(columns=total.columns, fill_value=0.0))
