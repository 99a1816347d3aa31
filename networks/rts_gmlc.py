"""Build a PyPSA network from the source tables of the RTS-GMLC test system [1], a year of hours or a part of it.

The tables are free to use with attribution and are not part of this project: give the folder that holds ``SourceData``
and ``ts`` (the day-ahead tables). No network file is kept; ``network(folder)`` builds it in seconds.

What the tables say and PyPSA's linear dispatch takes: buses, lines, transformers with taps, the HVDC link, thermal
units at the average heat rate of full output, hydro, wind, PV and rooftop PV with their hourly available power, the
storage unit 313_STORAGE_1, and loads by area in proportion to the buses' MW Load. What is left out: unit commitment and
least outputs, reserves, losses, line charging, the CSP unit (its inflow is not in the day-ahead tables) and the three
synchronous condensers, which have no power.

[1] Barrows et al., "The IEEE Reliability Test System: A Proposed 2019 Update", IEEE Trans. Power Syst. 35 (2020).
    Data: github.com/GridMod/RTS-GMLC, National Renewable Energy Laboratory.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pypsa

from pypsa_aidc.errors import Faults

BASE_MVA = 100.0
ROUND_TRIP = 0.85
"""Efficiency of the storage unit, ``Storage Roundtrip Efficiency`` of the tables."""
TABLES = ("SourceData/bus.csv", "SourceData/branch.csv", "SourceData/dc_branch.csv", "SourceData/gen.csv")
SERIES = ("hydro", "pv", "rtpv", "wind", "regional_Load")
LEFT_OUT = ("CSP", "SYNC_COND")


def network(folder: Path, snapshots: pd.DatetimeIndex | None = None) -> pypsa.Network:
    """Build the network.

    Parameters
    ----------
    folder
        Folder with ``SourceData`` and ``ts``.
    snapshots
        Hours of 2020 to keep; `None` for all 8,784.

    Raises
    ------
    InputError
        A table is missing, or hours that it does not have.
    """
    faults = Faults(f"RTS-GMLC in {folder}")
    for table in (*TABLES, *(f"ts/DAY_AHEAD_{name}.csv" for name in SERIES)):
        faults.require((folder / table).is_file(), table, str(folder / table), "an existing table")
    faults.raise_any()
    series = {name: _series(folder / "ts" / f"DAY_AHEAD_{name}.csv") for name in SERIES}
    hours = series["regional_Load"].index
    chosen = hours if snapshots is None else snapshots
    missing = chosen.difference(hours)
    faults.require(not len(missing), "snapshots", list(missing[:3]), f"hours from {hours[0]} to {hours[-1]}")
    faults.raise_any()
    n = pypsa.Network(snapshots=chosen, name="RTS-GMLC")
    buses = _add_buses(n, folder)
    _add_branches(n, folder)
    _add_loads(n, buses, series["regional_Load"])
    available = pd.concat([series[name] for name in SERIES if name != "regional_Load"], axis=1)
    _add_generators(n, folder, available)
    return n


def _series(path: Path) -> pd.DataFrame:
    table = pd.read_csv(path)
    hour = pd.to_timedelta(table["Period"] - 1, unit="h")
    index = pd.to_datetime(table[["Year", "Month", "Day"]]) + hour
    return table.drop(columns=["Year", "Month", "Day", "Period"]).set_index(pd.DatetimeIndex(index, name="snapshot"))


def _add_buses(n: pypsa.Network, folder: Path) -> pd.DataFrame:
    buses = pd.read_csv(folder / "SourceData" / "bus.csv", dtype={"Bus ID": str, "Area": str}).set_index("Bus ID")
    n.add("Carrier", "AC")
    n.add("Bus", buses.index, v_nom=buses["BaseKV"], x=buses["lng"], y=buses["lat"], carrier="AC")
    return buses


def _add_branches(n: pypsa.Network, folder: Path) -> None:
    branch = pd.read_csv(folder / "SourceData" / "branch.csv", dtype={"From Bus": str, "To Bus": str}).set_index("UID")
    ends = {"bus0": branch["From Bus"], "bus1": branch["To Bus"]}
    rating = branch["Cont Rating"].astype(float)
    is_transformer = branch["Tr Ratio"] > 0
    line = branch.index[~is_transformer]
    ohm = branch["From Bus"].map(n.buses["v_nom"]) ** 2 / BASE_MVA
    n.add(
        "Line",
        line,
        r=(branch["R"] * ohm)[line],
        x=(branch["X"] * ohm)[line],
        s_nom=rating[line],
        **{end: buses[line] for end, buses in ends.items()},
    )
    transformer = branch.index[is_transformer]
    own_base = rating / BASE_MVA
    n.add(
        "Transformer",
        transformer,
        r=(branch["R"] * own_base)[transformer],
        x=(branch["X"] * own_base)[transformer],
        s_nom=rating[transformer],
        tap_ratio=branch.loc[transformer, "Tr Ratio"],
        **{end: buses[transformer] for end, buses in ends.items()},
    )
    direct = pd.read_csv(folder / "SourceData" / "dc_branch.csv", dtype={"From Bus": str, "To Bus": str})
    for row in direct.to_dict("records"):
        power = float(row["MW Load"])
        n.add("Link", row["UID"], bus0=row["From Bus"], bus1=row["To Bus"], p_nom=power, p_min_pu=-1.0)


def _add_loads(n: pypsa.Network, buses: pd.DataFrame, by_area: pd.DataFrame) -> None:
    share = buses["MW Load"] / buses.groupby("Area")["MW Load"].transform("sum")
    loaded = share.index[share > 0]
    demand = by_area.loc[n.snapshots, buses.loc[loaded, "Area"]].set_axis(loaded, axis=1) * share[loaded]
    n.add("Load", loaded, suffix=" load", bus=loaded, p_set=demand.add_suffix(" load"))


def _add_generators(n: pypsa.Network, folder: Path, available: pd.DataFrame) -> None:
    table = pd.read_csv(folder / "SourceData" / "gen.csv", dtype={"Bus ID": str}).set_index("GEN UID")
    table = table[~table["Unit Type"].isin(LEFT_OUT)]
    n.add("Carrier", sorted(set(table["Fuel"])))
    stores = table.index[table["Unit Type"] == "STORAGE"]
    units = table.drop(stores)
    limits = pd.DataFrame(1.0, index=n.snapshots, columns=units.index)
    timed = units.index.intersection(available.columns)
    limits[timed] = (available.loc[n.snapshots, timed] / units.loc[timed, "PMax MW"]).clip(0.0, 1.0)
    n.add(
        "Generator",
        units.index,
        bus=units["Bus ID"],
        p_nom=units["PMax MW"].astype(float),
        carrier=units["Fuel"],
        marginal_cost=_full_load_cost(units),
    )
    for unit in timed:
        n.generators_t.p_max_pu[unit] = limits[unit]
    volume = pd.read_csv(folder / "SourceData" / "storage.csv").query("position == 'head'").set_index("GEN UID")
    n.add(
        "StorageUnit",
        stores,
        bus=table.loc[stores, "Bus ID"],
        p_nom=table.loc[stores, "PMax MW"].astype(float),
        max_hours=1e3 * volume.loc[stores, "Max Volume GWh"] / table.loc[stores, "PMax MW"],
        efficiency_store=ROUND_TRIP**0.5,
        efficiency_dispatch=ROUND_TRIP**0.5,
        cyclic_state_of_charge=True,
        carrier="Storage",
    )


def _full_load_cost(units: pd.DataFrame) -> pd.Series:
    """Fuel and variable cost at full output, USD/MWh: from the heat rate of the first block and its increments."""
    share = units[[f"Output_pct_{block}" for block in range(5)]].to_numpy(float)
    rates = units[["HR_avg_0", *(f"HR_incr_{block}" for block in range(1, 5))]].to_numpy(float)
    widths = np.diff(share, axis=1, prepend=0.0)
    heat = np.nansum(rates * widths, axis=1) / np.nanmax(share, axis=1).clip(min=1e-9)
    return units["Fuel Price $/MMBTU"] * heat / 1e3 + units["VOM"].fillna(0.0)
