"""Small random loads and horizons for property tests."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from pypsa_aidc import Rules, TrainingLoad
from pypsa_aidc.training import Mode, Slots, Transition


@st.composite
def modes(draw: st.DrawFn, most: int = 3) -> tuple[Mode, ...]:
    """Modes of 1 to 8 GPUs that do between a quarter and three segments of 1e15 FLOP/s·h an hour."""
    sizes = draw(st.lists(st.integers(1, 8), min_size=1, max_size=most, unique=True))
    return tuple(
        Mode(
            (1, 1, size),
            size,
            flops_per_s=draw(st.sampled_from([0.25, 0.4, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0])) * 1e15,
            it_power=draw(st.sampled_from([0.1, 0.25, 0.4, 0.7, 1.0])),
        )
        for size in sizes
    )


@st.composite
def plain_loads(draw: st.DrawFn, name: str = "A", most_segments: int = 4) -> TrainingLoad:
    """Loads with waiting and any jump, but without memory between segments."""
    segments = draw(st.integers(1, most_segments))
    rules = Rules(
        segments=segments,
        jump=draw(st.none() | st.integers(1, segments)),
        waiting=draw(st.sampled_from([True, True, False])),
    )
    return TrainingLoad(name, work=segments * 3.6e18, modes=draw(modes()), rules=rules)


@st.composite
def ruled_loads(draw: st.DrawFn) -> TrainingLoad:
    """Loads with every optional rule switched on now and then."""
    segments = draw(st.integers(1, 4))
    uneven = draw(st.booleans()) and segments > 1
    weights = [draw(st.integers(1, 3)) for _ in range(segments)]
    shares = tuple(weight / sum(weights) for weight in weights)
    rules = Rules(
        segments=shares if uneven else segments,
        jump=draw(st.none() | st.integers(1, segments)),
        waiting=draw(st.sampled_from([True, True, True, False])),
        arrival=draw(st.sampled_from([0.0, 0.0, 1.0, 1.5])),
        progress=draw(st.integers(0, segments - 1)),
        restart_hours=draw(st.sampled_from([0.0, 0.0, 0.3, 1.0])),
        restart_energy=draw(st.sampled_from([0.0, 0.0, 0.2])),
        checkpoint_hours=draw(st.sampled_from([0.0, 0.0, 0.1])),
        min_run=draw(st.sampled_from([0.0, 0.0, 2.0, 3.0])),
        min_wait=draw(st.sampled_from([0.0, 0.0, 2.0])),
        mode_changes=draw(st.sampled_from(["free", "free", "after_wait", "never"])),
        mode_change_cost=draw(st.sampled_from([0.0, 0.0, 5.0])),
        checkpoint_energy=draw(st.sampled_from([0.0, 0.0, 0.05])),
        held_gpus=draw(st.sampled_from([0, 0, 3, 9])),
        delay_cost=draw(st.sampled_from([0.0, 0.0, 4.0])),
    )
    deadline, own = draw(st.sampled_from([None, None, 5.0])), draw(modes())
    return TrainingLoad("A", segments * 3.6e18, own, rules, deadline, transitions=draw(transitions(own)))


@st.composite
def transitions(draw: st.DrawFn, own: tuple[Mode, ...]) -> tuple[Transition, ...]:
    """What changes between some pairs of modes take, and some that are not allowed."""
    pairs = [(one.label, other.label) for one in own for other in own if one is not other]
    chosen = draw(st.lists(st.sampled_from(pairs), max_size=3, unique=True)) if pairs and draw(st.booleans()) else []
    amount = st.sampled_from([0.0, 0.3, 1.0])
    return tuple(
        Transition(*pair, *(draw(amount) for _ in range(3)))
        if draw(st.booleans())
        else Transition(*pair, allowed=False)
        for pair in chosen
    )


def horizons(slots: int = 6) -> st.SearchStrategy[Slots]:
    """Horizons of equal slots of 15 minutes to 3 hours."""
    return st.sampled_from([0.5, 1.0, 1.0, 1.0, 2.0]).map(lambda hours: Slots.uniform(slots, hours))


def uneven_horizons(slots: int = 6) -> st.SearchStrategy[Slots]:
    """Horizons of slots of different length."""
    return st.lists(st.sampled_from([0.5, 1.0, 3.0]), min_size=slots, max_size=slots).map(lambda h: Slots(np.array(h)))


def prices(slots: int = 6) -> st.SearchStrategy[np.ndarray]:
    """Prices in USD/MWh, some of them negative."""
    return st.lists(st.integers(-20, 100), min_size=slots, max_size=slots).map(lambda p: np.array(p, dtype=float))
