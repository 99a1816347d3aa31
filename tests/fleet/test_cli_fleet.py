from __future__ import annotations

import pandas as pd
import polars as pl
import pytest
from typer.testing import CliRunner

from pypsa_aidc import fleet
from pypsa_aidc.cli import app
from pypsa_aidc.errors import InputError

from . import made
from .test_trace import generic_rows

RUN = CliRunner()


def run(*words: str) -> str:
    result = RUN.invoke(app, list(words))
    if result.exception:
        raise result.exception
    return result.output


@pytest.mark.slow
def test_both_verbs_run_on_the_synthetic_fleet(tmp_path):
    printed = run("fleet", "--out", str(tmp_path), "--draws", "20")
    assert "Boundaries, mean MW (Table 1) (synthetic fleet)" in printed
    printed = run("surface", str(tmp_path / "synthetic_envelope.nc"), "--out", str(tmp_path))
    assert "method sup" in printed
    assert "method linear" in printed
    figures = {path.name for path in tmp_path.glob("*.png")}
    numbers = {1, 2, 3, 4, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}
    assert {int(name.split("_")[2]) for name in figures} == numbers
    assert all(path.name.startswith("synthetic_") for path in tmp_path.iterdir())
    for path in tmp_path.glob("*.csv"):
        assert set(pd.read_csv(path)["data"]) == {"synthetic fleet"}, path
    K = fleet.load_surface(tmp_path / "synthetic_surface.nc")
    assert K.data.attrs["synthetic"] == 1
    again = fleet.surface(fleet.load_envelope(tmp_path / "synthetic_envelope.nc"), portfolio="supported")
    assert again.K.equals(K.K)


def test_a_small_trace_gives_what_it_can(tmp_path):
    hours = [generic_rows().with_columns(hour=pl.col("hour") + 2 * i) for i in range(30)]
    made.write(pl.concat(hours), tmp_path / "trace" / "pods.csv")
    words = ["--layout", "generic", "--utilisation", "fraction", "--draws", "5", "--out", str(tmp_path / "out")]
    printed = run("fleet", str(tmp_path / "trace"), *words)
    assert "no aggregation diagnostics" in printed
    assert "synthetic" not in printed
    printed = run(
        "surface", str(tmp_path / "out" / "envelope.nc"), "--portfolio", "all", "--out", str(tmp_path / "out")
    )
    assert "Terms of a four-hour product" in printed
    assert set(pd.read_csv(tmp_path / "out" / "surface_sup.csv")["data"]) == {"trace"}


def test_one_hour_says_that_there_are_no_windows(tmp_path):
    made.write(generic_rows().filter(pl.col("hour") == 0), tmp_path / "trace" / "pods.csv")
    words = ["--layout", "generic", "--utilisation", "fraction", "--no-figures", "--out", str(tmp_path / "out")]
    run("fleet", str(tmp_path / "trace"), "--draws", "2", *words)
    printed = run(
        "surface", str(tmp_path / "out" / "envelope.nc"), "--portfolio", "all", "--out", str(tmp_path / "out")
    )
    assert "no window of 4 h" in printed


def test_a_scale_that_is_not_declared_is_our_error(tmp_path):
    made.write(generic_rows(), tmp_path / "pods.csv")
    with pytest.raises(InputError, match="not guessed"):
        run("fleet", str(tmp_path), "--layout", "generic", "--out", str(tmp_path / "out"))
