"""The envelope of a site: how deep it can go for how long, how surely and at what cost, each megawatt by its source."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from pypsa_aidc.errors import Faults
from pypsa_aidc.fleet import Contract, Surface
from pypsa_aidc.headroom.bus.response import Windows
from pypsa_aidc.headroom.service.request import Request
from pypsa_aidc.network import UPS, Battery, Cooling, Genset
from pypsa_aidc.training import TrainingLoad

_UNITS = {"duration": "h", "mw": "MW", "depth": "MW", "usd_per_mwh": "USD/MWh"}


@dataclass(frozen=True, repr=False)
class SiteEnvelope:
    """Relief of a site by duration, cheapest source first.

    Attributes
    ----------
    size : float
        MW at the meter.
    table : pandas.DataFrame
        One row a duration (h) and source: `mw` of the source, `depth` up to it (MW), `usd_per_mwh` of that source and
        `reliability` of the depth: the product over the sources up to it, which fail independently.
    """

    size: float
    table: pd.DataFrame

    def depth(self, duration: int, reliability: float = 0.0, cost: float = math.inf) -> float:
        """MW that it can go down for some hours, with a reliability and at a cost of no source above `cost` USD/MWh.

        Raises
        ------
        InputError
            A duration that the envelope does not have.
        """
        faults = Faults("SiteEnvelope.depth")
        known = list(self.table.index.unique("duration"))
        faults.require(duration in known, "duration", duration, f"one of {known}")
        faults.raise_any()
        rows = pd.DataFrame(self.table.xs(duration, level="duration"))
        cheap = rows[rows["usd_per_mwh"] <= cost]
        # Unsure sources are left out, most sure first, as long as all together are sure enough.
        total, sure = 0.0, 1.0
        for row in cheap.sort_values("own_reliability", ascending=False, kind="stable").itertuples():
            sure *= float(row.own_reliability)  # type: ignore[arg-type]
            if sure < reliability - 1e-12:
                break
            total += float(row.mw)  # type: ignore[arg-type]
        return min(total, self.size)

    def to_frame(self) -> pd.DataFrame:
        """Return `table`."""
        return self.table

    def __repr__(self) -> str:
        deepest = self.table.groupby(level="duration")["depth"].max()
        told = ", ".join(f"{depth:.4g} MW for {hours} h" for hours, depth in deepest.items())
        return f"SiteEnvelope({self.size:g} MW: {told})"

    def _repr_html_(self) -> str:
        """Return what a notebook shows: the table."""
        from pypsa_aidc.markup import Table, card

        return card(self, lambda: [Table("", self.table.reset_index(), _UNITS)])


def site_envelope(
    size: float,
    *,
    durations: Sequence[int] = (1, 2, 4, 8),
    contract: Windows | Surface | Contract | None = None,
    peak: float | None = None,
    reliability: float = 0.95,
    contract_cost: float = 0.0,
    jobs: Sequence[TrainingLoad] = (),
    job_cost: float = 0.0,
    battery: Battery | None = None,
    genset: Genset | None = None,
    genset_reliability: float = 1.0,
    ups: UPS | None = None,
    cooling: Cooling | None = None,
) -> SiteEnvelope:
    """Find how deep a site can go for how long, and attribute each megawatt to its source.

    The cheapest way to a constant depth over so many hours is a linear programme with one row; its parametric solution
    in the depth takes the sources in the order of their costs, each up to what it can sustain.

    Parameters
    ----------
    size
        MW at the meter, above 0: no envelope is deeper.
    durations
        Whole hours, at least 1.
    contract, peak, reliability
        K, as of `Request`: beyond its longest duration it gives nothing, between two that of the longer one.
    contract_cost, job_cost
        USD/MWh of K and of jobs that wait.
    jobs
        Training loads that may wait; beside K only of work that K was not measured on.
    battery, genset, ups, cooling
        Behind the meter, with costs of their own. Battery, UPS and stored cold are full at first; cold counts at the
        highest of its COPs, where it spares least: with `temperature=35.0`, what it gives on a hot day.
    genset_reliability
        Share of starts in which each unit runs; of several, as many count as run with `reliability`.

    Returns
    -------
    SiteEnvelope

    Raises
    ------
    InputError
        Anything out of range, all at once.

    Notes
    -----
    Megawatts at the IT bus count as such, not times the PUE; those of cooling are at the meter.

    Examples
    --------
    >>> found = site_envelope(100.0, contract={1: 0.05, 4: 0.04}, battery=Battery(p_nom=20.0, e_nom=40.0,
    ...     efficiency=1.0, marginal_cost=30.0), durations=(1, 4))
    >>> found
    SiteEnvelope(100 MW: 25 MW for 1 h, 14 MW for 4 h)
    """
    faults = Faults("site_envelope")
    faults.number("size", size, above=0)
    for hours in faults.listed("durations", durations, "whole hours"):
        faults.number("durations", hours, at_least=1, integer=True)
    faults.number("genset_reliability", genset_reliability, above=0, at_most=1)
    for name, cost in {"contract_cost": contract_cost, "job_cost": job_cost}.items():
        faults.number(name, cost)
    faults.raise_any()
    longest = max(durations)
    snapshots = pd.date_range("2030-01-01", periods=max(longest, 2), freq="h")
    reliefs = []
    if contract is not None:
        asked = Request(name="site", bus="site", nameplate=size, contract=contract, peak=peak, reliability=reliability)
        sure = reliability if isinstance(contract, Surface) else getattr(contract, "reliability", 1.0)
        reliefs.append(("K", asked.relief(snapshots, faults), contract_cost, float(sure)))
    if jobs:
        waiting = Request(name="site", bus="site", nameplate=size, jobs=jobs).relief(snapshots, faults)
        reliefs.append(("jobs", waiting, job_cost, 1.0))
    faults.raise_any()
    rows = []
    for hours in durations:
        sources: list[tuple[str, float, float, float]] = []
        for name, relief, cost, sure in reliefs:
            known = [] if relief is None else [kappa for length, kappa in relief.windows if length >= hours]
            if relief is not None and relief.source == "jobs":
                known = [relief.windows[0][1]] if hours <= relief.longest else []
            sources.append((name, size * max(known, default=0.0), cost, sure))
        if battery is not None:
            sources.append(("battery", battery.sustained(hours), battery.marginal_cost, 1.0))
        if ups is not None:
            sources.append(("ups", ups.battery.sustained(hours), ups.marginal_cost, 1.0))
        if cooling is not None:
            sources.append(("cooling", cooling.sustained(hours), cooling.marginal_cost, 1.0))
        if genset is not None:
            megawatts, sure = _running(genset, hours, genset_reliability, reliability)
            sources.append(("genset", megawatts, genset.marginal_cost, sure))
        depth, product = 0.0, 1.0
        for name, megawatts, cost, sure in sorted(sources, key=lambda each: each[2]):
            taken = min(megawatts, size - depth)
            if taken <= 0:
                continue
            depth, product = depth + taken, product * sure
            rows.append(
                {
                    "duration": int(hours),
                    "source": name,
                    "mw": float(taken),
                    "depth": float(depth),
                    "usd_per_mwh": float(cost),
                    "own_reliability": sure,
                    "reliability": product,
                }
            )
    columns = ["duration", "source", "mw", "depth", "usd_per_mwh", "own_reliability", "reliability"]
    return SiteEnvelope(float(size), pd.DataFrame(rows, columns=columns).set_index(["duration", "source"]))


def _running(genset: Genset, hours: int, each: float, wanted: float) -> tuple[float, float]:
    """MW of the units that run together with the reliability that is wanted, and what it is; else of one unit."""
    megawatts = genset.sustained(hours)
    count = round(megawatts * genset.units / genset.p_nom)
    if count == 0:
        return 0.0, 1.0
    have = genset.units
    exactly = [math.comb(have, k) * each**k * (1 - each) ** (have - k) for k in range(have + 1)]
    at_least = np.cumsum(exactly[::-1])[::-1]
    enough = [k for k in range(1, count + 1) if at_least[k] >= wanted - 1e-12]
    running = max(enough, default=1)
    return running * genset.p_nom / genset.units, float(min(at_least[running], 1.0))
