from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pypsa_aidc import fleet
from pypsa_aidc.errors import InputError
from pypsa_aidc.fleet.studies.uncertainty import Blocks, blocks, resampled
from pypsa_aidc.fleet.windows import dependable, running_minima

from .test_portfolio import small_fleet


def k_of_pieces(pieces, h, alphas, method="sup"):
    """K over the windows inside each piece, none across a splice."""
    windows = np.concatenate([running_minima(piece, [h])[h] for piece in pieces])
    return dependable(windows, alphas, method)


@given(
    st.lists(st.one_of(st.just(np.nan), st.integers(0, 9).map(float)), min_size=12, max_size=40),
    st.integers(4, 12),
    st.integers(0, 2**32 - 1),
    st.sampled_from(["sup", "linear"]),
)
def test_counts_give_the_k_of_the_replicate_that_is_never_built(values, block, seed, method):
    series = np.array(values)
    drawn = blocks(series.size, block, 3, seed)
    got = resampled(series, drawn, (1, 3), (0.5, 0.95), method)
    for row, starts in enumerate(drawn.starts):
        pieces = [series[s : s + block] for s in starts]
        pieces[-1] = pieces[-1][: series.size - block * (len(pieces) - 1)]
        for column, h in enumerate((1, 3)):
            expected = k_of_pieces(pieces, h, (0.5, 0.95), method)
            np.testing.assert_allclose(got[row, column], expected, rtol=1e-12)


def test_the_same_index_draws_as_arch_give_the_same_k():
    bootstrap = pytest.importorskip("arch.bootstrap", reason="arch is a development dependency")
    block, alphas, durations = 50, (0.5, 0.9, 0.95), (1, 4, 24)
    series = np.random.default_rng(7).gamma(4.0, 1.0, 730)
    series[333] = np.nan

    def statistic(sample):
        pieces = np.split(sample, range(block, sample.size, block))
        return np.concatenate([k_of_pieces(pieces, h, alphas) for h in durations])

    theirs = bootstrap.MovingBlockBootstrap(block, series, seed=np.random.default_rng(42)).apply(statistic, 40)
    ours = resampled(series, blocks(series.size, block, 40, 42), durations, alphas)
    np.testing.assert_array_equal(ours.reshape(40, -1), theirs)


def test_a_replicate_never_counts_a_window_across_a_splice():
    drawn = Blocks(np.array([[0, 6]]), block=4, hours=8)
    # Hours 0–3 and 6–9 do not fit: the second block is cut at the end of the series' length.
    assert drawn.counts(3).tolist() == [[1, 1, 0, 0, 0, 0]]
    assert blocks(8, 4, 2, 0).starts.max() <= 4


def test_the_untouched_series_is_no_replicate():
    series = np.random.default_rng(0).random(1000)
    drawn = blocks(1000, 168, 50, 0)
    whole = dependable(running_minima(series, [4])[4], [0.95])[0]
    assert (resampled(series, drawn, (4,), (0.95,))[:, 0, 0] != whole).mean() > 0.9


@pytest.mark.parametrize("block", [24, 23])
def test_a_block_that_is_not_longer_than_the_call_is_refused(block):
    with pytest.raises(InputError, match="longest duration, 24 h"):
        fleet.bootstrap(small_fleet(2), portfolio=None, block=block, replicates=2)


def test_a_block_longer_than_the_series_is_refused():
    with pytest.raises(InputError, match="block"):
        fleet.bootstrap(small_fleet(2, hours=100), portfolio=None)


def test_blocks_are_joint_across_clusters_and_series():
    envelope = small_fleet(3, hours=600)
    result = fleet.bootstrap(envelope, (1, 4), (0.5, 0.95), portfolio=None, replicates=20, seed=4)
    total = envelope.relief().sum("cluster", skipna=False).to_numpy()
    drawn = blocks(600, 168, 20, 4)
    observed = result.data["K"].sel(representation="observed")
    np.testing.assert_array_equal(observed, resampled(total, drawn, (1, 4), (0.5, 0.95)))
    # All power of this fleet is eligible, so a fixed share of it is the thing itself in every replicate.
    np.testing.assert_allclose(result.ratio_band("mean share"), 1.0, rtol=1e-12)
    np.testing.assert_allclose(result.ratio_band("tail-calibrated share"), 1.0, rtol=1e-12)


def test_power_draws_are_paired_with_blocks(synthetic, envelope):
    models = fleet.power_draws(3, seed=1)
    result = fleet.bootstrap(
        envelope, (1, 4), (0.95,), statistics=synthetic.statistics, models=models, replicates=3, seed=2
    )
    names = envelope.clusters
    drawn = blocks(4440, 168, 3, 2)
    for row, model in enumerate(models):
        own = fleet.Envelope.of(synthetic.statistics, model=model).relief(names).sum("cluster", skipna=False).to_numpy()
        alone = resampled(own, Blocks(drawn.starts[[row]], 168, 4440), (1, 4), (0.95,))
        got = result.data["K"].sel(representation="observed").isel(replicate=row)
        np.testing.assert_allclose(got, alone[0], rtol=1e-11)
    assert result.data.attrs["power_draws"] == 1


def test_models_without_statistics_are_refused(envelope, synthetic):
    with pytest.raises(InputError, match="both, or none"):
        fleet.bootstrap(envelope, models=fleet.power_draws(2), replicates=2)
    with pytest.raises(InputError, match="one a replicate"):
        fleet.bootstrap(envelope, models=fleet.power_draws(2), statistics=synthetic.statistics, replicates=3)


def test_the_same_seed_gives_the_same_bytes(envelope):
    first, again = (fleet.bootstrap(envelope, replicates=5, seed=3) for _ in range(2))
    assert first.data.identical(again.data)
