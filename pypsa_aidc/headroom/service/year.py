"""The network of each year: one a year, one of investment periods, or one with dated upgrades."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import pandas as pd
import pypsa

from pypsa_aidc.errors import Faults
from pypsa_aidc.headroom.bus.base_case import BRANCHES
from pypsa_aidc.network.pypsa_api import copy_network, quiet_pypsa

Years = Mapping[int, pypsa.Network] | Sequence[int] | None
_DATED = ("Line", "Transformer", "Link", "Generator", "StorageUnit", "Store")


@dataclass(frozen=True)
class Upgrade:
    """A branch whose rating is raised from a year on, its reactance unchanged.

    Parameters
    ----------
    element
        (component, name) of a line or transformer; a name alone is that of a line.
    year
        First year with it.
    megawatts
        MW by which s_nom rises, above 0.
    """

    element: str | tuple[str, str]
    year: int
    megawatts: float

    def __post_init__(self) -> None:
        element = ("Line", self.element) if isinstance(self.element, str) else tuple(self.element)
        object.__setattr__(self, "element", element)
        faults = Faults(f"upgrade of {' '.join(element)}")
        faults.number("year", self.year, at_least=0, integer=True)
        faults.number("megawatts", self.megawatts, above=0)
        faults.raise_any()

    @property
    def label(self) -> str:
        """Name in results."""
        return " ".join(self.branch)

    @property
    def branch(self) -> tuple[str, str]:
        """(component, name)."""
        return cast("tuple[str, str]", self.element)


def check_upgrades(n: pypsa.Network, upgrades: Sequence[Upgrade], faults: Faults) -> None:
    """Note upgrades of what is no branch of the network."""
    for upgrade in upgrades:
        kind, name = upgrade.branch
        there = kind in BRANCHES and name in n.c[kind].static.index
        faults.require(there, "upgrades", upgrade.label, "a Line or Transformer of the network")


def chosen_years(n: pypsa.Network, years: Years, faults: Faults) -> list[int | None]:
    """Years of a study, `None` for one network without years."""
    periods = [int(period) for period in n.investment_periods] if n.has_investment_periods else []
    if years is None:
        return list(periods) or [None]
    chosen: list[int | None] = list(years)
    faults.require(bool(chosen), "years", chosen, "at least one year")
    for year in chosen:
        faults.number("years", year, at_least=0, integer=True)
        if periods and not isinstance(years, Mapping):
            faults.require(year in periods, "years", year, f"one of the periods {', '.join(map(str, periods))}")
    if isinstance(years, Mapping):
        for year, network in years.items():
            faults.kind(f"years, {year}", network, pypsa.Network, "the network of that year")
    faults.require(len(set(chosen)) == len(chosen), "years", chosen, "each year once")
    return chosen


def network_of(n: pypsa.Network, years: Years, year: int | None, upgrades: Sequence[Upgrade]) -> pypsa.Network:
    """Return the network of a year, as it stands then.

    Notes
    -----
    Of one network for several years, what is not built or no more in use (`build_year`, `lifetime`) is inactive. The
    dispatch stays; where a branch is gone, flows are computed from it.
    """
    if isinstance(years, Mapping):
        assert year is not None
        return _upgraded(years[year], year, upgrades)
    if year is None:
        return n
    if n.has_investment_periods:
        return _upgraded(_period(n, year), year, upgrades)
    copy = _upgraded(n, year, upgrades)
    changed = False
    for kind in _DATED:
        static = copy.c[kind].static
        if static.empty:
            continue
        there = static["active"] & (static["build_year"] <= year) & (static["build_year"] + static["lifetime"] > year)
        changed |= kind in BRANCHES and bool((there != static["active"]).any())
        static["active"] = there
    if changed:
        _forget_flows(copy)
    return copy


def _forget_flows(n: pypsa.Network) -> None:
    """Keep the dispatch as set points, so that flows are computed for the branches that are there."""
    for kind, attribute in (("Generator", "p"), ("StorageUnit", "p"), ("Store", "p"), ("Link", "p0")):
        solved = n.c[kind].dynamic[attribute]
        if not solved.empty:
            n.c[kind].dynamic["p_set"] = solved.copy()
    for kind in BRANCHES:
        n.c[kind].dynamic["p0"] = n.c[kind].dynamic["p0"].iloc[:, :0]


def _upgraded(n: pypsa.Network, year: int, upgrades: Sequence[Upgrade]) -> pypsa.Network:
    copy = copy_network(n)
    for upgrade in upgrades:
        if upgrade.year > year:
            continue
        kind, name = upgrade.branch
        static = copy.c[kind].static
        factor = 1 + upgrade.megawatts / float(static.at[name, "s_nom"])
        # Into s_max_pu: the reactance of a transformer is per unit of its s_nom.
        limit = copy.get_switchable_as_dense(kind, "s_max_pu")[name] * factor
        copy.c[kind].dynamic["s_max_pu"][name] = limit
    return copy


def _period(n: pypsa.Network, period: int) -> pypsa.Network:
    """One investment period as a network of its own."""
    copy = copy_network(n)
    active = {kind: n.c[kind].get_active_assets(period) for kind in _DATED}
    dynamic = {
        (component.name, attribute): frame.loc[period]
        for component in n.components
        for attribute, frame in component.dynamic.items()
        if len(frame.columns)
    }
    weightings = n.snapshot_weightings.loc[period]
    with quiet_pypsa():
        copy.set_snapshots(pd.Index(n.snapshots[n.snapshots.get_level_values(0) == period].get_level_values(1)))
        copy.investment_periods = cast("Any", pd.Index([]))
    copy.snapshot_weightings = cast("pd.DataFrame", weightings).set_axis(copy.snapshots)
    for (kind, attribute), frame in dynamic.items():
        copy.c[kind].dynamic[attribute] = frame.set_axis(copy.snapshots)
    for kind, there in active.items():
        copy.c[kind].static["active"] = np.asarray(there, dtype=bool)
    return copy
