"""The command line `pypsa-aidc`: each verb a thin layer over the Python call of the same name.

What a verb needs is imported when it runs: help, completion and a faulty command line import neither PyPSA nor polars.
"""

from __future__ import annotations

import os
import sys
from importlib.metadata import version
from typing import Annotated, Any, NoReturn

import typer

import pypsa_aidc
from pypsa_aidc.cli import (
    adequacy,
    dispatch,
    files,
    fleet,
    headroom,
    modes,
    report,
    screen,
    study,
    surface,
    sweep,
    terms,
)
from pypsa_aidc.cli.reply import quiet_process, told
from pypsa_aidc.cli.verb import Verb, offered, plainly
from pypsa_aidc.errors import AIDCError, InputError, NotSolvedError

UsageError: Any = typer.BadParameter.__mro__[1]
"""Whatever is wrong with a command line; Typer names only this kind of it."""

EXIT_REFUSED = 1
EXIT_BAD_INPUT = 2
EXIT_NO_SOLUTION = 3
EXIT_STOPPED = 130

app = typer.Typer(
    name="pypsa-aidc",
    help="AI data centers in PyPSA grid models. Exit codes: 0 done, 1 refused, 2 bad input, 3 no solution, "
    "130 stopped; sweep: 1 some points failed; "
    "check: 0 nothing, 1 warnings, 2 errors. 3 is also a file without the solution that a verb needs.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


def _tell_version(asked: bool) -> None:
    if asked:
        typer.echo(f"pypsa-aidc {pypsa_aidc.__version__}, PyPSA {version('pypsa')}")
        raise typer.Exit


@app.callback()
def common(
    asked: Annotated[
        bool, typer.Option("--version", help="Print versions and leave.", callback=_tell_version, is_eager=True)
    ] = False,
) -> None:
    """Options before any verb; those of the verbs are listed by `pypsa-aidc VERB --help`."""


for call in (
    files.check,
    modes.modes,
    files.add,
    dispatch.dispatch,
    files.freeze,
    report.report,
    fleet.fleet,
    surface.surface,
    screen.screen,
    headroom.headroom,
    study.study,
    adequacy.adequacy,
    terms.terms,
):
    app.command(call.__name__, cls=Verb)(offered(call))
# Its file has one purpose: function and grid at the top, no sections of verbs.
app.command("sweep")(offered(sweep.sweep))
app.command("schema")(files.schema)


def main() -> None:
    """Run the command line; every error raised on purpose becomes one message and an exit code."""
    for stream in (sys.stdout, sys.stderr):
        # A character that the terminal or file cannot show is no reason to fail.
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
    quiet_process()
    try:
        # Without arguments Typer shows the help by itself.
        code = app(standalone_mode=len(sys.argv) < 2)
    except UsageError as error:
        verb = error.ctx.command_path if error.ctx else "pypsa-aidc"
        said = plainly(error.format_message())
        _fail(f"{verb}: {said}{'' if said.endswith(('.', '?')) else '.'} See {verb} --help.", EXIT_BAD_INPUT)
    except AIDCError as error:
        codes = {InputError: EXIT_BAD_INPUT, NotSolvedError: EXIT_NO_SOLUTION}
        _fail(str(error), next((code for kind, code in codes.items() if isinstance(error, kind)), EXIT_REFUSED))
    except BrokenPipeError:
        # Whoever reads has seen enough; Python itself would complain once more when it closes stdout.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        sys.exit(EXIT_REFUSED)
    except OSError as error:
        _fail(f"{error.filename or 'file'}: {error.strerror or error}", EXIT_BAD_INPUT)
    except typer.Abort:
        code = EXIT_STOPPED
    if code == EXIT_STOPPED:
        # What Typer makes of Ctrl-C; the line is told where the process began.
        raise KeyboardInterrupt
    sys.exit(code)


def _fail(message: str, code: int) -> NoReturn:
    told(f"error: {message}", "red")
    sys.exit(code)
