"""Rules of the house that a machine can check."""

from __future__ import annotations

import ast
import builtins
import importlib
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import pypsa_aidc
from pypsa_aidc.accessor import AIDC
from tests.conftest import ROOT

PACKAGE = ROOT / "pypsa_aidc"
MODULES = sorted(PACKAGE.rglob("*.py"))
PACKAGES = sorted(path.parent for path in MODULES if path.name == "__init__.py")
LAYERS = {
    **dict.fromkeys(("errors", "markup", "plain", "progress", "sweeps", "units", "versions"), 0),
    **dict.fromkeys(("training", "fleet"), 1),
    "network": 2,
    "headroom": 3,
    "plots": 4,
    "report": 5,
    "accessor": 6,
    "cli": 7,
}
"""Who may import whom: what stands lower. Drawings stand beside: whoever is drawn imports them when it is."""


def imports(tree: ast.AST) -> set[str]:
    """Names of all modules that are imported anywhere in a tree."""
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module}
            names |= {f"{node.module}.{alias.name}" for alias in node.names} if node.module == "pypsa_aidc" else set()
    return names


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_arrows_point_down(path: Path) -> None:
    """Nothing imports from a layer above its own; drawings are imported from below only where something is drawn."""
    inside = path.relative_to(PACKAGE)
    layer = inside.parts[0].removesuffix(".py")
    if layer == "__init__":
        return
    tree = ast.parse(path.read_text())
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    late = set().union(*(imports(function) for function in functions))
    for name in imports(tree):
        if name.startswith("pypsa_aidc."):
            other = name.split(".")[1]
            drawn = other == "plots" and name in late
            assert drawn or LAYERS.get(other, 0) <= LAYERS[layer], f"{inside} imports {name}"


@pytest.mark.parametrize("folder", PACKAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_name_hides_a_module(folder: Path) -> None:
    """Every sub-module is what its package gives under its name, also when another import has gone before."""
    package = importlib.import_module(".".join(folder.relative_to(ROOT).parts))
    for path in sorted(folder.iterdir()):
        name = path.stem
        if name.startswith("__") or not (path.suffix == ".py" or (path / "__init__.py").exists()):
            continue
        module = importlib.import_module(f"{package.__name__}.{name}")
        assert isinstance(module, ModuleType)
        assert getattr(package, name) is module, f"{package.__name__}.{name}"


def test_a_star_import_hides_no_builtin() -> None:
    for package in (pypsa_aidc, *(getattr(pypsa_aidc, name) for name in ("fleet", "headroom", "network", "training"))):
        assert not set(package.__all__) & set(dir(builtins)), package.__name__


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
        assert place in ("network/pypsa_api.py", "headroom/bus/programme.py", "headroom/service/redispatch.py")
    if path == DOOR:
        return
    for node in ast.walk(tree):
        # What is private to a module of ours is asked of `self`, `cls` or the module's own names.
        if isinstance(node, ast.Attribute) and re.match("_(?!_|replace$)", node.attr):
            assert ast.unparse(node.value) in ("self", "cls"), f"{path}:{node.lineno} asks for {ast.unparse(node)}"
    process_wide = {"umask", "setLevel", "catch_warnings", "filterwarnings", "simplefilter", "chdir", "basicConfig"}
    called = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    if place.startswith("network"):
        assert not called & process_wide


def test_public_names_are_documented() -> None:
    for name in pypsa_aidc.__all__:
        assert getattr(pypsa_aidc, name).__doc__, name


def test_the_front_door_is_documented() -> None:
    """Every verb and frame of `n.aidc` says what it does; tab completion is how a newcomer reads."""
    for name in dir(AIDC):
        if not name.startswith("_"):
            assert getattr(AIDC, name).__doc__, name


def readme_blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", (ROOT / "README.md").read_text(), flags=re.DOTALL)


def test_the_example_of_the_readme_runs(tmp_path: Path) -> None:
    (example,) = readme_blocks("python")
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", example], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "dc1" in done.stdout
