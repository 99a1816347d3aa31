"""Battery, genset and UPS behind the meter: by hand, and the envelope of a site against hourly programmes."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pypsa
import pytest
from scipy.optimize import linprog

from pypsa_aidc.errors import InputError
from pypsa_aidc.headroom import site_envelope
from pypsa_aidc.network import UPS, Battery, Genset
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
    n.aidc.add_behind_the_meter(name, battery=Battery(p_nom=0.2, e_nom=0.4), ups=ups)
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
