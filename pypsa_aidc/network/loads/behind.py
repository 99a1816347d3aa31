"""Battery, genset and UPS behind the meter of an AIDC: plain PyPSA components at its bus, made by one call."""

from __future__ import annotations

import math
from dataclasses import dataclass

import pypsa

from pypsa_aidc.errors import Faults, near
from pypsa_aidc.network.loads.registry import fleets, sites

_COLOURS = {"AIDC battery": "#2ca25f", "AIDC genset": "#8c510a", "AIDC UPS": "#66c2a4"}


@dataclass(frozen=True, kw_only=True)
class Battery:
    """A battery.

    Parameters
    ----------
    p_nom
        MW, above 0.
    e_nom
        MWh that it can hold, above 0.
    efficiency
        Of a round trip, above 0 and at most 1; half of the loss in each direction.
    marginal_cost
        USD/MWh given out.

    Raises
    ------
    InputError
        A value out of its range.

    Examples
    --------
    >>> battery = Battery(p_nom=20.0, e_nom=80.0, efficiency=0.81)
    >>> battery.sustained(1), battery.sustained(8)
    (20.0, 9.0)
    """

    p_nom: float
    e_nom: float
    efficiency: float = 0.85
    marginal_cost: float = 0.0

    def __post_init__(self) -> None:
        faults = Faults("Battery")
        faults.number("p_nom", self.p_nom, above=0)
        faults.number("e_nom", self.e_nom, above=0)
        faults.number("efficiency", self.efficiency, above=0, at_most=1)
        faults.number("marginal_cost", self.marginal_cost)
        faults.raise_any()

    def sustained(self, hours: float) -> float:
        """MW that it gives for so many hours, if full at first."""
        return min(self.p_nom, self.e_nom * math.sqrt(self.efficiency) / hours)


@dataclass(frozen=True, kw_only=True)
class Genset:
    """Equal generators that a permit lets run for some hours.

    Parameters
    ----------
    p_nom
        MW of all, above 0.
    run_hours
        Hours that each may run, over the snapshots of the network; at least 0.
    units
        How many, at least 1.
    marginal_cost
        USD/MWh.

    Raises
    ------
    InputError
        A value out of its range.

    Notes
    -----
    A unit runs at full load or stands still: then the hours of the permit are a budget of energy, which PyPSA's own
    `e_sum_max` keeps exactly, and part load cannot stretch them.
    """

    p_nom: float
    run_hours: float
    units: int = 1
    marginal_cost: float

    def __post_init__(self) -> None:
        faults = Faults("Genset")
        faults.number("p_nom", self.p_nom, above=0)
        faults.number("run_hours", self.run_hours, at_least=0)
        faults.number("units", self.units, at_least=1, integer=True)
        faults.number("marginal_cost", self.marginal_cost)
        faults.raise_any()

    def sustained(self, hours: float) -> float:
        """MW that it gives for so many hours: all, unless the permit is shorter."""
        if hours <= self.run_hours:
            return self.p_nom
        # One unit after the other: each for its own hours.
        return math.floor(self.units * self.run_hours / hours) * self.p_nom / self.units


@dataclass(frozen=True, kw_only=True)
class UPS:
    """An uninterruptible supply, of whose energy the ride-through is never touched.

    Parameters
    ----------
    p_nom
        MW, above 0.
    minutes
        That it holds at this power, above 0.
    ride_through_minutes
        Kept until the gensets have started, at least 0 and below `minutes`.
    efficiency
        Of a round trip.
    marginal_cost
        USD/MWh given out.

    Raises
    ------
    InputError
        A value out of its range, or nothing left beside the ride-through.
    """

    p_nom: float
    minutes: float
    ride_through_minutes: float
    efficiency: float = 0.9
    marginal_cost: float = 0.0

    def __post_init__(self) -> None:
        faults = Faults("UPS")
        faults.number("p_nom", self.p_nom, above=0)
        faults.number("minutes", self.minutes, above=0)
        faults.number("ride_through_minutes", self.ride_through_minutes, at_least=0)
        faults.number("efficiency", self.efficiency, above=0, at_most=1)
        faults.number("marginal_cost", self.marginal_cost)
        faults.raise_any()
        left = self.minutes > self.ride_through_minutes
        faults.require(left, "ride_through_minutes", self.ride_through_minutes, f"less than the {self.minutes:g} min")
        faults.raise_any()

    @property
    def battery(self) -> Battery:
        """What a grid may use of it."""
        usable = self.p_nom * (self.minutes - self.ride_through_minutes) / 60
        return Battery(p_nom=self.p_nom, e_nom=usable, efficiency=self.efficiency, marginal_cost=self.marginal_cost)


def add_behind_the_meter(
    n: pypsa.Network,
    name: str,
    *,
    battery: Battery | None = None,
    genset: Genset | None = None,
    ups: UPS | None = None,
) -> None:
    """Add battery, genset and UPS behind the meter of an AIDC, as plain PyPSA components at its bus.

    Of a site that is the bus ``"<name> IT"``, behind the Link that is its connection: each MW there is PUE MW at the
    meter, and bills and audits call it ``"behind the meter"``. A fleet has no bus of its own, and they stand at that of
    the grid. Made are StorageUnits ``"<name> battery"`` and ``"<name> UPS"``, which end as full as they begin, and
    Generators ``"<name> genset"``, of several units ``"<name> genset 1"`` and so on.

    Parameters
    ----------
    n
        Network; unchanged if anything is wrong.
    name
        A site or fleet of the network.
    battery, genset, ups
        At least one of them. Gensets are binary decisions in each hour.

    Raises
    ------
    InputError
        No such site or fleet, nothing to add, or names that are taken.

    Examples
    --------
    >>> import pypsa, pypsa_aidc as aidc
    >>> n = pypsa.Network(snapshots=range(4))
    >>> _ = n.add("Bus", "grid")
    >>> n.aidc.add_fleet("f1", bus="grid", p_nom=100.0)
    >>> n.aidc.add_behind_the_meter("f1", battery=Battery(p_nom=20.0, e_nom=80.0))
    >>> n.storage_units.loc["f1 battery", ["p_nom", "max_hours"]].tolist()
    [20.0, 4.0]
    """
    faults = Faults(f"n.aidc.add_behind_the_meter {name!r}")
    buses = {key: site.bus for key, site in sites(n).items()}
    buses |= {key: str(n.generators.at[key, "bus"]) for key in fleets(n)}
    faults.require(name in buses, "name", name, "a site or fleet of the network", near(name, buses))
    for key, value, kind in (("battery", battery, Battery), ("genset", genset, Genset), ("ups", ups, UPS)):
        faults.kind(key, value, (kind, type(None)), f"a {kind.__name__}")
    given = any(each is not None for each in (battery, genset, ups))
    faults.require(given, "battery, genset, ups", None, "at least one of them")
    faults.raise_any()
    units = (
        []
        if genset is None
        else [f"{name} genset{f' {i + 1}' if genset.units > 1 else ''}" for i in range(genset.units)]
    )
    stores = {f"{name} battery": battery, f"{name} UPS": None if ups is None else ups.battery}
    for unit in units:
        faults.require(unit not in n.generators.index, "genset", unit, "a name that is not taken")
    for unit, store in stores.items():
        faults.require(store is None or unit not in n.storage_units.index, "name", unit, "a name that is not taken")
    faults.raise_any()
    for carrier, colour in _COLOURS.items():
        if carrier not in n.carriers.index:
            n.add("Carrier", carrier, color=colour)
    for unit, store in stores.items():
        if store is not None:
            one_way = math.sqrt(store.efficiency)
            n.add(
                "StorageUnit",
                unit,
                bus=buses[name],
                carrier=f"AIDC {unit.removeprefix(f'{name} ')}",
                p_nom=store.p_nom,
                max_hours=store.e_nom / store.p_nom,
                efficiency_store=one_way,
                efficiency_dispatch=one_way,
                marginal_cost=store.marginal_cost,
                cyclic_state_of_charge=True,
            )
    if genset is not None:
        each = genset.p_nom / genset.units
        for unit in units:
            n.add(
                "Generator", unit, bus=buses[name], carrier="AIDC genset", p_nom=each, p_min_pu=1.0, committable=True,
                marginal_cost=genset.marginal_cost, e_sum_max=each * genset.run_hours,
            )  # fmt: skip
