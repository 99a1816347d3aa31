"""What ships with the package: a network for each paper, and the numbers that the papers print."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd


def bundled_network(name: str) -> Path:
    """Path of a bundled network, in the installed package or in the project's folder."""
    packaged = Path(str(files("pypsa_aidc"))) / "networks" / f"{name}.nc"
    return packaged if packaged.is_file() else Path(__file__).parents[2] / "networks" / f"{name}.nc"


def published(name: str, index: str) -> pd.DataFrame:
    """Numbers of the paper on a bundled network."""
    import pandas as pd

    return pd.read_csv(str(files("pypsa_aidc.cli") / f"{name}_paper.csv"), index_col=index)
