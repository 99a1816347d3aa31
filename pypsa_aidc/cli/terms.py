"""`pypsa-aidc terms`: term sheets of a study or a fleet, completed, checked and held against a product."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from pypsa_aidc import fleet as fleets
from pypsa_aidc.cli.contract import DURATION, RELIABILITY
from pypsa_aidc.cli.reply import Reply, file_stem
from pypsa_aidc.cli.verb import DryRunOption
from pypsa_aidc.errors import Faults
from pypsa_aidc.plain import counted


def terms(
    reply: Reply,
    sheets: Annotated[
        list[Path] | None,
        typer.Argument(help="Term sheets, or folders that pypsa-aidc study wrote; none for one of --surface alone."),
    ] = None,
    surface: Annotated[
        Path | None, typer.Option(help="surface.nc of the fleet behind the loads; fills what is empty.")
    ] = None,
    peak: Annotated[float | None, typer.Option(help="MW at the meter of the fleet of --surface.")] = None,
    duration: Annotated[int, typer.Option(help="Of a call of --surface, h.")] = DURATION,
    reliability: Annotated[float, typer.Option(help="Of a call of --surface.")] = RELIABILITY,
    fill: Annotated[
        list[Path] | None,
        typer.Option(help="A sheet that fills what is empty, repeatable: terms.json of pypsa-aidc surface."),
    ] = None,
    profile: Annotated[
        str | None, typer.Option(help=f"Product to hold them against: {', '.join(fleets.profiles())}.")
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Folder for the sheets and tables.")] = None,
    dry_run: DryRunOption = False,
) -> None:
    """Read, complete and check term sheets; tell what is missing, and what a product asks for beside.

    A field that is not known is empty and listed, and is never given a default.
    """
    faults = reply.faults
    faults.require(bool(sheets) or surface is not None, "sheets", "nothing", "term sheets, folders, or --surface")
    faults.require(surface is not None or peak is None, "--peak", peak, "nothing without --surface")
    if profile is not None:
        fleets.product(profile)
    files = _files(sheets or [], faults)
    faults.raise_any()
    read = [fleets.TermSheet.read(path) for path in files]
    others = [fleets.TermSheet.read(path) for path in fill or ()]
    if surface is not None:
        K = fleets.Surface.read(surface)
        name = str(K.data.attrs.get("source", "")) or surface.stem
        call: dict[str, Any] = {"duration": duration, "reliability": reliability}
        if not read:
            read = [fleets.TermSheet.of(K, name, peak=peak, **call)]
        else:
            # Each load has its own megawatts; the fleet says what relief there is in proportion, and how reliable.
            own = ("nameplate_mw", "conditional", "floor")
            sizes = {each.id: max((row.mw for row in each.conditional or ()), default=0.0) for each in read}
            scaled = {
                each.id: fleets.TermSheet.of(K, each.id, peak=peak, size=sizes[each.id], **call)
                if peak is not None and sizes[each.id] > 0
                else fleets.TermSheet.of(K, name, **call)
                for each in read
            }
            read = [each.filled(scaled[each.id].without(*own)) for each in read]
    names = [each.id for each in read]
    for twice in sorted({each for each in names if names.count(each) > 1}):
        faults.add("sheets", twice, "each load once")
    faults.raise_any()
    for other in others:
        read = [each.filled(other) for each in read]
    if dry_run:
        reply.rehearsed({"sheets": [str(path) for path in files]}, counted(len(read), "term sheet"), out)
        return
    if out is None:
        _tell(reply, read, profile, None)
    else:
        with reply.into(out):
            _tell(reply, read, profile, out)
    reply.answer(profile=profile, missing={each.id: list(each.missing) for each in read})


def _tell(reply: Reply, sheets: list[fleets.TermSheet], profile: str | None, out: Path | None) -> None:
    """Print each sheet, or what a product asks of it, and write both."""
    for sheet in sheets:
        if profile is None:
            table, title = sheet.to_frame()[["field", "value"]], f"Term sheet: {sheet.id}"
        else:
            table, title = sheet.under(profile), f"{sheet.id}: {fleets.product(profile)['product']}"
        reply.table(table, title)
        reply.note(f"{sheet.id}, missing: {', '.join(sheet.missing) or 'nothing'}")
        if out is not None:
            stem = file_stem(sheet.id)
            sheet.write(reply.file(f"{stem}.terms.json"))
            if profile is not None:
                table.to_csv(reply.file(f"{stem}.{profile}.csv"), index=False, lineterminator="\n")
        reply.tables[sheet.id] = table


def _files(given: list[Path], faults: Faults) -> list[Path]:
    """Files of the sheets, those of folders by name."""
    found: list[Path] = []
    for path in given:
        inside = sorted(path.glob("*.terms.json")) if path.is_dir() else [path]
        faults.require(bool(inside), "sheets", str(path), "a folder with files *.terms.json")
        found += inside
    return found
