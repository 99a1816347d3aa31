"""Maps say what they show, put nobody at 0, 0, and the page of a map needs nothing else."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pypsa
import pytest
from matplotlib.figure import Figure

import pypsa_aidc as aidc
from pypsa_aidc.plots import bus_map
from pypsa_aidc.plots.style import place_labels
from tests.network.tiny import site


@pytest.fixture(scope="module")
def placed() -> pypsa.Network:
    """Three buses in northern Germany, with a site at one whose IT bus has no place of its own."""
    n = pypsa.Network(snapshots=pd.date_range("2030-01-01", periods=8, freq="h"))
    n.add("Carrier", "AC")
    n.add("Bus", ["grid", "mid", "far"], carrier="AC", v_nom=230.0, x=[9.0, 10.0, 11.0], y=[53.0, 54.0, 53.5])
    for line, (a, b, rating) in {"gm": ("grid", "mid", 90.0), "mf": ("mid", "far", 40.0)}.items():
        n.add("Line", line, bus0=a, bus1=b, x=10.0, s_nom=rating, carrier="AC")
    n.add("Generator", "G", bus="grid", carrier="AC", p_nom=1000.0, p_set=30.0)
    n.add("Load", "L", bus="far", carrier="AC", p_set=30.0)
    site(n)
    n.buses.loc["dc IT", ["x", "y"]] = 0.0
    return n


def test_the_map_of_headroom_names_buses_with_their_megawatts(placed: pypsa.Network) -> None:
    n = placed.copy()
    n.aidc.remove("dc")
    found = n.aidc.headroom()
    axes, scale = found.plot().axes
    texts = {text.get_text() for text in axes.texts}
    # Line mf carries 30 of its 40 MW, line gm 30 of 90.
    assert {"far: 10 MW", "mid: 60 MW", "Line mf", "Line gm"} <= texts
    assert scale.get_ylabel() == "headroom (MW)"
    assert scale.get_ylim()[0] == 0
    assert axes.get_title(loc="left").startswith("headroom at each bus")
    assert axes.xaxis.get_major_formatter()(9.5) == "9.5°E"
    assert axes.yaxis.get_major_formatter()(-2.0) == "2°S"
    # A degree of longitude is shorter than one of latitude: by the cosine of 53.5 degrees.
    assert axes.get_aspect() == pytest.approx(1 / 0.5948, rel=1e-3)
    legend = [text.get_text() for text in axes.get_legend().get_texts()]
    assert legend == ["limits headroom; the wider, the more buses"]


def test_what_has_no_place_lies_where_it_is_fed(placed: pypsa.Network) -> None:
    axes = placed.aidc.plot.map().axes[0]
    (squares,) = [drawn for drawn in axes.collections if drawn.get_label() == "AIDC"]
    assert squares.get_offsets().tolist() == [[9.0, 53.0]]
    assert axes.get_xlim()[0] > 8
    assert {"mid", "far"} <= {text.get_text() for text in axes.texts}
    assert placed.buses.at["dc IT", "x"] == 0


def test_a_network_without_places_has_no_map(placed: pypsa.Network) -> None:
    n = placed.copy()
    n.buses[["x", "y"]] = 0.0
    with pytest.raises(aidc.InputError, match="a place for each bus"):
        n.aidc.plot.map()
    with pytest.raises(aidc.InputError, match="a place for each bus"):
        n.aidc.plot.explore()


def test_the_page_needs_nothing_else_and_is_the_same_each_time(placed: pypsa.Network, tmp_path: Path) -> None:
    found = pd.DataFrame(
        {"headroom": [0.0, 60.0, np.inf], "element": ["Line </script><b>", "Line gm", ""]},
        index=pd.Index(["grid", "mid", "far"], name="bus"),
    )
    pages = [
        bus_map.save(placed.aidc.plot.explore(found), tmp_path / name, "Headroom", found).read_text()
        for name in ("one.html", "two.html")
    ]
    assert pages[0] == pages[1]
    own = re.sub(r"<script type='text/javascript'>.*?</script>", "", pages[0], count=1, flags=re.DOTALL)
    assert "http" not in own
    assert '"none"' not in own
    # Names neither end the script nor become tags of the page.
    assert own.count("</script>") == 1
    for shown in ("60.0", "not limited", "limited by", "dc: "):
        assert shown in own
    layers = placed.aidc.plot.explore(found).layers
    circles = next(layer for layer in layers if layer.type == "ScatterplotLayer")
    by_bus = {row["tooltip_html"].split("<b>")[1].split("</b>")[0]: row for row in circles.data}
    assert by_bus["dc IT"]["size_pdk"] == 0
    assert by_bus["grid"]["size_pdk"] > by_bus["mid"]["size_pdk"]


def test_no_line_runs_through_a_label_that_has_another_place() -> None:
    axes = Figure().subplots()
    axes.plot([0.5, 1.0], [0.5, 0.62])
    axes.set(xlim=(0, 1), ylim=(0, 1))
    place_labels(axes, [(0.5, 0.5, "to the right it would be crossed")])
    (label,) = axes.texts
    assert (label.get_ha(), label.get_va()) == ("left", "top")
