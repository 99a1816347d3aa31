"""The answer of a service study: who gets how many megawatts, what limits them, what is cut, and what would cure it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import pypsa

from pypsa_aidc.errors import Faults
from pypsa_aidc.fleet import TermSheet
from pypsa_aidc.headroom.bus.base_case import Floats
from pypsa_aidc.headroom.service.allocation import Allocation, Hours, Terms
from pypsa_aidc.headroom.service.replay import attributed, by_hour, cuts, summary, total
from pypsa_aidc.headroom.service.request import Budget, Relief, Request
from pypsa_aidc.plain import counted

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from pypsa_aidc.headroom.service.binding import Basis

FIXED, REDISPATCHED = "fixed", "redispatch"
"""The two ways of dispatch, as the tables call them."""
_TIGHT = 1e-5
_REPLAYED = ("hours", "events", "longest", "depth", "energy", "delivered", "undelivered")
_UNITS = {
    "nameplate": "MW",
    "firm": "MW",
    "conditional": "MW",
    "shortfall": "MW",
    "mvar": "MVAr",
    "worth": "MW/MW",
    "hours": "h",
    "longest": "h",
    "depth": "1",
    "energy": "MWh",
    "delivered": "MWh",
    "undelivered": "MWh",
    "not_delivered": "MW",
    "not_delivered_hours": "h",
}


@dataclass(frozen=True, eq=False)
class MethodAnswer:
    """One year studied one way: firm and conditional allocation, and what would make all nameplates firm."""

    method: str
    firm: Allocation
    conditional: Allocation
    upgrades: pd.DataFrame


@dataclass(frozen=True, eq=False)
class YearAnswer:
    """One year studied both ways."""

    year: int | None
    requests: tuple[Request, ...]
    reliefs: tuple[Relief | None, ...]
    terms: tuple[Terms, ...]
    nameplate: Floats
    hours: Hours
    snapshots: pd.Index
    methods: tuple[MethodAnswer, ...]
    notes: tuple[str, ...]
    fingerprint: str


@dataclass(frozen=True, repr=False)
class ServiceStudy:
    """Firm and conditional megawatts of a batch of AIDCs.

    Attributes
    ----------
    allocation : pandas.DataFrame
        One row a year, request and way of dispatch (``"fixed"``, ``"redispatch"``): `bus`, `nameplate`, `firm` and
        `conditional` MW (the firm ones included), `shortfall` (nameplate less conditional), `limit` (nameplate,
        network, or the term that is used up), `limiter`, `outage` and `snapshot` of what limits the conditional size,
        `worth` (MW for one more MW of it); of the replay `hours`, `events`, `longest` (h), `depth` (largest cut over
        size), `energy`, `delivered` and `undelivered` (MWh), `not_delivered` (MW, the deepest) and
        `not_delivered_hours`; `mvar` at the conditional size.
    limiters : pandas.DataFrame
        What limits the firm and the conditional size of each: `element`, `outage`, `snapshot`, `worth`.
    replay : pandas.DataFrame
        Each hour in which a load is cut: `cut`, `delivered`, `undelivered` (MW), `element`, `outage`.
    causes : pandas.DataFrame
        Cuts by element and outage: `hours`, `deepest` (MW), `energy` (MWh).
    sources : pandas.DataFrame
        What each delivers of its cuts by source (K, windows, contract, jobs, battery, genset, ups, cooling): `hours`,
        `deepest` (MW), `energy` (MWh).
    upgrades : pandas.DataFrame
        By year, way of dispatch and element: `megawatts` of s_nom with which all nameplates are firm, the `outage` and
        `snapshot` of the worst, `cost` (USD, NaN where no unit cost is known).
    snapshots : dict
        Snapshots of each year.
    places : pandas.DataFrame
        `x`, `y` and `v_nom` (kV) of the bus of each request.
    requests : tuple of Request
        What was asked for.
    basis : Basis
        Network of each year, ratings and slack.
    assumptions : dict
        What the study stands on, in words, with a hash of each network.
    notes : tuple of str
        What a reader has to know.
    """

    allocation: pd.DataFrame
    limiters: pd.DataFrame
    replay: pd.DataFrame
    causes: pd.DataFrame
    sources: pd.DataFrame
    upgrades: pd.DataFrame
    snapshots: Mapping[int | None, pd.Index] = field(repr=False)
    places: pd.DataFrame
    requests: tuple[Request, ...] = field(repr=False)
    basis: Basis = field(repr=False)
    assumptions: Mapping[str, str]
    notes: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        years: Sequence[YearAnswer],
        notes: tuple[str, ...],
        assumptions: Mapping[str, str],
        places: pd.DataFrame,
        basis: Basis,
    ) -> ServiceStudy:
        """Put the answers of all years into tables."""
        sizes, limits, replays, sources, upgrades = [], [], [], [], []
        for year in years:
            names = [each.name for each in year.requests]
            for load in range(len(names)):
                for answer in year.methods:
                    size, limiters = _sized(year, answer, load)
                    sizes.append(size)
                    limits += limiters
            for answer in year.methods:
                cut = cuts(answer.conditional)
                by_source = [_given(year, answer, load) for load in range(len(names))]
                given = np.array([total(each, cut.shape[1]) for each in by_source])
                for name, each in zip(names, by_source, strict=True):
                    key = {"year": _key(year.year), "request": name, "dispatch": answer.method}
                    sources += [key | {"source": source} | _given_out(mw, year.hours) for source, mw in each.items()]
                table = by_hour(names, year.snapshots, answer.conditional, given, cut)
                weights = pd.Series(year.hours.weight, year.snapshots)
                table["weight"] = weights.reindex(table["snapshot"]).to_numpy(float)
                replays.append(table.assign(year=_key(year.year), dispatch=answer.method))
                upgrades.append(answer.upgrades.assign(year=_key(year.year), dispatch=answer.method))
        keys = ["year", "request", "dispatch"]
        allocation = pd.DataFrame(sizes).set_index(keys)
        allocation.attrs["units"] = _UNITS
        limiting = pd.DataFrame(limits).set_index([*keys, "size"])
        replay = pd.concat(replays, ignore_index=True)
        shed = replay.assign(energy=replay["cut"] * replay["weight"])
        causes = shed.groupby([*keys, "element", "outage"], sort=False, dropna=False).agg(
            hours=("weight", "sum"), deepest=("cut", "max"), energy=("energy", "sum")
        )
        causes.attrs["units"] = {"hours": "h", "deepest": "MW", "energy": "MWh"}
        shares = pd.DataFrame(sources, columns=[*keys, "source", *causes]).set_index([*keys, "source"])
        shares.attrs["units"] = causes.attrs["units"]
        replay = replay.drop(columns="weight").set_index([*keys, "snapshot"])
        replay.attrs["units"] = {"cut": "MW", "delivered": "MW", "undelivered": "MW"}
        table = pd.concat(upgrades, ignore_index=True).set_index(["year", "dispatch", "element"])
        table.attrs["units"] = {"megawatts": "MW", "cost": "USD"}
        moments = {year.year: year.snapshots for year in years}
        asked = years[0].requests
        tables = (allocation, limiting, replay, causes, shares, table)
        return cls(*tables, moments, places, asked, basis, assumptions, notes)

    def __repr__(self) -> str:
        requests = self.allocation.index.get_level_values("request").unique()
        years = [year for year in self.snapshots if year is not None]
        when = f" in {', '.join(map(str, years))}" if years else ""
        told = f"{self.assumptions['fairness']}, contingencies: {self.assumptions['contingencies']}"
        rows = [f"ServiceStudy({counted(len(requests), 'request')}{when}, {told})"]
        rows += ["  " + line for line in self.side_by_side().round(1).to_string().splitlines()]
        return "\n".join([*rows, *(f"  {note}" for note in self.notes)])

    def _repr_html_(self) -> str:
        """Return what a notebook shows: sizes, what limits them, and when they are cut."""
        from pypsa_aidc.markup import Table, card

        def tables() -> list[Table]:
            return [Table("Megawatts", self.allocation.reset_index()), Table("Causes", self.causes.reset_index())]

        return card(self, tables, self.plot, more="in .allocation and .causes")

    def to_frame(self) -> pd.DataFrame:
        """Return `allocation`."""
        return self.allocation

    def side_by_side(self) -> pd.DataFrame:
        """Firm and conditional MW and hours of cuts, one row a year and request, both ways of dispatch as columns."""
        columns = ["firm", "conditional", "hours"]
        ways = list(self.allocation.index.unique("dispatch"))
        parts = {way: pd.DataFrame(self.allocation.xs(way, level="dispatch"))[columns] for way in ways}
        table: pd.DataFrame = pd.concat(parts, axis=1)
        return table

    def tables(self) -> dict[str, pd.DataFrame]:
        """All tables by name, with their keys as columns."""
        names = ("allocation", "limiters", "causes", "sources", "replay", "upgrades")
        return {name: getattr(self, name).reset_index() for name in names}

    def plot(self, request: str | None = None, year: int | None = None, dispatch: str = FIXED) -> Figure:
        """Draw when a load is cut: a map of hours and months, and a duration curve.

        Parameters
        ----------
        request, year
            Of which; the sum of all in the first year if None.
        dispatch
            ``"fixed"`` or ``"redispatch"``.
        """
        from pypsa_aidc.plots.service import plot_replay

        return plot_replay(self, request, year, dispatch)

    def cut(self, request: str | None = None, year: int | None = None, dispatch: str = FIXED) -> pd.DataFrame:
        """Return `cut` and `delivered` (MW) in every hour of a year, of one request or all together.

        Raises
        ------
        InputError
            No such request, year or way of dispatch.
        """
        faults = Faults("ServiceStudy.cut")
        levels = self.allocation.index
        first = next(iter(self.snapshots)) if year is None else year
        faults.require(first in self.snapshots, "year", year, f"one of {list(self.snapshots)}")
        known = list(levels.get_level_values("request").unique())
        faults.require(request is None or request in known, "request", request, f"one of {known}")
        self._check_way(dispatch, faults)
        faults.raise_any()
        table = self.replay.reset_index()
        mine = (table["dispatch"] == dispatch) & (table["year"] == _key(first))
        if request is not None:
            mine &= table["request"] == request
        summed = table[mine].groupby("snapshot")[["cut", "delivered"]].sum()
        return summed.reindex(self.snapshots[first], fill_value=0.0)

    @property
    def digest(self) -> str:
        """Hash of the study: of all its tables and assumptions."""
        told = hashlib.sha256(json.dumps(dict(self.assumptions), sort_keys=True).encode())
        for name, table in self.tables().items():
            told.update(f"{name}\n{table.to_csv(index=False, float_format='%.9g')}".encode())
        return f"SHA-256 {told.hexdigest()[:16]}"

    def term_sheets(self, dispatch: str = FIXED) -> dict[str, TermSheet]:
        """Make a term sheet of each request: what the study knows of it; what it does not know is missing.

        Megawatts, the replay and the upgrades come from the study, hours, events, longest event and depth from the
        terms that were asked for: where these leave one open, it is missing.

        Parameters
        ----------
        dispatch
            ``"fixed"`` or ``"redispatch"``.

        Raises
        ------
        InputError
            The study was not made with this way of dispatch.
        """
        from pypsa_aidc.headroom.service.terms import term_sheet

        self._check_way(dispatch, faults := Faults("ServiceStudy.term_sheets"))
        faults.raise_any()
        return {request.name: term_sheet(self, request, dispatch) for request in self.requests}

    def ac_check(self, *, voltages: tuple[float, float] = (0.95, 1.05), most: int = 20) -> pd.DataFrame:
        """Check the hours and outages that the sizes rest on by AC power flow. A check, not a certificate.

        Those are what limits the firm and the conditional sizes, and the deepest hour of each cause of cuts, with what
        each load draws then at its power factor, and the dispatch as it is.

        Parameters
        ----------
        voltages
            Limits of buses that have none, per unit.
        most
            Cases at most, by year and kind of size.

        Returns
        -------
        pandas.DataFrame
            By year, size (``"firm"``, ``"conditional"``), snapshot and outage: the requests that it `limits` and the
            `element` by linear flows, and the columns of `n.aidc.ac_check`. Outages of anything but one line or
            transformer are not checked, and `fails` says so.

        Raises
        ------
        InputError
            A study with redispatch alone.
        StaleError
            A network was changed after the study.
        """
        from pypsa_aidc.headroom.service.binding import check_binding

        return check_binding(self, voltages, most)

    def _check_way(self, dispatch: str, faults: Faults) -> None:
        ways = list(self.allocation.index.unique("dispatch"))
        faults.require(dispatch in ways, "dispatch", dispatch, f"one of {ways}")

    def to_csv(self, folder: str | Path) -> None:
        """Write each table as a CSV file into a folder."""
        for name, table in self.tables().items():
            table.to_csv(Path(folder) / f"{name}.csv", index=False, lineterminator="\n")


def fingerprint(n: pypsa.Network) -> str:
    """Hash of what a study reads of a network: components, series and dispatch."""
    digest = hashlib.sha256()
    for component in sorted(n.components, key=lambda each: str(each.name)):
        if component.static.empty:
            continue
        digest.update(f"{component.name}\n{component.static.to_csv()}".encode())
        for attribute in sorted(component.dynamic):
            frame = component.dynamic[attribute]
            if len(frame.columns):
                digest.update(f"{attribute}\n{','.join(map(str, frame.columns))}\n".encode())
                digest.update(pd.util.hash_pandas_object(frame).to_numpy().tobytes())
    return f"SHA-256 {digest.hexdigest()[:16]}"


def _key(year: int | None) -> int | str:
    """Return the year as tables have it: "" where there are no years."""
    return "" if year is None else year


def _given(year: YearAnswer, answer: MethodAnswer, load: int) -> dict[str, Floats]:
    """What a load delivers itself by source, MW, shape (T,)."""
    size, units = float(answer.conditional.size[load]), year.requests[load].units
    return attributed(cuts(answer.conditional)[load], size, year.reliefs[load], units, year.hours, year.snapshots)


def _given_out(megawatts: Floats, hours: Hours) -> dict[str, float]:
    """Hours, deepest megawatts and energy of one source, as of `causes`."""
    on = hours.weight * (megawatts > 0)
    return {"hours": float(on.sum()), "deepest": float(megawatts.max()), "energy": float(on @ megawatts)}


def _sized(year: YearAnswer, answer: MethodAnswer, load: int) -> tuple[dict[str, object], list[dict[str, object]]]:
    """Row of a load in `allocation`, and its rows in `limiters`."""
    request, most = year.requests[load], float(year.nameplate[load])
    firm, found = float(answer.firm.size[load]), float(answer.conditional.size[load])
    cut = cuts(answer.conditional)[load]
    given = total(_given(year, answer, load), cut.size)
    replayed = summary(cut, given, found, year.hours)
    key = {"year": _key(year.year), "request": request.name, "dispatch": answer.method}
    by_kind = {}
    for kind, allocation in (("firm", answer.firm), ("conditional", answer.conditional)):
        size = float(allocation.size[load])
        by_kind[kind] = (
            {"element": "", "outage": "", "snapshot": pd.NaT, "worth": np.nan}
            if size >= most * (1 - _TIGHT)
            else _limiter(allocation, load, year.snapshots)
        )
    limiter = by_kind["conditional"]
    row = key | {
        "bus": request.bus,
        "nameplate": most,
        "firm": firm,
        "conditional": found,
        "shortfall": max(most - found, 0.0),
        "limit": _limit(found, most, replayed, year.terms[load]),
        "limiter": limiter["element"],
        "outage": limiter["outage"],
        "snapshot": limiter["snapshot"],
        "worth": limiter["worth"],
        **{name: replayed[name] for name in _REPLAYED},
        "not_delivered": replayed["shortfall"],
        "not_delivered_hours": replayed["shortfall_hours"],
        "mvar": found * request.mvar,
    }
    return row, [key | {"size": kind} | each for kind, each in by_kind.items()]


def _limiter(allocation: Allocation, load: int, snapshots: pd.Index) -> dict[str, object]:
    """Row that keeps a load from a larger size: the tightest of the hours in which it draws all, or else of any."""
    rows, size = allocation.rows, float(allocation.size[load])
    factor = rows.factor[:, load]
    counts = factor > 1e-9
    left = np.full(len(rows), np.inf)
    left[counts] = np.maximum(rows.slack(allocation.draw)[counts], 0.0) / factor[counts]
    whole = allocation.draw[load, rows.snapshot] >= size * (1 - _TIGHT)
    tight = left <= _TIGHT * max(1.0, size)
    # Where it is cut already, a larger size is cut deeper: a depth or a window limits it, and the lowest draw tells.
    chosen = np.flatnonzero(tight & whole) if (tight & whole).any() else np.flatnonzero(tight)
    if not chosen.size:
        return {"element": "", "outage": "", "snapshot": pd.NaT, "worth": np.nan}
    row = chosen[np.lexsort((left[chosen], allocation.draw[load, rows.snapshot[chosen]]))[0]]
    return {
        "element": rows.element[row],
        "outage": rows.outage[row],
        "snapshot": snapshots[int(rows.snapshot[row])],
        "worth": float(rows.gain[row] / factor[row]),
    }


def _limit(size: float, most: float, replayed: Mapping[str, float], terms: Terms) -> str:
    """What is used up: the nameplate, a term, or what the network carries firmly."""
    budget: Budget | None = terms.budget
    if size >= most * (1 - _TIGHT):
        return "nameplate"
    if terms.windows and replayed["hours"] > 0:
        return "relief"
    if budget is None or replayed["hours"] == 0:
        return "network"
    if replayed["depth"] >= budget.depth * (1 - _TIGHT):
        return "depth"
    if budget.longest is not None and replayed["longest"] >= budget.longest:
        return "longest event"
    if budget.events is not None and replayed["events"] >= budget.events:
        return "events"
    return "hours"
