"""A trace on disk: its partitions, the scale of its utilisation, and its rows in the typed schema."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

import polars as pl

from pypsa_aidc.errors import Faults, InputError
from pypsa_aidc.fleet.schema import LAYOUTS, POD_HOURS, SERVER_HOURS, Column, Layout

Scale = Literal["percent", "fraction", "absent"]
OutOfRange = Literal["reject", "clip"]
Overuse = Literal["keep", "clip"]

SUFFIXES = (".parquet", ".csv")
HIVE = re.compile(r"(day|hour)=(.*)")
LONGEST_TRACE = 100 * 8784
"""Hours; a longer one is a column in another unit."""
SLACK = 1e-3
"""Relative excess of used over requested GPU-hours that is still rounding."""


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
    """

    folder: Path
    layout: Layout
    pods: tuple[Partition, ...]
    servers: tuple[Partition, ...]
    summary: tuple[Path, ...]
    scale: Scale
    out_of_range: OutOfRange
    overuse: Overuse

    @property
    def label(self) -> str:
        """Layout and citation, for the metadata of every result."""
        return f"{self.layout.name} ({self.layout.citation})"


def trace(
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
        ``"alibaba-2026"``, ``"openb-2023"``, ``"spot-2026"``, ``"generic"``, or a `Layout` of your own. The generic one
        reads ``pods*`` and, if there are any, ``servers*``: files or folders of files with the columns of `POD_HOURS`
        and `SERVER_HOURS` in `pypsa_aidc.fleet`.
    utilisation
        Scale of the utilisation column. An hourly trace must declare it; a trace of spans has none.
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
    known = _known(layout)
    faults.require(out_of_range in get_args(OutOfRange), "out_of_range", out_of_range, "'reject' or 'clip'")
    faults.require(overuse in get_args(Overuse), "overuse", overuse, "'keep' or 'clip'")
    if not root.is_dir():
        faults.add("folder", str(root), "an existing folder")
        faults.raise_any()
    pods = _partitions(root, known.pods, known.kind == "spans", faults)
    servers = _partitions(root, known.servers, known.kind == "spans", faults)
    faults.require(bool(pods), "folder", str(root), f"a table '{known.pods}' with .parquet or .csv files")
    summary = tuple(sorted(path for path in root.glob(f"{known.summary or 'none'}/*") if path.suffix in SUFFIXES))
    if known.kind == "spans":
        for table, found in ((known.pods, pods), (known.servers, servers)):
            names = [piece.name for piece in found]
            remedy = "Lists of a release overlap: put the one to read into a folder of its own."
            faults.require(len(names) <= 1, "folder", names, f"one file '{table}'", remedy)
        faults.require(utilisation in (None, "absent"), "utilisation", utilisation, "nothing: this layout has none")
    elif utilisation not in get_args(Scale):
        faults.add(
            "utilisation",
            utilisation,
            "'percent', 'fraction' or 'absent'",
            _scale_hint(known, pods) if pods else "",
        )
    faults.raise_any()
    return Trace(root, known, pods, servers, summary, utilisation or "absent", out_of_range, overuse)


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


def pod_rows(trace: Trace, partition: Partition, extra: tuple[str, ...] = ()) -> pl.LazyFrame:
    """Rows of a partition of the pod table in the typed schema, each with the reason why it is to be left out.

    Parameters
    ----------
    trace, partition
        What to read.
    extra
        Columns that are normally optional but needed now, e.g. ``("pod",)``.

    Returns
    -------
    polars.LazyFrame
        Columns of `POD_HOURS`, plus `reason` (null for a good row), `overused` and `clipped` (bool).

    Raises
    ------
    InputError
        A column is missing or has an impossible type; all such faults of the partition together.
    """
    faults = Faults(f"Pod table, partition '{partition.name}'")
    frames = [
        _typed(trace, hour, path, POD_HOURS, trace.layout.pod_columns, faults, extra) for hour, path in partition.files
    ]
    faults.raise_any()
    return pl.concat(_checked(trace, frame) for frame in frames)


def idle_hours(trace: Trace, partition: Partition) -> pl.LazyFrame:
    """Hours of which rows that `pod_rows` skips tell that nothing ran: the one column `hour`."""
    faults = Faults(f"Pod table, partition '{partition.name}'")
    columns = trace.layout.pod_columns
    frames = [_typed(trace, hour, path, POD_HOURS, columns, faults) for hour, path in partition.files]
    faults.raise_any()
    return pl.concat(frames).filter(_idle() & ~_bad_hour()).select("hour").unique()


def server_rows(trace: Trace, partition: Partition) -> pl.LazyFrame:
    """Rows of a partition of the server table in the typed schema, each with the reason why it is to be left out."""
    faults = Faults(f"Server table, partition '{partition.name}'")
    frames = [
        _typed(trace, hour, path, SERVER_HOURS, trace.layout.server_columns, faults) for hour, path in partition.files
    ]
    faults.raise_any()
    reasons = {
        "server hour is not a whole number": _bad_hour(),
        "server without cluster or accelerator": pl.col("cluster").is_null() | pl.col("accelerator").is_null(),
        "server with a negative or missing size": _not_finite("gpus")
        | _not_finite("cores")
        | (pl.col("gpus") < 0)
        | (pl.col("cores") < 0),
    }
    return pl.concat(frames).with_columns(reason=first_that_holds(reasons))


def _typed(
    trace: Trace,
    hour: int | None,
    path: Path,
    schema: tuple[Column, ...],
    sources: Mapping[str, str],
    faults: Faults,
    extra: tuple[str, ...] = (),
) -> pl.LazyFrame:
    """Select the schema's columns out of one file; faults of presence and type are noted, values come later."""
    with reading(path):
        frame = scan(path)
        types = frame.collect_schema()
    selected: list[pl.Expr] = []
    for column in schema:
        source = sources.get(column.name, "")
        if column.name == "hour" and hour is not None:
            selected.append(pl.lit(float(hour)).alias("hour"))
            continue
        if column.name == "utilisation" and trace.scale == "absent":
            selected.append(pl.lit(None, dtype=pl.Float64).alias(column.name))
            continue
        if source not in types:
            needed = column.required or column.name in extra or column.name == "utilisation"
            faults.require(not needed, str(path), f"columns {', '.join(types.names())}", f"a column '{source}'")
            default = pl.lit(column.default, dtype=pl.String if column.text else pl.Float64)
            selected.append(default.alias(column.name))
            continue
        kind = types[source]
        if kind.is_nested() or kind in (pl.Boolean, pl.Binary, pl.Object) or (kind.is_temporal() and not column.text):
            faults.add(f"{path}, column '{source}'", str(kind), "text" if column.text else "numbers")
            continue
        value = pl.col(source)
        if column.text:
            text = value.cast(pl.String)
            selected.append(pl.when(text != "").then(text).alias(column.name))
        else:
            number = value.cast(pl.Float64, strict=False)
            # Text that is not a number must not pass for a missing value.
            selected.append(pl.when(value.is_not_null() & number.is_null()).then(float("nan")).otherwise(number))
            selected[-1] = selected[-1].alias(column.name)
    return frame.select(selected)


def first_that_holds(reasons: Mapping[str, pl.Expr]) -> pl.Expr:
    """Return the text of the first condition that holds for a row, null if none does."""
    return pl.coalesce(pl.when(holds).then(pl.lit(text)) for text, holds in reasons.items())


def _not_finite(name: str) -> pl.Expr:
    return pl.col(name).is_null() | ~pl.col(name).is_finite()


def _bad_hour() -> pl.Expr:
    hour = pl.col("hour")
    return _not_finite("hour") | (hour < 0) | (hour > LONGEST_TRACE) | (hour != hour.floor())


def _idle() -> pl.Expr:
    """Whether a row neither requests nor uses an accelerator."""
    return (pl.col("gpu_hours").fill_null(0) == 0) & (pl.col("gpu_requested").fill_null(0) <= 0)


def _checked(trace: Trace, frame: pl.LazyFrame) -> pl.LazyFrame:
    """Skip rows without accelerators, translate words, apply the scale, and give every faulty row its reason."""
    words = trace.layout.words
    scaled = pl.col("utilisation") / (100 if trace.scale == "percent" else 1)
    outside = (scaled < 0) | (scaled > 1)
    overused = pl.col("gpu_hours") > pl.col("gpu_requested") * (1 + SLACK)
    reasons: dict[str, pl.Expr] = {
        "hour is not a whole number": _bad_hour(),
        "no cluster": pl.col("cluster").is_null(),
        "no accelerator": pl.col("accelerator").is_null(),
        **{f"unknown {name}": ~pl.col(name).is_in(list(words[name])).fill_null(False) for name in words},
        "gpu_hours is not a number": _not_finite("gpu_hours"),
        "negative gpu_hours": pl.col("gpu_hours") < 0,
        "negative gpu_requested": pl.col("gpu_requested") < 0,
        "utilisation is not a number": pl.col("utilisation").is_not_null() & ~pl.col("utilisation").is_finite(),
        "utilisation out of range": outside if trace.out_of_range == "reject" else pl.lit(False),
        "CPU is negative or not a number": ~(
            (pl.col("cpu_requested").fill_null(0) >= 0)
            & (pl.col("cpu_load").fill_null(0) >= 0)
            & pl.col("cpu_requested").fill_null(0).is_finite()
            & pl.col("cpu_load").fill_null(0).is_finite()
        ),
    }
    hours = pl.min_horizontal("gpu_hours", "gpu_requested") if trace.overuse == "clip" else pl.col("gpu_hours")
    return (
        frame.filter(~_idle())
        .with_columns(reason=first_that_holds(reasons), overused=overused.fill_null(False))
        .with_columns(
            clipped=outside.fill_null(False),
            utilisation=scaled.clip(0, 1),
            gpu_hours=hours,
            **{name: pl.col(name).replace_strict(dict(words[name]), default=None) for name in words},
        )
    )
