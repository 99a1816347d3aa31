"""The command line `pypsa-aidc`: one verb a module, each a thin layer over the Python call of the same name."""

from __future__ import annotations

import sys
import warnings
from typing import Annotated, Any, NoReturn

import pypsa
import typer
from rich.console import Console

import pypsa_aidc
from pypsa_aidc.cli import add, check, dispatch, fleet, freeze, headroom, modes, report, screen, surface
from pypsa_aidc.cli.reply import with_progress
from pypsa_aidc.cli.verb import Verb, configurable, plainly
from pypsa_aidc.errors import AIDCError, InputError, NotSolvedError

UsageError: Any = typer.BadParameter.__mro__[1]
"""Whatever is wrong with a command line; Typer names only this kind of it."""

EXIT_REFUSED = 1
EXIT_BAD_INPUT = 2
EXIT_NO_SOLUTION = 3

app = typer.Typer(
    name="pypsa-aidc",
    help="AI data centers in PyPSA grid models. Exit codes: 0 done, 1 refused, 2 bad input, 3 no solution; "
    "check: 0 nothing, 1 warnings, 2 errors. 3 is also a file without the solution that a verb needs.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


def _tell_version(asked: bool) -> None:
    if asked:
        typer.echo(f"pypsa-aidc {pypsa_aidc.__version__}, PyPSA {pypsa.__version__}")
        raise typer.Exit


@app.callback()
def common(
    version: Annotated[
        bool, typer.Option("--version", help="Print versions and leave.", callback=_tell_version, is_eager=True)
    ] = False,
) -> None:
    """Options before any verb; those of the verbs are listed by `pypsa-aidc VERB --help`."""


for command in (
    check.check_verb,
    modes.modes_verb,
    add.add_verb,
    dispatch.dispatch,
    freeze.freeze_verb,
    report.report_verb,
    fleet.fleet_verb,
    surface.surface_verb,
    screen.screen_verb,
    headroom.headroom_verb,
):
    app.command(command.__name__.removesuffix("_verb"), cls=Verb)(configurable(with_progress(command)))


def main() -> None:
    """Run the command line; every error raised on purpose becomes one message and an exit code."""
    # PyPSA and its dependencies announce their own changes; that is nothing a user of this command can act on.
    warnings.filterwarnings("ignore", category=FutureWarning)
    warnings.filterwarnings("ignore", category=DeprecationWarning)
    try:
        # Without arguments Typer shows the help by itself.
        code = app(standalone_mode=len(sys.argv) < 2)
    except UsageError as error:
        verb = error.ctx.command_path if error.ctx else "pypsa-aidc"
        _fail(f"{verb}: {plainly(error.format_message())}. See {verb} --help.", EXIT_BAD_INPUT)
    except AIDCError as error:
        codes = {InputError: EXIT_BAD_INPUT, NotSolvedError: EXIT_NO_SOLUTION}
        _fail(str(error), next((code for kind, code in codes.items() if isinstance(error, kind)), EXIT_REFUSED))
    except OSError as error:
        _fail(f"{error.filename or 'file'}: {error.strerror or error}", EXIT_BAD_INPUT)
    except typer.Abort:
        _fail("stopped", EXIT_REFUSED)
    sys.exit(code)


def _fail(message: str, code: int) -> NoReturn:
    Console(stderr=True, soft_wrap=True).print(f"error: {message}", style="red", highlight=False, markup=False)
    sys.exit(code)
