"""The command line `pypsa-aidc`: one verb a module, each a thin layer over the Python call of the same name."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated

import typer
from rich.console import Console

from pypsa_aidc.errors import AIDCError, InfeasibleError, InputError

EXIT_BAD_INPUT = 2
EXIT_NO_SOLUTION = 3
EXIT_OTHER = 1

app = typer.Typer(
    name="pypsa-aidc",
    help="AI data centers in PyPSA grid models. Exit codes: 0 done, 1 refused, 2 bad input, 3 no solution.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
)


def main() -> None:
    """Run the command line; every error raised on purpose becomes one message and an exit code."""
    try:
        app()
    except AIDCError as error:
        Console(stderr=True).print(f"[bold red]error:[/] {error}", highlight=False)
        code = {InputError: EXIT_BAD_INPUT, InfeasibleError: EXIT_NO_SOLUTION}
        sys.exit(next((number for kind, number in code.items() if isinstance(error, kind)), EXIT_OTHER))


# Importing a verb registers it on `app`.
from pypsa_aidc.cli import fleet, surface  # noqa: E402, F401
