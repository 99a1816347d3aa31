"""Layouts told from the tables themselves: names of columns as schedulers and exporters write them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import polars as pl

from pypsa_aidc.errors import Faults
from pypsa_aidc.fleet.trace.layout import ALIBABA_2026, OPENB_2023, SPOT_2026, TIMES, WORDS, Layout
from pypsa_aidc.fleet.trace.schema import JOBS, POD_HOURS
from pypsa_aidc.fleet.trace.stamps import epoch_guess, known, moment
from pypsa_aidc.fleet.trace.tables import reading, scan

JOB_NAMES: Mapping[str, str] = {
    "job": "jobid jobidraw uid poduid podid pod name",
    "namespace": "namespace kubernetesnamespace",
    "start": "start starttime startedat started jobstart podstarttime kubepodstarttime begintime scheduledtime",
    "end": "end endtime endedat ended finishtime finishedat completiontime completedat podcompletiontime "
    "kubepodcompletiontime deletiontime stoptime jobend",
    "duration": "elapsed elapsedraw duration runtime durationseconds",
    "submitted": "submit submittime submittedat submittedtime submitted creationtime createdat created kubepodcreated",
    "gpus": "gpus gpunum numgpu numgpus ngpus gpucount allocgpus nvidiagpu nvidiacomgpu requestedgpus gpurequest "
    "gpusallocated gpu",
    "tres": "alloctres tres allocgres gres tresalloc reqtres",
    "gpu_share": "gpushare share gpufraction gpumilli",
    "workers": "workernum workers replicas",
    "cluster": "cluster clusterid clustername",
    "accelerator": "accelerator gputype gpumodel gpuproduct gpuname gpuspec gpuspecpublic modelname",
    "workload": "workload workloadtype jobtype tasktype jobtypepublic type",
    "priority": "qos priorityclassname priorityclass priority qosclass",
    "utilisation": "utilisation utilization util gpuutil gpuutilisation gpuutilization smutil avggpusmutil avggpuutil",
    "cores": "cores cpus cpunum numcpu ncpus alloccpus cpurequest cpu",
}
"""Schema column of a job list → names that stand for it, as they are without capitals and punctuation."""

POD_NAMES: Mapping[str, str] = {
    "hour": "hour timestamp time datetime ts",
    "cluster": JOB_NAMES["cluster"],
    "accelerator": JOB_NAMES["accelerator"],
    "workload": JOB_NAMES["workload"],
    "priority": JOB_NAMES["priority"],
    "state": "state statepublic",
    "gpu_hours": "gpuhours usedgpuhours allocatedgpuhours",
    "gpu_requested": "gpurequested gpurequest",
    "utilisation": f"{JOB_NAMES['utilisation']} dcgmfiprofsmactive dcgmfidevgpuutil",
    "cpu_requested": "cpurequested cpurequestcores",
    "cpu_load": "cpuload avgcpurequestutil",
    "pod": "pod podid poduid uid",
    "server": "server serverid node host hostname",
    "server_gpus": "servergpus servergpucount",
}
SERVER_NAMES: Mapping[str, str] = {
    "hour": POD_NAMES["hour"],
    "cluster": JOB_NAMES["cluster"],
    "accelerator": "accelerator model gputype gpumodel gpuspec gpuspecpublic",
    "gpus": "gpus gpu gpucount numgpu gpucapacitynum",
    "cores": "cores cpus cpunum cpucapacitycores",
}

MEANINGS: Mapping[str, Mapping[str, str]] = {
    "priority": {
        "low": "low lp be besteffort scavenger scavenge scav preempt preemptible preemptable spot backfill killable "
        "standby idle opportunistic free lowpriority interruptible",
        "high": "high hp normal ls guaranteed burstable highpriority production prod interactive regular "
        "systemnodecritical systemclustercritical",
        "other": "other",
    },
    "workload": {
        "training": "training train pretrain pretraining sft finetune finetuning rlhf mllm",
        "online_inference": "onlineinference online inference serving serve",
        "offline_inference": "offlineinference offline batchinference evaluation eval",
        "other": "other dev debug unknown",
    },
    "state": {"active": "active running", "standby": "standby"},
}
"""Schema column → schema word → words that are taken for it, as they are without capitals and punctuation."""

SCALES = {"dcgmfiprofsmactive": "fraction", "dcgmfidevgpuutil": "percent"}
"""Metrics of DCGM that are utilisation, and their scale."""

SERVER_FILES = re.compile(r"server|node|host|machine", re.I)


@dataclass(frozen=True)
class Recognised:
    """A layout told from tables, and what had to be taken for granted to get it."""

    layout: Layout
    guesses: tuple[str, ...]
    ignored: tuple[str, ...]


def plain(name: str) -> str:
    """Name without capitals and punctuation.

    Examples
    --------
    >>> plain("nvidia.com/gpu"), plain("Start_Time")
    ('nvidiacomgpu', 'starttime')
    """
    return re.sub(r"[^a-z0-9]", "", name.lower())


def matched(header: Sequence[str], names: Mapping[str, str]) -> dict[str, str]:
    """Schema name → source column, for all whose name is known; the first known name counts."""
    by_name = {plain(source): source for source in reversed(header)}
    taken: dict[str, str] = {}
    for name, known_names in names.items():
        source = next((by_name[word] for word in known_names.split() if word in by_name), None)
        if source is not None and source not in taken.values():
            taken[name] = source
    return taken


def role(header: Sequence[str], path: Path) -> str:
    """Tell what a table holds: ``"jobs"``, ``"hourly"``, ``"servers"``, ``"power"`` or nothing that is known."""
    jobs, hourly = matched(header, JOB_NAMES), matched(header, POD_NAMES)
    if "hour" in hourly and ("gpu_hours" in hourly or ("utilisation" in hourly and _identity(header))):
        return "hourly"
    if "start" in jobs and {"end", "duration"} & set(jobs):
        return "jobs"
    if {"accelerator", "gpus"} <= set(matched(header, SERVER_NAMES)) and not {"power", "value"} & set(
        map(plain, header)
    ):
        return "servers"
    if "gpus" in matched(header, SERVER_NAMES) and SERVER_FILES.search(path.name):
        return "servers"
    return ""


def _identity(header: Sequence[str]) -> str:
    """Column that tells one GPU from another in samples; empty if there is none."""
    return next((name for name in header if plain(name) in ("uuid", "gpuuuid")), "")


def _of_samples(
    columns: dict[str, str], header: Sequence[str], path: Path, given: Mapping[str, Any], units: dict[str, str | float]
) -> float:
    """Hours that a sample of the utilisation of one GPU stands for; its columns and scale are put right."""
    columns["pod"] = _identity(header)
    scale = SCALES.get(plain(columns["utilisation"]))
    if scale:
        units["utilisation"] = scale
    with reading(path):
        frame = scan(path)
        types = dict(frame.collect_schema())
        at = moment(types, columns["hour"], given.get("units", {}).get("hour", ""), given.get("zone", ""))
        steps = frame.select(at.unique().sort().diff().dt.total_microseconds().median()).collect().item()
    return 1.0 if steps is None else float(steps) / 3.6e9


def recognise(root: Path, tables: Mapping[str, Path], given: Mapping[str, Any]) -> Recognised:
    """Find the layout of the tables of a trace, with what the user declares put over it.

    Parameters
    ----------
    root
        Folder, file or archive, for messages.
    tables
        Name below `root` → table.
    given
        Fields of `Layout` that the user declares: `pod_columns`, `words`, `units`, `constants`, `zone`, `window` …

    Raises
    ------
    InputError
        Nothing that is known, tables of several kinds, a column that is needed and not there.
    """
    faults = Faults(f"Trace in '{root}'")
    if any(name.startswith(f"{ALIBABA_2026.pods}/") for name in tables):
        return Recognised(ALIBABA_2026, (), ())
    headers: dict[str, list[str]] = {}
    for name, path in tables.items():
        with reading(path):
            headers[name] = scan(path).collect_schema().names()
    for published in (OPENB_2023, SPOT_2026):
        needed = set(published.pod_columns.values())
        hits = [name for name, header in headers.items() if needed <= set(header)]
        if hits:
            stock = set(published.server_columns.values())
            nodes = [name for name, header in headers.items() if stock <= set(header) and name not in hits]
            return Recognised(_at(published, hits, nodes), (f"columns of {published.name}",), ())
    columns = dict(given.get("pod_columns", {}))
    roles = {name: role(header, tables[name]) for name, header in headers.items()}
    kinds = sorted({found for found in roles.values() if found in ("jobs", "hourly")})
    if not kinds:
        shown = {name: ", ".join(header[:20]) for name, header in headers.items()}
        remedy = (
            "Name the columns: --column start=NAME …, or a layout of your own (--layout trace.yaml); of power with "
            "one column a sensor, the unit: --unit power=W."
        )
        expected = "columns such as Start, End, GPUs (jobs), or hour, gpu_hours (hourly)"
        expected += f"; or the folders of a published trace, such as {ALIBABA_2026.pods}"
        for name, text in list(shown.items())[:5] or [("files", "no table")]:
            faults.add(name, text, expected, remedy)
        faults.raise_any()
    faults.require(len(kinds) == 1, "tables", roles, "jobs or hourly tables, not both", "Name one of the files.")
    faults.raise_any()
    kind = kinds[0]
    pods = [name for name, found in roles.items() if found == kind]
    servers = [name for name, found in roles.items() if found == "servers"]
    ignored = [name for name, found in roles.items() if not found]
    every = set.intersection(*(set(headers[name]) for name in pods))
    header = [name for name in headers[pods[0]] if name in every]
    found_columns = {**matched(header, JOB_NAMES if kind == "jobs" else POD_NAMES), **columns}
    declared = {**given.get("constants", {})}
    constants: dict[str, str | float] = dict(declared)
    guesses: list[str] = []
    for name in constants:
        found_columns.pop(name, None)
    units: dict[str, str | float] = {}
    if kind == "jobs":
        _tidy_jobs(found_columns, columns, units, guesses)
    _tidy_times(found_columns, [tables[name] for name in pods], {**units, **given.get("units", {})}, kind, faults)
    if kind == "hourly" and not {"gpu_hours"} & (set(found_columns) | set(constants)):
        hours = _of_samples(found_columns, header, tables[pods[0]], given, units)
        constants["gpu_hours"] = hours
        guesses.append(f"each row is one GPU for {3600 * hours:g} s, told apart by '{found_columns['pod']}'")
    words = _words(found_columns, [tables[name] for name in pods], given.get("words", {}), guesses)
    allowed = {column.name for column in (JOBS if kind == "jobs" else POD_HOURS)}
    for name, stand_in in (("cluster", "fleet"), ("accelerator", "mixed"), ("workload", "other")):
        if kind == "hourly" and name in allowed and name not in {**found_columns, **constants}:
            constants[name] = stand_in
            guesses.append(f"no column of {name}: '{stand_in}' for all")
    present = set(found_columns) | set(constants)
    if "priority" not in present:
        remedy = "Say what may be preempted: --constant priority=high, or --column priority=NAME with --word NAME=low."
        unused = [guess for guess in guesses if guess.endswith("not used") and "of priority" in guess]
        faults.add("priority", "; ".join(unused) or ", ".join(header), "a column of priorities, or a constant", remedy)
    if kind == "jobs" and not {"gpus", "tres"} & present:
        faults.add("gpus", ", ".join(header), "a column of GPUs", "Name it: --column gpus=NAME.")
    faults.raise_any()
    server_columns = _of_servers(servers, headers, constants) if servers else {}
    base: dict[str, Any] = {
        "name": "found",
        "kind": kind,
        "pods": ", ".join(pods),
        "pod_columns": found_columns,
        "words": words,
        "servers": ", ".join(servers) if server_columns else "",
        "server_columns": server_columns,
        "units": {**units, **given.get("units", {})},
        "constants": constants,
    }
    rest = {name: value for name, value in given.items() if name not in base}
    return Recognised(Layout(**base, **rest), tuple(guesses), tuple(ignored))


def _at(layout: Layout, pods: list[str], servers: list[str]) -> Layout:
    if not servers:
        return replace(layout, pods=", ".join(pods), servers="", server_columns={})
    return replace(layout, pods=", ".join(pods), servers=", ".join(servers))


def _tidy_jobs(
    columns: dict[str, str],
    declared: Mapping[str, str],
    units: dict[str, str | float],
    guesses: list[str],
) -> None:
    """Keep one of `end` and `duration`, and one of `gpus` and `tres`; note what the names of columns say of units."""
    if {"gpus", "tres"} <= set(columns):
        columns.pop("gpus" if "tres" in declared else "tres")
    if {"end", "duration"} <= set(columns):
        columns.pop("end" if "duration" in declared else "duration")
    if plain(columns.get("duration", "")) in ("elapsedraw", "durationseconds"):
        units["duration"] = "s"
    if plain(columns.get("gpu_share", "")) == "gpumilli":
        units["gpu_share"] = "milli"
    for name in ("start", "end", "submitted"):
        if plain(columns.get(name, "")).startswith("kubepod"):
            units[name] = "epoch-s"
    if "workers" in columns:
        guesses.append(f"'{columns['workers']}' counts workers, each with the GPUs of the row")


def _tidy_times(
    columns: Mapping[str, str], paths: list[Path], units: Mapping[str, Any], kind: str, faults: Faults
) -> None:
    """Note numbers of time whose unit nobody has said: a wrong one would change the megawatts by its factor."""
    names = [name for name in (*TIMES, "duration") if name in columns and name not in units]
    with reading(paths[0]):
        sample = scan(paths[0]).select(columns[name] for name in dict.fromkeys(names)).head(1000).collect()
    for name in names:
        source = columns[name]
        if sample[source].dtype.is_temporal():
            continue
        texts = sample.select(known(source)).to_series().drop_nulls()
        numbers = texts.cast(pl.Float64, strict=False).drop_nulls()
        if numbers.is_empty() or numbers.len() < texts.len() or (kind == "hourly" and name == "hour"):
            continue
        guess = epoch_guess(float(numbers.median()))  # type: ignore[arg-type]
        looks = f"It looks like {guess}. " if guess else ""
        remedy = (
            f"{looks}Declare it: --unit {name}={guess or 's'} (units of the layout: h, min, s, epoch-s, epoch-ms …)."
        )
        faults.add(f"column '{source}'", numbers[0], "stamps, or numbers with a declared unit", remedy)


def _words(
    columns: dict[str, str], paths: list[Path], given: Mapping[str, Mapping[str, str]], guesses: list[str]
) -> dict[str, dict[str, str]]:
    """Words of each column that are known or declared; a column without any of them is not taken."""
    words: dict[str, dict[str, str]] = {}
    for name in WORDS:
        source = columns.get(name)
        if source is None:
            continue
        with reading(paths[0]):
            seen = [scan(path).select(pl.col(source).cast(pl.String).unique()) for path in paths]
            texts = sorted({text or "" for frame in pl.collect_all(seen) for text in frame.to_series()})
        said = {word.casefold(): meaning for word, meaning in given.get(name, {}).items()}
        meanings = {word: meaning for meaning, many in MEANINGS[name].items() for word in many.split()}
        mapped = {}
        for text in texts:
            meaning = said.get(text.casefold()) or meanings.get(plain(text)) or ""
            if not meaning and name == "priority" and not text and plain(source).startswith("priorityclass"):
                meaning = "other"
            if not meaning and name == "workload" and said.keys() | set(meanings) & set(map(plain, texts)):
                meaning = "other"
            if meaning:
                mapped[text] = meaning
                if text.casefold() not in said:
                    guesses.append(f"{name} {text or '(empty)'!r} means {meaning}")
        if not texts:
            continue
        if mapped or given.get(name):
            words[name] = mapped | dict(given.get(name, {}))
        else:
            columns.pop(name)
            seen_words = ", ".join(repr(text) for text in texts[:8])
            guesses.append(f"column '{source}' holds no known word of {name}, only {seen_words}: not used")
    return words


def _of_servers(
    servers: list[str], headers: Mapping[str, list[str]], constants: Mapping[str, str | float]
) -> dict[str, str]:
    found = matched(headers[servers[0]], SERVER_NAMES)
    needed = {"accelerator", "gpus", "cores"} - set(constants)
    return found if needed <= set(found) else {}
