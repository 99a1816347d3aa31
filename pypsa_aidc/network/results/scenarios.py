"""Networks with scenarios, one scenario at a time, and frames of all of them with their expectation beside."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

import numpy as np
import pandas as pd
import pypsa

from pypsa_aidc.network.loads.decisions import keep
from pypsa_aidc.network.pypsa_api import model_of, risk_weights, scenario_networks
from pypsa_aidc.plain import ALL

EXPECTED = "expected"
"""Label of the expectation over all scenarios."""

_NOTHING = 1e-9
"""Weight of a scenario up to which it does not count."""


def in_scenarios(n: pypsa.Network) -> dict[str, pypsa.Network]:
    """Return a network for each scenario by its name, with the prices that are paid in it.

    PyPSA leaves prices multiplied by the weight of the scenario in the objective: its probability or, with a risk
    preference, more in the tail and less elsewhere. Where it is 0 there are no prices: what happens there is not
    optimised at all.
    """
    keep(n)
    found, weights = scenario_networks(n), _weights(n)
    for scenario, one in found.items():
        weight = weights[scenario] if weights[scenario] > _NOTHING else np.nan
        one.c.buses.dynamic["marginal_price"] = one.c.buses.dynamic["marginal_price"] / weight
    return found


def _weights(n: pypsa.Network) -> dict[str, float]:
    """Weight of each scenario in the objective: of the model that was solved, or as the result was kept."""
    from pypsa_aidc.network.solve.result import stored_result  # it keeps audits, which ask for scenarios

    own, risk = probabilities(n), n.risk_preference
    solved = risk_weights(model_of(n), own, risk["omega"]) if risk else {}
    stored = cast("dict[str, dict[str, float]]", stored_result(n).get("risk") or {}).get("weights", {})
    return solved or (stored if set(stored) == set(own) else own)


def probabilities(n: pypsa.Network) -> dict[str, float]:
    """Probability of each scenario."""
    return {str(scenario): float(weight) for scenario, weight in n.scenario_weightings["weight"].items()}


def expectation(frames: Mapping[str, pd.DataFrame], weights: Mapping[str, float]) -> pd.DataFrame:
    """Mean of frames, weighted; what one of them lacks counts as 0, and what is no number is that of the first."""
    first = next(iter(frames.values()))
    numbers = {name: frame.select_dtypes("number") for name, frame in frames.items()}
    rows = _union([frame.index for frame in numbers.values()])
    columns = _union([frame.columns for frame in numbers.values()])
    parts = [
        numbers[name].reindex(index=rows, columns=columns, fill_value=0.0) * weight for name, weight in weights.items()
    ]
    total: pd.DataFrame = sum(parts[1:], parts[0])
    for position, column in enumerate(first.columns):
        if column not in total:
            total.insert(position, column, first[column])
    return total


def side_by_side(frames: Mapping[str, pd.DataFrame], axis: int, weights: Mapping[str, float] | None) -> pd.DataFrame:
    """Frames of all scenarios, labelled by scenario along an axis, and with weights their expectation."""
    first = next(iter(frames.values()))
    every = dict(frames) if weights is None else {**frames, EXPECTED: expectation(frames, weights)}
    levels = (first.columns if axis else first.index).names
    joined = pd.concat(every, axis=axis, names=["scenario", *levels])  # type: ignore[call-overload]
    joined.attrs = dict(first.attrs)
    return pd.DataFrame(joined)


def one_below_the_other(frames: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Rows of all scenarios with a column `scenario` in front; rows that are the same in all of them once, as `ALL`."""
    first = next(iter(frames.values()))
    whole = pd.concat([frame.assign(scenario=name) for name, frame in frames.items()], ignore_index=True)
    values = list(first.columns)
    shared = whole.groupby(values, sort=False, dropna=False)["scenario"].transform("nunique") == len(frames)
    whole["scenario"] = whole["scenario"].where(~shared, ALL)
    whole = whole.drop_duplicates(ignore_index=True)
    whole = whole[["scenario", *values]]
    whole.attrs = dict(first.attrs)
    return whole


def with_expectation(frames: Mapping[str, pd.DataFrame], weights: Mapping[str, float], labelled: str) -> pd.DataFrame:
    """Expectation of frames, and beside it one column of each scenario, named by it."""
    frame = expectation(frames, weights)
    for name, own in frames.items():
        frame[f"{labelled} in {name}"] = own[labelled].reindex(frame.index, fill_value=0.0)
    first = next(iter(frames.values()))
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
