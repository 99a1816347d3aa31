"""K estimated from some weeks and tested on the next: coverage, and the derating that would have been needed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pandas as pd

from pypsa_aidc.errors import Faults
from pypsa_aidc.fleet.envelope import Envelope, Portfolio
from pypsa_aidc.fleet.layers import Boundary
from pypsa_aidc.fleet.surface import series_of
from pypsa_aidc.fleet.windows import Floats, Method, check_grid, dependable, running_minima

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WEEK = 168


@dataclass(frozen=True, repr=False)
class Backtest:
    """Rolling-origin test of K at one reliability (Sec. 2.4 and App. D of [2]).

    Attributes
    ----------
    folds : pandas.DataFrame
        One row for each duration and origin: `duration` (h), `origin` (hour), `K` (MW, from the training weeks),
        `offered` (MW, what is tested), `coverage` (share of test windows that hold it), `nested_factor` and
        `nested_coverage` (derating chosen on folds whose test had ended at the origin; NaN before there is one).
    summary : pandas.DataFrame
        By duration: `coverage` (mean), `worst`, `met` and `origins` (counts), `factor` (derating that makes the mean
        coverage reach the target, chosen on the folds it is judged on), `nested_coverage`, `nested_met`,
        `nested_origins`.
    reliability
        The target.
    normalised
        Whether the offer follows the mean power of the test weeks.
    synthetic
        Whether the numbers come from the synthetic fleet.
    """

    folds: pd.DataFrame
    summary: pd.DataFrame
    reliability: float
    normalised: bool
    synthetic: bool = False

    def __repr__(self) -> str:
        kind = "normalised by mean" if self.normalised else "absolute MW"
        word = "synthetic, " if self.synthetic else ""
        return f"Backtest({word}target {self.reliability:g}, {kind})\n{self.summary.round(3)}"

    @property
    def derating(self) -> pd.Series[float]:
        """Derating for a contract by duration: `factor` of the summary, at most 1; NaN if no fold offers anything.

        A factor above 1 says that K was held more often than asked, in these weeks; it is no reason to offer more.
        """
        return self.summary["factor"].clip(upper=1.0).rename("derating")

    def to_frame(self) -> pd.DataFrame:
        """Return the folds."""
        return self.folds

    def plot(self) -> Figure:
        """Draw coverage by origin (Fig. 15 of [2])."""
        from pypsa_aidc.plots.dependable import plot_backtest

        return plot_backtest(self)

    @classmethod
    def of(
        cls,
        source: Envelope | npt.ArrayLike,
        durations: Sequence[int] = (1, 4, 24),
        reliability: float = 0.95,
        *,
        portfolio: Portfolio = None,
        boundary: Boundary | None = None,
        train_weeks: int = 8,
        test_weeks: int = 4,
        normalised: bool = False,
        method: Method = "sup",
    ) -> Backtest:
        """Estimate K before every weekly origin and test it after it.

        Parameters
        ----------
        source
            An envelope, or one hourly series of relief, MW.
        durations, reliability, method
            As for `pypsa_aidc.fleet.surface`.
        portfolio, boundary
            As for `pypsa_aidc.fleet.surface`.
        train_weeks, test_weeks
            Length of the training and the test window, weeks.
        normalised
            Offer the training firmness times the mean power of the test weeks, instead of the training megawatts.

        Returns
        -------
        Backtest

        Raises
        ------
        InputError
            A series too short for one origin.

        References
        ----------
        [2] M. Li, "Beyond Scalar Flexibility", arXiv 2609.05406. Its derating is chosen on the folds it is judged on;
        the nested one, which uses past folds only, goes beyond it.
        """
        faults = Faults("Backtest")
        check_grid(faults, durations, (reliability,), method)
        for name, weeks in (("train_weeks", train_weeks), ("test_weeks", test_weeks)):
            faults.number(name, weeks, at_least=1, integer=True)
        synthetic = isinstance(source, Envelope) and source.synthetic
        series = series_of(source, faults, portfolio=portfolio, boundary=boundary)
        train, test = train_weeks * WEEK, test_weeks * WEEK
        origins = range(train, series.size - test + 1, WEEK)
        faults.require(
            len(origins) > 0, "series", f"{series.size} hours", f"at least {train + test} hours for one origin"
        )
        faults.raise_any()
        rows: list[dict[str, float]] = []
        summary: dict[int, dict[str, float]] = {}
        for h in durations:
            minima = running_minima(series, [h])[h]
            folds = []
            for origin in origins:
                past, future = series[origin - train : origin], series[origin : origin + test]
                K = float(dependable(minima[origin - train : origin - h + 1], [reliability], method)[0])
                offered = K * np.nanmean(future) / np.nanmean(past) if normalised else K
                windows = minima[origin : origin + test - h + 1]
                folds.append((origin, K, float(offered), windows[~np.isnan(windows)]))
            own = _folds(h, folds, reliability, test)
            rows += own
            coverage, nested = (np.array([row[name] for row in own]) for name in ("coverage", "nested_coverage"))
            summary[h] = {
                "coverage": float(np.nanmean(coverage)),
                "worst": float(np.nanmin(coverage)),
                "met": int((coverage >= reliability).sum()),
                "origins": len(own),
                "factor": derating([(offered, windows) for _, _, offered, windows in folds], reliability),
                "nested_coverage": float(np.nanmean(nested)) if not np.isnan(nested).all() else float("nan"),
                "nested_met": int((nested >= reliability).sum()),
                "nested_origins": int((~np.isnan(nested)).sum()),
            }
        table = pd.DataFrame.from_dict(summary, orient="index").rename_axis("duration")
        counts = ["met", "origins", "nested_met", "nested_origins"]
        return Backtest(
            pd.DataFrame(rows), table.astype(dict.fromkeys(counts, int)), reliability, normalised, synthetic
        )


def _folds(h: int, folds: list[tuple[int, float, float, Floats]], target: float, test: int) -> list[dict[str, float]]:
    rows = []
    for origin, K, offered, windows in folds:
        known = [(past, seen) for begun, _, past, seen in folds if begun + test <= origin]
        factor = derating(known, target) if known else float("nan")
        rows.append(
            {
                "duration": h,
                "origin": origin,
                "K": K,
                "offered": offered,
                "coverage": _coverage(windows, offered),
                "nested_factor": factor,
                "nested_coverage": _coverage(windows, factor * offered),
            }
        )
    return rows


def _coverage(windows: Floats, offered: float) -> float:
    return float((windows >= offered).mean()) if windows.size and not np.isnan(offered) else float("nan")


def derating(folds: Sequence[tuple[float, Floats]], target: float) -> float:
    """Largest factor on the offers whose mean coverage over the folds reaches the target, exactly.

    Parameters
    ----------
    folds
        Pairs of offer, MW, and test windows, MW; each fold weighs the same.
    target
        Mean coverage to reach, in (0, 1].

    Returns
    -------
    float
        Above 1 if there was room; NaN if no fold offers anything.

    Examples
    --------
    >>> derating([(2.0, np.array([1.0, 2.0, 3.0, 4.0]))], 0.75)
    1.0
    """
    usable = [(offered, windows) for offered, windows in folds if offered > 0 and windows.size]
    if not usable:
        return float("nan")
    ratio = np.concatenate([windows / offered for offered, windows in usable])
    weight = np.concatenate([np.full(windows.size, 1 / windows.size / len(usable)) for _, windows in usable])
    order = np.argsort(-ratio)
    reached = np.cumsum(weight[order])
    return float(ratio[order][np.searchsorted(reached, target - 1e-12)])
