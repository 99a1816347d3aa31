"""Room at each bus and snapshot with a fixed dispatch: whether a site of given size fits, when not, and why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from pypsa_aidc.headroom.bus.base_case import Floats, Integers
from pypsa_aidc.headroom.bus.factors import Island
from pypsa_aidc.headroom.bus.transfer import GENERATION, NONE

LIMITED = "limited"
"""Status of an answer with megawatts and what limits them."""
_ROUNDING = 1e-9
_WORDS = {NONE: "", GENERATION: "generation of the sub-network"}


@dataclass(frozen=True, eq=False)
class Room:
    """Most that can be drawn at some buses of an island, and what limits it; arrays of shape (B, T).

    Attributes
    ----------
    island : Island
    buses : pandas.Index
    draw : numpy.ndarray
        MW; inf where nothing limits.
    branch, outage : numpy.ndarray
        Positions in the island's branches, or the codes of `transfer`.
    """

    island: Island
    buses: pd.Index
    draw: Floats
    branch: Integers
    outage: Integers

    @classmethod
    def none(
        cls, island: Island, buses: pd.Index, snapshots: int, branch: int = GENERATION, outage: int = NONE
    ) -> Room:
        """No room at all, because of one branch or for want of supply."""
        shape = (len(buses), snapshots)
        return cls(island, buses, np.zeros(shape), np.full(shape, branch), np.full(shape, outage))


def with_rooms(data: xr.Dataset, rooms: Sequence[Room], snapshots: pd.Index, needed: Floats | None) -> xr.Dataset:
    """Put rooms beside the answers of a headroom study.

    Parameters
    ----------
    data
        Over `bus`, with the labels of all branches as coordinate `branch`.
    rooms
        Those of all its buses.
    snapshots
        Of the study, T.
    needed
        Draw per MW of site less its relief, shape (T,); `None` where snapshots share relief and none decides alone.

    Returns
    -------
    xarray.Dataset
        With `draw` (MW), `limit` and `limit_outage` (positions in `branch`; `transfer.NONE`, `transfer.GENERATION`)
        over `bus` × `snapshot`; and unless `needed` is None `room`, the largest site that a snapshot alone allows (MW).
    """
    order = pd.Index(np.concatenate([room.buses for room in rooms])).get_indexer(data["bus"].to_numpy())
    labels = pd.Index(data["branch"].to_numpy())
    draw = np.concatenate([room.draw for room in rooms])[order]
    dims = ("bus", "snapshot")
    found = data.assign_coords(snapshot=snapshots.to_numpy()).assign(
        draw=(dims, draw, {"units": "MW", "long_name": "most that can be drawn at a snapshot"})
    )
    for name, attribute in (("limit", "branch"), ("limit_outage", "outage")):
        codes = np.concatenate([_placed(getattr(room, attribute), room.island, labels) for room in rooms])[order]
        found[name] = (dims, codes, {"long_name": f"position of the {attribute} in 'branch', below 0 if it is none"})
    if needed is None:
        return found
    size = np.divide(draw, needed, out=np.full(draw.shape, np.inf), where=needed > 0)
    # Where a base case has no room, a site that needs nothing has none either.
    size[(data["headroom"].to_numpy() == 0) & (draw == 0).all(axis=1)] = 0.0
    return found.assign(room=(dims, size, {"units": "MW", "long_name": "largest site that a snapshot alone allows"}))


def misfits(data: xr.Dataset, size: float) -> pd.DataFrame:
    """List buses and snapshots at which a site of a size does not fit; see `BusHeadroom.misfits`."""
    lacks = data["room"].to_numpy() < size * (1 - _ROUNDING)
    bus, snapshot = np.nonzero(lacks)
    labels = np.append(data["branch"].to_numpy(), [_WORDS[GENERATION], _WORDS[NONE]]).astype(object)
    index = pd.MultiIndex.from_arrays(
        [data["bus"].to_numpy()[bus], data["snapshot"].to_numpy()[snapshot]], names=["bus", "snapshot"]
    )
    columns = {name: data[name].to_numpy()[lacks] for name in ("room", "draw", "limit", "limit_outage")}
    table = pd.DataFrame(
        {
            "room": columns["room"],
            "draw": columns["draw"],
            # Codes below 0 count from the end of the labels.
            "element": labels[columns["limit"]],
            "outage": labels[columns["limit_outage"]],
        },
        index,
    )
    table.attrs["units"] = {"room": "MW", "draw": "MW"}
    return table


def fits(data: xr.Dataset, size: float) -> pd.DataFrame:
    """Tell for each bus whether a site of a size fits; see `BusHeadroom.fits`."""
    headroom = data["headroom"].to_series()
    enough = headroom >= size * (1 - _ROUNDING)
    table = pd.DataFrame({"fits": enough, "headroom": headroom})
    table["misfits"] = pd.array([0 if one else None for one in enough], dtype="Int64")
    for name, source in (("element", "element"), ("outage", "outage"), ("snapshot", "limiting_snapshot")):
        table[name] = data[source].to_series().where(~enough)
    table[["element", "outage"]] = table[["element", "outage"]].fillna("")
    if "room" in data:
        lacking = misfits(data, size)
        counts = lacking.groupby(level="bus", sort=False).size().reindex(table.index, fill_value=0)
        table["misfits"] = counts.astype("Int64")
        # Where nothing fits at any snapshot, the answer has the reason already.
        limited = lacking.index.get_level_values("bus").isin(table.index[data["status"].to_numpy() == LIMITED])
        table["element"] = (
            lacking[limited].groupby(level="bus")["element"].agg(_limits).reindex(table.index).fillna(table["element"])
        )
    table.attrs["units"] = {"headroom": "MW", "misfits": "snapshots"}
    return table


def _limits(elements: pd.Series[str]) -> str:
    """Name what limits, the most frequent first, with the number of snapshots."""
    counts = elements[elements != ""].value_counts()
    named = [f"{element} ({count})" for element, count in counts.head(3).items()]
    return ", ".join(named) + (f" and {len(counts) - 3} more" if len(counts) > 3 else "")


def _placed(codes: Integers, island: Island, labels: pd.Index) -> NDArray[np.int32]:
    """Positions in all branches from those in the island's; codes below 0 stay."""
    own = pd.Index([island.label(position) for position in range(len(island.branches))], dtype=object)
    places = np.append(labels.get_indexer(own), [GENERATION, NONE]).astype(np.int32)
    return places[codes]
