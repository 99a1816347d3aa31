"""The verb `fleet`: a trace folder in, statistics and envelope out, with the tables and figures of load and layers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from pypsa_aidc import fleet as fleets
from pypsa_aidc.cli.reply import Reply
from pypsa_aidc.cli.series import stamped_series
from pypsa_aidc.cli.verb import DryRunOption
from pypsa_aidc.errors import InputError

PAPER = "arXiv 2609.05406"
"""Whose tables those of this verb and of `surface` are laid out as."""

SCHEDULER_FROM = 110 * 24
"""Hour from which the published trace joins executions completely (Sec. 2.1 of [2], arXiv 2609.05406)."""


LAYOUTS = ("found", "alibaba-2026", "generic", "openb-2023", "spot-2026")
"""Those of `fleet.LAYOUTS`, which takes polars to know, and the one that is told from the tables."""


def fleet(
    reply: Reply,
    trace: Annotated[
        Path | None,
        typer.Argument(
            help="Folder, table or archive: jobs (sacct, kubectl, CSV), pod hours, or power (DCGM, Prometheus, "
            "meters). The synthetic fleet if left out."
        ),
    ] = None,
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for results.")] = Path("fleet-results"),
    inspect: Annotated[
        bool, typer.Option("--inspect", help="Show what is recognised and what would be dropped; write trace.yaml.")
    ] = False,
    layout: Annotated[
        str,
        typer.Option(
            help=f"Layout of the trace: {', '.join(LAYOUTS)}, or a YAML file.", autocompletion=lambda: list(LAYOUTS)
        ),
    ] = LAYOUTS[0],
    utilisation: Annotated[
        Literal["percent", "fraction", "absent"] | None, typer.Option(help="Scale of utilisation in the trace.")
    ] = None,
    zone: Annotated[
        str | None, typer.Option(help="Zone of times that name none: Europe/Berlin, or +05:30.", show_default=False)
    ] = None,
    column: Annotated[list[str] | None, typer.Option(help="MEANING=COLUMN, e.g. start=began, repeatable.")] = None,
    constant: Annotated[
        list[str] | None,
        typer.Option(help="MEANING=VALUE for all rows, repeatable: priority=high, accelerator=A100, layer=eligible."),
    ] = None,
    word: Annotated[
        list[str] | None,
        typer.Option(help="WORD=MEANING of priorities, repeatable: scavenger=low, or workload:nlp=training."),
    ] = None,
    unit: Annotated[
        list[str] | None,
        typer.Option(help="MEANING=UNIT, repeatable: start=epoch-s, duration=s, gpu_share=percent, power=kW."),
    ] = None,
    window: Annotated[
        str | None,
        typer.Option(help="Hours that a job list shows completely: START..END, or whole; found from it by default."),
    ] = None,
    duplicates: Annotated[
        Literal["refuse", "all", "one"], typer.Option(help="Equal rows that name no job or pod.")
    ] = "refuse",
    retired: Annotated[
        list[str] | None, typer.Option(help="Cluster that was taken out of service, repeatable.")
    ] = None,
    mapping: Annotated[
        Literal["conservative", "central", "liberal"], typer.Option(help="Which work is eligible.")
    ] = "central",
    rating: Annotated[
        list[str] | None, typer.Option(help="Rating, W, repeatable: A100=400, or 400 for all that are not listed.")
    ] = None,
    idle: Annotated[
        list[str] | None, typer.Option(help="W at rest, repeatable: A100=55; 20 % of the rating by default.")
    ] = None,
    pue: Annotated[
        str,
        typer.Option(
            help="Facility over IT power, 1 … 3: a number, curve:FILE (CSV of outdoor °C and PUE, with --temperature), "
            "or series:FILE (CSV of stamps and PUE)."
        ),
    ] = "1.2",
    temperature: Annotated[
        Path | None, typer.Option(help="CSV of stamps and outdoor °C, for --pue curve:FILE.", show_default=False)
    ] = None,
    gap: Annotated[
        list[str] | None, typer.Option(help="START:END, hours in which the record was down, repeatable.")
    ] = None,
    notice: Annotated[
        list[float] | None,
        typer.Option(
            help="Notice of a call, h, repeatable: keep what is running at it and outlasts the call; job lists."
        ),
    ] = None,
    call: Annotated[
        list[int] | None, typer.Option(help="Duration of calls with a notice, h, repeatable; 1, 2, 4, 8 by default.")
    ] = None,
    keep: Annotated[Path | None, typer.Option(help="Folder that keeps partition results, to resume.")] = None,
    max_rejected: Annotated[float, typer.Option(help="Largest share of faulty rows that is only counted.")] = 0.01,
    draws: Annotated[int, typer.Option(help="Draws of the power model.")] = 300,
    seed: Annotated[int, typer.Option(help="Seed of draws and bootstraps.")] = 0,
    figures: Annotated[bool, typer.Option(help="Write figures.")] = True,
    dry_run: DryRunOption = False,
) -> None:
    """Turn a trace into hourly power by cluster and layer: envelope.nc, tables, figures 1–3 and 7–12."""
    reply.faults.require(
        trace is not None or not notice, "--notice", notice, "nothing: the synthetic fleet is no job list"
    )
    reply.faults.require(bool(notice) or not call, "--call", call, "nothing without --notice")
    reply.faults.raise_any()
    factor, by_hour = _pue(reply, pue, temperature, zone)
    central, gaps = _model(reply, rating or [], idle or [], factor), _gaps(reply, gap or [])
    declared = _declared(reply, zone, column or [], constant or [], word or [], unit or [], window)
    if trace is not None and layout == "found" and _holds_power(trace, declared):
        reply.faults.require(not notice, "--notice", notice, "nothing: samples of power do not say when work began")
        reply.faults.raise_any()
        _measured(reply, trace, out, declared, mapping, central, by_hour, inspect, figures, dry_run)
        return
    declared.pop("power", None)
    found = (
        None
        if trace is None
        else fleets.Trace.read(trace, layout, utilisation=utilisation, duplicates=duplicates, **declared)
    )
    if inspect:
        _inspect(reply, found, out, max_rejected)
        return
    if dry_run:
        source = "the synthetic fleet" if found is None else f"{found.label}, {len(found.pods)} partitions"
        reply.rehearsed({"trace": trace, "mapping": mapping}, source, out)
        return
    with reply.into(out):
        if found is None:
            made = fleets.SyntheticFleet.generate()
            statistics = made.statistics
            execution: fleets.Execution | None = made.execution
        else:
            statistics = fleets.Statistics.of(
                found,
                keep=keep,
                max_rejected=max_rejected,
                gaps=gaps,
                retired=retired or [],
                notices=notice or [],
                calls=call or (1, 2, 4, 8),
            )
            has_summary = found.layout.kind == "hourly" and bool(found.summary)
            execution = fleets.Execution.of(found, keep=keep) if has_summary else None
        reply.synthetic = statistics.synthetic
        central = _load(statistics, mapping, draws, seed, central, by_hour, reply, figures)
        _aggregation(statistics, central, reply, seed, figures)
        if execution is not None:
            _scheduler(statistics, execution, central, reply, figures)
    coverage = asdict(statistics.coverage)
    read = statistics.audit.to_dict()
    reply.answer(trace=trace, mapping=mapping, coverage=coverage, read=read, synthetic=reply.synthetic)


def _load(
    statistics: fleets.Statistics,
    mapping: Literal["conservative", "central", "liberal"],
    draws: int,
    seed: int,
    central: fleets.PowerModel,
    pue: tuple[Any, ...],
    reply: Reply,
    figures: bool,
) -> fleets.PowerModel:
    """Envelope, tables and figures 1, 3, 7 and 12; the model, with the PUE of all energy, about which is drawn."""
    reply.line(str(statistics.audit))
    reply.line(f"hours used: {statistics.coverage}")
    envelope = fleets.Envelope.of(statistics, mapping, central)
    if pue:
        envelope = envelope.with_pue(*pue)
        central = replace(central, pue=envelope.pue)
    envelope.save(reply.file("envelope.nc"))
    ensemble = fleets.ensemble(statistics, fleets.power_draws(draws, seed, central))
    if len(statistics.audit.to_frame()):
        reply.keep("audit", statistics.audit.to_frame(), "What was read")
    reply.keep("accounting", fleets.accounting(envelope, ensemble), f"Boundaries, mean MW (cf. Table 1 of {PAPER})")
    reply.keep("load_shape", fleets.load_shape(ensemble.band().sel(quantile=0.5)).to_frame(), "Load, median of draws")
    _explain_idle(envelope, reply)
    shares = (envelope.layers().sum("hour") / float(envelope.workload.sum())).to_series().to_frame("share")
    reply.keep("layers", shares, "Shares of workload energy")
    if figures:
        from pypsa_aidc.plots.envelope import plot_boundary, plot_components

        reply.figure("figure_01_load", ensemble.plot())
        reply.figure("figure_03_boundary", plot_boundary(envelope))
        reply.figure("figure_07_components", plot_components(envelope))
        reply.figure("figure_12_layers", envelope.plot())
    return central


def _holds_power(path: Path, declared: dict[str, Any]) -> bool:
    from pypsa_aidc.fleet.trace.telemetry import power_tables

    return path.exists() and bool(power_tables(path, declared.get("power", ""), declared.get("pod_columns")))


def _measured(
    reply: Reply,
    path: Path,
    out: Path,
    declared: dict[str, Any],
    mapping: Literal["conservative", "central", "liberal"],
    central: fleets.PowerModel,
    pue: tuple[Any, ...],
    inspect: bool,
    figures: bool,
    dry_run: bool,
) -> None:
    """Envelope, tables and figures of samples of power."""
    import pandas as pd

    from pypsa_aidc.fleet.trace.telemetry import power_tables, read_power

    asked = {"zone": declared.get("zone", ""), "unit": declared.get("power", "")}
    asked |= {
        name: declared.get(field)
        for name, field in (("columns", "pod_columns"), ("words", "words"), ("constants", "constants"))
    }
    if inspect:
        for file, means in power_tables(path, asked["unit"], asked["columns"]).items():
            _show(reply, file, means, {"power": asked["unit"]})
    try:
        power = read_power(path, mapping=mapping, rest=central.idle_watts, **asked)
    except InputError as error:
        if not inspect:
            raise
        reply.note(f"would be refused: {error}", style="red")
        reply.answer(trace=path, mapping=mapping)
        return
    reply.line(str(power.audit))
    envelope = fleets.Envelope.of_power(power, mapping, central)
    envelope = envelope.with_pue(*pue) if pue else envelope
    reply.line(f"hours used: {envelope.coverage}, a sample every {envelope.data.attrs['cadence']}")
    if inspect:
        reply.table(power.hours.head(10).to_pandas(), "First hours, MW and MW/min")
    if inspect or dry_run:
        reply.rehearsed({"trace": path, "mapping": mapping}, "samples of power", out)
        return
    with reply.into(out):
        envelope.save(reply.file("envelope.nc"))
        if len(power.audit.to_frame()):
            reply.keep("audit", power.audit.to_frame(), "What was read")
        layers = envelope.data[["power", "active", "lowest"]].sum("cluster", skipna=False)
        table = (
            layers.mean("hour").to_dataframe().assign(ramp=envelope.data["ramp"].max(("hour", "cluster")).to_series())
        )
        reply.keep("layers", pd.DataFrame(table), "Measured power by layer, mean MW; steepest ramp, MW/min")
        if figures:
            reply.figure("figure_12_layers", envelope.plot())
    reply.answer(
        trace=path, mapping=mapping, coverage=asdict(envelope.coverage), read=power.audit.to_dict(), synthetic=False
    )


def _inspect(reply: Reply, found: fleets.Trace | None, out: Path, max_rejected: float) -> None:
    """Show what was recognised, the first rows, and what would be dropped; write the layout for editing."""
    faults = reply.faults
    faults.require(
        found is not None,
        "trace",
        None,
        "a folder, table or archive to look at",
        "E.g. pypsa-aidc fleet jobs.csv --inspect.",
    )
    faults.raise_any()
    assert found is not None
    layout = found.layout
    reply.line(
        f"{layout.kind} in {', '.join(piece.name for piece in found.pods[:5])}{' …' if len(found.pods) > 5 else ''}"
    )
    if found.servers:
        reply.line(f"servers in {', '.join(piece.name for piece in found.servers[:5])}")
    columns = {**layout.pod_columns, **{name: f"{value!r} for all rows" for name, value in layout.constants.items()}}
    _show(reply, found.paths[0], columns, layout.units)
    for guess in found.guesses:
        reply.note(f"taken for granted: {guess}")
    for name in found.ignored:
        reply.note(f"not part of the trace: {name}")
    try:
        statistics = fleets.Statistics.of(found, max_rejected=max_rejected)
        reply.line(str(statistics.audit))
        reply.line(f"hours used: {statistics.coverage}")
    except InputError as error:
        reply.note(f"would be refused: {error}", style="red")
    with reply.into(out):
        layout.save(reply.file("trace.yaml"))
    reply.answer(columns=columns, guesses=found.guesses, ignored=found.ignored)


def _show(reply: Reply, table: Path, columns: Mapping[str, str], units: Mapping[str, Any]) -> None:
    """Show what the columns of a table mean, and its first rows."""
    import pandas as pd

    from pypsa_aidc.fleet.trace.tables import scan

    rows = [(name, source, str(units.get(name, ""))) for name, source in columns.items()]
    reply.table(pd.DataFrame(rows, columns=["means", "column", "unit"]), f"Columns of {table.name}")
    reply.table(scan(table).head(5).collect().to_pandas().astype(str), "First rows")


def _declared(
    reply: Reply,
    zone: str | None,
    columns: list[str],
    constants: list[str],
    words: list[str],
    units: list[str],
    window: str | None,
) -> dict[str, Any]:
    """Fields of a layout that the command line declares."""
    faults = reply.faults
    pairs = {"--column": columns, "--constant": constants, "--word": words, "--unit": units}
    parted = {option: [text.rpartition("=") for text in texts] for option, texts in pairs.items()}
    for option, given in pairs.items():
        for text in given:
            faults.require(bool(text.rpartition("=")[0]) and bool(text.rpartition("=")[2]), option, text, "NAME=VALUE")
    faults.raise_any()
    meanings: dict[str, dict[str, str]] = {}
    for name, _, meaning in parted["--word"]:
        kind, parting, label = name.partition(":")
        known = parting and kind in ("priority", "workload", "state", "layer")
        meanings.setdefault(kind if known else "priority", {})[label if known else name] = meaning
    unit = {name: (value if _number(value) is None else _number(value)) for name, _, value in parted["--unit"]}
    declared: dict[str, Any] = {
        "zone": zone,
        "pod_columns": {name: source for name, _, source in parted["--column"]},
        "constants": {name: value for name, _, value in parted["--constant"]},
        "words": meanings,
        "power": unit.pop("power", None),
        "units": unit,
    }
    if window:
        first, parting, last = window.partition("..")
        edges = [edge if _number(edge) is None else _number(edge) for edge in (first, last)]
        declared["window"] = edges if parting else window
    return {name: value for name, value in declared.items() if value}


def _model(reply: Reply, ratings: list[str], idle: list[str], pue: float) -> fleets.PowerModel:
    """Power model with what the command line says of accelerators over what the package knows."""
    faults = reply.faults
    listed, other = dict(fleets.RATINGS), None
    for text in ratings:
        name, _, number = text.rpartition("=")
        watts = _number(number)
        faults.require(watts is not None and watts > 0, "--rating", text, "W above 0: A100=400, or 400")
        if watts is not None and name:
            listed[name] = watts
        else:
            faults.require(other is None, "--rating", text, "one rating for all accelerators that are not listed")
            other = watts
    rest: dict[str, float] = {}
    for text in idle:
        name, _, number = text.rpartition("=")
        watts = _number(number)
        faults.require(bool(name) and watts is not None and watts >= 0, "--idle", text, "W of at least 0: A100=55")
        rest[name] = watts or 0.0
    faults.raise_any()
    return fleets.PowerModel(ratings=listed, other_rating=other, idle=rest, pue=pue)


def _pue(reply: Reply, text: str, temperature: Path | None, zone: str | None) -> tuple[float, tuple[Any, ...]]:
    """PUE of the command line: a number, and what `Envelope.with_pue` takes if it is none."""
    import pandas as pd

    from pypsa_aidc.fleet.cooling import HIGHEST

    faults = reply.faults
    kind, parting, path = text.partition(":")
    faults.require(
        kind == "curve" or temperature is None, "--temperature", temperature, "nothing without --pue curve:FILE"
    )
    number = _number(text)
    if number is not None:
        faults.number("--pue", number, at_least=1, at_most=HIGHEST)
        faults.raise_any()
        return number, ()
    known = bool(parting) and kind in ("curve", "series")
    faults.require(known, "--pue", text, f"a number of 1 … {HIGHEST:g}, curve:FILE or series:FILE")
    faults.require(kind != "curve" or temperature is not None, "--temperature", None, "a CSV of stamps and outdoor °C")
    faults.raise_any()
    if kind == "series":
        return 1.2, (stamped_series(faults, "--pue", path, zone),)
    try:
        points = pd.read_csv(path).iloc[:, :2].astype(float)
    except (OSError, ValueError) as error:
        faults.add("--pue", path, f"a CSV of °C and PUE ({str(error).splitlines()[0]})")
        faults.raise_any()
    assert temperature is not None
    return 1.2, (points.to_numpy().tolist(), stamped_series(faults, "--temperature", temperature, zone))


def _gaps(reply: Reply, texts: list[str]) -> list[tuple[float, float]]:
    """Pairs of start and end of the command line."""
    faults = reply.faults
    gaps = []
    for text in texts:
        start, _, end = text.partition(":")
        pair = _number(start), _number(end)
        faults.require(None not in pair, "--gap", text, "two hours: 100:148")
        gaps.append(pair)
    faults.raise_any()
    return gaps  # type: ignore[return-value]


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _explain_idle(envelope: fleets.Envelope, reply: Reply) -> None:
    """Say where the facility's power goes if most of it is no workload."""
    valid = envelope.valid
    free, hosts = (
        float(envelope.data[name].sum("cluster").to_numpy()[valid].mean()) for name in ("unallocated", "host_idle")
    )
    workload, facility = (float(series.to_numpy()[valid].mean()) for series in (envelope.workload, envelope.facility))
    if free + hosts > workload:
        reply.note(
            f"workload {workload:.4g} MW of facility {facility:.4g} MW: GPUs of the inventory that no job holds draw "
            f"{free:.4g} MW, CPU cores at rest {hosts:.4g} MW, times PUE {envelope.pue:g}. Is it the trace's inventory?"
        )


def _aggregation(
    statistics: fleets.Statistics, model: fleets.PowerModel, reply: Reply, seed: int, figures: bool
) -> None:
    """Tables and figures 2, 8 and 9, where the fleet has enough clusters of enough size."""
    import pandas as pd

    from pypsa_aidc.fleet.studies.scaling import UNITS

    try:
        scalings = {kind: fleets.fluctuation_scaling(statistics, kind, model=model, seed=seed) for kind in UNITS}
        attribution = fleets.attribution(statistics, model=model, seed=seed)
        composition = fleets.variability_by_training(statistics, model=model, seed=seed)
    except InputError as error:
        reply.note(f"no aggregation diagnostics: {error}")
        return
    table = pd.DataFrame(
        {kind: (s.exponent, *s.interval, s.r_squared, len(s.units)) for kind, s in scalings.items()},
        index=["exponent", "p5", "p95", "r_squared", "units"],
    ).T
    reply.keep("scaling", table.rename_axis("units of"), "Fluctuation scaling σ ∝ μ^β")
    levels = {name: (s.median, *s.interval) for name, s in fleets.measure_synchrony(statistics, model).items()}
    frame = pd.DataFrame.from_dict(levels, orient="index", columns=["ratio", "p5", "p95"]).rename_axis("level")
    reply.keep("synchrony", frame, "Synchrony, median over parents")
    removed = pd.DataFrame({"ratio": attribution.ratios, "excess_removed": attribution.removed}).rename_axis("residual")
    reply.keep("attribution", removed, f"Synchrony of {len(attribution.clusters)} clusters of steady capacity")
    if figures:
        from pypsa_aidc.plots.aggregation import plot_attribution, plot_composition, plot_plateaus

        reply.figure("figure_02_aggregation", plot_attribution(scalings, attribution, reply.synthetic))
        reply.figure("figure_08_composition", plot_composition(composition, reply.synthetic))
        if len(attribution.plateaus):
            reply.figure("figure_09_plateaus", plot_plateaus(attribution, reply.synthetic))


def _scheduler(
    statistics: fleets.Statistics,
    execution: fleets.Execution,
    model: fleets.PowerModel,
    reply: Reply,
    figures: bool,
) -> None:
    """Tables and figures 10 and 11, from the day on which executions are joined completely."""
    import pandas as pd

    spans = execution.matched
    power = fleets.span_power(spans, statistics, model)
    first = max(int(statistics.hours[0]), min(SCHEDULER_FROM, int(statistics.hours[-1])))
    hours = (first, int(statistics.hours[-1]) + 1)
    displacement = fleets.displacement(spans, power, hours, reply.synthetic)
    backlog = fleets.backlog(spans, power, hours, synthetic=reply.synthetic)
    figures_of = pd.DataFrame({"value": displacement.figures()}).rename_axis("quantity")
    reply.keep("displacement", figures_of, "What the scheduler displaced, MW and MWh")
    reply.keep("backlog", backlog.figures(), "Newly deferrable arrivals, MW")
    if figures:
        from pypsa_aidc.plots.aggregation import plot_displacement

        delays = fleets.delay_distribution(spans)
        reply.figure("figure_10_displacement", plot_displacement(displacement, delays))
        reply.figure("figure_11_backlog", backlog.plot())
