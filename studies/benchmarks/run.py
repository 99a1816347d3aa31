"""What models of training sites cost, as ratios in one run: against the literal formulation, PyPSA and HiGHS alone.

`edges`, `nonzeros` and CPU seconds of building and solving over hours, segments, modes, jobs and sites.
"""

from __future__ import annotations

import argparse
import platform
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

import highspy
import numpy as np
import pandas as pd
import pypsa
from matplotlib.figure import Figure
from rich.console import Console

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[2] / "networks"))

import green_campus as campus
import study

import pypsa_aidc as aidc
from pypsa_aidc.cli.reply import silenced_stdout
from pypsa_aidc.errors import Faults
from pypsa_aidc.network import scenario_network
from pypsa_aidc.plots.style import CYCLE, canvas, legend, styled
from pypsa_aidc.versions import versions

BATTERY = ["battery"]
SIZES = ("hours", "slots", "segments", "modes", "jobs", "sites")
"""What the curves go over: hours, slots an hour, segments and modes of each job, jobs at each site, sites."""
GPUS = 2048
LEAST = 0.01
"""Gap in % below which a curve is drawn at this."""
STATUS = Path("/proc/self/status")
PEAK = Path("/proc/self/clear_refs")
"""Where Linux can be told to measure the highest memory anew."""


@dataclass(frozen=True)
class Config:
    """Sizes of the usual case, what is varied, and when a search ends."""

    name: str
    repetitions: int
    base: dict[str, int]
    curves: dict[str, list[int]]
    gap: float
    seconds: float
    campus: bool

    def __post_init__(self) -> None:
        faults = Faults("configuration of the benchmarks")
        faults.require(set(self.base) == set(SIZES), "base", list(self.base), f"the keys {', '.join(SIZES)}")
        for key, values in self.curves.items():
            faults.require(key in SIZES, "curves", key, f"some of {', '.join(SIZES)}")
            for value in values:
                faults.number(f"curves, {key}", value, at_least=1, integer=True)
        faults.number("repetitions", self.repetitions, at_least=1, integer=True)
        faults.number("gap", self.gap, at_least=0)
        faults.number("seconds", self.seconds, at_least=0)
        faults.raise_any()


def run(config: Config, arguments: argparse.Namespace, console: Console) -> None:
    """Measure everything, save tables and curves."""
    table = sizes(config, arguments)
    study.save(table, arguments.out, config.name)
    study.show(console, table.drop(columns=list(SIZES)), f"{machine()}, medians of {config.repetitions}")
    if config.campus:
        rows = study.sweep(campus_s6, [{"gap": 1e-6, "repetitions": config.repetitions}], arguments, "campus")
        literal = rows.drop(columns=["gap", "repetitions"])
        study.save(literal, arguments.out, "campus")
        study.show(console, literal, "S6 of the campus to a gap of 1e-6, CPU seconds")
    if arguments.figures is not None:
        plot_curves(table).savefig(arguments.figures / f"{config.name}.png", dpi=150)


def sizes(config: Config, arguments: argparse.Namespace) -> pd.DataFrame:
    """One row a size: the usual case, and each curve around it."""
    points = [{"curve": "base", **config.base}]
    points += [
        {"curve": name, **config.base, name: value} for name, values in config.curves.items() for value in values
    ]
    how = {"gap": config.gap, "seconds": config.seconds, "repetitions": config.repetitions}
    made = study.sweep(measure, [{**point, **how} for point in points], arguments, config.name)
    made = made.drop(columns=list(how))
    made.insert(0, "case", [f"{p['curve']} {p[p['curve']]}" if p["curve"] in p else "base" for p in points])
    return made.drop(columns="curve")


def measure(
    curve: str,  # noqa: ARG001 - it tells the point of one curve from the same of another
    hours: int,
    slots: int,
    segments: int,
    modes: int,
    jobs: int,
    sites: int,
    gap: float,
    seconds: float,
    repetitions: int,
) -> dict[str, float]:
    """Build one case several times, hand its matrix to HiGHS alone, and solve it once."""
    built: list[dict[str, float]] = []
    for _ in range(repetitions):
        n = case(hours, slots, segments, modes, jobs, sites)
        built.append(_build(n))
    row = {key: median(each[key] for each in built) for key in built[0]}
    for other in ("PyPSA", "HiGHS"):
        row[f"build / {other}"] = row["build s"] / row[f"{other} s"]
    if seconds:
        began = time.process_time()
        with silenced_stdout():
            result = n.aidc.optimize(prices=False, output_flag=False, threads=1, mip_rel_gap=gap, time_limit=seconds)
        row |= {"solve s": time.process_time() - began, "gap %": 100 * result.gap}
    return row


def _build(n: pypsa.Network) -> dict[str, float]:
    """What our part of a model costs to build, what PyPSA's own does, and what HiGHS alone takes for the matrix."""
    with silenced_stdout(), _Used() as own:
        n.optimize.create_model()
    with _Used() as ours:
        aidc.extra_functionality(n, n.snapshots)
        matrices = n.model.matrices
        matrix = matrices.A.tocsr()
    lower = np.where(matrices.sense != "<", matrices.b, -np.inf)
    upper = np.where(matrices.sense != ">", matrices.b, np.inf)
    columns = np.array(matrices.lb, dtype=float), np.array(matrices.ub, dtype=float)
    cost = np.asarray(matrices.c, dtype=float)
    with silenced_stdout(), _Used() as alone:
        highs = highspy.Highs()
        highs.setOptionValue("output_flag", False)
        highs.addVars(len(cost), *columns)
        highs.changeColsCost(len(cost), np.arange(len(cost), dtype=np.int32), cost)
        highs.addRows(len(lower), lower, upper, matrix.nnz, matrix.indptr, matrix.indices, matrix.data)
    edges = n.model.variables["AIDC-path"].size
    return {
        "edges": edges,
        "nonzeros / edge": matrix.nnz / edges,
        "build s": ours.seconds,
        "PyPSA s": own.seconds,
        "HiGHS s": alone.seconds,
        "memory GB": ours.memory,
        "HiGHS GB": alone.memory,
    }


class _Used:
    """CPU seconds, and the highest memory in GB above that at the beginning (Linux only)."""

    def __enter__(self) -> _Used:
        self._before = _memory("VmRSS")
        if PEAK.exists():
            PEAK.write_text("5")
        self._began = time.process_time()
        return self

    def __exit__(self, *_: object) -> None:
        self.seconds = time.process_time() - self._began
        self.memory = _memory("VmHWM") - self._before


def _memory(key: str) -> float:
    if not STATUS.exists():
        return float("nan")
    (line,) = [line for line in STATUS.read_text().splitlines() if line.startswith(f"{key}:")]
    return int(line.split()[1]) * 1024 / 1e9


def case(hours: int, slots: int, segments: int, modes: int, jobs: int, sites: int) -> pypsa.Network:
    """Sites with jobs like those of the campus, each with sun of its own, behind a market with a price of each slot."""
    count = hours * slots
    at = np.arange(count) / slots
    n = pypsa.Network(snapshots=pd.date_range("2030-01-01", periods=count, freq=f"{60 // slots}min"))
    n.snapshot_weightings = n.snapshot_weightings.astype(float) / slots
    n.add("Carrier", ["AC", "market", "sun"])
    noise = np.random.default_rng(0).normal(0.0, 5.0, count)
    price = 60.0 + 30.0 * np.cos(2 * np.pi * (at - 3) / 12) + noise
    for site in range(sites):
        bus = f"bus {site}"
        n.add("Bus", bus, carrier="AC")
        n.add("Generator", f"market {site}", bus=bus, carrier="market", p_nom=5.0, marginal_cost=price + site)
        sun = np.clip(np.sin(2 * np.pi * (at % 24 - 6) / 24), 0.0, 1.0)
        n.add("Generator", f"sun {site}", bus=bus, carrier="sun", p_nom=0.3, p_max_pu=sun)
        loads = campus.loads("P2", segments=segments, jump=max(1, segments // 4))
        chosen = [
            # All jobs together leave the pool half empty, or they could not wait.
            replace(
                load, name=f"job {job}", work=load.work * hours / 24 / jobs, modes=load.modes[-modes:], deadline=None
            )
            for job, load in enumerate(loads[job % len(loads)] for job in range(jobs))
        ]
        n.aidc.add(f"site {site}", bus=bus, gpus=GPUS, jobs=chosen, pue=1.2)
    return n


def campus_s6(gap: float, repetitions: int) -> pd.DataFrame:
    """S6 of the campus by formulation, with and without a first schedule, in turn."""
    rows = pd.DataFrame(list(_campus(gap, repetitions)))
    table = rows.groupby(["formulation", "first schedule"], sort=False).median().reset_index()
    table["literal / time"] = table["CPU s"] / table["CPU s"].iloc[0]
    return table


def _campus(gap: float, repetitions: int) -> Iterator[dict[str, Any]]:
    for _ in range(repetitions):
        for formulation, first in (("time", True), ("time", False), ("literal", False)):
            n = scenario_network(campus.network("P2"), "S6", BATTERY)
            began = time.process_time()
            with silenced_stdout():
                result = n.aidc.optimize(
                    exclusive=BATTERY,
                    prices=False,
                    formulation=formulation,
                    warm_start=first,
                    mip_rel_gap=gap,
                    threads=1,
                    output_flag=False,
                )
            cost = {"edges": result.edges, "CPU s": time.process_time() - began, "objective": result.objective}
            yield {"formulation": formulation, "first schedule": first} | cost


def machine() -> str:
    """What the seconds were measured on."""
    model = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        models = [
            line.split(":")[1].strip() for line in cpuinfo.read_text().splitlines() if line.startswith("model name")
        ]
        model = models[0] if models else model
    found = versions()
    return f"{model}, Python {found['Python']}, HiGHS {found['highspy']}, linopy {found['linopy']}"


@styled
def plot_curves(table: pd.DataFrame) -> Figure:
    """Draw edges, build, search and gap over each size, the usual case among them."""
    curves = [name for name in SIZES if table["case"].str.startswith(f"{name} ").any()]
    figure, axes = canvas((len(curves) + 1) // 2, 2)
    shown = table.assign(**{"thousand edges": table["edges"] / 1e3, "gap %": table["gap %"].clip(lower=LEAST)})
    for axis, name in zip(axes.ravel(), curves, strict=False):
        rows = shown[shown["case"].str.startswith(f"{name} ") | (shown["case"] == "base")].sort_values(name)
        for column, colour, marker in zip(
            ("thousand edges", "build s", "solve s", "gap %"), CYCLE, "^osx", strict=False
        ):
            axis.plot(rows[name], rows[column], f"{marker}-", color=colour, label=column.replace(" s", ", CPU s"))
        axis.set(xlabel=name, yscale="log")
    legend(axes[0, 0])
    return figure


if __name__ == "__main__":
    study.main(__file__, Config, run)
