"""The verb `surface`: an envelope in, the surface K out, with the tables and figures of dependable power."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import pandas as pd
import typer

from pypsa_aidc import fleet
from pypsa_aidc.cli.fleet import PAPER, Report
from pypsa_aidc.cli.portfolio import LEAST_HOURS, PortfolioOption, named
from pypsa_aidc.cli.reply import DryRunOption, JsonOption, QuietOption, Reply
from pypsa_aidc.errors import Faults, InputError
from pypsa_aidc.fleet.studies.portfolio import ENUMERABLE
from pypsa_aidc.fleet.windows import DURATIONS, RELIABILITIES, check_grid


def surface_verb(
    envelope: Annotated[Path | None, typer.Argument(help="envelope.nc; the synthetic fleet if left out.")] = None,
    out: Annotated[Path, typer.Option(help="Folder for results.")] = Path("fleet-results"),
    portfolio: PortfolioOption = "all",
    boundary: Annotated[
        Literal["idle-retained", "attributed", "node-sleep"], typer.Option(help="What a pause takes off the load.")
    ] = "idle-retained",
    duration: Annotated[
        list[int] | None, typer.Option(help="Duration of a call, h, repeatable; 1, 2, 4, 8, 24 by default.")
    ] = None,
    reliability: Annotated[
        list[float] | None, typer.Option(help="Reliability, 0 … 1, repeatable; 0.5, 0.9, 0.95, 0.99 by default.")
    ] = None,
    q: Annotated[float, typer.Option(help="Fraction of eligible power that is really shed, 0 … 1.")] = 1.0,
    seed: Annotated[int, typer.Option(help="Seed of shifts and bootstraps.")] = 0,
    figures: Annotated[bool, typer.Option(help="Write figures.")] = True,
    dry_run: DryRunOption = False,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Measure dependable power: surface.nc, tables 2, 3 and 6, terms, and figures 4 and 13–16."""
    fleet_envelope = (
        fleet.Envelope.of(fleet.SyntheticFleet.generate().statistics)
        if envelope is None
        else fleet.Envelope.read(envelope)
    )
    report = Report(out, fleet_envelope.synthetic, Reply(as_json, quiet))
    names = fleet_envelope.portfolio(named(portfolio))
    common = {"portfolio": names, "boundary": boundary}
    grid_of = (sorted(set(duration or DURATIONS)), sorted(set(reliability or RELIABILITIES)))
    faults = Faults("pypsa-aidc surface")
    check_grid(faults, *grid_of)
    faults.raise_any()
    if dry_run:
        hours = fleet_envelope.data.sizes["hour"]
        report.reply.rehearsed({"envelope": envelope}, f"{hours} hours of {len(names)} clusters", out)
        return
    asked = {"envelope": envelope, "portfolio": names, "boundary": boundary, "q": q}
    surfaces = {
        method: fleet.Surface.of(fleet_envelope, *grid_of, q=q, method=method, **common)  # type: ignore[arg-type]
        for method in ("sup", "linear")
    }
    coverage = surfaces["sup"].data.attrs["coverage"]
    asked["coverage"] = coverage
    report.reply.show(f"hours used: {coverage}", highlight=False)
    surfaces["sup"].save(report.path("surface.nc"))
    for method, surface in surfaces.items():
        grid = pd.DataFrame(surface.K.to_pandas()).assign(windows=surface.data["windows"].to_series())
        grid.columns = [str(name) for name in grid.columns]
        report.table(f"surface_{method}", grid, f"K, MW, method {method}, q = {q:g}")
    # Terms, counterfactuals and figures have the grid of the paper.
    usual = fleet.Surface.of(fleet_envelope, q=q, **common)  # type: ignore[arg-type]
    if not usual.windows[4]:
        report.note("no window of 4 h: no counterfactuals, terms or tests")
        report.answer(**asked)
        return
    counterfactuals = fleet.counterfactuals(fleet_envelope, seed=seed, method="linear", **common)  # type: ignore[arg-type]
    required = pd.DataFrame(counterfactuals.required_share.to_pandas())
    required.columns = [str(name) for name in required.columns]
    report.table("required_share", required, f"Share that reproduces K, over the mean share (cf. Table 2 of {PAPER})")
    errors = counterfactuals.table()
    if len(counterfactuals.data.attrs["portfolio"]) == 1:
        errors = errors.drop(columns=[name for name in errors if str(name).startswith("independent")])
    report.table("scalar_errors", errors, f"K at 95 %, method linear, and ratios to it (cf. Table 3 of {PAPER})")
    stand_ins = fleet.representations(fleet_envelope, method="linear")
    report.table("representations", stand_ins, f"Representations, method linear (cf. Table 6 of {PAPER})")
    try:
        terms = fleet.Contract.of(fleet_envelope, 4, 0.95, q=q, **common)  # type: ignore[arg-type]
        report.table("terms", terms.to_frame(), "Terms of a four-hour product at 95 %, method sup")
    except InputError as error:
        # E.g. where all work is eligible, nothing is left that could absorb the rebound.
        report.note(f"no terms: {error}")
    eras = fleet.compare_eras(fleet_envelope, **common)  # type: ignore[arg-type]
    report.table("eras", eras, "Four-hour K at 95 % by era")
    tests = None
    if fleet_envelope.data.sizes["hour"] >= LEAST_HOURS:
        tests = [
            fleet.Backtest.of(fleet_envelope, normalised=kind, **common)  # type: ignore[arg-type]
            for kind in (False, True)
        ]
        report.table("backtest", tests[0].summary, "Rolling origin, absolute MW, target 95 %")
        report.table("backtest_normalised", tests[1].summary, "Rolling origin, normalised by mean, target 95 %")
    if figures:
        _figures(fleet_envelope, usual, counterfactuals, eras, tests, report, names, seed)
    report.answer(**asked)


def _figures(
    envelope: fleet.Envelope,
    surface: fleet.Surface,
    counterfactuals: fleet.Counterfactuals,
    eras: pd.DataFrame,
    tests: list[fleet.Backtest] | None,
    report: Report,
    names: tuple[str, ...],
    seed: int,
) -> None:
    """Figures 4 and 13–16."""
    from pypsa_aidc.plots import dependable

    count = len(names)
    portfolios = independent = None
    if count > 1:
        samples = None if count <= ENUMERABLE else 200
        portfolios = fleet.portfolios(envelope, portfolio=names, samples=samples, seed=seed)
        independent = fleet.independent_curve(portfolios, envelope, seed=seed)["firmness"]
    report.figure("figure_04_availability", dependable.plot_counterfactuals(counterfactuals, portfolios, independent))
    report.figure("figure_13_firmness", dependable.plot_eras(surface, eras))
    report.figure("figure_14_realised", dependable.plot_realised(surface))
    if tests is not None:
        report.figure("figure_15_backtest", dependable.plot_backtest(*tests))
    report.figure("figure_16_net_energy", dependable.plot_net_energy(synthetic=report.synthetic))
