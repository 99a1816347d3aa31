"""How fast bus headroom is against a plain way, both in one run: `python studies/rts_gmlc/benchmarks.py`.

Ratios mean something on any machine, seconds only on the one they were measured on.
"""

from __future__ import annotations

import sys
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pypsa
from rich.console import Console

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[2] / "networks"))

import rts_gmlc
import study
from run import survey

from pypsa_aidc.cli.reply import quiet_libraries, silenced_stdout
from pypsa_aidc.headroom import bus_headroom
from pypsa_aidc.headroom.bus.base_case import base_case, dispatched
from pypsa_aidc.headroom.bus.factors import base_flows, chosen_outages, islands
from pypsa_aidc.headroom.bus.slack import participation

WEEK = pd.date_range("2020-07-22", periods=168, freq="h", name="snapshot")
DAY = WEEK[:24]
SHARE = 0.7
CUTOFF, EMERGENCY = 0.03, 1.1
REBUILT = ("101", "121", "207", "218", "303", "313", "322", "325")


def network(hours: pd.DatetimeIndex) -> pypsa.Network:
    """Hours of RTS-GMLC, dispatched with 70 % of the ratings."""
    n = rts_gmlc.network(study.data_file("rts_gmlc/PROVENANCE.md").parent, hours)
    n.lines["s_max_pu"] = n.transformers["s_max_pu"] = SHARE
    n.optimize(progress=False, log_to_console=False)
    n.lines["s_max_pu"] = n.transformers["s_max_pu"] = 1.0
    n.model.solver_model = None
    return n


def plain(n: pypsa.Network, studied: list[tuple[str, str]]) -> pd.Series:
    """Headroom of all buses with a fixed dispatch and outages, one number after another.

    Distribution factors are given, as to the vectorised form.
    """
    case = base_case(n)
    dispatched(case, n)
    (island,) = islands(case.network)
    ((outages,), _) = chosen_outages([island], studied)
    slack = participation(case.network, island, "spare")
    flow, slack_flow = base_flows(case.network, island).tolist(), (island.ptdf @ slack.weights).tolist()
    ptdf, lodf, rating = island.ptdf.tolist(), island.lodf.tolist(), island.rating.tolist()
    found = {}
    for bus, name in enumerate(island.buses):
        size = np.inf
        for t, supply in enumerate(slack.limit.tolist()):
            size = min(size, supply)
            for lost in (None, *outages.tolist()):
                for branch, limit in enumerate(rating):
                    if branch == lost:
                        continue
                    share = 0.0 if lost is None else lodf[branch][lost]
                    other = branch if lost is None else lost
                    after = flow[branch][t] + share * flow[other][t]
                    added = slack_flow[branch][t] - ptdf[branch][bus]
                    added += share * (slack_flow[other][t] - ptdf[other][bus])
                    if abs(added) > CUTOFF:
                        most = limit[t] if lost is None else EMERGENCY * limit[t]
                        room = most - after if added > 0 else most + after
                        size = min(size, max(room, 0.0) / abs(added))
        found[name] = size
    return pd.Series(found)


def rebuilt(n: pypsa.Network, bus: str) -> float:
    """Headroom with redispatch as a planner would ask PyPSA for it: a draw of free size in a network of its own."""
    m = n.copy()
    for component in ("Generator", "StorageUnit"):
        m.c[component].static["marginal_cost"] = 0.0
    m.add("Generator", "site", bus=bus, sign=-1, p_nom_extendable=True, p_min_pu=1.0, capital_cost=-1.0)
    m.optimize(progress=False, log_to_console=False)
    return float(m.generators.at["site", "p_nom_opt"])


def main() -> None:
    """Measure, print, and save the ratios."""
    warnings.simplefilter("ignore")
    quiet_libraries()
    with silenced_stdout():
        n = network(WEEK)
        outages = survey(n, EMERGENCY)
        survived = list(outages.index[outages["hours overloaded"] == 0])
        options = {"contingencies": survived, "emergency": EMERGENCY, "cutoff": CUTOFF}
        start = time.perf_counter()
        vectorised = bus_headroom(n, **options).headroom
        middle = time.perf_counter()
        one_by_one = plain(n, survived)[vectorised.index]
        end = time.perf_counter()
        rows = [
            _row(
                f"fixed dispatch, {len(survived)} outages, 73 buses, 168 h",
                middle - start,
                end - middle,
                vectorised,
                one_by_one,
            )
        ]
        n = network(DAY)
        start = time.perf_counter()
        once = bus_headroom(n, REBUILT, redispatch=True).headroom
        middle = time.perf_counter()
        each = pd.Series({bus: rebuilt(n, bus) for bus in REBUILT})
        end = time.perf_counter()
        rows.append(_row(f"redispatch, N-0, {len(REBUILT)} buses, 24 h", middle - start, end - middle, once, each))
    table = pd.DataFrame(rows)
    study.show(Console(width=study.WIDTH), table, "bus headroom against a plain way", {"largest difference MW": 6})
    study.save(table.round({"seconds": 2, "plain seconds": 2, "ratio": 1}), Path(__file__).parent, "benchmarks")


def _row(what: str, ours: float, naive: float, found: pd.Series, expected: pd.Series) -> dict[str, object]:
    difference = float((found - expected).abs().max())
    return {
        "what": what,
        "seconds": ours,
        "plain seconds": naive,
        "ratio": naive / ours,
        "median MW": float(found.median()),
        "largest difference MW": difference,
    }


if __name__ == "__main__":
    main()
