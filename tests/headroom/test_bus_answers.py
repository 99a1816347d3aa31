"""Redispatch, responses, faults of networks and arguments, and what a result can do."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pypsa
import pytest

from pypsa_aidc.errors import InputError, NotSolvedError, StaleError, UnitWarning, UnsupportedError
from pypsa_aidc.fleet import Contract, Surface
from pypsa_aidc.headroom import BusHeadroom, bus_headroom
from pypsa_aidc.headroom.bus.response import Response, largest_site
from tests.headroom.grids import random_grid, triangle


def test_redispatch_by_hand() -> None:
    """All supply is at A, so redispatch changes nothing at B and C; with 50 MW at C it does.

    Site at C: the 50 MW serve the load of 30 and 20 of the site; the rest comes from A: 20 + 110/(2/3) = 185.
    """
    n = triangle()
    assert bus_headroom(n, redispatch=True).headroom.to_list() == pytest.approx([970.0, 135.0, 135.0])
    n.add("Generator", "H", bus="C", p_nom=50.0, p_set=0.0)
    fixed = bus_headroom(n, ["C"], slack={"A": 1.0}).headroom["C"]
    frame = bus_headroom(n, ["C"], redispatch=True).to_frame()
    assert fixed == pytest.approx(135.0)
    assert frame.loc["C", "headroom"] == pytest.approx(185.0)
    assert frame.loc["C", "element"] == "Line AC"
    assert frame.loc["C", "shadow_value"] == pytest.approx(1.5)


def test_redispatch_with_outages_by_hand() -> None:
    """As in the fixed dispatch: all supply is at A. See `test_three_buses_with_outages_by_hand`."""
    frame = bus_headroom(triangle(), ["B", "C"], redispatch=True, contingencies="all").to_frame()
    assert frame["headroom"].to_list() == pytest.approx([70.0, 60.0])
    assert frame["element"].to_list() == ["Line AB", "Line BC"]
    assert frame["outage"].to_list() == ["Line AC", "Line AC"]


WINDOWS = {1: 0.2, 2: 0.15, 4: 0.1}


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("outages", [None, "all"])
def test_contract_lies_between_firm_and_tier(seed: int, outages: str | None) -> None:
    """κ_h ≤ 0.2: firm ≤ contract ≤ tier of 20 % = firm/0.8, and full curtailment is without limit."""
    n = random_grid(seed, rating=2.0)
    firm = bus_headroom(n, contingencies=outages).headroom
    contract = bus_headroom(n, contingencies=outages, contract=WINDOWS).headroom
    tier = bus_headroom(n, contingencies=outages, relief=0.2).headroom
    assert (contract >= firm * (1 - 1e-9)).all()
    assert (contract > firm + 1e-3).any()
    assert (contract <= tier * (1 + 1e-9)).all()
    assert tier.to_numpy() == pytest.approx(firm.to_numpy() / 0.8)
    assert (bus_headroom(n, contingencies=outages, relief=1.0).to_frame()["status"] == "unlimited").all()


def with_redispatch(n: pypsa.Network, bus: str, outages: list[tuple[str, str]]) -> float:
    """PyPSA's own security-constrained optimisation with a constant draw of free size as the only thing of value."""
    m = n.copy()
    for component in ("Generator", "StorageUnit"):
        m.c[component].static["p_set"] = np.nan
        m.c[component].dynamic["p_set"] = pd.DataFrame(index=m.snapshots)
    m.add("Generator", "site", bus=bus, sign=-1, p_nom_extendable=True, p_min_pu=1.0, capital_cost=-1.0)
    options = {"log_to_console": False, "progress": False}
    if outages:
        ended = m.optimize.optimize_security_constrained(branch_outages=pd.MultiIndex.from_tuples(outages), **options)
    else:
        ended = m.optimize(**options)
    assert ended == ("ok", "optimal")
    return float(m.generators.at["site", "p_nom_opt"])


@pytest.fixture(scope="session")
def stored_energy() -> pypsa.Network:
    """Loops, a phase shifter and a battery that starts full and may end empty."""
    n = random_grid(1, hours=4, rating=1.5)
    n.storage_units["state_of_charge_initial"] = 60.0
    n.storage_units["cyclic_state_of_charge"] = False
    return n


def test_redispatch_equals_the_optimisation_of_pypsa(stored_energy: pypsa.Network) -> None:
    outages = [("Line", "0-1"), ("Line", "1-2"), ("Transformer", "pst")]
    for chosen in ([], outages):
        found = bus_headroom(stored_energy, ["b2"], redispatch=True, contingencies=chosen or None).headroom
        assert found["b2"] == pytest.approx(with_redispatch(stored_energy, "b2", chosen), rel=1e-5)


def test_redispatch_is_worth_something_and_outages_cost_something(stored_energy: pypsa.Network) -> None:
    """Fixed ≤ redispatch, N-1 ≤ N-0, firm ≤ contract ≤ tier of 20 %, which is at least firm/0.8; full is unlimited."""
    buses = ["b2", "b5", "b6"]
    secure = {"redispatch": True, "contingencies": "all"}
    fixed = bus_headroom(stored_energy, buses, contingencies="all").headroom
    free = bus_headroom(stored_energy, buses, redispatch=True).headroom
    firm = bus_headroom(stored_energy, buses, **secure).headroom
    contract = bus_headroom(stored_energy, buses, contract=WINDOWS, **secure).headroom
    tier = bus_headroom(stored_energy, buses, relief=0.2, **secure).headroom
    full = bus_headroom(stored_energy, buses, relief=1.0, **secure)
    for lower, higher in ((fixed, firm), (firm, free), (firm, contract), (contract, tier)):
        assert (lower <= higher * (1 + 1e-6)).all()
        assert (lower < higher - 1e-3).any()
    assert (tier >= firm / 0.8 * (1 - 1e-6)).all()
    assert (full.to_frame()["status"] == "unlimited").all()


def test_windows_by_linear_programme() -> None:
    """Newton's end of the interval against the programme over L and r_t, on random draws."""
    from scipy.optimize import linprog

    rng = np.random.default_rng(3)
    for _ in range(40):
        hours = int(rng.integers(3, 12))
        draw = rng.uniform(0.0, 100.0, (1, hours))
        load, relief = rng.uniform(0.5, 1.0, hours), rng.uniform(0.0, 0.6, hours)
        windows = ((1, 0.3), (3, 0.2), (24, 0.12))
        site = Response(load, np.minimum(relief, load), windows)
        size, price = largest_site(draw, site)
        rows, right = [], []
        for t in range(hours):
            rows += [np.r_[load[t], -np.eye(hours)[t]], np.r_[-site.relief[t], np.eye(hours)[t]]]
            right += [draw[0, t], 0.0]
        for length, depth in windows:
            for start in range(max(hours - length, 0) + 1):
                rows.append(np.r_[-length * depth, np.isin(np.arange(hours), np.arange(start, start + length))])
                right.append(0.0)
        found = linprog(np.r_[-1.0, np.zeros(hours)], A_ub=np.array(rows), b_ub=right, bounds=(0, None))
        assert size[0] == pytest.approx(found.x[0], rel=1e-8, abs=1e-9)
        # The price of a draw is what a little more of it brings.
        more, _ = largest_site(draw + 1e-6, site)
        assert (more[0] - size[0]) / 1e-6 == pytest.approx(price.sum(), rel=1e-3)


def test_surface_and_contract_become_windows() -> None:
    """K of a fleet of 10 MW peak over 10 is its depth; a contract of 4 h every 8.49 h has the energy of 4 h in 9 h."""
    n = random_grid(1, hours=12, rating=3.0)
    K = Surface.of(np.r_[np.full(90, 2.0), np.full(10, 1.0)], durations=[1, 4], reliabilities=[0.8])
    result = bus_headroom(n, ["b6"], contract=K, peak=10.0, reliability=0.8)
    assert result.data.attrs["response"] == "windows of 1 h at 0.2, 4 h at 0.2"
    terms = Contract(power=2.3199, duration=4, reliability=0.95, noneligible=23.264)
    words = bus_headroom(n, ["b6"], contract=terms, peak=10.0).data.attrs["response"]
    assert words == f"windows of 1 h at {0.23199:.4g}, 9 h at {0.23199 * 4 / 9:.4g}"


def test_radial_bus_and_outage_that_splits() -> None:
    n = random_grid(0, rating=3.0)
    result = bus_headroom(n, contingencies="all")
    assert result.data.attrs["splitting"] == "Line 5-6"
    assert "1 outages split" in repr(result)
    assert result.to_frame()["cut_off_by"].to_dict() == dict.fromkeys(n.buses.index, "") | {"b6": "Line 5-6"}


def test_overloaded_base_case_is_named() -> None:
    """AB carries 10 MW and may carry 4: 6 too much. In the programme all supply is at A, so the same."""
    n = triangle(AB=4.0)
    for again in (False, True):
        frame = bus_headroom(n, redispatch=again).to_frame()
        assert (frame["status"] == "overloaded base case").all()
        assert (frame["headroom"] == 0).all()
    frame = bus_headroom(n).to_frame()
    assert (frame["element"] == "Line AB").all()
    assert frame["excess"].to_list() == pytest.approx([6.0] * 3)
    # A site at A touches no line: it worsens nothing.
    assert bus_headroom(n, overloads="worsened").headroom.to_list() == pytest.approx([970.0, 0.0, 0.0])


def test_buses_without_lines_and_islands() -> None:
    n = triangle()
    n.add("Bus", ["own", "empty"], v_nom=230.0)
    n.add("Generator", "local", bus="own", p_nom=40.0, p_set=0.0)
    frame = bus_headroom(n).to_frame()
    assert frame.loc["own", "headroom"] == pytest.approx(40.0)
    assert frame.loc["own", "element"].startswith("generation of sub-network")
    assert frame.loc["empty", ["headroom", "status"]].to_list() == [0.0, "no supply"]


def test_line_ratings_of_zero_and_infinity_and_inactive_lines() -> None:
    n = triangle(AB=np.inf, BC=np.inf)
    assert bus_headroom(n, ["B"]).to_frame().loc["B", "element"] == "Line AC"
    n.lines.loc["AC", "active"] = False
    assert bus_headroom(n, ["B"]).to_frame().loc["B", "element"].startswith("generation")
    n = triangle(load=0.0, BC=0.0)
    assert bus_headroom(n, ["C"]).to_frame().loc["C", ["headroom", "element"]].to_list() == [0.0, "Line BC"]


@pytest.mark.parametrize("again", [False, True])
def test_zero_impedance_is_refused_by_name(again: bool) -> None:
    n = triangle()
    n.lines.loc["AB", "x"] = 0.0
    with pytest.raises(InputError, match="Line 'AB'"):
        bus_headroom(n, redispatch=again)


def test_network_without_dispatch_is_refused() -> None:
    n = triangle()
    n.generators["p_set"] = np.nan
    with pytest.raises(NotSolvedError, match="needs base flows"):
        bus_headroom(n)
    n.generators["p_set"] = 20.0
    with pytest.raises(InputError, match="-10 MW"):
        bus_headroom(n)


def test_stale_solution_is_refused() -> None:
    n = triangle()
    n.lpf()
    n.lines.loc["AB", "x"] = 30.0
    with pytest.raises(StaleError, match="reactances"):
        bus_headroom(n)
    n.lines.loc["AB", "x"] = 10.0
    n.loads["p_set"] = 50.0
    with pytest.raises(StaleError, match="bus 'C'"):
        bus_headroom(n)


def test_unit_commitment_is_refused() -> None:
    n = triangle()
    n.generators["committable"] = True
    with pytest.raises(UnsupportedError, match="unit commitment"):
        bus_headroom(n)


def test_units_that_look_wrong_are_warned_about() -> None:
    """Row 30: a profile in MW; a load in kW on lines in MW: AC carries 20,000 MW on 110."""
    with pytest.warns(UnitWarning, match="375 MW per MW"):
        bus_headroom(triangle(), ["B"], load=375.0)
    n = triangle(load=30e3)
    n.generators["p_nom"] = 1e6
    with pytest.warns(UnitWarning, match="182 times its rating of 110 MW"):
        assert (bus_headroom(n).headroom == 0).all()


def test_all_faults_of_arguments_at_once() -> None:
    with pytest.raises(InputError) as caught:
        bus_headroom(triangle(), ["X"], emergency=0.5, slack="all", cutoff=2.0)
    assert {fault.where for fault in caught.value.faults} == {"buses", "emergency", "slack", "cutoff"}
    with pytest.raises(InputError, match="slack.*no meaning"):
        bus_headroom(triangle(), redispatch=True, slack="load")
    with pytest.raises(InputError, match="'XY'"):
        bus_headroom(triangle(), contingencies=["XY"])
    with pytest.raises(InputError, match="no value for 1 of 1"):
        bus_headroom(triangle(), load=pd.Series([1.0], ["later"]))
    with pytest.raises(InputError, match="peak"):
        bus_headroom(triangle(), contract=Surface.of([1.0, 1.0], [1], [0.9]))


def test_result_files_and_map(tmp_path: Path) -> None:
    result = bus_headroom(triangle(), contingencies="all")
    result.to_netcdf(tmp_path / "headroom.nc")
    again = BusHeadroom.read(tmp_path / "headroom.nc")
    pd.testing.assert_frame_equal(again.to_frame(), result.to_frame(), check_dtype=False, check_index_type=False)
    result.to_csv(tmp_path / "headroom.csv")
    assert pd.read_csv(tmp_path / "headroom.csv", index_col="bus")["headroom"].to_dict() == result.headroom.to_dict()
    axes, scale = again.plot().axes
    assert {text.get_text() for text in axes.texts} >= {"Line AB", "Line BC"}
    assert scale.get_ylim()[0] == 0
    assert "3 buses: 3 limited" in repr(result)
    (tmp_path / "other.nc").write_text("nothing")
    with pytest.raises(InputError, match="netCDF"):
        BusHeadroom.read(tmp_path / "other.nc")


def test_network_is_left_as_it_is() -> None:
    n = triangle()
    before = n.copy()
    assert isinstance(bus_headroom(n, redispatch=True, contingencies="all"), BusHeadroom)
    bus_headroom(n)
    for component in ("Generator", "Line", "Bus", "Load"):
        pd.testing.assert_frame_equal(n.c[component].static, before.c[component].static)
    n.generators[["p_set", "marginal_cost"]] = [np.nan, 10.0]
    n.optimize(log_to_console=False, progress=False)
    assert bus_headroom(n, ["C"]).headroom["C"] == pytest.approx(135.0)
    assert n.model.solver_model is not None
