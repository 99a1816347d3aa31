"""Calls of fleets in a model: which are answered, how deep, what they cover and how many there may be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import linopy
import numpy as np
import pandas as pd
import pypsa
import xarray as xr
from numpy.typing import NDArray

from pypsa_aidc.errors import Faults
from pypsa_aidc.network.loads.fleet.budgets import ROUNDING, budget_periods
from pypsa_aidc.network.loads.fleet.call_graph import CallGraph, call_graph
from pypsa_aidc.network.loads.fleet.sizes import Sizes
from pypsa_aidc.network.model.ahead import Ahead
from pypsa_aidc.network.model.flow import add_path_flow
from pypsa_aidc.network.model.horizon import Window, network_snapshots
from pypsa_aidc.network.model.linear import over, weighted_sum
from pypsa_aidc.network.model.recourse import Recourse, View
from pypsa_aidc.network.pypsa_api import columns
from pypsa_aidc.units import SLOT_TOLERANCE

if TYPE_CHECKING:
    from pypsa_aidc.network.loads.fleet.fleet import Fleet

CALLS = "AIDC-calls"
"""Name of the binary variable with one entry for each edge of the call graph of each fleet, u of (2)."""

DEPTHS = "AIDC-call_depth"
"""Name of the variable with the depth in MW of each call, x of (2)."""

CALL, DEPTH = "aidc_call", "aidc_depth"
"""Dynamic attributes of the fleets: hours of the call that starts in a snapshot (0: none), and its depth in MW."""

COVER = ((False, "<=", "AIDC-call_cover"), (True, "=", "AIDC-call_block"))
"""How relief keeps to its calls, by whether they are blocks: sign and name of the constraint."""

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class PlacedCalls:
    """The call graph of one fleet in one window of the horizon."""

    fleet: Fleet
    window: Window
    graph: CallGraph


def place_calls(fleets: Sequence[Fleet], horizon: Sequence[Window]) -> tuple[PlacedCalls, ...]:
    """Build the call graphs of fleets in all windows."""
    return tuple(
        PlacedCalls(fleet, window, call_graph(fleet.terms.durations, fleet.terms.recovery, window.slots))
        for fleet in fleets
        for window in horizon
    )


def check_calls(fleet: Fleet, horizon: Sequence[Window], faults: Faults) -> None:
    """Note windows of the horizon into which not one call of a fleet fits."""
    for placed in place_calls([fleet], horizon):
        slots, durations = placed.window.slots, fleet.terms.durations
        faults.require(
            len(placed.graph.calls) > 0,
            f"fleet {fleet.name!r}",
            f"calls of {durations[0]} to {durations[-1]} h",
            f"one that fits into {slots.total:g} h of snapshots of {slots.hours.min():g} h and more",
            "Give durations of at least a snapshot and at most the horizon.",
        )


@dataclass(frozen=True, eq=False)
class DecidedCall:
    """A call that a window before this one has decided, in slots of the whole horizon."""

    start: int
    stop: int
    free: int
    depth: float


def decided_calls(n: pypsa.Network, fleet: Fleet, ahead: Ahead) -> list[DecidedCall]:
    """Calls that start before the border until which a rolling horizon has decided, from what the network holds."""
    kept = n.c.generators.dynamic.get(CALL, pd.DataFrame())
    if fleet.name not in kept or not ahead.decided:
        return []
    hours = kept[fleet.name].reindex(ahead.snapshots[: ahead.decided]).fillna(0.0).to_numpy(float)
    static, ends = n.generators.loc[fleet.name], ahead.slots.ends
    found = []
    for start in map(int, np.flatnonzero(hours > 0)):
        kind = fleet.terms.durations.index(round(hours[start]))
        stop = int(np.searchsorted(ends, ends[start] + hours[start] + SLOT_TOLERANCE, side="right")) - 1
        free = int(np.searchsorted(ends, ends[stop] + fleet.terms.recovery[kind] - SLOT_TOLERANCE))
        deepest = fleet.terms.depths[kind] * float(static["p_nom"])
        if fleet.terms.block:  # all of it is as deep as it was decided
            deepest = float(n.c.generators.dynamic[DEPTH][fleet.name][ahead.snapshots[start]])
        found.append(DecidedCall(start, stop, max(free, stop), deepest))
    return found


def decided_depth(view: View, fleets: Sequence[Fleet], ahead: Ahead | None) -> xr.DataArray:
    """Depth in MW of the calls decided before, over (snapshot, name) of the model."""
    labels = view.variable("Generator-p").indexes["snapshot"]
    names = pd.Index([fleet.relief for fleet in fleets], name="name")
    depth = np.zeros((len(labels), len(fleets)))
    if ahead is not None:
        for column, fleet in enumerate(fleets):
            for call in decided_calls(view.n, fleet, ahead):
                start, stop = (min(max(at - ahead.border, 0), len(labels)) for at in (call.start, call.stop))
                depth[start:stop, column] += call.depth
    return over(depth, labels, names)


def cover_decided(view: View, fleets: Sequence[Fleet], ahead: Ahead | None) -> None:
    """Allow relief of fleets only in the calls that were decided before, where a model has no others."""
    for block, sign, name in COVER:
        own = [fleet for fleet in fleets if fleet.terms.block is block]
        if own:
            relief = view.variable("Generator-p").sel(name=[fleet.relief for fleet in own])
            view.m.add_constraints(relief, sign, decided_depth(view, own, ahead), name=view.named(name))


def place_rest(n: pypsa.Network, fleets: Sequence[Fleet], count: int, ahead: Ahead) -> tuple[PlacedCalls, ...]:
    """Build the graphs of the calls that a rolling horizon may still answer; a window models their first slots."""
    if ahead.decided >= len(ahead.slots):
        return ()
    window = Window(None, np.arange(ahead.decided - ahead.border, count), ahead.rest, ahead.weight[ahead.decided :])
    placed = []
    for fleet in fleets:
        before = decided_calls(n, fleet, ahead)
        free = max(before[-1].free - ahead.decided, 0) if before else 0
        graph = call_graph(fleet.terms.durations, fleet.terms.recovery, ahead.rest, free)
        placed.append(PlacedCalls(fleet, window, graph))
    return tuple(placed)


def spent_before(n: pypsa.Network, fleet: Fleet, ahead: Ahead, period: str) -> tuple[float, int]:
    """Hours and calls of a budget period that decided calls have spent, also in slots that are still to come."""
    hours, events = 0.0, 0
    inside = dict(budget_periods(fleet, ahead.snapshots))[period]
    for call in decided_calls(n, fleet, ahead):
        hours += float((ahead.slots.hours * inside)[call.start : call.stop].sum())
        events += int(inside[call.start])
    return hours, events


class Calls:
    """Variables and constraints of all calls in a network's model, (2) to (5).

    Parameters
    ----------
    view
        Network with a built model, or one of its scenarios.
    fleets
        Those with calls.
    placed
        Their call graphs; the edges of all are one after the other in the variable `CALLS`.
    ahead
        The place in a rolling horizon, if there is one.
    """

    def __init__(
        self, view: View, fleets: Sequence[Fleet], placed: Sequence[PlacedCalls], ahead: Ahead | None = None
    ) -> None:
        self._view, self._m, self._fleets, self._placed, self._ahead = view, view.m, fleets, placed, ahead
        lengths = [len(each.graph) for each in placed]
        self._first = np.cumsum([0, *lengths[:-1]])
        self._call = np.flatnonzero(np.concatenate([each.graph.kind for each in placed]) >= 0)
        self._depth_of_edge = np.full(sum(lengths), -1)
        self._depth_of_edge[self._call] = np.arange(len(self._call))
        edges = pd.RangeIndex(sum(lengths), name="aidc_call")
        self.chosen = self._m.add_variables(binary=True, coords=[edges], name=view.named(CALLS))
        depths = pd.RangeIndex(len(self._call), name="aidc_depth")
        self.depth = self._m.add_variables(lower=0, coords=[depths], name=view.named(DEPTHS))
        graphs = [each.graph.path for each in placed]
        add_path_flow(self._m, self.chosen, graphs, view.named("AIDC-call_flow"), "aidc_call_node")

    def common(self, recourse: Recourse) -> Ints:
        """Positions in `chosen` of what is decided once for all scenarios."""
        own = [recourse.common(each.fleet.name, each.window, each.graph.start) for each in self._placed]
        return np.flatnonzero(np.concatenate(own))

    def limit_depths(self) -> None:
        """Let a call be as deep as K allows, and only where it is chosen, (2)."""
        share, owner = [], []
        for each in self._placed:
            calls = each.graph.calls
            share.append(self._depths(each)[calls])
            owner.append(np.full(len(calls), self._fleets.index(each.fleet)))
        shares, owners = np.concatenate(share), np.concatenate(owner)
        sizes, index = Sizes(self._view, self._fleets), self.depth.indexes["aidc_depth"]
        most = shares * sizes.limit[owners]
        chosen = weighted_sum(self.chosen, self._call, np.arange(len(index)), most, {"aidc_depth": index})
        self._m.add_constraints(self.depth - chosen <= 0, name=self._view.named("AIDC-call_chosen"))
        if sizes.extendable.any():
            starts = [each.window.positions[each.graph.start[each.graph.calls]] for each in self._placed]
            allowed = sizes.allowed(owners, shares, np.concatenate(starts), index)
            self._m.add_constraints(self.depth - allowed <= 0, name=self._view.named("AIDC-call_size"))

    def cover_relief(self) -> None:
        """Allow relief only in calls and up to their depth, (3); the whole depth where calls are blocks."""
        for block, sign, name in COVER:
            fleets = [fleet for fleet in self._fleets if fleet.terms.block is block]
            if fleets:
                reliefs = [fleet.relief for fleet in fleets]
                relief = self._view.variable("Generator-p").sel(name=reliefs)
                covered = self.shedding(fleets, reliefs, depth=True)
                decided = decided_depth(self._view, fleets, self._ahead)
                self._m.add_constraints(relief - covered, sign, decided, name=self._view.named(name))

    def _shares(self, each: PlacedCalls) -> Floats:
        """Largest relief of a fleet over its size in each slot of its graph, in a rolling horizon."""
        assert self._ahead is not None
        shares = columns(self._view.n.get_switchable_as_dense("Generator", "p_max_pu"), [each.fleet.relief])
        later = self._ahead.snapshots[self._ahead.decided :]
        return shares[each.fleet.relief].loc[later].to_numpy(float)

    def _depths(self, each: PlacedCalls) -> Floats:
        """Depth over its size that K allows on each edge, and of a block what the slots after the window bear."""
        depths = np.array([*each.fleet.terms.depths, 0.0])[each.graph.kind]
        if self._ahead is not None and each.fleet.terms.block:
            edge, slot = each.graph.occupancy()
            later = slot >= len(each.window.positions)
            np.minimum.at(depths, edge[later], self._shares(each)[slot[later]])
        return depths

    def value_later(self) -> None:
        """Credit calls with what they are expected to save after the window of a rolling horizon."""
        if self._ahead is None:
            return
        ahead, gain = self._ahead, []
        costs = self._view.n.get_switchable_as_dense("Generator", "marginal_cost")
        for each in self._placed:
            fleet, graph = each.fleet, each.graph
            cost = columns(costs, [fleet.relief])[fleet.relief].loc[ahead.snapshots].to_numpy(float)[ahead.decided :]
            worth = (ahead.price[fleet.name][ahead.decided :] - cost) * each.window.weight * each.window.slots.hours
            edge, slot = graph.occupancy()
            later = slot >= len(each.window.positions)
            most = np.minimum(self._depths(each)[edge], self._shares(each)[slot])
            saved = worth[slot] if fleet.terms.block else np.maximum(worth[slot], 0.0)
            size = float(self._view.n.generators.at[fleet.name, "p_nom"])
            gain.append(np.bincount(edge[later], (most * size * saved)[later], minlength=len(graph)))
        value = xr.DataArray(-np.concatenate(gain), coords=self.chosen.coords, dims=self.chosen.dims)
        self._m.objective = self._m.objective.expression + (self.chosen * value).sum()

    def keep_budgets(self, snapshots: pd.Index | None) -> None:
        """Limit hours and calls in each period, (5): hours count where they fall, calls where they start."""
        chosen = network_snapshots(self._view.n, snapshots)
        entry, weight, most = [], [], []
        for each, first in zip(self._placed, self._first, strict=True):
            terms, graph = each.fleet.terms, each.graph
            if not terms.has_budget:
                continue
            rolling = self._ahead
            of_graph = chosen[each.window.positions] if rolling is None else rolling.snapshots[rolling.decided :]
            for label, inside in budget_periods(each.fleet, of_graph, each.window.period):
                used = (0.0, 0) if rolling is None else spent_before(self._view.n, each.fleet, rolling, label)
                passed = np.concatenate([[0.0], np.cumsum(each.window.slots.hours * inside)])
                hours = passed[graph.stop] - passed[graph.start]
                limits = ((terms.hours, used[0], hours), (terms.events, used[1], inside[graph.start] * 1.0))
                for budget, gone, spent in limits:
                    if budget is not None:
                        edges = graph.calls[spent[graph.calls] > 0]
                        entry.append(first + edges)
                        weight.append(spent[edges])
                        most.append(max(budget - gone, 0.0) + ROUNDING)
        if entry:
            index = pd.RangeIndex(len(entry), name="aidc_budget")
            row = np.repeat(np.arange(len(entry)), [len(edges) for edges in entry])
            spent = weighted_sum(
                self.chosen, np.concatenate(entry), row, np.concatenate(weight), {"aidc_budget": index}
            )
            self._m.add_constraints(spent <= over(np.array(most), index), name=self._view.named("AIDC-call_budget"))

    def shedding(self, fleets: Sequence[Fleet], names: Sequence[str], *, depth: bool) -> linopy.LinearExpression:
        """Over (snapshot, name): depth in MW, or number (0 or 1), of the calls that shed."""
        return self._sum(fleets, names, [each.graph.occupancy() for each in self._placed], depth)

    def starting(self, fleets: Sequence[Fleet], names: Sequence[str], *, depth: bool) -> linopy.LinearExpression:
        """Over (snapshot, name): depth in MW, or number (0 or 1), of the calls that start."""
        starts = [(each.graph.calls, each.graph.start[each.graph.calls]) for each in self._placed]
        return self._sum(fleets, names, starts, depth)

    def _sum(
        self, fleets: Sequence[Fleet], names: Sequence[str], pairs: Sequence[tuple[Ints, Ints]], depth: bool
    ) -> linopy.LinearExpression:
        entry, row = [], []
        for each, first, (edges, slots) in zip(self._placed, self._first, pairs, strict=True):
            if each.fleet in fleets:
                inside = slots < len(each.window.positions)
                entry.append(first + edges[inside])
                row.append(each.window.positions[slots[inside]] * len(fleets) + fleets.index(each.fleet))
        edge, rows = np.concatenate(entry), np.concatenate(row)
        variable, entries = (self.depth, self._depth_of_edge[edge]) if depth else (self.chosen, edge)
        labels = self._view.variable("Generator-p").indexes["snapshot"]
        coords = {"snapshot": labels, "name": pd.Index(names, name="name")}
        return weighted_sum(variable, entries, rows, np.ones(len(rows)), coords)
