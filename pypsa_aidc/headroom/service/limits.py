"""What the draws of several loads must keep to, hour by hour: rows over distribution factors, found as they bind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pandas as pd
import pypsa
from numpy.typing import NDArray

from pypsa_aidc.headroom.bus.base_case import BaseCase, Floats, Integers, branch_table
from pypsa_aidc.headroom.bus.factors import Island, base_flows, flows_of_set_points
from pypsa_aidc.headroom.bus.slack import Slack, participation
from pypsa_aidc.headroom.bus.transfer import OVERLOAD_TOLERANCE
from pypsa_aidc.headroom.service.contingency import Contingency
from pypsa_aidc.headroom.service.reinforcement import Need
from pypsa_aidc.progress import track

Labels = NDArray[np.object_]
_SPLITS = 1e-6
"""Least singular value from which a set of branches can be lost without splitting the island."""
_FIELDS = ("snapshot", "factor", "room", "gain", "element", "outage")
_GENERATION = np.array([-1])
"""In place of branches: the supply of the island."""
_MEMORY = 3e8
"""Bytes for the arrays of a block of hours."""


@dataclass(frozen=True, eq=False)
class Rows:
    """Limits Σ_i a_ri·x_i ≤ m_r on the draws of the loads in one hour each.

    Attributes
    ----------
    snapshot : numpy.ndarray
        Position of the hour, shape (R,).
    factor : numpy.ndarray
        a, MW for each MW drawn, shape (R, I).
    room : numpy.ndarray
        m, MW, shape (R,).
    gain : numpy.ndarray
        MW of room for each MW of rating of the element, shape (R,).
    element, outage : numpy.ndarray
        What limits, and what is out then; "" for nothing; shape (R,).
    """

    snapshot: Integers
    factor: Floats
    room: Floats
    gain: Floats
    element: Labels
    outage: Labels

    def __len__(self) -> int:
        return len(self.room)

    @classmethod
    def none(cls, loads: int) -> Rows:
        """No rows."""
        empty, words = np.zeros(0), np.zeros(0, dtype=object)
        return cls(np.zeros(0, np.int64), np.zeros((0, loads)), empty, empty, words, words)

    @classmethod
    def of(cls, found: Sequence[tuple[int, Floats, float, float, str, str]], loads: int) -> Rows:
        """Rows from tuples in the order of the attributes."""
        if not found:
            return cls.none(loads)
        snapshot, factor, room, gain, element, outage = zip(*found, strict=True)
        words = np.array(element, dtype=object), np.array(outage, dtype=object)
        return cls(np.array(snapshot, np.int64), np.array(factor), np.array(room), np.array(gain), *words)

    def and_(self, other: Rows) -> Rows:
        """Both."""
        return Rows(*(np.concatenate([getattr(self, name), getattr(other, name)]) for name in _FIELDS))

    def part(self, chosen: NDArray[Any]) -> Rows:
        """Some of the rows."""
        return Rows(*(getattr(self, name)[chosen] for name in _FIELDS))

    def at_broken_hours(self, draw: Floats) -> Rows:
        """Rows of the hours in which draws break one of them."""
        broken = self.snapshot[self.slack(draw) < -OVERLOAD_TOLERANCE * np.maximum(1.0, self.room)]
        return self.part(np.isin(self.snapshot, broken))

    def slack(self, draw: Floats) -> Floats:
        """Room that is left at draws of shape (I, T), MW, shape (R,)."""
        left: Floats = self.room - np.einsum("ri,ir->r", self.factor, draw[:, self.snapshot])
        return left

    def most(self, load: int, draw: Floats) -> Floats:
        """Most that one load may draw in each hour with the others' draws as they are, MW, shape (T,)."""
        factor = self.factor[:, load]
        counts = factor > 1e-9
        others = self.slack(draw) + factor * draw[load, self.snapshot]
        ratio = np.maximum(others[counts], 0.0) / factor[counts]
        found = np.full(draw.shape[1], np.inf)
        np.minimum.at(found, self.snapshot[counts], ratio)
        return found


class Limits(Protocol):
    """Tells which rows draws break."""

    def broken(self, draw: Floats, mover: int | None = None) -> Rows:
        """Rows that draws of shape (I, T) break, the tightest of each hour.

        Parameters
        ----------
        draw
            MW.
        mover
            The load that is to give way, if it is one; what limits it the most in an hour is then among the rows.
        """


@dataclass(frozen=True, eq=False)
class _Supply:
    """An island before branches are lost: flows, and where what is drawn comes from; MW, shape (L, T) or (T,)."""

    flow: Floats
    slack_flow: Floats
    generation: Floats


@dataclass(frozen=True, eq=False)
class _State:
    """An island with something out: branches, and what of their flows moves to each other one, shape (L, K)."""

    outage: str
    supply: _Supply
    branches: Integers
    share: Floats
    at_loads: Floats
    gain: float

    def flow(self, hours: Integers) -> Floats:
        """Flows, MW, shape (L, hours)."""
        return self._moved(self.supply.flow[:, hours])

    def slack_flow(self, hours: Integers) -> Floats:
        """Flow for each MW that the slack feeds in, shape (L, hours) or (L, 1)."""
        flow = self.supply.slack_flow
        return self._moved(flow if flow.shape[1] == 1 else flow[:, hours])

    def limit(self, rating: Floats, hours: Integers) -> Floats:
        """Ratings that count, MW, shape (L, hours)."""
        limit = self.gain * rating[:, hours]
        limit[self.branches] = np.inf
        return limit

    def _moved(self, flow: Floats) -> Floats:
        return flow + self.share @ flow[self.branches] if self.branches.size else flow


class FixedDispatch:
    """Limits with the dispatch as it is, from distribution factors; what each load draws comes from the slack.

    Parameters
    ----------
    case
        Base case with a dispatch.
    has_flows
        Whether the dispatch has flows, too.
    found
        Its islands.
    buses
        Bus of each load.
    outages
        What may be out.
    emergency
        Rating after an outage over the normal one.
    slack, cutoff, worsened
        As of `headroom`.
    counterflow
        Whether what one load draws makes room for another on a branch that it relieves. Without, no load's megawatts
        depend on another one drawing its own.

    Attributes
    ----------
    splitting : tuple of str
        Outages that split an island and so have no power flow.
    """

    def __init__(
        self,
        case: BaseCase,
        has_flows: bool,
        found: Sequence[Island],
        buses: Sequence[str],
        outages: Sequence[Contingency],
        emergency: float,
        slack: Slack = "spare",
        cutoff: float = 1e-6,
        worsened: bool = False,
        counterflow: bool = False,
    ) -> None:
        self._loads, self._hours = len(buses), len(case.network.snapshots)
        self._cutoff, self._worsened, self._counterflow = cutoff, worsened, counterflow
        self._parts: list[tuple[Island, Integers, list[_State], Floats]] = []
        self._unsupplied: list[tuple[Integers, str]] = []
        self._cleared = np.full((self._loads, self._hours), -1.0)
        splitting: dict[str, None] = {}
        n, ends = case.network, branch_table(case.network)
        for island in found:
            mine = np.flatnonzero([bus in island.buses for bus in buses])
            if not mine.size:
                continue
            supply = participation(n, island, slack)
            if supply.reason:
                self._unsupplied.append((mine, supply.reason))
                continue
            flow = base_flows(n, island) if has_flows else flows_of_set_points(n, island)
            places = island.buses.get_indexer(pd.Index([buses[int(load)] for load in mine]))
            fed = _Supply(flow, island.ptdf @ supply.weights, supply.limit)
            none = np.zeros(0, np.int64)
            states = [_State("", fed, none, np.zeros((len(flow), 0)), island.ptdf[:, places], 1.0)]
            for outage in outages:
                if not touches(n, island, outage):
                    continue
                branches = lost(island, outage)
                share = redistribution(island, ends, branches)
                if share is None:
                    splitting[outage.label] = None
                    continue
                fed_then = _supply_after(n, island, fed, outage, slack)
                at_loads = island.ptdf[:, places] + share @ island.ptdf[np.ix_(branches, places)]
                states.append(_State(outage.label, fed_then, branches, share, at_loads, emergency))
            self._parts.append((island, mine, states, nominal_share(ends, island)))
        self.splitting = tuple(splitting)

    def broken(self, draw: Floats, mover: int | None = None) -> Rows:  # noqa: ARG002 - each load has its row
        """Rows that draws break; see `Limits`. For each load, those that allow it least are among them."""
        # What was kept at higher draws is kept at lower ones, unless these relied on each other.
        open_ = (draw > self._cleared + 1e-12).any(axis=0) | self._counterflow
        asked = np.flatnonzero(open_ & (draw > 0).any(axis=0))
        found = Rows.none(self._loads)
        for mine, reason in self._unsupplied:
            hours = asked[(draw[np.ix_(mine, asked)] > 0).any(axis=0)]
            whole = np.zeros(self._loads)
            whole[mine] = 1.0
            found = found.and_(Rows.of([(int(t), whole, 0.0, 0.0, reason, "") for t in hours], self._loads))
        for island, mine, states, _ in self._parts:
            per_block = max(1, int(_MEMORY / (8 * (6 + mine.size) * max(1, len(island.branches)))))
            for start in range(0, asked.size, per_block):
                hours = asked[start : start + per_block]
                found = found.and_(self._rows(island, mine, states, hours, draw[np.ix_(mine, hours)]))
        found = found.at_broken_hours(draw)
        fine = np.setdiff1d(asked, found.snapshot)
        self._cleared[:, fine] = draw[:, fine]
        return found

    def needs(self, draw: Floats, costs: Mapping[str, float]) -> list[Need]:  # noqa: ARG002 - there is no choice
        """What wanted draws lack on each element; with the dispatch fixed there is no choice, whatever it costs."""
        found: dict[str, Need] = {}
        for mine, reason in self._unsupplied:
            if draw[mine].any():
                found[reason] = Need(reason, float(draw[mine].sum()), "", 0)
        for island, mine, states, share in self._parts:
            for state in track(states, "needs, by outage"):
                lacking = draw[mine].sum() - state.supply.generation
                self._need(found, f"generation of sub-network {island.name}", state.outage, lacking)
                if not len(island.branches):
                    continue
                every = np.arange(self._hours)
                wanted = np.broadcast_to(draw[mine][:, None], (mine.size, self._hours))
                near, flow, limit, toward = self._near(island, state, every, wanted)
                for sign in (1.0, -1.0):
                    factor = sign * toward if self._counterflow else np.maximum(sign * toward, 0.0)
                    used = np.broadcast_to(np.einsum("ilt,i->lt", factor, draw[mine]), flow.shape)
                    lacking = (used + sign * flow - limit) / (state.gain * share[near])
                    # What is overloaded anyway counts where the loads add to it, or where no overload is allowed.
                    lacking[(used <= 0) & self._worsened] = 0.0
                    for place in np.flatnonzero((lacking > OVERLOAD_TOLERANCE).any(axis=1)):
                        self._need(found, island.label(int(near[place])), state.outage, lacking[place])
        return list(found.values())

    def _need(self, found: dict[str, Need], element: str, outage: str, lacking: Floats) -> None:
        worst = int(np.argmax(lacking))
        most = float(lacking[worst])
        if most > OVERLOAD_TOLERANCE and (element not in found or most > found[element].megawatts):
            found[element] = Need(element, most, outage, worst)

    def _rows(self, island: Island, mine: Integers, states: Sequence[_State], hours: Integers, draw: Floats) -> Rows:
        best = [_Best(hours.size, mine.size) for _ in range(mine.size + 2)]
        for number, state in enumerate(track(states, "limits, by outage")):
            ones = np.ones((mine.size, 1, hours.size))
            self._compare(best, number, _GENERATION, ones, state.supply.generation[hours][None], draw, 1.0)
            if not len(island.branches):
                continue
            near, flow, limit, toward = self._near(island, state, hours, draw)
            if not near.size:
                continue
            for sign in (1.0, -1.0):
                factor = sign * toward if self._counterflow else np.maximum(sign * toward, 0.0)
                self._compare(best, number, near, factor, limit - sign * flow, draw, state.gain)
        rows = [each.rows(self._loads, mine, states, island, hours) for each in best]
        joined = rows[0]
        for each in rows[1:]:
            joined = joined.and_(each)
        return joined

    def _near(
        self, island: Island, state: _State, hours: Integers, draw: Floats
    ) -> tuple[Integers, Floats, Floats, Floats]:
        """Branches that draws could overload at all, with their flows, ratings and factors (I, L, hours)."""
        flow, limit, slack = state.flow(hours), state.limit(island.rating, hours), state.slack_flow(hours)
        room = (limit - np.abs(flow)).min(axis=1)
        reach = (np.abs(slack).max(axis=1)[:, None] + np.abs(state.at_loads)) @ draw.max(axis=1)
        near = np.flatnonzero(reach > room)
        toward = slack[near][None] - state.at_loads[near].T[:, :, None]
        toward[np.abs(toward) <= self._cutoff] = 0.0
        return near, flow[near], limit[near], toward

    def _compare(
        self,
        best: list[_Best],
        state: int,
        branches: Integers,
        factor: Floats,
        margin: Floats,
        draw: Floats,
        gain: float,
    ) -> None:
        """Keep, of one state's limits (L, hours), the worst of each hour and those that allow each load least."""
        tolerance = OVERLOAD_TOLERANCE * np.maximum(1.0, np.abs(np.where(np.isfinite(margin), margin, 0.0)))
        if not self._worsened and branches is not _GENERATION:
            over = np.where(margin < -tolerance, -margin, 0.0)
            worst = over.argmax(axis=0)
            depth = over[worst, np.arange(worst.size)]
            if depth.any():
                key = np.where(depth > 0, -depth, np.inf)
                ones = np.ones((len(draw), *margin.shape))
                best[0].take(key, worst, state, ones, np.zeros_like(margin), 0.0, branches)
        margin = np.maximum(margin, 0.0)
        factor = np.broadcast_to(factor, (*factor.shape[:2], draw.shape[1]))
        used = np.einsum("ilt,it->lt", factor, draw)
        excess = used - margin
        worst = excess.argmax(axis=0)
        most = excess[worst, np.arange(worst.size)]
        broken = np.flatnonzero(most > tolerance[worst, np.arange(worst.size)])
        if not broken.size:
            return
        key = np.full(worst.size, np.inf)
        key[broken] = -most[broken]
        best[1].take(key, worst, state, factor, margin, gain, branches)
        for load in range(len(draw)):
            own = factor[load][:, broken]
            others = margin[:, broken] - used[:, broken] + own * draw[load, broken]
            ratio = np.divide(np.maximum(others, 0.0), own, out=np.full(own.shape, np.inf), where=own > 1e-9)
            place = np.zeros_like(worst)
            place[broken] = ratio.argmin(axis=0)
            key = np.full(worst.size, np.inf)
            key[broken] = ratio.min(axis=0)
            best[load + 2].take(key, place, state, factor, margin, gain, branches)


class _Best:
    """One row an hour: that with the least key."""

    def __init__(self, hours: int, loads: int) -> None:
        self.key = np.full(hours, np.inf)
        self.factor = np.zeros((hours, loads))
        self.room, self.gain = np.zeros(hours), np.zeros(hours)
        self.state, self.branch = np.zeros(hours, np.int64), np.zeros(hours, np.int64)

    def take(
        self,
        key: Floats,
        place: Integers,
        state: int,
        factor: Floats,
        margin: Floats,
        gain: float,
        branches: Integers,
    ) -> None:
        """Take the row at `place` (by hour) of factors (I, L, hours) and margins of branches where its key is less."""
        hours = np.flatnonzero(key < self.key)
        if not hours.size:
            return
        self.key[hours] = key[hours]
        self.factor[hours] = factor[:, place[hours], hours].T
        self.room[hours] = margin[place[hours], hours]
        self.gain[hours], self.state[hours] = gain, state
        self.branch[hours] = branches[place[hours]]

    def rows(self, loads: int, mine: Integers, states: Sequence[_State], island: Island, hours: Integers) -> Rows:
        """All rows that were taken; `hours` are their positions in the study."""
        there = np.flatnonzero(np.isfinite(self.key))
        factor = np.zeros((there.size, loads))
        factor[:, mine] = self.factor[there]
        labels = np.array([island.label(each) for each in range(len(island.branches))], dtype=object)
        labels = np.append(labels, f"generation of sub-network {island.name}")  # for the code -1
        outages = np.array([state.outage for state in states], dtype=object)
        return Rows(
            hours[there], factor, self.room[there], self.gain[there],
            labels[self.branch[there]], outages[self.state[there]],
        )  # fmt: skip


def nominal_share(ends: pd.DataFrame, island: Island) -> Floats:
    """MW of usable rating for each MW of s_nom, shape (L, T)."""
    if not len(island.branches):
        return island.rating
    nominal = ends.loc[list(island.branches), "s_nom"].to_numpy(float)[:, None]
    share: Floats = np.ones_like(island.rating)
    np.divide(island.rating, nominal, out=share, where=(nominal > 0) & (island.rating > 0))
    return share


def touches(n: pypsa.Network, island: Island, outage: Contingency) -> bool:
    """Whether an outage takes something out of an island, or off a bus of it."""
    for kind, name in outage.members:
        if kind not in ("Generator", "Link"):
            if (kind, name) in island.branches:
                return True
            continue
        static = n.c[kind].static
        if any(static.at[name, end] in island.buses for end in _ends(n, kind)):
            return True
    return False


def lost(island: Island, outage: Contingency) -> Integers:
    """Positions of the branches of an island that an outage takes."""
    return np.array([island.branches.get_loc(each) for each in outage.members if each in island.branches], np.int64)


def redistribution(island: Island, ends: pd.DataFrame, branches: Integers) -> Floats | None:
    """Share of the flow of each lost branch that moves to each other one, shape (L, K); `None` if they split it.

    Parameters
    ----------
    island
        The island.
    ends
        Ends of branches, as `branch_table` has them.
    branches
        Positions of those that are lost together.

    References
    ----------
    [1] Guo, Fu, Li and Shahidehpour, Direct calculation of line outage distribution factors (2009).
    """
    if not branches.size:
        return np.zeros((len(island.branches), 0))
    if branches.size == 1:
        share = island.lodf[:, branches]
        return None if np.isnan(share).any() else share
    own = ends.loc[[island.branches[each] for each in branches]]
    first, second = (island.buses.get_indexer(pd.Index(own[end])) for end in ("bus0", "bus1"))
    transfer = island.ptdf[:, first] - island.ptdf[:, second]
    left = np.eye(branches.size) - transfer[branches]
    if np.linalg.svd(left, compute_uv=False)[-1] < _SPLITS:
        return None
    share = transfer @ np.linalg.inv(left)
    share[branches] = -np.eye(branches.size)
    return np.asarray(share)


def _supply_after(n: pypsa.Network, island: Island, before: _Supply, outage: Contingency, slack: Slack) -> _Supply:
    """Supply of an island after generators and links are lost: others fill in from the slack, or give way."""
    units = [name for kind, name in outage.members if kind == "Generator"]
    if all(each in island.branches for each in outage.members):
        return before
    change = _change(n, island, outage)
    supply = participation(n, island, slack, units)
    missing = -change.sum(axis=0)
    up = supply.weights * np.maximum(missing, 0.0)
    down = _dispatched_shares(n, island, units) * np.minimum(missing, 0.0)
    flow = before.flow + island.ptdf @ (change + up + down)
    generation = np.maximum(supply.limit - np.maximum(missing, 0.0), 0.0)
    return _Supply(flow, island.ptdf @ supply.weights, generation)


def _change(n: pypsa.Network, island: Island, outage: Contingency) -> Floats:
    """What the injections of an island lose by an outage of generators and links, MW, shape (B, T)."""
    change = np.zeros((len(island.buses), len(n.snapshots)))
    for kind, name in outage.members:
        if kind not in ("Generator", "Link"):
            continue
        static = n.c[kind].static
        for end in _ends(n, kind):
            bus = static.at[name, end]
            if bus in island.buses:
                if kind == "Generator":
                    fed = n.c[kind].dynamic["p"][name].to_numpy(float) * float(static.at[name, "sign"])
                else:
                    fed = -n.c[kind].dynamic[f"p{end[3:]}"][name].to_numpy(float)
                change[island.buses.get_loc(bus)] -= fed
    return change


def _dispatched_shares(n: pypsa.Network, island: Island, lost_units: Sequence[str]) -> Floats:
    """Shares of the buses in what generators feed in, shape (B, T): they give way where a loss leaves too much."""
    units = n.generators
    units = units[units["active"] & (units["sign"] > 0) & units["bus"].isin(island.buses)].drop(
        list(lost_units), errors="ignore"
    )
    power = n.c.generators.dynamic["p"].reindex(columns=units.index, fill_value=0.0).clip(lower=0)
    fed = power.T.groupby(units["bus"]).sum().reindex(island.buses, fill_value=0.0).to_numpy(float)
    total = fed.sum(axis=0)
    shares: Floats = np.divide(fed, total, out=np.zeros_like(fed), where=total > 0)
    return shares


def _ends(n: pypsa.Network, kind: str) -> list[str]:
    if kind == "Generator":
        return ["bus"]
    return [column for column in n.c[kind].static if column[:3] == "bus" and column[3:].isdigit()]
