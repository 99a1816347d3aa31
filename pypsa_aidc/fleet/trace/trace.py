"""A trace on disk: its partitions, the scale of its utilisation, and when its hours begin."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import polars as pl

from pypsa_aidc.errors import Faults
from pypsa_aidc.fleet.trace import tables
from pypsa_aidc.fleet.trace.layout import LAYOUTS, Layout
from pypsa_aidc.fleet.trace.recognise import Recognised, recognise
from pypsa_aidc.fleet.trace.schema import JOBS, POD_HOURS, SERVER_HOURS
from pypsa_aidc.fleet.trace.stamps import LONGEST_TRACE, has_stamps, midnight, moment
from pypsa_aidc.fleet.trace.tables import number, reading, scan

Scale = Literal["percent", "fraction", "absent"]
OutOfRange = Literal["reject", "clip"]
Overuse = Literal["keep", "clip"]
Duplicates = Literal["refuse", "all", "one"]

HIVE = re.compile(r"(day|hour)=(.*)")
FOUND = "found"
"""Name of the layout that is told from the tables."""


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
        How it is laid out.
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
    duplicates
        What happens to rows that occur twice and name no job or pod.
    origin
        Hour 0 of an hourly trace whose hours are stamps: UTC midnight of its first day, later by the minutes at which
        its hours begin in zones such as +05:30. None for numbers.
    cadence
        Hours from sample to sample of an hourly trace: 1, or less for samples within the hour.
    decimal_commas
        Source columns whose decimals a comma parts.
    guesses
        What was taken for granted to recognise the layout.
    ignored
        Tables that are not part of the trace.
    """

    folder: Path
    layout: Layout
    pods: tuple[Partition, ...]
    servers: tuple[Partition, ...]
    summary: tuple[Path, ...]
    scale: Scale
    out_of_range: OutOfRange
    overuse: Overuse
    duplicates: Duplicates = "refuse"
    origin: datetime | None = None
    cadence: float = 1.0
    decimal_commas: frozenset[str] = frozenset()
    guesses: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """Layout and citation, for the metadata of every result."""
        return f"{self.layout.name} ({self.layout.citation})"

    @property
    def paths(self) -> list[Path]:
        """Files of the pod table."""
        return [path for piece in self.pods for _, path in piece.files]

    @classmethod
    def read(
        cls,
        folder: str | Path,
        layout: str | Path | Layout = FOUND,
        *,
        utilisation: Scale | None = None,
        out_of_range: OutOfRange = "reject",
        overuse: Overuse = "keep",
        duplicates: Duplicates = "refuse",
        **declared: Any,
    ) -> Trace:
        """Find the tables of a trace and declare what cannot be read off them.

        Parameters
        ----------
        folder
            Holds the tables as hive partitions ``day=…/hour=…``, or as plain files, as the layout says; or is itself a
            table, or a zip archive of tables. Tables are parquet, CSV (any delimiter), JSON or JSONL, plain, .gz, .zst
            or .bz2, in UTF-8, UTF-16 or Windows' encoding.
        layout
            ``"found"``: told from the names of columns, as Slurm (``sacct``), Kubernetes, Helios, Philly, Acme and the
            tables of this package have them. ``"alibaba-2026"``, ``"openb-2023"``, ``"spot-2026"``, ``"generic"``, a
            `Layout` of your own, or the YAML file of one. The generic one reads ``pods*`` and, if there are any,
            ``servers*``: files or folders of files with the columns of `POD_HOURS` and `SERVER_HOURS`.
        utilisation
            Scale of the utilisation column. An hourly trace must declare it, and so must a job list whose layout names
            a column for it; ``"absent"`` leaves it out.
        out_of_range
            Rows outside the declared scale are rejected and counted, or clipped and counted.
        overuse
            Rows that use more GPU-hours than requested are kept and counted, or clipped and counted.
        duplicates
            Rows that name a job or pod and occur twice are counted once and told. Of those that name none,
            ``"refuse"`` refuses more than a few, ``"all"`` counts each, ``"one"`` counts equal ones once.
        declared
            Fields of `Layout` to put over it, e.g. ``zone="Asia/Shanghai"``, ``constants={"priority": "high"}``.

        Returns
        -------
        Trace

        Raises
        ------
        InputError
            Missing folder or table, nothing that can be recognised, unreadable partition names, a partition that occurs
            twice, scale not declared.
        """
        root = Path(folder)
        faults = Faults(f"Trace in '{root}'")
        choices: dict[str, tuple[str, Any]] = {
            "out_of_range": (out_of_range, OutOfRange),
            "overuse": (overuse, Overuse),
        }
        choices |= {"duplicates": (duplicates, Duplicates)}
        for name, (value, kind) in choices.items():
            faults.require(value in get_args(kind), name, value, " or ".join(map(repr, get_args(kind))))
        unknown = sorted(set(declared) - set(Layout.__dataclass_fields__))
        faults.require(not unknown, "declared", unknown, "fields of Layout")
        faults.require(root.exists(), "folder", str(root), "an existing folder, table or archive")
        faults.raise_any()
        if root.is_file() and root.suffix.lower() != ".zip":
            faults.require(bool(tables.kind(root)), "file", str(root), f"one of {', '.join(tables.KINDS)}")
            faults.raise_any()
            root, below = root.parent, {root.name: root}
        else:
            below = _tables(root)
        recognised = _layout(root, layout, below, declared)
        known = recognised.layout
        published = known in LAYOUTS.values() and known.kind == "jobs"
        pods = _partitions(known.pods, below, published, faults)
        servers = _partitions(known.servers, below, published, faults)
        expected = f"a table '{known.pods}' with .parquet or .csv files"
        faults.require(bool(pods), "folder", str(root), expected)
        summary = _listed(below, f"{known.summary}/*", plain=True) if known.summary else []
        if published:
            for table, found in ((known.pods, pods), (known.servers, servers)):
                names = [piece.name for piece in found]
                remedy = "Lists of a release overlap: put the one to read into a folder of its own."
                faults.require(len(names) <= 1, "folder", names, f"one file '{table}'", remedy)
        scale = utilisation or known.units.get("utilisation")
        if known.kind == "jobs" and "utilisation" not in known.pod_columns:
            remedy = "Name its column in the layout, if there is one."
            given = utilisation in (None, "absent")
            faults.require(given, "utilisation", utilisation, "nothing: this layout has none", remedy)
            scale = "absent"
        elif recognised.guesses and "utilisation" not in known.pod_columns and utilisation is None:
            scale = "absent"
        elif scale not in get_args(Scale):
            hint = _scale_hint(known, pods) if pods else ""
            faults.add("utilisation", scale, "'percent', 'fraction' or 'absent'", hint)
        faults.raise_any()
        commas = _decimal_commas(known, pods, servers, faults)
        faults.raise_any()
        trace = Trace(
            root,
            known,
            pods,
            servers,
            tuple(path for _, path in summary),
            scale or "absent",  # type: ignore[arg-type]
            out_of_range,
            overuse,
            duplicates,
            decimal_commas=commas,
            guesses=recognised.guesses,
            ignored=recognised.ignored,
        )
        return trace if known.kind == "jobs" else _with_clock(trace)


def _tables(root: Path) -> dict[str, Path]:
    """Tables below a folder or in an archive, by name; those of archives in the folder too."""
    if root.is_file():
        return {path.relative_to(root).as_posix(): path for path in tables.files(root)}
    below = sorted(path for path in root.rglob("*") if path.is_file())
    return {path.relative_to(root).as_posix(): path for one in below for path in tables.files(one)}


def _layout(
    root: Path, layout: str | Path | Layout, below: Mapping[str, Path], declared: Mapping[str, Any]
) -> Recognised:
    if isinstance(layout, Layout):
        return Recognised(_over(layout, declared), (), ())
    if str(layout).lower().endswith((".yaml", ".yml")):
        return Recognised(_over(Layout.read(layout), declared), (), ())
    if layout == FOUND:
        found = recognise(root, below, declared)
        is_own = found.layout.name == FOUND
        return found if is_own else replace(found, layout=_over(found.layout, declared))
    faults = Faults("Layout of a trace")
    remedy = "Pass a Layout, or a YAML file of one, for a trace of another kind."
    faults.require(layout in LAYOUTS, "layout", layout, f"one of {FOUND}, {', '.join(LAYOUTS)}", remedy)
    faults.raise_any()
    return Recognised(_over(LAYOUTS[str(layout)], declared), (), ())


def _over(layout: Layout, declared: Mapping[str, Any]) -> Layout:
    """Put what the user declares over a layout: mappings are added to, other fields replaced."""
    changes: dict[str, Any] = {}
    for name, value in declared.items():
        before = getattr(layout, name)
        if name == "words":
            changes[name] = {**before, **{key: {**before.get(key, {}), **words} for key, words in value.items()}}
        else:
            changes[name] = {**before, **value} if isinstance(before, Mapping) else value
    if "constants" in changes:
        kept = {name: source for name, source in layout.pod_columns.items() if name not in declared["constants"]}
        changes["pod_columns"] = {**kept, **declared.get("pod_columns", {})}
        changes["words"] = {
            name: words for name, words in changes.get("words", layout.words).items() if name in changes["pod_columns"]
        }
    return replace(layout, **changes) if changes else layout


def _listed(below: Mapping[str, Path], pattern: str, plain: bool) -> list[tuple[str, Path]]:
    """Tables whose name, or whose folder's or archive's, fits one of the patterns that commas part."""
    wanted = [part.strip() for part in pattern.split(", ")] if pattern else []
    found = {}
    for name, path in below.items():
        parts = name.split("/")
        for part in wanted:
            depth = part.count("/") + 1
            fits = fnmatchcase("/".join(parts[:depth]), part)
            if fits and (len(parts) == depth or not plain):
                found[name] = path
    return sorted(found.items())


def _partitions(table: str, below: Mapping[str, Path], plain: bool, faults: Faults) -> tuple[Partition, ...]:
    """Partitions of one table, by day where it is in hive folders, by file where it is not."""
    days: dict[int, list[tuple[int | None, Path]]] = defaultdict(list)
    loose: list[Partition] = []
    owner: dict[int, Path] = {}
    listed = _listed(below, table, plain)
    for name, path in listed:
        keys = {match[1]: match[2] for part in name.split("/") if (match := HIVE.fullmatch(part))}
        if not keys:
            loose.append(Partition(name, ((None, path),)))
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
    stems = {name[: name.lower().rindex(tables.kind(path))] for name, path in listed}
    faults.require(len(stems) == len(listed), table, "the same file as .parquet and as .csv", "one of the two")
    if days and loose:
        faults.add(str(loose[0].files[0][1]), "a file outside the day=/hour= folders", "one kind of layout")
    _no_copies([path for partition in loose for _, path in partition.files], faults)
    return (*(Partition(f"day={day}", tuple(days[day])) for day in sorted(days)), *loose)


def _no_copies(paths: list[Path], faults: Faults) -> None:
    """Note files of equal content: a partition that was copied twice would be counted twice."""
    sizes: dict[int, list[Path]] = defaultdict(list)
    for path in paths:
        if path.is_file():
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
        types = frame.collect_schema()
        if source not in types.names():
            return f"There is no column '{source}': declare 'absent'."
        if not types[source].is_numeric() and types[source] != pl.String:
            return f"Column '{source}' of '{path}' holds no numbers."
        top = frame.select(number(types, source).max()).collect(engine="streaming").item()
    return f"The largest value in '{path}' is {top}. Declare the scale; it is not guessed."


def _decimal_commas(
    layout: Layout, pods: tuple[Partition, ...], servers: tuple[Partition, ...], faults: Faults
) -> frozenset[str]:
    """Source columns of numbers whose decimals a comma parts; thousands are noted as a fault."""
    numeric = [column.name for column in (*JOBS, *POD_HOURS, *SERVER_HOURS) if not column.text]
    commas: set[str] = set()
    for pieces, columns in ((pods, layout.pod_columns), (servers, layout.server_columns)):
        if not pieces:
            continue
        path = pieces[0].files[0][1]
        if tables.kind(path) not in tables.TEXT:
            continue
        with reading(path):
            there = scan(path).collect_schema().names()
        sources = list(dict.fromkeys(columns[name] for name in numeric if columns.get(name) in there))
        for source, told in tables.decimal_commas(path, sources).items():
            remedy = "Write numbers without separators of thousands, or with a decimal point."
            faults.require(
                told is not None, f"{path}, column '{source}'", "numbers such as 1,234", "a decimal point", remedy
            )
            commas.add(source)
    return frozenset(commas)


def _with_clock(trace: Trace) -> Trace:
    """Find hour 0 and the cadence of an hourly trace; numbers, and hours in the names of folders, have neither."""
    layout = trace.layout
    source = layout.pod_columns.get("hour", "")
    unit = layout.units.get("hour", "")
    faults = Faults(f"Trace in '{trace.folder}'")
    pieces = []
    for path in (path for piece in trace.pods for hour, path in piece.files if hour is None):
        with reading(path):
            frame = scan(path)
            types = frame.collect_schema()
            if source in types and has_stamps(frame, source, unit, layout.zone, f"{path}, column '{source}'", faults):
                pieces.append(frame.select(moment(types, source, unit, layout.zone).alias("at").unique()))
    faults.raise_any()
    if not pieces:
        return trace
    with reading(trace.folder):
        stamps = pl.concat(pl.collect_all(pieces, engine="streaming"))["at"].drop_nulls().unique().sort()
    if stamps.is_empty():
        return trace
    first: datetime = stamps[0]
    start = midnight(first)
    seconds = (stamps - start).dt.total_microseconds().to_numpy() / 1e6
    steps = np.array([3600.0]) if stamps.len() < 2 else np.diff(seconds)
    within = np.unique(np.round(seconds % 3600, 3))
    if within.size == 1:
        return replace(trace, origin=start + timedelta(seconds=float(within[0])))
    cadence = float(np.median(steps)) / 3600
    return replace(trace, origin=start, cadence=min(cadence, 1.0))
