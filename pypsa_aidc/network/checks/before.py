"""What is checked at the border: inputs that PyPSA takes without a word and that would give wrong results."""

from __future__ import annotations

import re
from collections.abc import Mapping

import networkx as nx
import pandas as pd
import pypsa

from pypsa_aidc.errors import Faults, StaleError
from pypsa_aidc.network.checks.loops import check_loops
from pypsa_aidc.network.index import columns, names, rows
from pypsa_aidc.network.loads.derived import least_energy
from pypsa_aidc.network.loads.fleet_spec import Fleet, fleets
from pypsa_aidc.network.loads.site import Site, sites
from pypsa_aidc.network.model.horizon import network_snapshots

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
_ROUNDING = 1e-9
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
    parts: list[Site | Fleet] = [*sites(n).values(), *fleets(n).values()]
    for load in parts:
        _check_active(n, load, faults)
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
    known = set(names(n.buses.index))
    for component in n.components:
        for end in (end for end in component.static if _BUSES.fullmatch(str(end))):
            buses = component.static[end].fillna("")
            if component.name == "GlobalConstraint" or end not in ("bus", "bus0", "bus1"):
                buses = buses[buses != ""]  # of the whole network, or a port that is not there
            for name in buses.index[~buses.isin(known)][:_SHOWN]:
                faults.add(f"{component.name} {name!r}, {end}", buses[name], "a bus of the network")


def check_sites(n: pypsa.Network, found: Mapping[str, Site], snapshots: pd.Index | None = None) -> None:
    """Refuse sites that no longer fit the network: other snapshots, blanked series, decided power left in `p_set`.

    Raises
    ------
    StaleError
        All that is stale, at once, with what to do.
    """
    chosen = network_snapshots(n, snapshots)
    faults = Faults("AIDCs of the network")
    for site in found.values():
        _check_active(n, site, faults)
        _check_series(site.name, site.spec.series, chosen, faults)
        _check_held(n, site, faults)
        efficiency = n.get_switchable_as_dense("Link", "efficiency").loc[chosen]
        for column in efficiency.columns[names(efficiency.columns) == site.link]:
            series = efficiency[column]
            bad = series.index[~((series > 0) & (series <= 1))]
            faults.require(
                not len(bad), f"Link {site.link!r}, efficiency", list(series[bad][:1]), "1/PUE, above 0 and at most 1"
            )
        for generator, load in site.loads.items():
            stored = n.generators.loc[rows(n.generators.index, generator)]
            least = least_energy(load, n, chosen)
            given = float(stored["e_sum_min"].max())
            faults.require(
                given <= least * (1 + 1e-9),
                f"Generator {generator!r}, e_sum_min",
                given,
                f"at most {least:.6g} MWh with the present snapshots and weightings",
                "Call n.aidc.refresh(), or solve with n.aidc.optimize.",
            )
            decided = n.get_switchable_as_dense("Generator", "p_set")[list(stored.index)].loc[chosen]
            faults.require(
                bool(decided.isna().all(axis=None)),
                f"Generator {generator!r}, p_set",
                "decided power of an earlier solve",
                "no set point, for the job to be free",
                "Call n.aidc.refresh(), or solve with n.aidc.optimize.",
            )
    faults.raise_any(StaleError)


def _check_active(n: pypsa.Network, load: Site | Fleet, faults: Faults) -> None:
    """An AIDC is there with all of its parts, or not at all."""
    if isinstance(load, Fleet):
        parts: dict[str, list[str]] = {"Generator": list(load.parts)}
    else:
        idle = [load.idle] if load.spec.idle_w else []
        parts = {"Link": [load.link], "Load": [load.base], "Generator": [*load.loads, *idle]}
    remedy = "Take a job away with n.aidc.update, or the whole with n.aidc.remove."
    for component, own in parts.items():
        static = n.c[component].static
        for part in own:
            active = bool(static.loc[rows(static.index, part), "active"].all())
            faults.require(active, f"{component} {part!r}, active", False, "True", remedy)


def _check_held(n: pypsa.Network, site: Site, faults: Faults) -> None:
    """A series that was dropped reads as the default: a base load of 0 MW, an efficiency of 1."""
    held = {"base_load": (n.loads_t.p_set, site.base), "pue": (n.links_t.efficiency, site.link)}
    for attribute, (first, last, count) in site.spec.series.items():
        frame, component = held[attribute]
        faults.require(
            component in names(frame.columns),
            f"{attribute} of {site.name!r}",
            f"no series of {component!r} in the network",
            f"the {count} values from {first} to {last} that were given",
            "n.aidc.remove the site and add it again.",
        )


def check_fleets(n: pypsa.Network, fleets: Mapping[str, Fleet], snapshots: pd.Index | None = None) -> None:
    """Refuse fleets that no longer fit the network: other snapshots, series changed or blanked, parts apart.

    Raises
    ------
    StaleError
        All that is stale, at once, with what to do.
    """
    chosen = network_snapshots(n, snapshots)
    faults = Faults("fleets of the network")
    least, most = (n.get_switchable_as_dense("Generator", key).loc[chosen] for key in ("p_min_pu", "p_max_pu"))
    for fleet in fleets.values():
        _check_active(n, fleet, faults)
        _check_series(fleet.name, fleet.series, chosen, faults)
        for part in fleet.parts:
            values = columns(most, [part])[part]
            bad = values.index[~((values >= 0) & (values <= 1 + _ROUNDING))]
            faults.require(
                not len(bad), f"Generator {part!r}, p_max_pu", list(values[bad][:1]), "a share of the size, 0 … 1"
            )
        lowest, highest = (columns(frame, [fleet.name])[fleet.name] for frame in (least, most))
        apart = chosen[(lowest != highest).to_numpy()]
        faults.require(
            not len(apart),
            f"Generator {fleet.name!r}, p_min_pu",
            f"not p_max_pu at {list(apart[:1])}",
            "the profile in both",
            "n.aidc.remove the fleet and add it again.",
        )
        buses = n.generators.loc[[label for part in fleet.parts for label in rows(n.generators.index, part)], "bus"]
        faults.require(
            buses.nunique() == 1, f"fleet {fleet.name!r}", sorted(set(buses)), "all its Generators at one bus"
        )
    faults.raise_any(StaleError)


def _check_series(name: str, series: Mapping[str, tuple[str, str, int]], snapshots: pd.Index, faults: Faults) -> None:
    """PyPSA fills a series with its default when snapshots change: a base load of 0 MW, an efficiency of 1."""
    for attribute, (first, last, count) in series.items():
        labels = pd.Index([str(label) for label in snapshots])
        ends = [type_like(snapshots, text) for text in (first, last)]
        if all(end is not None for end in ends):
            outside = snapshots[(snapshots < ends[0]) | (snapshots > ends[1])]
        else:
            outside = snapshots[[]] if {labels[0], labels[-1]} <= {first, last} else snapshots
        faults.require(
            not len(outside),
            f"{attribute} of {name!r}",
            f"{count} values from {first} to {last}, but snapshots from {snapshots[0]} to {snapshots[-1]}",
            "a series for the present snapshots (PyPSA has filled the rest with its default)",
            "n.aidc.remove it and add it again with the series for these snapshots.",
        )


def type_like(snapshots: pd.Index, text: str) -> object | None:
    """Read a snapshot from its text as the kind of label that `snapshots` have, or `None`."""
    try:
        if isinstance(snapshots, pd.DatetimeIndex):
            return pd.Timestamp(text)
        if pd.api.types.is_integer_dtype(snapshots):
            return int(text)
    except ValueError:
        return None
    return None


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
    fed: set[str] = set()
    for component in ("Generator", "StorageUnit", "Store"):
        static = n.c[component].static[n.c[component].static["active"].astype(bool)]
        supplying = static[static["sign"] > 0] if "sign" in static else static
        if component == "Generator":
            supplying = supplying[~names(supplying.index).isin([fleet.relief for fleet in fleets(n).values()])]
        fed |= set(supplying["bus"])
    positive = demand.columns[(demand > 0).any()]
    given = n.generators[names(n.generators.index).isin(list(fleets(n))) & ~n.generators["p_nom_extendable"]]
    loads = pd.concat([n.loads.loc[positive, ["bus"]], given[["bus"]]])
    for island in nx.connected_components(nx.Graph(graph)):
        inside = loads[loads["bus"].isin(island)]
        faults.require(
            inside.empty or bool(fed & island),
            f"bus {inside['bus'].iloc[0]!r}" if len(inside) else "",
            f"load {inside.index[0]!r} in an island of {len(island)} buses without generation" if len(inside) else "",
            "a generator, storage unit or store somewhere in the island",
            "Connect the island, or add generation.",
        )
