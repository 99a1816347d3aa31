"""`pypsa-aidc headroom`: how large an AI data center may be at each bus of a network, and what limits it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import pandas as pd
import pypsa
import typer
from rich import box
from rich.table import Table

from pypsa_aidc import fleet
from pypsa_aidc.cli.console import quiet_libraries, silenced_stdout
from pypsa_aidc.cli.portfolio import PortfolioOption, named, peak_of
from pypsa_aidc.cli.reply import DryRunOption, JsonOption, QuietOption, Reply
from pypsa_aidc.errors import Faults, InputError, near
from pypsa_aidc.fleet import Contract, Surface
from pypsa_aidc.headroom import BusHeadroom, bus_headroom
from pypsa_aidc.network import load
from pypsa_aidc.plain import counted

_DURATION, _RELIABILITY = 4, 0.95
"""Of a call, where nothing else is said; as for the verb `report`."""

_COLUMNS = {
    "headroom": "MW",
    "element": "limited by",
    "outage": "with outage",
    "snapshot": "at",
    "shadow_value": "MW/MW",
}


def headroom_verb(
    network: Annotated[Path, typer.Argument(help="netCDF file of a PyPSA network, solved or with set points.")],
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
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Print the largest AIDC at each bus with what limits it; write headroom.csv, headroom.nc and a map.

    With --size also fits.csv, on whether a site of that size fits, and misfits.csv, the snapshots at which it does not.
    """
    quiet_libraries()
    reply = Reply(as_json, quiet, width=None)
    opened = load(network)
    faults = Faults("pypsa-aidc headroom")
    if size is not None:
        faults.number("--size", size, above=0)
    faults.require(outages or emergency == 1, "--emergency", emergency, "nothing without --outages")
    faults.raise_any()
    contract, largest = _contract(surface, envelope, portfolio, duration, reliability, q, peak)
    if dry_run:
        _require_buses(opened, bus or [])
        reply.rehearsed(
            {"network": network}, f"{len(bus or opened.buses)} buses in {len(opened.snapshots)} snapshots", out
        )
        return
    with silenced_stdout():
        result = bus_headroom(
            opened,
            bus or None,
            redispatch=redispatch,
            contingencies="all" if outages else None,
            relief=relief,
            contract=contract,
            peak=largest,
            reliability=_RELIABILITY if reliability is None else reliability,
            emergency=emergency,
            slack=slack,
            cutoff=cutoff,
            overloads="worsened" if worsened else "refuse",
            by_snapshot=size is not None and not redispatch,
        )
    frame = result.to_frame()
    ranked = frame.sort_values("headroom", ascending=False, kind="stable")
    reply.show(_table(ranked.head(rows)))
    reply.show(repr(result), highlight=False, markup=False)
    out.mkdir(parents=True, exist_ok=True)
    result.to_csv(out / "headroom.csv")
    result.to_netcdf(out / "headroom.nc")
    written = [out / "headroom.csv", out / "headroom.nc"]
    tables = {"headroom": ranked}
    if size is not None:
        tables["fits"] = result.fits(size).loc[ranked.index]
        reply.line(f"{size:g} MW fits at {tables['fits']['fits'].sum()} of {counted(len(ranked), 'bus')}")
        _show_fits(tables["fits"].head(rows), size, len(opened.snapshots), reply)
        written += _write_fits(tables["fits"], result, size, out)
    from pypsa_aidc.plots.bus_map import explore, save

    notes = [note for note in str(result.data.attrs["notes"]).split("; ") if note]
    try:
        result.plot().savefig(out / "map.png", dpi=150)
        written.append(out / "map.png")
        if map_page is not None:
            written.append(save(explore(opened, frame), map_page, f"Headroom in {network.name}", frame))
    except InputError as error:
        notes.append(f"no map: {error}")
        reply.show(notes[-1], style="dim", highlight=False, markup=False)
    for path in written:
        reply.show(f"wrote {path}", highlight=False)
    if isinstance(contract, Contract):
        tables["terms"] = contract.to_frame()
    about = {"network": network, "response": result.data.attrs["response"], "size": size}
    reply.answer(about, tables, notes, written)


def _contract(
    surface: Path | None,
    envelope: Path | None,
    portfolio: str,
    duration: int | None,
    reliability: float | None,
    q: float | None,
    peak: float | None,
) -> tuple[Surface | Contract | None, float | None]:
    """Relief by duration from a file, and the peak of the fleet it belongs to; what has no use for it is refused."""
    faults = Faults("pypsa-aidc headroom")
    faults.require(surface is None or envelope is None, "--surface, --envelope", "both", "one of them")
    for name, value in (("--reliability", reliability), ("--peak", peak)):
        given = surface is not None or envelope is not None
        faults.require(value is None or given, name, value, "nothing without --surface or --envelope")
    for name, value in (("--duration", duration), ("--q", q)):
        remedy = "A surface has all durations, and its own q." if surface is not None else ""
        faults.require(value is None or envelope is not None, name, value, "nothing without --envelope", remedy)
    faults.require(portfolio == "all" or envelope is not None, "--portfolio", portfolio, "nothing without --envelope")
    if surface is not None:
        faults.number("--peak", peak, above=0, remedy="MW at the meter of the fleet that K was measured on.")
    faults.raise_any()
    if surface is not None:
        return fleet.Surface.read(surface), peak
    if envelope is None:
        return None, None
    load = fleet.Envelope.read(envelope)
    clusters = load.portfolio(named(portfolio))
    terms = fleet.Contract.of(
        load,
        duration or _DURATION,
        _RELIABILITY if reliability is None else reliability,
        q=1.0 if q is None else q,
        portfolio=clusters,
    )
    return terms, peak_of(load, clusters) if peak is None else peak


def _show_fits(fits: pd.DataFrame, size: float, snapshots: int, reply: Reply) -> None:
    """Say for each bus at which it does not fit when, and what limits it then."""
    for bus, row in fits[~fits["fits"]].iterrows():
        when = "" if pd.isna(row["misfits"]) else f" at {row['misfits']} of {snapshots} snapshots"
        worst = "" if pd.isna(row["snapshot"]) or row["snapshot"] == "" else f"; tightest at {row['snapshot']}"
        lost = f" with {row['outage']} out" if row["outage"] else ""
        reply.line(f"bus {bus}: {size:g} MW does not fit{when}: {row['element']} limits it{worst}{lost}")


def _write_fits(fits: pd.DataFrame, result: BusHeadroom, size: float, out: Path) -> list[Path]:
    fits.to_csv(out / "fits.csv", lineterminator="\n")
    if "room" not in result.data:
        return [out / "fits.csv"]
    result.misfits(size).to_csv(out / "misfits.csv", lineterminator="\n")
    return [out / "fits.csv", out / "misfits.csv"]


def _require_buses(n: pypsa.Network, buses: list[str]) -> None:
    faults = Faults("pypsa-aidc headroom")
    for bus in buses:
        faults.require(bus in n.buses.index, "--bus", bus, "a bus of the network", near(bus, n.buses.index))
    faults.raise_any()


def _table(frame: pd.DataFrame) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("bus", no_wrap=True)
    for name, label in _COLUMNS.items():
        table.add_column(label, justify="right" if name in ("headroom", "shadow_value") else "left")
    table.add_column("status")
    for bus, row in frame.iterrows():
        size = "unlimited" if np.isinf(row["headroom"]) else f"{row['headroom']:.1f}"
        moment = "" if pd.isna(row["snapshot"]) else str(row["snapshot"])
        shadow = "-" if pd.isna(row["shadow_value"]) else f"{row['shadow_value']:.3f}"
        table.add_row(str(bus), size, str(row["element"]), str(row["outage"]), moment, shadow, str(row["status"]))
    return table
