"""The screen as one would write it first, and as an optimisation in PyPSA: what the closed form must equal."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pypsa

SITE, RELIEF = "AIDC", "AIDC relief"


def admissible(size: float, slack: np.ndarray, load: np.ndarray, relief: np.ndarray, calls: int) -> bool:
    """App. E of arXiv 2609.05406, word for word."""
    excess = np.maximum(0.0, size * load - slack)
    return bool((excess <= size * np.minimum(relief, load)).all() and (excess > 0).sum() <= calls)


def bisected(slack: np.ndarray, load: np.ndarray, relief: np.ndarray, calls: int, most: float = 1e6) -> float:
    if admissible(most, slack, load, relief, calls):
        return np.inf
    low, high = 0.0, most
    for _ in range(64):
        middle = (low + high) / 2
        low, high = (middle, high) if admissible(middle, slack, load, relief, calls) else (low, middle)
    return low


def place_site(n: pypsa.Network, bus: str, load: np.ndarray, relief: np.ndarray, most: float) -> None:
    """A load of free size and its relief, of which each MW is worth the same."""
    n.add(
        "Generator", SITE, bus=bus, sign=-1, p_nom_extendable=True, p_nom_max=most, p_min_pu=load, p_max_pu=load,
        capital_cost=-1.0,
    )  # fmt: skip
    n.add(
        "Generator", RELIEF, bus=bus, p_nom_extendable=True, p_nom_max=most, p_max_pu=np.minimum(relief, load),
        p_min_pu=0.0,
    )  # fmt: skip


def optimised(n: pypsa.Network, calls: int | None = None, most: float = 1e5) -> float:
    """Largest size by `n.optimize`; with a budget first a MILP, then the LP of the hours it chose."""
    hours = pd.Index(n.snapshots)

    def tied(n: pypsa.Network, _: pd.Index) -> None:
        size = n.model.variables["Generator-p_nom"]
        n.model.add_constraints(size.sel(name=SITE, drop=True) - size.sel(name=RELIEF, drop=True) == 0, name="one size")
        if calls is not None and calls < len(hours):
            called = n.model.add_variables(binary=True, coords=[hours.rename("snapshot")], name="called")
            given = n.model.variables["Generator-p"].sel(name=RELIEF, drop=True)
            n.model.add_constraints(given - most * called <= 0, name="relief in called hours")
            n.model.add_constraints(called.sum() <= calls, name="budget")

    options = {"output_flag": False, "mip_rel_gap": 0.0}
    status = n.optimize(solver_name="highs", extra_functionality=tied, solver_options=options)
    assert status == ("ok", "optimal"), status
    if calls is not None and calls < len(hours):
        chosen = n.model.variables["called"].solution.to_numpy().round()
        limit = n.get_switchable_as_dense("Generator", "p_max_pu")[RELIEF].to_numpy() * chosen
        n.generators_t.p_max_pu[RELIEF] = limit
        n.model.solver_model = None
        return optimised(n, None, most)
    return float(n.generators.at[SITE, "p_nom_opt"])
