"""`pypsa-aidc dispatch`: solve a network with AIDCs under the scenarios S1 to S6, and draw it."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pypsa_aidc import network as networks
from pypsa_aidc.cli.bundled import bundled_network, published
from pypsa_aidc.cli.reply import Reply, silenced_stdout
from pypsa_aidc.cli.verb import DryRunOption, SettingsOption
from pypsa_aidc.errors import Faults, InputError, NotSolvedError

if TYPE_CHECKING:
    import pypsa

    from pypsa_aidc.cli.dispatch_table import Run

BUNDLED = "green_campus"
SEARCH_SECONDS = 30.0
"""Seconds of search for a better schedule without a limit of the user's: how fast a machine is decides no result."""


def dispatch(
    reply: Reply,
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
    settings: SettingsOption = None,
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for figures and tables.")] = Path("dispatch"),
    gap: Annotated[float, typer.Option(help="Relative MIP gap at which to stop.", min=0.0)] = 1e-6,
    time_limit: Annotated[
        float | None,
        typer.Option(
            help="Seconds for each scenario. Without, 30 of search, and more where there is no schedule by then.",
            min=0.0,
        ),
    ] = None,
    dry_run: DryRunOption = False,
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
    from pypsa_aidc.cli import dispatch_table as tables
    from pypsa_aidc.progress import track, waiting

    base = _base(reply, network, config, settings or [])
    storages = _storages(reply, base, storage, scenario or [], bundled=network is None)
    usual = [name for name in networks.SCENARIOS if storages or not networks.uses_storage(name)]
    every = {name: _prepared(base, name, storages) for name in scenario or usual}
    about = {"network": network or BUNDLED, "config": config}
    if dry_run:
        reply.rehearsed(about, f"{', '.join(every)} of {network or BUNDLED}, with {', '.join(base.aidc.sites)}", out)
        return
    columns = tables.columns_of(base, network is None, storages)
    with reply.into(out):
        runs = []
        for name, prepared in track(every.items(), "scenarios"):
            if isinstance(prepared, tables.Run):
                runs.append(prepared)
                continue
            with waiting(f"{name}: {networks.describe(name)}"), silenced_stdout(reply.verbose):
                runs.append(_run(reply, prepared, name, storages, gap, time_limit))
        paper = published(BUNDLED, "scenario").rename(columns={"peak": "peak_kw"}) if network is None else None
        reply.tables["scenarios"] = frame = tables.frame_of(runs, columns, paper)
        reply.show(tables.table_of(frame, runs, columns))
        notes = _notes(runs, base, network is None) + _left_out(base, network is None, storages, scenario is None)
        for note in notes:
            reply.note(note)
        frame.to_csv(reply.file("table.csv"))
        solved = [run for run in runs if run.result is not None]
        for run in solved:
            run.network.aidc.export(reply.file(f"{run.scenario}.nc"), frozen=False)
        if solved:
            _draw(solved, reply)
    reply.answer(**about, solves=[_ended(run) for run in runs], units=tables.units_of(columns))
    if len(solved) < len(runs):
        raise NotSolvedError("\n".join(f"{run.scenario}: {run.failure}" for run in runs if run.failure))


def _base(reply: Reply, network: Path | None, config: Path | None, settings: list[str]) -> pypsa.Network:
    """The network as the user gives it, with the sites of the configuration if there is one."""
    from pypsa_aidc.cli.config import has_sites, load_config

    faults = reply.faults
    sites = config is not None and has_sites(config, settings)
    needed = network is not None or not sites
    faults.require(needed, "--config", str(config), "a network beside it", "Name the file that its sites go into.")
    faults.raise_any()
    if network is None:
        return networks.load(bundled_network(BUNDLED))
    if config is None or not sites:
        return open_network(network, reply.faults)
    n = networks.load(network)
    load_config(config, settings, n).add_to(n, config)
    return n


def _storages(
    reply: Reply, base: pypsa.Network, given: list[str] | None, scenarios: list[str], *, bundled: bool
) -> list[str]:
    """Storages that only S5 and S6 use: those of an own network are nobody's to switch off unless it is asked for."""
    there = [*base.stores.index, *base.storage_units.index]
    if bundled and given is None:
        given = there
    faults = reply.faults
    for name in given or ():
        faults.require(name in there, "--storage", name, f"one of {sorted(there)}")
    for name in scenarios:
        faults.require(name in networks.SCENARIOS, "--scenario", name, f"one of {', '.join(networks.SCENARIOS)}")
        if name in networks.SCENARIOS and networks.uses_storage(name) and not given:
            remedy = f"This network has {', '.join(there)}." if there else "This network has none."
            faults.add("--storage", None, f"the storage that makes {name} differ from {_twin(name)}", remedy)
    faults.raise_any()
    return given or []


def _twin(scenario: str) -> str:
    """The scenario that is the same without storage."""
    return {"S5": "S1", "S6": "S4"}[scenario]


def _prepared(base: pypsa.Network, scenario: str, storages: list[str]) -> pypsa.Network | Run:
    from pypsa_aidc.cli.dispatch_table import Run

    try:
        return networks.scenario_network(base, scenario, storages)
    except InputError as error:
        # Jobs need a baseline mode for three of the scenarios only: the others can still be told.
        if not all(fault.where.endswith("baseline") for fault in error.faults):
            raise
        return Run(scenario, base, None, {}, str(error))


def _run(
    reply: Reply, n: pypsa.Network, scenario: str, storages: list[str], gap: float, time_limit: float | None
) -> Run:
    from pypsa_aidc.cli.dispatch_table import Run, values_of

    limit = {"search_limit": SEARCH_SECONDS} if time_limit is None else {"time_limit": time_limit}
    exclusive = storages if networks.uses_storage(scenario) else []
    try:
        result = n.aidc.optimize(exclusive=exclusive, mip_rel_gap=gap, **limit, **reply.solver)
    except NotSolvedError as error:
        return Run(scenario, n, None, {}, str(error))
    return Run(scenario, n, result, values_of(n, storages))


def open_network(path: Path, faults: Faults, *, sites_only: bool = True) -> pypsa.Network:
    """Read a network with AIDCs from a file: with training sites, or with fleets where `sites_only` is false.

    Raises
    ------
    InputError
        No such file, no network in it, or a network without AIDC; beside what `faults` holds already.
    """
    n = networks.load(path)
    there = bool(n.aidc.sites) or (not sites_only and bool(n.aidc.fleets))
    what, remedy = (
        ("at least one AIDC with training jobs", "Add one with n.aidc.add and save it.")
        if sites_only
        else ("at least one AIDC: a site or a fleet", "Add one with n.aidc.add or n.aidc.add_fleet, and solve.")
    )
    faults.require(there, "network", str(path), what, remedy)
    faults.raise_any()
    return n


def _ended(run: Run) -> dict[str, Any]:
    """How a solve ended, in numbers."""
    result = run.result
    return {
        "scenario": run.scenario,
        "description": networks.describe(run.scenario),
        "status": "no solution" if result is None else result.status,
        "objective": None if result is None else result.objective,
        "bound": None if result is None else result.bound,
        "gap": None if result is None else result.gap,
        "audit_passed": None if result is None or result.audit is None else result.audit.passed,
        "failure": run.failure,
    }


def _notes(runs: list[Run], base: pypsa.Network, bundled: bool) -> list[str]:
    notes = [f"{run.scenario}: {networks.describe(run.scenario)}" for run in runs]
    for run in runs:
        if run.result is not None and not run.result.optimal:
            above = run.result.objective - run.result.bound
            proven = math.isfinite(above)
            told = f"at most {above:.2f} USD above the optimum" if proven else "nothing proven of the optimum"
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
    from pypsa_aidc.cli.dispatch_table import has_other_loads

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


def _draw(runs: list[Run], reply: Reply) -> None:
    from pypsa_aidc.plots.balance import plot_balances

    last, site = runs[-1], _drawn_site(runs[-1].network)
    shown = {run.scenario: run for run in (runs[0], last)}
    balances = {f"{name}: {networks.describe(name)}": run.network.aidc.balance() for name, run in shown.items()}
    reply.figure("balance", plot_balances(balances, last.network.carriers))
    reply.figure("composition", last.network.aidc.plot.composition(site))
    reply.figure("execution", last.network.aidc.plot.execution(site))
