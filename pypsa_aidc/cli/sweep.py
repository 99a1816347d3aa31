"""`pypsa-aidc sweep`: a function at every point of the grid of a YAML file, each point a file."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from pypsa_aidc.cli.reply import Reply, quiet_process, silenced_stdout
from pypsa_aidc.cli.verb import DryRunOption, SettingsOption
from pypsa_aidc.errors import Faults, near
from pypsa_aidc.plain import counted

if TYPE_CHECKING:
    from pypsa_aidc.sweeps import FileFunction, Function

EXIT_FAILED = 1

Scalar = bool | int | float | str | None


@dataclass(frozen=True)
class Range:
    """Whole numbers.

    Parameters
    ----------
    first, last
        The first and the last of them.
    """

    first: int
    last: int


@dataclass(frozen=True)
class Files:
    """Files that exist.

    Parameters
    ----------
    files
        Pattern such as ``networks/*.nc``, seen from the folder of the configuration.
    """

    files: str


@dataclass(frozen=True)
class Sweep:
    """What a file says of a sweep.

    Parameters
    ----------
    function
        ``file.py:name``, seen from the folder of the configuration, or ``package.module:name``.
    grid
        Values of each argument, of which all combinations are points, the last argument fastest: a list, one value,
        ``{first: 0, last: 199}``, or ``{files: networks/*.nc}``.
    inputs
        Files or folders that the function reads without being told by its arguments.
    """

    function: str
    grid: Mapping[str, tuple[Scalar, ...] | Range | Files | Scalar]
    inputs: tuple[str, ...] = ()


def sweep(
    reply: Reply,
    config: Annotated[Path, typer.Argument(help="YAML file with function, grid and, if need be, inputs.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for the points; those in it are not made again.")],
    workers: Annotated[
        int | None, typer.Option(help="Processes on this machine; one for each processor.", show_default=False)
    ] = None,
    memory: Annotated[
        float | None, typer.Option(help="Most memory of a point, GB; what takes more is ended.", show_default=False)
    ] = None,
    scheduler: Annotated[
        str | None, typer.Option(help="Dask cluster in place of this machine, e.g. tcp://login:8786.")
    ] = None,
    retry: Annotated[bool, typer.Option("--retry", help="Try points again that failed before.")] = False,
    settings: SettingsOption = None,
    dry_run: DryRunOption = False,
) -> None:
    """Evaluate a function at every point of a grid, each point a file. Exit code 1: some points failed.

    A sweep that was stopped goes on when it is started again; what has changed since is made again.
    """
    from pypsa_aidc.cli.document import read
    from pypsa_aidc.cli.typed import build
    from pypsa_aidc.sweeps import prepared

    chosen = build(Sweep, read(config, settings or ()), Faults(str(config)))
    function = _function(chosen.function, config)
    grid = _grid(chosen.grid, function, config)
    plan = prepared(
        function,
        grid,
        out,
        workers=workers,
        memory=memory,
        scheduler=scheduler,
        setup=None if reply.verbose else quiet_process,
        inputs=[config.parent / path for path in chosen.inputs],
        retry=retry,
    )
    about = {"function": chosen.function, "points": len(plan.points), "there": len(plan.points) - len(plan.left)}
    if dry_run:
        reply.rehearsed(about, f"{counted(len(plan.points), 'point')}, {len(plan.left)} of them to be made", out)
        return
    with silenced_stdout(reply.verbose):
        frame = plan.run()
    failed = frame[frame["status"] == "failed"]
    for row in failed.to_dict("records"):
        reply.note(", ".join(f"{name}={row[name]}" for name in grid) + f": {row['error']}", style="yellow")
    reply.tables["points"] = frame
    reply.line(
        f"{counted(len(plan.points), 'point')} in {out}, {len(plan.left)} of them made now, {len(failed)} failed"
    )
    reply.answer(**about, made=len(plan.left), failed=len(failed), out=out)
    if len(failed):
        raise typer.Exit(EXIT_FAILED)


def _function(text: str, config: Path) -> Function:
    """The function that a configuration names."""
    from pypsa_aidc.sweeps import FileFunction

    faults = Faults(str(config))
    place, _, name = text.partition(":")
    faults.require(bool(place and name), "function", text, "file.py:name or package.module:name")
    faults.raise_any()
    if place.endswith(".py"):
        return FileFunction(config.parent / place, name)
    try:
        module = import_module(place)
    except ImportError as error:
        faults.add("function", text, f"a module that can be imported ({error})")
        faults.raise_any()
    found = getattr(module, name, None)
    faults.require(callable(found), "function", text, f"a function of {place}", near(name, vars(module)))
    faults.raise_any()
    assert callable(found)
    return found


def _grid(
    grid: Mapping[str, tuple[Scalar, ...] | Range | Files | Scalar], function: Function | FileFunction, config: Path
) -> dict[str, list[Any]]:
    """Values of each argument; text becomes a path where the function takes one."""
    faults = Faults(str(config))
    code = getattr(function, "function", function)
    hints = get_type_hints(code) if inspect.isfunction(code) else {}
    values: dict[str, list[Any]] = {}
    for name, given in grid.items():
        if isinstance(given, Range):
            faults.require(
                given.last >= given.first, f"grid.{name}", given, "a last number that is not below the first"
            )
            values[name] = list(range(given.first, given.last + 1))
        elif isinstance(given, Files):
            values[name] = sorted(config.parent.glob(given.files))
            faults.require(bool(values[name]), f"grid.{name}", given.files, f"files in {config.parent.absolute()}")
        else:
            values[name] = list(given) if isinstance(given, tuple) else [given]
        if hints.get(name) is Path:
            values[name] = [config.parent / each for each in values[name]]
    faults.raise_any()
    return values
