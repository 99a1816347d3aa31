"""`pypsa-aidc report`: a solved network in, one file for a reader out."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any

import pandas as pd
import pypsa
import typer

from pypsa_aidc import fleet
from pypsa_aidc.cli.console import quiet_libraries, silenced_stdout
from pypsa_aidc.cli.dispatch import open_network
from pypsa_aidc.cli.headroom_table import open_headroom
from pypsa_aidc.cli.portfolio import LEAST_HOURS, PortfolioOption, named, peak_of
from pypsa_aidc.cli.reply import DryRunOption, JsonOption, QuietOption, Reply
from pypsa_aidc.errors import Faults
from pypsa_aidc.network import values as value_flexibility
from pypsa_aidc.report.attachments import Attachments
from pypsa_aidc.report.front import write_report


def report_verb(
    network: Annotated[Path, typer.Argument(help="netCDF file of a network solved with sites or fleets.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="File to write: .html, .xlsx or .pdf.")] = Path(
        "report.html"
    ),
    surface: Annotated[Path | None, typer.Option(help="surface.nc, to show K.")] = None,
    envelope: Annotated[
        Path | None, typer.Option(help="envelope.nc, for a contract, and for K where no surface is given.")
    ] = None,
    portfolio: PortfolioOption = "all",
    duration: Annotated[int, typer.Option(help="Hours of a call of the contract.", min=1)] = 4,
    reliability: Annotated[float, typer.Option(help="Reliability of a call of the contract, 0 … 1.")] = 0.95,
    q: Annotated[float, typer.Option(help="Fraction of eligible power that is really shed, 0 … 1.")] = 1.0,
    headroom: Annotated[
        Path | None, typer.Option(help="headroom.nc of the verb headroom, or a CSV: bus, headroom (MW) and others.")
    ] = None,
    values: Annotated[
        bool, typer.Option("--values", help="Solve again, to value GPUs, connection and waiting.")
    ] = False,
    gap: Annotated[float, typer.Option(help="Relative MIP gap of those solves.", min=0.0)] = 1e-6,
    time_limit: Annotated[float, typer.Option(help="Seconds for each of those solves.", min=0.0)] = 60.0,
    exclusive: Annotated[
        list[str] | None,
        typer.Option(help="Storage that must not charge and discharge at once, repeatable; as in the solve."),
    ] = None,
    title: Annotated[str, typer.Option(help="Title; the name of the network if left out.")] = "",
    dry_run: DryRunOption = False,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Write a report on a solved network: one self-contained file, as web page, workbook or PDF."""
    quiet_libraries()
    reply = Reply(as_json, quiet, width=None)
    n = open_network(network, "pypsa-aidc report", sites_only=False)
    given = [path for path in (network, surface, envelope, headroom) if path is not None]
    fleet_envelope = None if envelope is None else fleet.Envelope.read(envelope)
    shown = None if surface is None else fleet.Surface.read(surface)
    terms = peak = tested = None
    faults = Faults("pypsa-aidc report")
    faults.require(portfolio == "all" or envelope is not None, "--portfolio", portfolio, "nothing without --envelope")
    faults.raise_any()
    if fleet_envelope is not None:
        clusters = fleet_envelope.portfolio(named(portfolio))
        shown = shown or fleet.Surface.of(fleet_envelope, q=q, portfolio=clusters)
        terms = fleet.Contract.of(fleet_envelope, duration, reliability, q=q, portfolio=clusters)
        peak = peak_of(fleet_envelope, clusters)
        if not dry_run and fleet_envelope.data.sizes["hour"] >= LEAST_HOURS:
            tested = fleet.Backtest.of(fleet_envelope, (duration,), reliability, portfolio=clusters).summary
    table = None if headroom is None else open_headroom(headroom, n)
    storages = exclusive or []
    if dry_run:
        reply.rehearsed({"network": network}, f"a report on {', '.join([*n.aidc.sites, *n.aidc.fleets])}", out)
        return
    worth = _worth(n, storages, gap, time_limit) if values else None
    sources = {f"file {path.name}": _digest(path) for path in given}
    attached = Attachments(shown, terms, table, worth, sources, peak=peak, backtest=tested)
    document = write_report(n, out, attached, tuple(storages), title)
    reply.show(f"wrote {out}", highlight=False)
    loads = bool(n.aidc.fleets)
    tables = {
        "jobs": n.aidc.jobs,
        "schedule": n.aidc.schedule() if n.aidc.sites else None,
        **({"fleets": n.aidc.fleet_sizes(), "calls": n.aidc.calls(), "limits": n.aidc.fleet_limits()} if loads else {}),
        "terms": None if terms is None else terms.to_frame(),
        "backtest": tested,
        "headroom": None if table is None else table.to_frame(),
        "values": worth,
    }
    given_tables = {name: frame for name, frame in tables.items() if frame is not None}
    reply.answer({"network": network, "status": n.aidc.status, "fleet_peak": peak}, given_tables, document.notes, [out])


def _digest(path: Path) -> str:
    """SHA-256 of a file, or of the files of a CSV folder in the order of their names."""
    files = sorted(path.iterdir()) if path.is_dir() else [path]
    return f"SHA-256 {sha256(b''.join(file.read_bytes() for file in files if file.is_file())).hexdigest()}"


def _worth(n: pypsa.Network, storages: list[str], gap: float, time_limit: float) -> pd.DataFrame:
    options: dict[str, Any] = {"mip_rel_gap": gap, "time_limit": time_limit, "output_flag": False}
    with silenced_stdout():
        return value_flexibility(n, exclusive=storages, **options)
