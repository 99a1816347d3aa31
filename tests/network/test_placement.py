"""Jobs that may run at any one of several sites: the best of all placements, found without the package."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pandas as pd
import pypsa
import pytest

import pypsa_aidc as aidc
from pypsa_aidc.training import Mode, Slots
from tests.brute_force import schedules
from tests.network.tiny import QUIET

SLOTS = 5


def case(seed: int) -> tuple[pypsa.Network, list[aidc.TrainingLoad], np.ndarray, list[int]]:
    """Two sites at buses with prices of their own, the second one empty, and two jobs; pools often bind."""
    draw = np.random.default_rng(seed)
    price, pools = draw.integers(1, 60, (SLOTS, 2)).astype(float), [int(pool) for pool in draw.integers(4, 7, 2)]
    n = pypsa.Network(snapshots=pd.RangeIndex(SLOTS))
    n.add("Carrier", "AC")
    jobs = []
    for name in "ABC":
        sizes = draw.choice(np.arange(1, 5), 2, replace=False)
        modes = tuple(Mode((1, 1, k), k, float(draw.choice([0.5, 1.0])) * 1e15, 0.2 * k) for k in sizes)
        jobs.append(aidc.TrainingLoad(name, 2 * 3.6e18, modes, aidc.Rules(segments=2)))
    for position, own in enumerate(([jobs[0]], [])):
        bus = f"bus {position}"
        n.add("Bus", bus, carrier="AC")
        n.add("Generator", bus, bus=bus, carrier="AC", p_nom=50.0, marginal_cost=price[:, position])
        n.aidc.add(f"dc{position}", bus=bus, gpus=pools[position], p_nom=4.0, jobs=own)
    return n, jobs, price, pools


def least_cost(jobs: list[aidc.TrainingLoad], price: np.ndarray, pools: list[int]) -> float:
    slots, best = Slots.uniform(SLOTS), np.inf
    own = [set(schedules(job, slots)) for job in jobs]
    for places in itertools.product((0, 1), repeat=2):
        for paths in itertools.product(*own):
            used, cost = np.zeros((2, SLOTS)), 0.0
            for path, place in zip(paths, (0, *places), strict=True):
                used[place] += path.gpus
                cost += path.cost(price[:, place], slots)
            if (used.max(axis=1) <= pools).all():
                best = min(best, cost)
    return best


@pytest.mark.parametrize("seed", range(3))
def test_the_best_placement_is_that_of_enumeration(seed: int) -> None:
    n, jobs, price, pools = case(seed)
    expected = least_cost(jobs, price, pools)
    movable = [(job, ["dc0", "dc1"]) for job in jobs[1:]]
    if np.isinf(expected):
        with pytest.raises(aidc.InfeasibleError, match="none of 4 placements"):
            n.aidc.place(movable, **QUIET)
        return
    table = n.aidc.place(movable, **QUIET)
    assert table["cost"].iloc[0] == pytest.approx(expected, abs=1e-6)
    assert table["cost"].dropna().is_monotonic_increasing
    assert n.objective == pytest.approx(expected, abs=1e-6)
    assert n.aidc.audit().passed
    placed = n.aidc.jobs.reset_index().set_index("job")["site"]
    assert placed.to_dict() == {"A": "dc0"} | table.loc[0, ["B", "C"]].to_dict()


def test_a_site_that_gets_no_job_is_a_site_all_the_same(tmp_path) -> None:
    n, jobs, _, _ = case(0)
    alone = n.copy()
    alone.aidc.remove("dc0")
    with pytest.raises(aidc.UnsupportedError, match=r"sites without jobs \(dc1\)"):
        alone.aidc.optimize(**QUIET)
    n.aidc.place([(replace(jobs[1], name="B"), ["dc0"])], **QUIET)
    assert n.aidc.summary().loc["dc1", ["energy", "peak_gpus"]].tolist() == [0.0, 0.0]
    assert not len(n.aidc.check().of("error"))
    n.aidc.export(tmp_path / "n.nc")
    assert aidc.load(tmp_path / "n.nc").aidc.sites["dc1"].jobs == {}
    n.aidc.report(tmp_path / "n.html")


def test_all_that_is_wrong_is_said_at_once() -> None:
    n, jobs, _, _ = case(0)
    before = n.copy()
    wrong = [(jobs[0], ["dc0", "nowhere"]), (jobs[1], []), jobs[2]]
    with pytest.raises(aidc.InputError) as caught:
        n.aidc.place(wrong, most=0)  # type: ignore[list-item]
    assert [fault.where for fault in caught.value.faults] == ["most", "jobs, 'A'", "jobs, 'A'", "jobs, 'B'", "jobs"]
    with pytest.raises(aidc.InputError, match="4 combinations.*at most 3.*most=4"):
        n.aidc.place([(job, ["dc0", "dc1"]) for job in jobs[1:]], most=3)
    with pytest.raises(aidc.InputError, match="where no job says"):
        n.aidc.add("dc2", bus="bus 0", gpus=8, jobs=[])
    assert n == before
