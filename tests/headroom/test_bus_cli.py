"""The verb `headroom`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pypsa
import pytest
import typer
from typer.testing import CliRunner

from pypsa_aidc import fleet
from pypsa_aidc.cli.headroom import headroom
from pypsa_aidc.cli.verb import offered
from pypsa_aidc.errors import InputError
from pypsa_aidc.headroom import BusHeadroom, bus_headroom
from tests.headroom.grids import triangle

app = typer.Typer()
app.command()(offered(headroom))


def test_the_verb_prints_and_writes(tmp_path: Path) -> None:
    triangle().export_to_netcdf(tmp_path / "n.nc")
    done = CliRunner().invoke(app, [str(tmp_path / "n.nc"), "--outages", "--out", str(tmp_path / "out")])
    assert done.exit_code == 0, done.output
    assert "Line BC" in done.output
    frame = pd.read_csv(tmp_path / "out" / "headroom.csv", index_col="bus")
    assert frame["headroom"].to_dict() == pytest.approx({"A": 970.0, "B": 70.0, "C": 60.0})
    assert (tmp_path / "out" / "map.png").stat().st_size > 1000
    missing = CliRunner().invoke(app, [str(tmp_path / "other.nc")])
    assert isinstance(missing.exception, InputError)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A triangle over two days whose lines are tight in three hours, and a made-up fleet."""
    folder = tmp_path_factory.mktemp("contract")
    n = triangle()
    n.set_snapshots(pd.date_range("2030-01-01", periods=48, freq="h"))
    load = n.loads["p_set"].iloc[0] * np.where(np.isin(np.arange(48), (17, 18, 19)), 1.1, 1.0)
    n.loads_t.p_set[n.loads.index[0]] = load
    n.generators_t.p_set[n.generators.index[0]] = load
    n.export_to_netcdf(folder / "n.nc")
    index = pd.MultiIndex.from_product(
        [range(400), ["c1", "c2"], ["eligible", "floor"]], names=["hour", "cluster", "layer"]
    )
    power = np.random.default_rng(0).gamma(4.0, 1.0, len(index))
    envelope = fleet.Envelope.from_frame(index.to_frame(index=False).assign(power=power), source="two clusters")
    envelope.save(folder / "envelope.nc")
    fleet.Surface.of(envelope, durations=(1, 2, 4, 8)).save(folder / "surface.nc")
    return folder


def asked(folder: Path, out: Path, *options: object) -> dict[str, Any]:
    command = [str(folder / "n.nc"), "--json", "--out", str(out), *map(str, options)]
    done = CliRunner().invoke(app, command, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return dict(json.loads(done.stdout))


def by_bus(answer: dict[str, Any]) -> dict[str, float]:
    return {row["bus"]: row["headroom"] for row in answer["tables"]["headroom"]}


def test_a_contract_from_an_envelope(folder: Path, tmp_path: Path) -> None:
    n, envelope = pypsa.Network(folder / "n.nc"), fleet.Envelope.read(folder / "envelope.nc")
    options = ("--envelope", folder / "envelope.nc", "--duration", 2, "--reliability", 0.9, "--q", 0.5)
    answer = asked(folder, tmp_path, *options)
    terms = fleet.Contract.of(envelope, 2, 0.9, q=0.5)
    own = bus_headroom(n, contract=terms, peak=float(envelope.facility.max()))
    firm = bus_headroom(n).headroom
    assert by_bus(answer) == pytest.approx(own.headroom.to_dict())
    assert (own.headroom > firm).all()
    assert answer["response"].startswith("windows of 1 h at")
    assert answer["tables"]["terms"][0]["value"] == pytest.approx(terms.offer)
    larger = asked(folder, tmp_path, *options, "--peak", 1000)
    assert by_bus(larger) == pytest.approx(bus_headroom(n, contract=terms, peak=1000.0).headroom.to_dict())
    assert by_bus(larger)["B"] < by_bus(answer)["B"]


def test_relief_by_duration_from_a_surface(folder: Path, tmp_path: Path) -> None:
    n, surface = pypsa.Network(folder / "n.nc"), fleet.Surface.read(folder / "surface.nc")
    answer = asked(folder, tmp_path, "--surface", folder / "surface.nc", "--peak", 40, "--reliability", 0.9)
    own = bus_headroom(n, contract=surface, peak=40.0, reliability=0.9)
    assert by_bus(answer) == pytest.approx(own.headroom.to_dict())
    other = asked(folder, tmp_path, "--surface", folder / "surface.nc", "--peak", 40)
    assert by_bus(other) == pytest.approx(
        bus_headroom(n, contract=surface, peak=40.0, reliability=0.95).headroom.to_dict()
    )
    assert by_bus(other)["B"] < by_bus(answer)["B"]


def test_a_map_to_move_about_in(folder: Path, tmp_path: Path) -> None:
    answer = asked(folder, tmp_path, "--map", tmp_path / "map.html")
    assert str(tmp_path / "map.html") in answer["written"]
    page = (tmp_path / "map.html").read_text(encoding="utf-8")
    assert f"{by_bus(answer)['B']:,.1f}" in page
    assert "limited by" in page


def test_what_is_made_of_the_synthetic_fleet_says_so(folder: Path, tmp_path: Path) -> None:
    surface = fleet.Surface.read(folder / "surface.nc")
    fleet.Surface(surface.data.assign_attrs(synthetic=1)).save(tmp_path / "made_up.nc")
    answer = asked(folder, tmp_path, "--surface", tmp_path / "made_up.nc", "--peak", 40)
    assert "the relief is that of a synthetic fleet" in answer["notes"]
    kept = BusHeadroom.read(tmp_path / "headroom.nc")
    assert kept.data.attrs["synthetic"] == 1
    assert "synthetic" in kept.plot().axes[0].get_title(loc="left")


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (["--surface", "surface.nc", "--envelope", "envelope.nc", "--peak", "40"], "one of them"),
        (["--surface", "surface.nc"], "--peak"),
        (["--surface", "surface.nc", "--peak", "40", "--duration", "4"], "all durations"),
        (["--surface", "surface.nc", "--peak", "40", "--q", "0.5"], "--q"),
        (["--duration", "4"], "--duration"),
        (["--reliability", "0.9"], "--reliability"),
        (["--peak", "40"], "--peak"),
        (["--surface", "envelope.nc", "--peak", "40"], "Surface"),
        (["--envelope", "envelope.nc", "--reliability", "2"], "reliabilit"),
    ],
)
def test_what_has_no_use_is_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch, options: list[str], named: str
) -> None:
    monkeypatch.chdir(folder)
    done = CliRunner().invoke(app, ["n.nc", "--out", "never", *options])
    assert isinstance(done.exception, InputError)
    assert named in str(done.exception)
    assert not (folder / "never").exists()
