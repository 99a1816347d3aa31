"""Compare ratios with those of small.csv, and fail if one of them is half as much again."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import pandas as pd
from rich.console import Console

sys.path.insert(0, str(Path(__file__).parents[1]))

import study
from run import Config, sizes

WORSE = 1.5
RATIOS = ("edges", "nonzeros / edge", "build / PyPSA")
"""What depends little on the machine: counts, and CPU seconds against those of PyPSA's own model in the same run."""


def run(config: Config, arguments: argparse.Namespace, console: Console) -> None:
    """Measure, compare, and end with an error if something has become worse."""
    kept = pd.read_csv(Path(__file__).with_name(f"{config.name}.csv")).set_index("case")
    table = sizes(config, arguments).set_index("case")
    rows = [
        {"case": case, "ratio": ratio, "then": kept.at[case, ratio], "now": table.at[case, ratio]}
        for case in table.index
        for ratio in RATIOS
    ]
    frame = pd.DataFrame(rows)
    frame["now / then"] = frame["now"] / frame["then"]
    study.show(console, frame, f"at most {WORSE:g} times what it was")
    worse = frame[frame["now / then"] > WORSE]
    if len(worse):
        sys.exit(f"error: {len(worse)} of {len(frame)} ratios have become worse by more than {WORSE - 1:.0%}")


if __name__ == "__main__":
    study.main(__file__, Config, run, "small.yaml")
