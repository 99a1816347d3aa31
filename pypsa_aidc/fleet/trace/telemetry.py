"""Measured power: samples of GPUs, racks or meters brought to hours, with what was missing in between."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import numpy as np
import polars as pl

from pypsa_aidc.errors import Faults, UnitWarning
from pypsa_aidc.fleet.layers import LAYERS, layer_of
from pypsa_aidc.fleet.layers import Mapping as Eligibility
from pypsa_aidc.fleet.trace import tables
from pypsa_aidc.fleet.trace.audit import Audit
from pypsa_aidc.fleet.trace.hourly import COVERED
from pypsa_aidc.fleet.trace.recognise import JOB_NAMES, MEANINGS, matched, plain, role
from pypsa_aidc.fleet.trace.stamps import check_zone, has_stamps, hours_since, midnight, moment, written
from pypsa_aidc.fleet.trace.tables import number, reading, scan

WATTS = {"W": 1.0, "kW": 1e3, "MW": 1e6}
GPU_POWER = "DCGM_FI_DEV_POWER_USAGE"
METRICS = {GPU_POWER: "W", "node_hwmon_power_average_watt": "W", "nvidia_smi_power_draw_watts": "W"}
"""Metrics of exporters that are power, and their unit."""

NAMES: Mapping[str, str] = {
    "time": "timestamp time datetime ts at date hour",
    "metric": "metric name",
    "power": "dcgmfidevpowerusage powerw watts powerwatts gpupowerw itpowerw "
    "powerkw kw kilowatts itpowerkw powermw powerdraww powerdraw power value",
    "cluster": JOB_NAMES["cluster"],
    "accelerator": "modelname gpumodel accelerator gputype gpuname",
    "layer": "layer",
    "priority": JOB_NAMES["priority"],
    "workload": JOB_NAMES["workload"],
}
SENSORS = "uuid gpuuuid hostname host node instance gpu index device rack meter pdu feed sensor"
"""Columns that name what was measured; together they tell one sensor from another."""

GAPS = "sensor hours with less than 95 % of their samples, missing"
FILLED = "sensor hours with a few samples missing, scaled to whole hours"
SILENT = "sensor hours without a sample between the first of the sensor and the end, missing"
COPIES = "samples that repeat another one, counted once"
LATER = "sensor hours before the first sample of a sensor, counted as 0 MW"
UNLABELLED = "samples without a known label, counted as floor"


@dataclass(frozen=True)
class Power:
    """Measured power by hour, cluster and layer.

    Attributes
    ----------
    hours : polars.DataFrame
        `hour` (since `Audit.origin`), `cluster`, `layer`, `power` (MW, mean), `rest` (MW that the GPUs would draw idle;
        0 where they are not known), `lowest` (MW, of samples in the hour), `ramp` (MW/min, steepest between samples).
    observed : polars.DataFrame
        `hour`, `cluster`: hours in which every sensor of the cluster was seen.
    cadence
        Hours from sample to sample.
    audit
        What was read, left out and missing.
    """

    hours: pl.DataFrame
    observed: pl.DataFrame
    cadence: float
    audit: Audit


def power_tables(
    path: str | Path, unit: str = "", columns: Mapping[str, str] | None = None
) -> dict[Path, dict[str, str]]:
    """Tables at a path that hold samples of power, each with what its columns mean.

    A column named ``value`` is power where another one names the metric. With a declared `unit`, so is every column of
    a table that has times and none of the other names, one column a sensor, as Grafana writes them.
    """
    root, declared = Path(path), dict(columns or {})
    inside = sorted(file for file in root.rglob("*") if file.is_file()) if root.is_dir() else [root]
    found = {}
    for file in (table for one in inside for table in tables.files(one)):
        with reading(file):
            header = scan(file).collect_schema().names()
        own = {name: source for name, source in declared.items() if source in header}
        means = {name: source for name, source in matched(header, NAMES).items() if source not in own.values()} | own
        if plain(means.get("power", "")).startswith("powerdraw") and plain(means.get("metric", "")) == "name":
            means["accelerator"] = means.pop("metric")  # In nvidia-smi's records it is the name of the GPU.
        sure = "metric" in means or unit or "power" in own or plain(means.get("power", "")) != "value"
        known = sure if "power" in means else unit and not role(header, file)
        if "time" in means and known and "gpuhours" not in map(plain, header):
            found[file] = means
    return found


def read_power(
    path: str | Path,
    *,
    unit: str = "",
    zone: str = "",
    mapping: Eligibility = "central",
    columns: Mapping[str, str] | None = None,
    words: Mapping[str, Mapping[str, str]] | None = None,
    constants: Mapping[str, str] | None = None,
    rest: Callable[[str], float] | None = None,
) -> Power:
    """Read samples of power: DCGM and Prometheus exports, rack and meter records.

    Parameters
    ----------
    path
        Table, folder or archive. Prometheus' JSON answers are understood too.
    unit
        ``"W"``, ``"kW"`` or ``"MW"``; needed where no column's name, metric or cell says it, and of a table with one
        column a sensor.
    zone
        Zone of stamps that name none.
    mapping
        Which priorities and workloads are eligible, as for `Envelope.of`.
    columns
        `time`, `power`, `sensor`, `cluster`, `accelerator`, `layer`, `priority`, `workload` → source column, if it is
        not found.
    words
        `priority`, `workload` or `layer` → {label: meaning}.
    constants
        The same names → what holds for all samples, e.g. ``{"layer": "eligible"}``.
    rest
        Gives W at rest of an accelerator; without it, and of samples that name none, all power counts as active.

    Raises
    ------
    InputError
        No table of power, a unit that nobody says, stamps without a zone, labels that nobody maps.
    """
    faults = Faults(f"Power in '{path}'")
    faults.require(Path(path).exists(), "path", str(path), "an existing table, folder or archive")
    faults.require(unit in ("", *WATTS), "unit", unit, f"one of {', '.join(WATTS)}")
    check_zone(faults, zone)
    faults.raise_any()
    files = power_tables(path, unit, columns)
    remedy = "Name the columns (columns={'time': …, 'power': …})."
    faults.require(bool(files), "tables", str(path), "a table with times and power", remedy)
    faults.raise_any()
    frames = []
    for file, means in files.items():
        with reading(file):
            frames.append(_samples(file, unit, zone, means, dict(words or {}), dict(constants or {}), mapping, faults))
    faults.raise_any()
    with reading(path):
        samples = pl.concat(frames).collect(engine="streaming")
    faults.require(samples.height > 0, "tables", [str(file) for file in files], "at least one sample of power")
    faults.raise_any()
    return _to_hours(samples, str(path), rest)


def _samples(
    path: Path,
    unit: str,
    zone: str,
    found: dict[str, str],
    words: dict[str, Mapping[str, str]],
    constants: dict[str, str],
    mapping: Eligibility,
    faults: Faults,
) -> pl.LazyFrame:
    """Samples of one file: `at` (UTC), `sensor`, `cluster`, `accelerator`, `layer`, `watts`, `known` (label)."""
    frame = scan(path)
    types = dict(frame.collect_schema())
    numbers = [found["power"]] if "power" in found else []
    if not numbers:
        labels = list(dict.fromkeys(found.values()))
        numbers = [name for name in types if name not in labels]
        frame = frame.select(*labels, *(pl.col(name).cast(pl.String) for name in numbers))
        frame = frame.unpivot(numbers, index=labels, variable_name="sensor", value_name="power").drop_nulls("power")
        types = dict(frame.collect_schema())
        found = {**found, "power": "power", "sensor": "sensor"}
    empty = pl.LazyFrame(schema={"at": pl.Datetime("us", "UTC")})
    said = METRICS.get(found["power"], "") or _unit_of(found["power"])
    if "metric" in found:
        metrics = frame.select(pl.col(found["metric"]).unique()).collect().to_series().to_list()
    # The answer to an expression has no name of a metric; then the declared unit says what it is.
    if "metric" in found and not (unit and metrics == ["value"]):
        wanted = sorted(set(METRICS) & set(map(str, metrics)))
        remedy = (
            f"Export one of them; where '{found['metric']}' names sensors, say so: --column sensor={found['metric']}."
        )
        faults.require(len(wanted) == 1, str(path), metrics[:10], f"one of the metrics {', '.join(METRICS)}", remedy)
        if len(wanted) != 1:
            return empty
        frame, said = frame.filter(pl.col(found["metric"]) == wanted[0]), METRICS[wanted[0]]
    where = f"{path}, column '{found['power']}'"
    factor: pl.Expr = pl.lit(WATTS.get(unit or said, 1.0))
    if types[found["power"]] == pl.String:
        # Grafana writes the unit into each cell: 345 W.
        cell = pl.col(found["power"]).str.strip_chars()
        written_unit = cell.str.extract(r"\d\s*(W|kW|MW)$")
        head = frame.select(written_unit.drop_nulls()).head(1).collect()
        if head.height:
            said = str(head.item())
            own = written_unit.replace_strict(WATTS, default=WATTS[unit or said], return_dtype=pl.Float64)
            bare = cell.str.strip_suffix("W").str.strip_chars_end("kM ")
            frame, factor = frame.with_columns(bare.alias(found["power"]), factor=own), pl.col("factor")
    faults.require(bool(unit or said), where, "power without a unit", "W, kW or MW", "Declare it: --unit power=kW.")
    is_json = tables.kind(path) in (".json", *tables.LINES)
    time_unit = "epoch-s" if is_json and types[found["time"]] == pl.String and "metric" in found else ""
    stamped = has_stamps(frame, found["time"], time_unit, zone, f"{path}, column '{found['time']}'", faults)
    faults.require(stamped, f"{path}, column '{found['time']}'", "numbers", "stamps: telemetry has a calendar")
    commas = any(tables.decimal_commas(path, numbers).values())
    watts = number(types, found["power"], commas)
    names = [source for source in types if plain(source) in SENSORS.split() or source == found.get("sensor")]
    sensor = (
        pl.concat_str([pl.col(name).cast(pl.String).fill_null("") for name in names], separator="/")
        if names
        else pl.lit("meter")
    )
    text = {
        name: pl.lit(constants[name])
        if name in constants
        else pl.col(found[name]).cast(pl.String)
        if name in found
        else None
        for name in ("cluster", "accelerator", "layer", "priority", "workload")
    }
    free = [name for name in types if name not in (*found.values(), *names) and types[name] == pl.String]
    layer, known = _layer(text, words, mapping, path, free, faults)
    cluster = text["cluster"] if text["cluster"] is not None else pl.lit("fleet")
    accelerator = text["accelerator"] if text["accelerator"] is not None else pl.lit("")
    return frame.select(
        at=moment(types, found["time"], time_unit, zone),
        sensor=sensor,
        cluster=cluster.fill_null("fleet"),
        accelerator=accelerator.fill_null(""),
        layer=layer,
        watts=watts * factor,
        known=known,
    )


def _unit_of(name: str) -> str:
    """Unit that a name of a column says; empty if it says none, or may mean milliwatts as well as megawatts.

    Examples
    --------
    >>> [_unit_of(name) for name in ("power_kW", "gpu_power_w", "power_mw", "power")]
    ['kW', 'W', '', '']
    """
    bare = plain(name)
    if re.search(r"(kw|kilowatts?)$", bare):
        return "kW"
    return "W" if re.search(r"(?<!m)(w|watts?)$", bare) else ""


def _layer(
    text: Mapping[str, pl.Expr | None],
    words: Mapping[str, Mapping[str, str]],
    mapping: Eligibility,
    path: Path,
    free: Sequence[str],
    faults: Faults,
) -> tuple[pl.Expr, pl.Expr]:
    """Layer of a sample by its label, and whether the label is known; unknown ones count as floor."""
    if text["layer"] is not None:
        named = {layer: layer for layer in LAYERS} | dict(words.get("layer", {}))
        layer = text["layer"].replace_strict(named, default=None)
        return layer.fill_null("floor"), layer.is_not_null()
    if text["priority"] is None and text["workload"] is None:
        remedy = "Say what may be interrupted: --constant layer=eligible (all of it), layer=floor (nothing)"
        if free:
            remedy += f", or --column priority=NAME --word VALUE=low of the columns {', '.join(free[:20])}"
        faults.add(
            str(path),
            "no known column of layer, priority or workload",
            "a label of what is interruptible",
            f"{remedy}.",
        )
        return pl.lit("floor"), pl.lit(True)
    meaning: dict[str, pl.Expr] = {}
    for name in ("priority", "workload"):
        expression = text[name]
        if expression is None:
            meaning[name] = pl.lit("other")
            continue
        bare = expression.str.to_lowercase().str.replace_all(r"[^a-z0-9]", "")
        table = {word: meant for meant, many in MEANINGS[name].items() for word in many.split()}
        own = dict(words.get(name, {}))
        told = (
            expression.replace_strict(own, default=None, return_dtype=pl.String)
            if own
            else pl.lit(None, dtype=pl.String)
        )
        meaning[name] = pl.coalesce(told, bare.replace_strict(table, default=None, return_dtype=pl.String))
    known = meaning["priority"].is_not_null() if text["priority"] is not None else meaning["workload"].is_not_null()
    layer = pl.struct(
        state=pl.lit("active"),
        priority=meaning["priority"].fill_null("other"),
        workload=meaning["workload"].fill_null("other"),
    )
    rules = layer_of(mapping)
    return layer.map_batches(
        lambda rows: rows.struct.unnest().select(rules.cast(pl.String)).to_series(), return_dtype=pl.String
    ), known


def _to_hours(samples: pl.DataFrame, source: str, rest: Callable[[str], float] | None) -> Power:
    """Hourly means, lowest samples and ramps of clusters and layers, and where sensors were silent."""
    total = samples.height
    bad = samples.filter(
        pl.col("at").is_null() | pl.col("watts").is_null() | ~pl.col("watts").is_finite() | (pl.col("watts") < 0)
    )
    good = samples.filter(pl.col("at").is_not_null() & pl.col("watts").is_finite() & (pl.col("watts") >= 0))
    faults = Faults(f"Power in '{source}'")
    faults.require(
        bad.height <= 0.01 * total, source, f"{bad.height:,} of {total:,} samples", "times and W of at least 0"
    )
    faults.require(good.height > 0, source, total, "at least one sample of power")
    faults.raise_any()
    # Where two exports overlap, a sensor has one value a moment: the larger, where they differ.
    once = good.sort("watts", "layer", descending=True).unique(["at", "cluster", "sensor"], keep="first")
    first: datetime = once["at"].min()  # type: ignore[assignment]
    origin = midnight(first)
    table = once.with_columns(t=hours_since(pl.col("at"), origin)).sort("cluster", "sensor", "t")
    steps = table.select(pl.col("t").diff().over("cluster", "sensor")).to_series().drop_nulls()
    cadence = float(np.median(steps)) if len(steps) else 1.0
    cadence = min(max(cadence, 1e-4), 1.0)
    slots = max(1, round(1 / cadence))
    table = table.with_columns(
        hour=pl.col("t").floor().cast(pl.Int64), slot=(pl.col("t") / cadence + 1e-6).floor().cast(pl.Int64)
    )
    by_sensor = table.group_by("hour", "cluster", "sensor").agg(
        (pl.col("slot").n_unique() / slots).clip(upper_bound=1.0).alias("covered"), pl.len().alias("count")
    )
    observed, notes = _seen(by_sensor)
    accelerators = tuple(sorted(name for name in once["accelerator"].unique() if name))
    at_rest = {name: rest(name) for name in accelerators} if rest else {}
    resting = pl.lit(0.0)
    if at_rest:
        resting = pl.col("accelerator").replace_strict(at_rest, default=0.0, return_dtype=pl.Float64)
    _warn_of_unit(table, at_rest, source)
    mean = (
        table.join(by_sensor, on=["hour", "cluster", "sensor"])
        .group_by("hour", "cluster", "layer")
        .agg(
            power=(pl.col("watts") / pl.col("count")).sort().sum() / 1e6,
            rest=(pl.min_horizontal(resting, pl.col("watts")) / pl.col("count")).sort().sum() / 1e6,
        )
    )
    sensors = pl.col("sensor").n_unique()
    whole = table.group_by("slot", "hour", "cluster").agg(sensors.alias("there"))
    whole = whole.with_columns(most=pl.col("there").max().over("hour", "cluster")).filter(
        pl.col("there") == pl.col("most")
    )
    kinds = table.select("cluster", "layer").unique()
    grid = whole.select("slot", "hour", "cluster").join(kinds, on="cluster")
    sums = table.group_by("slot", "cluster", "layer").agg(mw=pl.col("watts").sort().sum() / 1e6)
    fine = grid.join(sums, on=["slot", "cluster", "layer"], how="left").with_columns(pl.col("mw").fill_null(0.0))
    fine = fine.sort("cluster", "layer", "slot").with_columns(
        step=(pl.col("mw").diff() / pl.col("slot").diff() / (60 * cadence)).abs().over("cluster", "layer")
    )
    low = fine.group_by("hour", "cluster", "layer").agg(
        lowest=pl.col("mw").min(), ramp=pl.col("step").max().fill_null(0.0)
    )
    hours = mean.join(low, on=["hour", "cluster", "layer"], how="left").with_columns(
        pl.col("lowest").fill_null(pl.col("power")), pl.col("ramp").fill_null(0.0)
    )
    notes |= {COPIES: good.height - once.height, UNLABELLED: once.height - int(once["known"].sum())}
    audit = Audit(
        f"telemetry ({Path(source).name})",
        partitions=1,
        rows=total,
        rejected={"samples without a time or a power": bad.height} if bad.height else {},
        noted={reason: count for reason, count in notes.items() if count},
        origin=written(origin),
    )
    return Power(hours.sort("hour", "cluster", "layer"), observed, cadence, audit)


ODD = (0.1, 100.0)
"""Mean power of a sensor over the rest of its accelerator: from a GPU that is often off to a node at full draw."""


def _warn_of_unit(table: pl.DataFrame, at_rest: Mapping[str, float], source: str) -> None:
    """Warn of power that an accelerator cannot draw: kW declared as W, W as kW or MW."""
    for name, watts in at_rest.items():
        mean = float(table.filter(pl.col("accelerator") == name)["watts"].mean() or 0.0)  # type: ignore[arg-type]
        if watts > 0 and mean > 0 and not ODD[0] <= mean / watts <= ODD[1]:
            text = f"sensors of {name} draw {mean:.4g} W in the mean, at rest it draws {watts:.4g} W"
            warnings.warn(f"{source}: {text}: is the unit W, kW or MW as declared?", UnitWarning, stacklevel=4)


def _seen(by_sensor: pl.DataFrame) -> tuple[pl.DataFrame, dict[str, int]]:
    """Hours in which every sensor of a cluster was seen that was there before, and counts of what was not."""
    hours = np.arange(by_sensor["hour"].min(), by_sensor["hour"].max() + 1)  # type: ignore[arg-type, operator]
    notes = {
        GAPS: by_sensor.filter(pl.col("covered") < COVERED).height,
        FILLED: by_sensor.filter(pl.col("covered").is_between(COVERED, 1 - 1e-9)).height,
    }
    full = by_sensor.filter(pl.col("covered") >= COVERED)
    spans = by_sensor.group_by("cluster", "sensor").agg(first=pl.col("hour").min())
    due = spans.join(pl.DataFrame({"hour": hours}), how="cross").filter(pl.col("hour") >= pl.col("first"))
    missing = due.join(full, on=["hour", "cluster", "sensor"], how="anti")
    begin = spans["first"].min()
    notes[SILENT] = missing.join(by_sensor, on=["hour", "cluster", "sensor"], how="anti").height
    notes[LATER] = int((spans["first"] - begin).sum())
    every = spans.select("cluster").unique().join(pl.DataFrame({"hour": hours}), how="cross")
    return every.join(missing.select("hour", "cluster").unique(), on=["hour", "cluster"], how="anti"), notes
