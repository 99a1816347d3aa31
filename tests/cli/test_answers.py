"""What each verb with results answers to people, to programs, and with --quiet."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest
import typer

import pypsa_aidc as aidc
from pypsa_aidc import fleet
from pypsa_aidc.cli import app
from pypsa_aidc.cli.reply import Reply, records
from pypsa_aidc.fleet import TermSheet
from pypsa_aidc.network import scenario_network
from tests.cli.running import Runner, solve_once
from tests.cli.test_screen import own_files
from tests.conftest import ROOT
from tests.fleet import made
from tests.fleet.test_trace import generic_rows
from tests.headroom.grids import triangle
from tests.network.tiny import QUIET, grid, job, site

pytestmark = pytest.mark.usefixtures("there")

HOURS = 60
GENERIC = ("--layout", "generic", "--utilisation", "fraction", "--draws", "2")
SCREEN = ("--envelope", "envelope.nc", "--offsets", "day", "--margin", "0.05", "--budget", "0.1")
VERBS = {
    "dispatch": ("mine.nc", "-s", "S4"),
    "fleet": ("trace", *GENERIC, "--no-figures"),
    "surface": ("envelope.nc", "--portfolio", "all", "--no-figures"),
    "screen": ("mine-region.nc", *SCREEN, "--no-calls", "--no-figures"),
    "headroom": ("triangle.nc",),
    "study": ("study.yaml",),
    "adequacy": ("triangle.nc", "--units", "units.csv", "--load", "600", "--trials", "2"),
    "terms": ("east.terms.json",),
    "report": ("solved.nc",),
}
SITE = """\
sites:
  - name: new
    bus: grid
    gpus: 8
    jobs:
      - {name: A, model: LLaMA-13B, tokens: 1e12, batch: 1024, sequence: 2048, tranche_ratio: 1e-4, modes: modes.csv}
"""
STUDY = """\
requests:
  - {name: east, bus: B, nameplate: 300, budget: {hours: 1}}
study: {network: triangle.nc, outages: all}
"""
MODES = (ROOT / "docs" / "site-modes.csv").read_text()


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a user may have lying about; read only."""
    folder = tmp_path_factory.mktemp("files")
    own_files(folder)
    (folder / "mine.nc").rename(folder / "mine-region.nc")
    mine = site(grid(), jobs=[job("A"), job("B", 2.0, 2)], gpus=12)
    mine.export_to_netcdf(folder / "mine.nc")
    mine.aidc.optimize(**QUIET)
    mine.export_to_netcdf(folder / "solved.nc")
    triangle().export_to_netcdf(folder / "triangle.nc")
    (folder / "study.yaml").write_text(STUDY)
    (folder / "units.csv").write_text("name,mttf,mttr\nG,9,1\n")
    TermSheet(id="east", nameplate_mw=300.0).write(folder / "east.terms.json")
    hours = [generic_rows().with_columns(hour=pl.col("hour") + 2 * pair) for pair in range(HOURS // 2)]
    made.write(pl.concat(hours), folder / "trace" / "pods.csv")
    return folder


@pytest.fixture
def there(files: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(files)
    return files


def target(verb: str, folder: Path) -> Path:
    return folder / ("report.html" if verb == "report" else "out")


@pytest.fixture(scope="module")
def known() -> dict[str, object]:
    return {}


@pytest.mark.parametrize("verb", VERBS)
class TestEveryVerb:
    @pytest.fixture(autouse=True)
    def once(self, monkeypatch: pytest.MonkeyPatch, known: dict[str, object]) -> None:
        solve_once(monkeypatch, known)

    def test_json_is_one_object_that_names_the_files(self, verb: str, run: Runner, tmp_path: Path) -> None:
        out = target(verb, tmp_path)
        done = run(verb, *VERBS[verb], "--out", out, "--json")
        assert (done.code, done.err) == (0, "")
        assert any(done.data["tables"].values())
        written = {Path(path) for path in done.data["written"]}
        assert written == {path for path in tmp_path.rglob("*") if path.is_file()}

    def test_quiet_writes_files_and_says_nothing(self, verb: str, run: Runner, tmp_path: Path) -> None:
        out = target(verb, tmp_path)
        done = run(verb, *VERBS[verb], "--out", out, "--quiet")
        assert (done.code, done.out, done.err) == (0, "", "")
        assert out.exists()

    def test_quiet_still_tells_errors(self, verb: str, run: Runner, tmp_path: Path) -> None:
        done = run(verb, "nowhere.nc", "--out", target(verb, tmp_path), "--quiet", "--json")
        assert (done.code, done.out) == (2, "")
        assert done.err.startswith("error: ")

    def test_people_get_no_json(self, verb: str, run: Runner, tmp_path: Path) -> None:
        done = run(verb, *VERBS[verb], "--out", target(verb, tmp_path))
        assert done.code == 0
        assert "{" not in done.out
        assert done.out.strip()


class TestDispatch:
    def test_json_is_what_python_gives(self, run: Runner, tmp_path: Path) -> None:
        data = run("dispatch", *VERBS["dispatch"], "-s", "S1", "--out", tmp_path, "--json").data
        n = scenario_network(aidc.load("mine.nc"), "S4", [])
        result = n.aidc.optimize(mip_rel_gap=1e-6, output_flag=False)
        ended = {solve["scenario"]: solve for solve in data["solves"]}
        assert list(ended) == ["S4", "S1"]
        assert ended["S4"]["status"] == result.status == "optimal"
        assert ended["S4"]["objective"] == pytest.approx(result.objective, rel=1e-6)
        assert ended["S4"]["audit_passed"] is True
        table = {row["scenario"]: row for row in data["tables"]["scenarios"]}
        # All power is bought, so the cost of the table is PyPSA's objective.
        assert table["S4"]["cost"] == pytest.approx(result.objective, rel=1e-6)
        assert data["units"]["cost"] == "USD"
        assert "cost_paper" not in table["S4"]

    def test_a_scenario_without_solution_is_told_beside_the_others(
        self, run: Runner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        # Two jobs of four GPUs each in a pool of five: the fixed baselines do not fit, checkpoints make them fit.
        n = site(grid(10), jobs=[job("A", 4.0, 4), job("B", 4.0, 4)], gpus=5)
        n.export_to_netcdf(tmp_path / "n.nc")
        solve_once(monkeypatch, {})
        common = ("dispatch", tmp_path / "n.nc", "-s", "S1", "-s", "S4", "--out", tmp_path / "out")
        done = run(*common)
        assert done.code == 3
        assert "no solution" in done.out
        assert "optimal" in done.out
        assert done.err.startswith("error: S1: AIDC 'dc': its jobs do not fit into 5 GPUs")
        done = run(*common, "--json")
        assert done.code == 3
        assert done.err.startswith("error: S1: ")
        first, second = done.data["solves"]
        assert (first["status"], first["objective"]) == ("no solution", None)
        assert "do not fit into 5 GPUs" in first["failure"]
        assert (second["status"], second["failure"]) == ("optimal", "")

    def test_json_alone_is_on_stdout(self, run_process: Runner, tmp_path: Path) -> None:
        """Of all that the process writes: the solver writes to the terminal by itself."""
        done = run_process("dispatch", *VERBS["dispatch"], "--out", tmp_path, "--json")
        assert (done.code, done.err) == (0, "")
        assert done.data["network"] == "mine.nc"

    def test_sites_of_a_configuration(self, run: Runner, tmp_path: Path) -> None:
        grid(24).export_to_netcdf(tmp_path / "plain.nc")
        (tmp_path / "site.yaml").write_text(SITE)
        (tmp_path / "modes.csv").write_text(MODES)
        common = ("-s", "S4", "--gap", "0", "--out", tmp_path / "out", "--json")
        override = ("--set", "sites.new.gpus=512")
        data = run("dispatch", tmp_path / "plain.nc", "--config", tmp_path / "site.yaml", *override, *common).data
        run("add", tmp_path / "plain.nc", tmp_path / "site.yaml", *override, "-o", tmp_path / "with.nc")
        assert aidc.load(tmp_path / "with.nc").aidc.sites["new"].spec.gpus == 512
        again = run("dispatch", tmp_path / "with.nc", *common).data
        assert data["solves"][0]["objective"] > 0
        assert data["solves"][0]["objective"] == pytest.approx(again["solves"][0]["objective"])
        assert data["config"] == str(tmp_path / "site.yaml")

    @pytest.mark.parametrize(
        ("arguments", "named"),
        [
            (["--config", "site.yaml"], "a network beside it"),
            (["mine.nc", "--set", "sites.new.gpus=4"], "a --config that it overrides"),
            (["mine.nc", "--config", "nowhere.yaml"], "nowhere.yaml"),
        ],
    )
    def test_options_that_need_another(
        self, run: Runner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], named: str
    ) -> None:
        (tmp_path / "site.yaml").write_text(SITE)
        monkeypatch.chdir(tmp_path)
        done = run("dispatch", *arguments, "--out", tmp_path / "out")
        assert done.code == 2
        assert named in done.err
        assert not (tmp_path / "out").exists()


class TestTheOthers:
    def test_fleet(self, run: Runner, tmp_path: Path) -> None:
        data = run("fleet", *VERBS["fleet"], "--out", tmp_path, "--json").data
        assert data["synthetic"] is False
        # Four rows each two hours, none of them faulty.
        assert data["read"]["rows"] == 2 * HOURS
        assert data["notes"][0].startswith("no aggregation diagnostics")
        layers = {row["layer"]: row["share"] for row in data["tables"]["layers"]}
        assert sum(layers.values()) == pytest.approx(1.0)

    def test_surface(self, run: Runner, tmp_path: Path) -> None:
        data = run("surface", *VERBS["surface"], "--out", tmp_path, "--json").data
        surface = fleet.Surface.read(tmp_path / "surface.nc")
        rows = pd.DataFrame(data["tables"]["surface_sup"]).drop(columns="windows").set_index("duration")
        np.testing.assert_allclose(rows.to_numpy(float), surface.K.to_pandas().to_numpy())
        assert {"terms", "scalar_errors", "eras"} <= set(data["tables"])

    def test_surface_without_windows(self, run: Runner, tmp_path: Path) -> None:
        rows = pd.DataFrame({"hour": [0, 1], "cluster": "c", "layer": "eligible", "power": 5.0})
        fleet.Envelope.from_frame(rows, source="a meter").save(tmp_path / "short.nc")
        data = run("surface", tmp_path / "short.nc", "--out", tmp_path / "out", "--json").data
        assert data["notes"] == ["no window of 4 h: no counterfactuals, terms or tests"]
        assert set(data["tables"]) == {"surface_sup", "surface_linear"}

    def test_screen(self, run: Runner, tmp_path: Path) -> None:
        data = run("screen", *VERBS["screen"], "--out", tmp_path, "--json").data
        assert data["demand"] == "mine-region.nc"
        cases = {row["profile"]: row for row in data["tables"]["cases"]}
        # As in test_screen: 5 % of 90 MW for a flat load without relief.
        assert cases["none"]["headroom"] == pytest.approx(4.5)
        assert cases["full"]["limiter"] == "call budget"

    def test_notes_of_the_screen(self, run: Runner, tmp_path: Path) -> None:
        arguments = ("demand.csv", *SCREEN, "--gaps", "interpolate", "--period", "year", "--no-figures")
        shown = run("screen", *arguments, "--out", tmp_path / "shown")
        data = run("screen", *arguments, "--out", tmp_path / "told", "--json").data
        assert any(note.startswith("calls limited by K are left out") for note in data["notes"])
        told = " ".join(shown.out.split())
        assert all(" ".join(note.split()) in told for note in data["notes"])
        assert len(data["tables"]["demand_audit"]) == len(pd.read_csv(tmp_path / "told" / "demand_audit.csv")) > 0

    def test_headroom_tells_all_buses(self, run: Runner, tmp_path: Path) -> None:
        data = run("headroom", "triangle.nc", "--outages", "--rows", "1", "--out", tmp_path, "--json").data
        # As in tests/headroom/test_bus_cli.py, by hand from the ratings.
        headroom = {row["bus"]: row["headroom"] for row in data["tables"]["headroom"]}
        assert headroom == pytest.approx({"A": 970.0, "B": 70.0, "C": 60.0})
        assert {row["status"] for row in data["tables"]["headroom"]} <= {"limited", "unlimited"}

    def test_headroom_without_coordinates(self, run: Runner, tmp_path: Path) -> None:
        n = triangle()
        n.buses[["x", "y"]] = float("nan")
        n.export_to_netcdf(tmp_path / "n.nc")
        data = run("headroom", tmp_path / "n.nc", "--out", tmp_path / "out", "--json").data
        assert data["notes"][-1].startswith("no map: ")
        assert [Path(path).name for path in data["written"]] == ["headroom.csv", "headroom.nc"]

    def test_report(self, run: Runner, tmp_path: Path) -> None:
        out = tmp_path / "all.html"
        data = run("report", "solved.nc", "--envelope", "envelope.nc", "--out", out, "--json").data
        n = aidc.load("solved.nc")
        assert data["status"]["status"] == "optimal"
        assert data["status"] == n.aidc.status
        assert [(row["site"], row["job"]) for row in data["tables"]["jobs"]] == [("dc", "A"), ("dc", "B")]
        energy = sum(row["energy"] for row in data["tables"]["schedule"])
        assert energy == pytest.approx(n.aidc.schedule()["energy"].sum())
        assert data["tables"]["schedule"][0]["start"].startswith("2030-01-01T")
        assert "terms" in data["tables"]


def test_every_verb_of_the_command_line_has_both_options() -> None:
    verbs = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    assert set(VERBS) < set(verbs)
    # A schema is one JSON object, whoever asks.
    del verbs["schema"]
    for name, verb in verbs.items():
        options = {option for parameter in verb.params for option in parameter.opts}
        assert {"--json", "--quiet", "-q", "--verbose", "-v", "--set"} <= options, name


def test_quiet_keeps_doubts_about_units_to_itself(run: Runner, tmp_path: Path) -> None:
    # A base load of 375 (kW) on a connection of 1.4 MW, as in test_exchange_verbs.
    grid(24).export_to_netcdf(tmp_path / "plain.nc")
    (tmp_path / "site.yaml").write_text(SITE)
    (tmp_path / "modes.csv").write_text(MODES)
    settings = ("--set", "sites.new.gpus=512", "--set", "sites.new.base_load=375", "--set", "sites.new.p_nom=1.4")
    arguments = ("add", tmp_path / "plain.nc", tmp_path / "site.yaml", *settings, "--dry-run")
    assert "375 MW" in run(*arguments, "--json").err
    done = run(*arguments, "--quiet")
    assert (done.code, done.out, done.err) == (0, "", "")


def test_json_knows_no_infinity(capsys: pytest.CaptureFixture[str]) -> None:
    Reply(as_json=True).data({"bound": -math.inf, "gaps": [math.nan, 0.5], "site": {"p_nom": math.inf}})
    assert json.loads(capsys.readouterr().out) == {"bound": None, "gaps": [None, 0.5], "site": {"p_nom": None}}


def test_records_begin_with_a_named_index() -> None:
    frame = pd.DataFrame({"MW": [1.5]}, index=pd.DatetimeIndex(["2030-01-01 05:00"], name="snapshot"))
    (row,) = records(frame)
    assert list(row) == ["snapshot", "MW"]
    assert pd.Timestamp(row["snapshot"]) == frame.index[0]
    assert list(records(frame.rename_axis(None))[0]) == ["MW"]
