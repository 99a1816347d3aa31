"""`pypsa-aidc freeze`: a solved network for those without this package, and back."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer

from pypsa_aidc.cli.console import quiet_libraries
from pypsa_aidc.cli.reply import DryRunOption, JsonOption, QuietOption, Reply, told_warnings
from pypsa_aidc.network import export, load


def freeze_verb(
    network: Annotated[Path, typer.Argument(help="File of a solved network with AIDCs.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="netCDF file to write.")],
    thaw: Annotated[bool, typer.Option("--thaw", help="Free the jobs instead of fixing their power.")] = False,
    dry_run: DryRunOption = False,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Write decided power as p_set, so that plain PyPSA gets the same loads, objective and prices.

    Where relief of a fleet is used in part it sets the price, which plain PyPSA cannot know: a warning names the hours.
    """
    quiet_libraries()
    n = load(network)
    sites, fleets = list(n.aidc.sites), list(n.aidc.fleets)
    about = {"network": network, "out": out, "frozen": not thaw, "sites": sites, "fleets": fleets}
    whose = " and ".join(
        f"{word} of {', '.join(names)}" for word, names in (("the jobs", sites), ("the relief", fleets)) if names
    )
    done = f"{whose or 'the jobs of no site'} are {'free' if thaw else 'fixed'}"
    reply = Reply(as_json, quiet)
    if dry_run:
        with told_warnings(quiet), TemporaryDirectory() as folder:
            export(n, Path(folder) / "checked.nc", frozen=not thaw)
        reply.rehearsed(about, done, out)
        return
    with told_warnings(quiet):
        export(n, out, frozen=not thaw)
    reply.line(f"wrote {out}: {done}")
    reply.data(about)
