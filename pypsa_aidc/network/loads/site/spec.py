"""What the network stores of an AIDC: a site and its jobs, to JSON in a plain-string column and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from pypsa_aidc.errors import InputError, SpecError
from pypsa_aidc.network.model.horizon import Split
from pypsa_aidc.network.spec.coverage import Coverage, read_coverage
from pypsa_aidc.network.spec.schema import dump, parse
from pypsa_aidc.training import Mode, Rules, TrainingLoad, Transition
from pypsa_aidc.training.layout import AXES

_MODE_KEYS = ("pipeline", "tensor", "data", "gpus", "flops_per_s", "it_power_mw", "memory_bytes")
_RULE_KEYS = {
    "segments": "segments",
    "jump": "jump",
    "waiting": "waiting",
    "continuity": "continuity",
    "arrival": "arrival_hours",
    "progress": "progress",
    "restart_hours": "restart_hours",
    "restart_energy": "restart_energy_mwh",
    "checkpoint_hours": "checkpoint_hours",
    "min_run": "min_run_hours",
    "min_wait": "min_wait_hours",
    "mode_changes": "mode_changes",
    "mode_change_cost": "mode_change_cost_usd",
}
_LATER_RULES = {
    "checkpoint_energy": "checkpoint_energy_mwh",
    "held_gpus": "held_gpus",
    "delay_cost": "delay_cost_usd_per_hour",
}
"""Keys that stand only where they are not 0."""

_TRANSITION_KEYS = {
    "before": "before",
    "after": "after",
    "cost": "cost_usd",
    "energy": "energy_mwh",
    "hours": "hours",
    "allowed": "allowed",
}


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
    gpu_value
        USD for each GPU-hour that a job occupies, where it is one number for all snapshots.
    series
        For each attribute given as a series (``base_load``, ``pue``, ``gpu_value``): first snapshot, last snapshot and
        number of snapshots, to tell a series that has been lost or blanked since.
    windows
        How its jobs read the horizon, see `network.model.horizon.windows`; `None` if nobody has said.
    ramps
        Limits on the rise and the fall of the meter, MW a minute, each `None` if there is none; `None` without both.
    """

    name: str
    gpus: int
    idle_w: float | None = None
    series: Coverage = field(default_factory=dict)
    gpu_value: float = 0.0
    windows: Split = None
    ramps: tuple[float | None, float | None] | None = None


@dataclass(frozen=True)
class JobSpec:
    """A training load together with the site it runs at."""

    site: str
    load: TrainingLoad


def dump_site(spec: SiteSpec) -> str:
    """Write a site as one line of JSON."""
    series = {key: list(value) for key, value in spec.series.items()}
    content = {"name": spec.name, "gpus": int(spec.gpus), "idle_w": spec.idle_w, "series": series}
    said = {"gpu_value_usd": spec.gpu_value, "windows": spec.windows, "ramps_mw_per_minute": spec.ramps}
    return dump("site", content | {key: value for key, value in said.items() if value})


def dump_job(spec: JobSpec) -> str:
    """Write a job as one line of JSON."""
    load = spec.load
    rules = {key: getattr(load.rules, name) for name, key in _RULE_KEYS.items()}
    rules["segments"] = load.rules.segments if isinstance(load.rules.segments, int) else list(load.rules.segments)
    rules |= {key: getattr(load.rules, name) for name, key in _LATER_RULES.items() if getattr(load.rules, name)}
    pairs = [{key: getattr(each, name) for name, key in _TRANSITION_KEYS.items()} for each in load.transitions]
    further: dict[str, Any] = {"transitions": pairs} if pairs else {}
    further |= {} if load.gpu_value is None else {"gpu_value_usd": load.gpu_value}
    return dump(
        "training",
        further
        | {
            "site": spec.site,
            "job": load.name,
            "work_flops": load.work,
            "deadline_hours": load.deadline,
            "description": load.description,
            "rules": rules,
            "modes": [_dump_mode(mode) for mode in load.modes],
            "baseline": None if load.baseline is None else _dump_mode(load.baseline),
        },
    )


def _dump_mode(mode: Mode) -> dict[str, Any]:
    layout = mode.layout
    values = (layout.pipeline, layout.tensor, layout.data, mode.gpus, mode.flops_per_s, mode.it_power, mode.memory)
    further = {axis: getattr(layout, axis) for axis in AXES[3:] if getattr(layout, axis) > 1}
    capped = {} if mode.cap == 1 else {"cap": mode.cap}
    return dict(zip(_MODE_KEYS, values, strict=True)) | further | capped


# Every look at ``n.aidc`` reads all of a network: what a text says is the same each time, and cannot be changed.
@lru_cache(maxsize=4096)
def load_site(text: str, where: str) -> SiteSpec:
    """Read a site, or raise `SpecError` naming `where` it stands and every fault."""
    data = parse(text, "site", where)
    series, value = read_coverage(data["series"]), data.get("gpu_value_usd", 0.0)
    split = data.get("windows")
    runs = tuple((str(first), label) for first, label in split) if isinstance(split, list) else split
    up, down = data.get("ramps_mw_per_minute") or (None, None)
    ramps = None if up is None and down is None else (up, down)
    return SiteSpec(data["name"], int(data["gpus"]), data["idle_w"], series, value, runs, ramps)


@lru_cache(maxsize=4096)
def load_job(text: str, where: str) -> JobSpec:
    """Read a job, or raise `SpecError` naming `where` it stands and every fault."""
    data = parse(text, "training", where)
    try:
        load = TrainingLoad(
            data["job"],
            data["work_flops"],
            tuple(_mode(entry) for entry in data["modes"]),
            _rules(data["rules"]),
            data["deadline_hours"],
            None if data["baseline"] is None else _mode(data["baseline"]),
            data["description"],
            tuple(
                Transition(**{name: entry[key] for name, key in _TRANSITION_KEYS.items()})
                for entry in data.get("transitions", ())
            ),
            data.get("gpu_value_usd"),
        )
    except InputError as error:
        raise SpecError(where, error.faults) from error
    return JobSpec(data["site"], load)


def _mode(entry: Mapping[str, Any]) -> Mode:
    pipeline, tensor, data, gpus, flops_per_s, it_power, memory = (entry[key] for key in _MODE_KEYS)
    further = (int(entry.get(axis, 1)) for axis in AXES[3:])
    size = (int(pipeline), int(tensor), int(data), *further)
    return Mode(size, int(gpus), flops_per_s, it_power, memory, cap=entry.get("cap", 1.0))


def _rules(entry: Mapping[str, Any]) -> Rules:
    fields = {name: entry[key] for name, key in _RULE_KEYS.items()}
    fields |= {name: entry[key] for name, key in _LATER_RULES.items() if key in entry}
    # JSON knows one kind of number: 4.0 is a whole one in the schema, and has to be one in Python.
    counts = ("segments", "progress", "jump", "held_gpus")
    whole = {name: int(fields[name]) for name in counts if isinstance(fields.get(name), float)}
    return Rules(**{**fields, **whole})
