"""Verbs on network files: `check`, `add` and `freeze`; and `schema`, for editors of the YAML file that they read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from pypsa_aidc import network as networks
from pypsa_aidc.cli.reply import Reply, records, silenced_stdout
from pypsa_aidc.cli.verb import DryRunOption, SettingsOption, whole_file

EXIT_WARNINGS, EXIT_ERRORS = 1, 2


def check(
    reply: Reply,
    network: Annotated[
        Path,
        typer.Argument(
            help="netCDF, HDF5 or xlsx file, or CSV folder, of a PyPSA network; or a case: .raw, .m, .aux, .epc."
        ),
    ],
) -> None:
    """List what is wrong or odd with a network. Exit codes: 0 nothing or notes, 1 warnings, 2 errors."""
    n = networks.load(network, check_sites=False)
    with silenced_stdout(reply.verbose):
        findings = n.aidc.check()
    frame = findings.to_frame()
    if len(findings):
        reply.table(frame)
    reply.line(f"{network}: {findings!r}")
    counts = {kind: len(findings.of(kind)) for kind in ("error", "warning", "note")}
    reply.data({"network": str(network), "worst": findings.worst, "counts": counts, "findings": records(frame)})
    code = {"error": EXIT_ERRORS, "warning": EXIT_WARNINGS}.get(findings.worst or "", 0)
    if code:
        raise typer.Exit(code)


def add(
    reply: Reply,
    network: Annotated[
        Path, typer.Argument(help="netCDF file (or CSV folder, HDF5, xlsx) of a PyPSA network, or a case (.raw, .m).")
    ],
    config: Annotated[Path, typer.Argument(help="YAML file with sites and jobs.")],
    out: Annotated[Path | None, typer.Option("--out", "-o", help="netCDF file to write.")] = None,
    settings: SettingsOption = None,
    dry_run: DryRunOption = False,
) -> None:
    """Add AI data centers from a YAML file to a network. Nothing is written if anything is wrong."""
    from pypsa_aidc.cli.config import load_config

    faults = reply.faults
    faults.require(out is not None or dry_run, "--out", None, "a netCDF file to write", "Or give --dry-run.")
    faults.raise_any()
    n = networks.load(network)
    chosen = load_config(config, settings or (), n)
    chosen.add_to(n, config)
    # A solution without the new sites is none of this network.
    networks.clear_results(n)
    jobs = networks.list_loads(n)
    new = jobs.index.get_level_values("site").isin([site.name for site in chosen.sites])
    frame = jobs[new].reset_index().drop(columns="description")
    about = {"network": network, "jobs": records(frame)}
    shown = frame.astype({"deadline": object}).fillna({"deadline": "end"})
    reply.table(
        shown.rename(columns={"hours": "hours in fastest mode", "deadline": "deadline (h)", "p_nom": "p_nom (MW)"})
    )
    if out is None or dry_run:
        reply.rehearsed(about, f"{len(frame)} jobs can be added", out)
        return
    with reply.into(out, folder=False):
        n.aidc.export(reply.file(out.name), frozen=False)
    reply.data({**about, "out": out})


def freeze(
    reply: Reply,
    network: Annotated[Path, typer.Argument(help="File of a solved network with AIDCs.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="netCDF file to write.")],
    thaw: Annotated[bool, typer.Option("--thaw", help="Free the jobs instead of fixing their power.")] = False,
    dry_run: DryRunOption = False,
) -> None:
    """Write decided power as p_set, so that plain PyPSA gets the same loads, objective and prices.

    Where relief of a fleet is used in part it sets the price, which plain PyPSA cannot know: a warning names the hours.
    """
    n = networks.load(network)
    sites, fleets = list(n.aidc.sites), list(n.aidc.fleets)
    about = {"network": network, "out": out, "frozen": not thaw, "sites": sites, "fleets": fleets}
    whose = " and ".join(
        f"{word} of {', '.join(names)}" for word, names in (("the jobs", sites), ("the relief", fleets)) if names
    )
    done = f"{whose or 'the jobs of no site'} are {'free' if thaw else 'fixed'}"
    with reply.into(out, folder=False, rehearsal=dry_run):
        n.aidc.export(reply.file(out.name), frozen=not thaw)
    if dry_run:
        reply.rehearsed(about, done, out)
        return
    reply.line(done)
    reply.data(about)


def schema(ctx: typer.Context) -> None:
    """Print the JSON schema of the YAML file, for editors that complete and check it."""
    from pypsa_aidc.cli.typed import schema as described

    print(json.dumps(described(whole_file(ctx)), indent=2))
