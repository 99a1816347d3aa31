from __future__ import annotations

import importlib.util
import logging
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import hypothesis
import pypsa
import pytest

from pypsa_aidc import fleet
from tests.cli.running import Runner

ROOT = Path(__file__).parents[1]
SHARED = ROOT.parent / "shared"

hypothesis.settings.register_profile("default", deadline=None, derandomize=True)
hypothesis.settings.load_profile("default")

# PyPSA's coming defaults, chosen here so that it does not warn of them.
pypsa.options.params.optimize.include_objective_constant = False
pypsa.options.api.legacy_string_dtype = False


@pytest.fixture(scope="session")
def shared_data() -> Path:
    if not SHARED.is_dir():
        pytest.skip(f"the data beside the project, {SHARED}, is not there")
    return SHARED / "data"


@pytest.fixture(scope="session")
def synthetic() -> fleet.SyntheticFleet:
    return fleet.SyntheticFleet.generate()


@pytest.fixture(scope="session")
def green_campus() -> ModuleType:
    """The script that builds the bundled network, as a module."""
    specification = importlib.util.spec_from_file_location("green_campus", ROOT / "networks" / "green_campus.py")
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    sys.modules["green_campus"] = module
    specification.loader.exec_module(module)
    return module


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], levels: None) -> Runner:
    return Runner(monkeypatch, capsys)


@pytest.fixture
def run_process(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], levels: None) -> Runner:
    """As `run`, with all that goes to the file descriptors of the process, where solvers write by themselves."""
    monkeypatch.setenv("COLUMNS", "100")
    return Runner(monkeypatch, capfd)


@pytest.fixture
def levels() -> Iterator[None]:
    """Undo what the command line does to logging."""
    levels = {name: logging.getLogger(name).level for name in ("pypsa", "linopy", "pypsa_aidc")}
    yield
    for name, level in levels.items():
        logging.getLogger(name).setLevel(level)
