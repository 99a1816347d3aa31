"""`pypsa-aidc modes`: the 3D-parallel modes of the jobs of a configuration, with reasons, as table, CSV and figure."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pypsa_aidc.cli.reply import Reply, file_stem, records
from pypsa_aidc.cli.verb import SettingsOption

if TYPE_CHECKING:
    import pandas as pd

    from pypsa_aidc.training import Job, ModeTable

_UNITS = {"efficiency": "MFU", "flops_per_s": "FLOP/s", "it_power": "IT MW", "memory_gb": "GB a GPU"}
"""Headings, after the columns of `ModeTable.frame`."""


def modes(
    reply: Reply,
    config: Annotated[Path, typer.Argument(help="YAML file with sites and jobs, as for add.")],
    job: Annotated[list[str] | None, typer.Option("--job", help="Only these jobs, repeatable.")] = None,
    every: Annotated[bool, typer.Option("--all", help="Print rejected candidates too, with their reason.")] = False,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Folder for a CSV and a figure of each job.")] = None,
    runs: Annotated[
        Path | None, typer.Option("--calibrate", help="CSV of measured runs to fit the model to, see Run.read.")
    ] = None,
    settings: SettingsOption = None,
) -> None:
    """Show which modes each job may run in, and why the others are out (Algorithm 1 and Fig. 9 of [1]).

    Hours are those of the tranche without waits, if it ran in that mode alone.
    """
    from pypsa_aidc.cli.config import load_config
    from pypsa_aidc.training.layout import AXES, labels

    chosen = load_config(config, settings or ())
    faults = reply.faults
    known = [each.name for _, each in chosen.jobs()]
    for name in job or ():
        faults.require(name in known, "--job", name, f"one of {', '.join(known)}")
    faults.raise_any()
    tables = {}
    for site, each in chosen.jobs():
        if job is None or each.name in job:
            fitted = None if runs is None else each.calibration(site.chips, runs)
            table = each.table(site.chips, site.gpus, config.parent, fitted)
            tables[site.name, each.name] = (each.job, table, None if fitted is None else str(fitted))
    told = []
    with nullcontext() if out is None else reply.into(out):
        for (site_name, name), (descriptor, table, fit) in tables.items():
            frame = _with_hours(table, descriptor)
            shown = frame if every else frame[frame["reason"] == ""].drop(columns="reason")
            shown = shown.drop(columns=[*AXES, "busy"])
            shown.insert(0, "mode", labels(frame.loc[shown.index]))
            if fit is not None:
                reply.line(f"{site_name}, {name}: {fit}")
            counts = f"{len(frame)} candidates, {len(table.feasible)} feasible, {len(table)} effective"
            reply.table(shown.rename(columns=_UNITS), f"{site_name}, {name}: {counts}")
            entry = {"site": site_name, "job": name, "effective": len(table), "modes": records(frame)}
            told.append(entry if fit is None else entry | {"calibration": fit})
            if out is not None:
                stem = file_stem(f"{site_name}_{name}")
                frame.to_csv(reply.file(f"{stem}_modes.csv"), index=False)
                reply.figure(f"{stem}_modes", table.plot().get_figure())
    reply.data({"jobs": told})


def _with_hours(table: ModeTable, job: Job) -> pd.DataFrame:
    """All candidates, with the hours of the tranche in each."""
    frame = table.to_frame()
    frame.insert(list(frame).index("it_power"), "hours", job.tranche_flops / frame["flops_per_s"] / 3600)
    return frame
