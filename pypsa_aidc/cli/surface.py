"""The verb `surface`: an envelope in, the surface K out, with the tables and figures of dependable power."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from pypsa_aidc import fleet as fleets
from pypsa_aidc.cli.contract import LEAST_HOURS, PortfolioOption, named
from pypsa_aidc.cli.fleet import PAPER
from pypsa_aidc.cli.reply import Reply
from pypsa_aidc.cli.series import stamped_series
from pypsa_aidc.cli.verb import DryRunOption
from pypsa_aidc.errors import InputError

if TYPE_CHECKING:
    import pandas as pd


def surface(
    reply: Reply,
    envelope: Annotated[Path | None, typer.Argument(help="envelope.nc; the synthetic fleet if left out.")] = None,
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for results.")] = Path("fleet-results"),
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
    derating: Annotated[
        str, typer.Option(help="Factor on K of the terms, in (0, 1], or measured: that of the rolling origin.")
    ] = "1",
    when: Annotated[
        str | None,
        typer.Option(
            help="Windows that count: weekday-evenings (17–20 h of --zone), or peaks:FILE (highest 5 % of a CSV of "
            "stamps and values).",
            show_default=False,
        ),
    ] = None,
    zone: Annotated[
        str | None,
        typer.Option(
            help="Zone of weekday-evenings (UTC by default), or of stamps of peaks that name none: America/Chicago.",
            show_default=False,
        ),
    ] = None,
    notice: Annotated[
        float | None,
        typer.Option(help="h from the announcement of a call to its start, for the terms; one that fleet was given."),
    ] = None,
    response: Annotated[
        float | None, typer.Option(help="h that a stop takes, at most the notice; for the terms.")
    ] = None,
    lowest: Annotated[
        bool, typer.Option("--lowest", help="Lowest sample of each hour instead of its mean, for telemetry.")
    ] = False,
    q: Annotated[float, typer.Option(help="Fraction of eligible power that is really shed, 0 … 1.")] = 1.0,
    seed: Annotated[int, typer.Option(help="Seed of shifts and bootstraps.")] = 0,
    figures: Annotated[bool, typer.Option(help="Write figures.")] = True,
    dry_run: DryRunOption = False,
) -> None:
    """Measure dependable power: surface.nc, tables 2, 3 and 6, terms, and figures 4 and 13–16."""
    from pypsa_aidc.fleet.windows import DURATIONS, RELIABILITIES, check_grid

    load = (
        fleets.Envelope.of(fleets.SyntheticFleet.generate().statistics)
        if envelope is None
        else fleets.Envelope.read(envelope)
    )
    load = load.at_lowest() if lowest else load
    reply.synthetic = load.synthetic
    names = load.portfolio(named(portfolio))
    common: dict[str, Any] = {"portfolio": names, "boundary": boundary}
    condition = _condition(reply, load, when, zone)
    if notice is not None:
        load.lasting(notice, 4)  # Refuses what the trace was not read for.
    factor = _derating(reply, derating)
    grid_of = (sorted(set(duration or DURATIONS)), sorted(set(reliability or RELIABILITIES)))
    faults = reply.faults
    check_grid(faults, *grid_of)
    faults.raise_any()
    if dry_run:
        hours = load.data.sizes["hour"]
        reply.rehearsed({"envelope": envelope}, f"{hours} hours of {len(names)} clusters", out)
        return
    with reply.into(out):
        terms = {"q": q, "derating": factor, "notice": notice, "response": response, "condition": condition}
        coverage = _measure(load, *grid_of, q, seed, common, reply, figures, terms)
    asked = {"envelope": envelope, "portfolio": names, "boundary": boundary, "q": q}
    reply.answer(**asked, coverage=coverage, synthetic=reply.synthetic)


def _measure(
    load: fleets.Envelope,
    durations: Sequence[int],
    reliabilities: Sequence[float],
    q: float,
    seed: int,
    common: dict[str, Any],
    reply: Reply,
    figures: bool,
    asked: dict[str, Any],
) -> str:
    """Write surface, tables and figures, and return which hours were used."""
    import pandas as pd

    condition = asked["condition"]
    surfaces = {
        method: fleets.Surface.of(load, durations, reliabilities, q=q, method=method, condition=condition, **common)
        for method in ("sup", "linear")
    }
    coverage = str(surfaces["sup"].data.attrs["coverage"])
    reply.line(f"hours used: {coverage}")
    surfaces["sup"].save(reply.file("surface.nc"))
    for method, surface in surfaces.items():
        grid = pd.DataFrame(surface.K.where(surface.told).to_pandas())
        grid = grid.assign(windows=surface.data["windows"].to_series())
        grid.columns = [str(name) for name in grid.columns]
        reply.keep(f"surface_{method}", grid, f"K before derating, MW, method {method}, q = {q:g}")
    if not surfaces["sup"].told.all():
        reply.note(f"K is left out where fewer windows count than say anything about a reliability: {condition!r}")
    # Terms, counterfactuals and figures have the grid of the paper.
    usual = fleets.Surface.of(load, q=q, **common)
    if not usual.windows[4]:
        reply.note("no window of 4 h: no counterfactuals, terms or tests")
        return coverage
    counterfactuals = fleets.counterfactuals(load, seed=seed, method="linear", **common)
    required = pd.DataFrame(counterfactuals.required_share.to_pandas())
    required.columns = [str(name) for name in required.columns]
    reply.keep("required_share", required, f"Share that reproduces K, over the mean share (cf. Table 2 of {PAPER})")
    errors = counterfactuals.table()
    if len(counterfactuals.data.attrs["portfolio"]) == 1:
        errors = errors.drop(columns=[name for name in errors if str(name).startswith("independent")])
    reply.keep("scalar_errors", errors, f"K at 95 %, method linear, and ratios to it (cf. Table 3 of {PAPER})")
    stand_ins = fleets.representations(load, method="linear")
    reply.keep("representations", stand_ins, f"Representations, method linear (cf. Table 6 of {PAPER})")
    try:
        terms = fleets.Contract.of(load, 4, 0.95, **asked, **common)
        reply.keep("terms", terms.to_frame(), "Terms of a four-hour product at 95 %, method sup")
        fleets.TermSheet.of(terms, str(load.data.attrs["source"])).write(reply.file("terms.json"))
    except InputError as error:
        # E.g. where all work is eligible, nothing is left that could absorb the rebound.
        reply.note(f"no terms: {error}")
    eras = fleets.compare_eras(load, **common)
    reply.keep("eras", eras, "Four-hour K at 95 % by era")
    tests = None
    if load.data.sizes["hour"] >= LEAST_HOURS:
        tests = [fleets.Backtest.of(load, normalised=kind, **common) for kind in (False, True)]
        reply.keep("backtest", tests[0].summary, "Rolling origin, absolute MW, target 95 %")
        measured = tests[0].derating
        derated = pd.DataFrame({"K": [usual.at(h, 0.95) for h in measured.index], "derating": measured})
        derated["derated K"] = derated["K"] * derated["derating"]
        reply.keep("derated", derated, f"K at 95 % of all windows, MW, and times the measured derating, q = {q:g}")
        reply.keep("backtest_normalised", tests[1].summary, "Rolling origin, normalised by mean, target 95 %")
    if figures:
        _figures(load, usual, counterfactuals, eras, tests, reply, common["portfolio"], seed)
    return coverage


def _condition(reply: Reply, load: fleets.Envelope, when: str | None, zone: str | None) -> fleets.Condition | None:
    """Windows that count, from the command line."""
    faults = reply.faults
    if when is None:
        faults.require(zone is None, "--zone", zone, "none without --when")
        faults.raise_any()
        return None
    kind, _, path = when.partition(":")
    if when == "weekday-evenings":
        remedy = "Its trace has hours without stamps: in Python, give a Condition of your own."
        faults.require(bool(load.origin), "--when", when, "an envelope with a calendar", remedy)
        faults.raise_any()
        return fleets.Condition(start_hours=range(17, 20), weekdays=range(5), zone=zone or "UTC")
    faults.require(kind == "peaks" and bool(path), "--when", when, "weekday-evenings, or peaks:FILE")
    faults.raise_any()
    series = stamped_series(faults, "--when", path, zone)
    return fleets.Condition.peaks(series, load.data["hour"].to_numpy(), load.origin)


def _derating(reply: Reply, text: str) -> float | Literal["measured"]:
    faults = reply.faults
    if text == "measured":
        return "measured"
    try:
        return float(text)
    except ValueError:
        faults.add("--derating", text, "a factor in (0, 1], or measured")
        faults.raise_any()
        raise


def _figures(
    envelope: fleets.Envelope,
    surface: fleets.Surface,
    counterfactuals: fleets.Counterfactuals,
    eras: pd.DataFrame,
    tests: list[fleets.Backtest] | None,
    reply: Reply,
    names: tuple[str, ...],
    seed: int,
) -> None:
    """Figures 4 and 13–16."""
    from pypsa_aidc.fleet.studies.portfolio import ENUMERABLE

    count = len(names)
    portfolios = independent = None
    if count > 1:
        samples = None if count <= ENUMERABLE else 200
        portfolios = fleets.portfolios(envelope, portfolio=names, samples=samples, seed=seed)
        independent = fleets.independent_curve(portfolios, envelope, seed=seed)["firmness"]
    from pypsa_aidc.plots import dependable

    reply.figure("figure_04_availability", dependable.plot_counterfactuals(counterfactuals, portfolios, independent))
    reply.figure("figure_13_firmness", dependable.plot_eras(surface, eras))
    reply.figure("figure_14_realised", dependable.plot_realised(surface))
    if tests is not None:
        reply.figure("figure_15_backtest", dependable.plot_backtest(*tests))
    reply.figure("figure_16_net_energy", dependable.plot_net_energy(synthetic=reply.synthetic))
