"""Slow, literal implementations that share no code with the package."""

from __future__ import annotations

import math
from fractions import Fraction


def window_minima(series: list[float], h: int) -> list[float]:
    """Minimum of every window of h hours that touches no missing hour."""
    windows = [series[t : t + h] for t in range(len(series) - h + 1)]
    return [min(window) for window in windows if not any(math.isnan(x) for x in window)]


def k(series: list[float], h: int, alpha: Fraction) -> float:
    """sup{k : Pr_t[min_j C_{t+j} >= k] >= alpha}, with exact fractions: only observed minima can be the supremum."""
    minima = window_minima(series, h)
    if not minima:
        return math.nan
    share = {k: Fraction(sum(m >= k for m in minima), len(minima)) for k in set(minima)}
    return max(k for k in share if share[k] >= alpha)
