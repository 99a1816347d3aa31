"""The service study: firm and conditional megawatts of a batch of AIDCs, by year, both ways of dispatch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pypsa

from pypsa_aidc.errors import Faults, UnsupportedError, near
from pypsa_aidc.headroom.bus.base_case import base_case, dispatched, freed
from pypsa_aidc.headroom.bus.factors import islands
from pypsa_aidc.headroom.bus.response import is_synthetic
from pypsa_aidc.headroom.bus.slack import Slack, check_slack
from pypsa_aidc.headroom.service.allocation import (
    FAIRNESS,
    Fairness,
    Hours,
    Terms,
    conditional_sizes,
    firm_sizes,
    served,
)
from pypsa_aidc.headroom.service.answer import FIXED, REDISPATCHED, MethodAnswer, ServiceStudy, YearAnswer, fingerprint
from pypsa_aidc.headroom.service.binding import Basis
from pypsa_aidc.headroom.service.contingency import Contingencies, Contingency
from pypsa_aidc.headroom.service.contingency import contingencies as read_contingencies
from pypsa_aidc.headroom.service.limits import FixedDispatch
from pypsa_aidc.headroom.service.rating import Ratings
from pypsa_aidc.headroom.service.redispatch import Redispatch
from pypsa_aidc.headroom.service.reinforcement import reinforcement
from pypsa_aidc.headroom.service.request import Budget, Relief, Request
from pypsa_aidc.headroom.service.year import Upgrade, Years, check_upgrades, chosen_years, network_of
from pypsa_aidc.network.carriers import electric
from pypsa_aidc.plain import counted

_YEAR = (8760.0, 8784.0)


def service_study(
    n: pypsa.Network,
    requests: Sequence[Request],
    *,
    years: Years = None,
    fairness: Fairness = "queue",
    redispatch: bool = True,
    contingencies: Contingencies = None,
    ratings: Ratings | None = None,
    upgrades: Sequence[Upgrade] = (),
    sizes: Mapping[str, float] | None = None,
    unit_costs: Mapping[str, float] | None = None,
    snapshots: pd.Index | None = None,
    slack: Slack = "spare",
    cutoff: float = 1e-6,
    overloads: str = "refuse",
    counterflow: bool = False,
) -> ServiceStudy:
    """Find how many megawatts each of a batch of AIDCs can have, firm and conditional, by year, and what limits them.

    The sizes of all are found together. **Firm** megawatts hold in every hour and outage. **Conditional** megawatts, in
    which the firm ones are included, are the largest size with which cuts in a replay of all hours stay within the
    terms of the request. Both with the dispatch as it is and with redispatch, side by side.

    Parameters
    ----------
    n
        Network, solved or with set points; left as it is.
    requests
        Loads, in the order of the queue.
    years
        `None`: one study, or one for each investment period. A mapping from years to networks, of which `n` is one.
        Or a list of years of one network: what is then built (`build_year`, `lifetime`, `upgrades`) is there.
    fairness
        ``"queue"``: the first gets all it can have, the next what is left, and the last is cut first. ``"pro rata"``:
        equal shares of nameplates; where one can get no more, the others go on. ``"largest sum"`` of megawatts.
    redispatch
        Whether the study is also made with redispatch: generators and links give way at any cost; storage keeps its
        dispatch and ramps do not count, so that hours do not depend on each other.
    contingencies
        What may be out: `None`, ``"all"`` lines and transformers, a file with one a row, or a list of lines, of
        (component, name), and of `Contingency`, which holds groups with a common cause and pairs (N-1-1).
    ratings
        By season, and after outages.
    upgrades
        Dated; need `years`.
    sizes
        MW by request: no sizes are looked for; these are replayed, cut as little as possible.
    unit_costs
        USD for each MW of s_nom, by element such as ``"Line 12"``, or by ``"Line"`` and ``"Transformer"``; for the
        cheapest upgrades with which all nameplates are firm.
    snapshots
        Part of ``n.snapshots``.
    slack, cutoff, overloads
        Of the fixed dispatch, as of `n.aidc.headroom`.
    counterflow
        Whether, with fixed dispatch, what one load draws makes room for another on a branch that it relieves. Without
        (default), no load's megawatts depend on another one drawing its own.

    Returns
    -------
    ServiceStudy
        Tables of sizes, limiters, replay and upgrades.

    Raises
    ------
    InputError
        Anything wrong with requests, contingencies, years or options: all at once, by name.
    NotSolvedError, StaleError, UnsupportedError
        As `n.aidc.headroom`; storage without dispatch where there is redispatch.

    Notes
    -----
    The first of a queue takes the last of what limits it: with redispatch, others may then get nothing although they
    hardly load that element. Compare with ``"largest sum"``.

    An hour in which even the base case has no dispatch within all limits leaves nothing for redispatch; a note, the
    limiter ``"base case: …"`` and the upgrades name the elements.

    Budgets count the hours of the snapshots, by their weightings; a note says so where these are not a year.
    Flows are those of linear power flow. Voltages and stability are not looked at.

    Examples
    --------
    Two equal lines of 100 MW to a load of 60 MW, and for one hour in four of 90 MW: with one lost, 10 MW are left in
    that hour, 40 MW in the others.

    >>> import pypsa, pypsa_aidc
    >>> n = pypsa.Network(snapshots=range(4))
    >>> n.add("Bus", ["A", "B"], v_nom=230.0)
    >>> n.add("Line", ["1", "2"], bus0="A", bus1="B", x=0.1, s_nom=100.0)
    >>> n.add("Generator", "G", bus="A", p_nom=300.0, p_set=[60.0, 90.0, 60.0, 60.0])
    >>> n.add("Load", "L", bus="B", p_set=[60.0, 90.0, 60.0, 60.0])
    >>> batch = [Request(name="east", bus="B", nameplate=50.0, budget=Budget(hours=1, longest=1))]
    >>> found = n.aidc.study(batch, contingencies="all", redispatch=False)
    >>> found.allocation[["firm", "conditional", "hours", "limit"]].values.tolist()
    [[10.0, 40.0, 1.0, 'longest event']]
    """
    batch, networks, outages, reliefs = check_study(
        n, requests, years=years, fairness=fairness, contingencies=contingencies, ratings=ratings, upgrades=upgrades,
        sizes=sizes, unit_costs=unit_costs, snapshots=snapshots, slack=slack, cutoff=cutoff, overloads=overloads,
    )  # fmt: skip
    ratings = Ratings() if ratings is None else ratings
    options = _Options(
        fairness, redispatch, ratings, sizes, unit_costs, snapshots, slack, cutoff, overloads, counterflow
    )
    parts = []
    for year, network in networks.items():
        there = [each for each in (outage.present(network) for outage in outages) if each is not None]
        parts.append(_of_year(network, year, batch, reliefs[year], there, options))
    notes = [note for part in parts for note in part.notes]
    notes += _later(batch, upgrades, [year for year in networks if year is not None])
    made_up = [request.name for request in batch if is_synthetic(request.contract)]
    if made_up:
        notes.append(f"the relief of {', '.join(made_up)} is that of a synthetic fleet")
    assumptions = {
        "requests": "; ".join(f"{each.name} at {each.bus}" for each in batch),
        "fairness": fairness,
        "contingencies": f"{len(outages)} outages",
        "rating after an outage": f"{ratings.after_outage:g} of the normal rating",
        "ratings by season": "yes" if len(ratings.season) else "no",
        "dated upgrades": "; ".join(f"{each.label} +{each.megawatts:g} MW in {each.year}" for each in upgrades)
        or "none",
        "fixed dispatch": f"slack: {slack if isinstance(slack, str) else 'weights by bus'}, cutoff {cutoff:g}, "
        f"overloads: {overloads}, counterflow {'counts' if counterflow else 'does not count'}",
        "redispatch": "generators and links at any cost; storage as dispatched, no ramps; every branch counts"
        if redispatch
        else "not studied",
        "sizes": "given" if sizes is not None else "the largest",
        "power flow": "linear, without losses; voltages and stability are not looked at",
        "power factors": "; ".join(f"{each.name} {each.power_factor:g}" for each in batch),
    } | {f"network{'' if part.year is None else f' {part.year}'}": part.fingerprint for part in parts}
    basis = Basis(networks, ratings, slack)
    return ServiceStudy.of(parts, tuple(dict.fromkeys(notes)), assumptions, _places(networks, batch), basis)


def check_study(
    n: pypsa.Network,
    requests: Sequence[Request],
    *,
    years: Years = None,
    fairness: str = "queue",
    contingencies: Contingencies = None,
    ratings: Ratings | None = None,
    upgrades: Sequence[Upgrade] = (),
    sizes: Mapping[str, float] | None = None,
    unit_costs: Mapping[str, float] | None = None,
    snapshots: pd.Index | None = None,
    slack: Slack = "spare",
    cutoff: float = 1e-6,
    overloads: str = "refuse",
    **_: bool,
) -> tuple[
    list[Request],
    dict[int | None, pypsa.Network],
    list[Contingency],
    dict[int | None, list[Relief | None]],
]:
    """Check what is given to `service_study`, without solving anything; parameters as there.

    Returns
    -------
    requests, networks, contingencies, reliefs
        Checked; networks and what each request delivers itself by year.

    Raises
    ------
    InputError
        Everything that is wrong, at once and by name.
    UnsupportedError
        Networks with scenarios.
    """
    given = [each for each in years.values() if isinstance(each, pypsa.Network)] if isinstance(years, Mapping) else [n]
    if any(each.has_scenarios for each in given):
        raise UnsupportedError(
            "a service study of a network with scenarios: megawatts are allocated in one network. Take one of the "
            "scenarios (n.get_scenario(...)) and study each."
        )
    faults = Faults("study")
    batch = _checked(requests, faults)
    chosen = chosen_years(n, years, faults)
    check_upgrades(n, upgrades, faults)
    faults.require(not upgrades or chosen != [None], "upgrades", len(upgrades), "nothing without years")
    faults.require(fairness in FAIRNESS, "fairness", fairness, f"one of {', '.join(FAIRNESS)}")
    faults.require(overloads in ("refuse", "worsened"), "overloads", overloads, "'refuse' or 'worsened'")
    faults.number("cutoff", cutoff, at_least=0, at_most=1)
    check_slack(n, slack, faults)
    _check_costs(unit_costs, faults)
    networks: dict[int | None, pypsa.Network] = {None: n}
    if not len(faults):
        networks = {year: network_of(n, years, year, upgrades) for year in chosen}
    outages = read_contingencies(list(networks.values()), contingencies, faults)
    ratings = Ratings() if ratings is None else ratings
    for year, network in networks.items():
        _check_buses(network, year, batch, faults)
        ratings.check(network, faults)
    _check_sizes(batch, sizes, faults)
    reliefs = {}
    for year, network in networks.items():
        if not len(faults):
            moments = network.snapshots if snapshots is None else pd.Index(snapshots)
            reliefs[year] = [request.relief(moments, faults) for request in batch]
    faults.raise_any()
    return batch, networks, outages, reliefs


def _later(batch: Sequence[Request], upgrades: Sequence[Upgrade], years: Sequence[int]) -> Iterator[str]:
    """Say what begins after the last year that is studied."""
    dated = [(f"nameplate of {each.name}", each.nameplate) for each in batch if isinstance(each.nameplate, Mapping)]
    begins = [(what, year) for what, steps in dated for year in steps] + [(each.label, each.year) for each in upgrades]
    for what, year in begins:
        if years and year > max(years):
            yield f"{what} in {year} is after {max(years)}, the last year with a network: it is not studied"


@dataclass(frozen=True)
class _Options:
    """Options of a study."""

    fairness: Fairness
    redispatch: bool
    ratings: Ratings
    sizes: Mapping[str, float] | None
    unit_costs: Mapping[str, float] | None
    snapshots: pd.Index | None
    slack: Slack
    cutoff: float
    overloads: str
    counterflow: bool


def _of_year(
    n: pypsa.Network,
    year: int | None,
    batch: Sequence[Request],
    reliefs: Sequence[Relief | None],
    outages: Sequence[Contingency],
    options: _Options,
) -> YearAnswer:
    """Study one year both ways."""
    case = base_case(n, options.snapshots)
    options.ratings.apply(case.network)
    hours = _hours(case.network)
    notes, parts = list(case.notes), []
    total = float(hours.weight.sum())
    if not _YEAR[0] <= total <= _YEAR[1]:
        span = f"{total:,.6g} hour{'' if total == 1 else 's'}"
        notes.append(f"the snapshots stand for {span}, not a year: budgets count within these")
    for request in batch:
        if request.budget is not None and request.budget.hours is not None and request.budget.hours >= total:
            notes.append(f"the budget of {request.name} has as many hours as are studied: it may be cut in all of them")
    buses = [request.bus for request in batch]
    most = np.array([request.at(year) for request in batch])
    terms = [_terms(request, relief) for request, relief in zip(batch, reliefs, strict=True)]
    emergency = options.ratings.after_outage
    for method in (FIXED, REDISPATCHED)[: 1 + options.redispatch]:
        limits: FixedDispatch | Redispatch
        if method == FIXED:
            has_flows = dispatched(case, n)
            limits = FixedDispatch(
                case, has_flows, islands(case.network), buses, outages, emergency, options.slack, options.cutoff,
                options.overloads == "worsened", options.counterflow,
            )  # fmt: skip
        else:
            case = base_case(n, options.snapshots)
            options.ratings.apply(case.network)
            case = freed(case, n)
            limits = Redispatch(case, n, islands(case.network), buses, outages, emergency)
            notes += case.notes
        if limits.splitting:
            first = ", ".join(limits.splitting[:3]) + (", …" if len(limits.splitting) > 3 else "")
            notes.append(f"{len(limits.splitting)} outages split the network and are not studied: {first}")
        firm = firm_sizes(limits, most, hours.weight.size, options.fairness)
        if options.sizes is None:
            found = conditional_sizes(limits, most, terms, hours, firm, options.fairness)
        else:
            given = np.array([float(options.sizes.get(request.name, 0.0)) for request in batch])
            found = served(limits, given, firm, hours, options.fairness)
        if found.gap > 1e-3:
            notes.append(f"conditional sizes ({method}) may be {100 * found.gap:.2g} % below the largest sum")
        missing = reinforcement(limits, most, options.unit_costs, case.network.snapshots)
        parts.append(MethodAnswer(method, firm, found, missing))
        if isinstance(limits, Redispatch) and limits.without_dispatch:
            element, outage = next(iter(limits.without_dispatch.values()))
            notes.append(
                f"in {counted(len(limits.without_dispatch), 'snapshot')} no dispatch keeps all limits even without the "
                f"requests ({element}{f' after {outage}' if outage else ''}): with redispatch nothing fits there"
            )
    return YearAnswer(
        year, tuple(batch), tuple(reliefs), tuple(terms), most, hours, case.network.snapshots, tuple(parts),
        tuple(notes), fingerprint(n),
    )  # fmt: skip


def _terms(request: Request, relief: Relief | None) -> Terms:
    """What decides the conditional size: the budget, or else the relief."""
    if request.budget is not None:
        return Terms(request.budget)
    if relief is None:
        return Terms()
    if relief.source != "jobs":
        return Terms(windows=relief.windows)
    depth = relief.windows[0][1]
    return Terms(Budget(relief.hours, int(relief.longest), depth)) if depth > 0 else Terms()


def _hours(n: pypsa.Network) -> Hours:
    """Weights and order of the snapshots."""
    weight = n.snapshot_weightings["generators"].to_numpy(float)
    first = np.zeros(weight.size, dtype=bool)
    first[0] = True
    if not isinstance(n.snapshots, pd.DatetimeIndex) or weight.size < 2:
        return Hours(weight, 1.0, first)
    gaps = np.diff(n.snapshots.to_numpy()) / np.timedelta64(1, "h")
    step = float(np.median(gaps))
    first[1:] = np.abs(gaps - step) > 1e-6
    return Hours(weight, step, first)


def _checked(requests: Sequence[Request], faults: Faults) -> list[Request]:
    """Requests, each with a name of its own."""
    batch = faults.listed("requests", requests, "a list of Request")
    kept = [each for each in batch if faults.kind("requests", each, Request, "a Request")]
    faults.require(bool(batch), "requests", [], "at least one request")
    names = [each.name for each in kept]
    for name in sorted({name for name in names if names.count(name) > 1}):
        faults.add("requests", name, "each name once")
    return kept


def _check_buses(n: pypsa.Network, year: int | None, batch: Sequence[Request], faults: Faults) -> None:
    when = "" if year is None else f" of {year}"
    grid = n.buses.index[electric(n)]
    for request in batch:
        where = f"request {request.name!r}, bus"
        if request.bus not in n.buses.index:
            faults.add(where, request.bus, f"a bus of the network{when}", near(request.bus, n.buses.index))
        elif request.bus not in grid:
            carrier = n.buses.at[request.bus, "carrier"]
            faults.add(where, request.bus, "a bus of the grid", f"Its carrier {carrier!r} takes no AI data center.")


def _check_sizes(batch: Sequence[Request], sizes: Mapping[str, float] | None, faults: Faults) -> None:
    if sizes is None:
        return
    names = [each.name for each in batch]
    for name, megawatts in sizes.items():
        faults.require(name in names, "sizes", name, "the name of a request", near(name, names))
        faults.number(f"sizes, {name}", megawatts, at_least=0)


def _check_costs(costs: Mapping[str, float] | None, faults: Faults) -> None:
    for element, cost in (costs or {}).items():
        faults.number(f"unit_costs, {element}", cost, at_least=0)


def _places(networks: Mapping[int | None, pypsa.Network], batch: Sequence[Request]) -> pd.DataFrame:
    """Places of the buses of the requests."""
    n = next(iter(networks.values()))
    place = n.buses.loc[[each.bus for each in batch], ["x", "y", "v_nom"]].astype(float)
    placed: pd.DataFrame = place.set_axis(pd.Index([each.name for each in batch], name="request"))
    return placed
