"""Whether a site of given size fits, when not, and why; shares given as percent or MW; names nearly right."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pypsa
import pytest

from pypsa_aidc.errors import InputError
from pypsa_aidc.fleet import Surface
from pypsa_aidc.headroom import BusHeadroom, bus_headroom
from tests.cli.running import Runner
from tests.headroom.grids import random_grid, triangle

pytestmark = pytest.mark.smoke


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Runner:
    return Runner(monkeypatch, capsys)


def two_buses(load: tuple[float, ...] = (50.0, 90.0, 60.0)) -> pypsa.Network:
    """All supply at A, a load at B behind a line of 100 MW: room at B is what the load leaves of it."""
    n = pypsa.Network(snapshots=pd.date_range("2030-01-01", periods=len(load), freq="h"))
    n.add("Bus", ["A", "B"], v_nom=230.0)
    n.add("Line", "1", bus0="A", bus1="B", x=0.1, s_nom=100.0)
    n.add("Generator", "G", bus="A", p_nom=300.0, p_set=list(load))
    n.add("Load", "L", bus="B", p_set=list(load))
    return n


def test_snapshots_at_which_a_site_does_not_fit_by_hand() -> None:
    """Room at B: 50, 10 and 40 MW by the line; at A: 250, 210 and 240 MW by the generator."""
    n = two_buses()
    found = bus_headroom(n, by_snapshot=True)
    table = found.fits(45.0)
    assert table["fits"].to_dict() == {"A": True, "B": False}
    assert table["misfits"].to_dict() == {"A": 0, "B": 2}
    assert table.loc["B", ["element", "snapshot"]].to_list() == ["Line 1 (2)", n.snapshots[1]]
    listed = found.misfits(230.0)
    assert listed["room"].to_dict() == {
        ("A", n.snapshots[1]): 210.0,
        **{("B", hour): room for hour, room in zip(n.snapshots, [50.0, 10.0, 40.0], strict=True)},
    }
    assert listed.loc["A", "element"].to_list() == ["generation of the sub-network"]
    # 20 % of relief: 45 MW need 36 MW, so that only the second hour lacks room.
    assert bus_headroom(n, ["B"], relief=0.2, by_snapshot=True).fits(45.0)["misfits"].to_list() == [1]


@pytest.mark.parametrize("options", [{}, {"contingencies": "all"}, {"contingencies": "all", "relief": 0.2}])
def test_each_snapshot_alone_gives_the_same(options: dict[str, object]) -> None:
    n = random_grid(2, hours=4, rating=2.0)
    found = bus_headroom(n, by_snapshot=True, **options)
    for hour in n.snapshots:
        alone = bus_headroom(n, snapshots=[hour], **options).to_frame()
        here = found.data.sel(snapshot=hour)
        np.testing.assert_allclose(here["room"], alone["headroom"], rtol=1e-9)
        size = float(alone["headroom"].max()) * 2
        lacking = found.misfits(size).xs(hour, level="snapshot")
        branches = alone[alone["element"].str.startswith(("Line", "Transformer"))]
        assert lacking.loc[branches.index, "element"].to_dict() == branches["element"].to_dict()
        assert lacking.loc[branches.index, "outage"].to_dict() == branches["outage"].to_dict()
    size = float(found.headroom.median())
    assert (found.fits(size)["misfits"] == 0).to_list() == found.fits(size)["fits"].to_list()


def test_where_only_the_whole_is_known() -> None:
    n = triangle()
    for found in (
        bus_headroom(n, redispatch=True),
        bus_headroom(n),
        bus_headroom(n, contract={1: 0.1}, by_snapshot=True),
    ):
        table = found.fits(500.0)
        assert table["fits"].to_list() == [True, False, False]
        assert table["misfits"].isna().to_list() == [False, True, True]
        assert table["element"].str.startswith("Line").to_list() == [False, True, True]
        with pytest.raises(InputError, match="by_snapshot=True"):
            found.misfits(500.0)
    with pytest.raises(InputError, match="above 0"):
        bus_headroom(n).fits(0.0)


def test_a_base_case_that_is_overloaded_fits_nothing() -> None:
    found = bus_headroom(two_buses((50.0, 120.0, 60.0)), by_snapshot=True)
    table = found.fits(1.0)
    assert table["misfits"].to_list() == [3, 3]
    assert table["element"].to_list() == ["Line 1", "Line 1"]
    # 120 MW on 100 MW.
    assert found.to_frame()["base_use"].to_list() == pytest.approx([1.2, 1.2])
    assert bus_headroom(two_buses((50.0, 120.0, 60.0)), relief=1.0, by_snapshot=True).fits(1.0)["fits"].sum() == 0


def test_a_line_that_the_base_dispatch_fills_is_told() -> None:
    assert "fills" not in bus_headroom(two_buses()).data.attrs["notes"]
    found = bus_headroom(two_buses((50.0, 99.5, 60.0)))
    # 0.5 of 100 MW are left on the line; at A the generator limits.
    assert found.headroom["B"] == pytest.approx(0.5)
    assert found.to_frame().loc["B", "base_use"] == pytest.approx(0.995)
    assert np.isnan(found.to_frame().loc["A", "base_use"])
    assert "at 1 of 2 buses the base dispatch alone fills what limits (Line 1)" in found.data.attrs["notes"]
    assert "0.03" in found.data.attrs["notes"]
    assert "0.03" not in bus_headroom(two_buses((50.0, 99.5, 60.0)), cutoff=0.05).data.attrs["notes"]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"relief": 20}, "0.2 for 20 %"),
        ({"relief": pd.Series([0.1, 20.0, 0.1], two_buses().snapshots)}, "given 20.0"),
        ({"contract": {4: 2.32}}, "contract at 4 h: given 2.32.*contract=surface, and peak="),
        ({"contract": Surface.of(np.full(100, 2.32), durations=[4], reliabilities=[0.95]), "peak": 1.5}, "peak: given"),
    ],
)
def test_percent_and_megawatts_are_no_shares(options: dict[str, object], told: str) -> None:
    with pytest.raises(InputError, match=f"(?s){told}"):
        bus_headroom(two_buses(), **options)


def test_a_profile_above_one_may_be_curtailed_whole() -> None:
    assert bus_headroom(two_buses(), load=1.2, relief=1.2).to_frame()["status"].eq("unlimited").all()


def test_relief_and_contract_hold_together() -> None:
    n = two_buses()
    both = bus_headroom(n, ["B"], relief=0.1, contract={1: 0.3, 3: 0.2})
    assert "3 h at 0.2, and at each snapshot relief up to 0.1 per MW" in both.data.attrs["response"]
    # In the hour with 10 MW of room, 0.1 of relief is less than either window gives.
    assert both.headroom["B"] == pytest.approx(10.0 / 0.9)
    alone = bus_headroom(n, ["B"], contract={1: 0.3, 3: 0.2})
    assert "relief up to" not in alone.data.attrs["response"]
    assert alone.headroom["B"] == pytest.approx(10.0 / 0.7)


def test_redispatch_says_that_all_generation_is_used() -> None:
    n = two_buses((0.0, 0.0, 0.0))
    n.add("Generator", "H", bus="A", p_nom=100.0, p_set=0.0)
    element = bus_headroom(n, ["A"], redispatch=True).to_frame().loc["A", "element"]
    assert element in ("no spare generation: Generator G and 1 more", "no spare generation: Generator H and 1 more")


def test_names_that_are_nearly_right(tmp_path: Path, run: Runner) -> None:
    n = triangle()
    n.add("Bus", "north_220kV", v_nom=230.0)
    with pytest.raises(InputError, match="Did you mean 'north_220kV'"):
        bus_headroom(n, ["north_220kv"])
    n.export_to_netcdf(tmp_path / "n.nc")
    for more in ([], ["--dry-run"]):
        done = run("headroom", tmp_path / "n.nc", "-b", "north_220kv", "--out", tmp_path / "out", *more)
        assert done.code == 2
        assert "Did you mean 'north_220kV'" in done.err


def test_a_size_at_the_command_line(tmp_path: Path, run: Runner) -> None:
    two_buses().export_to_netcdf(tmp_path / "n.nc")
    out = tmp_path / "out"
    done = run("headroom", tmp_path / "n.nc", "--size", "45", "--out", out)
    assert (done.code, done.err) == (0, "")
    assert "45 MW fits at 1 of 2 buses" in done.out
    assert (
        "bus B: 45 MW does not fit at 2 of 3 snapshots: Line 1 (2) limits it; tightest at 2030-01-01 01:00" in done.out
    )
    assert pd.read_csv(out / "fits.csv", index_col="bus")["fits"].to_dict() == {"A": True, "B": False}
    assert pd.read_csv(out / "misfits.csv")["room"].to_list() == [10.0, 40.0]
    assert BusHeadroom.read(out / "headroom.nc").fits(45.0)["misfits"].to_dict() == {"A": 0, "B": 2}
    data = run(
        "headroom", tmp_path / "n.nc", "--size", "45", "--redispatch", "--out", tmp_path / "moved", "--json"
    ).data
    assert {row["bus"]: row["fits"] for row in data["tables"]["fits"]} == {"A": True, "B": False}
    assert data["size"] == 45
    assert not (tmp_path / "moved" / "misfits.csv").exists()
    assert run("headroom", tmp_path / "n.nc", "--size", "-1").code == 2
