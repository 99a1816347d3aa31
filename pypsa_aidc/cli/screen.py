"""The verb `screen`: how much of a fleet's load fits under a regional peak cap, and what limits it."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from pypsa_aidc import fleet as fleets
from pypsa_aidc import headroom as headrooms
from pypsa_aidc import network as networks
from pypsa_aidc.cli.bundled import bundled_network, published
from pypsa_aidc.cli.reply import Reply
from pypsa_aidc.cli.verb import DryRunOption
from pypsa_aidc.errors import UnitWarning

if TYPE_CHECKING:
    import pandas as pd
    from rich.table import Table

BUNDLED = "miso_south"
MARGIN, BUDGET = 0.05, 0.005
"""The case that [2], arXiv 2609.05406, prints in its text."""
MARGINS, BUDGETS = (0.0, 0.02, MARGIN, 0.1), (0.0025, BUDGET, 0.01, 0.015, 0.02)
"""All its cases."""
RECOVERY = 4
OFFSETS = {"random": "random", "day": "aligned", "week": "aligned", "all": "all"}
STEPS = {"day": 24, "week": 168}
_CASES = ["profile", "margin", "budget", "headroom", "p5", "p95", "events", "hours", "longest", "limiter", "touched"]


def screen(
    reply: Reply,
    demand: Annotated[
        Path | None,
        typer.Argument(
            help="Hourly demand: a file of EIA-930, two columns, or a PyPSA network; MISO South if left out."
        ),
    ] = None,
    envelope: Annotated[Path | None, typer.Option(help="envelope.nc; the synthetic fleet if left out.")] = None,
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for results.")] = Path("screen-results"),
    margin: Annotated[
        list[float] | None,
        typer.Option(
            help="Margin of the cap over peak demand, a share; repeatable, the first is that of the table. "
            "The paper's 0.05, and 0, 0.02, 0.1."
        ),
    ] = None,
    budget: Annotated[
        list[float] | None,
        typer.Option(
            help="Share of hours that may be called; repeatable, the first is that of the table. "
            "The paper's 0.005, and others from 0.0025 to 0.02."
        ),
    ] = None,
    period: Annotated[Literal["whole", "year"], typer.Option(help="What a budget is a share of.")] = "whole",
    offsets: Annotated[
        Literal["random", "day", "week", "all"], typer.Option(help="Alignments of the load to the demand.")
    ] = "random",
    seed: Annotated[int | None, typer.Option(help="Seed of random alignments; 6.")] = None,
    region: Annotated[str | None, typer.Option(help="Region in a demand file, e.g. 8910.")] = None,
    column: Annotated[str | None, typer.Option(help="Column of a demand file: raw, imputed, adjusted.")] = None,
    stamps: Annotated[
        Literal["ending", "beginning"] | None,
        typer.Option(help="Of two columns: which end of its hour a stamp marks; ending.", show_default=False),
    ] = None,
    timezone: Annotated[
        str | None, typer.Option(help="Of two columns: time zone of stamps that state none; UTC.")
    ] = None,
    calendar: Annotated[
        str | None, typer.Option(help="Time zone in which days and years start; of a file, UTC.")
    ] = None,
    gaps: Annotated[
        Literal["raise", "interpolate", "drop"], typer.Option(help="What to do with missing hours of demand.")
    ] = "raise",
    limit: Annotated[int, typer.Option(help="Longest gap that is interpolated, h.")] = 24,
    q: Annotated[float, typer.Option(help="Fraction of eligible power that is really shed, 0 … 1.")] = 1.0,
    tier: Annotated[float, typer.Option(help="Share of the load that the constant tier sheds, 0 … 1.")] = 0.2,
    reliability: Annotated[float, typer.Option(help="Reliability of calls limited by K.")] = 0.95,
    calls: Annotated[bool, typer.Option(help="Also screen calls limited by K; for whole periods.")] = True,
    figures: Annotated[bool, typer.Option(help="Write figures.")] = True,
    dry_run: DryRunOption = False,
) -> None:
    """Screen a fleet's load under a regional peak cap: headroom, what limits it, figures 17 and 18.

    For the bundled demand and the synthetic fleet the paper's numbers stand beside ours.
    """
    faults = reply.faults
    faults.require(seed is None or offsets == "random", "--seed", seed, "nothing: only random offsets are drawn")
    faults.require(demand is None or demand.exists(), "demand", str(demand), "an existing file")
    for value in margin or ():
        below = f"The cap would be {-100 * value:g} % below a peak that is there without any site: nothing fits."
        faults.number("--margin", value, at_least=0, remedy=below if value < 0 else "")
    faults.raise_any()
    margins, budgets = sorted(margin or MARGINS), sorted(budget or BUDGETS)
    first = (margin[0] if margin else MARGIN, budget[0] if budget else BUDGET)
    usual = headrooms.Offsets()
    alignments = headrooms.Offsets(
        OFFSETS[offsets],  # type: ignore[arg-type]
        seed=usual.seed if seed is None else seed,
        step=STEPS.get(offsets, usual.step),
    )
    with _noted(reply):
        options = {"region": region, "column": column, "stamps": stamps, "timezone": timezone}
        tidy = _demand(reply, demand, options, calendar, gaps, limit)
    made = (
        fleets.Envelope.of(fleets.SyntheticFleet.generate().statistics)
        if envelope is None
        else fleets.Envelope.read(envelope)
    )
    shapes = headrooms.profiles(made, q=q, tier=tier)
    reply.synthetic = made.synthetic
    reply.line(f"{tidy}\n{tidy.source}, column '{tidy.column}'")
    open_options = {"--stamps": stamps, "--timezone": timezone}
    tell_demand(tidy, reply, [name for name, value in open_options.items() if value is None])
    if dry_run:
        what = f"{len(shapes)} representations at {len(margins) * len(budgets)} caps and budgets, {alignments}"
        reply.rehearsed({"demand": demand or BUNDLED, "envelope": envelope}, what, out)
        return
    published_case = (*first, period, q, tier) == (MARGIN, BUDGET, "whole", 1.0, 0.2)
    paper = published(BUNDLED, "profile") if demand is None and envelope is None and published_case else None
    title = f"Headroom, MW: margin {100 * first[0]:g} %, budget {100 * first[1]:g} % of hours ({period}); {alignments}"
    if len(margins) * len(budgets) > 1:
        title += f"; one of {len(margins) * len(budgets)} cases, the others are in {reply.name('cases.csv')}"
    with reply.into(out):
        with _noted(reply):
            found = headrooms.screen_region(
                tidy, shapes, period=period, margin=margins, budget=budgets, offsets=alignments
            )
            limited = None
            if calls and period == "whole":
                surface = fleets.Surface.of(made, q=q)
                depths = headrooms.call_depths(surface, reliability, float(made.peak().mean()))
                limited = headrooms.screen_calls(
                    tidy, shapes[0], depths, margin=first[0], budget=first[1], recovery=RECOVERY, offsets=alignments
                )
        if calls and period != "whole":
            _note(reply, "calls limited by K are left out: they are screened over the whole period only")
        summary = found.summary()
        table = _headroom(summary[(summary["margin"] == first[0]) & (summary["budget"] == first[1])], limited, paper)
        reply.show(_shown(table, reply.title(title)))
        reply.keep("headroom", table)
        reply.keep("cases", summary[_CASES])
        reply.tables["demand_audit"] = tidy.audit
        tidy.audit.to_csv(reply.file("demand_audit.csv"), index=False)
        found.save(reply.file("screen.nc"))
        if figures:
            from pypsa_aidc.plots.screen import plot_ratios, plot_screen

            crosses = {} if paper is None else {str(name): float(mw) for name, mw in paper["headroom"].dropna().items()}
            reply.figure("figure_17_headroom", plot_screen(found, first[1], crosses))
            reply.figure("figure_18_ratios", plot_ratios(found))
    asked = {"demand": demand or BUNDLED, "source": tidy.source, "stamps": tidy.stamps, "column": tidy.column}
    case = {"case": title, "margin": first[0], "budget": first[1], "synthetic": reply.synthetic}
    reply.answer(**asked, envelope=envelope, **case)


def _demand(
    reply: Reply, path: Path | None, options: dict[str, Any], calendar: str | None, gaps: str, limit: int
) -> headrooms.Demand:
    """Read and clean; a network says by itself what its demand is."""
    from pypsa_aidc.network.files.exchange import is_network

    if path is None or is_network(path):
        faults = reply.faults
        what = "the bundled demand of MISO South" if path is None else "a network"
        for name, value in options.items():
            faults.require(value is None, f"--{name}", value, f"nothing: {what} has no regions, columns or stamps")
        faults.raise_any()
        found = headrooms.network_demand(networks.load(path or bundled_network(BUNDLED)))
        found = found if calendar is None else replace(found, calendar=calendar)
    else:
        found = headrooms.read_demand(path, calendar=calendar or "UTC", **options)
    return headrooms.clean(found, gaps=gaps, limit=limit)  # type: ignore[arg-type]


def tell_demand(tidy: headrooms.Demand, reply: Reply, assumed: list[str]) -> None:
    """Say how hours were read, and which of them were cleaned."""
    if tidy.stamps:
        text = f"stamps: {tidy.stamps}; the first hour starts {tidy.hours[0]:%Y-%m-%d %H:%M} UTC"
        if assumed and tidy.source.startswith("two-column"):
            reply.note(f"{text} (assumed; {' and '.join(assumed)} say otherwise)", style="")
        else:
            reply.line(text)
    counts = tidy.audit.groupby(["rule", "action"], sort=False).size().reset_index(name="hours")
    for row in counts.to_dict("records"):
        reply.line(f"cleaned: {row['hours']} h {row['rule']}, {row['action']}")


def _note(reply: Reply, text: str) -> None:
    reply.note(text, style="yellow", shown=f"note: {text}")


@contextmanager
def _noted(reply: Reply) -> Iterator[None]:
    """Turn warnings into notes, each once."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    ours = [warning for warning in caught if issubclass(warning.category, headrooms.DemandWarning | UnitWarning)]
    for text in dict.fromkeys(str(warning.message) for warning in ours):
        _note(reply, text)


def _headroom(case: pd.DataFrame, limited: headrooms.Screen | None, paper: pd.DataFrame | None) -> pd.DataFrame:
    """One row for each representation, with the published values where there are any."""
    import pandas as pd

    parts = [case, *([] if limited is None else [limited.summary()])]
    table = pd.concat(parts, ignore_index=True)
    if paper is None:
        return table
    beside = paper.reindex(table["profile"]).reset_index(drop=True)
    table["deviation"] = table["headroom"] / beside["headroom"] - 1
    return table.join(beside.add_suffix("_paper"))


def _shown(table: pd.DataFrame, title: str) -> Table:
    from rich import box
    from rich.table import Table

    shown = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    shown.add_column("", no_wrap=True)
    for name in ("headroom", "P5–P95", "events", "hours", "longest"):
        shown.add_column(name, justify="right", no_wrap=True)
    shown.add_column("limited by", no_wrap=True)
    for row in table.to_dict("records"):
        counts = [_counts(row, name) for name in ("events", "hours", "longest")]
        shown.add_row(row["profile"], f"{row['headroom']:.1f}", _span(row["p5"], row["p95"]), *counts, row["limiter"])
        if not _missing(row.get("headroom_paper")):
            counts = [_counts(row, name, "_paper") for name in ("events", "hours", "longest")]
            band = _span(row["p5_paper"], row["p95_paper"])
            deviation = f"paper, ours {100 * row['deviation']:+.2f} %"
            shown.add_row(" \\[2]", f"{row['headroom_paper']:.0f}", band, *counts, deviation, style="dim")
    return shown


def _span(low: float, high: float) -> str:
    return "" if _missing(low) else f"{low:.0f}–{high:.0f}"


def _counts(row: dict[Any, Any], name: str, suffix: str = "") -> str:
    span = _span(row[f"{name}_p5{suffix}"], row[f"{name}_p95{suffix}"])
    return f"{row[f'{name}{suffix}']:g} ({span})" if span else ""


def _missing(value: float | None) -> bool:
    return value is None or math.isnan(value)
