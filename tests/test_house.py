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
LAYERS = {"errors": 0, "plain": 0, "progress": 0, "units": 0, "network": 2, "headroom": 3, "report": 4, "cli": 5}
LAYERS |= {"training": 1, "fleet": 1, "plots": 3, "accessor": 4}


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
    if layer == "__init__":
        return
    for name in imports(path):
        if name.split(".")[0] in ("pypsa", "linopy"):
            assert LAYERS[layer] >= LAYERS["network"], f"{path} imports {name}"
        if name.startswith("pypsa_aidc."):
            other = name.split(".")[1]
            assert other == "plots" or LAYERS.get(other, 0) <= LAYERS[layer], f"{path} imports {name}"


PYPSA = ("network", "headroom", "accessor.py", "cli")
"""Where PyPSA may be imported when the package runs; elsewhere it is the type of an argument."""

SOLVERS = (
    "network/pypsa_api.py",
    "network/model",
    "network/loads",
    "network/checks/explain.py",
    "network/solve",
    "headroom/bus",
)
"""Where linopy's models are spoken of."""

DOOR = PACKAGE / "network" / "pypsa_api.py"


def running_imports(tree: ast.Module) -> set[str]:
    """Top-level packages imported anywhere but under ``if TYPE_CHECKING``."""
    skipped = {
        inner
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
        for inner in ast.walk(node)
    }
    found = set()
    for node in ast.walk(tree):
        if node in skipped:
            continue
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module.split(".")[0])
    return found


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_one_door_to_pypsa(path: Path) -> None:
    """PyPSA in `network` and what asks it, linopy where models are built, HiGHS and private names in one module."""
    place, tree = path.relative_to(PACKAGE).as_posix(), ast.parse(path.read_text())
    found = running_imports(tree)
    if "pypsa" in found:
        assert place.startswith(PYPSA)
    if "linopy" in found:
        assert place.startswith(SOLVERS)
    if "highspy" in found:
        assert place in ("network/pypsa_api.py", "headroom/bus/programme.py")
    if path == DOOR:
        return
    for node in ast.walk(tree):
        # What is private to a module of ours is asked of `self`, `cls` or the module's own names.
        if isinstance(node, ast.Attribute) and node.attr.startswith("_") and not node.attr.startswith("__"):
            assert ast.unparse(node.value) in ("self", "cls"), f"{path}:{node.lineno} asks for {ast.unparse(node)}"
    process_wide = {"umask", "setLevel", "catch_warnings", "filterwarnings", "simplefilter", "chdir", "basicConfig"}
    called = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    if place.startswith("network"):
        assert not called & process_wide


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
