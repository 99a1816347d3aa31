"""Values over snapshots: a number, one for each snapshot, or a labelled series, aligned by a declared rule."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Real

import numpy as np
import pandas as pd

from pypsa_aidc.errors import Faults

Values = float | Sequence[float] | pd.Series
_SHOWN = 3


def aligned(value: Values, snapshots: pd.Index, where: str, faults: Faults) -> float | pd.Series:
    """Align a value with the snapshots of a network.

    Parameters
    ----------
    value
        A number; a sequence with one number for each snapshot; or a `pandas.Series`, matched by label in any order.
        A series with a time zone is converted to UTC and stripped of it, since PyPSA's snapshots have none.
    snapshots
        ``n.snapshots``.
    where
        Name of the argument, for messages.
    faults
        Receives one fault a kind: missing or repeated snapshots, NaN, wrong length.

    Returns
    -------
    float or pandas.Series
        A number as it came, anything else indexed by `snapshots`; NaN wherever a fault was noted.
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
    numbers = pd.to_numeric(series, errors="coerce").reindex(snapshots).astype(float)
    bad = snapshots[~np.isfinite(numbers.to_numpy()) & ~snapshots.isin(missing)]
    if len(bad):
        faults.add(where, f"NaN at {_some(bad)}", "a finite number at each snapshot", "Fill or correct these hours.")
    return numbers


def _some(labels: pd.Index) -> str:
    more = f" and {len(labels) - _SHOWN} more" if len(labels) > _SHOWN else ""
    return ", ".join(str(label) for label in labels[:_SHOWN]) + more
