"""From GPU-hours and utilisation to power: ratings, workload curves, host and PUE, and draws of all of them."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

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
        Rating of accelerators that `ratings` does not list, W; with None, those without a data sheet are refused.

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

    def __post_init__(self) -> None:
        faults = Faults("Power model")
        for accelerator, rating in self.ratings.items():
            faults.number(f"ratings['{accelerator}']", rating, above=0)
        if self.other_rating is not None:
            faults.number("other_rating", self.other_rating, above=0)
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
        """Rating of one accelerator, W."""
        listed = self.ratings.get(accelerator, self.other_rating)
        listed = DATASHEET_RATINGS.get(accelerator) if listed is None else listed
        if listed is None:
            faults = Faults("Power model")
            remedy = "Give its rating, or other_rating for all unlisted ones."
            names = ", ".join(dict.fromkeys((*self.ratings, *DATASHEET_RATINGS)))
            faults.add("accelerator", accelerator, f"one of {names}", remedy)
            faults.raise_any()
        return float(listed)  # type: ignore[arg-type]

    def describe(self, accelerators: Iterable[str]) -> str:
        """Say in one line what the model takes for these accelerators, for terms and for the metadata of results.

        Examples
        --------
        >>> PowerModel().describe(["A100"])
        'A100 400 W, curves ANCHORED, idle 20 %, unknown utilisation 30 % of the span, PUE 1.2'
        """
        ratings = ", ".join(f"{name} {self.rating(name):g} W" for name in sorted(set(accelerators)))
        named = {"ANCHORED": ANCHORED, "LINEAR": LINEAR, "MEASURED_MID": MEASURED_MID, "MEASURED_LOW": MEASURED_LOW}
        curves = next((name for name, curve in named.items() if dict(curve) == dict(self.curves)), "own")
        idle, unknown = (f"{100 * share:.3g} %" for share in (self.idle_fraction, self.null_value))
        return f"{ratings}, curves {curves}, idle {idle}, unknown utilisation {unknown} of the span, PUE {self.pue:g}"

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
        Model around which is drawn; its curves are the anchored family.
    ranges
        Ranges; those of Table 4 of [2] if None.

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
    middle, spread = central or PowerModel(), ranges or PowerRanges()
    rng = np.random.default_rng(seed)
    # A stream of their own: the draws of Table 4 of [2] stay what they were before data sheets were known.
    (others,) = rng.spawn(1)
    unlisted = {} if middle.other_rating is not None else dict(DATASHEET_RATINGS)
    models = []
    for _ in range(count):
        drawn = {name: float(rng.uniform(*getattr(spread, name))) for name in _DRAWN}
        ratings = {}
        for accelerator, rating in middle.ratings.items():
            bounds = next((pair for key, pair in spread.ratings.items() if accelerator.startswith(key)), None)
            ratings[accelerator] = float(rng.uniform(*(bounds or np.multiply(spread.multiplier, rating))))
        for accelerator, rating in unlisted.items():
            if accelerator not in ratings:
                ratings[accelerator] = float(others.uniform(*np.multiply(spread.multiplier, rating)))
        curves = LINEAR if rng.random() < spread.linear_share else middle.curves
        models.append(replace(middle, ratings=ratings, curves=curves, **drawn))
    return tuple(models)


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
    keys = ["accelerator", "workload", "state"]
    code = cells.select(pl.struct(keys).rank("dense").cast(pl.Int64) - 1).to_series()
    features = cells.select(keys).with_columns(code=code).unique("code").sort("code")
    unit = coefficients((model,), features)
    active = np.zeros(cells.height)
    for column, name in enumerate(SUMS):
        active += unit.active[0, code.to_numpy(), column] * cells[name].to_numpy()
    return unit.idle[0][code.to_numpy()] * cells["gpu_hours"].to_numpy(), active


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
        rating = np.array([model.rating(name) for name in accelerators]) / 1e6
        weights = {name: model.span_weights(name) for name in WORKLOADS}
        idle[row] = model.idle_fraction * rating
        span[row] = (
            np.array([weights[name] for name in workloads])
            * ((1 - model.idle_fraction) * rating * active)[:, np.newaxis]
        )
    return Coefficients(idle, span)
