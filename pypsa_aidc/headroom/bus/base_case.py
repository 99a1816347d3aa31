"""The base case of a bus headroom study: a copy of the network with fixed capacities and a dispatch that adds up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import pandas as pd
import pypsa
from numpy.typing import NDArray

from pypsa_aidc.errors import Faults, NotSolvedError, StaleError, UnsupportedError
from pypsa_aidc.network import check_network
from pypsa_aidc.network.carriers import backstops
from pypsa_aidc.network.pypsa_api import copy_network, find_sub_networks, quiet_pypsa
from pypsa_aidc.plain import counted

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

BRANCHES = ("Line", "Transformer")
_ONE_PORTS = ("Generator", "StorageUnit", "Store")
_NOMINAL = {
    "Generator": "p_nom",
    "Link": "p_nom",
    "StorageUnit": "p_nom",
    "Store": "e_nom",
    "Line": "s_nom",
    "Transformer": "s_nom",
}
_BALANCE_TOLERANCE = 1e-3
"""MW, and share of the largest injection, by which a solved dispatch may miss the balance of a bus."""
_SHOWN = 3


@dataclass(frozen=True, eq=False)
class BaseCase:
    """What headroom is measured against.

    Attributes
    ----------
    network : pypsa.Network
        Copy for the chosen snapshots; capacities fixed at what was built, topology determined.
    notes : tuple of str
        What of the user's network is not considered, in words.
    shedding : pandas.Index
        Generators that stand for load shedding and are no supply.
    """

    network: pypsa.Network
    notes: tuple[str, ...]
    shedding: pd.Index


def base_case(n: pypsa.Network, snapshots: pd.Index | None = None) -> BaseCase:
    """Copy a network for a headroom study, with extendable capacities fixed at what the optimisation built.

    Parameters
    ----------
    n
        Network; left as it is.
    snapshots
        Part of ``n.snapshots``; `None` for all.

    Raises
    ------
    InputError
        Snapshots or components that cannot be: a line without reactance, a transformer without rating, NaN loads.
    UnsupportedError
        Investment periods, scenarios, or unit commitment.
    NotSolvedError
        Extendable capacity that has not been optimised.
    """
    refuse_modes(n)
    chosen = n.snapshots if snapshots is None else pd.Index(snapshots)
    faults = Faults("headroom")
    unknown = chosen.difference(n.snapshots)
    faults.require(not len(unknown), "snapshots", list(unknown[:_SHOWN]), "snapshots of the network")
    faults.require(len(chosen) > 0, "snapshots", 0, "at least one")
    faults.raise_any()
    check_network(n, chosen)
    copy = _copy(n, chosen)
    _fix_capacities(copy)
    _check_transformers(copy)
    notes = []
    if len(copy.global_constraints):
        notes.append(f"global constraints not considered: {', '.join(map(str, copy.global_constraints.index))}")
        copy.remove("GlobalConstraint", copy.global_constraints.index)
    find_sub_networks(copy)
    copy.calculate_dependent_values()
    shedding = backstops(copy)
    if len(shedding):
        first = f"{shedding.index[0]}, by {shedding.iloc[0]}"
        notes.append(f"{counted(len(shedding), 'generator')} for load shedding ({first}) counted as no supply")
    return BaseCase(copy, tuple(notes), shedding.index)


def dispatched(case: BaseCase, original: pypsa.Network) -> bool:
    """Make sure that the copy holds a dispatch, that of the solution or else that of the set points.

    Returns
    -------
    bool
        Whether there are flows, too; those of set points are still to be computed.

    Raises
    ------
    NotSolvedError
        Neither a solution nor set points for all generators.
    StaleError
        The solution does not add up at some bus.
    UnsupportedError
        The solution has transmission losses.
    """
    n = case.network
    if _complete(n, original):
        _refuse_losses(n)
        _check_balance(n)
        return True
    if not _has_set_points(n):
        raise NotSolvedError(
            "headroom without redispatch needs base flows, and the network has neither a solution (lines_t.p0, "
            "generators_t.p for all snapshots asked for) nor set points p_set of its generators. Solve it with "
            "n.optimize(), give set points, or ask for redispatch=True."
        )
    for component in _ONE_PORTS:
        n.c[component].dynamic["p"] = n.get_switchable_as_dense(component, "p_set").fillna(0.0)
    links = n.get_switchable_as_dense("Link", "p_set").fillna(0.0)
    n.c.links.dynamic["p0"] = links
    for port in [column[3:] for column in n.links if column[:3] == "bus" and column[3:].isdigit() and column != "bus0"]:
        efficiency = n.get_switchable_as_dense("Link", "efficiency" if port == "1" else f"efficiency{port}")
        n.c.links.dynamic[f"p{port}"] = -links * efficiency
    return False


def freed(case: BaseCase, original: pypsa.Network) -> BaseCase:
    """Let the copy be dispatched anew: no set points, except that generators that draw power keep what they draw.

    Parameters
    ----------
    case
        Base case; its network is changed.
    original
        The user's network, with the solution, if there is one.
    """
    n = case.network
    drawing = n.generators.index[n.generators["active"] & (n.generators["sign"] < 0)]
    drawn = original.c.generators.dynamic["p"].reindex(index=n.snapshots, columns=drawing)
    notes = list(case.notes)
    for component in (*_ONE_PORTS, "Link"):
        points = n.get_switchable_as_dense(component, "p_set")
        given = points.columns[points.notna().any()].difference(drawing)
        if len(given):
            n.c[component].static.loc[given, "p_set"] = np.nan
            held = n.c[component].dynamic["p_set"]
            n.c[component].dynamic["p_set"] = held.drop(columns=given.intersection(held.columns))
            notes.append(f"set points of {counted(len(given), component)} freed")
    if len(drawing) and drawn.notna().all(axis=None):
        n.c.generators.static.loc[drawing, ["e_sum_min", "p_set"]] = [-np.inf, np.nan]
        n.c.generators.dynamic["p_set"] = n.c.generators.dynamic["p_set"].drop(columns=drawing, errors="ignore")
        n.c.generators.dynamic["p_set"][list(drawing)] = drawn
        notes.append(f"what {counted(len(drawing), 'generator')} with sign -1 drew stays as it was")
    off = n.c.generators.dynamic["p_max_pu"].drop(columns=case.shedding, errors="ignore")
    n.c.generators.dynamic["p_max_pu"] = off
    n.c.generators.static.loc[case.shedding, ["p_min_pu", "p_max_pu"]] = 0.0
    return BaseCase(n, tuple(notes), case.shedding)


def injections(n: pypsa.Network) -> pd.DataFrame:
    """Net injection of all but the passive branches, MW; snapshots × buses."""
    total = pd.DataFrame(0.0, index=n.snapshots, columns=n.buses.index)
    for component in _ONE_PORTS:
        static = n.c[component].static
        active = static.index[static["active"]]
        power = n.c[component].dynamic["p"].reindex(columns=active, fill_value=0.0) * static.loc[active, "sign"]
        total = total.add(power.T.groupby(static.loc[active, "bus"]).sum().T, fill_value=0.0)
    loads = n.loads[n.loads["active"]]
    demand = n.get_switchable_as_dense("Load", "p_set")[loads.index] * loads["sign"]
    total = total.add(demand.T.groupby(loads["bus"]).sum().T, fill_value=0.0)
    for component in sorted(n.controllable_branch_components):
        static = n.c[component].static
        static = static[static["active"]]
        for port in [column[3:] for column in static.columns if column[:3] == "bus" and column[3:].isdigit()]:
            attached = static.index[static[f"bus{port}"] != ""]
            power = n.c[component].dynamic[f"p{port}"].reindex(columns=attached, fill_value=0.0)
            total = total.sub(power.T.groupby(static.loc[attached, f"bus{port}"]).sum().T, fill_value=0.0)
    by_bus: pd.DataFrame = total[n.buses.index]
    return by_bus


def branch_table(n: pypsa.Network) -> pd.DataFrame:
    """Active passive branches: `bus0`, `bus1`, `s_nom`; index (component, name)."""
    parts = {
        component: n.c[component].static.loc[n.c[component].static["active"], ["bus0", "bus1", "s_nom"]]
        for component in BRANCHES
    }
    table: pd.DataFrame = pd.concat(parts, names=["component", "name"])
    return table


def ratings(n: pypsa.Network) -> pd.DataFrame:
    """Usable rating s_nom · s_max_pu of each active branch, MW; snapshots × (component, name)."""
    parts = {}
    for component in BRANCHES:
        static = n.c[component].static
        active = static.index[static["active"]]
        parts[component] = n.get_switchable_as_dense(component, "s_max_pu")[active] * static.loc[active, "s_nom"]
    usable: pd.DataFrame = pd.concat(parts, axis=1)
    return usable


def flows(n: pypsa.Network) -> pd.DataFrame:
    """Base flow of each active branch from bus0 to bus1, MW; snapshots × (component, name)."""
    parts = {}
    for component in BRANCHES:
        static = n.c[component].static
        parts[component] = n.c[component].dynamic["p0"].reindex(columns=static.index[static["active"]])
    stored: pd.DataFrame = pd.concat(parts, axis=1)
    return stored


def _copy(n: pypsa.Network, snapshots: pd.Index) -> pypsa.Network:
    copy = copy_network(n)
    with quiet_pypsa():
        if not copy.snapshots.equals(snapshots):
            copy.set_snapshots(cast("Sequence[Any]", snapshots))
    return copy


def refuse_modes(n: pypsa.Network) -> None:
    """Refuse modes of PyPSA in which there is no one headroom."""
    if n.has_scenarios or n.has_investment_periods:
        kind = "scenarios" if n.has_scenarios else "investment periods"
        raise UnsupportedError(
            f"headroom of a network with {kind}: a headroom is of one network. Take one of them "
            "(n.get_scenario(...), or a network of one period) and ask for each."
        )
    if n.generators["committable"].any() or n.links["committable"].any():
        units = [*n.generators.index[n.generators["committable"]], *n.links.index[n.links["committable"]]]
        raise UnsupportedError(
            f"headroom with unit commitment ({len(units)} units, e.g. {units[0]!r}): whether a unit is on is no "
            "linear question. Set committable=False, and p_max_pu=0 where a unit is off."
        )


def _fix_capacities(n: pypsa.Network) -> None:
    unsolved = []
    for component, nominal in _NOMINAL.items():
        static = n.c[component].static
        extendable = static.index[static[f"{nominal}_extendable"] & static["active"]]
        if extendable.empty:
            continue
        built = static.loc[extendable, f"{nominal}_opt"]
        if not np.isfinite(built).all() or not (static[f"{nominal}_opt"] > 0).any():
            unsolved.append(f"{component} {extendable[0]!r}")
            continue
        if component == "Transformer":
            # Its reactance is per unit of s_nom: the new rating goes into s_max_pu, so that the flows stay.
            scale = built / static.loc[extendable, nominal]
            limit = n.get_switchable_as_dense(component, "s_max_pu")[extendable] * scale
            for name in extendable:
                n.c[component].dynamic["s_max_pu"][name] = limit[name]
        else:
            static.loc[extendable, nominal] = built
        static.loc[extendable, f"{nominal}_extendable"] = False
    if unsolved:
        raise NotSolvedError(
            f"headroom needs fixed capacities, and {', '.join(unsolved)} is extendable without an optimised capacity. "
            "Solve the network first, or set its capacity and extendable=False."
        )


def _check_transformers(n: pypsa.Network) -> None:
    faults = Faults("headroom")
    static = n.transformers[n.transformers["active"]]
    for name in static.index[~((static["s_nom"] > 0) & np.isfinite(static["s_nom"]))][:_SHOWN]:
        faults.add(
            f"Transformer {name!r}, s_nom",
            float(static.at[name, "s_nom"]),
            "a finite rating above 0: its reactance is per unit of it",
            "Give the rating, and s_max_pu for a limit that differs from it.",
        )
    faults.raise_any()


def _complete(n: pypsa.Network, original: pypsa.Network) -> bool:
    """Whether the solution of the original covers every active component at every snapshot of the copy."""
    wanted = {"Generator": "p", "StorageUnit": "p", "Store": "p", "Line": "p0", "Transformer": "p0", "Link": "p0"}
    for component, attribute in wanted.items():
        static = n.c[component].static
        active = static.index[static["active"]]
        stored = original.c[component].dynamic[attribute].reindex(index=n.snapshots, columns=active)
        if stored.isna().any(axis=None):
            return False
    return bool(len(n.generators) or len(n.links))


def _has_set_points(n: pypsa.Network) -> bool:
    active = n.generators.index[n.generators["active"]]
    return bool(len(active)) and not n.get_switchable_as_dense("Generator", "p_set")[active].isna().any(axis=None)


def _refuse_losses(n: pypsa.Network) -> None:
    for component in BRANCHES:
        p0, p1 = (n.c[component].dynamic[attribute] for attribute in ("p0", "p1"))
        lost = float((p0 + p1).abs().max(axis=None)) if p0.size and p1.shape == p0.shape else 0.0
        if lost > _BALANCE_TOLERANCE:
            raise UnsupportedError(
                f"headroom from a solution with transmission losses ({lost:.3g} MW on a {component.lower()}): "
                "distribution factors know no losses. Solve without transmission_losses."
            )


def _check_balance(n: pypsa.Network) -> None:
    injected = injections(n)
    table, flow = branch_table(n), flows(n)
    outflow = pd.DataFrame(0.0, index=n.snapshots, columns=n.buses.index)
    for end, sign in (("bus0", 1.0), ("bus1", -1.0)):
        part = (sign * flow).T.groupby(table[end].to_numpy()).sum().T
        outflow = outflow.add(part, fill_value=0.0)
    missing = (injected - outflow[n.buses.index]).abs()
    tolerance = _BALANCE_TOLERANCE * max(1.0, float(injected.abs().to_numpy().max()))
    worst = float(missing.to_numpy().max())
    if worst > tolerance:
        bus = missing.max().idxmax()
        faults = Faults("base case of headroom")
        faults.add(
            f"bus {bus!r} at snapshot {missing[bus].idxmax()}",
            f"dispatch and flows that differ by {worst:.6g} MW",
            "a solution in which each bus balances",
            "The network was changed after it was solved: solve it again.",
        )
        faults.raise_any(StaleError)
