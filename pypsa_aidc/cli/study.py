"""`pypsa-aidc study`: firm and conditional megawatts of a batch of AIDCs, from one YAML file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from pypsa_aidc import network as networks
from pypsa_aidc.cli.reply import Reply, file_stem, silenced_stdout
from pypsa_aidc.cli.verb import DryRunOption, SettingsOption
from pypsa_aidc.errors import InputError
from pypsa_aidc.plain import counted

if TYPE_CHECKING:
    from rich.table import Table

    from pypsa_aidc.headroom import ServiceStudy

_SHOWN = (
    *("nameplate", "firm", "conditional", "limit", "limiter"),
    *("outage", "hours", "events", "longest", "not_delivered"),
)
_WORDS = ("limit", "limiter", "outage")


def study(
    reply: Reply,
    config: Annotated[
        Path,
        typer.Argument(
            help="YAML file: under 'requests' the loads, under 'study' options of this verb and a network, or under "
            "'networks' one for each year; 'upgrades', 'ratings' and 'unit_costs' as the schema says."
        ),
    ],
    network: Annotated[
        Path | None, typer.Option(help="PyPSA network (netCDF) or case (.raw, .m, …), for all years.")
    ] = None,
    settings: SettingsOption = None,
    year: Annotated[
        list[int] | None, typer.Option(help="Year, repeatable; of a file with 'networks', all of them by default.")
    ] = None,
    outages: Annotated[
        list[str] | None,
        typer.Option(
            help="all, a file with one a row, or an outage, repeatable: 12, 'Generator G', 'tower: Line 1 + Line 2'."
        ),
    ] = None,
    fairness: Annotated[
        Literal["queue", "pro rata", "largest sum"], typer.Option(help="Who gets what where not all fits.")
    ] = "queue",
    redispatch: Annotated[bool, typer.Option(help="Also with generators and links dispatched anew.")] = True,
    slack: Annotated[
        Literal["spare", "capacity", "load"], typer.Option(help="Without redispatch: what serves the loads.")
    ] = "spare",
    cutoff: Annotated[
        float, typer.Option(help="Without redispatch: distribution factor that counts; planners use 0.03 to 0.05.")
    ] = 1e-6,
    worsened: Annotated[bool, typer.Option(help="Without redispatch: only overloads that loads worsen count.")] = False,
    counterflow: Annotated[
        bool, typer.Option(help="Without redispatch: a load may count on what another one draws.")
    ] = False,
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for tables, sheets, report, figures.")] = Path(
        "study"
    ),
    dry_run: DryRunOption = False,
) -> None:
    """Find firm and conditional megawatts of a batch of AIDCs, what limits them, and what would make them firm.

    A file to begin with:

    requests:
    - {name: first, bus: "2", nameplate: 60}
    - {name: second, bus: "3", nameplate: 90, budget: {hours: 100}}
    study: {network: year.nc, outages: all}

    Prints the table of sizes, both ways of dispatch side by side, and writes allocation.csv, limiters.csv, causes.csv,
    sources.csv, replay.csv (each hour with a cut), upgrades.csv, report.html, NAME.terms.json of each request, and
    figures.
    """
    from pypsa_aidc.cli.config import load_config
    from pypsa_aidc.headroom import check_study
    from pypsa_aidc.plots.service import plot_allocation
    from pypsa_aidc.report import service_report

    batch = load_config(config, settings or [], needs="requests")
    faults = reply.faults
    either = "one of the two: network in the section study (--network), or the mapping networks"
    faults.require((network is None) != (batch.networks is None), "networks", str(network or "nothing"), either)
    alone = not (year and batch.networks)
    faults.require(alone, "--year", year, "nothing beside networks, which have years of their own")
    faults.raise_any()
    opened = {}
    for when, name in (batch.networks or {}).items():
        try:
            opened[int(when)] = networks.load(config.parent / name)
        except InputError as error:
            faults.also(error.faults)
    faults.raise_any()
    first = networks.load(network) if network is not None else next(iter(opened.values()))
    jobs = batch.loads(config.parent)
    requests = [each.request(config.parent, jobs) for each in batch.requests]
    options: dict[str, Any] = {
        "years": opened or year,
        "fairness": fairness,
        "redispatch": redispatch,
        "contingencies": _outages(outages),
        "ratings": None if batch.ratings is None else batch.ratings.ratings(),
        "upgrades": [each.upgrade() for each in batch.upgrades],
        "unit_costs": batch.unit_costs or None,
        "slack": slack,
        "cutoff": cutoff,
        "overloads": "worsened" if worsened else "refuse",
        "counterflow": counterflow,
    }
    if dry_run:
        check_study(first, requests, **options)
        what = f"{counted(len(requests), 'request')}: {', '.join(each.name for each in requests)}"
        reply.rehearsed({"config": config, "network": network}, what, out)
        return
    with reply.into(out):
        with silenced_stdout(reply.verbose):
            result = first.aidc.study(requests, **options)
        reply.show(_table(result))
        for name, table in result.tables().items():
            reply.tables[name] = table
            table.to_csv(reply.file(f"{name}.csv"), index=False, lineterminator="\n")
        for note in result.notes:
            reply.note(note)
        reply.figure("allocation", plot_allocation(result))
        reply.figure("replay", result.plot())
        service_report(result, reply.file("report.html"), interactive=True)
        for name, sheet in result.term_sheets().items():
            sheet.write(reply.file(f"{file_stem(name)}.terms.json"))
    reply.answer(config=config, network=network, fairness=fairness, assumptions=dict(result.assumptions))


def _outages(given: list[str] | None) -> str | list[str] | None:
    """Contingencies as the study takes them: one word is "all" or a file, where there is one of that name."""
    if not given:
        return None
    return given[0] if len(given) == 1 and (given[0] == "all" or Path(given[0]).is_file()) else given


def _table(result: ServiceStudy) -> Table:
    from rich import box
    from rich.table import Table

    shown = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in ("year", "request", "dispatch"):
        shown.add_column(name, no_wrap=True)
    for name in _SHOWN:
        shown.add_column(name.replace("_", " "), justify="left" if name in _WORDS else "right")
    for key, row in result.allocation.iterrows():
        cells = [str(row[name]) if name in _WORDS else f"{row[name]:,.1f}" for name in _SHOWN]
        shown.add_row(*map(str, key), *cells)  # type: ignore[call-overload]
    return shown
