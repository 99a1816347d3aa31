"""`pypsa-aidc report`: a solved network in, one file for a reader out."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path
from typing import Annotated

import typer

from pypsa_aidc import fleet as fleets
from pypsa_aidc.cli.contract import DURATION, LEAST_HOURS, RELIABILITY, PortfolioOption, contract_of
from pypsa_aidc.cli.dispatch import open_network
from pypsa_aidc.cli.reply import Reply, silenced_stdout
from pypsa_aidc.cli.verb import DryRunOption


def report(
    reply: Reply,
    network: Annotated[Path, typer.Argument(help="netCDF file of a network solved with sites or fleets.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="File to write: .html, .xlsx or .pdf.")] = Path(
        "report.html"
    ),
    surface: Annotated[Path | None, typer.Option(help="surface.nc, to show K.")] = None,
    envelope: Annotated[
        Path | None, typer.Option(help="envelope.nc, for a contract, and for K where no surface is given.")
    ] = None,
    portfolio: PortfolioOption = "all",
    duration: Annotated[int | None, typer.Option(help=f"Hours of a call of the contract; {DURATION}.", min=1)] = None,
    reliability: Annotated[
        float | None, typer.Option(help=f"Reliability of a call of the contract, 0 … 1; {RELIABILITY:g}.")
    ] = None,
    q: Annotated[float | None, typer.Option(help="Fraction of eligible power that is really shed, 0 … 1; 1.")] = None,
    headroom: Annotated[
        Path | None, typer.Option(help="headroom.nc of the verb headroom, or a CSV: bus, headroom (MW) and others.")
    ] = None,
    values: Annotated[
        bool, typer.Option("--values", help="Solve again, to value GPUs, connection and waiting.")
    ] = False,
    gap: Annotated[float | None, typer.Option(help="Relative MIP gap of those solves; 1e-6.", min=0.0)] = None,
    time_limit: Annotated[float | None, typer.Option(help="Seconds for each of those solves; 60.", min=0.0)] = None,
    exclusive: Annotated[
        list[str] | None,
        typer.Option(help="Storage that must not charge and discharge at once, repeatable; as in the solve."),
    ] = None,
    title: Annotated[str, typer.Option(help="Title; the name of the network if left out.")] = "",
    dry_run: DryRunOption = False,
) -> None:
    """Write a report on a solved network: one self-contained file, as web page, workbook or PDF."""
    from pypsa_aidc.cli.headroom_table import open_headroom
    from pypsa_aidc.report.attachments import Attachments
    from pypsa_aidc.report.front import write_report

    faults = reply.faults
    faults.require(portfolio == "all" or envelope is not None, "--portfolio", portfolio, "nothing without --envelope")
    for name, value in {"--duration": duration, "--reliability": reliability, "--q": q}.items():
        faults.require(value is None or envelope is not None, name, value, "nothing without --envelope")
    for name, value in {"--gap": gap, "--time-limit": time_limit}.items():
        faults.require(value is None or values, name, value, "nothing without --values")
    n = open_network(network, faults, sites_only=False)
    given = [path for path in (network, surface, envelope, headroom) if path is not None]
    shown = None if surface is None else fleets.Surface.read(surface)
    terms = peak = tested = worth = None
    if envelope is not None:
        load, terms, peak = contract_of(envelope, portfolio, duration, reliability, q)
        clusters = terms.portfolio
        shown = shown or fleets.Surface.of(load, q=1.0 if q is None else q, portfolio=clusters)
        if not dry_run and load.data.sizes["hour"] >= LEAST_HOURS:
            tested = fleets.Backtest.of(load, (terms.duration,), terms.reliability, portfolio=clusters).summary
    table = None if headroom is None else open_headroom(headroom, n)
    storages = tuple(exclusive or ())
    if dry_run:
        reply.rehearsed({"network": network}, f"a report on {', '.join([*n.aidc.sites, *n.aidc.fleets])}", out)
        return
    with reply.into(out, folder=False):
        if values:
            stop = {
                "mip_rel_gap": 1e-6 if gap is None else gap,
                "time_limit": 60.0 if time_limit is None else time_limit,
            }
            with silenced_stdout(reply.verbose):
                worth = n.aidc.values(exclusive=storages, **stop, **reply.solver)
        sources = {f"file {path.name}": _digest(path) for path in given}
        attached = Attachments(shown, terms, table, worth, sources, peak=peak, backtest=tested)
        document = write_report(n, reply.file(out.name), attached, storages, title)
    tables = {
        "jobs": n.aidc.jobs,
        "schedule": n.aidc.schedule() if n.aidc.sites else None,
        **(
            {"fleets": n.aidc.fleet_sizes(), "calls": n.aidc.calls(), "limits": n.aidc.fleet_limits()}
            if n.aidc.fleets
            else {}
        ),
        "terms": None if terms is None else terms.to_frame(),
        "backtest": tested,
        "headroom": None if table is None else table.to_frame(),
        "values": worth,
    }
    reply.tables |= {name: frame for name, frame in tables.items() if frame is not None}
    reply.notes.extend(document.notes)
    reply.answer(network=network, status=n.aidc.status, fleet_peak=peak)


def _digest(path: Path) -> str:
    """SHA-256 of a file, or of the files of a CSV folder in the order of their names."""
    files = sorted(path.iterdir()) if path.is_dir() else [path]
    return f"SHA-256 {sha256(b''.join(file.read_bytes() for file in files if file.is_file())).hexdigest()}"
