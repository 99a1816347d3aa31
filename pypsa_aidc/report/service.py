"""A service study as one file: sizes, map, replay, limiters, upgrades and what it stands on."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from pypsa_aidc.errors import Faults, InputError, UnsupportedError
from pypsa_aidc.markup import Table, shown
from pypsa_aidc.plain import counted
from pypsa_aidc.report.document import Document, Fact, Notice, Picture, Section
from pypsa_aidc.report.front import NEEDED, WRITERS, replace_file
from pypsa_aidc.versions import versions

if TYPE_CHECKING:
    from pypsa_aidc.headroom import ServiceStudy

_WAYS = {"fixed": "fixed dispatch", "redispatch": "redispatch"}
MOST_DRAWN = 8
"""Replays that are drawn; the others are in the workbook."""


def service_report(study: ServiceStudy, path: str | Path, title: str = "", *, interactive: bool = False) -> Path:
    """Write a report on a service study: sizes, replay, limiters, upgrades and assumptions in one file.

    Parameters
    ----------
    study
        The study.
    path
        File ending in ``.html``, ``.pdf`` or ``.xlsx`` (one sheet a table, every hour with a cut too).
    title
        Title; "Service study" if empty.
    interactive
        Whether an HTML report has a map to move about in, coloured by the conditional megawatts, with what limits them.

    Returns
    -------
    pathlib.Path
        The file. The same study gives the same bytes.

    Raises
    ------
    InputError
        Another suffix, no such folder, or a map to move about in for another file than HTML.
    UnsupportedError
        The library that writes this kind of file is not installed.
    """
    target = Path(path)
    suffix = target.suffix.lower()
    faults = Faults("report of a service study")
    faults.require(suffix in WRITERS, "path", str(path), f"a file ending in {', '.join(WRITERS)}")
    faults.require(not interactive or suffix == ".html", "interactive", True, "a file ending in .html")
    faults.require(target.parent.is_dir(), "path", str(path), "a file in an existing folder")
    faults.raise_any()
    library = NEEDED.get(suffix)
    if library is not None and find_spec(library) is None:
        raise UnsupportedError(f"a {suffix} report needs {library}: install pypsa-aidc[report], or write .html")
    replace_file(target, WRITERS[suffix](compose_service(study, title, interactive=interactive)))
    return target


def compose_service(study: ServiceStudy, title: str = "", *, interactive: bool = False) -> Document:
    """Put a report on a service study together."""
    table = study.allocation
    requests, years = table.index.unique("request"), [year for year in study.snapshots if year is not None]
    when = f" in {', '.join(map(str, years))}" if years else ""
    notices = [
        Notice("warning" if "synthetic" in note else "note", f"{note[0].upper()}{note[1:]}.") for note in study.notes
    ]
    for row in table[table["not_delivered_hours"] > 0].reset_index().to_dict("records"):
        place = _which(row)
        notices.append(
            Notice(
                "warning",
                f"{place}: up to {shown(float(row['not_delivered']))} MW of its cuts in "
                f"{shown(float(row['not_delivered_hours']))} h are not covered by relief of its own.",
            )
        )
    facts = [
        Fact(
            f"{what}, {'fixed dispatch' if way == 'fixed' else way}{f', {year}' if year != '' else ''}",
            shown(float(total)),
            "MW",
        )
        for (year, way), part in table.groupby(level=["year", "dispatch"], sort=False)
        for what, total in (("firm", part["firm"].sum()), ("conditional", part["conditional"].sum()))
    ]
    maps = [section for section in ([_moving_map(study)] if interactive else []) if section.maps]
    sections = (_sizes(study), *maps, _replay(study), _limiters(study), _upgrades(study), _sheets(study), _basis(study))
    return Document(
        title or "Service study", f"{counted(len(requests), 'request')}{when}", tuple(notices), tuple(facts), sections
    )


def _sizes(study: ServiceStudy) -> Section:
    text = (
        "Firm megawatts hold in every hour and outage. Conditional megawatts hold the firm ones in them; they are the "
        "largest size with which the cuts of the replay stay within the terms of the request.",
        "With fixed dispatch what the loads draw comes from spare generation; with redispatch generators and links "
        "give way at any cost.",
    )
    from pypsa_aidc.plots.bus_map import plot_sizes  # matplotlib where something is drawn
    from pypsa_aidc.plots.service import plot_allocation

    alt = "Bars of firm and conditional MW by request, year and way of dispatch."
    columns = ["bus", "nameplate", "firm", "conditional", "shortfall", "limit", "hours", "events", "longest", "depth"]
    tables = [
        Table(
            "Megawatts", _with_units(study.allocation.reset_index()[["year", "request", "dispatch", *columns]], study)
        )
    ]
    pictures, absent = [Picture("Firm and conditional megawatts", alt, plot_allocation(study))], []
    year = list(study.basis.networks)[-1]
    for way in study.allocation.index.unique("dispatch"):
        alt = f"Map of the requests with their firm and conditional MW, {_WAYS[str(way)]}, and of what limits them."
        try:
            where = f"Where they are, {_WAYS[str(way)]}{'' if year is None else f', {year}'}"
            pictures.append(Picture(where, alt, plot_sizes(study, year, str(way))))
        except InputError as error:
            absent = [f"There is no map: {'; '.join(map(str, error.faults))}"]
    return Section("Megawatts", text, tuple(pictures), tuple(tables), tuple(absent))


def _moving_map(study: ServiceStudy) -> Section:
    """The network of the last year; a bus with several requests says the megawatts of all."""
    from pypsa_aidc.plots.bus_map import explore  # as above
    from pypsa_aidc.report.attachments import moving_map

    year, n = list(study.basis.networks.items())[-1]
    way = study.allocation.index.unique("dispatch")[-1]
    sizes = study.allocation.xs(("" if year is None else year, way), level=["year", "dispatch"])
    by_bus = sizes.groupby("bus")
    there = pd.DataFrame({"headroom": by_bus["conditional"].sum(), "element": by_bus["limiter"].agg(", ".join)})
    title = f"Buses by conditional megawatts, {_WAYS[str(way)]}"
    quantity = "conditional megawatts"
    return moving_map(partial(explore, n, quantity=quantity), there, title, quantity)


def _replay(study: ServiceStudy) -> Section:
    from pypsa_aidc.plots.service import plot_replay  # as above

    pictures, absent = [], []
    cut = study.allocation[study.allocation["hours"] > 0]
    for row in cut.head(MOST_DRAWN).reset_index().to_dict("records"):
        which, year = _which(row), None if row["year"] == "" else int(row["year"])
        alt = f"Cuts of {which}: {row['hours']:g} h in {row['events']:g} events, the longest of {row['longest']:g} h."
        pictures.append(Picture(which, alt, plot_replay(study, str(row["request"]), year, str(row["dispatch"]))))
    if not len(cut):
        absent.append("No load is cut in any hour.")
    elif len(cut) > MOST_DRAWN:
        absent.append(f"{len(cut) - MOST_DRAWN} further replays are in the workbook and not drawn.")
    columns = ["hours", "events", "longest", "depth", "energy", "delivered", "undelivered", "not_delivered"]
    short = study.allocation.reset_index()[["year", "request", "dispatch", *columns, "not_delivered_hours"]]
    tables = (
        Table("Cuts", _with_units(short, study)),
        Table("Delivered by source", study.sources.reset_index(), study.sources.attrs["units"]),
        Table("Cuts by hour", study.replay.reset_index(), study.replay.attrs["units"], long=True),
    )
    text = (
        "Delivered is what the load's own relief covers, by K at the length of each event, and then the units behind "
        "its meter, cheapest first; the rest is cut as well.",
    )
    return Section("Replay", text, tuple(pictures), tables, tuple(absent))


def _limiters(study: ServiceStudy) -> Section:
    text = ("Worth is how many megawatts more the request could have for one more megawatt of rating of the element.",)
    tables = (
        Table("Limiters", study.limiters.reset_index(), {"worth": "MW/MW"}),
        Table("Causes of cuts", study.causes.reset_index(), study.causes.attrs["units"]),
    )
    return Section("What limits", text, (), tables)


def _upgrades(study: ServiceStudy) -> Section:
    text = (
        "Megawatts of s_nom, reactances unchanged, with which all nameplates are firm: with fixed dispatch all that is "
        "overloaded, with redispatch the cheapest set. Without unit costs, the fewest megawatts.",
    )
    if study.upgrades.empty:
        return Section("Upgrades", (), (), (), ("None is needed: all nameplates are firm.",))
    table = study.upgrades.reset_index()
    return Section("Upgrades", text, (), (Table("Upgrades", table, study.upgrades.attrs["units"]),))


def _sheets(study: ServiceStudy) -> Section:
    ways = study.allocation.index.unique("dispatch")
    sheets = study.term_sheets(str(ways[0])).values()
    by_load = {sheet.id: sheet.to_frame().set_index("field")["value"] for sheet in sheets}
    table = pd.DataFrame(by_load).rename_axis("field").reset_index()
    text = (
        f"One sheet a load, with {_WAYS[str(ways[0])]}. An empty field is missing: neither the study nor the request "
        "knows it, and no default stands for it.",
    )
    return Section("Term sheets", text, (), (Table("Term sheets", table),))


def _basis(study: ServiceStudy) -> Section:
    tables = (
        Table(
            "Assumptions",
            pd.DataFrame([*study.assumptions.items(), ("study", study.digest)], columns=["what", "value"]),
        ),
        Table("Versions", pd.DataFrame(versions().items(), columns=["what", "value"])),
    )
    return Section("Assumptions", ("The same inputs and versions give the same file.",), (), tables)


def _which(row: Mapping[Any, Any]) -> str:
    """Request, year and way of dispatch of a row, in words."""
    year = "" if row["year"] == "" else f" in {row['year']}"
    return f"{row['request']}{year}, {_WAYS[row['dispatch']]}"


def _with_units(frame: pd.DataFrame, study: ServiceStudy) -> pd.DataFrame:
    frame.attrs["units"] = study.allocation.attrs["units"]
    return frame
