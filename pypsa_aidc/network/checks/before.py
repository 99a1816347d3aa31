"""What is checked at the border: inputs that PyPSA takes without a word and that would give wrong results."""

from __future__ import annotations

import re

import networkx as nx
import pandas as pd
import pypsa

from pypsa_aidc.errors import Faults, StaleError
from pypsa_aidc.network.checks.loops import check_loops
from pypsa_aidc.network.loads.registry import check_active, loads
from pypsa_aidc.network.model.horizon import network_snapshots
from pypsa_aidc.network.pypsa_api import names

_SHOWN = 3
_BUSES = re.compile(r"bus\d*")
_NUMBERS = (
    "marginal_cost",
    "marginal_cost_quadratic",
    "marginal_cost_storage",
    "capital_cost",
    "start_up_cost",
    "shut_down_cost",
    "p_max_pu",
    "p_min_pu",
    "s_max_pu",
    "e_max_pu",
    "e_min_pu",
    "efficiency",
    "efficiency_store",
    "efficiency_dispatch",
    "standing_loss",
    "inflow",
)
"""Attributes in which PyPSA takes NaN for nothing at all: no cost, no limit."""
_NOMINAL = {
    "Generator": "p_nom",
    "Link": "p_nom",
    "Line": "s_nom",
    "Transformer": "s_nom",
    "StorageUnit": "p_nom",
    "Store": "e_nom",
}


def check_network(n: pypsa.Network, snapshots: pd.Index | None = None) -> None:
    """Refuse inputs of the whole network with which PyPSA would stop, or go wrong, without saying why.

    NaN in a load or fleet (solved as zero demand), in a cost, limit, efficiency or inflow (solved as none), negative
    capacity (a bare "infeasible"), a component at a bus that is gone, a line or transformer without reactance (an
    endless loop), a load or fleet of given size in an island without any supply.

    Raises
    ------
    InputError
        All such components at once.
    """
    chosen = network_snapshots(n, snapshots)
    faults = Faults("network")
    check_active(n, faults)
    faults.raise_any(StaleError)
    demand = n.get_switchable_as_dense("Load", "p_set").loc[chosen]
    demand = demand[demand.columns[n.loads["active"].reindex(demand.columns).astype(bool)]]
    for load in demand.columns[demand.isna().any()]:
        hours = demand.index[demand[load].isna()]
        faults.add(
            f"Load {load!r}, p_set",
            f"NaN at {hours[0]} and {len(hours) - 1} more snapshots",
            "a finite number",
            "PyPSA would solve with zero demand there.",
        )
    for component, attribute in _NOMINAL.items():
        static = n.c[component].static
        values = static[attribute][static["active"].astype(bool)]
        for name in values.index[(values < 0) | values.isna()][:_SHOWN]:
            faults.number(f"{component} {name!r}, {attribute}", float(values[name]), at_least=0)
    _check_numbers(n, chosen, faults)
    _check_buses(n, faults)
    faults.raise_any()
    _check_reactance(n, faults)
    _check_supply(n, demand, faults)
    faults.raise_any()


def _check_numbers(n: pypsa.Network, snapshots: pd.Index, faults: Faults) -> None:
    for component in n.components:
        # Columns of the user's own, as costs of carriers in PyPSA's examples, mean nothing to PyPSA.
        for attribute in (name for name in _NUMBERS if name in component.static and name in component.defaults.index):
            static, series = component.static[attribute], component.dynamic.get(attribute, pd.DataFrame())
            if "active" in component.static:
                used = component.static.index[component.static["active"].astype(bool)]
                static, series = static[used], series[series.columns.intersection(used)]
            missing = static.index[static.isna()].difference(series.columns, sort=False)
            for name in missing[:_SHOWN]:
                faults.number(f"{component.name} {name!r}, {attribute}", float("nan"))
            gaps = series.loc[snapshots].isna() if len(series.columns) else series
            for name in gaps.columns[gaps.any()][:_SHOWN]:
                hours = gaps.index[gaps[name]]
                given = f"NaN at {hours[0]} and {len(hours) - 1} more snapshots"
                faults.add(f"{component.name} {name!r}, {attribute}", given, "a finite number")


def _check_buses(n: pypsa.Network, faults: Faults) -> None:
    known, remedy = set(names(n.buses.index)), "Correct the name, or add the bus."
    for component in n.components:
        for end in (end for end in component.static if _BUSES.fullmatch(str(end))):
            buses = component.static[end].fillna("")
            if component.name == "GlobalConstraint" or end not in ("bus", "bus0", "bus1"):
                buses = buses[buses != ""]  # of the whole network, or a port that is not there
            for name in buses.index[~buses.isin(known)][:_SHOWN]:
                faults.add(f"{component.name} {name!r}, {end}", buses[name], "a bus of the network", remedy)


def _check_reactance(n: pypsa.Network, faults: Faults) -> None:
    carriers = n.buses["carrier"]
    for component in ("Line", "Transformer"):
        static = n.c[component].static
        if static.empty:
            continue
        typed = static["type"].astype(str).str.len() > 0
        direct = static["bus0"].map(carriers.groupby(names(carriers.index)).first()).eq("DC")
        zero = (static["x"] == 0) & ~direct | (static["r"] == 0) & direct
        for name in static.index[zero & ~typed & static["active"]][:_SHOWN]:
            faults.add(
                f"{component} {name!r}",
                "no impedance (x, or r of a DC line, is 0)",
                "an impedance above 0",
                "Merge its two buses, or give the impedance of a short piece of line.",
            )
    if not len(faults):
        check_loops(n, faults)


def _check_supply(n: pypsa.Network, demand: pd.DataFrame, faults: Faults) -> None:
    """Name loads in islands without any supply, which a solver would only call infeasible."""
    graph = n.graph(branch_components=list(n.branch_components), include_inactive=False)
    found = loads(n).values()
    relief = [part for load in found for part in load.stands_for_load]
    fed: set[str] = set()
    for component in ("Generator", "StorageUnit", "Store"):
        static = n.c[component].static[n.c[component].static["active"].astype(bool)]
        supplying = static[static["sign"] > 0] if "sign" in static else static
        if component == "Generator":
            supplying = supplying[~names(supplying.index).isin(relief)]
        fed |= set(supplying["bus"])
    positive = demand.columns[(demand > 0).any()]
    given = n.generators[names(n.generators.index).isin([part for load in found for part in load.meant_as_load(n)])]
    drawing = pd.concat([n.loads.loc[positive, ["bus"]], given[["bus"]]])
    for island in nx.connected_components(nx.Graph(graph)):
        inside = drawing[drawing["bus"].isin(island)]
        faults.require(
            inside.empty or bool(fed & island),
            f"bus {inside['bus'].iloc[0]!r}" if len(inside) else "",
            f"load {inside.index[0]!r} in an island of {len(island)} buses without generation" if len(inside) else "",
            "a generator, storage unit or store somewhere in the island",
            "Connect the island, or add generation.",
        )
