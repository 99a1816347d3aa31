"""Facility over IT power by the hour: from a curve over outdoor temperature, or measured."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from pypsa_aidc.errors import Faults
from pypsa_aidc.fleet.condition import hourly_means

Floats = npt.NDArray[np.float64]
Curve = Sequence[tuple[float, float]]

HIGHEST = 3.0
"""PUE above which it was probably given in percent, or as its inverse."""
OUTDOORS = (-60.0, 60.0)
"""Outdoor temperature, °C; above it, degrees Fahrenheit were probably meant."""


def pue_by_hour(
    pue: Curve | pd.Series[float],
    hours: npt.NDArray[np.int64],
    origin: str,
    needed: npt.NDArray[np.bool_],
    temperature: pd.Series[float] | None = None,
) -> Floats:
    """PUE of each hour of a trace.

    Parameters
    ----------
    pue
        Pairs of outdoor temperature, °C, and PUE, at least two, ascending in temperature, straight in between; or PUE
        by stamps with a zone. PUE is 1 … 3.
    hours, origin
        Of the trace: `Envelope.data["hour"]` and `Envelope.origin`.
    needed : array of shape (hours,)
        Hours that must have a PUE.
    temperature
        °C by stamps with a zone, for a curve; −60 … 60, within the curve.

    Returns
    -------
    array of shape (hours,)
        NaN in hours that are not needed and not known.

    Raises
    ------
    InputError
        No stamps on one side, a value outside its range, hours without a PUE or temperature, temperatures beyond the
        ends of the curve.

    Examples
    --------
    >>> at = pd.date_range("2026-07-01", periods=3, freq="h", tz="UTC")
    >>> curve = [(0.0, 1.1), (40.0, 1.5)]
    >>> outdoors = pd.Series([0.0, 20.0, 30.0], at)
    >>> pue_by_hour(curve, np.arange(3), "2026-07-01T00:00Z", np.ones(3, bool), outdoors).round(3).tolist()
    [1.1, 1.3, 1.4]
    """
    faults = Faults("PUE")
    curved = not isinstance(pue, pd.Series)
    faults.require(curved or temperature is None, "temperature", "given", "none: PUE is given by the hour")
    faults.require(not curved or temperature is not None, "temperature", None, "°C by stamps, for a curve over it")
    points: Any = np.empty((0, 2))
    if curved:
        points = read_curve("pue", "PUE", pue, (1.0, HIGHEST), "Facility over IT power, e.g. 1.2.", faults)
    faults.raise_any()
    given = temperature if isinstance(temperature, pd.Series) else pue
    name = "temperature" if curved else "pue"
    values = hourly_means(given, hours, origin, name, faults)  # type: ignore[arg-type]
    missing = needed & ~np.isfinite(values)
    remedy = "Fill them first, or leave these hours out of the trace."
    faults.require(not missing.any(), name, f"none in {missing.sum():,} of {needed.sum():,} hours", "all hours", remedy)
    seen = values[needed & np.isfinite(values)]
    if curved:
        check_outdoors(name, seen, points, faults)
    else:
        within(faults, name, seen, (1.0, HIGHEST), "Facility over IT power, e.g. 1.2.")
    faults.raise_any()
    return np.interp(values, points[:, 0], points[:, 1]) if curved else values


def read_curve(name: str, word: str, curve: object, edges: tuple[float, float], remedy: str, faults: Faults) -> Floats:
    """Read pairs of outdoor temperature, °C, and a value within `edges`, shape (points, 2); empty with a fault."""
    given: Any = [tuple(pair) if np.iterable(pair) else (pair,) for pair in faults.listed(name, curve, "pairs")]
    shaped = len(given) >= 2 and all(len(pair) == 2 for pair in given)
    faults.require(shaped, name, curve, f"at least two pairs of °C and {word}")
    if not shaped:
        return np.empty((0, 2))
    points = np.array(given, dtype=float)
    ascending = bool((np.diff(points[:, 0]) > 0).all())
    faults.require(ascending, name, points[:, 0].tolist(), "ascending temperatures, each once")
    within(faults, name, points[:, 1], edges, remedy)
    return points


def check_outdoors(name: str, values: Floats, points: Floats, faults: Faults) -> None:
    """Note temperatures that nobody has outdoors, or that are beyond the ends of a curve."""
    before = len(faults)
    within(faults, name, values, OUTDOORS, "Degrees Celsius; were they Fahrenheit?")
    if len(faults) == before:
        ends = (float(points[0, 0]), float(points[-1, 0]))
        within(faults, name, values, ends, "Add points to the curve: it is not extrapolated.")


def within(faults: Faults, name: str, values: Floats, edges: tuple[float, float], remedy: str) -> None:
    """Note values that are not within `edges`, or missing."""
    inside = (values >= edges[0]) & (values <= edges[1])
    given = f"{np.nanmin(values, initial=np.inf):g} … {np.nanmax(values, initial=-np.inf):g}"
    faults.require(bool(inside.all()), name, given, f"within {edges[0]:g} … {edges[1]:g}", remedy)
