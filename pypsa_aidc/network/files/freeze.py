"""Decided power as set points, for those who solve without this package, and back to free jobs."""

from __future__ import annotations

import warnings
from typing import cast

import numpy as np
import pandas as pd
import pypsa

from pypsa_aidc.errors import Faults, InputError, PriceWarning, StaleError, UnsupportedError
from pypsa_aidc.network.loads.registry import by_kind, loads, refresh, solved
from pypsa_aidc.network.model.storage import CHARGES
from pypsa_aidc.network.pypsa_api import columns, model_of, names, scenario_networks
from pypsa_aidc.network.solve.result import stored_result

_SET_POINT = "p_set"


def decided_generators(n: pypsa.Network) -> list[str]:
    """Names of the Generators whose power this package decides, of whatever kind.

    Those of jobs and of idle GPUs, and the relief and rebound of fleets, whose own load is data anyway.

    Examples
    --------
    >>> decided_generators(pypsa.Network())
    []
    """
    present = names(n.generators.index)
    return [part for load in loads(n).values() for part in load.decided if part in present]


def is_frozen(n: pypsa.Network) -> bool:
    """Whether any decided Generator has a set point, so that a plain ``n.optimize()`` keeps its power."""
    decided = decided_generators(n)
    given = n.get_switchable_as_dense("Generator", _SET_POINT)
    return bool(columns(given, decided).notna().any(axis=None)) if decided else False


def freeze(n: pypsa.Network) -> None:
    """Give every decided Generator the power of its solution as `p_set`, which plain PyPSA keeps.

    A plain ``n.optimize()`` then has the objective and the prices of the LP with fixed paths, less what changes of
    mode cost and GPU-hours are worth, which PyPSA has no place for: `n.aidc.costs` tells both. The exception are
    hours in which a fleet sheds less than its call allows: there its relief sets the price, and in plain PyPSA,
    where relief is data, any price between those of the plants below and above it is as good. A fleet without
    relief and of free size stays free, since all that decides its size is in plain PyPSA too. `thaw` undoes it.

    Parameters
    ----------
    n
        Network with a solution for all of its snapshots, just now or read from a file; changed in place.

    Raises
    ------
    NotSolvedError
        There is no schedule.
    StaleError
        The network was solved again without AIDC jobs, or only a part of its snapshots was solved.
    UnsupportedError
        Storage was kept from charging and discharging at once by binaries, which plain PyPSA would not do; or a fleet
        with relief has a free size: plain PyPSA cannot tie relief to it, and with the size as data, the hours that
        limit it would have no determined price.

    Warns
    -----
    PriceWarning
        A fleet sheds less than it may in some hours: their price is not determined in plain PyPSA.
    """
    decided = decided_generators(n)
    faults = Faults("n.aidc.freeze")
    found = by_kind(n)
    faults.require(bool(found), "network", "no AIDC", "at least one site with a schedule", "Add one with n.aidc.add.")
    faults.raise_any(InputError)
    chosen = solved(n)
    for kind, own in found:
        kind.refuse_frozen(n, own)
    refuse_exclusive(n)
    unsolved = n.snapshots.difference(chosen, sort=False)
    faults.require(
        not len(unsolved),
        "snapshots",
        f"no schedule at {len(unsolved)} of {len(n.snapshots)} snapshots, the first {unsolved[:1].tolist()}",
        "a solution for every snapshot",
        "Solve all of them, or freeze the part that is solved: n.copy(snapshots=...).",
    )
    faults.raise_any(StaleError)
    for scenario, one in (scenario_networks(n) if n.has_scenarios else {"": n}).items():
        for text in [text for _, own in found for load in own.values() for text in load.undetermined(one)]:
            warnings.warn(f"scenario {scenario}: {text}" if scenario else text, PriceWarning, stacklevel=3)
    labels = n.generators.index[names(n.generators.index).isin(decided)]
    # A solver keeps limits only to its tolerance; as data, a power beyond them would be infeasible.
    power = n.c.generators.dynamic["p"]
    most = n.get_switchable_as_dense("Generator", "p_max_pu")[labels] * n.generators.loc[labels, "p_nom"]
    fixed = power.reindex(columns=labels, fill_value=0.0).clip(lower=0.0).clip(upper=most)
    others = n.c.generators.dynamic[_SET_POINT].drop(columns=labels, errors="ignore")
    joined = pd.concat([others, fixed], axis=1)
    joined.columns = joined.columns.set_names(n.generators.index.names)
    n.c.generators.dynamic[_SET_POINT] = joined
    # The power itself says more than the least energy, and a slice of the snapshots needs less of it.
    n.generators.loc[labels, "e_sum_min"] = -np.inf


def thaw(n: pypsa.Network) -> None:
    """Free the jobs of a frozen network, so that `n.aidc.optimize` or the hook decides them again.

    `n.aidc.optimize` does it by itself. The schedule and all results stay.

    Parameters
    ----------
    n
        Network, frozen or not; changed in place.
    """
    labels = n.generators.index[names(n.generators.index).isin(decided_generators(n))]
    n.generators.loc[labels, _SET_POINT] = np.nan
    n.c.generators.dynamic[_SET_POINT] = n.c.generators.dynamic[_SET_POINT].drop(columns=labels, errors="ignore")
    refresh(n)


def refuse_exclusive(n: pypsa.Network) -> None:
    """Refuse a solution that needed binaries to keep storage from charging and discharging at once.

    Raises
    ------
    UnsupportedError
        It did: plain PyPSA has no such binaries.
    """
    storages = [str(name) for name in cast("list[object]", stored_result(n).get("exclusive", []))]
    model = model_of(n)
    if model is not None:
        storages += [name.removeprefix(CHARGES).strip() for name in model.variables if name.startswith(CHARGES)]
    if storages:
        raise UnsupportedError(
            f"frozen copy with exclusive charging of {', '.join(dict.fromkeys(storages))}: plain PyPSA would "
            "charge and discharge it at once, at another objective. Keep the file free with "
            "n.aidc.export(path, frozen=False)."
        )
