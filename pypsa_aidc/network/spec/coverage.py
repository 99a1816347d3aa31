"""Which snapshots a series was given for, to tell one that PyPSA has filled with its default since."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd
import pypsa

from pypsa_aidc.errors import Faults

Coverage = Mapping[str, tuple[str, str, int]]
"""First snapshot, last snapshot and number of snapshots of each attribute that was given as a series."""


def coverage(n: pypsa.Network, **values: float | pd.Series | None) -> dict[str, tuple[str, str, int]]:
    """First snapshot, last snapshot and number of snapshots of each value that is a series."""
    ends = (str(n.snapshots[0]), str(n.snapshots[-1]), len(n.snapshots))
    return {name: ends for name, value in values.items() if isinstance(value, pd.Series)}


def check_coverage(name: str, series: Coverage, snapshots: pd.Index, faults: Faults) -> None:
    """Note series that were given for other snapshots.

    PyPSA fills a series with its default when snapshots change: a base load of 0 MW, an efficiency of 1.
    """
    for attribute, (first, last, count) in series.items():
        labels = pd.Index([str(label) for label in snapshots])
        ends = [_type_like(snapshots, text) for text in (first, last)]
        if all(end is not None for end in ends):
            outside = snapshots[(snapshots < ends[0]) | (snapshots > ends[1])]
        else:
            outside = snapshots[[]] if {labels[0], labels[-1]} <= {first, last} else snapshots
        faults.require(
            not len(outside),
            f"{attribute} of {name!r}",
            f"{count} values from {first} to {last}, but snapshots from {snapshots[0]} to {snapshots[-1]}",
            "a series for the present snapshots (PyPSA has filled the rest with its default)",
            "n.aidc.remove it and add it again with the series for these snapshots.",
        )


def _type_like(snapshots: pd.Index, text: str) -> object | None:
    """Read a snapshot from its text as the kind of label that `snapshots` have, or `None`."""
    try:
        if isinstance(snapshots, pd.DatetimeIndex):
            return pd.Timestamp(text)
        if pd.api.types.is_integer_dtype(snapshots):
            return int(text)
    except ValueError:
        return None
    return None
