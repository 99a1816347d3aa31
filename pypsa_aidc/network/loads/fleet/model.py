"""The terms of all fleets in one model; nothing in them depends on the buses that fleets are at."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import pandas as pd
import pypsa

from pypsa_aidc.network.loads.fleet.budgets import SHEDS, add_series_budget
from pypsa_aidc.network.loads.fleet.calls import CALLS, Calls, PlacedCalls, cover_decided, place_calls, place_rest
from pypsa_aidc.network.loads.fleet.rebound import add_rebound
from pypsa_aidc.network.loads.fleet.windows import add_relief_windows
from pypsa_aidc.network.loads.protocol import Built
from pypsa_aidc.network.model.ahead import Ahead
from pypsa_aidc.network.model.horizon import windows

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
        Call graphs, by fleet and window; their edges are one after the other in the variable `CALLS`.
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
    n: pypsa.Network, fleets: Mapping[str, Fleet], snapshots: pd.Index | None = None, ahead: Ahead | None = None
) -> FleetModel:
    """Put the terms of fleets into ``n.model``: sizes tied, relief along a series, in windows or in calls.

    The constraints speak of the power and size of the fleets' Generators only. Whoever moves a fleet to another bus
    changes the balances of buses and nothing here.

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

    Raises
    ------
    InputError
        Not one call of a fleet fits into the snapshots, or calendar years are asked of snapshots that are no dates.
    """
    horizon = windows(n, snapshots)
    _tie_sizes(n, fleets)
    along = [fleet for fleet in fleets.values() if fleet.terms.form == "path" and fleet.terms.has_budget]
    if along:
        add_series_budget(n, along, horizon, snapshots, ahead)
    in_windows = [fleet for fleet in fleets.values() if fleet.terms.form == "windows" or fleet.terms.chains]
    if in_windows:
        add_relief_windows(n, in_windows, horizon)
    called = [fleet for fleet in fleets.values() if fleet.terms.form == "calls"]
    placed = place_calls(called, horizon) if ahead is None else place_rest(n, called, len(horizon[0].slots), ahead)
    if placed:
        calls = Calls(n, called, placed, ahead)
        calls.limit_depths()
        calls.cover_relief()
        calls.keep_budgets(snapshots)
        calls.value_later()
        returning = [fleet for fleet in called if fleet.terms.rebound]
        if returning:
            add_rebound(n, calls, returning, horizon, snapshots)
    elif called:  # in a rolling horizon all of them may have been decided
        cover_decided(n, called, ahead)
    return FleetModel(fleets, placed, ahead)


def _tie_sizes(n: pypsa.Network, fleets: Mapping[str, Fleet]) -> None:
    """Give relief and rebound of a fleet of free size its size."""
    extendable = n.generators["p_nom_extendable"]
    pairs = [(part, fleet.name) for fleet in fleets.values() if extendable[fleet.name] for part in fleet.generators[1:]]
    if pairs:
        p_nom = n.model["Generator-p_nom"]
        parts, owners = (list(names) for names in zip(*pairs, strict=True))
        own = (1 * p_nom.sel(name=owners)).assign_coords(name=parts)
        n.model.add_constraints(p_nom.sel(name=parts) - own == 0, name="AIDC-fleet_size")
