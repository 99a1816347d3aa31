"""PyPSA's own modes with jobs in the network: each right on a small case, or refused by name."""

from __future__ import annotations

import linopy
import numpy as np
import pandas as pd
import pypsa
import pytest

import pypsa_aidc as aidc
from tests.network.tiny import QUIET, grid, job, once_solved, site, two_sites


def assert_right(n: pypsa.Network) -> None:
    """Every job done, every balance closed, whatever the mode."""
    report = n.aidc.audit()
    assert report.passed, report.violations


def beside_coal() -> pypsa.Network:
    """A site beside a committable unit that is cheap once it runs."""
    n = site(grid(prices=np.full(8, 30.0)))
    n.add(
        "Generator",
        "coal",
        bus="grid",
        carrier="AC",
        p_nom=6,
        p_min_pu=0.6,
        marginal_cost=5,
        start_up_cost=40,
        committable=True,
    )
    return n


def test_unit_commitment() -> None:
    n = beside_coal()
    result = n.aidc.optimize(**QUIET)
    assert_right(n)
    status = n.generators_t.status["coal"]
    assert set(np.round(status, 6)) <= {0.0, 1.0}
    # One by one: with and without the coal unit in each hour, jobs fixed to the schedule found.
    assert result.prices == "fixed-path LP"
    assert (n.buses_t.marginal_price["grid"].round(6).isin([5.0, 30.0])).all()


def test_linearized_unit_commitment() -> None:
    n = beside_coal()
    n.aidc.optimize(linearized_unit_commitment=True, **QUIET)
    assert_right(n)


def test_transmission_losses() -> None:
    lossless, lossy = two_sites(), two_sites()
    for n in (lossless, lossy):
        n.generators.loc["local", "marginal_cost"] = 60.0
        n.lines["r"] = 0.05
    cheap = lossless.aidc.optimize(**QUIET)
    dear = lossy.aidc.optimize(transmission_losses=True, **QUIET)
    assert_right(lossy)
    assert dear.objective > cheap.objective
    assert (lossy.lines_t.p0["line"] + lossy.lines_t.p1["line"]).sum() > 0


class TestSecurity:
    def meshed(self) -> pypsa.Network:
        """A triangle with a radial bus behind it; the site at the far corner."""
        n = grid(prices=np.full(8, 10.0))
        for bus in ("b", "c", "radial"):
            n.add("Bus", bus, carrier="AC")
        for name, bus0, bus1 in (("gb", "grid", "b"), ("bc", "b", "c"), ("gc", "grid", "c"), ("cr", "c", "radial")):
            n.add("Line", name, bus0=bus0, bus1=bus1, carrier="AC", x=0.1, r=0.01, s_nom=5.0)
        n.add("Generator", "peaker", bus="c", carrier="AC", p_nom=20.0, marginal_cost=50.0)
        n.add("Load", "village", bus="radial", p_set=2.0)
        return site(n, bus="c")

    def test_outages_bind_and_jobs_move(self) -> None:
        plain = self.meshed().aidc.optimize(**QUIET)
        n = self.meshed()
        secure = n.aidc.optimize(branch_outages=["gb", "bc", "gc"], **QUIET)
        assert_right(n)
        assert secure.objective > plain.objective
        # After the outage of gc all imports of c take the way over b, and no more than 5 MW fit through it.
        imports = n.lines_t.p0["gc"] + n.lines_t.p0["bc"]
        assert imports.max() <= 5.0 + 1e-6

    def test_outages_that_split_the_network_are_listed(self) -> None:
        # Row 18 of the collected user reports: a radial bus under N-1.
        result = self.meshed().aidc.optimize(branch_outages="all", **QUIET)
        assert result.skipped_outages == ("Line cr",)

    def test_hook_in_pypsas_own_call(self) -> None:
        by_hook, by_call = self.meshed(), self.meshed()
        by_hook.optimize.optimize_security_constrained(
            branch_outages=["gb", "bc", "gc"], extra_functionality=aidc.extra_functionality, **QUIET
        )
        result = by_call.aidc.optimize(branch_outages=["gb", "bc", "gc"], **QUIET)
        assert by_hook.objective == pytest.approx(result.objective)
        assert_right(by_hook)

    def test_with_scenarios_as_without(self) -> None:
        """Scenarios that are alike have the objective of one; branches that are not are refused."""
        n = self.meshed()
        n.set_scenarios({"a": 0.5, "b": 0.5})
        secure = n.aidc.optimize(branch_outages="all", **QUIET)
        assert secure.skipped_outages == ("Line cr",)
        single = self.meshed().aidc.optimize(branch_outages="all", prices=False, **QUIET)
        assert secure.objective == pytest.approx(single.objective)
        n.lines.loc[("b", "gb"), "x"] = 0.2
        with pytest.raises(aidc.InputError, match="alike|same in all scenarios"):
            n.aidc.optimize(branch_outages="all", **QUIET)

    def test_unknown_and_only_radial_outages_are_refused(self) -> None:
        with pytest.raises(aidc.InputError, match="ghost"):
            self.meshed().aidc.optimize(branch_outages=["ghost"], **QUIET)
        with pytest.raises(aidc.InputError, match="does not split"):
            self.meshed().aidc.optimize(branch_outages=["cr"], **QUIET)


class TestScenarios:
    def stochastic(self) -> pypsa.Network:
        n = site(grid(prices=np.arange(1.0, 9.0)))
        n.set_scenarios({"rising": 0.7, "falling": 0.3})
        falling = n.generators_t.marginal_cost["rising", "market"].to_numpy()[::-1]
        n.generators_t.marginal_cost["falling", "market"] = falling
        return n

    def test_one_schedule_for_all_scenarios(self) -> None:
        n = self.stochastic()
        result = n.aidc.optimize(**QUIET)
        p = n.generators_t.p
        np.testing.assert_allclose(p["rising", "dc A"], p["falling", "dc A"])
        assert_right(n)
        # The expected price is 0.7 (t+1) + 0.3 (8-t): a job decided for all scenarios follows it.
        expected = grid(prices=0.7 * np.arange(1.0, 9.0) + 0.3 * np.arange(8.0, 0.0, -1.0))
        same = site(expected).aidc.optimize(**QUIET)
        assert result.objective == pytest.approx(same.objective)

    def test_stored_schedules_survive_a_file(self, tmp_path) -> None:
        n = self.stochastic()
        n.aidc.optimize(**QUIET)
        n.export_to_netcdf(tmp_path / "n.nc")
        read = pypsa.Network(tmp_path / "n.nc")
        assert read.has_scenarios
        assert read.aidc.schedule()["energy"].sum() == pytest.approx(n.aidc.schedule()["energy"].sum())


class TestRollingHorizon:
    def test_refused_by_name(self) -> None:
        n = site(grid(12))
        with pytest.raises(aidc.UnsupportedError, match="every window would start each job anew"):
            n.optimize.optimize_with_rolling_horizon(horizon=6, extra_functionality=aidc.extra_functionality, **QUIET)

    def test_frozen_jobs_run_once_as_decided(self) -> None:
        n = once_solved(two_sites)
        power, flow = n.generators_t.p.copy(), n.lines_t.p0.copy()
        n.aidc.freeze()
        n.optimize.optimize_with_rolling_horizon(horizon=6, overlap=2, output_flag=False)
        jobs = ["one A", "one B", "two A"]
        np.testing.assert_allclose(n.generators_t.p[jobs], power[jobs], atol=1e-6)
        np.testing.assert_allclose(n.lines_t.p0, flow, atol=1e-6)
        assert n.aidc.audit()

    def test_free_jobs_without_the_hook_are_no_result(self) -> None:
        """PyPSA asks each window for `e_sum_min`; what comes of it is never read as a schedule."""
        n = once_solved(two_sites)
        n.optimize.optimize_with_rolling_horizon(horizon=4, output_flag=False)
        assert n.generators_t.p["one A"].sum() == pytest.approx(2 * n.generators.at["one A", "e_sum_min"])
        for ask in (n.aidc.power, n.aidc.schedule, n.aidc.bill, n.aidc.freeze):
            with pytest.raises(aidc.StaleError, match="without AIDC jobs"):
                ask()
        assert "without AIDC jobs" in str(n.aidc.check().of("warning"))

    def test_part_of_the_snapshots_needs_the_explicit_call(self) -> None:
        n = site(grid(12))
        with pytest.raises(aidc.UnsupportedError, match="6 of 12 snapshots"):
            n.optimize(n.snapshots[:6], extra_functionality=aidc.extra_functionality, **QUIET)


class TestInvestmentPeriods:
    def periods(self) -> pypsa.Network:
        n = pypsa.Network()
        stamps = pd.date_range("2030-01-01", periods=6, freq="h")
        n.set_snapshots(pd.MultiIndex.from_product([[2030, 2040], stamps], names=["period", "timestep"]))
        n.investment_periods = [2030, 2040]
        n.investment_period_weightings["objective"] = [10.0, 1.0]
        n.add("Carrier", "AC")
        n.add("Bus", "grid", carrier="AC")
        prices = np.concatenate([np.arange(6.0, 0.0, -1.0), np.arange(1.0, 7.0)])
        n.add("Generator", "market", bus="grid", carrier="AC", p_nom=100.0, marginal_cost=prices)
        return n

    def test_each_period_does_its_own_work(self) -> None:
        n = site(self.periods(), jobs=[job(hours=3.0, segments=3, mode_change_cost=0.5)])
        n.aidc.optimize(multi_investment_periods=True, **QUIET)
        assert_right(n)
        schedule = n.aidc.schedule()
        periods = schedule["start"].map(lambda snapshot: snapshot[0])
        assert schedule.groupby(periods)["segments"].sum().to_dict() == {2030: 3.0, 2040: 3.0}
        # Prices fall in 2030 and rise in 2040: late work, then early work.
        power = n.generators_t.p["dc A"]
        assert power.loc[2030].iloc[0] == 0
        assert power.loc[2040].iloc[-1] == 0

    def test_objective_is_that_of_two_weighted_days(self) -> None:
        n = site(self.periods(), jobs=[job(hours=3.0, segments=3)])
        both = n.aidc.optimize(multi_investment_periods=True, **QUIET).objective
        single = [
            site(grid(6, prices=prices), jobs=[job(hours=3.0, segments=3)]).aidc.optimize(**QUIET).objective
            for prices in (np.arange(6.0, 0.0, -1.0), np.arange(1.0, 7.0))
        ]
        assert both == pytest.approx(10 * single[0] + single[1])


class TestNearOptimal:
    def built(self, **rules: object) -> pypsa.Network:
        n = site(grid(), jobs=[job(**rules)])
        n.add(
            "Generator",
            "wind",
            bus="grid",
            carrier="AC",
            p_nom_extendable=True,
            p_nom_max=3.0,
            capital_cost=1.0,
            marginal_cost=0.5,
        )
        return n

    def test_jobs_are_done_within_the_budget(self) -> None:
        n = self.built()
        best = n.aidc.optimize(**QUIET)
        n.optimize.optimize_mga(
            weights={"Generator": {"p_nom": {"wind": 1.0}}},
            slack=0.2,
            extra_functionality=aidc.extra_functionality,
            **QUIET,
        )
        assert_right(n)
        cost = n.statistics.capex().sum() + n.statistics.opex().sum()
        assert cost <= 1.2 * best.objective + 1e-6

    def test_budget_contains_the_costs_of_mode_changes(self) -> None:
        n = self.built(hours=9.0, segments=9, mode_change_cost=0.5)
        best = n.aidc.optimize(**QUIET)
        spent = n.aidc.sites["dc"].own_costs(n)["Mode changes"]
        assert spent > 0
        n.optimize.optimize_mga(
            weights={"Generator": {"p_nom": {"wind": 1.0}}},
            slack=0.1,
            extra_functionality=aidc.extra_functionality,
            **QUIET,
        )
        assert_right(n)
        # Less wind costs more: the budget of 110 % is spent to the last.
        assert n.aidc.costs()["cost"].sum() == pytest.approx(1.1 * best.objective)

    def test_scenarios_are_refused(self) -> None:
        n = self.built()
        n.set_scenarios({"a": 0.5, "b": 0.5})
        n.aidc.optimize(**QUIET)
        with pytest.raises(aidc.UnsupportedError, match="each with weight 1"):
            n.optimize.optimize_mga(extra_functionality=aidc.extra_functionality, **QUIET)


def test_a_battery_behind_the_meter_is_billed_with_its_site() -> None:
    n = site(grid(prices=[9.0, 9, 1, 9, 9, 9, 1, 1]))
    n.add("StorageUnit", "ups", bus="dc IT", carrier="AC", p_nom=2.0, max_hours=2.0, efficiency_store=0.9)
    result = n.aidc.optimize(**QUIET)
    assert_right(n)
    bill = n.aidc.bill()
    assert bill.loc[("dc", "behind the meter"), "payment"] < 0
    assert bill.loc[("dc", "total"), "payment"] == pytest.approx(result.objective)


def test_iterative_transmission_expansion() -> None:
    n = two_sites()
    n.lines["s_nom_extendable"] = True
    n.lines["capital_cost"] = 0.1
    n.lines["s_nom_max"] = 50.0
    n.generators.loc["local", "marginal_cost"] = 50.0
    n.optimize.optimize_transmission_expansion_iteratively(
        max_iterations=2, extra_functionality=aidc.extra_functionality, **QUIET
    )
    assert_right(n)


@pytest.mark.parametrize("model_kwargs", [{}, {"sparse": True}])
def test_linopys_coming_semantics(model_kwargs: dict[str, object]) -> None:
    legacy = two_sites().aidc.optimize(**QUIET)
    with linopy.options as settings:
        settings.set_value(semantics="v1")
        n = two_sites()
        result = n.aidc.optimize(model_kwargs=model_kwargs, **QUIET)
    assert result.objective == pytest.approx(legacy.objective)
    assert_right(n)


def test_rules_with_memory_in_a_network() -> None:
    """Restart energy, least waits and costed mode changes reach the network's power and objective."""
    n = site(
        grid(prices=[9.0, 9, 1, 9, 9, 9, 1, 1]),
        jobs=[job(hours=4.0, restart_hours=0.5, restart_energy=0.3, min_wait=2.0)],
    )
    n.aidc.optimize(**QUIET)
    assert_right(n)
    schedule = n.aidc.schedule()
    restarts = schedule[schedule["restart"]]
    assert len(restarts) > 0
    power = n.generators_t.p["dc A"]
    for step in restarts.itertuples():
        assert power[step.start] == pytest.approx(step.it_power + 0.3)


def test_mode_changes_are_paid_for() -> None:
    prices = [1.0, 1.0, 30.0, 30.0, 1.0, 1.0, 1.0, 1.0]
    free = site(grid(prices=prices, p_nom=100), jobs=[job(hours=7.0, segments=7)])
    paid = site(grid(prices=prices, p_nom=100), jobs=[job(hours=7.0, segments=7, mode_change_cost=1000.0)])
    cheap, dear = free.aidc.optimize(**QUIET), paid.aidc.optimize(**QUIET)

    def changes(n: pypsa.Network) -> int:
        steps = n.aidc.schedule()
        same_run = steps["start"].iloc[1:].to_numpy() == (steps["last"].iloc[:-1] + pd.Timedelta("1h")).to_numpy()
        return int((same_run & (steps["gpus"].diff().iloc[1:] != 0).to_numpy()).sum())

    assert dear.objective >= cheap.objective
    assert changes(paid) <= changes(free)
    assert dear.objective - 1000.0 * changes(paid) == pytest.approx(n_cost(paid), abs=1e-6)


def n_cost(n: pypsa.Network) -> float:
    return float((n.generators_t.p["market"] * n.generators_t.marginal_cost["market"]).sum())
