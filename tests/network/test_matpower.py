"""MATPOWER cases: the WSCC 9-bus system (Anderson and Fouad 1980), as MATPOWER's case9.m has it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import pypsa_aidc as aidc
from pypsa_aidc.network.files.cases import _blocks
from tests.network.tiny import QUIET, job, site

CASE = """function mpc = case9
mpc.version = '2';
mpc.baseMVA = 100;
%% bus_i type Pd Qd Gs Bs area Vm Va baseKV zone Vmax Vmin
mpc.bus = [
	1	3	0	0	0	0	1	1	0	345	1	1.1	0.9;
	2	2	0	0	0	0	1	1	0	345	1	1.1	0.9;
	3	2	0	0	0	0	1	1	0	345	1	1.1	0.9;
	4	1	0	0	0	0	1	1	0	345	1	1.1	0.9;
	5	1	90	30	0	0	1	1	0	345	1	1.1	0.9;
	6	1	0	0	0	0	1	1	0	345	1	1.1	0.9;
	7	1	100	35	0	0	1	1	0	345	1	1.1	0.9;
	8	1	0	0	0	0	1	1	0	345	1	1.1	0.9;
	9	1	125	50	0	0	1	1	0	345	1	1.1	0.9;
];
%% bus Pg Qg Qmax Qmin Vg mBase status Pmax Pmin
mpc.gen = [
	1	72.3	27.03	300	-300	1.04	100	1	250	10	0	0	0	0	0	0	0	0	0	0	0;
	2	163	6.54	300	-300	1.025	100	1	300	10	0	0	0	0	0	0	0	0	0	0	0;
	3	85	-10.95	300	-300	1.025	100	1	270	10	0	0	0	0	0	0	0	0	0	0	0;
];
%% fbus tbus r x b rateA rateB rateC ratio angle status angmin angmax
mpc.branch = [
	1	4	0	0.0576	0	250	250	250	0	0	1	-360	360;
	4	5	0.017	0.092	0.158	250	250	250	0	0	1	-360	360;
	5	6	0.039	0.17	0.358	150	150	150	0	0	1	-360	360;
	3	6	0	0.0586	0	300	300	300	0	0	1	-360	360;
	6	7	0.0119	0.1008	0.209	150	150	150	0	0	1	-360	360;
	7	8	0.0085	0.072	0.149	250	250	250	0	0	1	-360	360;
	8	2	0	0.0625	0	250	250	250	0	0	1	-360	360;
	8	9	0.032	0.161	0.306	250	250	250	0	0	1	-360	360;
	9	4	0.01	0.085	0.176	250	250	250	0	0	1	-360	360;
];
mpc.gencost = [
	2	1500	0	3	0.11	5	150;
	2	2000	0	3	0.085	1.2	600;
	2	3000	0	3	0.1225	1	335;
];
"""
_ROWS = CASE.split("mpc.branch = [\n")[1].split("];")[0].strip().split("\n")
BRANCHES = np.array([[float(cell) for cell in row.strip("\t;").split("\t")] for row in _ROWS])
INJECTIONS = np.array([67.0, 163.0, 85.0, 0, -90.0, 0, -100.0, 0, -125.0])


def case(tmp_path: Path, text: str = CASE) -> Path:
    (tmp_path / "case9.m").write_text(text)
    return tmp_path / "case9.m"


def dc_flow() -> np.ndarray:
    """Flows by a nodal matrix of its own, in MW: θ = B⁻¹ P with bus 1 as reference."""
    ends, susceptance = BRANCHES[:, :2].astype(int) - 1, 1 / BRANCHES[:, 3]
    incidence = np.zeros((9, 9))
    incidence[np.arange(9), ends[:, 0]], incidence[np.arange(9), ends[:, 1]] = 1.0, -1.0
    nodal = incidence.T @ np.diag(susceptance) @ incidence
    angles = np.concatenate([[0.0], np.linalg.solve(nodal[1:, 1:], INJECTIONS[1:])])
    return susceptance * (incidence @ angles)


def test_dc_power_flow(tmp_path: Path) -> None:
    n = aidc.from_case(case(tmp_path))
    n.generators["p_set"] = [67.0, 163.0, 85.0]
    n.lpf()
    flows = n.lines_t.p0.iloc[0].to_numpy()
    np.testing.assert_allclose(flows, dc_flow(), atol=1e-6)
    # By hand: each generator has one branch, so those flows are its power; the ring carries the rest.
    np.testing.assert_allclose(flows[[0, 3, 6]], [67.0, 85.0, -163.0], atol=1e-6)
    np.testing.assert_allclose(flows[1] - flows[2], 90.0, atol=1e-6)


def test_dc_optimal_power_flow(tmp_path: Path) -> None:
    """No line binds, so all generators run at one price λ = c1 + 2 c2 p and share 315 MW: solved by hand."""
    n = aidc.from_case(case(tmp_path))
    assert n.optimize(output_flag=False) == ("ok", "optimal")
    linear, quadratic = np.array([5.0, 1.2, 1.0]), np.array([0.11, 0.085, 0.1225])
    price = (315 + (linear / (2 * quadratic)).sum()) / (1 / (2 * quadratic)).sum()
    np.testing.assert_allclose(n.generators_t.p.iloc[0], (price - linear) / (2 * quadratic), atol=1e-3)
    np.testing.assert_allclose(n.buses_t.marginal_price.iloc[0], price, rtol=1e-4)


def test_an_aidc_in_a_case_and_a_file_of_it(tmp_path: Path) -> None:
    n = aidc.from_case(case(tmp_path))
    n.generators["marginal_cost_quadratic"] = 0.0
    n.set_snapshots(pd.date_range("2030-01-01", periods=8, freq="h"))
    site(n, "dc", [job()], bus="5")
    n.aidc.optimize(**QUIET)
    n.aidc.export(tmp_path / "frozen.nc")
    assert aidc.load(tmp_path / "frozen.nc").aidc.summary().loc["dc", "energy"] > 0


def test_what_is_out_of_service_or_unlimited(tmp_path: Path) -> None:
    text = CASE.replace(
        "6\t7\t0.0119\t0.1008\t0.209\t150\t150\t150\t0\t0\t1", "6\t7\t0.0119\t0.1008\t0.209\t0\t0\t0\t0\t0\t1"
    )
    text = text.replace("0.176\t250\t250\t250\t0\t0\t1", "0.176\t250\t250\t250\t0\t0\t0")
    text = text.replace("-10.95\t300\t-300\t1.025\t100\t1", "-10.95\t300\t-300\t1.025\t100\t0")
    n = aidc.from_case(case(tmp_path, text))
    assert len(n.lines) == 8
    assert list(n.generators["bus"]) == ["1", "2"]
    assert list(n.generators["marginal_cost"]) == [5.0, 1.2]
    unlimited = n.lines.loc[(n.lines["bus0"] == "6") & (n.lines["bus1"] == "7"), "s_nom"].item()
    assert unlimited > 10 * (250 + 300)
    assert n.optimize(output_flag=False) == ("ok", "optimal")


def test_piecewise_linear_costs(tmp_path: Path) -> None:
    head, _ = CASE.split("mpc.gencost")
    rows = "".join(f"\t1\t0\t0\t2\t0\t0\t100\t{cost};\n" for cost in (500, 120, 100))
    n = aidc.from_case(case(tmp_path, head + f"mpc.gencost = [\n{rows}];\n"))
    np.testing.assert_allclose(n.generators["marginal_cost"], [5.0, 1.2, 1.0])


@pytest.mark.parametrize(
    ("old", "new", "named"),
    [
        ("mpc.version = '2'", "mpc.version = '1'", "version"),
        ("mpc.branch", "mpc.twig", "MATPOWER case"),
        ("\t1\t4\t0\t0.0576", "\t1\t44\t0\t0.0576", "numbers of buses"),
        ("2\t1500\t0\t3\t0.11\t5\t150", "2\t1500\t0\t3\tnan\t5\t150", "gencost"),
        (CASE, "no case at all", "MATPOWER case"),
    ],
)
def test_damaged_cases_are_named(tmp_path: Path, old: str, new: str, named: str) -> None:
    assert old in CASE
    with pytest.raises(aidc.InputError, match=named):
        aidc.from_case(case(tmp_path, CASE.replace(old, new)))


def test_costs_of_a_degree_that_pypsa_lacks(tmp_path: Path) -> None:
    rows = "".join("\t2\t0\t0\t4\t0.001\t0.1\t5\t0;\n" for _ in range(3))
    with pytest.raises(aidc.UnsupportedError, match="degree 2"):
        aidc.from_case(case(tmp_path, CASE.split("mpc.gencost")[0] + f"mpc.gencost = [\n{rows}];\n"))


def test_the_comments_of_published_cases_continue_no_line(tmp_path: Path) -> None:
    header = "%\t1\tstartup\tshutdown\tn\tx1\ty1\t...\txn\tyn\n"
    n = aidc.from_case(case(tmp_path, CASE.replace("mpc.gencost", header + "mpc.gencost")))
    assert list(n.generators["marginal_cost"]) == [5.0, 1.2, 1.0]
    assert {"1-4", "4-5", "9-4"} <= set(n.lines.index)


def test_files_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(aidc.InputError, match="existing case"):
        aidc.from_case(tmp_path / "nowhere.m")


TWO_BUSES = """function mpc = c
mpc.version = '2';
mpc.baseMVA = 100;
mpc.bus = [1 3 0 0 0 0 1 1 0 230 1 1.1 0.9; 2 1 80 0 0 0 1 1 0 230 1 1.1 0.9];
mpc.gen = [1 80 0 50 -50 1 100 1 200 0; 2 -60 0 0 0 1 100 1 0 -60];
mpc.branch = [1 2 0.01 0.1 0 300 0 0 0 0 1 -360 360];
mpc.gencost = [2 0 0 2 20 0; 2 0 0 2 50 0];
"""


def test_a_generator_that_can_only_consume_is_a_load(tmp_path: Path) -> None:
    n = aidc.from_case(case(tmp_path, TWO_BUSES))
    assert n.generators[["p_nom", "p_min_pu", "p_max_pu"]].iloc[1].tolist() == [60.0, -1.0, 0.0]
    # The load of 60 MW pays 50 USD/MWh for what costs 20: (80 + 60) · 20 - 60 · 50.
    n.optimize(output_flag=False)
    assert n.objective == pytest.approx(140 * 20 - 60 * 50)


@pytest.mark.parametrize("limits", ["0 0", "-360 360", "0 360", "-400 0"])
def test_angles_that_are_no_limits(tmp_path: Path, limits: str) -> None:
    n = aidc.from_case(case(tmp_path, TWO_BUSES.replace("-360 360", limits)))
    assert np.isinf(n.lines["v_ang_max"]).all()
    assert n.optimize(output_flag=False) == ("ok", "optimal")


def test_angles_that_are_limits(tmp_path: Path) -> None:
    """2° over x = 0.1 at 100 MVA: 1000 MW · 0.0349 rad = 34.9 MW, less than the 80 MW of the load."""
    n = aidc.from_case(case(tmp_path, TWO_BUSES.replace("-360 360", "-2 2")))
    n.add("Generator", "dear", bus="2", p_nom=100.0, marginal_cost=100.0)
    n.optimize(output_flag=False)
    assert n.lines_t.p0.iloc[0, 0] == pytest.approx(1000 * np.deg2rad(2))
    with pytest.warns(aidc.CaseWarning, match="by direction"):
        aidc.from_case(case(tmp_path, TWO_BUSES.replace("-360 360", "-2 5")))


def test_dc_lines_are_links_in_both_directions(tmp_path: Path) -> None:
    dc = "mpc.dcline = [1 2 1 10 8.9 0 0 1 1 -20 40 -10 10 -10 10 0 0.01; 1 2 0 0 0 0 0 1 1 0 9 0 0 0 0 0 0];\n"
    n = aidc.from_case(case(tmp_path, TWO_BUSES + dc))
    assert n.links["p_nom"].to_dict() == {"DC0": 40.0, "DC0 back": 20.0}
    assert n.links["efficiency"].tolist() == [0.99, 0.99]
    with pytest.warns(aidc.CaseWarning, match="lose 3 MW at any power"):
        aidc.from_case(case(tmp_path, TWO_BUSES + dc.replace("10 0 0.01", "10 3 0.01")))


@pytest.mark.parametrize(
    "code", ["mpc.branch(:, 3) = mpc.branch(:, 3) / 100;", "[PQ, PV] = idx_bus;", "mpc.baseMVA = 10 * 10;", "x = 3;"]
)
def test_code_after_the_tables_is_refused(tmp_path: Path, code: str) -> None:
    with pytest.raises(aidc.InputError, match="code in the case"):
        aidc.from_case(case(tmp_path, TWO_BUSES + code))


@pytest.mark.parametrize("row", ["1 0 0 1 100 500", "1 0 0 2 50 500 50 600", "1 0 0 2 0 0", "2 0 0 0 0 0"])
def test_degenerate_costs_are_refused(tmp_path: Path, row: str) -> None:
    with pytest.raises(aidc.InputError, match="gencost, row 1"):
        aidc.from_case(case(tmp_path, TWO_BUSES.replace("2 0 0 2 20 0", row)))


def test_quadratic_costs_as_blocks(tmp_path: Path) -> None:
    """At 10 MW of a hundred blocks' ends the cost is right; an AIDC can be solved with it."""
    exact, blocks = (aidc.from_case(case(tmp_path), quadratic=each) for each in ("exact", "piecewise"))
    for n in (exact, blocks):
        n.optimize(output_flag=False)
    blocks.generators["plant"] = blocks.generators.index.str.split(" ").str[0]
    power = blocks.generators_t.p.T.groupby(blocks.generators["plant"]).sum().T.iloc[0]
    # Widths of the blocks: (Pmax - Pmin) / 10.
    assert np.abs(power - exact.generators_t.p.iloc[0]).max() < 29.0
    cost = {"G0": (5.0, 0.11), "G1": (1.2, 0.085), "G2": (1.0, 0.1225)}
    true = sum(linear * power[name] + square * power[name] ** 2 for name, (linear, square) in cost.items())
    # Chords lie above the curve, by at most c2 · width² / 4.
    assert 0 <= blocks.objective - true <= sum(c * w**2 / 4 for c, w in ((0.11, 24), (0.085, 29), (0.1225, 26)))
    assert exact.objective <= true + 1e-6
    blocks.set_snapshots(pd.date_range("2030-01-01", periods=4, freq="h"))
    site(blocks, "dc", [job(hours=2.0, segments=2)], bus="5")
    assert blocks.aidc.optimize(**QUIET).audit


def test_blocks_below_the_least_output_and_of_loads() -> None:
    found = list(_blocks(-60.0, -20.0, np.array([2.0, 0, 0, 2, 50, 0]), "G"))
    assert [(each["p_nom"], each["p_min_pu"], each["p_max_pu"]) for each in found] == [(40, -1, 0), (20, -1, -1)]
    found = list(_blocks(10.0, 30.0, np.array([1.0, 0, 0, 3, 0, 0, 20, 200, 40, 800]), "G"))
    assert [(each["p_nom"], each["p_min_pu"], each["marginal_cost"]) for each in found] == [
        (10, 1, 10),
        (10, 0, 10),
        (10, 0, 30),
    ]
    with pytest.raises(aidc.UnsupportedError, match="fall with more output"):
        list(_blocks(0.0, 30.0, np.array([2.0, 0, 0, 3, -0.1, 5, 0]), "G"))
