"""Battery, genset, UPS and cooling behind the meter: by hand, and the envelope of a site against hourly programmes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pypsa
import pytest
from scipy.optimize import linprog

from pypsa_aidc.cli.config import load_config
from pypsa_aidc.errors import Faults, InputError
from pypsa_aidc.headroom import Budget, Request, site_envelope
from pypsa_aidc.headroom.service.allocation import Hours
from pypsa_aidc.headroom.service.replay import attributed
from pypsa_aidc.headroom.service.request import Relief
from pypsa_aidc.network import UPS, Battery, Cooling, Genset
from tests.headroom.test_service import two_lines
from tests.network.tiny import QUIET, grid, job, site


def test_a_genset_runs_whole_hours_within_its_permit() -> None:
    n = pypsa.Network(snapshots=range(6))
    n.add("Carrier", "AC")
    n.add("Bus", "grid", carrier="AC")
    n.add("Generator", "base", bus="grid", p_nom=100.0, marginal_cost=20.0)
    n.add("Generator", "peaker", bus="grid", p_nom=100.0, marginal_cost=200.0)
    n.add("Load", "town", bus="grid", p_set=[0.0, 0.0, 20.0, 5.0, 40.0, 0.0])
    n.aidc.add_fleet("fleet", bus="grid", p_nom=100.0)
    n.aidc.add_behind_the_meter("fleet", genset=Genset(p_nom=10.0, run_hours=2, marginal_cost=100.0))
    n.aidc.optimize(**QUIET)
    # In the hour of 5 MW it would have to run at full load too: 180 USD/MWh are saved by half of it alone.
    assert n.generators_t.p["fleet genset"].tolist() == pytest.approx([0, 0, 10, 0, 10, 0])
    assert n.objective == pytest.approx(600 * 20 + 65 * 200 - 20 * 100)
    with pytest.raises(InputError, match="not taken"):
        n.aidc.add_behind_the_meter("fleet", genset=Genset(p_nom=10.0, run_hours=2, marginal_cost=100.0))
    n.aidc.remove("fleet")
    assert list(n.generators.index) == ["base", "peaker"]


def test_what_stands_behind_the_meter_of_a_site_is_audited() -> None:
    n = site(grid(), jobs=[job("A")], gpus=8)
    name = "dc"
    ups = UPS(p_nom=0.3, minutes=12, ride_through_minutes=2, efficiency=1.0)
    cooling = Cooling(heat=0.4, e_nom=0.8, cop=5.0)
    n.aidc.add_behind_the_meter(name, battery=Battery(p_nom=0.2, e_nom=0.4), ups=ups, cooling=cooling)
    assert set(n.storage_units["bus"]) == {f"{name} IT"}
    assert n.storage_units.at[f"{name} UPS", "max_hours"] == pytest.approx(10 / 60)
    n.aidc.optimize(**QUIET)
    n.aidc.audit().raise_if_violated()
    power = n.aidc.power()
    given = n.storage_units_t.p.sum(axis=1)
    assert given.abs().max() > 0.1
    # What they give, the meter need not.
    assert power["dc", "meter"].to_numpy() == pytest.approx(1.25 * (power["dc", "IT"] - given).to_numpy())
    assert power["dc", "behind the meter"].to_numpy() == pytest.approx(-given.to_numpy())
    # A fifth of the heat is electricity, and each megawatt of it one at the meter, whose PUE is 1.25.
    heat = -n.storage_units_t.state_of_charge["dc cooling"].diff().iloc[1:]
    assert heat.abs().max() == pytest.approx(0.4)
    np.testing.assert_allclose(1.25 * n.storage_units_t.p["dc cooling"].iloc[1:], heat / 5, atol=1e-9)
    with pytest.raises(InputError, match="cooling behind its meter"):
        n.aidc.update(name, pue=1.4)


def test_wrong_units_are_refused() -> None:
    with pytest.raises(InputError) as error:
        Battery(p_nom=0.0, e_nom=-1.0, efficiency=1.2)
    assert len(error.value.faults) == 3
    with pytest.raises(InputError, match="ride_through"):
        UPS(p_nom=1.0, minutes=5, ride_through_minutes=5)
    n = grid()
    with pytest.raises(InputError) as error:
        n.aidc.add_behind_the_meter("nobody")
    assert len(error.value.faults) == 2


@pytest.mark.parametrize("hours", [1, 3, 6])
def test_the_envelope_is_the_cheapest_relief_of_an_hourly_programme(hours: int) -> None:
    windows = {1: 0.06, 4: 0.05, 8: 0.03}
    battery = Battery(p_nom=12.0, e_nom=30.0, efficiency=0.81, marginal_cost=40.0)
    genset = Genset(p_nom=15.0, run_hours=50, marginal_cost=250.0)
    found = site_envelope(
        200.0, durations=[hours], contract=windows, contract_cost=90.0, battery=battery, genset=genset
    )
    rows = pd.DataFrame(found.table.xs(hours, level="duration"))
    assert list(rows.index) == ["battery", "K", "genset"]
    for depth in (0.5 * rows["depth"].iloc[0], rows["depth"].iloc[1] - 0.5, rows["depth"].iloc[2]):
        left, cost = depth, 0.0
        for row in rows.itertuples():
            taken = min(left, row.mw)
            left, cost = left - taken, cost + taken * row.usd_per_mwh * hours
        # Battery, K and genset in each hour; K within h·κ of the shortest window that is known to last long enough.
        kappa = max(value for length, value in windows.items() if length >= hours)
        price = np.repeat([40.0, 90.0, 250.0], hours)
        balance = np.hstack([np.eye(hours)] * 3)
        energy = np.zeros((2, 3 * hours))
        energy[0, :hours], energy[1, hours : 2 * hours] = 1.0, 1.0
        bounds = [(0, 12.0)] * hours + [(0, 0.06 * 200)] * hours + [(0, 15.0)] * hours
        best = linprog(price, energy, [27.0, hours * kappa * 200], balance, np.full(hours, depth), bounds)
        assert best.fun == pytest.approx(cost)
    assert not linprog(
        price, energy, [27.0, hours * kappa * 200], balance, np.full(hours, rows["depth"].iloc[2] + 0.01), bounds
    ).success


def test_several_gensets_are_surer_than_one() -> None:
    """Two of three that start in nine cases of ten: 0.729 + 3 · 0.081 = 0.972."""
    units = Genset(p_nom=30.0, run_hours=100, units=3, marginal_cost=200.0)
    found = site_envelope(100.0, durations=[2], genset=units, genset_reliability=0.9, contract={2: 0.1})
    row = found.table.loc[(2, "genset")]
    assert (row["mw"], row["reliability"]) == (20.0, pytest.approx(0.972))
    assert found.depth(2) == pytest.approx(30.0)
    assert found.depth(2, reliability=0.99) == pytest.approx(10.0)
    assert found.depth(2, cost=100.0) == pytest.approx(10.0)


def fleet_with_cold() -> pypsa.Network:
    """Two cool hours at COP 6, one at 25 °C and COP 4.5, two hot ones at COP 3 and 200 USD/MWh, one at 25 °C."""
    n = pypsa.Network(snapshots=range(6))
    n.add("Carrier", "AC")
    n.add("Bus", "grid", carrier="AC")
    n.add("Generator", "base", bus="grid", p_nom=100.0, marginal_cost=[20.0, 20.0, 20.0, 200.0, 200.0, 20.0])
    n.aidc.add_fleet("fleet", bus="grid", p_nom=30.0)
    cooling = Cooling(
        heat=20.0,
        e_nom=30.0,
        recharge=10.0,
        cop=[(10.0, 6.0), (40.0, 3.0)],
        temperature=[10.0, 10.0, 25.0, 40.0, 40.0, 25.0],
    )
    n.aidc.add_behind_the_meter("fleet", cooling=cooling)
    return n


def test_cold_is_stored_when_it_is_cool_and_cheap(tmp_path: Path) -> None:
    """30 MWh of heat spare 30/3 MWh at 200 USD; filled again with 10/6 + 10/6 + 10/4.5 MWh at 20 USD."""
    n = fleet_with_cold()
    n.aidc.optimize(**QUIET)
    n.aidc.audit().raise_if_violated()
    cost = 30 * (4 * 20 + 2 * 200) - 10 * 200 + (20 / 6 + 10 / 4.5) * 20
    assert n.objective == pytest.approx(cost)
    given = n.storage_units_t.p["fleet cooling"]
    assert given.max() <= 20 / 3 + 1e-6
    assert given[3] + given[4] == pytest.approx(10.0)
    plain = pypsa.Network(n.aidc.export(tmp_path / "cold.nc"))
    plain.optimize(**QUIET)
    assert plain.objective == pytest.approx(cost)
    plain.set_snapshots(range(8))
    assert "cooling of 'fleet': 6 values" in str(plain.aidc.check())
    plain.aidc.remove("fleet")
    assert plain.storage_units.empty


def test_cooling_is_no_more_than_the_site_has() -> None:
    n = site(grid(), jobs=[job("A")], gpus=8, base_load=0.5)
    with pytest.raises(InputError) as error:
        n.aidc.add_behind_the_meter("dc", cooling=Cooling(heat=0.6, e_nom=1.0, cop=2.0))
    # 1/2 MW for each MW of heat, where the PUE leaves 0.25; 0.6 MW of heat, where 0.5 MW are always drawn.
    assert len(error.value.faults) == 2
    assert n.storage_units.empty
    n.aidc.add_fleet("fleet", bus="grid", p_nom=30.0, surface={1: 2.0, 2: 1.0}, peak=10.0)
    # 20 % of relief leave 24 MW, of which at COP 5 one in six is cooling.
    with pytest.raises(InputError, match="at most 20 MW"):
        n.aidc.add_behind_the_meter("fleet", cooling=Cooling(heat=20.1, e_nom=1.0, cop=5.0))
    n.aidc.add_behind_the_meter("fleet", cooling=Cooling(heat=20.0, e_nom=1.0, cop=5.0))


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"cop": [(10.0, 8.0), (40.0, 3.0)]}, "temperature"),
        ({"cop": [(10.0, 8.0), (40.0,)], "temperature": 20.0}, "two pairs"),
        ({"cop": [(10.0, 8.0), (40.0, 3.0)], "temperature": 86.0}, "Fahrenheit"),
        ({"cop": [(10.0, 8.0), (40.0, 3.0)], "temperature": [20.0, 41.0]}, "not extrapolated"),
        ({"cop": 5.0, "temperature": 20.0}, "none: the COP is a number"),
        ({"cop": 400.0}, "at most 100"),
    ],
)
def test_wrong_cops_are_refused(given: dict[str, object], told: str) -> None:
    with pytest.raises(InputError, match=told):
        Cooling(heat=1.0, e_nom=1.0, **given)


def test_cooling_has_depth_and_duration() -> None:
    """40 MWh less a tenth each hour: (40 · 0.9 − q) · 0.9 = q gives 32.4/1.9 MW of heat; at COP 4 a quarter of it."""
    tank = Cooling(heat=20.0, e_nom=40.0, cop=4.0, loss=0.1, marginal_cost=30.0)
    found = site_envelope(100.0, durations=[1, 2], contract={2: 0.1}, contract_cost=50.0, cooling=tank)
    rows = found.table
    assert rows["mw"].tolist() == pytest.approx([5.0, 10.0, 32.4 / 1.9 / 4, 10.0])
    assert list(rows.index.get_level_values("source")) == ["cooling", "K"] * 2


def test_cuts_are_delivered_source_by_source() -> None:
    """K first; then the battery of 4 MW and 6 MWh, then cold, whose COP is lower in the third hour."""
    hours = Hours(np.ones(5), 1.0, np.array([True, *[False] * 4]))
    units = [
        Cooling(heat=12.0, e_nom=24.0, cop=[6.0, 6.0, 3.0, 6.0, 6.0], marginal_cost=50.0),
        Battery(p_nom=4.0, e_nom=6.0, efficiency=1.0, marginal_cost=40.0),
    ]
    cut = np.array([0.0, 10.0, 10.0, 10.0, 0.0])
    found = attributed(cut, 100.0, Relief(((1, 0.03),), 1.0, source="K"), units, hours, pd.RangeIndex(5))
    # 12 MW of heat are 2 MW at COP 6 and 4 MW at COP 3; the 24 MWh are gone by then.
    expected = {"K": [0, 3, 0, 0, 0], "battery": [0, 4, 2, 0, 0], "cooling": [0, 2, 4, 0, 0]}
    assert list(found) == list(expected)
    for source, megawatts in expected.items():
        np.testing.assert_allclose(found[source], megawatts, atol=1e-9)


def test_a_store_is_filled_a_day_later_and_not_in_an_event() -> None:
    """10 MWh less a tenth an hour: 9, and after 4 of them 5 · 0.9; in the event 20 h later 10 − 8.5 are left."""
    hours = Hours(np.ones(60), 1.0, np.array([True, *[False] * 59]))
    cut = np.zeros(60)
    cut[[0, 1, 21, 50]] = 4.0, 8.0, 8.0, 20.0
    found = attributed(cut, 1.0, None, [Cooling(heat=20.0, e_nom=10.0, cop=1.0, loss=0.1)], hours, pd.RangeIndex(60))
    np.testing.assert_allclose(found["cooling"][[0, 1, 21, 50]], [4.0, 4.5, 1.5 * 0.9, 9.0])
    # 30 h without a break: what it holds, once.
    long = np.r_[np.full(30, 1.0), np.zeros(30)]
    battery = Battery(p_nom=1.0, e_nom=6.0, efficiency=1.0)
    assert attributed(long, 1.0, None, [battery], hours, pd.RangeIndex(60))["battery"].sum() == pytest.approx(6.0)


def test_a_study_tells_what_each_source_delivers() -> None:
    """Of 30 MW in one hour K has 20; the genset, allowed an hour, 6; the UPS a quarter of an hour."""
    units = [Genset(p_nom=6.0, run_hours=1, marginal_cost=250.0), UPS(p_nom=1.0, minutes=30, ride_through_minutes=15)]
    own = {"contract": {1: 0.5}, "units": units}
    request = Request(name="one", bus="B", nameplate=50.0, budget=Budget(hours=1, longest=1), **own)
    study = two_lines().aidc.study([request], contingencies="all", redispatch=False)
    assert study.allocation["not_delivered"].item() == pytest.approx(4 - 0.25 * 0.9**0.5)
    shares = study.sources.droplevel(["year", "request", "dispatch"])["energy"]
    assert shares.to_dict() == pytest.approx({"windows": 20.0, "ups": 0.25 * 0.9**0.5, "genset": 6.0})
    sheet = study.term_sheets()["one"]
    assert [(each.source, each.mw) for each in sheet.sources if each.source == "genset"] == [("genset", 6.0)]
    with pytest.raises(InputError, match="nothing without a budget"):
        Request(name="one", bus="B", nameplate=50.0, units=units)


def test_units_of_a_request_in_a_file(tmp_path: Path) -> None:
    """By temperature from a CSV file beside it; what is wrong is named by line, with all else."""
    (tmp_path / "out.csv").write_text("at,celsius\n0,10\n1,40\n")
    request = """\
requests:
  - name: east
    bus: B
    nameplate: 50
    budget: {hours: 1}
    battery: {p_nom: 4, e_nom: 6}
    cooling: {heat: 12, e_nom: 24, cop: [[10, 6], [40, 3]], temperature: {file: out.csv, column: celsius}}
"""
    (tmp_path / "study.yaml").write_text(request)
    battery, cooling = load_config(tmp_path / "study.yaml", needs="requests").requests[0].request(tmp_path, {}).units
    assert battery == Battery(p_nom=4.0, e_nom=6.0)
    assert cooling.cop_of(pd.RangeIndex(2), Faults("cop")).tolist() == [6.0, 3.0]
    (tmp_path / "study.yaml").write_text(
        request.replace("p_nom: 4", "p_nom: -4").replace("cop: [[10, 6], [40, 3]], ", "")
    )
    with pytest.raises(InputError) as error:
        load_config(tmp_path / "study.yaml", needs="requests")
    assert [fault.where for fault in error.value.faults] == [
        "line 6, requests[0].battery.p_nom",
        "line 7, requests[0].cooling.cop",
    ]
