"""A batch of three AIDCs in RTS-GMLC: two years, one dated upgrade, and what K, a contract and a budget change."""

from __future__ import annotations

import argparse
import importlib.util
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
from rich.console import Console

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[2] / "networks"))

import batch
import rts_gmlc
import study

from pypsa_aidc.errors import Faults
from pypsa_aidc.headroom import Budget, Ratings, Upgrade


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
    buses: tuple[str, ...]
    years: tuple[int, ...]
    nameplates: tuple[float, ...]
    upgraded: str
    upgrade: float
    budget_hours: float
    budget_longest: int
    budget_depth: float
    unit_cost: float

    def __post_init__(self) -> None:
        faults = Faults("configuration of rts_gmlc_batch")
        for name in ("hours", "piece"):
            faults.number(name, getattr(self, name), at_least=1, integer=True)
        same = len(self.years) == len(self.nameplates)
        faults.require(same, "nameplates", self.nameplates, "one for each of the years")
        faults.number("emergency", self.emergency, at_least=1)
        faults.raise_any()


def run(config: Config, arguments: argparse.Namespace, console: Console) -> None:
    """Dispatch, study the batch under each kind of terms, print and save the tables."""
    folder = study.data_file(f"{config.data}/PROVENANCE.md").parent
    hours = pd.date_range(config.start, periods=config.hours, freq="h", name="snapshot")
    n = rts_gmlc.network(folder, hours)
    _dispatch(n, config, console)
    outages = batch.survived(n, config.emergency)
    console.print(f"{len(outages)} outages survived at every hour", style="dim", highlight=False)
    nameplate = dict(zip(config.years, config.nameplates, strict=True))
    budget = Budget(config.budget_hours, config.budget_longest, config.budget_depth)
    options = {
        "years": list(config.years),
        "contingencies": outages,
        "ratings": Ratings(emergency=config.emergency),
        "upgrades": [Upgrade(config.upgraded, config.years[-1], config.upgrade)],
        "cutoff": config.cutoff,
        "unit_costs": {"Line": config.unit_cost, "Transformer": config.unit_cost},
    }
    nameplates = dict.fromkeys(config.buses, nameplate)
    found = batch.studied(n, nameplates, batch.terms(budget, config.reliability), console, options)
    table = batch.effect(found)
    by_fairness = {
        fairness: batch.studied(n, nameplates, {fairness: {}}, console, options | {"fairness": fairness})[fairness]
        for fairness in ("queue", "pro rata", "largest sum")
    }
    shares = batch.written(by_fairness, "allocation").rename(columns={"case": "fairness"})
    shares = shares[["fairness", "year", "request", "dispatch", "firm", "limiter", "outage"]]
    study.save(shares, arguments.out, "fairness")
    study.save(table, arguments.out, "effect")
    for name in ("allocation", "causes", "limiters"):
        study.save(batch.written(found, name), arguments.out, name)
    study.save(found["firm"].tables()["upgrades"], arguments.out, "upgrades")
    study.show(console, table, "sums over the batch, MW, h, MWh")
    study.show(console, shares, "firm MW by fairness")
    if arguments.figures is not None:
        found["budget and K"].plot(config.buses[0], config.years[-1]).savefig(arguments.figures / "replay.png", dpi=150)


def _dispatch(n: Any, config: Config, console: Console) -> None:
    """Dispatch in pieces, as the study of headroom in this network does."""
    path = Path(__file__).parents[1] / "rts_gmlc" / "run.py"
    spec = importlib.util.spec_from_file_location("rts_gmlc_headroom", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    module.dispatch(n, config, console)
    n.model.solver_model = None


if __name__ == "__main__":
    study.main(__file__, Config, run)
