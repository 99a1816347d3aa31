"""Small networks at random in every mode of PyPSA: the optimum is that of all plans, each tried in plain PyPSA."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import highspy
import numpy as np
import pandas as pd
import pypsa
import pytest

import pypsa_aidc as aidc
from pypsa_aidc.training import Slots
from tests.brute_force import schedules
from tests.network.tiny import FAST, HOUR, QUIET, SLOW

MODES = ("plain", "commitment", "security", "periods", "here and now", "recourse", "risk")
PUE, BASE, SIZE = 1.25, 0.5, 4.0
PROBABILITY = {"a": 0.6, "b": 0.4}
HOURS = 4


@dataclass(frozen=True)
class Plan:
    """What an AIDC may do in one scenario or period: power at the meter and largest relief in MW, cost, decisions."""

    meter: tuple[float, ...]
    relief: tuple[float, ...] = (0.0,) * HOURS
    cost: float = 0.0
    decisions: tuple[Any, ...] = ()


@dataclass
class Instance:
    """A network, a job or a fleet at one of its buses, and how it is solved."""

    mode: str
    fleet: bool
    bus: str
    options: dict[str, Any] = field(default_factory=dict)
    rules: dict[str, Any] = field(default_factory=dict)
    moment: int = HOURS
    profile: tuple[float, ...] = ()


def assemble(mode: str, seed: int) -> tuple[pypsa.Network, Instance]:
    """Make a triangle of buses with odd prices, and the same again for each period or scenario."""
    rng = np.random.default_rng(seed)
    stamps = pd.date_range("2030-01-01", periods=HOURS, freq="h")
    n = pypsa.Network()
    periods = [2030, 2040] if mode == "periods" else [None]
    many = HOURS * len(periods)
    if mode == "periods":
        n.set_snapshots(pd.MultiIndex.from_product([periods, stamps], names=["period", "timestep"]))
        n.investment_periods = periods
        n.investment_period_weightings["objective"] = rng.choice([1.0, 3.0, 10.0], 2)
    else:
        n.set_snapshots(stamps)
        n.snapshot_weightings.loc[:, ["objective", "generators"]] = float(rng.choice([1.0, 7.0]))
    n.add("Carrier", "AC")
    buses = ["x", "y", "z"]
    n.add("Bus", buses, carrier="AC", v_nom=110.0)
    for position, (first, second) in enumerate((("x", "y"), ("y", "z"), ("x", "z"))):
        rating = float(rng.choice([2.0, 4.0, 20.0]))
        n.add(
            "Line", f"l{position}", bus0=first, bus1=second, x=0.1 * (1 + position), r=0.01, s_nom=rating, carrier="AC"
        )
    n.add("Generator", "market", bus="x", p_nom=60.0, marginal_cost=rng.uniform(20, 60, many).round(1), carrier="AC")
    n.add("Generator", "gas", bus="y", p_nom=5.0, marginal_cost=rng.uniform(30, 90, many).round(1), carrier="AC")
    n.add("Generator", buses, suffix=" dear", bus=buses, p_nom=60.0, marginal_cost=300.0, carrier="AC")
    n.add(
        "Generator",
        "wind",
        bus="z",
        p_nom=6.0,
        p_max_pu=rng.uniform(0, 1, many).round(2),
        marginal_cost=-5.0,
        carrier="AC",
    )
    n.add("Load", "town", bus="z", p_set=rng.uniform(0.5, 4, many).round(1))
    if rng.random() < 0.5 and mode != "security":
        n.add("StorageUnit", "battery", bus="y", p_nom=1.0, max_hours=2.0, efficiency_store=0.9, carrier="AC")
    if rng.random() < 0.5:
        n.add(
            "Generator",
            "built",
            bus="y",
            p_nom_extendable=True,
            p_nom_max=3.0,
            capital_cost=25.0,
            carrier="AC",
            marginal_cost=8.0,
            build_year=2040 if rng.random() < 0.3 else 0,
            lifetime=50.0,
            p_max_pu=0.7,
        )
    if mode == "commitment":
        n.add(
            "Generator",
            "coal",
            bus="y",
            p_nom=6.0,
            p_min_pu=0.5,
            marginal_cost=12.0,
            committable=True,
            start_up_cost=60.0,
            stand_by_cost=5.0,
            carrier="AC",
        )
    own = Instance(mode, bool(rng.random() < 0.4), str(rng.choice(buses)))
    own.rules = {
        "segments": int(rng.integers(2, 4)),
        "mode_change_cost": float(rng.choice([0.0, 15.0])),
        "restart_energy": float(rng.choice([0.0, 0.4])),
        "min_wait": float(rng.choice([0.0, 2.0])),
    }
    own.profile = tuple(rng.uniform(0.6, 1, HOURS).round(2))
    own.options = {"branch_outages": "all"} if mode == "security" else {}
    if mode == "periods":
        own.options = {"multi_investment_periods": True}
    if mode in ("here and now", "recourse", "risk"):
        n.set_scenarios(PROBABILITY)
        dynamic, generators = n.c.generators.dynamic, n.c.generators
        dynamic["marginal_cost"]["b", "market"] = rng.uniform(5, 90, HOURS).round(1)
        generators.dynamic["p_max_pu"]["b", "wind"] = rng.uniform(0, 1, HOURS).round(2)
        own.moment = 0 if mode == "risk" else int(rng.integers(0, HOURS)) if mode == "recourse" else HOURS
        if own.moment < 2:
            own.rules |= {"segments": 2, "mode_changes": "never"}  # all pairs of plans are tried
        if own.moment < HOURS:
            own.options = {"recourse": n.snapshots[own.moment]}
        if mode == "risk":
            n.set_risk_preference(float(rng.choice([0.3, 0.6])), float(rng.choice([0.4, 1.0])))
    return n, own


def load_of(own: Instance) -> aidc.TrainingLoad:
    return aidc.TrainingLoad("A", 2 * HOUR, (SLOW, FAST), aidc.Rules(**own.rules), baseline=SLOW)


def with_aidc(n: pypsa.Network, own: Instance) -> pypsa.Network:
    """Add the job or the fleet; to networks with scenarios, too."""
    if own.fleet:
        profile = np.tile(own.profile, len(n.snapshots) // HOURS)
        n.aidc.add_fleet(
            "f",
            bus=own.bus,
            p_nom=SIZE,
            profile=pd.Series(profile, n.snapshots),
            surface={1: 1.6, 2: 1.0},
            peak=4.0,
            recovery=1,
            events=1,
            marginal_cost=20.0,
        )
    else:
        n.aidc.add("dc", bus=own.bus, gpus=8, pue=PUE, base_load=BASE, jobs=[load_of(own)])
    return n


def plans(own: Instance) -> list[Plan]:
    """All that the job or fleet may do in one scenario or period."""
    found = {}
    if own.fleet:
        load = tuple(SIZE * np.array(own.profile))
        return [Plan(load), *(Plan(load, _relief(*call), decisions=call) for call in _calls())]
    for each in schedules(load_of(own), Slots.uniform(HOURS)):
        meter = tuple(PUE * (BASE + np.array(each.it_power)))
        early = tuple(step for step in each.steps if step[0] < own.moment)
        found[meter, each.event_cost, early] = Plan(meter, cost=each.event_cost, decisions=each.steps)
    return list(found.values())


def _calls() -> Iterator[tuple[int, int]]:
    return ((first, hours) for hours in (1, 2) for first in range(HOURS - hours + 1))


def _relief(first: int, hours: int) -> tuple[float, ...]:
    return tuple((1.6 if hours == 1 else 1.0) * (first <= slot < first + hours) for slot in range(HOURS))


def agree(first: Plan, second: Plan, own: Instance) -> bool:
    """Whether two scenarios have decided the same before they are told apart."""

    def early(plan: Plan) -> list[Any]:
        starts = [plan.decisions] if own.fleet and plan.decisions else plan.decisions
        return [step for step in starts if step[0] < own.moment]

    return early(first) == early(second)


class Plain:
    """Plain PyPSA with the power of the AIDC as a Load and its relief as a Generator: bounds of rows in HiGHS."""

    def __init__(self, n: pypsa.Network, own: Instance) -> None:
        self.own, self.n = own, n
        n.add("Load", "AIDC", bus=own.bus, p_set=0.0)
        n.add("Generator", "relief", bus=own.bus, p_nom=SIZE, p_max_pu=0.0, marginal_cost=20.0, carrier="AC")
        if own.mode == "security":
            outages = pd.MultiIndex.from_tuples([("Line", line) for line in n.lines.index])
            n.optimize.optimize_security_constrained(branch_outages=outages, **QUIET)
        else:
            n.optimize.create_model(**{k: v for k, v in own.options.items() if k == "multi_investment_periods"})
        m = n.model
        self.highs: Any = m.to_highspy()
        self.highs.setOptionValue("output_flag", False)
        self.highs.setOptionValue("mip_rel_gap", 1e-9)
        where = {int(label): row for row, label in enumerate(m.matrices.clabels)}
        self.blocks = list(PROBABILITY) if n.has_scenarios else list(range(len(n.snapshots) // HOURS))
        balance = next(
            c for name, c in m.constraints.items() if name.endswith("nodal_balance") and own.bus in c.indexes["name"]
        )
        upper = m.constraints["Generator-fix-p-upper"]
        self.rows = [
            [[where[int(label)] for label in self._labels(each, name, block)] for block in self.blocks]
            for each, name in ((balance, own.bus), (upper, "relief"))
        ]
        self.rhs = np.asarray(m.matrices.b, dtype=float)
        self.excess = (
            [where[int(m.constraints[f"CVaR-excess-{s}"].labels)] for s in PROBABILITY] if own.mode == "risk" else []
        )

    def _labels(self, constraint: Any, name: str, block: Any) -> np.ndarray:
        labels = constraint.labels.sel(name=name)
        if self.n.has_scenarios:
            return np.asarray(labels.sel(scenario=block).values).ravel()
        return np.asarray(labels.values).ravel()[block * HOURS : (block + 1) * HOURS]

    def weight(self) -> list[float]:
        """Weight of the hours of each block in the objective, which costs of decisions have, too."""
        once = float(self.n.snapshot_weightings["objective"].iloc[0])
        if self.n.has_scenarios:
            return [once * share for share in PROBABILITY.values()]
        if self.own.mode == "periods":
            return [once * float(weight) for weight in self.n.investment_period_weightings["objective"]]
        return [once]

    def cost(self, chosen: Sequence[Plan]) -> float:
        """Least cost with a plan for each block; infinite if there is no dispatch."""
        for block, plan in enumerate(chosen):
            for slot in range(HOURS):
                row = self.rows[0][block][slot]
                demand = self.rhs[row] + plan.meter[slot]
                self.highs.changeRowBounds(row, demand, demand)
                self.highs.changeRowBounds(self.rows[1][block][slot], -highspy.kHighsInf, plan.relief[slot])
        once, paid = float(self.n.snapshot_weightings["objective"].iloc[0]), 0.0
        share = 1 - self.n.risk_preference["omega"] if self.excess else 1.0
        for block, plan in enumerate(chosen):
            paid += share * self.weight()[block] * plan.cost
            if self.excess:
                self.highs.changeRowBounds(self.excess[block], once * plan.cost, highspy.kHighsInf)
        self.highs.run()
        if self.highs.getModelStatus() != highspy.HighsModelStatus.kOptimal:
            return np.inf
        return float(self.highs.getInfo().objective_function_value) + paid

    def least(self) -> float:
        """Least cost of all plans."""
        every = plans(self.own)
        pairs = product(every, repeat=len(self.blocks))
        if self.n.has_scenarios:
            pairs = (pair for pair in pairs if agree(*pair, self.own))
        return min((self.cost(pair) for pair in pairs), default=np.inf)


def decided(n: pypsa.Network, own: Instance, plain: Plain) -> list[Plan]:
    """The plan that was chosen, read from the results."""
    found = []
    for block in plain.blocks:
        power = n.aidc.power()
        power = power[block] if n.has_scenarios else power.iloc[block * HOURS : (block + 1) * HOURS]
        if own.fleet:
            relief = tuple(power["f", "relief"] + 1e-9)
            found.append(Plan(tuple(power["f", "load"]), relief))
        else:
            found.append(Plan(tuple(power["dc", "meter"])))
    return found


def compare(mode: str, seed: int) -> str:
    """How one network ended: ``"equal"`` or ``"infeasible"``."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        n, own = assemble(mode, seed)
        plain = Plain(assemble(mode, seed)[0], own)
        wanted = plain.least()
        with_aidc(n, own)
        try:
            result = n.aidc.optimize(**own.options, **QUIET)
        except aidc.NotSolvedError:
            assert wanted == np.inf, f"{mode} {seed}: no solution, {wanted} USD in plain PyPSA"
            return "infeasible"
        assert result.objective == pytest.approx(wanted, rel=1e-6, abs=1e-4), f"{mode} {seed}"
        costs = n.aidc.costs()
        event = 0.0
        if not own.fleet and own.rules["mode_change_cost"]:
            changes = costs[costs.index.get_level_values("component") == "Mode changes"]
            event = float(changes["cost"].sum())
        if mode != "risk":
            assert plain.cost(decided(n, own, plain)) + event == pytest.approx(wanted, rel=1e-6, abs=1e-4)
        _check_prices(n, own, plain)
    return "equal"


STEP = 1e-3


def _check_prices(n: pypsa.Network, own: Instance, plain: Plain) -> None:
    """Each price lies between what one MWh less saves and what one more costs, with the plan kept."""
    if own.mode in ("commitment", "risk"):
        return
    chosen = decided(n, own, plain)
    name = "f" if own.fleet else "dc"
    prices = n.aidc.grid_prices()
    for block, label in enumerate(plain.blocks):
        series = prices[label][name] if n.has_scenarios else prices[name].iloc[block * HOURS : (block + 1) * HOURS]
        for slot in range(HOURS):
            changed = []
            for step in (-STEP, 0.0, STEP):
                meter = list(chosen[block].meter)
                meter[slot] += step
                changed.append(
                    plain.cost([*chosen[:block], Plan(tuple(meter), chosen[block].relief), *chosen[block + 1 :]])
                )
            weight = plain.weight()[block] * STEP
            low, high = (changed[1] - changed[0]) / weight, (changed[2] - changed[1]) / weight
            assert min(low, high) - 0.05 <= series.iloc[slot] <= max(low, high) + 0.05, (
                own,
                block,
                slot,
                low,
                high,
                series,
            )


@pytest.mark.parametrize("mode", ["recourse", "risk", "periods", "security"])
def test_optimum_is_that_of_all_plans(mode: str) -> None:
    assert compare(mode, 1) in ("equal", "infeasible")
