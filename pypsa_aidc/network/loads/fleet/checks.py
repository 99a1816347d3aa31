"""Whether a fleet still fits the network: its series, its profile, its Generators at one bus."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd
import pypsa

from pypsa_aidc.errors import Faults
from pypsa_aidc.network.loads.fleet.budgets import budget_periods
from pypsa_aidc.network.loads.fleet.calls import check_calls
from pypsa_aidc.network.model.horizon import windows
from pypsa_aidc.network.pypsa_api import rows
from pypsa_aidc.network.spec.coverage import check_coverage

if TYPE_CHECKING:
    from pypsa_aidc.network.loads.fleet.fleet import Fleet

ROUNDING = 1e-9
"""By how much a share of the size may be above 1."""


def check_fit(n: pypsa.Network, fleet: Fleet, snapshots: pd.Index, faults: Faults) -> None:
    """Note what no longer fits the network: snapshots too long or few for any call, series changed, parts apart."""
    least, most = (n.get_switchable_as_dense("Generator", key).loc[snapshots] for key in ("p_min_pu", "p_max_pu"))
    check_coverage(fleet.name, fleet.series, n, snapshots, faults)
    for part in fleet.generators:
        values = most[rows(most.columns, part)].to_numpy(float)
        bad = values[~((values >= 0) & (values <= 1 + ROUNDING))]
        faults.require(not len(bad), f"Generator {part!r}, p_max_pu", list(bad[:1]), "a share of the size, 0 … 1")
    lowest, highest = (frame[rows(most.columns, fleet.name)].to_numpy(float) for frame in (least, most))
    apart = snapshots[(lowest != highest).any(axis=1)]
    faults.require(
        not len(apart),
        f"Generator {fleet.name!r}, p_min_pu",
        f"not p_max_pu at {list(apart[:1])}",
        "the profile in both",
        "n.aidc.remove the fleet and add it again.",
    )
    buses = n.generators.loc[[label for part in fleet.generators for label in rows(n.generators.index, part)], "bus"]
    horizon = windows(n, snapshots) if fleet.terms.spans_horizon else ()
    if fleet.terms.form == "calls":
        check_calls(fleet, horizon, faults)
    for window in horizon if fleet.terms.has_budget else ():
        budget_periods(fleet, snapshots[window.positions], window.period)
    faults.require(buses.nunique() == 1, f"fleet {fleet.name!r}", sorted(set(buses)), "all its Generators at one bus")
