"""Sites and their jobs in the YAML schema of the command line, as frozen dataclasses."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Literal

import pandas as pd
import pypsa

from pypsa_aidc.cli.document import read
from pypsa_aidc.cli.typed import build
from pypsa_aidc.errors import Faults, InputError
from pypsa_aidc.network import add
from pypsa_aidc.training import (
    GPU,
    Calibration,
    Candidates,
    EfficiencyModel,
    Job,
    MemoryModel,
    ModePower,
    ModeTable,
    PaperModel,
    Recipe,
    Rules,
    TrainingLoad,
    Transformer,
    calibrate,
    generate_modes,
    read_profile,
)

VERBS = ("check", "modes", "add", "dispatch", "freeze", "report", "fleet", "surface", "screen", "headroom")
"""Each may have a section in the file."""


@dataclass(frozen=True)
class SeriesConfig:
    """A series in a CSV file beside the configuration: snapshots in its first column.

    Parameters
    ----------
    file
        Path, relative to the configuration.
    column
        Name of the column.
    """

    file: str
    column: str

    def series(self, folder: Path) -> pd.Series:
        """Read the series, its labels as dates where they are dates.

        Raises
        ------
        InputError
            No such file or column.
        """
        path = folder / self.file
        faults = Faults(str(path))
        try:
            table = pd.read_csv(path, index_col=0)
        except (OSError, ValueError) as error:
            faults.add("file", str(path), f"a readable CSV file ({error})")
            raise InputError(faults.subject, tuple(faults)) from error
        faults.require(self.column in table, "column", self.column, f"one of {', '.join(map(str, table.columns))}")
        faults.raise_any()
        series = table[self.column]
        if not pd.api.types.is_numeric_dtype(series.index):
            dates = pd.to_datetime(pd.Series(series.index), errors="coerce")
            faults.require(not dates.isna().any(), "first column", list(series.index[:2]), "dates or numbers")
            faults.raise_any()
            series = series.set_axis(pd.DatetimeIndex(dates))
        return series


ValuesConfig = float | tuple[float, ...] | SeriesConfig


@dataclass(frozen=True)
class JobConfig:
    """A training job: its descriptor, where its modes come from, and its rules.

    Parameters
    ----------
    name, tokens, batch, sequence, tranche_ratio, deadline, chi_f, flops
        As for `Job`.
    model
        Name of a preset, or the dimensions of a `Transformer`.
    modes
        CSV file of measured modes, relative to the configuration, see `read_profile`; without, they are generated.
    candidates, precision, recipe, strict, communication_w, prune
        As for `generate_modes`; not together with measured modes, except `prune`.
    memory, efficiency
        Fields of `MemoryModel` and `EfficiencyModel`: with either, modes follow the model of the paper (`PaperModel`)
        and not the default one.
    baseline
        [pipeline, tensor, data] of the mode of fixed training.
    rules
        Fields of `Rules`.
    """

    name: str
    model: str | Transformer
    tokens: float
    batch: int
    sequence: int
    tranche_ratio: float
    deadline: float | None = None
    chi_f: float = 72.0
    flops: Literal["architecture", "eq5"] = "architecture"
    modes: str | None = None
    candidates: Candidates | None = None
    precision: str | None = None
    recipe: Recipe | None = None
    strict: bool | None = None
    memory: MemoryModel | None = None
    efficiency: EfficiencyModel | None = None
    communication_w: float | None = None
    prune: bool = True
    baseline: tuple[int, int, int] | None = None
    rules: Rules | None = None

    def __post_init__(self) -> None:
        faults = Faults(f"job {self.name!r}")
        try:
            self.job  # noqa: B018 - it checks itself
        except InputError as error:
            subject = "model" if error.subject.startswith("preset") else ""
            for fault in error.faults:
                faults.add(subject or fault.where, fault.given, fault.expected, fault.remedy)
        for field in ("candidates", "precision", "recipe", "strict", "memory", "efficiency", "communication_w"):
            unused = self.modes is not None and getattr(self, field) is not None
            faults.require(not unused, field, "a value", "nothing beside measured modes", "Leave out one of the two.")
        faults.raise_any()

    @cached_property
    def job(self) -> Job:
        """The descriptor."""
        model = Transformer.preset(self.model) if isinstance(self.model, str) else self.model
        return Job(
            self.name,
            model,
            self.tokens,
            self.batch,
            self.sequence,
            self.tranche_ratio,
            self.deadline,
            self.chi_f,
            self.flops,
        )

    def model_of_modes(self) -> PaperModel | None:
        """The model of the paper if the job gives any of its coefficients, else `None` for the default."""
        if self.memory is None and self.efficiency is None:
            return None
        paper = PaperModel()
        return PaperModel(self.memory or paper.memory, self.efficiency or paper.efficiency)

    def calibration(self, gpu: GPU | None, runs: Path) -> Calibration:
        """Fit the default model to measured runs; what their table does not say is as for this job."""
        faults = Faults(f"--calibrate for job {self.name!r}")
        for field in ("modes", "memory", "efficiency"):
            given = getattr(self, field)
            faults.require(given is None, field, given, "nothing beside measured runs", "Leave out one of the two.")
        faults.raise_any()
        return calibrate(runs, gpu, job=self.job, recipe=self.recipe)

    def table(self, gpu: GPU | None, gpus: int, folder: Path, fitted: Calibration | None = None) -> ModeTable:
        """Generate the modes for a pool, by a fitted model if there is one, or read the measured ones."""
        if self.modes is not None:
            return read_profile(folder / self.modes, self.job, gpus=gpus, prune=self.prune)
        faults = Faults(f"modes of job {self.name!r}")
        faults.require(gpu is not None, "gpu", None, "a GPU of the site", "E.g. gpu: A100-80GB, or measured modes.")
        faults.raise_any()
        assert gpu is not None
        return generate_modes(
            self.job,
            gpu,
            gpus,
            candidates=self.candidates,
            precision=self.precision or "bf16",
            recipe=self.recipe,
            model=fitted or self.model_of_modes(),
            power=ModePower(self.communication_w or 0.0),
            strict=self.strict,
            prune=self.prune,
        )


@dataclass(frozen=True)
class SiteConfig:
    """An AI data center.

    Parameters
    ----------
    name, gpus, p_nom, p_nom_extendable, capital_cost, draw_idle
        As for `n.aidc.add`.
    jobs
        At least one.
    bus
        Bus of the grid connection; `modes` does without.
    gpu
        Name of a preset, or the fields of a `GPU`.
    pue, base_load
        A number, one for each snapshot, or ``{file: ..., column: ...}``.
    """

    name: str
    gpus: int
    jobs: tuple[JobConfig, ...]
    bus: str | None = None
    gpu: str | GPU | None = None
    pue: ValuesConfig = 1.0
    base_load: ValuesConfig = 0.0
    p_nom: float | None = None
    p_nom_extendable: bool = False
    capital_cost: float = 0.0
    draw_idle: bool = False

    def __post_init__(self) -> None:
        faults = Faults(f"site {self.name!r}")
        faults.number("gpus", self.gpus, at_least=1, integer=True)
        faults.require(len(self.jobs) > 0, "jobs", "an empty list", "at least one job")
        repeated = {job.name for job in self.jobs if [other.name for other in self.jobs].count(job.name) > 1}
        faults.require(not repeated, "jobs", ", ".join(sorted(repeated)), "each name once")
        try:
            self.chips  # noqa: B018 - it checks itself
        except InputError as error:
            for fault in error.faults:
                faults.add("gpu", fault.given, fault.expected, fault.remedy)
        faults.raise_any()

    @cached_property
    def chips(self) -> GPU | None:
        """Type of the GPUs."""
        return GPU.preset(self.gpu) if isinstance(self.gpu, str) else self.gpu

    def loads(self, folder: Path) -> list[TrainingLoad]:
        """The training loads, with their modes."""
        return [
            TrainingLoad.of(job.job, job.table(self.chips, self.gpus, folder), job.rules, job.baseline)
            for job in self.jobs
        ]

    def add_to(self, n: pypsa.Network, folder: Path) -> None:
        """Add the site to a network.

        Raises
        ------
        InputError, InfeasibleError
            As `n.aidc.add`.
        """
        faults = Faults(f"site {self.name!r}")
        faults.require(self.bus is not None, "bus", None, "a bus of the network")
        faults.raise_any()
        assert self.bus is not None
        add(
            n,
            self.name,
            bus=self.bus,
            gpus=self.gpus,
            jobs=self.loads(folder),
            gpu=self.chips,
            pue=_values(self.pue, folder),
            base_load=_values(self.base_load, folder),
            p_nom=self.p_nom,
            p_nom_extendable=self.p_nom_extendable,
            capital_cost=self.capital_cost,
            draw_idle=self.draw_idle,
        )


@dataclass(frozen=True)
class Config:
    """What a configuration file says of sites; `verb.Verb` adds a section for each verb.

    Parameters
    ----------
    sites
        AI data centers, with different names.
    """

    sites: tuple[SiteConfig, ...] = ()

    def __post_init__(self) -> None:
        faults = Faults("configuration")
        repeated = {site.name for site in self.sites if [other.name for other in self.sites].count(site.name) > 1}
        faults.require(not repeated, "sites", ", ".join(sorted(repeated)), "each name once")
        faults.raise_any()

    def jobs(self) -> Iterator[tuple[SiteConfig, JobConfig]]:
        """Each job with its site."""
        return ((site, job) for site in self.sites for job in site.jobs)

    def add_to(self, n: pypsa.Network, file: Path, faults: Faults) -> None:
        """Add all sites to a network; `file` is where the configuration stands.

        Raises
        ------
        InputError, InfeasibleError
            As `n.aidc.add`: what is wrong with any of the sites, all at once, beside what `faults` holds already.
        """
        for site in self.sites:
            try:
                site.add_to(n, file.parent)
            except InputError as error:
                for fault in error.faults:
                    faults.add(f"{file}, site {site.name!r}, {fault.where}", fault.given, fault.expected, fault.remedy)
        faults.raise_any()


def load_config(path: Path, settings: Sequence[str] = ()) -> Config:
    """Read the sites of a configuration.

    Parameters
    ----------
    path
        YAML file.
    settings
        ``key=value`` each, see `document.read`.

    Raises
    ------
    InputError
        Everything wrong with them, all at once and by line; or no site.
    """
    faults = Faults(str(path))
    node = read(path, settings)
    if isinstance(node.value, dict):
        node = replace(node, value={key: entry for key, entry in node.value.items() if key not in VERBS})
    config = build(Config, node, faults)
    faults.require(len(config.sites) > 0, "sites", "nothing", "at least one site")
    faults.raise_any()
    return config


def has_sites(path: Path, settings: Sequence[str] = ()) -> bool:
    """Whether a configuration speaks of sites at all, or of verbs only."""
    node = read(path, settings)
    return isinstance(node.value, dict) and "sites" in node.value


def _values(value: ValuesConfig, folder: Path) -> float | Sequence[float] | pd.Series:
    return value.series(folder) if isinstance(value, SeriesConfig) else value
