"""The green-power campus of the paper: Table IV, Figs. 8 to 11, and the sensitivities of Fig. 12.

Every table has the paper's value beside ours, the difference, and why there is one. Inputs that the paper does not
print are calibrated (see `networks/green_campus.py`); nothing in the model is moved to meet a number.

[1] Tong et al., "Execution-Feasible Dispatch of LLM Pre-training Loads for Renewable-Dominant AI Data Centers",
arXiv:2610.13047 (2026).
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from pathlib import Path
from typing import Any

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
from pypsa_aidc.network import SCENARIOS, describe, indicators, scenario_network, uses_storage
from pypsa_aidc.plots.balance import plot_balances
from pypsa_aidc.plots.style import BLUE, BROWN, canvas, legend, styled

SITE, BATTERY = "AIDC", ["battery"]
BOUND = "S3"
DIGITS = {
    "cost": 2,
    "reduction": 2,
    "grid": 3,
    "curtailment": 3,
    "battery": 3,
    "utilisation": 2,
    "green": 2,
    "peak": 1,
    "least": 1,
    "peak_gpus": 0,
    "modes of LLM-A": 0,
    "modes of LLM-B": 0,
}
UNITS = {
    "cost": "USD",
    "reduction": "%",
    "grid": "MWh",
    "curtailment": "MWh",
    "battery": "MWh",
    "utilisation": "%",
    "green": "%",
    "peak": "kW",
    "least": "kW",
    "peak_gpus": "GPUs",
    "modes of LLM-A": "modes",
    "modes of LLM-B": "modes",
}
PRINTED = ("cost", "reduction", "grid", "curtailment", "battery", "utilisation", "green", "peak", "peak_gpus")
SWEPT = ("cost", "curtailment", "green")
INFEASIBLE = "infeasible"


@dataclass(frozen=True)
class Config:
    """What the study runs, what the paper prints, and why values differ."""

    presets: tuple[str, ...]
    gap: float
    bound_nodes: int
    segments: tuple[int, ...]
    gpus: tuple[int, ...]
    renewables: tuple[float, ...]
    jumps: tuple[int, ...]
    pruning_ratios: tuple[float, ...]
    gpu_value: float
    paper: dict[str, Any]
    why: dict[str, dict[str, str]]

    def __post_init__(self) -> None:
        faults = Faults("configuration of the green campus")
        for preset in self.presets:
            faults.require(preset in campus.PRESETS, "presets", preset, f"some of {', '.join(campus.PRESETS)}")
        faults.number("gap", self.gap, at_least=0)
        faults.number("gpu_value", self.gpu_value, above=0)
        for field in ("segments", "gpus", "jumps"):
            for value in getattr(self, field):
                faults.number(field, value, at_least=1, integer=True)
        for field in ("renewables", "pruning_ratios"):
            for value in getattr(self, field):
                faults.number(field, value, at_least=0)
        faults.number("bound_nodes", self.bound_nodes, at_least=1, integer=True)
        for field, tables in (
            ("paper", ("schedule", "segments", "last_improvement", "gpus", "renewables")),
            ("why", ("table_iv", "segments", "gpus", "renewables")),
        ):
            for table in tables:
                faults.require(table in getattr(self, field), field, list(getattr(self, field)), f"a key {table!r}")
        faults.raise_any()


@dataclass(frozen=True)
class Solved:
    """One solved scenario: its network and indicators, and the proven bound on its cost."""

    network: pypsa.Network
    values: dict[str, float]
    bound: float
    result: aidc.network.Result


def run(config: Config, arguments: argparse.Namespace, console: Console) -> None:
    """Make all tables, and the figures if wanted."""
    runs = dict(_scenarios(config))
    tables = {
        "table_iv": table_iv(config, runs),
        "fig12a_segments": segments(config),
        "fig12b_gpus": gpus(config, console),
        "fig12c_renewables": renewables(config),
        "jump": jumps(config),
        "pruning": pruning(config),
        "gpu_value": gpu_value(config),
    }
    for preset in config.presets:
        frame = tables["table_iv"]
        study.show(console, _wide(frame[frame["preset"] == preset]), f"Table IV of [1], preset {preset}")
    titles = {
        "table_iv": "Table IV of [1]: where we differ",
        "fig12a_segments": "Fig. 12a of [1]: cost of S6 in USD over checkpoint segments",
        "fig12b_gpus": "Fig. 12b of [1]: cost of S6 in USD over GPUs",
        "fig12c_renewables": "Fig. 12c of [1]: S6 over the renewable ratio",
        "jump": "Cost in USD over K_jump, the most segments of one training edge",
        "gpu_value": "What S4 saves against what GPU-hours are worth, and the value of one at which nothing is left",
        "pruning": "Cost in USD with and without dominance pruning of modes (Eq. 20 of [1])",
    }
    for name, frame in tables.items():
        study.save(frame, arguments.out, name)
        shown = frame[frame["why"] != ""] if name == "table_iv" else frame.drop(columns="words", errors="ignore")
        study.show(console, shown, titles[name], {"paper": 3, "ours": 3, "difference": 3, "ratio": 3})
    if arguments.figures is not None:
        for path in figures(config, runs, tables, arguments.figures):
            console.print(f"wrote {path}", highlight=False)


def _scenarios(config: Config) -> Iterator[tuple[tuple[str, str], Solved]]:
    for preset in config.presets:
        for scenario in SCENARIOS:
            n = campus.network(preset)
            if scenario == BOUND:
                # S3 bounds S4 from below only if no mode draws less for one scenario than for the other.
                n.aidc.update(SITE, jobs=[_even(load) for load in campus.loads(preset)])
            yield (preset, scenario), _solve(n, scenario, config)


def _even(load: aidc.TrainingLoad) -> aidc.TrainingLoad:
    """Return the load with the same power for each GPU in every mode: all power coefficients 1."""
    assert load.baseline is not None
    per_gpu = load.baseline.it_power / load.baseline.gpus
    return replace(load, modes=tuple(replace(mode, it_power=mode.gpus * per_gpu) for mode in load.modes))


def _solve(n: pypsa.Network, scenario: str, config: Config) -> Solved:
    prepared = scenario_network(n, scenario, BATTERY)
    exclusive = BATTERY if uses_storage(scenario) else []
    stop = {"mip_max_nodes": config.bound_nodes} if scenario == BOUND else {}
    result = study.solve(prepared, scenario, exclusive=exclusive, prices=False, mip_rel_gap=config.gap, **stop)
    values = indicators(prepared, BATTERY)
    # The objective lacks the constant that makes a reward for feed-in a cost of curtailment; differences do not.
    bound = values["cost"] - (result.objective - result.bound)
    used = prepared.aidc.schedule().drop_duplicates(["job", "pipeline", "tensor", "data"])["job"].value_counts()
    values |= {f"modes of {job}": float(count) for job, count in used.items()}
    return Solved(prepared, values, bound, result)


def table_iv(config: Config, runs: Mapping[tuple[str, str], Solved]) -> pd.DataFrame:
    """Table IV of [1], one row a preset, scenario and indicator; the proven bound beside each cost."""
    published = pd.read_csv(str(files("pypsa_aidc.cli") / "green_campus_paper.csv"), index_col="scenario")
    rows = []
    for (preset, scenario), solved in runs.items():
        fixed = runs[preset, "S1"].values["cost"]
        ours = solved.values | {"reduction": 100 * (1 - solved.values["cost"] / fixed)}
        paper = published.loc[scenario].to_dict() | (config.paper["schedule"] if scenario == "S6" else {})
        for indicator in DIGITS:
            if indicator in paper:
                row = {"preset": preset, "scenario": scenario, "indicator": indicator, "unit": UNITS[indicator]}
                row |= {"bound": solved.bound if indicator == "cost" else float("nan")}
                key, reasons = (preset, scenario, indicator), config.why["table_iv"]
                rows.append(row | _compared(paper[indicator], ours[indicator], DIGITS[indicator], reasons, *key))
    return pd.DataFrame(rows)


def segments(config: Config) -> pd.DataFrame:
    """Fig. 12a of [1]: S6 with other numbers of segments; the longest edge keeps its share of the tranche."""
    rows = []
    for preset in config.presets:
        share = campus.PRESETS[preset].jump / campus.SEGMENTS
        costs = {}
        for count in config.segments:
            jump = max(1, round(count * share))
            n = campus.network(preset)
            n.aidc.update(SITE, jobs=campus.loads(preset, segments=count, jump=jump))
            costs[count] = _solve(n, "S6", config).values["cost"]
            paper = config.paper["segments"].get(count)
            compared = _compared(paper, costs[count], DIGITS["cost"], config.why["segments"], preset, str(count))
            rows.append({"preset": preset, "segments": str(count), "jump": jump} | compared)
        finest, case = max(config.segments), campus.SEGMENTS
        if case in costs and finest > case:
            gain = 100 * (1 - costs[finest] / costs[case])
            paper, digits = config.paper["last_improvement"], DIGITS["reduction"]
            compared = _compared(paper, gain, digits, config.why["segments"], preset, "last")
            rows.append({"preset": preset, "segments": f"{case} to {finest}, % saved", "jump": None} | compared)
    return pd.DataFrame(rows).astype({"jump": "Int64"})


def gpus(config: Config, console: Console) -> pd.DataFrame:
    """Fig. 12b of [1]: S6 with other pools; where they are too small, the words of the error are printed in full."""
    rows = []
    for preset in config.presets:
        for pool in config.gpus:
            n, words = campus.network(preset), ""
            ours: float | str
            try:
                n.aidc.update(SITE, gpus=pool)
                ours = _solve(n, "S6", config).values["cost"]
            except aidc.InfeasibleError as error:
                # The lines after the first come from a search with a time limit: to read, not to keep.
                ours, words = INFEASIBLE, str(error).splitlines()[0]
                console.print(f"{preset}, {pool} GPUs: {error}", highlight=False, markup=False, soft_wrap=True)
            paper = config.paper["gpus"].get(pool)
            compared = _compared(paper, ours, DIGITS["cost"], config.why["gpus"], preset, str(pool))
            rows.append({"preset": preset, "gpus": pool} | compared | {"words": words})
    return pd.DataFrame(rows)


def renewables(config: Config) -> pd.DataFrame:
    """Fig. 12c of [1]: S6 with the capacity of wind and sun multiplied."""
    rows = []
    for preset in config.presets:
        for ratio in config.renewables:
            values = _solve(campus.network(preset, ratio), "S6", config).values
            paper = config.paper["renewables"].get(ratio, {})
            for indicator in SWEPT:
                row = {"preset": preset, "ratio": ratio, "indicator": indicator, "unit": UNITS[indicator]}
                key, reasons = (preset, str(ratio), indicator), config.why["renewables"]
                published = paper.get(indicator)
                rows.append(row | _compared(published, values[indicator], DIGITS[indicator], reasons, *key))
    return pd.DataFrame(rows)


def jumps(config: Config) -> pd.DataFrame:
    """Cost over K_jump, which [1] does not give."""
    rows = []
    for preset in config.presets:
        for jump in config.jumps:
            n = campus.network(preset)
            n.aidc.update(SITE, jobs=campus.loads(preset, jump=jump))
            costs = {scenario: _solve(n, scenario, config).values["cost"] for scenario in ("S4", "S6")}
            rows.append({"preset": preset, "jump": jump} | costs)
    return pd.DataFrame(rows)


def pruning(config: Config) -> pd.DataFrame:
    """Cost with the effective modes and with all feasible ones: dominance is not exact where surplus costs money."""
    rows = []
    for preset in config.presets:
        for ratio in config.pruning_ratios:
            for scenario in ("S4", "S6"):
                n = campus.network(preset, ratio)
                pruned = _solve(n, scenario, config)
                n.aidc.update(SITE, jobs=list(_unpruned(preset)))
                whole = _solve(n, scenario, config)
                rows.append(
                    {
                        "preset": preset,
                        "ratio": ratio,
                        "scenario": scenario,
                        "edges pruned": pruned.result.edges,
                        "edges unpruned": whole.result.edges,
                        "pruned": pruned.values["cost"],
                        "unpruned": whole.values["cost"],
                        "difference": whole.values["cost"] - pruned.values["cost"],
                    }
                )
    return pd.DataFrame(rows)


def gpu_value(config: Config) -> pd.DataFrame:
    """Saving without storage beside the GPU-hours that it takes; GPUs are released or held while a job waits."""
    rows = []
    for preset in config.presets:
        for case in ("waiting", "free"):
            for held in (False, True):
                n = scenario_network(campus.network(preset), "S4", BATTERY)
                jobs = [load.with_rules(held_gpus=load.mode().gpus * held) for load in campus.loads(preset)]
                n.aidc.update(SITE, jobs=jobs)
                table = n.aidc.break_even(case=case, output_flag=False, mip_rel_gap=config.gap)
                fixed = sum(load.mode().gpus for load in jobs) * campus.HOURS
                rows.append(
                    {
                        "preset": preset,
                        "may": "wait" if case == "waiting" else "wait and change modes",
                        "while waiting GPUs are": "held" if held else "released",
                        "saved (USD)": table["energy_saved"].iloc[0],
                        "GPU-hours fixed": fixed,
                        "more GPU-hours": table["more_gpu_hours"].iloc[0],
                        "saved (% of GPU cost)": 100 * table["energy_saved"].iloc[0] / (config.gpu_value * fixed),
                        "break-even (USD/GPU-h)": table.attrs["break_even"],
                    }
                )
    return pd.DataFrame(rows)


def _unpruned(preset: str) -> Iterator[aidc.TrainingLoad]:
    for job, load in zip(campus.jobs(), campus.loads(preset), strict=True):
        yield replace(load, modes=campus.modes(job, preset).feasible)


def _compared(
    paper: float | str | None, ours: float | str, digits: int, reasons: Mapping[str, str], *key: str
) -> dict[str, Any]:
    """Paper, ours, their difference, and why there is one in the digits that the paper prints."""
    if isinstance(paper, str) or isinstance(ours, str):
        difference, same = float("nan"), paper in (ours, None)
    else:
        difference = float("nan") if paper is None else ours - paper
        same = paper is None or abs(round(ours, digits) - paper) < 0.1 * 10.0**-digits
    why = "" if same else _reason(reasons, key)
    return {"paper": paper, "ours": ours, "difference": difference, "why": why}


def _reason(reasons: Mapping[str, str], key: tuple[str, ...]) -> str:
    """Look up the reason with the longest run of words of the key."""
    runs = (key[start : start + length] for length in range(len(key), 0, -1) for start in range(len(key) - length + 1))
    return next((reasons[name] for name in map(" ".join, runs) if name in reasons), "not explained")


def _wide(frame: pd.DataFrame) -> pd.DataFrame:
    """Table IV as in print: ours, and below it the paper's."""
    rows = []
    for scenario, group in frame.groupby("scenario", sort=False):
        own = group.set_index("indicator")
        for source, label in (("ours", str(scenario)), ("paper", "  [1]")):
            cells = {f"{name}\n{UNITS[name]}": _digits(own.at[name, source], DIGITS[name]) for name in PRINTED}
            rows.append({"": label} | cells)
    return pd.DataFrame(rows)


def _digits(value: float, digits: int) -> str:
    return f"{round(value, digits) + 0.0:.{digits}f}"


def figures(
    config: Config, runs: Mapping[tuple[str, str], Solved], tables: Mapping[str, pd.DataFrame], folder: Path
) -> Iterator[Path]:
    """Draw Figs. 8 to 12 of [1] for the first preset."""
    preset = config.presets[0]
    full = runs[preset, "S6"].network
    shown = {f"{name}: {describe(name)}": runs[preset, name].network.aidc.balance() for name in ("S1", "S6")}
    drawn = {
        "fig8_balance": plot_balances(shown, full.carriers),
        "fig10_composition": full.aidc.plot.composition(SITE),
        "fig11_execution": full.aidc.plot.execution(SITE),
        "fig12_sensitivity": plot_sensitivity(*_sweeps(preset, tables)),
    }
    for job in campus.jobs():
        drawn[f"fig9_modes_{job.name}"] = campus.modes(job, preset).plot()
    for name, figure in drawn.items():
        path = folder / f"{name}.png"
        figure.savefig(path, dpi=150)
        yield path


@styled
def plot_sensitivity(frames: Mapping[str, pd.DataFrame], labels: Sequence[str]) -> Figure:
    """Draw cost against a parameter, one panel each, the paper's values beside ours (Fig. 12 of [1])."""
    figure, axes = canvas(len(frames), 1)
    for axis, label, (title, frame) in zip(axes[:, 0], labels, frames.items(), strict=True):
        axis.plot(frame.index, frame["ours"], "o-", color=BLUE, label="ours")
        axis.plot(frame.index, frame["paper"], "x", color=BROWN, markersize=9, markeredgewidth=2, label="paper")
        axis.set(xlabel=label, ylabel="cost (USD)", title=title)
    legend(axes[0, 0])
    return figure


def _sweeps(preset: str, tables: Mapping[str, pd.DataFrame]) -> tuple[dict[str, pd.DataFrame], list[str]]:
    first, second, third = (tables[name] for name in ("fig12a_segments", "fig12b_gpus", "fig12c_renewables"))
    first = first[first["jump"].notna()]
    panels = {
        "(a) checkpoints": first.assign(segments=first["segments"].astype(int)).set_index("segments"),
        "(b) GPU pool": second[second["ours"] != INFEASIBLE].set_index("gpus"),
        "(c) renewables": third[third["indicator"] == "cost"].set_index("ratio"),
    }
    chosen = {}
    for name, panel in panels.items():
        own = panel[panel["preset"] == preset]
        chosen[name] = own[["ours", "paper"]].apply(pd.to_numeric, errors="coerce")
    return chosen, ["segments", "GPUs", "renewable ratio"]


if __name__ == "__main__":
    study.main(__file__, Config, run)
