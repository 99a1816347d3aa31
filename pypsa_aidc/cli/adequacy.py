"""`pypsa-aidc adequacy`: whether there are units enough, with and without an AI data center and its relief."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from pypsa_aidc import headroom as headrooms
from pypsa_aidc import network as networks
from pypsa_aidc.cli.contract import RELIABILITY, PortfolioOption, relief_of
from pypsa_aidc.cli.reply import Reply
from pypsa_aidc.cli.screen import tell_demand
from pypsa_aidc.cli.verb import DryRunOption
from pypsa_aidc.errors import Faults

if TYPE_CHECKING:
    import pandas as pd


def adequacy(
    reply: Reply,
    demand: Annotated[
        Path,
        typer.Argument(help="A PyPSA network, for its demand, units and transfer; or hourly demand as for screen."),
    ],
    units: Annotated[
        Path,
        typer.Option(
            help="CSV of units by name, with p_nom (MW) and mttf and mttr (h), or forced_outage_rate and mttr; of a "
            "network these rates alone, by generator or carrier."
        ),
    ],
    zones: Annotated[
        Path | None, typer.Option(help="Of a network: CSV of buses and their zones; one zone if left out.")
    ] = None,
    load: Annotated[float, typer.Option(help="MW that the AI data center draws in each hour.", min=0.0)] = 0.0,
    zone: Annotated[str | None, typer.Option(help="Its zone, where there are several.")] = None,
    surface: Annotated[
        Path | None, typer.Option(help="surface.nc: relief by duration, up to K over --peak per MW of load.")
    ] = None,
    envelope: Annotated[
        Path | None, typer.Option(help="envelope.nc, for a contract: relief in calls, up to its offer over --peak.")
    ] = None,
    portfolio: PortfolioOption = "all",
    duration: Annotated[int | None, typer.Option(help="Hours of a call of the contract; 4.", min=1)] = None,
    reliability: Annotated[float | None, typer.Option(help="Reliability of a call, 0 … 1; 0.95.")] = None,
    q: Annotated[
        float | None, typer.Option(help="Of a contract: fraction of eligible power that is really shed, 0 … 1; 1.")
    ] = None,
    peak: Annotated[
        float | None, typer.Option(help="MW at the meter of the fleet whose K it is; the highest of its portfolio.")
    ] = None,
    resource: Annotated[float, typer.Option(help="MW behind the meter that always help.", min=0.0)] = 0.0,
    mttr: Annotated[float | None, typer.Option(help="Hours of a repair of units that say only their rate.")] = None,
    trials: Annotated[int, typer.Option(help="How many times the hours are drawn.", min=2)] = 1000,
    seed: Annotated[int, typer.Option(help="Of the draw.", min=0)] = 0,
    region: Annotated[str | None, typer.Option(help="Region in a demand file, e.g. 8910.")] = None,
    column: Annotated[
        Literal["raw", "imputed", "adjusted"] | None, typer.Option(help="Column of a demand file.", show_default=False)
    ] = None,
    stamps: Annotated[
        Literal["ending", "beginning"] | None,
        typer.Option(help="Of two columns: which end of its hour a stamp marks; ending.", show_default=False),
    ] = None,
    timezone: Annotated[
        str | None, typer.Option(help="Of two columns: time zone of stamps that state none; UTC.")
    ] = None,
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for the tables.")] = Path("adequacy"),
    dry_run: DryRunOption = False,
) -> None:
    """Count energy and hours not served, with forced outages drawn hour by hour, and what relief is worth (ELCC).

    Prints and writes adequacy.csv: EUE, LOLH and LOLE without the load, with it, and with it and its relief, each with
    its standard error; risk.csv, how likely load is lost in each hour; and cuts.csv, for how many hours and MWh
    the load would be cut for capacity alone, and what it would deliver of them.
    """
    from pypsa_aidc.network.files.exchange import is_network

    faults = reply.faults
    of_network = is_network(demand)
    rates = _table(units, "--units", faults)
    buses = None if zones is None else _table(zones, "--zones", faults)
    layout: dict[str, Any] = {"region": region, "column": column, "stamps": stamps, "timezone": timezone}
    nothing = "nothing: a network has no regions, columns or stamps"
    for name, value in layout.items():
        faults.require(not of_network or value is None, f"--{name}", value, nothing)
    faults.require(of_network or zones is None, "--zones", str(zones), "nothing without a network")
    paired = buses is None or len(buses.columns) == 1
    faults.require(paired, "--zones", str(zones), "a CSV of two columns, bus and zone")
    contract, largest = relief_of(faults, surface, envelope, portfolio, duration, reliability, q, peak)
    options: dict[str, Any] = {"zone": zone, "contract": contract, "peak": largest, "resource": resource, "mttr": mttr}
    options["reliability"] = RELIABILITY if reliability is None else reliability
    if of_network:
        read = headrooms.network_zones(networks.load(demand), rates, None if buses is None else buses.iloc[:, 0])
        drawn, rates = read.demand, read.units
        options |= {"available": read.available, "transfer": read.transfer}
        for note in read.notes:
            reply.note(note)
    else:
        tidy = headrooms.clean(headrooms.read_demand(demand, **layout))
        tell_demand(tidy, reply, [f"--{name}" for name in ("stamps", "timezone") if layout[name] is None])
        drawn = tidy.series.to_frame("all")
    if dry_run:
        what = f"{trials:,} trials of {len(drawn):,} hours and {len(rates):,} units"
        reply.rehearsed({"demand": demand, "units": units}, what, out)
        return
    with reply.into(out):
        found = headrooms.adequacy(drawn, rates, load=load, trials=trials, seed=seed, **options)
        cuts = found.replay.rename_axis("quantity").rename("value").reset_index()
        cuts["unit"] = cuts["quantity"].map({"hours": "h", "energy": "MWh", "delivered": "MWh"})
        tables = {"adequacy": found.table.reset_index(), "risk": found.risk.rename_axis("hour").reset_index()}
        reply.table(tables["adequacy"].round(3), "EUE in MWh, LOLH in h, LOLE in days")
        if contract is not None or resource:
            reply.line(f"ELCC of its relief: {found.elcc:.4g} ± {found.elcc_error:.2g} MW")
        if load:
            reply.line(f"as adequate as without the load: {found.capacity:.4g} MW more without outages")
        for name, table in (tables | {"cuts": cuts}).items():
            reply.tables[name] = table
            table.to_csv(reply.file(f"{name}.csv"), index=False, lineterminator="\n")
        for note in found.notes:
            reply.note(note)
    told = {"elcc": found.elcc, "elcc_error": found.elcc_error, "capacity": found.capacity}
    reply.answer(demand=demand, load=load, zone=zone, trials=trials, seed=seed, **told)


def _table(path: Path, option: str, faults: Faults) -> pd.DataFrame:
    """Read a CSV whose first column names the rows; what is wrong is raised under the name of the option."""
    import pandas as pd

    try:
        found = pd.read_csv(path, index_col=0)
    except (OSError, ValueError) as error:
        faults.add(option, str(path), f"a CSV with names in its first column ({str(error).splitlines()[0]})")
        faults.raise_any()
        raise
    return found.set_axis(found.index.astype(str))
