"""A quarter of a cluster's power for three hours: what it costs in GPU-hours and energy, by what the jobs may do.

A field trial in Phoenix cut the power of 256 A100 by 25 % for three hours [1]. Here such a cluster runs two equal
training jobs and is asked for the same, with GPUs that are held until a job is done and cost what they are rented for.

[1] Colangelo et al., "Turning AI Data Centers into Grid-Interactive Assets", arXiv:2507.00909 (2025).
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pypsa
from rich.console import Console

sys.path.insert(0, str(Path(__file__).parents[1]))

import study

import pypsa_aidc as aidc
from pypsa_aidc.errors import Faults
from pypsa_aidc.training import Frontier, Mode, Transition
from pypsa_aidc.units import SECONDS_PER_HOUR, W_PER_MW

SITE = "cluster"
CASES = {
    "no event": (False, False, False, True),
    "pausing": (True, False, False, True),
    "caps": (True, True, False, False),
    "caps and pausing": (True, True, False, True),
    "caps, pausing and half the replicas": (True, True, True, True),
}
"""For each case: whether there is an event, and whether jobs may be capped, change their replicas, and wait."""


@dataclass(frozen=True)
class Config:
    """The cluster, its jobs and the event."""

    gpu: str
    jobs: int
    gpus_per_job: int
    work_hours: float
    segments: int
    restart_hours: float
    elastic_hours: float
    slot_hours: float
    hours: float
    event: tuple[float, ...]
    cut: float
    frontier: str
    energy_price: float
    gpu_value: float
    gap: float
    published: dict[str, float]

    def __post_init__(self) -> None:
        faults = Faults("configuration of phoenix")
        for field in ("jobs", "gpus_per_job", "segments"):
            faults.number(field, getattr(self, field), at_least=1, integer=True)
        for field in ("work_hours", "slot_hours", "hours", "energy_price", "gpu_value"):
            faults.number(field, getattr(self, field), above=0)
        faults.number("cut", self.cut, at_least=0, at_most=1)
        well = len(self.event) == 2 and 0 <= self.event[0] < self.event[1] <= self.hours
        faults.require(well, "event", self.event, "first and last hour, within the horizon")
        faults.raise_any()


@dataclass(frozen=True)
class Solved:
    """One case, solved."""

    network: pypsa.Network
    status: str


def run(config: Config, arguments: argparse.Namespace, console: Console) -> None:
    """Solve all cases, print and save the table."""
    solved: dict[str, Solved | None] = {}
    for case, allowed in CASES.items():
        n = _network(config, *allowed)
        try:
            result = study.solve(n, case, mip_rel_gap=config.gap, prices=False)
            solved[case] = Solved(n, result.status)
        except aidc.InfeasibleError as error:
            console.print(f"{case}: {error}", highlight=False, markup=False, soft_wrap=True)
            solved[case] = None
    table = _table(config, solved)
    study.save(table, arguments.out, "cases")
    study.show(console, table, "what a quarter of the power for three hours costs", dict.fromkeys(table, 3))


def _network(config: Config, event: bool, caps: bool, elastic: bool, waiting: bool) -> pypsa.Network:
    count = round(config.hours / config.slot_hours)
    step = pd.Timedelta(hours=config.slot_hours)
    n = pypsa.Network(snapshots=pd.date_range("2025-05-03 14:00", periods=count, freq=step))
    n.snapshot_weightings = n.snapshot_weightings.astype(float) * config.slot_hours
    n.add("Carrier", "AC")
    n.add("Bus", "grid", carrier="AC")
    full = config.jobs * _mode(config, config.gpus_per_job).it_power
    start = np.arange(count) * config.slot_hours
    during = (start >= config.event[0]) & (start < config.event[1]) & event
    limit = np.where(during, 1 - config.cut, 1.0)
    n.add(
        "Generator", "market", bus="grid", carrier="AC", p_nom=full, p_max_pu=limit, marginal_cost=config.energy_price
    )
    jobs = [_load(config, f"job {number}", caps, elastic, waiting) for number in range(1, config.jobs + 1)]
    n.aidc.add(
        SITE,
        bus="grid",
        gpus=config.jobs * config.gpus_per_job,
        jobs=jobs,
        gpu=config.gpu,
        draw_idle=True,
        gpu_value=config.gpu_value,
    )
    return n


def _mode(config: Config, gpus: int) -> Mode:
    """A layout whose replicas are GPUs: throughput and power in proportion to them."""
    gpu = aidc.GPU.preset(config.gpu)
    return Mode((1, 1, gpus), gpus, gpus * gpu.peak("bf16") * 0.4, gpus * (gpu.train_w or 0.0) / W_PER_MW)


def _load(config: Config, name: str, caps: bool, elastic: bool, waiting: bool) -> aidc.TrainingLoad:
    whole, half = _mode(config, config.gpus_per_job), _mode(config, config.gpus_per_job // 2)
    layouts = [half, whole] if elastic else [whole]
    modes = Frontier.preset(config.frontier).modes(layouts) if caps else tuple(layouts)
    pairs = [(one, other) for one in modes for other in modes if one.size != other.size]
    return aidc.TrainingLoad(
        name,
        work=config.work_hours * SECONDS_PER_HOUR * whole.flops_per_s,
        modes=modes,
        rules=aidc.Rules(
            segments=config.segments,
            waiting=waiting,
            restart_hours=config.restart_hours,
            held_gpus=config.gpus_per_job,
        ),
        baseline=whole,
        transitions=tuple(Transition(one.label, other.label, hours=config.elastic_hours) for one, other in pairs),
    )


def _table(config: Config, solved: dict[str, Solved | None]) -> pd.DataFrame:
    reference = solved["no event"]
    assert reference is not None
    base = _figures(config, reference.network)
    rows = []
    for case, each in solved.items():
        if each is None:
            rows.append({"case": case, "status": "infeasible"})
            continue
        own = _figures(config, each.network)
        avoided = base["energy in the event (MWh)"] - own["energy in the event (MWh)"]
        more = own["GPU-hours held"] - base["GPU-hours held"]
        cost = config.gpu_value * more
        rows.append(
            {
                "case": case,
                "status": each.status,
                **own,
                "avoided (MWh)": avoided,
                "more GPU-hours": more,
                "more energy in all (MWh)": own["energy (MWh)"] - base["energy (MWh)"],
                "GPU cost (USD)": cost,
                "USD per MWh avoided": cost / avoided if avoided > 1e-9 else float("nan"),
            }
        )
    return pd.DataFrame(rows)


def _figures(config: Config, n: pypsa.Network) -> dict[str, float]:
    power, progress = n.aidc.power()[SITE, "meter"], n.aidc.progress().xs(SITE, axis=1, level="site")
    start = np.arange(len(power)) * config.slot_hours
    during = (start >= config.event[0]) & (start < config.event[1])
    whole = _mode(config, config.gpus_per_job).flops_per_s
    loads = n.aidc.sites[SITE].loads.values()
    speeds = {"": 0.0} | {mode.label: mode.flops_per_s / whole for load in loads for mode in load.modes}
    speed = n.aidc.modes()[during].map(speeds.__getitem__).to_numpy(float)
    return {
        "energy (MWh)": float(power.sum() * config.slot_hours),
        "energy in the event (MWh)": float(power[during].sum() * config.slot_hours),
        "highest power in the event (MW)": float(power[during].max()),
        "speed in the event": float(speed.mean()),
        "GPU-hours held": study.gpu_hours(n)[1],
        "last job done (h)": float((progress < 1 - 1e-9).sum().max() + 1) * config.slot_hours,
    }


if __name__ == "__main__":
    study.main(__file__, Config, run)
