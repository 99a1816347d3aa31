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
    found: dict[str, str] = {}
    faults = Faults("AIDCs of the network")
    for name, text in zip(names(static.index), static[COLUMN].tolist(), strict=True):
        if not pd.isna(text) and text != "":
            same = found.setdefault(str(name), str(text)) == str(text)
            faults.require(same, str(name), "different specifications", "one for all scenarios")
    faults.raise_any(SpecError)
    return list(found.items())


def specified(static: pd.DataFrame, word: str) -> list[tuple[str, str]]:
    """Name and JSON of the components that hold a specification of one kind."""
    return [(name, text) for name, text in stored(static) if word_of(text, name) == word]


def store(static: pd.DataFrame, texts: Mapping[str, str], column: str = COLUMN) -> None:
    """Write texts by component into a string column, which is empty for all other components."""
    static[column] = (static[column] if column in static else pd.Series("", static.index)).fillna("").astype(object)
    for name, text in texts.items():
        static.loc[rows(static.index, name), column] = text
