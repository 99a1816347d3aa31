from __future__ import annotations

import warnings

import pypsa
import pytest

from pypsa_aidc import fleet
from pypsa_aidc.headroom import Demand, Profile, network_demand, profiles
from tests.conftest import ROOT


@pytest.fixture(scope="session")
def envelope(synthetic: fleet.SyntheticFleet) -> fleet.Envelope:
    return fleet.Envelope.of(synthetic.statistics)


@pytest.fixture(scope="session")
def shapes(envelope: fleet.Envelope) -> tuple[Profile, ...]:
    return profiles(envelope)


@pytest.fixture
def miso_network() -> pypsa.Network:
    with warnings.catch_warnings():
        # pandas 3.1 warns of what PyPSA's reader does with it.
        warnings.simplefilter("ignore")
        return pypsa.Network(ROOT / "networks" / "miso_south.nc")


@pytest.fixture(scope="session")
def miso_south() -> Demand:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return network_demand(pypsa.Network(ROOT / "networks" / "miso_south.nc"))
