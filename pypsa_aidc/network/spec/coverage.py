"""Which snapshots a series was given for, to tell one that PyPSA has filled with its default since."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
import pypsa
from numpy.typing import NDArray

from pypsa_aidc.errors import Faults

Span = tuple[str, str, int, str]
"""First snapshot, last snapshot, number of snapshots, and the labels between: their one step, or a digest of them."""

Coverage = Mapping[str, Span]
"""Snapshots of each attribute that was given as a series."""

_SHOWN = 3


def coverage(n: pypsa.Network, **values: float | pd.Series | None) -> dict[str, Span]:
    """Snapshots of each value that is a series."""
    span = (str(n.snapshots[0]), str(n.snapshots[-1]), len(n.snapshots), _labels(n.snapshots))
    return {name: span for name, value in values.items() if isinstance(value, pd.Series)}


def read_coverage(stored: Mapping[str, Sequence[object]]) -> dict[str, Span]:
    """Read what a specification holds; older ones say nothing of the labels between first and last."""
    return {
        key: (str(first), str(last), int(str(count)), str(labels[0]) if labels else "")
        for key, (first, last, count, *labels) in stored.items()
    }


def check_coverage(name: str, series: Coverage, n: pypsa.Network, snapshots: pd.Index, faults: Faults) -> None:
    """Note series that were given for other snapshots, label by label.

    PyPSA fills a series with its default when snapshots change: a base load of 0 MW, an efficiency of 1.

    Parameters
    ----------
    name
        Name of the load.
    series
        Snapshots of its series.
    n
        Network.
    snapshots
        Snapshots to be optimised.
    faults
        Receives the faults.
    """
    present = _labels(n.snapshots) if series else ""
    for attribute, span in series.items():
        outside = _outside(span, snapshots, present)
        first, last, count, _ = span
        shown = ", ".join(map(str, outside[:_SHOWN]))
        faults.require(
            not len(outside),
            f"{attribute} of {name!r}",
            f"{count} values from {first} to {last}, and {len(outside)} other snapshots such as {shown}",
            "a series for the present snapshots (PyPSA has filled the rest with its default)",
            "n.aidc.remove it and add it again with the series for these snapshots.",
        )


def _outside(span: Span, snapshots: pd.Index, present: str) -> pd.Index:
    """Snapshots that a series was not given for."""
    first, last, count, labels = span
    # A digest is of all labels; a step says nothing of where they begin.
    if labels and not labels.isdecimal() and labels in (present, _labels(snapshots)):
        return snapshots[:0]
    ends = [_type_like(snapshots, text) for text in (first, last)]
    if any(end is None for end in ends):
        texts = [str(label) for label in snapshots]
        same = {texts[0], texts[-1]} <= {first, last} and not labels
        return snapshots[:0] if same else snapshots
    inside = (snapshots >= ends[0]) & (snapshots <= ends[1])
    numbers, ends_in_numbers = _numbers(snapshots), _numbers(pd.Index(ends))
    if labels.isdecimal() and numbers is not None and ends_in_numbers is not None:
        inside &= (numbers - ends_in_numbers[0]) % int(labels) == 0
    elif labels and count > 1:
        return snapshots
    return snapshots[~inside]


def _labels(snapshots: pd.Index) -> str:
    """Step of labels that have one, in nanoseconds for dates, else a digest of all of them."""
    numbers = _numbers(snapshots)
    if numbers is not None and len(numbers) > 1:
        steps = np.diff(numbers)
        if (steps == steps[0]).all() and steps[0] > 0:
            return str(int(steps[0]))
    text = "\n".join(str(label) for label in snapshots)
    return f"sha256 {hashlib.sha256(text.encode()).hexdigest()[:16]}"


def _numbers(labels: pd.Index) -> NDArray[np.int64] | None:
    """Labels as whole numbers, `None` for all but dates and whole numbers."""
    if isinstance(labels, pd.DatetimeIndex):
        return np.asarray(labels.as_unit("ns"), dtype=np.int64)
    return np.asarray(labels, dtype=np.int64) if pd.api.types.is_integer_dtype(labels) else None


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
