"""What a verb answers: tables and lines for people, one JSON object for programs, or nothing but the exit code."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated, Any

import pandas as pd
import typer
from rich import box
from rich.console import Console
from rich.table import Table

from pypsa_aidc.errors import UnitWarning

JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")]
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")]
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
    """

    as_json: bool = False
    quiet: bool = False

    @property
    def _console(self) -> Console:
        shown = Console()
        return shown if shown.is_terminal else Console(width=_PLAIN_WIDTH)

    def line(self, text: str) -> None:
        """Print a line for people."""
        if not (self.as_json or self.quiet):
            self._console.print(text, highlight=False, markup=False, soft_wrap=True)

    def table(self, frame: pd.DataFrame, title: str = "") -> None:
        """Print a table for people."""
        if self.as_json or self.quiet:
            return
        shown = Table(title=title or None, title_justify="left", box=box.SIMPLE_HEAD)
        for column in frame.columns:
            numeric = pd.api.types.is_numeric_dtype(frame[column])
            shown.add_column(str(column), justify="right" if numeric else "left", overflow="fold")
        for row in frame.itertuples(index=False):
            shown.add_row(*(_cell(value) for value in row))
        self._console.print(shown, markup=False)

    def data(self, content: Mapping[str, Any]) -> None:
        """Print the JSON object."""
        if self.as_json and not self.quiet:
            typer.echo(json.dumps(content, indent=2, allow_nan=False, default=str))


def records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Rows of a frame as plain objects, NaN as `None`.

    Examples
    --------
    >>> records(pd.DataFrame({"gpus": [8], "efficiency": [float("nan")]}))
    [{'gpus': 8, 'efficiency': None}]
    """
    rows = json.loads(frame.to_json(orient="records", double_precision=15))
    return list(rows)


@contextmanager
def told_warnings() -> Iterator[None]:
    """Print warnings about units as one line each; they are about the user's numbers, not about our code."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UnitWarning)
        yield
    for each in caught:
        if issubclass(each.category, UnitWarning):
            Console(stderr=True, soft_wrap=True).print(f"warning: {each.message}", style="yellow", markup=False)


def _cell(value: object) -> str:
    if value is None or (isinstance(value, float) and value != value):
        return ""
    return format(value, ".6g") if isinstance(value, float) else str(value)
