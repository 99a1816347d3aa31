"""The guide for contributors: what it names exists, and the kind of load it shows works."""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path
from types import ModuleType

import pandas as pd
import pypsa
import pytest

import pypsa_aidc as aidc
from pypsa_aidc.network.loads import registry
from tests.conftest import ROOT
from tests.network.tiny import grid

GUIDE = (ROOT / "CONTRIBUTING.md").read_text()
SHOWN = "pypsa_aidc/network/loads/flat.py"


def test_every_file_that_is_named_exists() -> None:
    named = set(re.findall(r"`((?:pypsa_aidc|tests|docs)/[\w/]+\.\w+)`", GUIDE)) - {SHOWN}
    assert len(named) > 10
    assert not [path for path in named if not (ROOT / path).is_file()]


@pytest.fixture
def flat(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The kind of the guide, as if its module stood where the guide says, and in the registry."""
    (code,) = re.findall(r"```python\n(.*?)```", GUIDE, flags=re.DOTALL)
    module = ModuleType("pypsa_aidc.network.loads.flat")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    exec(compile(code, SHOWN, "exec"), module.__dict__)
    monkeypatch.setattr(registry, "KINDS", (*registry.KINDS, module.Flat))
    return module


def test_the_registry_can_import_the_kind_in_the_guide() -> None:
    """The registry imports the module of a kind, so the module must not ask it for anything while it is imported."""
    (code,) = re.findall(r"```python\n(.*?)```", GUIDE, flags=re.DOTALL)
    at_the_top = [node.module for node in ast.parse(code).body if isinstance(node, ast.ImportFrom)]
    assert "pypsa_aidc.network.loads.protocol" in at_the_top
    assert registry.__name__ not in at_the_top


def test_the_kind_of_load_in_the_guide_works(flat: ModuleType, tmp_path: Path) -> None:
    """4, 3, 2, 1 MW at 4, 3, 2, 1 USD/MWh: 30 USD; the same from a file, and frozen for plain PyPSA."""
    n = grid(4)
    flat.add_flat(n, "web", "grid", pd.Series([4.0, 3.0, 2.0, 1.0], n.snapshots), "T1")
    result = n.aidc.optimize(output_flag=False)
    assert result.audit.passed
    assert n.objective == pytest.approx(30.0)
    assert n.aidc.bill().loc[("web", "total"), "payment"] == pytest.approx(30.0)
    n.aidc.export(tmp_path / "n.nc")
    read = aidc.load(tmp_path / "n.nc")
    assert read.aidc.power()["web", "meter"].tolist() == pytest.approx([4.0, 3.0, 2.0, 1.0])
    assert pypsa.Network(tmp_path / "n.nc").aidc.jobs.index.tolist() == [("web", "flat")]
    longer = aidc.load(tmp_path / "n.nc")
    longer.set_snapshots(longer.snapshots.union(longer.snapshots + (longer.snapshots[-1] - longer.snapshots[0])))
    with pytest.raises(aidc.StaleError, match="profile of 'web'"):
        longer.aidc.optimize(output_flag=False)
    n.generators_t.p["web"] = 1.0
    assert "draws its profile" in set(n.aidc.audit().violations["check"])
    with pytest.raises(aidc.InputError) as caught:
        flat.add_flat(n, "web", "nowhere", pd.Series([-1.0, 0.0, 0.0, 0.0], n.snapshots))
    assert len(caught.value.faults) >= 3
