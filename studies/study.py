"""What the studies share: configurations as checked dataclasses, quiet solves, tables on screen and on disk."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

import pandas as pd
import pypsa
import yaml
from rich import box
from rich.console import Console
from rich.table import Table

import pypsa_aidc as aidc
from pypsa_aidc.cli.reply import quiet_process, silenced_stdout
from pypsa_aidc.errors import Faults

ROOT = Path(__file__).parents[1]
DATA = ROOT.parent / "shared" / "data"
DECIMALS = 4
WIDTH = 140
"""Columns of tables that go into a file or a pipe."""
SHORT = 24
"""Length of texts up to which a column of a table is not folded."""

Config = TypeVar("Config")


def main(
    script: str,
    config_type: type[Config],
    run: Callable[[Config, argparse.Namespace, Console], None],
    config: str = "config.yaml",
) -> None:
    """Read the configuration beside a script, run the study, and turn errors raised on purpose into one message."""
    folder = Path(script).parent
    parser = argparse.ArgumentParser(description=sys.modules["__main__"].__doc__)
    parser.add_argument("--config", type=Path, default=folder / config, help="configuration of the study")
    parser.add_argument("--out", type=Path, default=folder, help="folder for the result tables")
    parser.add_argument("--figures", type=Path, help="folder for figures; without, none are drawn")
    parser.add_argument("--workers", type=int, default=1, help="processes that share the points of sweeps")
    parser.add_argument("--points", type=Path, help="folder for the points of sweeps, from which a stopped one goes on")
    arguments = parser.parse_args()
    quiet_process()
    console = Console(width=None if sys.stdout.isatty() else WIDTH)
    try:
        settings = read_config(arguments.config, config_type)
        for target in (arguments.out, arguments.figures):
            if target is not None:
                target.mkdir(parents=True, exist_ok=True)
        run(settings, arguments, console)
    except aidc.AIDCError as error:
        sys.exit(f"error: {error}")


def read_config(path: Path, kind: type[Config]) -> Config:
    """Read a YAML file into a dataclass.

    Raises
    ------
    InputError
        No such file, no mapping, unknown or missing keys, or values that the dataclass refuses.
    """
    faults = Faults(f"configuration {path}")
    faults.require(path.is_file(), "file", str(path), "an existing YAML file")
    faults.raise_any()
    return build(kind, yaml.safe_load(path.read_text(encoding="utf-8")), str(path))


def build(kind: type[Config], content: Any, where: str) -> Config:
    """Build a dataclass, and the dataclasses inside its tuples, from what a YAML file holds."""
    faults = Faults(f"{kind.__name__} in {where}")
    faults.require(isinstance(content, dict), "content", content, "keys and values")
    faults.raise_any()
    known = [field.name for field in fields(kind)]
    for key in content:
        faults.require(key in known, str(key), content[key], f"one of the keys {', '.join(known)}")
    for key in known:
        faults.require(key in content, key, None, "a value")
    faults.raise_any()
    hints = get_type_hints(kind)
    return kind(**{key: _value(hints[key], value, f"{where}, {key}") for key, value in content.items()})


def _value(hint: Any, value: Any, where: str) -> Any:
    if not isinstance(value, list) or get_origin(hint) is not tuple:
        return value
    inner = get_args(hint)[0]
    if is_dataclass(inner):
        return tuple(build(inner, entry, f"{where}[{position}]") for position, entry in enumerate(value))
    return tuple(value)


def data_file(name: str) -> Path:
    """Path of a file of shared data, which is not part of the project.

    Raises
    ------
    InputError
        It is not there.
    """
    path = DATA / name
    faults = Faults("shared data")
    faults.require(path.is_file(), name, str(path), "an existing file", "The project's README says what it is.")
    faults.raise_any()
    return path


def sweep(
    function: Callable[..., Any], points: list[dict[str, Any]], arguments: argparse.Namespace, name: str
) -> pd.DataFrame:
    """Evaluate a function at all points, in as many processes as the command line says; any that fails is an error."""
    folder = None if arguments.points is None else arguments.points / name
    with aidc.show_progress():
        frame = aidc.sweep(function, points, folder, workers=arguments.workers, setup=quiet_process, retry=True)
    failed = frame[frame["status"] == "failed"]
    if len(failed):
        raise aidc.AIDCError(f"{name}: {len(failed)} of {len(points)} points failed, first: {failed['error'].iloc[0]}")
    return frame.drop(columns=["status", "error"])


def solve(n: pypsa.Network, label: str = "", **options: Any) -> aidc.network.Result:
    """Solve as ``aidc.optimize`` does, but with nothing printed by the solver and a label shown meanwhile."""
    with Console(stderr=True).status(f"{label} ..."), silenced_stdout():
        return n.aidc.optimize(output_flag=False, **options)


def gpu_hours(n: pypsa.Network) -> tuple[float, float]:
    """GPU-hours that the jobs of a solved network run, and those that they hold.

    Held is what a job keeps if it frees no GPU before it is done: those of its baseline, or of a larger mode while it
    runs in it. It is told of schedules that were found without a price for it.
    """
    used, progress = n.aidc.gpus(), n.aidc.progress()
    hours = n.snapshot_weightings["stores"].loc[used.index]
    unfinished = progress.shift(fill_value=0.0) < 1 - 1e-9
    held = used.copy()
    for site in n.aidc.sites.values():
        for load in site.jobs.values():
            least = load.mode().gpus if load.baseline is not None else 0
            column = (site.name, load.name)
            held[column] = used[column].where(~unfinished[column], used[column].clip(lower=least))
    run, kept = (float(frame.mul(hours, axis=0).to_numpy().sum()) for frame in (used, held))
    return run, kept


def save(frame: pd.DataFrame, folder: Path, name: str) -> None:
    """Write a table with a fixed number of decimals and no negative zeros, so that equal results are equal files."""
    rounded = frame.map(lambda value: round(value, DECIMALS) + 0.0 if isinstance(value, float) else value)
    rounded.to_csv(folder / f"{name}.csv", index=False, lineterminator="\n")


def show(console: Console, frame: pd.DataFrame, title: str, decimals: dict[str, int] | None = None) -> None:
    """Print a frame as a table; numbers with two decimals unless told otherwise by column."""
    table = Table(title=title, box=box.SIMPLE_HEAD, title_justify="left", title_style="bold", pad_edge=False)
    for column in frame:
        if all(isinstance(value, str) for value in frame[column]):
            table.add_column(str(column), no_wrap=frame[column].str.len().max() <= SHORT, overflow="fold")
        else:
            # Numbers are narrower than their names: broken names let more columns stand side by side.
            table.add_column(str(column).replace(" ", "\n"), justify="right", no_wrap=True)
    for row in frame.itertuples(index=False):
        table.add_row(*(_cell(v, (decimals or {}).get(str(c), 2)) for c, v in zip(frame, row, strict=True)))
    console.print(table)


def _cell(value: Any, decimals: int) -> str:
    if isinstance(value, str):
        return value
    if value is None or pd.isna(value):
        return "-"
    if not isinstance(value, float):
        return str(value)
    return f"{round(float(value), decimals) + 0.0:.{decimals}f}"
