"""Units with forced outages, and the zones that a network is made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pypsa
from numpy.typing import NDArray

from pypsa_aidc.errors import Faults
from pypsa_aidc.network.carriers import backstops, electric
from pypsa_aidc.network.loads.registry import loads
from pypsa_aidc.network.pypsa_api import columns

Floats = NDArray[np.float64]
RATES = ("mttf", "mttr", "forced_outage_rate")


@dataclass(frozen=True)
class Zones:
    """Demand, units and transfer between the zones of a network, as `adequacy` takes them.

    Attributes
    ----------
    demand : pandas.DataFrame
        MW, a column a zone.
    units : pandas.DataFrame
        One row a generator: `p_nom`, `zone` and rates.
    available : pandas.DataFrame
        Share of `p_nom` by hour of the units that have a series.
    transfer : dict
        MW from one zone to another, both ways.
    notes : tuple of str
        What was left out.
    """

    demand: pd.DataFrame
    units: pd.DataFrame
    available: pd.DataFrame
    transfer: Mapping[tuple[str, str], float]
    notes: tuple[str, ...] = ()


def network_zones(n: pypsa.Network, rates: pd.DataFrame, zones: pd.Series | None = None) -> Zones:
    """Read the units, the demand and the transfer between zones of a network.

    Parameters
    ----------
    n
        Network. Its AIDCs, and generators that stand for load not served, are left out. Transfer between two zones is
        the sum of the ratings of lines, transformers and links between them.
    rates
        Rates of outages by generator, or by carrier: columns `mttf` and `mttr` (h), or `forced_outage_rate`. Who is in
        neither has no outages.
    zones
        Zone by bus; one zone if None.

    Returns
    -------
    Zones

    Raises
    ------
    InputError
        Buses without a zone, or columns that are no rates.
    """
    faults = Faults("network_zones")
    parts = {part for load in loads(n).values() for own in load.parts.values() for part in own}
    buses = n.buses.index[electric(n)].difference(list(parts), sort=False)
    zone = pd.Series("all", buses) if zones is None else zones.reindex(buses)
    lost = [str(bus) for bus in zone.index[zone.isna()]]
    faults.require(not lost, "zones", lost[:5], "a zone for each bus of the grid")
    unknown = [name for name in rates.columns if name not in RATES]
    faults.require(not unknown, "rates", unknown, f"columns {', '.join(RATES)}")
    faults.raise_any()
    names = sorted(zone.unique())
    drawn = n.get_switchable_as_dense("Load", "p_set")
    live = n.loads.index[n.loads["active"] & n.loads["bus"].isin(buses) & ~n.loads.index.isin(list(parts))]
    demand = pd.DataFrame(0.0, n.snapshots, names)
    for name in live:
        demand[zone[n.loads.at[name, "bus"]]] -= float(n.loads.at[name, "sign"]) * drawn[name]
    shed = backstops(n).index
    found = n.generators[n.generators["active"] & (n.generators["sign"] > 0) & n.generators["bus"].isin(buses)]
    found = found.drop(index=[name for name in found.index if name in parts or name in shed])
    units = pd.DataFrame({"p_nom": found["p_nom"].astype(float), "zone": found["bus"].map(zone)})
    for column in RATES:
        if column in rates:
            own = rates[column].reindex(units.index)
            units[column] = own.fillna(found["carrier"].map(rates[column]))
    share = n.get_switchable_as_dense("Generator", "p_max_pu")[found.index]
    series = share.columns[(share != 1.0).any()]
    transfer: dict[tuple[str, str], float] = {}
    for component in ("Line", "Transformer", "Link"):
        static = n.c[component].static
        static = static[static["active"]]
        rated = static["p_nom"] if component == "Link" else static["s_nom"] * static["s_max_pu"]
        for bus0, bus1, megawatts in zip(static["bus0"], static["bus1"], rated, strict=True):
            if bus0 in zone.index and bus1 in zone.index and zone[bus0] != zone[bus1]:
                pair = (min(zone[bus0], zone[bus1]), max(zone[bus0], zone[bus1]))
                transfer[pair] = transfer.get(pair, 0.0) + float(megawatts)
    storing = len(n.storage_units) + len(n.stores)
    notes = [f"{storing} storage units and stores are not counted"] if storing else []
    notes += [f"AIDCs of the network are not counted: {', '.join(loads(n))}"] if parts else []
    notes += [f"generators that stand for load not served are no units: {', '.join(shed)}"] if len(shed) else []
    return Zones(demand, units, columns(share, series), transfer, tuple(notes))


def rates_of(units: pd.DataFrame, mttr: float | None, faults: Faults) -> pd.DataFrame:
    """Return `mttf` and `mttr` of each unit, h; a unit without outages has an infinite `mttf`."""
    table = pd.DataFrame({"p_nom": units["p_nom"].astype(float)}, units.index)
    for name, value in table["p_nom"].items():
        faults.number(f"units, {name}, p_nom", value, at_least=0)
    blank = pd.Series(np.nan, units.index)
    rate = units["forced_outage_rate"].astype(float) if "forced_outage_rate" in units else blank
    up = units["mttf"].astype(float) if "mttf" in units else blank
    down = units["mttr"].astype(float) if "mttr" in units else blank
    if mttr is not None:
        faults.number("mttr", mttr, at_least=1)
        down = down.fillna(mttr)
    wrong = rate[(rate < 0) | (rate >= 1)]
    for name, value in wrong.items():
        faults.add(f"units, {name}, forced_outage_rate", value, "a share of the hours, at least 0 and below 1")
    out = up.isna() & (rate > 0)
    for name in units.index[(out | up.notna()) & down.isna()]:
        faults.add(f"units, {name}, mttr", None, "hours of a repair", "Or give mttr= for all that have none.")
    up = up.where(~out, down * (1 - rate) / rate.where(rate > 0))
    for name in units.index[(up < 1) | (up.notna() & (down < 1))]:
        given = f"mttf {up[name]:.4g} h, mttr {down[name]:.4g} h"
        faults.add(f"units, {name}", given, "at least one hour each: states change by the hour")
    return table.assign(mttf=up.fillna(np.inf), mttr=down.fillna(1.0))


def draw_outages(
    rng: np.random.Generator, mttf: float, mttr: float, trials: int, hours: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Draw when a unit is out: trial, first hour and hour after the last, of each outage.

    A chain of two states by the hour that leaves them with 1/mttf and 1/mttr, and starts in its equilibrium: the mean
    times are exact, and so is the forced outage rate mttr/(mttf + mttr).
    """
    nothing = np.zeros(0, dtype=np.int64)
    if not np.isfinite(mttf):
        return nothing, nothing, nothing
    parts = []
    begins = np.where(rng.random(trials) < mttr / (mttf + mttr), 0, rng.geometric(1 / mttf, trials))
    alive = np.flatnonzero(begins < hours)
    while alive.size:
        start = begins[alive]
        end = start + rng.geometric(1 / mttr, alive.size)
        parts.append((alive, start, np.minimum(end, hours)))
        begins[alive] = end + rng.geometric(1 / mttf, alive.size)
        alive = alive[begins[alive] < hours]
    if not parts:
        return nothing, nothing, nothing
    trial, start, end = (np.concatenate(each) for each in zip(*parts, strict=True))
    return trial, start, end
