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

SLOTS, BATCH = 6, 50
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
        slots = Slots.uniform(SLOTS)
        # Schedules of equal power and GPUs cost the same, hence the sets.
        pairs = itertools.product(set(schedules(self.first, slots)), set(schedules(self.second, slots)))
        drawn = np.array([(one.gpus, other.gpus, one.it_power, other.it_power) for one, other in pairs])
        if not drawn.size:
            return np.inf
        fits = (drawn[:, 0] + drawn[:, 1]).max(axis=1) <= self.pool
        meter = PUE * (BASE + drawn[fits, 2] + drawn[fits, 3])
        return float(self.dispatch_cost(meter).min(initial=np.inf))

    def dispatch_cost(self, meter: np.ndarray) -> np.ndarray:
        """Cost of each row of loads at the meter: sun first, but the market where it pays more than the reward."""
        used = np.where(self.price < -REWARD, 0.0, np.minimum(self.sun, meter))
        return np.sum(self.price * (meter - used) + REWARD * (self.sun - used), axis=-1)


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
    """All instances side by side; what PyPSA can add in one call is added in one."""
    n = pypsa.Network(snapshots=pd.date_range("2030-01-01", periods=SLOTS, freq="h"))
    n.add("Carrier", "AC")
    sites = [f"s{position}" for position in range(len(chosen))]
    n.add("Bus", sites, carrier="AC")
    # Lines that carry nothing make it one sub-network: PyPSA looks at each of many by itself, and takes its time.
    if len(sites) > 1:
        n.add("Line", sites[1:], suffix=" tie", bus0=sites[:-1], bus1=sites[1:], s_nom=0.0, x=1.0, carrier="AC")
    price = np.array([instance.price for instance in chosen]).T
    n.add("Generator", sites, suffix=" market", bus=sites, p_nom=100.0, marginal_cost=price)
    sun = np.array([instance.sun for instance in chosen]).T / 1.5
    n.add("Generator", sites, suffix=" sun", bus=sites, p_nom=1.5, p_max_pu=sun, marginal_cost=-REWARD)
    for site, instance in zip(sites, chosen, strict=True):
        jobs = [instance.first, instance.second]
        n.aidc.add(site, bus=site, gpus=instance.pool, pue=PUE, base_load=BASE, jobs=jobs)
    return n


@pytest.mark.slow
@given(batch=st.lists(instances(), min_size=BATCH, max_size=BATCH))
@settings(max_examples=200 // BATCH, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
def test_optimum_is_that_of_enumeration(batch: list[Instance]) -> None:
    """200 instances (T = 6, up to 4 segments, 3 modes, two jobs) by either formulation, side by side."""
    costs = [instance.least_cost() for instance in batch]
    feasible = [(instance, cost) for instance, cost in zip(batch, costs, strict=True) if cost < np.inf]
    assume(feasible)
    n = network([instance for instance, _ in feasible])
    for formulation in ("time", "literal"):
        n.optimize(extra_functionality=aidc.network.hook(formulation=formulation), **QUIET)  # type: ignore[arg-type]
        n.aidc.record()
        meter = n.aidc.power().xs("meter", axis=1, level="part")
        for position, (instance, cost) in enumerate(feasible):
            # Solvers may use their tolerance of 1e-6 in each row.
            assert instance.dispatch_cost(meter[f"s{position}"].to_numpy()) == pytest.approx(cost, abs=1e-4)


@pytest.mark.parametrize("formulation", ["time", "literal"])
@given(instance=instances())
@settings(max_examples=3, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
def test_no_schedule_of_the_enumeration_is_an_infeasible_network(formulation: str, instance: Instance) -> None:
    assume(instance.least_cost() == np.inf)
    with pytest.raises(aidc.InfeasibleError):
        network([instance]).aidc.optimize(formulation=formulation, **QUIET)  # type: ignore[arg-type]
