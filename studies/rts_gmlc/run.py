"""Headroom at every bus of RTS-GMLC: a year of hours, all single outages, firm and with dependable relief.

First a DC dispatch of the year in weekly pieces that keeps a share of every rating free; then the largest AIDC at each
bus with that dispatch, exact over 8,784 hours × 118 outages; then with redispatch on the day of the highest load.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import pypsa
from rich.console import Console

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[2] / "networks"))

import rts_gmlc
import study

from pypsa_aidc import fleet
from pypsa_aidc.cli.console import silenced_stdout
from pypsa_aidc.errors import Faults, NotSolvedError
from pypsa_aidc.headroom import BusHeadroom, headroom


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
    tier: float
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
        faults.number("tier", self.tier, at_least=0, at_most=1)
        faults.raise_any()


def run(config: Config, arguments: argparse.Namespace, console: Console) -> None:
    """Dispatch the year, ask for headroom, print and save the tables."""
    folder = study.data_file(f"{config.data}/PROVENANCE.md").parent
    hours = pd.date_range(config.start, periods=config.hours, freq="h", name="snapshot")
    n = rts_gmlc.network(folder, hours)
    pieces = dispatch(n, config, console)
    surface, peak = _relief(config)
    year, timing = _year(n, config, surface, peak)
    day, redispatch_timing = _peak_day(n, config, surface, peak, console)
    summary = _summary({**year, **day}, {**timing, **redispatch_timing})
    limits = _limits(year["N-1 firm"])
    for name, frame in (
        ("dispatch", pieces),
        ("buses_year", _by_bus(year)),
        ("buses_peak_day", _by_bus(day)),
        ("limits", limits),
        ("summary", summary.drop(columns="seconds")),
    ):
        study.save(frame, arguments.out, name)
    study.show(console, summary, f"headroom at {len(n.buses)} buses, MW")
    study.show(console, limits.head(10), "what limits most buses over the year, with outages")
    if arguments.figures is not None:
        target = arguments.figures / "map.png"
        year["N-1 firm"].plot().figure.savefig(target, dpi=150)
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


def _relief(config: Config) -> tuple[fleet.Surface, float]:
    """K of the synthetic fleet, and the peak of its facility power, MW."""
    envelope = fleet.envelope(fleet.synthetic().statistics)
    surface = fleet.surface(envelope, durations=config.durations, reliabilities=(config.reliability,))
    return surface, float(envelope.peak().max())


def _cases(
    config: Config, surface: fleet.Surface, peak: float
) -> dict[str, Callable[[pypsa.Network, bool, pd.Index | None], BusHeadroom]]:
    """Cases by name, as functions of network, redispatch and snapshots."""
    secure = {"contingencies": "all", "emergency": config.emergency}
    calls = {"contract": surface, "peak": peak, "reliability": config.reliability}
    options: dict[str, dict[str, object]] = {
        "N-0 firm": {},
        "N-1 firm": secure,
        "N-1 K windows": {**secure, **calls},
        f"N-1 tier {config.tier:.0%}": {**secure, "relief": config.tier},
    }
    # With a fixed dispatch, as planners do: what a site hardly touches, or relieves, does not count against it.
    screening = {"overloads": "worsened", "cutoff": config.cutoff}

    def case(chosen: dict[str, object]) -> Callable[[pypsa.Network, bool, pd.Index | None], BusHeadroom]:
        return lambda n, again, snapshots: headroom(
            n, redispatch=again, snapshots=snapshots, **chosen, **({} if again else screening)
        )

    return {name: case(chosen) for name, chosen in options.items()}


def _year(
    n: pypsa.Network, config: Config, surface: fleet.Surface, peak: float
) -> tuple[dict[str, BusHeadroom], dict[str, float]]:
    found, seconds = {}, {}
    for name, ask in _cases(config, surface, peak).items():
        with Console(stderr=True).status(f"{name} over the year ..."):
            start = time.perf_counter()
            found[name] = ask(n, False, None)
            seconds[name] = time.perf_counter() - start
    return found, seconds


def _peak_day(
    n: pypsa.Network, config: Config, surface: fleet.Surface, peak: float, console: Console
) -> tuple[dict[str, BusHeadroom], dict[str, float]]:
    highest = n.loads_t.p_set.sum(axis=1).idxmax().normalize()
    snapshots = n.snapshots[n.snapshots >= highest][: config.redispatch_hours]
    found, seconds = {}, {}
    cases = _cases(config, surface, peak)
    for name in ("N-0 firm", "N-1 firm", "N-1 K windows"):
        for again in (False, True):
            label = f"{highest:%Y-%m-%d} {name}{', redispatch' if again else ''}"
            start = time.perf_counter()
            found[label] = cases[name](n, again, snapshots)
            seconds[label] = time.perf_counter() - start
            console.print(f"{label}: {seconds[label]:.0f} s", style="dim", highlight=False)
    return found, seconds


def _summary(found: dict[str, BusHeadroom], seconds: dict[str, float]) -> pd.DataFrame:
    rows = []
    for name, result in found.items():
        size = result.headroom
        rows.append(
            {
                "case": name,
                "least": float(size.min()),
                "median": float(size.median()),
                "most": float(size.max()),
                "buses below 1 MW": int((size < 1).sum()),
                "cut off by one outage": int((result.to_frame()["cut_off_by"] != "").sum()),
                "overloaded base": int((result.to_frame()["status"] == "overloaded base case").sum()),
                "seconds": seconds[name],
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
