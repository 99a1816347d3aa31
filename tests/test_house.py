"""Rules of the house that a machine can check."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT

PACKAGE = ROOT / "pypsa_aidc"
MODULES = sorted(PACKAGE.rglob("*.py"))
LAYERS = {"errors": 0, "markup": 0, "plain": 0, "progress": 0, "units": 0, "network": 2, "headroom": 3, "report": 4}
LAYERS |= dict.fromkeys(("training", "fleet"), 1) | dict.fromkeys(("accessor", "cli"), 5)
DRAWINGS = "plots"
"""Stands beside the layers: imported by any where it draws, importing none (tests/plots/test_style.py)."""


def imports(path: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module}
            names |= {f"{node.module}.{alias.name}" for alias in node.names} if node.module == "pypsa_aidc" else set()
    return names


@pytest.mark.parametrize("command", [["ruff", "check", "."], ["ruff", "format", "--check", "."], ["mypy"]])
def test_linters_pass(command: list[str]) -> None:
    done = subprocess.run([sys.executable, "-m", *command], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_arrows_point_down(path: Path) -> None:
    """Only `network` knows PyPSA and linopy, with what stands above it; nothing imports from a layer above its own."""
    layer = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
    if layer in ("__init__", DRAWINGS):
        return
    for name in imports(path):
        if name.split(".")[0] in ("pypsa", "linopy"):
            assert LAYERS[layer] >= LAYERS["network"], f"{path} imports {name}"
        if name.startswith("pypsa_aidc."):
            other = name.split(".")[1]
            assert other == DRAWINGS or LAYERS.get(other, 0) <= LAYERS[layer], f"{path} imports {name}"


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_modules_stay_small(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= 420


def test_public_names_are_documented() -> None:
    import pypsa_aidc

    for name in pypsa_aidc.__all__:
        assert getattr(pypsa_aidc, name).__doc__, name


def readme_blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", (ROOT / "README.md").read_text(), flags=re.DOTALL)


def test_the_example_of_the_readme_runs(tmp_path: Path) -> None:
    (example,) = readme_blocks("python")
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", example], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "dc1" in done.stdout
