"""What has to be built for megawatts that are wanted: elements, MW on each, and what they cost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pandas as pd
from scipy.optimize import linprog

from pypsa_aidc.headroom.bus.base_case import Floats


@dataclass(frozen=True)
class Need:
    """MW of s_nom that an element lacks, and when most."""

    element: str
    megawatts: float
    outage: str
    snapshot: int


class Reinforced(Protocol):
    """Limits that know what they lack."""

    def needs(self, draw: Floats, costs: Mapping[str, float]) -> list[Need]:
        """What draws of shape (I,) in every hour lack; the cheapest of several ways by costs of elements."""


def reinforcement(
    limits: Reinforced, wanted: Floats, costs: Mapping[str, float] | None, snapshots: pd.Index
) -> pd.DataFrame:
    """List the elements that keep wanted megawatts from being firm, in falling order of what they lack.

    Parameters
    ----------
    limits
        Of the network.
    wanted
        MW, shape (I,).
    costs
        USD for each MW of s_nom by element or kind; without, the least MW are looked for.
    snapshots
        Of the study.

    Returns
    -------
    pandas.DataFrame
        `element`, `megawatts`, `outage` and `snapshot` of the worst, `cost` (USD; NaN where no unit cost is known, as
        of generation).
    """
    known = costs or {}
    found = sorted(limits.needs(wanted, known), key=lambda need: -need.megawatts)
    table = pd.DataFrame(found, columns=["element", "megawatts", "outage", "snapshot"])
    table["snapshot"] = [snapshots[need.snapshot] for need in found]
    table["cost"] = [unit_cost(need.element, known) * need.megawatts for need in found]
    return table


def unit_cost(element: str, costs: Mapping[str, float]) -> float:
    """USD for one MW of an element, by its own name or by its kind; NaN if neither is known."""
    return float(costs.get(element, costs.get(element.split(" ")[0], np.nan)))


class Cheapest:
    """The programme of the cheapest ratings: Σ_e π_ce·Δ_e ≥ q_c for each cut that a dispatch has shown."""

    def __init__(self, costs: Mapping[str, float]) -> None:
        self._costs = costs
        self._elements: dict[str, int] = {}
        self._cuts: list[tuple[dict[str, float], float]] = []

    def add(self, worth: Mapping[str, float], lacking: float) -> None:
        """Add a cut: MW that are served for each MW of an element, and MW that these have to add."""
        for element in worth:
            self._elements.setdefault(element, len(self._elements))
        self._cuts.append((dict(worth), lacking))

    def solve(self) -> dict[str, float]:
        """MW by element. What has no unit cost counts as dear as the dearest that has one."""
        known = [unit_cost(element, self._costs) for element in self._elements]
        dearest = max([cost for cost in known if np.isfinite(cost)], default=1.0) or 1.0
        price = [cost if np.isfinite(cost) else dearest for cost in known]
        matrix, lacking = np.zeros((len(self._cuts), len(price))), np.zeros(len(self._cuts))
        for row, (worth, need) in enumerate(self._cuts):
            lacking[row] = need
            for element, value in worth.items():
                matrix[row, self._elements[element]] = value
        # Of sets that cost the same, the one with the fewest MW.
        found = linprog(np.array(price) + 1e-6 * dearest, A_ub=-matrix, b_ub=-lacking, method="highs")
        assert found.status == 0, found.message  # every cut can be met by a large enough rating
        return {element: float(found.x[place]) for element, place in self._elements.items()}
