"""The paper's cases on the real demand and the synthetic fleet, alignments, and the result object."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from pypsa_aidc import fleet
from pypsa_aidc.errors import InputError
from pypsa_aidc.headroom import Demand, DemandWarning, Offsets, Profile, profiles, screen_region
from pypsa_aidc.headroom.region.profile import REPRESENTATIONS

pytestmark = pytest.mark.smoke

PAPER = {
    "none": 1684,
    "trace, marginal": 1809,
    "trace, average PUE": 1837,
    "mean share": 1807,
    "constant tier": 2105,
    "full": 3054,
}
"""App. E of arXiv 2609.05406: margin 5 %, 0.5 % of hours, MW, median over 200 random alignments."""
BANDS = {"none": (1634, 1741), "trace, marginal": (1742, 1865), "trace, average PUE": (1762, 1899)}


@pytest.fixture(scope="module")
def grid(miso_south, shapes):
    margins, budgets = (0.0, 0.02, 0.05, 0.1), (0.0025, 0.005, 0.01, 0.015, 0.02)
    return screen_region(miso_south, shapes, period="whole", margin=margins, budget=budgets)


def test_paper_cases(grid) -> None:
    table = grid.summary().query("margin == 0.05 and budget == 0.005").set_index("profile")
    for name, expected in PAPER.items():
        assert table.loc[name, "headroom"] == pytest.approx(expected, rel=0.005), name
    for name, (low, high) in BANDS.items():
        assert table.loc[name, ["p5", "p95"]].tolist() == pytest.approx([low, high], rel=0.005), name
    trace = table.loc["trace, marginal"]
    for count, expected in (("events", (3, 2, 3)), ("hours", (3, 2, 4)), ("longest", (2, 1, 2))):
        assert (trace[count], trace[f"{count}_p5"], trace[f"{count}_p95"]) == expected
    assert table.loc[list(PAPER)[:-1], "limiter"].eq("residual hour").all()
    assert table.loc["full", "limiter"] == "call budget"


def test_what_the_text_of_the_paper_says_of_other_cases(grid) -> None:
    headroom = grid.data["headroom"].median("offset")
    zero = headroom.sel(margin=0.0)
    # "At zero margin, every representation with a noncurtailable floor admits zero load" ...
    assert (zero.sel(profile=list(REPRESENTATIONS[:-1])) == 0).all()
    # ... "while the fully curtailable case admits 0.94–3.09 GW depending on its hour budget".
    assert zero.sel(profile="full", budget=0.0025).item() == pytest.approx(940, rel=0.006)
    assert zero.sel(profile="full", budget=0.02).item() == pytest.approx(3090, rel=0.006)
    # "the tested annual hour budgets do not change headroom in the 5%-margin case"
    trace = headroom.sel(profile="trace, marginal", margin=0.05)
    assert np.ptp(trace.to_numpy()) == 0


def test_the_exact_distribution_over_all_alignments(miso_south, shapes) -> None:
    """No draw: every one of the 4,440 offsets. The published medians are within 0.5 % of it, too."""
    found = screen_region(miso_south, shapes, period="whole", offsets=Offsets("all"))
    table = found.summary().set_index("profile")
    for name, expected in PAPER.items():
        assert table.loc[name, "headroom"] == pytest.approx(expected, rel=0.005), name
    trace = table.loc["trace, marginal"]
    assert [trace["events"], trace["hours"], trace["longest"]] == [3, 3, 2]
    # Alignments that keep the hour of the day let the fleet's own evening meet the region's peak.
    days = screen_region(miso_south, shapes, period="whole", offsets=Offsets("aligned")).summary().set_index("profile")
    assert (days["headroom"] < table["headroom"]).all()


def test_order_of_representations(grid) -> None:
    """More relief never admits less, and no representation passes the full one."""
    size = grid.data["headroom"]
    assert (size.sel(profile="none") <= size.sel(profile="trace, marginal")).all()
    assert (size.sel(profile="trace, marginal") <= size.sel(profile="trace, average PUE")).all()
    assert (size.sel(profile="trace, marginal") <= size.sel(profile="attributed")).all()
    assert (size <= size.sel(profile="full")).all()
    assert (size.diff("budget") >= 0).all()
    assert (size.diff("margin") > 0).any()


def test_a_call_list_counts_what_the_screen_counts(grid) -> None:
    case = grid.data.sel(profile="full", margin=0.05, budget=0.01).isel(offset=4)
    calls = grid.calls("full", 0.05, 0.01, 4)
    assert len(calls) == case["events"]
    assert calls["hours"].sum() == case["hours"] == 175
    assert calls["hours"].max() == case["longest"]
    assert (calls["deepest"] > 0).all()
    assert (calls["energy"] >= calls["deepest"] - 1e-9).all()
    # At half the size of a load there is less to call; the list and the count agree there as well.
    half = float(case["headroom"]) / 2
    own = grid.response(half)
    at = own.sel(profile="full", margin=0.05).isel(offset=4)
    assert len(grid.calls("full", 0.05, 0.01, 4, size=half)) == at["events"] < case["events"]
    with pytest.raises(InputError, match=r"(?s)profile.*'ghost'.*alignment"):
        grid.calls("ghost", 0.05, 0.01, 1000)


def test_frames_figures_and_files(grid, tmp_path) -> None:
    assert len(grid.to_frame()) == 200 * 4 * 7 * 5
    assert "synthetic" in repr(grid)
    assert grid.synthetic
    for name, figure in (("17", grid.plot()), ("18", grid.plot_ratios()), ("18a", grid.demand.plot())):
        figure.savefig(tmp_path / f"{name}.png")
        assert (tmp_path / f"{name}.png").stat().st_size > 10_000
    # What is synthetic says so.
    assert grid.plot().get_suptitle() == "synthetic fleet"
    grid.save(tmp_path / "screen.nc")
    assert (tmp_path / "screen.nc").stat().st_size > 0


def test_same_call_same_numbers(miso_south, shapes) -> None:
    first, second = (screen_region(miso_south, shapes, period="year", offsets=Offsets(seed=3)).data for _ in range(2))
    assert first.identical(second)
    other = screen_region(miso_south, shapes, period="year", offsets=Offsets(seed=4)).data
    assert not np.array_equal(first["headroom"], other["headroom"])


def test_profiles_of_a_fleet(envelope, shapes) -> None:
    by_name = {shape.name: shape for shape in shapes}
    assert tuple(by_name) == REPRESENTATIONS
    load = by_name["full"].load
    # One missing hour of 4,440, interpolated; s is at most 1, since the peak is one of a window that ends there.
    assert (load.size, load.max()) == (4440, 1.0)
    (gap,) = np.flatnonzero(~envelope.valid)
    facility = envelope.facility.to_numpy()
    expected = (facility[gap - 1] + facility[gap + 1]) / 2 / float(envelope.peak()[gap])
    assert load[gap] == pytest.approx(expected)
    trace = by_name["trace, marginal"].relief
    np.testing.assert_allclose(by_name["trace, average PUE"].relief, 1.2 * trace)
    np.testing.assert_allclose(by_name["constant tier"].relief, 0.2 * load)
    half = {shape.name: shape for shape in profiles(envelope, q=0.5, tier=0.3)}
    np.testing.assert_allclose(half["trace, marginal"].relief, 0.5 * trace)
    np.testing.assert_allclose(half["constant tier"].relief, 0.3 * load)
    assert all(shape.synthetic for shape in shapes)
    with pytest.raises(InputError, match=r"(?s)q.*tier"):
        profiles(envelope, q=1.5, tier=-1)


def test_a_fleet_of_the_user() -> None:
    rows = pd.DataFrame({"hour": range(48), "cluster": "c", "layer": ["floor", "eligible"] * 24, "power": 5.0})
    own = fleet.Envelope.from_frame(rows, source="a meter")
    shapes = profiles(own)
    assert not any(shape.synthetic for shape in shapes)
    hours = pd.date_range("2024-01-01", periods=48, freq="h")
    demand = Demand(pd.Series(np.linspace(60, 100, 48), hours))
    found = screen_region(demand, shapes, period="whole", budget=1.0, offsets=Offsets("all"))
    assert not found.synthetic
    short = fleet.Envelope.from_frame(rows[rows["hour"] < 5], source="a meter")
    with pytest.raises(InputError, match="5 hours without a peak.*at least 24 hours"):
        profiles(short)
    assert found.plot().get_suptitle() == ""


def test_relief_beyond_the_load_counts_up_to_it_and_is_counted() -> None:
    """Row 25 of the reported faults: more curtailed than drawn."""
    demand = Demand(pd.Series([60.0, 100.0, 80.0], pd.date_range("2024", periods=3, freq="h")))
    shapes = [Profile("all", [1.0, 0.5], [1.0, 0.5]), Profile("more", [1.0, 0.5], [1.5, 0.5])]
    found = screen_region(demand, shapes, period="whole", budget=0.4, offsets=Offsets("all")).data
    assert found["clipped"].to_numpy().tolist() == [0, 1]
    np.testing.assert_array_equal(found["headroom"][0], found["headroom"][1])


def test_offsets() -> None:
    assert len(Offsets().hours(4440)) == 200
    assert np.array_equal(Offsets(seed=6).hours(4440), np.random.default_rng(6).integers(0, 4440, 200))
    assert Offsets("aligned", step=168).hours(4440).tolist() == list(range(0, 4440, 168))
    assert Offsets("all").hours(5).tolist() == [0, 1, 2, 3, 4]
    with pytest.raises(InputError, match=r"(?s)kind.*count.*step"):
        Offsets("some", count=0, step=0)
    with pytest.raises(InputError, match="hours_given"):
        Offsets("given")


def test_a_later_offset_delays_the_load() -> None:
    """By hand: the load draws only in its second hour; delayed by 2 h it meets the fourth hour of demand, the peak."""
    demand = Demand(pd.Series([10.0, 10.0, 90.0, 100.0], pd.date_range("2024-01-01", periods=4, freq="h")))
    shape = Profile("pulse", [0.0, 1.0, 0.0, 0.0], np.zeros(4))
    found = screen_region(demand, [shape], period="whole", margin=0.0, budget=0.0, offsets=Offsets("all"))
    assert found.data["headroom"].squeeze().to_numpy().tolist() == [90.0, 10.0, 0.0, 90.0]


def test_a_share_of_a_period_that_is_no_hour_is_said_so() -> None:
    hours = pd.date_range("2024-12-31 20:00", periods=6, freq="h")
    demand = Demand(pd.Series([60.0, 70, 80, 90, 100, 95], hours))
    with pytest.warns(DemandWarning, match="of the 2 hours of period 1 are not one hour"):
        screen_region(demand, [Profile("x", [1.0], [1.0])], period="year", budget=0.3, offsets=Offsets("all"))
