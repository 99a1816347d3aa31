"""The section of a report on fleets: their terms, what they drew and shed, their calls, and what held them back."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd

from pypsa_aidc.network.loads.fleet.fleet import Fleet
from pypsa_aidc.network.results.accessor import Results
from pypsa_aidc.plots import solve as solve_plots
from pypsa_aidc.report.document import Picture, Section, Table, shown

if TYPE_CHECKING:
    import pypsa

MOST_FLEETS = 6
"""Fleets that get figures of their own; with more, only tables are shown."""

_FORMS = {
    "firm": "no relief",
    "path": "relief along a series",
    "windows": "mean relief over every window",
    "calls": "calls by duration",
}


def section(n: pypsa.Network) -> Section:
    """Terms, power, calls and limits of all fleets."""
    accessor = Results(n)
    found, power, calls, limits = accessor.fleets, accessor.power(), accessor.calls(), accessor.fleet_limits()
    sizes = accessor.fleet_sizes()
    terms = pd.DataFrame([_terms(n, fleet) for fleet in found.values()]).set_index("fleet")
    tables = [Table("Fleets", _served(n, power, sizes), _SERVED), Table("Terms of fleets", terms, _TERMS)]
    L = sizes["p_nom"].to_dict()
    depths = pd.DataFrame([row for name, fleet in found.items() for row in _depths(fleet, L[name])])
    units = {str(name): str(unit) for name, unit in calls.attrs["units"].items()}
    if len(depths):
        tables.append(Table("Relief by duration", depths.set_index("fleet"), _DEPTHS))
    if len(limits):
        tables.append(Table("Limits of fleets", limits.assign(binds=limits["reached"] > 0).set_index("fleet")))
    if len(calls):
        tables.append(Table("Calls", calls.set_index("fleet"), units))
    own = power[list(found)]
    tables.append(Table("Fleet power by snapshot", own, dict.fromkeys(map(str, own.columns), "MW"), long=True))
    text, absent = [_bound(limits, calls, found)], []
    pictures: tuple[Picture, ...] = ()
    if len(found) <= MOST_FLEETS:
        pictures = tuple(_picture(fleet, pd.DataFrame(power[fleet]), calls[calls["fleet"] == fleet]) for fleet in found)
    else:
        absent.append(f"{len(found)} fleets: none is drawn; all are in the workbook.")
    text.append(
        "The meter of a fleet is its load less relief plus rebound. Without calls by duration, each stretch of relief "
        "counts as a call. A limit binds where it is reached at least once; a budget, where no further call fits in."
    )
    return Section("Fleets", tuple(text), pictures, tuple(tables), tuple(absent))


def payments(n: pypsa.Network, accessor: Results, price: pd.DataFrame) -> pd.DataFrame:
    """What each fleet pays at the price of its bus, by part; relief counts as energy that is not paid for.

    Returns
    -------
    pandas.DataFrame
        Index (fleet, part); `energy` (MWh, negative for relief), `payment` (USD), `paid` and `mean_price` (USD/MWh) and
        `timing` (USD), as in the table of sites. The cost of relief itself is none of these payments.
    """
    power, table = accessor.power(), {}
    weight = n.snapshot_weightings["objective"].loc[power.index]
    for fleet in accessor.fleets:
        mean = float(price[fleet].to_numpy(float) @ weight.to_numpy(float) / weight.sum())
        for part, sign in (("load", 1.0), ("relief", -1.0), ("rebound", 1.0), ("meter", 1.0)):
            series = sign * power[fleet, part] * weight
            energy, payment = float(series.sum()), float(series.to_numpy(float) @ price[fleet].to_numpy(float))
            paid = payment / energy if abs(energy) > 1e-9 else float("nan")
            table[fleet, part] = (energy, payment, paid, mean, mean * energy - payment)
    columns = ["energy", "payment", "paid", "mean_price", "timing"]
    frame = pd.DataFrame.from_dict(table, orient="index", columns=columns)
    frame.index = pd.MultiIndex.from_tuples(list(table), names=["fleet", "part"])
    return frame


_SERVED = {
    "p_nom": "MW",
    "load": "MWh",
    "served": "MWh",
    "peak": "MW",
    "least": "MW",
    "hours_of_relief": "h",
    "relief": "MWh",
    "rebound": "MWh",
}


def _served(n: pypsa.Network, power: pd.DataFrame, sizes: pd.DataFrame) -> pd.DataFrame:
    """Size, energy and power of each fleet; `served` is what its meter delivered."""
    hours = n.snapshot_weightings["stores"].loc[power.index]
    frame = sizes[["bus", "p_nom"]].copy()
    for name, part in (("load", "load"), ("served", "meter")):
        frame[name] = [float(power[fleet, part] @ hours) for fleet in frame.index]
    frame["peak"] = [float(power[fleet, "meter"].max()) for fleet in frame.index]
    frame["least"] = [float(power[fleet, "meter"].min()) for fleet in frame.index]
    own = {"calls": "calls", "hours": "hours_of_relief", "energy": "relief", "rebound": "rebound"}
    return frame.join(sizes[list(own)].rename(columns=own))


_TERMS = {"checkpoint": "h", "hours": "h"}


def _terms(n: pypsa.Network, fleet: Fleet) -> dict[str, object]:
    terms, row = fleet.terms, n.generators.loc[fleet.name]
    bounds = f"free, {shown(float(row['p_nom_min']))} to {shown(float(row['p_nom_max']))} MW"
    return {
        "fleet": fleet.name,
        "size": bounds if row["p_nom_extendable"] else "given",
        "relief": _FORMS[terms.form] + (", in blocks" if terms.block else ""),
        "hours": "any" if terms.hours is None else terms.hours,
        "events": "any" if terms.events is None else terms.events,
        "per": terms.per if terms.has_budget else "–",
        "rebound": terms.rebound,
        "checkpoint": terms.checkpoint,
        "source": (fleet.source or "not stated") + (" (synthetic)" if fleet.synthetic else ""),
    }


_DEPTHS = {"duration": "h", "depth": "MW", "share_of_size": "%", "pause": "h"}


def _depths(fleet: Fleet, size: float) -> list[dict[str, object]]:
    terms = fleet.terms
    pauses = terms.recovery or (float("nan"),) * len(terms.durations)
    return [
        {"fleet": fleet.name, "duration": hours, "depth": depth * size, "share_of_size": 100 * depth, "pause": pause}
        for hours, depth, pause in zip(terms.durations, terms.depths, pauses, strict=True)
    ]


def _bound(limits: pd.DataFrame, calls: pd.DataFrame, found: dict[str, Fleet]) -> str:
    """What binds, in a sentence a fleet."""
    words = []
    for fleet, each in found.items():
        binding = limits[(limits["fleet"] == fleet) & (limits["reached"] > 0)]["limit"].to_list()
        if binding:
            words.append(f"{fleet} is held back by {', '.join(map(str, binding))}.")
        elif each.terms.form == "firm":
            words.append(f"{fleet} has no relief.")
        elif not (calls["fleet"] == fleet).any():
            words.append(f"{fleet} sheds nothing: at its cost there was no use for its relief.")
        else:
            words.append(f"No limit of {fleet} binds.")
    return " ".join(words)


def _picture(fleet: str, power: pd.DataFrame, calls: pd.DataFrame) -> Picture:
    meter = power["meter"]
    verb = "call sheds" if len(calls) == 1 else "calls shed"
    shed = f"{len(calls)} {verb} {shown(float(calls['energy'].sum()))} MWh" if len(calls) else "nothing is shed"
    alt = (
        f"Power of {fleet} at the meter over time, {shown(float(meter.min()))} to {shown(float(meter.max()))} MW, with "
        f"its calls marked: {shed}."
    )
    return Picture(f"{fleet}: power, relief and calls", alt, solve_plots.fleet(power, calls, fleet))
