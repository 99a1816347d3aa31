"""The table of `pypsa-aidc dispatch`: Table IV of [1] for the bundled campus, what fits any network for one's own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd
import pypsa
from rich import box
from rich.table import Table

from pypsa_aidc.network import Result, indicators
from pypsa_aidc.network.pypsa_api import names

Column = tuple[str, str, str]
"""Heading, unit and format."""

_CAMPUS: dict[str, Column] = {
    "cost": ("cost", "USD", ".2f"),
    "reduction": ("saved", "%", ".2f"),
    "grid": ("grid", "MWh", ".3f"),
    "curtailment": ("curt.", "MWh", ".3f"),
    "battery": ("BESS", "MWh", ".3f"),
    "utilisation": ("RE", "%", ".2f"),
    "green": ("green", "%", ".2f"),
    "peak_kw": ("peak", "kW", ".1f"),
    "peak_gpus": ("peak", "GPUs", ".0f"),
}
"""Table IV of [1], in its units."""

_OWN: dict[str, Column] = {
    "cost": ("cost", "USD", ",.0f"),
    "reduction": ("saved", "%", ".2f"),
    "non_renewable": ("non-RE", "MWh", ",.0f"),
    "curtailment": ("curt.", "MWh", ",.1f"),
    "battery": ("storage", "MWh", ",.1f"),
    "utilisation": ("RE used", "%", ".1f"),
    "green": ("green", "%", ".1f"),
    "peak_mw": ("peak", "MW", ",.2f"),
    "peak_gpus": ("peak", "GPUs", ",.0f"),
}


@dataclass(frozen=True)
class Run:
    """One scenario, solved."""

    scenario: str
    network: pypsa.Network
    result: Result | None
    indicators: dict[str, float]
    failure: str = ""

    @property
    def status(self) -> str:
        """How the solve ended, in a word or two."""
        if self.result is None:
            return "no solution"
        above = abs(self.result.objective - self.result.bound)
        if above < 5e-3 or self.result.optimal:
            return self.result.status.replace("_", " ")
        return f"gap {above:.2f}" if pd.notna(above) and above < float("inf") else "no bound yet"


def columns_of(base: pypsa.Network, bundled: bool, storages: list[str]) -> dict[str, Column]:
    """Columns that mean something for a network.

    A green share is that of the sites only where nothing else draws power, and storage has a column where scenarios
    differ by it.
    """
    if bundled:
        return _CAMPUS
    left_out = [] if storages else ["battery"]
    if has_other_loads(base):
        left_out.append("green")
    return {key: column for key, column in _OWN.items() if key not in left_out}


def has_other_loads(n: pypsa.Network) -> bool:
    """Whether anything but the sites with training jobs draws power."""
    own = [site.base for site in n.aidc.sites.values()]
    demand = n.get_switchable_as_dense("Load", "p_set")
    others = demand.loc[:, ~names(demand.columns).isin(own)]
    return bool((others != 0).to_numpy().any()) or bool(n.aidc.fleets)


def values_of(n: pypsa.Network, storages: list[str]) -> dict[str, float]:
    """Indicators of a solved network under the keys of both kinds of table."""
    values = indicators(n, storages)
    renamed = {"non_renewable": values["grid"]}
    for key in ("peak", "least"):
        kilowatts = values.pop(key)
        renamed |= {f"{key}_kw": kilowatts, f"{key}_mw": kilowatts / 1e3}
    return values | renamed


def frame_of(runs: list[Run], columns: Mapping[str, Column], paper: pd.DataFrame | None) -> pd.DataFrame:
    """One row a scenario, with the paper's values in columns of their own."""
    frame = pd.DataFrame.from_dict({run.scenario: run.indicators for run in runs}, orient="index").rename_axis(
        "scenario"
    )
    least = "least_kw" if "peak_kw" in columns else "least_mw"
    frame = frame.reindex(columns=[column for column in columns if column != "reduction"] + [least])
    reference = next((run.indicators.get("cost") for run in runs if run.scenario == "S1"), None) or float("nan")
    frame.insert(1, "reduction", 100 * (1 - frame["cost"] / reference))
    frame["status"] = [run.status for run in runs]
    frame["gap_usd"] = [abs(run.result.objective - run.result.bound) if run.result else float("nan") for run in runs]
    if paper is not None:
        for column in paper:
            frame[f"{column}_paper"] = paper[column].reindex(frame.index)
    return frame


def units_of(columns: Mapping[str, Column]) -> dict[str, str]:
    """Unit by column of the frame."""
    units = {key: unit for key, (_, unit, _) in columns.items()} | {"gap_usd": "USD"}
    return units | ({"least_kw": "kW"} if "peak_kw" in columns else {"least_mw": "MW"})


def table_of(frame: pd.DataFrame, runs: list[Run], columns: Mapping[str, Column]) -> Table:
    """For people, within 80 columns."""
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    table.add_column("", no_wrap=True)
    for label, unit, _ in columns.values():
        table.add_column(f"{label}\n{unit}", justify="right", no_wrap=True)
    table.add_column("status")
    values = frame.to_dict(orient="index")
    for run in runs:
        row = values[run.scenario]
        ours = [_cell(row[key], form) for key, (*_, form) in columns.items()]
        table.add_row(run.scenario, *ours, run.status)
        if "cost_paper" in frame:
            paper = [_cell(row[f"{key}_paper"], form) for key, (*_, form) in columns.items()]
            table.add_row(" [1]", *paper, "paper", style="dim")
    return table


def _cell(value: Any, form: str) -> str:
    return "-" if value is None or pd.isna(value) else format(float(value) + 0.0, form)
