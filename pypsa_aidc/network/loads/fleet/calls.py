"""Calls of fleets in a model: which are answered, how deep, what they cover and how many there may be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import linopy
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from pypsa_aidc.errors import Faults
from pypsa_aidc.network.loads.fleet.budgets import ROUNDING, budget_periods
from pypsa_aidc.network.loads.fleet.call_graph import CallGraph, call_graph
from pypsa_aidc.network.loads.fleet.sizes import Sizes
from pypsa_aidc.network.model.flow import add_path_flow
from pypsa_aidc.network.model.horizon import Window, network_snapshots
from pypsa_aidc.network.model.linear import over, weighted_sum
from pypsa_aidc.network.model.recourse import Recourse, View

if TYPE_CHECKING:
    from pypsa_aidc.network.loads.fleet.fleet import Fleet

CALLS = "AIDC-calls"
"""Name of the binary variable with one entry for each edge of the call graph of each fleet, u of (2)."""

DEPTHS = "AIDC-call_depth"
"""Name of the variable with the depth in MW of each call, x of (2)."""

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class PlacedCalls:
    """The call graph of one fleet in one window of the horizon."""

    fleet: Fleet
    window: Window
    graph: CallGraph


def place_calls(fleets: Sequence[Fleet], horizon: Sequence[Window]) -> tuple[PlacedCalls, ...]:
    """Build the call graphs of fleets in all windows.

    Raises
    ------
    InputError
        Not one call of a fleet fits into a window.
    """
    faults, placed = Faults("calls of fleets"), []
    for fleet in fleets:
        terms = fleet.terms
        for window in horizon:
            graph, slots = call_graph(terms.durations, terms.recovery, window.slots), window.slots
            faults.require(
                len(graph.calls) > 0,
                f"fleet {fleet.name!r}",
                f"calls of {terms.durations[0]} to {terms.durations[-1]} h",
                f"one that fits into {slots.total:g} h of snapshots of {slots.hours.min():g} h and more",
                "Give durations of at least a snapshot and at most the horizon.",
            )
            placed.append(PlacedCalls(fleet, window, graph))
    faults.raise_any()
    return tuple(placed)


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
    """

    def __init__(self, view: View, fleets: Sequence[Fleet], placed: Sequence[PlacedCalls]) -> None:
        self._view, self._m, self._fleets, self._placed = view, view.m, fleets, placed
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
        share, owner, position = [], [], []
        for each in self._placed:
            calls = each.graph.calls
            share.append(np.array(each.fleet.terms.depths)[each.graph.kind[calls]])
            owner.append(np.full(len(calls), self._fleets.index(each.fleet)))
            position.append(each.window.positions[each.graph.start[calls]])
        shares, owners = np.concatenate(share), np.concatenate(owner)
        sizes, index = Sizes(self._view, self._fleets), self.depth.indexes["aidc_depth"]
        most = shares * sizes.limit[owners]
        chosen = weighted_sum(self.chosen, self._call, np.arange(len(index)), most, {"aidc_depth": index})
        self._m.add_constraints(self.depth - chosen <= 0, name=self._view.named("AIDC-call_chosen"))
        if sizes.extendable.any():
            allowed = sizes.allowed(owners, shares, np.concatenate(position), index)
            self._m.add_constraints(self.depth - allowed <= 0, name=self._view.named("AIDC-call_size"))

    def cover_relief(self) -> None:
        """Allow relief only in calls and up to their depth, (3); the whole depth where calls are blocks."""
        for block, sign, name in ((False, "<=", "AIDC-call_cover"), (True, "=", "AIDC-call_block")):
            fleets = [fleet for fleet in self._fleets if fleet.terms.block is block]
            if fleets:
                reliefs = [fleet.relief for fleet in fleets]
                relief = self._view.variable("Generator-p").sel(name=reliefs)
                covered = self.shedding(fleets, reliefs, depth=True)
                self._m.add_constraints(relief - covered, sign, 0, name=self._view.named(name))

    def keep_budgets(self, snapshots: pd.Index | None) -> None:
        """Limit hours and calls in each period, (5): hours count where they fall, calls where they start."""
        chosen = network_snapshots(self._view.n, snapshots)
        entry, weight, most = [], [], []
        for each, first in zip(self._placed, self._first, strict=True):
            terms, graph = each.fleet.terms, each.graph
            if not terms.has_budget:
                continue
            for _, inside in budget_periods(each.fleet, chosen[each.window.positions], each.window.period):
                passed = np.concatenate([[0.0], np.cumsum(each.window.slots.hours * inside)])
                hours = passed[graph.stop] - passed[graph.start]
                for budget, spent in ((terms.hours, hours), (terms.events, inside[graph.start] * 1.0)):
                    if budget is not None:
                        edges = graph.calls[spent[graph.calls] > 0]
                        entry.append(first + edges)
                        weight.append(spent[edges])
                        most.append(budget + ROUNDING)
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
                entry.append(first + edges)
                row.append(each.window.positions[slots] * len(fleets) + fleets.index(each.fleet))
        edge, rows = np.concatenate(entry), np.concatenate(row)
        variable, entries = (self.depth, self._depth_of_edge[edge]) if depth else (self.chosen, edge)
        labels = self._view.variable("Generator-p").indexes["snapshot"]
        coords = {"snapshot": labels, "name": pd.Index(names, name="name")}
        return weighted_sum(variable, entries, rows, np.ones(len(rows)), coords)
