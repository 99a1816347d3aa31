"""The checkpoint-state graph of a training load: waiting, training and completion edges as plain arrays."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import Generic, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from pypsa_aidc.errors import AIDCError, Faults, InfeasibleError
from pypsa_aidc.training.graph.edges import WAIT, EdgeMaker, Edges, prune
from pypsa_aidc.training.graph.phases import Phase
from pypsa_aidc.training.graph.slots import Slots
from pypsa_aidc.training.load import TrainingLoad

Formulation = Literal["time", "literal"]
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Number = TypeVar("Number", np.float64, np.int64)

logger = logging.getLogger(__name__)

_INTEGRAL = 1e-5


@dataclass(frozen=True)
class Step:
    """One training edge of a decoded path.

    Parameters
    ----------
    start, stop
        The edge occupies slots ``start .. stop - 1``.
    mode
        Position in ``load.modes``.
    segments
        Δk, segments completed at the end of the edge (a share of one without checkpoint continuity).
    restart
        Whether the edge follows a wait and pays for the restart.
    """

    start: int
    stop: int
    mode: int
    segments: float
    restart: bool = False


@dataclass(frozen=True, eq=False)
class Runs(Generic[Number]):
    """Runs of slots in which edges have the same level of something.

    Parameters
    ----------
    edge
        Edge of each run, shape (runs,).
    start, stop
        The run takes slots ``start .. stop - 1``.
    level
        What the edge has in each of these slots.
    """

    edge: Ints
    start: Ints
    stop: Ints
    level: NDArray[Number]

    def slots(self) -> tuple[Ints, Ints]:
        """Run and slot, one entry for each slot of each run."""
        lengths = self.stop - self.start
        run = np.repeat(np.arange(len(lengths)), lengths)
        return run, self.start[run] + np.arange(len(run)) - np.repeat(np.cumsum(lengths) - lengths, lengths)

    def followed_by(self, other: Runs[Number]) -> Runs[Number]:
        """These runs and others, those of one edge one after the other."""
        edge, start = np.concatenate([self.edge, other.edge]), np.concatenate([self.start, other.start])
        order = np.lexsort((start, edge))
        stop, level = np.concatenate([self.stop, other.stop]), np.concatenate([self.level, other.level])
        return Runs(edge[order], start[order], stop[order], level[order])


@dataclass(frozen=True, eq=False)
class CheckpointGraph:
    """Paths of one job through time and checkpoints; Eqs. 21-25 of [1].

    Built by `checkpoint_graph`. A path from `source` to `sink` is an executable schedule if its segments add up to
    `coverage`, where that is given: the time graph counts them along the path instead of keeping a node for each
    number of them, which is exact because only their sum matters when all segments are of one size.

    Parameters
    ----------
    load
        The load it belongs to.
    slots
        The horizon.
    edges
        All edges after pruning.
    nodes
        Number of nodes.
    source, sink
        First and last node.
    coverage
        Least and most segments of a path, or `None` where nodes count them.
    formulation
        ``"time"`` or ``"literal"``.
    edges_before_pruning
        How many edges there were before unreachable and decomposable ones went.
    """

    load: TrainingLoad
    slots: Slots = field(repr=False)
    edges: Edges = field(repr=False)
    nodes: int
    source: int
    sink: int
    coverage: tuple[float, float] | None
    formulation: Formulation
    edges_before_pruning: int

    def __len__(self) -> int:
        return len(self.edges)

    def occupancy(self) -> tuple[Ints, Ints, Floats, Ints]:
        """Which slots each training edge occupies, and what it draws there; Eqs. 25 and 28 of [1].

        Returns
        -------
        edge, slot, it_power, gpus
            One entry for each slot of each training edge; `it_power` in MW.
        """
        runs = self.power_runs()
        run, slot = runs.slots()
        edge = runs.edge[run]
        return edge, slot, runs.level[run], np.array([mode.gpus for mode in self.load.modes])[self.edges.mode[edge]]

    def holding(self) -> tuple[Ints, Ints, Ints]:
        """Which GPUs each edge occupies: those of its mode, and no fewer than the job holds while it waits.

        Returns
        -------
        edge, slot, gpus
            One entry for each slot of each edge that occupies any.
        """
        runs = self.gpu_runs(held=True)
        run, slot = runs.slots()
        return runs.edge[run], slot, runs.level[run]

    def power_runs(self) -> Runs[np.float64]:
        """Runs of slots in which an edge draws the same IT power in MW; Eqs. 25 and 28 of [1]."""
        edges, rules = self.edges, self.load.rules
        training = np.flatnonzero(edges.mode >= 0)
        power = np.array([mode.it_power for mode in self.load.modes])[edges.mode[training]]
        start, stop = edges.start[training], edges.stop[training]
        if rules.checkpoint_energy:
            hours = self.slots.ends[stop] - self.slots.ends[start]
            power = power + edges.segments[training] * rules.checkpoint_energy / hours
        # The first slot stands apart where it takes the energy of an event, unless it is the only one.
        more = edges.energy[training] / self.slots.hours[start]
        apart = np.flatnonzero((more > 0) & (stop > start + 1))
        whole = Runs(training, start, np.where(np.isin(np.arange(len(start)), apart), start + 1, stop), power + more)
        rest = Runs(training[apart], start[apart] + 1, stop[apart], power[apart])
        return whole.followed_by(rest)

    def gpu_runs(self, *, held: bool) -> Runs[np.int64]:
        """Runs of slots in which an edge occupies the same GPUs; with `held` also those that a waiting job holds."""
        least = self.load.rules.held_gpus if held else 0
        busy = np.flatnonzero((self.edges.mode >= 0) | ((self.edges.mode == WAIT) & (least > 0)))
        sizes = np.array([*(mode.gpus for mode in self.load.modes), 0])
        return Runs(
            busy, self.edges.start[busy], self.edges.stop[busy], np.maximum(sizes[self.edges.mode[busy]], least)
        )

    def delay_costs(self, weight: Floats) -> Floats:
        """USD of each edge, waits included, for the hours by which it delays completion, weighted by slot."""
        until = np.append(0.0, np.cumsum(weight * self.slots.hours))
        costs: Floats = self.load.rules.delay_cost * (until[self.edges.stop] - until[self.edges.start])
        return costs

    def gpu_hours(self, value: Floats | None = None) -> Floats:
        """GPU-hours that each edge occupies, or their worth in USD for a `value` in USD/GPU-h of each slot."""
        edge, slot, gpus = self.holding()
        weight = self.slots.hours if value is None else self.slots.hours * value
        return np.bincount(edge, gpus * weight[slot], minlength=len(self)).astype(float)

    def edge_energy(self, price: Floats | None = None) -> Floats:
        """IT energy of each edge in MWh, or its cost in USD for a `price` in USD/MWh of each slot."""
        edge, slot, it_power, _ = self.occupancy()
        weight = self.slots.hours if price is None else self.slots.hours * price
        return np.bincount(edge, it_power * weight[slot], minlength=len(self)).astype(float)

    def decode(self, flow: Floats) -> tuple[Step, ...]:
        """Follow the path that a solution selects; Eq. 27 of [1].

        Parameters
        ----------
        flow
            Value of each edge in the solution, shape (edges,).

        Raises
        ------
        AIDCError
            The flow is not integral, or does not form one path from source to sink.
        """
        fractional = np.abs(flow - np.round(flow)) > _INTEGRAL
        if fractional.any():
            worst = float(flow[fractional][np.argmax(np.abs(flow[fractional] - np.round(flow[fractional])))])
            raise AIDCError(
                f"job {self.load.name!r}: the solution is no path: {int(fractional.sum())} of {len(flow)} edges are "
                f"fractional, for example {worst:.3f}. The solver ignored integrality or stopped early."
            )
        chosen = np.flatnonzero(flow > 0.5)
        leaving = {int(self.edges.tail[edge]): int(edge) for edge in chosen}
        branches = len(leaving) < len(chosen)
        node, visited = self.source, []
        while node != self.sink and node in leaving:
            visited.append(leaving.pop(node))
            node = int(self.edges.head[visited[-1]])
        if branches or node != self.sink or leaving:
            raise AIDCError(
                f"job {self.load.name!r}: the selected edges do not form one path from the first to the last node"
            )
        return tuple(self._step(edge) for edge in visited if self.edges.mode[edge] >= 0)

    def decode_many(self, flow: Floats, count: int) -> list[tuple[Step, ...]]:
        """Take a flow of several paths apart, for as many equal jobs; where nodes count checkpoints, any way will do.

        Parameters
        ----------
        flow
            Number of paths on each edge, shape (edges,).
        count
            Number of paths.

        Raises
        ------
        AIDCError
            The flow is not of whole numbers, or not of so many paths.
        """
        left, whole = flow.copy(), np.round(flow)
        if np.abs(left - whole).max(initial=0.0) > _INTEGRAL:
            return [self.decode(flow)]  # which says what is wrong with it
        left, paths = whole, []
        order = np.argsort(self.edges.tail, kind="stable")
        first = np.searchsorted(self.edges.tail[order], np.arange(self.nodes + 1))
        for _ in range(count):
            single, node = np.zeros(len(flow)), self.source
            while node != self.sink:
                usable = [edge for edge in order[first[node] : first[node + 1]] if left[edge] > 0.5]
                if not usable:
                    break
                single[usable[0]] = 1.0
                node = int(self.edges.head[usable[0]])
            left = left - single
            paths.append(self.decode(single))
        if np.abs(left).max(initial=0.0) > 0.5:
            raise AIDCError(f"job {self.load.name!r}: the selected edges are more than {count} paths")
        return paths

    def _step(self, edge: int) -> Step:
        e = self.edges
        return Step(
            int(e.start[edge]), int(e.stop[edge]), int(e.mode[edge]), float(e.segments[edge]), bool(e.restart[edge])
        )


def checkpoint_graph(
    load: TrainingLoad, slots: Slots, formulation: Formulation = "time", phase: Phase | None = None
) -> CheckpointGraph:
    """Build the checkpoint-state graph of a load over a horizon; Algorithm 2 of [1], lines 1-7.

    Parameters
    ----------
    load
        Work, modes and rules.
    slots
        The horizon.
    formulation
        ``"time"``: nodes are times, segments are counted along the path, jumps that two shorter ones can replace are
        left out. ``"literal"``: nodes are (time, checkpoint) as printed in [1], all jumps kept. Both give the same
        optimum; unevenly spaced checkpoints need the literal graph, which is then taken with a log line.
    phase
        What the job remembers at its arrival, see `JobState`; `None` for a job that has not run yet.

    Returns
    -------
    CheckpointGraph
        Pruned from both ends: every edge lies on some path that completes the work.

    Raises
    ------
    InputError
        The deadline lies after the horizon, or an option does not go with slots of different length.
    InfeasibleError
        No path completes the work by the deadline, with the earliest finish in words.

    References
    ----------
    [1] Tong et al., arXiv:2610.13047 (2026), Eqs. 21-25 and Algorithm 2.

    Examples
    --------
    >>> from pypsa_aidc.training import Mode, Rules
    >>> mode = Mode((1, 1, 8), gpus=8, flops_per_s=1e15, it_power=0.003)
    >>> load = TrainingLoad("A", work=1e15 * 3600 * 4, modes=(mode,), rules=Rules(segments=2))
    >>> checkpoint_graph(load, Slots.uniform(6)).edges_before_pruning > 0
    True
    """
    faults = Faults(f"graph of job {load.name!r}")
    faults.require(formulation in ("time", "literal"), "formulation", formulation, "'time' or 'literal'")
    first, last = slots.window(load.rules.arrival, load.deadline, faults)
    needs_equal_slots = load.rules.min_run > 0
    faults.require(
        slots.are_uniform or not needs_equal_slots,
        "min_run",
        load.rules.min_run,
        "0 with snapshots of different length",
        "Resample the snapshots to one length.",
    )
    faults.raise_any()
    if formulation == "time" and load.rules.continuity and not load.rules.uniform:
        logger.info("job %r: checkpoints are not evenly spaced, so the literal graph is used", load.name)
        formulation = "literal"
    if not load.rules.continuity:
        formulation = "time"
    maker = EdgeMaker(load, slots, first, last, phase, counts_checkpoints=formulation == "literal")
    edges = maker.edges()
    before = maker.made
    kept = prune(edges, maker.nodes, maker.source, maker.sink, maker.coverage)
    if not len(kept):
        raise InfeasibleError(unfinishable(load, slots))
    used, positions = np.unique(np.concatenate([kept.tail, kept.head]), return_inverse=True)
    renumbered = kept.with_nodes(positions[: len(kept)], positions[len(kept) :])
    source, sink = np.searchsorted(used, [maker.source, maker.sink])
    return CheckpointGraph(
        load, slots, renumbered, len(used), int(source), int(sink), maker.coverage, formulation, before
    )


def earliest_finish(load: TrainingLoad, slots: Slots) -> float:
    """Hours after the first snapshot at which the load could be done at best, alone and without waiting.

    Looks beyond the horizon, as if it went on with slots of its last length; restarts after a wait do not occur.
    """
    rules = load.rules
    if not rules.continuity:
        fastest = max(mode.flops_per_s for mode in load.modes)
        return rules.arrival + load.work * sum(rules.shares[rules.progress :]) / fastest / 3600
    jump = rules.jump or rules.count
    start = slots.ceil(rules.arrival)
    ends = {rules.progress: start}
    for done in range(rules.progress, rules.count):
        for segments in range(1, min(jump, rules.count - done) + 1):
            share = sum(rules.shares[done : done + segments])
            for mode in load.modes:
                need = load.hours(mode) * share + segments * rules.checkpoint_hours
                stop = slots.after(ends[done], need)
                ends[done + segments] = min(stop, ends.get(done + segments, stop))
    return slots.hour(ends[rules.count])


def unfinishable(load: TrainingLoad, slots: Slots) -> str:
    """Say in words why a load cannot be done by its deadline, even alone."""
    deadline = slots.total if load.deadline is None else load.deadline
    fastest = max(load.modes, key=lambda mode: mode.flops_per_s)
    need = load.hours(fastest) * sum(load.rules.shares[load.rules.progress :])
    return (
        f"job {load.name!r} cannot finish by hour {deadline:g}: in its fastest mode {fastest.label} "
        f"({fastest.gpus} GPUs) the work takes {need:.2f} h of pure computing, {need * fastest.gpus:,.0f} GPU-hours, "
        f"and it may start at hour {load.rules.arrival:g}. The earliest finish with whole slots is hour "
        f"{earliest_finish(load, slots):g}. A faster mode, less work or that deadline would do."
    )
