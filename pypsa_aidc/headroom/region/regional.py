"""A region as a PyPSA network: its demand a load, its peak cap a generator; and the demand of a network."""

from __future__ import annotations

import json

import pandas as pd
import pypsa

from pypsa_aidc.errors import Faults
from pypsa_aidc.headroom.region.demand import AUDIT, HOUR, Demand, no_findings

CAP = "cap"
META = "aidc_demand"
"""Key of `n.meta` under which provenance and audit of the demand are kept as JSON."""


def regional_network(demand: Demand, margin: float = 0.05, *, attribution: str = "") -> pypsa.Network:
    """Put a demand on one bus, with all supply up to the cap.

    Parameters
    ----------
    demand
        Consecutive hours, none missing.
    margin
        m of P_cap = max D·(1 + m), at least 0.
    attribution
        Whom the data come from and on what terms; kept in `n.meta`.

    Returns
    -------
    pypsa.Network
        Bus and Load of the region's name, Generator ``"cap"``, hourly snapshots in UTC by the beginning of the hour.

    Raises
    ------
    InputError
        Missing hours or holes, a negative margin.
    """
    faults = Faults("Regional network")
    faults.number("margin", margin, at_least=0)
    hours = demand.hours
    missing = len(demand.missing)
    whole = len(hours) == (hours[-1] - hours[0]) // HOUR + 1
    faults.require(
        missing == 0 and whole, "demand", f"{missing} hours missing, or holes", "every hour", "Clean it first."
    )
    faults.raise_any()
    name = demand.region or "region"
    n = pypsa.Network(name=name, snapshots=hours)
    n.add("Carrier", ["AC", CAP], color=["#444444", "#b0b0b0"])
    n.add("Bus", name, carrier="AC")
    n.add("Load", name, bus=name, carrier="AC", p_set=demand.mw)
    n.add("Generator", CAP, bus=name, carrier=CAP, p_nom=demand.peak * (1 + margin))
    audit = demand.audit.assign(snapshot=demand.audit["snapshot"].astype(str)).astype(object)
    audit = audit.where(audit.notna(), None)
    kept = {name: getattr(demand, name) for name in ("source", "region", "column", "calendar", "stamps")}
    n.meta[META] = json.dumps({**kept, "attribution": attribution, "audit": audit.to_numpy().tolist()})
    return n


def network_demand(n: pypsa.Network) -> Demand:
    """Demand of a network: the sum of its loads in each snapshot.

    What `regional_network` has noted about provenance and changed hours comes with it.

    Parameters
    ----------
    n
        With hourly snapshots, of any number of buses.

    Raises
    ------
    InputError
        No load, snapshots that are not consecutive hours, or that stand for more than one.
    """
    faults = Faults(f"Demand of network '{n.name}'")
    faults.require(len(n.loads) > 0, "loads", 0, "at least one Load")
    hourly = isinstance(n.snapshots, pd.DatetimeIndex)
    faults.require(hourly, "snapshots", type(n.snapshots).__name__, "hours: a DatetimeIndex")
    if isinstance(n.snapshots, pd.DatetimeIndex):
        steps = n.snapshots[1:] - n.snapshots[:-1]
        faults.require(bool((steps == HOUR).all()), "snapshots", sorted(set(map(str, steps)))[:3], "steps of one hour")
    weightings = n.snapshot_weightings["objective"].unique()
    faults.require(
        bool((weightings == 1).all()), "snapshot_weightings", weightings.tolist()[:3], "1 h for each snapshot"
    )
    faults.raise_any()
    total = n.get_switchable_as_dense("Load", "p_set").mul(-n.loads["sign"]).sum(axis=1, skipna=False)
    if META not in n.meta:
        return Demand(total, source=f"network '{n.name}'", region=n.name, column="Load p_set")
    noted = json.loads(n.meta[META])
    rows = pd.DataFrame(noted["audit"], columns=list(AUDIT))
    rows = rows.assign(snapshot=pd.to_datetime(rows["snapshot"])).astype({"old": float, "new": float})
    audit = rows if len(rows) else no_findings()
    # Networks written before stamps were told have no word of them.
    told = noted.get("stamps", "")
    return Demand(total, audit, noted["source"], noted["region"], noted["column"], noted["calendar"], told)
