"""Networks with scenarios, one scenario at a time, and frames of all of them with their expectation beside."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd
import pypsa

from pypsa_aidc.network.loads.decisions import keep
from pypsa_aidc.network.pypsa_api import copy_network

EXPECTED = "expected"
"""Label of the expectation over all scenarios."""


def in_scenarios(n: pypsa.Network) -> dict[str, pypsa.Network]:
    """Return a network for each scenario by its name, with the prices that are paid in it.

    PyPSA leaves prices multiplied by the probability of the scenario.
    """
    keep(n)
    found, whole = {}, copy_network(n)
    for scenario, probability in n.scenario_weightings["weight"].items():
        one = whole.get_scenario(str(scenario))
        one.c.buses.dynamic["marginal_price"] = one.c.buses.dynamic["marginal_price"] / probability
        found[str(scenario)] = one
    return found


def probabilities(n: pypsa.Network) -> dict[str, float]:
    """Probability of each scenario."""
    return {str(scenario): float(weight) for scenario, weight in n.scenario_weightings["weight"].items()}


def expectation(frames: Mapping[str, pd.DataFrame], weights: Mapping[str, float]) -> pd.DataFrame:
    """Mean of frames of numbers, weighted; what one of them lacks counts as 0."""
    rows = _union([frame.index for frame in frames.values()])
    columns = _union([frame.columns for frame in frames.values()])
    parts = [
        frames[name].reindex(index=rows, columns=columns, fill_value=0.0) * weight for name, weight in weights.items()
    ]
    total: pd.DataFrame = sum(parts[1:], parts[0])
    return total


def side_by_side(frames: Mapping[str, pd.DataFrame], weights: Mapping[str, float], axis: int) -> pd.DataFrame:
    """Frames of all scenarios and their expectation, labelled by scenario along an axis."""
    every = {**frames, EXPECTED: expectation(frames, weights)}
    first = next(iter(frames.values()))
    levels = (first.columns if axis else first.index).names
    joined = pd.concat(every, axis=axis, names=["scenario", *levels])  # type: ignore[call-overload]
    joined.attrs = dict(first.attrs)
    return pd.DataFrame(joined)


def with_expectation(frames: Mapping[str, pd.DataFrame], weights: Mapping[str, float], labelled: str) -> pd.DataFrame:
    """Expectation of frames, and beside it one column of each scenario, named by it."""
    numbers = {name: frame.select_dtypes("number") for name, frame in frames.items()}
    frame = expectation(numbers, weights)
    first = next(iter(frames.values()))
    for position, column in enumerate(first.columns):
        if column not in frame:
            frame.insert(position, column, first[column])
    for name, own in numbers.items():
        frame[f"{labelled} in {name}"] = own[labelled].reindex(frame.index, fill_value=0.0)
    units = first.attrs.get("units", {})
    frame.attrs = dict(first.attrs) | {
        "units": units | {f"{labelled} in {name}": units.get(labelled, "") for name in frames}
    }
    return frame


def _union(indexes: list[pd.Index]) -> pd.Index:
    found = indexes[0]
    for index in indexes[1:]:
        found = found.append(index.difference(found, sort=False))
    return found
