"""A schedule that is taken up in the middle costs what it would have cost: the principle of optimality."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from pypsa_aidc import InfeasibleError, InputError, Rules, TrainingLoad
from pypsa_aidc.training import Mode, Slots, Step, cheapest_path, checkpoint_graph
from pypsa_aidc.training.graph.graph import CheckpointGraph
from pypsa_aidc.training.graph.state import JobState
from tests.strategies import ruled_loads


def spent(graph: CheckpointGraph, flow: np.ndarray, price: np.ndarray, border: int) -> float:
    """Cost of a path up to a border: energy drawn before it, and changes of mode of edges that start before it."""
    edge, slot, power, _ = graph.occupancy()
    energy = power * graph.slots.hours[slot] * price[slot] * flow[edge]
    early = (graph.edges.start < border) & (flow > 0.5)
    return float(energy[slot < border].sum() + graph.edges.cost[early].sum())


@given(ruled_loads(), st.integers(1, 8), st.integers(0, 10_000), st.sampled_from(["time", "literal"]))
def test_planning_again_at_any_border_gives_the_same_cost(load, border, seed, formulation) -> None:
    slots = Slots.uniform(9)
    price = np.random.default_rng(seed).integers(1, 99, 9).astype(float)
    try:
        graph = checkpoint_graph(load, slots, formulation)
    except (InfeasibleError, InputError):
        assume(False)
        return
    cost, flow = cheapest_path(graph, graph.edge_energy(price) + graph.edges.cost)
    state = JobState.at(load, slots, graph.decode(flow), border)
    past = spent(graph, flow, price, border)
    running = state.running
    if running is not None:
        power = load.modes[running.mode].it_power
        past += float((price * slots.hours * power)[border : running.stop].sum())
    rest = state.remaining(load, slots, formulation)
    if rest is None:
        assert past == pytest.approx(cost)
        return
    again, _ = cheapest_path(rest, rest.edge_energy(price[border:]) + rest.edges.cost)
    assert past + again == pytest.approx(cost)


def test_what_is_remembered_by_hand() -> None:
    """Six slots of one hour; two modes; runs of at least three hours, waits of at least two."""
    modes = (Mode((1, 1, 1), 1, 1e15, 0.1), Mode((1, 1, 2), 2, 2e15, 0.2))
    load = TrainingLoad("A", 3.6e18 * 4, modes, Rules(segments=4, min_run=3, min_wait=2, restart_hours=0.5))
    slots = Slots.uniform(9)
    steps = [Step(0, 1, 0, 1), Step(1, 3, 0, 2), Step(6, 7, 1, 1, restart=True)]
    assert JobState.at(load, slots, steps, 2).running == steps[1]
    assert (JobState.at(load, slots, steps, 2).free, JobState.at(load, slots, steps, 2).progress) == (3, 3)
    assert JobState.at(load, slots, steps, 3).phase.elapsed == 3
    waiting = JobState.at(load, slots, steps, 4)
    assert (waiting.phase.kind, waiting.free) == ("idle", 5)
    assert JobState.at(load, slots, steps, 7).remaining(load, slots) is None
    assert JobState.at(load, slots, [], 0).phase.kind == "fresh"
