"""Reading the preset tables that ship with the package: attributes as data, not code."""

from __future__ import annotations

import csv
from functools import cache
from importlib.resources import files

from pypsa_aidc.errors import Faults


@cache
def _table(name: str) -> dict[str, dict[str, str]]:
    text = (files("pypsa_aidc.training") / f"{name}.csv").read_text(encoding="utf-8")
    return {row["name"]: row for row in csv.DictReader(text.splitlines())}


def names(table: str) -> tuple[str, ...]:
    """Names in a preset table (``"transformers"`` or ``"gpus"``)."""
    return tuple(_table(table))


def preset(table: str, name: str) -> dict[str, str]:
    """Return one row of a preset table as text fields.

    Raises
    ------
    InputError
        The name is not in the table; the error lists those that are.
    """
    rows = _table(table)
    if name not in rows:
        faults = Faults(f"preset of {table}")
        faults.add("name", name, f"one of {', '.join(rows)}")
        faults.raise_any()
    return rows[name]
