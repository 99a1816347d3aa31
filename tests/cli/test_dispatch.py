from __future__ import annotations

from pathlib import Path

import pandas as pd
import pypsa
import pytest

import pypsa_aidc as aidc
from pypsa_aidc.network import SCENARIOS
from tests.cli.running import Runner
from tests.conftest import ROOT
from tests.network.tiny import grid, job, site


@pytest.mark.slow
def test_bundled_campus_with_the_paper_beside_it(tmp_path: Path, run_process: Runner) -> None:
    scenarios = ("-s", "S1", "-s", "S4", "-s", "S6")
    done = run_process("dispatch", "--out", tmp_path / "out", "--time-limit", "60", *scenarios)
    assert (done.code, done.err) == (0, "")
    for text in ("473.03", "378.33", "378.26", "377.79", "paper", "calibrated"):
        assert text in done.out
    assert "HiGHS" not in done.out
    for figure in ("balance.png", "composition.png", "execution.png"):
        assert (tmp_path / "out" / figure).stat().st_size > 10_000
    table = pd.read_csv(tmp_path / "out" / "table.csv", index_col="scenario")
    assert table.loc["S1", "cost"] == pytest.approx(473.03, abs=0.01)
    assert table["status"].eq("optimal").all()


def test_a_slow_machine_has_results_all_the_same(tmp_path: Path, run: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    """No search finds anything in a microsecond: S3 goes on to its first schedule, S4 has one made at prices."""
    monkeypatch.setattr("pypsa_aidc.cli.dispatch.SEARCH_SECONDS", 1e-6)
    done = run("dispatch", "-s", "S3", "-s", "S4", "-o", tmp_path, "--json")
    assert done.code == 0, done.err
    bound, executable = done.data["solves"]
    # Optima of the campus, USD; a first schedule is dearer, and says that it is no optimum.
    assert bound["objective"] >= 34.87
    assert bound["bound"] <= bound["objective"]
    assert executable["objective"] >= 35.13
    for solve in (bound, executable):
        assert solve["audit_passed"]
        assert solve["status"] != "optimal"
        assert any(f"{solve['scenario']} stopped at {solve['status']}" in note for note in done.data["notes"])


def test_a_network_of_the_user_frozen_and_reported(tmp_path: Path, run: Runner) -> None:
    n = site(grid(), jobs=[job("A"), job("B", 2.0, 2)], gpus=12)
    n.export_to_netcdf(tmp_path / "mine.nc")
    done = run("dispatch", tmp_path / "mine.nc", "--out", tmp_path / "out", "-s", "S1", "-s", "S4", "--json")
    assert done.code == 0, done.err
    rows = {row["scenario"]: row for row in done.data["tables"]["scenarios"]}
    # 1 MW base and 4 MW of the fast mode, or 2 + 2 MW side by side, at a PUE of 1.25; no other load, so green is told.
    assert done.data["units"]["peak_mw"] == "MW"
    assert rows["S1"]["peak_mw"] == pytest.approx(6.25)
    assert {"green", "non_renewable"} <= rows["S4"].keys()
    assert not {"battery", "peak_kw", "cost_paper"} & rows["S4"].keys()
    for name in ("S1", "S4"):
        assert str(tmp_path / "out" / f"{name}.nc") in done.data["written"]
    solved = aidc.load(tmp_path / "out" / "S4.nc")
    assert solved.aidc.status["objective"] == pytest.approx(done.data["solves"][1]["objective"])
    assert not solved.aidc.schedule().empty
    assert run("freeze", tmp_path / "out" / "S4.nc", "--out", tmp_path / "frozen.nc").code == 0
    assert run("report", tmp_path / "out" / "S4.nc", "--out", tmp_path / "report.html").code == 0
    assert aidc.load(tmp_path / "frozen.nc").generators_t.p_set["dc A"].sum() > 0


def with_battery() -> pypsa.Network:
    n = site(grid(6, [1.0, 1.0, 9.0, 9.0, 5.0, 5.0]), jobs=[job("A", 2.0, 2)])
    n.add("Carrier", "battery")
    n.add("StorageUnit", "own battery", bus="grid", carrier="battery", p_nom=1.0, max_hours=2)
    n.add("Load", "town", bus="grid", carrier="AC", p_set=2.0)
    return n


def test_storage_of_an_own_network_stays_unless_it_is_named(tmp_path: Path, run: Runner) -> None:
    with_battery().export_to_netcdf(tmp_path / "mine.nc")
    common = ("dispatch", tmp_path / "mine.nc", "--out", tmp_path / "out")
    plain = run(*common, "--json").data
    rows = {row["scenario"]: row for row in plain["tables"]["scenarios"]}
    assert list(rows) == ["S1", "S2", "S3", "S4"]
    assert "green" not in rows["S1"]
    assert any("own battery" in note and "--storage" in note for note in plain["notes"])
    common = (*common, "--storage", "own battery")
    assert run(*common, "--dry-run").out.startswith("S1, S2, S3, S4, S5, S6 of ")
    answer = run(*common, "-s", "S1", "-s", "S5", "-s", "S6", "--json").data
    named = {row["scenario"]: row for row in answer["tables"]["scenarios"]}
    # 1 MW for two hours, bought at 1 and given back at 9 USD/MWh.
    assert named["S1"]["cost"] - named["S5"]["cost"] == pytest.approx(2 * (9 - 1))
    for bare, with_storage in (("S1", "S5"), ("S4", "S6")):
        assert rows[bare]["cost"] == pytest.approx(named[with_storage]["cost"])


def test_a_scenario_with_storage_needs_one(tmp_path: Path, run: Runner) -> None:
    with_battery().export_to_netcdf(tmp_path / "mine.nc")
    done = run("dispatch", tmp_path / "mine.nc", "-s", "S6", "--out", tmp_path / "out")
    assert done.code == 2
    assert "--storage" in done.err
    assert "own battery" in done.err
    assert not (tmp_path / "out").exists()


def test_the_table_fits_a_terminal(tmp_path: Path, run: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    n = with_battery()
    n.generators_t.marginal_cost *= 1e5
    n.export_to_netcdf(tmp_path / "mine.nc")
    monkeypatch.setenv("COLUMNS", "80")
    done = run("dispatch", tmp_path / "mine.nc", "-s", "S1", "-s", "S4", "--out", tmp_path / "out")
    assert "…" not in done.out
    assert "optimal" in done.out
    table = pd.read_csv(tmp_path / "out" / "table.csv", index_col="scenario")
    assert f"{table.loc['S1', 'cost']:,.0f}" in done.out


def test_help_tells_the_scenarios(run: Runner) -> None:
    told = run("dispatch", "--help").out
    assert all(f"{name}  " in told for name in SCENARIOS)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["nowhere.nc"], "an existing file or CSV folder"),
        (["broken.nc"], "a complete netCDF file of a PyPSA network"),
        (["empty.nc"], "at least one AIDC"),
        (["-s", "S9"], "S1, S2, S3, S4, S5, S6"),
        (["--storage", "ghost"], "battery"),
    ],
)
def test_bad_input_is_one_message_and_exit_code_2(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Runner, arguments: list[str], named: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "broken.nc").write_bytes(b"no netCDF at all")
    grid().export_to_netcdf(tmp_path / "empty.nc")
    done = run("dispatch", *arguments, "--out", "out")
    assert done.code == 2
    assert done.err.startswith("error: pypsa-aidc dispatch:" if arguments[0].startswith("-") else "error: ")
    assert named in done.err
    assert not (tmp_path / "out").exists()


def test_bundled_network_is_that_of_its_script(green_campus) -> None:
    bundled, built = pypsa.Network(ROOT / "networks" / "green_campus.nc"), green_campus.network()
    assert bundled.aidc.sites == built.aidc.sites
    for component in ("Bus", "Generator", "Link", "Store", "Load"):
        ours, theirs = bundled.c[component], built.c[component]
        pd.testing.assert_frame_equal(ours.static, theirs.static, check_dtype=False, check_index_type=False)
        for attribute, frame in theirs.dynamic.items():
            if not frame.empty:
                pd.testing.assert_frame_equal(
                    ours.dynamic[attribute],
                    frame,
                    check_dtype=False,
                    check_index_type=False,
                    check_column_type=False,
                    check_freq=False,
                )
