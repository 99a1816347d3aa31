"""`pypsa-aidc add`: put the AIDCs of a configuration into a network file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import pandas as pd
import typer

from pypsa_aidc.cli.config import load_config
from pypsa_aidc.cli.console import quiet_libraries
from pypsa_aidc.cli.reply import DryRunOption, JsonOption, QuietOption, Reply, SetOption, records, told_warnings
from pypsa_aidc.errors import Faults
from pypsa_aidc.network import clear_results, export, list_loads, load


def add_verb(
    network: Annotated[Path, typer.Argument(help="netCDF file (or CSV folder, HDF5, xlsx) of a PyPSA network.")],
    config: Annotated[Path, typer.Argument(help="YAML file with sites and jobs.")],
    out: Annotated[Path | None, typer.Option("--out", "-o", help="netCDF file to write.")] = None,
    settings: SetOption = None,
    dry_run: DryRunOption = False,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Add AI data centers from a YAML file to a network. Nothing is written if anything is wrong."""
    quiet_libraries()
    faults = Faults("pypsa-aidc add")
    faults.require(out is not None or dry_run, "--out", None, "a netCDF file to write", "Or give --dry-run.")
    faults.raise_any()
    chosen = load_config(config, settings or ())
    n = load(network)
    with told_warnings(quiet):
        chosen.add_to(n, config, faults)
    # A solution without the new sites is none of this network.
    clear_results(n)
    jobs = list_loads(n)
    added = pd.DataFrame(jobs[jobs.index.get_level_values("site").isin([site.name for site in chosen.sites])])
    frame = added.reset_index().drop(columns="description")
    about = {"network": network, "jobs": records(frame)}
    reply = Reply(as_json, quiet)
    shown = frame.astype({"deadline": object}).fillna({"deadline": "end"})
    reply.table(
        shown.rename(columns={"hours": "hours in fastest mode", "deadline": "deadline (h)", "p_nom": "p_nom (MW)"})
    )
    if out is None or dry_run:
        reply.rehearsed(about, f"{len(frame)} jobs can be added", out)
        return
    export(n, out, frozen=False)
    reply.line(f"wrote {out}")
    reply.data({**about, "out": out})
