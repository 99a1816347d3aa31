"""The 3-bus network of 72 hours in which sizes of a fleet on different terms have been published with its design."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pypsa

SERIES = pd.read_csv(Path(__file__).parent / "data" / "three_bus.csv")
"""MW of a synthetic region around its peak; profile and relief of the synthetic fleet as shares of its peak."""

PEAK = 54.3
K = {1: 2.508, 4: 2.317, 8: 2.162, 24: 1.947}
"""MW at 95 % of the fleet with that peak, Table 3 of [2]."""

NONELIGIBLE = 23.264


def network() -> pypsa.Network:
    """Three buses, two parallel lines, three thermal plants, sun and a battery; MW."""
    n = pypsa.Network(snapshots=pd.RangeIndex(72, name="snapshot"))
    n.add("Carrier", "AC")
    n.add("Bus", ["1", "2", "3"], carrier="AC")
    for bus, share in {"1": 0.45, "2": 0.35, "3": 0.20}.items():
        n.add("Load", f"D{bus}", bus=bus, p_set=SERIES["demand"].to_numpy() * share)
    lines = {"12": ("1", "2", 6500, 0.02), "13a": ("1", "3", 3000, 0.03), "13b": ("1", "3", 3000, 0.03)}
    lines["23"] = ("2", "3", 3200, 0.025)
    for name, (bus0, bus1, s_nom, x) in lines.items():
        n.add("Line", name, bus0=bus0, bus1=bus1, s_nom=s_nom, x=x, r=1e-4, carrier="AC")
    for name, bus, p_nom, cost in (("base", "1", 21e3, 20), ("ccgt", "2", 9.5e3, 40), ("peaker", "3", 2.6e3, 90)):
        n.add("Generator", name, bus=bus, p_nom=p_nom, marginal_cost=cost, carrier="AC")
    hour = (np.arange(72) - 12) % 24
    sun = np.clip(np.sin((hour - 6) / 12 * np.pi), 0, 1) * ((hour > 6) & (hour < 18))
    n.add("Generator", "sun", bus="2", p_nom=2000, p_max_pu=sun, carrier="AC")
    battery = {"p_nom": 500, "max_hours": 4, "efficiency_store": 0.95, "efficiency_dispatch": 0.95}
    n.add("StorageUnit", "battery", bus="3", cyclic_state_of_charge=True, carrier="AC", **battery)
    return n


def with_fleet(name: str = "f", bus: str = "3", **terms: object) -> pypsa.Network:
    """Place a fleet of free size at bus 3 where a connected MW is worth 1,000,000 USD."""
    n = network()
    values: dict[str, object] = {"p_nom_extendable": True, "p_nom_max": 1600.0, "capital_cost": -1e6}
    values |= {"profile": SERIES["profile"].to_numpy()} | terms
    if len(terms):
        values |= {"marginal_cost": 500.0}
    n.aidc.add_fleet(name, bus=bus, **values)  # type: ignore[arg-type]
    return n
