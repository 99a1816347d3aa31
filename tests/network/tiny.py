"""Small networks and loads for the tests of the network package."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
import pandas as pd
import pypsa

import pypsa_aidc as aidc

QUIET = {"output_flag": False, "mip_rel_gap": 1e-9}
SLOW = aidc.training.Mode((1, 1, 4), gpus=4, flops_per_s=1e15, it_power=2.0)
FAST = aidc.training.Mode((1, 1, 8), gpus=8, flops_per_s=1.8e15, it_power=4.0)
HOUR = 3.6e18  # FLOPs that SLOW does in an hour


def job(name: str = "A", hours: float = 4.0, segments: int = 4, **rules: object) -> aidc.TrainingLoad:
    """A job of so many hours in its slow mode."""
    return aidc.TrainingLoad(name, hours * HOUR, (SLOW, FAST), aidc.Rules(segments=segments, **rules), baseline=SLOW)


@cache
def _bus(hours: int) -> pypsa.Network:
    n = pypsa.Network(snapshots=pd.date_range("2030-01-01", periods=hours, freq="h"))
    n.add("Carrier", "AC")
    n.add("Bus", "grid", carrier="AC")
    return n


def grid(hours: int = 8, prices: object = None, p_nom: float = 100.0) -> pypsa.Network:
    """One bus, a grid connection with a price of its own each hour."""
    # PyPSA takes six times as long for a new network as for a copy.
    n = _bus(hours).copy()
    price = np.arange(hours, 0.0, -1.0) if prices is None else prices
    n.add("Generator", "market", bus="grid", carrier="AC", p_nom=p_nom, marginal_cost=price)
    return n


def site(n: pypsa.Network, name: str = "dc", jobs: object = None, **options: object) -> pypsa.Network:
    """Add a site with sensible defaults, and return the network."""
    values = {"bus": "grid", "gpus": 8, "pue": 1.25, "base_load": 1.0} | options
    n.aidc.add(name, jobs=[job()] if jobs is None else jobs, **values)  # type: ignore[arg-type]
    return n


@cache
def _solved(make: Callable[[], pypsa.Network]) -> pypsa.Network:
    n = make()
    n.aidc.optimize(**QUIET)
    # PyPSA copies no network whose model is still attached to a solver.
    del n.model
    return n


def once_solved(make: Callable[[], pypsa.Network]) -> pypsa.Network:
    """Return a copy, without its model, of a network that is solved once in all tests; `make` is a module's function.

    A solve takes a second and a copy none, so tests that only need a result share it.
    """
    return _solved(make).copy()


def one_site() -> pypsa.Network:
    """One site with one job."""
    return site(grid())


def two_sites(hours: int = 8) -> pypsa.Network:
    """Two buses and a line, a site with two jobs at one and with one job at the other."""
    n = grid(hours)
    n.add("Bus", "far", carrier="AC")
    n.add("Line", "line", bus0="grid", bus1="far", carrier="AC", x=0.1, r=0.01, s_nom=20.0)
    n.add("Generator", "local", bus="far", carrier="AC", p_nom=10.0, marginal_cost=6.5)
    n.add("Load", "town", bus="far", carrier="AC", p_set=np.linspace(1, 3, hours))
    site(n, "one", [job("A", 3.0, 3), job("B", 2.0, 2)], gpus=10)
    site(n, "two", [job("A", 5.0, 5)], bus="far")
    return n
