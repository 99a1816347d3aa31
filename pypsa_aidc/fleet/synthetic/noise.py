"""Random series with a memory."""

from __future__ import annotations

from itertools import accumulate

import numpy as np

from pypsa_aidc.fleet.windows import Floats


def remembering(rng: np.random.Generator, memory: float, hours: int, count: int = 1) -> Floats:
    """Ornstein–Uhlenbeck series of unit variance, sampled hourly.

    Parameters
    ----------
    rng
        Source of the noise.
    memory
        Time constant, h, above 0.
    hours, count
        Length and number of the series.

    Returns
    -------
    array of shape (count, hours)
        Standard normal at every hour.
    """
    keep = np.exp(-1 / memory)
    fresh = rng.standard_normal((count, hours))
    fresh[:, 1:] *= np.sqrt(1 - keep * keep)
    # Numbers of Python: scipy.signal would be as fast, but takes half a second to import.
    return np.array([list(accumulate(row, lambda before, new: new + keep * before)) for row in fresh.tolist()])
