"""The checkpoint-state graphs of all jobs in one model: variables, path constraints and what they decode to."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal

import linopy
import numpy as np
import pandas as pd
import pypsa
import xarray as xr
from numpy.typing import NDArray

from pypsa_aidc.network.loads.protocol import Built, Start
from pypsa_aidc.network.loads.site.gpu_value import occupied, values_of
from pypsa_aidc.network.loads.site.step_power import step_power
from pypsa_aidc.network.model.ahead import Ahead
from pypsa_aidc.network.model.flow import PathGraph, add_path_flow
from pypsa_aidc.network.model.horizon import Window, network_snapshots
from pypsa_aidc.network.model.levels import add_levels
from pypsa_aidc.network.model.linear import over, weighted_sum
from pypsa_aidc.network.model.recourse import Recourse, agree, weigh
from pypsa_aidc.network.pypsa_api import is_near_optimal, widen_budget
from pypsa_aidc.training import CheckpointGraph, Formulation, Step, TrainingLoad, checkpoint_graph
from pypsa_aidc.training.graph.state import JobState
from pypsa_aidc.units import W_PER_MW

if TYPE_CHECKING:
    from pypsa_aidc.network.loads.site.site import Site
    from pypsa_aidc.network.solve.solver_options import SolverOptions

logger = logging.getLogger(__name__)

PATH = "AIDC-path"
"""Name of the binary variable with one entry for each edge of each job."""

PATH_CONSTRAINTS = ("AIDC-path_flow", "AIDC-coverage", "AIDC-work")
"""Names of the constraints that make each job a path that does its work; all others tie it to something else."""

IT_POWER = "AIDC-it_power"
"""Name of the constraint that gives each job generator the power of its path (Eq. 28a of [1])."""

MANY = 3
"""Equal jobs of a site from which on they are one flow of whole numbers: as paths apart, each could be any other."""

GPUS = "AIDC-gpus"
"""Name of the constraint on the GPU pool of each site (Eq. 30a of [1])."""

Floats = NDArray[np.float64]
Expression = linopy.LinearExpression | xr.DataArray
Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class PlacedGraph:
    """The graph of one job in one window; of its slots, the first ``len(window.positions)`` are in the model.

    `gpu_value` is the worth of a GPU-hour in USD in each of its slots.
    """

    site: str
    generator: str
    window: Window
    graph: CheckpointGraph
    gpu_value: Floats
    scenario: str | None = None
    """The scenario whose path it is; `None` for one path in all of them."""
    equals: tuple[str, ...] = ()
    """Generators of further jobs that are equal to this one: the edges then carry as many paths."""

    @property
    def generators(self) -> tuple[str, ...]:
        """Generators of all jobs whose paths these are."""
        return (self.generator, *self.equals)


@dataclass(frozen=True, eq=False)
class Paths(Built):
    """All graphs of a model, their edges one after the other in the variable `PATH`.

    Parameters
    ----------
    placed
        Graphs, by site, job and window.
    sites
        The sites they belong to.
    ahead
        The place in a rolling horizon, if there is one.
    recourse
        What is decided by scenario, in a network with scenarios.
    """

    placed: tuple[PlacedGraph, ...]
    sites: Mapping[str, Site]
    ahead: Ahead | None = None
    recourse: Recourse | None = None

    integers: ClassVar[tuple[str, ...]] = (PATH,)

    @property
    def edges(self) -> int:
        """Number of edges, which is the number of binaries."""
        return sum(len(each.graph) for each in self.placed)

    @property
    def edges_before_pruning(self) -> int:
        """Number of edges before unreachable and decomposable ones went."""
        return sum(each.graph.edges_before_pruning for each in self.placed)

    def split(self, flow: Floats) -> list[Floats]:
        """Cut the solution of `PATH` into the parts of each graph."""
        return np.split(flow, np.cumsum([len(each.graph) for each in self.placed])[:-1]) if self.placed else []

    @property
    def scenarios(self) -> list[str]:
        """The scenarios, where any job has a path of its own in each of them."""
        own = {each.scenario for each in self.placed} - {None}
        return list(self.recourse.scenarios) if own and self.recourse is not None else []

    @property
    def copies(self) -> list[list[int]]:
        """Positions in `placed` of the graphs of each job in each window: one, or one for each scenario."""
        found: dict[tuple[str, object], list[int]] = {}
        for position, each in enumerate(self.placed):
            found.setdefault((each.generator, each.window.period), []).append(position)
        return list(found.values())

    @property
    def generators(self) -> dict[str, tuple[str, TrainingLoad]]:
        """Site and load of each job generator."""
        return {generator: (site.name, load) for site in self.sites.values() for generator, load in site.loads.items()}

    def decided(self, generator: str) -> tuple[Step, ...]:
        """Steps of a job that windows before this one have decided."""
        ahead = self.ahead
        return () if ahead is None else tuple(s for s in ahead.steps[generator] if s.start < ahead.decided)

    @property
    def together(self) -> bool:
        """Whether any edges carry the paths of several equal jobs."""
        return any(each.equals for each in self.placed)

    def write_back(self, n: pypsa.Network) -> None:
        """Give each of several equal jobs the power of its own path."""
        from pypsa_aidc.network.loads.site.schedule import write_power  # it reads what this has built

        if self.together:
            write_power(n, self)

    def record(self, n: pypsa.Network) -> None:
        """Decode the schedules of all jobs and keep them in the network."""
        from pypsa_aidc.network.loads.site.schedule import record  # it reads what this has built

        record(n, self)

    def write_start(self, n: pypsa.Network, file: Path, options: SolverOptions) -> Start:
        """Write a first schedule, and fix edges that no better one can use."""
        from pypsa_aidc.network.solve.first_schedule import prepare  # above the loads

        return prepare(n, self, file, options)


def build_paths(
    n: pypsa.Network,
    sites: Mapping[str, Site],
    snapshots: pd.Index | None = None,
    formulation: Formulation = "time",
    ahead: Ahead | None = None,
    recourse: Recourse | None = None,
) -> Paths:
    """Build the graphs of all jobs for the given snapshots; in a rolling horizon, of what is left of them.

    Raises
    ------
    InputError
        Weightings contradict the dates, or a deadline lies after the horizon.
    InfeasibleError
        A job cannot finish even alone.
    """
    chosen = network_snapshots(n, snapshots)
    if ahead is not None:
        return Paths(tuple(_placed_ahead(n, sites, len(chosen), formulation, ahead)), sites, ahead)
    placed = []
    for site in sites.values():
        apart, horizon = recourse is not None and site.name in recourse.moments, site.windows(n, snapshots)
        alone = [[generator] for generator in site.loads]
        for generator, *equals in alone if recourse is not None else _equal_jobs(site, horizon[0], formulation):
            load = site.loads[generator]
            for window in horizon:
                # Of paths together, only nodes that count checkpoints tell which of them are complete.
                graph = checkpoint_graph(load, window.slots, "literal" if equals else formulation)
                value = values_of(n, site, load, chosen[window.positions])
                for scenario in recourse.scenarios if recourse is not None and apart else (None,):
                    placed.append(PlacedGraph(site.name, generator, window, graph, value, scenario, tuple(equals)))
    return Paths(tuple(placed), sites, recourse=recourse)


def _equal_jobs(site: Site, window: Window, formulation: Formulation) -> list[list[str]]:
    """Job generators of a site; equal ones, which differ in nothing but their names, in one list where that is smaller.

    Together they need nodes that count checkpoints, which many edges join; apart, each has edges of its own.
    """
    groups: dict[TrainingLoad, list[str]] = {}
    for generator, load in site.loads.items():
        groups.setdefault(replace(load, name="", description=""), []).append(generator)
    lists: list[list[str]] = []
    for load, own in groups.items():
        together = len(own) >= MANY and load.rules.continuity
        if together and formulation != "literal":
            apart, counted = (len(checkpoint_graph(load, window.slots, each)) for each in (formulation, "literal"))
            together = counted <= len(own) * apart
        lists += [own] if together else [[generator] for generator in own]
    return sorted(lists, key=lambda own: list(site.loads).index(own[0]))


def _placed_ahead(
    n: pypsa.Network, sites: Mapping[str, Site], count: int, formulation: Formulation, ahead: Ahead
) -> Iterator[PlacedGraph]:
    """Graphs from the state of each job to its end, of which a window models the first slots."""
    offset = ahead.decided - ahead.border
    if ahead.decided >= len(ahead.slots):
        return
    for site in sites.values():
        for generator, load in site.loads.items():
            state = JobState.at(load, ahead.slots, ahead.steps[generator], ahead.decided)
            graph = state.remaining(load, ahead.slots, formulation)
            if graph is not None:
                window = Window(None, np.arange(offset, count), ahead.rest, ahead.weight[ahead.decided :])
                value = values_of(n, site, load, ahead.snapshots[ahead.decided :])
                yield PlacedGraph(site.name, generator, window, graph, value)


def add_paths(
    n: pypsa.Network,
    sites: Mapping[str, Site],
    snapshots: pd.Index,
    formulation: Formulation = "time",
    ahead: Ahead | None = None,
    recourse: Recourse | None = None,
) -> Paths:
    """Put all jobs of some sites into ``n.model``: paths, power, GPU pools, idle power, costs of mode changes."""
    m = n.model
    paths = build_paths(n, sites, snapshots, formulation, ahead, recourse)
    p = m["Generator-p"]
    labels = p.indexes["snapshot"]
    power: Expression = _decided_draw(paths, labels)
    gpus: Expression = _decided_gpus(paths, labels)
    held = any(load.rules.held_gpus for _, load in paths.generators.values())
    costs = np.zeros(0)
    if paths.placed:
        x, costs = add_path_variables(m, paths), event_costs(paths)
        power = training_power(x, paths, labels) + power
        occupied_share = training_gpus(x, paths, labels, held=held) + _decided_gpus(paths, labels, held=held)
        add_gpu_limit(m, occupied_share)
        if any(site.spec.idle_w for site in sites.values()):
            gpus = training_gpus(x, paths, labels) + gpus if held else occupied_share
        if ahead is not None:
            costs = costs + _later_costs(paths, ahead)
            _limit_later(m, x, paths, ahead)
        _agree(m, x, paths)
        if costs.any():
            _charge(n, x, paths, costs)
    m.add_constraints(p.sel(name=list(paths.generators)) - power == 0, name=IT_POWER)
    idle = idle_power(gpus, paths)
    if idle is not None:
        names, expression = idle
        renamed = expression.rename(aidc_site="name").assign_coords(name=names)
        m.add_constraints(p.sel(name=names) - renamed == 0, name="AIDC-idle_power")
    logger.info(
        "AIDC: %d jobs, %d edges of %d before pruning", len(paths.placed), paths.edges, paths.edges_before_pruning
    )
    return paths


def add_path_variables(m: linopy.Model, paths: Paths) -> linopy.Variable:
    """Add one binary an edge and the constraints that make each job a path, Eq. 26 of [1].

    Where nodes do not count checkpoints, one row a job makes its segments add up to those of the tranche, exactly: "at
    least" would be another problem.
    """
    coords = [pd.RangeIndex(paths.edges, name="aidc_edge")]
    if paths.together:
        most = np.repeat([len(each.generators) for each in paths.placed], [len(each.graph) for each in paths.placed])
        upper = xr.DataArray(most.astype(float), coords=coords, dims=["aidc_edge"])
        x = m.add_variables(lower=0, upper=upper, integer=True, name=PATH)
    else:
        x = m.add_variables(binary=True, coords=coords, name=PATH)
    add_path_flow(
        m,
        x,
        [
            PathGraph(g.edges.tail, g.edges.head, g.nodes, g.source, g.sink, len(each.generators))
            for each in paths.placed
            for g in [each.graph]
        ],
        PATH_CONSTRAINTS[0],
        "aidc_node",
    )
    _add_coverage(m, x, paths)
    return x


def _agree(m: linopy.Model, x: linopy.Variable, paths: Paths) -> None:
    """Let the paths of a job in all scenarios start the same edges before its moment of recourse."""
    first = _offsets(paths)
    pairs = []
    for copies in paths.copies:
        each = paths.placed[copies[0]]
        if each.scenario is not None and paths.recourse is not None:
            common = np.flatnonzero(paths.recourse.common(each.site, each.window, each.graph.edges.start))
            pairs += [(x, first[copies[0]] + common, x, first[other] + common) for other in copies[1:]]
    agree(m, pairs, "AIDC-path_common")


def _charge(n: pypsa.Network, x: linopy.Variable, paths: Paths, costs: Floats) -> None:
    """Put the costs of edges into the objective, in each scenario those of its paths."""

    def cost(kept: NDArray[np.bool_]) -> linopy.LinearExpression:
        return (x * xr.DataArray(np.where(kept, costs, 0.0), coords=x.coords, dims=x.dims)).sum()

    m = n.model
    if is_near_optimal(m):
        spent = sum(sum(site.own_costs(n).values()) for site in paths.sites.values())
        widen_budget(n, cost(np.full(len(costs), True)), spent)
        return
    if paths.recourse is None:
        m.objective = m.objective.expression + cost(np.full(len(costs), True))
        return
    owner = np.repeat([each.scenario or "" for each in paths.placed], [len(each.graph) for each in paths.placed])
    weigh(n, {name: cost((owner == "") | (owner == name)) for name in paths.recourse.scenarios})


def _add_coverage(m: linopy.Model, x: linopy.Variable, paths: Paths) -> None:
    counted = [
        (each.graph, first)
        for each, first in zip(paths.placed, _offsets(paths), strict=True)
        if each.graph.coverage is not None
    ]
    for exact in (True, False):
        chosen = [(graph, first) for graph, first in counted if graph.load.rules.continuity is exact]
        if not chosen:
            continue
        jobs = pd.RangeIndex(len(chosen), name="aidc_job")
        training = [np.flatnonzero(graph.edges.segments > 0) for graph, _ in chosen]
        segments = weighted_sum(
            x,
            np.concatenate([first + edge for (_, first), edge in zip(chosen, training, strict=True)]),
            np.repeat(np.arange(len(chosen)), [len(edge) for edge in training]),
            np.concatenate([graph.edges.segments[edge] for (graph, _), edge in zip(chosen, training, strict=True)]),
            {"aidc_job": jobs},
        )
        least = np.array([graph.coverage[0] for graph, _ in chosen if graph.coverage])
        name = PATH_CONSTRAINTS[1 if exact else 2]
        m.add_constraints(segments, "=" if exact else ">=", over(least, jobs), name=name)


def training_power(x: linopy.Variable, paths: Paths, snapshots: pd.Index) -> linopy.LinearExpression:
    """IT power of each job generator in MW, over (snapshot, name); Eqs. 27 and 28a of [1]."""
    generators = pd.Index(list(paths.generators), name="name")
    return _per_snapshot(x, paths, snapshots, generators, "power")


def training_gpus(
    x: linopy.Variable, paths: Paths, snapshots: pd.Index, *, held: bool = False
) -> linopy.LinearExpression:
    """Share of its pool that runs jobs at each site, over (snapshot, aidc_site); Eq. 28b of [1] over N_GPU.

    With `held` also what waiting jobs keep. As a share, since hundreds of thousands of GPUs beside binaries are more
    than solvers' tolerances bear.
    """
    sites = pd.Index(list(paths.sites), name="aidc_site")
    return _per_snapshot(x, paths, snapshots, sites, "held" if held else "busy")


def _per_snapshot(
    x: linopy.Variable, paths: Paths, snapshots: pd.Index, columns: pd.Index, what: Literal["power", "busy", "held"]
) -> linopy.LinearExpression:
    entry, start, stop, level, base = [], [], [], [], []
    scenarios, stride = paths.scenarios, len(columns)
    for each, first_edge in zip(paths.placed, _offsets(paths), strict=True):
        runs = each.graph.power_runs() if what == "power" else each.graph.gpu_runs(held=what == "held")
        # Of equal jobs together, each Generator has the mean power until the paths are told apart.
        labels = each.generators if what == "power" else (each.site,)
        share = len(labels) if what == "power" else paths.sites[each.site].spec.gpus
        slots = len(each.window.positions)
        inside = np.flatnonzero(runs.start < slots)
        first = each.window.positions[0] if slots else 0
        # One path in all scenarios runs in each of them.
        for block in [scenarios.index(each.scenario)] if each.scenario else range(max(len(scenarios), 1)):
            for column in columns.get_indexer(pd.Index(labels)):
                entry.append(first_edge + runs.edge[inside])
                start.append(first + runs.start[inside])
                stop.append(first + np.minimum(runs.stop[inside], slots))
                level.append(runs.level[inside] / share)
                base.append(np.full(len(inside), block * len(snapshots) * stride + column))
    coords = {"snapshot": snapshots, str(columns.name): columns}
    if scenarios:
        coords = {"scenario": pd.Index(scenarios, name="scenario"), **coords}
    entries, starts, stops, bases = (np.concatenate(part) for part in (entry, start, stop, base))
    return add_levels(x, entries, starts, stops, bases, np.concatenate(level), coords, f"AIDC-{what}")


def event_costs(paths: Paths) -> Floats:
    """USD of each edge: GPU-hours, delay and mode changes, weighted as the objective weighs the hour of each."""
    return np.concatenate(
        [
            each.graph.edges.cost
            * np.append(each.window.weight, 0.0)[np.minimum(each.graph.edges.start, len(each.window.slots))]
            + (each.graph.gpu_hours(each.gpu_value * each.window.weight) if each.gpu_value.any() else 0.0)
            + each.graph.delay_costs(each.window.weight)
            for each in paths.placed
        ]
    )


def _decided_draw(paths: Paths, snapshots: pd.Index) -> xr.DataArray:
    """IT power in MW that steps decided before draw in a window, over (snapshot, name)."""
    power = np.zeros((len(snapshots), len(paths.generators)))
    for column, (generator, (_, load)) in enumerate(paths.generators.items()):
        if paths.ahead is not None:
            drawn = step_power(paths.decided(generator), load, paths.ahead.slots)[paths.ahead.border :]
            power[: len(drawn), column] = drawn[: len(snapshots)]
    coords = {"snapshot": snapshots, "name": list(paths.generators)}
    return xr.DataArray(power, coords=coords, dims=list(coords))


def _decided_gpus(paths: Paths, snapshots: pd.Index, *, held: bool = False) -> xr.DataArray:
    """Share of its pool that steps decided before use in a window at each site, over (snapshot, aidc_site)."""
    names, ahead = list(paths.sites), paths.ahead
    share = np.zeros((len(snapshots), len(names)))
    for generator, (site, load) in paths.generators.items():
        if ahead is not None:
            used = _decided_occupation(paths, generator, load, held=held)[ahead.border :][: len(snapshots)]
            share[: len(used), names.index(site)] += used / paths.sites[site].spec.gpus
    return xr.DataArray(share, coords={"snapshot": snapshots, "aidc_site": names}, dims=["snapshot", "aidc_site"])


def _decided_occupation(paths: Paths, generator: str, load: TrainingLoad, *, held: bool) -> Floats:
    """GPUs of what windows before have decided in each slot of the horizon, before the next edge may start."""
    assert paths.ahead is not None
    steps, slots = paths.decided(generator), paths.ahead.slots
    until = JobState.at(load, slots, steps, paths.ahead.decided).free if held else 0
    return occupied(steps, load, slots, until)


def _later_costs(paths: Paths, ahead: Ahead) -> Floats:
    """USD of each edge for the energy that it is expected to draw after the window."""
    costs = []
    for each in paths.placed:
        edge, slot, it_power, _ = each.graph.occupancy()
        price = (ahead.price[each.site] * ahead.weight * ahead.slots.hours)[ahead.decided :]
        later = slot >= len(each.window.positions)
        costs.append(np.bincount(edge[later], (it_power * price[slot])[later], minlength=len(each.graph)))
    return np.concatenate(costs)


def _limit_later(m: linopy.Model, x: linopy.Variable, paths: Paths, ahead: Ahead) -> None:
    """Let the jobs of a site fit into its pool and its connection after the window, too."""
    names = list(paths.sites)
    first = ahead.decided + len(paths.placed[0].window.positions)
    later = len(ahead.slots) - first
    if not later:
        return
    power: list[tuple[Ints, Ints, Floats]] = []
    share: list[tuple[Ints, Ints, Floats]] = []
    for each, first_edge in zip(paths.placed, _offsets(paths), strict=True):
        edge, slot, it_power, _ = each.graph.occupancy()
        holding, held_slot, gpus = each.graph.holding()
        for edges, at, weight, terms in (
            (edge, slot, it_power, power),
            (holding, held_slot, gpus / paths.sites[each.site].spec.gpus, share),
        ):
            after = at + ahead.decided >= first
            row = (at[after] + ahead.decided - first) * len(names) + names.index(each.site)
            terms.append((first_edge + edges[after], row, weight[after]))
    free = np.ones((later, len(names)))
    left = np.column_stack([ahead.connection[name][first:] for name in names])
    for generator, (site, load) in paths.generators.items():
        used = _decided_occupation(paths, generator, load, held=True)[first:]
        free[:, names.index(site)] -= used / paths.sites[site].spec.gpus
        left[:, names.index(site)] -= step_power(paths.decided(generator), load, ahead.slots)[first:]
    coords: dict[str, pd.Index] = {
        "aidc_later": pd.RangeIndex(later, name="aidc_later"),
        "aidc_site": pd.Index(names, name="aidc_site"),
    }
    for terms, limit, name in ((share, free, "AIDC-gpus_later"), (power, left, "AIDC-connection_later")):
        entries, rows, weights = (np.concatenate(each) for each in zip(*terms, strict=True))
        drawn = weighted_sum(x, entries, rows, weights, coords)
        bounded = np.isfinite(limit)
        most = xr.DataArray(np.where(bounded, limit, 0.0), coords=coords, dims=list(coords))
        m.add_constraints(drawn <= most, name=name, mask=xr.DataArray(bounded, coords=coords, dims=list(coords)))


def add_gpu_limit(m: linopy.Model, gpus: linopy.LinearExpression) -> None:
    """Limit the share of GPUs in use to the whole pool of each site, Eq. 30a of [1]."""
    m.add_constraints(gpus <= 1, name=GPUS)


def idle_power(gpus: Expression, paths: Paths) -> tuple[list[str], Expression] | None:
    """Power in MW of GPUs without a job, for the sites that draw it apart: generators and expression."""
    drawing = [site for site in paths.sites.values() if site.spec.idle_w]
    if not drawing:
        return None
    names = [site.idle for site in drawing]
    whole_pool = np.array([site.spec.gpus * (site.spec.idle_w or 0.0) / W_PER_MW for site in drawing])
    busy = gpus.sel(aidc_site=[site.name for site in drawing])
    index = busy.indexes["aidc_site"]
    return names, over(whole_pool, index) - busy * over(whole_pool, index)


def _offsets(paths: Paths) -> list[int]:
    lengths = [len(each.graph) for each in paths.placed]
    return [sum(lengths[:position]) for position in range(len(lengths))]
