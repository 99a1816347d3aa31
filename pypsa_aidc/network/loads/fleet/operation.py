"""What fleets did in a solved network: calls decoded from the model, kept as series of their Generators, read back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import pypsa
from numpy.typing import NDArray

from pypsa_aidc.errors import AIDCError, NotSolvedError
from pypsa_aidc.network.loads.fleet.budgets import SHEDDING
from pypsa_aidc.network.loads.fleet.calls import CALL, CALLS, DEPTH, DEPTHS, PlacedCalls, decided_calls
from pypsa_aidc.network.loads.fleet.model import FleetModel
from pypsa_aidc.network.model.horizon import Window, dates_alike, network_snapshots, windows
from pypsa_aidc.network.model.recourse import View, views
from pypsa_aidc.network.pypsa_api import INTEGRAL, columns
from pypsa_aidc.units import SLOT_TOLERANCE

if TYPE_CHECKING:
    from pypsa_aidc.network.loads.fleet.fleet import Fleet

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Operation:
    """What one fleet did in one window of the horizon, per slot.

    Parameters
    ----------
    fleet, window, snapshots
        The fleet, the window, and the window's snapshots.
    size
        L in MW.
    profile, share, rebound_share
        Load, largest relief and largest rebound power over L, shape (slots,).
    load, relief, rebound
        Power in MW, shape (slots,).
    call, depth
        Hours (0: none) and depth in MW of the call that starts in each slot.
    """

    fleet: Fleet
    window: Window
    snapshots: pd.Index
    size: float
    profile: Floats
    share: Floats
    rebound_share: Floats
    load: Floats
    relief: Floats
    rebound: Floats
    call: Floats
    depth: Floats

    @property
    def events(self) -> list[tuple[int, int, float]]:
        """First slot, the first after it, and depth in MW, of each call; without calls, of each stretch of relief."""
        slots = self.window.slots
        if self.fleet.terms.form == "calls":
            starts = np.flatnonzero(self.call > 0)
            last = slots.ends[starts] + self.call[starts] + SLOT_TOLERANCE
            stops = np.searchsorted(slots.ends, last, side="right") - 1
            return [
                (int(start), int(stop), float(self.depth[start])) for start, stop in zip(starts, stops, strict=True)
            ]
        on = np.concatenate([[False], self.relief > SHEDDING * max(self.size, 1.0), [False]])
        changes = np.flatnonzero(on[1:] != on[:-1])
        return [
            (int(start), int(stop), float(self.relief[start:stop].max()))
            for start, stop in zip(changes[::2], changes[1::2], strict=True)
        ]


def record(n: pypsa.Network, fleet_model: FleetModel) -> None:
    """Decode the calls of the network's model and keep them in the network, as dynamic attributes of the fleets.

    Raises
    ------
    AIDCError
        A call is chosen in part: the solver ignored integrality.
    """
    chosen = network_snapshots(n, n.model.parameters["snapshots"].to_index())
    found = {view.scenario: _recorded(view, fleet_model, chosen) for view in views(n)}
    for attribute in (CALL, DEPTH):
        frames = {scenario: frames[attribute] for scenario, frames in found.items()}
        frame = frames[None] if None in frames else pd.concat(frames, axis=1)
        frame.columns.names = n.generators.index.names
        n.c.generators.dynamic[attribute] = frame


def _recorded(view: View, fleet_model: FleetModel, chosen: pd.Index) -> dict[str, pd.DataFrame]:
    """Hours and depths of the calls of all fleets, in one scenario."""
    n = view.n
    values = {attribute: pd.DataFrame(np.nan, n.snapshots, list(fleet_model.fleets)) for attribute in (CALL, DEPTH)}
    for frame in values.values():
        frame.loc[chosen] = 0.0
    for each, edges, deep in _taken(view, fleet_model):
        fleet, graph = each.fleet, each.graph
        here = graph.start[edges] < len(each.window.positions)  # others are planned for after the window
        taken, depths = edges[here], deep[here]
        relief = n.c.generators.dynamic["p"].loc[chosen, fleet.relief].to_numpy(float)[each.window.positions]
        shed = np.array([relief[graph.start[edge] : graph.stop[edge]].max() for edge in taken])
        # Without rebound nothing keeps the depth of a call from lying above all that is shed in it.
        depth = depths if fleet.terms.rebound else shed
        real = depth > SHEDDING * max(_size(n, fleet), 1.0)
        labels = chosen[each.window.positions[graph.start[taken[real]]]]
        values[CALL].loc[labels, fleet.name] = np.array(fleet.terms.durations, float)[graph.kind[taken[real]]]
        values[DEPTH].loc[labels, fleet.name] = depth[real]
    ahead = fleet_model.ahead
    if ahead is not None:
        past = ahead.snapshots[: ahead.decided]
        for fleet in fleet_model.fleets.values():
            for call in decided_calls(n, fleet, ahead):  # one that goes on may have become deeper
                shed = n.c.generators.dynamic["p"][fleet.relief][ahead.snapshots[call.start : call.stop]]
                n.c.generators.dynamic[DEPTH].loc[ahead.snapshots[call.start], fleet.name] = shed.max()
        for attribute, frame in values.items():
            earlier = n.c.generators.dynamic.get(attribute)
            if earlier is not None and len(past):
                frame.loc[past] = earlier.loc[past, frame.columns]
    return values


def _taken(view: View, fleet_model: FleetModel) -> Iterator[tuple[PlacedCalls, Ints, Floats]]:
    """Calls of each graph that are chosen, by position of their edge, and their depths in MW."""
    if not fleet_model.placed:
        return
    whole, depths = (view.m.variables[view.named(name)].solution.values for name in (CALLS, DEPTHS))
    if np.abs(whole - np.round(whole)).max(initial=0.0) > INTEGRAL:
        raise AIDCError("calls of fleets are chosen in part: the solver ignored integrality")
    edge = call = 0
    for each in fleet_model.placed:
        calls = each.graph.calls
        chosen = np.round(whole[edge + calls]) == 1
        yield each, calls[chosen], depths[call + np.flatnonzero(chosen)]
        edge, call = edge + len(each.graph), call + len(calls)


def _size(n: pypsa.Network, fleet: Fleet) -> float:
    row = n.generators.loc[fleet.name]
    return float(row["p_nom_opt"] if row["p_nom_extendable"] else row["p_nom"])


def solved_snapshots(n: pypsa.Network, fleets: Mapping[str, Fleet]) -> pd.Index:
    """Snapshots for which it is kept what some fleets did.

    Raises
    ------
    NotSolvedError
        Nothing was solved with fleets.
    """
    kept = n.c.generators.dynamic.get(CALL, pd.DataFrame())
    solved: pd.Index = n.snapshots[:0] if kept.empty else n.snapshots[columns(kept, list(fleets)).notna().all(axis=1)]
    if not len(solved):
        raise NotSolvedError(
            "no calls of fleets in this network: solve with n.aidc.optimize() or "
            "n.optimize(extra_functionality=aidc.extra_functionality). A plain n.optimize() does not know the terms "
            "of fleets, and its relief is none that they can give."
        )
    return solved


def operations(n: pypsa.Network, fleets: Mapping[str, Fleet]) -> list[Operation]:
    """Read what each of some fleets did in each window, from series and sizes in the network.

    Raises
    ------
    NotSolvedError
        Nothing was solved with fleets.
    """
    chosen = solved_snapshots(n, fleets)
    dynamic = n.c.generators.dynamic
    least, most = (n.get_switchable_as_dense("Generator", attribute) for attribute in ("p_min_pu", "p_max_pu"))
    table, horizon = [], windows(n, chosen)
    for fleet in fleets.values():
        size = _size(n, fleet)
        for window in horizon:
            labels = chosen[window.positions]
            parts = [(least, fleet.name), (most, fleet.relief), (most, fleet.rebound)]
            parts += [(dynamic["p"], part) for part in (fleet.name, fleet.relief, fleet.rebound)]
            parts += [(dynamic[CALL], fleet.name), (dynamic[DEPTH], fleet.name)]
            table.append(Operation(fleet, window, labels, size, *(_values(*part, labels) for part in parts)))
    return table


def _values(frame: pd.DataFrame, name: str, labels: pd.Index) -> Floats:
    series = frame.loc[labels, name] if name in frame.columns else pd.Series(0.0, labels)
    return np.asarray(series, dtype=float)


def call_table(found: list[Operation]) -> pd.DataFrame:
    """List calls, one row each; see `Results.calls`."""
    table: list[Mapping[str, object]] = []
    for each in found:
        events, hours, terms = each.events, each.window.slots.hours, each.fleet.terms
        nexts = [start for start, _, _ in events][1:] + [len(hours)] * bool(events)
        labels = dates_alike(each.snapshots)
        for (start, stop, depth), until in zip(events, nexts, strict=True):
            relief = each.relief[start:stop]
            table.append(
                {
                    "fleet": each.fleet.name,
                    "start": labels[start],
                    "last": labels[stop - 1],
                    "duration": float(hours[start:stop].sum()),
                    "depth": depth,
                    "power": float(relief.max(initial=0.0)),
                    "energy": float(relief @ hours[start:stop]),
                    "lost": depth * terms.checkpoint / 2,
                    "rebound": float(each.rebound[stop:until] @ hours[stop:until]),
                }
            )
    names = ["fleet", "start", "last", "duration", "depth", "power", "energy", "lost", "rebound"]
    frame = pd.DataFrame(table, columns=names)
    units = {"duration": "h", "depth": "MW", "power": "MW", "energy": "MWh", "lost": "MWh", "rebound": "MWh"}
    frame.attrs = {
        "units": units,
        "source": {each.fleet.name: each.fleet.source for each in found},
        "synthetic": [each.fleet.name for each in found if each.fleet.synthetic],
    }
    return frame


def size_table(n: pypsa.Network, fleets: Mapping[str, Fleet]) -> pd.DataFrame:
    """List size, calls and energy, one row a fleet; see `Results.fleet_sizes`."""
    found = operations(n, fleets)
    table, sizes = call_table(found), {each.fleet.name: each.size for each in found}
    grouped = table.groupby("fleet")
    frame = pd.DataFrame({"bus": n.generators["bus"].reindex(list(sizes)), "p_nom": pd.Series(sizes)})
    frame["calls"] = grouped.size().reindex(frame.index, fill_value=0)
    for name in ("duration", "energy", "rebound"):
        frame["hours" if name == "duration" else name] = grouped[name].sum().reindex(frame.index, fill_value=0.0)
    frame.attrs = table.attrs | {"units": {"p_nom": "MW", "hours": "h", "energy": "MWh", "rebound": "MWh"}}
    return frame.rename_axis("fleet")
