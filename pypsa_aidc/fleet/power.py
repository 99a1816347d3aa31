"""From GPU-hours and utilisation to power: ratings, workload curves, host and PUE, and draws of all of them."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from pypsa_aidc.errors import Faults, UnitWarning
from pypsa_aidc.fleet.trace.schema import KNOTS, SUMS, WORKLOADS

Floats = npt.NDArray[np.float64]

RATINGS: Mapping[str, float] = MappingProxyType(
    {
        "A10": 150.0,
        "A30": 165.0,
        "L20": 275.0,
        "A100": 400.0,
        "A800": 400.0,
        "H800": 700.0,
        "H20": 400.0,
        "H20-141GB": 400.0,
        **{f"XPU-{letter}": 475.0 for letter in "ABCDE"},
    }
)
"""Accelerator ratings, W (Table 4 of [2]); the XPU buckets are of undisclosed make."""

DATASHEET_RATINGS: Mapping[str, float] = MappingProxyType(
    {
        "P4": 75.0,
        "P100": 300.0,
        "V100": 300.0,
        "V100-PCIe": 250.0,
        "T4": 70.0,
        "A40": 300.0,
        "L4": 72.0,
        "L40": 300.0,
        "L40S": 350.0,
        "H100": 700.0,
        "H100-PCIe": 350.0,
        "H200": 700.0,
        "B200": 1000.0,
        "MI250X": 560.0,
        "MI300X": 750.0,
    }
)
"""Ratings of common accelerators that Table 4 of [2] does not list, W: the largest thermal design or board power in the
makers' data sheets, of the SXM or OAM form where there is one. They stand in where a model lists no rating of its own.
"""

_SLICE = re.compile(r"(?<![a-z0-9])(\d)g(?![a-z0-9])")


def spelled(name: str, known: Iterable[str]) -> tuple[str, float] | None:
    """Accelerator that a name of DCGM, Slurm or Kubernetes stands for, and which share of it: below 1 for MIG slices.

    Parameters
    ----------
    name
        E.g. ``"NVIDIA A100-SXM4-80GB"``, ``"a100"``, ``"a100_1g.5gb"``.
    known
        Names to choose among: the one of most words that all occur.

    Examples
    --------
    >>> spelled("NVIDIA H100 PCIe", RATINGS | DATASHEET_RATINGS)
    ('H100-PCIe', 1.0)
    >>> spelled("nvidia_a100_3g.20gb", RATINGS)
    ('A100', 0.42857142857142855)
    >>> spelled("gaudi2", RATINGS) is None
    True
    """
    words = _words(name)
    fits = [(len(parts), one) for one in known if (parts := _words(one)) <= words]
    if not fits:
        return None
    slices = _SLICE.search(name.lower().replace("_", "-"))
    return max(fits)[1], int(slices[1]) / 7 if slices else 1.0


@cache
def _words(name: str) -> frozenset[str]:
    return frozenset(re.split(r"[^a-z0-9]+", name.lower()))


UNLIKELY = 10.0
"""W; a rating below it was probably given in kW."""

LINEAR: Mapping[str, tuple[float, ...]] = MappingProxyType(dict.fromkeys(WORKLOADS, (0.0, 0.25, 0.5, 0.75, 1.0)))
"""Power proportional to utilisation, whatever the workload."""

ANCHORED: Mapping[str, tuple[float, ...]] = MappingProxyType(
    {
        "training": (0.0, 0.50, 0.75, 0.90, 1.00),
        "online_inference": (0.0, 0.20, 0.35, 0.45, 0.55),
        "offline_inference": (0.0, 0.30, 0.50, 0.70, 0.85),
        "other": LINEAR["other"],
    }
)
"""Central curves: share of the idle-to-rating span at utilisation 0, 0.25, 0.5, 0.75, 1 (Table 4 of [2])."""

MEASURED_MID: Mapping[str, tuple[float, ...]] = MappingProxyType(
    {
        "training": (0.0, 0.408, 0.613, 0.735, 0.817),
        "online_inference": (0.0, 0.211, 0.374, 0.480, 0.585),
        "offline_inference": (0.0, 0.307, 0.518, 0.720, 0.878),
        "other": LINEAR["other"],
    }
)
"""Curves re-anchored to the middle of measured H100 levels (Table 5 of [2]); they go with an idle fraction of 0.18."""

MEASURED_LOW: Mapping[str, tuple[float, ...]] = MappingProxyType(
    {
        "training": (0.0, 0.397, 0.595, 0.714, 0.793),
        "online_inference": (0.0, 0.110, 0.195, 0.250, 0.305),
        "offline_inference": (0.0, 0.196, 0.331, 0.460, 0.561),
        "other": LINEAR["other"],
    }
)
"""Curves re-anchored to the lower end of measured H100 levels (Table 5 of [2])."""


@dataclass(frozen=True)
class PowerModel:
    """Everything that turns allocated GPU-hours and utilisation into power (Eq. 1 and Table 4 of [2]).

    Attributes
    ----------
    ratings
        Accelerator → rating, W, above 0. Names that are not in it take `other_rating`, else `DATASHEET_RATINGS`.
    curves
        Workload → share of the idle-to-rating span at utilisation 0, 0.25, 0.5, 0.75, 1; from 0 to 1, not falling.
    idle_fraction
        Share of its rating that an allocated or unallocated GPU draws at rest, 0 … 1.
    online_floor
        Total power of online inference at no utilisation, share of the rating, 0 … 1; 0 for none.
    null_value
        Share of the span where utilisation is unknown, 0 … 1.
    host_idle, host_peak
        W per CPU core at rest and in full use; at least 0, peak not below idle.
    pue
        Facility over IT power, at least 1.
    other_rating
        Rating of accelerators that `ratings` does not list, W; with None, those without a data sheet are refused. Names
        are understood as DCGM, Slurm and Kubernetes spell them (`spelled`); a MIG slice draws its share.
    idle
        Accelerator → W that it draws at rest, where that is known better than `idle_fraction` of its rating.
    levels
        Accelerator → W that it draws at utilisation 0, 0.25, 0.5, 0.75, 1, measured; instead of its rating and of the
        curve, for all workloads. Levels may fall, but not below what it draws at rest.
    caps
        Accelerator → W that it is capped at; between the knots of the curve the cap is approached from below.
    host_share
        Power of hosts over that of the GPUs that jobs hold, at least 0; for fleets whose cores are not known.

    Raises
    ------
    InputError
        A value outside its range.

    Warns
    -----
    UnitWarning
        A rating below 10 W, which looks like kilowatts.

    References
    ----------
    [2] M. Li, "Beyond Scalar Flexibility", arXiv 2609.05406, Eq. 1, Sec. 2.2, Tables 4 and 5.

    Examples
    --------
    >>> PowerModel().floor_value
    0.2875
    >>> PowerModel(idle_fraction=1.4)
    Traceback (most recent call last):
    pypsa_aidc.errors.InputError: Power model:
      - idle_fraction: given 1.4, expected a finite number of at least 0 and at most 0.999.
    """

    ratings: Mapping[str, float] = field(default_factory=lambda: RATINGS)
    curves: Mapping[str, tuple[float, ...]] = field(default_factory=lambda: ANCHORED)
    idle_fraction: float = 0.20
    online_floor: float = 0.43
    null_value: float = 0.30
    host_idle: float = 1.5
    host_peak: float = 4.0
    pue: float = 1.2
    other_rating: float | None = None
    idle: Mapping[str, float] = field(default_factory=dict)
    levels: Mapping[str, Sequence[float]] = field(default_factory=dict)
    caps: Mapping[str, float] = field(default_factory=dict)
    host_share: float = 0.0

    def __post_init__(self) -> None:
        faults = Faults("Power model")
        for accelerator, rating in self.ratings.items():
            faults.number(f"ratings['{accelerator}']", rating, above=0)
        if self.other_rating is not None:
            faults.number("other_rating", self.other_rating, above=0)
        unknown = sorted(set(self.curves) - set(WORKLOADS))
        faults.require(not unknown, "curves", unknown, f"workloads: {', '.join(WORKLOADS)}")
        for workload in WORKLOADS:
            curve = tuple(self.curves.get(workload, ()))
            good = len(curve) == len(KNOTS) + 1 and list(curve) == sorted(curve) and 0 <= curve[0] <= curve[-1] <= 1
            good = good and curve[-1] > 0
            faults.require(good, f"curves['{workload}']", curve, "five shares from 0 to 1 that do not fall")
        faults.number("idle_fraction", self.idle_fraction, at_least=0, at_most=0.999)
        faults.number("online_floor", self.online_floor, at_least=0, at_most=1)
        faults.number("null_value", self.null_value, at_least=0, at_most=1)
        faults.number("host_idle", self.host_idle, at_least=0)
        faults.number("host_peak", self.host_peak, at_least=0)
        faults.require(not self.host_peak < self.host_idle, "host_peak", self.host_peak, f"at least {self.host_idle}")
        faults.number("pue", self.pue, at_least=1)
        faults.number("host_share", self.host_share, at_least=0)
        for name, watts in self.idle.items():
            faults.number(f"idle['{name}']", watts, at_least=0)
        for name, watts in self.caps.items():
            faults.number(f"caps['{name}']", watts, above=0)
        for name, levels in self.levels.items():
            fits = len(levels) == len(KNOTS) + 1 and all(np.isfinite(level) and level >= 0 for level in levels)
            faults.require(fits, f"levels['{name}']", tuple(levels), "five W, at utilisation 0, 0.25, 0.5, 0.75, 1")
            rest = self.idle.get(name, 0.0)
            faults.require(not fits or min(levels) >= rest, f"levels['{name}']", tuple(levels), f"at least {rest:g} W")
        faults.raise_any()
        given = {f"ratings['{name}']": rating for name, rating in self.ratings.items()}
        given |= {} if self.other_rating is None else {"other_rating": self.other_rating}
        for name, rating in given.items():
            if rating < UNLIKELY:
                text = f"{name} = {rating:g} W: was it given in kW? Power and K would be 1000 times too small"
                warnings.warn(text, UnitWarning, stacklevel=3)

    @property
    def floor_value(self) -> float:
        """Share c₀ of the span that online inference draws at no utilisation: (floor − φ)/(1 − φ), at least 0."""
        return max(0.0, round((self.online_floor - self.idle_fraction) / (1 - self.idle_fraction), 15))

    def rating(self, accelerator: str) -> float:
        """Rating of one accelerator, W: its own, else the one its name stands for, else that of a data sheet."""
        listed = self._of(self.ratings, accelerator)
        if listed is None and (own := self._of(self.levels, accelerator)) is not None:
            return float(max(own))
        listed = self.other_rating if listed is None else listed
        listed = self._of(DATASHEET_RATINGS, accelerator) if listed is None else listed
        if listed is None:
            faults = Faults("Power model")
            remedy = "Give its rating, or other_rating for all unlisted ones (--rating NAME=W, or --rating W)."
            names = ", ".join(dict.fromkeys((*self.ratings, *DATASHEET_RATINGS)))
            faults.add("accelerator", accelerator, f"one of {names}", remedy)
            faults.raise_any()
        return float(listed)

    @staticmethod
    def _of(table: Mapping[str, Any], accelerator: str) -> Any:
        """Entry of an accelerator by its name or by what the name stands for, scaled to its slice; None if none."""
        if accelerator in table:
            return table[accelerator]
        if not table:
            return None
        found = spelled(accelerator, table)
        if found is None:
            return None
        name, share = found
        value = table[name]
        return tuple(share * level for level in value) if isinstance(value, Sequence) else share * value

    def idle_watts(self, accelerator: str) -> float:
        """W that an accelerator draws at rest: its own, else the lowest of its levels, else φ of its rating."""
        own = self._of(self.idle, accelerator)
        if own is not None:
            return float(own)
        share = self.idle_fraction * self.rating(accelerator)
        levels = self._of(self.levels, accelerator)
        return float(share if levels is None else min(share, *levels))

    def active_weights(self, accelerator: str, workload: str) -> Floats:
        """Weights of `SUMS`, W, whose sum is the draw of active rows above rest; shape (6,)."""
        rest, rating = self.idle_watts(accelerator), self.rating(accelerator)
        levels, cap = self._of(self.levels, accelerator), self._of(self.caps, accelerator)
        own = self._of(self.idle, accelerator) is not None
        if levels is None and cap is None:
            span = rating - rest if own else (1 - self.idle_fraction) * rating
            return max(span, 0.0) * self.span_weights(workload)
        if levels is None:
            watts = rest + (rating - rest) * self.value(workload, (*KNOTS, 1.0))
            unknown = rest + (rating - rest) * self._unknown(workload)
        else:
            watts = np.asarray(levels, dtype=float)
            unknown = rest + self.null_value * (watts.max() - rest)
        if cap is not None:
            watts, unknown = np.minimum(watts, cap), min(unknown, cap)
        above = np.maximum(watts - rest, 0.0)
        slopes = np.diff(above) / np.diff((*KNOTS, 1.0))
        return np.concatenate([[above[0], max(unknown - rest, 0.0) - above[0]], slopes[:1], np.diff(slopes)])

    def describe(self, accelerators: Iterable[str]) -> str:
        """Say in one line what the model takes for these accelerators, for terms and for the metadata of results.

        Examples
        --------
        >>> PowerModel().describe(["A100"])
        'A100 400 W, curves ANCHORED, idle 20 %, unknown utilisation 30 % of the span, PUE 1.2'
        """
        ratings = ", ".join(self._told(name) for name in sorted(set(accelerators)))
        named = {"ANCHORED": ANCHORED, "LINEAR": LINEAR, "MEASURED_MID": MEASURED_MID, "MEASURED_LOW": MEASURED_LOW}
        curves = next((name for name, curve in named.items() if dict(curve) == dict(self.curves)), "own")
        idle, unknown = (f"{100 * share:.3g} %" for share in (self.idle_fraction, self.null_value))
        host = f", hosts {100 * self.host_share:.3g} % of GPUs" if self.host_share else ""
        text = f"{ratings}, curves {curves}, idle {idle}, unknown utilisation {unknown} of the span, PUE {self.pue:g}"
        return text + host

    def _told(self, accelerator: str) -> str:
        parts = [f"{accelerator} {self.rating(accelerator):g} W"]
        for word, table in (("idle", self.idle), ("levels", self.levels), ("cap", self.caps)):
            own = self._of(table, accelerator)
            if own is not None:
                parts.append(f"{word} {'/'.join(format(w, 'g') for w in np.atleast_1d(own))} W")
        return " ".join(parts)

    def value(self, workload: str, utilisation: npt.ArrayLike) -> Floats:
        """Share of the idle-to-rating span that an active GPU draws: g(u), with the floor of online inference in it.

        The floor compresses the curve affinely and leaves its saturation where it was: c₀ + (1 − c₀/g(1))·g(u).

        Examples
        --------
        >>> PowerModel().value("training", [0.0, 0.125, 1.0]).tolist()
        [0.0, 0.25, 1.0]
        >>> PowerModel().value("online_inference", [0.0, 1.0]).round(4).tolist()
        [0.2875, 0.55]
        """
        g = np.interp(np.asarray(utilisation, dtype=float), (*KNOTS, 1.0), self.curves[workload])
        floor, compression = self._floor(workload)
        return np.asarray(floor + compression * g)

    def span_weights(self, workload: str) -> Floats:
        """Weights of `SUMS` whose sum is Σ w·g(u) of active rows; shape (6,), by linearity of g between the knots."""
        curve = np.asarray(self.curves[workload])
        slopes = np.diff(curve) / np.diff((*KNOTS, 1.0))
        floor, compression = self._floor(workload)
        start = np.array([curve[0], self.null_value - curve[0]])
        weights = compression * np.concatenate([start, slopes[:1], np.diff(slopes)])
        weights[0] += floor
        return weights

    def _unknown(self, workload: str) -> float:
        """Share of the span where utilisation is unknown, with the floor of online inference in it."""
        floor, compression = self._floor(workload)
        return floor + compression * self.null_value

    def _floor(self, workload: str) -> tuple[float, float]:
        """Intercept c₀ and the factor that keeps saturation in place; (0, 1) for all but online inference."""
        if workload != "online_inference":
            return 0.0, 1.0
        return self.floor_value, max(0.0, 1 - self.floor_value / self.curves[workload][-1])


@dataclass(frozen=True)
class PowerRanges:
    """What a Monte Carlo draw varies, and how far: uniform between the two numbers (Table 4 of [2]).

    Attributes
    ----------
    multiplier
        On the rating of accelerators of known make; one draw for each model.
    ratings
        Accelerator, or first letters of it, → rating, W, drawn outright; one draw for each accelerator.
    idle_fraction, online_floor, null_value, host_idle, host_peak, pue
        See `PowerModel`.
    linear_share
        Probability that a draw uses `LINEAR` curves instead of those of the central model, 0 … 1.
    """

    multiplier: tuple[float, float] = (0.85, 1.15)
    ratings: Mapping[str, tuple[float, float]] = field(
        default_factory=lambda: {"A100": (300.0, 460.0), "A800": (300.0, 460.0), "XPU": (250.0, 700.0)}
    )
    idle_fraction: tuple[float, float] = (0.15, 0.25)
    online_floor: tuple[float, float] = (0.35, 0.50)
    null_value: tuple[float, float] = (0.10, 0.50)
    host_idle: tuple[float, float] = (1.0, 2.0)
    host_peak: tuple[float, float] = (3.0, 6.0)
    pue: tuple[float, float] = (1.1, 1.4)
    linear_share: float = 0.5

    def __post_init__(self) -> None:
        faults = Faults("Ranges of the power model")
        faults.number("linear_share", self.linear_share, at_least=0, at_most=1)
        named = {name: getattr(self, name) for name in ("multiplier", *_DRAWN)}
        for name, pair in {**named, **{f"ratings['{key}']": pair for key, pair in self.ratings.items()}}.items():
            faults.require(len(pair) == 2 and pair[0] <= pair[1], name, pair, "two ascending numbers")
        faults.raise_any()


_DRAWN = ("idle_fraction", "online_floor", "null_value", "host_idle", "host_peak", "pue")


def power_draws(
    count: int = 300,
    seed: int | np.random.Generator = 0,
    central: PowerModel | None = None,
    ranges: PowerRanges | None = None,
) -> tuple[PowerModel, ...]:
    """Draw power models whose parameters are wrong together for the whole series, not hour by hour (Sec. 2.2 of [2]).

    Parameters
    ----------
    count
        Number of draws, at least 1.
    seed
        Number or generator; the same one gives the same draws.
    central
        Model around which is drawn. Half of the draws take `LINEAR` curves if its own are `ANCHORED`.
    ranges
        Ranges, taken as they are. If None, those of Table 4 of [2], moved along where a value of `central` is not the
        one of the table, so that it lies in them.

    Returns
    -------
    tuple of PowerModel
        Length `count`.

    Examples
    --------
    >>> first, second = power_draws(2, seed=1)
    >>> first == power_draws(2, seed=1)[0], first == second
    (True, False)
    """
    faults = Faults("Power draws")
    faults.number("count", count, at_least=1, integer=True)
    faults.raise_any()
    middle = central or PowerModel()
    spread = ranges or PowerRanges()
    bounds = {name: getattr(spread, name) if ranges else _around(name, middle, spread) for name in _DRAWN}
    rng = np.random.default_rng(seed)
    # A stream of their own: the draws of Table 4 of [2] stay what they were before data sheets were known.
    (others,) = rng.spawn(1)
    unlisted = {} if middle.other_rating is not None else dict(DATASHEET_RATINGS)
    linear_too = ranges is not None or dict(middle.curves) == dict(ANCHORED)
    models = []
    for _ in range(count):
        drawn: dict[str, Any] = {name: float(rng.uniform(*bounds[name])) for name in _DRAWN}
        drawn["host_peak"] = max(drawn["host_peak"], drawn["host_idle"])
        ratings = {}
        for accelerator, rating in middle.ratings.items():
            pair = next((pair for key, pair in spread.ratings.items() if accelerator.startswith(key)), None)
            if pair is None:
                pair = (spread.multiplier[0] * rating, spread.multiplier[1] * rating)
            elif ranges is None and accelerator in RATINGS:
                pair = (pair[0] * rating / RATINGS[accelerator], pair[1] * rating / RATINGS[accelerator])
            ratings[accelerator] = float(rng.uniform(*pair))
        for accelerator, rating in unlisted.items():
            if accelerator not in ratings:
                ratings[accelerator] = float(others.uniform(*np.multiply(spread.multiplier, rating)))
        curves = LINEAR if rng.random() < spread.linear_share and linear_too else middle.curves
        extra: dict[str, Any] = {}
        if middle.levels:
            factors = {name: float(others.uniform(*spread.multiplier)) for name in middle.levels}
            extra["levels"] = {name: tuple(factors[name] * w for w in watts) for name, watts in middle.levels.items()}
            extra["idle"] = {name: factors.get(name, 1.0) * watts for name, watts in middle.idle.items()}
        models.append(replace(middle, ratings=ratings, curves=curves, **drawn, **extra))
    return tuple(models)


def _around(name: str, central: PowerModel, spread: PowerRanges) -> tuple[float, float]:
    """Range of a parameter, moved in proportion where the central value is not the one it was made for."""
    usual, own = float(getattr(PowerModel(), name)), float(getattr(central, name))
    low, high = getattr(spread, name)
    if own == usual:
        return low, high
    floor = 1.0 if name == "pue" else 0.0
    moved = [floor + (own - floor) * (edge - floor) / (usual - floor) for edge in (low, high)]
    most = {"idle_fraction": 0.999, "online_floor": 1.0, "null_value": 1.0}.get(name, float("inf"))
    return moved[0], min(moved[1], most)


@dataclass(frozen=True)
class Coefficients:
    """Power of one unit of each statistic, by draw and feature.

    Attributes
    ----------
    idle : array of shape (draws, features)
        MW per GPU-hour and hour: φ·T.
    active : array of shape (draws, features, 6)
        MW per unit of `SUMS`: (1 − φ)·T times the weights of the workload's curve; 0 for standby.
    """

    idle: Floats
    active: Floats


def cell_power(cells: pl.DataFrame, model: PowerModel) -> tuple[Floats, Floats]:
    """Idle and active power of every cell under one model, MW; each of shape (cells,).

    Parameters
    ----------
    cells : polars.DataFrame
        `accelerator`, `workload`, `state` and `SUMS`.
    model
        Power model.

    Raises
    ------
    InputError
        An accelerator without rating.
    """
    features, code = features_of(cells)
    unit = coefficients((model,), features)
    active = np.zeros(cells.height)
    for column, name in enumerate(SUMS):
        active += unit.active[0, code, column] * cells[name].to_numpy()
    return unit.idle[0][code] * cells["gpu_hours"].to_numpy(), active


def features_of(cells: pl.DataFrame) -> tuple[pl.DataFrame, npt.NDArray[np.int64]]:
    """What power depends on, `accelerator`, `workload` and `state`, each combination once, and the row of each cell."""
    keys = ["accelerator", "workload", "state"]
    code = cells.select(pl.struct(keys).rank("dense").cast(pl.Int64) - 1).to_series()
    return cells.select(keys).with_columns(code=code).unique("code").sort("code"), code.to_numpy()


def coefficients(models: tuple[PowerModel, ...], features: pl.DataFrame) -> Coefficients:
    """Evaluate `models` for every combination of accelerator, workload and state (Eq. 1 of [2]).

    Parameters
    ----------
    models
        One for each draw.
    features : polars.DataFrame
        Columns `accelerator`, `workload`, `state`.

    Raises
    ------
    InputError
        An accelerator without rating.
    """
    accelerators = features["accelerator"].cast(pl.String).to_list()
    workloads = features["workload"].cast(pl.String).to_list()
    active = (features["state"].cast(pl.String) == "active").to_numpy()
    shape = (len(models), features.height)
    idle, span = np.empty(shape), np.zeros((*shape, len(SUMS)))
    for row, model in enumerate(models):
        rest = {name: model.idle_watts(name) for name in dict.fromkeys(accelerators)}
        idle[row] = np.array([rest[name] for name in accelerators]) / 1e6
        pairs = {pair: model.active_weights(*pair) / 1e6 for pair in set(zip(accelerators, workloads, strict=True))}
        weights = np.array([pairs[pair] for pair in zip(accelerators, workloads, strict=True)])
        span[row] = weights * active[:, np.newaxis]
    return Coefficients(idle, span)
