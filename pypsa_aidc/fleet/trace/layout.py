"""How a trace is laid out on disk: which of its columns and words mean what, checked before anything is read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args

from pypsa_aidc.errors import Faults, near
from pypsa_aidc.fleet.trace.schema import JOBS, POD_HOURS, PRIORITIES, SERVER_HOURS, STATES, WORKLOADS

Kind = Literal["hourly", "spans"]
WORDS = {"workload": WORKLOADS, "priority": PRIORITIES, "state": STATES}
"""Words that the schema knows, by column."""

SERVERS_OF_JOBS = ("cluster", "accelerator", "gpus", "cores")


@dataclass(frozen=True)
class Layout:
    """How a trace is laid out on disk and which of its columns and words mean what.

    Attributes
    ----------
    name
        What a user writes.
    kind
        ``"hourly"``: one row per pod and hour (`POD_HOURS`). ``"spans"``: one row per job (`JOBS`).
    pods
        Name of the table inside the folder: a sub-folder of hive partitions, or a glob of files.
    pod_columns
        Schema name → source column: names of `POD_HOURS` or `JOBS`. Spans need `start`, `end` or `duration`, `gpus` and
        `priority`; hourly tables all required ones of `POD_HOURS` (`hour` unless it is in the names of folders).
    words
        Schema column → {source word: schema word}. A word that is not listed is rejected and counted. A column without
        words is taken to use the words of the schema.
    servers, summary
        Names of the other tables; empty if there are none.
    server_columns, summary_columns
        As `pod_columns`: names of `SERVER_HOURS` (of spans: `cluster`, `accelerator`, `gpus`, `cores`); of the summary,
        `pod` and `delay`.
    citation
        Whom to cite.
    scales
        Schema column → factor that brings the source's numbers to the schema's unit, e.g. ``{"start": 1 / 3600}`` for
        seconds. Not for stamps with a zone, which are read as such, nor for utilisation, whose scale `trace` declares.
    survivors
        Whether the table lists only jobs that ended after some moment: before the first recorded end, it then shows
        survivors only, and those hours are dropped.

    Raises
    ------
    InputError
        An unknown kind, unknown or missing columns, words or scales; all at once, each with what was likely meant.

    Examples
    --------
    >>> Layout("mine", "spans", "jobs.csv", {"start": "Start", "ends": "End", "gpus": "GPUs", "priority": "QOS"})
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
    scales: Mapping[str, float] = field(default_factory=dict)
    survivors: bool = False
    citation: str = "the user's own table"

    def __post_init__(self) -> None:
        faults = Faults(f"Layout '{self.name}'")
        _known(faults, "kind", [self.kind], get_args(Kind))
        faults.require(bool(self.pods), "pods", self.pods, "the name of the table in the folder")
        faults.raise_any()
        spans = self.kind == "spans"
        table = JOBS if spans else POD_HOURS
        for name in ("pod_columns", "server_columns", "summary_columns", "scales", "words"):
            faults.kind(name, getattr(self, name), Mapping, "names of the schema with what stands for them")
        faults.raise_any()
        columns = {column.name: column for column in table}
        in_rows = {"hour"}  # It may be in the names of folders.
        needed = [name for name, column in columns.items() if column.required and name not in in_rows]
        _columns(faults, "pod_columns", self.pod_columns, list(columns), needed)
        if spans:
            ends = [name for name in ("end", "duration") if name in self.pod_columns]
            given = Names(self.pod_columns)
            faults.require(len(ends) > 0, "pod_columns", given, "also 'end' or 'duration'")
            faults.require(len(ends) < 2, "pod_columns", given, "'end' or 'duration', not both")
            faults.require(
                not self.summary, "summary", self.summary, "none: jobs say themselves when they were submitted"
            )
        else:
            faults.require(not self.survivors, "survivors", self.survivors, "False: it is for spans")
        if self.servers:
            names = SERVERS_OF_JOBS if spans else tuple(column.name for column in SERVER_HOURS)
            optional = ("cluster",) if spans and "cluster" not in self.pod_columns else ("hour",)
            need = [name for name in names if name not in optional]
            _columns(faults, "server_columns", self.server_columns, names, need)
        else:
            faults.require(
                not self.server_columns, "server_columns", Names(self.server_columns), "none without servers"
            )
        if self.summary:
            _columns(faults, "summary_columns", self.summary_columns, ("pod", "delay"), ("pod", "delay"))
        self._check_words(faults)
        numbers = [name for name, column in columns.items() if not column.text and name not in ("hour", "utilisation")]
        _known(faults, "scales", self.scales, [*numbers, *(() if spans else ("gpus", "cores", "delay"))])
        for name, factor in self.scales.items():
            faults.number(f"scales['{name}']", factor, above=0)
        faults.raise_any()

    def _check_words(self, faults: Faults) -> None:
        """Check the words, and fill in those of the schema where a column has none."""
        mapped = [name for name in WORDS if name in self.pod_columns]
        _known(faults, "words", self.words, mapped)
        for name in mapped:
            _known(faults, f"words['{name}']", self.words.get(name, {}).values(), WORDS[name])
        words = {name: self.words.get(name) or {word: word for word in WORDS[name]} for name in mapped}
        object.__setattr__(self, "words", words)


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
