"""AIDCs as a network holds them: read from its string columns, listed, removed."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd
import pypsa

from pypsa_aidc.errors import Faults, SpecError
from pypsa_aidc.network.index import names, rows
from pypsa_aidc.network.loads.fleet_spec import fleet_rows, remove_fleet
from pypsa_aidc.network.spec.spec import (
    COLUMN,
    JobSpec,
    SiteSpec,
    dump_job,
    dump_site,
    is_fleet,
    load_job,
    load_site,
    stored,
)
from pypsa_aidc.training import TrainingLoad


@dataclass(frozen=True)
class Site:
    """A site as the network holds it.

    Parameters
    ----------
    spec
        GPU pool and series of the site.
    loads
        Training loads by the name of their Generator.
    """

    spec: SiteSpec
    loads: dict[str, TrainingLoad]

    @property
    def name(self) -> str:
        """Name of the site."""
        return self.spec.name

    @property
    def bus(self) -> str:
        """Bus behind the import, where IT power is balanced."""
        return f"{self.name} IT"

    @property
    def link(self) -> str:
        """Link from the grid bus; its `p_nom` is the connection and its efficiency 1/PUE."""
        return f"{self.name} import"

    @property
    def base(self) -> str:
        """Load of the IT power that is not training."""
        return f"{self.name} base"

    @property
    def idle(self) -> str:
        """Generator for the power of GPUs that run no job, where the site draws it apart."""
        return f"{self.name} idle"


def sites(n: pypsa.Network) -> dict[str, Site]:
    """Read all sites of a network.

    Raises
    ------
    SpecError
        A specification cannot be read, or a component it speaks of is missing.
    """
    specs = [load_site(text, f"site of Link {link!r}") for link, text in stored(n.links)]
    jobs = {name: load_job(text, f"job of Generator {name!r}") for name, text in _stored_jobs(n)}
    found = {
        spec.name: Site(spec, {name: job.load for name, job in jobs.items() if job.site == spec.name}) for spec in specs
    }
    faults = Faults("AIDCs of the network")
    for generator, job in jobs.items():
        faults.require(job.site in found, f"Generator {generator!r}", job.site, f"one of the sites {sorted(found)}")
    for site in found.values():
        faults.require(bool(site.loads), site.name, "no job", "at least one Generator with a job")
        for component, parts in (("buses", [site.bus]), ("loads", [site.base]), ("generators", list(site.loads))):
            for part in parts:
                present = part in names(getattr(n, component).index)
                faults.require(present, site.name, f"no {part!r} in n.{component}", "all components of the site")
    faults.raise_any(SpecError)
    return found


def remove(n: pypsa.Network, name: str) -> None:
    """Remove a site or fleet and everything `add` or `add_fleet` made for it, also where some of it is already gone.

    Raises
    ------
    InputError
        No such site or fleet.
    """
    jobs = {g: load_job(text, g).site for g, text in _stored_jobs(n)}
    known = {load_site(text, link).name for link, text in stored(n.links)} | set(jobs.values())
    loads = {generator for generator, text in stored(n.generators) if is_fleet(text)}
    faults = Faults("n.aidc.remove")
    faults.require(isinstance(name, str) and name in known | loads, "name", name, f"one of {sorted(known | loads)}")
    faults.raise_any()
    if name not in known:
        remove_fleet(n, name)
        return
    site = Site(SiteSpec(name, 1), {})
    for component, parts in (
        ("Generator", [*(generator for generator, place in jobs.items() if place == name), site.idle]),
        ("Load", [site.base]),
        ("Link", [site.link]),
        ("Bus", [site.bus]),
        ("Carrier", [site.bus]),
    ):
        present = [part for part in parts if part in names(n.c[component].static.index)]
        if present:
            n.remove(component, present)


def list_sites(n: pypsa.Network) -> pd.DataFrame:
    """List the jobs of all sites, and all fleets.

    Returns
    -------
    pandas.DataFrame
        Index (site, job); `bus`, `gpus` of the site, `p_nom` in MW, `modes`, `segments`, `hours` in the fastest
        mode, `deadline` in hours, `description`. A fleet is a row (fleet, ``"fleet"``) with `bus`, `p_nom` (of free
        size: as last solved) and its terms as `description`; the rest of it is missing.
    """
    table: dict[tuple[str, str], dict[str, object]] = {
        (site.name, load.name): {
            "bus": _first(n.links["bus0"], site.link),
            "gpus": site.spec.gpus,
            "p_nom": _first(n.links["p_nom"], site.link),
            "modes": len(load.modes),
            "segments": load.rules.count,
            "hours": min(load.hours(mode) for mode in load.modes),
            "deadline": load.deadline,
            "description": load.description,
        }
        for site in sites(n).values()
        for load in site.loads.values()
    }
    table |= fleet_rows(n)
    index = pd.MultiIndex.from_tuples(list(table), names=["site", "job"])
    columns = ["bus", "gpus", "p_nom", "modes", "segments", "hours", "deadline", "description"]
    return pd.DataFrame(list(table.values()), index=index, columns=columns)


def _first(column: pd.Series, name: str) -> object:
    return column[rows(column.index, name)].iloc[0]


def _stored_jobs(n: pypsa.Network) -> list[tuple[str, str]]:
    return [(name, text) for name, text in stored(n.generators) if not is_fleet(text)]


def copy_network(n: pypsa.Network) -> pypsa.Network:
    """Copy a network without its model, which PyPSA refuses to copy once a solver has been attached to it."""
    model, n._model = n._model, None
    try:
        return n.copy()
    finally:
        n._model = model


def store_site(n: pypsa.Network, site: Site) -> None:
    """Write the specification of a site and its jobs into the network's string columns."""
    _store(n.links, {site.link: dump_site(site.spec)})
    _store(n.generators, {g: dump_job(JobSpec(site.name, load)) for g, load in site.loads.items()})


def _store(static: pd.DataFrame, texts: dict[str, str]) -> None:
    if COLUMN not in static.columns:
        static[COLUMN] = ""
    static[COLUMN] = static[COLUMN].fillna("").astype(object)
    for name, text in texts.items():
        static.loc[rows(static.index, name), COLUMN] = text
