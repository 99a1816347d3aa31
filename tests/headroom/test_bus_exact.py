"""Headroom with a fixed dispatch: a hand calculation, linear programmes in angles, and outages solved again."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pypsa
import pytest

from pypsa_aidc.headroom import bus_headroom
from pypsa_aidc.headroom.bus.base_case import base_case
from pypsa_aidc.headroom.bus.factors import base_flows, islands
from tests.headroom.grids import random_grid, rts_gmlc, solved, spare_weights, triangle, without_redispatch


def flowing(n: pypsa.Network) -> pypsa.Network:
    """The network with the flows of its set points."""
    n.lpf()
    return n


def test_three_buses_by_hand() -> None:
    """Equal reactances: of 1 MW from A to C, 2/3 go A-C and 1/3 A-B-C.

    The base load of 30 MW at C makes flows AC 20, AB 10, BC 10 MW. Ratings are AB 100, BC 90, AC 110 MW. Site at
    C: AC (110 − 20)/(2/3) = 135, AB (100 − 10)/(1/3) = 270, BC (90 − 10)/(1/3) = 240: 135, by AC, and a MW of AC
    is worth 3/2. Site at B: AB (100 − 10)/(2/3) = 135, AC (110 − 20)/(1/3) = 270, BC, whose flow it turns round,
    (90 + 10)/(1/3) = 300: 135, by AB. Site at A: what the generator has left, 1000 − 30.
    """
    frame = bus_headroom(triangle()).to_frame()
    assert frame["headroom"].to_list() == pytest.approx([970.0, 135.0, 135.0])
    assert frame["element"].to_list() == ["generation of sub-network 0", "Line AB", "Line AC"]
    assert frame["shadow_value"].to_list() == pytest.approx([1.0, 1.5, 1.5])
    assert (frame["outage"] == "").all()


def test_three_buses_with_outages_by_hand() -> None:
    """With a line lost, all takes the one path that is left.

    Site at C: without AC, A-B-C carries 30 + L ≤ 90, so 60, by BC; without AB, AC 30 + L ≤ 110, so 80; without BC the
    same. Site at B: without AC, AB carries 30 + L ≤ 100, so 70, by AB; without AB, AC 30 + L ≤ 110, so 80, and CB
    L ≤ 90; without BC, AB L ≤ 100 and AC 30 ≤ 110.
    """
    frame = bus_headroom(triangle(), ["B", "C"], contingencies="all").to_frame()
    assert frame["headroom"].to_list() == pytest.approx([70.0, 60.0])
    assert frame["element"].to_list() == ["Line AB", "Line BC"]
    assert frame["outage"].to_list() == ["Line AC", "Line AC"]
    assert frame["shadow_value"].to_list() == pytest.approx([1.0, 1.0])


def test_emergency_ratings_apply_to_outages_only() -> None:
    """Without AC, A-B-C may carry 1.2 · 90 = 108 = 30 + L; in normal operation AC still allows 135: 78."""
    n = triangle()
    frame = bus_headroom(n, ["C"], contingencies="all", emergency=1.2).to_frame()
    assert frame["headroom"].to_list() == pytest.approx([78.0])
    assert frame["shadow_value"].to_list() == pytest.approx([1.2])
    assert bus_headroom(n, ["C"], contingencies="all", emergency=9.0).headroom["C"] == pytest.approx(135.0)


def test_slack_distribution_by_hand() -> None:
    """Site at C, supplied half from A and half from B: AC carries 2/3 · ½ + 1/3 · ½ = ½, so (110 − 20)/½ = 180.

    BC carries 1/3 · ½ + 2/3 · ½ = ½ as well: (90 − 10)/½ = 160, and limits.
    """
    n = triangle()
    assert bus_headroom(n, ["C"], slack={"A": 2.0, "B": 2.0}).headroom["C"] == pytest.approx(160.0)
    assert bus_headroom(n, ["C"], slack="capacity").headroom["C"] == pytest.approx(135.0)
    # All load is at C: a site there is supplied by less load there, and touches no line.
    assert bus_headroom(n, ["C"], slack="load").to_frame().loc["C", "status"] == "unlimited"


@pytest.mark.parametrize("seed", range(4))
def test_equals_a_linear_programme_in_angles(seed: int) -> None:
    n = flowing(random_grid(seed))
    load = pd.Series(np.random.default_rng(seed).uniform(0.5, 1.0, len(n.snapshots)), n.snapshots)
    weights, spare = spare_weights(n)
    found = bus_headroom(n, load=load, cutoff=0.0).headroom
    expected = {bus: without_redispatch(n, bus, weights, spare, load) for bus in n.buses.index}
    assert found.to_dict() == pytest.approx(expected, rel=1e-6, abs=1e-4)


@pytest.mark.parametrize("seed", range(3))
def test_equals_a_secured_linear_programme_in_angles(seed: int) -> None:
    n = flowing(random_grid(seed, rating=3.0))
    result = bus_headroom(n, contingencies="all", cutoff=0.0)
    assert set(result.data.attrs["splitting"].split("; ")) == {"Line 5-6"}
    outages = [key for key in n.passive_branches().index if key != ("Line", "5-6")]
    weights, spare = spare_weights(n)
    expected = {bus: without_redispatch(n, bus, weights, spare, outages=outages) for bus in n.buses.index}
    assert result.headroom.to_dict() == pytest.approx(expected, rel=1e-6, abs=1e-4)


@pytest.mark.parametrize("seed", range(2))
def test_outage_flows_are_those_of_the_network_without_the_branch(seed: int) -> None:
    """LODF against a linear power flow of the network with the branch inactive; phase shifter and taps included."""
    n = flowing(random_grid(seed))
    case = base_case(n)
    (island,) = islands(case.network)
    flow = base_flows(case.network, island)
    checked = 0
    for outage, (component, name) in enumerate(island.branches):
        if island.splitting[outage]:
            continue
        m = n.copy()
        m.c[component].static.loc[name, "active"] = False
        m.lpf()
        after = flow + np.outer(island.lodf[:, outage], flow[outage])
        for branch, (other, label) in enumerate(island.branches):
            if branch != outage:
                assert m.c[other].dynamic["p0"][label].to_numpy() == pytest.approx(after[branch], abs=1e-6)
                checked += 1
    assert checked > 50


@pytest.mark.parametrize("memory", [0.001, 256.0])
@pytest.mark.parametrize("contingencies", [None, "all"])
def test_pruning_and_blocks_change_nothing(memory: float, contingencies: str | None) -> None:
    """Against the definition, min over l, k, t of margin/(factor · load), written without bounds or blocks."""
    n = flowing(random_grid(11, buses=9, hours=7, rating=4.0))
    load = np.linspace(0.4, 1.0, 7)
    case = base_case(n)
    (island,) = islands(case.network)
    flow = base_flows(case.network, island)
    weights, spare = spare_weights(n)
    slack = island.ptdf @ weights[island.buses].to_numpy().T
    factor = slack[:, None, :] - island.ptdf[:, :, None]
    best = np.broadcast_to(spare.to_numpy(), factor.shape[1:]).copy()
    for outage in [None, *np.flatnonzero(~island.splitting)] if contingencies else [None]:
        share = np.zeros(len(flow)) if outage is None else island.lodf[:, outage]
        lost = 0 if outage is None else outage
        after = flow + share[:, None] * flow[lost]
        added = factor + share[:, None, None] * factor[lost]
        with np.errstate(divide="ignore", invalid="ignore"):
            up = (island.rating - after)[:, None] / added
            down = (island.rating + after)[:, None] / -added
        allowed = np.where(added > 1e-9, up, np.where(added < -1e-9, down, np.inf))
        if outage is not None:
            allowed[outage] = np.inf
        best = np.minimum(best, allowed.min(axis=0))
    options = {"contingencies": contingencies, "memory": memory, "cutoff": 1e-9, "load": load}
    result = bus_headroom(n, list(island.buses), **options)
    assert result.headroom.to_numpy() == pytest.approx((best / load).min(axis=1), rel=1e-9)
    drawn = bus_headroom(n, list(island.buses), by_snapshot=True, **options)
    assert drawn.data["draw"].to_numpy() == pytest.approx(best, rel=1e-9)
    assert drawn.headroom.equals(result.headroom)


@pytest.mark.parametrize(
    ("response", "memory"),
    [({}, 0.05), ({"contract": {1: 0.2, 3: 0.1, 12: 0.05}}, 0.05), ({"contract": {4: 0.3}, "relief": 0.25}, 256.0)],
)
def test_only_what_can_bind_is_looked_at(response: dict[str, object], memory: float) -> None:
    """Over more hours than the first pass samples: the same sizes and limits as from the draws of every hour."""
    n = flowing(random_grid(5, hours=150, rating=2.0))
    load = np.random.default_rng(5).uniform(0.6, 1.0, 150)
    options = {"contingencies": "all", "overloads": "worsened", "load": load, "memory": memory} | response
    quick = bus_headroom(n, **options).to_frame()
    whole = bus_headroom(n, by_snapshot=True, **options).to_frame()
    assert (quick["headroom"] > 1).all()
    pd.testing.assert_frame_equal(quick, whole)


def test_answers_do_not_depend_on_the_buses_asked_for() -> None:
    n = random_grid(5)
    whole = bus_headroom(n, contingencies=["0-1", "1-2"]).to_frame()
    part = bus_headroom(n, ["b4", "b2"], contingencies=["0-1", "1-2"]).to_frame()
    pd.testing.assert_frame_equal(part, whole.loc[["b4", "b2"]])


@pytest.mark.parametrize("seed", range(2))
def test_outages_never_help(seed: int) -> None:
    n = random_grid(seed)
    normal = bus_headroom(n, overloads="worsened").headroom
    secure = bus_headroom(n, overloads="worsened", contingencies="all").headroom
    assert (secure <= normal + 1e-9).all()
    assert (secure < normal - 1e-3).any()


def test_shadow_value_is_the_gain_from_a_megawatt_of_rating() -> None:
    n = triangle()
    before = bus_headroom(n, ["B", "C"], contingencies="all").to_frame()
    for bus, row in before.iterrows():
        m = n.copy()
        m.lines.loc[row["element"].removeprefix("Line "), "s_nom"] += 0.5
        after = bus_headroom(m, [bus], contingencies="all").headroom[bus]
        assert (after - row["headroom"]) / 0.5 == pytest.approx(row["shadow_value"])


def reinforced_meshed(shared_data: Path) -> pypsa.Network:
    """ac-dc-meshed as optimised, with half as much again of every line and generator, so that there is room."""
    n = solved(pypsa.Network(shared_data / "networks" / "ac-dc-meshed.nc"))
    n.lines["s_nom"], n.lines["s_nom_extendable"] = 1.5 * n.lines["s_nom_opt"], False
    n.links["p_nom"], n.links["p_nom_extendable"] = n.links["p_nom_opt"], False
    n.generators["p_nom"], n.generators["p_nom_extendable"] = 1.5 * n.generators["p_nom_opt"], False
    return n


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_ac_dc_meshed(shared_data: Path) -> None:
    """Three synchronous parts: two AC ones with generators, a DC one that only links feed."""
    n = reinforced_meshed(shared_data)
    result = bus_headroom(n, cutoff=0.0)
    frame = result.to_frame()
    dc = ["Norwich DC", "Bremen DC", "Norway DC"]
    assert (frame.loc[dc, "status"] == "no supply").all()
    assert frame.loc[dc, "element"].str.contains("no generator in sub-network").all()
    n.determine_network_topology()
    for sub in n.sub_networks["obj"]:
        buses = pd.Index(sub.buses_o)
        if sub.buses_o[0] in dc:
            continue
        weights, spare = spare_weights(n, buses)
        for bus in buses:
            expected = without_redispatch(n, bus, weights, spare)
            assert frame.loc[bus, "headroom"] == pytest.approx(expected, rel=1e-6, abs=1e-3)
    assert (frame["headroom"] > 1).any()
    assert "co2_limit" in result.data.attrs["notes"]


@pytest.mark.slow
def test_rts_gmlc(shared_data: Path) -> None:
    """A July day, transformers with taps and an HVDC link, at a sample of buses."""
    hours = pd.date_range("2020-07-22", periods=6, freq="4h")
    n = rts_gmlc(shared_data / "rts_gmlc", hours)
    assert len(n.buses) == 73
    assert len(n.lines) + len(n.transformers) == 120
    n.lines["s_max_pu"] = n.transformers["s_max_pu"] = 0.6
    solved(n)
    n.lines["s_max_pu"] = n.transformers["s_max_pu"] = 1.0
    weights, spare = spare_weights(n)
    found = bus_headroom(n, cutoff=0.0).headroom
    for bus in ("101", "208", "313", "325"):
        assert found[bus] == pytest.approx(without_redispatch(n, bus, weights, spare), rel=1e-6, abs=1e-3)
    assert found.min() > 1


@pytest.fixture(scope="module")
def scigrid(shared_data: Path) -> pypsa.Network:
    """Two hours of scigrid-de, dispatched with 70 % of the ratings as PyPSA's example does, then given the rest."""
    n = pypsa.Network(shared_data / "networks" / "scigrid-de.nc")
    n.set_snapshots(n.snapshots[[4, 18]])
    n.lines.loc[["316", "527", "602"], "s_nom"] = 1715.0
    n.lines["s_max_pu"] = 0.7
    solved(n)
    n.lines["s_max_pu"] = 1.0
    return n


@pytest.mark.slow
def test_scigrid_de(scigrid: pypsa.Network) -> None:
    weights, spare = spare_weights(scigrid)
    result = bus_headroom(scigrid, cutoff=0.0)
    assert len(result.headroom) == 585
    for bus in ("1", "64", "303"):
        expected = without_redispatch(scigrid, bus, weights, spare)
        assert result.headroom[bus] == pytest.approx(expected, rel=1e-6, abs=1e-3)
    assert (result.headroom > 1).sum() > 100
