"""A batch of three AIDCs in scigrid-de: what K and a budget change."""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path

import pypsa
from rich.console import Console

sys.path.insert(0, str(Path(__file__).parents[1]))

import batch
import study

from pypsa_aidc.errors import Faults
from pypsa_aidc.headroom import Budget, Ratings


@dataclass(frozen=True)
class Config:
    """The study."""

    network: str
    share: float
    reinforced: tuple[str, ...]
    reinforced_rating: float
    emergency: float
    cutoff: float
    reliability: float
    buses: tuple[str, ...]
    nameplate: float
    cases: tuple[str, ...]
    budget_hours: float
    budget_longest: int
    budget_depth: float

    def __post_init__(self) -> None:
        faults = Faults("configuration of scigrid_de_batch")
        faults.number("share", self.share, above=0, at_most=1)
        faults.number("emergency", self.emergency, at_least=1)
        faults.number("nameplate", self.nameplate, above=0)
        faults.raise_any()


def run(config: Config, arguments: argparse.Namespace, console: Console) -> None:
    """Dispatch the day, study the batch under each kind of terms, print and save the tables."""
    n = pypsa.Network(study.data_file(config.network))
    n.lines.loc[list(config.reinforced), "s_nom"] = config.reinforced_rating
    n.lines["s_max_pu"] = config.share
    study.solve(n, "dispatch")
    n.lines["s_max_pu"] = 1.0
    outages = batch.survived(n, config.emergency)
    console.print(f"{len(outages)} outages survived at every hour", style="dim", highlight=False)
    budget = Budget(config.budget_hours, config.budget_longest, config.budget_depth)
    terms = batch.terms(budget, config.reliability)
    cases = {name: terms[name] for name in config.cases}
    options = {"contingencies": outages, "ratings": Ratings(emergency=config.emergency), "cutoff": config.cutoff}
    nameplates = dict.fromkeys(config.buses, config.nameplate)
    found = batch.studied(n, nameplates, cases, console, options)
    table = batch.effect(found)
    study.save(table, arguments.out, "effect")
    study.save(batch.written(found, "allocation"), arguments.out, "allocation")
    study.save(batch.written(found, "limiters"), arguments.out, "limiters")
    study.show(console, table, "sums over the batch, MW, h, MWh")


if __name__ == "__main__":
    study.main(__file__, Config, run)
