"""Fit of the performance model to a few measured runs, with what they can tell and what stays as it was."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.optimize import least_squares

from pypsa_aidc.errors import Faults
from pypsa_aidc.training.amounts import Amounts
from pypsa_aidc.training.gpu import GPU
from pypsa_aidc.training.job import Job
from pypsa_aidc.training.performance import NAMES, PerformanceModel, number, prior_covariance
from pypsa_aidc.training.recipe import Recipe
from pypsa_aidc.training.run import Run, listed
from pypsa_aidc.units import GB, W_PER_MW

Floats = NDArray[np.float64]

_MEASURED = {"seconds": 0.05, "memory": 0.08, "power": 0.05}
"""Standard deviation of the logarithm of what is measured, about a model whose coefficients are right."""
_SAME = 1.10
"""Runs of one and the same setting may differ by this factor."""
_TOLD = 0.8
"""A coefficient counts as told by the runs if they narrow its spread below this share."""


@dataclass(frozen=True)
class Calibration:
    """A performance model fitted to measured runs.

    Parameters
    ----------
    model
        The fitted model, with the covariance of its coefficients and the scatter of the runs about it.
    runs
        One row a run: `measured` and `modelled` seconds, their `ratio` (modelled over measured), `left_out` (the same
        with the model fitted to all other runs), and where measured `memory_ratio` and `power_ratio`.
    coefficients
        One row a coefficient: `prior`, `value`, `low`, `high`, `spread_before` and `spread` of its logarithm, and
        `told`: whether the runs say something about it or it stays at its prior.

    Examples
    --------
    >>> from pypsa_aidc.training import Layout, Transformer
    >>> job = Job("A", Transformer.preset("LLaMA-13B"), 1e12, batch=1024, sequence=2048, tranche_ratio=0.049)
    >>> gpu, recipe = GPU.preset("A100-80GB"), Recipe(recomputation="full")
    >>> runs = [Run(job, Layout(4, 4, 8), gpu, 15.0, recipe), Run(job, Layout(2, 8, 8), gpu, 17.0, recipe)]
    >>> calibration = calibrate(runs)
    >>> bool(calibration.runs["ratio"].between(0.9, 1.1).all())
    True
    """

    model: PerformanceModel
    runs: pd.DataFrame = field(repr=False)
    coefficients: pd.DataFrame = field(repr=False)

    @property
    def median_error(self) -> float:
        """Median error of the time of a run that was left out, as a share; of the fit where there is one run only."""
        return float(np.expm1(np.median(np.abs(np.log(self._ratios)))))

    @property
    def worst_error(self) -> float:
        """Largest factor between the modelled and measured time of a run that was left out."""
        return float(np.exp(np.max(np.abs(np.log(self._ratios)))))

    @property
    def _ratios(self) -> Floats:
        column = "left_out" if len(self.runs) > 1 else "ratio"
        return self.runs[column].to_numpy(float)

    def __str__(self) -> str:
        told = self.coefficients.index[self.coefficients["told"]]
        how = "leave-one-out" if len(self.runs) > 1 else "fit to one run"
        return (
            f"{len(self.runs)} runs, {how}: median error {self.median_error:.1%}, worst factor {self.worst_error:.2f}; "
            f"told by the runs: {', '.join(told) or 'nothing'}; at their priors: {len(NAMES) - len(told)} others"
        )


def calibrate(
    rows: str | Path | pd.DataFrame | Iterable[Run],
    gpu: GPU | str | None = None,
    *,
    job: Job | None = None,
    recipe: Recipe | None = None,
    model: PerformanceModel | None = None,
) -> Calibration:
    """Fit the performance model to measured runs.

    The logarithms of the coefficients minimise the squared deviations of time, memory and power from what was
    measured, in units of 5, 8 and 5 %, and of themselves from their priors in units of their spreads, within their
    ranges. Large deviations count less than squared. One run thus moves mostly `speed`; what the runs cannot tell apart
    stays where it was.

    Parameters
    ----------
    rows
        Runs, or a CSV file or frame as for `Run.read`.
    gpu, job, recipe
        What the table does not say; not together with `Run` objects.
    model
        Where to start from: its coefficients are the priors. The default is that of the table of coefficients.

    Returns
    -------
    Calibration

    Raises
    ------
    InputError
        Everything wrong with any row; and rows that contradict each other: the same setting with times that differ by
        more than 10 %.
    """
    if isinstance(rows, str | Path | pd.DataFrame):
        runs = Run.read(rows, job, gpu=gpu, recipe=recipe)
    else:
        runs = tuple(listed(rows))
        faults = Faults("calibrate")
        for name, value in (("gpu", gpu), ("job", job), ("recipe", recipe)):
            faults.require(value is None, name, value, "None: each Run says it")
        faults.raise_any()
    _refuse_contradictions(runs)
    fit = _Fit(runs, model or PerformanceModel())
    every = np.arange(len(runs))
    best = fit.minimum(every, fit.prior)
    fitted, names = fit.model(best, every), [run.name or f"run {place}" for place, run in enumerate(runs, start=1)]
    modelled = fitted.seconds(fit.amounts)
    table = pd.DataFrame({"measured": fit.seconds, "modelled": modelled, "ratio": modelled / fit.seconds}, index=names)
    table["left_out"] = fit.left_out(best) if len(runs) > 1 else np.nan
    table["memory_ratio"] = fit.usual_memory(fit.values(best)) / fit.memory
    table["power_ratio"] = fit.total_watts(fit.values(best)) / fit.power
    before = np.sqrt(np.diag(fit.covariance))
    assert fitted.covariance is not None
    after = np.sqrt(np.diag(fitted.covariance))
    coefficients = pd.DataFrame(
        {
            "prior": np.exp(fit.prior),
            "value": np.exp(best),
            "low": fit.low,
            "high": fit.high,
            "spread_before": before,
            "spread": after,
            "told": after < _TOLD * before,
        },
        index=pd.Index(NAMES, name="name"),
    )
    return Calibration(fitted, table, coefficients)


def _refuse_contradictions(runs: tuple[Run, ...]) -> None:
    faults = Faults("runs")
    for later, run in enumerate(runs):
        for earlier in range(later):
            other = runs[earlier]
            factor = max(run.seconds / other.seconds, other.seconds / run.seconds)
            if factor > _SAME and run.settings == other.settings:
                where = f"{run.name or f'run {later + 1}'} and {other.name or f'run {earlier + 1}'}"
                given = f"{run.seconds:g} and {other.seconds:g} s with the same settings"
                faults.add(where, given, "times within 10 %", "A setting that differs is missing, or one is wrong.")
    faults.raise_any()


class _Fit:
    """Residuals of a set of runs, and their minimum."""

    def __init__(self, runs: tuple[Run, ...], start: PerformanceModel) -> None:
        self.amounts = Amounts.joined(
            Amounts.of(run.job, run.gpu, run.recipe, np.array([[*_sizes(run)]])) for run in runs
        )
        self.seconds = np.array([run.seconds for run in runs])
        self.memory = np.array([np.nan if run.memory is None else run.memory for run in runs])
        self.power = np.array([np.nan if run.it_power is None else run.it_power * W_PER_MW for run in runs])
        self.rated = np.array([run.gpu.train_w for run in runs])
        self.capacity = np.array([run.gpu.memory for run in runs])
        self.low = np.maximum([number(name, "low") for name in NAMES], 1e-6)
        self.high = np.array([number(name, "high") for name in NAMES])
        self.prior = np.clip(np.log([start[name] for name in NAMES]), np.log(self.low), np.log(self.high))
        self.covariance = prior_covariance() if start.covariance is None else start.covariance
        self._root = np.linalg.cholesky(np.linalg.inv(self.covariance)).T
        self._start = start

    def values(self, point: Floats) -> dict[str, float]:
        return dict(zip(NAMES, np.clip(np.exp(point), self.low, self.high).tolist(), strict=True))

    def usual_memory(self, k: dict[str, float]) -> Floats:
        counted = self.amounts.states + self.amounts.activations
        return np.asarray(np.minimum(k["memory"] * counted + k["memory_fixed"] * GB, self.capacity))

    def total_watts(self, k: dict[str, float]) -> Floats:
        busy = PerformanceModel.iteration(self.amounts, k)[1]
        return np.asarray(self.amounts.gpus * self.rated * k["power"] * (busy + k["waiting"] * (1 - busy)))

    def deviations(self, point: Floats, rows: NDArray[np.intp]) -> Floats:
        k = self.values(point)
        pairs = (
            (PerformanceModel.iteration(self.amounts, k)[0], self.seconds, "seconds"),
            (self.usual_memory(k), self.memory, "memory"),
            (self.total_watts(k), self.power, "power"),
        )
        parts = [np.log(ours[rows] / theirs[rows]) / _MEASURED[kind] for ours, theirs, kind in pairs]
        parts = [part[~np.isnan(part)] for part in parts]
        return _robust(np.concatenate(parts))

    def minimum(self, rows: NDArray[np.intp], start: Floats, steps: int = 60) -> Floats:
        def residuals(point: Floats) -> Floats:
            return np.concatenate([self.deviations(point, rows), self._root @ (point - self.prior)])

        bounds = (np.log(self.low) - 1e-9, np.log(self.high) + 1e-9)
        inside = np.clip(start, bounds[0] + 1e-9, bounds[1] - 1e-9)
        spreads = np.sqrt(np.diag(self.covariance))
        found: Any = least_squares(residuals, inside, bounds=bounds, x_scale=spreads, max_nfev=steps)
        return np.asarray(np.clip(found.x, np.log(self.low), np.log(self.high)))

    def model(self, point: Floats, rows: NDArray[np.intp]) -> PerformanceModel:
        """The model at a point, with the covariance that a linear fit there would have."""
        step = 1e-4
        middle = self.deviations(point, rows)
        slopes = np.stack([(self.deviations(point + step * unit, rows) - middle) / step for unit in np.eye(len(NAMES))])
        covariance = np.linalg.inv(np.linalg.inv(self.covariance) + slopes @ slopes.T)
        residual = np.log(PerformanceModel.iteration(self.amounts, self.values(point))[0] / self.seconds)
        # As if as many rows with the scatter of the prior had been seen before.
        known, seen = 6, len(rows)
        scatter = np.sqrt((known * self._start.scatter**2 + float(residual @ residual)) / (known + seen))
        return PerformanceModel(self.values(point), np.asarray(covariance), float(min(scatter, 1.0)))

    def left_out(self, best: Floats) -> Floats:
        """Modelled over measured time of each run with the model fitted to the others."""
        ratios = np.empty(len(self.seconds))
        for place in range(len(ratios)):
            others = np.delete(np.arange(len(ratios)), place)
            point = self.minimum(others, best, steps=8)
            ratios[place] = PerformanceModel.iteration(self.amounts.take(np.array([place])), self.values(point))[0][0]
        return np.asarray(ratios / self.seconds)


def _sizes(run: Run) -> list[int]:
    layout = run.layout
    return [getattr(layout, axis) for axis in layout.__dataclass_fields__]


def _robust(deviation: Floats) -> Floats:
    """Deviations whose squares grow linearly beyond three or so, so that one odd row does not decide."""
    return np.asarray(np.sign(deviation) * 2 * np.sqrt(np.sqrt(1 + deviation**2 / 2) - 1))
