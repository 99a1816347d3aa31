"""Loops of lines whose reactances cancel, for which there is no power flow."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pypsa
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import splu

from pypsa_aidc.errors import Faults
from pypsa_aidc.network.pypsa_api import copy_network, names

_SHOWN = 3
_ROUNDING = 1e-9


def check_loops(n: pypsa.Network, faults: Faults) -> None:
    """Note a fault where the susceptances of an AC network make no solvable system.

    With positive reactances they always do. With negative ones (series capacitors) the sum round a loop can be 0: any
    flow can then go round, or none be served.
    """
    if not any((n.c[component].static["x"] < 0).any() for component in ("Line", "Transformer")):
        return
    copy = copy_network(n.get_scenario(n.scenarios[0]) if n.has_scenarios else n)
    copy.calculate_dependent_values()
    parts = [copy.c[component].static for component in ("Line", "Transformer")]
    branches = pd.concat([static[static["active"].astype(bool)] for static in parts if len(static)])
    branches = branches[branches["x_pu_eff"] != 0]
    buses = pd.Index(names(copy.buses.index))
    ends = [buses.get_indexer(branches[end]) for end in ("bus0", "bus1")]
    susceptance = 1 / branches["x_pu_eff"].to_numpy(float)
    row, column = np.concatenate([*ends, *ends]), np.concatenate([*ends, ends[1], ends[0]])
    value = np.concatenate([susceptance, susceptance, -susceptance, -susceptance])
    nodal = coo_array((value, (row, column)), shape=(len(buses),) * 2).tocsc()
    # Of the structure alone: values that cancel still connect.
    linked = coo_array((np.ones(len(branches)), (ends[0], ends[1])), shape=(len(buses),) * 2)
    _, island = connected_components(linked, directed=False)
    for number in np.unique(island[np.concatenate(ends)]):
        inside = np.flatnonzero(island == number)
        if _is_singular(nodal[inside[1:]][:, inside[1:]].tocsc()):
            own = branches[np.isin(ends[0], inside) & (branches["x"].to_numpy() < 0)]
            given = f"negative x of {', '.join(map(repr, own.index[:_SHOWN]))}"
            remedy = "Correct them, or merge a series capacitor with its line."
            faults.add("lines and transformers", given, "reactances that do not cancel round a loop", remedy)


def _is_singular(nodal: coo_array) -> bool:
    if not nodal.shape[0]:
        return False
    try:
        diagonal = np.abs(splu(nodal).U.diagonal())
    except RuntimeError:
        return True
    return bool(diagonal.min() < _ROUNDING * diagonal.max())
