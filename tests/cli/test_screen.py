from __future__ import annotations

import json
import warnings
from pathlib import Path

import pandas as pd
import pytest

from pypsa_aidc import fleet
from pypsa_aidc.cli import main
from pypsa_aidc.headroom import Demand, regional_network
from tests.cli.running import Runner


@pytest.mark.slow
def test_bundled_region_with_the_paper_beside_it(tmp_path: Path, run_process: Runner) -> None:
    done = run_process("screen", "--out", tmp_path / "out", "--calls")
    assert (done.code, done.err) == (0, "")
    for text in ("32,436 MW", "1811.5", "1809", "1742–1865", "3 (2–4)", "synthetic", "calls limited by K", "may hide"):
        assert text in done.out, text
    table = pd.read_csv(tmp_path / "out" / "synthetic_headroom.csv", index_col="profile")
    deviation = table["deviation"].dropna()
    assert len(deviation) == 6
    assert deviation.abs().max() < 0.005
    assert table["data"].eq("synthetic fleet").all()
    assert len(pd.read_csv(tmp_path / "out" / "synthetic_demand_audit.csv")) == 47
    assert len(pd.read_csv(tmp_path / "out" / "synthetic_cases.csv")) == 7 * 4 * 5
    for figure in ("figure_17_headroom", "figure_18_ratios"):
        assert (tmp_path / "out" / f"synthetic_{figure}.png").stat().st_size > 10_000


def called(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    """Exit code of the command, run in this process: most of its time goes into imports."""
    monkeypatch.setattr("sys.argv", ["pypsa-aidc", "screen", *arguments])
    with pytest.raises(SystemExit) as left, warnings.catch_warnings():
        main()
    return int(left.value.code or 0)


def own_files(folder: Path) -> Demand:
    rows = pd.DataFrame({"hour": range(48), "cluster": "c", "layer": ["floor", "eligible"] * 24, "power": 5.0})
    fleet.Envelope.from_frame(rows, source="a meter").save(folder / "envelope.nc")
    hours = pd.date_range("2024-01-01", periods=200, freq="h")
    demand = Demand(pd.Series([60.0 + 30 * (hour % 24) / 23 for hour in range(200)], hours), region="mine")
    text = "\n".join(f"{hour},{mw}" for hour, mw in demand.series.items() if hour.hour != 4)
    (folder / "demand.csv").write_text(f"utc_end,demand_mw\n{text}\n")
    regional_network(demand).export_to_netcdf(folder / "mine.nc")
    return demand


def test_demand_and_fleet_of_the_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    own_files(tmp_path)
    monkeypatch.chdir(tmp_path)
    common = ("--envelope", "envelope.nc", "--offsets", "all", "--margin", "0.05", "--budget", "0.1", "--no-calls")
    assert called(monkeypatch, "demand.csv", *common, "--gaps", "interpolate", "--out", "out") == 0
    shown = capsys.readouterr().out
    assert "mine" not in shown
    for word in ("paper", "synthetic"):
        assert word not in shown
    cases = pd.read_csv(tmp_path / "out" / "cases.csv").set_index("profile")
    # A flat load: 5 % of 90 MW without relief; all of it callable, the budget of a tenth of the hours binds.
    assert cases.at["none", "headroom"] == pytest.approx(4.5)
    table = pd.read_csv(tmp_path / "out" / "headroom.csv").set_index("profile")
    assert table.at["none", "headroom"] == pytest.approx(4.5)
    assert (table["budget"] == 0.1).all()
    assert cases.at["full", "limiter"] == "call budget"
    assert called(monkeypatch, "mine.nc", *common, "--no-figures", "--out", "out2") == 0
    assert "mine" in capsys.readouterr().out
    assert not (tmp_path / "out2" / "figure_17_headroom.png").exists()


def test_the_table_is_the_first_case_that_was_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    own_files(tmp_path)
    monkeypatch.chdir(tmp_path)
    common = ("demand.csv", "--envelope", "envelope.nc", "--offsets", "day", "--gaps", "interpolate", "--no-figures")
    asked = ("--margin", "0.1", "--margin", "0", "--budget", "0.1", "--budget", "0.05", "--out", "out", "--json")
    assert called(monkeypatch, *common, *asked) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["margin"], told["budget"]) == (0.1, 0.1)
    assert "margin 10 %, budget 10 % of hours" in told["case"]
    assert "one of 4 cases, the others are in cases.csv" in told["case"]
    table = pd.read_csv(tmp_path / "out" / "headroom.csv").set_index("profile")
    # A flat load without relief: 10 % of the peak of 90 MW.
    assert table.at["none", "headroom"] == pytest.approx(9.0)
    assert set(table["margin"]) == {0.1}
    assert set(table["budget"]) == {0.1}
    assert "calls limited by K" in table.index
    assert len(told["tables"]["headroom"]) == len(table)
    assert len(told["tables"]["cases"]) == 4 * (len(table) - 1)


def test_without_options_the_table_is_the_case_of_the_paper(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    own_files(tmp_path)
    monkeypatch.chdir(tmp_path)
    common = ("mine.nc", "--envelope", "envelope.nc", "--offsets", "day", "--no-calls", "--no-figures", "--out", "out")
    assert called(monkeypatch, *common) == 0
    assert "margin 5 %, budget 0.5 %" in capsys.readouterr().out


def test_how_stamps_were_read_and_what_was_cleaned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    own_files(tmp_path)
    text = (tmp_path / "demand.csv").read_text().replace("utc_end,demand_mw", "time,system load")
    (tmp_path / "demand.csv").write_text(text)
    monkeypatch.chdir(tmp_path)
    common = ("demand.csv", "--envelope", "envelope.nc", "--offsets", "day", "--gaps", "interpolate", "--no-calls")
    assert called(monkeypatch, *common, "--no-figures") == 0
    shown = capsys.readouterr().out
    assert "column 'system load'" in shown
    assert "'time' as the end of each hour, in UTC; the first hour starts 2023-12-31 23:00 UTC" in shown
    assert "(assumed; --stamps and --timezone say otherwise)" in shown
    # 200 hours from midnight, of which those at 4 o'clock are left out: nine days.
    assert "cleaned: 9 h missing, interpolated" in shown
    given = ("--stamps", "beginning", "--timezone", "America/Chicago")
    assert called(monkeypatch, *common, *given, "--no-figures", "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert told["stamps"] == "'time' as the beginning of each hour, in America/Chicago"
    assert told["column"] == "system load"
    # Midnight in Chicago in January.
    assert told["tables"]["demand_audit"][0]["snapshot"].startswith("2024-01-01T10:00")
    assert not [note for note in told["notes"] if "assumed" in note]


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["nowhere.csv"], "an existing file"),
        (["demand.csv"], "gaps='interpolate'"),
        (["demand.csv", "--column", "adjusted"], "one of raw"),
        (["demand.csv", "--margin=-0.05"], "5 % below a peak that is there without any site"),
        (["demand.csv", "--envelope", "envelope.nc", "--gaps", "interpolate", "--budget", "5"], "0.05 for 5 %"),
        (["mine.nc", "--stamps", "beginning"], "a network has no regions, columns or stamps"),
        (["--offsets", "some"], "'random', 'day', 'week', 'all'"),
        (["--offsets", "all", "--seed", "3"], "only random offsets are drawn"),
        (["mine.nc", "--region", "8910"], "a network has no regions"),
        (["broken.nc"], "a complete netCDF file of a PyPSA network"),
        (["mine.nc", "--envelope", "mine.nc"], "Envelope"),
    ],
)
def test_bad_input_is_one_message_and_exit_code_2(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    named: str,
) -> None:
    own_files(tmp_path)
    (tmp_path / "broken.nc").write_bytes(b"no netCDF at all")
    monkeypatch.chdir(tmp_path)
    assert called(monkeypatch, *arguments, "--out", "out") == 2
    told = capsys.readouterr().err
    assert told.startswith("error: ")
    assert named in told
    assert not (tmp_path / "out").exists()
