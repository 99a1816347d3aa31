"""A request for service: where, how many megawatts by year, and when the load may be cut or can give way."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from pypsa_aidc.errors import Faults, InputError
from pypsa_aidc.fleet import Contract, Surface
from pypsa_aidc.headroom.bus.response import Windows, response
from pypsa_aidc.network import UPS, Battery, Cooling, Genset
from pypsa_aidc.training import TrainingLoad


@dataclass(frozen=True)
class Budget:
    """Terms under which a load may be cut; what is None is not limited.

    Parameters
    ----------
    hours
        Hours a year in which it may be cut, at least 0. A study over part of a year counts the hours of that part.
    longest
        Hours of the longest event, whole, at least 1.
    depth
        Share of the size that may be cut at most, above 0 and at most 1.
    events
        Events a year, whole, at least 0.

    Raises
    ------
    InputError
        A term out of its range, or terms that exclude each other.

    Examples
    --------
    >>> Budget(hours=88, longest=4, depth=0.4)
    Budget(hours=88, longest=4, depth=0.4, events=None)
    """

    hours: float | None = None
    longest: int | None = None
    depth: float = 1.0
    events: int | None = None

    def __post_init__(self) -> None:
        faults = Faults("Budget")
        if self.hours is not None:
            faults.number("hours", self.hours, at_least=0)
        if self.longest is not None:
            faults.number("longest", self.longest, at_least=1, integer=True)
        if self.events is not None:
            faults.number("events", self.events, at_least=0, integer=True)
        faults.number("depth", self.depth, above=0, at_most=1, remedy="A share of the size: 0.4 for 40 %.")
        faults.raise_any()
        if self.hours is not None:
            several = f"no more than the {self.hours:g} hours a year"
            faults.require(self.longest is None or self.longest <= max(self.hours, 1), "longest", self.longest, several)
            faults.require(self.events is None or self.events <= self.hours, "events", self.events, several)
        faults.raise_any()


Unit = Battery | Genset | UPS | Cooling
UNITS: Mapping[type, str] = {Battery: "battery", Genset: "genset", UPS: "ups", Cooling: "cooling"}
"""What may stand behind the meter, and what tables call it."""


@dataclass(frozen=True)
class Relief:
    """What a load itself can leave undrawn, per MW of its size.

    Attributes
    ----------
    windows : tuple of (int, float)
        Hours h and depth κ_h: over each window of h hours no more than h·κ_h.
    longest : float
        Hours up to which anything is known of an event; what lasts longer is not delivered beyond.
    hours : float
        Hours in all.
    source : str
        Where it comes from, in a word.
    """

    windows: tuple[tuple[int, float], ...]
    longest: float = math.inf
    hours: float = math.inf
    source: str = ""


@dataclass(frozen=True, kw_only=True)
class Request:
    """One AIDC that asks for service.

    Parameters
    ----------
    name
        Unique in the batch.
    bus
        Bus of the network.
    nameplate
        MW at the meter, above 0; or by year, at least 0, each year the last one given before it.
    budget
        Terms under which it may be cut. Without and without relief, its conditional megawatts are its firm ones.
    contract
        What it delivers itself, as of `n.aidc.headroom`: a mapping {h: κ_h}, a `Surface` with `peak`, a `Contract` with
        `peak`. With a budget, the budget decides the size, and what of its cuts this delivers is told; without, the
        size is the largest that this relief alone makes possible.
    peak
        MW at the meter of the fleet that K was measured on.
    reliability
        Of a `Surface`.
    jobs
        Training loads that run there and may wait; instead of a contract. Their envelope: all of their power in the
        largest mode, for as many hours as their deadline leaves.
    units
        Batteries, gensets, UPS and stored cold behind its meter; with a budget, which decides the size. Of the cuts
        they deliver what `contract` or `jobs` leave, those of the lowest marginal cost first. What was taken
        from a store is back a day after, but not while the load is cut; cold spares by the COP of the hour.
    power_factor
        Of the load, lagging, above 0 and at most 1; says its MVAr, which power flow in direct current does not see.

    Raises
    ------
    InputError
        Anything out of range, or terms that exclude each other; all at once.

    Examples
    --------
    >>> Request(name="east", bus="B", nameplate={2027: 100.0, 2030: 300.0}).at(2028)
    100.0
    """

    name: str
    bus: str
    nameplate: float | Mapping[int, float]
    budget: Budget | None = None
    contract: Windows | Surface | Contract | None = None
    peak: float | None = None
    reliability: float = 0.95
    jobs: Sequence[TrainingLoad] = ()
    units: Sequence[Unit] = ()
    power_factor: float = 1.0

    def __post_init__(self) -> None:
        faults = Faults(f"request {self.name!r}")
        faults.require(isinstance(self.name, str) and self.name != "", "name", self.name, "a name")
        if isinstance(self.nameplate, Mapping):
            faults.require(bool(self.nameplate), "nameplate", {}, "MW for at least one year")
            for year, megawatts in self.nameplate.items():
                faults.number("nameplate, year", year, at_least=0, integer=True)
                faults.number(f"nameplate in {year}", megawatts, at_least=0)
        else:
            faults.number("nameplate", self.nameplate, above=0, remedy="MW, or a mapping from years to MW.")
        faults.kind("budget", self.budget, (Budget, type(None)), "a Budget, or None")
        faults.number("power_factor", self.power_factor, above=0, at_most=1)
        faults.number("reliability", self.reliability, above=0, at_most=1)
        jobs = faults.listed("jobs", self.jobs, "training loads, as a list")
        for job in jobs:
            faults.kind("jobs", job, TrainingLoad, "a TrainingLoad")
        units = faults.listed("units", self.units, "units behind the meter, as a list")
        for unit in units:
            faults.kind("units", unit, tuple(UNITS), "a Battery, Genset, UPS or Cooling")
        remedy = "Of its own cuts they deliver; they make no size larger."
        faults.require(not units or self.budget is not None, "units", len(units), "nothing without a budget", remedy)
        both = "nothing beside a contract: the same megawatts would give way twice"
        faults.require(self.contract is None or not jobs, "jobs", [getattr(job, "name", job) for job in jobs], both)
        measured = isinstance(self.contract, Surface | Contract)
        faults.require(measured or self.peak is None, "peak", self.peak, "nothing without a Surface or a Contract")
        if isinstance(self.contract, Contract) and self.budget is not None and self.budget.longest is not None:
            longest = f"at most the {self.contract.duration} h of a call of its contract"
            faults.require(
                self.budget.longest <= self.contract.duration, "budget, longest", self.budget.longest, longest
            )
        faults.raise_any()

    def at(self, year: int | None) -> float:
        """Nameplate in a year, MW: the last one given up to then, 0 before the first; of no year, the largest."""
        if not isinstance(self.nameplate, Mapping):
            return float(self.nameplate)
        given = {int(start): float(megawatts) for start, megawatts in self.nameplate.items()}
        if year is None:
            return max(given.values())
        return given[max(start for start in given if start <= year)] if min(given) <= year else 0.0

    @property
    def mvar(self) -> float:
        """MVAr for each MW."""
        return math.tan(math.acos(self.power_factor))

    def relief(self, snapshots: pd.Index, faults: Faults) -> Relief | None:
        """What it delivers itself, `None` if nothing; faults of a contract are noted under the name of the request."""
        for unit in self.units:
            if isinstance(unit, Cooling):
                unit.cop_of(snapshots, faults)
        if self.jobs:
            return self._waiting(float(len(snapshots)))
        if self.contract is None:
            return None
        own = Faults(f"request {self.name!r}")
        try:
            windows = response(snapshots, 1.0, None, self.contract, self.peak, self.reliability, own).windows
            own.raise_any()
        except InputError as error:
            for fault in error.faults:
                faults.add(f"request {self.name!r}, {fault.where}", fault.given, fault.expected, fault.remedy)
            return None
        if isinstance(self.contract, Contract):
            return Relief(windows, float(self.contract.duration), source="contract")
        return Relief(windows, float(max(h for h, _ in windows)), source="K" if self.peak else "windows")

    def _waiting(self, horizon: float) -> Relief:
        """Relief of jobs that wait at checkpoints: in each hour the power of those that can still afford it."""
        waiting = [job for job in self.jobs if job.rules.waiting]
        power, hours = 0.0, math.inf
        for job in waiting:
            largest = max(job.modes, key=lambda mode: mode.flops_per_s)
            left = (horizon if job.deadline is None else min(job.deadline, horizon)) - job.rules.arrival
            spare = math.floor(left - job.hours(largest) - job.rules.restart_hours + 1e-9)
            if spare >= 1:
                power, hours = power + largest.it_power, min(hours, spare)
        if not power:
            return Relief(((1, 0.0),), 0.0, 0.0, "jobs")
        return Relief(((1, min(power / self.at(None), 1.0)),), hours, hours, "jobs")
