"""What a verb answers: tables and lines for people, one JSON object for programs, files that are whole or not there."""

from __future__ import annotations

import json
import logging
import math
import os
import re
import shutil
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Any

from wrapt import when_imported

from pypsa_aidc.errors import Faults

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure
    from rich.console import Console

_ENDLESS = 10_000
"""Columns where nobody looks at them: names in a pipe are never cut."""


@dataclass
class Reply:
    """Where the answer of a verb goes.

    Parameters
    ----------
    verb
        Its name, for messages.
    as_json
        Whether one JSON object is printed, and nothing else.
    quiet
        Whether nothing is printed.
    verbose
        Whether solvers and libraries may talk, on stderr.
    synthetic
        Whether it is all about the synthetic fleet: then titles and names of files say so.
    tables, notes, written
        What has been told so far, for programs.
    """

    verb: str = ""
    as_json: bool = False
    quiet: bool = False
    verbose: bool = False
    synthetic: bool = False
    tables: dict[str, pd.DataFrame] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    written: list[Path] = field(default_factory=list)
    _folder: Path | None = None
    _staged: dict[str, Path] = field(default_factory=dict)

    @property
    def faults(self) -> Faults:
        """An empty list of faults of the command line."""
        return Faults(f"pypsa-aidc {self.verb}")

    @property
    def solver(self) -> dict[str, bool]:
        """Options for `n.aidc.optimize`: whether the solver tells what it does."""
        return {"output_flag": self.verbose}

    def show(self, *content: Any, **options: Any) -> None:
        """Print for people whatever rich can print; options as for its `Console.print`."""
        if not (self.as_json or self.quiet):
            _console().print(*content, **options)

    def line(self, text: str, style: str = "") -> None:
        """Print a line for people."""
        self.show(text, style=style or None, highlight=False, markup=False, soft_wrap=True)

    def note(self, text: str, *, style: str = "dim", shown: str = "") -> None:
        """Say what was left out or assumed, and why."""
        self.line(shown or text, style)
        self.notes.append(text)

    def title(self, text: str) -> str:
        """Title that says whether it is about the synthetic fleet."""
        return f"{text} (synthetic fleet)" if self.synthetic and text else text

    def name(self, name: str) -> str:
        """Name of a file that says the same."""
        return f"synthetic_{name}" if self.synthetic else name

    def table(self, frame: pd.DataFrame, title: str = "") -> None:
        """Print a table for people, a named index first."""
        from rich import box
        from rich.table import Table

        plain = _unindexed(frame)
        shown = Table(title=self.title(title) or None, title_justify="left", box=box.SIMPLE_HEAD)
        for column in plain.columns:
            number = plain[column].dtype.kind in "iufc"
            shown.add_column(str(column), justify="right" if number else "left", overflow="fold")
        for row in plain.itertuples(index=False):
            shown.add_row(*map(_cell, row))
        self.show(shown, markup=False)

    def keep(self, name: str, frame: pd.DataFrame, title: str = "") -> None:
        """Write a table as CSV, and print it for programs, with a title also for people."""
        plain = _unindexed(frame)
        if title:
            self.table(plain, title)
        self.tables[name] = plain.reset_index(drop=True)
        source = "synthetic fleet" if self.synthetic else "trace"
        plain.assign(data=source).to_csv(self.file(f"{name}.csv"), index=False)

    def figure(self, name: str, figure: Figure) -> None:
        """Write a figure as PNG."""
        figure.savefig(self.file(f"{name}.png"), dpi=150)

    def file(self, name: str) -> Path:
        """Place for a result within `into`."""
        assert self._folder is not None, "files are written within `into`"
        name = self.name(name)
        self._staged[name] = self._folder / name
        return self._staged[name]

    @contextmanager
    def into(self, out: Path, *, folder: bool = True, rehearsal: bool = False) -> Iterator[None]:
        """Put files into their folder when the work is done: all of them, or after an error or Ctrl-C none.

        Parameters
        ----------
        out
            The folder, or one file in its folder. It is made with those above it; what is there and has the name of a
            result is replaced, and that is said.
        folder
            Whether `out` is a folder.
        rehearsal
            Whether files are made, but not put there.

        Raises
        ------
        InputError
            A folder where a file should be or the reverse, or nothing can be written there.
        """
        target = out if folder else out.parent
        nearest = next(path for path in (target, *target.parents) if path.exists())
        faults = self.faults
        wrong = not nearest.is_dir() or (not folder and out.is_dir())
        faults.require(not wrong, "--out", str(out), "a folder, not a file" if folder else "a file in a folder")
        faults.raise_any()
        try:
            self._folder = Path(mkdtemp(prefix=".pypsa-aidc-", dir=nearest))
        except OSError as error:
            faults.add("--out", str(out), f"a place that can be written to ({error.strerror})")
            faults.raise_any()
        assert self._folder is not None
        try:
            yield
            if rehearsal:
                return
            target.mkdir(parents=True, exist_ok=True)
            for name, staged in self._staged.items():
                replaced = ", in place of an older one" if (target / name).exists() else ""
                staged.replace(target / name)
                self.written.append(target / name)
                self.line(f"wrote {target / name}{replaced}")
        finally:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None
            self._staged.clear()

    def rehearsed(self, about: Mapping[str, Any], what: str, out: Path | None) -> None:
        """Say what would have been done, where `--dry-run` ends."""
        self.line(f"{what}; would write {out or 'nothing'} (--dry-run)")
        self.data({**about, "dry_run": True, "would_write": out, "written": []})

    def data(self, content: Mapping[str, Any]) -> None:
        """Print the JSON object."""
        if self.as_json and not self.quiet:
            print(json.dumps(_finite(content), indent=2, allow_nan=False, default=str))

    def answer(self, **about: Any) -> None:
        """Print the JSON object of a verb that makes tables and files: what was asked, `tables`, `notes`, `written`."""
        if self.as_json and not self.quiet:
            rows = {name: records(frame) for name, frame in self.tables.items()}
            self.data({**about, "tables": rows, "notes": self.notes, "written": list(map(str, self.written))})

    @contextmanager
    def warned(self) -> Iterator[None]:
        """Print warnings of this package as one line each; those of libraries are not about what a user gave."""

        def tell(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
            if category.__module__.startswith("pypsa_aidc") and not self.quiet:
                told(f"warning: {message}", "yellow")

        with warnings.catch_warnings():
            warnings.simplefilter("always", UserWarning)
            warnings.showwarning = tell
            yield


def quiet_process() -> None:
    """Let a process talk only on our behalf.

    PyPSA and its dependencies announce their own changes; that is nothing a user of a command can act on.
    """
    warnings.filterwarnings("ignore", category=FutureWarning)
    warnings.filterwarnings("ignore", category=DeprecationWarning)
    quiet_libraries()


def quiet_libraries(verbose: bool = False) -> None:
    """Keep libraries from talking between our lines, and choose PyPSA's coming defaults instead of its warnings."""
    level = logging.INFO if verbose else logging.ERROR
    for name in ("pypsa", "linopy", "pypsa_aidc"):
        logging.getLogger(name).setLevel(level)

    @when_imported("distributed")
    def _(_: Any) -> None:
        logging.getLogger("distributed").setLevel(level)

    @when_imported("pypsa")
    def _(pypsa: Any) -> None:
        pypsa.options.params.optimize.include_objective_constant = False


@contextmanager
def silenced_stdout(verbose: bool = False) -> Iterator[None]:
    """Keep stdout free of what solvers print: HiGHS announces itself before anyone can tell it not to."""
    sys.stdout.flush()
    kept = os.dup(1)
    with Path(os.devnull).open("w") as nowhere:
        os.dup2(2 if verbose else nowhere.fileno(), 1)
        try:
            yield
        finally:
            os.dup2(kept, 1)
            os.close(kept)


def told(text: str, style: str) -> None:
    """Print a line on stderr."""
    from rich.console import Console

    Console(stderr=True, soft_wrap=True).print(text, style=style, highlight=False, markup=False)


def file_stem(name: str) -> str:
    """Return a name as the start of a file's: what not every system takes is an underscore.

    Examples
    --------
    >>> file_stem("dc/1 west")
    'dc_1_west'
    """
    return re.sub(r"[^A-Za-z0-9_.+-]", "_", name)


def records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Rows of a frame as plain objects: NaN and what is infinite as `None`, dates in ISO 8601, a named index first.

    Examples
    --------
    >>> import pandas as pd
    >>> records(pd.DataFrame({"gpus": [8], "efficiency": [float("nan")]}))
    [{'gpus': 8, 'efficiency': None}]
    """
    rows = json.loads(_unindexed(frame).to_json(orient="records", double_precision=15, date_format="iso"))
    return list(rows)


def _unindexed(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.reset_index() if any(name is not None for name in frame.index.names) else frame


def _console() -> Console:
    from rich.console import Console

    shown = Console()
    return shown if shown.is_terminal else Console(width=_ENDLESS)


def _finite(value: Any) -> Any:
    """JSON has no infinity and no NaN."""
    if isinstance(value, Mapping):
        return {key: _finite(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _cell(value: object) -> str:
    if value is None or (isinstance(value, float) and value != value):
        return ""
    return format(value, ".6g") if isinstance(value, float) else str(value)
