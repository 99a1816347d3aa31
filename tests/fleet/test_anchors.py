from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest

from pypsa_aidc import fleet
from pypsa_aidc.errors import InputError
from pypsa_aidc.fleet.studies.anchors import modelled

MODEL = fleet.PowerModel()


def test_published_duty_cycle_error():
    # "22–25 % over representative means" (App. A of [2]) is reached between means of 0.3 and 0.6.
    error = fleet.duty_cycle_error(MODEL, "training", np.linspace(0.3, 0.6, 31))
    assert error.min() >= 0.22
    assert error[[0, -1]] == pytest.approx([0.221, 0.247], abs=0.001)
    linear = fleet.PowerModel(curves=fleet.LINEAR)
    np.testing.assert_allclose(fleet.duty_cycle_error(linear, "training", [0.1, 0.5, 0.9]), 0.0, atol=1e-15)


@pytest.mark.parametrize("workload", ["training", "online_inference", "offline_inference", "other"])
def test_jensen_bound_is_reached_by_some_two_state_hour_and_exceeded_by_none(workload):
    means = np.array([0.1, 0.25, 0.4, 0.62, 0.9])
    grid = np.linspace(0, 1, 201)
    bound = fleet.jensen_bound(MODEL, workload, means)
    for mean, limit in zip(means, bound, strict=True):
        own = modelled(MODEL, workload, mean)
        worst = 0.0
        for low, high in itertools.product(grid[grid < mean], grid[grid > mean]):
            share = (mean - low) / (high - low)
            true = (1 - share) * modelled(MODEL, workload, low) + share * modelled(MODEL, workload, high)
            worst = max(worst, abs(float(true - own) / float(own)))
        assert worst <= limit + 1e-12
        assert worst == pytest.approx(limit, abs=2e-3)


def test_anchor_table():
    measured = pd.DataFrame({"category": ["idle", "training", "training"], "share": [0.2, 0.8, 1.1]})
    table = fleet.compare_anchors(measured)
    assert table.loc["idle", "inside"] == 1.0
    assert table.loc["training", ["model_low", "model_high", "inside"]].tolist() == pytest.approx([0.2, 1.0, 0.5])
    with pytest.raises(InputError) as error:
        fleet.compare_anchors(pd.DataFrame({"category": ["idle", "mining"], "share": [250.0, 0.5]}))
    assert "Divide W by the rating" in str(error.value)
    assert "mining" in str(error.value)


def test_acme_power_distributions(shared_data):
    # A100-SXM4 boards of 400 W: the tables end at or above the rating, and more than a fifth of the time is idle.
    for name in ("kalos", "seren"):
        table = fleet.read_power_distribution(shared_data / "gpu_traces" / f"gpu_power_{name}_cdf.csv", 400.0)
        assert len(table) == 1000
        assert table["share"].is_monotonic_increasing
        assert table["share"].iloc[0] < MODEL.idle_fraction
        idle = np.interp(0.2 * 400, table["power"], table["percent"])
        assert 20 < idle < 60


def test_a_table_that_is_no_distribution_is_refused(tmp_path):
    (tmp_path / "cdf.csv").write_text("percent,value\n0,60\n50,50\n")
    with pytest.raises(InputError, match="fall"):
        fleet.read_power_distribution(tmp_path / "cdf.csv", 400)
    with pytest.raises(InputError, match="nowhere"):
        fleet.read_power_distribution(tmp_path / "nowhere.csv", 400)


def test_lowest_minutes_of_an_hour():
    seconds = np.arange(0, 7200, 5)
    power = np.where((seconds % 3600) < 300, 1.0, 2.0)
    table = fleet.subhour_minima(pd.DataFrame({"seconds": seconds, "power": power}), [1, 5, 15])
    mean = (300 * 1 + 3300 * 2) / 3600
    assert table.shape == (2, 3)
    np.testing.assert_allclose(table.iloc[0], [1 / mean, 1 / mean, (5 * 1 + 10 * 2) / 15 / mean])
    uneven = pd.DataFrame({"seconds": [0, 5, 20], "power": [1.0, 1.0, 1.0]})
    with pytest.raises(InputError, match="even"):
        fleet.subhour_minima(uneven)
