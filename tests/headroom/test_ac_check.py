"""AC power flow beside the linear one: two buses solved by hand, and the same figures as headroom's."""

from __future__ import annotations

import math

import numpy as np
import pypsa
import pytest

import pypsa_aidc as aidc
from pypsa_aidc.headroom import Budget, Contingency, Request
from tests.headroom.grids import triangle
from tests.network.tiny import job, site

R, X, RATING, V = 2.0, 20.0, 200.0, 230.0


def two_buses(load: float = 100.0) -> pypsa.Network:
    n = pypsa.Network()
    n.add("Bus", ["A", "B"], v_nom=V)
    n.add("Line", ["1", "2"], bus0="A", bus1="B", r=2 * R, x=2 * X, s_nom=RATING / 2)
    n.add("Generator", "G", bus="A", p_nom=2000.0, p_set=load)
    n.add("Load", "L", bus="B", p_set=load)
    return n


def by_hand(p: float, q: float) -> tuple[float, float, float]:
    """Voltage at the far end, MVA at the near one and losses: x² + x (2(RP + XQ) − V²) + |Z|² S² = 0 for x = V_B²."""
    half, last = (2 * (R * p + X * q) - V**2) / 2, (R**2 + X**2) * (p**2 + q**2)
    far = math.sqrt(-half + math.sqrt(half**2 - last))
    current = (p**2 + q**2) / far**2
    return far / V, math.hypot(p + R * current, q + X * current), R * current


@pytest.mark.parametrize("power_factor", [1.0, 0.9])
def test_two_buses(power_factor: float) -> None:
    added, q = 90.0, 90.0 * math.tan(math.acos(power_factor))
    voltage, apparent, losses = by_hand(190.0, q)
    row = two_buses().aidc.ac_check({"B": added}, power_factor=power_factor).iloc[0]
    assert row["dc_loading"] == pytest.approx(0.95)
    assert row["ac_loading"] == pytest.approx(apparent / RATING, rel=1e-6)
    assert (row["v_min"], row["v_min_bus"]) == (pytest.approx(voltage, rel=1e-6), "B")
    assert row["losses"] == pytest.approx(losses, rel=1e-6)
    # At 0.9 the reactive power overloads the lines, which linear flows do not show.
    assert row["fails"] == ("" if power_factor == 1 else f"MVA on {row['ac_element']}")


def test_the_first_that_fails() -> None:
    n = two_buses()
    n.add("Generator", "far", bus="B", p_nom=5.0, p_set=0.0, control="PQ")
    n.generators.loc["G", "control"] = "PV"
    cases = [("now", None), ("now", "1")]
    found = n.aidc.ac_check({"B": 150.0}, cases)
    assert list(found.index) == [("now", ""), ("now", "Line 1")]
    assert [text.split(" on ")[0] for text in found["fails"]] == ["linear flow", "linear flow"]
    # The linear flow of 250 MW less 150·5/1905 MW at the far end, over one line of 100 MVA at 1.5 times its rating.
    served = 150.0 * 5.0 / 1905.0
    assert n.aidc.ac_check({"B": 150.0}, cases, emergency=1.5)["dc_loading"].iloc[1] == pytest.approx(
        (250.0 - served) / 150.0
    )
    n.lines["s_nom"] = 1e5
    low = n.aidc.ac_check({"B": 150.0}, voltages=(0.99, 1.05)).iloc[0]
    assert low["fails"] == "voltage of bus B"
    n.buses.loc["B", "v_mag_pu_min"] = 0.8
    assert n.aidc.ac_check({"B": 150.0}, voltages=(0.99, 1.05))["fails"].iloc[0] == ""
    # More than V²/2(|Z| + R cos φ + X sin φ) does not arrive by any voltage: 880 MVA at a power factor of 0.95.
    most = V**2 / (2 * (math.hypot(R, X) + R * 0.95 + X * math.sin(math.acos(0.95)))) * 0.95
    n.loads["p_set"] = n.generators.loc["G", "p_set"] = 0.0
    n.generators.loc["far", "p_nom"] = 1e-3
    assert n.aidc.ac_check({"B": 0.98 * most})["converged"].iloc[0]
    collapsed = n.aidc.ac_check({"B": 1.02 * most}, voltages=(0.1, 1.1)).iloc[0]
    assert collapsed["fails"] == "no solution of the AC power flow"
    assert np.isnan(collapsed["ac_loading"])
    assert n.aidc.ac_check({"B": 2500.0})["fails"].iloc[0] == "generation of sub-network 0"


def test_a_size_of_headroom_loads_its_element_in_full() -> None:
    n = triangle()
    n.lines["r"] = 0.5
    answer = n.aidc.headroom(["C"], contingencies="all").to_frame().loc["C"]
    assert answer["outage"].startswith("Line")
    row = n.aidc.ac_check({"C": answer["headroom"]}, [("now", answer["outage"].split()[1])]).iloc[0]
    assert row["dc_loading"] == pytest.approx(1.0)
    assert row["dc_element"] == answer["element"]
    assert row["ac_loading"] > 1.0


def test_outages_that_split_and_aidcs_of_the_network() -> None:
    n = triangle()
    n.add("Bus", "D", v_nom=230.0)
    n.add("Line", "CD", bus0="C", bus1="D", x=10.0, s_nom=500.0)
    n.set_snapshots(range(3))
    n.generators.loc["G", ["p_set", "marginal_cost"]] = [np.nan, 10.0]
    site(n, "dc", [job(hours=2.0, segments=2)], bus="D")
    n.aidc.optimize(solver_options={"output_flag": False}, progress=False)
    drawn = n.aidc.sites["dc"].power(n)["meter"]
    busy = drawn.idxmax()
    found = n.aidc.ac_check(cases=[(busy, None), (busy, "CD")], power_factor=0.8)
    assert found["fails"].tolist()[1] == "the outage splits the network"
    at_unity = n.aidc.ac_check(cases=[(busy, None)], power_factor=1.0)
    assert found["v_min"].iloc[0] < at_unity["v_min"].iloc[0]
    assert found["dc_loading"].iloc[0] == pytest.approx(at_unity["dc_loading"].iloc[0])


def test_everything_wrong_at_once() -> None:
    with pytest.raises(aidc.InputError) as refused:
        two_buses().aidc.ac_check({"C": 5.0, "B": -1.0}, [("then", "3")], power_factor=2.0, voltages=(1.0, 0.9))
    assert len(refused.value.faults) == 6


def test_a_study_is_checked_where_it_binds() -> None:
    """60 MW and, firm, 40 MW more at a power factor of 0.9 over one line of twice the impedance, by hand."""
    n = two_buses(60.0)
    n.add("Generator", "spare", bus="A", p_nom=10.0, p_set=0.0)
    requests = [
        Request(name="east", bus="B", nameplate=70.0, budget=Budget(hours=1, depth=0.5), power_factor=0.9),
        Request(name="at the plant", bus="A", nameplate=5.0),
    ]
    outages = ["1", Contingency(("1", ("Generator", "spare")), "both")]
    study = n.aidc.study(requests, contingencies=outages, redispatch=False)
    assert study.allocation["firm"].tolist() == pytest.approx([40.0, 5.0])
    found = study.ac_check()
    q = 40.0 * math.tan(math.acos(0.9))
    voltage, apparent, _ = by_hand(2 * 100.0, 2 * q)
    row = found.loc[("", "firm", "now", "Line 1")]
    assert (row["limits"], row["element"]) == ("east", "Line 2")
    assert row["dc_loading"] == pytest.approx(1.0)
    assert row["ac_loading"] == pytest.approx(apparent / RATING, rel=1e-6)
    assert row["v_min"] == pytest.approx(voltage, rel=1e-6)
    assert row["fails"] == "MVA on Line 2"
    # Cut to 40 MW in the outage, the conditional size rests on the same flow.
    assert study.allocation["conditional"].iloc[0] == pytest.approx(70.0)
    held = found.loc[("", "conditional", "now", "Line 1")]
    assert held["dc_loading"] == pytest.approx(1.0)
    assert held["ac_loading"] == pytest.approx(apparent / RATING, rel=1e-6)
    # What no power flow of one branch less says is not said.
    unchecked = found[found["fails"].str.startswith("not checked")]
    assert set(unchecked.index.get_level_values("outage")) <= {"both"}
    n.loads["p_set"] = 50.0
    with pytest.raises(aidc.StaleError):
        study.ac_check()
