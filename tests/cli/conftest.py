from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from tests.cli.running import Runner


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Runner]:
    levels = {name: logging.getLogger(name).level for name in ("pypsa", "linopy", "pypsa_aidc")}
    yield Runner(monkeypatch, capsys)
    for name, level in levels.items():
        logging.getLogger(name).setLevel(level)
