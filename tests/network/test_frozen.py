"""Frozen files: right loads, objective and prices for those without us, everything for those with us."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pypsa
import pytest

import pypsa_aidc as aidc
from pypsa_aidc.network.frozen import is_frozen
from pypsa_aidc.network.site import copy_network
from tests.network.plain import optimize_plainly
from tests.network.tiny import HOUR, QUIET, grid, job, site, two_sites

LEAN = aidc.Mode((1, 8, 4), gpus=32, flops_per_s=1e15, it_power=30.0)
WIDE = aidc.Mode((1, 8, 8), gpus=64, flops_per_s=1.85e15, it_power=64.0)


def assert_same_schedule(read: pypsa.Network, n: pypsa.Network) -> None:
    pd.testing.assert_frame_equal(read.aidc.schedule(), n.aidc.schedule(), check_dtype=False, check_index_type=False)
    assert aidc.sites(read) == aidc.sites(n)


def scigrid(data: Path, hours: int) -> pypsa.Network:
    """The German grid with three AIDCs, at the buses of the study: wind, a congested line, sun."""
    n = pypsa.Network(data / "networks" / "scigrid-de.nc")
    n.set_snapshots(n.snapshots[:hours])
    for name, bus, share in (("Hamburg", "21", 0.6), ("Weser", "303", 0.7), ("Munich", "64", 0.5)):
        work = share * hours * HOUR
        load = aidc.TrainingLoad("A", work, (LEAN, WIDE), aidc.Rules(segments=hours // 2), baseline=LEAN)
        aidc.add(n, name, bus=bus, gpus=80, pue=1.2, base_load=6.0, jobs=[load])
    return n


def hold_round_trip(n: pypsa.Network, folder: Path, gap: float) -> None:
    """Solved → frozen file → a process without us → back to us: the same all along."""
    options = {"output_flag": False, "mip_rel_gap": gap}
    result = aidc.optimize(n, **options)
    aidc.export(n, folder / "frozen.nc")
    plain = optimize_plainly(folder / "frozen.nc", folder / "plain")
    assert plain.objective == pytest.approx(n.objective, rel=1e-6)
    prices = n.buses_t.marginal_price[plain.prices.columns]
    np.testing.assert_allclose(plain.prices, prices, atol=1e-6, rtol=1e-6)
    for file in (folder / "frozen.nc", plain.file):
        read = aidc.load(file)
        assert is_frozen(read)
        assert_same_schedule(read, n)
    again = aidc.optimize(read, **options)
    assert not is_frozen(read)
    assert again.objective == pytest.approx(result.objective, rel=max(gap, 1e-6))
    np.testing.assert_allclose(read.generators["e_sum_min"], n.generators["e_sum_min"])


@pytest.mark.filterwarnings("ignore:.*PyPSA version:UserWarning")
def test_round_trip_of_the_german_grid(shared_data: Path, tmp_path: Path) -> None:
    hold_round_trip(scigrid(shared_data, 4), tmp_path, 1e-7)


@pytest.mark.slow
def test_round_trip_of_the_german_grid_over_a_day(shared_data: Path, tmp_path: Path) -> None:
    hold_round_trip(scigrid(shared_data, 24), tmp_path, 1e-6)
