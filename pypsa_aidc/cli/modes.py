"""`pypsa-aidc modes`: the 3D-parallel modes of the jobs of a configuration, with reasons, as table, CSV and figure."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer

from pypsa_aidc.cli.config import load_config
from pypsa_aidc.cli.reply import JsonOption, QuietOption, Reply, SetOption, records
from pypsa_aidc.errors import Faults
from pypsa_aidc.training import ModeTable


def modes_verb(
    config: Annotated[Path, typer.Argument(help="YAML file with sites and jobs, as for add.")],
    job: Annotated[list[str] | None, typer.Option("--job", help="Only these jobs, repeatable.")] = None,
    every: Annotated[bool, typer.Option("--all", help="Print rejected candidates too, with their reason.")] = False,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Folder for a CSV and a figure of each job.")] = None,
    settings: SetOption = None,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Show which modes each job may run in, and why the others are out (Algorithm 1 and Fig. 9 of [1])."""
    chosen = load_config(config, settings or ())
    faults = Faults("pypsa-aidc modes")
    known = [each.name for _, each in chosen.jobs()]
    for name in job or ():
        faults.require(name in known, "--job", name, f"one of {', '.join(known)}")
    faults.raise_any()
    tables = {
        (site.name, each.name): each.table(site.chips, site.gpus, config.parent)
        for site, each in chosen.jobs()
        if job is None or each.name in job
    }
    reply = Reply(as_json, quiet)
    for (site_name, name), table in tables.items():
        frame = table.to_frame()
        shown = frame if every else frame[frame["reason"] == ""].drop(columns="reason")
        counts = f"{len(frame)} candidates, {len(table.feasible)} feasible, {len(table)} effective"
        reply.table(shown, f"{site_name}, {name}: {counts}")
        if out is not None:
            for path in _write(table, out, f"{site_name}_{name}"):
                reply.line(f"wrote {path}")
    reply.data(
        {
            "jobs": [
                {"site": site, "job": name, "effective": len(table), "modes": records(table.to_frame())}
                for (site, name), table in tables.items()
            ]
        }
    )


def _write(table: ModeTable, out: Path, name: str) -> list[Path]:
    out.mkdir(parents=True, exist_ok=True)
    stem = re.sub(r"[^A-Za-z0-9_.+-]", "_", name)
    csv, png = out / f"{stem}_modes.csv", out / f"{stem}_modes.png"
    table.to_frame().to_csv(csv, index=False)
    table.plot().savefig(png, dpi=150)
    return [csv, png]
