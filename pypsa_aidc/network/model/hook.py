"""The step between building and solving a PyPSA model that puts all jobs and fleets into it."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import pandas as pd
import pypsa
import xarray as xr

from pypsa_aidc.errors import SeriesWarning, UnsupportedError
from pypsa_aidc.network.checks.before import check_fleets, check_sites
from pypsa_aidc.network.loads.fleet_spec import fleets
from pypsa_aidc.network.loads.site import sites
from pypsa_aidc.network.model.fleet_model import add_fleet_constraints
from pypsa_aidc.network.model.horizon import doubts, windows
from pypsa_aidc.network.model.paths import (
    IT_POWER,
    Paths,
    add_gpu_limit,
    add_path_variables,
    build_paths,
    event_costs,
    idle_power,
    training_gpus,
    training_power,
)
from pypsa_aidc.network.model.storage import add_exclusive_storage
from pypsa_aidc.network.relaxation import suppress_index_warnings
from pypsa_aidc.network.results.fleet_results import remember_fleets
from pypsa_aidc.network.results.schedule import remember_paths
from pypsa_aidc.training import Formulation

ExtraFunctionality = Callable[[pypsa.Network, pd.Index], Any]

logger = logging.getLogger(__name__)


def compose(*functions: ExtraFunctionality | None) -> ExtraFunctionality:
    """Join several `extra_functionality` functions into one, called in order; `None` is skipped.

    Nothing is added by itself: for AIDCs and a constraint of yours it is
    ``compose(aidc.extra_functionality, yours)``.

    Examples
    --------
    >>> calls = []
    >>> both = compose(lambda n, sns: calls.append("mine"), None, lambda n, sns: calls.append("AIDC"))
    >>> both(None, None)
    >>> calls
    ['mine', 'AIDC']
    """

    def composed(n: pypsa.Network, snapshots: pd.Index) -> None:
        for function in functions:
            if function is not None:
                function(n, snapshots)

    return composed


def extra_functionality(n: pypsa.Network, snapshots: pd.Index) -> None:
    """Put all jobs and fleets into ``n.model``; give it to any PyPSA method that takes `extra_functionality`.

    Does nothing for a network without AIDCs. For other formulations, storage that must not charge and discharge at
    once, or a part of the snapshots, use `n.aidc.optimize` or make a hook with `aidc.network.hook`.

    Raises
    ------
    UnsupportedError
        A mode of PyPSA that would give wrong results: rolling horizon, near-optimal exploration with costed mode
        changes, fleets in a network with scenarios.
    StaleError
        Snapshots or weightings have changed since a site or fleet was added.
    """
    hook()(n, snapshots)


def hook(
    *,
    formulation: Formulation = "time",
    exclusive: Sequence[str] = (),
    whole_horizon: bool = True,
    on_built: Callable[[Paths], None] | None = None,
) -> ExtraFunctionality:
    """Make an `extra_functionality` with options.

    Parameters
    ----------
    formulation
        ``"time"`` or ``"literal"``, see `checkpoint_graph`.
    exclusive
        Names of StorageUnits, and of Stores with charging and discharging Links, that must not charge and discharge
        at once (Eq. 34d of [1]).
    whole_horizon
        Refuse to build over a part of ``n.snapshots``: in a rolling horizon each window would start every job anew.
    on_built
        Called with the paths once the model is complete.
    """

    @suppress_index_warnings()
    def attach(n: pypsa.Network, snapshots: pd.Index) -> None:
        add_exclusive_storage(n, exclusive)
        found, with_terms = sites(n), fleets(n)
        _refuse_unsupported(n, snapshots, whole_horizon)
        doubt = doubts(n, snapshots) if found or with_terms else ""
        if doubt:
            warnings.warn(f"snapshots: {doubt}", SeriesWarning, stacklevel=2)
        if with_terms:
            check_fleets(n, with_terms, snapshots)
            remember_fleets(n.model, add_fleet_constraints(n, with_terms, snapshots))
        if not found:
            return
        m = n.model
        check_sites(n, found, snapshots)
        paths = build_paths(n, found, snapshots, formulation)
        p = m["Generator-p"]
        labels = p.indexes["snapshot"]
        x = add_path_variables(m, paths)
        power = training_power(x, paths, labels)
        m.add_constraints(p.sel(name=power.indexes["name"]) - power == 0, name=IT_POWER)
        gpus = training_gpus(x, paths, labels)
        add_gpu_limit(m, gpus)
        idle = idle_power(gpus, paths)
        if idle is not None:
            names, expression = idle
            renamed = expression.rename(aidc_site="name").assign_coords(name=names)
            m.add_constraints(p.sel(name=names) - renamed == 0, name="AIDC-idle_power")
        costs = event_costs(paths)
        if costs.any():
            m.objective = m.objective.expression + (x * xr.DataArray(costs, coords=x.coords, dims=x.dims)).sum()
        logger.info(
            "AIDC: %d jobs, %d edges of %d before pruning", len(paths.placed), paths.edges, paths.edges_before_pruning
        )
        remember_paths(m, paths)
        if on_built is not None:
            on_built(paths)

    return attach


def _refuse_unsupported(n: pypsa.Network, snapshots: pd.Index, whole_horizon: bool) -> None:
    tied = [fleet.name for fleet in fleets(n).values() if fleet.terms.spans_horizon]
    jobs = bool(sites(n))
    if whole_horizon and len(snapshots) < len(n.snapshots) and (jobs or tied):
        raise UnsupportedError(
            f"AIDC jobs or fleets ({', '.join([*sites(n), *tied])}) over {len(snapshots)} of {len(n.snapshots)} "
            "snapshots: in a rolling horizon every window would start each job anew, and each budget of calls. "
            "Optimise all snapshots at once, or one part of them with n.aidc.optimize(snapshots=...), within which "
            "each job then does its whole tranche."
        )
    budgeted = [fleet.name for fleet in fleets(n).values() if fleet.terms.has_budget]
    several = len(windows(n, snapshots)) > max(1, len(n.investment_periods))
    if budgeted and several:
        raise UnsupportedError(
            f"fleets with budgets ({', '.join(budgeted)}) over dates that jump: of how many days each stretch is "
            "representative is not known, and so not how often its calls count. Give the fleet no hours= and events=."
        )
    if n.has_scenarios and fleets(n):
        raise UnsupportedError(
            f"fleets {', '.join(fleets(n))} in a network with scenarios: which calls are answered would have to be the "
            "same in all of them, and relief not. Optimise each scenario as a network of its own."
        )
    costed = [
        f"{site.name} {load.name}"
        for site in sites(n).values()
        for load in site.loads.values()
        if load.rules.mode_change_cost
    ]
    if costed and "budget" in n.model.constraints:
        raise UnsupportedError(
            f"near-optimal exploration (MGA) with mode_change_cost of {', '.join(costed)}: PyPSA's budget does not "
            "contain that cost. Set it to 0, or forbid mode changes."
        )
