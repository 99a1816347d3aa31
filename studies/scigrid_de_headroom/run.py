"""Headroom at all buses of scigrid-de: fixed dispatch with and without outages, and redispatch at three buses."""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pypsa
from rich.console import Console

sys.path.insert(0, str(Path(__file__).parents[1]))

import study

from pypsa_aidc.errors import Faults
from pypsa_aidc.headroom import bus_headroom


@dataclass(frozen=True)
class Config:
    """The study."""

    network: str
    share: float
    reinforced: tuple[str, ...]
    reinforced_rating: float
    emergency: float
    cutoff: float
    redispatch_buses: tuple[str, ...]

    def __post_init__(self) -> None:
        faults = Faults("configuration of scigrid_de_headroom")
        faults.number("share", self.share, above=0, at_most=1)
        faults.number("reinforced_rating", self.reinforced_rating, above=0)
        faults.number("emergency", self.emergency, at_least=1)
        faults.number("cutoff", self.cutoff, at_least=0, at_most=1)
        faults.raise_any()


def run(config: Config, arguments: argparse.Namespace, console: Console) -> None:
    """Dispatch the day, ask for headroom, print and save the tables."""
    n = pypsa.Network(study.data_file(config.network))
    n.lines.loc[list(config.reinforced), "s_nom"] = config.reinforced_rating
    n.lines["s_max_pu"] = config.share
    study.solve(n, "dispatch")
    n.lines["s_max_pu"] = 1.0
    screening = {"overloads": "worsened", "cutoff": config.cutoff}
    secure = {"contingencies": "all", "emergency": config.emergency}
    cases = {
        "N-0": {},
        f"N-0, factors from {config.cutoff:.0%}": screening,
        f"N-1, factors from {config.cutoff:.0%}": secure | screening,
    }
    parts, rows = [], []
    results = {}
    for name, options in cases.items():
        start = time.perf_counter()
        results[name] = bus_headroom(n, **options)
        size = results[name].headroom
        finite = size[np.isfinite(size)]
        rows.append(
            {
                "case": name,
                "least": float(finite.min()),
                "median": float(size.median()),
                "most": float(finite.max()),
                "buses below 1 MW": int((size < 1).sum()),
                "unlimited": int(np.isinf(size).sum()),
                "seconds": time.perf_counter() - start,
            }
        )
        parts.append(results[name].to_frame().reset_index().assign(case=name))
    again = (
        bus_headroom(n, config.redispatch_buses, redispatch=True)
        .to_frame()
        .reset_index()
        .assign(case="N-0, redispatch")
    )
    summary, buses = pd.DataFrame(rows), pd.concat([*parts, again])
    columns = ["case", "bus", "headroom", "status", "element", "outage", "snapshot", "shadow_value", "cut_off_by"]
    study.save(buses[columns], arguments.out, "buses")
    study.save(summary.drop(columns="seconds"), arguments.out, "summary")
    study.show(console, summary, f"headroom at {len(n.buses)} buses, MW")
    study.show(console, again[["bus", "headroom", "element", "shadow_value"]], "with redispatch")
    if arguments.figures is not None:
        target = arguments.figures / "map.png"
        results[f"N-1, factors from {config.cutoff:.0%}"].plot().savefig(target, dpi=150)
        console.print(f"wrote {target}", highlight=False)


if __name__ == "__main__":
    study.main(__file__, Config, run)
