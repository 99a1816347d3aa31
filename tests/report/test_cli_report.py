from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from typer.testing import CliRunner

import pypsa_aidc as aidc
from pypsa_aidc.cli import app
from pypsa_aidc.cli.headroom_table import HeadroomTable, read_headroom
from pypsa_aidc.headroom import bus_headroom
from pypsa_aidc.network.pypsa_api import copy_network
from tests.cli.running import Runner
from tests.headroom.grids import triangle
from tests.network.test_fleet import tight
from tests.network.tiny import grid, job, once_solved, one_site, site
from tests.report.composed import composed
from tests.report.page import Page


@pytest.fixture(autouse=True)
def talkative_libraries(run: Runner) -> None:
    """Undo what the command line does to logging, for the tests after it."""


@pytest.fixture(scope="module")
def folder(solved_pair, envelope, tmp_path_factory) -> Path:
    """What a user may have lying about."""
    folder = tmp_path_factory.mktemp("files")
    solved_pair.export_to_netcdf(folder / "solved.nc")
    site(grid(), jobs=[job("A", 2.0, 2)]).export_to_netcdf(folder / "unsolved.nc")
    grid().export_to_netcdf(folder / "empty.nc")
    (folder / "broken.nc").write_bytes(b"no netCDF at all")
    envelope.save(folder / "envelope.nc")
    (folder / "headroom.csv").write_text("bus,headroom,element\ngrid,12.5,Generator market\n")
    once_solved(one_site).export_to_netcdf(folder / "one.nc")
    return folder


@pytest.mark.slow
def test_everything_in_one_command(folder, run: Runner, monkeypatch) -> None:
    monkeypatch.chdir(folder)
    others = ("--envelope", "envelope.nc", "--headroom", "headroom.csv", "--values")
    done = run("report", "one.nc", "-o", "all.html", *others)
    assert done.code == 0, done.err
    assert done.out == "wrote all.html\n"
    page = Page(folder / "all.html")
    assert page.notices == []
    assert {"Surface K", "Terms", "Headroom", "Value of flexibility"} <= set(page.tables)
    assert page.tables["Headroom"][1:] == [["grid", "12.5", "Generator market"]]
    values = page.tables["Value of flexibility"][1:]
    assert [row[:2] for row in values] == [["dc", what] for what in ("gpus", "p_nom", "waiting")]
    for name in ("one.nc", "envelope.nc", "headroom.csv"):
        assert f"SHA-256 {hashlib.sha256((folder / name).read_bytes()).hexdigest()}" in page.words


def test_no_solution_is_one_message_and_exit_code_3(folder, run: Runner, monkeypatch) -> None:
    monkeypatch.chdir(folder)
    done = run("report", "unsolved.nc", "-o", "never.html")
    assert done.code == 3
    assert done.err.startswith("error: no schedule of AIDC jobs")
    assert "Traceback" not in done.err
    assert not (folder / "never.html").exists()


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["nowhere.nc"], "an existing file or CSV folder"),
        (["broken.nc"], "a complete netCDF file of a PyPSA network"),
        (["empty.nc"], "at least one AIDC"),
        (["solved.nc", "-o", "report.doc"], ".html, .xlsx, .pdf"),
        (["solved.nc", "--surface", "envelope.nc"], "Surface"),
        (["solved.nc", "--envelope", "solved.nc"], "Envelope"),
        (["solved.nc", "--envelope", "envelope.nc", "--duration", "500"], "window"),
        (["solved.nc", "--headroom", "nowhere.csv"], "an existing CSV file"),
        (["solved.nc", "--exclusive", "ghost"], "ghost"),
    ],
)
def test_bad_input_is_named(folder, monkeypatch, arguments, named) -> None:
    monkeypatch.chdir(folder)
    done = CliRunner().invoke(app, ["report", "--out", "never.html", *arguments])
    assert isinstance(done.exception, aidc.InputError)
    assert named in str(done.exception)
    assert not (folder / "never.html").exists()


def answered(*arguments: object) -> dict[str, Any]:
    done = CliRunner().invoke(app, ["report", "--json", *map(str, arguments)], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return dict(json.loads(done.stdout))


def test_the_answer_has_the_notices_of_the_file(folder, tmp_path) -> None:
    n = aidc.load(folder / "solved.nc")
    n.meta["synthetic"] = "all loads"
    n.export_to_netcdf(tmp_path / "synthetic.nc")
    answer = answered(tmp_path / "synthetic.nc", "--out", tmp_path / "r.html")
    assert answer["notes"][0] == "Caution. Synthetic, not measured: network (all loads)."
    assert answer["notes"][1].startswith("Prices and value of flexibility: Values of GPUs")
    words = Page(tmp_path / "r.html").words
    assert all(note.split(": ", 1)[1] in words for note in answer["notes"])
    assert set(answer["tables"]) == {"jobs", "schedule"}


def test_fleets_without_sites(tmp_path) -> None:
    n = once_solved(tight)
    n.export_to_netcdf(tmp_path / "fleet.nc")
    answer = answered(tmp_path / "fleet.nc", "--out", tmp_path / "r.html")
    assert set(answer["tables"]) == {"jobs", "fleets", "calls", "limits"}
    assert [call["duration"] for call in answer["tables"]["calls"]] == n.aidc.calls()["duration"].to_list()
    assert answer["notes"] == []
    assert "Relief by duration" in Page(tmp_path / "r.html").tables
    valued = answered(tmp_path / "fleet.nc", "--values", "--out", tmp_path / "r.html")["tables"]["values"]
    assert [(row["site"], row["what"]) for row in valued] == [("f", "relief")]


def test_headroom_as_the_verb_headroom_writes_it(folder, solved_pair, tmp_path) -> None:
    n = copy_network(solved_pair)
    found = bus_headroom(n)
    found.to_netcdf(tmp_path / "headroom.nc")
    answer = answered(folder / "solved.nc", "--headroom", tmp_path / "headroom.nc", "--out", tmp_path / "r.html")
    page = Page(tmp_path / "r.html")
    head, *rows = page.tables["Headroom"]
    assert head[:4] == ["bus", "headroom (MW)", "status", "element"]
    frame = found.to_frame()
    shown = {row[0]: row[3] for row in rows}
    assert shown == frame["element"].to_dict()
    assert frame["headroom"].reindex(list(shown)).is_monotonic_increasing
    limits = {row[0]: row[1] for row in page.tables["What limits headroom"][1:]}
    assert limits == frame["element"].value_counts().astype(str).to_dict()
    # Buses without a place have no map, and the answer says so.
    assert any("There is no map" in note for note in answer["notes"])
    assert "fixed dispatch, distribution factors" in page.words
    assert len(answer["tables"]["headroom"]) == len(frame)
    n.buses.loc[["grid", "far"], ["x", "y"]] = [[1.0, 2.0], [3.0, 5.0]]
    told = composed(n, headroom=bus_headroom(n))
    assert not any("map" in note for note in told.document.notes)
    assert any(title.startswith("Map of headroom") for title in told.alternatives)


@pytest.mark.parametrize(
    ("name", "named"), [("gone", "an existing netCDF"), ("envelope", "headroom"), ("other", "buses of")]
)
def test_a_headroom_file_that_does_not_fit(folder, tmp_path, name, named) -> None:
    path = folder / "envelope.nc" if name == "envelope" else tmp_path / f"{name}.nc"
    if name == "other":
        bus_headroom(triangle()).to_netcdf(path)
    with pytest.raises(aidc.InputError, match=named):
        answered(folder / "solved.nc", "--headroom", path, "--out", tmp_path / "never.html")
    assert not (tmp_path / "never.html").exists()


def test_faults_of_a_headroom_table_are_told_together(solved_pair, tmp_path) -> None:
    path = tmp_path / "headroom.csv"
    path.write_text("bus,headroom\ngrid,much\nghost,5\nfar,-1\nfar,2\n")
    with pytest.raises(aidc.InputError) as caught:
        read_headroom(path, solved_pair)
    assert [fault.where for fault in caught.value.faults] == [
        "row 3, bus",
        "row 5, bus",
        "row 2, headroom",
        "row 4, headroom",
    ]
    path.write_text("node,MW\ngrid,1\n")
    with pytest.raises(aidc.InputError, match="'headroom'"):
        read_headroom(path, solved_pair)
    path.write_text("bus,headroom\n")
    with pytest.raises(aidc.InputError, match="at least one bus"):
        read_headroom(path, solved_pair)


def test_the_map_places_buses_and_branches(solved_pair) -> None:
    n = copy_network(solved_pair)
    n.buses.loc[["grid", "far"], ["x", "y"]] = [[1.0, 2.0], [3.0, 5.0]]
    frame = pd.DataFrame({"headroom": [7.0, float("inf")]}, index=pd.Index(["far", "grid"], name="bus"))
    axes = HeadroomTable(frame, n).plot().axes[0]
    (points,) = [drawn for drawn in axes.collections if drawn.get_array() is not None]
    assert points.get_offsets().tolist() == [[3.0, 5.0]]
    assert points.get_array().tolist() == [7.0]
    (unlimited,) = [drawn for drawn in axes.collections if drawn.get_label() == "not limited"]
    assert unlimited.get_offsets().tolist() == [[1.0, 2.0]]
    lines = [
        segment.tolist()
        for drawn in axes.collections
        if hasattr(drawn, "get_segments")
        for segment in drawn.get_segments()
    ]
    assert [[1.0, 2.0], [3.0, 5.0]] in lines
    # The sites have no place of their own: they lie at their grid buses, not at 0, 0.
    (sites,) = [drawn for drawn in axes.collections if drawn.get_label() == "AIDC"]
    assert sites.get_offsets().tolist() == [[1.0, 2.0], [3.0, 5.0]]
