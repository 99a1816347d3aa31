"""Sites and their jobs in the YAML schema of the command line: a key for each argument of the calls that make them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, make_dataclass, replace
from functools import cache, cached_property, partial
from pathlib import Path
from typing import Any, Literal, get_type_hints

import pypsa

from pypsa_aidc.cli.document import read
from pypsa_aidc.cli.requests import RatingsConfig, RequestConfig, UpgradeConfig
from pypsa_aidc.cli.series import SeriesConfig, ValuesConfig
from pypsa_aidc.cli.typed import BAD, build, descriptions
from pypsa_aidc.errors import Faults, InputError
from pypsa_aidc.network import add
from pypsa_aidc.training import (
    GPU,
    Calibration,
    Frontier,
    Job,
    Layout,
    Mode,
    ModePower,
    ModeTable,
    PaperModel,
    Rules,
    TrainingLoad,
    Transformer,
    calibrate,
    generate_modes,
    read_profile,
)

VERBS = (
    "check",
    "modes",
    "add",
    "dispatch",
    "freeze",
    "report",
    "fleet",
    "surface",
    "screen",
    "headroom",
    "study",
    "adequacy",
    "terms",
)
"""Each may have a section in the file."""

_place: ContextVar[tuple[pypsa.Network, Path] | None] = ContextVar("place", default=None)


@contextmanager
def within(n: pypsa.Network | None, folder: Path) -> Iterator[None]:
    """Check sites against the network that they go into, if it is known; `folder` is that of their file."""
    token = _place.set(None if n is None else (n, folder))
    try:
        yield
    finally:
        _place.reset(token)


_GENERATION = ("candidates", "precision", "recipe", "strict", "memory", "efficiency", "communication_w")


def _keys(call: Callable[..., Any], leave: Container[str] = (), **instead: Any) -> list[tuple[str, Any, Any]]:
    """Keys of a mapping, one for each argument of a call, with its kind, its default and what is said of it.

    Parameters
    ----------
    call
        A function or class.
    leave
        Arguments that have no key.
    instead
        Kinds that differ in a file.
    """
    hints, told = get_type_hints(call if inspect.isroutine(call) else call.__init__), descriptions(call.__doc__ or "")
    keys = []
    for name, given in inspect.signature(call).parameters.items():
        if name not in leave:
            default = {} if given.default is given.empty else {"default": given.default}
            about = {"description": told[name]} if name in told else {}
            keys.append((name, instead.get(name, hints[name]), field(metadata=about, **default)))
    return keys


_load = partial(TrainingLoad, "", 1.0, ())
"""Checks what a load has beside its modes, which are not known yet."""


class _Job:
    """What is done with the keys of a job."""

    def __post_init__(self: Any) -> None:
        faults = Faults(f"job {self.name!r}")
        try:
            self.job  # noqa: B018 - it checks itself
        except InputError as error:
            preset = error.subject.startswith("preset")
            faults.also(replace(fault, where="model") if preset else fault for fault in error.faults)
        given = {"rules": self.rules or Rules(), "deadline": self.deadline, "gpu_value": self.gpu_value}
        for other, options in ((ModePower, {"communication_w": self.communication_w}), (_load, given)):
            try:
                other(**options)
            except InputError as error:
                told = {fault.where for fault in faults}
                faults.also(fault for fault in error.faults if fault.where in options and fault.where not in told)
        for key in _GENERATION:
            unused = self.modes is not None and getattr(self, key) != type(self).__dataclass_fields__[key].default
            faults.require(not unused, key, "a value", "nothing beside measured modes", "Leave out one of the two.")
        faults.raise_any()

    @cached_property
    def job(self: Any) -> Job:
        """The descriptor."""
        model = Transformer.preset(self.model) if isinstance(self.model, str) else self.model
        return Job(**{name: getattr(self, name) for name in inspect.signature(Job).parameters} | {"model": model})

    def calibration(self: Any, gpu: GPU | None, runs: Path) -> Calibration:
        """Fit the default model to measured runs; what their table does not say is as for this job."""
        faults = Faults(f"--calibrate for job {self.name!r}")
        for key in ("modes", "memory", "efficiency"):
            given = getattr(self, key)
            faults.require(given is None, key, given, "nothing beside measured runs", "Leave out one of the two.")
        faults.raise_any()
        return calibrate(runs, gpu, job=self.job, recipe=self.recipe)

    def table(self: Any, gpu: GPU | None, gpus: int, folder: Path, fitted: Calibration | None = None) -> ModeTable:
        """Generate the modes for a pool, by a fitted model if there is one, or read the measured ones."""
        if self.modes is not None:
            return read_profile(folder / self.modes, self.job, gpus=gpus, prune=self.prune)
        faults = Faults(f"modes of job {self.name!r}")
        faults.require(gpu is not None, "gpu", None, "a GPU of the site", "E.g. gpu: A100-80GB, or measured modes.")
        faults.raise_any()
        assert gpu is not None
        options = {key: getattr(self, key) for key in ("candidates", "precision", "recipe", "strict", "prune")}
        coefficients = {key: getattr(self, key) for key in ("memory", "efficiency") if getattr(self, key) is not None}
        model = fitted or (PaperModel(**coefficients) if coefficients else None)
        return generate_modes(self.job, gpu, gpus, power=ModePower(self.communication_w), model=model, **options)

    def capped(self: Any, table: ModeTable, folder: Path) -> ModeTable | tuple[Mode, ...]:
        """Add each mode at the power caps of the frontier, if there is one."""
        if self.caps is None:
            return table
        known = self.caps in Frontier.presets()
        return (Frontier.preset(self.caps) if known else Frontier.read(folder / self.caps)).modes(table)


_MODES = "CSV file of measured modes, relative to this file, see read_profile; without, they are generated."
_CAPS = "Measured power caps that every mode may also run at: a preset of Frontier, or a CSV file, see Frontier.read."
JobConfig: Any = make_dataclass(
    "JobConfig",
    [
        *_keys(Job, model=str | Transformer),
        *_keys(generate_modes, ("job", "gpu", "gpus", "model", "power")),
        *((key, kind | None, field(default=None, metadata=told.metadata)) for key, kind, told in _keys(PaperModel)),
        *_keys(ModePower, ("coefficients",)),
        *_keys(TrainingLoad.of, ("job", "modes", "options"), baseline=tuple[int, int, int] | Layout | None),
        ("caps", str | None, field(default=None, metadata={"description": _CAPS})),
        ("modes", str | None, field(default=None, metadata={"description": _MODES})),
    ],
    bases=(_Job,),
    frozen=True,
    kw_only=True,
)
"""A training job: its descriptor, where its modes come from, and its rules."""


class _Site:
    """What is done with the keys of a site."""

    def __post_init__(self: Any) -> None:
        faults = Faults(f"site {self.name!r}")
        names = [job.name for job in self.jobs] if self.jobs is not BAD else [""]
        faults.require(bool(names), "jobs", "an empty list", "at least one job")
        repeated = {name for name in names if names.count(name) > 1}
        faults.require(not repeated, "jobs", ", ".join(sorted(repeated)), "each name once")
        try:
            self.chips  # noqa: B018 - it checks itself
        except InputError as error:
            faults.also(replace(fault, where="gpu") for fault in error.faults)
        try:
            # Without jobs, which take long to make, it is refused whatever else is right, and nothing is written.
            self._add(*(_place.get() or (_scratch(self.bus), None)), jobs=None, gpu=None if len(faults) else self.chips)
        except InputError as error:
            told = {"jobs", *(fault.where for fault in faults), *(["p_nom"] if self.p_nom is None else [])}
            faults.also(fault for fault in error.faults if fault.where not in told)
        faults.raise_any()

    @cached_property
    def chips(self: Any) -> GPU | None:
        """Type of the GPUs."""
        return GPU.preset(self.gpu) if isinstance(self.gpu, str) else self.gpu

    def _add(self: Any, n: pypsa.Network, folder: Path | None, **instead: Any) -> None:
        """Add the site; without a folder, series are left out, and of lists only the least is checked."""
        keys = [name for name in inspect.signature(add).parameters if name != "n"]
        values = {key: getattr(self, key) for key in keys} | {"bus": self.bus or "grid"}
        for key in ("pue", "base_load", "gpu_value"):
            values[key] = _values(values[key], folder)
        if folder is None and not isinstance(values["windows"], str):
            values["windows"] = None
        add(n, **values | instead)

    def add_to(self: Any, n: pypsa.Network, folder: Path) -> None:
        """Add the site to a network.

        Raises
        ------
        InputError, InfeasibleError
            As `n.aidc.add`.
        """
        faults = Faults(f"site {self.name!r}")
        faults.require(self.bus is not None, "bus", None, "a bus of the network")
        faults.raise_any()
        self._add(n, folder, jobs=self.loads(folder), gpu=self.chips)

    def loads(self: Any, folder: Path) -> list[TrainingLoad]:
        """Training loads of its jobs."""
        return [
            TrainingLoad.of(
                job.job,
                job.capped(job.table(self.chips, self.gpus, folder), folder),
                job.rules,
                job.baseline,
                transitions=job.transitions,
                gpu_value=job.gpu_value,
            )
            for job in self.jobs
        ]


_BUS = "Bus of the grid connection; the verb modes does without."
SiteConfig: Any = make_dataclass(
    "SiteConfig",
    [
        *_keys(
            add,
            ("n", "bus", "jobs"),
            pue=ValuesConfig,
            base_load=ValuesConfig,
            gpu_value=ValuesConfig,
            windows=Literal["each", "once"] | tuple[str | int | None, ...] | None,
        ),
        ("jobs", tuple[JobConfig, ...], field(metadata={"description": "At least one."})),
        ("bus", str | None, field(default=None, metadata={"description": _BUS})),
    ],
    bases=(_Site,),
    frozen=True,
    kw_only=True,
)
"""An AI data center."""


@cache
def _scratch(bus: str | None) -> pypsa.Network:
    """A network in which a site can be tried."""
    n = pypsa.Network()
    n.add("Bus", bus or "grid")
    return n


@dataclass(frozen=True)
class Config:
    """What a configuration file says of sites and requests; `verb.Verb` adds a section for each verb.

    Parameters
    ----------
    sites
        AI data centers, with different names.
    requests
        AI data centers that ask for service, in the order of the queue; see the verb study.
    networks
        File of the network of each year, relative to this file, for the verb study.
    upgrades
        Branches whose ratings rise, for the verb study.
    ratings
        Ratings by season and after outages, for the verb study.
    unit_costs
        USD for each MW of s_nom by element, such as Line 12, or by Line and Transformer, for the verb study.
    """

    sites: tuple[SiteConfig, ...] = ()
    requests: tuple[RequestConfig, ...] = ()
    networks: Mapping[str, str] | None = None
    upgrades: tuple[UpgradeConfig, ...] = ()
    ratings: RatingsConfig | None = None
    unit_costs: Mapping[str, float] | None = None

    def __post_init__(self) -> None:
        faults = Faults("configuration")
        repeated = {site.name for site in self.sites if [other.name for other in self.sites].count(site.name) > 1}
        faults.require(not repeated, "sites", ", ".join(sorted(repeated)), "each name once")
        for year in self.networks or {}:
            faults.require(year.isdigit(), "networks", year, "a year, with the file of its network")
        faults.raise_any()

    def loads(self, folder: Path) -> dict[str, tuple[TrainingLoad, ...]]:
        """Training loads of each site; files are relative to a folder."""
        return {site.name: tuple(site.loads(folder)) for site in self.sites}

    def jobs(self) -> Iterator[tuple[SiteConfig, JobConfig]]:
        """Each job with its site."""
        return ((site, job) for site in self.sites for job in site.jobs)

    def add_to(self, n: pypsa.Network, file: Path) -> None:
        """Add all sites to a network; `file` is where the configuration stands.

        Raises
        ------
        InputError, InfeasibleError
            As `n.aidc.add`: what is wrong with any of the sites, all at once.
        """
        faults = Faults(str(file))
        for site in self.sites:
            try:
                site.add_to(n, file.parent)
            except InputError as error:
                faults.also(error.faults, f"site {site.name!r}, ")
        faults.raise_any()


def load_config(
    path: Path, settings: Sequence[str] = (), n: pypsa.Network | None = None, needs: str = "sites"
) -> Config:
    """Read the sites or requests of a configuration.

    Parameters
    ----------
    path
        YAML file.
    settings
        ``key=value`` each, see `document.read`.
    n
        Network that they will be added to, if it is known: then buses, names and series are checked against it.
    needs
        ``"sites"`` or ``"requests"``, of which there has to be one.

    Raises
    ------
    InputError
        Everything wrong with them, all at once and by line; or none of what is needed.
    """
    faults = Faults(str(path))
    node = read(path, settings)
    if isinstance(node.value, dict):
        node = replace(node, value={key: entry for key, entry in node.value.items() if key not in VERBS})
    with within(n, path.parent):
        config = build(Config, node, faults)
    faults.require(bool(getattr(config, needs)), needs, "nothing", f"at least one {needs.removesuffix('s')}")
    faults.raise_any()
    return config


def has_sites(path: Path, settings: Sequence[str] = ()) -> bool:
    """Whether a configuration speaks of sites at all, or of verbs only."""
    node = read(path, settings)
    return isinstance(node.value, dict) and "sites" in node.value


def _values(value: Any, folder: Path | None) -> Any:
    if isinstance(value, SeriesConfig):
        return 1.0 if folder is None else value.series(folder)
    return min(value, default=value) if folder is None and isinstance(value, tuple) else value
