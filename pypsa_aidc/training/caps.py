"""Power caps: what a lower limit on the power of GPUs costs in time, and the modes that it adds."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from itertools import pairwise
from pathlib import Path

import pandas as pd

from pypsa_aidc.errors import Faults
from pypsa_aidc.training.csv_table import read_cells
from pypsa_aidc.training.mode_table import Mode, ModeTable


@dataclass(frozen=True)
class Frontier:
    """Measured trade of power for time of one kind of training under power caps or locked clocks.

    Parameters
    ----------
    power
        Mean power at each cap over that without a cap, in (0, 1).
    time
        Time of an iteration at each cap over that without a cap, at least 1 and longer for less power.
    source
        Where the points were measured.

    Raises
    ------
    InputError
        Points out of range or that no frontier has: less power must take more time; all of them at once.

    Examples
    --------
    A tenth less power for three per cent more time: 7 % less energy.

    >>> frontier = Frontier(power=(0.9, 0.7), time=(1.03, 1.2), source="own racks, 400 W A100")
    >>> mode = Mode((4, 4, 32), gpus=512, flops_per_s=6e16, it_power=0.2)
    >>> [(capped.label, round(capped.it_power, 3)) for capped in frontier.modes([mode])]
    [('4·4·32', 0.2), ('4·4·32@90%', 0.18), ('4·4·32@70%', 0.14)]
    """

    power: tuple[float, ...]
    time: tuple[float, ...]
    source: str

    def __post_init__(self) -> None:
        faults = Faults("Frontier")
        faults.kind("source", self.source, str, "text")
        faults.require(len(self.power) == len(self.time) > 0, "points", len(self.power), "as many powers as times")
        for power, time in zip(self.power, self.time, strict=False):
            faults.number("power", power, above=0, at_most=0.999, remedy="A share of the power without a cap: 0.8.")
            faults.number("time", time, at_least=1, at_most=20, remedy="A factor on the time without a cap: 1.05.")
        if not len(faults):
            points = sorted(zip(self.power, self.time, strict=True), reverse=True)
            for (more, short), (less, long) in pairwise(points):
                expected = f"longer than {short:g} at {more:g} of the power"
                faults.require(less < more and long > short, f"time at {less:g} of the power", long, expected)
        faults.raise_any()

    @classmethod
    def presets(cls) -> tuple[str, ...]:
        """Return the names of the published frontiers; each has one point, and its source says whose.

        Examples
        --------
        >>> Frontier.presets()
        ('V100-150W', 'B200-MaxQ')
        """
        return tuple(dict.fromkeys(_published()["name"]))

    @classmethod
    def preset(cls, name: str) -> Frontier:
        """Return a published frontier.

        Parameters
        ----------
        name
            One of `presets`.

        Raises
        ------
        InputError
            No such frontier.

        Examples
        --------
        >>> capped = Frontier.preset("V100-150W")
        >>> round(100 * (1 - capped.power[0] * capped.time[0]), 1)  # per cent of energy
        13.7
        """
        faults = Faults(f"Frontier {name!r}")
        faults.require(name in cls.presets(), "name", name, f"one of {', '.join(cls.presets())}")
        faults.raise_any()
        rows = _published().query("name == @name")
        return cls(tuple(rows["power"]), tuple(rows["time"]), str(rows["source"].iloc[0]))

    @classmethod
    def read(cls, source: str | Path) -> Frontier:
        """Read the points of a frontier.

        Parameters
        ----------
        source
            CSV file with the columns `power` and `time`.

        Raises
        ------
        InputError
            The file cannot be read, lacks a column, or has a cell that is no number.
        """
        faults = Faults(str(source))
        table = read_cells(Path(source), faults)
        for column in ("power", "time"):
            faults.require(column in table, column, "no such column", "a column")
        faults.raise_any()
        numbers = table[["power", "time"]].apply(pd.to_numeric, errors="coerce")
        for row, column in zip(*numbers.isna().to_numpy().nonzero(), strict=True):
            faults.add(
                f"row {row + 1}, {numbers.columns[column]}", table.iloc[row][numbers.columns[column]], "a number"
            )
        faults.raise_any()
        return cls(tuple(numbers["power"]), tuple(numbers["time"]), str(source))

    def modes(self, modes: ModeTable | Iterable[Mode]) -> tuple[Mode, ...]:
        """Return the modes and each of them at every cap, without those that another one dominates (Eq. 20 of [1]).

        A cap acts on the same GPUs: `it_power` falls by its share, `flops_per_s` by its time.
        """
        every = list(modes)
        for mode in list(every):
            for power, time in zip(self.power, self.time, strict=True):
                capped = replace(mode, it_power=mode.it_power * power, flops_per_s=mode.flops_per_s / time, cap=power)
                every.append(capped)
        return tuple(mode for mode in every if not any(_beats(other, mode) for other in every))


@cache
def _published() -> pd.DataFrame:
    with (files("pypsa_aidc.training") / "frontiers.csv").open(encoding="utf-8") as file:
        return pd.read_csv(file)


def _beats(one: Mode, other: Mode) -> bool:
    ours, theirs = ((mode.gpus, mode.it_power, -mode.flops_per_s) for mode in (one, other))
    return ours != theirs and all(a <= b for a, b in zip(ours, theirs, strict=True))
