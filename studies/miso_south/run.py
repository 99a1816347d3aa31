"""The peak-cap screen of MISO South: App. E of "Beyond Scalar Flexibility", and what its choices are worth.

Demand is real (EIA-930), the fleet synthetic: calibrated to the paper, since its trace cannot be redistributed.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pypsa
from rich.console import Console

sys.path.insert(0, str(Path(__file__).parents[1]))

import study

from pypsa_aidc import fleet
from pypsa_aidc.errors import Faults
from pypsa_aidc.headroom import (
    Demand,
    DemandWarning,
    Offsets,
    Profile,
    Screen,
    call_depths,
    clean,
    network_demand,
    profiles,
    read_demand,
    screen_calls,
    screen_region,
)
from pypsa_aidc.plots.screen import plot_ratios, plot_screen

HERE = Path(__file__).parent
NETWORK = study.ROOT / "networks" / "miso_south.nc"
DATA = "synthetic fleet"
COUNTS = ("events", "hours", "longest")


@dataclass(frozen=True)
class Config:
    """The study."""

    margins: tuple[float, ...]
    budgets: tuple[float, ...]
    margin: float
    budget: float
    offsets: int
    seed: int
    seeds: int
    tier: float
    reliabilities: tuple[float, ...]
    recovery: int
    years: tuple[int, ...]
    demand_of_years: str
    gap_limit: int

    def __post_init__(self) -> None:
        faults = Faults("configuration of miso_south")
        faults.require(self.margin in self.margins, "margin", self.margin, f"one of margins {self.margins}")
        faults.require(self.budget in self.budgets, "budget", self.budget, f"one of budgets {self.budgets}")
        faults.raise_any()

    @property
    def alignments(self) -> Offsets:
        """As in the paper: drawn at random."""
        return Offsets("random", count=self.offsets, seed=self.seed)

    @property
    def case(self) -> dict[str, float]:
        """The case of the paper's text."""
        return {"margin": self.margin, "budget": self.budget}


def run(config: Config, arguments: argparse.Namespace, console: Console) -> None:
    """Screen, print and save the tables."""
    demand = network_demand(pypsa.Network(NETWORK))
    envelope = fleet.Envelope.of(fleet.SyntheticFleet.generate().statistics)
    shapes = profiles(envelope, tier=config.tier)
    grid = {"margin": config.margins, "budget": config.budgets}
    found = screen_region(demand, shapes, period="whole", offsets=config.alignments, **grid)
    exact = screen_region(demand, shapes, period="whole", offsets=Offsets("all"), **config.case)
    tables = {
        "appendix_e": _compared(config, found),
        "sensitivity": found.summary()[["profile", "margin", "budget", "headroom", "p5", "p95", *COUNTS, "limiter"]],
        "alignments": _alignments(config, demand, shapes, exact),
        "seeds": _seeds(config, exact),
        "periods": _periods(config, demand, shapes),
        "calls": _calls(config, demand, envelope, shapes[0]),
        "years": _years(config, shapes),
    }
    for name, frame in tables.items():
        study.save(frame.assign(data=DATA), arguments.out, name)
        if name != "sensitivity":
            shown = frame.drop(columns=["doubts", "why"], errors="ignore")
            study.show(
                console, shown, f"{name} ({DATA})", {"budget": 4, "difference": 4, "depth_1h": 4, "depth_24h": 4}
            )
    if arguments.figures is not None:
        paper = _published()
        medians = paper[paper["quantity"] == "headroom"].set_index("profile")["paper"].to_dict()
        figures = {"figure_17": plot_screen(found, config.budget, medians), "figure_18": plot_ratios(found)}
        for name, figure in figures.items():
            figure.savefig(arguments.figures / f"synthetic_{name}.png", dpi=150)
            console.print(f"wrote {arguments.figures / f'synthetic_{name}.png'}", highlight=False)


def _published() -> pd.DataFrame:
    return pd.read_csv(HERE / "published.csv")


def _compared(config: Config, found: Screen) -> pd.DataFrame:
    """Paper, ours, difference and why, of each number of App. E; and the limits at zero margin."""
    table = found.summary()
    case = table[(table["margin"] == config.margin) & (table["budget"] == config.budget)].set_index("profile")
    rows = _published()
    rows.insert(3, "ours", [float(case.at[row.profile, row.quantity]) for row in rows.itertuples()])
    full = table[(table["profile"] == "full") & (table["margin"] == 0.0)].set_index("budget")["headroom"]
    at_zero = pd.DataFrame(
        {
            "profile": "full",
            "quantity": [f"headroom at zero margin, budget {100 * budget:g} %" for budget in (0.0025, 0.02)],
            "paper": [940.0, 3090.0],
            "ours": [full[0.0025], full[0.02]],
            "why": "printed to 10 MW; other fleet: synthetic",
        }
    )
    rows = pd.concat([rows, at_zero], ignore_index=True)
    rows.insert(4, "difference", rows["ours"] / rows["paper"] - 1)
    return rows


def _alignments(config: Config, demand: Demand, shapes: tuple[Profile, ...], exact: Screen) -> pd.DataFrame:
    """Random offsets against those that keep the hour of the day or week, and against all."""
    kinds = {
        str(config.alignments): config.alignments,
        "hour of the day kept": Offsets("aligned", step=24),
        "hour of the week kept": Offsets("aligned", step=168),
    }
    parts = {
        name: screen_region(demand, shapes, period="whole", offsets=kind, **config.case) for name, kind in kinds.items()
    }
    parts["all 4,440"] = exact
    frames = [part.summary().assign(offsets=name) for name, part in parts.items()]
    columns = ["offsets", "profile", "headroom", "p5", "p95", *COUNTS]
    return pd.concat(frames, ignore_index=True)[columns]


def _seeds(config: Config, exact: Screen) -> pd.DataFrame:
    """How often a draw of offsets prints what the paper prints."""
    rows = _published()
    size = {name: exact.data["headroom"].sel(profile=name).to_numpy().ravel() for name in rows["profile"].unique()}
    counts = {name: exact.data[name].sel(profile="trace, marginal").to_numpy().ravel() for name in COUNTS}
    medians = rows[rows["quantity"] == "headroom"].set_index("profile")["paper"]
    printed = rows.set_index("quantity")["paper"]
    near, same = [], []
    for seed in range(config.seeds):
        drawn = Offsets("random", count=config.offsets, seed=seed).hours(exact.profiles[0].load.size)
        near.append(all(abs(np.median(size[name][drawn]) / mw - 1) < 0.005 for name, mw in medians.items()))
        levels = {"": 0.5, "_p5": 0.05, "_p95": 0.95}
        same.append(
            all(
                np.quantile(counts[name][drawn], level) == printed[name + end]
                for name in COUNTS
                for end, level in levels.items()
            )
        )
    both = np.array(near) & np.array(same)
    words = {
        "seeds": config.seeds,
        "all medians within 0.5 % of the paper": int(sum(near)),
        "and all numbers of calls as printed": int(both.sum()),
        "first such seed": int(np.flatnonzero(both)[0]),
    }
    return pd.DataFrame({"quantity": list(words), "value": list(words.values())})


def _periods(config: Config, demand: Demand, shapes: tuple[Profile, ...]) -> pd.DataFrame:
    """A budget over both years at once, and over each year."""
    frames = []
    for period in ("whole", "year"):
        found = screen_region(
            demand, shapes, period=period, margin=config.margin, budget=config.budgets, offsets=config.alignments
        )  # type: ignore[arg-type]
        frames.append(found.summary().set_index(["profile", "budget"])["headroom"].rename(period))
    table = pd.concat(frames, axis=1).reset_index()
    return table.assign(difference=table["year"] / table["whole"] - 1)


def _calls(config: Config, demand: Demand, envelope: fleet.Envelope, load: Profile) -> pd.DataFrame:
    """Relief in calls that K limits by their duration, by reliability of a call."""
    surface = fleet.Surface.of(envelope)
    frames = []
    for reliability in config.reliabilities:
        depths = call_depths(surface, reliability, float(envelope.peak().mean()))
        found = screen_calls(demand, load, depths, recovery=config.recovery, offsets=config.alignments, **config.case)
        frames.append(found.summary().assign(reliability=reliability, depth_1h=depths[1], depth_24h=depths[24]))
    columns = ["reliability", "depth_1h", "depth_24h", "headroom", "p5", "p95", *COUNTS, "limiter"]
    return pd.concat(frames, ignore_index=True)[columns]


def _years(config: Config, shapes: tuple[Profile, ...]) -> pd.DataFrame:
    """Each year under a cap of its own, by policy for its gaps, with what the gaps leave in doubt."""
    demand = read_demand(study.data_file(config.demand_of_years), region="MISO South", calendar="Etc/GMT+5")
    frames = []
    for year in config.years:
        part = demand.between(f"{year}-01-01", f"{year + 1}-01-01")
        for gaps in ("interpolate", "drop"):
            if gaps == "drop" and not len(part.missing):
                continue
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                tidy = clean(part, gaps=gaps, limit=config.gap_limit)  # type: ignore[arg-type]
                found = screen_region(tidy, shapes, period="whole", offsets=config.alignments, **config.case)
            doubts = [str(one.message) for one in caught if issubclass(one.category, DemandWarning)]
            sizes = found.summary().set_index("profile")["headroom"]
            row = {"year": year, "gaps": gaps, "missing": len(part.missing), "peak": tidy.peak, **sizes.to_dict()}
            frames.append({**row, "doubts": "; ".join(doubts)})
    return pd.DataFrame(frames)


if __name__ == "__main__":
    study.main(__file__, Config, run)
