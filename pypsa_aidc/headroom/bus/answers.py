"""The answer of a bus headroom study: megawatts at each bus, and always what limits them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import pypsa
import xarray as xr

from pypsa_aidc.errors import Faults
from pypsa_aidc.headroom.bus.base_case import Floats, branch_table
from pypsa_aidc.headroom.bus.rooms import LIMITED, Room, fits, misfits, with_rooms
from pypsa_aidc.plain import counted, read_saved

if TYPE_CHECKING:
    from matplotlib.figure import Figure

UNLIMITED = "unlimited"
OVERLOADED = "overloaded base case"
NO_SUPPLY = "no supply"
STATUSES = (LIMITED, UNLIMITED, OVERLOADED, NO_SUPPLY)

_COLUMNS = {
    "headroom": ("MW", "largest site"),
    "status": ("", f"one of {', '.join(STATUSES)}"),
    "element": ("", "what limits: component and name"),
    "outage": ("", "outage with which it limits, empty for none"),
    "snapshot": ("", "snapshot at which it limits"),
    "shadow_value": ("MW/MW", "headroom for each MW of the element"),
    "excess": ("MW", "overload of the element in the base case"),
    "base_use": ("1", "share of the element's rating that the base dispatch uses; without redispatch"),
    "cut_off_by": ("", "single outages that cut the bus off, separated by semicolons"),
}
_TRAINING = ("copies", "copies_bound", "schedule")


@dataclass(frozen=True)
class Answer:
    """Headroom at one bus.

    Attributes
    ----------
    headroom : float
        Largest site, MW; inf if nothing limits it, never negative (`excess` says by how much the base case fails).
    status : str
        One of `STATUSES`.
    element : str
        What limits: ``"Line 12"``, ``"generation of sub-network 0"``, a reason, or "".
    outage : str
        Outage with which it limits; "" without outage.
    snapshot : object
        Snapshot at which it limits, or `None`.
    shadow_value : float
        MW of headroom for each MW of rating of the element; NaN where there is none.
    excess : float
        MW by which the element is overloaded before anything is added; 0 otherwise.
    base_use : float
        Share of the rating of the element that the base dispatch uses, with the outage; NaN with redispatch, or where
        it is no branch.
    cut_off_by : tuple of str
        Single outages that cut the bus off from the larger part of its sub-network.
    """

    headroom: float
    status: str
    element: str = ""
    outage: str = ""
    snapshot: object = None
    shadow_value: float = float("nan")
    excess: float = 0.0
    base_use: float = float("nan")
    cut_off_by: tuple[str, ...] = ()


@dataclass(frozen=True, repr=False)
class BusHeadroom:
    """Headroom at the buses of a network.

    Attributes
    ----------
    data : xarray.Dataset
        Over `bus`: the fields of `Answer`, and place `x`, `y`; over `branch`: `bus0`, `bus1`, and the place of their
        ends; over `bus` × `snapshot`, where it was asked for: `draw`, the most that can be drawn (MW), `limit` and
        `limit_outage`, the positions in `branch` of what limits it, and without a contract `room`, the largest site
        that this snapshot alone allows (MW); of
        `training_headroom` also `copies`, `copies_bound`, `schedule` and `power`. Attributes: `method`,
        `contingencies`, `slack`, `emergency`, `cutoff`, `overloads`, `response`, `splitting`, `notes`.
    """

    data: xr.Dataset

    @classmethod
    def of(
        cls,
        n: pypsa.Network,
        answers: dict[str, Answer],
        attrs: dict[str, str | float],
        rooms: Sequence[Room] = (),
        needed: Floats | None = None,
    ) -> BusHeadroom:
        """Put answers by bus, and the map of the network, into one dataset."""
        buses = list(answers)
        columns = {name: [getattr(answers[bus], name) for bus in buses] for name in _COLUMNS}
        columns["cut_off_by"] = ["; ".join(names) for names in columns["cut_off_by"]]
        data = xr.Dataset(coords={"bus": ("bus", np.array(buses, dtype=object))}, attrs=attrs)
        for name, (unit, meaning) in _COLUMNS.items():
            values = _snapshots(columns[name], n.snapshots) if name == "snapshot" else np.array(columns[name])
            data["limiting_snapshot" if name == "snapshot" else name] = (
                "bus",
                values.astype(object) if values.dtype.kind in "UTO" else values,
                {"long_name": meaning} | ({"units": unit} if unit else {}),
            )
        place = n.buses.loc[buses, ["x", "y"]].astype(float)
        data = data.assign(x=("bus", place["x"].to_numpy()), y=("bus", place["y"].to_numpy()))
        table = branch_table(n)
        labels = np.array([f"{component} {name}" for component, name in table.index], dtype=object)
        data = data.assign_coords(branch=("branch", labels))
        for end in ("bus0", "bus1"):
            data[end] = ("branch", table[end].to_numpy(dtype=object))
            for axis in ("x", "y"):
                values = n.buses[axis].reindex(table[end]).to_numpy(float)
                data[f"{end}_{axis}"] = ("branch", values)
        return cls(with_rooms(data, rooms, n.snapshots, needed) if rooms else data)

    def __repr__(self) -> str:
        frame, attrs = self.to_frame(), self.data.attrs
        counts = ", ".join(f"{count} {status}" for status, count in frame["status"].value_counts().items())
        finite = frame.loc[np.isfinite(frame["headroom"]), "headroom"]
        rows = [f"BusHeadroom({attrs['method']}, contingencies: {attrs['contingencies']}, {attrs['response']})"]
        rows.append(f"  {counted(len(frame), 'bus')}: {counts}")
        if len(finite):
            rows.append(
                f"  MW: least {finite.min():.4g}, median {finite.median():.4g}, most {finite.max():.4g} "
                f"at bus {finite.idxmax()!r}"
            )
        rows += [f"  {note}" for note in str(attrs["notes"]).split("; ") if note]
        return "\n".join(rows)

    def _repr_html_(self) -> str:
        """Return what a notebook shows: the buses with the most headroom first, and the map."""
        from pypsa_aidc.markup import Table, card

        return card(self, lambda: [Table("", self.to_frame().sort_values("headroom", ascending=False))], self.plot)

    @property
    def headroom(self) -> pd.Series:
        """Largest site by bus, MW."""
        return self.to_frame()["headroom"]

    def to_frame(self) -> pd.DataFrame:
        """One row a bus: the fields of `Answer`, those of `training_headroom` if it is one; nothing by snapshot."""
        names = ["limiting_snapshot" if name == "snapshot" else name for name in _COLUMNS]
        names += [name for name in _TRAINING if name in self.data]
        frame = self.data[names].to_dataframe()
        frame = frame.rename(columns={"limiting_snapshot": "snapshot"})
        frame.attrs["units"] = {name: unit for name, (unit, _) in _COLUMNS.items() if unit}
        return frame

    def fits(self, size: float) -> pd.DataFrame:
        """Tell whether a site of a size fits at each bus, at how many snapshots it does not, and what limits it then.

        Parameters
        ----------
        size
            MW, above 0.

        Returns
        -------
        pandas.DataFrame
            One row a bus: `fits`, `headroom` (MW), `misfits` (number of snapshots at which it does not fit; missing
            where only the whole is known: with redispatch, with a contract, or without ``by_snapshot=True``),
            `element` (what limits it, with the number of snapshots where they are known), and `outage` and `snapshot`
            of the tightest one.

        Examples
        --------
        >>> import pypsa
        >>> n = pypsa.Network(snapshots=range(3))
        >>> _ = n.add("Bus", ["A", "B"], v_nom=230.0)
        >>> _ = n.add("Line", "1", bus0="A", bus1="B", x=0.1, s_nom=100.0)
        >>> _ = n.add("Generator", "G", bus="A", p_nom=300.0, p_set=[50.0, 90.0, 60.0])
        >>> _ = n.add("Load", "L", bus="B", p_set=[50.0, 90.0, 60.0])
        >>> found = n.aidc.headroom(by_snapshot=True)
        >>> print(*found.fits(45.0)[["fits", "headroom", "misfits", "element"]].loc["B"])
        False 10.0 2 Line 1 (2)
        >>> found.misfits(45.0)["room"].tolist()
        [10.0, 40.0]
        """
        _check_size(size)
        return fits(self.data, float(size))

    def misfits(self, size: float) -> pd.DataFrame:
        """List the snapshots at which a site of a size does not fit, and what limits it there.

        Parameters
        ----------
        size
            MW, above 0.

        Returns
        -------
        pandas.DataFrame
            Index (bus, snapshot); `room`, the largest site that this snapshot alone allows, `draw`, the most that can
            be drawn (MW), `element` and `outage`.

        Raises
        ------
        InputError
            A result that does not know single snapshots: ask with ``by_snapshot=True``, without redispatch or contract.
        """
        _check_size(size)
        faults = Faults("BusHeadroom.misfits")
        remedy = "Ask headroom(..., by_snapshot=True), without redispatch and without a contract."
        faults.require("room" in self.data, "headroom", "nothing by snapshot", "room at each snapshot", remedy)
        faults.raise_any()
        return misfits(self.data, float(size))

    def to_csv(self, path: str | Path) -> None:
        """Write the table of `to_frame`."""
        self.to_frame().to_csv(path, lineterminator="\n")

    def to_netcdf(self, path: str | Path) -> None:
        """Write everything, for `load_headroom`."""
        self.data.to_netcdf(path)

    def plot(self) -> Figure:
        """Draw a map: buses coloured by headroom, the lines that limit them drawn thick.

        Raises
        ------
        InputError
            Fewer than two buses have a place of their own.
        """
        from pypsa_aidc.plots.bus_map import plot_headroom

        return plot_headroom(self)

    @classmethod
    def read(cls, path: str | Path) -> BusHeadroom:
        """Read what `BusHeadroom.to_netcdf` wrote.

        Raises
        ------
        InputError
            The file cannot be read or holds no bus headroom.
        """
        loaded: xr.Dataset = read_saved(xr.Dataset.copy, path, "BusHeadroom.to_netcdf")
        faults = Faults(f"BusHeadroom in '{path}'")
        places = [f"{end}{axis}" for end in ("", "bus0_", "bus1_") for axis in ("x", "y")]
        for name in (
            "headroom",
            "status",
            "element",
            "outage",
            "limiting_snapshot",
            "shadow_value",
            "excess",
            "base_use",
            "cut_off_by",
        ):
            faults.require(name in loaded, "data", sorted(map(str, loaded.data_vars)), f"a variable {name!r}")
        for name in ("bus", "branch", *places):
            faults.require(name in loaded.variables, "data", sorted(map(str, loaded.variables)), f"a variable {name!r}")
        for name in ("method", "contingencies", "response", "notes"):
            faults.require(name in loaded.attrs, "attributes", sorted(map(str, loaded.attrs)), f"an attribute {name!r}")
        faults.raise_any()
        return BusHeadroom(loaded)


def _check_size(size: float) -> None:
    faults = Faults("size of a site")
    faults.number("size", size, above=0)
    faults.raise_any()


def _snapshots(values: list[object], snapshots: pd.Index) -> np.ndarray:
    """Snapshots as dates with NaT, or as text with "" where there is none."""
    if isinstance(snapshots, pd.DatetimeIndex):
        return np.array([np.datetime64("NaT", "ns") if value is None else value for value in values], "datetime64[ns]")
    return np.array(["" if value is None else str(value) for value in values], dtype=object)
