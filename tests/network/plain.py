"""A process that cannot import our package: what a planner without it does with a file."""

from __future__ import annotations

import atexit
import json
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pandas as pd

_SERVER = """
import json, os, sys, traceback
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
# Solvers write to the first descriptor whatever Python says: answers get one of their own.
answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)
for line in sys.stdin:
    script, *arguments = json.loads(line)
    try:
        exec(script, {"arguments": arguments})
        assert not hasattr(pypsa.Network, "aidc") and "pypsa_aidc" not in sys.modules
        failure = ""
    except BaseException:
        failure = traceback.format_exc()
    print(json.dumps(failure), file=answers, flush=True)
"""

_OPTIMIZE = """
import pypsa
n = pypsa.Network(arguments[0])
status = n.optimize(output_flag=False)
assert status == ("ok", "optimal"), status
n.buses_t.marginal_price.to_csv(arguments[1] + "/prices.csv")
n.generators_t.p.to_csv(arguments[1] + "/power.csv")
n.export_to_netcdf(arguments[1] + "/plain.nc")
open(arguments[1] + "/objective", "w").write(repr(float(n.objective)))
"""


@dataclass(frozen=True)
class Plain:
    """What plain PyPSA made of a file."""

    objective: float
    prices: pd.DataFrame
    power: pd.DataFrame
    file: Path


@cache
def _process() -> subprocess.Popen[str]:
    """One such process for all tests: importing PyPSA takes longer than what is asked of it."""
    process = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", _SERVER],
        cwd=Path(sys.executable).parent,
        env={},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    atexit.register(process.kill)
    return process


def run_plainly(script: str, *arguments: object) -> None:
    """Run a script, which finds its `arguments` under that name, in a process that has never seen our package."""
    process = _process()
    assert process.stdin is not None
    assert process.stdout is not None
    print(json.dumps([script, *map(str, arguments)]), file=process.stdin, flush=True)
    answer = process.stdout.readline()
    assert answer, f"the process ended with code {process.wait()}"
    assert not json.loads(answer), json.loads(answer)


def optimize_plainly(path: Path, folder: Path) -> Plain:
    """Open a file and optimise it in a process without our package."""
    folder.mkdir(exist_ok=True)
    run_plainly(_OPTIMIZE, path, folder)
    frames = [pd.read_csv(folder / name, index_col=0, parse_dates=True) for name in ("prices.csv", "power.csv")]
    return Plain(float((folder / "objective").read_text()), *frames, folder / "plain.nc")
