"""Paths through time-expanded graphs as constraints: the same for a training job and for the calls of a fleet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import linopy
import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from pypsa_aidc.network.model.linear import weighted_sum

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class PathGraph:
    """A graph in which exactly one path from source to sink is to be chosen.

    Parameters
    ----------
    tail, head
        Node in which each edge starts and ends, shape (edges,).
    nodes
        Number of nodes.
    source, sink
        Nodes in which the path starts and ends.
    count
        Paths to be chosen, one for each of equal jobs.
    """

    tail: Ints
    head: Ints
    nodes: int
    source: int
    sink: int
    count: int = 1


def add_path_flow(m: linopy.Model, x: linopy.Variable, graphs: Sequence[PathGraph], name: str, dim: str) -> None:
    """Make the edges of each graph a path, Eq. 26 of [1]: what enters a node leaves it.

    The row of the sink is left out, being the sum of all others.

    Parameters
    ----------
    m
        Model.
    x
        One-dimensional, with the edges of all graphs one after the other.
    graphs
        The graphs.
    name, dim
        Of the constraint, and of its dimension over nodes.
    """
    first_node, first_edge, entry, row, sign = 0, 0, [], [], []
    balance = np.zeros(sum(graph.nodes for graph in graphs))
    internal = np.ones(len(balance), dtype=bool)
    for graph in graphs:
        edges = first_edge + np.arange(len(graph.tail))
        entry += [edges, edges]
        row += [first_node + graph.tail, first_node + graph.head]
        sign += [np.ones(len(edges)), -np.ones(len(edges))]
        balance[first_node + graph.source] = graph.count
        internal[first_node + graph.sink] = False
        first_node += graph.nodes
        first_edge += len(edges)
    rows, entries, signs = np.concatenate(row), np.concatenate(entry), np.concatenate(sign)
    kept = internal[rows]
    nodes = pd.RangeIndex(int(internal.sum()), name=dim)
    flow = weighted_sum(x, entries[kept], (np.cumsum(internal) - 1)[rows[kept]], signs[kept], {dim: nodes})
    m.add_constraints(flow, "=", xr.DataArray(balance[internal], coords={dim: nodes}, dims=[dim]), name=name)
