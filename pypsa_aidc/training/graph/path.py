"""Cheapest paths of one job by dynamic programming: exact when prices do not depend on what the job does."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pypsa_aidc.errors import Faults
from pypsa_aidc.training.graph.graph import CheckpointGraph

Floats = NDArray[np.float64]


def cheapest_path(graph: CheckpointGraph, edge_cost: Floats) -> tuple[float, Floats]:
    """Return the least cost of a path, and the path itself.

    Parameters
    ----------
    graph
        Checkpoint-state graph, with checkpoint continuity.
    edge_cost
        Cost of each edge, shape (edges,), for example ``graph.edge_energy(price) + graph.edges.cost``.

    Returns
    -------
    cost, flow
        Least cost, and 1 on each edge of a cheapest path, shape (edges,).

    Raises
    ------
    InputError
        A cost for each edge is missing or not finite, or the graph is one without checkpoint continuity.

    Examples
    --------
    >>> from pypsa_aidc.training import Mode, Rules, Slots, TrainingLoad, checkpoint_graph
    >>> mode = Mode((1, 1, 8), gpus=8, flops_per_s=1e15, it_power=0.5)
    >>> load = TrainingLoad("A", work=1e15 * 3600 * 2, modes=(mode,), rules=Rules(segments=2))
    >>> graph = checkpoint_graph(load, Slots.uniform(4))
    >>> cheapest_path(graph, graph.edge_energy(np.array([9.0, 3.0, 7.0, 5.0])))[0]
    4.0
    """
    layers, jump = _checked(graph, edge_cost)
    edges = graph.edges
    best, via = _reach(graph, edge_cost, layers, jump)
    flow = np.zeros(len(edges))
    node, layer = graph.sink, layers - 1
    while node != graph.source:
        edge = via[node, layer]
        flow[edge] = 1.0
        node, layer = edges.tail[edge], layer - jump[edge]
    return float(best[graph.sink, layers - 1]), flow


def cheapest_through(graph: CheckpointGraph, edge_cost: Floats) -> Floats:
    """Return the least cost of a path through each edge, shape (edges,); infinite where there is none.

    The same arguments and errors as `cheapest_path`.

    Examples
    --------
    >>> from pypsa_aidc.training import Mode, Rules, Slots, TrainingLoad, checkpoint_graph
    >>> mode = Mode((1, 1, 8), gpus=8, flops_per_s=1e15, it_power=0.5)
    >>> load = TrainingLoad("A", work=1e15 * 3600, modes=(mode,), rules=Rules(segments=1))
    >>> graph = checkpoint_graph(load, Slots.uniform(3))
    >>> through = cheapest_through(graph, graph.edge_energy(np.array([9.0, 3.0, 7.0])))
    >>> through[graph.edges.mode >= 0].tolist()
    [4.5, 1.5, 3.5]
    """
    layers, jump = _checked(graph, edge_cost)
    edges = graph.edges
    before, _ = _reach(graph, edge_cost, layers, jump)
    after = np.full((graph.nodes, layers), np.inf)
    after[graph.sink, layers - 1] = 0.0
    through = np.full(len(edges), np.inf)
    for leaving in reversed(edges.by_start()):
        entry, layer = _within(jump[leaving], layers)
        tail, done = edges.tail[leaving][entry], jump[leaving][entry]
        onward = after[edges.head[leaving][entry], layer + done] + edge_cost[leaving][entry]
        np.minimum.at(through[leaving], entry, before[tail, layer] + onward)
        np.minimum.at(after, (tail, layer), onward)
    return through


def _checked(graph: CheckpointGraph, edge_cost: Floats) -> tuple[int, NDArray[np.int64]]:
    """Layers of segments that the programme has to tell apart, and how many of them each edge climbs."""
    faults = Faults(f"cheapest path of job {graph.load.name!r}")
    shape = (len(graph),)
    faults.require(np.shape(edge_cost) == shape, "edge_cost", np.shape(edge_cost), f"shape {shape}")
    faults.require(bool(np.isfinite(edge_cost).all()), "edge_cost", "NaN or infinite", "finite costs")
    faults.require(graph.load.rules.continuity, "graph", "continuity=False", "checkpoint continuity")
    faults.raise_any()
    if graph.coverage is None:
        return 1, np.zeros(len(graph), dtype=np.int64)
    return graph.load.rules.count - graph.load.rules.progress + 1, graph.edges.segments.astype(np.int64)


def _reach(
    graph: CheckpointGraph, edge_cost: Floats, layers: int, jump: NDArray[np.int64]
) -> tuple[Floats, NDArray[np.int64]]:
    """Least cost from the source to each node and layer, and the edge by which it is reached."""
    edges = graph.edges
    best = np.full((graph.nodes, layers), np.inf)
    best[graph.source, 0] = 0.0
    via = np.full((graph.nodes, layers), -1)
    for leaving in edges.by_start():
        entry, layer = _within(jump[leaving], layers)
        target = (edges.head[leaving][entry], layer + jump[leaving][entry])
        reached = best[edges.tail[leaving][entry], layer] + edge_cost[leaving][entry]
        before = best[target]
        np.minimum.at(best, target, reached)
        better = np.flatnonzero((reached < before) & (reached == best[target]))[::-1]
        # Of equal ones the first, which is written last.
        via[target[0][better], target[1][better]] = leaving.start + entry[better]
    return best, via


def _within(jump: NDArray[np.int64], layers: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Each edge with each layer from which it does not climb beyond the highest."""
    counts = layers - jump
    entry = np.repeat(np.arange(len(jump)), counts)
    return entry, np.arange(len(entry)) - np.repeat(np.cumsum(counts) - counts, counts)
