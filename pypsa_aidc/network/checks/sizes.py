"""Whether loads, supply, sites and their connections are of one order of magnitude."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import networkx as nx
import numpy as np
import pandas as pd
import pypsa

from pypsa_aidc.network.checks.proportion import peak_it_power, unit_doubt
from pypsa_aidc.network.index import columns, rows
from pypsa_aidc.network.loads.site import Site, sites
from pypsa_aidc.units import W_PER_MW

Found = tuple[Literal["error", "warning", "note"], str, str, str]
"""Severity, component, what, remedy."""

_THOUSAND = 300.0
"""A ratio from which a factor of 1000 is the likelier reason."""

_WATTS_PER_GPU = (50.0, 5000.0)
"""IT power of a training GPU with its share of the host, in W: rated boards run from 300 to 1200 W."""

_SHOWN = 5
_BRANCHES = {"Line": "s_nom", "Transformer": "s_nom", "Link": "p_nom"}
_SUPPLY = {"Generator": "p_nom", "StorageUnit": "p_nom"}


def check_sizes(n: pypsa.Network) -> Iterator[Found]:
    """Yield what is out of proportion: in the network as a whole, and at each site.

    Only fixed capacities are compared; what is extendable can be built.
    """
    yield from _network(n)
    for site in sites(n).values():
        yield from _site(n, site)
        yield from _bus(n, site)


def _network(n: pypsa.Network) -> Iterator[Found]:
    """Demand against supply, island by island."""
    loads = _static(n, "Load")
    loads = loads[loads["active"]]
    demand = columns(n.get_switchable_as_dense("Load", "p_set"), list(loads.index)).T.groupby(loads["bus"]).sum().T
    islands = [set(island) for island in nx.connected_components(nx.Graph(n.graph(include_inactive=False)))]
    if len(islands) > 1:
        sizes = sorted((len(island) for island in islands), reverse=True)
        listed = ", ".join(map(str, sizes[:_SHOWN])) + (", ..." if len(sizes) > _SHOWN else "")
        what = f"{len(islands)} islands without connection; buses in each: {listed}"
        yield "note", "network", what, "Each needs supply of its own; connect them if that is not meant."
    for island in islands:
        peak = float(demand[[bus for bus in demand.columns if bus in island]].sum(axis=1).max())
        supply, extendable = _supply(n, island)
        if extendable or not peak > 0:
            continue
        where = "network" if len(islands) == 1 else f"island of bus {min(island)!r}"
        figures = f"demand peaks at {peak:g} MW, all supply is {supply:g} MW"
        if peak > supply > 0:
            ratio = peak / supply
            doubt = f", {ratio:.0f} times less: is the demand in kW?" if ratio > _THOUSAND else ""
            yield "error", where, figures + doubt, "Give loads and capacities in MW, or add supply."
        elif supply > _THOUSAND * peak:
            what = f"{figures}, {supply / peak:.0f} times more: is the demand in GW, or capacity in kW?"
            yield "warning", where, what, "Give loads and capacities in MW."


def _supply(n: pypsa.Network, buses: set[str]) -> tuple[float, bool]:
    """Fixed capacity that can feed these buses, in MW, and whether any of it is extendable or unlimited."""
    total, extendable = 0.0, False
    for component, attribute in _SUPPLY.items():
        static = _static(n, component)
        inside = static[static["bus"].isin(buses) & (static["sign"] > 0) & static["active"]]
        extendable |= bool(inside[f"{attribute}_extendable"].any())
        total += float(inside[attribute].sum())
    stores = _static(n, "Store")
    stores = stores[stores["bus"].isin(buses) & stores["active"]]
    extendable |= bool(len(stores)) or not np.isfinite(total)
    return total, extendable


def _site(n: pypsa.Network, site: Site) -> Iterator[Found]:
    """Base load, GPUs and connection of a site against each other."""
    base, overhead, link = _series(n, site)
    peak = float((overhead * (base + peak_it_power(n, site))).max())
    fixed = not link["p_nom_extendable"]
    p_nom = float(link["p_nom"]) if fixed else None
    doubt = unit_doubt(site, float(base.max()), peak, p_nom)
    where = f"AIDC {site.name!r}"
    if doubt:
        yield "warning", where, f"{doubt}: is it in kW?", "Give MW."
    alone = float((overhead * base).max())
    if p_nom is not None and alone > p_nom * (1 + 1e-9):
        what = f"the base load alone takes {alone:g} MW at the meter, more than the connection of {p_nom:g} MW"
        yield "error", where, what, "A larger p_nom, or a smaller base load."
    elif p_nom is not None and peak > p_nom * (1 + 1e-9):
        what = f"all jobs at full power take {peak:g} MW at the meter, the connection is {p_nom:g} MW"
        yield "note", where, what, "They will take turns; a larger p_nom would let them run at once."
    for generator, load in site.loads.items():
        watts = [mode.it_power / mode.gpus * W_PER_MW for mode in load.modes]
        low, high = _WATTS_PER_GPU
        if min(watts) < low or max(watts) > high:
            what = f"modes draw {min(watts):g} to {max(watts):g} W for each GPU, usual is {low:g} to {high:g} W"
            yield "warning", f"Generator {generator!r}", what, "Check the unit of the modes' power: MW."


def _bus(n: pypsa.Network, site: Site) -> Iterator[Found]:
    """What the branches and the supply at the grid bus can deliver, against what the site must and may draw."""
    base, overhead, link = _series(n, site)
    bus, deliverable = str(link["bus0"]), 0.0
    supply, extendable = _supply(n, {bus})
    for component, attribute in _BRANCHES.items():
        static = _static(n, component)
        ends = [column for column in static if str(column).removeprefix("bus").isdigit()]
        at_bus = static[(static[ends] == bus).any(axis=1) & static["active"]]
        at_bus = at_bus[at_bus.index != site.link]
        extendable |= bool(at_bus[f"{attribute}_extendable"].any())
        deliverable += float(at_bus[attribute].sum())
    capacity = supply + deliverable
    if extendable or not np.isfinite(capacity):
        return
    least = float((overhead * base).max())
    peak = min(float((overhead * (base + peak_it_power(n, site))).max()), float(link["p_nom"]))
    what = f"branches and supply at bus {bus!r} can deliver {capacity:g} MW, the site draws "
    if least > capacity * (1 + 1e-9):
        yield (
            "error",
            f"AIDC {site.name!r}",
            what + f"{least:g} MW without any job",
            "Reinforce the bus, or move the site.",
        )
    elif not link["p_nom_extendable"] and peak > capacity * (1 + 1e-9):
        yield "warning", f"AIDC {site.name!r}", what + f"up to {peak:g} MW", "Jobs will run slower, if they can at all."


def _series(n: pypsa.Network, site: Site) -> tuple[pd.Series, pd.Series, pd.Series]:
    """Base IT load in MW and PUE by snapshot, and the Link of the site."""
    base = columns(n.get_switchable_as_dense("Load", "p_set"), [site.base])[site.base]
    efficiency = columns(n.get_switchable_as_dense("Link", "efficiency"), [site.link])[site.link]
    return base, 1 / efficiency.clip(lower=1e-3), n.links.loc[rows(n.links.index, site.link)].iloc[0]


def _static(n: pypsa.Network, component: str) -> pd.DataFrame:
    """Components by name; with scenarios, those of the first, which is enough for orders of magnitude."""
    static = n.c[component].static
    if not isinstance(static.index, pd.MultiIndex) or static.empty:
        return pd.DataFrame(static)
    return pd.DataFrame(static.xs(static.index.get_level_values(0)[0], level=0))
