"""What can feed a bus: fixed capacities by component, and what may be built."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pypsa

BRANCHES = {"Line": "s_nom", "Transformer": "s_nom", "Link": "p_nom"}
SUPPLY = {"Generator": "p_nom", "StorageUnit": "p_nom"}
"""Capacity of each type of component."""


def supply_at(n: pypsa.Network, buses: set[str]) -> tuple[float, bool]:
    """Fixed capacity that can feed these buses, in MW, and whether any of it is extendable or unlimited."""
    total, extendable = 0.0, False
    for component, attribute in SUPPLY.items():
        static = static_by_name(n, component)
        inside = static[static["bus"].isin(buses) & (static["sign"] > 0) & static["active"]]
        extendable |= bool(inside[f"{attribute}_extendable"].any())
        total += float(inside[attribute].sum())
    stores = static_by_name(n, "Store")
    stores = stores[stores["bus"].isin(buses) & stores["active"]]
    extendable |= bool(len(stores)) or not np.isfinite(total)
    return total, extendable


def static_by_name(n: pypsa.Network, component: str) -> pd.DataFrame:
    """Components by name; with scenarios, those of the first, which is enough for orders of magnitude."""
    static = n.c[component].static
    if not isinstance(static.index, pd.MultiIndex) or static.empty:
        return pd.DataFrame(static)
    return pd.DataFrame(static.xs(static.index.get_level_values(0)[0], level=0))
