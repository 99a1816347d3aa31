"""The power model against measurements: curve anchors, power distributions, what an hourly mean hides."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd

from pypsa_aidc.errors import Faults
from pypsa_aidc.fleet.power import PowerModel
from pypsa_aidc.fleet.trace.schema import KNOTS, WORKLOADS
from pypsa_aidc.fleet.windows import Floats

IDLE = "idle"
"""Category of a measurement of an allocated GPU at rest."""


def modelled(model: PowerModel, workload: str, utilisation: npt.ArrayLike) -> Floats:
    """Power of an active GPU as a share of its rating: φ + (1 − φ)·g(u) (Eq. 1 of [2])."""
    return np.asarray(model.idle_fraction + (1 - model.idle_fraction) * model.value(workload, utilisation))


def duty_cycle_error(model: PowerModel, workload: str, means: npt.ArrayLike) -> Floats:
    """How much the model overstates power if utilisation jumps between 0 and twice its hourly mean (Fig. 6b of [2]).

    Parameters
    ----------
    model, workload
        The curve.
    means : array
        Hourly mean utilisation, above 0 and at most 1; beyond 0.5 the upper state is 1 and held for longer.

    Returns
    -------
    array
        Modelled over true power, less 1; 0 for a linear curve without floor.

    Examples
    --------
    The range of 22–25 % that [2] prints for training:

    >>> duty_cycle_error(PowerModel(), "training", [0.3, 0.6]).round(3).tolist()
    [0.221, 0.247]
    """
    mean = np.asarray(means, dtype=float)
    faults = Faults("Duty cycle")
    faults.require(workload in WORKLOADS, "workload", workload, f"one of {', '.join(WORKLOADS)}")
    inside = bool(((mean > 0) & (mean <= 1)).all())
    faults.require(inside, "means", mean.tolist(), "utilisations above 0 and at most 1")
    faults.raise_any()
    top = np.minimum(2 * mean, 1.0)
    busy = mean / top
    true = (1 - busy) * modelled(model, workload, 0.0) + busy * modelled(model, workload, top)
    return np.asarray(modelled(model, workload, mean) / true - 1)


def jensen_bound(model: PowerModel, workload: str, means: npt.ArrayLike) -> Floats:
    """Largest relative error of any distribution of utilisation within the hour, exactly (Fig. 6b of [2]).

    The mean of a curve over all distributions of one mean lies between its convex and its concave hull, and both hulls
    of a piecewise-linear curve are spanned by its knots.

    Returns
    -------
    array
        Distance of the farther hull from the modelled power, over the modelled power.
    """
    mean = np.asarray(means, dtype=float)
    knots = np.array((*KNOTS, 1.0))
    curve = modelled(model, workload, knots)
    lower, upper = np.full(mean.shape, np.inf), np.full(mean.shape, -np.inf)
    for i, left in enumerate(knots):
        for j in range(i, knots.size):
            inside = (mean >= left) & (mean <= knots[j])
            width = knots[j] - left
            chord = curve[i] + (curve[j] - curve[i]) * ((mean - left) / width if width else 0.0)
            lower = np.where(inside, np.minimum(lower, chord), lower)
            upper = np.where(inside, np.maximum(upper, chord), upper)
    own = modelled(model, workload, mean)
    return np.asarray(np.maximum(own - lower, upper - own) / own)


def compare_anchors(measured: pd.DataFrame, model: PowerModel | None = None) -> pd.DataFrame:
    """Set measured power levels beside the range of the model (Fig. 5 of [2]).

    Parameters
    ----------
    measured : pandas.DataFrame
        Columns `category` (``"idle"`` or a workload) and `share` (power over rating, 0 … 1.2).
    model
        Power model; the central one if None.

    Returns
    -------
    pandas.DataFrame
        Index category; `points`, `lowest`, `median`, `highest` of the measurements, `model_low` and `model_high` (at no
        and at full utilisation), and `inside` (share of the points between them).

    Raises
    ------
    InputError
        Missing columns, unknown categories, shares that are none.
    """
    power_model = model or PowerModel()
    faults = Faults("Measured anchors")
    missing = [name for name in ("category", "share") if name not in measured]
    faults.require(not missing, "columns", list(measured.columns), f"also {', '.join(missing)}")
    faults.raise_any()
    share = pd.to_numeric(measured["share"], errors="coerce")
    for row in share.index[~share.between(0, 1.2)]:
        faults.add(
            f"row {row}, 'share'", measured["share"][row], "power over rating, 0 … 1.2", "Divide W by the rating."
        )
    unknown = sorted(set(measured["category"].astype(str)) - {IDLE, *WORKLOADS})
    faults.require(not unknown, "category", unknown, f"one of {', '.join((IDLE, *WORKLOADS))}")
    faults.require(len(measured) > 0, "rows", 0, "at least one")
    faults.raise_any()
    rows = {}
    for category, points in share.groupby(measured["category"].astype(str)):
        idle = power_model.idle_fraction
        low, high = (idle, idle) if category == IDLE else map(float, modelled(power_model, str(category), [0.0, 1.0]))
        rows[category] = {
            "points": len(points),
            "lowest": points.min(),
            "median": points.median(),
            "highest": points.max(),
            "model_low": low,
            "model_high": high,
            "inside": float(points.between(low, high).mean()),
        }
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("category")


def read_power_distribution(path: str | Path, rating: float) -> pd.DataFrame:
    """Read a cumulative distribution of measured GPU power, as published for the Acme clusters.

    Parameters
    ----------
    path
        CSV with the columns `percent` (0 … 100, ascending) and `value` (W).
    rating
        Of the accelerator, W.

    Returns
    -------
    pandas.DataFrame
        `percent`, `power` (W), `share` (of the rating).

    Raises
    ------
    InputError
        Unreadable file, missing columns, values that are no distribution.
    """
    faults = Faults(f"Power distribution in '{path}'")
    faults.number("rating", rating, above=0)
    try:
        table = pd.read_csv(path)
    except (OSError, ValueError, pd.errors.ParserError) as error:
        faults.add("file", str(error), "a CSV file")
        faults.raise_any()
    missing = [name for name in ("percent", "value") if name not in table]
    faults.require(not missing, "columns", list(table.columns), f"also {', '.join(missing)}")
    faults.raise_any()
    numbers = table[["percent", "value"]].apply(pd.to_numeric, errors="coerce")
    whole = bool(numbers.notna().all().all()) and len(numbers) > 1
    faults.require(whole, "rows", len(numbers), "at least two rows of numbers")
    rising = whole and bool(numbers["percent"].is_monotonic_increasing and numbers["value"].is_monotonic_increasing)
    faults.require(rising, "rows", "values that fall", "ascending percentages and powers")
    faults.raise_any()
    power = numbers["value"]
    return pd.DataFrame({"percent": numbers["percent"], "power": power, "share": power / rating})


def subhour_minima(log: pd.DataFrame, minutes: Sequence[int] = (1, 5, 15)) -> pd.DataFrame:
    """Lowest mean power of short windows within an hour, over the mean of the hour (Fig. 6c of [2]).

    Parameters
    ----------
    log : pandas.DataFrame
        Columns `seconds` (ascending, evenly spaced) and `power` (any unit, above 0 on average) of one node.
    minutes
        Window lengths, 1 … 60.

    Returns
    -------
    pandas.DataFrame
        One row for each complete hour, one column for each window length.

    Raises
    ------
    InputError
        Missing columns, uneven sampling, no complete hour, a window shorter than the sampling.

    Examples
    --------
    >>> log = pd.DataFrame({"seconds": range(0, 3600, 60), "power": [1.0] * 30 + [3.0] * 30})
    >>> subhour_minima(log, [15]).to_numpy().tolist()
    [[0.5]]
    """
    faults = Faults("Node log")
    missing = [name for name in ("seconds", "power") if name not in log]
    faults.require(not missing, "columns", list(log.columns), f"also {', '.join(missing)}")
    for length in minutes:
        faults.number("minutes", length, at_least=1, at_most=60, integer=True)
    faults.raise_any()
    table = log[["seconds", "power"]].apply(pd.to_numeric, errors="coerce")
    steps = np.diff(table["seconds"].to_numpy())
    even = table.notna().all().all() and steps.size > 0 and steps[0] > 0 and np.allclose(steps, steps[0])
    faults.require(bool(even), "seconds", steps[:3].tolist(), "even, ascending steps and no missing values")
    faults.raise_any()
    period = float(steps[0])
    samples = round(3600 / period)
    shortest = 60 * min(minutes, default=60)
    faults.require(
        period <= shortest, "minutes", list(minutes), f"windows of at least the sampling period, {period:g} s"
    )
    hours = len(table) // samples if samples else 0
    faults.require(hours > 0, "rows", len(table), f"a complete hour: {samples} rows")
    faults.raise_any()
    power = table["power"].to_numpy()[: hours * samples].reshape(hours, samples)
    cumulative = np.concatenate([np.zeros((hours, 1)), np.cumsum(power, axis=1)], axis=1)
    result = {}
    for length in minutes:
        width = round(60 * length / period)
        means = (cumulative[:, width:] - cumulative[:, :-width]) / width
        result[f"{length} min"] = means.min(axis=1) / power.mean(axis=1)
    return pd.DataFrame(result, index=pd.RangeIndex(hours, name="hour"))
