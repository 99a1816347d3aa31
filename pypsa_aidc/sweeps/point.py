"""Points of a sweep: what decides their result, and the file that they become."""

from __future__ import annotations

import hashlib
import inspect
import io
import json
import os
import socket
import sys
import time
import traceback
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from pypsa_aidc.sweeps.function import FileFunction, Function
from pypsa_aidc.versions import versions

Status = Literal["done", "failed"]
Setup = Callable[[], object]

PROVENANCE = b"pypsa_aidc"
"""Key of the metadata of a point's file: what made it, as JSON."""
BYTES_PER_GB = 1e9
_TEXT = str | Path | date
_WIDTH = 16
"""Hexadecimal digits in the name of a point's file: 1e6 points share one with a probability of 3e-8."""


@dataclass(frozen=True)
class Point:
    """A point of the grid.

    Parameters
    ----------
    arguments
        What the function is called with.
    recipe
        What decides the result: function, arguments, hashes of the source and of all files.
    key
        Name of its file: what it is, whatever its inputs hold.
    """

    arguments: Mapping[str, Any]
    recipe: Mapping[str, Any]
    key: str

    @classmethod
    def of(
        cls,
        function: Function,
        arguments: Mapping[str, Any],
        inputs: Sequence[Path],
        folder: Path | None,
        hashes: Callable[[Path], str],
    ) -> Point:
        """Say what decides the result of a point; `folder` is where paths are seen from."""
        code = function.function if isinstance(function, FileFunction) else function
        what = {"function": f"{code.__module__}:{code.__qualname__}", "arguments": _plain(arguments, folder)}
        files = {_place(path, folder): hashes(path) for path in (*inputs, *_paths(arguments))}
        recipe = {**what, "code": _source(code), "inputs": dict(sorted(files.items()))}
        text = json.dumps(what, sort_keys=True)
        return cls(_resolved(arguments), recipe, hashlib.sha256(text.encode()).hexdigest()[:_WIDTH])


@dataclass(frozen=True)
class Outcome:
    """What became of a point: the bytes of its file, and what it cost."""

    status: Status
    content: bytes
    cost: Mapping[str, object]

    @property
    def frame(self) -> pd.DataFrame:
        """Rows of the point."""
        return read(io.BytesIO(self.content), self.status)


def can_be_kept(value: object) -> bool:
    """Whether an argument can be written into the file of its point."""
    if isinstance(value, Mapping):
        return all(isinstance(key, str) for key in value) and all(map(can_be_kept, value.values()))
    if isinstance(value, list | tuple):
        return all(map(can_be_kept, value))
    return value is None or isinstance(value, bool | int | float | np.generic | _TEXT)


def _plain(value: Any, folder: Path | None) -> Any:
    """A value as JSON has it."""
    if isinstance(value, Mapping):
        return {key: _plain(each, folder) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each, folder) for each in value]
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Path):
        return _place(value, folder)
    return value.isoformat() if isinstance(value, date) else value


def _place(path: Path, folder: Path | None) -> str:
    """A path as seen from a folder, so that both may be moved together."""
    return str(path) if folder is None else Path(os.path.relpath(path, folder)).as_posix()


def _resolved(value: Any) -> Any:
    """A value with paths in full, for processes that work in another folder."""
    if isinstance(value, Mapping):
        return {key: _resolved(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(map(_resolved, value))
    return value.resolve() if isinstance(value, Path) else value


def _paths(value: Any) -> Iterator[Path]:
    if isinstance(value, Path):
        yield value
    elif isinstance(value, Mapping | list | tuple):
        for each in value.values() if isinstance(value, Mapping) else value:
            yield from _paths(each)


def digest(path: Path) -> str:
    """SHA-256 of a file, or of the names and contents of all files of a folder; "" where nothing is."""
    if path.is_dir():
        below = sorted(each for each in path.rglob("*") if each.is_file())
        text = "".join(f"{each.relative_to(path).as_posix()} {digest(each)}\n" for each in below)
        return hashlib.sha256(text.encode()).hexdigest()
    if not path.is_file():
        return ""
    with path.open("rb") as file:
        found: str = hashlib.file_digest(file, "sha256").hexdigest()
        return found


def _source(function: Hashable) -> str:
    """SHA-256 of the file in which a function stands; of its own lines where there is no file, as in a notebook."""
    try:
        path = inspect.getsourcefile(function)  # type: ignore[arg-type]
        if path is not None and Path(path).is_file():
            return digest(Path(path))
        return hashlib.sha256(inspect.getsource(function).encode()).hexdigest()  # type: ignore[arg-type]
    except (TypeError, OSError):
        return ""


def evaluate(function: Function, point: Point, setup: Setup | None) -> Outcome:
    """Call the function, in whichever process this is."""
    _set_up(setup)
    began, cpu = time.perf_counter(), time.process_time()
    try:
        frame, told = _frame(function(**point.arguments), point.arguments), ""
    except (Exception, SystemExit) as error:
        return failure(point, error, began, cpu)
    return _outcome(point, frame, told, began, cpu)


@cache
def _set_up(setup: Setup | None) -> None:
    """Prepare this process, once."""
    if setup is not None:
        setup()


def failure(point: Point, error: BaseException, began: float | None = None, cpu: float = 0.0) -> Outcome:
    """Keep the error of a point; without a beginning, its process is gone and with it what the point cost."""
    told = "".join(traceback.format_exception(error))
    message = "".join(traceback.format_exception_only(error)).strip()
    return _outcome(point, pd.DataFrame({"error": [message]}), told, began, cpu)


def _outcome(point: Point, frame: pd.DataFrame, told: str, began: float | None, cpu: float) -> Outcome:
    """Make the file of a point; `told` is the traceback of one that failed."""
    status: Status = "failed" if told else "done"
    given = {name: json.dumps(v) if isinstance(v, dict | list) else v for name, v in point.recipe["arguments"].items()}
    for position, (name, value) in enumerate(given.items()):
        frame.insert(position, name, value)
    about = {**point.recipe, "versions": versions(), "status": status} | ({"traceback": told} if told else {})
    table = pa.Table.from_pandas(frame, preserve_index=False)
    metadata = {**(table.schema.metadata or {}), PROVENANCE: json.dumps(about, sort_keys=True)}
    table = table.replace_schema_metadata(metadata)
    buffer = io.BytesIO()
    pq.write_table(table, buffer)
    cost: dict[str, object] = {"seconds": None, "cpu_seconds": None, "peak_gb": None, "process": None}
    if began is not None:
        cost = {
            "seconds": time.perf_counter() - began,
            "cpu_seconds": time.process_time() - cpu,
            "peak_gb": _peak(),
            "process": f"{socket.gethostname()}:{os.getpid()}",
        }
    return Outcome(status, buffer.getvalue(), cost)


def _frame(result: Any, arguments: Mapping[str, Any]) -> pd.DataFrame:
    """A result as rows."""
    if isinstance(result, pd.DataFrame):
        named = any(name is not None for name in result.index.names)
        frame = result.reset_index() if named else result.reset_index(drop=True)
    elif isinstance(result, Mapping | pd.Series):
        frame = pd.DataFrame([dict(result)])
    elif isinstance(result, int | float | np.generic):
        frame = pd.DataFrame({"value": [result]})
    else:
        raise TypeError(f"the function returned a {type(result).__name__}; expected a frame, a mapping or a number")
    frame.columns = frame.columns.map(str)
    taken = sorted({*arguments, "status", "error"} & set(frame.columns))
    if taken:
        raise ValueError(f"the result has columns {', '.join(taken)}, which are names of arguments or of the sweep")
    return frame


def read(file: Path | io.BytesIO, status: Status) -> pd.DataFrame:
    """Read the rows of a point: arguments, status, error, results."""
    table = pq.ParquetFile(file).read()
    frame: pd.DataFrame = table.to_pandas()
    arguments = len(json.loads(table.schema.metadata[PROVENANCE])["arguments"])
    frame.insert(arguments, "status", status)
    if status == "done":
        frame.insert(arguments + 1, "error", "")
    return frame


def recipe_in(path: Path) -> Mapping[str, Any] | None:
    """What decided the result in a file, or `None` where there is no whole file."""
    try:
        about = json.loads((pq.read_metadata(path).metadata or {})[PROVENANCE])
    except (OSError, pa.ArrowInvalid, KeyError):
        return None
    return {key: about[key] for key in ("function", "arguments", "code", "inputs")}


def _peak() -> float:
    """Most memory in GB that this process has held so far."""
    try:
        import resource
    except ImportError:  # on Windows
        return float("nan")
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most * (1 if sys.platform == "darwin" else 1024) / BYTES_PER_GB
