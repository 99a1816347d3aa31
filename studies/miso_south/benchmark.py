"""How fast the closed form is against a bisection written plainly, both in one run: `python benchmark.py`.

28,000 cases: 200 offsets, 4 margins, 7 representations, 5 budgets, over 17,544 hours. The bisection does every
hundredth of them, and its time is scaled up. The ratio means something on any machine, seconds only on the one that
they come from.
"""

from __future__ import annotations

import itertools
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pypsa

from pypsa_aidc import fleet
from pypsa_aidc.headroom import Offsets, network_demand, profiles, screen_region

ROOT = Path(__file__).parents[2]
MARGINS, BUDGETS = (0.0, 0.02, 0.05, 0.1), (0.0025, 0.005, 0.01, 0.015, 0.02)
EVERY = 100
STEPS = 50
ROUNDING = 1e-9


def bisected(demand: np.ndarray, cap: float, load: np.ndarray, relief: np.ndarray, budget: float) -> float:
    low, high = 0.0, cap
    for _ in range(STEPS):
        size = (low + high) / 2
        excess = np.maximum(0.0, demand + size * load - cap)
        # (D + Ls) − D is not Ls to the last bit.
        fits = (excess <= size * relief + ROUNDING).all() and (excess > ROUNDING).sum() <= budget
        low, high = (size, high) if fits else (low, size)
    return low


def main() -> None:
    warnings.simplefilter("ignore")
    demand = network_demand(pypsa.Network(ROOT / "networks" / "miso_south.nc"))
    shapes = profiles(fleet.Envelope.of(fleet.SyntheticFleet.generate().statistics))
    offsets = Offsets()
    spent = []
    for _ in range(5):
        start = time.perf_counter()
        found = screen_region(demand, shapes, period="whole", margin=MARGINS, budget=BUDGETS, offsets=offsets)
        spent.append(time.perf_counter() - start)
    closed = found.data["headroom"].to_numpy()
    cases = list(itertools.product(*(range(size) for size in closed.shape)))
    start, worst = time.perf_counter(), 0.0
    for case in cases[::EVERY]:
        row, column, share, place = case
        shape = shapes[row]
        rolled = [
            np.resize(np.roll(series, found.data["offset"].item(place)), len(demand.mw))
            for series in (shape.load, shape.usable)
        ]
        size = bisected(demand.mw, found.data["cap"].item(column), *rolled, BUDGETS[share] * len(demand.mw))
        worst = max(worst, abs(size - closed[case]) / max(closed[case], 1.0))
    naive = (time.perf_counter() - start) * EVERY
    assert worst < 1e-6, worst
    row = {"cases": len(cases), "hours": len(demand.mw), "naive_seconds": naive, "seconds": min(spent)}
    table = pd.DataFrame([{**row, "ratio": naive / min(spent), "largest_relative_difference": worst}])
    table.to_csv(Path(__file__).parent / "benchmark.csv", index=False, float_format="%.4g")
    print(table.to_string(index=False))


if __name__ == "__main__":
    main()
