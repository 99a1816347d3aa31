"""`pypsa-aidc headroom`: how large an AI data center may be at each bus of a network, and what limits it."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from pypsa_aidc import fleet as fleets
from pypsa_aidc import network as networks
from pypsa_aidc.cli.contract import RELIABILITY, PortfolioOption, relief_of
from pypsa_aidc.cli.reply import Reply, silenced_stdout
from pypsa_aidc.cli.verb import DryRunOption
from pypsa_aidc.errors import InputError, near
from pypsa_aidc.plain import counted

if TYPE_CHECKING:
    import pandas as pd
    import pypsa
    from rich.table import Table

    from pypsa_aidc.headroom import BusHeadroom

_COLUMNS = {
    "headroom": "MW",
    "element": "limited by",
    "outage": "with outage",
    "snapshot": "at",
    "shadow_value": "MW/MW",
}


def headroom(
    reply: Reply,
    network: Annotated[
        Path,
        typer.Argument(
            help="netCDF file of a PyPSA network, solved or with set points, or a case: .raw, .m, .aux, .epc."
        ),
    ],
    bus: Annotated[list[str] | None, typer.Option("--bus", "-b", help="Bus, repeatable; all by default.")] = None,
    redispatch: Annotated[bool, typer.Option(help="Dispatch anew for each bus, by linear programme.")] = False,
    outages: Annotated[bool, typer.Option(help="Secure against every line and transformer (N-1).")] = False,
    relief: Annotated[
        float | None, typer.Option(help="Share of the site that may be curtailed, 0 … 1: 0.2 for 20 %.", min=0.0)
    ] = None,
    surface: Annotated[
        Path | None, typer.Option(help="surface.nc: relief by duration, up to K over --peak per MW of site.")
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
    emergency: Annotated[float, typer.Option(help="Rating after an outage over normal rating.", min=1.0)] = 1.0,
    slack: Annotated[
        Literal["spare", "capacity", "load"], typer.Option(help="Without redispatch: what serves the site.")
    ] = "spare",
    cutoff: Annotated[
        float, typer.Option(help="Without redispatch: distribution factor that counts; planners use 0.03 to 0.05.")
    ] = 1e-6,
    worsened: Annotated[
        bool, typer.Option(help="Without redispatch: only overloads that a site worsens count.")
    ] = False,
    size: Annotated[
        float | None,
        typer.Option(help="MW of a site: whether it fits, when not, and what limits it then."),
    ] = None,
    map_page: Annotated[
        Path | None, typer.Option("--map", help="Also a map to move about in, as one HTML page: --map x.html.")
    ] = None,
    rows: Annotated[int, typer.Option(help="Rows of the table on screen, the largest first.", min=0)] = 20,
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for headroom.csv, headroom.nc and map.png.")] = Path(
        "headroom"
    ),
    dry_run: DryRunOption = False,
) -> None:
    """Print the largest AIDC at each bus with what limits it; write headroom.csv, headroom.nc and a map.

    With --size also fits.csv, on whether a site of that size fits, and misfits.csv, the snapshots at which it does not.
    """
    opened = networks.load(network)
    faults = reply.faults
    if size is not None:
        faults.number("--size", size, above=0)
    faults.require(outages or emergency == 1, "--emergency", emergency, "nothing without --outages")
    for name in bus or ():
        known = opened.buses.index
        faults.require(name in known, "--bus", name, "a bus of the network", near(name, known))
    contract, largest = relief_of(faults, surface, envelope, portfolio, duration, reliability, q, peak)
    if dry_run:
        what = f"{len(bus or opened.buses)} buses in {len(opened.snapshots)} snapshots"
        reply.rehearsed({"network": network}, what, out)
        return
    with reply.into(out):
        with silenced_stdout(reply.verbose):
            result = opened.aidc.headroom(
                bus or None,
                redispatch=redispatch,
                contingencies="all" if outages else None,
                relief=relief,
                contract=contract,
                peak=largest,
                reliability=RELIABILITY if reliability is None else reliability,
                emergency=emergency,
                slack=slack,
                cutoff=cutoff,
                overloads="worsened" if worsened else "refuse",
                by_snapshot=size is not None and not redispatch,
            )
        ranked = result.to_frame().sort_values("headroom", ascending=False, kind="stable")
        reply.tables["headroom"] = ranked
        reply.show(_table(ranked.head(rows)))
        reply.line(repr(result))
        result.to_csv(reply.file("headroom.csv"))
        result.to_netcdf(reply.file("headroom.nc"))
        if size is not None:
            _fit(result, size, ranked.index, rows, len(opened.snapshots), reply)
        reply.notes.extend(note for note in str(result.data.attrs["notes"]).split("; ") if note)
        _draw(result, reply, opened, map_page, f"Headroom in {network.name}")
        if isinstance(contract, fleets.Contract):
            reply.tables["terms"] = contract.to_frame()
    reply.answer(network=network, response=result.data.attrs["response"], size=size)


def _draw(result: BusHeadroom, reply: Reply, n: pypsa.Network, page: Path | None, title: str) -> None:
    """Draw the maps, where buses have places."""
    from pypsa_aidc.plots.bus_map import explore, save

    try:
        reply.figure("map", result.plot())
        if page is not None:
            frame = result.to_frame()
            reply.written.append(save(explore(n, frame), page, title, frame))
            reply.line(f"wrote {page}")
    except InputError as error:
        reply.note(f"no map: {error}")


def _fit(result: BusHeadroom, size: float, buses: pd.Index, rows: int, snapshots: int, reply: Reply) -> None:
    """Say at which buses a size does not fit, when, and what limits it then."""
    reply.tables["fits"] = fits = result.fits(size).loc[buses]
    reply.line(f"{size:g} MW fits at {fits['fits'].sum()} of {counted(len(fits), 'bus')}")
    shown = fits.head(rows)
    for bus, row in shown[~shown["fits"]].iterrows():
        when = "" if _missing(row["misfits"]) else f" at {row['misfits']} of {snapshots} snapshots"
        worst = "" if _missing(row["snapshot"]) or row["snapshot"] == "" else f"; tightest at {row['snapshot']}"
        lost = f" with {row['outage']} out" if row["outage"] else ""
        reply.line(f"bus {bus}: {size:g} MW does not fit{when}: {row['element']} limits it{worst}{lost}")
    fits.to_csv(reply.file("fits.csv"), lineterminator="\n")
    if "room" in result.data:
        result.misfits(size).to_csv(reply.file("misfits.csv"), lineterminator="\n")


def _table(frame: pd.DataFrame) -> Table:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("bus", no_wrap=True)
    for name, label in _COLUMNS.items():
        table.add_column(label, justify="right" if name in ("headroom", "shadow_value") else "left")
    table.add_column("status")
    for bus, row in frame.iterrows():
        size = "unlimited" if row["headroom"] == math.inf else f"{row['headroom']:.1f}"
        moment = "" if _missing(row["snapshot"]) else str(row["snapshot"])
        shadow = "-" if _missing(row["shadow_value"]) else f"{row['shadow_value']:.3f}"
        table.add_row(str(bus), size, str(row["element"]), str(row["outage"]), moment, shadow, str(row["status"]))
    return table


def _missing(value: object) -> bool:
    """Whether a cell is empty: None, NaN, NaT or NA."""
    import pandas as pd

    return bool(pd.isna(value))  # type: ignore[call-overload]
