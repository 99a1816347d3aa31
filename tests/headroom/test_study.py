"""The committed tables of the study are what it gives."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pandas as pd
import pytest

from tests.conftest import ROOT

STUDY = ROOT / "studies" / "miso_south"


@pytest.mark.slow
def test_committed_tables_are_reproduced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shared_data: Path) -> None:
    del shared_data
    specification = importlib.util.spec_from_file_location("miso_south_study", STUDY / "run.py")
    module = importlib.util.module_from_spec(specification)
    # Dataclasses look their module up by name.
    monkeypatch.setitem(sys.modules, specification.name, module)
    monkeypatch.setattr(sys, "path", [*sys.path])
    specification.loader.exec_module(module)
    monkeypatch.setattr("sys.argv", ["run.py", "--out", str(tmp_path)])
    module.study.main(str(STUDY / "run.py"), module.Config, module.run)
    made = sorted(path.name for path in tmp_path.glob("*.csv"))
    inputs = {"benchmark.csv", "published.csv"}
    assert made == sorted({path.name for path in STUDY.glob("*.csv")} - inputs)
    for name in made:
        ours, committed = pd.read_csv(tmp_path / name), pd.read_csv(STUDY / name)
        pd.testing.assert_frame_equal(ours, committed, rtol=1e-6, atol=1e-4)
        assert committed["data"].eq("synthetic fleet").all()
    benchmark = pd.read_csv(STUDY / "benchmark.csv")
    assert benchmark["ratio"].item() > 500
    assert benchmark["cases"].item() == 28000
