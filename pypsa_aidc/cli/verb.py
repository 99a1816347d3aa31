"""A verb of the command line: the options that all have, and those that may stand in a YAML file under its name."""

from __future__ import annotations

import functools
import inspect
import logging
import types
import typing
from collections.abc import Callable, Sequence
from contextlib import nullcontext, suppress
from dataclasses import field, fields, make_dataclass
from pathlib import Path
from typing import Annotated, Any, Union, get_args, get_origin

import typer
from typer.core import TyperCommand

from pypsa_aidc.cli.reply import Reply, quiet_libraries
from pypsa_aidc.errors import AIDCError, Faults

DryRunOption = Annotated[
    bool, typer.Option("--dry-run", help="Read and check what is given, compute and write nothing.")
]
SettingsOption = Annotated[
    list[str] | None,
    typer.Option("--set", help="key=value that overrides the file, repeatable: sites.dc1.gpus=1024."),
]
_COMMON: dict[str, Any] = {
    "config": Annotated[
        Path | None,
        typer.Option(
            "--config", "-c", help="YAML file; its section of this verb's name holds options.", show_default=False
        ),
    ],
    "settings": SettingsOption,
    "as_json": Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")],
    "quiet": Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")],
    "verbose": Annotated[
        bool, typer.Option("--verbose", "-v", help="Let PyPSA and the solver tell on stderr what they do.")
    ],
}
_OF_THE_CALL = {*_COMMON, "dry_run", "help"}


def offered(verb: Callable[..., None]) -> Callable[..., None]:
    """Make a command of a function of a `Reply` and options: give it the options that all verbs have.

    Parameters
    ----------
    verb
        Takes the reply first; `config` and `settings` only if it reads more of the file than its own options.
    """
    hints = typing.get_type_hints(verb, include_extras=True)
    given = inspect.signature(verb, eval_str=True).parameters.values()
    own = {each.name: each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in given}
    del own["reply"]

    @functools.wraps(verb)
    def run(*, as_json: bool, quiet: bool, verbose: bool, **values: Any) -> None:
        from pypsa_aidc.progress import show_progress

        reply = Reply(verb.__name__, as_json, quiet, verbose)
        logging.basicConfig(format="%(name)s: %(message)s")
        quiet_libraries(verbose)
        # Between lines of a log those of progress would be lost.
        silent = as_json or quiet or verbose
        with reply.warned(), nullcontext() if silent else show_progress():
            # `Verb` has read the file by now.
            verb(reply, **{key: value for key, value in values.items() if key in own})

    added = [
        inspect.Parameter(
            key,
            inspect.Parameter.KEYWORD_ONLY,
            default=False if get_args(hint)[0] is bool else None,
            annotation=hint,
        )
        for key, hint in _COMMON.items()
        if key not in own
    ]
    run.__signature__ = inspect.Signature([*own.values(), *added])
    run.__annotations__ = {**_COMMON, **hints}
    return run


class Verb(TyperCommand):
    """A command that looks into its file for what its command line leaves out."""

    def parse_args(self, ctx: typer.Context, args: list[str]) -> list[str]:  # type: ignore[override]
        """Read the file before anything else, so that its values are defaults that are checked like any others.

        Raises
        ------
        InputError
            Anything wrong in the file, also in the sections of other verbs; all faults at once and by line.
        """
        given, _, _ = self.make_parser(ctx).parse_args(args=list(args))
        if not (ctx.resilient_parsing or given.get("help")):
            path, settings = given.get("config"), given.get("settings") or ()
            if isinstance(path, str):
                ctx.default_map = _options(ctx, str(self.name), Path(path), settings, given.get("network"))
            elif settings:
                faults = Faults(f"pypsa-aidc {self.name}")
                faults.add("--set", ", ".join(settings), "a --config that it overrides")
                faults.raise_any()
        return super().parse_args(ctx, args)


def whole_file(ctx: typer.Context) -> type:
    """Return the dataclass of a whole file: the sites, and a section for each verb."""
    from pypsa_aidc.cli.config import Config

    commands = ctx.find_root().command.commands
    verbs = {name: command for name, command in commands.items() if isinstance(command, Verb)}
    sections = [(name, _section(name, verb, ctx) | None, field(default=None)) for name, verb in verbs.items()]
    return make_dataclass("Configuration", sections, bases=(Config,), frozen=True)


def _options(ctx: typer.Context, verb: str, path: Path, settings: Sequence[str], network: str | None) -> dict[str, Any]:
    """Options of a verb by parameter, paths seen from the folder of the file."""
    from pypsa_aidc.cli.config import within
    from pypsa_aidc.cli.document import read
    from pypsa_aidc.cli.typed import build
    from pypsa_aidc.network import load

    command = ctx.find_root().command.commands[verb]
    n = None
    # A verb that takes the sites of the file into a network: what does not go together is told with all the rest.
    if network is not None and "config" in inspect.signature(inspect.unwrap(command.callback)).parameters:
        with suppress(AIDCError):
            n = load(Path(network))
    with within(n, path.parent):
        section = getattr(build(whole_file(ctx), read(path, settings), Faults(str(path))), verb)
    if section is None:
        return {}
    hints, named = _hints(command), _keys(command)
    values = {each.name: getattr(section, each.name) for each in fields(section)}
    return {
        named[key].name: _placed(value, hints[named[key].name], path.parent)
        for key, value in values.items()
        if value is not None
    }


def _section(name: str, command: Any, ctx: typer.Context) -> type:
    """A dataclass with the options of a verb, each checked as on the command line."""
    from pypsa_aidc.cli.typed import BAD

    hints, named = _hints(command), _keys(command)

    def check(section: Any) -> None:
        faults = Faults(name)
        for key, parameter in named.items():
            value = getattr(section, key)
            try:
                if value is not None and value is not BAD:
                    parameter.process_value(ctx, _listed(value, hints[parameter.name]))
            except typer.BadParameter as error:
                faults.add(key, value, plainly(error.message).removeprefix("expected "))
        faults.raise_any()

    entries = []
    for key, parameter in named.items():
        about = {"description": "help", "minimum": "min", "maximum": "max"}
        schema = {word: getattr(parameter, name, None) for word, name in about.items()}
        entries.append((key, _kind(hints[parameter.name]) | None, field(default=None, metadata=schema)))
    return make_dataclass(f"{name.title()}Options", entries, frozen=True, namespace={"__post_init__": check})


def plainly(message: str) -> str:
    """Return what is wrong with an option in the words of this package rather than of what checks types for Typer."""
    return message.replace("Value error, ", "").replace("Input should be", "expected").rstrip(".")


def _hints(command: Any) -> dict[str, Any]:
    return typing.get_type_hints(inspect.unwrap(command.callback)) | {"config": Path | None}


def _keys(command: Any) -> dict[str, Any]:
    """Parameters of a command by the key that they have in a file: that of the command line, with underscores."""
    return {
        next((name[2:].replace("-", "_") for name in each.opts if name.startswith("--")), each.name): each
        for each in command.params
        if each.name not in _OF_THE_CALL
    }


def _kind(hint: Any) -> Any:
    """Type of an option in a file."""
    if get_origin(hint) in (Union, types.UnionType):
        return functools.reduce(lambda one, other: one | other, map(_kind, get_args(hint)))
    if get_origin(hint) is list:
        return tuple[_kind(get_args(hint)[0]), ...] | _kind(get_args(hint)[0])  # type: ignore[misc]
    return str if hint is Path else hint


def _placed(value: Any, hint: Any, folder: Path) -> Any:
    return str(folder / value) if Path in (hint, *get_args(hint)) else _listed(value, hint)


def _listed(value: Any, hint: Any) -> Any:
    """Wrap a single value of an option that is repeatable."""
    repeatable = any(get_origin(kind) is list for kind in (hint, *get_args(hint)))
    return list(value if isinstance(value, tuple) else [value]) if repeatable else value
