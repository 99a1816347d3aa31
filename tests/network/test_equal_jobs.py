"""Many equal jobs of a site as one flow of whole numbers: the optimum of enumeration, and a schedule for each."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

import pypsa_aidc as aidc
from pypsa_aidc.network.loads.site import paths
from pypsa_aidc.training import Mode, Slots
from tests.brute_force import schedules
from tests.network.tiny import QUIET, grid, site


def _case(seed: int) -> tuple[aidc.TrainingLoad, np.ndarray, int]:
    draw = np.random.default_rng(seed)
    modes = tuple(
        Mode((1, 1, size), size, float(draw.choice([0.5, 1.0, 1.5])) * 1e15, float(draw.choice([0.2, 0.5, 1.0])))
        for size in draw.choice(np.arange(1, 5), 2, replace=False)
    )
    rules = aidc.Rules(
        segments=2, restart_hours=float(draw.choice([0.0, 0.3])), mode_change_cost=float(draw.choice([0, 2]))
    )
    return (
        aidc.TrainingLoad("A", 2 * 3.6e18, modes, rules),
        draw.integers(1, 60, 5).astype(float),
        int(draw.integers(5, 12)),
    )


@pytest.mark.parametrize("seed", range(4))
def test_equal_jobs_cost_what_enumeration_finds(seed: int) -> None:
    load, price, pool = _case(seed)
    slots = Slots.uniform(5)
    own = set(schedules(load, slots))
    costs = {each: each.cost(price, slots) for each in own}
    fitting = [
        sum(costs[each] for each in three)
        for three in itertools.combinations_with_replacement(own, 3)
        if np.sum([each.gpus for each in three], axis=0).max() <= pool
    ]
    n = site(grid(5, price), jobs=[replace(load, name=name) for name in "ABC"], gpus=pool, base_load=0.0, pue=1.0)
    if not fitting:
        with pytest.raises(aidc.InfeasibleError):
            n.aidc.optimize(**QUIET)
        return
    result = n.aidc.optimize(**QUIET)
    assert result.objective == pytest.approx(min(fitting), abs=1e-6)
    assert n.aidc.audit().passed
    assert n.aidc.costs()["cost"].sum() == pytest.approx(min(fitting), abs=1e-6)
    n.aidc.freeze()
    n.optimize(**QUIET)
    changes = n.aidc.costs()["cost"].get(("Mode changes", "dc"), 0.0)
    assert n.objective == pytest.approx(min(fitting) - changes, abs=1e-6)


def test_two_are_paths_apart() -> None:
    load = _case(0)[0]
    n = site(grid(5), jobs=[replace(load, name=name) for name in "ABC"])
    one, two = n.aidc.sites["dc"], site(grid(5), jobs=[load, replace(load, name="B")]).aidc.sites["dc"]
    assert [len(each.generators) for each in paths.build_paths(n, {"dc": one}).placed] == [3]
    assert [len(each.generators) for each in paths.build_paths(n, {"dc": two}).placed] == [1, 1]
