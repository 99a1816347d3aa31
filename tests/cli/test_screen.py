from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from pypsa_aidc import fleet
from pypsa_aidc.headroom import Demand, regional_network
from tests.cli.test_dispatch import run


@pytest.mark.slow
def test_bundled_region_with_the_paper_beside_it(tmp_path: Path) -> None:
    done = run("screen", "--out", "out", "--calls", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    for text in ("32,436 MW", "1811.5", "1809", "1742–1865", "3 (2–4)", "synthetic", "calls limited by K", "may hide"):
        assert text in done.stdout, text
    table = pd.read_csv(tmp_path / "out" / "synthetic_headroom.csv", index_col="profile")
    deviation = table["deviation"].dropna()
    assert len(deviation) == 6
    assert deviation.abs().max() < 0.005
    assert table["data"].eq("synthetic fleet").all()
    assert len(pd.read_csv(tmp_path / "out" / "synthetic_demand_audit.csv")) == 47
    assert len(pd.read_csv(tmp_path / "out" / "synthetic_cases.csv")) == 7 * 4 * 5
    for figure in ("figure_17_headroom", "figure_18_ratios"):
        assert (tmp_path / "out" / f"synthetic_{figure}.png").stat().st_size > 10_000


def own_files(folder: Path) -> Demand:
    rows = pd.DataFrame({"hour": range(48), "cluster": "c", "layer": ["floor", "eligible"] * 24, "power": 5.0})
    fleet.envelope_from_frame(rows, source="a meter").save(folder / "envelope.nc")
    hours = pd.date_range("2024-01-01", periods=200, freq="h")
    demand = Demand(pd.Series([60.0 + 30 * (hour % 24) / 23 for hour in range(200)], hours), region="mine")
    text = "\n".join(f"{hour},{mw}" for hour, mw in demand.series.items() if hour.hour != 4)
    (folder / "demand.csv").write_text(f"utc_end,demand_mw\n{text}\n")
    regional_network(demand).export_to_netcdf(folder / "mine.nc")
    return demand


def test_demand_and_fleet_of_the_user(tmp_path: Path) -> None:
    own_files(tmp_path)
    common = ("--envelope", "envelope.nc", "--offsets", "all", "--margin", "0.05", "--budget", "0.1", "--no-calls")
    done = run("screen", "demand.csv", *common, "--gaps", "interpolate", "--out", "out", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "paper" not in done.stdout
    assert "synthetic" not in done.stdout
    assert (tmp_path / "out" / "cases.csv").is_file()
    network = run("screen", "mine.nc", *common, "--no-figures", "--out", "out2", cwd=tmp_path)
    assert network.returncode == 0, network.stderr
    assert not (tmp_path / "out2" / "figure_17_headroom.png").exists()


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["nowhere.csv"], "an existing file"),
        (["demand.csv"], "gaps='interpolate'"),
        (["demand.csv", "--column", "adjusted"], "one of raw"),
        (["--offsets", "some"], "random, day, week, all"),
        (["broken.nc"], "a netCDF file of a PyPSA network"),
        (["mine.nc", "--envelope", "mine.nc"], "Envelope"),
    ],
)
def test_bad_input_is_one_message_and_exit_code_2(tmp_path: Path, arguments: list[str], named: str) -> None:
    own_files(tmp_path)
    (tmp_path / "broken.nc").write_bytes(b"no netCDF at all")
    done = run("screen", *arguments, "--out", "out", cwd=tmp_path)
    assert done.returncode == 2, done.stderr
    assert done.stderr.startswith("error: ")
    assert named in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "out").exists()
