"""Reading the preset tables that ship with the package: attributes as data, not code."""

from __future__ import annotations

import csv
import re
from functools import cache
from importlib.resources import files

from pypsa_aidc.errors import Faults, InputError, near


@cache
def _table(name: str) -> dict[str, dict[str, str]]:
    text = (files("pypsa_aidc.training") / f"{name}.csv").read_text(encoding="utf-8")
    return {row["name"]: row for row in csv.DictReader(text.splitlines())}


def names(table: str) -> tuple[str, ...]:
    """Names in a preset table (``"transformers"`` or ``"gpus"``)."""
    return tuple(_table(table))


def preset(table: str, name: str) -> dict[str, str]:
    """Return one row of a preset table as text fields; case, spaces and dashes of the name do not matter.

    Raises
    ------
    InputError
        The name is not in the table; the error lists those that are, and asks after near ones.

    Examples
    --------
    >>> preset("gpus", "a100 80gb")["name"]
    'A100-80GB'
    """
    rows = _table(table)
    found = next((row for known, row in rows.items() if _plain(known) == _plain(name)), None)
    if found is None:
        faults = Faults(f"preset of {table}")
        faults.add("name", name, f"one of {', '.join(rows)}", near(name, rows, 2))
        raise InputError(faults.subject, tuple(faults))
    return found


def _plain(name: str) -> str:
    return re.sub(r"[\s_-]", "", str(name)).casefold()
