"""Files of stamps and values that stand beside a trace or a configuration: demand, temperature, PUE."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pypsa_aidc.errors import Faults, InputError

if TYPE_CHECKING:
    import pandas as pd


def stamped_series(faults: Faults, option: str, path: str | Path, zone: str | None) -> pd.Series[float]:
    """Read the first two columns of a CSV: stamps and numbers; faults of `option` are raised with `faults`.

    Parameters
    ----------
    faults, option
        Where faults go, and what the user called the file with.
    path
        Of the CSV.
    zone
        Of stamps that name none; they are refused without it.
    """
    import pandas as pd

    try:
        table = pd.read_csv(path)
        text, numbers = table.iloc[:, 0], pd.to_numeric(table.iloc[:, 1])
        aware = pd.Timestamp(text.iloc[0]).tz is not None
        stamps = pd.DatetimeIndex(pd.to_datetime(text, utc=aware))
    except (OSError, ValueError, IndexError) as error:
        faults.add(option, str(path), f"a CSV of stamps and numbers ({str(error).splitlines()[0]})")
        faults.raise_any()
        raise
    remedy = "Give the zone that the file is written in, e.g. --zone America/Chicago."
    faults.require(aware or zone is not None, option, f"{path}: {text.iloc[0]}", "stamps with a zone", remedy)
    faults.raise_any()
    try:
        stamps = stamps if aware else stamps.tz_localize(zone, ambiguous="NaT", nonexistent="NaT")
    except (KeyError, ValueError, OSError):
        faults.add("--zone", zone, "a time zone, e.g. America/Chicago")
        faults.raise_any()
    return pd.Series(numbers.to_numpy(float), stamps)[stamps.notna()]


@dataclass(frozen=True)
class SeriesConfig:
    """A series in a CSV file beside the configuration: snapshots in its first column.

    Parameters
    ----------
    file
        Path, relative to the configuration.
    column
        Name of the column.
    """

    file: str
    column: str

    def series(self, folder: Path) -> pd.Series[float]:
        """Read the series, its labels as dates where they are dates.

        Raises
        ------
        InputError
            No such file or column.
        """
        import pandas as pd

        path = folder / self.file
        faults = Faults(str(path))
        try:
            table = pd.read_csv(path, index_col=0)
        except (OSError, ValueError) as error:
            faults.add("file", str(path), f"a readable CSV file ({error})")
            raise InputError(faults.subject, tuple(faults)) from error
        faults.require(self.column in table, "column", self.column, f"one of {', '.join(map(str, table.columns))}")
        faults.raise_any()
        series = table[self.column]
        if not pd.api.types.is_numeric_dtype(series.index):
            dates = pd.to_datetime(pd.Series(series.index), errors="coerce")
            faults.require(not dates.isna().any(), "first column", list(series.index[:2]), "dates or numbers")
            faults.raise_any()
            series = series.set_axis(pd.DatetimeIndex(dates))
        return series


ValuesConfig = float | tuple[float, ...] | SeriesConfig
