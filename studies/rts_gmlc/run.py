"""Headroom at every bus of RTS-GMLC: a year of hours, single outages, firm and with dependable relief.

First a DC dispatch of the year in weekly pieces that keeps a share of every rating free; then the largest AIDC at each
bus with that dispatch, exact over all hours and all single outages that the dispatch itself survives; then with
redispatch, which makes a dispatch that survives all of them, on the day of the highest load.
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pypsa
from rich.console import Console

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[2] / "networks"))

import rts_gmlc
import study

from pypsa_aidc import fleet
from pypsa_aidc.cli.reply import silenced_stdout
from pypsa_aidc.errors import Faults, NotSolvedError
from pypsa_aidc.headroom import BusHeadroom, bus_headroom
from pypsa_aidc.headroom.bus.base_case import base_case, dispatched
from pypsa_aidc.headroom.bus.factors import base_flows, chosen_outages, islands


@dataclass(frozen=True)
class Config:
    """The study."""

    data: str
    start: str
    hours: int
    piece: int
    shares: tuple[float, ...]
    emergency: float
    cutoff: float
    reliability: float
    durations: tuple[int, ...]
    redispatch_hours: int

    def __post_init__(self) -> None:
        faults = Faults("configuration of rts_gmlc")
        for name in ("hours", "piece", "redispatch_hours"):
            faults.number(name, getattr(self, name), at_least=1, integer=True)
        for share in self.shares:
            faults.number("shares", share, above=0, at_most=1)
        faults.number("cutoff", self.cutoff, at_least=0, at_most=1)
        faults.number("emergency", self.emergency, at_least=1)
        faults.number("reliability", self.reliability, above=0, at_most=1)
        faults.raise_any()


def run(config: Config, arguments: argparse.Namespace, console: Console) -> None:
    """Dispatch the year, ask for headroom, print and save the tables."""
    folder = study.data_file(f"{config.data}/PROVENANCE.md").parent
    hours = pd.date_range(config.start, periods=config.hours, freq="h", name="snapshot")
    n = rts_gmlc.network(folder, hours)
    pieces = dispatch(n, config, console)
    relief = _relief(config)
    outages = survey(n, config.emergency)
    survived = list(outages.index[outages["hours overloaded"] == 0])
    console.print(f"{len(survived)} of {len(outages)} outages survived at every hour", style="dim", highlight=False)
    year = _year(n, config, survived, relief, console)
    day = _peak_day(n, config, relief, console)
    summary = _summary(year | day)
    limits = _limits(year["year, N-1 firm"])
    overloading = outages[outages["hours overloaded"] > 0].reset_index()
    for name, frame in (
        ("dispatch", pieces),
        ("outages", overloading),
        ("buses_year", _by_bus(year)),
        ("buses_peak_day", _by_bus(day)),
        ("limits", limits),
        ("summary", summary),
    ):
        study.save(frame, arguments.out, name)
    study.show(console, overloading, "outages that the dispatch does not survive")
    study.show(console, summary, f"headroom at {len(n.buses)} buses, MW")
    study.show(console, limits.head(10), "what limits most buses over the year, with outages")
    if arguments.figures is not None:
        target = arguments.figures / "map.png"
        year["year, N-1 firm"].plot().savefig(target, dpi=150)
        console.print(f"wrote {target}", highlight=False)


def dispatch(n: pypsa.Network, config: Config, console: Console) -> pd.DataFrame:
    """Dispatch in pieces, each with the smallest share of the ratings that has a dispatch."""
    rows = []
    pieces = [n.snapshots[start : start + config.piece] for start in range(0, len(n.snapshots), config.piece)]
    for number, snapshots in enumerate(pieces):
        label = f"{snapshots[0]:%Y-%m-%d}"
        with Console(stderr=True).status(f"dispatch {number + 1} of {len(pieces)} ..."), silenced_stdout():
            share = _dispatch_piece(n, snapshots, config)
        rows.append({"from": label, "share of rating": share, "cost USD": float(n.model.objective.value)})
        console.print(f"{label}: up to {share:.0%} of the ratings", style="dim", highlight=False)
    for component in ("Line", "Transformer"):
        n.c[component].static["s_max_pu"] = 1.0
    return pd.DataFrame(rows)


def _dispatch_piece(n: pypsa.Network, snapshots: pd.DatetimeIndex, config: Config) -> float:
    for share in config.shares:
        for component in ("Line", "Transformer"):
            n.c[component].static["s_max_pu"] = share
        ended = n.optimize(snapshots, io_api="direct", progress=False, log_to_console=False)
        if ended == ("ok", "optimal"):
            return share
    raise NotSolvedError(f"dispatch from {snapshots[0]}: {ended[1]}, even with whole ratings")


def survey(n: pypsa.Network, emergency: float) -> pd.DataFrame:
    """After each outage that does not split the network: hours with an overload, and the worst of it."""
    case = base_case(n)
    dispatched(case, n)
    found = islands(case.network)
    studied, _ = chosen_outages(found, "all")
    rows = []
    for island, outages in zip(found, studied, strict=True):
        flow, limit = base_flows(case.network, island), emergency * island.rating
        for outage in outages:
            loading = np.abs(flow + np.outer(island.lodf[:, outage], flow[outage])) / limit
            loading[outage] = 0.0
            worst = int(loading.max(axis=1).argmax())
            rows.append(
                {
                    "component": island.branches[outage][0],
                    "name": island.branches[outage][1],
                    "hours overloaded": int((loading > 1 + 1e-6).any(axis=0).sum()),
                    "most loaded": island.label(worst),
                    "share of its emergency rating": float(loading[worst].max()),
                }
            )
    table = pd.DataFrame(rows).set_index(["component", "name"])
    return table.sort_values("hours overloaded", ascending=False, kind="stable")


def _relief(config: Config) -> dict[str, Any]:
    """K of the synthetic fleet, and the peak of its facility power, as arguments of `headroom`."""
    envelope = fleet.Envelope.of(fleet.SyntheticFleet.generate().statistics)
    surface = fleet.Surface.of(envelope, durations=config.durations, reliabilities=(config.reliability,))
    return {"contract": surface, "peak": float(envelope.peak().max()), "reliability": config.reliability}


def _year(
    n: pypsa.Network, config: Config, survived: list[tuple[str, str]], relief: dict[str, Any], console: Console
) -> dict[str, BusHeadroom]:
    # As planners do: what a site hardly touches, or relieves, does not count against it.
    secure = {"contingencies": survived, "emergency": config.emergency, "cutoff": config.cutoff}
    cases = {"N-0 firm": {}, "N-0 K": relief, "N-1 firm": secure, "N-1 K": secure | relief}
    return {f"year, {name}": _asked(n, f"year, {name}", console, options) for name, options in cases.items()}


def _peak_day(n: pypsa.Network, config: Config, relief: dict[str, Any], console: Console) -> dict[str, BusHeadroom]:
    highest = n.loads_t.p_set.sum(axis=1).idxmax().normalize()
    day = {"snapshots": n.snapshots[n.snapshots >= highest][: config.redispatch_hours]}
    again = day | {"redispatch": True}
    secure = again | {"contingencies": "all", "emergency": config.emergency}
    cases = {
        "N-0 firm": day,
        "N-0 firm, redispatch": again,
        "N-1 firm, redispatch": secure,
        "N-1 K, redispatch": secure | relief,
    }
    label = f"{highest:%Y-%m-%d}"
    return {f"{label}, {name}": _asked(n, f"{label}, {name}", console, options) for name, options in cases.items()}


def _asked(n: pypsa.Network, label: str, console: Console, options: dict[str, Any]) -> BusHeadroom:
    start = time.perf_counter()
    with Console(stderr=True).status(f"{label} ..."), silenced_stdout():
        found = bus_headroom(n, **options)
    console.print(f"{label}: {time.perf_counter() - start:.0f} s", style="dim", highlight=False)
    return found


def _summary(found: dict[str, BusHeadroom]) -> pd.DataFrame:
    rows = []
    for name, result in found.items():
        size, frame = result.headroom, result.to_frame()
        rows.append(
            {
                "case": name,
                "outages": result.data.attrs["contingencies"],
                "least": float(size.min()),
                "median": float(size.median()),
                "most": float(size.max()),
                "buses below 1 MW": int((size < 1).sum()),
                "cut off by one outage": int((frame["cut_off_by"] != "").sum()),
                "overloaded base": int((frame["status"] == "overloaded base case").sum()),
            }
        )
    return pd.DataFrame(rows)


def _by_bus(found: dict[str, BusHeadroom]) -> pd.DataFrame:
    parts = []
    for name, result in found.items():
        parts.append(result.to_frame().reset_index().assign(case=name))
    frame = pd.concat(parts)
    return frame[["case", "bus", "headroom", "status", "element", "outage", "snapshot", "shadow_value", "cut_off_by"]]


def _limits(result: BusHeadroom) -> pd.DataFrame:
    """How many buses each element limits, and with which outage most often."""
    frame = result.to_frame()
    groups = frame.groupby("element")
    table = pd.DataFrame(
        {
            "buses": groups.size(),
            "outage": groups["outage"].agg(lambda names: names.value_counts().idxmax()),
            "median MW": groups["headroom"].median(),
            "median MW per MW": groups["shadow_value"].median(),
        }
    )
    return table.sort_values(["buses", "median MW"], ascending=[False, True]).reset_index()


if __name__ == "__main__":
    study.main(__file__, Config, run)
