"""The site builds strictly, its reference is complete, its tutorials ran, and its equations are numbered and linked."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import json
import os
import re
import subprocess
import sys
import zlib
from pathlib import Path

import pytest

from pypsa_aidc.accessor import AIDC
from pypsa_aidc.network import Results
from tests.conftest import ROOT
from tests.docs.blocks import PAGES

CONFIG = ROOT / "docs" / "mkdocs.yml"
MODELS = sorted((PAGES / "models").glob("*.md"))
TUTORIALS = sorted((PAGES / "tutorials").glob("*.ipynb"))
REFERENCE = {
    "pypsa_aidc": {"fleet", "headroom", "network", "training"},  # Packages, with pages of their own.
    "pypsa_aidc.fleet": set(),
    "pypsa_aidc.training": set(),
    "pypsa_aidc.network": {"Network"},  # PyPSA's own
    "pypsa_aidc.headroom": set(),
}
"""Packages whose public names must be in the reference, and the names that need not be."""


@pytest.mark.docs
@pytest.mark.skipif(importlib.util.find_spec("mkdocs") is None, reason="mkdocs is not installed")
def test_the_site_builds_strictly_and_is_complete(tmp_path: Path) -> None:
    """One build, as it takes a while: without network, every warning an error, tutorials executed."""
    # Nothing may be fetched to build: a proxy that nobody listens on stands between the build and the network.
    dead = dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"), "http://127.0.0.1:9")
    environment = {key: value for key, value in os.environ.items() if key != "MPLBACKEND"}
    environment |= {**dead, "PYTHONPATH": str(ROOT), "NO_MKDOCS_2_WARNING": "1"}
    call = [sys.executable, "-m", "mkdocs", "build", "--strict", "-f", str(CONFIG), "-d", str(tmp_path)]
    done = subprocess.run(call, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=550)
    assert done.returncode == 0, done.stdout + done.stderr
    check_reference(tmp_path)
    check_tutorials(tmp_path)
    check_equations(tmp_path)
    check_offline(tmp_path)


def check_reference(site: Path) -> None:
    """Every public name has an entry, under the path where it is defined: many functions are named as their module."""
    inventory = zlib.decompress((site / "objects.inv").read_bytes().split(b"\n", 4)[4]).decode()
    documented = {line.split(" ")[0] for line in inventory.splitlines() if " py:module " not in line}
    for package, elsewhere in REFERENCE.items():
        module = importlib.import_module(package)
        public = {name: getattr(module, name) for name in set(module.__all__) - elsewhere}
        defined = {
            name: f"{entry.__module__}.{entry.__qualname__}"
            if inspect.isfunction(entry) or inspect.isclass(entry)
            else f"{package}.{name}"
            for name, entry in public.items()
        }
        missing = {f"{package}.{name}" for name, path in defined.items() if path not in documented}
        assert not missing, sorted(missing)
    door = (site / "reference" / "aidc" / "index.html").read_text()
    names = [name for name in dir(AIDC) if not name.startswith("_")]
    told = [name for name in names if f"n.aidc.{name}" in door or f"{Results.__module__}.Results.{name}" in documented]
    assert told == names


def check_tutorials(site: Path) -> None:
    """They drew their figures and warned of nothing; an error would have failed the build."""
    assert TUTORIALS
    for notebook in TUTORIALS:
        page = (site / "tutorials" / notebook.stem / "index.html").read_text()
        assert "data:image/png;base64" in page, notebook.name
        assert not re.search(r"\w+Warning\b", page), notebook.name


def check_equations(site: Path) -> None:
    """Every equation of the sources is MathML in its page, the numbered ones under their number; no TeX is left."""
    for source in MODELS:
        text, page = source.read_text(), (site / "models" / source.stem / "index.html").read_text()
        assert page.count('<math xmlns="http://www.w3.org/1998/Math/MathML" display="block">') == text.count("\\[")
        assert page.count('<math xmlns="http://www.w3.org/1998/Math/MathML" display="inline">') == text.count("\\(")
        numbers = re.findall(r"\\tag\{(\w+)\}", text)
        assert re.findall(r'<div class="equation" id="(\w+)">', page) == numbers
        assert "\\(" not in page, source.name
        assert "\\[" not in page, source.name
        assert "\\frac" not in page, source.name


def check_offline(site: Path) -> None:
    """No page loads anything from elsewhere: what a planner reads behind a firewall is what we have seen."""
    for page in site.rglob("*.html"):
        loaded = re.findall(
            r'<(?:script|link|img|iframe)\b[^>]*?\b(?:src|href)="((?:https?:)?//[^"]*)"', page.read_text()
        )
        assert not loaded, f"{page.relative_to(site)}: {loaded}"


@pytest.mark.parametrize("source", MODELS, ids=lambda path: path.stem)
def test_equations_are_numbered_in_order(source: Path) -> None:
    text = source.read_text()
    tags = re.findall(r"\\tag\{([A-Z])(\d+)\}", text)
    assert len(tags) == text.count("\\["), "a display equation without number"
    assert [int(number) for _, number in tags] == list(range(1, len(tags) + 1))
    assert len({letter for letter, _ in tags}) == 1


@pytest.mark.parametrize("notebook", TUTORIALS, ids=lambda path: path.stem)
def test_tutorials_are_stored_without_outputs(notebook: Path) -> None:
    cells = [cell for cell in json.loads(notebook.read_text())["cells"] if cell["cell_type"] == "code"]
    assert cells
    assert not any(cell["outputs"] or cell["execution_count"] for cell in cells)
