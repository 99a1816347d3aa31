"""Decided power as set points, for those who solve without this package, and back to free jobs."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pypsa

from pypsa_aidc.errors import Faults, InputError, StaleError, UnsupportedError
from pypsa_aidc.network import schedule
from pypsa_aidc.network.derived import refresh
from pypsa_aidc.network.index import columns, names
from pypsa_aidc.network.result import RESULT
from pypsa_aidc.network.site import sites
from pypsa_aidc.network.spec import COLUMN
from pypsa_aidc.network.storage import CHARGES

_SET_POINT = "p_set"


def decided_generators(n: pypsa.Network) -> list[str]:
    """Names of the Generators whose power this package decides, of whatever kind.

    Every Generator with a specification in its column ``aidc``, and those for idle GPUs. A new kind of component
    needs no change here as long as it is a Generator with a specification.

    Examples
    --------
    >>> decided_generators(pypsa.Network())
    []
    """
    generators = n.generators
    if COLUMN not in generators:
        return []
    specified = names(generators.index[generators[COLUMN].fillna("").astype(str) != ""])
    present = names(generators.index)
    idle = [site.idle for site in sites(n).values() if site.spec.idle_w and site.idle in present]
    return [str(name) for name in dict.fromkeys([*specified, *idle])]


def is_frozen(n: pypsa.Network) -> bool:
    """Whether any decided Generator has a set point, so that a plain ``n.optimize()`` keeps its power."""
    decided = decided_generators(n)
    given = n.get_switchable_as_dense("Generator", _SET_POINT)
    return bool(columns(given, decided).notna().any(axis=None)) if decided else False


def freeze(n: pypsa.Network) -> None:
    """Give every decided Generator the power of its solution as `p_set`, which plain PyPSA keeps.

    A plain ``n.optimize()`` then has the objective and the prices of the LP with fixed paths, less any
    `mode_change_cost`, which PyPSA has no place for. `thaw` undoes it.

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
        Storage was kept from charging and discharging at once by binaries, which plain PyPSA would not do.
    """
    decided = decided_generators(n)
    faults = Faults("aidc.freeze")
    faults.require(bool(decided), "network", "no AIDC", "at least one site with a schedule", "Add one with aidc.add.")
    faults.raise_any(InputError)
    schedule.read(n)
    refuse_exclusive(n)
    unsolved = n.snapshots.difference(schedule.solved_snapshots(n), sort=False)
    faults.require(
        not len(unsolved),
        "snapshots",
        f"no schedule at {len(unsolved)} of {len(n.snapshots)} snapshots, the first {unsolved[:1].tolist()}",
        "a solution for every snapshot",
        "Solve all of them, or freeze the part that is solved: n.copy(snapshots=...).",
    )
    faults.raise_any(StaleError)
    labels = n.generators.index[names(n.generators.index).isin(decided)]
    # A solver keeps limits only to its tolerance; as data, a power beyond them would be infeasible.
    power = n.c.generators.dynamic["p"]
    fixed = power.reindex(columns=labels, fill_value=0.0).clip(
        lower=0.0, upper=n.generators.loc[labels, "p_nom"], axis=1
    )
    others = n.c.generators.dynamic[_SET_POINT].drop(columns=labels, errors="ignore")
    joined = pd.concat([others, fixed], axis=1)
    joined.columns = joined.columns.set_names(n.generators.index.names)
    n.c.generators.dynamic[_SET_POINT] = joined
    # The power itself says more than the least energy, and a slice of the snapshots needs less of it.
    n.generators.loc[labels, "e_sum_min"] = -np.inf


def thaw(n: pypsa.Network) -> None:
    """Free the jobs of a frozen network, so that `aidc.optimize` or the hook decides them again.

    `aidc.optimize` does it by itself. The schedule and all results stay.

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
    text = next((text for text in n.links.get(RESULT, pd.Series(dtype=str)).fillna("") if text), "{}")
    storages = list(json.loads(text).get("exclusive", []))
    if n._model is not None:
        storages += [name.removeprefix(CHARGES).strip() for name in n.model.variables if name.startswith(CHARGES)]
    if storages:
        raise UnsupportedError(
            f"frozen copy with exclusive charging of {', '.join(dict.fromkeys(map(str, storages)))}: plain PyPSA would "
            "charge and discharge it at once, at another objective. Keep the file free with "
            "aidc.export(n, path, frozen=False)."
        )
