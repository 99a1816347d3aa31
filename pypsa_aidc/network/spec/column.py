"""The string column that holds specifications: read once for all scenarios, written for all."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from pypsa_aidc.errors import Faults, SpecError
from pypsa_aidc.network.pypsa_api import names, rows
from pypsa_aidc.network.spec.schema import word_of

COLUMN = "aidc"
"""Column of `n.links` and `n.generators` that holds the JSON of sites, jobs and fleets; empty for all else."""


def stored(static: pd.DataFrame) -> list[tuple[str, str]]:
    """Name and JSON of the components that hold one, each once also where there are scenarios."""
    if COLUMN not in static.columns:
        return []
    texts = static[COLUMN].fillna("").astype(str)
    unique = texts[texts != ""].groupby(names(texts[texts != ""].index), sort=False)
    faults = Faults("AIDCs of the network")
    for name, group in unique:
        faults.require(group.nunique() == 1, str(name), "different specifications", "one for all scenarios")
    faults.raise_any(SpecError)
    return [(str(name), str(group.iloc[0])) for name, group in unique]


def specified(static: pd.DataFrame, word: str) -> list[tuple[str, str]]:
    """Name and JSON of the components that hold a specification of one kind."""
    return [(name, text) for name, text in stored(static) if word_of(text, name) == word]


def store(static: pd.DataFrame, texts: Mapping[str, str], column: str = COLUMN) -> None:
    """Write texts by component into a string column, which is empty for all other components."""
    static[column] = (static[column] if column in static else pd.Series("", static.index)).fillna("").astype(object)
    for name, text in texts.items():
        static.loc[rows(static.index, name), column] = text
