"""Decided schedules and calls put into a network after a solve with the hook alone."""

from __future__ import annotations

import pandas as pd
import pypsa

from pypsa_aidc.network.results import schedule
from pypsa_aidc.network.results.fleet_results import has_fleet_solution, record_fleets


def record(n: pypsa.Network, snapshots: pd.Index | None = None) -> schedule.Steps:
    """Decode the solution of the network's model and keep it in the network, for files and copies.

    `n.aidc.optimize` does it by itself. Schedules of jobs and calls of fleets become dynamic attributes of their
    Generators.

    Returns
    -------
    mapping
        Steps of the jobs by generator and window.

    Raises
    ------
    NotSolvedError
        There is no model with AIDCs, or it has no solution.
    AIDCError
        The solution is no path: the solver ignored integrality.
    """
    if not has_fleet_solution(n):
        return schedule.record(n, snapshots)
    record_fleets(n)
    return schedule.record(n, snapshots) if schedule.model_paths(n) is not None else {}
