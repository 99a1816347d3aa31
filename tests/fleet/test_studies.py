"""The committed result tables are what the studies give."""

from __future__ import annotations

import importlib.util
import shutil
import sys
from pathlib import Path

import pandas as pd
import pytest

from pypsa_aidc import fleet

STUDIES = Path(__file__).resolve().parents[2] / "studies"


def rerun(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch, **replacements: str) -> Path:
    """Run a study from a copy of its folder, without its results."""
    copy = folder / name
    shutil.copytree(STUDIES / name, copy, ignore=shutil.ignore_patterns("results", "figures", "__pycache__"))
    settings = (copy / "study.toml").read_text(encoding="utf-8")
    for old, new in replacements.items():
        assert old in settings
        settings = settings.replace(old, new)
    (copy / "study.toml").write_text(settings, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(f"study_{name}", copy / "study.py")
    module = importlib.util.module_from_spec(spec)
    # Dataclasses look their module up by name.
    monkeypatch.setitem(sys.modules, spec.name, module)
    spec.loader.exec_module(module)
    monkeypatch.setattr("sys.argv", ["study.py"])
    module.main()
    return copy / "results"


def agree(ours: Path, committed: Path) -> None:
    tables = sorted(path.name for path in committed.glob("*.csv") if not path.name.startswith("benchmark"))
    assert tables == sorted(path.name for path in ours.glob("*.csv"))
    for name in tables:
        pd.testing.assert_frame_equal(pd.read_csv(ours / name), pd.read_csv(committed / name), rtol=1e-3, atol=1e-9)


@pytest.mark.slow
def test_every_published_number_beside_the_synthetic_fleet(tmp_path, synthetic, monkeypatch):
    monkeypatch.setattr(fleet.SyntheticFleet, "generate", {0: synthetic}.__getitem__)
    results = rerun("beyond_scalar", tmp_path, monkeypatch)
    agree(results, STUDIES / "beyond_scalar" / "results")
    table = pd.read_csv(results / "synthetic_comparison.csv")
    # The two that its README names.
    assert table.loc[~table["within"], "quantity"].tolist() == ["attributed boundary, ratio 1 h", "K 4 h, P95"]


def test_the_real_trace_of_2023(tmp_path, monkeypatch, shared_data):
    results = rerun(
        "openb_2023", tmp_path, monkeypatch, **{"../../../shared/data/gpu_traces": str(shared_data / "gpu_traces")}
    )
    agree(results, STUDIES / "openb_2023" / "results")
