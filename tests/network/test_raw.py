"""Cases of other programs: a PSS/E file with all that such files have, and published ones where they are installed."""

from __future__ import annotations

import importlib.util
import re
import warnings
from pathlib import Path

import numpy as np
import powerio
import pypsa
import pytest

import pypsa_aidc as aidc
from pypsa_aidc.network import Battery
from tests.network.test_matpower import CASE
from tests.network.tiny import QUIET, site

pytestmark = pytest.mark.smoke

RAW = """0, 100.00, 33, 0, 0, 60.00 / REV 33
A small case
with three voltages
1,'ONE',230.0,3,1,1,1,1.02,0.0,1.1,0.9,1.1,0.9
2,'TWO',230.0,1,1,1,1,1.0,-1.0,1.1,0.9,1.1,0.9
3,'THREE',115.0,2,1,1,1,1.01,-2.0,1.1,0.9,1.1,0.9
4,'DEAD',115.0,4,1,1,1,1.0,0.0,1.1,0.9,1.1,0.9
5,'FIVE',115.0,1,1,1,1,1.0,-2.0,1.1,0.9,1.1,0.9
0 / END OF BUS DATA, BEGIN LOAD DATA
2,'1',1,1,1,80.0,20.0,0,0,0,0,1,1
2,'2',0,1,1,500.0,20.0,0,0,0,0,1,1
5,'1',1,1,1,30.0,10.0,0,0,0,0,1,1
0 / END OF LOAD DATA, BEGIN FIXED SHUNT DATA
2,'1',1,0.0,10.0
2,'2',0,0.0,1000.0
0 / END OF FIXED SHUNT DATA, BEGIN GENERATOR DATA
1,'1',70.0,10.0,100,-100,1.02,0,200,0,1,0,0,1,1,100,200,0,1,1
3,'1',40.0,10.0,100,-100,1.01,0,200,0,1,0,0,1,1,100,150,0,1,1
3,'2',40.0,10.0,100,-100,1.01,0,200,0,1,0,0,1,0,100,150,0,1,1
0 / END OF GENERATOR DATA, BEGIN BRANCH DATA
1,2,'1',0.01,0.1,0.02,150,160,170,0,0,0,0,1,1,0,1,1
1,2,'2',0.01,0.2,0.02,150,160,170,0,0,0,0,1,1,0,1,1
1,2,'3',0.01,0.2,0.02,150,160,170,0,0,0,0,0,1,0,1,1
3,5,'1',0.02,0.1,0.01,0,0,0,0,0.03,0,0,1,1,0,1,1
0 / END OF BRANCH DATA, BEGIN TRANSFORMER DATA
2,3,0,'1',1,1,1,0,0,2,'T',1,1,1
0.0,0.08,100
1.05,0,5.0,200,200,200,0,0,1.1,0.9,1.1,0.9,33,0,0,0
1.0,0
1,2,5,'1',1,1,1,0,0,2,'W3',1,1,1
0.0,0.1,100,0.0,0.2,100,0.0,0.2,100,1.0,0.0
1.0,230,0,100,100,100,0,0,1.1,0.9,1.1,0.9,33,0,0,0
1.0,230,0,100,100,100,0,0,1.1,0.9,1.1,0.9,33,0,0,0
1.0,115,0,100,100,100,0,0,1.1,0.9,1.1,0.9,33,0,0,0
0 / END OF TRANSFORMER DATA, BEGIN AREA DATA
0 / END OF AREA DATA, BEGIN TWO-TERMINAL DC DATA
'DC1',1,1.0,20.0,500.0,0,0,0.1,'I',0,20,1
1,2,10,5,0,0,230,1,1,1.1,0.9,0.01,0,0,0,'1',0
2,2,10,5,0,0,230,1,1,1.1,0.9,0.01,0,0,0,'1',0
0 / END OF TWO-TERMINAL DC DATA, BEGIN VOLTAGE SOURCE CONVERTER DATA
Q
"""
BRANCHES = [
    # from, to, r, x, charging, tap, shift: the star of 0.1, 0.2, 0.2 has legs of 0.05, 0.05 and 0.15.
    (1, 2, 0.01, 0.1, 0.02, 1.0, 0.0),
    (1, 2, 0.01, 0.2, 0.02, 1.0, 0.0),
    (3, 5, 0.02, 0.1, 0.01, 1.0, 0.0),
    (2, 3, 0.0, 0.08, 0.0, 1.05, 5.0),
    (1, 6, 0.0, 0.05, 0.0, 1.0, 0.0),
    (2, 6, 0.0, 0.05, 0.0, 1.0, 0.0),
    (5, 6, 0.0, 0.15, 0.0, 1.0, 0.0),
]
BUSES = [1, 2, 3, 5, 6]
NAMES = ["1", "2", "3", "5", "star 1-2-5"]


def raw(tmp_path: Path, text: str = RAW, name: str = "small.raw") -> Path:
    (tmp_path / name).write_text(text)
    return tmp_path / name


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> pypsa.Network:
    return aidc.from_case(raw(tmp_path_factory.mktemp("raw")))


def dc_flows(branches: list[tuple[float, ...]], buses: list[int], injected: np.ndarray, base: float) -> np.ndarray:
    """Linear flows by nodal equations, MW: b (θ_f − θ_t − shift) with b = 1/(x tap)."""
    table = np.array(branches)
    place = {bus: at for at, bus in enumerate(buses)}
    incidence = np.zeros((len(table), len(buses)))
    for row, (start, end) in enumerate(table[:, :2]):
        incidence[row, place[int(start)]], incidence[row, place[int(end)]] = 1.0, -1.0
    susceptance, shift = 1 / (table[:, 3] * table[:, 5]), np.radians(table[:, 6])
    known = injected / base + incidence.T @ (susceptance * shift)
    angles = np.zeros(len(buses))
    angles[1:] = np.linalg.solve((incidence.T * susceptance @ incidence)[1:, 1:], known[1:])
    return base * susceptance * (incidence @ angles - shift)


def flows(n: pypsa.Network) -> dict[tuple[str, str], list[float]]:
    found: dict[tuple[str, str], list[float]] = {}
    for component in (n.c.lines, n.c.transformers):
        for name, row in component.static.iterrows():
            found.setdefault((row["bus0"], row["bus1"]), []).append(float(component.dynamic["p0"][name].iloc[0]))
    return {ends: sorted(each) for ends, each in found.items()}


def test_what_is_read(small: pypsa.Network) -> None:
    assert list(small.buses.index) == NAMES
    assert small.loads.groupby("bus")["p_set"].sum().to_dict() == {"2": 80.0, "5": 30.0}
    assert small.generators[["bus", "p_nom"]].to_numpy().tolist() == [["1", 200.0], ["3", 150.0]]
    assert {"1-2", "1-2 (2)", "3-5"} <= set(small.lines.index)
    assert small.transformers.at["2-3", "phase_shift"] == 5.0
    assert small.lines.at["3-5", "s_nom"] > 10 * 350
    assert small.links[["bus0", "bus1", "p_set"]].to_numpy().tolist() == [["1", "2", 20.0]]
    told = " ".join(small.meta["case"])
    for words in (
        "star 1-2-5", "1 × isolated bus", "1 × generator out of service", "1 × branch out of service",
        "1 × circuit parallel", "1 × branch that shifts phase", "1 × branch without rating", "1 × DC line as links",
        "1 out of service load", "G0 at bus 1 given +0.0 MW",
    ):  # fmt: skip
        assert words in told, told


def test_linear_flows(small: pypsa.Network) -> None:
    small = small.copy()
    # What the DC line delivers is 20 MW less its losses of (20/500)² kA² · 1 Ω.
    delivered = 20 - (20 / 500) ** 2
    given = small.generators["p_set"].to_numpy()
    injected = np.array([given[0] - 20, delivered - 80, given[1], -30, 0.0])
    expected = dc_flows(BRANCHES, BUSES, injected, 100.0)
    small.lpf()
    named = dict(zip(BUSES, NAMES, strict=True))
    for (start, end, *_), flow in zip(BRANCHES, expected, strict=True):
        found = flows(small)[named[int(start)], named[int(end)]]
        assert np.abs(np.array(found) - flow).min() < 1e-6


def test_power_flow_reproduces_the_solution_of_the_case(tmp_path: Path) -> None:
    """Voltages by a Newton method of its own, from the data above; the case has them as its solution."""
    place = {bus: at for at, bus in enumerate(BUSES)}
    nodal = np.zeros((5, 5), complex)
    for start, end, r, x, charging, tap, shift in BRANCHES:
        f, t, series, ratio = place[start], place[end], 1 / complex(r, x), tap * np.exp(1j * np.radians(shift))
        nodal[f, f] += (series + 0.5j * charging) / tap**2
        nodal[t, t] += series + 0.5j * charging
        nodal[f, t] -= series / np.conj(ratio)
        nodal[t, f] -= series / ratio
    # A fixed shunt of 10 MVAr at 2, and line shunts of 0.03 at the start of 3-5.
    nodal[place[2], place[2]] += 0.1j
    nodal[place[3], place[3]] += 0.03j
    power = np.array([0, -80 + 20 - 0.0016, 40, -30, 0]) / 100 + 1j * np.array([0, -20, 0, -10, 0]) / 100
    size, unknown = np.array([1.02, 1.0, 1.01, 1.0, 1.0]), [1, 3, 4]
    angle = np.zeros(5)

    def mismatch(values: np.ndarray) -> np.ndarray:
        angle[1:], size[unknown] = values[:4], values[4:]
        voltage = size * np.exp(1j * angle)
        missing = voltage * np.conj(nodal @ voltage) - power
        return np.concatenate([missing.real[1:], missing.imag[unknown]])

    values = np.array([0, 0, 0, 0, 1.0, 1.0, 1.0])
    for _ in range(10):
        now = mismatch(values)
        steps = np.array([(mismatch(values + 1e-7 * unit) - now) / 1e-7 for unit in np.eye(7)]).T
        values = values - np.linalg.solve(steps, now)
    assert np.abs(mismatch(values)).max() < 1e-9
    n = aidc.from_case(raw(tmp_path))
    assert n.pf()["converged"].all(axis=None)
    np.testing.assert_allclose(n.buses_t.v_mag_pu.iloc[0], size, atol=1e-6)
    np.testing.assert_allclose(n.buses_t.v_ang.iloc[0], angle, atol=1e-6)


def test_a_generator_at_its_limit_of_reactive_power_does_not_regulate(tmp_path: Path) -> None:
    limited = RAW.replace("3,'1',40.0,10.0,100,-100,1.01", "3,'1',40.0,10.0,10,-100,1.08")
    n = aidc.from_case(raw(tmp_path, limited))
    assert n.generators[["control", "q_set"]].to_numpy().tolist() == [["Slack", 10.0], ["PQ", 10.0]]


def test_a_case_without_costs_keeps_its_dispatch_unless_told_otherwise(tmp_path: Path, small: pypsa.Network) -> None:
    assert small.generators["p_set"].sum() == pytest.approx(110, abs=0.01)
    assert aidc.from_case(raw(tmp_path), dispatch=False).generators["p_set"].isna().all()
    (tmp_path / "case9.m").write_text(CASE)
    kept = aidc.from_case(tmp_path / "case9.m", dispatch=True)
    # The losses of the case, 72.3 + 163 + 85 − 315 MW, are taken off the slack.
    assert kept.generators["p_set"].tolist() == pytest.approx([67.0, 163.0, 85.0])


def test_limits_that_are_none_are_told(tmp_path: Path) -> None:
    with pytest.warns(aidc.CaseWarning, match="1 generator of 9999 MW or more, which stands for no limit"):
        n = aidc.load(raw(tmp_path, RAW.replace("1,1,100,200,0", "1,1,100,9999,0", 1)))
    assert [each.what for each in n.aidc.check().of("note") if each.component == "case"] == n.meta["case"]


def test_sections_without_names_are_refused(tmp_path: Path) -> None:
    with pytest.raises(aidc.InputError, match="without the name"):
        aidc.from_case(raw(tmp_path, re.sub(r"^0 /.*$", "0", RAW, flags=re.MULTILINE)))


@pytest.mark.parametrize(("text", "named"), [("no case", "PSS/E"), (RAW.replace("2,3,0,'1'", "2,33,0,'1'"), "33")])
def test_damaged_files_are_named(tmp_path: Path, text: str, named: str) -> None:
    with pytest.raises(aidc.InputError, match=named):
        aidc.from_case(raw(tmp_path, text))


@pytest.mark.parametrize("suffix", ["aux", "epc"])
def test_other_programs(tmp_path: Path, suffix: str) -> None:
    """A case of MATPOWER written by powerio as PowerWorld and PSLF would; all read as the case itself."""
    (tmp_path / "case9.m").write_text(CASE)
    text = powerio.emit(powerio.parse(str(tmp_path / "case9.m")), {"aux": "powerworld", "epc": "pslf"}[suffix]).text
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", aidc.CaseWarning)
        n = aidc.from_case(raw(tmp_path, text, f"case9.{suffix}"), dispatch=False)
    expected = aidc.from_case(tmp_path / "case9.m")
    for component, columns in (("Line", ["bus0", "bus1", "r", "x", "b", "s_nom"]), ("Generator", ["bus", "p_nom"])):
        left, right = (each.c[component].static[columns].reset_index(drop=True) for each in (n, expected))
        assert len(left) == len(right)
        for column in columns:
            assert left[column].astype(float).tolist() == pytest.approx(right[column].astype(float).tolist(), rel=1e-5)


@pytest.mark.parametrize("suffix", ["m", "raw"])
def test_a_case_with_an_aidc_goes_out_and_comes_back(tmp_path: Path, small: pypsa.Network, suffix: str) -> None:
    n = small.copy()
    n.add("Generator", "AIDC", bus="5", sign=-1, p_nom=12.0, p_set=12.0)
    n.aidc.export(tmp_path / f"out.{suffix}")
    back = aidc.from_case(tmp_path / f"out.{suffix}", dispatch=True)
    # Buses are numbered in order, so bus 5 is 4. The slack serves the 12 MW when it is read again.
    assert back.loads.groupby("bus")["p_set"].sum().to_dict() == pytest.approx({"2": 80.0, "4": 42.0})
    assert back.generators["p_set"].sum() == pytest.approx(small.generators["p_set"].sum() + 12.0, abs=0.01)
    expected = small.copy()
    expected.loads.loc[expected.loads["bus"] == "5", "p_set"] += 12.0
    for each in (expected, back):
        assert each.pf()["converged"].all(axis=None)
    np.testing.assert_allclose(back.buses_t.v_mag_pu.iloc[0], expected.buses_t.v_mag_pu.iloc[0], atol=1e-6)


@pytest.fixture(scope="module")
def solved_with_aidcs() -> pypsa.Network:
    """Town loads at B and C; a fleet with relief at B, another with a battery at C, and a site with a battery at C."""
    n = pypsa.Network(snapshots=range(4))
    n.add("Carrier", "AC")
    n.add("Bus", ["A", "B", "C"], carrier="AC", v_nom=220.0)
    for name, bus0, bus1 in (("AB", "A", "B"), ("BC", "B", "C"), ("CA", "C", "A")):
        n.add("Line", name, bus0=bus0, bus1=bus1, x=0.1, r=0.01, s_nom=500.0)
    n.add("Generator", "G", bus="A", p_nom=500.0, marginal_cost=[10.0, 90.0, 20.0, 300.0])
    n.add("Load", ["LB", "LC"], bus=["B", "C"], p_set=[40.0, 25.0])
    n.aidc.add_fleet("east", bus="B", p_nom=20.0, relief=0.25, marginal_cost=50.0)
    n.aidc.add_fleet("west", bus="C", p_nom=30.0)
    site(n, bus="C", base_load=2.0)
    for name in ("west", "dc"):
        n.aidc.add_behind_the_meter(name, battery=Battery(p_nom=1.5, e_nom=3.0))
    n.aidc.optimize(**QUIET)
    return n


@pytest.mark.parametrize("suffix", ["m", "raw"])
def test_fleets_and_sites_are_loads_of_a_case(tmp_path: Path, solved_with_aidcs: pypsa.Network, suffix: str) -> None:
    n = solved_with_aidcs
    n.aidc.export(tmp_path / f"out.{suffix}", snapshot=3)
    back = aidc.from_case(tmp_path / f"out.{suffix}", dispatch=True)
    found = back.loads.groupby("bus")["p_set"].sum()
    given = n.storage_units_t.p.loc[3]
    assert given.min() > 1.0
    # The dear hour: a quarter of 20 MW is not drawn; what the site's battery gives, its meter does not show.
    meter = 1.25 * (n.aidc.power().loc[3, ("dc", "IT")] - given["dc battery"])
    expected = {"2": 40.0 + 15.0, "3": 25.0 + 30.0 - given["west battery"] + meter}
    assert found.to_dict() == pytest.approx(expected, abs=1e-6)
    assert back.generators["p_set"].sum() == pytest.approx(sum(expected.values()), abs=0.01)


PUBLISHED = importlib.util.find_spec("andes")


@pytest.mark.skipif(PUBLISHED is None, reason="the package andes, which has the cases, is not installed")
@pytest.mark.parametrize("case", ["ieee39/ieee39.raw", "npcc/npcc.raw"])
def test_published_cases(case: str) -> None:
    assert PUBLISHED is not None
    assert PUBLISHED.origin is not None
    path = Path(PUBLISHED.origin).parent / "cases" / case
    records = powerio.parse(str(path)).value
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", aidc.CaseWarning)
        n = aidc.from_case(path)
    if "ieee39" in case:
        # Added to the file after it was solved: the power of these four is what its voltages leave unbalanced.
        n.remove("Generator", n.generators.index[n.generators["bus"].isin(["2", "10", "20", "25"])])
    buses = [bus["id"] for bus in records.buses]
    power = n.generators.groupby("bus")["p_set"].sum().sub(n.loads.groupby("bus")["p_set"].sum(), fill_value=0.0)
    injected = power.reindex([str(bus) for bus in buses], fill_value=0.0).to_numpy(copy=True)
    columns = ("from_id", "to_id", "r", "x", "b", "tap", "shift")
    rows = [tuple(branch[name] for name in columns) for branch in records.branches]
    branches = [(*row[:5], row[5] or 1.0, row[6]) for row in rows]
    slack = next(at for at, bus in enumerate(records.buses) if bus["kind"] == "REF")
    injected[slack] -= injected.sum()
    order = [slack, *[at for at in range(len(buses)) if at != slack]]
    expected: dict[tuple[str, str], list[float]] = {}
    linear = dc_flows(branches, [buses[at] for at in order], injected[order], records.base_mva)
    for (start, end, *_), flow in zip(branches, linear, strict=True):
        expected.setdefault((str(start), str(end)), []).append(float(flow))
    n.lpf()
    found = flows(n)
    assert max(np.abs(np.array(found[ends]) - sorted(each)).max() for ends, each in expected.items()) < 1e-6
    assert n.pf()["converged"].all(axis=None)
    voltage = n.buses_t.v_mag_pu.iloc[0]
    assert max(abs(voltage[str(bus["id"])] - bus["vm"]) for bus in records.buses) < 1e-3
