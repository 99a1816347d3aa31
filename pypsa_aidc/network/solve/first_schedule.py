"""Help for the solver before it starts: a first schedule, and the edges that no better one can use."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import linopy
import numpy as np
import pypsa
import xarray as xr
from numpy.typing import NDArray

from pypsa_aidc.network.loads.protocol import Start
from pypsa_aidc.network.loads.site.paths import PATH, PATH_CONSTRAINTS, Paths
from pypsa_aidc.network.model.storage import CHARGES
from pypsa_aidc.network.pypsa_api import (
    AGREEMENT,
    Programme,
    discrete,
    is_optimal,
    relaxation_of,
    searched,
    whole_numbers_of,
    write_solution,
)
from pypsa_aidc.network.solve.solver_options import LARGE, SolverOptions
from pypsa_aidc.training import cheapest_path, cheapest_through

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

logger = logging.getLogger(__name__)

_BLOCKED = 1e12
"""USD that stand for an edge that does not fit into the pool."""

_ROUNDS = 3
"""Most rounds of improvement, in each of which every job once may leave its path again."""

_PARTS = 8
"""In how many parts equal jobs are placed, with the relaxation solved between them."""

_ROUND = 15
"""How many times as long as the relaxation HiGHS may take, in a large model, before it looks at the clock."""

_FOR_FIRST = 0.5
"""Most of the time of a part that its first schedule may take."""

_PREFERENCES = (0.0, 0.1, 1.0)
"""How much dearer, in shares of the mean edge cost, edges are made that the relaxation does not use.

At its prices many paths cost the same; each preference picks another of them.
"""


def prepare(n: pypsa.Network, paths: Paths, file: Path, options: SolverOptions | None = None) -> Start:
    """Write a feasible solution for HiGHS to start from, and fix edges that no better solution can use.

    The relaxation's bound is close (0.3 % on the campus of [1], 0.01 % on a large grid), but rounding it rarely gives
    paths, and HiGHS may search for a first one for minutes. At given prices of power and GPUs, though, a job alone is
    a shortest path. So the relaxation is solved, the largest job fixed on its cheapest path, the relaxation solved
    again from there, and so on; then each job may leave its path once more while the others stay.

    With the relaxation's prices, the cheapest path through an edge also bounds from below every solution that uses
    the edge. Edges whose bound lies above the first solution get an upper bound of 0 in ``n.model``; the optimum
    stays what it was.

    Parameters
    ----------
    n
        Network with a built model.
    paths
        Its paths.
    file
        Where to write, in the format of HiGHS solution files. Nothing is written where there is no first schedule:
        in models with anything but continuous variables and our own binaries (unit commitment, semi-continuous
        variables, special ordered sets), without checkpoint continuity or with quadratic costs, and where the jobs,
        placed one after the other, do not fit.
    options
        Those of the solve, with the time that is left; the best schedule by then is taken.

    Returns
    -------
    Start
        How long the relaxation took, which is what the prices will take, about. Where a large model falls into parts
        that nothing ties together, such as sites with prices of their own, their searches are over, too.
    """
    m = n.model
    options = SolverOptions.of({}) if options is None else options
    others = [name for name in discrete(m) if name != PATH and not name.startswith(f"{CHARGES} ")]
    if (
        others
        or not paths.placed
        or m.is_quadratic
        or not all(each.graph.load.rules.continuity for each in paths.placed)
    ):
        return Start()
    started = time.perf_counter()
    whole = _Part.whole(m, paths)
    parts = whole.apart() if paths.edges >= LARGE else [whole]
    if len(parts) > 1:
        return _solve_parts(m, whole, parts, file, options)
    relaxation = _Relaxation(whole, started + options.for_first_schedule)
    if not relaxation.solve():
        return Start()
    took = time.perf_counter() - started
    bound, lower_bounds = relaxation.objective, relaxation.edge_bounds()
    solution = relaxation.schedule()
    if solution is None:
        logger.info("AIDC: no first schedule found at the prices of the relaxation")
        return Start(took)
    write_solution(m, solution, file)
    objective = float(relaxation.cost @ solution)
    if paths.edges >= LARGE and options.left < _ROUND * took:
        logger.info("AIDC: first schedule at %.6g; too little time is left for a search", objective)
        return _fixed(m, whole, solution, objective - bound, optimal=False)
    useless = relaxation.useless(lower_bounds, solution)
    _bound_edges(m, np.zeros(len(useless)), np.where(useless, 0.0, whole.most))
    logger.info("AIDC: first schedule at %.6g, %d of %d edges fixed", objective, useless.sum(), len(useless))
    return Start(took)


def _solve_parts(m: linopy.Model, whole: _Part, parts: list[_Part], file: Path, options: SolverOptions) -> Start:
    """Search parts of a model that nothing ties together one after the other, and fix their paths in the model.

    The search for all of them at once would take far longer than the sum: HiGHS does not look for parts.
    """
    solution, gap, optimal = np.zeros(len(whole.programme.cost)), 0.0, True
    end = time.perf_counter() + options.for_parts
    for number, part in enumerate(parts):
        now = time.perf_counter()
        share = (end - now) / (len(parts) - number)
        options.words = f"part {number + 1} of {len(parts)}"
        relaxation = _Relaxation(part, now + _FOR_FIRST * share)
        if not relaxation.solve():
            return Start()
        if part.paths.placed:
            bound, bounds, found = relaxation.objective, relaxation.edge_bounds(), relaxation.schedule()
            if found is None:
                return Start()
            better = relaxation.search(found, bounds, now + share, options.options)
            if better is None:
                better = _Searched(found, float(relaxation.cost @ found) - bound, optimal=False)
            gap, optimal = gap + better.gap, optimal and better.optimal
            solution[part.columns] = better.solution
        else:
            solution[part.columns] = relaxation.columns()
    write_solution(m, solution, file)
    logger.info("AIDC: %d parts apart from each other, %.6g USD from the bound", len(parts), gap)
    return _fixed(m, whole, solution, gap, optimal=optimal)


def _fixed(m: linopy.Model, whole: _Part, solution: Floats, gap: float, *, optimal: bool) -> Start:
    """Fix the paths of a solution in the model until it is solved."""
    flow = np.round(solution[whole.path])
    _bound_edges(m, flow, flow)
    return Start(gap=gap, optimal=optimal, release=partial(_bound_edges, m, np.zeros(len(flow)), whole.most))


def _bound_edges(m: linopy.Model, lower: Floats, upper: Floats) -> None:
    x = m.variables[PATH]
    low, high = (xr.DataArray(values, coords=x.coords, dims=x.dims) for values in (lower, upper))
    x.update(lower=low, upper=high)


@dataclass(frozen=True, eq=False)
class _Part:
    """A model without integrality, or a part of it that no row ties to the rest, and the paths in it."""

    programme: Programme
    paths: Paths
    path: Ints
    """Column of each edge."""
    switches: Ints
    """Columns of binaries that let a storage charge or discharge."""
    coupling: Ints
    """Rows that tie paths to each other and to the network: all but those that make each job a path."""
    columns: Ints
    """Columns of the whole model."""

    @classmethod
    def whole(cls, m: linopy.Model, paths: Paths) -> _Part:
        programme = relaxation_of(m)
        labels = np.asarray(m.matrices.vlabels)
        charges = [m.variables[name].labels.values for name in m.binaries if name.startswith(CHARGES)]
        switches = np.searchsorted(labels, np.concatenate(charges or [np.empty(0)]))
        path = np.searchsorted(labels, m.variables[PATH].labels.values)
        own = [m.constraints[name].labels.values.ravel() for name in PATH_CONSTRAINTS if name in m.constraints]
        coupling = np.flatnonzero(~np.isin(programme.labels, np.concatenate(own)))
        return cls(programme, paths, path, switches, coupling, np.arange(len(labels)))

    @property
    def most(self) -> Floats:
        """How many paths an edge may carry."""
        return np.concatenate(
            [np.full(len(each.graph), float(len(each.generators))) for each in self.paths.placed] or [np.zeros(0)]
        )

    def apart(self) -> list[_Part]:
        """Cut it into those parts; what holds no path is one of them."""
        by_column, by_row = self.programme.components()
        edges = self.paths.split(self.path.astype(float))
        owner = np.array([by_column[int(own[0])] for own in edges])
        found = [self._cut(by_column == each, by_row == each, owner == each) for each in dict.fromkeys(owner.tolist())]
        rest = self._cut(~np.isin(by_column, owner), ~np.isin(by_row, owner), owner < 0)
        return [*found, rest] if len(rest.columns) else found

    def _cut(self, columns: NDArray[np.bool_], rows: NDArray[np.bool_], jobs: NDArray[np.bool_]) -> _Part:
        column, row = np.cumsum(columns) - 1, np.cumsum(rows) - 1
        placed = tuple(each for each, own in zip(self.paths.placed, jobs, strict=True) if own)
        return _Part(
            self.programme.part(np.flatnonzero(columns), np.flatnonzero(rows)),
            replace(self.paths, placed=placed),
            column[self.path[columns[self.path]]],
            column[self.switches[columns[self.switches]]],
            row[self.coupling[rows[self.coupling]]],
            np.flatnonzero(columns),
        )


class _Searched(NamedTuple):
    """How a search ended: value of each column, USD from the bound, and whether that is the gap asked for."""

    solution: Floats
    gap: float
    optimal: bool


class _Relaxation:
    """A part of the model, or all of it, in a HiGHS object that keeps its basis between solves."""

    def __init__(self, part: _Part, deadline: float) -> None:
        paths = part.paths
        self.paths, self.deadline = paths, deadline
        self.highs = part.programme.highs()
        self._first = paths.edges >= LARGE
        if self._first:
            self.highs.setOptionValue("solver", "ipm")
        self.switches = part.switches.astype(np.int32)
        self.edges = [own.astype(np.int32) for own in paths.split(part.path.astype(float))]
        self.coupling_rows = part.coupling
        self.coupling = part.programme.matrix[part.coupling][:, part.path].T.tocsr()
        self.cost = part.programme.cost
        self.own_cost = self.cost[part.path]
        self.most = part.most
        self.holding = [each.graph.holding() for each in paths.placed]
        self.copies = paths.copies
        self.counts = np.array([len(each.generators) for each in paths.placed], dtype=float)
        self.flows: dict[int, Floats] = {}

    def useless(self, lower_bounds: Floats, solution: Floats) -> NDArray[np.bool_]:
        """Whether an edge is in no better solution, of those whose bounds are given."""
        objective = float(self.cost @ solution)
        # A little above, so that solutions as good as the first one are not cut off by rounding.
        return np.asarray(lower_bounds > objective + 1e-7 * max(1.0, abs(objective)))

    def search(
        self, first: Floats, lower_bounds: Floats, deadline: float, options: Mapping[str, Any]
    ) -> _Searched | None:
        """Let HiGHS search for a better solution than a first one; `None` where it has none, or a wrong cost."""
        path = np.concatenate(self.edges)
        for start in (first, None):
            highs = whole_numbers_of(self.highs, [*path, *self.switches], options, deadline - time.perf_counter())
            high = self.most if start is None else np.where(self.useless(lower_bounds, first), 0.0, self.most)
            highs.changeColsBounds(len(path), path, np.zeros(len(path)), high)
            ones = np.ones(len(self.switches))
            highs.changeColsBounds(len(ones), self.switches, 0 * ones, ones)
            found = searched(highs, start)
            if found is not None:
                solution, objective, bound, optimal = found
                if abs(float(self.cost @ solution) - objective) <= AGREEMENT * max(1.0, abs(objective)):
                    return _Searched(solution, max(objective - bound, 0.0), optimal)
        return None

    def solve(self) -> bool:
        """Solve from the present basis; whether there is an optimum, found in time."""
        left = self.deadline - time.perf_counter()
        if left <= 0:
            return False
        # HiGHS counts the time of all its runs.
        self.highs.setOptionValue("time_limit", self.highs.getRunTime() + left)
        self.highs.run()
        if self._first:
            # Without a basis to start from, the interior point method takes a fifth of the time of the simplex method.
            self._first = False
            self.highs.setOptionValue("solver", "simplex")
            return is_optimal(self.highs) or self.solve()
        return is_optimal(self.highs)

    @property
    def objective(self) -> float:
        """Objective of the last solve in USD."""
        return float(self.highs.getInfo().objective_function_value)

    def edge_bounds(self) -> Floats:
        """Lower bound in USD on every integral solution that uses an edge, for all edges one after the other.

        The Lagrangian bound at the relaxation's prices of all constraints but those that make each job a path: the
        relaxation's objective, with each job's share replaced by its cheapest path, and for the job in question by
        its cheapest path through the edge.
        """
        columns = np.asarray(self.highs.getSolution().col_value)
        costs = self._edge_costs()
        through = [cheapest_through(each.graph, cost) for each, cost in zip(self.paths.placed, costs, strict=True)]
        best = [float(costs.min()) for costs in through]
        relaxed = sum(float(cost @ columns[edges]) for cost, edges in zip(costs, self.edges, strict=True))
        whole = self.objective + float(self.counts @ best) - relaxed
        return np.concatenate([whole + costs - least for costs, least in zip(through, best, strict=True)])

    def schedule(self) -> Floats | None:
        """Fix all jobs one after the other, improve, and return the value of each column; `None` if they do not fit."""
        order = sorted(range(len(self.copies)), key=lambda job: -self._least_gpu_hours(job))
        for job in order:
            if self._place(job) is None:
                return None
        found = self._improve(order, self.columns())
        if len(self.switches):
            switches = np.round(found[self.switches])
            self.highs.changeColsBounds(len(switches), self.switches, switches, switches)
            return self.columns() if self.solve() else None
        return found

    def _improve(self, order: list[int], found: Floats) -> Floats:
        """Let each job in turn leave its path, and keep the best of some new ones if the objective falls."""
        best = self.objective
        for _ in range(_ROUNDS):
            before = best
            for job in order:
                kept = self.flows[job]
                self._bound(job, np.zeros(len(kept)), np.full(len(kept), self._count(job)))
                for flow in self._candidates(job) if self.solve() else []:
                    if flow is not None and self._fix(job, flow) and self.objective < best - 1e-9:
                        best, kept, found = self.objective, flow, self.columns()
                if not self._fix(job, kept):
                    return found
            if best > before - 1e-6 * max(1.0, abs(before)):
                return found
        return found

    def _candidates(self, job: int) -> list[Floats | None]:
        """Flows for a job that is free, at the prices of the last solve; of equal jobs one, found in parts."""
        if self._count(job) == 1:
            return [self._cheapest(job, preference=each) for each in _PREFERENCES]
        del self.flows[job]
        return [self._place(job)]

    def _place(self, job: int) -> Floats | None:
        """Fix a job on its cheapest path, equal jobs in parts of them with new prices between; `None` if none fits."""
        count, placed = self._count(job), 0
        flow = np.zeros(len(self.paths.placed[self.copies[job][0]].graph))
        while placed < count:
            units = min(math.ceil(count / _PARTS), count - placed)
            for _ in range(units):
                self.flows[job] = flow
                path = self._cheapest(job)
                if path is None:
                    return None
                flow = flow + path
            placed += units
            if not self._fix(job, flow, np.full(len(flow), count) if placed < count else flow):
                return None
        return flow

    def _count(self, job: int) -> int:
        """How many equal jobs it is."""
        return int(self.counts[self.copies[job][0]])

    def columns(self) -> Floats:
        """Value of each column in the last solve, with the fixed paths exactly."""
        columns = np.array(self.highs.getSolution().col_value)
        for job, flow in self.flows.items():
            for position in self.copies[job]:
                columns[self.edges[position]] = flow
        return columns

    def _edge_costs(self) -> list[Floats]:
        """Cost of each edge at the present prices of everything that ties jobs to each other and to the network."""
        prices = np.asarray(self.highs.getSolution().row_dual)[self.coupling_rows]
        return self.paths.split(self.own_cost - self.coupling @ prices)

    def _cheapest(self, job: int, preference: float = 0.0) -> Floats | None:
        """Cheapest path of a job within what the fixed jobs leave of the pool, of equal ones the relaxation's.

        One path for all scenarios, which is allowed whatever the moment of recourse.
        """
        copies = self.copies[job]
        graph, costs = self.paths.placed[copies[0]].graph, self._edge_costs()
        edge, slot, gpus = self.holding[copies[0]]
        blocked = np.bincount(edge, gpus > self._left(job)[slot] + 1e-6, minlength=len(graph)) > 0
        cost = np.sum([costs[position] for position in copies], axis=0)
        columns = np.asarray(self.highs.getSolution().col_value)
        used = np.mean([columns[self.edges[position]] for position in copies], axis=0)
        unused = preference * np.abs(cost).mean() * (1 - np.clip(used, 0.0, 1.0))
        total, flow = cheapest_path(graph, cost + unused + np.where(blocked, _BLOCKED, 0.0))
        return None if total >= _BLOCKED / 2 else flow

    def _left(self, job: int) -> Floats:
        """GPUs that the other fixed jobs, and those equal to it, leave to a job in each slot."""
        each = self.paths.placed[self.copies[job][0]]
        left = np.full(len(each.window.slots), float(self.paths.sites[each.site].spec.gpus))
        for other, flow in self.flows.items():
            first = self.copies[other][0]
            neighbour = self.paths.placed[first]
            others = other != job or self._count(job) > 1
            if others and neighbour.site == each.site and neighbour.window is each.window:
                edge, slot, gpus = self.holding[first]
                left -= np.bincount(slot, gpus * flow[edge], minlength=len(left))
        return left

    def _least_gpu_hours(self, job: int) -> float:
        load = self.paths.placed[self.copies[job][0]].graph.load
        return self._count(job) * min(mode.gpus * load.hours(mode) for mode in load.modes)

    def _fix(self, job: int, flow: Floats, most: Floats | None = None) -> bool:
        """Fix a job on a path, or between a flow and `most`, and solve again; whether that is feasible."""
        self.flows[job] = flow
        self._bound(job, flow, flow if most is None else most)
        return self.solve()

    def _bound(self, job: int, lower: Floats, upper: Floats) -> None:
        for position in self.copies[job]:
            self.highs.changeColsBounds(len(lower), self.edges[position], lower, upper)
