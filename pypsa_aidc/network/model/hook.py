"""The step between building and solving a PyPSA model that puts all jobs and fleets into it."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import pandas as pd
import pypsa

from pypsa_aidc.errors import SeriesWarning, UnsupportedError
from pypsa_aidc.network.loads.decisions import remember
from pypsa_aidc.network.loads.protocol import Built
from pypsa_aidc.network.loads.registry import by_kind, check_loads, refuse_unsupported
from pypsa_aidc.network.model.ahead import Ahead
from pypsa_aidc.network.model.horizon import doubts
from pypsa_aidc.network.model.recourse import Given, Recourse
from pypsa_aidc.network.model.storage import add_exclusive_storage
from pypsa_aidc.network.pypsa_api import index_warnings_ignored, is_near_optimal
from pypsa_aidc.training import Formulation

ExtraFunctionality = Callable[[pypsa.Network, pd.Index], Any]


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
        A mode of PyPSA that would give wrong results: rolling horizon, near-optimal exploration with scenarios.
    StaleError
        Snapshots or weightings have changed since a site or fleet was added.
    """
    hook()(n, snapshots)


def hook(
    *,
    formulation: Formulation = "time",
    exclusive: Sequence[str] = (),
    whole_horizon: bool = True,
    on_built: Callable[[Sequence[Built]], None] | None = None,
    ahead: Ahead | None = None,
    recourse: Given = None,
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
        Called with what each kind of load has put into the model, once it is complete.
    ahead
        Place of the model in a rolling horizon, if there is one.
    recourse
        In a network with scenarios: the snapshot from which every load decides by scenario, or such a snapshot for
        each of some loads by name; see `n.aidc.optimize`.
    """

    def attach(n: pypsa.Network, snapshots: pd.Index) -> None:
        with index_warnings_ignored(n.snapshots):
            _attach(n, snapshots)

    def _attach(n: pypsa.Network, snapshots: pd.Index) -> None:
        add_exclusive_storage(n, exclusive)
        found = by_kind(n)
        if found and n.has_scenarios and is_near_optimal(n.model):
            raise UnsupportedError(
                "near-optimal exploration (MGA) with scenarios: PyPSA's budget adds up the costs of all scenarios, "
                "each with weight 1. Explore n.get_scenario(name), or the network of mean values."
            )
        told = all(load.explains_windows for _, own in found for load in own.values())
        horizon = snapshots if ahead is None else ahead.snapshots[: 0 if ahead.border else None]
        doubt = doubts(n, horizon, explained=told) if found and len(horizon) else ""
        if doubt:
            warnings.warn(f"snapshots: {doubt}", SeriesWarning, stacklevel=3)
        partial = whole_horizon and len(snapshots) < len(n.snapshots)
        part = f"{len(snapshots)} of {len(n.snapshots)}" if partial else ""
        if ahead is None:  # otherwise the whole horizon has been checked
            refuse_unsupported(n, snapshots, part=part)
            check_loads(n, snapshots)
        by_scenario = Recourse.of(n, snapshots, recourse, [name for _, own in found for name in own])
        built = [kind.build(n, own, snapshots, formulation, ahead, by_scenario) for kind, own in found]
        remember(n, built)
        if on_built is not None:
            on_built(built)

    return attach
