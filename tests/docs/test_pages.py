"""Every code block of the documentation runs, prints what its page shows, and warns of nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.docs.blocks import INSTALL, agrees, blocks, read_as_user

ALL = sorted(page for page in (ROOT / "docs").rglob("*.md") if not page.is_symlink())
RUNNABLE = [page for page in ALL if any(block.runs for block in blocks(page))]


PYPSA_ANNOUNCES = ("legacy_string_dtype", "include_objective_constant")
"""Changes that PyPSA announces to all its users; the FAQ says how to choose."""


@pytest.mark.docs
@pytest.mark.parametrize("page", RUNNABLE, ids=lambda page: str(page.relative_to(ROOT / "docs")))
def test_blocks_run_and_print_what_the_page_shows(page: Path, tmp_path: Path) -> None:
    done = read_as_user(page, tmp_path)
    assert done.returncode == 0, done.stderr
    warned = [line for line in done.stderr.splitlines() if "Warning" in line]
    ours = [line for line in warned if not any(word in line for word in PYPSA_ANNOUNCES)]
    assert not ours, ours


@pytest.mark.parametrize("page", ALL, ids=lambda page: str(page.relative_to(ROOT / "docs")))
def test_no_block_escapes_the_run(page: Path) -> None:
    """Only installing is not run, and a block without a known language would be neither run nor compared."""
    for block in blocks(page):
        where = f"{page.name}, line {block.line}"
        assert block.language in ("python", "sh", "text", "yaml", "csv", "json"), where
        if block.note == INSTALL:
            assert all("pip install" in line or "venv" in line for line in block.text.splitlines()), where
        elif block.language in ("python", "sh"):
            assert not block.note or block.file, where


def test_output_is_compared_by_words() -> None:
    assert agrees("a  b\n c", "a b c\n")
    assert agrees("cost … USD", "cost 12.5 USD")
    assert not agrees("a b", "a b c")
    assert not agrees("cost … USD", "cost 12.5 EUR")
