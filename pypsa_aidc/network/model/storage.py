"""Storage that must not charge and discharge at once, Eq. 34d of [1]."""

from __future__ import annotations

from collections.abc import Sequence

import linopy
import pandas as pd
import pypsa

from pypsa_aidc.errors import Faults, UnsupportedError


def check_exclusive(n: pypsa.Network, storages: Sequence[str]) -> None:
    """Check that storages can be told not to charge and discharge at once.

    Raises
    ------
    InputError
        An unknown name, an extendable power (its limit is not a number), or a Store without charging and discharging
        Links: one that trades with its bus directly has a single signed variable and needs nothing.
    UnsupportedError
        A network with scenarios.
    """
    if storages and n.has_scenarios:
        raise UnsupportedError(
            f"exclusive storage ({', '.join(storages)}) in a network with scenarios: its binaries would have to be "
            "those of each. Give it a marginal cost, which keeps it from burning energy, or solve n.get_scenario(name)."
        )
    faults = Faults("exclusive storage")
    for name in storages:
        if name in n.storage_units.index:
            _check_power(n, "StorageUnit", [name], faults)
        elif name in n.stores.index:
            _check_store(n, name, faults)
        else:
            known = sorted([*n.storage_units.index, *n.stores.index])
            faults.add("exclusive", name, f"a StorageUnit or Store, one of {known}")
    faults.raise_any()


def add_exclusive_storage(n: pypsa.Network, storages: Sequence[str]) -> None:
    """Add a binary for each snapshot and storage that lets it either charge or discharge.

    Parameters
    ----------
    n
        Network with a built model.
    storages
        StorageUnits, and Stores whose bus has charging Links (`bus1`) and discharging Links (`bus0`).

    Raises
    ------
    InputError
        As `check_exclusive`.
    """
    check_exclusive(n, storages)
    for name in storages:
        if name in n.storage_units.index:
            charge, discharge = n.model["StorageUnit-p_store"], n.model["StorageUnit-p_dispatch"]
            _exclude(n, name, [(charge, name, "StorageUnit")], [(discharge, name, "StorageUnit")])
        else:
            p = n.model["Link-p"]
            charging, discharging = links_of(n, name)
            _exclude(n, name, [(p, c, "Link") for c in charging], [(p, d, "Link") for d in discharging])


def links_of(n: pypsa.Network, store: str) -> tuple[list[str], list[str]]:
    """Names of the Links that charge and that discharge a Store."""
    bus = n.stores.at[store, "bus"]
    return list(n.links.index[n.links["bus1"] == bus]), list(n.links.index[n.links["bus0"] == bus])


def _check_store(n: pypsa.Network, store: str, faults: Faults) -> None:
    bus = n.stores.loc[store, "bus"]
    charging, discharging = links_of(n, store)
    neighbours = [
        name
        for component in ("Generator", "Load", "StorageUnit", "Store")
        for name in n.c[component].static.index[n.c[component].static["bus"] == bus]
        if name != store
    ]
    faults.require(
        bool(charging and discharging and not neighbours),
        store,
        f"{len(charging)} charging and {len(discharging)} discharging Links, and {neighbours} at its bus {bus!r}",
        "a bus of its own with at least one Link in and one out",
        "A Store that trades with a shared bus directly never does both at once.",
    )
    if charging and discharging and not neighbours:
        _check_power(n, "Link", charging + discharging, faults)


def _check_power(n: pypsa.Network, component: str, members: list[str], faults: Faults) -> None:
    static = n.c[component].static
    for member in members:
        faults.require(
            not static.at[member, "p_nom_extendable"],
            f"{component} {member!r}",
            "p_nom_extendable",
            "a fixed p_nom for exclusive charging",
            "The either-or constraint needs a number as its limit.",
        )


CHARGES = "AIDC-charges"
"""First part of the names of the binaries that tell whether a storage charges or discharges."""

Term = tuple[linopy.Variable, str, str]


def _exclude(n: pypsa.Network, storage: str, charging: list[Term], discharging: list[Term]) -> None:
    m = n.model
    snapshots: pd.Index = charging[0][0].indexes["snapshot"]
    charges = m.add_variables(binary=True, coords=[snapshots], name=f"{CHARGES} {storage}")
    for members, switch, label in ((charging, charges, "charge"), (discharging, 1 - charges, "discharge")):
        for variable, member, component in members:
            limit = float(n.c[component].static.at[member, "p_nom"])
            m.add_constraints(
                variable.sel(name=member, drop=True) - limit * switch <= 0,
                name=f"AIDC-exclusive {label} {storage} {member}",
            )


def charging_and_discharging(
    n: pypsa.Network, storage: str, snapshots: pd.Index
) -> tuple[pd.Series[float], pd.Series[float]]:
    """Charging and discharging power of a storage in a solved network, in MW at the bus outside it."""
    if storage in n.storage_units.index:
        units = n.c.storage_units.dynamic
        return units["p_store"].loc[snapshots, storage], units["p_dispatch"].loc[snapshots, storage]
    charging, discharging = links_of(n, storage)
    links = n.c.links.dynamic
    charge = links["p0"].reindex(columns=charging, fill_value=0.0).loc[snapshots]
    discharge = -links["p1"].reindex(columns=discharging, fill_value=0.0).loc[snapshots]
    return charge.sum(axis=1), discharge.sum(axis=1)
