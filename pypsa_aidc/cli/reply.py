"""What a verb answers: tables and lines for people, one JSON object for programs, or nothing but the exit code."""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Annotated, Any

import pandas as pd
import typer
from rich import box
from rich.console import Console
from rich.table import Table

from pypsa_aidc.errors import PriceWarning, UnitWarning
from pypsa_aidc.progress import show_progress

JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")]
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")]
DryRunOption = Annotated[
    bool, typer.Option("--dry-run", help="Read and check what is given, compute and write nothing.")
]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", help="key=value that overrides the file, repeatable: sites.dc1.gpus=1024."),
]
_PLAIN_WIDTH = 160


@dataclass(frozen=True)
class Reply:
    """Where the answer of a verb goes.

    Parameters
    ----------
    as_json
        Whether one JSON object is printed, and nothing else.
    quiet
        Whether nothing is printed.
    width
        Columns for people where the output is no terminal; `None` leaves it to the environment.
    """

    as_json: bool = False
    quiet: bool = False
    width: int | None = _PLAIN_WIDTH

    @property
    def _console(self) -> Console:
        shown = Console()
        return shown if shown.is_terminal else Console(width=self.width)

    def show(self, *content: Any, **options: Any) -> None:
        """Print for people whatever rich can print; options as for its `Console.print`."""
        if not (self.as_json or self.quiet):
            self._console.print(*content, **options)

    def line(self, text: str) -> None:
        """Print a line for people."""
        self.show(text, highlight=False, markup=False, soft_wrap=True)

    def table(self, frame: pd.DataFrame, title: str = "") -> None:
        """Print a table for people."""
        shown = Table(title=title or None, title_justify="left", box=box.SIMPLE_HEAD)
        for column in frame.columns:
            numeric = pd.api.types.is_numeric_dtype(frame[column])
            shown.add_column(str(column), justify="right" if numeric else "left", overflow="fold")
        for row in frame.itertuples(index=False):
            shown.add_row(*(_cell(value) for value in row))
        self.show(shown, markup=False)

    def rehearsed(self, about: Mapping[str, Any], what: str, out: Path | None) -> None:
        """Say what would have been done, where `--dry-run` ends."""
        self.line(f"{what}; would write {out or 'nothing'} (--dry-run)")
        self.data({**about, "dry_run": True, "would_write": out, "written": []})

    def data(self, content: Mapping[str, Any]) -> None:
        """Print the JSON object."""
        if self.as_json and not self.quiet:
            typer.echo(json.dumps(_finite(content), indent=2, allow_nan=False, default=str))

    def answer(
        self,
        about: Mapping[str, Any],
        tables: Mapping[str, pd.DataFrame],
        notes: Iterable[str] = (),
        written: Iterable[Path] = (),
    ) -> None:
        """Print the JSON object of a verb that makes tables and files: what was asked, `tables`, `notes`, `written`."""
        if self.as_json and not self.quiet:
            rows = {name: records(frame) for name, frame in tables.items()}
            self.data({**about, "tables": rows, "notes": list(notes), "written": [str(path) for path in written]})


def records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Rows of a frame as plain objects: NaN and what is infinite as `None`, dates in ISO 8601, a named index first.

    Examples
    --------
    >>> records(pd.DataFrame({"gpus": [8], "efficiency": [float("nan")]}))
    [{'gpus': 8, 'efficiency': None}]
    """
    named = any(name is not None for name in frame.index.names)
    plain = frame.reset_index() if named else frame
    rows = json.loads(plain.to_json(orient="records", double_precision=15, date_format="iso"))
    return list(rows)


def with_progress(verb: Callable[..., None]) -> Callable[..., None]:
    """Let a verb show on a terminal how far it has come, unless it is asked for JSON or for nothing."""

    @wraps(verb)
    def shown(*args: Any, **options: Any) -> None:
        if options.get("as_json") or options.get("quiet"):
            verb(*args, **options)
            return
        with show_progress():
            verb(*args, **options)

    return shown


@contextmanager
def told_warnings(quiet: bool = False, *kinds: type[Warning]) -> Iterator[None]:
    """Print warnings as one line each, where they are about the user's numbers and not about our code."""
    told: tuple[type[Warning], ...] = (UnitWarning, PriceWarning, *kinds)
    with warnings.catch_warnings(record=True) as caught:
        for kind in told:
            warnings.simplefilter("always", kind)
        yield
    for each in caught:
        if issubclass(each.category, told) and not quiet:
            Console(stderr=True, soft_wrap=True).print(f"warning: {each.message}", style="yellow", markup=False)


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
