"""The plan of a sweep: which points there are, and which of them are still to be made."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from typing import Any

import pandas as pd

from pypsa_aidc.errors import Faults
from pypsa_aidc.progress import track
from pypsa_aidc.sweeps.function import FileFunction, Function
from pypsa_aidc.sweeps.point import Point, Setup, can_be_kept, digest
from pypsa_aidc.sweeps.store import Store
from pypsa_aidc.sweeps.workers import evaluated

Grid = Mapping[str, Sequence[Any]] | Iterable[Mapping[str, Any]]


def sweep(
    function: Function,
    grid: Grid,
    out: Path | str | None = None,
    *,
    workers: int | None = None,
    memory: float | None = None,
    scheduler: str | None = None,
    inputs: Sequence[Path | str] = (),
    setup: Setup | None = None,
    retry: bool = False,
) -> pd.DataFrame:
    """Evaluate a function at every point of a grid, and keep each point in a file of its own.

    A folder that holds some of the points already gets the others: a sweep that was stopped goes on when it is asked
    for again. A point is made again if a file among its arguments, one of `inputs` or the source file of the function
    has changed since. If a worker dies, other workers take over its point; if a point fails, its error is kept and the
    others go on.

    Parameters
    ----------
    function
        Takes the arguments of a point by name and returns a frame, a mapping with a value for each column (one row), or
        a number (column ``value``). It gets whatever it needs to know as arguments, seeds too: same point, same
        result. Other processes import it, so a script calls `sweep` below ``if __name__ == "__main__":``.
    grid
        Values of each argument, of which all combinations are points, the last argument fastest; or the points, each a
        mapping of arguments. Values are numbers, text, dates, `None`, paths, and lists and mappings of them; the
        function gets paths in full.
    out
        Folder for the points; if left out, they are only returned, and nothing can be resumed.
    workers
        Processes on this machine; 1 is this process itself, which needs no further library. By default one for each
        processor, fewer if `memory` asks for it.
    memory
        GB that a point may take at most; a worker that takes more is ended, and after four tries its point has failed.
        By default, the workers share what the machine has.
    scheduler
        Address of a Dask cluster that takes the place of processes of this machine, e.g. ``tcp://login:8786``.
    inputs
        Files or folders that the function reads without being told by its arguments.
    setup
        Called once in each process before its first point, e.g. to choose options of PyPSA and what is logged.
    retry
        Whether points that failed before are tried again.

    Returns
    -------
    pandas.DataFrame
        The points in the order of the grid: arguments, `status` (``done`` or ``failed``), `error`, and the columns of
        the results; a point has as many rows as its result, and one if it failed.

    Raises
    ------
    InputError
        No function or grid, arguments that the function does not take, values that cannot be kept, numbers out of
        range, options that contradict each other, or the library `distributed` (extra ``cluster``) is missing.
    AIDCError
        The cluster is gone; what was done is kept.

    Notes
    -----
    In `out`, ``done/*.parquet`` and ``failed/*.parquet`` have one file a point, named by its arguments. Its metadata
    ``pypsa_aidc`` is JSON with function, arguments, versions and SHA-256 of source and inputs; paths are written as
    seen from `out`. Files are the same, byte for byte, wherever a point was computed. What differs from run to run is
    in ``times.csv``: seconds, CPU seconds, peak memory of the process in GB, and the process.

    Examples
    --------
    >>> sweep(lambda n, seed: n + seed, {"n": [10, 20], "seed": [1, 2]}, workers=1)["value"].tolist()
    [11, 12, 21, 22]
    """
    options = {"workers": workers, "memory": memory, "scheduler": scheduler}
    return prepared(function, grid, out, **options, inputs=inputs, setup=setup, retry=retry).run()  # type: ignore[arg-type]


@dataclass(frozen=True)
class Plan:
    """A sweep that has been checked.

    Parameters
    ----------
    function
        Takes the arguments of a point.
    points
        All of them.
    left
        Those still to be made.
    store
        Where they are kept.
    setup, workers, memory, scheduler
        As for `sweep`.
    """

    function: Function
    points: Sequence[Point]
    left: Sequence[Point]
    store: Store
    setup: Setup | None
    workers: int | None
    memory: float | None
    scheduler: str | None

    def run(self) -> pd.DataFrame:
        """Make what is left, and return all points."""
        if self.left:
            where = self.setup, self.workers, self.memory, self.scheduler
            with evaluated(self.function, self.left, *where) as outcomes:
                for point, outcome in track(outcomes, "points", len(self.left)):
                    self.store.put(point, outcome)
        return pd.concat([self.store.get(point) for point in self.points], ignore_index=True)


def prepared(
    function: Function,
    grid: Grid,
    out: Path | str | None = None,
    *,
    workers: int | None = None,
    memory: float | None = None,
    scheduler: str | None = None,
    inputs: Sequence[Path | str] = (),
    setup: Setup | None = None,
    retry: bool = False,
) -> Plan:
    """Check what `sweep` is given, and find out what is left to be done; parameters and errors as there."""
    faults = Faults("sweep")
    points = _points(function, grid, faults)
    if workers is not None:
        faults.number("workers", workers, at_least=1, integer=True)
    if memory is not None:
        faults.number("memory", memory, above=0)
    for name, value in (("workers", workers), ("memory", memory)):
        faults.require(scheduler is None or value is None, name, value, "nothing beside a scheduler, whose they are")
    faults.require(setup is None or callable(setup), "setup", setup, "a function without arguments")
    faults.require(workers != 1 or memory is None, "memory", memory, "nothing in this process", "Take two workers.")
    files = [Path(path) for path in faults.listed("inputs", inputs, "a list of files or folders")]
    for path in files:
        faults.require(path.exists(), "inputs", str(path), "an existing file or folder")
    folder = None if out is None else Path(out).resolve()
    nearest = next((path for path in (folder, *folder.parents) if path.exists()), None) if folder else None
    faults.require(nearest is None or nearest.is_dir(), "out", str(out), "a folder, not a file")
    if workers != 1 or scheduler is not None:
        installed = find_spec("distributed") is not None
        faults.require(installed, "workers", workers, "1 without distributed", "pip install 'pypsa-aidc[cluster]'")
    faults.raise_any()
    hashes = cache(digest)
    store = Store(folder)
    made = [Point.of(function, arguments, files, folder, hashes) for arguments in points]
    left = [point for point in {point.key: point for point in made}.values() if not store.has(point, retry)]
    return Plan(function, made, left, store, setup, workers, memory, scheduler)


def _points(function: Function, grid: object, faults: Faults) -> list[Mapping[str, Any]]:
    """All points, their arguments in order and checked."""
    faults.require(
        isinstance(function, FileFunction) or (callable(function) and hasattr(function, "__qualname__")),
        "function",
        function,
        "a function",
        "What is bound to it by partial becomes an argument of the grid.",
    )
    points: list[Any]
    if isinstance(grid, Mapping):
        values = [faults.listed(f"grid, {name}", each, "a list of values") for name, each in grid.items()]
        points = [dict(zip(grid, chosen, strict=True)) for chosen in product(*values)]
    else:
        points = faults.listed("grid", grid, "values of each argument, or a list of points")
    faults.require(bool(points) or len(faults) > 0, "grid", grid, "at least one point")
    if len(faults):
        return []
    signature = inspect.signature(function.function if isinstance(function, FileFunction) else function)
    refused: set[str] = set()
    for point in points:
        if not faults.kind("grid", point, Mapping, "a mapping of arguments"):
            continue
        for name, value in point.items():
            if not can_be_kept(value) and name not in refused:
                faults.add(f"grid, {name}", value, "numbers, text, dates, None, paths, lists and mappings of them")
                refused.add(name)
        try:
            signature.bind(**point)
        except TypeError as error:
            if str(error) not in refused:
                faults.add("grid", dict(point), f"the arguments of the function ({error})")
                refused.add(str(error))
    return points
