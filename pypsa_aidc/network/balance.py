"""Nodal balance of a solved network, summed from the results of all components."""

from __future__ import annotations

import pandas as pd
import pypsa

from pypsa_aidc.network.index import names

_ONE_PORTS = (("Generator", "p", 1.0), ("StorageUnit", "p", 1.0), ("Store", "p", 1.0), ("Load", "p", -1.0))


def nodal_residual(n: pypsa.Network, snapshots: pd.Index) -> pd.DataFrame:
    """Absolute imbalance of power at every bus.

    Returns
    -------
    pandas.DataFrame
        MW, at least 0; one row a snapshot, one column a bus (and scenario, where there are any).
    """
    buses = n.buses.index
    total = pd.DataFrame(0.0, index=snapshots, columns=buses)
    for component, attribute, default_sign in _ONE_PORTS:
        static = n.c[component].static
        sign = static.get("sign", default_sign)
        total = _add(total, n.c[component].dynamic[attribute], static["bus"], sign, snapshots)
    for component in n.branch_components:
        static = n.c[component].static
        for column in [name for name in static.columns if name.startswith("bus") and name[3:].isdigit()]:
            flow = n.c[component].dynamic.get(f"p{column[3:]}")
            if flow is not None:
                total = _add(total, flow, static[column], -1.0, snapshots)
    return total.abs()


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
