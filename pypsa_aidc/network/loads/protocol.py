"""What a kind of load has to deliver, so that everything in `network` works with it.

A kind of load is one class made of `Load`. An object of it is one load of a network: it holds what PyPSA's own columns
cannot say, and answers questions about itself. All else in `network` iterates over the loads and knows no kind.

How to add a kind
-----------------
A load that draws a profile up to a price cap shows what is needed (whole, with tests, in ``tests/network/capped.py``):

1. In a module beside this one, say once what the specification holds besides its kind and version, as JSON schema:
   ``declare("capped", 1, {"cap": {"type": "number"}})`` of `spec.schema`.
2. Write a frozen dataclass that derives from `Load`, with the same `word`. Its `read` goes through
   ``specified(n.generators, cls.word)`` of `spec.column` and turns each text into an object with `spec.schema.parse`.
3. Write ``add_capped(n, name, ...)``. Check all arguments first, with `errors.Faults`: the name with
   `registry.check_new_name` (imported within the function, as the registry imports the module), series with
   `spec.series.aligned`; ``faults.raise_any()`` before anything is written. Then
   add standard PyPSA components (a load whose power is decided is a Generator with ``sign=-1``: its `p` is what it
   draws, its `marginal_cost`, negative, what drawing is worth to it) and keep the specification with
   ``store(n.generators, {name: dump("capped", {"cap": cap})})``.
4. Import the class in ``registry.py`` and put it into `KINDS`. Nothing else outside the module changes.

It then is optimised, audited, billed, frozen, exported, loaded and removed like the others, also beside them. Of the
members below, `read`, `parts_of`, `power` and `audit` have to be written. The others have a default that is right for a
load which is all in PyPSA's own components: it puts nothing into the model, decides nothing that is not the power `p`
of a Generator, and is never infeasible by itself. Write those for which that is not true:

======================  =============================================================================================
when                    members
======================  =============================================================================================
read and written        `word`, `component`, `words`, `read`, `name`, `name_of`, `holder`, `parts_of`, `parts`, `known`,
                        `remove`, `rows`
before a solve          `refresh`, `refuse_unsupported`, `check`, `sizes`, `meant_as_load`, `stands_for_load`,
                        `explains_windows`
in the model            `build` (returns a `Built`, which decodes the solution)
after a solve           `decisions`, `solved`, `check_results`, `decided_before`, `audit`, `power`, `accounts`,
                        `summary`, `costless`
plain PyPSA             `decided`, `refuse_frozen`, `undetermined`
words                   `reason_alone`, `reason`
what if                 `changes`, `restricted`
======================  =============================================================================================

What they are given and have to keep to:

- Networks may have scenarios: look components up with `pypsa_api.columns` and `pypsa_api.rows`, which find them by
  name with scenarios and without; or refuse scenarios in `refuse_unsupported`.
- Power is in MW, energy in MWh, money in USD; frames over snapshots have the labels of ``n.snapshots``.
- A load that sets the price in some hours, as one at its cap does, names them in `undetermined`: frozen, it is data.
- A series is stored with the snapshots that it was given for (`spec.coverage.coverage`), and `check` looks whether they
  still are the network's (`check_coverage`): PyPSA fills in defaults without a word.
- Nothing is kept outside the network: an object is made anew each time the network is asked, so that copies, slices and
  files have all that there is. Decisions are dynamic attributes of Generators, named in `decisions`.
- Variables and constraints in the model have names that start with ``AIDC-``; what is private in PyPSA or linopy is
  asked of `pypsa_api` alone.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal, NamedTuple, Self

import numpy as np
import pandas as pd
import pypsa

from pypsa_aidc.errors import Faults, NotSolvedError
from pypsa_aidc.network.model.ahead import Ahead
from pypsa_aidc.network.model.recourse import Recourse
from pypsa_aidc.network.pypsa_api import columns, names, rows
from pypsa_aidc.network.spec.column import stored
from pypsa_aidc.network.spec.schema import kind_of
from pypsa_aidc.training import Formulation

if TYPE_CHECKING:
    from pypsa_aidc.network.solve.solver_options import SolverOptions

TOLERANCE = 1e-6
"""Violation, in the unit of a check, up to which a constraint counts as kept."""

SOLVE = (
    "Solve it with n.aidc.optimize(), with n.optimize(extra_functionality=aidc.extra_functionality) or, from a file, "
    "with `pypsa-aidc dispatch FILE --scenario S4 --out FOLDER`, which writes FOLDER/S4.nc."
)
"""What makes a schedule, for those who lack one."""

Change = Callable[[pypsa.Network], None]
"""What turns a network into another one in place."""

Freedom = Literal["fixed", "recorded", "waiting", "idealized", "free"]
"""What a load may decide: nothing, nothing but record checkpoints, when it waits, all without checkpoints, or all."""

Severity = Literal["error", "warning", "note"]


@dataclass(frozen=True)
class Finding:
    """One thing found.

    Parameters
    ----------
    severity
        ``"error"`` stops an optimisation or makes it wrong; ``"warning"`` may; ``"note"`` is good to know.
    component
        The component or site, with the attribute where it is one.
    what
        What is there, and what was expected.
    remedy
        What to do.
    """

    severity: Severity
    component: str
    what: str
    remedy: str = ""

    def __str__(self) -> str:
        stop = "" if self.what.endswith("?") else "."
        return f"{self.severity}: {self.component}: {self.what}{stop} {self.remedy}".rstrip()


class Check(NamedTuple):
    """One check of an audit: its name, where, by how much a constraint is broken, in which unit, and what is borne."""

    check: str
    where: str
    violation: float
    unit: str
    tolerance: float = TOLERANCE


@dataclass(frozen=True)
class Reason:
    """Why a load cannot work; not `proven` where the search ended before it was certain."""

    text: str
    proven: bool = True


class Account(NamedTuple):
    """Where a part of a load is paid for.

    Parameters
    ----------
    bus
        Bus of its meter.
    sign
        1, or -1 for what is not drawn.
    level
        The level that its power is at.
    metered
        Power at the meter for each MW of it: the PUE of what is at IT level, by snapshot.
    """

    bus: str
    sign: float = 1.0
    level: Literal["meter", "IT"] = "meter"
    metered: float | pd.Series = 1.0


@dataclass(frozen=True, eq=False)
class Built:
    """What a kind has put into one model, kept for as long as the model lives.

    Derive from it to decode more than what PyPSA itself writes back.
    """

    integers: ClassVar[tuple[str, ...]] = ()
    """Names of its integer variables, whose integrality an audit checks."""

    @property
    def edges(self) -> int:
        """Binaries for its decisions."""
        return 0

    @property
    def edges_before_pruning(self) -> int:
        """What `edges` would have been without pruning."""
        return 0

    def record(self, n: pypsa.Network) -> None:
        """Decode the solution of ``n.model`` into the dynamic attributes that `Load.decisions` names.

        Raises
        ------
        AIDCError
            The solution is none: the solver ignored integrality.
        """

    def write_back(self, n: pypsa.Network) -> None:
        """Put into the network what PyPSA has just written there otherwise, after `record`."""

    def write_start(self, n: pypsa.Network, file: Path, options: SolverOptions) -> Start:
        """Write a solution of the whole model for HiGHS to start from, if there is one to be found in time."""
        return Start()


@dataclass(frozen=True)
class Start:
    """What is known before the solver starts.

    Parameters
    ----------
    seconds
        What the relaxation of the model took, infinite if it was not solved.
    gap
        USD by which the paths that are fixed in the model may be dearer than the best, where they have been searched.
    optimal
        Whether that is the gap which was asked for.
    release
        Takes what is fixed off the model, after the solve.
    """

    seconds: float = math.inf
    gap: float = 0.0
    optimal: bool = True
    release: Callable[[], None] = lambda: None


class Load(ABC):
    """One load of a network; the class is its kind. See the module for how to add one."""

    word: ClassVar[str]
    """Last word of the schema of its specification, and the job that it is in `n.aidc.jobs`."""

    component: ClassVar[str] = "Generator"
    """Type of the component that holds its specification."""

    words: ClassVar[Mapping[str, str]] = {}
    """Further words of schemas that belong to it, each with the type of component that holds it."""

    decisions: ClassVar[tuple[str, ...]] = ()
    """Dynamic attributes of Generators in which its decisions are kept, besides PyPSA's own ``p``."""

    if TYPE_CHECKING:  # a dataclass with a field of this name would take the property for its default

        @property
        def name(self) -> str:
            """Name of the load, unique among all of a network."""

    # Reading and writing

    @classmethod
    @abstractmethod
    def read(cls, n: pypsa.Network) -> dict[str, Self]:
        """Read all loads of the kind by name.

        Raises
        ------
        SpecError
            A specification cannot be read, or a component it speaks of is missing: all faults at once.
        """

    @classmethod
    @abstractmethod
    def parts_of(cls, name: str) -> Mapping[str, Sequence[str]]:
        """Components, by type in the order of removal, that a load of a name has or may have."""

    @classmethod
    def name_of(cls, holder: str) -> str:
        """Name of the load whose specification a component holds."""
        return holder

    @classmethod
    def known(cls, n: pypsa.Network) -> list[str]:
        """Names of all loads of the kind, also of those that cannot be read; quick."""
        held = stored(n.c[cls.component].static)
        return [cls.name_of(holder) for holder, text in held if kind_of(text) == cls.word]

    @classmethod
    def remove(cls, n: pypsa.Network, name: str) -> None:
        """Remove a load and everything that was added for it, also where some of it is already gone."""
        for component, parts in cls.parts_of(name).items():
            present = [part for part in parts if part in names(n.c[component].static.index)]
            if present:
                n.remove(component, present)

    @property
    def holder(self) -> str:
        """Component that holds the specification."""
        return self.name

    @property
    def parts(self) -> Mapping[str, Sequence[str]]:
        """Its components by type, those that it needs."""
        return self.parts_of(self.name)

    def rows(self, n: pypsa.Network) -> dict[str, dict[str, object]]:
        """Its rows of `n.aidc.jobs` by job: `bus`, `p_nom` in MW, `description` and what else is known."""
        static = n.c[self.component].static
        row = static.loc[rows(static.index, self.holder)].iloc[0]
        return {self.word: {"bus": row.get("bus"), "p_nom": row.get("p_nom")}}

    # Before a solve

    def refresh(self, n: pypsa.Network, snapshots: pd.Index | None = None) -> None:
        """Bring what was derived from the snapshots up to date, and free what was decided."""
        free(n, self.decided)

    @classmethod
    def refuse_unsupported(cls, n: pypsa.Network, loads: Mapping[str, Self], snapshots: pd.Index, *, part: str) -> None:
        """Refuse modes of PyPSA that would give wrong results.

        Parameters
        ----------
        n
            Network, before its model is built or after.
        loads
            Its loads of this kind, at least one.
        snapshots
            Those to be optimised, in the labelling of the network.
        part
            In words such as "6 of 12", where the model has only a part of ``n.snapshots`` and nobody has said that this
            is all there is; else empty.

        Raises
        ------
        UnsupportedError
            Such a mode.
        """

    def check(self, n: pypsa.Network, snapshots: pd.Index, faults: Faults) -> None:
        """Note what no longer fits the network: other snapshots, blanked series, decided power left in `p_set`."""

    def sizes(self, n: pypsa.Network) -> Iterator[Finding]:
        """Yield what is out of proportion, or likely given in another unit."""
        yield from ()

    def meant_as_load(self, n: pypsa.Network) -> Sequence[str]:
        """Generators that must draw power whatever it costs; in an island without supply they are infeasible."""
        return ()

    @property
    def stands_for_load(self) -> Sequence[str]:
        """Generators with positive sign whose power is none that is supplied, but some that is not drawn."""
        return ()

    @property
    def decides_whole_numbers(self) -> bool:
        """Whether its decisions are whole numbers, so that the model with it is no LP."""
        return False

    @property
    def explains_windows(self) -> bool:
        """Whether its user has said what dates that jump mean to it; if not, that is told."""
        return False

    # In the model

    @classmethod
    def build(
        cls,
        n: pypsa.Network,
        loads: Mapping[str, Self],
        snapshots: pd.Index,
        formulation: Formulation,
        ahead: Ahead | None = None,
        recourse: Recourse | None = None,
    ) -> Built:
        """Put variables and constraints of all loads of the kind into ``n.model``.

        Parameters
        ----------
        n
            Network with a built model.
        loads
            Its loads of this kind, at least one.
        snapshots
            Those of the model.
        formulation
            Of the graphs of training jobs.
        ahead
            Place of the model in a rolling horizon, if there is one.
        recourse
            From when on loads decide by scenario, in a network with scenarios; else `None`.
        """
        return Built()

    # After a solve

    @classmethod
    def solved(cls, n: pypsa.Network, loads: Mapping[str, Self]) -> pd.Index:
        """Snapshots for which decisions are kept.

        Raises
        ------
        NotSolvedError
            There are none.
        """
        power = n.c.generators.dynamic["p"]
        wanted = [part for load in loads.values() for part in load.decided]
        if power.empty or not set(wanted) <= set(names(power.columns)):
            raise NotSolvedError(f"no dispatch of {', '.join(loads)} in this network. {SOLVE}")
        solved: pd.Index = n.snapshots[columns(power, wanted).notna().all(axis=1)]
        return solved

    def check_results(self, n: pypsa.Network, faults: Faults) -> None:
        """Note where power in the network is not that of the decisions: it was solved again without them."""

    def decided_before(self, n: pypsa.Network, moment: object | None) -> Sequence[object]:
        """What has been decided that starts before a snapshot, or all of it: the same in all scenarios until then."""
        return ()

    @abstractmethod
    def audit(self, n: pypsa.Network) -> Iterator[Check]:
        """Check every constraint again, from decisions and results in the network and not from its model.

        Raises
        ------
        AIDCError
            The decisions cannot be read.
        """

    @abstractmethod
    def power(self, n: pypsa.Network) -> dict[str, pd.Series]:
        """Power in MW by part, over the solved snapshots or all; the part ``"meter"`` is what the grid delivers."""

    def accounts(self, n: pypsa.Network) -> dict[str, Account]:
        """For each part that is paid for, where."""
        static = n.c[self.component].static
        return {"load": Account(str(static["bus"][rows(static.index, self.holder)].iloc[0]))}

    def summary(self, n: pypsa.Network, power: pd.DataFrame) -> dict[str, float]:
        """Further entries of its row in `n.aidc.summary()`; `power` is that of `n.aidc.power()`."""
        return {}

    def own_costs(self, n: pypsa.Network) -> dict[str, float]:
        """Costs in USD of its decisions in the objective that are none of a component, by what for."""
        return {}

    def worth(self, n: pypsa.Network) -> dict[str, float]:
        """Worth in USD of what its parts occupy, beside the energy that they pay for; nothing where it has no value."""
        return {}

    @property
    def costless(self) -> Sequence[str]:
        """Its Generators and Links left out of operating costs where they cost nothing, and never curtailed."""
        return [part for component in ("Generator", "Link") for part in self.parts.get(component, ())]

    # For plain PyPSA

    @property
    def decided(self) -> Sequence[str]:
        """Generators whose power is decided, which a planner's copy carries as `p_set`."""
        return self.parts.get("Generator", ())

    @classmethod
    def refuse_frozen(cls, n: pypsa.Network, loads: Mapping[str, Self]) -> None:
        """Refuse what plain PyPSA could not keep.

        Raises
        ------
        UnsupportedError
            Something that it would decide otherwise.
        """

    def undetermined(self, n: pypsa.Network) -> Iterator[str]:
        """Say in which hours the price is not determined in a planner's copy."""
        yield from ()

    # Words

    def reason_alone(self, n: pypsa.Network, snapshots: pd.Index | None, formulation: Formulation) -> Reason | None:
        """Say why the load cannot work even alone, or is not known to; quick."""
        return None

    def reason(self, n: pypsa.Network, snapshots: pd.Index | None) -> Reason | None:
        """Say why the load cannot work in this network, by solving others with less of it."""
        return None

    def restricted(self, freedom: Freedom) -> Change | None:
        """Return the change to no more freedom than a word says; `None` where a kind has none that could be taken.

        Raises
        ------
        InputError
            What the load would then do is not known, such as a job without its mode of fixed training.
        """
        return None

    def changes(self, steps: Mapping[str, float], horizon: float) -> Iterator[tuple[str, float, str, bool, Change]]:
        """Yield what may be worth something, for `n.aidc.values`.

        Parameters
        ----------
        steps
            Size of the step by word: ``"gpus"``, ``"p_nom"`` (MW), ``"deadline"`` (h).
        horizon
            Hours of the horizon.

        Yields
        ------
        what, step, unit, taken, change
            Word, size of the step and its unit, whether the change takes something away, and the change.
        """
        yield from ()


def free(n: pypsa.Network, generators: Sequence[str]) -> None:
    """Free Generators of power that was decided before."""
    labels = n.generators.index[names(n.generators.index).isin(list(generators))]
    n.generators.loc[labels, "p_set"] = np.nan
    dynamic = n.c.generators.dynamic
    dynamic["p_set"] = dynamic["p_set"].drop(columns=labels, errors="ignore")
