"""Battery, genset, UPS and cooling behind the meter of an AIDC: plain PyPSA components at its bus, made by one call."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
import pypsa
from numpy.typing import NDArray

from pypsa_aidc.errors import Faults, near
from pypsa_aidc.fleet.cooling import Curve, check_outdoors, read_curve, within
from pypsa_aidc.network.loads.fleet.fleet import Fleet
from pypsa_aidc.network.loads.registry import fleets, sites
from pypsa_aidc.network.loads.site.site import Site
from pypsa_aidc.network.pypsa_api import dense
from pypsa_aidc.network.spec.coverage import coverage
from pypsa_aidc.network.spec.series import Values, aligned
from pypsa_aidc.units import W_PER_MW

Floats = NDArray[np.float64]

_COLOURS = {"AIDC battery": "#2ca25f", "AIDC genset": "#8c510a", "AIDC UPS": "#66c2a4", "AIDC cooling": "#4393c3"}
_COPS = (0.5, 100.0)
_COP_REMEDY = "MW of heat for each MW of electricity; from a PUE: 1 / (PUE - PUE without cooling)."


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


@dataclass(frozen=True, kw_only=True, eq=False)
class Cooling:
    """Cold that is stored, in a tank of chilled water or in the building, and lets chillers stand still for a while.

    What that spares depends on the outdoor temperature: each MW of heat that the store takes is 1/COP MW that the
    chillers do not draw, and 1/COP MW more at another time, when it is filled again.

    Parameters
    ----------
    heat
        MW of heat that it can take off the chillers, above 0: no more than is there in each hour, also while the rest
        of the site gives way.
    e_nom
        MWh of heat that it can take in all, above 0. Of a building: its heat capacity times the rise that is allowed.
    cop
        MW of heat for each MW of electricity, 0.5 … 100, of chillers, towers and pumps together: a number, one for
        each snapshot, or pairs of outdoor temperature, °C, and COP, straight in between. Of a site with a PUE by
        temperature, it is 1 / (PUE - PUE without cooling).
    temperature
        Outdoors, °C, with pairs: a number, or one for each snapshot.
    recharge
        MW of heat by which chillers can do more than they have to; as much as `heat` if None.
    loss
        Share of the cold that is lost each hour, at least 0 and at most 0.5.
    marginal_cost
        USD for each MWh that is spared.

    Raises
    ------
    InputError
        A value out of its range, or a temperature beyond the ends of the pairs.

    Examples
    --------
    At 30 °C the COP is 4: 20 MW of heat are 5 MW of electricity. 40 MWh last for two hours, and for four at half of it.

    >>> tank = Cooling(heat=20.0, e_nom=40.0, cop=[(10.0, 8.0), (40.0, 2.0)], temperature=30.0)
    >>> tank.sustained(2), tank.sustained(4)
    (5.0, 2.5)
    """

    heat: float
    e_nom: float
    cop: Values | Curve
    temperature: Values | None = None
    recharge: float | None = None
    loss: float = 0.0
    marginal_cost: float = 0.0

    def __post_init__(self) -> None:
        faults = Faults("Cooling")
        faults.number("heat", self.heat, above=0)
        faults.number("e_nom", self.e_nom, above=0)
        if self.recharge is not None:
            faults.number("recharge", self.recharge, above=0)
        faults.number("loss", self.loss, at_least=0, at_most=0.5)
        faults.number("marginal_cost", self.marginal_cost)
        self.cop_of(None, faults)
        faults.raise_any()

    def cop_of(self, snapshots: pd.Index | None, faults: Faults) -> Floats:
        """COP in each snapshot, or all that are given; what is wrong with it is noted."""
        several: list[Any] = list(self.cop) if np.iterable(self.cop) else []
        curved = any(np.iterable(each) for each in several) or bool(several and self.temperature is not None)
        if curved and self.temperature is None:
            faults.add("temperature", None, "°C outdoors, for pairs of °C and COP")
        points = read_curve("cop", "COP", self.cop, _COPS, _COP_REMEDY, faults) if curved else np.empty((0, 2))
        plain = curved or self.temperature is None
        faults.require(plain, "temperature", "given", "none: the COP is a number", "Or give pairs of °C and COP.")
        if not np.iterable(self.cop):
            before = len(faults)
            faults.number("cop", self.cop, at_least=_COPS[0], at_most=_COPS[1], remedy=_COP_REMEDY)
            return np.array([1.0 if len(faults) > before else self.cop], dtype=float)
        name, given = ("temperature", self.temperature) if curved else ("cop", self.cop)
        if given is None or (curved and not len(points)):
            return np.ones(1)
        labels = pd.RangeIndex(np.size(given)) if snapshots is None else snapshots
        series = given.to_numpy(float) if snapshots is None and isinstance(given, pd.Series) else given
        values = np.asarray(aligned(series, labels, name, faults), dtype=float).reshape(-1)  # type: ignore[arg-type]
        if not np.isfinite(values).all():
            return np.ones(1)
        if not curved:
            within(faults, "cop", values, _COPS, _COP_REMEDY)
            return values
        check_outdoors("temperature", values, points, faults)
        return np.asarray(np.interp(values, points[:, 0], points[:, 1]), dtype=float)

    def sustained(self, hours: float) -> float:
        """MW that the meter draws less for so many hours, if the store is full at first: where the COP is highest."""
        kept = 1.0 - self.loss
        # Cold that is lost: Σ kept^k of each hour's heat, k = 0 … hours - 1, is what is left of the store by then.
        spread = hours if self.loss == 0 else (1 - kept**hours) / self.loss
        heat = float(min(self.heat, self.e_nom * kept**hours / spread))
        return heat / float(self.cop_of(None, Faults("Cooling")).max())


def add_behind_the_meter(
    n: pypsa.Network,
    name: str,
    *,
    battery: Battery | None = None,
    genset: Genset | None = None,
    ups: UPS | None = None,
    cooling: Cooling | None = None,
) -> None:
    """Add battery, genset, UPS and stored cold behind the meter of an AIDC, as plain PyPSA components at its bus.

    Of a site that is the bus ``"<name> IT"``, behind the Link that is its connection: each MW there is PUE MW at the
    meter, and bills and audits call it ``"behind the meter"``. A fleet has no bus of its own, and they stand at that of
    the grid. Made are StorageUnits ``"<name> battery"`` and ``"<name> UPS"``, which end as full as they begin, and
    Generators ``"<name> genset"``, of several units ``"<name> genset 1"`` and so on.

    Cold is a StorageUnit ``"<name> cooling"`` whose energy is MWh of heat: what it gives is electricity that chillers
    do not draw, and the efficiencies are the COP of the hour. At the bus of a site they contain its PUE, so that each
    MW that is spared is one at the meter.

    Parameters
    ----------
    n
        Network; unchanged if anything is wrong.
    name
        A site or fleet of the network.
    battery, genset, ups, cooling
        At least one of them. Gensets are binary decisions in each hour. Cooling belongs to the power that a site or
        fleet has already: its PUE is at least 1 + 1/COP, and the heat is that of what it always draws (of a site the
        base load and GPUs at rest, of a fleet its load less its relief).

    Raises
    ------
    InputError
        No such site or fleet, nothing to add, names that are taken, or cooling of more than there is.

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
    units = {"battery": battery, "genset": genset, "ups": ups, "cooling": cooling}
    for (key, value), kind in zip(units.items(), (Battery, Genset, UPS, Cooling), strict=True):
        faults.kind(key, value, (kind, type(None)), f"a {kind.__name__}")
    given = any(value is not None for value in units.values())
    faults.require(given, ", ".join(units), None, "at least one of them")
    faults.raise_any()
    gensets = (
        []
        if genset is None
        else [f"{name} genset{f' {i + 1}' if genset.units > 1 else ''}" for i in range(genset.units)]
    )
    stores = {f"{name} battery": battery, f"{name} UPS": None if ups is None else ups.battery}
    for unit in gensets:
        faults.require(unit not in n.generators.index, "genset", unit, "a name that is not taken")
    for unit, store in {**stores, f"{name} cooling": cooling}.items():
        faults.require(store is None or unit not in n.storage_units.index, "name", unit, "a name that is not taken")
    load: Site | Fleet = sites(n).get(name) or fleets(n)[name]
    cold = {} if cooling is None else _cold(n, name, load, cooling, faults)
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
    if cold:
        n.add("StorageUnit", f"{name} cooling", bus=buses[name], carrier="AIDC cooling", **cold)
        spans = coverage(n, cooling=cold["p_max_pu"])
        if isinstance(load, Site):
            replace(load, spec=replace(load.spec, series={**load.spec.series, **spans})).store(n)
        else:
            replace(load, series={**load.series, **spans}).store(n)
    if genset is not None:
        each = genset.p_nom / genset.units
        for unit in gensets:
            n.add(
                "Generator", unit, bus=buses[name], carrier="AIDC genset", p_nom=each, p_min_pu=1.0, committable=True,
                marginal_cost=genset.marginal_cost, e_sum_max=each * genset.run_hours,
            )  # fmt: skip


def _cold(n: pypsa.Network, name: str, load: Site | Fleet, cooling: Cooling, faults: Faults) -> dict[str, Any]:
    """Columns of the StorageUnit of stored cold: its MW are those of chillers at the bus, its MWh those of heat."""
    cop = np.broadcast_to(cooling.cop_of(n.snapshots, faults), len(n.snapshots))
    if isinstance(load, Site):
        pue = 1 / dense(n, "Link", "efficiency", load.link).to_numpy(float)[:, 0]
        least = float(np.min(pue - 1 - 1 / cop))
        remedy = "Give the site the PUE that its cooling makes."
        beyond = f"1/COP is up to {-least:.3g} above PUE - 1"
        faults.require(least > -1e-9, "cooling, cop", beyond, "cooling within the PUE of the site", remedy)
        always = float(dense(n, "Load", "p_set", load.base).to_numpy(float).min())
        always += load.spec.gpus * (load.spec.idle_w or 0.0) / W_PER_MW
        known = "the base load, and GPUs at rest where they are drawn"
    else:
        pue, static, deepest = np.ones_like(cop), n.generators.loc[load.name], max(load.terms.depths, default=np.inf)
        faults.require(not static["p_nom_extendable"], "cooling", name, "a fleet with a size that is given")
        profile, relief = (
            dense(n, "Generator", "p_max_pu", part).to_numpy(float)[:, 0] if part in load.generators else 0.0
            for part in (name, load.relief)
        )
        drawn = float(static["p_nom"]) * (profile - np.minimum(relief, deepest))
        always, known = float(np.min(drawn / (1 + 1 / cop))), "what the fleet draws less its relief and cooling"
    most = f"at most {max(always, 0.0):.4g} MW, {known}"
    faults.require(cooling.heat <= always + 1e-9, "cooling, heat", cooling.heat, most)
    recharge = cooling.heat if cooling.recharge is None else cooling.recharge
    # MW at the bus for each MW of heat: at the IT bus of a site each MW is PUE MW at the meter.
    spared = pd.Series(1 / (cop * pue), n.snapshots)
    p_nom = float(spared.max()) * max(cooling.heat, recharge)
    return {
        "p_nom": p_nom,
        "max_hours": cooling.e_nom / p_nom,
        "p_max_pu": cooling.heat * spared / p_nom,
        "p_min_pu": -recharge * spared / p_nom,
        "efficiency_store": 1 / spared,
        "efficiency_dispatch": spared,
        "standing_loss": cooling.loss,
        "marginal_cost": cooling.marginal_cost,
        "cyclic_state_of_charge": True,
    }
