"""`pypsa-aidc dispatch`: solve a network with AIDCs under the scenarios S1 to S6, and draw it."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pandas as pd
import pypsa
import typer

from pypsa_aidc.cli.config import has_sites, load_config
from pypsa_aidc.cli.console import quiet_libraries, silenced_stdout
from pypsa_aidc.cli.dispatch_table import Run, columns_of, frame_of, has_other_loads, table_of, units_of, values_of
from pypsa_aidc.cli.reply import DryRunOption, JsonOption, QuietOption, Reply, SetOption, told_warnings
from pypsa_aidc.errors import Faults, InputError, NotSolvedError
from pypsa_aidc.network import SCENARIOS, describe, export, load, optimize, scenario_network, uses_storage
from pypsa_aidc.progress import track, waiting

BUNDLED = "green_campus"
_WITHOUT_STORAGE = tuple(name for name in SCENARIOS if not uses_storage(name))


def dispatch(
    network: Annotated[
        Path | None,
        typer.Argument(help="netCDF file of a PyPSA network with AIDCs; the green campus of [1] by default."),
    ] = None,
    scenario: Annotated[
        list[str] | None,
        typer.Option(
            "--scenario",
            "-s",
            help="S1 to S6, repeatable; by default all, of an own network without --storage S1 to S4.",
        ),
    ] = None,
    storage: Annotated[
        list[str] | None,
        typer.Option(
            "--storage",
            help="StorageUnit or Store that only S5 and S6 may use, repeatable; the BESS of the green campus. Without, "
            "the storage of an own network stays in all scenarios.",
        ),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option("--config", "-c", help="YAML file: sites to put into the network first, options of this verb."),
    ] = None,
    settings: SetOption = None,
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for figures and tables.")] = Path("dispatch"),
    gap: Annotated[float, typer.Option(help="Relative MIP gap at which to stop.", min=0.0)] = 1e-6,
    time_limit: Annotated[float, typer.Option(help="Seconds for each scenario.", min=0.0)] = 30.0,
    dry_run: DryRunOption = False,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Dispatch training jobs with the grid under the scenarios S1-S6 and print the table of them.

    S1  every job in its baseline mode, from arrival to completion
    S2  the same, with checkpoints recorded
    S3  modes vary freely in each slot, a bound that no job can execute
    S4  checkpoints and modes: waits and changes of mode at checkpoints
    S5  S1, and the storage that --storage names
    S6  S4, and that storage

    S1, S2 and S5 need the baseline mode of each job.

    Prints cost, energy, curtailment and peaks, for the bundled campus with the paper's Table IV beside ours, and
    writes table.csv, a solved network for each scenario (S4.nc, for `freeze` and `report`) and three figures: power
    balance, load composition, GPUs and progress.
    """
    quiet_libraries()
    reply = Reply(as_json, quiet, width=None)
    base = _base(network, config, settings or [], quiet)
    storages = _storages(base, storage, scenario or [], bundled=network is None)
    chosen = scenario or list(SCENARIOS if storages else _WITHOUT_STORAGE)
    every = {name: _prepared(base, name, storages) for name in chosen}
    if dry_run:
        what = f"{', '.join(chosen)} of {network or BUNDLED}, with {', '.join(base.aidc.sites)}"
        reply.rehearsed({"network": network or BUNDLED, "config": config}, what, out)
        return
    _make_folder(out)
    runs = []
    for name, prepared in track(every.items(), "scenarios"):
        if isinstance(prepared, Run):
            runs.append(prepared)
            continue
        with waiting(f"{name}: {describe(name)}"), silenced_stdout():
            runs.append(_run(prepared, name, storages, gap, time_limit))
    columns = columns_of(base, network is None, storages)
    frame = frame_of(runs, columns, _paper() if network is None else None)
    reply.show(table_of(frame, runs, columns))
    notes = [*_notes(runs, base, network is None), *_left_out(base, network is None, storages, scenario is None)]
    for note in notes:
        reply.show(note, style="dim", highlight=False)
    frame.to_csv(out / "table.csv")
    solved = [run for run in runs if run.result is not None]
    files = [export(run.network, out / f"{run.scenario}.nc", frozen=False) for run in solved]
    files += _draw(solved, out) if solved else []
    for path in files:
        reply.show(f"wrote {path}", highlight=False)
    about = {
        "network": network or BUNDLED,
        "config": config,
        "solves": [_ended(run) for run in runs],
        "units": units_of(columns),
    }
    reply.answer(about, {"scenarios": frame}, notes, [out / "table.csv", *files])
    if len(solved) < len(runs):
        raise NotSolvedError("\n".join(f"{run.scenario}: {run.failure}" for run in runs if run.failure))


def _base(network: Path | None, config: Path | None, settings: list[str], quiet: bool) -> pypsa.Network:
    """The network as the user gives it, with the sites of the configuration if there is one."""
    faults = Faults("pypsa-aidc dispatch")
    sites = config is not None and has_sites(config, settings)
    needed = network is not None or not sites
    faults.require(needed, "--config", str(config), "a network beside it", "Name the file that its sites go into.")
    faults.raise_any()
    if network is None:
        return pypsa.Network(_bundled())
    if config is None or not sites:
        return open_network(network, "pypsa-aidc dispatch")
    chosen = load_config(config, settings)
    n = load(network)
    with told_warnings(quiet):
        chosen.add_to(n, config, faults)
    return n


def _storages(base: pypsa.Network, given: list[str] | None, scenarios: list[str], *, bundled: bool) -> list[str]:
    """Storages that only S5 and S6 use: those of an own network are nobody's to switch off unless it is asked for."""
    there = [*base.stores.index, *base.storage_units.index]
    if bundled and given is None:
        return there
    faults = Faults("pypsa-aidc dispatch")
    for name in scenarios:
        if name in SCENARIOS and uses_storage(name) and not given:
            remedy = f"This network has {', '.join(there)}." if there else "This network has none."
            faults.add("--storage", None, f"the storage that makes {name} differ from {_twin(name)}", remedy)
    faults.raise_any()
    return given or []


def _twin(scenario: str) -> str:
    """The scenario that is the same without storage."""
    return {"S5": "S1", "S6": "S4"}[scenario]


def _make_folder(out: Path) -> None:
    faults = Faults("pypsa-aidc dispatch")
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        faults.add("out", str(out), f"a folder that can be made and written ({error.strerror})")
    faults.raise_any()


def _prepared(base: pypsa.Network, scenario: str, storages: list[str]) -> pypsa.Network | Run:
    try:
        return scenario_network(base, scenario, storages)
    except InputError as error:
        # Jobs need a baseline mode for three of the scenarios only: the others can still be told.
        if {fault.where for fault in error.faults} != {"baseline"}:
            raise
        return Run(scenario, base, None, {}, str(error))


def _run(n: pypsa.Network, scenario: str, storages: list[str], gap: float, time_limit: float) -> Run:
    exclusive = storages if uses_storage(scenario) else []
    try:
        result = optimize(n, exclusive=exclusive, mip_rel_gap=gap, time_limit=time_limit, output_flag=False)
    except NotSolvedError as error:
        return Run(scenario, n, None, {}, str(error))
    return Run(scenario, n, result, values_of(n, storages))


def open_network(path: Path, verb: str, *, sites_only: bool = True) -> pypsa.Network:
    """Read a network with AIDCs from a file: with training sites, or with fleets where `sites_only` is false.

    Raises
    ------
    InputError
        No such file, no network in it, or a network without AIDC; `verb` says who asked.
    """
    n = load(path)
    faults = Faults(verb)
    there = bool(n.aidc.sites) or (not sites_only and bool(n.aidc.fleets))
    what = "at least one AIDC with training jobs" if sites_only else "at least one AIDC: a site or a fleet"
    remedy = (
        "Add one with n.aidc.add and save it."
        if sites_only
        else "Add one with n.aidc.add or n.aidc.add_fleet, and solve."
    )
    faults.require(there, "network", str(path), what, remedy)
    faults.raise_any()
    return n


def _bundled() -> Path:
    """Path of the bundled network, in the installed package or in the project's folder."""
    packaged = Path(str(files("pypsa_aidc"))) / "networks" / f"{BUNDLED}.nc"
    return packaged if packaged.is_file() else Path(__file__).parents[2] / "networks" / f"{BUNDLED}.nc"


def _paper() -> pd.DataFrame:
    table = pd.read_csv(str(files("pypsa_aidc.cli") / "green_campus_paper.csv"), index_col="scenario")
    return table.rename(columns={"peak": "peak_kw"})


def _ended(run: Run) -> dict[str, Any]:
    """How a solve ended, in numbers."""
    result = run.result
    return {
        "scenario": run.scenario,
        "description": describe(run.scenario),
        "status": "no solution" if result is None else result.status,
        "objective": None if result is None else result.objective,
        "bound": None if result is None else result.bound,
        "gap": None if result is None else result.gap,
        "audit_passed": None if result is None or result.audit is None else result.audit.passed,
        "failure": run.failure,
    }


def _notes(runs: list[Run], base: pypsa.Network, bundled: bool) -> list[str]:
    notes = [f"{run.scenario}: {describe(run.scenario)}" for run in runs]
    for run in runs:
        if run.result is not None and not run.result.optimal:
            above = run.result.objective - run.result.bound
            told = (
                f"at most {above:.2f} USD above the optimum" if np.isfinite(above) else "nothing proven of the optimum"
            )
            notes.append(f"{run.scenario} stopped at {run.result.status}: {told}.")
    if len(base.aidc.sites) > 1:
        notes.append(f"The figures show {_drawn_site(base)!r}, the first of {len(base.aidc.sites)} sites.")
    if bundled:
        notes.append(
            "[1] Tong et al., arXiv:2610.13047, Table IV. The day, efficiencies and batch sizes of the campus are "
            "calibrated, since the paper prints none of them: fitted to S1, S3, S4 and S5, not to S6."
        )
    return notes


def _left_out(base: pypsa.Network, bundled: bool, storages: list[str], by_default: bool) -> list[str]:
    """What the table of an own network counts, and what it leaves out."""
    if bundled:
        return []
    notes = ["non-RE: energy of all generators without a series p_max_pu of their own."]
    if has_other_loads(base):
        notes.append("No green share: there are loads beside the sites, and energy has no addressee.")
    there = [*base.stores.index, *base.storage_units.index]
    if by_default and there and not storages:
        notes.append(f"{', '.join(there)} in use in all scenarios; for S5 and S6 give --storage NAME.")
    return notes


def _drawn_site(n: pypsa.Network) -> str:
    return str(next(iter(n.aidc.sites)))


def _draw(runs: list[Run], out: Path) -> list[Path]:
    from pypsa_aidc.plots.balance import plot_balances

    last, site = runs[-1], _drawn_site(runs[-1].network)
    shown = {run.scenario: run for run in (runs[0], last)}
    balances = {f"{name}: {describe(name)}": run.network.aidc.balance() for name, run in shown.items()}
    figures = {
        "balance.png": plot_balances(balances, last.network.carriers),
        "composition.png": last.network.aidc.plot.composition(site),
        "execution.png": last.network.aidc.plot.execution(site),
    }
    paths = []
    for name, figure in figures.items():
        paths.append(out / name)
        figure.savefig(paths[-1], dpi=150)
    return paths
