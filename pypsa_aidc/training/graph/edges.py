"""Edges of a checkpoint-state graph: made in bulk from the rules of a job, then pruned from both ends."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from pypsa_aidc.training.graph.phases import Phase, Phases
from pypsa_aidc.training.graph.slots import Slots
from pypsa_aidc.training.load import TrainingLoad
from pypsa_aidc.training.transitions import Beginning
from pypsa_aidc.units import SECONDS_PER_HOUR, SLOT_TOLERANCE

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

WAIT = -1
COMPLETE = -2
_PLAIN = Beginning()


@dataclass(frozen=True, eq=False)
class Edges:
    """Edges as columns, all of one length.

    Parameters
    ----------
    tail, head
        Nodes.
    start, stop
        The edge covers slots ``start .. stop - 1``; a completion edge covers none.
    mode
        Position of the mode, or `WAIT`, or `COMPLETE`.
    segments
        Δk.
    restart
        Whether the edge follows a wait.
    cost
        USD for beginning it.
    energy
        Extra IT energy in MWh for beginning it, drawn in its first slot.
    """

    tail: Ints
    head: Ints
    start: Ints
    stop: Ints
    mode: Ints
    segments: Floats
    restart: Bools
    cost: Floats
    energy: Floats

    def __len__(self) -> int:
        return len(self.tail)

    @classmethod
    def joined(cls, parts: Iterable[Edges]) -> Edges:
        """Concatenate, sorted by start, then tail, head and mode, so that equal inputs give equal models."""
        listed = list(parts)
        whole = cls(*(np.concatenate([getattr(part, f.name) for part in listed]) for f in fields(cls)))
        return whole.take(np.lexsort((whole.segments, whole.mode, whole.head, whole.tail, whole.start)))

    def take(self, which: Ints | Bools) -> Edges:
        """Return the selected edges."""
        return Edges(*(getattr(self, f.name)[which] for f in fields(self)))

    def by_start(self) -> list[slice]:
        """Edges that leave one border, in order of time: they are sorted by it, and none of them ends at the same."""
        borders = np.searchsorted(self.start, np.arange(int(self.start.max()) + 2))
        return [slice(low, high) for low, high in pairwise(borders)]

    def with_nodes(self, tail: Ints, head: Ints) -> Edges:
        """Return the same edges between renumbered nodes."""
        return replace(self, tail=tail, head=head)


def _edges(
    tail: Ints,
    head: Ints,
    start: Ints,
    stop: Ints,
    mode: int,
    segments: float,
    beginning: Beginning = _PLAIN,
) -> Edges:
    count = len(tail)
    return Edges(
        tail,
        head,
        start,
        stop,
        np.full(count, mode),
        np.full(count, float(segments)),
        np.full(count, beginning.restart),
        np.full(count, beginning.cost),
        np.full(count, beginning.energy),
    )


class EdgeMaker:
    """Makes the edges of one load between two borders of the horizon.

    Parameters
    ----------
    load, slots
        The load and its horizon.
    first, last
        Borders at which the load may start and must be done.
    phase
        What the job remembers at the first border; `None` if it has not run yet.
    counts_checkpoints
        Whether nodes count segments (literal graph) or only time.
    """

    def __init__(
        self,
        load: TrainingLoad,
        slots: Slots,
        first: int,
        last: int,
        phase: Phase | None = None,
        *,
        counts_checkpoints: bool,
    ) -> None:
        rules = load.rules
        self.load, self.slots, self.first, self.last = load, slots, first, last
        self.counts_checkpoints = counts_checkpoints
        self.phases = Phases(load, int(np.ceil(rules.min_run / slots.hours[0] - SLOT_TOLERANCE)))
        self.layers = rules.count + 1 if counts_checkpoints else 1
        done = rules.progress if counts_checkpoints else 0
        remembered = 0 if phase is None else self.phases.index[phase]
        self.source = int(self._node(np.array([first]), done, remembered)[0])
        self.sink = (last + 1) * self.layers * len(self.phases)
        self.nodes = self.sink + 1
        self.made = 0
        remaining = rules.count * sum(rules.shares[rules.progress :])
        self.coverage: tuple[float, float] | None = None
        if not rules.continuity:
            self.coverage = (remaining * (1 - SLOT_TOLERANCE), np.inf)
        elif not counts_checkpoints:
            self.coverage = (float(rules.count - rules.progress),) * 2

    def _node(self, border: Ints, done: int, phase: int | Ints) -> Ints:
        return (border * self.layers + (done if self.counts_checkpoints else 0)) * len(self.phases) + phase

    @property
    def _checkpoints(self) -> range:
        return range(self.load.rules.progress, self.load.rules.count + 1) if self.counts_checkpoints else range(1)

    def edges(self) -> Edges:
        """Make all edges; `made` counts them before decomposable ones are left out."""
        parts = [*self._waits(), *self._completions()]
        self.made = sum(map(len, parts))
        parts += self._free_runs() if not self.load.rules.continuity else self._runs()
        return Edges.joined(parts)

    def _waits(self) -> Iterable[Edges]:
        for origin, target, at_least in self.phases.waits():
            need = self.load.rules.min_wait if at_least else 0.0
            start = np.arange(self.first, self.last)
            stop = self.slots.stops(need)[start]
            start, stop = start[stop <= self.last], stop[stop <= self.last]
            for done in self._checkpoints:
                yield _edges(
                    self._node(start, done, origin), self._node(stop, done, target), start, stop, mode=WAIT, segments=0
                )

    def _completions(self) -> Iterable[Edges]:
        # Waiting is free of charge where nothing is remembered, so a finished job of the time graph can wait for the
        # deadline: one completion edge is enough, and more would only be equal solutions for the solver to compare.
        rules = self.load.rules
        waits_out = rules.waiting and not self.load.has_memory and not self.counts_checkpoints
        border = np.array([self.last]) if waits_out else np.arange(self.first, self.last + 1)
        for phase in self.phases.completes():
            tail = self._node(border, rules.count, phase)
            yield _edges(tail, np.full(len(tail), self.sink), border, border, mode=COMPLETE, segments=0)

    def _free_runs(self) -> Iterable[Edges]:
        # Without checkpoint continuity (S3): every slot may take any mode, and progress is a share of a segment.
        start = np.arange(self.first, self.last)
        for position, mode in enumerate(self.load.modes):
            share = mode.flops_per_s * self.slots.hours[start] * SECONDS_PER_HOUR / self.load.work
            tail, head = self._node(start, 0, 0), self._node(start + 1, 0, 0)
            self.made += len(start)
            made = _edges(tail, head, start, start + 1, mode=position, segments=0)
            yield replace(made, segments=share * self.load.rules.count)

    def _runs(self) -> Iterable[Edges]:
        rules = self.load.rules
        longest = min(rules.jump or rules.count, rules.count - rules.progress)
        starting_points = self._checkpoints if not rules.uniform else range(rules.progress, rules.progress + 1)
        for origin, position, beginning in self.phases.runs():
            after = np.array(self.phases.after(origin, position))
            for done in starting_points:
                jumps = range(1, min(longest, rules.count - done) + 1)
                stops = [self._stops(position, done, jump, beginning.hours) for jump in jumps]
                going_on = [self._stops(position, done, jump, 0.0) for jump in jumps]
                splits = _last_of_their_slot(stops)
                for jump, stop in zip(jumps, stops, strict=True):
                    usable = (stop <= self.last) & (np.arange(len(stop)) >= self.first)
                    levels = self._levels(done, jump)
                    self.made += int(usable.sum()) * len(levels)
                    # The energy of checkpoints is spread over the edge: a longer one draws it otherwise than two.
                    if not self.counts_checkpoints and not rules.checkpoint_energy:
                        usable &= ~self._decomposes(stops, going_on, jump, splits)
                    start = np.flatnonzero(usable)
                    target = after[np.minimum(stop[start] - start, len(after)) - 1]
                    for level in levels:
                        yield _edges(
                            self._node(start, level, origin),
                            self._node(stop[start], level + jump, target),
                            start,
                            stop[start],
                            mode=position,
                            segments=jump,
                            beginning=beginning,
                        )

    def _levels(self, done: int, jump: int) -> range:
        """Checkpoints from which a jump of this size is the same edge, one slot pattern for all of them."""
        rules = self.load.rules
        if not self.counts_checkpoints or not rules.uniform:
            return range(done, done + 1)
        return range(rules.progress, rules.count - jump + 1)

    def _stops(self, mode: int, done: int, jump: int, extra_hours: float) -> Ints:
        """Border at which a jump from each border ends: the integer duration of Eq. 24b."""
        rules = self.load.rules
        share = sum(rules.shares[done : done + jump])
        need = self.load.hours(self.load.modes[mode]) * share + jump * rules.checkpoint_hours + extra_hours
        return self.slots.stops(need)

    def _decomposes(self, stops: list[Ints], going_on: list[Ints], jump: int, splits: list[int]) -> Bools:
        """Whether two shorter jumps in the same mode end in the same slot, so that this jump adds nothing.

        Of first parts that end in the same slot, the largest leaves the least to the second: no other need be tried.
        """
        whole = stops[jump - 1]
        result = np.zeros(len(whole), dtype=bool)
        for part in (*splits[: bisect_left(splits, jump - 1)], *range(max(jump - 1, 1), jump)):
            middle = stops[part - 1]
            inside = middle < len(whole)
            ends = np.full(len(whole), -1)
            ends[inside] = going_on[jump - part - 1][middle[inside]]
            result |= ends == whole
        return result


def _last_of_their_slot(stops: list[Ints]) -> list[int]:
    """Segments of the jumps that end, from some border, in an earlier slot than the next larger jump."""
    return [jump for jump, (stop, longer) in enumerate(pairwise(stops), 1) if (stop != longer).any()]


def prune(edges: Edges, nodes: int, source: int, sink: int, coverage: tuple[float, float] | None) -> Edges:
    """Keep the edges that lie on a path from source to sink whose segments can add up to `coverage`.

    Works from both ends: least and most segments that a path to each node, and from it, can have.
    """
    order = edges.by_start()
    least_in, most_in = np.full(nodes, np.inf), np.full(nodes, -np.inf)
    least_out, most_out = np.full(nodes, np.inf), np.full(nodes, -np.inf)
    least_in[source] = most_in[source] = least_out[sink] = most_out[sink] = 0.0
    for leaving in order:
        tail, head, segments = edges.tail[leaving], edges.head[leaving], edges.segments[leaving]
        np.minimum.at(least_in, head, least_in[tail] + segments)
        np.maximum.at(most_in, head, most_in[tail] + segments)
    for leaving in reversed(order):
        tail, head, segments = edges.tail[leaving], edges.head[leaving], edges.segments[leaving]
        np.minimum.at(least_out, tail, least_out[head] + segments)
        np.maximum.at(most_out, tail, most_out[head] + segments)
    least = least_in[edges.tail] + edges.segments + least_out[edges.head]
    most = most_in[edges.tail] + edges.segments + most_out[edges.head]
    least_wanted, most_wanted = (-np.inf, np.inf) if coverage is None else coverage
    fits = (least <= most_wanted + SLOT_TOLERANCE) & (most >= least_wanted - SLOT_TOLERANCE)
    return edges.take(np.isfinite(least) & fits)
