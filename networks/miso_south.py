"""Build networks/miso_south.nc: hourly demand of MISO South (EIA subregion 8910), 2024 and 2025, and a peak cap.

Run ``python networks/miso_south.py`` from the root of the project. `miso_south_demand.csv.gz` holds the demand as
reported, MW, stamped by the end of the hour in UTC, with 47 hours missing. They are interpolated, as in [1], and listed
in `n.meta`. Hours of the network are named by their beginning: the peak, 32,436 MW, is 2025-07-22 21:00 UTC.

The cap is 5 % above that peak. It is a number for screening, not a limit of the system.

[1] M. Li, "Beyond Scalar Flexibility", arXiv 2609.05406, App. E.
"""

from __future__ import annotations

import warnings
from pathlib import Path

import pypsa

from pypsa_aidc.headroom import DemandWarning, clean, read_demand, regional_network

HERE = Path(__file__).parent
REGION = "MISO South"
CALENDAR = "Etc/GMT+5"
"""MISO keeps Eastern Standard Time all year; the two years of the file start and end at its midnight."""
MARGIN = 0.05
ATTRIBUTION = (
    "U.S. Energy Information Administration, Form EIA-930, Hourly Electric Grid Monitor, subregion 8910, public "
    "domain; hours of 2024 via the archive of Ruggles et al., EIA Cleaned Hourly Electricity Demand Data (CC BY 4.0)."
)


def network() -> pypsa.Network:
    """The region, cleaned."""
    demand = read_demand(HERE / "miso_south_demand.csv.gz", region=REGION, calendar=CALENDAR)
    with warnings.catch_warnings():
        # That the gaps may hide a peak is told to whoever screens the network.
        warnings.simplefilter("ignore", DemandWarning)
        tidy = clean(demand, gaps="interpolate", limit=24)
    return regional_network(tidy, MARGIN, attribution=ATTRIBUTION)


if __name__ == "__main__":
    network().export_to_netcdf(HERE / "miso_south.nc", compression={"zlib": True, "complevel": 9})
