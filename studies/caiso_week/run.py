"""Seven real days of California on the green-power campus: the distribution of a saving known from one day.

Wind, sun and the NP15 day-ahead price of CAISO in 2022 replace the calibrated day of the campus; jobs, modes, battery
and costs stay. S1 (fixed training), S4 (checkpoints and modes), S5 (fixed, battery) and S6 (all) are solved day by day.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import pandas as pd
import pypsa
from matplotlib.figure import Figure
from rich.console import Console

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[2] / "networks"))

import green_campus as campus
import study

import pypsa_aidc as aidc
from pypsa_aidc.errors import Faults
from pypsa_aidc.network import indicators, scenario_network, uses_storage
from pypsa_aidc.plots.style import CYCLE

SITE, BATTERY, HOURS = "AIDC", ["battery"], 24
COLUMNS = {"wind_mw": "wind", "solar_mw": "PV", "np15_price_usd_per_mwh": "price"}
BASELINE = "S1"
SCENARIOS = (BASELINE, "S4", "S5", "S6")
SCALINGS = ("capacity", "energy")
PRUNED = "S4"
"""Scenario whose cost is also taken with the effective modes only, as a check of pruning on every day."""


@dataclass(frozen=True)
class Config:
    """The study, and the paper's savings."""

    file: str
    timezone: str
    days: int
    preset: str
    gap: float
    scalings: tuple[str, ...]
    horizon: int
    overlap: int
    rolling_gap: float
    paper: dict[str, float]

    def __post_init__(self) -> None:
        faults = Faults("configuration of caiso_week")
        faults.number("days", self.days, at_least=1, integer=True)
        faults.number("gap", self.gap, at_least=0)
        faults.number("rolling_gap", self.rolling_gap, at_least=0)
        faults.number("horizon", self.horizon, at_least=1, integer=True)
        faults.number("overlap", self.overlap, at_least=0, integer=True)
        faults.require(self.preset in campus.PRESETS, "preset", self.preset, f"one of {', '.join(campus.PRESETS)}")
        for scaling in self.scalings:
            faults.require(scaling in SCALINGS, "scalings", scaling, f"some of {', '.join(SCALINGS)}")
        try:
            ZoneInfo(self.timezone)
        except (ZoneInfoNotFoundError, ValueError):
            faults.add("timezone", self.timezone, "a name such as America/Los_Angeles")
        faults.raise_any()


@dataclass(frozen=True)
class Day:
    """One day: shares of the year's highest output of wind and sun, and the price in USD/MWh; 24 local hours."""

    label: str
    hours: pd.DataFrame


def run(config: Config, arguments: argparse.Namespace, console: Console) -> None:
    """Solve all days, print and save the tables."""
    file = study.data_file(config.file)
    year = _read(file, config.timezone)
    complete = _complete_days(year)
    chosen = [*_spread(complete, config.days), _most_negative(complete)]
    factors = {scaling: 1.0 if scaling == "capacity" else _energy_factor(config, year) for scaling in config.scalings}
    how = {"file": file, "timezone": config.timezone, "preset": config.preset, "gap": config.gap}
    points = [{"factor": factors[scaling], "day": day.label, **how} for scaling in config.scalings for day in chosen]
    days = study.sweep(solve_day, points, arguments, "days").drop(columns=list(how))
    days.insert(0, "scaling", [scaling for scaling in config.scalings for _ in chosen])
    days.insert(2, "counted", [position < config.days for position in range(len(chosen))] * len(config.scalings))
    distribution = _distribution(config, days[days["counted"]])
    study.save(days, arguments.out, "days")
    study.save(distribution, arguments.out, "distribution")
    regret = _regret(config, arguments, [day.label for day in chosen[: config.days]], how)
    study.save(regret, arguments.out, "regret")
    shown = days.assign(day=days["day"].where(days["counted"], days["day"] + " *")).drop(columns=["factor", "counted"])
    study.show(console, shown, "day by day (* stress test: the day with most negative prices, not counted)")
    study.show(console, distribution, "saving against fixed training, %")
    study.show(console, regret, "rolling horizon against perfect foresight, S4")
    if arguments.figures is not None:
        target = arguments.figures / "savings.png"
        _draw(config, days[days["counted"]]).savefig(target, dpi=150)
        console.print(f"wrote {target}", highlight=False)


@cache
def _read(file: Path, timezone: str) -> pd.DataFrame:
    """Read the year in local time: wind and sun as shares of their highest hour, NaN kept."""
    table = pd.read_csv(file, parse_dates=["utc"], index_col="utc")
    faults = Faults(file.name)
    for column in COLUMNS:
        faults.require(column in table, "columns", list(table.columns), f"a column {column!r}")
    faults.raise_any()
    year = table[list(COLUMNS)].rename(columns=COLUMNS).tz_localize("UTC").tz_convert(timezone)
    for source in ("wind", "PV"):
        year[source] /= year[source].max()
    return year


def _complete_days(year: pd.DataFrame) -> list[Day]:
    """Local days with 24 hours and no gap: not those of the clock changes, and not the year's ends."""
    days = [Day(f"{date:%Y-%m-%d}", hours) for date, hours in year.groupby(year.index.normalize())]
    return [day for day in days if len(day.hours) == HOURS and not day.hours.isna().to_numpy().any()]


def _spread(days: list[Day], count: int) -> list[Day]:
    """The middle day of each of `count` equal parts."""
    return [days[int((part + 0.5) * len(days) / count)] for part in range(count)]


def _most_negative(days: list[Day]) -> Day:
    return max(days, key=lambda day: int((day.hours["price"] < 0).sum()))


def _energy_factor(config: Config, year: pd.DataFrame) -> float:
    """Multiple of the campus's capacity with which the year's mean day gives the energy of the campus's own day."""
    renewables = campus.network(config.preset).generators.loc[["PV", "wind"], "p_nom"]
    mean_day = HOURS * float((year[["PV", "wind"]].mean() * renewables).sum())
    own = pd.read_csv(campus.HERE / campus.PRESETS[config.preset].day)[["pv_kw", "wind_kw"]].to_numpy().sum() / 1e3
    return float(own) / mean_day


def solve_day(factor: float, day: str, file: Path, timezone: str, preset: str, gap: float) -> dict[str, float]:
    """Solve all scenarios on one day: the savings, and what the day was like."""
    hours = _read(file, timezone).loc[day]
    n = _network(preset, hours, factor)
    values = {scenario: _solve(gap, n, scenario, f"{day} {scenario}") for scenario in SCENARIOS}
    n.aidc.update(SITE, jobs=campus.loads(preset))
    pruned = _solve(gap, n, PRUNED, f"{day} {PRUNED} pruned")
    fixed = values[BASELINE]["cost"]
    price = hours["price"]
    return {
        "renewable MWh": float(_available(n).to_numpy().sum()),
        "mean price": price.mean(),
        "least price": price.min(),
        "S1 USD": fixed,
        "S1 curtailed MWh": values[BASELINE]["curtailment"],
        **{f"{scenario} %": 100 * (1 - values[scenario]["cost"] / fixed) for scenario in SCENARIOS[1:]},
        "S6 curtailed MWh": values["S6"]["curtailment"],
        "pruning USD": pruned["cost"] - values[PRUNED]["cost"],
    }


def _regret(config: Config, arguments: argparse.Namespace, days: list[str], how: dict[str, object]) -> pd.DataFrame:
    """What it costs not to know the rest of the day, day by day, and of the week."""
    windows = {"horizon": config.horizon, "overlap": config.overlap}
    points = [{"day": day, **how, "gap": config.rolling_gap, **windows} for day in days]
    table = study.sweep(roll_day, points, arguments, "rolling days").drop(columns=[*how, *windows])
    week = {"day": "week", **table[["foresight USD", "rolling USD"]].sum().to_dict()}
    table = pd.concat([table, pd.DataFrame([week])], ignore_index=True)
    table["regret %"] = 100 * (table["rolling USD"] / table["foresight USD"] - 1)
    return table


def roll_day(
    day: str, file: Path, timezone: str, preset: str, gap: float, horizon: int, overlap: int
) -> dict[str, float]:
    """Solve S4 with perfect foresight and in a rolling horizon, by capacity and with the effective modes."""
    n = _network(preset, _read(file, timezone).loc[day], 1.0)
    n.aidc.update(SITE, jobs=campus.loads(preset))
    n = scenario_network(n, PRUNED, BATTERY)
    study.solve(n, day, prices=False, mip_rel_gap=gap)
    best = _operation(n)
    n.aidc.optimize_with_rolling_horizon(horizon=horizon, overlap=overlap, mip_rel_gap=gap, output_flag=False)
    return {"foresight USD": best, "rolling USD": _operation(n)}


def _operation(n: pypsa.Network) -> float:
    """USD for the grid's energy, and for what is curtailed."""
    price = n.get_switchable_as_dense("Generator", "marginal_cost")
    paid = sum(float(n.generators_t.p[name] @ price[name]) for name in ("grid", "PV", "wind"))
    return paid + campus.CURTAILMENT_COST * float(_available(n).to_numpy().sum())


def _network(preset: str, hours: pd.DataFrame, factor: float) -> pypsa.Network:
    """The campus on a real day, with every feasible mode: where surplus costs money, dominated ones may be of use."""
    n = campus.network(preset, factor)
    for source in ("PV", "wind"):
        n.generators_t.p_max_pu[source] = hours[source].to_numpy()
    n.generators_t.marginal_cost["grid"] = hours["price"].to_numpy()
    n.aidc.update(SITE, jobs=list(_unpruned(preset)))
    return n


def _unpruned(preset: str) -> Iterator[aidc.TrainingLoad]:
    for job, load in zip(campus.jobs(), campus.loads(preset), strict=True):
        yield replace(load, modes=campus.modes(job, preset).feasible)


def _available(n: pypsa.Network) -> pd.DataFrame:
    return n.generators_t.p_max_pu[["PV", "wind"]] * n.generators.loc[["PV", "wind"], "p_nom"]


def _solve(gap: float, n: pypsa.Network, scenario: str, label: str) -> dict[str, float]:
    prepared = scenario_network(n, scenario, BATTERY)
    exclusive = BATTERY if uses_storage(scenario) else []
    result = study.solve(prepared, label, exclusive=exclusive, prices=False, mip_rel_gap=gap)
    # Costs from the objective: with negative prices the grid, too, is a generator that is paid to feed in.
    constant = campus.CURTAILMENT_COST * float(_available(prepared).to_numpy().sum())
    return indicators(prepared, BATTERY) | {"cost": result.objective + constant}


def _distribution(config: Config, days: pd.DataFrame) -> pd.DataFrame:
    rows = []
    for scaling, group in days.groupby("scaling", sort=False):
        for scenario in SCENARIOS[1:]:
            saving = group[f"{scenario} %"]
            row = {"scaling": scaling, "scenario": scenario}
            row |= {name: getattr(saving, name)() for name in ("min", "median", "mean", "max")}
            rows.append(row | {"paper, one day": config.paper.get(scenario, float("nan"))})
    return pd.DataFrame(rows)


def _draw(config: Config, days: pd.DataFrame) -> Figure:
    """Saving of each day, one panel a scaling, the paper's value as a line."""
    figure = Figure(figsize=(5 * len(config.scalings), 3.6), layout="constrained")
    panels = figure.subplots(1, len(config.scalings), sharey=True, squeeze=False)[0]
    for ax, (scaling, group) in zip(panels, days.groupby("scaling", sort=False), strict=True):
        for scenario, colour, marker in zip(SCENARIOS[1:], CYCLE[:3], "os^", strict=True):
            ax.plot(range(len(group)), group[f"{scenario} %"], marker, color=colour, label=scenario)
            if scenario in config.paper:
                ax.axhline(config.paper[scenario], color=colour, linestyle=":", linewidth=1)
        ax.set(title=f"scaled by {scaling}", ylabel="saving (%)" if ax is panels[0] else "")
        ax.set_xticks(range(len(group)), group["day"], rotation=45)
    panels[0].set_ylim(bottom=0)
    figure.legend(*panels[0].get_legend_handles_labels(), title="dotted: the paper's day", loc="outside right")
    return figure


if __name__ == "__main__":
    study.main(__file__, Config, run)
