"""A training site as a network holds it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, ClassVar, Self

import pandas as pd
import pypsa

from pypsa_aidc.errors import Faults, InputError, SpecError, UnsupportedError
from pypsa_aidc.network.loads.protocol import Account, Change, Check, Finding, Freedom, Load, Reason, free
from pypsa_aidc.network.loads.site import audit, checks, explain, schedule
from pypsa_aidc.network.loads.site.derived import derive, write_derived, write_ramps
from pypsa_aidc.network.loads.site.gpu_value import is_valued
from pypsa_aidc.network.loads.site.paths import Paths, add_paths
from pypsa_aidc.network.loads.site.spec import JobSpec, SiteSpec, dump_job, dump_site, load_job, load_site
from pypsa_aidc.network.model.ahead import Ahead
from pypsa_aidc.network.model.horizon import Window, windows
from pypsa_aidc.network.model.recourse import Recourse
from pypsa_aidc.network.pypsa_api import columns, dense, names, rows
from pypsa_aidc.network.spec.column import specified, store
from pypsa_aidc.training import Formulation, TrainingLoad

BEHIND = "behind the meter"
"""Part of the power of a site that components of the user at its IT bus take."""

_FREEDOMS: Mapping[Freedom, Callable[[TrainingLoad], TrainingLoad]] = {
    "fixed": TrainingLoad.fixed,
    "recorded": TrainingLoad.recorded,
    "waiting": TrainingLoad.pausable,
    "idealized": TrainingLoad.idealized,
    "free": lambda load: load,
}


@dataclass(frozen=True)
class Site(Load):
    """A site as the network holds it.

    Parameters
    ----------
    spec
        GPU pool and series of the site.
    jobs
        Training loads by the name of their Generator, with all modes.
    """

    spec: SiteSpec
    jobs: dict[str, TrainingLoad]

    word: ClassVar[str] = "site"
    component: ClassVar[str] = "Link"
    words: ClassVar[Mapping[str, str]] = {"training": "Generator"}
    decisions: ClassVar[tuple[str, ...]] = (schedule.MODE, schedule.GPUS, schedule.PROGRESS)

    @property
    def name(self) -> str:
        """Name of the site."""
        return self.spec.name

    @cached_property
    def loads(self) -> dict[str, TrainingLoad]:
        """Training loads by the name of their Generator, with the modes that fit into the pool."""
        return {generator: load.within(self.spec.gpus) for generator, load in self.jobs.items()}

    def windows(self, n: pypsa.Network, snapshots: pd.Index | None = None) -> tuple[Window, ...]:
        """Windows in each of which its jobs do their tranche once, as it was declared."""
        return windows(n, snapshots, self.spec.windows)

    @property
    def explains_windows(self) -> bool:
        return self.spec.windows is not None

    @property
    def bus(self) -> str:
        """Bus behind the import, where IT power is balanced."""
        return f"{self.name} IT"

    @property
    def link(self) -> str:
        """Link from the grid bus; its `p_nom` is the connection and its efficiency 1/PUE."""
        return f"{self.name} import"

    @property
    def base(self) -> str:
        """Load of the IT power that is not training."""
        return f"{self.name} base"

    @property
    def idle(self) -> str:
        """Generator for the power of GPUs that run no job, where the site draws it apart."""
        return f"{self.name} idle"

    @classmethod
    def read(cls, n: pypsa.Network) -> dict[str, Self]:
        specs = [load_site(text, f"site of Link {link!r}") for link, text in specified(n.links, "site")]
        jobs = {
            name: load_job(text, f"job of Generator {name!r}") for name, text in specified(n.generators, "training")
        }
        found = {
            spec.name: cls(spec, {name: job.load for name, job in jobs.items() if job.site == spec.name})
            for spec in specs
        }
        faults = Faults("AIDCs of the network")
        for generator, job in jobs.items():
            faults.require(job.site in found, f"Generator {generator!r}", job.site, f"one of the sites {sorted(found)}")
        for site in found.values():
            for component, parts in (("buses", [site.bus]), ("loads", [site.base]), ("generators", list(site.loads))):
                for part in parts:
                    present = part in names(getattr(n, component).index)
                    faults.require(present, site.name, f"no {part!r} in n.{component}", "all components of the site")
        faults.raise_any(SpecError)
        return found

    @classmethod
    def parts_of(cls, name: str) -> Mapping[str, Sequence[str]]:
        site = cls(SiteSpec(name, 1), {})
        return {"Generator": [site.idle], "Load": [site.base], "Link": [site.link], "Bus": [site.bus]}

    @classmethod
    def name_of(cls, holder: str) -> str:
        return holder.removesuffix(" import")

    @classmethod
    def known(cls, n: pypsa.Network) -> list[str]:
        jobs = [load_job(text, generator).site for generator, text in specified(n.generators, "training")]
        return list(dict.fromkeys([*super().known(n), *jobs]))

    @classmethod
    def remove(cls, n: pypsa.Network, name: str) -> None:
        jobs = specified(n.generators, "training")
        own = [generator for generator, text in jobs if load_job(text, generator).site == name]
        if own:
            n.remove("Generator", own)
        super().remove(n, name)
        # The bus has a carrier of its own, of the same name.
        own_carrier = f"{name} IT"
        if own_carrier in n.carriers.index:
            n.remove("Carrier", own_carrier)

    @property
    def holder(self) -> str:
        return self.link

    @property
    def parts(self) -> Mapping[str, Sequence[str]]:
        return {**self.parts_of(self.name), "Generator": [*self.loads, self.idle]}

    def store(self, n: pypsa.Network) -> None:
        """Write the specification of the site and its jobs into the network's string columns."""
        store(n.links, {self.link: dump_site(self.spec)})
        store(n.generators, {g: dump_job(JobSpec(self.name, load)) for g, load in self.jobs.items()})

    def rows(self, n: pypsa.Network) -> dict[str, dict[str, object]]:
        link = n.links.loc[rows(n.links.index, self.link)].iloc[0]
        return {
            load.name: {
                "bus": link["bus0"],
                "gpus": self.spec.gpus,
                "p_nom": link["p_nom"],
                "modes": len(load.modes),
                "segments": load.rules.count,
                "hours": min(load.hours(mode) for mode in load.modes),
                "deadline": load.deadline,
                "description": load.description,
            }
            for load in self.loads.values()
        }

    def refresh(self, n: pypsa.Network, snapshots: pd.Index | None = None) -> None:
        write_derived(n, derive(n, [self], snapshots))
        write_ramps(n, self, snapshots)
        free(n, [self.idle])

    def check(self, n: pypsa.Network, snapshots: pd.Index, faults: Faults) -> None:
        checks.check_fit(n, self, snapshots, faults)

    def sizes(self, n: pypsa.Network) -> Iterator[Finding]:
        return checks.sizes(n, self)

    @property
    def decides_whole_numbers(self) -> bool:
        return True

    @classmethod
    def refuse_unsupported(cls, n: pypsa.Network, loads: Mapping[str, Self], snapshots: pd.Index, *, part: str) -> None:
        if part:
            raise UnsupportedError(
                f"AIDC jobs ({', '.join(loads)}) over {part} snapshots: in a rolling horizon every window would "
                "start each job anew. Optimise all snapshots at once, or one part of them with "
                "n.aidc.optimize(snapshots=...), within which each job then does its whole tranche."
            )
        if not any(site.loads for site in loads.values()):
            raise UnsupportedError(
                f"sites without jobs ({', '.join(loads)}): there is nothing to schedule. Give them jobs with "
                "n.aidc.update or n.aidc.place, or remove them; a base load alone is a plain Load."
            )

    @classmethod
    def build(
        cls,
        n: pypsa.Network,
        loads: Mapping[str, Self],
        snapshots: pd.Index,
        formulation: Formulation,
        ahead: Ahead | None = None,
        recourse: Recourse | None = None,
    ) -> Paths:
        return add_paths(n, loads, snapshots, formulation, ahead, recourse)

    @classmethod
    def solved(cls, n: pypsa.Network, loads: Mapping[str, Self]) -> pd.Index:
        return schedule.solved_snapshots(n, loads)

    def check_results(self, n: pypsa.Network, faults: Faults) -> None:
        schedule.check_power(n, self, faults)

    def decided_before(self, n: pypsa.Network, moment: object | None) -> Sequence[object]:
        return schedule.steps_before(n, self, moment)

    def audit(self, n: pypsa.Network) -> Iterator[Check]:
        return audit.checks(n, self)

    def power(self, n: pypsa.Network) -> dict[str, pd.Series]:
        """Parts ``"base"`` and each job at IT level, ``"idle"``, ``"IT"`` their sum, and ``"meter"``, Eq. 29 of [1].

        What components of yours at its IT bus take, such as a battery that charges, is ``"behind the meter"``.
        """
        p = n.c.generators.dynamic["p"]
        parts = {"base": dense(n, "Load", "p_set", self.base).iloc[:, 0]}
        for generator, load in self.loads.items():
            parts[load.name] = columns(p, [generator])[generator]
        if self.spec.idle_w:
            parts["idle"] = columns(p, [self.idle])[self.idle]
        own = list(parts.values())
        imported = columns(n.c.links.dynamic["p0"], [self.link])[self.link]
        if self._has_neighbours(n):
            parts[BEHIND] = -schedule.fed_behind_the_meter(n, self, n.snapshots)
        return {**parts, "IT": sum(own[1:], own[0]), "meter": imported}

    def _has_neighbours(self, n: pypsa.Network) -> bool:
        """Whether its IT bus has components that are no parts of it."""
        own = {part for parts in self.parts.values() for part in parts}
        ends = [
            names(component.static.index[component.static[column] == self.bus])
            for component in n.components
            for column in component.static
            if str(column).startswith("bus") and component.name not in ("Bus", "SubNetwork")
        ]
        return any(not set(each) <= own for each in ends)

    def accounts(self, n: pypsa.Network) -> dict[str, Account]:
        """At the grid bus, which the meter is at."""
        idle = ["idle"] if self.spec.idle_w else []
        parts = ["base", *(load.name for load in self.loads.values()), *idle]
        parts += [BEHIND] if self._has_neighbours(n) else []
        bus = str(n.links.loc[rows(n.links.index, self.link), "bus0"].iloc[0])
        overhead = 1 / dense(n, "Link", "efficiency", self.link).iloc[:, 0]
        return dict.fromkeys(parts, Account(bus, level="IT", metered=overhead))

    def own_costs(self, n: pypsa.Network) -> dict[str, float]:
        return {
            "Mode changes": schedule.cost_of_changes(n, self),
            "GPUs": sum(schedule.gpu_costs(n, self).values()),
            "Delay": schedule.delay_costs(n, self),
        }

    def worth(self, n: pypsa.Network) -> dict[str, float]:
        return schedule.gpu_costs(n, self) if is_valued(self) else {}

    def summary(self, n: pypsa.Network, power: pd.DataFrame) -> dict[str, float]:
        return schedule.summary(n, self, power)

    @property
    def costless(self) -> Sequence[str]:
        return [*self.loads, self.idle, self.link]

    @property
    def decided(self) -> Sequence[str]:
        return [*self.loads, *([self.idle] if self.spec.idle_w else [])]

    def reason_alone(self, n: pypsa.Network, snapshots: pd.Index | None, formulation: Formulation) -> Reason | None:
        return explain.reason(n, self, snapshots, formulation)

    def restricted(self, freedom: Freedom) -> Change:
        """Jobs as S1, S2, with waits alone, as S3 or as they are."""
        faults = Faults("AIDCs of the network")
        jobs = []
        for load in self.loads.values():
            try:
                jobs.append(_FREEDOMS[freedom](load))
            except InputError as error:
                for fault in error.faults:
                    faults.add(f"job {load.name!r}, {fault.where}", fault.given, fault.expected, fault.remedy)
        faults.raise_any()
        return partial(self._changed, jobs=jobs)

    def changes(self, steps: Mapping[str, float], horizon: float) -> Iterator[tuple[str, float, str, bool, Change]]:
        """More GPUs, a larger connection, later deadlines, no waiting."""
        later = {
            load.name: min(load.deadline + steps["deadline"], horizon)
            for load in self.loads.values()
            if load.deadline is not None
        }
        yield "gpus", steps["gpus"], "GPUs", False, partial(self._larger_pool, step=int(steps["gpus"]))
        yield "p_nom", steps["p_nom"], "MW", False, partial(self._larger_connection, step=steps["p_nom"])
        if any(load.deadline is not None and load.deadline < horizon for load in self.loads.values()):
            jobs = [replace(load, deadline=later.get(load.name)) for load in self.loads.values()]
            yield "deadline", steps["deadline"], "h", False, partial(self._changed, jobs=jobs)
        without = {"waiting": False, "min_wait": 0.0, "restart_hours": 0.0, "restart_energy": 0.0}
        rigid = [load.with_rules(**without) for load in self.loads.values()]
        yield "waiting", 1, "", True, partial(self._changed, jobs=rigid)

    def _larger_pool(self, n: pypsa.Network, step: int) -> None:
        self.update(n, gpus=self.spec.gpus + step)

    def _larger_connection(self, n: pypsa.Network, step: float) -> None:
        labels = rows(n.links.index, self.link)
        n.links.loc[labels, ["p_nom", "p_nom_min"]] += step

    def _changed(self, n: pypsa.Network, jobs: Sequence[TrainingLoad]) -> None:
        self.update(n, jobs=jobs)

    def update(self, n: pypsa.Network, **changed: Any) -> None:
        """Give the site another pool or other jobs; see `add.update`."""
        from pypsa_aidc.network.loads.site.add import update  # it makes sites

        update(n, self.name, **changed)
