"""The verb `headroom`."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
import typer
from typer.testing import CliRunner

from pypsa_aidc.cli.headroom import headroom_verb
from pypsa_aidc.errors import InputError
from tests.headroom.grids import triangle

app = typer.Typer()
app.command()(headroom_verb)


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
