"""`pypsa-aidc check`: findings of a network file before anybody optimises it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pypsa_aidc.cli.console import quiet_libraries, silenced_stdout
from pypsa_aidc.cli.reply import JsonOption, QuietOption, Reply, records
from pypsa_aidc.network import check, load

EXIT_WARNINGS, EXIT_ERRORS = 1, 2


def check_verb(
    network: Annotated[Path, typer.Argument(help="netCDF, HDF5 or xlsx file, or CSV folder, of a PyPSA network.")],
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """List what is wrong or odd with a network. Exit codes: 0 nothing or notes, 1 warnings, 2 errors."""
    quiet_libraries()
    reply = Reply(as_json, quiet)
    n = load(network, check_sites=False)
    with silenced_stdout():
        findings = check(n)
    frame = findings.to_frame()
    if len(findings):
        reply.table(frame)
    reply.line(f"{network}: {findings!r}")
    counts = {kind: len(findings.of(kind)) for kind in ("error", "warning", "note")}
    reply.data({"network": str(network), "worst": findings.worst, "counts": counts, "findings": records(frame)})
    code = {"error": EXIT_ERRORS, "warning": EXIT_WARNINGS}.get(findings.worst or "", 0)
    if code:
        raise typer.Exit(code)
