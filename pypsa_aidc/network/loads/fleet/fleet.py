"""A fleet as a network holds it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import lru_cache, partial
from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd
import pypsa

from pypsa_aidc.errors import Faults, InputError, SpecError, UnsupportedError
from pypsa_aidc.network.loads.fleet import audit, checks, explain, operation
from pypsa_aidc.network.loads.fleet.budgets import SHEDDING, most_relief
from pypsa_aidc.network.loads.fleet.calls import CALL, DEPTH
from pypsa_aidc.network.loads.fleet.model import FleetModel, add_fleet_constraints
from pypsa_aidc.network.loads.fleet.terms import FIRM, FleetTerms
from pypsa_aidc.network.loads.protocol import Account, Change, Check, Load, Reason, free
from pypsa_aidc.network.model.ahead import Ahead
from pypsa_aidc.network.model.horizon import windows
from pypsa_aidc.network.model.recourse import Recourse
from pypsa_aidc.network.pypsa_api import names, rows
from pypsa_aidc.network.spec.column import specified, store
from pypsa_aidc.network.spec.coverage import Coverage, read_coverage
from pypsa_aidc.network.spec.schema import dump, parse
from pypsa_aidc.training import Formulation

_STALE = 100.0
"""Violations above so many tolerances of the audit come from another solve, not from a solver's rounding."""


@dataclass(frozen=True)
class Fleet(Load):
    """A fleet load as the network holds it: what PyPSA's own columns cannot say, and the names of its parts.

    Parameters
    ----------
    name
        Of the fleet, and of the Generator with ``sign=-1`` whose `p` is its load without relief.
    terms
        On which it sheds power.
    series
        For each attribute given as a series: first snapshot, last snapshot and number of snapshots.
    source
        Where K or the path of relief comes from.
    synthetic
        Whether that is the synthetic fleet.
    """

    name: str
    terms: FleetTerms = FIRM
    series: Coverage = field(default_factory=dict)
    source: str = ""
    synthetic: bool = False

    word: ClassVar[str] = "fleet"
    decisions: ClassVar[tuple[str, ...]] = (CALL, DEPTH)

    @property
    def relief(self) -> str:
        """Generator whose `p` is the power not drawn."""
        return f"{self.name} relief"

    @property
    def rebound(self) -> str:
        """Generator with ``sign=-1`` whose `p` is what is drawn again."""
        return f"{self.name} rebound"

    @property
    def generators(self) -> tuple[str, ...]:
        """Generators that the terms call for."""
        relief = () if self.terms.form == "firm" else (self.relief,)
        return (self.name, *relief, *((self.rebound,) if self.terms.rebound else ()))

    @classmethod
    def read(cls, n: pypsa.Network) -> dict[str, Self]:
        texts = specified(n.generators, cls.word)
        found = {name: cls.loaded(text, f"fleet of Generator {name!r}") for name, text in texts}
        faults = Faults("fleets of the network")
        for generator, fleet in found.items():
            faults.require(fleet.name == generator, f"Generator {generator!r}", fleet.name, "a fleet of the same name")
            for part in fleet.generators:
                present = part in names(n.generators.index)
                faults.require(present, fleet.name, f"no {part!r} in n.generators", "all components of the fleet")
        faults.raise_any(SpecError)
        return found

    @classmethod
    @lru_cache(maxsize=4096)
    def loaded(cls, text: str, where: str) -> Self:
        """Read a fleet from its JSON, or raise `SpecError` naming `where` it stands and every fault."""
        data = parse(text, cls.word, where)
        terms = {key: _tuple(value) for key, value in data["terms"].items()}
        series = read_coverage(data["series"])
        try:
            return cls(data["name"], FleetTerms(**terms), series, data["source"], data["synthetic"])
        except InputError as error:
            raise SpecError(where, error.faults) from error

    def store(self, n: pypsa.Network) -> None:
        """Write the specification of the fleet into the network's string column."""
        series = {key: list(value) for key, value in self.series.items()}
        text = dump(self.word, {**asdict(self), "terms": asdict(self.terms), "series": series})
        store(n.generators, {self.name: text})

    @classmethod
    def parts_of(cls, name: str) -> Mapping[str, Sequence[str]]:
        fleet = cls(name)
        return {"Generator": (fleet.name, fleet.relief, fleet.rebound)}

    @property
    def parts(self) -> Mapping[str, Sequence[str]]:
        return {"Generator": self.generators}

    def rows(self, n: pypsa.Network) -> dict[str, dict[str, object]]:
        row = n.generators.loc[rows(n.generators.index, self.name)].iloc[0]
        free_size = f"free size up to {row['p_nom_max']:g} MW; " if row["p_nom_extendable"] else ""
        origin = f"; {self.source}" if self.source else ""
        made = " (synthetic)" if self.synthetic else ""
        size = row["p_nom_opt"] if row["p_nom_extendable"] else row["p_nom"]
        return {self.word: {"bus": row["bus"], "p_nom": size, "description": f"{free_size}{self.terms}{origin}{made}"}}

    def refresh(self, n: pypsa.Network, snapshots: pd.Index | None = None) -> None:
        free(n, self.generators)
        if self.terms.form != "firm":
            labels = rows(n.generators.index, self.relief)
            n.generators.loc[labels, "e_sum_max"] = most_relief(n, self, snapshots)

    def check(self, n: pypsa.Network, snapshots: pd.Index, faults: Faults) -> None:
        checks.check_fit(n, self, snapshots, faults)

    def meant_as_load(self, n: pypsa.Network) -> Sequence[str]:
        fixed = ~n.generators["p_nom_extendable"][rows(n.generators.index, self.name)].any()
        return [self.name] if fixed else []

    @property
    def decides_whole_numbers(self) -> bool:
        return self.terms.form == "calls" or self.terms.has_budget

    @property
    def stands_for_load(self) -> Sequence[str]:
        return [self.relief]

    @classmethod
    def refuse_unsupported(cls, n: pypsa.Network, loads: Mapping[str, Self], snapshots: pd.Index, *, part: str) -> None:
        tied = [name for name, fleet in loads.items() if fleet.terms.spans_horizon]
        if part and tied:
            raise UnsupportedError(
                f"fleets ({', '.join(tied)}) over {part} snapshots: in a rolling horizon every window would "
                "start each budget of calls anew. Optimise all snapshots at once, or one part of them with "
                "n.aidc.optimize(snapshots=...)."
            )
        budgeted = [name for name, fleet in loads.items() if fleet.terms.has_budget]
        if budgeted and len(windows(n, snapshots)) > max(1, len(n.investment_periods)):
            raise UnsupportedError(
                f"fleets with budgets ({', '.join(budgeted)}) over dates that jump: of how many days each stretch is "
                "representative is not known, and so not how often its calls count. Give the fleet no hours= and "
                "events=."
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
    ) -> FleetModel:
        return add_fleet_constraints(n, loads, snapshots, ahead, recourse)

    @classmethod
    def solved(cls, n: pypsa.Network, loads: Mapping[str, Self]) -> pd.Index:
        return operation.solved_snapshots(n, loads)

    def check_results(self, n: pypsa.Network, faults: Faults) -> None:
        for check, where, violation, unit, tolerance in self.audit(n):
            faults.require(
                violation <= _STALE * tolerance,
                f"fleet {where}, {check}",
                f"off by {violation:.6g} {unit}",
                "what the terms of the fleet allow",
                "The network was solved again without them: solve with n.aidc.optimize().",
            )

    def audit(self, n: pypsa.Network) -> Iterator[Check]:
        return audit.checks(n, self)

    def power(self, n: pypsa.Network) -> dict[str, pd.Series]:
        """Parts ``"load"``, ``"relief"`` and ``"rebound"``; the meter has the first less the second plus the third."""
        p = n.c.generators.dynamic["p"]
        load, relief, rebound = (
            p[part] if part in self.generators else pd.Series(0.0, n.snapshots)
            for part in (self.name, self.relief, self.rebound)
        )
        return {"load": load, "relief": relief, "rebound": rebound, "meter": load - relief + rebound}

    def accounts(self, n: pypsa.Network) -> dict[str, Account]:
        bus = str(n.generators.loc[self.name, "bus"])
        return {"load": Account(bus), "relief": Account(bus, sign=-1.0), "rebound": Account(bus)}

    @property
    def costless(self) -> Sequence[str]:
        return (self.name, self.rebound)

    @property
    def decided(self) -> Sequence[str]:
        return self.generators[1:]

    @classmethod
    def refuse_frozen(cls, n: pypsa.Network, loads: Mapping[str, Self]) -> None:
        shedding = [name for name, fleet in loads.items() if fleet.terms.form != "firm"]
        static = n.generators
        free_size = [name for name in shedding if static.loc[rows(static.index, name), "p_nom_extendable"].any()]
        if free_size:
            raise UnsupportedError(
                f"frozen copy with fleets of free size, {', '.join(free_size)}: plain PyPSA would size them again, and "
                "not tie their relief to it. Add them with the p_nom that was found, solve, and freeze that; or "
                "n.aidc.export(path, frozen=False)."
            )

    def undetermined(self, n: pypsa.Network) -> Iterator[str]:
        """Hours in which relief between its limits sets the price: as data it sets none."""
        for each in operation.operations(n, {self.name: self}):
            terms, most = each.fleet.terms, each.share * each.size
            if terms.form == "calls":
                depth_of = dict(zip(terms.durations, terms.depths, strict=True))
                for start, stop, _ in each.events:
                    most[start:stop] = np.minimum(most[start:stop], depth_of[round(each.call[start])] * each.size)
            near = SHEDDING * max(each.size, 1.0)
            free = each.snapshots[(each.relief > near) & (each.relief < most - near)]
            if len(free):
                yield (
                    f"fleet {each.fleet.name!r} sheds less than it may in {len(free)} snapshots, the first "
                    f"{free[0]}: there plain PyPSA gets the right loads and objective, but any price between those of "
                    "plants around it"
                )

    def reason(self, n: pypsa.Network, snapshots: pd.Index | None) -> Reason | None:
        return explain.reason(n, self, snapshots)

    def changes(self, steps: Mapping[str, float], horizon: float) -> Iterator[tuple[str, float, str, bool, Change]]:
        """No relief."""
        if self.terms.form != "firm":
            yield "relief", 1.0, "", True, partial(_no_relief, fleet=self)


def _no_relief(n: pypsa.Network, fleet: Fleet) -> None:
    n.generators.loc[rows(n.generators.index, fleet.relief), "p_max_pu"] = 0.0
    series = n.c.generators.dynamic["p_max_pu"]
    series.loc[:, rows(series.columns, fleet.relief)] = 0.0


def _tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
