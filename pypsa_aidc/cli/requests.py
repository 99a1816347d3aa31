"""Requests for service, upgrades and ratings in the YAML schema of the command line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from pypsa_aidc.cli.series import SeriesConfig, ValuesConfig
from pypsa_aidc.errors import Faults, InputError
from pypsa_aidc.fleet import Surface
from pypsa_aidc.headroom import Budget, Ratings, Request, Upgrade
from pypsa_aidc.network import UPS, Battery, Cooling, Genset
from pypsa_aidc.training import TrainingLoad


@dataclass(frozen=True)
class CoolingConfig:
    """Cold that is stored, and lets chillers stand still for a while.

    Parameters
    ----------
    heat
        MW of heat that it can take off the chillers: no more than is there in each hour.
    e_nom
        MWh of heat that it can take in all.
    cop
        MW of heat for each MW of electricity: a number, pairs of outdoor temperature, °C, and COP, or a column of a CSV
        file.
    temperature
        Outdoors, °C, with pairs: a number, one for each snapshot, or a column of a CSV file.
    recharge
        MW of heat by which chillers can do more than they have to; as much as heat if left out.
    loss
        Share of the cold that is lost each hour.
    marginal_cost
        USD for each MWh that is spared.
    """

    heat: float
    e_nom: float
    cop: float | tuple[tuple[float, float], ...] | SeriesConfig
    temperature: ValuesConfig | None = None
    recharge: float | None = None
    loss: float = 0.0
    marginal_cost: float = 0.0

    def __post_init__(self) -> None:
        if not any(isinstance(each, SeriesConfig) for each in (self.cop, self.temperature)):
            self.cooling(Path())

    def cooling(self, folder: Path) -> Cooling:
        """Return the cooling; files are relative to a folder."""
        given: dict[str, Any] = {each.name: getattr(self, each.name) for each in fields(self)}
        for name, value in given.items():
            given[name] = value.series(folder) if isinstance(value, SeriesConfig) else value
        return Cooling(**given)


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
    battery, genset, ups, cooling
        Behind its meter: what they deliver of its cuts beside; with a budget.
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
    battery: Battery | None = None
    genset: Genset | None = None
    ups: UPS | None = None
    cooling: CoolingConfig | None = None
    power_factor: float = 1.0

    def __post_init__(self) -> None:
        faults = Faults(f"request {self.name!r}")
        sources = {"windows": self.windows, "surface": self.surface, "site": self.site}
        given = [name for name, value in sources.items() if value is not None]
        faults.require(len(given) < 2, "windows", ", ".join(given), "one source of relief")
        faults.require(self.surface is None or self.peak is not None, "peak", None, "MW of the fleet of the surface")
        faults.require(self.surface is not None or self.peak is None, "peak", self.peak, "nothing without a surface")
        try:
            self._made(None, reliability=self.reliability)
        except InputError as error:
            faults.also(error.faults)
        faults.raise_any()

    def request(self, folder: Path, jobs: Mapping[str, tuple[TrainingLoad, ...]]) -> Request:
        """Return the request; files are relative to a folder, `jobs` those of the sites of the file."""
        if self.surface is not None:
            surface = Surface.read(folder / self.surface)
            return self._made(folder, contract=surface, peak=self.peak, reliability=self.reliability)
        if self.site is not None:
            faults = Faults(f"request {self.name!r}")
            faults.require(self.site in jobs, "site", self.site, f"one of the sites {', '.join(jobs) or 'of the file'}")
            faults.raise_any()
            return self._made(folder, jobs=jobs[self.site])
        return self._made(folder, contract=None if self.windows is None else _by_number(self.windows))

    def _made(self, folder: Path | None, **relief: object) -> Request:
        """Request with its relief; without a folder, for what can be checked before any file is read."""
        nameplate = _by_number(self.nameplate) if isinstance(self.nameplate, Mapping) else self.nameplate
        units: list[Any] = [
            each for each in (self.battery, self.genset, self.ups) if isinstance(each, Battery | Genset | UPS)
        ]
        if isinstance(self.cooling, CoolingConfig):
            units.append(Cooling(heat=1.0, e_nom=1.0, cop=1.0) if folder is None else self.cooling.cooling(folder))
        own = {"budget": self.budget, "power_factor": self.power_factor, "units": units}
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
