"""Infeasibility of a site in words: GPU-hours and connections that do not fit, and what would do."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import permutations
from typing import TYPE_CHECKING

import linopy
import numpy as np
import pandas as pd
import pypsa
import xarray as xr
from numpy.typing import NDArray

from pypsa_aidc.errors import InfeasibleError
from pypsa_aidc.network.loads.protocol import Reason
from pypsa_aidc.network.loads.site.paths import Paths, PlacedGraph, add_path_variables, training_gpus, training_power
from pypsa_aidc.network.model.horizon import Window, network_snapshots
from pypsa_aidc.network.pypsa_api import bound_of, dense, objective_of, rows, solved_quietly
from pypsa_aidc.training import (
    Formulation,
    Mode,
    Slots,
    TrainingLoad,
    cheapest_path,
    checkpoint_graph,
    earliest_finish,
)
from pypsa_aidc.units import W_PER_MW

if TYPE_CHECKING:
    from pypsa_aidc.network.loads.site.site import Site

_SEARCH_SECONDS = 5
"""Time for each question to a model of the jobs alone; what is neither found nor excluded by then is open."""

_LONGEST_SEARCH = 8
"""How many times the horizon the search for a deadline that would do may look ahead."""

_MOST_ORDERED = 3
"""Jobs that are placed in every order; of more, in the order in which they stand."""

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


def reason(n: pypsa.Network, site: Site, snapshots: pd.Index | None, formulation: Formulation) -> Reason | None:
    """Say why a site cannot work even alone: a job that cannot finish, the GPU pool, or the grid connection."""
    chosen = network_snapshots(n, snapshots)
    found = (_in_window(n, site, window, chosen, formulation) for window in site.windows(n, snapshots))
    return next((each for each in found if each), None)


def _in_window(
    n: pypsa.Network, site: Site, window: Window, snapshots: pd.Index, formulation: Formulation
) -> Reason | None:
    try:
        paths = _paths(site, window, formulation)
    except InfeasibleError as error:
        return Reason(f"AIDC {site.name!r}: {error}")
    pool = site.spec.gpus
    needed = _least_gpus(paths, good_enough=pool) if paths.placed else _Need(0.0, 0.0)
    if needed.exceeds(pool):
        return Reason(_gpu_words(site, window, needed, formulation))
    if not needed.fits(pool):
        return Reason(f"AIDC {site.name!r}: whether {pool:,} GPUs are enough is open. {_gpus_told(needed)}", False)
    labels = snapshots[window.positions]
    link = n.links.loc[rows(n.links.index, site.link)].iloc[0]
    base = dense(n, "Load", "p_set", site.base).loc[labels].iloc[:, 0]
    efficiency = dense(n, "Link", "efficiency", site.link).loc[labels].iloc[:, 0]
    if link["p_nom_extendable"]:
        return None
    p_nom = float(link["p_nom"])
    alone = float((base / efficiency).max())
    connection = _Need(alone, alone)
    if paths.placed:
        connection = _least_connection(paths, base.to_numpy(float), efficiency.to_numpy(float), good_enough=p_nom)
    if connection.fits(p_nom):
        return None
    if alone > p_nom:
        part = f"the base load alone takes {alone:g} MW, {alone / p_nom:.3g} times the connection: is it in kW?"
    else:
        part = f"of which the base load alone takes {alone:g} MW."
    told = f"Finishing all jobs takes at least {connection.proven:.6g} MW, {part}"
    if connection.found > connection.proven * (1 + 1e-3) and math.isfinite(connection.found):
        told += f" A connection of {connection.found:.6g} MW is enough; what lies between is open."
    proven = connection.exceeds(p_nom)
    verdict = "is too small" if proven else "may be too small"
    return Reason(f"AIDC {site.name!r}: the grid connection of {p_nom:g} MW {verdict}. {told}", proven)


def _paths(site: Site, window: Window, formulation: Formulation) -> Paths:
    placed = tuple(
        PlacedGraph(
            site.name,
            generator,
            replace(window, positions=np.arange(len(window.slots))),
            checkpoint_graph(load, window.slots, formulation),
            np.zeros(len(window.slots)),
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
        lean = _leanest(load)
        need = _gpu_hours(load, lean)
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


def _leanest(load: TrainingLoad) -> Mode:
    return min(load.modes, key=lambda mode: mode.gpus * load.hours(mode))


def _gpu_hours(load: TrainingLoad, mode: Mode) -> float:
    """GPU-hours of what is left of a job in one mode."""
    return mode.gpus * load.hours(mode) * sum(load.rules.shares[load.rules.progress :])


def _latest_deadline(site: Site, window: Window, formulation: Formulation) -> float | None:
    """First deadline, in hours, by which all jobs fit into the pool: bisection over slots added at the end."""
    step, count, pool = float(window.slots.hours[-1]), len(window.slots), site.spec.gpus
    least = sum(_gpu_hours(load, _leanest(load)) for load in site.loads.values())

    def fits(extra: int) -> bool:
        slots = Slots(np.append(window.slots.hours, np.full(extra, step)))
        longer = replace(window, slots=slots, weight=np.ones(len(slots)))
        loads = {g: _without_deadline(load) for g, load in site.loads.items()}
        try:
            paths = _paths(replace(site, jobs=loads), longer, formulation)
        except InfeasibleError:
            return False
        return _fit_one_by_one(paths, pool) or _fit_together(paths)

    # Fewer slots have not enough GPU-hours.
    low = max(math.ceil((least / pool * (1 - _TOLERANCE) - window.slots.total) / step), 0) - 1
    high, further = low + 1, 1
    while not fits(high):
        low, high, further = high, high + further, 2 * further
        if high > _LONGEST_SEARCH * count:
            return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if fits(middle) else (middle, high)
    return float(window.slots.total + high * step)


def _fit_one_by_one(paths: Paths, pool: int) -> bool:
    """Whether jobs fit that are placed one after another, each as early as those before it leave GPUs.

    Far quicker than the search of a model, whatever the machine; where they do not fit, another schedule still may.
    """
    graphs = [each.graph for each in paths.placed]
    if not all(graph.load.rules.continuity for graph in graphs):
        return False
    orders = permutations(range(len(graphs))) if len(graphs) <= _MOST_ORDERED else [range(len(graphs))]
    holding = [graph.holding() for graph in graphs]
    for order in orders:
        left = np.full(len(paths.placed[0].window.slots), pool)
        for job in order:
            edge, slot, gpus = holding[job]
            blocked = np.bincount(edge, gpus > left[slot], minlength=len(graphs[job])) > 0
            lateness = np.bincount(edge, slot * gpus, minlength=len(graphs[job])).astype(float)
            never = 1.0 + 2 * lateness.max() * len(left)
            cost, flow = cheapest_path(graphs[job], np.where(blocked, never, lateness))
            if cost >= never:
                break
            np.subtract.at(left, slot, np.where(flow[edge] > 0, gpus, 0).astype(left.dtype))
        else:
            return True
    return False


def _fit_together(paths: Paths) -> bool:
    """Whether any schedules of all jobs fit into their pool; far sooner known than the smallest pool."""
    m, x, labels = _job_model(paths)
    m.add_constraints(training_gpus(x, paths, labels, held=True) <= 1, name="gpus")
    m.add_objective(0.0 * x.sum())
    return solved_quietly(m, time_limit=_SEARCH_SECONDS)


def _without_deadline(load: TrainingLoad) -> TrainingLoad:
    return replace(load, deadline=None)


def _least_gpus(paths: Paths, good_enough: float) -> _Need:
    """Smallest GPU pool into which the jobs of one site fit; the search may stop at one that is good enough."""
    m, x, labels = _job_model(paths)
    pool = m.add_variables(lower=0, name="pool")
    size = next(iter(paths.sites.values())).spec.gpus
    m.add_constraints(
        training_gpus(x, paths, labels, held=True).isel(aidc_site=0, drop=True) * size - pool <= 0, name="gpus"
    )
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
    value, bound = objective_of(m), bound_of(m)
    found = value if m.status == "ok" and math.isfinite(value) else math.inf
    return _Need(bound if math.isfinite(bound) else 0.0, found)
