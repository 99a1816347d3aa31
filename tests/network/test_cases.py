"""Inputs that once gave a wrong number or no reason, each with its right value by hand, enumeration or plain PyPSA."""

from __future__ import annotations

import time

import numpy as np
import pandas as pd
import pypsa
import pytest

import pypsa_aidc as aidc
from pypsa_aidc.network.solve.solver_options import SolverOptions
from pypsa_aidc.network.spec.schema import parse
from pypsa_aidc.training import Mode
from tests.network.tiny import QUIET, grid, site

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
        assert "Generator 'market', marginal_cost_quadratic" in str(n.aidc.check().of("error"))

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
    jobs = [aidc.TrainingLoad(name, 864e18, modes, aidc.Rules(segments=24, jump=3)) for name in ("A", "B", "C")]
    n = grid(120, prices=rng.uniform(10, 90, 120))
    n.aidc.add("dc", bus="grid", gpus=16, jobs=jobs)
    started = time.perf_counter()
    result = n.aidc.optimize(time_limit=5.0, output_flag=False, mip_rel_gap=1e-9)
    # HiGHS looks at the clock between rounds at the root, each of which takes about a second here.
    assert time.perf_counter() - started < 5.0 * 1.1 + 2.5
    assert result.status == "time_limit"
    assert result.prices == "none" or (n.buses_t.marginal_price["grid"] > 0).all()


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
