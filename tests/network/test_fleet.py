"""Fleets in networks: added, refused, solved beside jobs, kept in files, priced, audited, removed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pypsa
import pytest

import pypsa_aidc as aidc
from tests.network.tiny import QUIET, grid, once_solved, site

TABLE = {"surface": {1: 0.2, 2: 0.1}, "peak": 1.0}
CONTRACT = aidc.Contract(
    power=0.1, duration=2, reliability=0.95, noneligible=0.5, q=0.9, derating=0.8, recovery_share=0.4
)


def tight(**fleet: object) -> pypsa.Network:
    """Eight hours, 10 MW to spare but 8.2 MW in hours 3 and 4, a dear plant, and a fleet of 9 MW."""
    n = grid(8, prices=np.full(8, 10.0), p_nom=20.0)
    n.add("Load", "town", bus="grid", p_set=[10, 10, 10, 11.8, 11.8, 10, 10, 10])
    n.add("Generator", "dear", bus="grid", carrier="AC", p_nom=5.0, marginal_cost=500.0)
    n.aidc.add_fleet("f", **{"bus": "grid", "p_nom": 9.0, "marginal_cost": 50.0} | (fleet or TABLE))  # type: ignore[arg-type]
    return n


def test_a_call_is_answered_where_it_is_cheaper_than_the_dear_plant() -> None:
    n = tight()
    result = n.aidc.optimize(**QUIET)
    assert result.optimal
    assert result.prices == "fixed-path LP"
    calls = n.aidc.calls()
    # 0.8 MW are missing in hours 3 and 4, at 50 USD/MWh; a call of 2 h is 0.9 MW deep, one of 1 h covers one hour.
    assert calls[["duration", "power", "energy"]].to_numpy().tolist() == [[2.0, pytest.approx(0.8), pytest.approx(1.6)]]
    assert calls.attrs["units"]["energy"] == "MWh"
    assert list(calls["start"]) == [n.snapshots[3]]
    assert n.buses_t.marginal_price["grid"].round(6).tolist() == [10, 10, 10, 50, 50, 10, 10, 10]
    assert n.aidc.power()["f", "meter"].round(6).tolist() == [9, 9, 9, 8.2, 8.2, 9, 9, 9]
    assert n.aidc.fleet_sizes().loc["f", ["calls", "hours"]].tolist() == [1, 2]
    assert n.aidc.balance()["AIDC"].iloc[3] == pytest.approx(8.2)
    assert n.aidc.status["status"] == "optimal"


def test_the_cost_of_relief_counts() -> None:
    # Row 27: at no cost relief is used before any other; at more than the dear plant not at all.
    for cost, energy in ((0.0, 0.9 * 2), (600.0, 0.0)):
        n = tight(**TABLE, events=1, marginal_cost=cost)
        n.aidc.optimize(**QUIET)
        assert n.aidc.calls()["energy"].sum() == pytest.approx(energy, abs=1e-6)


def test_the_hook_alone_gives_the_same() -> None:
    n, ours = tight(), tight()
    ours.aidc.optimize(**QUIET)
    n.optimize(extra_functionality=aidc.extra_functionality, **QUIET)
    pd.testing.assert_frame_equal(n.aidc.calls(), ours.aidc.calls())
    assert n.objective == pytest.approx(ours.objective)
    assert n.aidc.price() == "fixed-path LP"
    assert n.aidc.audit().passed
    n.optimize(output_flag=False)  # without the terms: relief of 20 % in both hours, in no call
    n.generators_t.p["f relief"] = 1.8
    with pytest.raises(aidc.StaleError, match=r"fleet f, relief in calls"):
        n.aidc.calls()


def test_nothing_solved_is_said() -> None:
    n = tight()
    n.optimize(output_flag=False)
    for ask in (n.aidc.calls, n.aidc.power, lambda: n.aidc.audit(), lambda: n.aidc.record()):
        with pytest.raises(aidc.NotSolvedError):
            ask()


def test_a_contract_with_rebound() -> None:
    """Depth q·derating·K = 7.2 %, half an hour of work lost a call; all of it drawn again before the end."""
    n = tight(contract=CONTRACT, peak=1.0)
    n.aidc.optimize(**QUIET)
    (call,) = n.aidc.calls().itertuples()
    assert call.power == pytest.approx(0.072 * 9)
    assert call.rebound == pytest.approx(call.energy + call.lost)
    assert call.lost == pytest.approx(0.5 * call.depth)
    assert n.generators_t.p["f rebound"].max() <= 0.4 * 0.5 * 9 + 1e-9
    terms = n.aidc.fleets["f"].terms
    assert terms.depths == (pytest.approx(0.072),)
    assert terms.recovery == (CONTRACT.recovery_time,)
    report = n.aidc.audit().frame
    assert {"energy drawn again at the end", "no rebound in calls", "pause after calls"} <= set(report["check"])


def test_the_audit_sees_what_is_wrong() -> None:
    n = tight(contract=CONTRACT, peak=1.0, events=1)
    n.aidc.optimize(**QUIET)
    p = n.generators_t.p
    for column, hour, amount, check in (
        ("f relief", 3, 0.5, "relief in calls"),
        ("f relief", 0, 0.5, "relief in calls"),
        ("f rebound", 4, 0.5, "no rebound in calls"),
        ("f rebound", 7, 3.0, "rebound within its share"),
        ("f rebound", 7, 1.0, "energy drawn again at the end"),
        ("f", 2, -1.0, "load of its profile"),
    ):
        before = p[column].copy()
        p.iloc[hour, p.columns.get_loc(column)] += amount
        assert check in set(n.aidc.audit().violations["check"]), check
        p[column] = before
    series = n.c.generators.dynamic
    series["aidc_call"].iloc[1, 0], series["aidc_depth"].iloc[1, 0] = 2.0, 5.0
    assert {"number of calls", "depth of calls", "pause after calls"} <= set(n.aidc.audit().violations["check"])


def test_blocks_shed_the_same_in_all_of_their_hours() -> None:
    for block, second in ((False, 0.4), (True, 0.8)):
        n = tight(**TABLE, block=block)
        n.loads_t.p_set["town"] = [10, 10, 10, 11.8, 11.4, 10, 10, 10]
        n.aidc.optimize(**QUIET)
        assert n.generators_t.p["f relief"].round(9).tolist() == [0, 0, 0, 0.8, second, 0, 0, 0]


def test_relief_along_a_series_in_two_hours() -> None:
    # Three tight hours and a budget of two: those with the most to save are shed, the dear plant runs in the other.
    n = tight(relief=np.full(8, 0.2), hours=2)
    n.loads_t.p_set["town"] = [10, 11.2, 10, 11.8, 11.8, 10, 10, 10]
    n.aidc.optimize(**QUIET)
    assert n.generators_t.p["f relief"].round(9).tolist() == [0, 0, 0, 0.8, 0.8, 0, 0, 0]
    assert n.aidc.calls()["duration"].tolist() == [2.0]
    with pytest.raises(aidc.InputError, match="events"):
        n.aidc.add_fleet("g", bus="grid", p_nom=1.0, relief=0.2, events=1)


@pytest.mark.slow
def test_beside_training_jobs_and_through_files(tmp_path: Path) -> None:
    n = site(tight())
    result = n.aidc.optimize(**QUIET)
    assert result.edges > 0
    report = n.aidc.audit()
    assert report.passed
    assert {"completion", "relief in calls"} <= set(report.frame["check"])
    assert n.aidc.jobs.index.tolist() == [("dc", "A"), ("f", "fleet")]
    assert "calls of 1 and 2 h" in n.aidc.jobs.loc[("f", "fleet"), "description"]
    assert {"dc", "f"} == set(n.aidc.power().columns.get_level_values("site"))
    assert repr(n.aidc) == "AIDCs of the network: dc, f (1 jobs, 1 fleets)"
    n.export_to_netcdf(tmp_path / "n.nc")
    read = pypsa.Network(tmp_path / "n.nc")
    assert read.aidc.fleets == n.aidc.fleets
    pd.testing.assert_frame_equal(read.aidc.calls(), n.aidc.calls(), check_dtype=False, check_index_type=False)
    assert read.aidc.status == n.aidc.status
    assert read.aidc.audit().passed
    assert read.aidc.optimize(**QUIET).objective == pytest.approx(result.objective)
    read.aidc.remove("f")
    assert not [name for name in read.generators.index if name.startswith("f")]
    assert not read.aidc.fleets


@pytest.mark.parametrize(
    ("terms", "message"),
    [
        pytest.param({"bus": "nowhere"}, "a bus of the network", id="bus"),
        pytest.param({"name": "a/b"}, "letters, digits", id="row 28, name"),
        pytest.param({"name": "town"} | TABLE, None, id="a name that only a load has is free"),
        pytest.param({"name": "dear"}, "Generator 'dear' exists", id="row 28, taken"),
        pytest.param({"p_nom": None}, "Give the size in MW", id="no size"),
        pytest.param({"p_nom": -5.0}, "above 0", id="row 15"),
        pytest.param(
            {"profile": pd.Series(1.0, pd.date_range("2024", periods=8, freq="h"))}, "the series covers", id="row 1"
        ),
        pytest.param({"profile": [1, 1, 1, np.nan, 1, 1, 1, 1]}, "NaN at 2030-01-01 03:00:00", id="row 2"),
        pytest.param({"profile": 96.3}, "percent by 100", id="row 23"),
        pytest.param({"profile": 0.5, "relief": 0.6}, "0.1 above profile at 2030.*8 snapshots", id="row 25"),
        pytest.param({"profile": []}, "0 values", id="row 29, profile"),
        pytest.param({"surface": {}, "peak": 1.0}, "surface", id="row 29, K"),
        pytest.param({"surface": {1: 0.2, 2: np.nan}, "peak": 1.0}, "K at 2 h", id="row 17, NaN"),
        pytest.param(TABLE | {"durations": [4]}, "at most 2 h, the longest of K", id="row 17, beyond"),
        pytest.param({"surface": {1: 0.2}}, "peak", id="no peak"),
        pytest.param({"surface": {1: 0.2}, "peak": 0.1}, "at most 0.1 MW, the peak", id="K above the peak"),
        pytest.param(TABLE | {"relief": 0.1}, "one way to say", id="two sources"),
        pytest.param({"contract": CONTRACT, "peak": 1.0, "q": 0.5}, "which has its own", id="q of a contract"),
        pytest.param({"contract": CONTRACT, "peak": 1.0, "form": "windows"}, "rebound", id="rebound in windows"),
        pytest.param(TABLE | {"form": "windows", "events": 2}, "takes binaries of calls", id="budget in windows"),
        pytest.param(TABLE | {"rebound": 1.0}, "rebound_power", id="rebound without power"),
        pytest.param(TABLE | {"checkpoint": 1.0}, "0 without rebound", id="checkpoint without rebound"),
        pytest.param(TABLE | {"spacing": 1.0}, "start to start", id="spacing shorter than calls"),
        pytest.param({"relief": 0.1, "block": True}, "block", id="block along a path"),
        pytest.param({"hours": 3}, "hours", id="a budget of nothing"),
        pytest.param({"marginal_cost": 3.0}, "without relief", id="cost of nothing"),
        pytest.param(TABLE | {"p_nom": None, "p_nom_extendable": True}, "need a bound", id="calls without p_nom_max"),
        pytest.param({"p_nom_max": 3.0}, "without p_nom_extendable", id="bound of a given size"),
    ],
)
def test_what_cannot_be_is_named_and_nothing_written(terms: dict[str, object], message: str | None) -> None:
    n = grid(8)
    n.add("Load", "town", bus="grid", p_set=1.0)
    n.add("Generator", "dear", bus="grid", p_nom=1.0)
    before = n.generators.copy()
    arguments = {"name": "f", "bus": "grid", "p_nom": 9.0} | terms
    if message is None:
        n.aidc.add_fleet(**arguments)  # type: ignore[arg-type]
        return
    with pytest.raises(aidc.InputError, match=message):
        n.aidc.add_fleet(**arguments)  # type: ignore[arg-type]
    pd.testing.assert_frame_equal(n.generators, before)


def test_k_of_a_surface_follows_its_own_rule() -> None:
    K = aidc.Surface.of([3.0, 1.0, 2.0, 2.0, 3.0, 3.0] * 4, durations=[1, 4, 30], reliabilities=[0.5])
    n = grid(8)
    with pytest.raises(aidc.InputError, match="K at 30 h.*at least one valid window"):
        n.aidc.add_fleet("f", bus="grid", p_nom=9.0, surface=K, peak=10.0, reliability=0.5)
    with pytest.raises(aidc.InputError, match="reliability"):
        n.aidc.add_fleet("f", bus="grid", p_nom=9.0, surface=K, peak=10.0, durations=[1])
    n.aidc.add_fleet("f", bus="grid", p_nom=9.0, surface=K, peak=10.0, reliability=0.5, durations=[1, 2, 4], q=0.5)
    assert n.aidc.fleets["f"].terms.depths == tuple(0.5 * K.at(h, 0.5) / 10 for h in (1, 2, 4))
    n.aidc.add_fleet("g", bus="grid", p_nom=9.0, surface={1: 0.2, 4: 0.1}, peak=1.0, durations=[1, 2, 3, 4])
    assert n.aidc.fleets["g"].terms.depths == (0.2, 0.1, 0.1, 0.1)


def test_units_that_look_like_kilowatts() -> None:
    # Row 30.
    with pytest.warns(aidc.UnitWarning, match="45 times the 20 MW"):
        grid(8, p_nom=20.0).aidc.add_fleet("f", bus="grid", p_nom=900.0)
    with pytest.warns(aidc.UnitWarning, match="Is peak in kW"):
        grid(8).aidc.add_fleet("f", bus="grid", p_nom=9.0, surface={1: 2.5}, peak=54300.0)


def test_other_snapshots_and_names() -> None:
    n = tight(profile=np.full(8, 1.0), **TABLE)
    with pytest.raises(aidc.InputError, match="aidc.remove it first"):
        n.aidc.add_fleet("f", bus="grid", p_nom=1.0)
    with pytest.raises(aidc.InputError, match="a name that no AIDC has"):
        site(n, "f")
    n.set_snapshots(pd.date_range("2031-01-01", periods=8, freq="h"))
    n.loads_t.p_set["town"] = 11.0
    with pytest.raises(aidc.StaleError, match="profile of 'f'"):  # row 3
        n.aidc.optimize(**QUIET)
    constant = tight()
    constant.set_snapshots(pd.date_range("2031-01-01", periods=6, freq="h"))
    constant.loads_t.p_set["town"] = 11.5
    assert constant.aidc.optimize(**QUIET).optimal
    constant.generators_t.p_max_pu["f"] = np.nan
    with pytest.raises(aidc.InputError, match="Generator 'f', p_max_pu: given 'NaN"):
        aidc.network.check_network(constant)


def test_a_fleet_in_an_island_without_supply() -> None:
    # Row 18: its own relief is no supply.
    n = tight()
    n.add("Bus", "island", carrier="AC")
    n.aidc.add_fleet("lonely", bus="island", p_nom=1.0, relief=0.5)
    with pytest.raises(aidc.InputError, match="'lonely' in an island"):
        n.aidc.optimize(**QUIET)


def test_refused_modes() -> None:
    n = tight()
    with pytest.raises(aidc.UnsupportedError, match="rolling horizon"):
        n.optimize.optimize_with_rolling_horizon(
            horizon=4, extra_functionality=aidc.extra_functionality, output_flag=False
        )


def test_a_part_of_the_snapshots() -> None:
    n = tight()
    n.aidc.optimize(n.snapshots[2:6], **QUIET)
    assert n.aidc.calls()["energy"].tolist() == [pytest.approx(1.6)]
    assert len(n.aidc.power()) == 4


def test_each_investment_period_has_its_own_budget() -> None:
    n = pypsa.Network()
    n.set_snapshots(pd.MultiIndex.from_product([[2030, 2040], pd.RangeIndex(4)], names=["period", "timestep"]))
    n.set_investment_periods([2030, 2040])
    n.add("Bus", "grid")
    n.add("Generator", "market", bus="grid", p_nom=9.0, marginal_cost=10.0)
    n.add("Generator", "dear", bus="grid", p_nom=5.0, marginal_cost=500.0)
    n.add("Load", "town", bus="grid", p_set=[0.0, 0.8, 0, 0.8] * 2)
    n.aidc.add_fleet("f", bus="grid", p_nom=9.0, **TABLE, events=1, rebound=1.0, rebound_power=0.5)  # type: ignore[arg-type]
    n.aidc.optimize(multi_investment_periods=True, **QUIET)
    calls = n.aidc.calls()
    assert sorted(label[0] for label in calls["start"]) == [2030, 2040]
    assert calls["rebound"].to_numpy() == pytest.approx(calls["energy"].to_numpy())


def test_a_specification_of_another_version_is_refused() -> None:
    n = tight()
    text = n.generators.at["f", "aidc"]
    for old, new in (('"version": 1', '"version": 9'), ('"depths": [0.2', '"depths": [2.0'), ('"hours"', '"ours"')):
        n.generators.loc["f", "aidc"] = text.replace(old, new)
        with pytest.raises(aidc.SpecError):
            _ = n.aidc.fleets
    n.generators.loc["f", "aidc"] = text
    assert n.aidc.fleets["f"].terms == replace(n.aidc.fleets["f"].terms)
    n.remove("Generator", "f relief")
    with pytest.raises(aidc.SpecError, match="f relief"):
        _ = n.aidc.fleets
    n.aidc.remove("f")
    assert "f" not in n.generators.index


def test_a_plain_solve_keeps_to_the_hours_at_least() -> None:
    # The hook left out, energy is all that still binds: 3 h of at most 20 % of 9 MW.
    n = tight(**TABLE, hours=3, marginal_cost=0.0)
    n.optimize(output_flag=False)
    assert n.generators_t.p["f relief"].sum() == pytest.approx(3 * 0.2 * 9)


def test_all_that_is_missing_is_told_at_once() -> None:
    K = aidc.Surface.of([2.0, 1.0] * 12, durations=[1, 2], reliabilities=[0.5, 0.9])
    with pytest.raises(aidc.InputError) as caught:
        grid(8).aidc.add_fleet("f", bus="grid", p_nom=9.0, surface=K, reliability=95, rebound=1.0)
    told = [fault.where for fault in caught.value.faults]
    assert told == ["peak", "reliability", "rebound_power"]
    assert "0.95 for 95 %" in str(caught.value)


def test_summary_bill_and_value_of_a_fleet() -> None:
    """By hand: prices are 10 USD/MWh but 50 in hours 3 and 4, in which 0.8 of 9 MW are shed at 50 USD/MWh."""
    n = once_solved(tight)
    summary = n.aidc.summary().loc["f"]
    assert summary[["energy", "peak", "least"]].to_numpy().tolist() == pytest.approx([6 * 9 + 2 * 8.2, 9.0, 8.2])
    assert np.isnan(summary["training_energy"])
    bill = n.aidc.bill().xs("f")
    assert bill.loc[["load", "relief", "rebound"], "energy"].tolist() == pytest.approx([72.0, -1.6, 0.0])
    assert bill.loc[["load", "relief"], "payment"].tolist() == pytest.approx([6 * 90 + 2 * 450, -80.0])
    assert n.aidc.costs().loc[("Generator", "AIDC relief"), "cost"] == pytest.approx(80.0)
    # The objective counts each MWh that is supplied, and relief as one.
    assert n.aidc.costs()["cost"].sum() == pytest.approx(n.objective)
    # Without relief the dear plant runs, 1.6 MWh at 500 in place of 50 USD/MWh.
    table = n.aidc.values(**QUIET)
    assert list(table.index) == [("f", "relief")]
    assert table["value"].item() == pytest.approx(1.6 * (500 - 50))
    with pytest.raises(aidc.InputError, match="no AIDC"):
        grid(8).aidc.values(**QUIET)


def test_a_site_and_a_fleet_in_one_summary() -> None:
    n = tight()
    site(n, base_load=0.1)
    n.aidc.optimize(**QUIET)
    assert list(n.aidc.summary().index) == ["dc", "f"]
    assert n.aidc.summary()["peak_gpus"].isna().tolist() == [False, True]
    assert set(n.aidc.bill().index.get_level_values("site")) == {"dc", "f"}
