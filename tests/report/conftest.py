from __future__ import annotations

import numpy as np
import pandas as pd
import pypsa
import pytest

from pypsa_aidc import fleet
from pypsa_aidc.network import scenario_network
from tests.conftest import ROOT
from tests.network.tiny import QUIET, grid, job, once_solved, site, two_sites


@pytest.fixture(scope="session")
def solved() -> pypsa.Network:
    """One site with one job of four hours in a market whose price falls from 8 to 1 USD/MWh; do not change it."""
    n = site(grid())
    n.name = "little"
    n.aidc.optimize(**QUIET)
    return n


@pytest.fixture(scope="session")
def solved_pair() -> pypsa.Network:
    """Two sites with three jobs; do not change it."""
    return once_solved(two_sites)


@pytest.fixture(scope="session")
def campus() -> pypsa.Network:
    """The campus of [1] in S6; do not change it."""
    n = scenario_network(pypsa.Network(ROOT / "networks" / "green_campus.nc"), "S6", ["battery"])
    n.aidc.optimize(exclusive=["battery"], mip_rel_gap=1e-6, time_limit=60, output_flag=False)
    return n


@pytest.fixture(scope="session")
def envelope() -> fleet.Envelope:
    """Two clusters for 200 hours, made here and so not the synthetic fleet."""
    index = pd.MultiIndex.from_product(
        [range(200), ["c1", "c2"], ["eligible", "floor"]], names=["hour", "cluster", "layer"]
    )
    power = np.random.default_rng(0).gamma(2.0, 1.0, len(index))
    return fleet.Envelope.from_frame(index.to_frame(index=False).assign(power=power), source="two clusters")


@pytest.fixture
def short() -> pypsa.Network:
    """An unsolved network of one's own."""
    return site(grid(), jobs=[job("A", 2.0, 2)])
