from __future__ import annotations

from pathlib import Path

import pytest

from pypsa_aidc import fleet

SHARED = Path(__file__).resolve().parents[3] / "shared"


@pytest.fixture(scope="session")
def shared_data() -> Path:
    if not SHARED.is_dir():
        pytest.skip(f"{SHARED} is absent: the data it holds may not be committed")
    return SHARED / "data"


@pytest.fixture(scope="session")
def envelope(synthetic: fleet.SyntheticFleet) -> fleet.Envelope:
    return fleet.Envelope.of(synthetic.statistics)
