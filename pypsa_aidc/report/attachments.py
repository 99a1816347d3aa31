"""What is given beside the network, and its sections: surface K, contract, headroom."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Protocol

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pypsa_aidc.errors import InputError
from pypsa_aidc.fleet import Contract, Surface
from pypsa_aidc.markup import Table, shown, whole
from pypsa_aidc.network import Results
from pypsa_aidc.report.document import Map, Picture, Section

if TYPE_CHECKING:
    import pydeck


class Headroom(Protocol):
    """A result on headroom: anything that knows its table and its picture."""

    def to_frame(self) -> pd.DataFrame:
        """One row a bus or a case; units in ``attrs["units"]``."""

    def plot(self) -> Figure | Axes:
        """Draw it, as a map where there are places."""


@dataclass(frozen=True)
class Attachments:
    """What is given beside the network; parameters as for `report`."""

    surface: Surface | None = None
    contract: Contract | None = None
    headroom: Headroom | None = None
    values: pd.DataFrame | None = None
    provenance: Mapping[str, object] = field(default_factory=dict)
    synthetic: tuple[str, ...] = ()
    peak: float | None = None
    backtest: pd.DataFrame | None = None
    interactive: bool = False

    def sections(self, results: Results, peaks: pd.Series[float]) -> tuple[Section, ...]:
        """Sections on surface, contract, headroom and places, as far as they are there; `peaks` at the meters, MW."""
        found = []
        if self.surface is not None:
            found.append(_surface(self.surface))
        if self.contract is not None:
            found.append(_contract(self.contract, self.peak, peaks, self.backtest))
        if self.headroom is not None:
            found.append(_headroom(self.headroom))
        if self.interactive:
            frame = None if self.headroom is None else self.headroom.to_frame()
            found.append(moving_map(results.plot.explore, frame if frame is not None and "headroom" in frame else None))
        return tuple(found)


def _surface(surface: Surface) -> Section:
    """Dependable power by duration and reliability."""
    attrs = surface.data.attrs
    highest, lowest = (shown(float(getattr(np, f"nan{end}")(surface.K.to_numpy()))) for end in ("max", "min"))
    alt = f"Dependable power K over duration, one line for each reliability, between {lowest} and {highest} MW."
    text = (
        "K is the power that is there for a duration with a reliability, per event and unconditional, over the history "
        f"of the fleet; method {attrs.get('method', 'unknown')}, realised fraction q = {attrs.get('q', 1):g}, "
        f"condition: {attrs.get('condition', 'none')}. Source: {attrs.get('source', 'unknown')}.",
    )
    pictures = (Picture("Dependable power K", alt, surface.plot()),)
    tables = (
        Table("Surface K", surface.by_duration()),
        Table("Surface K long", surface.to_frame(), {"K": "MW"}, long=True),
    )
    return Section("Dependable power", text, pictures, tables)


def _contract(
    contract: Contract, peak: float | None, peaks: pd.Series[float], backtest: pd.DataFrame | None
) -> Section:
    """Term sheet of a relief product, beside the sizes it is of and not of, and how its K has held."""
    alt = (
        f"One call: {shown(contract.offer)} MW of relief for {contract.duration} h, then "
        f"{shown(contract.rebound_energy)} MWh of rebound within {shown(contract.recovery_time)} h."
    )
    text: tuple[str, ...] = (
        f"Terms that the history of the fleet supports. Source: {contract.source or 'not stated'}. Net over gross "
        f"energy of a call is {shown(contract.net_energy)}; below 0, a call costs energy.",
    )
    tables = [Table("Terms", contract.to_frame())]
    if peak is not None:
        share = contract.offer / peak
        text += (
            f"The offer is that of a fleet of {shown(peak)} MW, {100 * share:.3g} % of its peak. A site that behaves "
            "like it could offer the same share of its own peak.",
        )
        sizes = pd.DataFrame({"whose": ["the fleet of the contract", *map(str, peaks.index)], "peak": [peak, *peaks]})
        units = {"peak": "MW", "offer": "MW"}
        tables.append(Table("Offer by size", sizes.assign(offer=share * sizes["peak"]), units))
    if backtest is not None:
        tables.append(Table("Backtest of K, absolute MW", backtest))
    return Section(
        "Contract term sheet", text, (Picture("A call and its rebound", alt, contract.plot()),), tuple(tables)
    )


def _headroom(headroom: Headroom) -> Section:
    """Table and map of headroom, with what limits it where the result says so."""
    frame = headroom.to_frame()
    units = {str(column): str(unit) for column, unit in dict(frame.attrs.get("units", {})).items()}
    if "headroom" in frame:
        units.setdefault("headroom", "MW")
        known = frame["headroom"][np.isfinite(frame["headroom"])]
        alt = f"Map of headroom at {len(frame)} buses, {shown(known.min())} to {shown(known.max())} MW."
    else:
        alt = f"Headroom, {len(frame)} rows; the numbers are in the table."
    tables = [Table("Headroom", frame, units)]
    if {"headroom", "element"} <= set(frame):
        tables.insert(0, Table("What limits headroom", _limits(frame), {"least": "MW", "most": "MW"}))
    pictures, absent = [], []
    try:
        pictures.append(Picture("Headroom", alt, whole(headroom.plot())))
    except InputError as error:
        absent.append(f"There is no map: {'; '.join(map(str, error.faults))}")
    attrs = getattr(getattr(headroom, "data", None), "attrs", {})
    asked = [f"{name}: {attrs[name]}" for name in ("method", "contingencies", "response") if attrs.get(name)]
    told = ["; ".join(asked), *str(attrs.get("notes", "")).split("; ")]
    text = [f"{part[0].upper()}{part[1:]}." for part in told if part]
    return Section("Headroom", tuple(text), tuple(pictures), tuple(tables), tuple(absent))


def moving_map(
    explore: Callable[[pd.DataFrame | None], pydeck.Deck],
    megawatts: pd.DataFrame | None,
    title: str = "The network and its AI data centers",
    quantity: str = "headroom",
) -> Section:
    """A map to move about in; where buses have no place, why there is none."""
    from pypsa_aidc.plots import bus_map

    try:
        deck = explore(megawatts)
    except InputError as error:
        return Section("Map", absent=(f"There is no map: {'; '.join(map(str, error.faults))}",))
    with TemporaryDirectory() as folder:
        page = bus_map.save(deck, Path(folder) / "map.html", "Network", megawatts, quantity).read_text(encoding="utf-8")
    said = "Drag to move, turn the wheel to zoom; what is under the pointer says its name and numbers."
    return Section("Map", (said,), maps=(Map(title, page),))


def _limits(frame: pd.DataFrame) -> pd.DataFrame:
    """How many buses each element limits, and how much they may take."""
    named = frame["element"].fillna("").astype(str).replace("", "nothing")
    grouped = frame["headroom"].groupby(named.rename("limited by"))
    table = pd.DataFrame({"buses": grouped.size(), "least": grouped.min(), "most": grouped.max()})
    return table.sort_values(["buses", "least"], ascending=[False, True], kind="stable")
