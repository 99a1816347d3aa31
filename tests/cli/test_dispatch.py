from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pandas as pd
import pypsa
import pytest

import pypsa_aidc as aidc
from tests.cli.running import Runner
from tests.conftest import ROOT
from tests.network.tiny import grid, job, site


def started(*arguments: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from pypsa_aidc.cli import main; main()", *map(str, arguments)]
    return subprocess.run(
        command, cwd=cwd, capture_output=True, text=True, env={"PYTHONPATH": str(ROOT), "COLUMNS": "100"}
    )


@pytest.mark.slow
def test_bundled_campus_with_the_paper_beside_it(tmp_path: Path) -> None:
    done = started(
        "dispatch", "--out", tmp_path / "out", "--time-limit", "60", "-s", "S1", "-s", "S4", "-s", "S6", cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    for text in ("473.03", "378.33", "378.26", "377.79", "paper", "calibrated"):
        assert text in done.stdout
    assert "HiGHS" not in done.stdout
    for figure in ("balance.png", "composition.png", "execution.png"):
        assert (tmp_path / "out" / figure).stat().st_size > 10_000
    table = pd.read_csv(tmp_path / "out" / "table.csv", index_col="scenario")
    assert table.loc["S1", "cost"] == pytest.approx(473.03, abs=0.01)
    assert table["status"].eq("optimal").all()


def test_a_network_of_the_user(tmp_path: Path, run: Runner) -> None:
    n = site(grid(), jobs=[job("A"), job("B", 2.0, 2)], gpus=12)
    n.export_to_netcdf(tmp_path / "mine.nc")
    done = run("dispatch", tmp_path / "mine.nc", "--out", tmp_path / "out", "-s", "S1", "-s", "S4")
    assert done.code == 0, done.err
    assert "paper" not in done.out
    assert "S4" in done.out


def test_infeasible_scenarios_are_told_beside_the_others(tmp_path: Path, run: Runner) -> None:
    # Two jobs of four GPUs each in a pool of five: the fixed baselines do not fit, checkpoints make them fit.
    n = site(grid(10), jobs=[job("A", 4.0, 4), job("B", 4.0, 4)], gpus=5)
    n.export_to_netcdf(tmp_path / "mine.nc")
    done = run("dispatch", tmp_path / "mine.nc", "--out", tmp_path / "out", "-s", "S1", "-s", "S4")
    assert done.code == 3
    assert "no solution" in done.out
    assert "optimal" in done.out
    assert done.err.startswith("error: S1: AIDC 'dc': its jobs do not fit into 5 GPUs")


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
    assert done.err.startswith("error: ")
    assert named in done.err
    assert not (tmp_path / "out").exists()


def test_bundled_network_is_that_of_its_script(green_campus) -> None:
    bundled, built = pypsa.Network(ROOT / "networks" / "green_campus.nc"), green_campus.network()
    assert aidc.sites(bundled) == aidc.sites(built)
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
