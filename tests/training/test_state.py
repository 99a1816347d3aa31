"""A schedule that is taken up in the middle costs what it would have cost: the principle of optimality."""

from __future__ import annotations

import numpy as np
import pytest

from pypsa_aidc import Rules, TrainingLoad
from pypsa_aidc.training import Formulation, Mode, Slots, Step, cheapest_path, checkpoint_graph
from pypsa_aidc.training.graph.graph import CheckpointGraph
from pypsa_aidc.training.graph.state import JobState


def spent(graph: CheckpointGraph, flow: np.ndarray, price: np.ndarray, border: int) -> float:
    """Cost of a path up to a border: energy drawn before it, and changes of mode of edges that start before it."""
    edge, slot, power, _ = graph.occupancy()
    energy = power * graph.slots.hours[slot] * price[slot] * flow[edge]
    early = (graph.edges.start < border) & (flow > 0.5)
    return float(energy[slot < border].sum() + graph.edges.cost[early].sum())


def random_load(rng: np.random.Generator) -> TrainingLoad:
    """A load with waits, restarts, least runs and waits, and rules for changes of mode, each now and then."""
    segments = int(rng.integers(1, 5))
    modes = tuple(
        Mode((1, 1, int(gpus)), int(gpus), rng.choice([0.5, 1.0, 2.0]) * 1e15, rng.choice([0.1, 0.4, 1.0]))
        for gpus in 1 + rng.choice(8, int(rng.integers(1, 3)), replace=False)
    )
    rules = Rules(
        segments=segments,
        jump=None if rng.random() < 0.5 else int(rng.integers(1, segments + 1)),
        arrival=rng.choice([0.0, 0.0, 1.0]),
        restart_hours=rng.choice([0.0, 0.3, 1.0]),
        restart_energy=rng.choice([0.0, 0.2]),
        min_run=rng.choice([0.0, 2.0, 3.0]),
        min_wait=rng.choice([0.0, 2.0]),
        mode_changes=str(rng.choice(["free", "after_wait", "never"])),
        mode_change_cost=rng.choice([0.0, 5.0]),
    )
    return TrainingLoad("A", segments * 3.6e18, modes, rules)


@pytest.mark.parametrize("formulation", ["time", "literal"])
def test_planning_again_at_any_border_gives_the_same_cost(formulation: Formulation) -> None:
    """A state that forgets restarts, least runs or modes fails in every seventh of these 440 cases."""
    rng, slots = np.random.default_rng(0), Slots.uniform(12)
    for _ in range(40):
        load, price = random_load(rng), rng.integers(1, 99, 12).astype(float)
        graph = checkpoint_graph(load, slots, formulation)
        cost, flow = cheapest_path(graph, graph.edge_energy(price) + graph.edges.cost)
        for border in range(1, 12):
            state = JobState.at(load, slots, graph.decode(flow), border)
            past = spent(graph, flow, price, border)
            if state.running is not None:
                power = load.modes[state.running.mode].it_power
                past += float((price * slots.hours * power)[border : state.running.stop].sum())
            rest = state.remaining(load, slots, formulation)
            again = 0.0 if rest is None else cheapest_path(rest, rest.edge_energy(price[border:]) + rest.edges.cost)[0]
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
