"""What the network stores of an AIDC: versioned JSON in a plain-string column, strictly read and written."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

import pandas as pd

from pypsa_aidc.errors import Faults, InputError, SpecError
from pypsa_aidc.network.index import names
from pypsa_aidc.training import Mode, Rules, TrainingLoad

COLUMN = "aidc"
"""Column of `n.links` (sites) and `n.generators` (jobs, fleets) that holds the JSON; empty for all else."""

FLEET = "fleet"
"""Last word of the schema of a fleet load."""

VERSION = 1
_MAX_CHARACTERS = 4_000_000
_MODE_KEYS = ("pipeline", "tensor", "data", "gpus", "flops_per_s", "it_power", "memory")


@dataclass(frozen=True)
class SiteSpec:
    """What PyPSA's own columns cannot say of a site.

    Parameters
    ----------
    name
        Name of the site.
    gpus
        N_GPU, size of the shared pool.
    idle_w
        Power in W of each GPU that runs no job; `None` where idle GPUs count into the base load.
    series
        For each attribute given as a series (``base_load``, ``pue``): first snapshot, last snapshot and number of
        snapshots, to tell a series that has been lost or blanked since.
    """

    name: str
    gpus: int
    idle_w: float | None = None
    series: Mapping[str, tuple[str, str, int]] = field(default_factory=dict)


@dataclass(frozen=True)
class JobSpec:
    """A training load together with the site it runs at."""

    site: str
    load: TrainingLoad


def dump_site(spec: SiteSpec) -> str:
    """Write a site as one line of JSON."""
    series = {key: list(value) for key, value in spec.series.items()}
    return dump("site", {"name": spec.name, "gpus": int(spec.gpus), "idle_w": spec.idle_w, "series": series})


def dump_job(spec: JobSpec) -> str:
    """Write a job as one line of JSON."""
    load = spec.load
    rules = asdict(load.rules)
    rules["segments"] = load.rules.segments if isinstance(load.rules.segments, int) else list(load.rules.segments)
    modes = [_dump_mode(mode) for mode in load.modes]
    return dump(
        "training",
        {
            "site": spec.site,
            "job": load.name,
            "work": load.work,
            "deadline": load.deadline,
            "description": load.description,
            "rules": rules,
            "modes": modes,
            "baseline": None if load.baseline is None else _dump_mode(load.baseline),
        },
    )


def _dump_mode(mode: Mode) -> dict[str, Any]:
    values = (*mode.size, mode.gpus, mode.flops_per_s, mode.it_power, mode.memory)
    return dict(zip(_MODE_KEYS, values, strict=True))


def load_site(text: str, where: str) -> SiteSpec:
    """Read a site, or raise `SpecError` naming `where` it stands and every fault."""
    data, faults = parse(text, "site", ("name", "gpus", "idle_w", "series"), where)
    faults.require(isinstance(data["name"], str), "name", data["name"], "text")
    faults.number("gpus", data["gpus"], at_least=1, integer=True)
    if data["idle_w"] is not None:
        faults.number("idle_w", data["idle_w"], at_least=0)
    series = data["series"]
    well_formed = isinstance(series, dict) and all(
        isinstance(entry, list) and [type(part) for part in entry] == [str, str, int] for entry in series.values()
    )
    faults.require(well_formed, "series", series, "{attribute: [first, last, count]}")
    faults.raise_any(SpecError)
    return SiteSpec(data["name"], data["gpus"], data["idle_w"], {key: tuple(value) for key, value in series.items()})


def load_job(text: str, where: str) -> JobSpec:
    """Read a job, or raise `SpecError` naming `where` it stands and every fault."""
    keys = ("site", "job", "work", "deadline", "description", "rules", "modes", "baseline")
    data, faults = parse(text, "training", keys, where)
    for key in ("site", "job", "description"):
        faults.require(isinstance(data[key], str), key, data[key], "text")
    modes = _read_each(data["modes"], "modes", _mode, faults)
    rules = _read_each([data["rules"]], "rules", _rules, faults)
    baseline = _read_each([] if data["baseline"] is None else [data["baseline"]], "baseline", _mode, faults)
    faults.raise_any(SpecError)
    try:
        load = TrainingLoad(
            data["job"],
            data["work"],
            tuple(modes),
            rules[0],
            data["deadline"],
            baseline[0] if baseline else None,
            data["description"],
        )
    except InputError as error:
        raise SpecError(where, error.faults) from error
    return JobSpec(data["site"], load)


def dump(kind: str, content: Mapping[str, Any]) -> str:
    """Write a specification as one line of JSON, with its schema and version."""
    return json.dumps({"schema": f"pypsa_aidc/{kind}", "version": VERSION, **content}, allow_nan=False)


def parse(text: str, kind: str, keys: tuple[str, ...], where: str) -> tuple[dict[str, Any], Faults]:
    """Read one line of JSON of a kind with exactly these keys, or raise `SpecError` naming `where` it stands."""
    faults = Faults(where)
    if len(text) > _MAX_CHARACTERS:
        faults.add("specification", f"{len(text)} characters", f"at most {_MAX_CHARACTERS}")
        faults.raise_any(SpecError)
    try:
        data = json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        faults.add("specification", text[:60], f"JSON ({error})", "Add the site again with aidc.add.")
        raise SpecError(where, tuple(faults)) from error
    schema = data.get("schema") if isinstance(data, dict) else None
    faults.require(schema == f"pypsa_aidc/{kind}", "schema", schema, f"'pypsa_aidc/{kind}'")
    faults.raise_any(SpecError)
    version = data.get("version")
    newer = isinstance(version, int) and version > VERSION
    remedy = "It was written by a newer pypsa_aidc: upgrade." if newer else "Add the site again with aidc.add."
    faults.require(version == VERSION and not isinstance(version, bool), "version", version, str(VERSION), remedy)
    faults.raise_any(SpecError)
    for key in sorted(set(keys) - set(data)):
        faults.add(key, "nothing", "a value", "Add the site again with aidc.add.")
    for key in sorted(set(data) - set(keys) - {"schema", "version"}):
        faults.add(key, data[key], "no such key")
    faults.raise_any(SpecError)
    return data, faults


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is not a JSON number")


def _read_each(entries: Any, key: str, read: Callable[[Any], Any], faults: Faults) -> list[Any]:
    results: list[Any] = []
    if not isinstance(entries, list):
        faults.add(key, entries, "a list")
        return results
    for position, entry in enumerate(entries):
        try:
            results.append(read(entry))
        except InputError as error:
            for fault in error.faults:
                faults.add(f"{key}[{position}].{fault.where}", fault.given, fault.expected, fault.remedy)
        except (TypeError, KeyError, AttributeError) as error:
            faults.add(f"{key}[{position}]", entry, f"an object with the keys of this version ({error})")
    return results


def _mode(entry: dict[str, Any]) -> Mode:
    values = dict(entry)
    size = tuple(values.pop(key) for key in _MODE_KEYS[:3])
    return Mode(size, **values)


def _rules(entry: dict[str, Any]) -> Rules:
    missing = {f.name for f in fields(Rules)} - set(entry)
    if missing:
        raise KeyError(", ".join(sorted(missing)))
    return Rules(**entry)


def stored(static: pd.DataFrame) -> list[tuple[str, str]]:
    """Name and JSON of the components that hold one, each once also where there are scenarios."""
    if COLUMN not in static.columns:
        return []
    texts = static[COLUMN].fillna("").astype(str)
    unique = texts[texts != ""].groupby(names(texts[texts != ""].index), sort=False)
    faults = Faults("AIDCs of the network")
    for name, group in unique:
        faults.require(group.nunique() == 1, str(name), "different specifications", "one for all scenarios")
    faults.raise_any(SpecError)
    return [(str(name), str(group.iloc[0])) for name, group in unique]


def is_fleet(text: str) -> bool:
    """Whether a specification is that of a fleet, well-formed or not; all others of a Generator are jobs."""
    try:
        return bool(json.loads(text)["schema"] == f"pypsa_aidc/{FLEET}")
    except (ValueError, RecursionError, TypeError, KeyError):
        return False
