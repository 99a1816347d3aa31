"""What is decided once for all scenarios of a network, and from when on each scenario has decisions of its own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import linopy
import numpy as np
import pandas as pd
import pypsa
from numpy.typing import NDArray

from pypsa_aidc.errors import Faults
from pypsa_aidc.network.model.horizon import Window, network_snapshots
from pypsa_aidc.network.model.linear import weighted_sum
from pypsa_aidc.network.pypsa_api import scenario_networks, variable_in

Given = Any
"""A snapshot, or snapshots by the name of a load."""


@dataclass(frozen=True)
class Recourse:
    """From when on the loads of a network with scenarios decide in each of them for itself.

    Parameters
    ----------
    scenarios
        Probability of each scenario.
    moments
        For each load, the number of snapshots that are decided once for all scenarios; a load that is not there
        decides everything once.
    """

    scenarios: Mapping[str, float]
    moments: Mapping[str, int]

    @classmethod
    def of(cls, n: pypsa.Network, snapshots: pd.Index, given: Given, loads: Iterable[str]) -> Recourse | None:
        """Read what was asked for; `None` in a network without scenarios.

        Raises
        ------
        InputError
            No such load or snapshot, or recourse without scenarios.
        """
        faults, known, moments = Faults("recourse"), list(loads), {}
        if given is not None:
            remedy = "n.set_scenarios({name: probability}) makes scenarios."
            faults.require(n.has_scenarios, "network", "no scenarios", "at least two of them", remedy)
            chosen = network_snapshots(n, snapshots)
            asked = dict(given) if isinstance(given, Mapping) else dict.fromkeys(known, given)
            for name, snapshot in asked.items():
                faults.require(name in known, "load", name, f"one of {known}")
                position = _position(chosen, snapshot)
                if position is None:
                    faults.add(name, snapshot, f"a snapshot from {chosen[0]} to {chosen[-1]} that is optimised")
                else:
                    moments[name] = position
            faults.raise_any()
        if not n.has_scenarios:
            return None
        return cls({str(name): float(weight) for name, weight in n.scenario_weightings["weight"].items()}, moments)

    def common(self, load: str, window: Window, start: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Whether what starts in some slots of a window (its end included) is decided once for all scenarios."""
        if load not in self.moments:
            return np.full(len(start), True)
        ends = np.append(window.positions, window.positions[-1] + 1)
        return np.asarray(ends[start] < self.moments[load], dtype=bool)


def _position(snapshots: pd.Index, snapshot: Any) -> int | None:
    """Position of a snapshot, which may be a date as text."""
    try:
        dated = isinstance(snapshot, str) and isinstance(snapshots, pd.DatetimeIndex)
        label = pd.Timestamp(snapshot) if dated else snapshot
        return int(snapshots.get_indexer(pd.Index([label]))[0]) if label in snapshots else None
    except (TypeError, ValueError):
        return None


@dataclass(frozen=True)
class View:
    """A network with a built model as the constraints of one scenario see it: without scenarios.

    Parameters
    ----------
    n
        The network, or that of the scenario.
    m
        The model, of all scenarios.
    scenario
        Name of the scenario; `None` where the network has none.
    """

    n: pypsa.Network
    m: linopy.Model
    scenario: str | None = None

    def named(self, name: str) -> str:
        """Name of a variable or constraint of this scenario."""
        return name if self.scenario is None else f"{name} in {self.scenario}"

    def variable(self, name: str) -> linopy.Variable:
        """Return a variable of PyPSA, over (snapshot, name) or (name,)."""
        return variable_in(self.m[name], self.scenario)


def views(n: pypsa.Network) -> list[View]:
    """Return one view of a network with a built model for each of its scenarios, or the only one."""
    if not n.has_scenarios:
        return [View(n, n.model)]
    return [View(one, n.model, scenario) for scenario, one in scenario_networks(n).items()]


def agree(
    m: linopy.Model,
    pairs: Iterable[tuple[linopy.Variable, NDArray[np.int64], linopy.Variable, NDArray[np.int64]]],
    name: str,
) -> None:
    """Make entries of variables equal, pair by pair: nothing that is decided before a scenario is known differs."""
    for position, (first, entries, second, others) in enumerate(pairs):
        if len(entries):
            index = pd.RangeIndex(len(entries), name="aidc_common")
            rows, ones = np.arange(len(entries)), np.ones(len(entries))
            left = weighted_sum(first, entries, rows, ones, {"aidc_common": index})
            right = weighted_sum(second, others, rows, ones, {"aidc_common": index})
            m.add_constraints(left - right == 0, name=f"{name} {position}")


def weigh(n: pypsa.Network, costs: Mapping[str, linopy.LinearExpression]) -> None:
    """Put costs of each scenario into the objective: expected, and with a risk preference into its tail, too.

    PyPSA minimises (1 - omega) E[c] + omega CVaR[c] of the operating costs c; its variables for what each scenario
    costs above the value at risk hold only what has been in the model before.
    """
    m, share = n.model, 1.0
    if n.has_risk_preference and n.risk_preference is not None:
        share -= n.risk_preference["omega"]
        for scenario, cost in costs.items():
            name = f"CVaR-excess-{scenario}"
            before = m.constraints[name].lhs
            m.remove_constraints(name)
            m.add_constraints(before - cost >= 0, name=name)
    for label, probability in n.scenario_weightings["weight"].items():
        m.objective = m.objective.expression + share * float(probability) * costs[str(label)]
