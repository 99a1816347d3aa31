"""Cells of a CSV file as text, every row as wide as the header."""

from __future__ import annotations

import csv
from pathlib import Path

import pandas as pd

from pypsa_aidc.errors import Faults, InputError


def read_cells(path: Path, faults: Faults) -> pd.DataFrame:
    """Read a CSV file as text, or raise `InputError` if it cannot be read or has rows of another width."""
    try:
        with path.open(encoding="utf-8", newline="") as file:
            header, *lines = [[cell.strip() for cell in line] for line in csv.reader(file) if line] or [[]]
    except (OSError, ValueError, csv.Error) as error:
        faults.add("file", str(path), f"a readable CSV file ({error})")
        raise InputError(faults.subject, tuple(faults)) from error
    for row, line in enumerate(lines, start=1):
        # pandas would take the first cells of a longer row for an index, and shift the rest.
        faults.require(len(line) == len(header), f"row {row}", f"{len(line)} cells", f"{len(header)}, as the header")
    faults.raise_any()
    return pd.DataFrame(lines, columns=header)
