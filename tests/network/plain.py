"""A process that cannot import our package: what a planner without it does with a file."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

_SCRIPT = """
import json, sys
from importlib.abc import MetaPathFinder

class Blocked(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "pypsa_aidc":
            raise ModuleNotFoundError("blocked: " + name)

sys.meta_path.insert(0, Blocked())
try:
    import pypsa_aidc
except ModuleNotFoundError:
    pass
else:
    raise SystemExit("pypsa_aidc can be imported")

import pypsa
pypsa.options.params.optimize.include_objective_constant = False
n = pypsa.Network(sys.argv[1])
status = n.optimize(output_flag=False)
assert status == ("ok", "optimal"), status
assert not hasattr(n, "aidc") and "pypsa_aidc" not in sys.modules
n.buses_t.marginal_price.to_csv(sys.argv[2] + "/prices.csv")
n.generators_t.p.to_csv(sys.argv[2] + "/power.csv")
n.export_to_netcdf(sys.argv[2] + "/plain.nc")
open(sys.argv[2] + "/objective", "w").write(repr(float(n.objective)))
"""


@dataclass(frozen=True)
class Plain:
    """What plain PyPSA made of a file."""

    objective: float
    prices: pd.DataFrame
    power: pd.DataFrame
    file: Path


def optimize_plainly(path: Path, folder: Path) -> Plain:
    """Open a file and optimise it in a process without our package."""
    folder.mkdir(exist_ok=True)
    command = [sys.executable, "-W", "ignore", "-c", _SCRIPT, str(path), str(folder)]
    done = subprocess.run(command, cwd=folder, env={}, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    frames = [pd.read_csv(folder / name, index_col=0, parse_dates=True) for name in ("prices.csv", "power.csv")]
    return Plain(float((folder / "objective").read_text()), *frames, folder / "plain.nc")
