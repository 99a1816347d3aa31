"""How a trace is laid out on disk: which of its columns and words mean what, checked before anything is read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, get_args

import jsonschema
import yaml

from pypsa_aidc.errors import Faults, near
from pypsa_aidc.fleet.trace.schema import JOBS, POD_HOURS, PRIORITIES, SERVER_HOURS, STATES, WORKLOADS
from pypsa_aidc.fleet.trace.stamps import EPOCHS, HOURS, check_zone

Kind = Literal["hourly", "jobs"]
WORDS = {"workload": WORKLOADS, "priority": PRIORITIES, "state": STATES}
"""Words that the schema knows, by column."""

SHARES = {"percent": 0.01, "fraction": 1.0, "milli": 1e-3}
"""Units of shares and of amounts, as factors."""

SERVERS_OF_JOBS = ("cluster", "accelerator", "gpus", "cores")
TIMES = ("hour", "start", "end", "submitted")
WINDOWS = ("found", "survivors", "whole")


@dataclass(frozen=True)
class Layout:
    """How a trace is laid out on disk and which of its columns and words mean what.

    Attributes
    ----------
    name
        What a user writes.
    kind
        ``"hourly"``: one row per pod and hour, or shorter sample (`POD_HOURS`). ``"jobs"``: one row per job (`JOBS`).
    pods
        Name of the table inside the folder: a sub-folder of hive partitions, or a glob of files.
    pod_columns
        Schema name → source column: names of `POD_HOURS` or `JOBS`. Jobs need `start`, `end` or `duration`, `gpus` or
        `tres`, and `priority`; hourly tables all required ones of `POD_HOURS` (`hour` unless it is in the names of
        folders). What `constants` gives needs no column.
    words
        Schema column → {source word: schema word}; the word ``""`` stands for an empty cell. A word that is not listed
        is rejected and counted. A column without words is taken to use the words of the schema.
    servers, summary
        Names of the other tables; empty if there are none.
    server_columns, summary_columns
        As `pod_columns`: names of `SERVER_HOURS` (of jobs: `cluster`, `accelerator`, `gpus`, `cores`); of the summary,
        `pod` and `delay`.
    citation
        Whom to cite.
    units
        Schema column → unit of the source's numbers, by name or as the factor that brings them to the schema's unit.
        Times: ``h``, ``min``, ``s``, ``ms``, ``us``, ``ns``, ``d`` since the start of the trace, or ``epoch-s``,
        ``epoch-ms``, ``epoch-us``, ``epoch-ns``. Shares and amounts: ``percent``, ``fraction``, ``milli``. Stamps have
        none. `utilisation` may stand here instead of in `Trace.read`.
    constants
        Schema column → what holds for all rows of the pod table, e.g. ``{"priority": "high", "accelerator": "A100"}``.
    zone
        Zone of stamps that name none, e.g. ``"Europe/Berlin"`` or ``"+05:30"``.
    window
        Hours that a job list shows completely. ``"found"``: from the list itself; where it shows only the jobs that
        ended after its beginning, or began before its end, those hours are dropped and told. ``"survivors"``: the hours
        before the first recorded end are dropped. ``"whole"``: nothing is dropped. A pair of stamps or hours: these.

    Raises
    ------
    InputError
        An unknown kind, unknown or missing columns, words or units; all at once, each with what was likely meant.

    Examples
    --------
    >>> Layout("mine", "jobs", "jobs.csv", {"start": "Start", "ends": "End", "gpus": "GPUs", "priority": "QOS"})
    Traceback (most recent call last):
    pypsa_aidc.errors.InputError: Layout 'mine' (2 faults):
      - pod_columns: given 'ends', expected ... Did you mean 'end'?
      - pod_columns: given start, ends, gpus, priority, expected also 'end' or 'duration'.
    """

    name: str
    kind: Kind
    pods: str
    pod_columns: Mapping[str, str]
    words: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    servers: str = ""
    server_columns: Mapping[str, str] = field(default_factory=dict)
    summary: str = ""
    summary_columns: Mapping[str, str] = field(default_factory=dict)
    units: Mapping[str, str | float] = field(default_factory=dict)
    constants: Mapping[str, str | float] = field(default_factory=dict)
    zone: str = ""
    window: str | Sequence[str | float] = "found"
    citation: str = "the user's own table"

    def __post_init__(self) -> None:
        faults = Faults(f"Layout '{self.name}'")
        _known(faults, "kind", [self.kind], get_args(Kind))
        faults.require(bool(self.pods), "pods", self.pods, "the name of the table in the folder")
        faults.raise_any()
        for name in ("pod_columns", "server_columns", "summary_columns", "units", "constants", "words"):
            faults.kind(name, getattr(self, name), Mapping, "names of the schema with what stands for them")
        faults.raise_any()
        jobs = self.kind == "jobs"
        columns = {column.name: column for column in (JOBS if jobs else POD_HOURS)}
        in_rows = {"hour"}  # It may be in the names of folders.
        given = {**self.pod_columns, **self.constants}
        needed = [name for name, column in columns.items() if column.required and name not in in_rows]
        _columns(faults, "pod_columns", self.pod_columns, list(columns), [name for name in needed if name not in given])
        _known(faults, "constants", self.constants, [name for name in columns if name not in TIMES])
        both = sorted(set(self.constants) & set(self.pod_columns))
        faults.require(not both, "constants", Names(both), "nothing that is also a column")
        if jobs:
            one_of = {"end": "duration", "gpus": "tres"}
            for first, second in one_of.items():
                present = [name for name in (first, second) if name in given]
                faults.require(len(present) > 0, "pod_columns", Names(given), f"also '{first}' or '{second}'")
                faults.require(len(present) < 2, "pod_columns", Names(given), f"'{first}' or '{second}', not both")
            faults.require(
                not self.summary, "summary", self.summary, "none: jobs say themselves when they were submitted"
            )
        else:
            faults.require(self.window == "found", "window", self.window, "'found': it is for jobs")
        if isinstance(self.window, str):
            _known(faults, "window", [self.window], WINDOWS)
        else:
            faults.require(
                len(self.window) == 2, "window", self.window, f"start and end, or one of {', '.join(WINDOWS)}"
            )
            object.__setattr__(self, "window", tuple(self.window))
        if self.servers:
            names = SERVERS_OF_JOBS if jobs else tuple(column.name for column in SERVER_HOURS)
            optional = ("cluster",) if jobs and "cluster" not in self.pod_columns else ("hour",)
            need = [name for name in names if name not in optional and name not in self.constants]
            _columns(faults, "server_columns", self.server_columns, names, need)
        else:
            faults.require(
                not self.server_columns, "server_columns", Names(self.server_columns), "none without servers"
            )
        if self.summary:
            _columns(faults, "summary_columns", self.summary_columns, ("pod", "delay"), ("pod", "delay"))
        self._check_words(faults)
        self._check_units(faults, columns, jobs)
        check_zone(faults, self.zone)
        faults.raise_any()

    def _check_words(self, faults: Faults) -> None:
        """Check the words, and fill in those of the schema where a column has none."""
        mapped = [name for name in WORDS if name in self.pod_columns]
        _known(faults, "words", self.words, mapped)
        for name in mapped:
            _known(faults, f"words['{name}']", self.words.get(name, {}).values(), WORDS[name])
        for name in set(self.constants) & set(WORDS):
            _known(faults, f"constants['{name}']", [str(self.constants[name])], WORDS[name])
        words = {name: self.words.get(name) or {word: word for word in WORDS[name]} for name in mapped}
        object.__setattr__(self, "words", words)

    def _check_units(self, faults: Faults, columns: Mapping[str, Any], jobs: bool) -> None:
        """Check that every unit is one of its column, or a factor."""
        numbers = [name for name, column in columns.items() if not column.text]
        _known(faults, "units", self.units, [*numbers, *(() if jobs else ("gpus", "cores", "delay"))])
        for name, unit in self.units.items():
            if name in TIMES:
                names: tuple[str, ...] = (*HOURS, *EPOCHS)
            else:
                names = tuple(HOURS) if name in ("duration", "delay") else tuple(SHARES)
            if name == "utilisation":
                _known(faults, "units['utilisation']", [str(unit)], ("percent", "fraction"))
            elif isinstance(unit, str):
                _known(faults, f"units['{name}']", [unit], names)
            else:
                faults.number(f"units['{name}']", unit, above=0)

    def factor(self, name: str) -> float:
        """Factor that brings the source's numbers of a column to the schema's unit."""
        unit = self.units.get(name, 1.0)
        return {**HOURS, **SHARES}.get(unit, 1.0) if isinstance(unit, str) else float(unit)

    def save(self, path: str | Path) -> None:
        """Write the layout as YAML, for editing; `Layout.read` reads it."""
        plain = {name: value for name, value in asdict(self).items() if value not in ("", {}, ())}
        plain["window"] = plain["window"] if isinstance(plain["window"], str) else list(plain["window"])
        text = yaml.safe_dump({"layout": plain}, sort_keys=False, allow_unicode=True, width=120)
        Path(path).write_text(text, encoding="utf-8")

    @classmethod
    def read(cls, path: str | Path) -> Layout:
        """Read a layout from YAML: the key ``layout`` holds what `Layout` has, by the same names.

        Raises
        ------
        InputError
            No such file, no YAML, or not what `Layout.schema` allows.
        """
        faults = Faults(f"Layout in '{path}'")
        try:
            content = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
            faults.add("file", str(error).splitlines()[0], "a YAML file with the key 'layout'")
            faults.raise_any()
        for wrong in jsonschema.Draft202012Validator(cls.schema()).iter_errors(content):
            where = ".".join(map(str, wrong.absolute_path)) or "file"
            faults.add(where, wrong.message, "what the JSON schema of layouts allows", "See Layout.schema().")
        faults.raise_any()
        return cls(**content["layout"])

    @classmethod
    def schema(cls) -> dict[str, Any]:
        """JSON schema of the YAML, for editors and for checks."""
        text = {"type": "string"}
        names = {"type": "object", "additionalProperties": text}
        mixed = {"type": "object", "additionalProperties": {"type": ["string", "number"]}}
        kinds: dict[str, Any] = {
            "kind": {"enum": list(get_args(Kind))},
            "words": {"type": "object", "propertyNames": {"enum": list(WORDS)}, "additionalProperties": names},
            "window": {
                "anyOf": [
                    {"enum": list(WINDOWS)},
                    {"type": "array", "items": {"type": ["string", "number"]}, "minItems": 2, "maxItems": 2},
                ]
            },
            **dict.fromkeys(("pod_columns", "server_columns", "summary_columns"), names),
            **dict.fromkeys(("units", "constants"), mixed),
        }
        properties = {part.name: kinds.get(part.name, text) for part in fields(cls)}
        required = ["name", "kind", "pods", "pod_columns"]
        layout = {"type": "object", "properties": properties, "required": required, "additionalProperties": False}
        return {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "title": "Layout of a trace",
            "type": "object",
            "properties": {"layout": layout},
            "required": ["layout"],
            "additionalProperties": False,
        }


class Names(tuple[str, ...]):
    """Names as a person reads them in a fault."""

    def __repr__(self) -> str:
        return ", ".join(self) or "none"


def _columns(
    faults: Faults, where: str, given: Mapping[str, str], allowed: Iterable[str], needed: Iterable[str]
) -> None:
    """Note unknown and missing schema names, and source columns that are no names."""
    _known(faults, where, given, allowed)
    missing = [name for name in needed if name not in given]
    faults.require(not missing, where, Names(given), f"also {', '.join(map(repr, missing))}")
    for name, source in given.items():
        faults.require(isinstance(source, str) and source != "", f"{where}['{name}']", source, "the name of a column")


def _known(faults: Faults, where: str, given: Iterable[str], allowed: Iterable[str]) -> None:
    """Note each name that is not among the allowed ones, with the closest of them."""
    names = list(allowed)
    expected = f"one of {', '.join(names)}" if names else "nothing: pod_columns names no column of words"
    for name in given:
        faults.require(name in names, where, name, expected, near(name, names, 1))


# ------------------------------------------------------------------------------------------- published traces
def _same(*names: str) -> dict[str, str]:
    return {name: name for name in names}


GENERIC = Layout(
    name="generic",
    kind="hourly",
    pods="pods*",
    servers="servers*",
    summary="summary",
    summary_columns=_same("pod", "delay"),
    pod_columns={column.name: column.name for column in POD_HOURS},
    server_columns={column.name: column.name for column in SERVER_HOURS},
    words={"workload": _same(*WORKLOADS), "priority": _same(*PRIORITIES), "state": _same(*STATES)},
    citation="the user's own table",
)

ALIBABA_2026 = Layout(
    name="alibaba-2026",
    kind="hourly",
    pods="asi_opensource_pod_hourly",
    servers="asi_opensource_server_hourly",
    summary="asi_opensource_job_execution_summary",
    summary_columns={"pod": "pod_id", "delay": "schedule_delay_sec"},
    units={"delay": "s"},
    pod_columns={
        "cluster": "cluster_id",
        "accelerator": "gpu_spec_public",
        "workload": "job_type_public",
        "priority": "priority_class",
        "state": "state_public",
        "gpu_hours": "used_gpu_hours",
        "gpu_requested": "gpu_request",
        "utilisation": "avg_gpu_sm_util",
        "cpu_requested": "cpu_request_cores",
        "cpu_load": "avg_cpu_request_util",
        "pod": "pod_id",
        "server": "server_id",
        "server_gpus": "server_gpu_count",
    },
    server_columns={
        "cluster": "cluster_id",
        "accelerator": "gpu_spec_public",
        "gpus": "gpu_count",
        "cores": "cpu_capacity_cores",
    },
    words={
        "workload": {
            **_same("training", "online_inference", "offline_inference", "other"),
            "dev": "other",
            "unknown": "other",
        },
        "priority": {"HP": "high", "LP": "low", "Other": "other"},
        # Used GPU-hours, not the state, tell whether a pod is active: "Unknown" stands on almost every row.
        "state": {
            "Standby": "standby",
            **dict.fromkeys(("Running", "Pending", "Succeeded", "Failed", "Unknown"), "active"),
        },
    },
    citation="Alibaba cluster-trace-gpu-v2026 (Li et al., OSDI 2026)",
)

OPENB_2023 = Layout(
    name="openb-2023",
    kind="jobs",
    pods="*pod*.csv",
    servers="*node*.csv",
    pod_columns={
        "start": "scheduled_time",
        "end": "deletion_time",
        "submitted": "creation_time",
        "gpus": "num_gpu",
        "gpu_share": "gpu_milli",
        "priority": "qos",
        "workload": "qos",
        "cores": "cpu_milli",
    },
    server_columns={"accelerator": "model", "gpus": "gpu", "cores": "cpu_milli"},
    units={"start": "s", "end": "s", "submitted": "s", "gpu_share": "milli", "cores": "milli"},
    window="survivors",
    words={
        "priority": {"LS": "high", "BE": "low", "Burstable": "high", "Guaranteed": "high"},
        "workload": {
            "LS": "online_inference",
            "BE": "offline_inference",
            "Burstable": "training",
            "Guaranteed": "training",
        },
    },
    citation="Alibaba cluster-trace-gpu-v2023, openb (Weng et al., USENIX ATC 2023)",
)

SPOT_2026 = Layout(
    name="spot-2026",
    kind="jobs",
    pods="*job*.csv",
    servers="*node*.csv",
    pod_columns={
        "start": "submit_time",
        "duration": "duration",
        "gpus": "gpu_request",
        "workers": "worker_num",
        "accelerator": "gpu_model",
        "priority": "job_type",
        "workload": "job_type",
        "cores": "cpu_request",
    },
    server_columns={"accelerator": "gpu_model", "gpus": "gpu_capacity_num", "cores": "cpu_num"},
    units={"start": "s", "duration": "s"},
    window="whole",
    words={"priority": {"HP": "high", "Spot": "low"}, "workload": {"HP": "other", "Spot": "other"}},
    citation="Alibaba cluster-trace-v2026-spot-gpu (Duan et al., ASPLOS 2026)",
)

LAYOUTS = {layout.name: layout for layout in (GENERIC, ALIBABA_2026, OPENB_2023, SPOT_2026)}
"""Layouts of published traces, and of tables with the names of the schema."""
