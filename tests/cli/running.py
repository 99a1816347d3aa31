"""The command line in this process: exit code, output and errors of a call."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from typing import Any

import pytest

from pypsa_aidc.cli import dispatch, main


@dataclass(frozen=True)
class Done:
    code: int
    out: str
    err: str

    @property
    def data(self) -> Any:
        return json.loads(self.out)


class Runner:
    """Calls the command line; with `capfd` what libraries write past Python counts as output, too."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self.monkeypatch, self.capsys = monkeypatch, capsys

    def __call__(self, *arguments: object) -> Done:
        self.monkeypatch.setattr(sys, "argv", ["pypsa-aidc", *map(str, arguments)])
        self.capsys.readouterr()
        try:
            main()
            code = 0
        except SystemExit as ended:
            code = int(ended.code or 0)
        out, err = self.capsys.readouterr()
        return Done(code, out, err)


def solve_once(monkeypatch: pytest.MonkeyPatch, known: dict[str, Any]) -> None:
    """Let `dispatch` solve each scenario once, for tests of the forms in which the same answer is told."""
    run = dispatch._run

    def once(reply: Any, n: Any, scenario: str, *options: Any) -> Any:
        if scenario not in known:
            known[scenario] = run(reply, n, scenario, *options)
        return known[scenario]

    monkeypatch.setattr(dispatch, "_run", once)
