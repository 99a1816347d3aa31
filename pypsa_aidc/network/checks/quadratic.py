"""Quadratic costs beside decisions in whole numbers, which most solvers cannot do at once."""

from __future__ import annotations

import pandas as pd
import pypsa

from pypsa_aidc.errors import UnsupportedError
from pypsa_aidc.network.loads.registry import loads
from pypsa_aidc.network.model.horizon import network_snapshots
from pypsa_aidc.network.pypsa_api import names

QUADRATIC = (
    "HiGHS cannot solve both at once: make the costs piecewise linear (aidc.network.from_case(..., "
    "quadratic='piecewise') does for a case), set marginal_cost_quadratic to 0, or use a solver that can, such as "
    "Gurobi, with solver_name=."
)
"""Why quadratic costs are refused, and the ways out."""

_SHOWN = 5


def refuse_quadratic(n: pypsa.Network, snapshots: pd.Index | None = None, *, linearized: bool = False) -> None:
    """Refuse quadratic costs in a network whose optimisation has decisions in whole numbers.

    Parameters
    ----------
    n
        Network.
    snapshots
        Those to be optimised.
    linearized
        Whether unit commitment is relaxed.

    Raises
    ------
    UnsupportedError
        There are both, by component.
    """
    quadratic = quadratic_costs(n, snapshots)
    deciding = whole_numbers(n, linearized=linearized) if quadratic else []
    if deciding:
        raise UnsupportedError(
            f"quadratic costs of {_listed(quadratic)}: beside decisions in whole numbers of {_listed(deciding)}. "
            f"{QUADRATIC}"
        )


def quadratic_costs(n: pypsa.Network, snapshots: pd.Index | None = None) -> list[str]:
    """Active components with a `marginal_cost_quadratic`, in words."""
    chosen, found = network_snapshots(n, snapshots), []
    for component in n.components:
        static = component.static
        if static.empty or "marginal_cost_quadratic" not in static:
            continue
        series = component.dynamic.get("marginal_cost_quadratic", pd.DataFrame())
        varying = (
            series.columns[(series.loc[chosen] != 0).any().to_numpy()] if len(series.columns) else static.index[:0]
        )
        costed = static["active"] & (
            static.index.isin(varying) | (static["marginal_cost_quadratic"] != 0) & ~static.index.isin(series.columns)
        )
        found += [f"{component.name} {name!r}" for name in names(static.index[costed]).unique()]
    return found


def whole_numbers(n: pypsa.Network, *, linearized: bool = False) -> list[str]:
    """Components whose decisions are whole numbers, in words."""
    found = [f"AIDC {name!r}" for name, load in loads(n).items() if load.decides_whole_numbers]
    for component in n.components:
        static = component.static
        if static.empty or "active" not in static:
            continue
        whole = pd.Series(False, static.index)
        if "committable" in static and not linearized:
            whole |= static["committable"].astype(bool)
        for nominal in ("p_nom", "s_nom", "e_nom"):
            if f"{nominal}_mod" in static:
                whole |= static[f"{nominal}_extendable"].astype(bool) & (static[f"{nominal}_mod"] > 0)
        found += [f"{component.name} {name!r}" for name in names(static.index[whole & static["active"]]).unique()]
    return found


def _listed(parts: list[str]) -> str:
    more = f" and {len(parts) - _SHOWN} more" if len(parts) > _SHOWN else ""
    return ", ".join(parts[:_SHOWN]) + more
