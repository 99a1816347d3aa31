"""The calls of a fleet as paths: waiting from snapshot to snapshot, or a call and the pause after it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pypsa_aidc.network.model.flow import PathGraph
from pypsa_aidc.training import Slots
from pypsa_aidc.units import SLOT_TOLERANCE

WAIT = -1
"""Kind of an edge that is no call."""

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class CallGraph:
    """Time-expanded graph of all calls that one fleet can answer in one window of the horizon.

    Parameters
    ----------
    path
        Its nodes are the borders of slots; one edge each waits through a slot, the others are calls.
    kind
        Position in the durations of the terms, `WAIT` for waiting; shape (edges,).
    start, stop
        First slot of each edge and the first after its relief; the pause after a call is in its head only.
    slots
        The slots.
    """

    path: PathGraph
    kind: Ints
    start: Ints
    stop: Ints
    slots: Slots

    def __len__(self) -> int:
        return len(self.kind)

    @property
    def calls(self) -> Ints:
        """Positions of the edges that are calls."""
        return np.flatnonzero(self.kind != WAIT)

    @property
    def hours(self) -> Floats:
        """Hours with relief of each edge, shape (edges,)."""
        spans: Floats = self.slots.ends[self.stop] - self.slots.ends[self.start]
        return np.where(self.kind == WAIT, 0.0, spans)

    def occupancy(self) -> tuple[Ints, Ints]:
        """Every pair of a call and a slot in which it sheds: edges and slots, of equal length."""
        edges = self.calls
        lengths = (self.stop - self.start)[edges]
        first = np.repeat(np.cumsum(lengths) - lengths, lengths)
        return np.repeat(edges, lengths), np.repeat(self.start[edges], lengths) + np.arange(lengths.sum()) - first


def call_graph(durations: tuple[int, ...], recovery: tuple[float, ...], slots: Slots, free: int = 0) -> CallGraph:
    """Build the graph of calls of given durations.

    A call of h hours takes the slots that fit into h hours, so that with slots of 3 h one of 8 h sheds for 6 h; one
    that is shorter than the slot in which it would start, or longer than what is left of the horizon, is left out.

    Parameters
    ----------
    durations, recovery
        h and R_h, h.
    slots
        Of one window of the horizon.
    free
        First slot in which a call may start: the end of the pause after one that was decided before.

    Examples
    --------
    >>> graph = call_graph((1, 2), (1, 1), Slots.uniform(3))
    >>> graph.kind.tolist(), graph.start.tolist(), graph.stop.tolist(), graph.path.head.tolist()
    ([-1, -1, -1, 0, 0, 0, 1, 1], [0, 1, 2, 0, 1, 2, 0, 1], [1, 2, 3, 1, 2, 3, 2, 3], [1, 2, 3, 2, 3, 3, 3, 3])
    """
    count, ends = len(slots), slots.ends
    borders = np.arange(count)
    kind, start, stop, head = [np.full(count, WAIT)], [borders], [borders + 1], [borders + 1]
    for position, (duration, pause) in enumerate(zip(durations, recovery, strict=True)):
        last = np.searchsorted(ends, ends[:-1] + duration + SLOT_TOLERANCE, side="right") - 1
        fits = (last > borders) & (ends[:-1] + duration <= slots.total + SLOT_TOLERANCE)
        start.append(borders[fits])
        stop.append(last[fits])
        after = np.searchsorted(ends, ends[last[fits]] + pause - SLOT_TOLERANCE)
        head.append(np.minimum(np.maximum(after, last[fits]), count))
        kind.append(np.full(int(fits.sum()), position))
    tails = np.concatenate(start)
    path = PathGraph(tails, np.concatenate(head), count + 1, min(free, count), count)
    return CallGraph(path, np.concatenate(kind), tails, np.concatenate(stop), slots)
