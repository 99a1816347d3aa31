"""Fleet loads as a network holds them: their specification as JSON, read, listed, removed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import pypsa

from pypsa_aidc.errors import Faults, InputError, SpecError
from pypsa_aidc.network.index import names, rows
from pypsa_aidc.network.loads.fleet_terms import FIRM, FleetTerms
from pypsa_aidc.network.spec.schema import dump, parse
from pypsa_aidc.network.spec.spec import COLUMN, FLEET, is_fleet, stored


@dataclass(frozen=True)
class Fleet:
    """A fleet load as the network holds it: what PyPSA's own columns cannot say, and the names of its parts.

    Parameters
    ----------
    name
        Of the fleet, and of the Generator with ``sign=-1`` whose `p` is its load without relief.
    terms
        On which it sheds power.
    series
        For each attribute given as a series: first snapshot, last snapshot and number of snapshots.
    source
        Where K or the path of relief comes from.
    synthetic
        Whether that is the synthetic fleet.
    """

    name: str
    terms: FleetTerms = FIRM
    series: Mapping[str, tuple[str, str, int]] = field(default_factory=dict)
    source: str = ""
    synthetic: bool = False

    @property
    def relief(self) -> str:
        """Generator whose `p` is the power not drawn."""
        return f"{self.name} relief"

    @property
    def rebound(self) -> str:
        """Generator with ``sign=-1`` whose `p` is what is drawn again."""
        return f"{self.name} rebound"

    @property
    def parts(self) -> tuple[str, ...]:
        """Generators that the terms call for."""
        relief = () if self.terms.form == "firm" else (self.relief,)
        return (self.name, *relief, *((self.rebound,) if self.terms.rebound else ()))


def dump_fleet(fleet: Fleet) -> str:
    """Write a fleet as one line of JSON."""
    series = {key: list(value) for key, value in fleet.series.items()}
    return dump(FLEET, {**asdict(fleet), "terms": asdict(fleet.terms), "series": series})


def load_fleet(text: str, where: str) -> Fleet:
    """Read a fleet, or raise `SpecError` naming `where` it stands and every fault."""
    data = parse(text, FLEET, where)
    terms = {key: _tuple(value) for key, value in data["terms"].items()}
    series = {key: (str(first), str(last), int(count)) for key, (first, last, count) in data["series"].items()}
    try:
        return Fleet(data["name"], FleetTerms(**terms), series, data["source"], data["synthetic"])
    except InputError as error:
        raise SpecError(where, error.faults) from error


def _tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def fleets(n: pypsa.Network) -> dict[str, Fleet]:
    """Read all fleet loads of a network.

    Raises
    ------
    SpecError
        A specification cannot be read, or a component it speaks of is missing.
    """
    texts = {name: text for name, text in stored(n.generators) if is_fleet(text)}
    found = {name: load_fleet(text, f"fleet of Generator {name!r}") for name, text in texts.items()}
    faults = Faults("fleets of the network")
    for generator, fleet in found.items():
        faults.require(fleet.name == generator, f"Generator {generator!r}", fleet.name, "a fleet of the same name")
        for part in fleet.parts:
            present = part in names(n.generators.index)
            faults.require(present, fleet.name, f"no {part!r} in n.generators", "all components of the fleet")
    faults.raise_any(SpecError)
    return found


def remove_fleet(n: pypsa.Network, name: str) -> None:
    """Remove a fleet and everything `add_fleet` made for it, also where some of it is already gone."""
    fleet = Fleet(name)
    parts = [fleet.name, fleet.relief, fleet.rebound]
    n.remove("Generator", [part for part in parts if part in names(n.generators.index)])


def store_fleet(n: pypsa.Network, fleet: Fleet) -> None:
    """Write the specification of a fleet into the network's string column."""
    static = n.generators
    if COLUMN not in static.columns:
        static[COLUMN] = ""
    static[COLUMN] = static[COLUMN].fillna("").astype(object)
    static.loc[rows(static.index, fleet.name), COLUMN] = dump_fleet(fleet)


def fleet_rows(n: pypsa.Network) -> dict[tuple[str, str], dict[str, object]]:
    """Rows of `n.aidc.jobs` for the fleets: (fleet, "fleet"), with `bus`, `p_nom` and the terms in words."""
    static = n.generators
    table: dict[tuple[str, str], dict[str, object]] = {}
    for fleet in fleets(n).values():
        row = static.loc[rows(static.index, fleet.name)].iloc[0]
        size = row["p_nom_opt"] if row["p_nom_extendable"] else row["p_nom"]
        free = f"free size up to {row['p_nom_max']:g} MW; " if row["p_nom_extendable"] else ""
        origin = f"; {fleet.source}" if fleet.source else ""
        word = " (synthetic)" if fleet.synthetic else ""
        table[fleet.name, FLEET] = {
            "bus": row["bus"],
            "p_nom": size,
            "description": f"{free}{fleet.terms}{origin}{word}",
        }
    return table
