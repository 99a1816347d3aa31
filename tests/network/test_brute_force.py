"""The optimum of whole networks against enumeration of all combinations of schedules, for both formulations."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pypsa
import pytest
from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st

import pypsa_aidc as aidc
from pypsa_aidc.training import Slots
from tests.brute_force import schedules
from tests.network.tiny import QUIET
from tests.strategies import plain_loads, prices

SLOTS, BATCH = 6, 25
PUE, BASE, REWARD = 1.25, 0.2, 30.0


@dataclass(frozen=True)
class Instance:
    """A site with two jobs and a pool that often binds, at a bus of its own with a market and some sun."""

    first: aidc.TrainingLoad
    second: aidc.TrainingLoad
    pool: int
    price: np.ndarray
    sun: np.ndarray

    def least_cost(self) -> float:
        slots, best = Slots.uniform(SLOTS), np.inf
        # Schedules of equal power and GPUs cost the same, hence the sets.
        for one, other in itertools.product(set(schedules(self.first, slots)), set(schedules(self.second, slots))):
            if max(np.add(one.gpus, other.gpus)) <= self.pool:
                best = min(best, self.dispatch_cost(PUE * (BASE + np.add(one.it_power, other.it_power))))
        return best

    def dispatch_cost(self, meter: np.ndarray) -> float:
        """Cost of a load at the meter: sun first, but the market alone where it pays more than the reward."""
        used = np.where(self.price < -REWARD, 0.0, np.minimum(self.sun, meter))
        return float(np.sum(self.price * (meter - used) + REWARD * (self.sun - used)))

    def add_to(self, n: pypsa.Network, name: str) -> None:
        n.add("Bus", name, carrier="AC")
        n.add("Generator", f"{name} market", bus=name, p_nom=100.0, marginal_cost=self.price)
        n.add("Generator", f"{name} sun", bus=name, p_nom=1.5, p_max_pu=self.sun / 1.5, marginal_cost=-REWARD)
        jobs = [self.first, self.second]
        aidc.add(n, name, bus=name, gpus=self.pool, pue=PUE, base_load=BASE, jobs=jobs)


@st.composite
def instances(draw: st.DrawFn) -> Instance:
    first, second = draw(plain_loads("A")), draw(plain_loads("B"))
    return Instance(
        first,
        second,
        pool=max(mode.gpus for mode in (*first.modes, *second.modes)) + draw(st.integers(0, 4)),
        price=draw(prices(SLOTS)),
        sun=np.array(draw(st.lists(st.sampled_from([0.0, 0.5, 1.5]), min_size=SLOTS, max_size=SLOTS))),
    )


def network(chosen: list[Instance]) -> pypsa.Network:
    n = pypsa.Network(snapshots=pd.date_range("2030-01-01", periods=SLOTS, freq="h"))
    n.add("Carrier", "AC")
    for position, instance in enumerate(chosen):
        instance.add_to(n, f"s{position}")
    return n


@pytest.mark.slow
@pytest.mark.parametrize("formulation", ["time", "literal"])
@given(batch=st.lists(instances(), min_size=BATCH, max_size=BATCH))
@settings(max_examples=500 // BATCH, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
def test_optimum_is_that_of_enumeration(formulation: str, batch: list[Instance]) -> None:
    """500 instances a formulation (T = 6, up to 4 segments, 3 modes, two jobs), 25 of them in each network."""
    expected = [(instance, instance.least_cost()) for instance in batch]
    feasible = {position: instance for position, (instance, cost) in enumerate(expected) if cost < np.inf}
    assume(feasible)
    n = network(list(feasible.values()))
    n.optimize(extra_functionality=aidc.hook(formulation=formulation), **QUIET)  # type: ignore[arg-type]
    aidc.record(n)
    meter = n.aidc.power().xs("meter", axis=1, level="part")
    for site, (position, instance) in enumerate(feasible.items()):
        cost = instance.dispatch_cost(meter[f"s{site}"].to_numpy())
        # Solvers may use their tolerance of 1e-6 in each row.
        assert cost == pytest.approx(expected[position][1], abs=1e-4)
    for instance in [one for one, cost in expected if cost == np.inf][:1]:
        with pytest.raises(aidc.InfeasibleError):
            aidc.optimize(network([instance]), formulation=formulation, **QUIET)  # type: ignore[arg-type]
