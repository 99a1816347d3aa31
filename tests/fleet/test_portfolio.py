from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest

from pypsa_aidc import fleet
from pypsa_aidc.errors import InputError


def small_fleet(clusters: int, hours: int = 300, seed: int = 0, gap: int | None = 50) -> fleet.Envelope:
    rng = np.random.default_rng(seed)
    index = pd.MultiIndex.from_product([range(hours), [f"c{i}" for i in range(clusters)]], names=["hour", "cluster"])
    frame = pd.DataFrame({"power": rng.gamma(2.0, 1.0, len(index))}, index=index).reset_index().assign(layer="eligible")
    frame = frame if gap is None else frame[frame["hour"] != gap]
    return fleet.Envelope.from_frame(frame, source="random")


def brute_force(envelope, names, h, alpha, method):
    return fleet.Surface.of(envelope, (h,), (alpha,), portfolio=names, method=method).K.item()


@pytest.mark.parametrize("method", ["sup", "linear"])
def test_every_subset_equals_its_own_surface(method):
    envelope = small_fleet(5)
    result = fleet.portfolios(envelope, (1, 4), (0.5, 0.95), portfolio=None, method=method).data
    assert result.sizes["subset"] == 2**5 - 1
    seen = set()
    for subset in range(31):
        one = result.isel(subset=subset)
        names = [str(name) for name in one["cluster"].to_numpy()[one["member"].to_numpy()]]
        seen.add(tuple(names))
        for h, alpha in itertools.product((1, 4), (0.5, 0.95)):
            got = one["K"].sel(duration=h, reliability=alpha).item()
            assert got == pytest.approx(brute_force(envelope, names, h, alpha, method), rel=1e-12)
    assert len(seen) == 31


def test_curve_is_a_ratio_of_means_over_all_subsets_of_a_size():
    envelope = small_fleet(4)
    curve = fleet.portfolios(envelope, portfolio=None).curve()
    pairs = [list(pair) for pair in itertools.combinations(envelope.clusters, 2)]
    K = np.mean([brute_force(envelope, pair, 4, 0.95, "sup") for pair in pairs])
    mean = np.mean([float(envelope.relief(pair).sum("cluster", skipna=False).mean()) for pair in pairs])
    assert curve.loc[2, "firmness"] == pytest.approx(K / mean, rel=1e-12)
    assert curve["subsets"].tolist() == [4, 6, 4, 1]
    assert (curve["lowest"] <= curve["highest"]).all()


def test_contributions_are_fair():
    envelope = small_fleet(4)
    table = fleet.portfolios(envelope, portfolio=None).contribution()
    whole = brute_force(envelope, list(envelope.clusters), 4, 0.95, "sup")
    assert table["shapley"].sum() == pytest.approx(whole, rel=1e-12)
    orders = list(itertools.permutations(envelope.clusters))
    gains = []
    for order in orders:
        before = order[: order.index("c2")]
        value = brute_force(envelope, list(before), 4, 0.95, "sup") if before else 0.0
        gains.append(brute_force(envelope, [*before, "c2"], 4, 0.95, "sup") - value)
    assert table.loc["c2", "shapley"] == pytest.approx(np.mean(gains), rel=1e-12)
    rest = brute_force(envelope, ["c0", "c1", "c3"], 4, 0.95, "sup")
    assert table.loc["c2", "last"] == pytest.approx(whole - rest, rel=1e-9)


def test_more_than_thirteen_clusters_are_drawn_with_a_seed():
    envelope = small_fleet(15, hours=60)
    with pytest.raises(InputError, match="samples"):
        fleet.portfolios(envelope, portfolio=None)
    first, again, other = (fleet.portfolios(envelope, portfolio=None, samples=5, seed=seed) for seed in (1, 1, 2))
    assert first.data.identical(again.data)
    assert not first.data["member"].equals(other.data["member"])
    assert first.curve()["subsets"].tolist() == [5] * 14 + [1]
    with pytest.raises(InputError, match="all subsets"):
        first.contribution()
