"""Where the power of a new load comes from when nothing is redispatched: the declared slack distribution."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pandas as pd
import pypsa

from pypsa_aidc.errors import Faults
from pypsa_aidc.headroom.bus.base_case import Floats
from pypsa_aidc.network.carriers import backstops

Slack = str | Mapping[str, float] | pd.Series
KINDS = ("spare", "capacity", "load")


class Part(Protocol):
    """A synchronous part of a network, such as an `Island`."""

    @property
    def name(self) -> str:
        """Name of the sub-network."""

    @property
    def carrier(self) -> str:
        """``"AC"`` or ``"DC"``."""

    @property
    def buses(self) -> pd.Index:
        """Its buses."""


@dataclass(frozen=True, eq=False)
class Participation:
    """Shares of the buses of an island in supplying one more MW.

    Attributes
    ----------
    weights : numpy.ndarray
        Shares, shape (B, T), or (B, 1) where they do not change; each column sums to 1, or to 0 where nothing
        can supply.
    limit : numpy.ndarray
        Most that can be supplied, MW, shape (T,); inf where the shares do not look at limits of generators.
    reason : str
        Why nothing can supply, "" otherwise.
    """

    weights: Floats
    limit: Floats
    reason: str


def participation(n: pypsa.Network, island: Part, slack: Slack, lost: Sequence[str] = ()) -> Participation:
    """Compute the slack distribution of an island.

    Parameters
    ----------
    n
        Base case with dispatch.
    island
        The island.
    slack
        ``"spare"``: generators in proportion to p_nom · p_max_pu − p at each snapshot, so that none exceeds its limit
        and all reach it together; ``"capacity"``: in proportion to p_nom, limits of generators not looked at;
        ``"load"``: in proportion to the mean load of each bus; a mapping from buses to weights.
    lost
        Generators that are out.

    Notes
    -----
    Storage and links keep their base dispatch. So do generators that draw power (``sign=-1``).
    """
    snapshots = len(n.snapshots)
    unlimited = np.full(snapshots, np.inf)
    if isinstance(slack, str) and slack == "spare":
        spare = _spare(n, island, lost)
        total = spare.sum(axis=0)
        weights = np.divide(spare, total, out=np.zeros_like(spare), where=total > 0)
        empty = not generators_of(n, island, lost).size
        return Participation(weights, total, _nothing(island, "generator") if empty else "")
    if isinstance(slack, str) and slack == "capacity":
        generators = n.generators.loc[generators_of(n, island, lost)]
        raw, what = generators.groupby("bus")["p_nom"].sum(), "generator"
    elif isinstance(slack, str):
        mean = (n.get_switchable_as_dense("Load", "p_set") * -n.loads["sign"]).mean()[n.loads["active"]]
        raw, what = mean.groupby(n.loads["bus"]).sum().clip(lower=0), "load"
    else:
        raw, what = pd.Series(slack, dtype=float), "bus with a slack weight"
    raw = raw.reindex(island.buses, fill_value=0.0).to_numpy(float)
    if not raw.sum() > 0:
        return Participation(np.zeros((len(island.buses), 1)), np.zeros(snapshots), _nothing(island, what))
    return Participation((raw / raw.sum())[:, None], unlimited, "")


def check_slack(n: pypsa.Network, slack: Slack, faults: Faults) -> None:
    """Note what is wrong with a slack distribution."""
    if isinstance(slack, str):
        faults.require(slack in KINDS, "slack", slack, f"one of {', '.join(KINDS)}, or weights by bus")
        return
    weights = pd.Series(slack, dtype=float)
    for bus in weights.index.difference(n.buses.index):
        faults.add("slack", bus, "a bus of the network")
    for bus, weight in weights.items():
        faults.number(f"slack of bus {bus!r}", float(weight), at_least=0)
    faults.require(bool(weights.sum() > 0), "slack", weights.to_dict(), "at least one weight above 0")


def generators_of(n: pypsa.Network, island: Part, lost: Sequence[str] = ()) -> pd.Index:
    """Generators of an island that can supply: active, not for load shedding, not `lost`."""
    static = n.generators
    supplying = static["active"] & (static["sign"] > 0) & static["bus"].isin(island.buses)
    found: pd.Index = static.index[supplying & ~static.index.isin([*backstops(n).index, *lost])]
    return found


def _spare(n: pypsa.Network, island: Part, lost: Sequence[str]) -> Floats:
    """Unused available power by bus, MW, shape (B, T)."""
    generators = generators_of(n, island, lost)
    available = n.get_switchable_as_dense("Generator", "p_max_pu")[generators] * n.generators.loc[generators, "p_nom"]
    power = n.c.generators.dynamic["p"].reindex(columns=generators, fill_value=0.0)
    spare = (available - power).clip(lower=0) * n.generators.loc[generators, "sign"]
    # What a solver leaves below its tolerance is not spare power.
    spare = spare.where(spare > 1e-6, 0.0)
    by_bus = spare.T.groupby(n.generators.loc[generators, "bus"]).sum()
    at_buses: Floats = by_bus.reindex(island.buses, fill_value=0.0).to_numpy(float)
    return at_buses


def _nothing(island: Part, what: str) -> str:
    return (
        f"no {what} in sub-network {island.name} ({island.carrier}, {len(island.buses)} buses): nothing supplies a new "
        "load there without redispatch of links and storage"
    )
