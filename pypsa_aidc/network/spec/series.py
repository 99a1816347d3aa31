"""Values over snapshots: a number, one for each snapshot, or a labelled series, aligned by a declared rule."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from numbers import Real

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from pypsa_aidc.errors import Faults, SeriesWarning

Values = float | Sequence[float] | pd.Series
_SHOWN = 3

Floats = NDArray[np.float64]


def aligned(value: Values, snapshots: pd.Index, where: str, faults: Faults) -> float | pd.Series:
    """Align a value with the snapshots of a network.

    Parameters
    ----------
    value
        A number; a sequence with one number for each snapshot; or a `pandas.Series`, matched by label in any order.
        A series with a time zone is converted to UTC and stripped of it, since PyPSA's snapshots have none. Of a series
        finer than the snapshots, each snapshot gets the mean until the next one, so that energy is kept. One that is
        coarser misses snapshots.
    snapshots
        ``n.snapshots``.
    where
        Name of the argument, for messages.
    faults
        Receives one fault a kind: missing or repeated snapshots, NaN, wrong length, values between snapshots that
        cannot be averaged.

    Returns
    -------
    float or pandas.Series
        A number as it came, anything else indexed by `snapshots`; NaN wherever a fault was noted.

    Warns
    -----
    SeriesWarning
        The series was averaged.
    """
    if isinstance(value, Real) or np.ndim(value) != 1:
        faults.number(where, value, remedy="Or one for each snapshot, or a pandas.Series.")
        return float(value) if isinstance(value, Real) else float("nan")
    series = value if isinstance(value, pd.Series) else pd.Series(np.asarray(value))
    if series is not value:
        if len(series) != len(snapshots):
            given, expected = f"{len(series)} values", f"{len(snapshots)}, one for each snapshot"
            faults.add(where, given, expected, "Give a pandas.Series to match by label.")
            return pd.Series(np.nan, snapshots)
        series = series.set_axis(snapshots)
    if isinstance(series.index, pd.DatetimeIndex) and series.index.tz is not None:
        series = series.set_axis(series.index.tz_convert("UTC").tz_localize(None))
    repeated = series.index[series.index.duplicated()].unique()
    if len(repeated):
        faults.add(where, _some(repeated), "each snapshot once", "Drop or average the repeated rows.")
        return pd.Series(np.nan, snapshots)
    missing = snapshots.difference(series.index, sort=False)
    if len(missing):
        span = f"{series.index.min()} to {series.index.max()}" if len(series) else "nothing"
        faults.add(
            where,
            f"no value for {len(missing)} of {len(snapshots)} snapshots: {_some(missing)}; the series covers {span}",
            f"a value for each snapshot from {snapshots[0]} to {snapshots[-1]}",
            "Give the series for these snapshots; a series with a time zone is read in UTC.",
        )
    numbers = pd.to_numeric(series, errors="coerce").astype(float)
    if not len(missing):
        numbers = _averaged(numbers, snapshots, where, faults)
    numbers = numbers.reindex(snapshots)
    bad = snapshots[~np.isfinite(numbers.to_numpy()) & ~snapshots.isin(missing)]
    if len(bad):
        faults.add(where, f"NaN at {_some(bad)}", "a finite number at each snapshot", "Fill or correct these hours.")
    return numbers


def _averaged(series: pd.Series, snapshots: pd.Index, where: str, faults: Faults) -> pd.Series:
    """Mean of a series over each snapshot, where it has more values than one in any; it has one at each snapshot."""
    if isinstance(snapshots, pd.MultiIndex):
        between = _between(series, snapshots)
        expected = "one value for each snapshot, in each period"
        faults.require(not between, where, f"values between snapshots in period {between[:1]}", expected, "Average it.")
        return series
    times = _numbers(snapshots)
    if times is None or len(times) < 2 or (np.diff(times) <= 0).any():
        return series
    series = series.sort_index()
    labels = _numbers(series.index)
    if labels is None:
        return series
    # What is far apart are days apart, not one long snapshot.
    usual = float(np.median(np.diff(times)))
    spans = np.append(np.minimum(np.diff(times), usual), usual)
    first, last = np.searchsorted(labels, times), np.searchsorted(labels, times + spans * (1 - 1e-9))
    counts = last - first
    if counts.max() <= 1:
        return series
    step = float(np.diff(labels).min())
    lacking = snapshots[np.abs(counts * step - spans) > 1e-6 * spans]
    if len(lacking):
        given = f"values between the snapshots, but not for all of {_some(lacking)}"
        faults.add(where, given, "values at one step all along", "Average it over each snapshot, or fill its gaps.")
        return series
    told = f"{where}: {counts.max():g} values for each snapshot; their mean is taken, so that energy is kept"
    warnings.warn(told, SeriesWarning, stacklevel=5)
    passed = np.concatenate([[0.0], np.cumsum(series.to_numpy())])
    return pd.Series((passed[last] - passed[first]) / counts, snapshots)


def _between(series: pd.Series, snapshots: pd.MultiIndex) -> list[object]:
    """Periods in which a series has values between the snapshots."""
    if not isinstance(series.index, pd.MultiIndex):
        return []
    extra = series.index.difference(snapshots)
    found = []
    for period in snapshots.get_level_values(0).unique():
        own = snapshots.get_level_values(1)[snapshots.get_level_values(0) == period]
        more = extra.get_level_values(1)[extra.get_level_values(0) == period]
        if ((more > own.min()) & (more < own.max())).any():
            found.append(period)
    return found


def _numbers(labels: pd.Index) -> Floats | None:
    """Labels as hours or numbers, `None` for text and the like."""
    if isinstance(labels, pd.DatetimeIndex):
        return np.asarray((labels - pd.Timestamp(0)) / pd.Timedelta("1h"), dtype=float)
    return np.asarray(labels, dtype=float) if pd.api.types.is_numeric_dtype(labels) else None


def _some(labels: pd.Index) -> str:
    more = f" and {len(labels) - _SHOWN} more" if len(labels) > _SHOWN else ""
    return ", ".join(str(label) for label in labels[:_SHOWN]) + more
