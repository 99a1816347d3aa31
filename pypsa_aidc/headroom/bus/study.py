"""How large an AI data center may be at each bus of a PyPSA network, and what limits it there."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
import pandas as pd
import pypsa

from pypsa_aidc.errors import Faults, UnitWarning, near
from pypsa_aidc.fleet import Contract, Surface
from pypsa_aidc.headroom.bus.answers import NO_SUPPLY, OVERLOADED, UNLIMITED, Answer, BusHeadroom
from pypsa_aidc.headroom.bus.base_case import BaseCase, Floats, base_case, dispatched, freed, refuse_modes
from pypsa_aidc.headroom.bus.factors import Branch, Island, base_flows, chosen_outages, flows_of_set_points, islands
from pypsa_aidc.headroom.bus.redispatch import redispatched
from pypsa_aidc.headroom.bus.response import Response, Windows, is_synthetic, largest_site, response
from pypsa_aidc.headroom.bus.rooms import LIMITED, Room
from pypsa_aidc.headroom.bus.slack import Slack, check_slack, participation
from pypsa_aidc.headroom.bus.transfer import GENERATION, NONE, Draws, Overload, Study, draws, worst_overload
from pypsa_aidc.network import sites
from pypsa_aidc.network.carriers import electric
from pypsa_aidc.network.spec.series import Values
from pypsa_aidc.plain import counted

Overloads = Literal["refuse", "worsened"]
_SUSPICIOUS_LOAD = 3.0
"""Draw per MW of site from which the profile is more likely one in MW."""
_FULL = 0.99
"""Share of a rating from which a base dispatch counts as using all of it."""
_PLANNERS = 0.03
"""Distribution factor from which planners count a branch, the least in use."""
_SUSPICIOUS_OVERLOAD = 20.0
"""Base flow over rating from which a unit mistake is more likely than such an overload."""


def bus_headroom(
    n: pypsa.Network,
    buses: Sequence[str] | None = None,
    *,
    redispatch: bool = False,
    contingencies: str | Sequence[str | Branch] | None = None,
    load: Values = 1.0,
    relief: Values | None = None,
    contract: Windows | Surface | Contract | None = None,
    peak: float | None = None,
    reliability: float = 0.95,
    snapshots: pd.Index | None = None,
    slack: Slack = "spare",
    emergency: float = 1.0,
    overloads: Overloads = "refuse",
    cutoff: float = 1e-6,
    by_snapshot: bool = False,
    memory: float = 256.0,
    prepared: Prepared | None = None,
) -> BusHeadroom:
    """Find the largest AIDC at each bus that the network can carry at all snapshots, and what limits it.

    Parameters
    ----------
    n
        Network; left as it is. Extendable capacities count as what its last optimisation built.
    buses
        Buses to study; `None` for all of the grid: those of heat, fuels and materials, by carrier, and the IT buses
        of sites have no headroom.
    redispatch
        Without (default): generators, storage and links keep the dispatch of the solved network (or, if it has none,
        its set points), and `slack` says where the power of the site comes from; exact for all buses, snapshots and
        outages at once, from distribution factors. With: generators, storage and links are dispatched anew at any
        cost, by a linear programme that is built once and solved again for each bus.
    contingencies
        Outages after which no branch may exceed its rating: `None`, ``"all"`` lines and transformers, or a list of
        lines, or of (component, name). Outages that split the network have no power flow; they are listed in the
        result, and for each bus those that cut it off.
    load
        Draw s_t of the site per MW of its size, at the meter: a number, one for each snapshot, or a series.
    relief
        c_t, what the site may leave undrawn at each snapshot per MW of size: 0.2 is a constant curtailable tier of
        20 %, `load` itself is full curtailment, at most `load` counts, and more than 1 is refused. With a contract both
        hold: no more than c_t at a snapshot, and no more than the contract over its windows.
    contract
        Dependable relief by duration: the sum of relief over each window of h hours is at most h·κ_h per MW of size. A
        mapping {h: κ_h}, shares of the size; a `Surface`, whose K at `reliability` over `peak` is κ; or a `Contract`,
        κ = offer/`peak` in each hour and one call's energy in the hours from call to call. A κ above 1 is refused.
        Needs consecutive hourly snapshots.
    peak
        MW of the fleet whose K it is, at the meter.
    reliability
        Of a `Surface`.
    snapshots
        Part of ``n.snapshots``.
    slack
        Without redispatch, where the power comes from: ``"spare"`` (default), generators of the same sub-network in
        proportion to their unused available power at each snapshot, and never more than it; ``"capacity"``, in
        proportion to p_nom; ``"load"``, in proportion to the mean load of buses; or weights by bus. The last three do
        not look at limits of generators.
    emergency
        Rating of branches after an outage, over their normal rating; at least 1.
    overloads
        ``"refuse"``: no headroom (0 MW, with the worst overloaded element) where a branch of the sub-network is
        overloaded before anything is added, as for a linear programme. ``"worsened"``: only where the site would
        worsen the overload, as planners do. Without redispatch only.
    cutoff
        Distribution factor up to which a branch does not count as affected; planners use 0.03 to 0.05. Without
        redispatch only.
    by_snapshot
        Whether to keep, for each bus and snapshot, the most that can be drawn and what limits it, for `fits` and
        `misfits` of the result. Without redispatch only.
    memory
        Megabytes for the arrays of a block.
    prepared
        What an earlier call for the same network left in it, with all options the same but for `buses`, `load` and
        `by_snapshot`: factors, flows and outages are not computed again. Without redispatch only.

    Returns
    -------
    BusHeadroom
        MW, limiting element, outage, snapshot, and MW of headroom for each MW of rating of the element.

    Raises
    ------
    InputError
        Anything wrong with arguments or network, all at once.
    NotSolvedError
        There is no dispatch to start from, or the solver stopped.
    StaleError
        The network was changed after it was solved.
    UnsupportedError
        Scenarios, investment periods, unit commitment, transmission losses; options of the other method.

    Warns
    -----
    UnitWarning
        A load profile or flows that look as if given in another unit.

    Notes
    -----
    Global constraints (CO2, transmission volume) are not limits of a grid and do not count; the result says so. Without
    redispatch, ramps and energy limits of generators do not either, nor reactive power in both. On networks without
    those, headroom with redispatch is at least that without (``slack="spare"``, ``overloads="refuse"``).

    Generators that stand for load shedding, by carrier, price or size (`backstops`), are no supply: with redispatch
    they stay off, without they keep what they fed in, and the result names them.

    A site of LLM training jobs chooses its hours: `training_headroom` says how much of it fits.

    References
    ----------
    [1] Wood, Wollenberg and Sheblé, Power Generation, Operation and Control (2013), Sec. 7.
    [2] arXiv:2609.05406, Sec. 4: representations of relief.

    Examples
    --------
    Two equal lines from a 300-MW generator to a 100-MW load: with both, 200 − 100 MW; with one lost, nothing.

    >>> import pypsa
    >>> n = pypsa.Network()
    >>> n.add("Bus", ["A", "B"], v_nom=230.0)
    >>> n.add("Line", ["1", "2"], bus0="A", bus1="B", x=0.1, s_nom=100.0)
    >>> n.add("Generator", "G", bus="A", p_nom=300.0, p_set=100.0)
    >>> n.add("Load", "L", bus="B", p_set=100.0)
    >>> bus_headroom(n).headroom.to_dict()
    {'A': 200.0, 'B': 100.0}
    >>> bus_headroom(n, contingencies="all").headroom.to_dict()
    {'A': 200.0, 'B': 0.0}
    """
    faults = Faults("headroom")
    _check_options(redispatch, slack, overloads, cutoff, by_snapshot, faults)
    faults.number("emergency", emergency, at_least=1)
    faults.number("cutoff", cutoff, at_least=0, at_most=1)
    faults.number("memory", memory, above=0)
    faults.require(overloads in ("refuse", "worsened"), "overloads", overloads, "'refuse' or 'worsened'")
    refuse_modes(n)
    chosen = _chosen_buses(n, buses, faults)
    check_slack(n, slack, faults)
    faults.raise_any()
    prepared = Prepared() if prepared is None else prepared
    case = prepared.case or base_case(n, snapshots)
    site = response(case.network.snapshots, load, relief, contract, peak, reliability, faults)
    faults.raise_any()
    _warn_about_units(site)
    if prepared.case is None:
        prepared.has_flows = False if redispatch else dispatched(case, n)
        case = prepared.case = freed(case, n) if redispatch else case
        prepared.islands = islands(case.network)
        prepared.outages, prepared.splitting = chosen_outages(prepared.islands, contingencies)
        prepared.cut_off = _cut_off(prepared.islands)
    found, outages, splitting = prepared.islands, prepared.outages, prepared.splitting
    attrs: dict[str, str | float] = {
        "method": "redispatch, linear programme" if redispatch else "fixed dispatch, distribution factors",
        "contingencies": _describe(contingencies, sum(map(len, outages))),
        "slack": "redispatch" if redispatch else (slack if isinstance(slack, str) else "weights by bus"),
        "emergency": float(emergency),
        "cutoff": float(cutoff),
        "overloads": overloads,
        "response": _describe_response(site),
        "splitting": "; ".join(splitting),
    }
    notes = list(case.notes)
    if is_synthetic(contract):
        attrs["synthetic"] = 1
        notes.append("the relief is that of a synthetic fleet")
    if splitting:
        notes.append(f"{len(splitting)} outages split the network and are not studied")
    attrs["notes"] = "; ".join(notes)
    if redispatch:
        answers = redispatched(case.network, found, outages, chosen, site, emergency)
        return BusHeadroom.of(case.network, _with_bridges(answers, prepared), attrs)
    options = _Options(emergency, overloads, cutoff, by_snapshot, memory, slack)
    by_bus, rooms = _fixed_dispatch(case, prepared, set(chosen), site, options)
    answers = _with_bridges({bus: by_bus[bus] for bus in chosen}, prepared)
    attrs["notes"] = "; ".join([*notes, *_filled(answers, cutoff)])
    needed = None if site.windows else site.load - site.relief
    return BusHeadroom.of(case.network, answers, attrs, rooms if by_snapshot else (), needed)


def _chosen_buses(n: pypsa.Network, buses: Sequence[str] | None, faults: Faults) -> list[str]:
    """Buses to study: those asked for, or all where an AIDC could be connected."""
    at_grid = electric(n) & ~n.buses.index.isin([site.bus for site in sites(n).values()])
    possible = n.buses.index[at_grid]
    if buses is None:
        return list(possible)
    chosen = [buses] if isinstance(buses, str) else faults.listed("buses", buses, "names of buses, as a list")
    for bus in [bus for bus in chosen if bus not in possible]:
        if bus in n.buses.index:
            carrier = n.buses.at[bus, "carrier"]
            faults.add("buses", bus, "a bus of the grid", f"Its carrier {carrier!r} takes no AI data center.")
        else:
            faults.add("buses", bus, "a bus of the network", near(bus, n.buses.index))
    return chosen


@dataclass(frozen=True)
class _Options:
    """Options of the method without redispatch."""

    emergency: float
    overloads: Overloads
    cutoff: float
    by_snapshot: bool
    memory: float
    slack: Slack


@dataclass(eq=False)
class Prepared:
    """What a study of one network has computed that depends on neither buses nor load."""

    case: BaseCase | None = None
    has_flows: bool = False
    islands: list[Island] = field(default_factory=list)
    outages: list[np.ndarray] = field(default_factory=list)
    splitting: Sequence[str] = ()
    cut_off: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    studies: dict[int, tuple[Study | None, str, Overload | None]] = field(default_factory=dict)

    def study(self, n: pypsa.Network, position: int, options: _Options) -> tuple[Study | None, str, Overload | None]:
        """Study of one island, why there is none, and the worst overload before anything is added."""
        if position not in self.studies:
            island = self.islands[position]
            slack = participation(n, island, options.slack)
            if slack.reason:
                self.studies[position] = None, slack.reason, None
                return self.studies[position]
            flow = base_flows(n, island) if self.has_flows else flows_of_set_points(n, island)
            slack_flow, lost = island.ptdf @ slack.weights, self.outages[position]
            study = Study(island, flow, slack, slack_flow, lost, options.emergency, options.cutoff)
            overload = worst_overload(study)
            if overload is not None:
                _warn_about_overload(n, study, overload)
            self.studies[position] = study, "", overload
        return self.studies[position]


def _fixed_dispatch(
    case: BaseCase, prepared: Prepared, chosen: set[str], site: Response, options: _Options
) -> tuple[dict[str, Answer], list[Room]]:
    n = case.network
    answers: dict[str, Answer] = {}
    rooms = []
    for position, island in enumerate(prepared.islands):
        keep = np.flatnonzero(island.buses.isin(list(chosen)))
        if not keep.size:
            continue
        names = island.buses[keep]
        study, reason, overload = prepared.study(n, position, options)
        if study is None:
            answers |= {bus: Answer(0.0, NO_SUPPLY, reason) for bus in names}
            rooms.append(Room.none(island, names, len(n.snapshots)))
            continue
        if overload is not None and options.overloads == "refuse":
            answers |= {bus: _overloaded(n, study, overload) for bus in names}
            rooms.append(Room.none(island, names, len(n.snapshots), overload.branch, overload.outage))
            continue
        limits = draws(study.at(keep), site.watched, site.needed, options.by_snapshot, options.memory)
        size, price = largest_site(limits.draw, site)
        for place, bus in enumerate(names):
            answers[bus] = _answer(n, study, limits, site, place, float(size[place]), price[place])
        rooms.append(Room(island, names, limits.draw, limits.branch, limits.outage))
    return answers, rooms


def _answer(
    n: pypsa.Network, study: Study, limits: Draws, site: Response, bus: int, size: float, price: Floats
) -> Answer:
    if not np.isfinite(size):
        return Answer(np.inf, UNLIMITED, "nothing: no branch, and no generator's limit, is reached")
    hours = np.flatnonzero(price)
    shortfall = size * site.load[hours] - limits.draw[bus, hours]
    hour = int(hours[np.argmax(shortfall)])
    branch, outage = int(limits.branch[bus, hour]), int(limits.outage[bus, hour])
    same = hours[limits.branch[bus, hours] == branch]
    scale = np.where(limits.outage[bus, same] == NONE, 1.0, study.emergency)
    shadow = float((scale * price[same] / limits.factor[bus, same]).sum())
    island = study.island
    if branch == GENERATION:
        return Answer(size, LIMITED, f"generation of sub-network {island.name}", "", n.snapshots[hour], shadow)
    rating = float(island.rating[branch, hour]) * (1.0 if outage == NONE else study.emergency)
    left = float(limits.draw[bus, hour] * limits.factor[bus, hour])
    return Answer(
        size,
        LIMITED,
        island.label(branch),
        "" if outage == NONE else island.label(outage),
        n.snapshots[hour],
        shadow,
        base_use=1 - left / rating if rating > 0 else 1.0,
    )


def _filled(answers: Mapping[str, Answer], cutoff: float) -> list[str]:
    """Say where there is little or no room since the base dispatch uses all of what limits."""
    full = pd.Series({bus: answer.element for bus, answer in answers.items() if answer.base_use >= _FULL}, dtype=str)
    if full.empty:
        return []
    first, more = full.value_counts().index[0], full.nunique() - 1
    named = f"{first}" + (f" and {more} more" if more else "")
    remedy = "try redispatch, in which generation gives way"
    if cutoff < _PLANNERS:
        remedy += f", or a cutoff of {_PLANNERS}, the least share of a site on a branch that planners count"
    where = f"at {len(full)} of {counted(len(answers), 'bus')} the base dispatch alone fills what limits ({named})"
    return [f"{where}, as an optimised dispatch does where lines are scarce: {remedy}"]


def _overloaded(n: pypsa.Network, study: Study, overload: Overload) -> Answer:
    rating = float(study.island.rating[overload.branch, overload.snapshot])
    limit = rating * (1.0 if overload.outage == NONE else study.emergency)
    return Answer(
        0.0,
        OVERLOADED,
        study.island.label(overload.branch),
        "" if overload.outage == NONE else study.island.label(overload.outage),
        n.snapshots[overload.snapshot],
        excess=overload.excess,
        base_use=1 + overload.excess / limit if limit > 0 else np.inf,
    )


def _with_bridges(answers: dict[str, Answer], prepared: Prepared) -> dict[str, Answer]:
    return {bus: replace(answer, cut_off_by=prepared.cut_off.get(bus, ())) for bus, answer in answers.items()}


def _cut_off(found: Sequence[Island]) -> dict[str, tuple[str, ...]]:
    """Branches whose outage cuts each bus off."""
    return {bus: tuple(names) for island in found for bus, names in zip(island.buses, island.cut_off_by(), strict=True)}


def _check_options(
    redispatch: bool, slack: Slack, overloads: Overloads, cutoff: float, by_snapshot: bool, faults: Faults
) -> None:
    """An argument that the method does not use is refused, never ignored."""
    if not redispatch:
        return
    is_default = isinstance(slack, str) and slack == "spare"
    for name, value, default in (
        ("slack", slack, is_default),
        ("overloads", overloads, overloads == "refuse"),
        ("cutoff", cutoff, cutoff == 1e-6),
        ("by_snapshot", by_snapshot, not by_snapshot),
    ):
        faults.require(default, name, value, "the default: with redispatch=True it has no meaning")


def _warn_about_units(site: Response) -> None:
    highest = float(site.load.max())
    if highest > _SUSPICIOUS_LOAD:
        text = f"load reaches {highest:g} MW per MW of site. Is it in MW? Divide it by the size it belongs to."
        warnings.warn(f"headroom: {text}", UnitWarning, stacklevel=3)


def _warn_about_overload(n: pypsa.Network, study: Study, overload: Overload) -> None:
    rating = float(study.island.rating[overload.branch, overload.snapshot])
    ratio = 1 + overload.excess / rating if rating > 0 else np.inf
    if ratio > _SUSPICIOUS_OVERLOAD and rating > 0:
        warnings.warn(
            f"headroom: the flow on {study.island.label(overload.branch)} at {n.snapshots[overload.snapshot]} is "
            f"{ratio:.0f} times its rating of {rating:g} MW. Is something in kW? Give MW.",
            UnitWarning,
            stacklevel=4,
        )


def _describe(contingencies: str | Sequence[str | Branch] | None, studied: int) -> str:
    if contingencies is None:
        return "none"
    return f"all ({studied} outages)" if contingencies == "all" else f"{studied} outages"


def _describe_response(site: Response) -> str:
    profile = f"relief up to {float(site.relief.max()):.4g} per MW"
    if site.windows:
        windows = "windows of " + ", ".join(f"{hours} h at {depth:.4g}" for hours, depth in site.windows)
        return windows if np.array_equal(site.relief, site.load) else f"{windows}, and at each snapshot {profile}"
    return "firm" if site.firm else profile
