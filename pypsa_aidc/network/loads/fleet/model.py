"""The terms of all fleets in one model; nothing in them depends on the buses that fleets are at."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import pandas as pd
import pypsa
from numpy.typing import NDArray

from pypsa_aidc.network.checks.supply import static_by_name
from pypsa_aidc.network.loads.fleet.budgets import SHEDS, add_series_budget
from pypsa_aidc.network.loads.fleet.calls import CALLS, Calls, PlacedCalls, cover_decided, place_calls, place_rest
from pypsa_aidc.network.loads.fleet.rebound import add_rebound
from pypsa_aidc.network.loads.fleet.windows import add_relief_windows
from pypsa_aidc.network.loads.protocol import Built
from pypsa_aidc.network.model.ahead import Ahead
from pypsa_aidc.network.model.horizon import Window, windows
from pypsa_aidc.network.model.recourse import Recourse, View, agree, views

if TYPE_CHECKING:
    from pypsa_aidc.network.loads.fleet.fleet import Fleet


@dataclass(frozen=True, eq=False)
class FleetModel(Built):
    """What has been put into a model for fleets.

    Parameters
    ----------
    fleets
        All fleets by name.
    placed
        Call graphs, by fleet and window; their edges are one after the other in the variable `CALLS` of each scenario.
    ahead
        The place in a rolling horizon, if there is one.
    """

    fleets: Mapping[str, Fleet]
    placed: tuple[PlacedCalls, ...]
    ahead: Ahead | None = None

    integers: ClassVar[tuple[str, ...]] = (CALLS, SHEDS)

    def record(self, n: pypsa.Network) -> None:
        """Decode the calls of all fleets and keep them in the network."""
        from pypsa_aidc.network.loads.fleet.operation import record  # it reads what this has built

        record(n, self)


def add_fleet_constraints(
    n: pypsa.Network,
    fleets: Mapping[str, Fleet],
    snapshots: pd.Index | None = None,
    ahead: Ahead | None = None,
    recourse: Recourse | None = None,
) -> FleetModel:
    """Put the terms of fleets into ``n.model``: sizes tied, relief along a series, in windows or in calls.

    The constraints speak of the power and size of the fleets' Generators only. Whoever moves a fleet to another bus
    changes the balances of buses and nothing here. With scenarios, the terms hold in each of them; relief and depths of
    calls are their own, and so are the calls from the moment of recourse on.

    Parameters
    ----------
    n
        Network with a built model.
    fleets
        Fleets of it by name.
    snapshots
        Those of the model; `None` for all.
    ahead
        Place of the model in a rolling horizon, if there is one: calls and budgets then go on to its end.
    recourse
        What is decided by scenario, in a network with scenarios.

    Raises
    ------
    InputError
        Not one call of a fleet fits into the snapshots, or calendar years are asked of snapshots that are no dates.
    """
    horizon = windows(n, snapshots)
    _tie_sizes(n, fleets)
    along = [fleet for fleet in fleets.values() if fleet.terms.form == "path" and fleet.terms.has_budget]
    called = [fleet for fleet in fleets.values() if fleet.terms.form == "calls"]
    placed = place_calls(called, horizon) if ahead is None else place_rest(n, called, len(horizon[0].slots), ahead)
    sheds, calls = [], []
    for view in views(n):
        if along:
            sheds.append(add_series_budget(view, along, horizon, snapshots, ahead))
        in_windows = [fleet for fleet in fleets.values() if fleet.terms.form == "windows" or fleet.terms.chains]
        if in_windows:
            add_relief_windows(view, in_windows, horizon)
        if placed:
            calls.append(_add_calls(view, called, placed, horizon, snapshots, ahead))
        elif called:  # in a rolling horizon all of them may have been decided
            cover_decided(view, called, ahead)
    if recourse is not None and calls:
        common = calls[0].common(recourse)
        pairs = [(calls[0].chosen, common, other.chosen, common) for other in calls[1:]]
        agree(n.model, pairs, "AIDC-calls_common")
    if recourse is not None and sheds:
        common = _common_slots(recourse, along, horizon)
        agree(n.model, [(sheds[0], common, other, common) for other in sheds[1:]], "AIDC-sheds_common")
    return FleetModel(fleets, placed, ahead)


def _add_calls(
    view: View,
    called: Sequence[Fleet],
    placed: Sequence[PlacedCalls],
    horizon: Sequence[Window],
    snapshots: pd.Index | None,
    ahead: Ahead | None,
) -> Calls:
    calls = Calls(view, called, placed, ahead)
    calls.limit_depths()
    calls.cover_relief()
    calls.keep_budgets(snapshots)
    calls.value_later()
    returning = [fleet for fleet in called if fleet.terms.rebound]
    if returning:
        add_rebound(view, calls, returning, horizon, snapshots)
    return calls


def _common_slots(recourse: Recourse, fleets: Sequence[Fleet], horizon: Sequence[Window]) -> NDArray[np.int64]:
    """Positions in a variable over (snapshot, fleet) of what is decided once for all scenarios."""
    return np.concatenate(
        [
            window.positions[recourse.common(fleet.name, window, np.arange(len(window.slots)))] * len(fleets) + column
            for column, fleet in enumerate(fleets)
            for window in horizon
        ]
    )


def _tie_sizes(n: pypsa.Network, fleets: Mapping[str, Fleet]) -> None:
    """Give relief and rebound of a fleet of free size its size."""
    extendable = static_by_name(n, "Generator")["p_nom_extendable"]
    pairs = [(part, fleet.name) for fleet in fleets.values() if extendable[fleet.name] for part in fleet.generators[1:]]
    if pairs:
        p_nom = n.model["Generator-p_nom"]
        parts, owners = (list(names) for names in zip(*pairs, strict=True))
        own = (1 * p_nom.sel(name=owners)).assign_coords(name=parts)
        n.model.add_constraints(p_nom.sel(name=parts) - own == 0, name="AIDC-fleet_size")
