"""Inputs that once gave a wrong number or no reason, each with its right value by hand, enumeration or plain PyPSA."""

from __future__ import annotations

import logging
import time

import numpy as np
import pandas as pd
import pypsa
import pytest

import pypsa_aidc as aidc
from pypsa_aidc.network.results.costs import rewards
from pypsa_aidc.network.solve.solver_options import SolverOptions
from pypsa_aidc.network.spec.schema import parse
from pypsa_aidc.training import Mode
from tests.network.tiny import QUIET, grid, job, site

EIGHT_MEGAWATTS = Mode((1, 1, 8), gpus=8, flops_per_s=1e15, it_power=8.0)


def two_hours(**rules: object) -> aidc.TrainingLoad:
    """Two hours at 8 MW, in two segments."""
    return aidc.TrainingLoad("A", 2 * 3.6e18, (EIGHT_MEGAWATTS,), aidc.Rules(segments=2, **rules))


class TestOtherVariables:
    """What is neither continuous nor a known binary is neither relaxed nor fixed, and its model is no LP."""

    @staticmethod
    def network() -> pypsa.Network:
        rng = np.random.default_rng(0)
        n = grid(10, prices=rng.uniform(10, 60, 10).round())
        dump = rng.uniform(0, 40, 10).round()
        n.add("Generator", "dump", bus="grid", sign=-1, p_nom=100, marginal_cost=dump)
        modes = {
            name: (Mode((1, 1, 4), 4, 1e15, low), Mode((1, 1, 8), 8, speed * 1e15, high))
            for name, low, high, speed in (("A", 2.0, 4.5, 1.8), ("B", 3.0, 5.5, 1.7))
        }
        jobs = [
            aidc.TrainingLoad(name, hours * 3.6e18, modes[name], aidc.Rules(segments=hours))
            for name, hours in (("A", 3), ("B", 2))
        ]
        n.aidc.add("dc", bus="grid", gpus=16, jobs=jobs)
        return n

    @staticmethod
    def blocks(n: pypsa.Network, _: pd.Index) -> None:
        """The market sells nothing, or 6 to 100 MW."""
        p = n.model["Generator-p"]
        coords = [p.indexes["snapshot"]]
        block = n.model.add_variables(lower=6, upper=100, semi_continuous=True, coords=coords, name="block")
        n.model.add_constraints(p.sel(name="market", drop=True) - block == 0, name="user-block")

    @staticmethod
    def binary_blocks(n: pypsa.Network, _: pd.Index) -> None:
        """The same, with a binary that says which."""
        p = n.model["Generator-p"]
        on = n.model.add_variables(binary=True, coords=[p.indexes["snapshot"]], name="on")
        market = p.sel(name="market", drop=True)
        n.model.add_constraints(market - 100 * on <= 0, name="user-most")
        n.model.add_constraints(market - 6 * on >= 0, name="user-least")

    def test_semi_continuous_variables_switch_the_first_schedule_off(self) -> None:
        n = self.network()
        result = n.aidc.optimize(extra_functionality=self.blocks, **QUIET)
        assert result.objective == pytest.approx(172.5)
        again = self.network().aidc.optimize(extra_functionality=self.binary_blocks, **QUIET)
        assert again.objective == pytest.approx(172.5)

    def test_their_model_is_no_lp_and_has_no_prices(self, caplog: pytest.LogCaptureFixture) -> None:
        n = grid()
        n.add("Load", "town", bus="grid", p_set=2.0)
        n.add("Generator", "dump", bus="grid", sign=-1, p_nom=100)
        # The command line, which other tests run in this process, quiets libraries and this package.
        with caplog.at_level(logging.WARNING, logger="pypsa_aidc"):
            result = n.aidc.optimize(extra_functionality=self.blocks, **QUIET)
        # The market cannot sell the 2 MW that are wanted: 6 MW at 8, 7, … 1 USD/MWh.
        assert result.objective == pytest.approx(6 * 36)
        assert result.prices == "none"
        assert n.buses_t.marginal_price.isna().all(axis=None)
        assert "block" in caplog.text
        with pytest.raises(aidc.UnsupportedError, match="block"):
            n.aidc.price()


class TestQuadraticCosts:
    @staticmethod
    def network() -> pypsa.Network:
        n = grid()
        n.generators.loc["market", "marginal_cost_quadratic"] = 0.5
        return n

    def test_with_binaries_they_are_refused_by_component_before_solving(self) -> None:
        n = site(self.network())
        with pytest.raises(aidc.UnsupportedError, match=r"Generator 'market'.*AIDC 'dc'.*piecewise"):
            n.aidc.optimize(**QUIET)
        assert n._model is None
        assert "quadratic costs of Generator 'market': beside" in str(n.aidc.check().of("error"))

    def test_of_the_user_are_refused_when_the_model_is_built(self) -> None:
        def quadratic(n: pypsa.Network, _: pd.Index) -> None:
            p = n.model["Generator-p"].sel(name="market")
            n.model.objective = n.model.objective.expression + (p * p).sum()

        with pytest.raises(aidc.UnsupportedError, match="quadratic objective"):
            site(grid()).aidc.optimize(extra_functionality=quadratic, **QUIET)

    def test_without_binaries_they_are_a_qp_with_prices(self) -> None:
        n = self.network()
        n.add("Load", "town", bus="grid", p_set=2.0)
        assert n.aidc.optimize(output_flag=False).prices == "QP"
        # 8 - h + 2 · 0.5 · 2 MW.
        assert n.buses_t.marginal_price["grid"].to_numpy() == pytest.approx(np.arange(8, 0, -1) + 2.0, abs=1e-4)
        assert not n.aidc.check().of("error")


def test_prices_leave_the_dispatch_of_the_search_as_it_is() -> None:
    """A fleet with free relief: the LP with fixed calls has optima that keep to no call."""
    hours = pd.date_range("2030-01-01", periods=6, freq="h")
    objective = {}
    for prices in (False, True):
        n = pypsa.Network(snapshots=hours)
        n.add("Bus", "b")
        n.add("Load", "d", bus="b", p_set=[87.0, 111, 112, 123, 93, 77])
        n.add("Generator", ["g1", "g2", "u"], bus="b", p_nom=[90, 40, 1e6], marginal_cost=[20, 100, 5000])
        profile = pd.Series([0.56, 0.61, 0.83, 0.91, 0.98, 0.51], hours)
        terms = {"recovery": 2, "events": 2, "hours": 4, "rebound": 1.0, "rebound_power": 0.2}
        n.aidc.add_fleet("f", bus="b", p_nom=20.0, profile=profile, surface={1: 20.0, 2: 15.0}, peak=50.0, **terms)
        result = n.aidc.optimize(prices=prices, output_flag=False)
        objective[prices] = result.objective
        assert result.audit
        assert result.prices == ("fixed-path LP" if prices else "none")
        assert (n.generators_t.p.sum(axis=1) - 2 * n.generators_t.p[["f", "f rebound"]].sum(axis=1)).to_numpy() == (
            pytest.approx(n.loads_t.p["d"].to_numpy())
        )
    assert objective == pytest.approx({False: 41579.999999, True: 41579.999999})


def test_time_limit_bounds_the_whole_call() -> None:
    """First schedule and prices included; without enough time for prices there are none, and no zeros."""
    rng = np.random.default_rng(1)
    modes = tuple(Mode((1, 1, k), k, 1e15 * k**0.9, 0.3 * k) for k in range(1, 13))
    jobs = [aidc.TrainingLoad(name, 864e18, modes, aidc.Rules(segments=24, jump=3)) for name in "ABCD"]
    n = grid(160, prices=rng.uniform(10, 90, 160))
    n.aidc.add("dc", bus="grid", gpus=16, jobs=jobs)
    # Time of this process: what other programs of the machine take does not count.
    started = time.process_time()
    try:
        result = n.aidc.optimize(time_limit=5.0, output_flag=False, mip_rel_gap=1e-9)
    except aidc.NotSolvedError as error:  # on a machine too busy for a first schedule in time, which says so
        assert "'time_limit'" in str(error)  # noqa: PT017
        result = None
    # HiGHS looks at the clock between rounds at the root, each of which takes about a second here.
    assert time.process_time() - started < 5.0 * 1.1 + 2.5
    assert result is None or result.status == "time_limit"
    assert result is None or result.prices == "none" or (n.buses_t.marginal_price["grid"] > 0).all()


def test_search_gets_the_time_that_is_left_but_for_the_prices() -> None:
    options = SolverOptions.of({"solver_options": {"time_limit": 100.0, "threads": 1}, "mip_rel_gap": 0.01})
    options.started -= 20.0  # a long build
    assert options.for_first_schedule == pytest.approx(0.4 * 80, abs=0.1)
    options.relaxation_seconds = 5.0
    assert options.limit_search(prices=True) == pytest.approx(80 - 2 * 5, abs=0.1)
    assert options.limit_search(prices=False) == pytest.approx(80, abs=0.1)
    options.started -= 75.0
    assert options.for_prices == pytest.approx({"time_limit": 5.0, "threads": 1, "mip_rel_gap": 0.01}, abs=0.1)
    assert SolverOptions.of({}).limit_search(prices=True) is None
    alone = SolverOptions.of({}, search_limit=7.0)
    assert alone.limit_search(prices=False, whole_numbers=False) is None
    assert alone.limit_search(prices=True) == 7.0
    assert "time_limit" not in alone.for_prices
    for given in ({"time_limit": 5.0}, {"solver_name": "gurobi"}):
        with pytest.raises(aidc.InputError, match="search_limit"):
            SolverOptions.of(given, search_limit=7.0)


@pytest.mark.parametrize(
    "terms",
    [
        {"events": np.int64(3)},
        {"hours": np.float32(3)},
        {"q": np.float32(0.5)},
        {"recovery": np.float32(2)},
        {"block": np.bool_(True)},
        {"durations": np.array([1, 4])},
    ],
)
def test_numbers_of_numpy_are_numbers(terms: dict[str, object]) -> None:
    n = grid(8)
    common = {
        "bus": "grid",
        "p_nom": np.float64(100.0),
        "profile": np.float32(0.5),
        "surface": {np.int64(1): 2.5, 4: 2.3},
    }
    n.aidc.add_fleet("f1", peak=np.int32(50), **common, **terms)
    (name, value), fleet = next(iter(terms.items())), n.aidc.fleets["f1"]
    expected = {"q": fleet.terms.depths[0] / 0.05, "recovery": fleet.terms.recovery[0]}
    assert expected.get(name, getattr(fleet.terms, name, None)) == pytest.approx(
        tuple(value) if name == "durations" else value
    )


def test_numbers_of_numpy_in_jobs_and_sites() -> None:
    n = grid(8)
    rules = aidc.Rules(segments=np.int64(2), waiting=np.bool_(True), restart_hours=np.float32(0.0))
    mode = Mode((np.int64(1), 1, 8), gpus=np.int64(8), flops_per_s=np.float32(1e15), it_power=np.float64(8.0))
    load = aidc.TrainingLoad("A", np.float64(7.2e18), (mode,), rules, deadline=np.int64(8))
    n.aidc.add("dc", bus="grid", gpus=np.int64(8), jobs=[load], p_nom=np.int64(20), draw_idle=np.bool_(False))
    read = n.aidc.sites["dc"].loads["dc A"]
    assert (read.modes[0].gpus, read.rules.segments, read.deadline) == (8, 2, 8)


@pytest.mark.parametrize("entry", ["0", "{}", '""', '{"a":1}'])
@pytest.mark.parametrize("key", ["modes", "rules", "baseline"])
def test_hostile_specifications_are_refused_fast(key: str, entry: str) -> None:
    count = 160_000 // (len(entry) + 1)
    entries = f"[{','.join([entry] * count)}]"
    text = f'{{"schema":"pypsa_aidc/training","version":2,"{key}":{entries}}}'
    repeated = ",".join(f'"{position}":0' for position in range(20_000))
    for hostile in (text, text.replace(entries, f'{{"segments":{entries}}}'), f'{{{repeated},"19999":0}}'):
        started = time.perf_counter()
        with pytest.raises(aidc.SpecError) as caught:
            parse(hostile, "training", "x")
        assert time.perf_counter() - started < 0.5
        assert len(caught.value.faults) <= 45


class TestInactive:
    def test_loads_and_islands_that_are_switched_off(self) -> None:
        n = grid()
        n.add("Bus", "old")
        n.add("Load", "old", bus="old", p_set=np.nan, active=False)
        n.add("Load", "town", bus="grid", p_set=1.0)
        n.loads.loc["old", "p_set"] = np.nan
        assert not n.aidc.check().of("error")
        assert n.aidc.optimize(output_flag=False).objective == pytest.approx(36.0)

    def test_supply_that_is_switched_off_is_none(self) -> None:
        n = grid()
        n.add("Bus", "far", carrier="AC")
        n.add("Load", "town", bus="far", p_set=1.0)
        n.add("Line", "line", bus0="grid", bus1="far", x=0.1, s_nom=10.0, carrier="AC", active=False)
        n.add("Generator", "off", bus="far", p_nom=10.0, active=False)
        with pytest.raises(aidc.InputError, match="island of 1 buses without generation"):
            n.aidc.optimize(output_flag=False)

    def test_a_parallel_line_that_is_switched_off_leaves_a_bridge(self) -> None:
        n = grid()
        n.add("Bus", "far", carrier="AC")
        n.add("Load", "town", bus="far", p_set=1.0)
        n.add("Line", ["1", "2"], bus0="grid", bus1="far", x=0.1, s_nom=10.0, carrier="AC")
        n.lines.loc["2", "active"] = False
        with pytest.raises(aidc.InputError, match="an outage|does not split"):
            n.aidc.optimize(branch_outages=["1"], output_flag=False)
        with pytest.raises(aidc.InputError, match="an active Line"):
            n.aidc.optimize(branch_outages=["2"], output_flag=False)

    @pytest.mark.parametrize(
        ("component", "name"), [("Link", "dc import"), ("Load", "dc base"), ("Generator", "dc A"), ("Generator", "f")]
    )
    def test_parts_of_aidcs_are_named(self, component: str, name: str) -> None:
        n = site(grid())
        n.aidc.add_fleet("f", bus="grid", p_nom=1.0)
        n.c[component].static.loc[name, "active"] = False
        with pytest.raises(aidc.StaleError, match=f"{component} '{name}', active"):
            n.aidc.optimize(**QUIET)


def quarter_hours(**options: object) -> float:
    n = pypsa.Network(snapshots=pd.date_range("2030-01-01", periods=16, freq="15min"))
    n.snapshot_weightings = n.snapshot_weightings * 0.25
    n.add("Bus", "grid", carrier="AC")
    n.add("Generator", "market", bus="grid", p_nom=500, marginal_cost=[10.0] * 4 + [500] * 4 + [10] * 8)
    n.aidc.add("dc", bus="grid", gpus=8, jobs=[two_hours(restart_energy=1.0)], **options)
    return float(n.aidc.optimize(**QUIET).objective)


def test_the_default_connection_bears_a_restart_within_a_quarter_of_an_hour() -> None:
    """1 MWh in a quarter of an hour is 4 MW beside the 8 MW of the job: (16 + 1) MWh at 10 USD/MWh."""
    assert quarter_hours() == quarter_hours(p_nom=12.0) == pytest.approx(170.0)


def test_the_default_connection_bears_the_baseline() -> None:
    n = grid(6, prices=50.0)
    hot = Mode((1, 2, 4), gpus=8, flops_per_s=0.9e15, it_power=9.0)
    rules = aidc.Rules(segments=2)
    n.aidc.add("dc", bus="grid", gpus=8, jobs=[aidc.TrainingLoad("A", 7.2e18, (EIGHT_MEGAWATTS,), rules, baseline=hot)])
    assert n.links.at["dc import", "p_nom"] == 9.0
    table = n.aidc.compare(only=["fixed", "waiting", "free"], **QUIET)
    # 2.2 h in the baseline take three slots.
    assert table["cost"].tolist() == pytest.approx([9 * 3 * 50, 9 * 3 * 50, 8 * 2 * 50])


class TestRawExceptions:
    @pytest.mark.parametrize("x", [[0.1, 0.1, -0.2], [0.2, -0.1, -0.1]])
    def test_reactances_that_cancel_round_a_loop(self, x: list[float]) -> None:
        n = grid()
        n.add("Bus", ["b", "c"], carrier="AC")
        n.add("Load", "town", bus="b", p_set=5.0)
        ends = {"bus0": ["grid", "b", "c"], "bus1": ["b", "c", "grid"]}
        n.add("Line", ["1", "2", "3"], x=x, s_nom=100.0, carrier="AC", **ends)
        for options in ({}, {"branch_outages": "all"}):
            with pytest.raises(aidc.InputError, match="cancel round a loop"):
                n.aidc.optimize(output_flag=False, **options)
        assert "cancel round a loop" in str(n.aidc.check().of("error"))
        n.lines.loc["2", "x"] = 0.15
        assert n.aidc.optimize(output_flag=False).optimal

    def test_a_port_at_no_bus(self) -> None:
        n = grid()
        n.add("Bus", "heat")
        n.add("Link", ["chp", "plain"], bus0="grid", bus1="heat", bus2=["nowhere", ""], p_nom=1.0)
        with pytest.raises(aidc.InputError, match="Link 'chp', bus2: given 'nowhere'"):
            n.aidc.optimize(output_flag=False)

    def test_a_dataset_is_a_network(self) -> None:
        n = site(grid())
        n.aidc.optimize(**QUIET)
        read = aidc.load(n.export_to_netcdf())
        pd.testing.assert_frame_equal(read.aidc.schedule(), n.aidc.schedule())
        assert read.aidc.bill().loc[("dc", "total"), "payment"] == pytest.approx(n.objective)
        for other in (3, None, n.export_to_netcdf()[["snapshots_objective"]]):
            with pytest.raises(aidc.InputError, match="path"):
                aidc.load(other)


def priced(hours: int, prices: list[float], **options: object) -> pypsa.Network:
    """A site with two hours of training at 8 MW behind a grid connection with a price each hour."""
    n = pypsa.Network(snapshots=pd.date_range("2030-01-01", periods=hours, freq="h"))
    n.add("Bus", "grid", carrier="AC")
    n.add("Generator", "market", bus="grid", p_nom=500, marginal_cost=prices)
    n.aidc.add("dc", bus="grid", gpus=8, jobs=[two_hours()], **options)
    return n


@pytest.fixture(scope="module")
def in_scenarios() -> pypsa.Network:
    n = pypsa.Network(snapshots=pd.date_range("2030-01-01", periods=4, freq="h"))
    n.add("Bus", "grid", carrier="AC")
    n.add("Generator", "market", bus="grid", p_nom=500, marginal_cost=[10.0, 20, 60, 30])
    n.set_scenarios({"lo": 0.3, "hi": 0.7})
    load = aidc.TrainingLoad("A", 7.2e18, (EIGHT_MEGAWATTS,), aidc.Rules(segments=2), baseline=EIGHT_MEGAWATTS)
    n.aidc.add("dc", bus="grid", gpus=8, jobs=[load], base_load=1.0, pue=1.25)
    costs = n.generators_t.marginal_cost
    costs["hi", "market"] = [100.0, 50, 5, 80]
    n.generators_t.marginal_cost = costs
    n.aidc.optimize(**QUIET)
    return n


class TestScenarios:
    """Two scenarios with other prices: 0.3 of 10, 20, 60, 30 and 0.7 of 100, 50, 5, 80 USD/MWh."""

    def test_bill_and_costs_are_expected_values(self, in_scenarios: pypsa.Network) -> None:
        """Hours two and three: 0.3 · (10 + 8 · 80) + 0.7 · … of 1.25 · (1 + 8 in two hours) MW, 875.625 in all."""
        prices = {"lo": np.array([10.0, 20, 60, 30]), "hi": np.array([100.0, 50, 5, 80])}
        drawn = 1.25 * np.array([1.0, 9, 9, 1])
        by_hand = {name: float(drawn @ price) for name, price in prices.items()}
        assert in_scenarios.objective == pytest.approx(0.3 * by_hand["lo"] + 0.7 * by_hand["hi"]) == 875.625
        bill, costs = in_scenarios.aidc.bill(), in_scenarios.aidc.costs()
        assert bill.loc[("dc", "total"), "payment"] == pytest.approx(875.625)
        assert costs["cost"].sum() == pytest.approx(875.625)
        for name, paid in by_hand.items():
            assert bill.loc[("dc", "total"), f"payment in {name}"] == pytest.approx(paid)
            assert costs[f"cost in {name}"].sum() == pytest.approx(paid)

    def test_every_frame_is_labelled_by_scenario(self, in_scenarios: pypsa.Network) -> None:
        power = in_scenarios.aidc.power()
        assert power.columns.names == ["scenario", "site", "part"]
        assert power["expected"]["dc", "meter"].tolist() == pytest.approx([1.25, 11.25, 11.25, 1.25])
        assert in_scenarios.aidc.balance().columns.names == ["scenario", "source"]
        assert in_scenarios.aidc.balance()["hi", "AIDC"].sum() == pytest.approx(25.0)
        assert in_scenarios.aidc.summary().loc[("hi", "dc"), "energy"] == pytest.approx(25.0)
        assert len(in_scenarios.aidc.plot().axes) == 3

    def test_compare(self, in_scenarios: pypsa.Network) -> None:
        table = in_scenarios.aidc.compare(**QUIET)
        assert table.loc["free", "added"] == pytest.approx(875.625)
        # From the first hour on: 0.3 · (9 · 10 + 9 · 20 + 60 + 30) + 0.7 · (9 · 100 + 9 · 50 + 5 + 80), times 1.25.
        assert table.loc["fixed", "added"] == pytest.approx(1.25 * (0.3 * 360 + 0.7 * 1435))
        assert table.loc["free", "price"] == pytest.approx(0.3 * 30 + 0.7 * 58.75)

    def test_audit_of_each_scenario(self) -> None:
        n = grid(6)
        n.add("Load", "l", bus="grid", p_set=1.0)
        site(n, base_load=1.0, pue=1.0, p_nom=20)
        n.set_scenarios({"a": 0.5, "b": 0.5})
        base = pd.DataFrame({("a", "dc base"): 1.0, ("b", "dc base"): 5.0}, n.snapshots)
        n.c.loads.dynamic.p_set = base.rename_axis(columns=["scenario", "name"])
        assert n.aidc.optimize(**QUIET).audit
        assert n.aidc.power()["b"]["dc", "base"].tolist() == [5.0] * 6
        n.c.links.dynamic["p0"].loc[:, ("b", "dc import")] += 500.0
        where = n.aidc.audit().violations["where"]
        assert len(where)
        assert where.str.endswith("scenario b").all()


def test_weights_of_investment_periods_count_in_costs_and_bill() -> None:
    n = pypsa.Network()
    n.set_snapshots(pd.date_range("2030-01-01", periods=4, freq="h"))
    n.set_investment_periods([2030, 2040])
    n.investment_period_weightings["objective"] = [3.0, 2.0]
    n.add("Bus", "grid", carrier="AC")
    n.add("Generator", "market", bus="grid", p_nom=500, marginal_cost=[10.0, 20, 60, 30, 30, 60, 20, 10])
    n.aidc.add("dc", bus="grid", gpus=8, jobs=[two_hours()])
    result = n.aidc.optimize(multi_investment_periods=True, **QUIET)
    # 8 MWh at 10 and at 20 USD in each period, three and two times.
    assert result.objective == pytest.approx(8 * 30 * 5)
    assert n.aidc.costs()["cost"].sum() == pytest.approx(1200.0)
    assert n.aidc.bill().loc[("dc", "total"), "payment"] == pytest.approx(1200.0)


@pytest.mark.parametrize("p_nom", [None, 20.0])
def test_a_site_pays_the_price_of_the_grid_bus(p_nom: float | None) -> None:
    """Wind is paid 15 USD/MWh for what it feeds in; in the last hour gas serves the rest at 60."""
    n = pypsa.Network(snapshots=pd.date_range("2030-01-01", periods=4, freq="h"))
    n.add("Bus", "grid", carrier="AC")
    n.add("Generator", "wind", bus="grid", p_nom=60, p_max_pu=[1, 0.9, 0.8, 0.1], marginal_cost=-15.0)
    n.add("Generator", "gas", bus="grid", p_nom=60, marginal_cost=60.0)
    n.add("Load", "city", bus="grid", p_set=10.0)
    n.aidc.add("dc", bus="grid", gpus=8, pue=1.182, base_load=1.0, p_nom=p_nom, jobs=[two_hours()])
    n.aidc.optimize(**QUIET)
    drawn, price = n.links_t.p0["dc import"], n.buses_t.marginal_price["grid"]
    bill = n.aidc.bill()
    assert bill.loc[("dc", "total"), "payment"] == pytest.approx(float(drawn @ price)) == pytest.approx(-265.95)
    assert bill.loc[("dc", ["base", "A"]), "payment"].sum() == pytest.approx(-265.95)


def test_costs_are_the_objective_whatever_it_holds() -> None:
    """Quadratic, storage, spill, commitment, investment and mode changes; weights of snapshots; negative costs."""
    n = grid(8, prices=[10.0, 20, 60, 30, 30, 60, 20, 10])
    n.snapshot_weightings["objective"] = [1.0, 2, 3, 4, 4, 3, 2, 1]
    n.add("Load", "town", bus="grid", p_set=np.linspace(5, 12, 8))
    n.add("Generator", "sun", bus="grid", p_nom=10, p_max_pu=[0, 0.1, 0.5, 1, 1, 0.5, 0.1, 0], marginal_cost=-5.0)
    n.add(
        "Generator",
        "unit",
        bus="grid",
        p_nom=8,
        p_min_pu=0.5,
        committable=True,
        marginal_cost=12.0,
        start_up_cost=7.0,
        shut_down_cost=3.0,
        stand_by_cost=2.0,
    )
    n.add("StorageUnit", "hydro", bus="grid", p_nom=3, max_hours=2, inflow=2.0, spill_cost=1.0, marginal_cost=0.5)
    n.storage_units["marginal_cost_storage"] = 0.1
    n.add("Generator", "new", bus="grid", p_nom_extendable=True, p_nom_max=4, capital_cost=20.0, marginal_cost=1.0)
    quick = Mode((1, 1, 4), 4, 1e15, 2.0), Mode((1, 1, 8), 8, 1.8e15, 4.0)
    rules = aidc.Rules(segments=4, mode_change_cost=0.01)
    n.aidc.add("dc", bus="grid", gpus=8, pue=1.2, jobs=[aidc.TrainingLoad("A", 4 * 3.6e18, quick, rules)])
    result = n.aidc.optimize(include_objective_constant=False, **QUIET)
    costs = n.aidc.costs()
    assert costs["cost"].sum() - rewards(n) == pytest.approx(result.objective)
    assert costs.loc[("Investment", "new"), "cost"] == pytest.approx(20.0 * n.generators.at["new", "p_nom_opt"])


def test_compare_of_several_sites_changes_all_of_them() -> None:
    """Each job of four hours in its slow mode, 2 MW behind 1.25, from the first hour on or in the four cheapest."""
    n = site(site(grid(8), "one", p_nom=9), "two", p_nom=9)
    table = n.aidc.compare(only=["without", "fixed", "waiting"], **QUIET)
    base = 2 * 1.25 * 36
    assert table["cost"].tolist() == pytest.approx([0, base + 2 * 2.5 * (8 + 7 + 6 + 5), base + 2 * 2.5 * 10])
    alone = n.aidc.compare("one", only=["without", "fixed"], **QUIET)
    assert alone.loc["without", "cost"] == pytest.approx(n.aidc.optimize(**QUIET).objective / 2)
    with pytest.raises(aidc.InputError, match="no AIDC"):
        grid().aidc.compare()


class TestLabels:
    """Series are held to the labels they were given for, not to their ends; PyPSA fills new ones with its default."""

    def test_finer_snapshots_between_the_same_ends_are_stale(self) -> None:
        n = grid(6, prices=50.0)
        n.aidc.add("dc", bus="grid", gpus=8, jobs=[two_hours()], pue=[1.5] * 6, base_load=[4.0] * 6)
        n.aidc.add_fleet("f", bus="grid", p_nom=10.0, profile=[0.5] * 6)
        n.set_snapshots(pd.date_range("2030-01-01", periods=11, freq="30min"))
        n.snapshot_weightings = n.snapshot_weightings * 0.0 + 0.5
        with pytest.raises(aidc.StaleError) as caught:
            n.aidc.optimize(**QUIET)
        text = str(caught.value)
        for what in ("base_load of 'dc'", "pue of 'dc'", "profile of 'f'"):
            assert f"{what}: given '6 values from 2030-01-01 00:00:00 to 2030-01-01 05:00:00, and 5 other" in text
        assert "2030-01-01 00:30:00" in str(n.aidc.check().of("error"))

    def test_part_of_the_labels_is_not(self) -> None:
        n = site(grid(8), base_load=np.linspace(1, 2, 8))
        n.set_snapshots(n.snapshots[1:])
        assert n.aidc.optimize(**QUIET).audit
        n.set_snapshots(n.snapshots.delete(3))
        n.aidc.update("dc", windows="once")  # the dates jump
        assert n.aidc.optimize(**QUIET).audit

    @pytest.mark.parametrize("labels", [["a", "b", "c", "d"], [3, 1, 2, 4], [0, 1, 3, 7]])
    def test_labels_without_a_step(self, labels: list[object]) -> None:
        n = pypsa.Network(snapshots=labels)
        n.add("Bus", "grid", carrier="AC")
        n.add("Generator", "market", bus="grid", p_nom=500, marginal_cost=[4.0, 3, 2, 1])
        n.aidc.add("dc", bus="grid", gpus=8, jobs=[two_hours()], base_load=[1.0, 2, 3, 4])
        assert n.aidc.optimize(**QUIET).audit
        n.set_snapshots([*labels[:2], 2.5 if labels[0] != "a" else "bb", *labels[2:]])
        with pytest.raises(aidc.StaleError, match="base_load of 'dc'"):
            n.aidc.optimize(**QUIET)

    def test_finer_series_are_averaged_and_coarser_ones_refused(self) -> None:
        n = grid(24, prices=50.0)
        quarters = pd.date_range("2030-01-01", periods=96, freq="15min")
        with pytest.warns(aidc.SeriesWarning, match="base_load: 4 values for each snapshot"):
            n.aidc.add(
                "dc", bus="grid", gpus=8, jobs=[two_hours()], base_load=pd.Series([10.0, 20, 30, 40] * 24, quarters)
            )
        assert n.loads_t.p_set["dc base"].sum() == pytest.approx(24 * 25)
        with pytest.raises(aidc.InputError, match="values between the snapshots, but not for all of"):
            n.aidc.update("dc", pue=pd.Series(1.2, quarters[:-1]))
        with pytest.warns(aidc.SeriesWarning, match="profile"):
            n.aidc.add_fleet("f", bus="grid", p_nom=1.0, profile=pd.Series(np.tile([0.2, 0.4], 24), quarters[::2]))
        assert n.generators_t.p_max_pu["f"].tolist() == pytest.approx([0.3] * 24)
        n.set_snapshots(quarters)
        with pytest.raises(aidc.InputError, match="no value for 72 of 96 snapshots"):
            n.aidc.update("dc", pue=pd.Series(1.2, quarters[::4]))


class TestUpdate:
    def test_modes_wait_for_a_larger_pool(self) -> None:
        n = site(grid(), gpus=8)
        free = n.aidc.optimize(**QUIET).objective
        n.aidc.update("dc", gpus=4)
        assert n.aidc.jobs["modes"].tolist() == [1]
        n.aidc.update("dc", gpus=8)
        assert n.aidc.jobs["modes"].tolist() == [2]
        assert n.aidc.optimize(**QUIET).objective == pytest.approx(free)
        # Eight hours in the slow mode cost 90 USD, five in the fast one the five cheapest: 1.25 · 4 MW · 15.
        small = site(grid(), jobs=[job(hours=8.0, segments=4)], gpus=4, p_nom=50.0)
        assert small.aidc.values(gpus=4, only=["gpus"], **QUIET)["value"].item() == pytest.approx(90 - 75)

    @pytest.mark.parametrize("changed", [{"base_load": 2.0}, {"pue": 1.3}, {"gpus": 9}, {"p_nom": 50.0}])
    def test_results_of_before_are_stale(self, changed: dict[str, float]) -> None:
        n = site(site(grid(), "one"), "two")
        n.aidc.optimize(**QUIET)
        n.aidc.update("one", **changed)
        for frame in (n.aidc.summary, n.aidc.power, n.aidc.bill, n.aidc.schedule, n.aidc.balance):
            with pytest.raises(aidc.StaleError, match="n.aidc.update of 'one'"):
                frame()
        assert not n.aidc.audit()
        assert "n.aidc.update" in str(n.aidc.check())
        n.optimize(extra_functionality=aidc.extra_functionality, **QUIET)
        assert len(n.aidc.schedule())
        n.aidc.remove("two")
        with pytest.raises(aidc.StaleError, match="'two' was removed"):
            n.aidc.power()
