"""The commands of the fleet package on a real production trace: what is eligible, and how much of it is dependable.

`python study.py` writes `results/`; `python study.py --figures` also draws.
"""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path

import pandas as pd
import polars as pl

from pypsa_aidc import fleet
from pypsa_aidc.plots.envelope import plot_boundary

HERE = Path(__file__).parent
W_PER_MW = 1e6


def mean_rating(trace: fleet.Trace, ratings: dict[str, float]) -> float:
    """Rating of the mean GPU of the inventory, W."""
    stock = fleet.inventory(trace)
    each = stock["accelerator"].replace_strict(ratings, return_dtype=pl.Float64)
    return float((each * stock["gpus"]).sum() / stock["gpus"].sum())


def main() -> None:
    settings = tomllib.loads((HERE / "study.toml").read_text(encoding="utf-8"))
    trace = fleet.Trace.read((HERE / settings["trace"]).resolve(), "openb-2023")
    statistics = fleet.Statistics.of(trace)
    print(statistics.audit)
    rating = mean_rating(trace, settings["ratings"])
    envelope = fleet.Envelope.of(statistics, model=fleet.PowerModel(other_rating=rating))
    results = HERE / "results"
    results.mkdir(exist_ok=True)

    means = W_PER_MW * envelope.layers().mean("hour").to_series()
    layers = pd.DataFrame({"mean_W": means, "share": means / means.sum()})
    layers.to_csv(results / "layers.csv", float_format="%.5g")

    surfaces = {method: fleet.Surface.of(envelope, method=method) for method in ("sup", "linear")}
    sample = fleet.bootstrap(
        envelope,
        portfolio=None,
        block=settings["block"],
        replicates=settings["replicates"],
        seed=settings["seed"],
    )
    low, high = (W_PER_MW * band.to_series() for band in sample.band())
    table = surfaces["sup"].to_frame().set_index(["duration", "reliability"])
    table = table[["windows", "tail_windows", "firmness"]].assign(
        **{f"K_{method}_W": W_PER_MW * surface.K.to_series() for method, surface in surfaces.items()},
        K_p5_W=low,
        K_p95_W=high,
    )
    table.to_csv(results / "surface.csv", float_format="%.5g")

    counterfactuals = fleet.counterfactuals(envelope, portfolio=None, calibrated_at=(4, 0.5), seed=settings["seed"])
    ratios = counterfactuals.table(0.5).assign(K=lambda frame: W_PER_MW * frame["K"]).rename(columns={"K": "K_W"})
    ratios.to_csv(results / "counterfactuals_at_50_percent.csv", float_format="%.5g")

    print(f"mean GPU of the inventory: {rating:.1f} W")
    print(layers.to_string(float_format="%.4g"))
    print(table.to_string(float_format="%.4g"))
    print(ratios.to_string(float_format="%.4g"))
    if "--figures" in sys.argv[1:]:
        folder = HERE / settings["figures"]
        folder.mkdir(exist_ok=True)
        envelope.plot().savefig(folder / "layers.png", dpi=150)
        plot_boundary(envelope).savefig(folder / "boundary.png", dpi=150)
        surfaces["sup"].plot().savefig(folder / "surface.png", dpi=150)


if __name__ == "__main__":
    main()
