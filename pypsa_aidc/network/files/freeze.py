"""Decided power as set points, for those who solve without this package, and back to free jobs."""

from __future__ import annotations

import json
import warnings

import numpy as np
import pandas as pd
import pypsa

from pypsa_aidc.errors import Faults, InputError, PriceWarning, StaleError, UnsupportedError
from pypsa_aidc.network.index import columns, names, rows
from pypsa_aidc.network.loads.derived import refresh
from pypsa_aidc.network.loads.fleet_spec import fleets
from pypsa_aidc.network.loads.site import sites
from pypsa_aidc.network.model.storage import CHARGES
from pypsa_aidc.network.results import schedule
from pypsa_aidc.network.results.accessor import Results
from pypsa_aidc.network.results.fleet_results import SHEDDING, operations, solved_snapshots
from pypsa_aidc.network.solve.result import RESULT
from pypsa_aidc.network.spec.spec import COLUMN

_SET_POINT = "p_set"


def decided_generators(n: pypsa.Network) -> list[str]:
    """Names of the Generators whose power this package decides, of whatever kind.

    Those of jobs and of idle GPUs, and the relief and rebound of fleets, whose own load is data anyway.

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
    loads = fleets(n)
    parts = [part for fleet in loads.values() for part in fleet.parts[1:]]
    return [str(name) for name in dict.fromkeys([*specified, *idle, *parts]) if name not in loads]


def is_frozen(n: pypsa.Network) -> bool:
    """Whether any decided Generator has a set point, so that a plain ``n.optimize()`` keeps its power."""
    decided = decided_generators(n)
    given = n.get_switchable_as_dense("Generator", _SET_POINT)
    return bool(columns(given, decided).notna().any(axis=None)) if decided else False


def freeze(n: pypsa.Network) -> None:
    """Give every decided Generator the power of its solution as `p_set`, which plain PyPSA keeps.

    A plain ``n.optimize()`` then has the objective and the prices of the LP with fixed paths, less any
    `mode_change_cost`, which PyPSA has no place for. The exception are hours in which a fleet sheds less than its call
    allows: there its relief sets the price, and in plain PyPSA, where relief is data, any price between those of the
    plants below and above it is as good. A fleet without relief and of free size stays free, since all that decides its
    size is in plain PyPSA too. `thaw` undoes it.

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
    there = bool(decided) or bool(fleets(n))
    faults.require(there, "network", "no AIDC", "at least one site with a schedule", "Add one with n.aidc.add.")
    faults.raise_any(InputError)
    solved = n.snapshots
    if sites(n):
        schedule.read(n)
        solved = schedule.solved_snapshots(n)
    if fleets(n):
        Results(n).calls()
        solved = solved.intersection(solved_snapshots(n), sort=False)
    _refuse_free_sizes(n)
    refuse_exclusive(n)
    unsolved = n.snapshots.difference(solved, sort=False)
    faults.require(
        not len(unsolved),
        "snapshots",
        f"no schedule at {len(unsolved)} of {len(n.snapshots)} snapshots, the first {unsolved[:1].tolist()}",
        "a solution for every snapshot",
        "Solve all of them, or freeze the part that is solved: n.copy(snapshots=...).",
    )
    faults.raise_any(StaleError)
    _warn_of_free_relief(n)
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


def _warn_of_free_relief(n: pypsa.Network) -> None:
    """Warn of hours in which relief between its limits sets the price: as data it sets none."""
    for each in operations(n) if fleets(n) else ():
        terms, most = each.fleet.terms, each.share * each.size
        if terms.form == "calls":
            depth_of = dict(zip(terms.durations, terms.depths, strict=True))
            for start, stop, _ in each.events:
                most[start:stop] = np.minimum(most[start:stop], depth_of[round(each.call[start])] * each.size)
        near = SHEDDING * max(each.size, 1.0)
        free = each.snapshots[(each.relief > near) & (each.relief < most - near)]
        if len(free):
            text = (
                f"fleet {each.fleet.name!r} sheds less than it may in {len(free)} snapshots, the first {free[0]}: "
                "there plain PyPSA gets the right loads and objective, but any price between those of plants around it"
            )
            warnings.warn(text, PriceWarning, stacklevel=4)


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


def _refuse_free_sizes(n: pypsa.Network) -> None:
    static = n.generators
    shedding = [name for name, fleet in fleets(n).items() if fleet.terms.form != "firm"]
    free = [name for name in shedding if static.loc[rows(static.index, name), "p_nom_extendable"].any()]
    if free:
        raise UnsupportedError(
            f"frozen copy with fleets of free size, {', '.join(free)}: plain PyPSA would size them again, and "
            "not tie their relief to it. Add them with the p_nom that was found, solve, and freeze that; or "
            "n.aidc.export(path, frozen=False)."
        )


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
            "n.aidc.export(path, frozen=False)."
        )
