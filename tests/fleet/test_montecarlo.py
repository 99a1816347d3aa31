from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from pypsa_aidc import fleet
from pypsa_aidc.errors import InputError


@pytest.fixture(scope="module")
def models():
    return fleet.power_draws(5, seed=11)


def test_the_matrix_product_equals_one_envelope_for_each_draw(some_weeks, models):
    own = fleet.PowerModel(idle={"A100": 55.0}, levels={"A10": (20, 90, 120, 130, 125)}, host_share=0.1)
    models = (*models, own)
    together = fleet.ensemble(some_weeks, models).data
    for draw, model in enumerate(models):
        alone = fleet.Envelope.of(some_weeks, model=model)
        for name in ("workload", "facility"):
            np.testing.assert_allclose(together[name].isel(draw=draw), getattr(alone, name), rtol=1e-11)


def test_relief_draws_equal_the_relief_of_each_envelope(some_weeks, models):
    names = ("C03", "C01", "C12")
    for boundary in ("idle-retained", "attributed"):
        draws = fleet.relief_draws(some_weeks, models[:2], names, "conservative", boundary)
        for draw, model in enumerate(models[:2]):
            alone = fleet.Envelope.of(some_weeks, "conservative", model)
            relief = alone.relief(names, boundary)
            np.testing.assert_allclose(draws["relief"].isel(draw=draw), relief, rtol=1e-11, atol=1e-15)
            load = alone.data["power"].sel(cluster=list(names)).sum(("cluster", "layer"), skipna=False)
            np.testing.assert_allclose(draws["workload"].isel(draw=draw), load, rtol=1e-11)


def test_draws_move_whole_series_so_a_mean_is_as_uncertain_as_an_hour(synthetic):
    band = fleet.ensemble(synthetic.statistics, fleet.power_draws(60, seed=0)).data["facility"]
    hourly = float((band.std("draw") / band.mean("draw")).mean())
    mean = band.mean("hour")
    assert float(mean.std() / mean.mean()) > 0.95 * hourly


def test_a_missing_hour_is_missing_in_every_draw(synthetic, models):
    facility = fleet.ensemble(synthetic.statistics, models).data["facility"]
    assert np.isnan(facility).sum("hour").to_numpy().tolist() == [1] * 5


def test_no_models_and_unknown_clusters_are_refused(synthetic, models):
    with pytest.raises(InputError, match="at least one power model"):
        fleet.ensemble(synthetic.statistics, [])
    with pytest.raises(InputError, match="nowhere"):
        fleet.relief_draws(synthetic.statistics, models, ["nowhere"])


def test_without_servers_and_cpu_the_facility_is_pue_times_the_workload(synthetic, models):
    cells = synthetic.statistics.cells.filter(pl.col("hour") < 50).with_columns(cpu_used=pl.lit(0.0))
    bare = fleet.Statistics(cells, synthetic.statistics.capacity.clear(), synthetic.statistics.audit)
    data = fleet.ensemble(bare, models).data
    assert float(data["unallocated"].max()) == 0.0
    pue = np.array([[model.pue] for model in models])
    np.testing.assert_allclose(data["facility"], pue * data["workload"], rtol=1e-12)
