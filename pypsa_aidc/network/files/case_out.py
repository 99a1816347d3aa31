"""One snapshot of a network as a case of MATPOWER or PSS/E, its AIDCs as loads, for those who study it further."""

from __future__ import annotations

import io
import math
import re
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pandas as pd
import pypsa

from pypsa_aidc.errors import Faults
from pypsa_aidc.network.carriers import electric
from pypsa_aidc.network.loads.registry import loads
from pypsa_aidc.network.pypsa_api import copy_network, quiet_pypsa

WRITTEN = {".m": "matpower", ".raw": "psse"}
"""Formats by suffix, in powerio's words."""

_NO_LIMIT = "9999"
_POWER = {"Generator": "p", "StorageUnit": "p", "Store": "p", "Link": "p0"}


def case_text(n: pypsa.Network, suffix: str, snapshot: Any, power_factor: float, faults: Faults) -> str:
    """Text of a case, written by powerio from PyPSA's own tables.

    Parameters
    ----------
    n
        Network with AIDCs, solved or with set points; not changed.
    suffix
        One of `WRITTEN`.
    snapshot
        Which one.
    power_factor
        Of the AIDCs, lagging.
    faults
        Raised, with all that is wrong.
    """
    try:
        import powerio
    except ImportError:
        faults.add("path", suffix, "powerio, which writes cases", "pip install 'pypsa-aidc[cases]'")
        faults.raise_any()
    plain = copy_network(n)
    drawn: list[tuple[str, str, float]] = []
    for name, load in loads(n).items():
        bus = next(iter(load.accounts(n).values())).bus
        drawn.append((name, bus, float(load.power(n)["meter"].get(snapshot, math.nan))))
        load.remove(plain, name)
    for name, _, power in drawn:
        faults.require(math.isfinite(power), f"power of {name!r} at {snapshot}", power, "a number", "Solve it first.")
    # What stands at a bus of its own, such as a battery, its meter has already.
    for component, inside in _without_bus(plain).items():
        apart = component not in plain.branch_components
        faults.require(apart, component, inside[:3], "no branches from the own bus of an AIDC to others")
        plain.remove(component, inside)
    foreign = list(plain.buses.index[~electric(plain)][:3])
    faults.require(not foreign, "buses", foreign, "buses of the grid alone")
    extendable = [name for c in plain.components for name in _extendable(c.static)]
    remedy = "Call n.optimize.fix_optimal_capacities()."
    faults.require(not extendable, "extendable", extendable[:3], "fixed capacities", remedy)
    faults.raise_any()
    for component, word in _POWER.items():
        c = plain.c[component]
        solved = c.dynamic[word]
        given = solved if len(solved.columns) else plain.get_switchable_as_dense(component, "p_set")
        chosen = given.loc[snapshot].reindex(c.static.index).fillna(0.0)
        c.dynamic["p_set"] = pd.DataFrame(index=plain.snapshots)
        c.static["p_set"] = chosen
    for c in plain.components:
        for attribute, series in c.dynamic.items():
            if attribute in c.static and len(series.columns):
                c.static.loc[series.columns, attribute] = series.loc[snapshot]
            c.dynamic[attribute] = series.iloc[:, :0]
        if "active" in c.static and not c.static["active"].all():
            plain.remove(c.name, c.static.index[~c.static["active"]])
    plain.set_snapshots(["now"])
    _as_loads(plain)
    for name, bus, power in drawn:
        plain.add("Load", name, bus=bus, p_set=power, q_set=power * math.tan(math.acos(power_factor)))
    with TemporaryDirectory() as folder, quiet_pypsa():
        for c in plain.components:
            if len(c.static):
                c.static.to_csv(Path(folder, f"{c.list_name}.csv"), index_label="name")
        text = powerio.emit(powerio.parse(folder, format="pypsa-csv"), "matpower").text or ""
    text = _with_voltages(text, plain)
    if WRITTEN[suffix] == "matpower":
        return text
    return powerio.emit(powerio.parse(io.StringIO(text), format="matpower"), WRITTEN[suffix]).text or ""


def _without_bus(n: pypsa.Network) -> dict[str, list[str]]:
    """Names of components, by kind, whose bus is not there."""
    found: dict[str, list[str]] = {}
    for c in n.components:
        for column in c.static if c.name not in ("Bus", "SubNetwork") else ():
            if re.fullmatch("bus[0-9]*", str(column)) and len(c.static):
                lost = c.static.index[~c.static[column].isin(["", *n.buses.index])]
                found[c.name] = list(dict.fromkeys([*found.get(c.name, []), *lost]))
    return {name: rows for name, rows in found.items() if rows}


def _extendable(static: pd.DataFrame) -> list[str]:
    columns = [column for column in static if str(column).endswith("_nom_extendable")]
    return [str(name) for column in columns for name in static.index[static[column].astype(bool)]]


def _as_loads(n: pypsa.Network) -> None:
    """Turn what a case has no row for, storage and generators that draw, into loads of their power."""
    drawing = n.generators.index[n.generators["sign"] < 0]
    for component, rows in (("Generator", drawing), ("StorageUnit", n.storage_units.index), ("Store", n.stores.index)):
        static = n.c[component].static.loc[rows]
        for name, row in static.iterrows():
            n.add("Load", f"{component} {name}", bus=row["bus"], p_set=-row["sign"] * row["p_set"])
        n.remove(component, rows)


def _with_voltages(text: str, n: pypsa.Network) -> str:
    """Give generators the voltage of their bus, and all rows limits that are numbers, which readers want."""
    set_to = dict(zip(range(1, len(n.buses) + 1), n.buses["v_mag_pu_set"], strict=True))

    def row(found: re.Match[str]) -> str:
        cells = found.group(0).rstrip(";").split("\t")
        cells[6] = repr(float(set_to[int(cells[1])]))
        return "\t".join(cells) + ";"

    head, table, rest = re.split(r"(mpc\.gen = \[.*?\];)", text, maxsplit=1, flags=re.DOTALL)
    text = head + re.sub(r"^\t.*;$", row, table, flags=re.MULTILINE) + rest
    return re.sub(r"(?<=\t)(-?)inf(?=[\t;])", rf"\g<1>{_NO_LIMIT}", text)
