"""Sweeps: a function at every point of a grid, in this process, in several, or on a cluster; each point is a file."""

from pypsa_aidc.sweeps.function import FileFunction
from pypsa_aidc.sweeps.plan import Plan, prepared, sweep

__all__ = ["FileFunction", "Plan", "prepared", "sweep"]
