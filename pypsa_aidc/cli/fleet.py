"""The verb `fleet`: a trace folder in, statistics and envelope out, with the tables and figures of load and layers."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

import pandas as pd
import typer
from matplotlib.figure import Figure
from rich.table import Table

from pypsa_aidc import fleet
from pypsa_aidc.cli.reply import DryRunOption, JsonOption, QuietOption, Reply, told_warnings
from pypsa_aidc.errors import Faults, InputError
from pypsa_aidc.fleet.studies.scaling import UNITS

PAPER = "arXiv 2609.05406"
"""Whose tables those of this verb and of `surface` are laid out as."""

SCHEDULER_FROM = 110 * 24
"""Hour from which the published trace joins executions completely (Sec. 2.1 of [2], arXiv 2609.05406)."""


@dataclass(frozen=True)
class Report:
    """Where tables and figures go; what is made of the synthetic fleet says so in its name and on its face.

    Parameters
    ----------
    folder
        Where files go.
    synthetic
        Whether it is all about the synthetic fleet.
    reply
        Where the answer goes.
    tables, notes, written
        What has been told so far, for programs.
    """

    folder: Path
    synthetic: bool
    reply: Reply
    tables: dict[str, pd.DataFrame] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    written: list[Path] = field(default_factory=list)

    def path(self, name: str) -> Path:
        """File for a result."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self.written.append(self.folder / self.name(name))
        return self.written[-1]

    def name(self, name: str) -> str:
        """Name of a file that says whether it is about the synthetic fleet."""
        return f"synthetic_{name}" if self.synthetic else name

    def table(self, name: str, frame: pd.DataFrame, title: str) -> None:
        """Print a table and write it as CSV."""
        plain = frame.reset_index() if frame.index.name or isinstance(frame.index, pd.MultiIndex) else frame
        shown = Table(title=f"{title} (synthetic fleet)" if self.synthetic else title, title_justify="left")
        for column in plain.columns:
            shown.add_column(str(column), justify="left" if plain[column].dtype.kind in "OTU" else "right")
        for row in plain.itertuples(index=False):
            shown.add_row(*(format(value, ".4g") if isinstance(value, float) else str(value) for value in row))
        self.reply.show(shown)
        self.keep(name, plain)

    def keep(self, name: str, frame: pd.DataFrame) -> None:
        """Write a table as CSV, without its index, and print it for programs only."""
        self.tables[name] = frame.reset_index(drop=True)
        source = "synthetic fleet" if self.synthetic else "trace"
        frame.assign(data=source).to_csv(self.path(f"{name}.csv"), index=False)

    def note(self, text: str) -> None:
        """Say what was left out, and why."""
        self.reply.show(text, highlight=False)
        self.notes.append(text)

    def figure(self, name: str, figure: Figure) -> None:
        """Write a figure as PNG."""
        figure.savefig(self.path(f"{name}.png"), dpi=150)

    def answer(self, **about: Any) -> None:
        """Print everything so far for programs."""
        self.reply.answer({**about, "synthetic": self.synthetic}, self.tables, self.notes, self.written)


def fleet_verb(
    trace: Annotated[Path | None, typer.Argument(help="Folder of a trace; the synthetic fleet if left out.")] = None,
    out: Annotated[Path, typer.Option(help="Folder for results.")] = Path("fleet-results"),
    layout: Annotated[
        str,
        typer.Option(
            help="Layout of the trace: " + ", ".join(fleet.LAYOUTS), autocompletion=lambda: list(fleet.LAYOUTS)
        ),
    ] = "alibaba-2026",
    utilisation: Annotated[
        Literal["percent", "fraction", "absent"] | None, typer.Option(help="Scale of utilisation in the trace.")
    ] = None,
    mapping: Annotated[
        Literal["conservative", "central", "liberal"], typer.Option(help="Which work is eligible.")
    ] = "central",
    rating: Annotated[
        list[str] | None, typer.Option(help="Rating, W, repeatable: A100=400, or 400 for all that are not listed.")
    ] = None,
    gap: Annotated[
        list[str] | None, typer.Option(help="START:END, hours in which the record was down, repeatable.")
    ] = None,
    keep: Annotated[Path | None, typer.Option(help="Folder that keeps partition results, to resume.")] = None,
    max_rejected: Annotated[float, typer.Option(help="Largest share of faulty rows that is only counted.")] = 0.01,
    draws: Annotated[int, typer.Option(help="Draws of the power model.")] = 300,
    seed: Annotated[int, typer.Option(help="Seed of draws and bootstraps.")] = 0,
    figures: Annotated[bool, typer.Option(help="Write figures.")] = True,
    dry_run: DryRunOption = False,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Turn a trace into hourly power by cluster and layer: envelope.nc, tables, figures 1–3 and 7–12."""
    found = None if trace is None else fleet.Trace.read(trace, layout, utilisation=utilisation)
    with told_warnings(quiet):
        central, gaps = _model(rating or []), _gaps(gap or [])
    if dry_run:
        source = "the synthetic fleet" if found is None else f"{found.label}, {len(found.pods)} partitions"
        Reply(as_json, quiet).rehearsed({"trace": trace, "mapping": mapping}, source, out)
        return
    if found is None:
        made = fleet.SyntheticFleet.generate()
        statistics = made.statistics
        execution: fleet.Execution | None = made.execution
    else:
        with told_warnings(quiet, fleet.CoverageWarning, fleet.EraWarning):
            statistics = fleet.Statistics.of(found, keep=keep, max_rejected=max_rejected, gaps=gaps)
        has_summary = found.layout.kind == "hourly" and bool(found.summary)
        execution = fleet.Execution.of(found, keep=keep) if has_summary else None
    report = Report(out, statistics.synthetic, Reply(as_json, quiet))
    report.reply.show(str(statistics.audit), highlight=False)
    report.reply.show(f"hours used: {statistics.coverage}", highlight=False)
    envelope = fleet.Envelope.of(statistics, mapping, central)
    envelope.save(report.path("envelope.nc"))
    ensemble = fleet.ensemble(statistics, fleet.power_draws(draws, seed, central))
    if len(statistics.audit.to_frame()):
        report.table("audit", statistics.audit.to_frame(), "What was read")
    report.table("accounting", fleet.accounting(envelope, ensemble), f"Boundaries, mean MW (cf. Table 1 of {PAPER})")
    report.table("load_shape", fleet.load_shape(ensemble.band().sel(quantile=0.5)).to_frame(), "Load, median of draws")
    _explain_idle(envelope, report)
    shares = (envelope.layers().sum("hour") / float(envelope.workload.sum())).to_series().to_frame("share")
    report.table("layers", shares, "Shares of workload energy")
    if figures:
        from pypsa_aidc.plots.envelope import plot_boundary, plot_components

        report.figure("figure_01_load", ensemble.plot())
        report.figure("figure_03_boundary", plot_boundary(envelope))
        report.figure("figure_07_components", plot_components(envelope))
        report.figure("figure_12_layers", envelope.plot())
    _aggregation(statistics, central, report, seed, figures)
    if execution is not None:
        _scheduler(statistics, execution, central, report, figures)
    coverage = asdict(statistics.coverage)
    report.answer(trace=trace, mapping=mapping, coverage=coverage, read=statistics.audit.to_dict())


def _model(ratings: list[str]) -> fleet.PowerModel:
    """Power model with the ratings of the command line over those of the package."""
    faults = Faults("pypsa-aidc fleet")
    listed, other = dict(fleet.RATINGS), None
    for text in ratings:
        name, _, number = text.rpartition("=")
        watts = _number(number)
        faults.require(watts is not None and watts > 0, "--rating", text, "W above 0: A100=400, or 400")
        if watts is not None and name:
            listed[name] = watts
        else:
            faults.require(other is None, "--rating", text, "one rating for all accelerators that are not listed")
            other = watts
    faults.raise_any()
    return fleet.PowerModel(ratings=listed, other_rating=other)


def _gaps(texts: list[str]) -> list[tuple[float, float]]:
    """Pairs of start and end of the command line."""
    faults = Faults("pypsa-aidc fleet")
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


def _explain_idle(envelope: fleet.Envelope, report: Report) -> None:
    """Say where the facility's power goes if most of it is no workload."""
    valid = envelope.valid
    free, hosts = (
        float(envelope.data[name].sum("cluster").to_numpy()[valid].mean()) for name in ("unallocated", "host_idle")
    )
    workload, facility = (float(series.to_numpy()[valid].mean()) for series in (envelope.workload, envelope.facility))
    if free + hosts > workload:
        report.note(
            f"workload {workload:.4g} MW of facility {facility:.4g} MW: GPUs of the inventory that no job holds draw "
            f"{free:.4g} MW, CPU cores at rest {hosts:.4g} MW, times PUE {envelope.pue:g}. Is it the trace's inventory?"
        )


def _aggregation(
    statistics: fleet.Statistics, model: fleet.PowerModel, report: Report, seed: int, figures: bool
) -> None:
    """Tables and figures 2, 8 and 9, where the fleet has enough clusters of enough size."""
    try:
        scalings = {kind: fleet.fluctuation_scaling(statistics, kind, model=model, seed=seed) for kind in UNITS}
        attribution = fleet.attribution(statistics, model=model, seed=seed)
        composition = fleet.variability_by_training(statistics, model=model, seed=seed)
    except InputError as error:
        report.note(f"no aggregation diagnostics: {error}")
        return
    table = pd.DataFrame(
        {kind: (s.exponent, *s.interval, s.r_squared, len(s.units)) for kind, s in scalings.items()},
        index=["exponent", "p5", "p95", "r_squared", "units"],
    ).T
    report.table("scaling", table.rename_axis("units of"), "Fluctuation scaling σ ∝ μ^β")
    levels = {name: (s.median, *s.interval) for name, s in fleet.measure_synchrony(statistics, model).items()}
    frame = pd.DataFrame.from_dict(levels, orient="index", columns=["ratio", "p5", "p95"]).rename_axis("level")
    report.table("synchrony", frame, "Synchrony, median over parents")
    removed = pd.DataFrame({"ratio": attribution.ratios, "excess_removed": attribution.removed}).rename_axis("residual")
    report.table("attribution", removed, f"Synchrony of {len(attribution.clusters)} clusters of steady capacity")
    if figures:
        from pypsa_aidc.plots.aggregation import plot_attribution, plot_composition, plot_plateaus

        report.figure("figure_02_aggregation", plot_attribution(scalings, attribution, report.synthetic))
        report.figure("figure_08_composition", plot_composition(composition, report.synthetic))
        if len(attribution.plateaus):
            report.figure("figure_09_plateaus", plot_plateaus(attribution, report.synthetic))


def _scheduler(
    statistics: fleet.Statistics,
    execution: fleet.Execution,
    model: fleet.PowerModel,
    report: Report,
    figures: bool,
) -> None:
    """Tables and figures 10 and 11, from the day on which executions are joined completely."""
    spans = execution.matched
    power = fleet.span_power(spans, statistics, model)
    first = max(int(statistics.hours[0]), min(SCHEDULER_FROM, int(statistics.hours[-1])))
    hours = (first, int(statistics.hours[-1]) + 1)
    displacement = fleet.displacement(spans, power, hours, report.synthetic)
    backlog = fleet.backlog(spans, power, hours, synthetic=report.synthetic)
    figures_of = pd.DataFrame({"value": displacement.figures()}).rename_axis("quantity")
    report.table("displacement", figures_of, "What the scheduler displaced, MW and MWh")
    report.table("backlog", backlog.figures(), "Newly deferrable arrivals, MW")
    if figures:
        from pypsa_aidc.plots.aggregation import plot_displacement

        delays = fleet.delay_distribution(spans)
        report.figure("figure_10_displacement", plot_displacement(displacement, delays))
        report.figure("figure_11_backlog", backlog.plot())
