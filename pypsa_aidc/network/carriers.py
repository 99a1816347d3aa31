"""What carriers, prices and sizes say of components: which buses are electric, which generators are backstops."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pypsa
from numpy.typing import NDArray

from pypsa_aidc.errors import Faults
from pypsa_aidc.network.pypsa_api import names

_BACKSTOP = re.compile(
    r"load[ _-]?shed|shedding|\bvoll\b|lost[ _-]?load|unserved|backstop|non[ _-]?served|\bens\b", re.I
)
_LOST_LOAD = 2000.0
"""USD/MWh from which a generator is no plant but the value of lost load: caps of markets begin there."""
_TIMES_THE_LOAD = 20.0
"""A generator at many buses, each larger than so many times all load of the network, is no plant either."""
_FUELS = re.compile(
    r"heat|\bgas\b|\bh2\b|hydrogen|\boil\b|coal|lignite|\bco2\b|biomass|biogas|methan|ammonia|water|fuel|uranium"
    r"|\bsteam\b|naphtha|cool",
    re.I,
)


def backstops(n: pypsa.Network) -> pd.Series:
    """Find generators that stand for load which is not served, rather than for a plant.

    By carrier or name (``"load shedding"``, ``"VOLL"``; ``"load"``, which PyPSA's own `add_load_shedding` uses), by
    price (marginal cost of at least 2,000 USD for each MWh that reaches the bus), or by size (more than twenty times
    all load of the network at three buses or more).

    Returns
    -------
    pandas.Series
        Why, in words; index the names of the generators. Empty if there are none.

    Examples
    --------
    >>> n = pypsa.Network()
    >>> _ = n.add("Bus", "A")
    >>> n.add("Generator", ["plant", "A load"], bus="A", carrier=["gas", "load"], p_nom=[300.0, 1e9], sign=[1.0, 1e-3])
    >>> backstops(n).to_dict()
    {'A load': "carrier 'load'"}
    """
    static = n.generators[n.generators["active"] & (n.generators["sign"] > 0)]
    carrier, sign = static["carrier"].astype(str), static["sign"].astype(float)
    price = n.get_switchable_as_dense("Generator", "marginal_cost")[static.index].max() / sign
    demand = n.get_switchable_as_dense("Load", "p_set").sum(axis=1).max() if len(n.loads) else 0.0
    size = static["p_nom"].where(~static["p_nom_extendable"].astype(bool), 0.0) * sign
    giant = (size > _TIMES_THE_LOAD * max(float(demand), 1.0)) & (demand > 0)
    giant &= static.loc[giant, "bus"].nunique() >= 3
    reasons = {name: f"size of {size[name]:,.0f} MW" for name in static.index[giant]}
    reasons |= {name: f"price of {price[name]:,.0f} USD/MWh" for name in static.index[price >= _LOST_LOAD]}
    reasons |= {name: "its name" for name in static.index if _BACKSTOP.search(str(name))}
    by_carrier = carrier.str.contains(_BACKSTOP) | (carrier == "load")
    reasons |= {name: f"carrier {carrier[name]!r}" for name in static.index[by_carrier]}
    return pd.Series(reasons, dtype=object).reindex([name for name in static.index if name in reasons])


def refuse_not_electric(n: pypsa.Network, bus: str, faults: Faults) -> None:
    """Note a fault for a bus of the network that carries no electricity."""
    labels = names(n.buses.index) == bus
    if labels.any() and not electric(n)[labels].all():
        carrier = n.buses.loc[labels, "carrier"].iloc[0]
        faults.add("bus", bus, "a bus of the grid", f"Its carrier {carrier!r} takes no AI data center.")


def electric(n: pypsa.Network) -> NDArray[np.bool_]:
    """Tell which buses carry electricity: those whose carrier names no heat, fuel or material.

    A bus with a Line or Transformer is electric whatever its carrier is called.

    Returns
    -------
    numpy.ndarray
        True or False for each row of ``n.buses``.

    Examples
    --------
    >>> n = pypsa.Network()
    >>> n.add("Bus", ["A", "boiler"], carrier=["AC", "urban heat"])
    >>> electric(n).tolist()
    [True, False]
    """
    carrier = n.buses["carrier"].astype(str)
    wired = {bus for branches in (n.lines, n.transformers) for end in ("bus0", "bus1") for bus in branches[end]}
    fuel = carrier.str.contains(_FUELS).to_numpy(bool)
    known: NDArray[np.bool_] = ~fuel | names(n.buses.index).isin(list(wired))
    return known
