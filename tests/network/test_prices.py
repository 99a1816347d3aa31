from __future__ import annotations

import numpy as np
import pypsa
import pytest

import pypsa_aidc as aidc
from tests.network.tiny import QUIET, grid, site, two_sites


@pytest.fixture(scope="module")
def solved() -> pypsa.Network:
    n = two_sites()
    # Two steps of supply at each bus and a line that binds, so that prices differ in place and time.
    n.add("Generator", "dear", bus="grid", carrier="AC", p_nom=100.0, marginal_cost=np.linspace(30, 40, 8))
    n.generators.loc["market", "p_nom"] = 6.0
    n.lines.loc["line", "s_nom"] = 2.0
    n.generators.loc["local", "p_nom"] = 30.0
    n.aidc.optimize(**QUIET)
    return n


@pytest.fixture(scope="module")
def plain(solved: pypsa.Network) -> pypsa.Network:
    """The LP in which every job keeps its schedule, of plain components."""
    schedule = solved.generators_t.p[[generator for one in solved.aidc.sites.values() for generator in one.loads]]
    lp = pypsa.Network()
    lp.set_snapshots(solved.snapshots)
    for component in ("Carrier", "Bus", "Generator", "Load", "Link", "Line"):
        static = solved.c[component].static.drop(columns=["aidc", "aidc_result"], errors="ignore")
        lp.add(
            component,
            static.index,
            **{c: static[c] for c in static if c in lp.c[component].defaults.index and c != "name"},
        )
    for component, attribute in (("Generator", "marginal_cost"), ("Load", "p_set")):
        lp.c[component].dynamic[attribute] = solved.c[component].dynamic[attribute].copy()
    lp.generators["e_sum_min"] = -np.inf
    lp.generators_t.p_set = schedule.copy()
    lp.add("Load", "extra", bus="grid", p_set=np.zeros(len(lp.snapshots)))
    return lp


def fixed_cost(lp: pypsa.Network, bus: str, hour: int, extra: float) -> float:
    """Its cost with a little more load at one bus and hour."""
    lp.loads.loc["extra", "bus"] = bus
    lp.loads_t.p_set["extra"] = np.eye(len(lp.snapshots))[hour] * extra
    status, condition = lp.optimize(output_flag=False)
    assert (status, condition) == ("ok", "optimal")
    return float(lp.objective)


@pytest.fixture(scope="module")
def least_cost(plain: pypsa.Network) -> float:
    return fixed_cost(plain, "grid", 0, 0.0)


@pytest.mark.parametrize("bus", ["grid", "far", "one IT", "two IT"])
def test_prices_are_finite_differences_of_the_lp_with_fixed_schedules(
    solved: pypsa.Network, plain: pypsa.Network, least_cost: float, bus: str
) -> None:
    """A second formulation: the schedule as plain set points, solved twice, without any of our constraints."""
    step = 1e-3
    for hour in (0, 3, 7):
        difference = (fixed_cost(plain, bus, hour, step) - least_cost) / step
        assert solved.buses_t.marginal_price[bus].iloc[hour] == pytest.approx(difference, abs=1e-4)


def test_price_behind_the_import_is_pue_times_the_grid_price(solved: pypsa.Network) -> None:
    price = solved.buses_t.marginal_price
    np.testing.assert_allclose(price["one IT"], 1.25 * price["grid"], rtol=1e-9)
    np.testing.assert_allclose(price["two IT"], 1.25 * price["far"], rtol=1e-9)


def test_congestion_separates_prices(solved: pypsa.Network) -> None:
    price = solved.buses_t.marginal_price
    assert (price["grid"] - price["far"]).abs().max() > 1.0


def test_statistics_use_the_right_prices(solved: pypsa.Network) -> None:
    revenue = solved.statistics.revenue(components="Generator", groupby=False)
    market = (solved.generators_t.p["market"] * solved.buses_t.marginal_price["grid"]).sum()
    assert revenue["market"] == pytest.approx(market)
    job = (solved.generators_t.p["one A"] * solved.buses_t.marginal_price["one IT"]).sum()
    assert revenue["one A"] == pytest.approx(-job)


def test_a_plain_milp_leaves_zeros_and_pricing_mends_them() -> None:
    """Row 11 of the collected user reports."""
    n = two_sites()
    n.optimize(extra_functionality=aidc.extra_functionality, **QUIET)
    objective = n.objective
    assert (n.buses_t.marginal_price == 0).all(axis=None)
    assert n.aidc.price() == "fixed-path LP"
    assert (n.buses_t.marginal_price > 0).all(axis=None)
    assert n.objective == pytest.approx(objective)
    again = n.buses_t.marginal_price.copy()
    n.aidc.price()
    np.testing.assert_allclose(n.buses_t.marginal_price, again)


def test_without_pricing_prices_are_absent_and_not_zero() -> None:
    n = two_sites()
    result = n.aidc.optimize(prices=False, **QUIET)
    assert result.prices == "none"
    assert n.aidc.status["prices"] == "none"
    assert n.buses_t.marginal_price.isna().all(axis=None)
    assert n.aidc.bill()["payment"].isna().all()


def test_bill_adds_up_to_what_the_meter_pays(solved: pypsa.Network) -> None:
    power, price = solved.aidc.power(), solved.buses_t.marginal_price
    for name, bus in (("one", "grid"), ("two", "far")):
        paid = (power[name, "meter"] * price[bus]).sum()
        bill = solved.aidc.bill().loc[name]
        assert bill.loc["total", "payment"] == pytest.approx(paid)
        assert bill.drop("total")["payment"].sum() == pytest.approx(paid)
        assert bill["level"].tolist() == ["IT"] * (len(bill) - 1) + ["meter"]
        # A base load of 1 MW all day pays the mean price, 1.25 MWh at the meter for each of its own.
        assert bill.loc["base", "price"] == pytest.approx(1.25 * price[bus].mean())
        assert bill.loc["total", "energy"] == pytest.approx(1.25 * bill.drop("total")["energy"].sum())


def test_weightings_do_not_distort_prices() -> None:
    n = site(grid(6))
    n.snapshot_weightings["objective"] = 10.0
    n.snapshot_weightings["generators"] = 10.0
    n.aidc.optimize(**QUIET)
    np.testing.assert_allclose(n.buses_t.marginal_price["grid"], n.generators_t.marginal_cost["market"])


def test_pricing_needs_a_solved_model() -> None:
    with pytest.raises(aidc.NotSolvedError, match="just been solved"):
        site(grid()).aidc.price()


def test_values_are_differences_of_optima() -> None:
    n = site(grid(8), gpus=6, p_nom=3.75)
    before = n.links.copy()
    table = n.aidc.values(gpus=2, p_nom=2.5, **QUIET)
    base = site(grid(8), gpus=6, p_nom=3.75).aidc.optimize(**QUIET).objective
    larger = site(grid(8), gpus=6, p_nom=6.25).aidc.optimize(**QUIET).objective
    rigid = site(grid(8), gpus=6, p_nom=3.75)
    jobs = [load.with_rules(waiting=False) for load in rigid.aidc.sites["dc"].loads.values()]
    rigid.aidc.update("dc", jobs=jobs)
    without = rigid.aidc.optimize(**QUIET).objective
    assert table.loc[("dc", "p_nom"), "value"] == pytest.approx(base - larger)
    assert table.loc[("dc", "waiting"), "value"] == pytest.approx(without - base)
    assert table.loc[("dc", "waiting"), "value"] > 0
    assert (table["uncertainty"] < 1e-6).all()
    assert n.links.equals(before)


def test_waiting_is_worth_infinity_where_jobs_cannot_do_without_it() -> None:
    n = grid(8)
    # In the first hours there is no supply for training at all.
    n.generators.loc["market", "p_nom"] = 10.0
    n.generators_t.p_max_pu["market"] = [0.125] * 3 + [1.0] * 5
    table = site(n).aidc.values(only=["waiting"], **QUIET)
    assert table["value"].iloc[0] == float("inf")


def test_values_refuse_what_makes_no_sense() -> None:
    with pytest.raises(aidc.InputError) as caught:
        site(grid()).aidc.values(gpus=0, p_nom=-1, only=["sleep"])
    assert {fault.where for fault in caught.value.faults} == {"gpus", "p_nom", "only"}
