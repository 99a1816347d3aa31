"""Jobs that may run at any one of several sites: the best of all placements, found without the package."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pandas as pd
import pypsa
import pytest

import pypsa_aidc as aidc
from pypsa_aidc.training import Mode, Slots, Transition
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


def least_cost(
    placed: list[tuple[aidc.TrainingLoad, int]], price: np.ndarray, pools: list[int], worth: list[float]
) -> float:
    """Cost of all combinations of paths at their sites: the cheapest one of each use of GPUs is kept, job by job."""
    slots, total = Slots.uniform(SLOTS), 0.0
    for site in (0, 1):
        cheapest = {(0,) * SLOTS: 0.0}
        for load in (load for load, at in placed if at == site):
            own = {(path.held, path.cost(price[:, site], slots, worth[site])) for path in schedules(load, slots)}
            sums: dict[tuple[int, ...], float] = {}
            for (used, before), (held, cost) in itertools.product(cheapest.items(), own):
                both = tuple(map(sum, zip(used, held, strict=True)))
                if max(both) <= pools[site]:
                    sums[both] = min(sums.get(both, np.inf), before + cost)
            cheapest = sums
        total += min(cheapest.values(), default=np.inf)
    return total


def everything(seed: int) -> tuple[pypsa.Network, list[aidc.TrainingLoad], np.ndarray, list[int], list[float]]:
    """Two tranches in a capped and in full modes, pairs of modes with terms, three equal jobs and one more, ranked."""
    draw = np.random.default_rng(seed)
    n, plain, price, _ = case(seed)
    pools, worth = [int(pool) for pool in draw.integers(5, 9, 2)], [float(each) for each in draw.choice([0, 1, 4], 2)]

    def load(name: str) -> aidc.TrainingLoad:
        first = plain[ord(name) - ord("A")].modes
        capped = replace(first[0], flops_per_s=0.5 * first[0].flops_per_s, it_power=0.3 * first[0].it_power, cap=0.6)
        modes = tuple(replace(mode, flops_per_s=2 * mode.flops_per_s) for mode in (*first, capped))
        pairs = [(a.label, b.label) for a, b in itertools.permutations(modes, 2)]
        terms = [
            Transition(*pairs[k], allowed=False)
            if draw.random() < 0.4
            else Transition(*pairs[k], *draw.choice([0, 0.5], 3))
            for k in draw.choice(len(pairs), 3, replace=False)
        ]
        rules = aidc.Rules(
            segments=1,
            arrival=float(draw.choice([0, 0, 1])),
            restart_hours=float(draw.choice([0, 0.3])),
            mode_change_cost=float(draw.choice([0, 2])),
            held_gpus=int(draw.choice([0, 0, 2])),
            delay_cost=float(draw.choice([0, 3, 15])),
        )
        one = aidc.TrainingLoad(name, 3.6e18, modes, rules, draw.choice([None, 4.0, 5.0]), transitions=tuple(terms))
        return one.repeated(2)

    equal, other = load("A"), load("B")
    jobs = [equal, replace(equal, name="A2"), replace(equal, name="A3"), other]
    for site in (0, 1):
        n.aidc.update(f"dc{site}", jobs=[[*jobs[:2]], []][site], gpus=pools[site], gpu_value=worth[site])
    return n, jobs, price, pools, worth


@pytest.mark.parametrize("seed", range(3))
def test_the_best_placement_is_that_of_enumeration(seed: int) -> None:
    n, jobs, price, pools, worth = everything(seed)
    expected = {
        places: least_cost(list(zip(jobs, (0, 0, *places), strict=True)), price, pools, worth)
        for places in itertools.product((0, 1), repeat=2)
    }
    movable = [(job, ["dc0", "dc1"]) for job in jobs[2:]]
    if np.isinf(min(expected.values())):
        with pytest.raises(aidc.InfeasibleError, match="none of 4 placements"):
            n.aidc.place(movable, **QUIET)
        return
    table = n.aidc.place(movable, **QUIET)
    for row in table.itertuples():
        found = np.inf if np.isnan(row.cost) else row.cost
        assert found == pytest.approx(expected[int(row.A3[-1]), int(row.B[-1])], abs=1e-5)
    assert table["cost"].dropna().is_monotonic_increasing
    assert n.objective == pytest.approx(min(expected.values()), abs=1e-5)
    assert n.aidc.costs()["cost"].sum() == pytest.approx(n.objective, abs=1e-5)
    assert n.aidc.audit().passed
    placed = n.aidc.jobs.reset_index().set_index("job")["site"]
    assert placed.to_dict() == {"A": "dc0", "A2": "dc0"} | table.loc[0, ["A3", "B"]].to_dict()


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
