"""Networks with scenarios: recourse of jobs and fleets, risk, and what knowing more is worth, by enumeration."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from itertools import product

import numpy as np
import pypsa
import pytest

import pypsa_aidc as aidc
from tests.network.tiny import QUIET, grid, job, site

PROBABILITY = {"a": 0.7, "b": 0.3}
PRICES = {"a": np.array([1.0, 2, 90, 4, 5, 6, 70, 8]), "b": np.array([1.0, 2, 3, 80, 5, 90, 7, 8])}
PROFILE = np.array([0.8, 0.9, 1, 1, 0.9, 0.7, 1, 0.6])
PUE = 1.25


def in_scenarios(n: pypsa.Network) -> pypsa.Network:
    n.set_scenarios(PROBABILITY)
    n.c.generators.dynamic["marginal_cost"]["b", "market"] = PRICES["b"]
    return n


def one_job(**rules: object) -> pypsa.Network:
    """One bus, and a job of four hours that only fits in its slow mode of 2 MW."""
    return in_scenarios(site(grid(prices=PRICES["a"]), jobs=[job(**rules)], gpus=4, base_load=0.0))


def one_fleet(**terms: object) -> pypsa.Network:
    """One bus, and a fleet of 10 MW that may shed 3 MW for an hour or 2 MW for two, at 3 USD/MWh."""
    n = grid(prices=PRICES["a"])
    n.aidc.add_fleet("f", bus="grid", p_nom=10, profile=PROFILE, marginal_cost=3.0, **terms)
    return in_scenarios(n)


CALLS = {"surface": {1: 3.0, 2: 2.0}, "peak": 10.0, "recovery": 1}
RUNS = [np.array(on) for on in product((0, 1), repeat=8) if sum(on) == 4]
"""Hours in which the job may run."""
SHEDS = [np.zeros(8), *(3.0 * np.eye(8)), *(2.0 * (np.eye(8)[:-1] + np.eye(8)[1:]))]
"""Largest relief in one call at most."""


def job_cost(run: np.ndarray, price: np.ndarray) -> float:
    return 2.0 * PUE * float(run @ price)


def fleet_cost(most: np.ndarray, price: np.ndarray) -> float:
    return float(10 * PROFILE @ price - most @ np.maximum(price - 3.0, 0.0))


def best(
    plans: Iterable[np.ndarray],
    cost: Callable[[np.ndarray, np.ndarray], float],
    moment: int,
    starts: Callable[[np.ndarray], np.ndarray] = lambda plan: plan,
) -> float:
    """Least expected cost where plans of both scenarios agree on what starts before a moment."""
    found: dict[tuple[float, ...], dict[str, float]] = {}
    for plan in plans:
        own = found.setdefault(tuple(starts(plan)[:moment]), dict.fromkeys(PRICES, np.inf))
        for name, price in PRICES.items():
            own[name] = min(own[name], cost(plan, price))
    return min(sum(PROBABILITY[name] * own[name] for name in PRICES) for own in found.values())


def started(most: np.ndarray) -> np.ndarray:
    """Relief in the hour in which its call starts, which tells both kinds of calls apart."""
    return most * (np.arange(8) == np.flatnonzero(most)[0]) if most.any() else most


@pytest.mark.parametrize("moment", [3, 8])
def test_recourse_of_a_job(moment: int) -> None:
    n = one_job()
    result = n.aidc.optimize(recourse=None if moment == 8 else {"dc": n.snapshots[moment]}, **QUIET)
    assert result.objective == pytest.approx(best(RUNS, job_cost, moment))
    assert n.aidc.costs()["cost"].sum() == pytest.approx(result.objective)
    assert n.aidc.bill().loc[("dc", "total"), "payment"] == pytest.approx(result.objective)


@pytest.mark.parametrize("moment", [4, 8])
def test_recourse_of_calls(moment: int) -> None:
    n = one_fleet(events=1, **CALLS)
    result = n.aidc.optimize(recourse=None if moment == 8 else str(n.snapshots[moment]), **QUIET)
    assert result.objective == pytest.approx(best(SHEDS, fleet_cost, moment, started))
    assert n.aidc.costs()["cost"].sum() == pytest.approx(result.objective)
    assert n.aidc.fleet_sizes().loc[("expected", "f"), "calls"] <= 1


@pytest.mark.parametrize(
    ("terms", "whole"),
    [({"relief": 0.3, "hours": 2}, True), ({**CALLS, "rebound": 1, "rebound_power": 1}, True)],
)
def test_fleet_by_scenario_is_a_network_for_each(terms: dict[str, object], whole: bool) -> None:
    """With recourse from the beginning, or without whole numbers, scenarios have nothing in common."""
    n = one_fleet(**terms)
    result = n.aidc.optimize(recourse=n.snapshots[0] if whole else None, **QUIET)
    apart = [one_fleet(**terms).get_scenario(name) for name in PRICES]
    alone = [one.aidc.optimize(prices=False, **QUIET).objective for one in apart]
    assert result.objective == pytest.approx(0.7 * alone[0] + 0.3 * alone[1])
    assert result.audit.passed


@cache
def _decided_late() -> pypsa.Network:
    n = one_job()
    n.aidc.optimize(recourse=n.snapshots[3], **QUIET)
    del n.model
    return n


class TestResults:
    def test_steps_are_told_apart_from_the_moment_on(self) -> None:
        n = _decided_late().copy()
        steps = n.aidc.schedule()
        assert set(steps["scenario"]) == {"all", "a", "b"}
        assert (steps.loc[steps["scenario"] == "all", "start"] < n.snapshots[3]).all()
        assert (steps.loc[steps["scenario"] != "all", "start"] >= n.snapshots[3]).all()
        gpus = n.aidc.gpus()
        np.testing.assert_allclose(gpus["expected"], 0.7 * gpus["a"] + 0.3 * gpus["b"])
        np.testing.assert_allclose(n.aidc.grid_prices()["b", "dc"], PRICES["b"])
        assert [text.get_text() for text in n.aidc.plot.gantt().axes[0].get_yticklabels()] == ["A in a", "A in b"]

    def test_audit_finds_what_differs_too_early(self) -> None:
        n = _decided_late().copy()
        assert n.aidc.audit(recourse={"dc": n.snapshots[3]}).passed
        assert not n.aidc.audit(recourse={}).passed

    def test_frozen_copy_keeps_each_scenario(self) -> None:
        n = _decided_late().copy()
        wanted, prices = n.objective, n.c.buses.dynamic["marginal_price"].copy()
        n.aidc.freeze()
        n.optimize(**QUIET)
        assert n.objective == pytest.approx(wanted)
        np.testing.assert_allclose(n.c.buses.dynamic["marginal_price"]["b", "grid"], prices["b", "grid"])

    def test_refused_by_name(self) -> None:
        with pytest.raises(aidc.InputError, match="no scenarios"):
            site(grid()).aidc.optimize(recourse=0, **QUIET)
        with pytest.raises(aidc.InputError, match="one of") as error:
            one_job().aidc.optimize(recourse={"ghost": "2031-01-01"}, **QUIET)
        assert "a snapshot from" in str(error.value)
        with pytest.raises(aidc.UnsupportedError, match="exclusive storage"):
            one_job().aidc.optimize(exclusive="battery", **QUIET)
        with pytest.raises(aidc.UnsupportedError, match="rolling horizon with scenarios"):
            one_job().aidc.optimize_with_rolling_horizon(horizon=4, overlap=0)


class TestRisk:
    ALPHA, OMEGA = 0.5, 0.6

    def risk(self, cost: dict[str, float]) -> float:
        tail = min(
            at + sum(PROBABILITY[name] * max(cost[name] - at, 0) for name in cost) / (1 - self.ALPHA)
            for at in cost.values()
        )
        return (1 - self.OMEGA) * sum(PROBABILITY[name] * cost[name] for name in cost) + self.OMEGA * tail

    def test_a_job_here_and_now(self) -> None:
        n = one_job()
        n.set_risk_preference(self.ALPHA, self.OMEGA)
        result = n.aidc.optimize(**QUIET)
        wanted = min(self.risk({name: job_cost(run, price) for name, price in PRICES.items()}) for run in RUNS)
        assert result.objective == pytest.approx(wanted)
        costs = n.aidc.costs()
        assert costs["cost"].sum() == pytest.approx(wanted)
        told = costs.attrs["risk"]
        assert 0.4 * told["expected"] + 0.6 * told["cvar"] == pytest.approx(wanted)
        # What is paid in a scenario does not depend on how much one fears it.
        np.testing.assert_allclose(n.aidc.grid_prices()["b", "dc"], PRICES["b"])

    def test_mode_changes_in_some_scenarios_lie_in_their_tail(self) -> None:
        n = in_scenarios(
            site(grid(prices=PRICES["a"], p_nom=20), jobs=[job(hours=9, segments=9, mode_change_cost=7.0)])
        )
        n.set_risk_preference(self.ALPHA, self.OMEGA)
        result = n.aidc.optimize(recourse=n.snapshots[2], **QUIET)
        costs = n.aidc.costs()
        changes = costs.loc[("Mode changes", "dc")]
        assert changes["cost in a"] != changes["cost in b"]
        cost = {name: float(costs[f"cost in {name}"].sum()) for name in PRICES}
        assert result.objective == pytest.approx(self.risk(cost)) == pytest.approx(costs["cost"].sum())


class TestInformation:
    def site_and_wind(self) -> pypsa.Network:
        """An hour of work in one of two hours: wind of 5 MW comes in the first in scenario a, of 1.9 MW in the second.

        The market takes 10 USD/MWh for the rest of 2.5 MW.
        """
        n = site(grid(2, prices=[10.0, 10.0]), jobs=[job(hours=1.0, segments=1)], gpus=4, base_load=0.0)
        n.add("Generator", "wind", bus="grid", carrier="AC", p_nom=5.0, p_max_pu=[1.0, 0.38])
        n.set_scenarios(PROBABILITY)
        n.c.generators.dynamic["p_max_pu"]["b", "wind"] = [0.0, 0.38]
        return n

    def test_each_row_by_hand(self) -> None:
        n = self.site_and_wind()
        table = n.aidc.value_of_information(recourse=n.snapshots[0], output_flag=False)
        # On average there are 3.5 MW in the first hour, and nothing to pay; in fact 0.3 of 25 USD. The second costs 6.
        assert table["cost"].to_dict() == pytest.approx(
            {"plan of the mean": 7.5, "here and now": 6.0, "recourse": 0.3 * 6.0, "perfect foresight": 0.3 * 6.0}
        )
        assert table["value"].to_list() == pytest.approx([1.5, 0.0, 4.2, 4.2])

    def test_what_has_no_mean_is_refused(self) -> None:
        with pytest.raises(aidc.InputError, match="no scenarios"):
            site(grid()).aidc.value_of_information()
        n = self.site_and_wind()
        n.generators.loc[("b", "market"), "p_nom"] = np.inf
        with pytest.raises(aidc.InputError, match="p_nom"):
            aidc.network.mean_network(n)
        n.set_risk_preference(0.5, 0.5)
        with pytest.raises(aidc.UnsupportedError, match="risk preference"):
            n.aidc.value_of_information()
