"""The kinds of load there are, and all loads of a network, whatever their kind."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

import pandas as pd
import pypsa

from pypsa_aidc.errors import Faults, NotSolvedError, SpecError, StaleError
from pypsa_aidc.network.loads.decisions import check_outdated, keep, outdate
from pypsa_aidc.network.loads.fleet.fleet import Fleet
from pypsa_aidc.network.loads.protocol import Load
from pypsa_aidc.network.loads.site.site import Site
from pypsa_aidc.network.model.horizon import network_snapshots
from pypsa_aidc.network.pypsa_api import names, rows, scenario_networks
from pypsa_aidc.network.spec.column import COLUMN, stored
from pypsa_aidc.network.spec.schema import word_of

KINDS: tuple[type[Load], ...] = (Site, Fleet)
"""Every kind of load: one line each."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9 _.+-]*")


def loads(n: pypsa.Network) -> dict[str, Load]:
    """Read every load of a network, of every kind, by name.

    Raises
    ------
    SpecError
        A specification cannot be read or is of no known kind, or a component it speaks of is missing.
    """
    return {name: load for _, own in by_kind(n) for name, load in own.items()}


def sites(n: pypsa.Network) -> dict[str, Site]:
    """Read all sites of a network.

    Raises
    ------
    SpecError
        As for `loads`.
    """
    return {name: load for name, load in loads(n).items() if isinstance(load, Site)}


def fleets(n: pypsa.Network) -> dict[str, Fleet]:
    """Read all fleet loads of a network.

    Raises
    ------
    SpecError
        As for `loads`.
    """
    return {name: load for name, load in loads(n).items() if isinstance(load, Fleet)}


def by_kind(n: pypsa.Network) -> list[tuple[type[Load], dict[str, Load]]]:
    """Read every load of a network; one entry for each kind of which there are any.

    Raises
    ------
    SpecError
        As for `loads`.
    """
    _refuse_unknown(n)
    found: list[tuple[type[Load], dict[str, Load]]] = [(kind, dict(kind.read(n))) for kind in KINDS]
    return [(kind, own) for kind, own in found if own]


def _refuse_unknown(n: pypsa.Network) -> None:
    """Refuse specifications that no kind of load has asked for where they stand."""
    faults = Faults("AIDCs of the network")
    for component in dict.fromkeys(holder for kind in KINDS for holder in (kind.component, *kind.words.values())):
        known = {word for kind in KINDS for word, holder in _words(kind) if holder == component}
        for name, text in stored(n.c[component].static):
            word = word_of(text, f"{component} {name!r}")
            faults.require(
                word in known,
                f"{component} {name!r}, {COLUMN}",
                f"pypsa_aidc/{word}",
                f"one of {', '.join(f'pypsa_aidc/{each}' for each in sorted(known))}",
                "Upgrade pypsa_aidc if a newer one wrote it, or remove the component.",
            )
    faults.raise_any(SpecError)


def _words(kind: type[Load]) -> Iterator[tuple[str, str]]:
    yield kind.word, kind.component
    yield from kind.words.items()


def decided_snapshots(n: pypsa.Network) -> pd.Index:
    """Snapshots for which the decisions of all loads are kept.

    Raises
    ------
    NotSolvedError
        There are no loads, or nothing was solved with them.
    """
    faults = Faults("AIDCs of the network")
    check_outdated(n, faults)
    faults.raise_any(StaleError)
    found = by_kind(n)
    if not found:
        raise NotSolvedError(
            "no AIDC in this network: add one with n.aidc.add or n.aidc.add_fleet, then n.aidc.optimize()"
        )
    snapshots: pd.Index = n.snapshots
    for kind, own in found:
        snapshots = snapshots.intersection(kind.solved(n, own), sort=False)
    return snapshots


def solved(n: pypsa.Network, *kinds: type[Load]) -> pd.Index:
    """Snapshots for which the decisions of all loads are kept, after a check that they are those of the results.

    Decisions of a model just solved are recorded first.

    Parameters
    ----------
    n
        Network.
    kinds
        Kinds to check; all that there are if none is given.

    Raises
    ------
    NotSolvedError
        There are no loads, or nothing was solved with them.
    StaleError
        Power in the network is not that of the decisions: it was solved again without them.
    """
    keep(n)
    snapshots = decided_snapshots(n)
    faults = Faults("AIDCs of the network")
    networks = scenario_networks(n).values() if n.has_scenarios else [n]
    for kind, own in by_kind(n):
        for load in own.values() if not kinds or kind in kinds else ():
            for one in networks:
                load.check_results(one, faults)
    faults.raise_any(StaleError)
    return snapshots


def refuse_unsupported(n: pypsa.Network, snapshots: pd.Index | None = None, *, part: str = "") -> None:
    """Refuse modes of PyPSA in which some kind of load would have wrong results; `part` as for `Load`.

    Raises
    ------
    UnsupportedError
        The first such mode.
    """
    chosen = network_snapshots(n, snapshots)
    for kind, own in by_kind(n):
        kind.refuse_unsupported(n, own, chosen, part=part)


def check_loads(n: pypsa.Network, snapshots: pd.Index | None = None) -> None:
    """Refuse loads that no longer fit the network: other snapshots, blanked series, decided power left in `p_set`.

    Raises
    ------
    StaleError
        All that is stale, at once, with what to do.
    """
    chosen = network_snapshots(n, snapshots)
    faults = Faults("AIDCs of the network")
    check_active(n, faults)
    for load in loads(n).values():
        load.check(n, chosen, faults)
    faults.raise_any(StaleError)


def check_active(n: pypsa.Network, faults: Faults) -> None:
    """Note parts of loads that are switched off: a load is there with all of its parts, or not at all."""
    remedy = "Take a job away with n.aidc.update, or the whole with n.aidc.remove."
    for load in loads(n).values():
        for component, parts in load.parts.items():
            static = n.c[component].static
            for part in parts if "active" in static else ():
                active = bool(static.loc[rows(static.index, part), "active"].all())
                faults.require(active, f"{component} {part!r}, active", False, "True", remedy)


def refresh(n: pypsa.Network, snapshots: pd.Index | None = None) -> None:
    """Bring what `add` and `add_fleet` derived from the snapshots up to date with the network as it is now.

    Sets `p_nom` of the job generators and `e_sum_min`, the least energy a job can need, and clears their `p_set`, in
    which a planner's copy carries decided power; and `e_sum_max` of the relief of fleets, the most energy that their
    budgets allow. `n.aidc.optimize` does it by itself; call it after changing snapshots or weightings if you use the
    hook alone.
    """
    for load in loads(n).values():
        load.refresh(n, snapshots)


def remove(n: pypsa.Network, name: str) -> None:
    """Remove a load and everything that was added for it, also where some of it is already gone.

    Raises
    ------
    InputError
        No such load.
    """
    known = {each: kind for kind in reversed(KINDS) for each in kind.known(n)}
    faults = Faults("n.aidc.remove")
    faults.require(name in known, "name", name, f"one of {sorted(known)}")
    faults.raise_any()
    known[name].remove(n, name)
    for component, own in behind_the_meter(n, name).items():
        n.remove(component, own)
    if not n.c.generators.dynamic["p"].empty:
        outdate(n, f"{name!r} was removed")


def behind_the_meter(n: pypsa.Network, name: str) -> dict[str, list[str]]:
    """Names of what `n.aidc.add_behind_the_meter` has added to a load, by component."""
    own = re.compile(re.escape(name) + " (battery|UPS|cooling|genset( [0-9]+)?)")
    found = {}
    for component in ("StorageUnit", "Generator"):
        carrier = n.c[component].static["carrier"]
        made = names(carrier.index[carrier.isin(("AIDC battery", "AIDC UPS", "AIDC genset", "AIDC cooling"))])
        found[component] = [unit for unit in made if own.fullmatch(unit)]
    return found


def list_loads(n: pypsa.Network) -> pd.DataFrame:
    """List the jobs of all sites, and all fleets.

    Returns
    -------
    pandas.DataFrame
        Index (site, job); `bus`, `gpus` of the site, `p_nom` in MW, `modes`, `segments`, `hours` in the fastest
        mode, `deadline` in hours, `description`. A fleet is a row (fleet, ``"fleet"``) with `bus`, `p_nom` (of free
        size: as last solved) and its terms as `description`; the rest of it is missing.
    """
    table = {(name, job): row for name, load in loads(n).items() for job, row in load.rows(n).items()}
    index = pd.MultiIndex.from_tuples(list(table), names=["site", "job"])
    columns = ["bus", "gpus", "p_nom", "modes", "segments", "hours", "deadline", "description"]
    return pd.DataFrame(list(table.values()), index=index, columns=columns)


def is_name(text: object) -> bool:
    """Whether a text can be a name in every file format: letters, digits, space and ``_ . + -``."""
    return isinstance(text, str) and _NAME.fullmatch(text) is not None


def check_new_name(n: pypsa.Network, name: str, parts: Mapping[str, Sequence[str]], faults: Faults) -> None:
    """Note a fault for a name that files cannot hold, or that stands for components which exist.

    Parameters
    ----------
    n
        Network.
    name
        Name of a load to be.
    parts
        Names of its components by type.
    faults
        Receives the faults.
    """
    faults.require(is_name(name), "name", name, "letters, digits, space and _ . + -", "File formats forbid the rest.")
    if not is_name(name):
        return
    remedy = "n.aidc.remove it first."
    for component, wanted in parts.items():
        for part in wanted:
            taken = part in names(n.c[component].static.index)
            faults.require(not taken, "name", name, f"a new name: {component} {part!r} exists", remedy)
    taken = any(name in kind.known(n) for kind in KINDS)
    faults.require(not taken, "name", name, "a name that no AIDC has", remedy)
