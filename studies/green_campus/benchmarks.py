"""How long S6 of the campus takes by formulation, with and without a first schedule; ratios travel, seconds do not."""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
from rich.console import Console

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[2] / "networks"))

import green_campus as campus
import study

from pypsa_aidc.errors import Faults
from pypsa_aidc.network import scenario_network

BATTERY = ["battery"]
CASES = [("time", True), ("time", False), ("literal", True), ("literal", False)]


@dataclass(frozen=True)
class Config:
    """How often each case runs, and to which gap."""

    preset: str
    repetitions: int
    gap: float

    def __post_init__(self) -> None:
        faults = Faults("configuration of the benchmark")
        faults.require(self.preset in campus.PRESETS, "preset", self.preset, f"one of {', '.join(campus.PRESETS)}")
        faults.number("repetitions", self.repetitions, at_least=1, integer=True)
        faults.number("gap", self.gap, at_least=0)
        faults.raise_any()


def run(config: Config, arguments: argparse.Namespace, console: Console) -> None:
    """Solve each case several times in turn, so that what else the machine does falls on all of them."""
    rows = []
    for _ in range(config.repetitions):
        for formulation, first_schedule in CASES:
            n = scenario_network(campus.network(config.preset), "S6", BATTERY)
            label = f"{formulation}, {'with' if first_schedule else 'without'} first schedule"
            result = study.solve(
                n,
                label,
                exclusive=BATTERY,
                prices=False,
                formulation=formulation,
                warm_start=first_schedule,
                mip_rel_gap=config.gap,
            )
            edges = {"edges before pruning": result.edges_before_pruning, "edges": result.edges}
            seconds = {"build s": result.build_seconds, "solve s": result.solve_seconds}
            rows.append({"formulation": formulation, "first schedule": first_schedule} | edges | seconds)
    groups = pd.DataFrame(rows).groupby(["formulation", "first schedule"], sort=False)
    table = groups.median().reset_index()
    table["solve, ratio"] = table["solve s"] / table["solve s"].iloc[0]
    study.save(table, arguments.out, "benchmarks")
    study.show(console, table, f"S6 of the campus to a gap of {config.gap:g}, medians of {config.repetitions}")


if __name__ == "__main__":
    study.main(__file__, Config, run, "benchmarks.yaml")
