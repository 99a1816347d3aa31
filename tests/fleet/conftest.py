from __future__ import annotations

from pathlib import Path

import polars as pl
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


@pytest.fixture(scope="session")
def some_weeks(synthetic: fleet.SyntheticFleet) -> fleet.Statistics:
    """A tenth of the synthetic fleet, for what holds of any statistics."""
    whole = synthetic.statistics
    cells, capacity = (frame.filter(pl.col("hour") < 440) for frame in (whole.cells, whole.capacity))
    return fleet.Statistics(cells, capacity, whole.audit, synthetic=True)
