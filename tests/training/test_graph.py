from __future__ import annotations

import logging
from dataclasses import replace
from types import ModuleType

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from pypsa_aidc import AIDCError, InfeasibleError, InputError, Rules, TrainingLoad
from pypsa_aidc.training import Mode, Slots, cheapest_path, cheapest_through, checkpoint_graph, earliest_finish
from tests.brute_force import schedules
from tests.strategies import horizons, plain_loads, prices, ruled_loads, uneven_horizons

MODE = Mode((1, 1, 8), gpus=8, flops_per_s=1e15, it_power=0.5)
HOUR = 3.6e18  # FLOPs that MODE does in an hour


def load(segments: int = 2, hours: float = 2.0, **rules: object) -> TrainingLoad:
    return TrainingLoad("A", work=hours * HOUR, modes=(MODE,), rules=Rules(segments=segments, **rules))


def compare_with_enumeration(
    one: TrainingLoad, slots: Slots, price: np.ndarray, formulation: str, gpu_value: np.ndarray | float = 0.0
) -> None:
    costs = [schedule.cost(price, slots, gpu_value) for schedule in schedules(one, slots)]
    try:
        graph = checkpoint_graph(one, slots, formulation)  # type: ignore[arg-type]
    except InfeasibleError:
        assert not costs
        return
    worth = graph.gpu_hours(np.broadcast_to(gpu_value, price.shape))
    delay = graph.delay_costs(np.ones(len(slots)))
    cost, flow = cheapest_path(graph, graph.edge_energy(price) + graph.edges.cost + worth + delay)
    assert cost == pytest.approx(min(costs), abs=1e-9)
    decoded = graph.decode(flow)
    assert sum(step.segments for step in decoded) == pytest.approx(one.rules.count - one.rules.progress)


@given(
    ruled_loads(),
    horizons(),
    prices(),
    st.sampled_from(["time", "literal"]),
    st.lists(st.sampled_from([0.0, 0.5, 4.0]), min_size=6, max_size=6).map(np.array),
)
@settings(max_examples=400)
def test_cheapest_path_is_the_cheapest_schedule(
    one: TrainingLoad, slots: Slots, price: np.ndarray, formulation: str, gpu_value: np.ndarray
) -> None:
    """With all rules, changes by pair of modes, GPUs that are held, and a value of GPU-hours that differs by slot."""
    assume(one.rules.arrival + 1e-9 < (one.deadline or slots.total))
    assume((one.deadline or 0) <= slots.total)
    assume(slots.ends[slots.ceil(one.rules.arrival)] + slots.hours[0] <= (one.deadline or slots.total) + 1e-9)
    compare_with_enumeration(one, slots, price, formulation, gpu_value)


@given(plain_loads(), uneven_horizons(), prices(), st.sampled_from(["time", "literal"]))
@settings(max_examples=200)
def test_slots_of_different_length(one: TrainingLoad, slots: Slots, price: np.ndarray, formulation: str) -> None:
    compare_with_enumeration(one, slots, price, formulation)


@given(plain_loads(), horizons(), prices())
def test_cost_falls_with_freedom(one: TrainingLoad, slots: Slots, price: np.ndarray) -> None:
    """More jumps, permission to wait, a later deadline: none can make the optimum dearer."""
    try:
        bound = checkpoint_graph(one, slots)
    except InfeasibleError:
        return
    cost, _ = cheapest_path(bound, bound.edge_energy(price))
    free = checkpoint_graph(one.with_rules(waiting=True, jump=None), slots)
    assert cheapest_path(free, free.edge_energy(price))[0] <= cost + 1e-9


@given(ruled_loads(), horizons(), prices(), st.sampled_from(["time", "literal"]))
def test_cheapest_through_an_edge_is_the_cheapest_path_that_uses_it(
    one: TrainingLoad, slots: Slots, price: np.ndarray, formulation: str
) -> None:
    try:
        graph = checkpoint_graph(one, slots, formulation)  # type: ignore[arg-type]
    except (InfeasibleError, InputError):
        return
    cost = graph.edge_energy(price) + graph.edges.cost + graph.delay_costs(np.ones(len(slots)))
    least, flow = cheapest_path(graph, cost)
    through = cheapest_through(graph, cost)
    assert through.min() == pytest.approx(least, abs=1e-9)
    assert through[flow > 0] == pytest.approx(least, abs=1e-9)
    reward = 1e6
    for edge in np.random.default_rng(0).choice(len(graph), min(5, len(graph)), replace=False):
        bribed = cost.copy()
        bribed[edge] -= reward
        # Pruning keeps edges that are on no whole path; those are left aside at any reward.
        expected = min(through[edge], least + reward)
        assert cheapest_path(graph, bribed)[0] + reward == pytest.approx(expected, abs=1e-6)


def test_edge_counts_of_the_campus(green_campus: ModuleType) -> None:
    """27,029 binaries of the literal graph before pruning: counted by an independent prototype (design, F0)."""
    graphs = {
        form: [checkpoint_graph(one, Slots.uniform(24), form) for one in green_campus.loads()]  # type: ignore[arg-type]
        for form in ("literal", "time")
    }
    assert sum(graph.edges_before_pruning for graph in graphs["literal"]) == 27029
    assert sum(len(graph) for graph in graphs["literal"]) < 16000
    assert sum(len(graph) for graph in graphs["time"]) < 1411


def test_a_job_that_exactly_fills_its_slots_takes_no_slot_more() -> None:
    graph = checkpoint_graph(load(segments=3, hours=24.0), Slots.uniform(24))
    steps = graph.decode(cheapest_path(graph, graph.edge_energy())[1])
    assert steps[-1].stop == 24
    assert sum(step.stop - step.start for step in steps) == 24


def test_partly_used_slots_count_whole() -> None:
    # 2.5 h of work in 3 one-hour slots (Eq. 24b of arXiv:2610.13047).
    graph = checkpoint_graph(load(segments=1, hours=2.5), Slots.uniform(4))
    training = graph.edges.mode >= 0
    assert set((graph.edges.stop - graph.edges.start)[training]) == {3}


def test_fixed_and_recorded_trajectories_are_single_paths() -> None:
    job = load(segments=4, hours=8.0)
    for trajectory in (job.fixed((1, 1, 8)), job.recorded((1, 1, 8))):
        graph = checkpoint_graph(trajectory, Slots.uniform(12))
        price = np.arange(12.0)[::-1]
        steps = graph.decode(cheapest_path(graph, graph.edge_energy(price))[1])
        assert (steps[0].start, steps[-1].stop) == (0, 8)


def test_checkpoints_that_change_nothing_cost_nothing() -> None:
    # S2 of arXiv:2610.13047 is S1: 10 h of work in 12 segments of 50 minutes are 10 slots and not 12.
    job = load(segments=12, hours=10.0)
    for trajectory in (job.fixed((1, 1, 8)), job.recorded((1, 1, 8))):
        steps = (graph := checkpoint_graph(trajectory, Slots.uniform(14))).decode(
            cheapest_path(graph, graph.edge_energy())[1]
        )
        assert steps[-1].stop == 10
    written = load(segments=12, hours=10.0, checkpoint_hours=0.1).recorded((1, 1, 8))
    assert earliest_finish(written, Slots.uniform(14)) == 12.0  # 10 h and twelve times six minutes


def test_the_slow_end_of_modes_takes_longer() -> None:
    uncertain = replace(load(segments=1, hours=10.0), modes=(replace(MODE, deviation=0.1),))
    assert uncertain.slow().hours(uncertain.slow().modes[0]) == pytest.approx(10 * np.exp(1.6449 * 0.1), rel=1e-4)
    assert load().slow() == load()


def test_uneven_checkpoints_take_the_literal_graph_and_say_so(caplog: pytest.LogCaptureFixture) -> None:
    uneven = replace(load(), rules=Rules(segments=(0.25, 0.75)))
    with caplog.at_level(logging.INFO, logger="pypsa_aidc"):
        graph = checkpoint_graph(uneven, Slots.uniform(6))
    assert graph.formulation == "literal"
    assert "not evenly spaced" in caplog.text


def test_without_continuity_progress_is_a_share_of_a_segment() -> None:
    graph = checkpoint_graph(load(segments=2, hours=3.0).idealized(), Slots.uniform(4))
    assert graph.coverage is not None
    assert graph.coverage[0] == pytest.approx(2.0)
    assert set(np.round(graph.edges.segments[graph.edges.mode >= 0], 12)) == {round(2 / 3, 12)}


def test_infeasible_jobs_are_explained() -> None:
    with pytest.raises(InfeasibleError) as caught:
        checkpoint_graph(load(segments=2, hours=5.0), Slots.uniform(4))
    text = str(caught.value)
    assert "'A'" in text
    assert "5.00 h" in text
    assert "40 GPU-hours" in text
    assert "finish with whole slots is hour 5." in text


def test_earliest_finish_counts_whole_slots_beyond_the_horizon() -> None:
    assert earliest_finish(load(segments=2, hours=5.0), Slots.uniform(4)) == 5.0
    assert earliest_finish(load(segments=2, hours=5.0, jump=1), Slots.uniform(4)) == 6.0
    assert earliest_finish(load(segments=2, hours=2.0, arrival=1.5), Slots.uniform(4)) == 4.0


@pytest.mark.parametrize(
    ("changed", "slots", "named"),
    [
        ({"deadline": 30.0}, Slots.uniform(24), "deadline"),
        ({"rules": Rules(arrival=24.0)}, Slots.uniform(24), "arrival"),
        ({"rules": Rules(min_run=2.0)}, Slots(np.array([1.0, 3.0])), "min_run"),
    ],
)
def test_impossible_horizons_are_refused(changed: dict[str, object], slots: Slots, named: str) -> None:
    with pytest.raises(InputError, match=named):
        checkpoint_graph(replace(load(), **changed), slots)  # type: ignore[arg-type]


def test_fractional_and_broken_solutions_are_no_paths() -> None:
    graph = checkpoint_graph(load(), Slots.uniform(4))
    with pytest.raises(AIDCError, match="fractional"):
        graph.decode(np.full(len(graph), 0.5))
    with pytest.raises(AIDCError, match="do not form one path"):
        graph.decode(np.ones(len(graph)))
    with pytest.raises(AIDCError, match="do not form one path"):
        graph.decode(np.zeros(len(graph)))


def test_rules_exclude_each_other_by_name() -> None:
    with pytest.raises(InputError) as caught:
        Rules(segments=0, jump=0, min_run=-1, mode_changes="sometimes")  # type: ignore[arg-type]
    assert {fault.where for fault in caught.value.faults} == {"segments", "jump", "min_run", "mode_changes"}
    with pytest.raises(InputError, match="restart_hours"):
        Rules(continuity=False, restart_hours=1.0)
    with pytest.raises(InputError, match="sum to 1"):
        Rules(segments=(0.5, 0.4))
    with pytest.raises(InputError, match="progress"):
        Rules(segments=3, progress=3)


def test_loads_are_checked() -> None:
    with pytest.raises(InputError) as caught:
        TrainingLoad("A", work=float("nan"), modes=())
    assert {fault.where for fault in caught.value.faults} == {"work", "modes"}
    with pytest.raises(InputError, match="once"):
        TrainingLoad("A", 1e18, (MODE, MODE))
    with pytest.raises(InputError, match="baseline"):
        load().fixed()
