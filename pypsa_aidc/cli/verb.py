"""A verb whose options may stand in a YAML file: under its name, beside the sites, in one schema for all verbs."""

from __future__ import annotations

import functools
import inspect
import types
import typing
from collections.abc import Callable, Sequence
from dataclasses import field, fields, make_dataclass
from pathlib import Path
from typing import Annotated, Any, Union, get_args, get_origin

import typer
from typer.core import TyperCommand

from pypsa_aidc.cli.config import Config
from pypsa_aidc.cli.document import read
from pypsa_aidc.cli.reply import SetOption
from pypsa_aidc.cli.typed import build
from pypsa_aidc.errors import Faults

ConfigOption = Annotated[
    Path | None,
    typer.Option(
        "--config", "-c", help="YAML file; its section of this verb's name holds options.", show_default=False
    ),
]
_OF_THE_CALL = {"config", "settings", "as_json", "quiet", "dry_run"}


def configurable(verb: Callable[..., None]) -> Callable[..., None]:
    """Give a verb the options `--config` and `--set`, where it has none of its own."""
    hints = typing.get_type_hints(verb, include_extras=True)
    added = {name: hint for name, hint in {"config": ConfigOption, "settings": SetOption}.items() if name not in hints}

    @functools.wraps(verb)
    def run(**values: Any) -> None:
        # `Verb` has read them by now.
        verb(**{name: value for name, value in values.items() if name not in added})

    signature = inspect.signature(verb, eval_str=True)
    options = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=added[name]) for name in added
    ]
    parameters = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in signature.parameters.values()]
    run.__signature__ = signature.replace(parameters=[*parameters, *options])
    run.__annotations__ = {**hints, **added}
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
                ctx.default_map = _options(ctx, str(self.name), Path(path), settings)
            elif settings:
                faults = Faults(f"pypsa-aidc {self.name}")
                faults.add("--set", ", ".join(settings), "a --config that it overrides")
                faults.raise_any()
        return super().parse_args(ctx, args)


def _options(ctx: typer.Context, verb: str, path: Path, settings: Sequence[str]) -> dict[str, Any]:
    """Options of a verb by parameter, paths seen from the folder of the file."""
    commands = ctx.find_root().command.commands
    sections = [(name, _section(name, command, ctx) | None, field(default=None)) for name, command in commands.items()]
    schema = make_dataclass("Configuration", sections, bases=(Config,), frozen=True)
    section = getattr(build(schema, read(path, settings), Faults(str(path))), verb)
    if section is None:
        return {}
    hints, named = _hints(commands[verb]), _keys(commands[verb])
    values = {each.name: getattr(section, each.name) for each in fields(section)}
    return {
        named[key].name: _placed(value, hints[named[key].name], path.parent)
        for key, value in values.items()
        if value is not None
    }


def _section(name: str, command: Any, ctx: typer.Context) -> type:
    """A dataclass with the options of a verb, each checked as on the command line."""
    hints, named = _hints(command), _keys(command)

    def check(section: Any) -> None:
        faults = Faults(name)
        for key, parameter in named.items():
            value = getattr(section, key)
            try:
                if value is not None:
                    parameter.process_value(ctx, _listed(value, hints[parameter.name]))
            except typer.BadParameter as error:
                faults.add(key, value, plainly(error.message).removeprefix("expected "))
        faults.raise_any()

    entries = [(key, _kind(hints[parameter.name]) | None, field(default=None)) for key, parameter in named.items()]
    return make_dataclass(f"options of {name}", entries, frozen=True, namespace={"__post_init__": check})


def plainly(message: str) -> str:
    """Return what is wrong with an option in the words of this package rather than of what checks types for Typer."""
    return message.replace("Value error, ", "").replace("Input should be", "expected").rstrip(".")


def _hints(command: Any) -> dict[str, Any]:
    return typing.get_type_hints(inspect.unwrap(command.callback))


def _keys(command: Any) -> dict[str, Any]:
    """Parameters of a command by the key that they have in a file: that of the command line, with underscores."""
    return {
        next((name[2:].replace("-", "_") for name in each.opts if name.startswith("--")), each.name): each
        for each in command.params
        if each.name not in {*_OF_THE_CALL, "help"}
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
