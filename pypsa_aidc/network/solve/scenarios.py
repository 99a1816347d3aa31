"""The six scenarios of [1], Table III, made of any network whose jobs have a baseline mode."""

from __future__ import annotations

from collections.abc import Sequence

import pypsa

from pypsa_aidc.errors import Faults
from pypsa_aidc.network.loads.protocol import Freedom
from pypsa_aidc.network.loads.registry import loads
from pypsa_aidc.network.model.storage import links_of
from pypsa_aidc.network.pypsa_api import copy_network

_LOADS: dict[str, tuple[str, Freedom, bool]] = {
    "S1": ("fixed baseline", "fixed", False),
    "S2": ("checkpoints recorded", "recorded", False),
    "S3": ("modes without checkpoints (bound)", "idealized", False),
    "S4": ("checkpoints + modes", "free", False),
    "S5": ("fixed baseline + storage", "fixed", True),
    "S6": ("checkpoints + modes + storage", "free", True),
}

SCENARIOS = tuple(_LOADS)
"""Names of the scenarios, S1 to S6."""


def describe(scenario: str) -> str:
    """Return a few words on a scenario."""
    return _LOADS[scenario][0]


def uses_storage(scenario: str) -> bool:
    """Whether a scenario uses the storage that the others switch off."""
    return _LOADS[scenario][2]


def scenario_network(n: pypsa.Network, scenario: str, storages: Sequence[str] = ()) -> pypsa.Network:
    """Return a copy of a network in which all jobs follow one of the scenarios S1 to S6 of [1].

    Parameters
    ----------
    n
        Network with sites; it is not changed.
    scenario
        ``"S1"`` fixed baseline; ``"S2"`` the same with checkpoints recorded; ``"S3"`` modes vary freely in each slot,
        an optimistic bound; ``"S4"`` checkpoints and modes; ``"S5"`` and ``"S6"``: S1 and S4 with storage.
    storages
        StorageUnits and Stores that S1 to S4 switch off, with the Links that charge and discharge the Stores.

    Raises
    ------
    InputError
        Unknown scenario or storage; a job without baseline in S1, S2 or S5.

    References
    ----------
    [1] Tong et al., arXiv:2610.13047 (2026), Table III.
    """
    faults = Faults("scenario_network")
    faults.require(scenario in _LOADS, "scenario", scenario, f"one of {', '.join(_LOADS)}")
    for storage in storages:
        known = storage in n.stores.index or storage in n.storage_units.index
        faults.require(known, "storage", storage, f"one of {sorted([*n.stores.index, *n.storage_units.index])}")
    faults.raise_any()
    _, freedom, with_storage = _LOADS[scenario]
    changes = [load.restricted(freedom) for load in loads(n).values()]
    copy = copy_network(n)
    for change in changes:
        if change is not None:
            change(copy)
    if not with_storage:
        for storage in storages:
            if storage in copy.storage_units.index:
                copy.storage_units.loc[storage, "active"] = False
            else:
                charging, discharging = links_of(copy, storage)
                copy.stores.loc[storage, "active"] = False
                copy.links.loc[charging + discharging, "active"] = False
    return copy
