"""What the studies of batches share: outages that a dispatch survives, terms of requests, a table of their effect."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import pypsa
from rich.console import Console

from pypsa_aidc import fleet
from pypsa_aidc.cli.reply import silenced_stdout
from pypsa_aidc.headroom import Budget, Request, ServiceStudy
from pypsa_aidc.headroom.bus.base_case import base_case, dispatched
from pypsa_aidc.headroom.bus.factors import base_flows, chosen_outages, islands

DURATIONS = (1, 2, 4, 8, 24)


def survived(n: pypsa.Network, emergency: float) -> list[tuple[str, str]]:
    """Outages after which the dispatch overloads nothing, at any hour."""
    case = base_case(n)
    dispatched(case, n)
    found = islands(case.network)
    kept = []
    for island, outages in zip(found, chosen_outages(found, "all")[0], strict=True):
        flow, limit = base_flows(case.network, island), emergency * island.rating
        for outage in outages:
            after = np.abs(flow + np.outer(island.lodf[:, outage], flow[outage])) - limit
            after[outage] = -1.0
            if after.max() <= 1e-6:
                kept.append(island.branches[outage])
    return kept


def terms(budget: Budget, reliability: float) -> dict[str, dict[str, Any]]:
    """Terms of requests by case: firm, K of the synthetic fleet, its contract, a budget, and both."""
    envelope = fleet.Envelope.of(fleet.SyntheticFleet.generate().statistics)
    surface = fleet.Surface.of(envelope, durations=DURATIONS, reliabilities=(reliability,))
    contract = fleet.Contract.of(envelope, duration=4, reliability=reliability)
    own = {"peak": float(envelope.peak().max()), "reliability": reliability}
    return {
        "firm": {},
        "K": {"contract": surface, **own},
        "contract of 4 h": {"contract": contract, **own},
        "budget": {"budget": budget},
        "budget and K": {"budget": budget, "contract": surface, **own},
    }


def studied(
    n: pypsa.Network,
    nameplates: Mapping[str, Any],
    cases: Mapping[str, Mapping[str, Any]],
    console: Console,
    options: Mapping[str, Any],
) -> dict[str, ServiceStudy]:
    """One study for each case, of requests named like their buses."""
    found = {}
    for name, each in cases.items():
        requests = [Request(name=bus, bus=bus, nameplate=megawatts, **each) for bus, megawatts in nameplates.items()]
        start = time.process_time()
        with Console(stderr=True).status(f"{name} ..."), silenced_stdout():
            found[name] = n.aidc.study(requests, **options)
        console.print(f"{name}: {time.process_time() - start:.0f} s of CPU", style="dim", highlight=False)
    return found


def effect(found: Mapping[str, ServiceStudy], keys: Sequence[str] = ("year", "dispatch")) -> pd.DataFrame:
    """Sums over all requests by case: MW, hours of the request cut most often, and what they deliver themselves."""
    rows = []
    for name, each in found.items():
        for key, part in each.allocation.groupby(level=list(keys), sort=False):
            rows.append(
                {"case": name, **dict(zip(keys, key, strict=True))}
                | {column: float(part[column].sum()) for column in ("firm", "conditional", "energy", "undelivered")}
                | {column: float(part[column].max()) for column in ("hours", "longest", "depth")}
            )
    return pd.DataFrame(rows)


def written(found: Mapping[str, ServiceStudy], name: str) -> pd.DataFrame:
    """One table of all cases."""
    return pd.concat([each.tables()[name].assign(case=case) for case, each in found.items()], ignore_index=True)
