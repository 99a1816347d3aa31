"""Requests for service, upgrades and ratings in the YAML schema of the command line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pypsa_aidc.errors import Faults, InputError
from pypsa_aidc.fleet import Surface
from pypsa_aidc.headroom import Budget, Ratings, Request, Upgrade
from pypsa_aidc.training import TrainingLoad


@dataclass(frozen=True)
class RequestConfig:
    """One AIDC that asks for service.

    Parameters
    ----------
    name
        Unique in the file.
    bus
        Bus of the network.
    nameplate
        MW at the meter; or by year, as a mapping.
    budget
        Terms under which it may be cut: hours a year, longest event (h), depth (share), events a year.
    windows
        What it delivers itself: a mapping from hours to shares of its size.
    surface
        What it delivers itself: surface.nc, relative to this file; with `peak`.
    peak
        MW at the meter of the fleet that K was measured on.
    reliability
        Of a surface.
    site
        What it delivers itself: name of a site of this file, whose jobs may wait.
    power_factor
        Of the load, lagging.
    """

    name: str
    bus: str
    nameplate: float | Mapping[str, float]
    budget: Budget | None = None
    windows: Mapping[str, float] | None = None
    surface: str | None = None
    peak: float | None = None
    reliability: float = 0.95
    site: str | None = None
    power_factor: float = 1.0

    def __post_init__(self) -> None:
        faults = Faults(f"request {self.name!r}")
        sources = {"windows": self.windows, "surface": self.surface, "site": self.site}
        given = [name for name, value in sources.items() if value is not None]
        faults.require(len(given) < 2, "windows", ", ".join(given), "one source of relief")
        faults.require(self.surface is None or self.peak is not None, "peak", None, "MW of the fleet of the surface")
        faults.require(self.surface is not None or self.peak is None, "peak", self.peak, "nothing without a surface")
        try:
            self._made(reliability=self.reliability)
        except InputError as error:
            faults.also(error.faults)
        faults.raise_any()

    def request(self, folder: Path, jobs: Mapping[str, tuple[TrainingLoad, ...]]) -> Request:
        """Return the request; files are relative to a folder, `jobs` those of the sites of the file."""
        if self.surface is not None:
            surface = Surface.read(folder / self.surface)
            return self._made(contract=surface, peak=self.peak, reliability=self.reliability)
        if self.site is not None:
            faults = Faults(f"request {self.name!r}")
            faults.require(self.site in jobs, "site", self.site, f"one of the sites {', '.join(jobs) or 'of the file'}")
            faults.raise_any()
            return self._made(jobs=jobs[self.site])
        return self._made(contract=None if self.windows is None else _by_number(self.windows))

    def _made(self, **relief: object) -> Request:
        nameplate = _by_number(self.nameplate) if isinstance(self.nameplate, Mapping) else self.nameplate
        own = {"budget": self.budget, "power_factor": self.power_factor}
        return Request(name=self.name, bus=self.bus, nameplate=nameplate, **own, **relief)  # type: ignore[arg-type]


@dataclass(frozen=True)
class UpgradeConfig:
    """A branch whose rating rises.

    Parameters
    ----------
    element
        Name of a line, or component and name, e.g. Transformer T1.
    year
        First year with it.
    megawatts
        MW by which s_nom rises.
    """

    element: str
    year: int
    megawatts: float

    def __post_init__(self) -> None:
        self.upgrade()

    def upgrade(self) -> Upgrade:
        """Return the upgrade."""
        kind, _, name = self.element.partition(" ")
        known = kind in ("Line", "Transformer") and name
        return Upgrade((kind, name) if known else self.element, self.year, self.megawatts)


@dataclass(frozen=True)
class RatingsConfig:
    """Ratings by season and after outages.

    Parameters
    ----------
    season
        Factor of ratings by month, 1 to 12.
    emergency
        Factor after an outage; or by hours for which it holds, as a mapping.
    outage_hours
        Hours for which a flow after an outage has to be borne.
    """

    season: Mapping[str, float] | None = None
    emergency: float | Mapping[str, float] = 1.0
    outage_hours: float = 1.0

    def __post_init__(self) -> None:
        self.ratings()

    def ratings(self) -> Ratings:
        """Return the ratings."""
        emergency = self.emergency if not isinstance(self.emergency, Mapping) else _by_number(self.emergency)
        return Ratings(_by_number(self.season or {}), emergency, self.outage_hours)  # type: ignore[arg-type]


def _by_number(table: Mapping[str, float]) -> dict[int | float | str, float]:
    """Keys of a mapping as numbers; what is none stays, for whoever checks it to say."""
    found: dict[int | float | str, float] = {}
    for key, value in table.items():
        try:
            number = float(key)
        except ValueError:
            found[key] = value
            continue
        found[int(number) if number.is_integer() else number] = value
    return found
