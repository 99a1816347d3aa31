"""Adequacy: energy not served and hours with loss of load, with and without an AIDC, and what its relief is worth."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from pypsa_aidc.errors import Faults
from pypsa_aidc.fleet import Contract, Surface
from pypsa_aidc.headroom.bus.response import Windows, response
from pypsa_aidc.headroom.capacity.units import Floats, draw_outages, rates_of
from pypsa_aidc.headroom.region.demand import Demand
from pypsa_aidc.headroom.service.allocation import Hours
from pypsa_aidc.headroom.service.replay import delivered, events
from pypsa_aidc.headroom.service.request import Relief
from pypsa_aidc.network.spec.series import Values, aligned

_MOST_ZONES = 12
_CHUNK = 4_000_000
"""Hours of all trials and zones that are held at once."""
_UNITS = {"eue": "MWh", "lolh": "h", "lole": "days", "eue_error": "MWh", "lolh_error": "h", "lole_error": "days"}
WITHOUT, WITH, RELIEVED = "without the load", "with the load", "with the load and its relief"


@dataclass(frozen=True, eq=False)
class Shortfalls:
    """The hours of all trials in which capacity lacks, with the load: (trial, hour) ascending.

    Attributes
    ----------
    trial, hour : numpy.ndarray
        Which.
    there : numpy.ndarray
        MW not served of the sets of zones with the AIDC: more capacity in its zone makes it less.
    elsewhere : numpy.ndarray
        The same of the sets without it, which no capacity in its zone changes.
    trials, hours : int
        How many.
    """

    trial: NDArray[np.int64]
    hour: NDArray[np.int64]
    there: Floats
    elsewhere: Floats
    trials: int
    hours: int

    def unserved(self, help: float | Floats = 0.0) -> Floats:
        """MW not served, if there were `help` MW more in the zone of the AIDC."""
        return np.maximum(np.maximum(self.there - help, self.elsewhere), 0.0)

    def by_trial(self, megawatts: Floats) -> Floats:
        """Sum over the hours of each trial, shape (trials,)."""
        return np.bincount(self.trial, megawatts, self.trials).astype(float)


@dataclass(frozen=True, repr=False)
class Adequacy:
    """Whether there is capacity enough.

    Attributes
    ----------
    table : pandas.DataFrame
        Without the load, with it, and with it and its relief: `eue` (MWh not served), `lolh` (hours) and `lole` (days
        with loss of load) of the hours studied, each with its standard error.
    elcc : float
        MW of a unit without outages, in the same zone, that does as much for the energy not served as the relief; NaN
        without relief, or where nothing is unserved.
    elcc_error : float
        Its standard error, MW.
    capacity : float
        MW of such a unit with which there is no more energy not served than without the load.
    risk : pandas.Series
        Share of the trials in which load is lost, with the load, by hour: the stress hours. With a time zone,
        `Condition.peaks` takes it for a K that is conditional on them.
    replay : pandas.Series
        `hours` in which the load would be cut for capacity alone, `energy` of these cuts and what it would deliver
        of it (MWh), means over trials.
    trials, seed : int
        Of the draw.
    notes : tuple of str
        What a reader has to know.
    """

    table: pd.DataFrame
    elcc: float
    elcc_error: float
    capacity: float
    risk: pd.Series = field(repr=False)
    replay: pd.Series
    trials: int
    seed: int
    notes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        rows = [f"Adequacy({self.trials:,} trials, seed {self.seed})"]
        rows += ["  " + line for line in self.table.round(3).to_string().splitlines()]
        if math.isfinite(self.elcc):
            rows.append(f"  ELCC of the relief: {self.elcc:.4g} ± {self.elcc_error:.2g} MW")
        return "\n".join([*rows, *(f"  {note}" for note in self.notes)])

    def to_frame(self) -> pd.DataFrame:
        """Return `table`."""
        return self.table

    def _repr_html_(self) -> str:
        """Return what a notebook shows: the table, and the ELCC."""
        from pypsa_aidc.markup import Table, card

        return card(self, lambda: [Table("", self.table.reset_index(), _UNITS)], title=repr(self).splitlines()[0])


def adequacy(
    demand: Demand | pd.Series | pd.DataFrame,
    units: pd.DataFrame,
    *,
    load: Values = 0.0,
    zone: str | None = None,
    contract: Windows | Surface | Contract | None = None,
    peak: float | None = None,
    reliability: float = 0.95,
    resource: Values = 0.0,
    available: pd.DataFrame | None = None,
    transfer: Mapping[tuple[str, str], float] | None = None,
    mttr: float | None = None,
    trials: int = 1000,
    seed: int = 0,
) -> Adequacy:
    """Draw forced outages hour by hour, and count energy and hours not served with and without an AIDC.

    Parameters
    ----------
    demand
        MW in each hour; a column a zone.
    units
        One row a unit: `p_nom` (MW), `zone` where there are several, and `mttf` and `mttr` (h between failures and of a
        repair), or `forced_outage_rate` (0 to 1) with `mttr`. Without any of them, a unit has no outages.
    load
        MW that the AIDC draws, a number or one for each hour.
    zone
        Its zone.
    contract
        Its relief, as of `n.aidc.headroom`: {h: κ_h} as shares of its largest draw, or a `Surface` or a `Contract` with
        `peak`. A `Surface` of a `Condition` on stress hours says what is there when it counts; with `risk` these are
        known. Delivered from the first hour of an event on; beyond the longest duration nothing. An event is met
        entirely with the reliability of a surface or contract, else not at all; windows are always met.
    peak, reliability
        Of a surface or contract.
    resource
        MW that always help beside, such as a unit behind the meter without outages.
    available
        Share of `p_nom` by hour, a column for each unit that has one, such as wind.
    transfer
        MW that can flow between two zones, either way.
    mttr
        h, for units that say only their rate.
    trials
        How many times the hours are drawn, at least 2.
    seed
        Of the draw.

    Returns
    -------
    Adequacy

    Raises
    ------
    InputError
        Anything out of range, all at once.

    Notes
    -----
    Energy not served is the least that transfer allows: by the theorem of Gale, the largest, over all sets of zones, of
    their demand less their capacity and what can flow into them. Storage is not counted. All rows come from the same
    draw. ELCC is that of energy not served.

    Examples
    --------
    Two units of 50 MW that are out one hour in ten, and 60 MW of demand: with one of them out 10 MW lack, with both 60.

    >>> hours = pd.date_range("2030-01-01", periods=8760, freq="h")
    >>> units = pd.DataFrame({"p_nom": 50.0, "mttf": 90.0, "mttr": 10.0}, ["a", "b"])
    >>> found = adequacy(pd.Series(60.0, hours), units, trials=200)
    >>> exact = 8760 * (0.18 * 10 + 0.01 * 60)
    >>> row = found.table.loc["without the load"]
    >>> bool(abs(row["eue"] - exact) < 3 * row["eue_error"])
    True
    """
    faults = Faults("adequacy")
    table = _by_zone(demand, faults)
    known = list(table.columns)
    place = known[0] if zone is None and len(known) == 1 else zone
    faults.require(place in known, "zone", zone, f"one of {known}")
    faults.require(len(known) <= _MOST_ZONES, "demand", f"{len(known)} zones", f"at most {_MOST_ZONES}")
    faults.require("p_nom" in units, "units", list(units.columns), "a column p_nom")
    faults.require(units.index.is_unique, "units", "a name twice", "each unit once")
    home = units["zone"] if "zone" in units else pd.Series(known[0], units.index)
    lost = sorted({str(each) for each in home if each not in known})
    faults.require(not lost, "units, zone", lost, f"zones of the demand: {known}")
    faults.require("zone" in units or len(known) == 1, "units", list(units.columns), "a column zone")
    faults.number("trials", trials, at_least=2, integer=True)
    faults.number("seed", seed, at_least=0, integer=True)
    shares = pd.DataFrame(index=table.index) if available is None else available
    ours = shares.index.equals(table.index)
    faults.require(ours, "available", len(shares), "the hours of the demand")
    strangers = [str(each) for each in shares.columns if each not in units.index]
    faults.require(not strangers, "available", strangers, "names of units")
    flows = dict(transfer or {})
    for pair, megawatts in flows.items():
        faults.require(set(pair) <= set(known) and pair[0] != pair[1], "transfer", pair, f"two of {known}")
        faults.number(f"transfer, {pair}", megawatts, at_least=0)
    drawn, always = (
        np.broadcast_to(np.asarray(aligned(value, table.index, name, faults), float), len(table))
        for name, value in {"load": load, "resource": resource}.items()
    )
    for name, value in {"load": drawn, "resource": always}.items():
        faults.require(not (value < 0).any(), name, float(value.min()), "at least 0 MW")
    rates = rates_of(units, mttr, faults) if "p_nom" in units else units
    windows: tuple[tuple[int, float], ...] = ()
    if contract is not None:
        windows = response(table.index, 1.0, None, contract, peak, reliability, faults).windows
        faults.require(bool(drawn.any()), "contract", "given", "nothing without load=")
    faults.raise_any()
    short = _simulate(table, rates, home.to_dict(), shares, flows, str(place), drawn, int(trials), int(seed))
    met = reliability if isinstance(contract, Surface) else getattr(contract, "reliability", 1.0)
    largest = float(drawn.max(initial=0.0))
    relief = Relief(tuple((h, kappa * largest) for h, kappa in windows), float(max((h for h, _ in windows), default=0)))
    helped = _helped(short, always, relief if windows else None, float(met), int(seed), drawn)
    return _answer(short, table.index, drawn, helped, bool(windows) or bool(always.any()), int(seed))


def _by_zone(demand: Demand | pd.Series | pd.DataFrame, faults: Faults) -> pd.DataFrame:
    """Demand as a column a zone, MW."""
    series = demand.series if isinstance(demand, Demand) else demand
    if not faults.kind("demand", series, (pd.Series, pd.DataFrame), "a Demand, a series, or a column a zone"):
        return pd.DataFrame({"all": [0.0]})
    table = series.to_frame("all") if isinstance(series, pd.Series) else series
    values = table.to_numpy(float)
    faults.require(values.size > 0, "demand", values.shape, "at least one hour")
    faults.require(
        bool(np.isfinite(values).all()), "demand", "missing hours", "MW in every hour", "clean() fills them."
    )
    if isinstance(table.index, pd.DatetimeIndex) and len(table) > 1:
        hourly = bool((np.diff(table.index.to_numpy()) == np.timedelta64(1, "h")).all())
        faults.require(hourly, "demand", "other steps", "hours that follow each other: outages last for hours")
    return table.set_axis([str(each) for each in table.columns], axis=1)


def _simulate(
    demand: pd.DataFrame,
    rates: pd.DataFrame,
    home: Mapping[Any, str],
    shares: pd.DataFrame,
    transfer: Mapping[tuple[str, str], float],
    place: str,
    load: Floats,
    trials: int,
    seed: int,
) -> Shortfalls:
    """Draw all trials, some at a time, and keep the hours in which capacity lacks."""
    rng = np.random.default_rng(seed)
    zones, hours = list(demand.columns), len(demand)
    need = {zone: demand[zone].to_numpy(float) + (load if zone == place else 0.0) for zone in zones}
    for name, p_nom, _, _ in _rows(rates):
        need[home[name]] = need[home[name]] - p_nom * _share(shares, name)
    sets = [each for size in range(1, len(zones) + 1) for each in combinations(zones, size)]
    inflow = {
        each: sum(megawatts for pair, megawatts in transfer.items() if (pair[0] in each) != (pair[1] in each))
        for each in sets
    }
    parts: list[tuple[NDArray[Any], ...]] = []
    step = max(1, _CHUNK // (hours * (len(zones) + 2)))
    for first in range(0, trials, step):
        count = min(step, trials - first)
        lost = _lost(rng, rates, home, shares, zones, count, hours)
        lack = {zone: lost[zone] + need[zone] for zone in zones}
        there, elsewhere = np.full((count, hours), -np.inf), np.full((count, hours), -np.inf)
        for each in sets:
            total = sum((lack[zone] for zone in each), start=np.float64(-inflow[each]))
            target = there if place in each else elsewhere
            np.maximum(target, total, out=target)
        trial, hour = np.nonzero((there > 0) | (elsewhere > 0))
        parts.append((trial + first, hour, there[trial, hour], elsewhere[trial, hour]))
    joined = [np.concatenate(each) for each in zip(*parts, strict=True)]
    return Shortfalls(joined[0], joined[1], joined[2], joined[3], trials, hours)


def _share(shares: pd.DataFrame, name: Any) -> Floats:
    """Share of a unit that is there if it is not out, shape (T,)."""
    return shares[name].to_numpy(float) if name in shares else np.ones(len(shares))


def _lost(
    rng: np.random.Generator,
    rates: pd.DataFrame,
    home: Mapping[Any, str],
    shares: pd.DataFrame,
    zones: list[str],
    trials: int,
    hours: int,
) -> dict[str, Floats]:
    """MW that are out in each hour of some trials, by zone, shape (trials, hours)."""
    width = hours + 1
    steps: dict[str, list[tuple[NDArray[np.int64], Floats]]] = {zone: [] for zone in zones}
    apart: list[tuple[str, Floats]] = []
    for name, p_nom, mttf, mttr in _rows(rates):
        trial, start, end = draw_outages(rng, mttf, mttr, trials, hours)
        places = np.r_[trial * width + start, trial * width + end]
        change = np.repeat([p_nom, -p_nom], trial.size)
        if name in shares:
            apart.append((home[name], _level(places, change, trials, width) * _share(shares, name)))
        else:
            steps[home[name]].append((places, change))
    lost = {}
    for zone, own in steps.items():
        places = np.concatenate([np.zeros(0, np.int64), *(each for each, _ in own)])
        lost[zone] = _level(places, np.concatenate([np.zeros(0), *(each for _, each in own)]), trials, width)
    for zone, megawatts in apart:
        lost[zone] = lost[zone] + megawatts
    return lost


def _level(places: NDArray[np.int64], change: Floats, trials: int, width: int) -> Floats:
    """Sum of all steps up to each hour, shape (trials, hours)."""
    steps = np.bincount(places, change, trials * width).reshape(trials, width)
    return np.cumsum(steps[:, :-1], axis=1)


def _rows(rates: pd.DataFrame) -> Iterator[tuple[Any, float, float, float]]:
    """Name, p_nom, mttf and mttr of each unit."""
    values = (rates[name].to_numpy(float).tolist() for name in ("p_nom", "mttf", "mttr"))
    return zip(rates.index, *values, strict=True)


def _helped(short: Shortfalls, always: Floats, relief: Relief | None, met: float, seed: int, load: Floats) -> Floats:
    """MW by which resource and relief help in each shortfall."""
    useful = np.maximum(short.there - np.maximum(short.elsewhere, 0.0), 0.0)
    helped = np.minimum(useful, always[short.hour])
    if relief is None:
        return helped
    rng = np.random.default_rng([seed, 1])
    hours = Hours(np.ones(short.hours), 1.0, np.arange(short.hours) == 0)
    # No load leaves undrawn what it does not draw.
    asked = np.minimum(useful - helped, load[short.hour])
    for trial in np.unique(short.trial):
        mine = np.flatnonzero(short.trial == trial)
        cut = np.zeros(short.hours)
        cut[short.hour[mine]] = asked[mine]
        for begin, end in events(cut, hours):
            if rng.random() >= met:
                cut[begin : end + 1] = 0.0
        helped[mine] += delivered(cut, 1.0, relief, hours)[short.hour[mine]]
    return helped


def _answer(short: Shortfalls, index: pd.Index, load: Floats, helped: Floats, relieved: bool, seed: int) -> Adequacy:
    """Indices of the three cases, and what capacity would do as much."""
    cases = {WITHOUT: short.unserved(load[short.hour]), WITH: short.unserved()}
    if relieved:
        cases[RELIEVED] = short.unserved(helped)
    days = _days(index)
    table = pd.DataFrame({name: _indices(short, unserved, days) for name, unserved in cases.items()}).T
    table.index.name = "case"
    table.attrs["units"] = _UNITS
    elcc, error = _equivalent(short, short.by_trial(cases[RELIEVED])) if relieved else (math.nan, math.nan)
    needed = _equivalent(short, short.by_trial(cases[WITHOUT]))[0] if load.any() else 0.0
    lost = np.bincount(short.hour[cases[WITH] > 1e-9], minlength=short.hours) / short.trials
    # What the load adds is what it would be cut for.
    cut = cases[WITH] - cases[WITHOUT]
    told = {"hours": (cut > 1e-9).sum(), "energy": cut.sum(), "delivered": np.minimum(helped, cut).sum()}
    replay = pd.Series({name: float(value) / short.trials for name, value in told.items()})
    notes = []
    if not 8760 <= short.hours <= 8784:
        notes.append(f"the indices are those of {short.hours:,} hours, not of a year")
    if not len(short.hour):
        notes.append("no hour of any trial lacks capacity")
    return Adequacy(
        table, elcc, error, needed, pd.Series(lost, index, name="risk"), replay, short.trials, seed, tuple(notes)
    )


def _days(index: pd.Index) -> NDArray[np.int64]:
    """Number of the day of each hour."""
    if isinstance(index, pd.DatetimeIndex):
        return np.asarray(pd.factorize(index.floor("D"))[0], dtype=np.int64)
    return np.arange(len(index), dtype=np.int64) // 24


def _indices(short: Shortfalls, unserved: Floats, days: NDArray[np.int64]) -> dict[str, float]:
    """Means over trials of energy, hours and days not served, with their standard errors."""
    lost = unserved > 1e-9
    count = int(days.max(initial=0)) + 1
    pairs = np.unique(short.trial[lost] * count + days[short.hour[lost]])
    values = {
        "eue": short.by_trial(unserved),
        "lolh": short.by_trial(lost.astype(float)),
        "lole": np.bincount(pairs // count, minlength=short.trials).astype(float),
    }
    means = {name: float(value.mean()) for name, value in values.items()}
    errors = {f"{name}_error": float(value.std(ddof=1) / math.sqrt(short.trials)) for name, value in values.items()}
    return means | errors


def _equivalent(short: Shortfalls, target: Floats) -> tuple[float, float]:
    """MW of a unit without outages with which as much energy is not served as `target`, by trial, and its error."""
    wanted, before = float(target.sum()), float(short.unserved().sum())
    if before == 0 or float(short.unserved(np.inf).sum()) > wanted + 1e-9 * before:
        return math.nan, math.nan
    # Linear between the shortfalls: halve the interval of these, then go along the line.
    knots = np.unique(np.r_[0.0, short.there - np.maximum(short.elsewhere, 0.0)])
    knots = knots[knots >= 0]
    low, high = 0, len(knots) - 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if float(short.unserved(float(knots[middle])).sum()) >= wanted else (low, middle)
    ends = [float(short.unserved(float(knots[each])).sum()) for each in (low, high)]
    share = 0.0 if ends[0] <= ends[1] else min(max((ends[0] - wanted) / (ends[0] - ends[1]), 0.0), 1.0)
    found = float(knots[low] + share * (knots[high] - knots[low]))
    slope = (ends[0] - ends[1]) / max(float(knots[high] - knots[low]), 1e-12) / short.trials
    spread = short.by_trial(short.unserved(found)) - target
    error = float(spread.std(ddof=1)) / math.sqrt(short.trials) / slope if slope > 0 else math.nan
    return found, error
