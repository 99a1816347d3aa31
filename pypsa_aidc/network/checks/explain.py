"""Infeasibility in words: GPU-hours, connections and fleets that do not fit, and what would do; else the conflict."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import linopy
import numpy as np
import pandas as pd
import pypsa
import xarray as xr
from numpy.typing import NDArray

from pypsa_aidc.errors import InfeasibleError
from pypsa_aidc.network.checks.conflict import conflict
from pypsa_aidc.network.checks.fleet_infeasible import explain_fleets
from pypsa_aidc.network.index import columns, rows
from pypsa_aidc.network.loads.site import Site, sites
from pypsa_aidc.network.model.horizon import Window, network_snapshots, windows
from pypsa_aidc.network.model.paths import Paths, PlacedGraph, add_path_variables, training_gpus, training_power
from pypsa_aidc.network.relaxation import solved_quietly
from pypsa_aidc.training import Formulation, Slots, TrainingLoad, checkpoint_graph, earliest_finish
from pypsa_aidc.units import W_PER_MW

_SEARCH_SECONDS = 5
"""Time for each question to a model of the jobs alone; what is neither found nor excluded by then is open."""

_LONGEST_SEARCH = 8
"""How many times the horizon the search for a deadline that would do may look ahead."""

_TOLERANCE = 1e-6


@dataclass(frozen=True)
class _Need:
    """What the jobs of a site need: no less than `proven`, and `found` is enough; infinite if nothing was found."""

    proven: float
    found: float

    def exceeds(self, limit: float) -> bool:
        return self.proven > limit * (1 + _TOLERANCE)

    def fits(self, limit: float) -> bool:
        return self.found <= limit * (1 + _TOLERANCE)


@dataclass(frozen=True)
class _Reason:
    """Why a site cannot work alone; not `proven` where the search ended before it was certain."""

    text: str
    proven: bool = True


def explain(n: pypsa.Network, snapshots: pd.Index | None = None, *, formulation: Formulation = "time") -> str:
    """Say in words why a network with AIDCs has no feasible dispatch.

    Looks at each site alone first: can each job finish, do the jobs fit into the GPU pool together, into the grid
    connection? Then at the fleets: which size would fit on their terms? If all is well, the conflict lies in the
    network, and the solver's irreducible infeasible set is translated into component names, where it has one.

    Parameters
    ----------
    n
        Network; the model of the failed solve, if it is still there, is used for the conflict set.
    snapshots
        Part of ``n.snapshots`` that was optimised.
    formulation
        Formulation of the graphs.

    Returns
    -------
    str
        One paragraph a site or fleet that cannot work, or the conflict, or a sentence that no cause was found. What
        could not be proven within some seconds is told as open.
    """
    reasons = _reasons(n, snapshots, formulation).values()
    proven = [reason.text for reason in reasons if reason.proven]
    if not proven:
        proven = [text for text in [explain_fleets(n, snapshots)] if text]
    if proven:
        return "\n".join(proven)
    model, still_open = n._model, [reason.text for reason in reasons]
    if model is None or model.status == "ok":
        alone = "\n".join(still_open) or "each AIDC site works alone"
        return f"{alone.rstrip('.')}; whether the whole network does is only known once a solve has failed"
    found = conflict(model)
    if still_open:
        return "\n".join([*still_open, *([found] if found else [])])
    told = f". {found}" if found else "; no constraints in conflict were found"
    return f"each AIDC site works alone, but not in this network{told}"


def site_reasons(
    n: pypsa.Network, snapshots: pd.Index | None = None, *, formulation: Formulation = "time"
) -> dict[str, str]:
    """Say for each site that provably cannot work even alone, by name, why: jobs, GPU pool or grid connection."""
    reasons = _reasons(n, snapshots, formulation)
    return {name: reason.text for name, reason in reasons.items() if reason.proven}


def _reasons(n: pypsa.Network, snapshots: pd.Index | None, formulation: Formulation) -> dict[str, _Reason]:
    chosen, reasons = network_snapshots(n, snapshots), {}
    for site in sites(n).values():
        for window in windows(n, snapshots):
            reason = _site(n, site, window, chosen, formulation)
            if reason:
                reasons[site.name] = reason
                break
    return reasons


def _site(
    n: pypsa.Network, site: Site, window: Window, snapshots: pd.Index, formulation: Formulation
) -> _Reason | None:
    try:
        paths = _paths(site, window, formulation)
    except InfeasibleError as error:
        return _Reason(f"AIDC {site.name!r}: {error}")
    pool = site.spec.gpus
    needed = _least_gpus(paths, good_enough=pool)
    if needed.exceeds(pool):
        return _Reason(_gpu_words(site, window, needed, formulation))
    if not needed.fits(pool):
        return _Reason(f"AIDC {site.name!r}: whether {pool:,} GPUs are enough is open. {_gpus_told(needed)}", False)
    labels = snapshots[window.positions]
    link = n.links.loc[rows(n.links.index, site.link)].iloc[0]
    base = columns(n.get_switchable_as_dense("Load", "p_set"), [site.base]).loc[labels, site.base]
    efficiency = columns(n.get_switchable_as_dense("Link", "efficiency"), [site.link]).loc[labels, site.link]
    if link["p_nom_extendable"]:
        return None
    p_nom = float(link["p_nom"])
    connection = _least_connection(paths, base.to_numpy(float), efficiency.to_numpy(float), good_enough=p_nom)
    if connection.fits(p_nom):
        return None
    alone = float((base / efficiency).max())
    if alone > p_nom:
        part = f"the base load alone takes {alone:g} MW, {alone / p_nom:.3g} times the connection: is it in kW?"
    else:
        part = f"of which the base load alone takes {alone:g} MW."
    told = f"Finishing all jobs takes at least {connection.proven:.6g} MW, {part}"
    if connection.found > connection.proven * (1 + 1e-3) and math.isfinite(connection.found):
        told += f" A connection of {connection.found:.6g} MW is enough; what lies between is open."
    proven = connection.exceeds(p_nom)
    verdict = "is too small" if proven else "may be too small"
    return _Reason(f"AIDC {site.name!r}: the grid connection of {p_nom:g} MW {verdict}. {told}", proven)


def _paths(site: Site, window: Window, formulation: Formulation) -> Paths:
    placed = tuple(
        PlacedGraph(
            site.name,
            generator,
            replace(window, positions=np.arange(len(window.slots))),
            checkpoint_graph(load, window.slots, formulation),
        )
        for generator, load in site.loads.items()
    )
    return Paths(placed, {site.name: site})


def _gpus_told(needed: _Need) -> str:
    if needed.found <= needed.proven:
        return f"The smallest pool that would do with these modes is {needed.found:,.0f} GPUs."
    enough = f", {needed.found:,.0f} are enough" if math.isfinite(needed.found) else ""
    return f"At least {needed.proven:,.0f} GPUs are needed with these modes{enough}; the smallest pool is open."


def _gpu_words(site: Site, window: Window, needed: _Need, formulation: Formulation) -> str:
    pool, hours = site.spec.gpus, window.slots.total
    lines = [
        f"AIDC {site.name!r}: its jobs do not fit into {pool} GPUs over {hours:g} h, {pool * hours:,.0f} GPU-hours."
    ]
    for load in site.loads.values():
        lean = min(load.modes, key=lambda mode: mode.gpus * load.hours(mode))
        left = sum(load.rules.shares[load.rules.progress :])
        need = lean.gpus * load.hours(lean) * left
        finish = earliest_finish(load, window.slots)
        deadline = hours if load.deadline is None else load.deadline
        lines.append(
            f"  - job {load.name!r} needs at least {need:,.0f} GPU-hours (mode {lean.label}, {lean.gpus} GPUs); alone "
            f"it could finish at hour {finish:g}, its deadline is hour {deadline:g}"
        )
    lines.append(f"  {_gpus_told(needed)}")
    later = _latest_deadline(site, window, formulation)
    lines.append(
        f"  With {pool} GPUs, a deadline of hour {later:g} for all jobs would do."
        if later is not None
        else f"  With {pool} GPUs, no deadline that would do was found within {_LONGEST_SEARCH} times the horizon."
    )
    return "\n".join(lines)


def _latest_deadline(site: Site, window: Window, formulation: Formulation) -> float | None:
    """First deadline, in hours, by which all jobs fit into the pool: bisection over slots added at the end."""
    step, count = float(window.slots.hours[-1]), len(window.slots)

    def fits(extra: int) -> bool:
        slots = Slots(np.append(window.slots.hours, np.full(extra, step)))
        longer = replace(window, slots=slots, weight=np.ones(len(slots)))
        loads = {g: _without_deadline(load) for g, load in site.loads.items()}
        try:
            paths = _paths(Site(site.spec, loads), longer, formulation)
        except InfeasibleError:
            return False
        return _least_gpus(paths, good_enough=site.spec.gpus).fits(site.spec.gpus)

    low, high = -1, 0
    while not fits(high):
        low, high = high, max(1, 2 * high)
        if high > _LONGEST_SEARCH * count:
            return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if fits(middle) else (middle, high)
    return float(window.slots.total + high * step)


def _without_deadline(load: TrainingLoad) -> TrainingLoad:
    return replace(load, deadline=None)


def _least_gpus(paths: Paths, good_enough: float) -> _Need:
    """Smallest GPU pool into which the jobs of one site fit; the search may stop at one that is good enough."""
    m, x, labels = _job_model(paths)
    pool = m.add_variables(lower=0, name="pool")
    size = next(iter(paths.sites.values())).spec.gpus
    m.add_constraints(training_gpus(x, paths, labels).isel(aidc_site=0, drop=True) * size - pool <= 0, name="gpus")
    need = _minimum(m, pool, good_enough + 0.5)
    # GPUs are whole ones.
    found = round(need.found) if math.isfinite(need.found) else need.found
    return _Need(math.ceil(need.proven - _TOLERANCE), found)


def _least_connection(
    paths: Paths, base: NDArray[np.float64], efficiency: NDArray[np.float64], good_enough: float
) -> _Need:
    """Smallest grid connection in MW, within the GPU pool; the search may stop at one that is good enough."""
    m, x, labels = _job_model(paths)
    connection = m.add_variables(lower=0, name="connection")
    gpus = training_gpus(x, paths, labels).isel(aidc_site=0, drop=True)
    m.add_constraints(gpus <= 1, name="gpus")
    spec = next(iter(paths.sites.values())).spec
    idle = spec.gpus * (spec.idle_w or 0.0) / W_PER_MW
    power = training_power(x, paths, labels).sum("name")
    power = power - idle * gpus if idle else power
    supply = connection * xr.DataArray(efficiency, coords={"snapshot": labels}, dims=["snapshot"])
    load = xr.DataArray(base + idle, coords={"snapshot": labels}, dims=["snapshot"])
    m.add_constraints(power - supply <= -load, name="power")
    need = _minimum(m, connection, good_enough * (1 + _TOLERANCE / 2))
    return _Need(max(need.proven, float((base / efficiency).max())), need.found)


def _job_model(paths: Paths) -> tuple[linopy.Model, linopy.Variable, pd.Index]:
    m = linopy.Model(force_dim_names=True)
    x = add_path_variables(m, paths)
    return m, x, pd.RangeIndex(len(paths.placed[0].window.slots), name="snapshot")


def _minimum(m: linopy.Model, variable: linopy.Variable, good_enough: float) -> _Need:
    """Smallest value within the time for a search, and what is proven of it."""
    m.add_objective(1.0 * variable)
    solved_quietly(m, time_limit=_SEARCH_SECONDS, objective_target=good_enough)
    value, report = m.objective.value, m.solver.report
    bound = report.dual_bound if report is not None else None
    return _Need(
        float(bound) if bound is not None and math.isfinite(bound) else 0.0,
        float(value) if m.status == "ok" and value is not None else math.inf,
    )
