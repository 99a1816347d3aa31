"""The hours and outages that a service study rests on, checked by AC power flow beside the linear one."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import pandas as pd
import pypsa

from pypsa_aidc.errors import Faults, StaleError
from pypsa_aidc.headroom.bus.ac_check import ac_check
from pypsa_aidc.headroom.bus.slack import Slack
from pypsa_aidc.headroom.service.rating import Ratings
from pypsa_aidc.network.pypsa_api import copy_network

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pypsa_aidc.headroom.service.answer import ServiceStudy

FIXED = "fixed"
NOT_CHECKED = "not checked: no outage of one line or transformer"


@dataclass(frozen=True, eq=False)
class Basis:
    """What a study was made on: the network of each year, ratings, and what serves the loads."""

    networks: Mapping[int | None, pypsa.Network]
    ratings: Ratings
    slack: Slack


def check_binding(study: ServiceStudy, voltages: tuple[float, float], most: int) -> pd.DataFrame:
    """Check the binding cases of each year; see `ServiceStudy.ac_check`."""
    from pypsa_aidc.headroom.service.answer import fingerprint

    faults = Faults("ServiceStudy.ac_check")
    ways = list(study.allocation.index.unique("dispatch"))
    faults.require(FIXED in ways, "dispatch", ways, "a study with the dispatch as it is")
    faults.number("most", most, at_least=1, integer=True)
    faults.raise_any()
    for year, n in study.basis.networks.items():
        key = f"network{'' if year is None else f' {year}'}"
        faults.require(study.assumptions[key] == fingerprint(n), key, fingerprint(n), study.assumptions[key])
    faults.raise_any(StaleError)
    parts = []
    for year, n in study.basis.networks.items():
        for size in ("firm", "conditional"):
            wanted = _cases(study, year, size, most)
            if len(wanted):
                parts.append(_checked(study, n, year, size, wanted, voltages))
    keys = ["year", "size", "snapshot", "outage"]
    if not parts:
        return pd.DataFrame(columns=[*keys, "limits", "element", "fails"]).set_index(keys)
    table: pd.DataFrame = pd.concat(parts, ignore_index=True)
    return table.set_index(keys)


def _cases(study: ServiceStudy, year: int | None, size: str, most: int) -> pd.DataFrame:
    """Snapshot and outage that limit sizes, and of the conditional ones the deepest hour of each cause of cuts."""
    label = "" if year is None else year
    found = study.limiters.reset_index()
    found = found[(found["year"] == label) & (found["dispatch"] == FIXED) & (found["size"] == size)]
    found = found[found["element"] != ""][["request", "snapshot", "outage", "element"]]
    if size == "conditional":
        cuts = study.replay.reset_index()
        cuts = cuts[(cuts["year"] == label) & (cuts["dispatch"] == FIXED)]
        deepest = cuts.sort_values("cut", ascending=False, kind="stable").drop_duplicates(["element", "outage"])
        found = pd.concat([found, deepest[["request", "snapshot", "outage", "element"]]])
    rows = found.groupby(["snapshot", "outage"], sort=False).agg(
        limits=("request", lambda names: ", ".join(dict.fromkeys(names))), element=("element", "first")
    )
    return rows.reset_index().head(most)


def _checked(
    study: ServiceStudy,
    n: pypsa.Network,
    year: int | None,
    size: str,
    wanted: pd.DataFrame,
    voltages: tuple[float, float],
) -> pd.DataFrame:
    """Check some cases of one year, with what each load draws in them."""
    work = copy_network(n)
    study.basis.ratings.apply(work)
    loads, factors = _loads(study, n, year, size)
    outages = {outage: _branch(work, outage) for outage in wanted["outage"].unique()}
    known = [(row.snapshot, outages[row.outage]) for row in wanted.itertuples() if outages[row.outage] is not False]
    checked = pd.DataFrame()
    if known:
        checked = ac_check(
            work,
            loads,
            cast("Any", known),
            power_factor=factors,
            slack=study.basis.slack,
            voltages=voltages,
            emergency=study.basis.ratings.after_outage,
        ).reset_index()
        checked = checked.drop_duplicates(["snapshot", "outage"])
    else:
        checked = pd.DataFrame(columns=["snapshot", "outage", "fails"])
    table = wanted.merge(checked, how="left", on=["snapshot", "outage"])
    table["fails"] = table["fails"].fillna(NOT_CHECKED)
    return table.assign(year="" if year is None else year, size=size)


def _loads(
    study: ServiceStudy, n: pypsa.Network, year: int | None, size: str
) -> tuple[dict[str, pd.Series], dict[str, float]]:
    """MW by bus and snapshot, and the power factor of each bus, by megawatts where several loads share it."""
    label = "" if year is None else year
    loads: dict[str, pd.Series] = {}
    active: dict[str, float] = {}
    reactive: dict[str, float] = {}
    for request in study.requests:
        megawatts = float(cast("Any", study.allocation.loc[(label, request.name, FIXED), size]))
        drawn = pd.Series(megawatts, n.snapshots)
        if size == "conditional":
            drawn = drawn - study.cut(request.name, year)["cut"].reindex(n.snapshots, fill_value=0.0)
        loads[request.bus] = loads.get(request.bus, pd.Series(0.0, n.snapshots)) + drawn.clip(lower=0.0)
        active[request.bus] = active.get(request.bus, 0.0) + float(drawn.max())
        reactive[request.bus] = reactive.get(request.bus, 0.0) + request.mvar * float(drawn.max())
    ratio = {bus: reactive[bus] / active[bus] if active[bus] > 0 else 0.0 for bus in loads}
    return loads, {bus: math.cos(math.atan(value)) for bus, value in ratio.items()}


def _branch(n: pypsa.Network, label: str) -> tuple[str, str] | bool | None:
    """The line or transformer that a label names; `None` for no outage, False for any other."""
    if not label:
        return None
    for component in ("Line", "Transformer"):
        name = label.removeprefix(f"{component} ")
        if name != label and name in n.c[component].static.index:
            return component, str(name)
    return False
