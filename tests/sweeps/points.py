"""Functions for sweeps, in a module of their own: other processes import it."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pandas as pd


def square(n: int, table: Path | None = None) -> pd.DataFrame:
    """Two rows a point; 13 fails."""
    if n == 13:
        raise ValueError("unlucky")
    added = 0.0 if table is None else float(table.read_text())
    return pd.DataFrame({"power": [1, 2], "result": [n + added, n**2 + added]})


def mortal(n: int, mark: str) -> float:
    """Root of n; the process that comes to 3 first dies."""
    try:
        if n == 3:
            Path(mark).touch(exist_ok=False)
            os.kill(os.getpid(), signal.SIGKILL)
    except FileExistsError:
        pass
    return n**0.5
