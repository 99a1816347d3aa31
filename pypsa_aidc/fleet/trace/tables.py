"""Tables in the files that tools write: delimited text, JSON and parquet, packed or not, in any usual encoding."""

from __future__ import annotations

import io
import json
import re
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa

from pypsa_aidc.errors import Faults, InputError

TEXT = (".csv", ".tsv", ".txt", ".psv", ".dat")
LINES = (".jsonl", ".ndjson")
KINDS = (".parquet", ".json", *LINES, *TEXT)
PACKED = (".gz", ".zst", ".bz2")
DELIMITERS = "|\t;,"
SNIFFED = 1 << 16
"""Bytes of the beginning of a file from which its encoding and delimiter are told."""

CUT_STEP = r"^\d+(_\d+|\+\d+)?\.[a-z]*\+$"
"""Cut identifiers of steps of Slurm jobs, ``1234567.bat+``: which step it was does not matter."""
_LEADING = ("#", "sep=", "SEP=")
_COMMA = re.compile(r"-?\d+,\d+")
_GROUPS = re.compile(r"-?[1-9]\d{0,2}(,\d{3})+")


def kind(path: Path) -> str:
    """Suffix that says what a file holds, without that of its packing; empty if it is no table.

    Examples
    --------
    >>> kind(Path("pods.CSV.gz")), kind(Path("notes.md"))
    ('.csv', '')
    """
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes and suffixes[-1] in PACKED:
        suffixes.pop()
    return suffixes[-1] if suffixes and suffixes[-1] in KINDS else ""


def files(path: Path) -> list[Path]:
    """Table files at a path: itself, those of an archive (``archive.zip/member``), or those in the folder."""
    if path.is_dir():
        return [file for child in sorted(path.iterdir()) if child.is_file() for file in files(child)]
    if path.suffix.lower() == ".zip":
        with reading(path), zipfile.ZipFile(path) as archive:
            inside = sorted(name for name in archive.namelist() if not name.startswith("__MACOSX"))
        return [path / name for name in inside if kind(Path(name))]
    return [path] if kind(path) else []


def on_disk(path: Path) -> Path:
    """Return the file itself, or the archive that a member is in."""
    return next((parent for parent in (path, *path.parents) if parent.is_file()), path)


@contextmanager
def reading(path: Path | str) -> Iterator[None]:
    """Turn whatever a reader raises on a broken file into one error that names the file."""
    try:
        yield
    except InputError:
        raise
    except (
        pl.exceptions.PolarsError,
        pa.ArrowException,
        zipfile.BadZipFile,
        OSError,
        ValueError,
        OverflowError,
        EOFError,
    ) as error:
        text = str(error).splitlines()[0] if str(error) else type(error).__name__
        faults = Faults(f"Reading '{path}'")
        expected = "a readable table: parquet, CSV, TSV or JSON, plain or packed"
        faults.add("content", text, expected, "Fetch the file again or remove it.")
        raise InputError(faults.subject, tuple(faults)) from error


def scan(path: Path) -> pl.LazyFrame:
    """Open a file lazily; numbers of a text file stay text until they are checked."""
    found = kind(path)
    if found == ".parquet":
        outside = on_disk(path) == path
        return pl.scan_parquet(path if outside else io.BytesIO(_content(path)), hive_partitioning=False)
    if found == ".json":
        return _from_json(json.loads(_decoded(_content(path)))).lazy()
    if found in LINES:
        lines = _decoded(_content(path)).splitlines()
        return _from_json([json.loads(line) for line in lines if line.strip()]).lazy()
    how = _text_form(path, _stamp(path))
    if how.places:
        source = path if how.plain else io.BytesIO(_decoded(_content(path)).encode())
        whole = {"separator": "\x01", "quote_char": None, "has_header": False, "new_columns": ["line"]}
        rows = pl.scan_csv(source, skip_lines=how.skipped + 2, infer_schema=False, **whole)  # type: ignore[arg-type]
        cells = {
            name: pl.col("line").str.slice(start, width).str.strip_chars()
            for name, (start, width) in how.places.items()
        }
        return rows.select(pl.when(cell != "").then(cell).alias(name) for name, cell in cells.items())
    options: dict[str, Any] = {
        "separator": how.delimiter,
        "skip_lines": how.skipped,
        "infer_schema": False,
        "try_parse_dates": False,
        "quote_char": how.quote,
    }
    if how.plain:
        frame = pl.scan_csv(path, **options)
    else:
        frame = pl.scan_csv(io.BytesIO(_decoded(_content(path)).encode()), **options)
    # Slurm's --parsable ends each line with a delimiter.
    names = frame.collect_schema().names()
    return frame.select(name for name in names if name.strip()) if any(not name.strip() for name in names) else frame


class _TextForm:
    """Delimiter of a text file, its quotes, lines before its header, and whether it can be read as it lies on disk.

    Of columns of fixed width, as sacct prints them, `places` has start and width, told by the dashes below the header.
    """

    def __init__(
        self, delimiter: str, quote: str | None, skipped: int, plain: bool, places: Mapping[str, tuple[int, int]]
    ) -> None:
        self.delimiter, self.quote, self.skipped, self.plain, self.places = delimiter, quote, skipped, plain, places


def _stamp(path: Path) -> tuple[int, int]:
    status = on_disk(path).stat()
    return status.st_size, status.st_mtime_ns


@lru_cache(maxsize=4096)
def _text_form(path: Path, _stamp: tuple[int, int]) -> _TextForm:
    head = _content(path, SNIFFED)
    lines = _decoded(head).splitlines()
    skipped = next((i for i, line in enumerate(lines) if line.strip() and not line.startswith(_LEADING)), 0)
    header = lines[skipped] if lines else ""
    places: dict[str, tuple[int, int]] = {}
    if len(lines) > skipped + 1 and re.fullmatch(r"[-\s]*-{3,}[-\s]*", lines[skipped + 1]):
        spans = [dashes.span() for dashes in re.finditer("-+", lines[skipped + 1])]
        places = {header[start:end].strip(): (start, end - start) for start, end in spans}
        between = [end for _, end in spans]
        # The last line of the beginning may be cut.
        odd = next(
            (
                line
                for line in lines[skipped + 2 : -1 if len(head) == SNIFFED else None]
                if any(line[at : at + 1].strip() for at in between)
            ),
            None,
        )
        faults = Faults(f"Reading '{path}'")
        remedy = "With sacct, use --parsable2."
        faults.require(odd is None, "content", odd, "columns as wide as the dashes below their names", remedy)
        faults.require(len(places) == len(spans), "content", header, "each name of a column once", remedy)
        faults.raise_any()
    outside = re.sub(r'"[^"]*"', "", header)
    delimiter = max(DELIMITERS, key=outside.count)
    plain = on_disk(path) == path and path.suffix.lower() != ".bz2" and _encoding(head) == "utf-8"
    # sacct does not quote: a quote between its bars belongs to the name of a job.
    quote = None if delimiter == "|" and '"' not in header else '"'
    return _TextForm(delimiter, quote, skipped, plain, places)


def cut_values(path: Path, sources: Iterable[str]) -> dict[str, str]:
    """Columns of fixed width that cut some value off, each with the first such value: they end with ``+``."""
    if kind(path) not in TEXT or not (places := _text_form(path, _stamp(path)).places):
        return {}
    table = scan(path).select(name for name in dict.fromkeys(sources) if name in places)
    found: dict[str, str] = {}
    for name in table.collect_schema().names():
        full = pl.col(name).str.ends_with("+") & (pl.col(name).str.len_chars() == places[name][1])
        first = table.select(name).filter(full & ~pl.col(name).str.contains(CUT_STEP)).head(1).collect()
        found |= {name: str(first.item())} if first.height else {}
    return found


def _content(path: Path, most: int | None = None) -> bytes:
    """Unpacked content of a file or of a member of an archive; its beginning only, with `most`."""
    archive = on_disk(path)
    if archive != path:
        with zipfile.ZipFile(archive) as opened, opened.open(path.relative_to(archive).as_posix()) as member:
            inner: Any = member.read()
        packing = {".gz": "gzip", ".zst": "zstd", ".bz2": "bz2"}.get(path.suffix.lower())
        stream = pa.input_stream(pa.py_buffer(inner), compression=packing)
    else:
        stream = pa.input_stream(str(path), compression="detect")
    with stream:
        return bytes(stream.read(most))


def _encoding(head: bytes) -> str:
    for mark, name in ((b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16"), (b"\xef\xbb\xbf", "utf-8-sig")):
        if head.startswith(mark):
            return name
    sample = head[:2000]
    if sample[1::2].count(0) > len(sample) // 4:
        return "utf-16-le"
    if sample[::2].count(0) > len(sample) // 4:
        return "utf-16-be"
    try:
        # The cut may have gone through a character.
        head[: len(head) - 4 if len(head) == SNIFFED else None].decode("utf-8", "strict")
    except UnicodeDecodeError as error:
        return "cp1252" if error.start < len(head) - 4 else "utf-8"
    return "utf-8"


def _decoded(content: bytes) -> str:
    return content.decode(_encoding(content[:SNIFFED]), "replace").lstrip("\ufeff")


# ------------------------------------------------------------------------------------------- numbers
def number(frame_types: Mapping[str, pl.DataType], source: str, decimal_comma: bool = False) -> pl.Expr:
    """Numbers of a column; null where there is nothing or text that is no number."""
    value = pl.col(source)
    if frame_types[source].is_numeric():
        return value.cast(pl.Float64)
    text = value.cast(pl.String).str.strip_chars()
    if decimal_comma:
        text = text.str.replace_all(".", "", literal=True).str.replace(",", ".", literal=True)
    return text.cast(pl.Float64, strict=False)


def decimal_commas(path: Path, sources: list[str]) -> dict[str, bool | None]:
    """Tell for columns of a text file whether a comma parts their decimals; None where it may part thousands.

    A comma before anything but groups of three digits parts decimals; the first ten thousand rows are looked at.
    """
    if kind(path) not in TEXT or not sources:
        return {}
    with reading(path):
        sample = scan(path).select(sources).head(10_000).collect()
    told: dict[str, bool | None] = {}
    for source in sources:
        texts = sample[source].drop_nulls().str.strip_chars().str.replace_all(".", "", literal=True)
        with_comma = texts.filter(texts.str.contains(",", literal=True)).to_list()
        if not with_comma or not all(_COMMA.fullmatch(text) or _GROUPS.fullmatch(text) for text in with_comma):
            continue
        told[source] = None if all(_GROUPS.fullmatch(text) for text in with_comma) else True
    return told


# ------------------------------------------------------------------------------------------- JSON
def _from_json(content: Any) -> pl.DataFrame:
    """Rows of a JSON document: objects, what kubectl prints, what Prometheus answers, or the jobs of Philly."""
    try:
        if isinstance(content, Mapping) and "items" in content:
            rows = [_of_pod(item) for item in content["items"]]
        elif isinstance(content, Mapping) and "resultType" in content.get("data", content):
            rows = _of_requests(list(_of_series(content.get("data", content)["result"])))
        elif isinstance(content, list) and content and all(isinstance(row, Mapping) for row in content):
            if all("attempts" in row for row in content):
                rows = [row for job in content for row in _of_attempts(job)]
            elif all("kind" in row and "metadata" in row for row in content):
                rows = [_of_pod(item) for item in content]
            else:
                rows = [_flat(row) for row in content]
        else:
            raise ValueError("no list of objects, no Prometheus answer and no list of pods")
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"not as kubectl, Prometheus or Philly write it: {error!r}") from error
    names = list(dict.fromkeys(name for row in rows for name in row))
    return pl.DataFrame(
        {name: [row.get(name) for row in rows] for name in names}, schema=dict.fromkeys(names, pl.String)
    )


def _flat(row: Mapping[str, Any], prefix: str = "") -> dict[str, str | None]:
    flat: dict[str, str | None] = {}
    for name, value in row.items():
        if isinstance(value, Mapping):
            flat |= _flat(value, f"{prefix}{name}.")
        else:
            flat[prefix + name] = None if value is None else value if isinstance(value, str) else json.dumps(value)
    return flat


def _of_pod(item: Mapping[str, Any]) -> dict[str, str | None]:
    """One row of ``kubectl get pods -o json``: when it held its GPUs, how many, of which kind, at which priority."""
    meta, spec, status = (item.get(name) or {} for name in ("metadata", "spec", "status"))
    gpus, cores = 0.0, 0.0
    slices: dict[str, float] = {}
    for container in spec.get("containers") or []:
        resources = container.get("resources") or {}
        asked = {**(resources.get("requests") or {}), **(resources.get("limits") or {})}
        for name, value in asked.items():
            part = name.partition("/")[2]
            gpus += float(value) if part == "gpu" else 0.0
            if part.startswith(("mig-", "gpu.")):
                slices[part] = slices.get(part, 0.0) + float(value)
        cpu = str((resources.get("requests") or {}).get("cpu", 0))
        cores += float(cpu[:-1]) / 1000 if cpu.endswith("m") else float(cpu)
    over = status.get("phase") in ("Succeeded", "Failed")
    finished = [
        (container.get("state") or {}).get("terminated", {}).get("finishedAt")
        for container in status.get("containerStatuses") or []
    ]
    known = [moment for moment in finished if moment]
    selector = spec.get("nodeSelector") or {}
    labels = meta.get("labels") or {}
    row: dict[str, str | None] = {
        "namespace": meta.get("namespace"),
        "pod": meta.get("name"),
        "uid": meta.get("uid"),
        "node": spec.get("nodeName"),
        "priorityClassName": spec.get("priorityClassName"),
        "nvidia_gpu": f"{gpus:g}",
        "cpu": f"{cores:g}",
        "creation_time": meta.get("creationTimestamp"),
        "start_time": status.get("startTime"),
        "end_time": max(known) if over and known else None,
        "phase": status.get("phase"),
    }
    product = next((value for name, value in selector.items() if name.endswith("gpu.product")), None)
    row |= {"gpu_model": product} if product else {}
    if len(slices) == 1 and not gpus and (kind := next(iter(slices))).startswith("mig-"):
        row |= {"nvidia_gpu": f"{slices[kind]:g}", "gpu_model": f"{product or 'mixed'}-{kind[4:]}"}
    elif slices:
        # Of GPUs that pods take turns on, nothing says which share a pod holds: no number, so that it is told.
        row["nvidia_gpu"] = " + ".join(f"{count:g} {kind}" for kind, count in sorted(slices.items()))
    return row | {f"label.{name}": str(value) for name, value in labels.items()}


def _of_series(result: list[Mapping[str, Any]]) -> Iterator[dict[str, str | None]]:
    """Rows of a Prometheus answer: labels, ``metric``, ``timestamp`` (epoch seconds) and ``value``."""
    for series in result:
        labels = {name: str(value) for name, value in series["metric"].items()}
        labels["metric"] = labels.pop("__name__", "value")
        for moment, value in series.get("values") or [series["value"]]:
            yield {**labels, "timestamp": str(moment), "value": str(value)}


def _of_requests(rows: list[dict[str, str | None]]) -> list[dict[str, str | None]]:
    """Turn what kube-state-metrics says of the GPUs that pods ask for into samples of pods; leave other rows alone.

    Priorities come from ``kube_pod_info`` in the same answer, if it is there.
    """
    asked = [
        row
        for row in rows
        if row["metric"] in ("kube_pod_container_resource_requests", "kube_pod_container_resource_limits")
        and str(row.get("resource", "")).endswith("gpu")
    ]
    if not asked:
        return rows
    kinds = {row["metric"] for row in asked}
    chosen = min(str(kind) for kind in kinds)
    moments = sorted({float(str(row["timestamp"])) for row in asked})
    steps = sorted(later - first for first, later in pairwise(moments))
    hours = steps[len(steps) // 2] / 3600 if steps else 1.0
    classes = {
        (row.get("namespace"), row.get("pod")): row.get("priority_class")
        for row in rows
        if row["metric"] == "kube_pod_info"
    }
    samples: dict[tuple[str | None, ...], float] = {}
    for row in asked:
        if row["metric"] == chosen:
            key = (row["timestamp"], row.get("namespace"), row.get("pod"), row.get("node"))
            samples[key] = samples.get(key, 0.0) + float(str(row["value"])) * hours
    return [
        {
            "timestamp": datetime.fromtimestamp(float(str(at)), UTC).isoformat(),
            "pod": f"{namespace}/{pod}",
            "node": node,
            "gpu_hours": repr(amount),
            **({"priority_class": classes.get((namespace, pod))} if classes else {}),
        }
        for (at, namespace, pod, node), amount in samples.items()
    ]


def _of_attempts(job: Mapping[str, Any]) -> Iterator[dict[str, str | None]]:
    """One row for each attempt of a job in the list that Philly published."""
    for number_of, attempt in enumerate(job["attempts"]):
        gpus = sum(len(host.get("gpus", [])) for host in attempt.get("detail", []))
        yield {
            "job_id": f"{job.get('jobid')}/{number_of}",
            "vc": job.get("vc"),
            "status": job.get("status"),
            "gpu_num": str(gpus),
            "submit_time": job.get("submitted_time"),
            "start_time": attempt.get("start_time"),
            "end_time": attempt.get("end_time"),
        }
