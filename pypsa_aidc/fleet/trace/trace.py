"""A trace on disk: its partitions, the scale of its utilisation, and its rows in the typed schema."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Literal, get_args

import polars as pl

from pypsa_aidc.errors import Faults, InputError
from pypsa_aidc.fleet.trace.layout import Layout
from pypsa_aidc.fleet.trace.published import LAYOUTS
from pypsa_aidc.fleet.trace.stamps import has_stamps, midnight, moment

Scale = Literal["percent", "fraction", "absent"]
OutOfRange = Literal["reject", "clip"]
Overuse = Literal["keep", "clip"]

SUFFIXES = (".parquet", ".csv")
HIVE = re.compile(r"(day|hour)=(.*)")
LONGEST_TRACE = 100 * 8784
"""Hours; a longer one is a column in another unit."""


@dataclass(frozen=True)
class Partition:
    """A piece of a table that is aggregated in one go.

    Attributes
    ----------
    name
        For messages and for the file that keeps its result, e.g. ``"day=5"``.
    files
        Pairs of hour since the start of the trace (None where the table has its own hour column) and file.
    """

    name: str
    files: tuple[tuple[int | None, Path], ...]


@dataclass(frozen=True)
class Trace:
    """A trace that was found on disk but not read yet.

    Attributes
    ----------
    folder
        Where it lies.
    layout
        Which published layout it follows.
    pods, servers
        Partitions of the two tables; `servers` may be empty.
    summary
        Files of the execution summary; may be empty.
    scale
        Declared scale of utilisation.
    out_of_range
        Rows with a utilisation outside the scale are rejected, or clipped to it.
    overuse
        Rows that use more GPU-hours than they request are kept as they are, or clipped to the request.
    origin
        Hour 0 of an hourly trace whose hours are stamps with a zone: UTC midnight of its first day. None for numbers.
    """

    folder: Path
    layout: Layout
    pods: tuple[Partition, ...]
    servers: tuple[Partition, ...]
    summary: tuple[Path, ...]
    scale: Scale
    out_of_range: OutOfRange
    overuse: Overuse
    origin: datetime | None = None

    @property
    def label(self) -> str:
        """Layout and citation, for the metadata of every result."""
        return f"{self.layout.name} ({self.layout.citation})"

    @classmethod
    def read(
        cls,
        folder: str | Path,
        layout: str | Layout = "alibaba-2026",
        *,
        utilisation: Scale | None = None,
        out_of_range: OutOfRange = "reject",
        overuse: Overuse = "keep",
    ) -> Trace:
        """Find the tables of a trace and declare what cannot be read off them.

        Parameters
        ----------
        folder
            Holds the tables as hive partitions ``day=…/hour=…/*.parquet|csv``, or as plain files, as the layout says.
        layout
            ``"alibaba-2026"``, ``"openb-2023"``, ``"spot-2026"``, ``"generic"``, or a `Layout` of your own. The generic
            one reads ``pods*`` and, if there are any, ``servers*``: files or folders of files with the columns of
            `POD_HOURS`
            and `SERVER_HOURS` in `pypsa_aidc.fleet`.
        utilisation
            Scale of the utilisation column. An hourly trace must declare it, and so must a job list whose layout names
            a column for it; ``"absent"`` leaves it out.
        out_of_range
            Rows outside the declared scale are rejected and counted, or clipped and counted.
        overuse
            Rows that use more GPU-hours than requested are kept and counted, or clipped and counted.

        Returns
        -------
        Trace

        Raises
        ------
        InputError
            Missing folder or table, unreadable partition names, a partition that occurs twice, scale not declared.
        """
        root = Path(folder)
        faults = Faults(f"Trace in '{root}'")
        known_layout = _known(layout)
        faults.require(out_of_range in get_args(OutOfRange), "out_of_range", out_of_range, "'reject' or 'clip'")
        faults.require(overuse in get_args(Overuse), "overuse", overuse, "'keep' or 'clip'")
        if not root.is_dir():
            faults.add("folder", str(root), "an existing folder")
            faults.raise_any()
        pods = _partitions(root, known_layout.pods, known_layout.kind == "spans", faults)
        servers = _partitions(root, known_layout.servers, known_layout.kind == "spans", faults)
        faults.require(bool(pods), "folder", str(root), f"a table '{known_layout.pods}' with .parquet or .csv files")
        summary = tuple(
            sorted(path for path in root.glob(f"{known_layout.summary or 'none'}/*") if path.suffix in SUFFIXES)
        )
        if known_layout.kind == "spans":
            for table, found in ((known_layout.pods, pods), (known_layout.servers, servers)):
                names = [piece.name for piece in found]
                remedy = "Lists of a release overlap: put the one to read into a folder of its own."
                faults.require(len(names) <= 1, "folder", names, f"one file '{table}'", remedy)
        if known_layout.kind == "spans" and "utilisation" not in known_layout.pod_columns:
            remedy = "Name its column in the layout, if there is one."
            given = utilisation in (None, "absent")
            faults.require(given, "utilisation", utilisation, "nothing: this layout has none", remedy)
        elif utilisation not in get_args(Scale):
            faults.add(
                "utilisation",
                utilisation,
                "'percent', 'fraction' or 'absent'",
                _scale_hint(known_layout, pods) if pods else "",
            )
        faults.raise_any()
        origin = _origin(known_layout, pods, faults) if known_layout.kind == "hourly" else None
        faults.raise_any()
        return Trace(root, known_layout, pods, servers, summary, utilisation or "absent", out_of_range, overuse, origin)


def _origin(layout: Layout, pods: tuple[Partition, ...], faults: Faults) -> datetime | None:
    """UTC midnight before the first stamp in the hour column; None if it holds numbers, or folders name the hours."""
    firsts = []
    source = layout.pod_columns.get("hour", "")
    for path in (path for piece in pods for hour, path in piece.files if hour is None):
        with reading(path):
            frame = scan(path)
            if source in frame.collect_schema() and has_stamps(frame, source, path, faults):
                firsts.append(frame.select(moment(frame, source).min()).collect().item())
    found = [first for first in firsts if first is not None]
    return midnight(min(found)) if found else None


def _known(layout: str | Layout) -> Layout:
    if isinstance(layout, Layout):
        return layout
    faults = Faults("Layout of a trace")
    remedy = "Pass a Layout for a trace of another kind."
    faults.require(layout in LAYOUTS, "layout", layout, f"one of {', '.join(LAYOUTS)}", remedy)
    faults.raise_any()
    return LAYOUTS[layout]


def _partitions(root: Path, table: str, plain: bool, faults: Faults) -> tuple[Partition, ...]:
    """Partitions of one table, by day where it is in hive folders, by file where it is not."""
    candidates = sorted(root.glob(table)) if table else []
    files = [path for path in candidates if path.is_file() and path.suffix in SUFFIXES]
    for directory in (path for path in candidates if path.is_dir() and not plain):
        files += sorted(path for path in directory.rglob("*") if path.suffix in SUFFIXES)
    days: dict[int, list[tuple[int | None, Path]]] = defaultdict(list)
    loose: list[Partition] = []
    owner: dict[int, Path] = {}
    for path in files:
        keys = {match[1]: match[2] for part in path.relative_to(root).parts if (match := HIVE.fullmatch(part))}
        if not keys:
            loose.append(Partition(path.relative_to(root).as_posix(), ((None, path),)))
            continue
        if not {"day", "hour"} <= set(keys) or not all(value.isdecimal() for value in keys.values()):
            faults.add(str(path), keys, "folders day=<number>/hour=<number>")
            continue
        day, clock = int(keys["day"]), int(keys["hour"])
        hour = 24 * day + clock
        if clock > 23 or hour > LONGEST_TRACE:
            faults.add(str(path), keys, f"an hour of 0 … 23 and a day of 0 … {LONGEST_TRACE // 24}")
        elif owner.setdefault(hour, path.parent) != path.parent:
            faults.add(
                str(path.parent), keys, f"one folder for each hour; it is also in '{owner[hour]}'", "Remove one."
            )
        else:
            days[day].append((hour, path))
    stems = {(path.parent, path.stem) for path in files}
    faults.require(len(stems) == len(files), table, "the same file as .parquet and as .csv", "one of the two")
    if days and loose:
        faults.add(str(loose[0].files[0][1]), "a file outside the day=/hour= folders", "one kind of layout")
    _no_copies([path for partition in loose for _, path in partition.files], faults)
    return (*(Partition(f"day={day}", tuple(days[day])) for day in sorted(days)), *loose)


def _no_copies(paths: list[Path], faults: Faults) -> None:
    """Note files of equal content: a partition that was copied twice would be counted twice."""
    sizes: dict[int, list[Path]] = defaultdict(list)
    for path in paths:
        sizes[path.stat().st_size].append(path)
    for group in sizes.values():
        seen: dict[bytes, Path] = {}
        for path in group if len(group) > 1 else []:
            twin = seen.setdefault(path.read_bytes(), path)
            faults.require(twin == path, str(path), "a file", f"content that is not already in '{twin}'", "Remove one.")


def _scale_hint(layout: Layout, pods: tuple[Partition, ...]) -> str:
    """Largest utilisation of the first partition, so that the user can tell which scale to declare."""
    source = layout.pod_columns.get("utilisation", "")
    path = pods[0].files[0][1]
    with reading(path):
        frame = scan(path)
        if source not in frame.collect_schema().names():
            return f"There is no column '{source}': declare 'absent'."
        top = frame.select(pl.col(source).cast(pl.Float64, strict=False).max()).collect(engine="streaming").item()
    return f"The largest value in '{path}' is {top}. Declare the scale; it is not guessed."


@contextmanager
def reading(path: Path | str) -> Iterator[None]:
    """Turn whatever a reader raises on a broken file into one error that names the file."""
    try:
        yield
    except InputError:
        raise
    except (pl.exceptions.PolarsError, OSError, ValueError, OverflowError) as error:
        text = str(error).splitlines()[0] if str(error) else type(error).__name__
        faults = Faults(f"Reading '{path}'")
        faults.add("content", text, "a readable .parquet or .csv table", "Fetch the file again or remove it.")
        raise InputError(faults.subject, tuple(faults)) from error


def scan(path: Path) -> pl.LazyFrame:
    """Open a file lazily; numbers of a .csv stay text until they are checked."""
    if path.suffix == ".parquet":
        return pl.scan_parquet(path, hive_partitioning=False)
    return pl.scan_csv(path, infer_schema=False, try_parse_dates=False)
