"""`pypsa-aidc modes`: the 3D-parallel modes of the jobs of a configuration, with reasons, as table, CSV and figure."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer

from pypsa_aidc.cli.config import load_config
from pypsa_aidc.cli.reply import JsonOption, QuietOption, Reply, SetOption, records
from pypsa_aidc.errors import Faults
from pypsa_aidc.training import Layout, ModeTable
from pypsa_aidc.training.layout import AXES


def modes_verb(
    config: Annotated[Path, typer.Argument(help="YAML file with sites and jobs, as for add.")],
    job: Annotated[list[str] | None, typer.Option("--job", help="Only these jobs, repeatable.")] = None,
    every: Annotated[bool, typer.Option("--all", help="Print rejected candidates too, with their reason.")] = False,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Folder for a CSV and a figure of each job.")] = None,
    runs: Annotated[
        Path | None, typer.Option("--calibrate", help="CSV of measured runs to fit the model to, see Run.read.")
    ] = None,
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
    reply = Reply(as_json, quiet)
    tables, fits = {}, {}
    for site, each in chosen.jobs():
        if job is None or each.name in job:
            fitted = None if runs is None else each.calibration(site.chips, runs)
            tables[site.name, each.name] = each.table(site.chips, site.gpus, config.parent, fitted)
            fits[site.name, each.name] = "" if fitted is None else str(fitted)
    for (site_name, name), table in tables.items():
        frame = table.to_frame()
        shown = frame if every else frame[frame["reason"] == ""].drop(columns="reason")
        labels = [Layout(*sizes).label for sizes in shown[list(AXES)].to_numpy().tolist()]
        shown = shown.drop(columns=[*AXES, "busy"]).assign(mode=labels)
        shown = shown[["mode", *shown.columns.drop("mode")]]
        counts = f"{len(frame)} candidates, {len(table.feasible)} feasible, {len(table)} effective"
        if fits[site_name, name]:
            reply.line(f"{site_name}, {name}: {fits[site_name, name]}")
        reply.table(shown, f"{site_name}, {name}: {counts}")
        if out is not None:
            for path in _write(table, out, f"{site_name}_{name}"):
                reply.line(f"wrote {path}")
    reply.data(
        {
            "jobs": [
                {
                    "site": site,
                    "job": name,
                    "effective": len(table),
                    "calibration": fits[site, name] or None,
                    "modes": records(table.to_frame()),
                }
                for (site, name), table in tables.items()
            ]
        }
    )


def _write(table: ModeTable, out: Path, name: str) -> list[Path]:
    out.mkdir(parents=True, exist_ok=True)
    stem = re.sub(r"[^A-Za-z0-9_.+-]", "_", name)
    csv, png = out / f"{stem}_modes.csv", out / f"{stem}_modes.png"
    table.to_frame().to_csv(csv, index=False)
    figure = table.plot().get_figure()
    assert figure is not None
    figure.savefig(png, dpi=150)  # type: ignore[union-attr]
    return [csv, png]
