"""AIDC sites as a network holds them: read from its string columns, listed, removed."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd
import pypsa

from pypsa_aidc.errors import Faults, SpecError
from pypsa_aidc.network.index import names, rows
from pypsa_aidc.network.spec import COLUMN, JobSpec, SiteSpec, dump_job, dump_site, load_job, load_site
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
    specs = [load_site(text, f"site of Link {link!r}") for link, text in _stored(n.links)]
    jobs = {name: load_job(text, f"job of Generator {name!r}") for name, text in _stored(n.generators)}
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
    """Remove a site and everything `add` made for it, also where some of it is already gone.

    Raises
    ------
    InputError
        No such site.
    """
    jobs = {g: load_job(text, g).site for g, text in _stored(n.generators)}
    known = {load_site(text, link).name for link, text in _stored(n.links)} | set(jobs.values())
    faults = Faults("aidc.remove")
    faults.require(name in known, "name", name, f"one of {sorted(known)}")
    faults.raise_any()
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
    """List the jobs of all sites.

    Returns
    -------
    pandas.DataFrame
        Index (site, job); `bus`, `gpus` of the site, `p_nom` in MW, `modes`, `segments`, `hours` in the fastest
        mode, `deadline` in hours, `description`.
    """
    table = {
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
    index = pd.MultiIndex.from_tuples(list(table), names=["site", "job"])
    columns = ["bus", "gpus", "p_nom", "modes", "segments", "hours", "deadline", "description"]
    return pd.DataFrame(list(table.values()), index=index, columns=columns)


def _first(column: pd.Series, name: str) -> object:
    return column[rows(column.index, name)].iloc[0]


def _stored(static: pd.DataFrame) -> list[tuple[str, str]]:
    """Name and JSON of the components that hold one, each once also where there are scenarios."""
    if COLUMN not in static.columns:
        return []
    texts = static[COLUMN].fillna("").astype(str)
    unique = texts[texts != ""].groupby(names(texts[texts != ""].index), sort=False)
    faults = Faults("AIDCs of the network")
    for name, group in unique:
        faults.require(group.nunique() == 1, str(name), "different specifications", "one for all scenarios")
    faults.raise_any(SpecError)
    return [(str(name), str(group.iloc[0])) for name, group in unique]


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
