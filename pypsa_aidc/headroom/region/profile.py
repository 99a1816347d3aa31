"""Shapes of a load and of its relief, per unit of its empirical peak, and those that [2] compares."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd
import xarray as xr

from pypsa_aidc.errors import Faults
from pypsa_aidc.fleet import Envelope
from pypsa_aidc.fleet.envelope import Portfolio
from pypsa_aidc.fleet.windows import Floats

REPRESENTATIONS = (
    "none",
    "trace, marginal",
    "trace, average PUE",
    "mean share",
    "attributed",
    "constant tier",
    "full",
)
"""The seven cases of App. E of [2]."""


@dataclass(frozen=True, repr=False)
class Profile:
    """Hourly shape of a load and of what of it can be curtailed (App. E of [2]).

    Attributes
    ----------
    name
        Of the case.
    load : array of shape (hours,)
        s, per unit of the size of the load; at least 0, not all 0. One value is a flat load.
    relief : array of shape (hours,)
        c, per unit of the same size; at least 0. What exceeds the load cannot be curtailed and counts only up to it.
    synthetic
        Whether the numbers come from the synthetic fleet.
    source
        Where they come from.

    Raises
    ------
    InputError
        Different lengths, NaN, infinite or negative values, a load that is nowhere above 0.

    Examples
    --------
    >>> Profile("a flat load", [1.0], [0.2])
    Profile(a flat load, 1 hours, load 1 to 1, mean relief 0.2)
    """

    name: str
    load: npt.NDArray[np.float64]
    relief: npt.NDArray[np.float64]
    synthetic: bool = False
    source: str = "given"

    def __post_init__(self) -> None:
        faults = Faults(f"Profile '{self.name}'")
        faults.require(bool(self.name), "name", self.name, "a name")
        for name in ("load", "relief"):
            values = np.array(getattr(self, name), dtype=float)
            faults.require(
                values.ndim == 1 and values.size > 0, name, f"shape {values.shape}", "one value for each hour"
            )
            for words, bad in (("finite numbers", ~np.isfinite(values)), ("at least 0", values < 0)):
                hours = np.flatnonzero(bad)
                if hours.size:
                    faults.add(
                        f"{name}, hour {hours[0]}", float(values.flat[hours[0]]), f"{words} ({hours.size} differ)"
                    )
            values.flags.writeable = False
            object.__setattr__(self, name, values)
        sizes = self.load.shape, self.relief.shape
        faults.require(sizes[0] == sizes[1], "relief", f"shape {sizes[1]}", f"that of load, {sizes[0]}")
        faults.require(bool((self.load > 0).any()), "load", "0 in every hour", "an hour above 0")
        faults.raise_any()

    def __repr__(self) -> str:
        word = "synthetic, " if self.synthetic else ""
        return (
            f"Profile({word}{self.name}, {self.load.size:,} hours, load {self.load.min():.4g} to "
            f"{self.load.max():.4g}, mean relief {self.usable.mean():.4g})"
        )

    @property
    def usable(self) -> Floats:
        """Relief up to the load, min(c, s)."""
        return np.minimum(self.relief, self.load)

    @property
    def clipped(self) -> int:
        """Hours in which relief exceeds the load."""
        return int((self.relief > self.load).sum())

    def laid(self, clock: npt.NDArray[np.int64], offset: int) -> tuple[Floats, Floats]:
        """Load and usable relief in the hours of a demand, per unit; shape (hours,)."""
        place = (clock - offset) % self.load.size
        return self.load[place], self.usable[place]

    def to_frame(self) -> pd.DataFrame:
        """One row for each hour: `load` and `relief`, per unit."""
        return pd.DataFrame({"load": self.load, "relief": self.relief}).rename_axis("hour")


def profiles(
    envelope: Envelope,
    *,
    q: float = 1.0,
    tier: float = 0.2,
    portfolio: Portfolio = None,
) -> tuple[Profile, ...]:
    """Shape a fleet in the seven representations of App. E of [2], `REPRESENTATIONS`.

    The load is facility power over its empirical peak (trailing 168-h maximum); relief is divided by the same peak.
    Hours that are missing in the trace are interpolated.

    Parameters
    ----------
    envelope
        The fleet.
    q
        Fraction of the eligible power that a field trial has shown to be realised, 0 … 1; scales the four
        representations that come from the trace.
    tier
        Constant share of the load that the tier sheds, 0 … 1.
    portfolio
        Clusters whose eligible work counts, as for `Envelope.relief`; the load is always the whole fleet.

    Returns
    -------
    tuple of Profile
        ``"none"``; ``"trace, marginal"`` (idle-retained eligible power, one MW at the meter for one of workload);
        ``"trace, average PUE"`` (times PUE); ``"mean share"`` (workload power times its mean eligible share);
        ``"attributed"`` (all power of eligible pods); ``"constant tier"`` (a share of the load); ``"full"``.

    Raises
    ------
    InputError
        A fraction out of range, an unknown portfolio, a fleet whose facility draws nothing.
    """
    faults = Faults("Profiles")
    faults.number("q", q, at_least=0, at_most=1)
    faults.number("tier", tier, at_least=0, at_most=1)
    faults.raise_any()
    peak = envelope.peak().to_numpy()
    absent = int((~(peak > 0)).sum())
    expected = "at least 24 hours, and facility power above 0 in each week"
    faults.require(not absent, "envelope", f"{absent} hours without a peak above 0 MW", expected)
    faults.raise_any()
    load = filled(envelope.facility) / peak
    eligible = envelope.relief(portfolio).sum("cluster", skipna=False)
    attributed = envelope.relief(portfolio, boundary="attributed").sum("cluster", skipna=False)
    averaged = envelope.relief(portfolio, response="average").sum("cluster", skipna=False)
    share = float(eligible.mean() / envelope.workload.mean())
    shed = {
        "none": 0 * load,
        "trace, marginal": q * filled(eligible) / peak,
        "trace, average PUE": q * filled(averaged) / peak,
        "mean share": q * share * filled(envelope.workload) / peak,
        "attributed": q * filled(attributed) / peak,
        "constant tier": tier * load,
        "full": load,
    }
    source = str(envelope.data.attrs["source"])
    return tuple(Profile(name, load, shed[name], envelope.synthetic, source) for name in REPRESENTATIONS)


def filled(power: xr.DataArray) -> Floats:
    """Hourly power with a straight line through missing hours; the first and last known hours fill the ends."""
    return power.to_series().interpolate(limit_direction="both").to_numpy(dtype=float)
