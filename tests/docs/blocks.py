"""Fenced code blocks of a Markdown page, and how they are run as a reader would run them.

Run as a script, which imports nothing of the tests: they set options of PyPSA that a reader has not set.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = ROOT / "docs" / "pages"
INSTALL = 'title="Install"'
"""Mark of the only blocks that are not run: they would change the environment the tests run in."""
_TITLE = re.compile(r'title="([\w.-]+)"')
_FENCE = re.compile(r"^(?P<indent> *)```(?P<info>[^\n`]*)\n(?P<body>.*?)^(?P=indent)``` *$", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True)
class Block:
    """A fenced block: language, what else stands after the fence, the line of its first line, and its text."""

    language: str
    note: str
    line: int
    text: str

    @property
    def runs(self) -> bool:
        return self.language in ("python", "sh") and self.note != INSTALL and not self.file

    @property
    def file(self) -> str:
        """Name of the file that the page shows here, to be used by later blocks; empty for none."""
        title = _TITLE.fullmatch(self.note)
        return title[1] if title and self.language in ("yaml", "csv", "python") else ""


def blocks(page: Path) -> list[Block]:
    text = page.read_text()
    found = []
    for match in _FENCE.finditer(text):
        language, _, note = match["info"].strip().partition(" ")
        indent = len(match["indent"])
        body = "".join(line[indent:] or "\n" for line in match["body"].splitlines(keepends=True))
        found.append(Block(language, note, text.count("\n", 0, match.start("body")) + 1, body))
    return found


def with_output(found: list[Block]) -> Iterator[tuple[Block, str | None]]:
    """Pair each block that runs or is a file with the text block right after it, which shows what it prints."""
    for block, after in zip(found, [*found[1:], None], strict=True):
        if block.runs or block.file:
            yield block, after.text if after is not None and after.language == "text" else None


def agrees(shown: str, printed: str) -> bool:
    """Whether a page shows what was printed: white space counts as one space, ``…`` stands for anything."""
    pattern = ".*?".join(re.escape(part) for part in " ".join(shown.split()).split("…"))
    return re.fullmatch(pattern, " ".join(printed.split()), flags=re.DOTALL) is not None


def run(page: Path) -> None:
    """Run all blocks of a page in one namespace and the current folder; stop at the first that fails or differs."""
    namespace: dict[str, object] = {"__name__": "__main__"}
    for block, shown in with_output(blocks(page)):
        where = f"{page.name}, line {block.line}"
        if block.file:
            Path(block.file).write_text(block.text)
            continue
        if block.language == "sh":
            done = subprocess.run(["bash", "-euo", "pipefail", "-c", block.text], capture_output=True, text=True)
            printed = done.stdout
            assert done.returncode == 0, f"{where}: exit code {done.returncode}\n{printed}{done.stderr}"
        else:
            # Blank lines in front give tracebacks and warnings the line numbers of the page.
            code = compile("\n" * (block.line - 1) + block.text, str(page), "exec")
            with contextlib.redirect_stdout(io.StringIO()) as stream:
                exec(code, namespace)
            printed = stream.getvalue()
        if shown is not None:
            assert agrees(shown, printed), f"{where}: shown\n{shown}\nprinted\n{printed}"


def read_as_user(page: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a page in an own process, with Python's default warnings and our command on the path."""
    commands = folder / "bin"
    commands.mkdir()
    command = commands / "pypsa-aidc"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -c "from pypsa_aidc.cli import main; main()" "$@"\n')
    command.chmod(0o755)
    work = folder / "work"
    work.mkdir()
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTEST")}
    environment |= {
        "PATH": f"{commands}:{environment['PATH']}",
        "PYTHONPATH": str(ROOT),
        "MPLBACKEND": "agg",
        "COLUMNS": "120",
    }
    call = [sys.executable, __file__, str(page)]
    return subprocess.run(call, cwd=work, env=environment, capture_output=True, text=True, timeout=300)


if __name__ == "__main__":
    run(Path(sys.argv[1]))
