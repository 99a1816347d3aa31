"""Component names in indexes that may also carry scenarios."""

from __future__ import annotations

import pandas as pd


def names(index: pd.Index) -> pd.Index:
    """Return the component names of an index, with or without scenarios."""
    return index.get_level_values("name") if isinstance(index, pd.MultiIndex) else index


def rows(index: pd.Index, name: str) -> pd.Index:
    """Return the labels of one component, one a scenario."""
    return index[names(index) == name]


def columns(frame: pd.DataFrame, wanted: list[str]) -> pd.DataFrame:
    """Return the columns of some components by name; with scenarios, those of the first that has them."""
    if not isinstance(frame.columns, pd.MultiIndex):
        return frame.reindex(columns=wanted)
    first = frame.columns.get_level_values(0)[0] if len(frame.columns) else None
    return pd.DataFrame(frame.xs(first, axis=1, level=0)).reindex(columns=wanted)
