"""Three AI data centers in the German transmission grid: what checkpoints and modes are worth to the system.

One optimisation over the day for each case: without AIDCs, with fixed training, with checkpoints only (each job may
wait, but runs in its baseline mode), and with checkpoints and modes.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import pypsa
from rich.console import Console

sys.path.insert(0, str(Path(__file__).parents[1]))

import study

import pypsa_aidc as aidc
from pypsa_aidc.errors import Faults

AT_LIMIT = 1 - 1e-6
"""Share of its limit from which a line counts as congested."""

WITHOUT, FIXED = "no AIDC", "fixed training"
CASES: dict[str, Callable[[aidc.TrainingLoad], aidc.TrainingLoad] | None] = {
    WITHOUT: None,
    FIXED: aidc.TrainingLoad.fixed,
    "checkpoints": aidc.TrainingLoad.pausable,
    "checkpoints + modes": lambda load: load,
}
WEATHER = ("Solar", "Wind Offshore", "Wind Onshore")


@dataclass(frozen=True)
class JobConfig:
    """A training job, and the sizes to try for its modes."""

    name: str
    model: str
    tokens: float
    batch: int
    sequence: int
    tranche_ratio: float
    pipeline: tuple[int, ...]
    smallest_data: int
    baseline: tuple[int, ...]

    def __post_init__(self) -> None:
        faults = Faults(f"job {self.name!r}")
        faults.require(len(self.baseline) == 3, "baseline", self.baseline, "[pipeline, tensor, data]")
        faults.number("batch", self.batch, at_least=1, integer=True)
        faults.number("smallest_data", self.smallest_data, at_least=1, integer=True)
        faults.raise_any()

    @property
    def data(self) -> tuple[int, ...]:
        """Data-parallel sizes: the divisors of the batch from the smallest on."""
        return tuple(size for size in range(self.smallest_data, self.batch + 1) if self.batch % size == 0)


@dataclass(frozen=True)
class SiteConfig:
    """An AI data center: where, how large, and what it trains."""

    name: str
    bus: str
    p_nom: float
    base_load: float
    gpu: str
    gpus: int
    jobs: tuple[JobConfig, ...]


@dataclass(frozen=True)
class Config:
    """The study."""

    network: str
    gap: float
    segments: int
    pue: float
    host_w: float
    zero_stage: int
    tensor: int
    gpu_value: float
    sites: tuple[SiteConfig, ...]

    def __post_init__(self) -> None:
        faults = Faults("configuration of scigrid_de")
        faults.number("gap", self.gap, at_least=0)
        faults.number("gpu_value", self.gpu_value, at_least=0)
        faults.require(len(self.sites) > 0, "sites", self.sites, "at least one site")
        names = [site.name for site in self.sites]
        faults.require(len(set(names)) == len(names), "sites", names, "each name once")
        faults.raise_any()


@dataclass(frozen=True)
class Solved:
    """One case, solved."""

    network: pypsa.Network
    result: aidc.network.Result


def run(config: Config, arguments: argparse.Namespace, console: Console) -> None:
    """Solve all cases, print and save the tables."""
    path = study.data_file(config.network)
    loads = {site.name: [_load(config, site, job) for job in site.jobs] for site in config.sites}
    study.show(console, _jobs(config, loads), "jobs", {"baseline h": 1})
    solved = {}
    for case, change in CASES.items():
        n = pypsa.Network(path)
        if change is not None:
            for site in config.sites:
                _add(n, config, site, [change(load) for load in loads[site.name]])
        solved[case] = Solved(n, study.solve(n, case, mip_rel_gap=config.gap))
    tables = {"system": _system(solved), "sites": _sites(config, solved), "gpu_hours": _gpu_hours(config, solved)}
    for name, frame in tables.items():
        study.save(frame, arguments.out, name)
        study.show(console, _turned(frame) if name == "system" else frame, name)
    study.show(console, _times(solved), "seconds, which depend on the machine", {"build": 1, "solve": 1})
    if arguments.figures is not None:
        for case in list(CASES)[1:]:
            target = arguments.figures / f"{case.replace(' ', '_')}.png"
            solved[case].network.aidc.plot().savefig(target, dpi=150)
            console.print(f"wrote {target}", highlight=False)


def _load(config: Config, site: SiteConfig, job: JobConfig) -> aidc.TrainingLoad:
    descriptor = aidc.Job(
        job.name, aidc.Transformer.preset(job.model), job.tokens, job.batch, job.sequence, job.tranche_ratio
    )
    modes = aidc.generate_modes(
        descriptor,
        aidc.GPU.preset(site.gpu),
        site.gpus,
        candidates=aidc.training.Candidates(job.pipeline, (config.tensor,), job.data),
        model=aidc.training.PaperModel(aidc.training.MemoryModel(zero_stage=config.zero_stage)),
        power=aidc.training.ModePower(communication_w=config.host_w),
    )
    return aidc.TrainingLoad.of(descriptor, modes, baseline=job.baseline, segments=config.segments)


def _add(n: pypsa.Network, config: Config, site: SiteConfig, loads: list[aidc.TrainingLoad]) -> None:
    n.aidc.add(
        site.name,
        bus=site.bus,
        gpus=site.gpus,
        pue=config.pue,
        base_load=site.base_load,
        p_nom=site.p_nom,
        jobs=loads,
    )


def _jobs(config: Config, loads: dict[str, list[aidc.TrainingLoad]]) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "site": site.name,
            "job": load.name,
            "GPUs of the site": site.gpus,
            "modes": len(load.modes),
            "fewest GPUs": load.modes[0].gpus,
            "most GPUs": load.modes[-1].gpus,
            "baseline": load.mode().label,
            "baseline GPUs": load.mode().gpus,
            "baseline h": load.hours(load.mode()),
        }
        for site in config.sites
        for load in loads[site.name]
    )


def _system(solved: dict[str, Solved]) -> pd.DataFrame:
    """One row a case: cost, curtailment, congestion, and how well it was solved."""
    without, fixed = (solved[case].result.objective for case in (WITHOUT, FIXED))
    rows = []
    for case, (n, result) in ((case, (each.network, each.result)) for case, each in solved.items()):
        rows.append(
            {
                "case": case,
                "system cost (USD)": result.objective,
                "cost of the AIDCs (USD)": result.objective - without,
                "saved (% of the AIDCs' cost)": 100 * (fixed - result.objective) / (fixed - without)
                if case != WITHOUT
                else float("nan"),
                "AIDC energy (MWh)": n.aidc.summary()["energy"].sum() if case != WITHOUT else 0.0,
                "curtailment (MWh)": _curtailment(n),
                "line-hours at the limit": _line_hours_at_limit(n),
                "congestion rent (USD)": _congestion_rent(n),
                "status": result.status,
                "gap (%)": 100 * result.gap,
                "proven within (USD)": result.objective - result.bound,
                "edges before pruning": result.edges_before_pruning,
                "edges": result.edges,
            }
        )
    return pd.DataFrame(rows)


def _gpu_hours(config: Config, solved: dict[str, Solved]) -> pd.DataFrame:
    """One row a case: GPU-hours, what they cost, and the value of one at which the saving is gone."""
    fixed, (run, held) = solved[FIXED].result.objective, study.gpu_hours(solved[FIXED].network)
    rows = []
    for case in list(CASES)[1:]:
        saved, (own_run, own_held) = fixed - solved[case].result.objective, study.gpu_hours(solved[case].network)
        rows.append(
            {
                "case": case,
                "saved (USD)": saved,
                "GPU-hours run": own_run,
                "GPU-hours held": own_held,
                "GPU cost, held (USD)": config.gpu_value * own_held,
                "saved (% of GPU cost)": 100 * saved / (config.gpu_value * own_held),
                "more GPU-hours run": own_run - run,
                "more GPU-hours held": own_held - held,
                "break-even, held (USD/GPU-h)": saved / (own_held - held) if own_held > held else float("nan"),
            }
        )
    return pd.DataFrame(rows)


def _curtailment(n: pypsa.Network) -> float:
    """Available less used energy of wind and sun, MWh."""
    weather = n.generators.index[n.generators["carrier"].isin(WEATHER)]
    available = n.get_switchable_as_dense("Generator", "p_max_pu")[weather] * n.generators.loc[weather, "p_nom"]
    return float((available - n.generators_t.p[weather]).to_numpy().sum())


def _line_hours_at_limit(n: pypsa.Network) -> int:
    limit = n.get_switchable_as_dense("Line", "s_max_pu") * n.lines["s_nom"]
    return int((n.lines_t.p0.abs() >= AT_LIMIT * limit).to_numpy().sum())


def _congestion_rent(n: pypsa.Network) -> float:
    """What the grid earns by moving power from cheap to dear buses, USD: flow times difference of prices."""
    prices, rent = n.buses_t.marginal_price, 0.0
    for branches in (n.c.lines, n.c.transformers):
        ends = branches.static[["bus0", "bus1"]]
        difference = prices[ends["bus1"]].to_numpy() - prices[ends["bus0"]].to_numpy()
        rent += float((branches.dynamic.p0[ends.index].to_numpy() * difference).sum())
    return rent


def _sites(config: Config, solved: dict[str, Solved]) -> pd.DataFrame:
    """One row a case and site: prices at its grid bus, energy, and what it pays."""
    rows = []
    for case, each in solved.items():
        for site in config.sites:
            price = each.network.buses_t.marginal_price[site.bus]
            row = {
                "case": case,
                "site": site.name,
                "bus": site.bus,
                "mean price (USD/MWh)": price.mean(),
                "least price": price.min(),
                "highest price": price.max(),
            }
            rows.append(row | ({} if case == WITHOUT else _use(each.network, site.name)))
    return pd.DataFrame(rows)


def _use(n: pypsa.Network, site: str) -> dict[str, float]:
    summary = n.aidc.summary().loc[site]
    return {
        "energy (MWh)": summary["energy"],
        "peak (MW)": summary["peak"],
        "waiting (job-hours)": summary["waiting_hours"],
        "modes used": summary["modes_used"],
        "payment (USD)": n.aidc.bill().loc[(site, "total"), "payment"],
    }


def _times(solved: dict[str, Solved]) -> pd.DataFrame:
    return pd.DataFrame(
        {"case": case, "build": each.result.build_seconds, "solve": each.result.solve_seconds}
        for case, each in solved.items()
    )


def _turned(frame: pd.DataFrame) -> pd.DataFrame:
    """One column a case, which fits a terminal."""
    cells = frame.set_index("case").T
    text = cells.map(
        lambda value: value if isinstance(value, str) else f"{value:,.6g}" if abs(value) < 1 else f"{value:,.1f}"
    )
    return text.rename_axis("").reset_index()


if __name__ == "__main__":
    study.main(__file__, Config, run)
