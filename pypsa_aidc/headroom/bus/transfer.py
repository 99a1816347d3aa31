"""Largest draw at each bus and snapshot with a fixed dispatch: exact, from distribution factors, over all outages."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from pypsa_aidc.headroom.bus.base_case import Floats
from pypsa_aidc.headroom.bus.factors import Island
from pypsa_aidc.headroom.bus.slack import Participation
from pypsa_aidc.progress import track

Integers = NDArray[np.int64]
_GROUP = 64
"""Buses that are bounded together."""
_SAMPLE = 64
"""Snapshots of the first pass, which lowers the bounds before all are looked at."""
NONE, GENERATION = -1, -2
"""Codes in place of a branch: nothing limits; generation does. In place of an outage, `NONE` is none."""
OVERLOAD_TOLERANCE = 1e-6
"""Share of a rating (at least 1 MW of it) by which a flow may exceed it before the base case counts as overloaded."""


@dataclass(frozen=True, eq=False)
class Study:
    """One island with all that its headroom depends on.

    Attributes
    ----------
    island : Island
    flow : numpy.ndarray
        Base flows, MW, shape (L, T).
    slack : Participation
    slack_flow : numpy.ndarray
        Flow on each branch for 1 MW injected by the slack distribution, shape (L, T), or (L, 1).
    outages : numpy.ndarray
        Branches whose outage is studied.
    emergency : float
        Rating after an outage over the normal rating.
    cutoff : float
        Distribution factors up to this size count as none.
    """

    island: Island
    flow: Floats
    slack: Participation
    slack_flow: Floats
    outages: Integers
    emergency: float
    cutoff: float

    def at(self, buses: Integers) -> Study:
        """The same study for some of the buses (by position); the slack distribution stays that of all."""
        island = self.island
        if len(buses) == len(island.buses):
            return self
        return replace(self, island=replace(island, buses=island.buses[buses], ptdf=island.ptdf[:, buses]))


@dataclass(frozen=True, eq=False)
class Overload:
    """The worst overload of a base case, in MW above the rating."""

    branch: int
    outage: int
    snapshot: int
    excess: float


@dataclass(eq=False)
class Draws:
    """Largest draw x_bt with which every branch keeps its rating, and what limits it; arrays of shape (B, T).

    Attributes
    ----------
    draw : numpy.ndarray
        MW; inf where nothing limits.
    branch, outage : numpy.ndarray
        Positions in the island's branches, or `NONE`, `GENERATION`.
    factor : numpy.ndarray
        MW of flow on the limiting branch for each MW drawn (absolute).
    """

    draw: Floats
    branch: Integers
    outage: Integers
    factor: Floats

    @classmethod
    def limited_by(cls, generation: Floats, buses: int) -> Draws:
        """Draws that only the spare generation (MW, shape (T,)) limits."""
        shape = (buses, generation.size)
        finite = np.isfinite(generation)
        return cls(
            np.broadcast_to(generation, shape).copy(),
            np.broadcast_to(np.where(finite, GENERATION, NONE), shape).copy(),
            np.full(shape, NONE, np.int64),
            np.ones(shape),
        )


@dataclass(frozen=True, eq=False)
class _State:
    """Flows, margins and sensitivities of an island with one branch out, for some snapshots."""

    outage: int
    upward: Floats
    downward: Floats
    slack: Floats
    ptdf: Floats


def worst_overload(study: Study) -> Overload | None:
    """Find the branch that is furthest above its rating before anything is added, or `None`."""
    worst: Overload | None = None
    for state in track(_states(study, slice(None)), "base case, by outage", 1 + len(study.outages)):
        excess = -np.minimum(state.upward, state.downward)
        tolerance = OVERLOAD_TOLERANCE * np.maximum(1.0, np.nan_to_num(study.island.rating, posinf=1.0))
        excess = np.where(excess > tolerance, excess, -np.inf)
        if excess.size and excess.max() > (worst.excess if worst else 0.0):
            branch, snapshot = np.unravel_index(int(np.argmax(excess)), excess.shape)
            worst = Overload(int(branch), state.outage, int(snapshot), float(excess[branch, snapshot]))
    return worst


def draws(study: Study, load: Floats, needed: Floats, every_snapshot: bool, memory: float) -> Draws:
    """Compute the largest draw at each bus and snapshot, min over l, k of (R_l ∓ F_lk)/|a_lkb|.

    F_lk is the flow on branch l after outage k; a_lkb = D_lk − P_lkb what a MW drawn at bus b adds to it, with the
    factors P of the bus and D of the slack distribution, both with the outage. A first pass bounds each (l, k, t) for
    all buses at once, by the largest factor of any bus; only what can still limit some bus is computed bus by bus, so
    that the result is exact.

    Parameters
    ----------
    study
        The island.
    load, needed
        Draw per MW of site, and the part of it that no response can spare, shape (T,).
    every_snapshot
        Whether all of ``draw`` is wanted, or only what a site cannot have in full (faster). A size is at most
        L = min_t x_t/needed_t; where x_t is at least load_t·L, the array may then hold an upper bound of x_t.
    memory
        Megabytes for the arrays of a block.
    """
    found = Draws.limited_by(study.slack.limit, len(study.island.buses))
    branches, snapshots = study.flow.shape
    if not branches:
        return found
    per_block = max(1, int(memory * 1e6 / (8 * 12 * branches)))
    blocks = [slice(start, min(start + per_block, snapshots), 1) for start in range(0, snapshots, per_block)]
    if not every_snapshot and snapshots > _SAMPLE:
        step = max(snapshots // _SAMPLE, snapshots // per_block + 1)
        blocks.insert(0, slice(0, snapshots, step))
    states = ((block, state) for block in blocks for state in _states(study, block))
    for block, state in track(states, "headroom, by outage", len(blocks) * (1 + len(study.outages))):
        _tighten(found, study, state, block, load, needed, every_snapshot, memory)
    return found


def _states(study: Study, block: slice) -> Iterator[_State]:
    """The island without outage, then with each outage."""
    island, flow = study.island, study.flow[:, block]
    rating = island.rating[:, block]
    slack = study.slack_flow if study.slack_flow.shape[1] == 1 else study.slack_flow[:, block]
    yield _State(NONE, rating - flow, rating + flow, slack, island.ptdf)
    for outage in study.outages:
        share = island.lodf[:, outage]
        after = flow + np.outer(share, flow[outage])
        limit = study.emergency * rating
        limit[outage] = np.inf
        yield _State(
            int(outage),
            limit - after,
            limit + after,
            slack + np.outer(share, slack[outage]),
            island.ptdf + np.outer(share, island.ptdf[outage]),
        )


def _tighten(
    found: Draws,
    study: Study,
    state: _State,
    block: slice,
    load: Floats,
    needed: Floats,
    every_snapshot: bool,
    memory: float,
) -> None:
    """Lower the draws of a block by what one state of the island allows."""
    drawn = load[block]
    size = np.divide(found.draw, needed, out=np.full(found.draw.shape, np.inf), where=needed > 0).min(axis=1)
    highest = found.draw[:, block].max(axis=1) if every_snapshot else size
    # Buses of similar headroom together: what cannot limit the largest of them limits none.
    order = np.argsort(highest, kind="stable")
    order = order[highest[order] > 0]
    margins = np.maximum(state.upward, 0.0), np.maximum(state.downward, 0.0)
    for group in np.array_split(order, max(1, order.size // _GROUP)) if order.size else ():
        reach = found.draw[group, block].max(axis=0)
        if not every_snapshot:
            # A snapshot matters only where it can limit the whole site below what is already known.
            whole = np.multiply(size[group].max(), drawn, out=np.zeros(drawn.size), where=drawn > 0)
            reach = np.minimum(reach, whole)
        ptdf = state.ptdf[:, group]
        rising = state.slack - ptdf.min(axis=1)[:, None]
        falling = ptdf.max(axis=1)[:, None] - state.slack
        with np.errstate(invalid="ignore"):  # no factor, no limit yet: neither limits
            limiting = (rising > study.cutoff) & (margins[0] < reach * rising)
            limiting |= (falling > study.cutoff) & (margins[1] < reach * falling)
        snapshot, branch = np.nonzero(limiting.T)
        rows = max(1, int(memory * 1e6 / (8 * 6 * group.size)))
        for start in range(0, snapshot.size, rows):
            chosen = slice(start, start + rows)
            _lower(found, study, state, group, block, snapshot[chosen], branch[chosen], margins)


def _lower(
    found: Draws,
    study: Study,
    state: _State,
    buses: Integers,
    block: slice,
    snapshot: Integers,
    branch: Integers,
    margins: tuple[Floats, Floats],
) -> None:
    """Lower the draws at some buses by some (snapshot, branch) pairs, sorted by snapshot."""
    slack = state.slack[branch, 0 if state.slack.shape[1] == 1 else snapshot]
    factor = slack[:, None] - state.ptdf[branch[:, None], buses]
    size = np.abs(factor)
    margin = np.where(factor > 0, margins[0][branch, snapshot][:, None], margins[1][branch, snapshot][:, None])
    allowed = np.divide(margin, size, out=np.full(size.shape, np.inf), where=size > study.cutoff)
    starts = np.flatnonzero(np.r_[True, np.diff(snapshot) > 0])
    least = np.minimum.reduceat(allowed, starts, axis=0)
    where = block.start + block.step * snapshot[starts]
    group, bus = np.nonzero(least < found.draw[np.ix_(buses, where)].T)
    if not group.size:
        return
    # The first pair of the snapshot that reaches the minimum is the one to name.
    counts = np.diff(np.r_[starts, snapshot.size])
    reaches = allowed == np.repeat(least, counts, axis=0)
    position = np.where(reaches, np.arange(snapshot.size)[:, None], snapshot.size)
    first = np.minimum.reduceat(position, starts, axis=0)[group, bus]
    target = (buses[bus], where[group])
    found.draw[target] = least[group, bus]
    found.branch[target] = branch[first]
    found.outage[target] = state.outage
    found.factor[target] = size[first, bus]
