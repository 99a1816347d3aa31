"""Headroom by bus from a file, as a table and as a map of the network."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd
import pypsa
from matplotlib.figure import Figure

from pypsa_aidc.errors import Faults
from pypsa_aidc.headroom import BusHeadroom


@dataclass(frozen=True)
class HeadroomTable:
    """Headroom at buses of a network.

    Parameters
    ----------
    frame
        Index `bus`, column `headroom` in MW (infinite where nothing limits it) and any others.
    network
        Network with the buses; their `x` and `y` place them on the map.
    """

    frame: pd.DataFrame
    network: pypsa.Network = field(repr=False)

    def to_frame(self) -> pd.DataFrame:
        """Return the table, buses with the least headroom first."""
        frame = self.frame.sort_values("headroom", kind="stable")
        frame.attrs["units"] = {"headroom": "MW"}
        return frame

    def plot(self) -> Figure:
        """Draw the buses where they lie, coloured by headroom."""
        from pypsa_aidc.plots.bus_map import plot_network

        return plot_network(self.network, self.frame["headroom"])


def open_headroom(path: Path, n: pypsa.Network) -> BusHeadroom | HeadroomTable:
    """Read what the verb `headroom` wrote as netCDF, buses with the least headroom first, or a table from a CSV file.

    Raises
    ------
    InputError
        No such file, one that holds no headroom, or buses that the network does not have.
    """
    if path.suffix != ".nc":
        return HeadroomTable(read_headroom(path, n), n)
    faults = Faults(f"headroom in '{path}'")
    faults.require(path.is_file(), "file", str(path), "an existing netCDF file")
    faults.raise_any()
    found = BusHeadroom.read(path)
    unknown = [bus for bus in map(str, found.data["bus"].to_numpy()) if bus not in n.buses.index]
    faults.require(not unknown, "bus", unknown[:5], "buses of the network", "Give the headroom of this network.")
    faults.raise_any()
    return BusHeadroom(found.data.sortby("headroom"))


def read_headroom(path: Path, n: pypsa.Network) -> pd.DataFrame:
    """Read a table of headroom and hold it against a network.

    Returns
    -------
    pandas.DataFrame
        Index `bus`, column `headroom` in MW and the others of the file.

    Raises
    ------
    InputError
        No such file, no columns `bus` and `headroom`, a bus that is unknown or stands twice, a headroom that is no
        number or negative.
    """
    faults = Faults(f"headroom in '{path}'")
    faults.require(path.is_file(), "file", str(path), "an existing CSV file")
    faults.raise_any()
    try:
        frame = pd.read_csv(path, dtype={"bus": str})
    except (ValueError, UnicodeDecodeError) as error:
        faults.add("file", str(path), f"a CSV file ({error})")
        faults.raise_any()
        raise
    for column in ("bus", "headroom"):
        faults.require(column in frame, "columns", list(frame.columns), f"one named {column!r}")
    faults.require(len(frame) > 0, "rows", 0, "at least one bus")
    faults.raise_any()
    number = pd.to_numeric(frame["headroom"], errors="coerce").to_numpy(float)
    checks = (
        (~frame["bus"].isin(n.buses.index).to_numpy(), "bus", "a bus of the network"),
        (frame["bus"].duplicated().to_numpy(), "bus", "each bus once"),
        (np.isnan(number) | (number < 0), "headroom", "MW of at least 0"),
    )
    for wrong, column, expected in checks:
        for row in np.flatnonzero(wrong)[:3]:
            faults.add(f"row {row + 2}, {column}", frame[column].iloc[row], expected)
    faults.raise_any()
    return frame.assign(headroom=number).set_index("bus")
