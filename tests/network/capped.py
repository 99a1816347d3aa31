"""A third kind of load, as anybody would write it: it draws its profile unless the price at its bus exceeds a cap."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

import pandas as pd
import pypsa

from pypsa_aidc.errors import Faults
from pypsa_aidc.network.loads.protocol import Check, Load
from pypsa_aidc.network.pypsa_api import columns, names, rows
from pypsa_aidc.network.spec.column import specified, store
from pypsa_aidc.network.spec.coverage import Coverage, check_coverage, coverage, read_coverage
from pypsa_aidc.network.spec.schema import declare, dump, parse
from pypsa_aidc.network.spec.series import Values, aligned

declare("capped", 1, {"cap": {"type": "number", "description": "USD/MWh."}, "series": {"type": "object"}})


@dataclass(frozen=True)
class Capped(Load):
    """A load with a price cap in USD/MWh: a Generator with ``sign=-1`` that earns the cap with each MWh it draws."""

    name: str
    cap: float
    series: Coverage

    word: ClassVar[str] = "capped"

    @classmethod
    def read(cls, n: pypsa.Network) -> dict[str, Self]:
        held = specified(n.generators, cls.word)
        specs = {name: parse(text, cls.word, f"capped load of Generator {name!r}") for name, text in held}
        return {name: cls(name, spec["cap"], read_coverage(spec["series"])) for name, spec in specs.items()}

    @classmethod
    def parts_of(cls, name: str) -> Mapping[str, Sequence[str]]:
        return {"Generator": [name]}

    def rows(self, n: pypsa.Network) -> dict[str, dict[str, object]]:
        row = super().rows(n)[self.word]
        return {self.word: row | {"description": f"price cap of {self.cap:g} USD/MWh"}}

    def check(self, n: pypsa.Network, snapshots: pd.Index, faults: Faults) -> None:
        check_coverage(self.name, self.series, n, snapshots, faults)

    def power(self, n: pypsa.Network) -> dict[str, pd.Series]:
        drawn = columns(n.c.generators.dynamic["p"], [self.name])[self.name]
        return {"load": drawn, "meter": drawn}

    def wanted(self, n: pypsa.Network) -> pd.Series:
        """Power in MW that it draws below the cap."""
        share = columns(n.get_switchable_as_dense("Generator", "p_max_pu"), [self.name])[self.name]
        return share * float(n.generators.loc[rows(n.generators.index, self.name), "p_nom"].iloc[0])

    def audit(self, n: pypsa.Network) -> Iterator[Check]:
        drawn, wanted = self.power(n)["load"], self.wanted(n)
        bus = str(n.generators.loc[rows(n.generators.index, self.name), "bus"].iloc[0])
        price = columns(n.c.buses.dynamic["marginal_price"], [bus])[bus]
        yield Check("load within its profile", self.name, float((drawn - wanted).max()), "MW")
        for check, power in (("drawn below the cap", wanted - drawn), ("not drawn above the cap", drawn)):
            apart = price < self.cap - 1e-6 if check == "drawn below the cap" else price > self.cap + 1e-6
            yield Check(check, self.name, float(power[apart].to_numpy().max(initial=0.0)), "MW")

    def undetermined(self, n: pypsa.Network) -> Iterator[str]:
        drawn, wanted = self.power(n)["load"], self.wanted(n)
        setting = drawn[(drawn > 1e-6) & (drawn < wanted - 1e-6)].index
        if len(setting):
            yield f"capped load {self.name!r} sets the price in {len(setting)} snapshots, the first {setting[0]}"


def add_capped(n: pypsa.Network, name: str, *, bus: str, p_nom: float, cap: float, profile: Values = 1.0) -> None:
    """Add a load of so many MW times a profile, which stops where the price exceeds its cap."""
    from pypsa_aidc.network.loads.registry import check_new_name  # it imports the kinds

    faults = Faults(f"add_capped {name!r}")
    check_new_name(n, name, Capped.parts_of(name), faults)
    faults.require(bus in names(n.buses.index), "bus", bus, "a bus of the network")
    faults.number("p_nom", p_nom, above=0)
    faults.number("cap", cap)
    share = aligned(profile, n.snapshots, "profile", faults)
    faults.raise_any()
    n.add("Generator", name, bus=bus, sign=-1, p_nom=p_nom, p_max_pu=share, marginal_cost=-cap)
    store(n.generators, {name: dump(Capped.word, {"cap": cap, "series": coverage(n, profile=share)})})
