"""Limits with redispatch: generators and links give way at any cost, secured against outages, hour by hour."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import highspy
import numpy as np
import pypsa
from scipy.sparse import csc_array, csr_array

from pypsa_aidc.errors import Faults, NotSolvedError
from pypsa_aidc.headroom.bus.base_case import BaseCase, Floats, Integers, branch_table
from pypsa_aidc.headroom.bus.factors import Island
from pypsa_aidc.headroom.service.contingency import Contingency
from pypsa_aidc.headroom.service.limits import Rows, lost, nominal_share, redistribution, touches
from pypsa_aidc.headroom.service.reinforcement import Cheapest, Need
from pypsa_aidc.progress import track

_TOLERANCE = 1e-6
"""Share of a rating (at least 1 MW of it) by which a flow may exceed it."""
_NEW_ROWS = 40
"""Limits that are added to the programme at a time, the worst first."""
_ROUNDS = 200
_DUAL = 1e-7
_NO_SUPPLY = "supply"
_BASE_CASE = "base case"


@dataclass(frozen=True, eq=False)
class _Secured:
    """An island with something out: flows are `share` times those without outage, and `own` times what decides."""

    outage: str
    branches: Integers
    share: Floats
    own: Floats | None


@dataclass(eq=False)
class _Part:
    """An island as rows over the columns of the programme: flow = matrix @ columns + constant."""

    island: Island
    matrix: Floats
    constant: Floats
    singles: Integers
    factors: Floats
    groups: list[_Secured]
    share: Floats
    rating: Floats


class Redispatch:
    """Limits with generators and links dispatched anew in each hour, at any cost.

    Storage keeps its dispatch, so that hours do not depend on each other; ramps do not count. Each hour is one linear
    programme over injections, in which flows after outages are added as they are broken; its duals are rows.

    Parameters
    ----------
    case
        Base case, freed for redispatch.
    original
        The network with the dispatch of its storage.
    found
        Islands of the case.
    buses
        Bus of each load.
    outages
        What may be out. After an outage of generation, units of the same island fill in by their capacity, for which
        power must be left unused.
    emergency
        Rating after an outage over the normal one.

    Raises
    ------
    NotSolvedError
        Storage without a dispatch.
    """

    def __init__(
        self,
        case: BaseCase,
        original: pypsa.Network,
        found: Sequence[Island],
        buses: Sequence[str],
        outages: Sequence[Contingency],
        emergency: float,
    ) -> None:
        n = case.network
        self._loads, self._hours, self._emergency = len(buses), len(n.snapshots), emergency
        self._rows: list[tuple[int, int, str, str]] = []
        self._stacked: tuple[Floats, Floats] | None = None
        self._names: dict[tuple[int, int], str] = {}
        self._held: dict[tuple[int, int, str], None] = {}
        self._fine = np.full((self._loads, self._hours), np.nan)
        self.without_dispatch: dict[int, tuple[str, str]] = {}
        """Hours in which the base case alone breaks limits in every dispatch: the element most to blame, its outage."""
        drawing = n.generators["sign"] < 0
        moved = n.generators.index[n.generators["active"] & ~drawing & ~n.generators.index.isin(case.shedding)]
        links = n.links.index[n.links["active"]]
        self._units = [*(("Generator", each) for each in moved), *(("Link", each) for each in links)]
        self._lower, self._upper = _bounds(n, moved, links)
        incidence = _incidence(n, moved, links)
        fixed = _fixed(n, original)
        self._buses = n.buses.index.get_indexer(list(buses))
        self._parts: list[_Part] = []
        splitting: dict[str, None] = {}
        ends = branch_table(n)
        at = n.buses.index
        self._balance: list[tuple[Floats, Floats]] = []
        reserves: list[tuple[Floats, Floats]] = []
        loads = np.zeros((len(at), self._loads))
        loads[self._buses, np.arange(self._loads)] = -1.0
        self._columns = np.hstack([incidence, loads])
        for island in found:
            places = at.get_indexer(island.buses)
            own, given = self._columns[places], fixed[places]
            self._balance.append((own.sum(axis=0), -given.sum(axis=0)))
            if not len(island.branches):
                continue
            sub = n.sub_networks.at[island.name, "obj"]
            shift = np.asarray(sub.p_branch_shift, dtype=float)[:, None]
            constant = island.ptdf @ (given - sub.K.toarray() @ shift) + shift
            share_ = nominal_share(ends, island)
            part = _Part(
                island, island.ptdf @ own, constant, np.zeros(0, np.int64), np.zeros((0, 0)), [], share_, island.rating
            )  # fmt: skip
            singles = []
            for outage in outages:
                if not touches(n, island, outage):
                    continue
                branches = lost(island, outage)
                share = redistribution(island, ends, branches)
                if share is None:
                    splitting[outage.label] = None
                    continue
                change, reserve = self._change(n, island, outage, places)
                if change is None and branches.size == 1:
                    singles.append((int(branches[0]), outage.label))
                    continue
                part.groups.append(
                    _Secured(outage.label, branches, share, None if change is None else island.ptdf @ change)
                )
                if reserve is not None:
                    reserves.append(reserve)
            part.singles = np.array([branch for branch, _ in singles], np.int64)
            part.factors = island.lodf[:, part.singles]
            self._names |= {(len(self._parts), branch): label for branch, label in singles}
            self._parts.append(part)
        self.splitting = tuple(splitting)
        self._start(reserves)

    def broken(self, draw: Floats, mover: int | None = None) -> Rows:
        """Rows that draws break, one an hour; see `Limits`."""
        asked = np.flatnonzero(~(draw == self._fine).all(axis=0) & (draw > 0).any(axis=0))
        weights = np.ones(self._loads)
        if mover is not None:
            weights *= 100.0
            weights[mover] = 1.0
        self._weigh(weights)
        found = [self._hour(int(t), draw[:, t], weights) for t in track(asked, "redispatch, by hour")]
        rows = Rows.of([each for each in found if each is not None], self._loads)
        fine = np.setdiff1d(asked, rows.snapshot)
        self._fine[:, fine] = draw[:, fine]
        return rows

    def needs(self, draw: Floats, costs: Mapping[str, float]) -> list[Need]:
        """What wanted draws lack: the cheapest ratings with which every hour has a dispatch, by cuts of its duals."""
        programme, raised = Cheapest(costs), dict[str, float]()
        worst: dict[str, tuple[float, str, int]] = {}
        supply = Need("", 0.0, "", 0)
        self._weigh(np.ones(self._loads))
        open_ = list(range(self._hours)) if draw.any() else []
        while open_:
            left = []
            for t in track(open_, "upgrades, by hour"):
                missing, worth = self._lacking(t, draw)
                if missing <= _TOLERANCE * max(1.0, float(draw.sum())):
                    if raised:
                        left.append((t, False))
                    continue
                if not worth:
                    if missing > supply.megawatts:
                        supply = Need(*self.without_dispatch.get(t, (_NO_SUPPLY,))[:1], missing, "", t)
                    continue
                left.append((t, True))
                programme.add(
                    {element: value for element, (value, _) in worth.items()},
                    missing + sum(value * raised.get(element, 0.0) for element, (value, _) in worth.items()),
                )
                for element, (value, outage) in worth.items():
                    if missing * value > worst.get(element, (0.0, "", 0))[0]:
                        worst[element] = missing * value, outage, t
            if not any(lacks for _, lacks in left):
                break
            open_ = [t for t, _ in left]
            raised = programme.solve()
            self._raise(raised)
        self._raise({})
        found = [Need(each, mw, *worst[each][1:]) for each, mw in raised.items() if mw > 1e-6]
        return [*found, supply] if supply.megawatts else found

    def _lacking(self, t: int, draw: Floats) -> tuple[float, dict[str, tuple[float, str]]]:
        """MW that cannot be served in an hour, and for each element what one MW of its s_nom would serve."""
        self._set(t, draw)
        if not self._secure(t):
            lacking, worth = self._proof(t)
            self._blame(t, worth)
            return (lacking, worth) if worth else (float(draw.sum()), {})
        solution = self._solver.getSolution()
        missing = float(draw.sum() - np.asarray(solution.col_value)[-self._loads :].sum())
        duals = np.abs(np.asarray(solution.row_dual))[len(self._balance) + self._reserves :]
        return missing, self._worth(t, duals)

    def _worth(self, t: int, duals: Floats) -> dict[str, tuple[float, str]]:
        """What one MW of s_nom of each element is worth at prices of the limits, and after which outage."""
        worth: dict[str, tuple[float, str]] = {}
        for (number, branch, element, outage), dual in zip(self._rows, duals, strict=True):
            if dual > _DUAL:
                scale = self._emergency if outage else 1.0
                value = dual * scale * float(self._parts[number].share[branch, t])
                before, named = worth.get(element, (0.0, outage))
                worth[element] = before + value, named
        return worth

    def _proof(self, t: int) -> tuple[float, dict[str, tuple[float, str]]]:
        """Why the hour just solved has no dispatch, as `_lacking`: prices at which the limits contradict the bounds.

        With y = ray, every dispatch would need yᵀ(rows) of at least what the limits give, more than the bounds of
        the columns allow (Farkas); each MW of a rating takes its |y| off the difference.
        """
        lp, (_, _, ray) = self._solver.getLp(), self._solver.getDualRay()
        low, high, least, most = (np.asarray(x) for x in (lp.row_lower_, lp.row_upper_, lp.col_lower_, lp.col_upper_))
        entries = lp.a_matrix_
        wise = csc_array if entries.format_ == highspy.MatrixFormat.kColwise else csr_array
        matrix = wise((entries.value_, entries.index_, entries.start_), shape=(lp.num_row_, lp.num_col_))
        for prices in (np.asarray(ray), -np.asarray(ray)):
            due = prices[prices > 0] @ low[prices > 0] + prices[prices < 0] @ high[prices < 0]
            sums = matrix.T @ prices
            lacking = due - sums @ np.where(sums > 0, most, least)
            if lacking > 0:
                duals = np.abs(prices[len(self._balance) + self._reserves :])
                scale = duals.max(initial=0.0) or 1.0
                return float(lacking / scale), self._worth(t, duals / scale)
        return 0.0, {}

    def _blame(self, t: int, worth: Mapping[str, tuple[float, str]]) -> None:
        """Keep that an hour has no dispatch, and why."""
        element = max(worth, key=lambda each: worth[each][0], default="supply")
        self.without_dispatch.setdefault(t, (f"{_BASE_CASE}: {element}", worth.get(element, (0.0, ""))[1]))

    def _raise(self, megawatts: Mapping[str, float]) -> None:
        """Raise ratings by MW of s_nom."""
        for part in self._parts:
            labels = [part.island.label(branch) for branch in range(len(part.island.branches))]
            more = np.array([megawatts.get(label, 0.0) for label in labels])
            part.rating = part.island.rating + more[:, None] * part.share
        for place, (number, branch, _, outage) in enumerate(self._rows):
            self._ratings[place] = (self._emergency if outage else 1.0) * self._parts[number].rating[branch]
        self._stacked = None

    def _hour(self, t: int, draw: Floats, weights: Floats) -> tuple[int, Floats, float, float, str, str] | None:
        if t not in self.without_dispatch:
            self._set(t, draw)
            if not self._secure(t):
                self._blame(t, self._proof(t)[1])
        if t in self.without_dispatch:
            return t, np.ones(self._loads), 0.0, 0.0, *self.without_dispatch[t]
        solution = self._solver.getSolution()
        values = np.asarray(solution.col_value)
        served = values[-self._loads :]
        missing = float(weights @ (draw - served))
        if missing <= _TOLERANCE * max(1.0, float(draw.max())) * float(weights.min()):
            return None
        worth = np.maximum(-np.asarray(solution.col_dual)[-self._loads :], 0.0)
        room = float(weights @ served - worth @ draw)
        element, outage, gain = self._limiting(np.abs(np.asarray(solution.row_dual)), np.asarray(solution.col_dual))
        return t, weights - worth, room, gain, element, outage

    def _limiting(self, duals: Floats, reduced: Floats) -> tuple[str, str, float]:
        """Element with the most MW of room for each MW of its rating, its outage, and that number."""
        first = len(self._balance) + self._reserves
        worth: dict[str, float] = {}
        for (_, _, element, outage), dual in zip(self._rows, duals[first:], strict=True):
            if dual > _DUAL:
                worth[element] = worth.get(element, 0.0) + dual * (self._emergency if outage else 1.0)
        if not worth:
            units = -reduced[: len(self._units)]
            scarce = np.flatnonzero(units > _DUAL)
            if not scarce.size:
                return "must-run generation", "", 0.0
            best = scarce[units[scarce].argmax()]
            kind, name = self._units[best]
            more = f" and {scarce.size - 1} more" if scarce.size > 1 else ""
            return f"no spare generation: {kind} {name}{more}", "", float(units[best])
        element = max(worth, key=lambda each: worth[each])
        own = [(dual, row[3]) for row, dual in zip(self._rows, duals[first:], strict=True) if row[2] == element]
        return element, max(own)[1], worth[element]

    def _secure(self, t: int) -> bool:
        """Solve the hour with all limits; False if there is no dispatch."""
        for _ in range(_ROUNDS):
            self._solver.run()
            status = self._solver.getModelStatus()
            if status != highspy.HighsModelStatus.kOptimal:
                # From the basis of another hour HiGHS may lose its way; from nothing it finds out.
                self._solver.clearSolver()
                self._solver.run()
                status = self._solver.getModelStatus()
            if status in (highspy.HighsModelStatus.kInfeasible, highspy.HighsModelStatus.kUnboundedOrInfeasible):
                return False
            if status != highspy.HighsModelStatus.kOptimal:
                raise NotSolvedError(f"study: HiGHS stopped with {self._solver.modelStatusToString(status)!r}.")
            values = np.asarray(self._solver.getSolution().col_value)
            if not sum(self._add(number, part, t, values) for number, part in enumerate(self._parts)):
                return True
        raise NotSolvedError(f"study: limits after outages were still broken after {_ROUNDS} rounds in hour {t}.")

    def _add(self, number: int, part: _Part, t: int, values: Floats) -> int:
        """Add the limits of an island that a solution breaks, the worst first; return their number."""
        flow = part.matrix @ values + part.constant[:, t]
        normal = part.rating[:, t]
        found: list[tuple[float, int, int]] = []

        def look(excess: Floats, state: int) -> None:
            for branch in np.flatnonzero(excess > 0):
                found.append((float(excess[branch]), int(branch), state))

        slack = _TOLERANCE * np.maximum(1.0, np.where(np.isfinite(normal), normal, 1.0))
        look(np.abs(flow) - normal - slack, -1)
        limit = self._emergency * normal + slack
        if part.singles.size:
            excess = np.abs(flow[:, None] + part.factors * flow[part.singles]) - limit[:, None]
            excess[part.singles, np.arange(part.singles.size)] = -1.0
            for branch, place in np.argwhere(excess > 0):
                found.append((float(excess[branch, place]), int(branch), int(place)))
        for place, group in enumerate(part.groups):
            before = flow if group.own is None else flow + group.own @ values
            excess = np.abs(before + group.share @ before[group.branches]) - limit
            excess[group.branches] = -1.0
            look(excess, part.singles.size + place)
        found.sort(reverse=True)
        added = 0
        for _, branch, state in found:
            key = (number, branch, str(state))
            if key in self._held:
                continue
            self._held[key] = None
            self._append(number, branch, state, t)
            added += 1
            if added == _NEW_ROWS:
                break
        return added

    def _append(self, number: int, branch: int, state: int, t: int) -> None:
        part = self._parts[number]
        coefficients, constant = self._row(part, branch, state)
        outage = ""
        if 0 <= state < part.singles.size:
            outage = self._names[number, int(part.singles[state])]
        elif state >= 0:
            outage = part.groups[state - part.singles.size].outage
        self._rows.append((number, branch, part.island.label(branch), outage))
        self._constants.append(constant)
        scale = self._emergency if outage else 1.0
        self._ratings.append(scale * part.rating[branch])
        self._stacked = None
        kept = np.flatnonzero(np.abs(coefficients) > 1e-9)
        limit = self._ratings[-1][t]
        self._solver.addRow(
            -limit - constant[t], limit - constant[t], kept.size, kept.astype(np.int32), coefficients[kept]
        )

    def _row(self, part: _Part, branch: int, state: int) -> tuple[Floats, Floats]:
        """Coefficients and constant of the flow on a branch in a state; -1 is the island without outage."""
        matrix, constant = part.matrix, part.constant
        if state < 0:
            return matrix[branch], constant[branch]
        if state < part.singles.size:
            lost_branch, factor = part.singles[state], part.factors[branch, state]
            return matrix[branch] + factor * matrix[lost_branch], constant[branch] + factor * constant[lost_branch]
        group = part.groups[state - part.singles.size]
        changed = matrix if group.own is None else matrix + group.own
        share = group.share[branch]
        return changed[branch] + share @ changed[group.branches], constant[branch] + share @ constant[group.branches]

    def _change(
        self, n: pypsa.Network, island: Island, outage: Contingency, places: Integers
    ) -> tuple[Floats | None, tuple[Floats, Floats] | None]:
        """Change of injections by the loss of units, over the columns, and the reserve it needs, as a row."""
        mine = [each for each in outage.members if each in self._units]
        columns = [self._units.index(each) for each in mine]
        gone = np.zeros((len(places), self._columns.shape[1]))
        for column in columns:
            gone[:, column] = -self._columns[places, column]
        if not gone.any():
            return None, None
        others = [
            (column, name)
            for column, (kind, name) in enumerate(self._units)
            if kind == "Generator" and column not in columns and n.generators.at[name, "bus"] in island.buses
        ]
        capacity = np.zeros(len(places))
        for _, name in others:
            capacity[island.buses.get_loc(n.generators.at[name, "bus"])] += float(n.generators.at[name, "p_nom"])
        weights = capacity / capacity.sum() if capacity.sum() > 0 else capacity
        missing = -gone.sum(axis=0)
        change = gone + np.outer(weights, missing)
        row, available = missing.copy(), np.zeros(self._hours)
        for column, _ in others:
            row[column] += 1.0
            available = available + self._upper[column]
        return change, (row, available)

    def _start(self, reserves: list[tuple[Floats, Floats]]) -> None:
        """Build the programme: balances and reserves; limits of branches come as they are broken."""
        self._reserves = len(reserves)
        self._right = np.array([given for _, given in (*self._balance, *reserves)])
        count = self._columns.shape[1]
        solver = cast("Any", highspy).Highs()
        solver.setOptionValue("output_flag", False)
        solver.setOptionValue("presolve", "off")
        zero = np.zeros(count)
        solver.addVars(count, zero, zero)
        for place, (row, _) in enumerate((*self._balance, *reserves)):
            kept = np.flatnonzero(row)
            lower = -np.inf if place >= len(self._balance) else 0.0
            solver.addRow(lower, 0.0, kept.size, kept.astype(np.int32), row[kept])
        self._solver = solver
        self._constants: list[Floats] = []
        self._ratings: list[Floats] = []

    def _weigh(self, weights: Floats) -> None:
        first = len(self._units)
        index = np.arange(first, first + self._loads, dtype=np.int32)
        self._solver.changeColsCost(self._loads, index, -weights)

    def _set(self, t: int, draw: Floats) -> None:
        """Put the bounds of an hour into the programme."""
        count = self._columns.shape[1]
        lower = np.r_[self._lower[:, t], np.zeros(self._loads)]
        upper = np.r_[self._upper[:, t], np.maximum(draw, 0.0)]
        self._solver.changeColsBounds(count, np.arange(count, dtype=np.int32), lower, upper)
        right = self._right[:, t]
        low = right.copy()
        low[len(self._balance) :] = -np.inf
        if self._constants:
            if self._stacked is None:
                self._stacked = np.array(self._constants), np.array(self._ratings)
            constant, limit = self._stacked[0][:, t], self._stacked[1][:, t]
            low, right = np.r_[low, -limit - constant], np.r_[right, limit - constant]
        self._solver.changeRowsBounds(right.size, np.arange(right.size, dtype=np.int32), low, right)


def _bounds(n: pypsa.Network, generators: Any, links: Any) -> tuple[Floats, Floats]:
    """Least and most of each column, MW, shape (columns, T)."""
    parts: list[list[Floats]] = [[], []]
    for kind, names in (("Generator", generators), ("Link", links)):
        nominal = n.c[kind].static.loc[names, "p_nom"]
        for side, attribute in enumerate(("p_min_pu", "p_max_pu")):
            parts[side].append((n.get_switchable_as_dense(kind, attribute)[names] * nominal).to_numpy(float).T)
    lower, upper = (np.vstack(each) for each in parts)
    return lower, upper


def _incidence(n: pypsa.Network, generators: Any, links: Any) -> Floats:
    """Injection at each bus for each MW of a column, shape (buses, columns).

    Raises
    ------
    InputError
        Links whose efficiency changes over time.
    """
    at = n.buses.index
    matrix = np.zeros((len(at), len(generators) + len(links)))
    matrix[at.get_indexer(n.generators.loc[generators, "bus"]), np.arange(len(generators))] = n.generators.loc[
        generators, "sign"
    ].to_numpy(float)
    faults = Faults("study with redispatch")
    ports = [column[3:] for column in n.links if column[:3] == "bus" and column[3:].isdigit() and column != "bus0"]
    for place, name in enumerate(links, start=len(generators)):
        link = n.links.loc[name]
        matrix[at.get_loc(link["bus0"]), place] -= 1.0
        for port in ports:
            if not link[f"bus{port}"]:
                continue
            attribute = "efficiency" if port == "1" else f"efficiency{port}"
            varies = name in n.c.links.dynamic.get(attribute, {})
            faults.require(not varies, f"Link {name}", f"an {attribute} that changes", "one number for all snapshots")
            matrix[at.get_loc(link[f"bus{port}"]), place] += float(link[attribute])
    faults.raise_any()
    return matrix


def _fixed(n: pypsa.Network, original: pypsa.Network) -> Floats:
    """Injections that stay: loads, storage, and generators that draw; MW, shape (buses, T)."""
    at = n.buses.index
    fixed = np.zeros((len(at), len(n.snapshots)))
    loads = n.loads[n.loads["active"]]
    demand = n.get_switchable_as_dense("Load", "p_set")[loads.index].to_numpy(float).T
    np.add.at(fixed, at.get_indexer(loads["bus"]), loads["sign"].to_numpy(float)[:, None] * demand)
    for kind in ("StorageUnit", "Store", "Generator"):
        static = n.c[kind].static
        static = static[static["active"]]
        if kind == "Generator":
            static = static[static["sign"] < 0]
        if static.empty:
            continue
        power = original.c[kind].dynamic["p"].reindex(index=n.snapshots, columns=static.index)
        points = original.get_switchable_as_dense(kind, "p_set").reindex(index=n.snapshots)[static.index]
        power = power.fillna(points)
        if power.isna().any(axis=None):
            raise NotSolvedError(
                f"study with redispatch: {kind} {static.index[0]!r} has no dispatch, and storage keeps its dispatch. "
                "Solve the network with n.optimize(), or give set points p_set."
            )
        np.add.at(fixed, at.get_indexer(static["bus"]), (power.to_numpy(float) * static["sign"].to_numpy(float)).T)
    return fixed
