from __future__ import annotations

import numpy as np
import pypsa
import pytest

import pypsa_aidc as aidc
from pypsa_aidc.network import indicators
from tests.network.tiny import QUIET, grid, site


@pytest.fixture(scope="module")
def solved() -> pypsa.Network:
    n = grid(prices=np.linspace(20, 90, 8))
    # 10 MW of sun around noon, more than the site can take.
    n.add(
        "Generator",
        "sun",
        bus="grid",
        carrier="AC",
        p_nom=10.0,
        p_max_pu=[0, 0, 0.3, 1, 1, 0.3, 0, 0],
        marginal_cost=-15.0,
    )
    site(n)
    n.aidc.optimize(**QUIET)
    return n


def test_reward_and_curtailment_cost_differ_by_a_constant(solved: pypsa.Network) -> None:
    available = 10.0 * 2.6
    assert solved.aidc.costs()["cost"].sum() == pytest.approx(solved.objective + 15.0 * available)


def test_curtailed_energy_is_that_of_the_statistics(solved: pypsa.Network) -> None:
    curtailed = solved.statistics.curtailment(components="Generator", groupby=False)["sun"]
    costs = solved.aidc.costs()
    assert costs.loc[("Curtailment", "AC"), "energy"] == pytest.approx(curtailed)
    assert costs.loc[("Curtailment", "AC"), "cost"] == pytest.approx(15.0 * curtailed)


def test_indicators_add_up(solved: pypsa.Network) -> None:
    numbers = indicators(solved)
    meter = solved.aidc.power()["dc", "meter"]
    used = 10.0 * 2.6 - numbers["curtailment"]
    assert numbers["grid"] + used == pytest.approx(meter.sum())
    assert numbers["green"] == pytest.approx(100 * (1 - numbers["grid"] / meter.sum()))
    assert numbers["peak"] == pytest.approx(1e3 * meter.max())


def test_balance_closes_in_each_hour(solved: pypsa.Network) -> None:
    balance = solved.aidc.balance()
    supply = balance.drop(columns=["curtailment", "AIDC", "other load"]).sum(axis=1)
    np.testing.assert_allclose(supply, balance["AIDC"] + balance["other load"])


def test_summary_counts_waiting_and_gpu_hours(solved: pypsa.Network) -> None:
    summary = solved.aidc.summary().loc["dc"]
    gpus = solved.aidc.gpus()["dc", "A"]
    assert summary["gpu_hours"] == pytest.approx(gpus.sum())
    done = solved.aidc.progress()["dc", "A"].shift(fill_value=0.0) >= 1
    assert summary["waiting_hours"] == pytest.approx(((gpus == 0) & ~done).sum())
    assert summary["training_energy"] == pytest.approx(solved.generators_t.p["dc A"].sum())


def test_figures_can_be_drawn(solved: pypsa.Network) -> None:
    figure = solved.aidc.plot()
    assert [axes.get_ylabel() for axes in figure.axes] == ["power (MW)", "GPUs", "progress (%)"]


def test_what_is_not_solved_has_no_costs() -> None:
    with pytest.raises(aidc.NotSolvedError, match="pypsa-aidc dispatch FILE"):
        site(grid()).aidc.costs()
