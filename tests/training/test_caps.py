from __future__ import annotations

from pathlib import Path

import numpy as np
import pypsa
import pytest

from pypsa_aidc import InputError, Rules, TrainingLoad
from pypsa_aidc.training import Frontier, Mode, Slots
from tests.training.test_graph import compare_with_enumeration

MODE = Mode((1, 1, 8), gpus=8, flops_per_s=1e15, it_power=0.5)
HOUR = 3.6e18
FRONTIER = Frontier(power=(0.8, 0.5), time=(1.1, 1.6), source="by hand")


def capped() -> TrainingLoad:
    return TrainingLoad("A", work=4 * HOUR, modes=FRONTIER.modes([MODE]), rules=Rules(segments=4))


def test_a_cap_trades_power_for_time_on_the_same_gpus() -> None:
    modes = {mode.label: mode for mode in FRONTIER.modes([MODE])}
    assert set(modes) == {"1·1·8", "1·1·8@80%", "1·1·8@50%"}
    slow = modes["1·1·8@80%"]
    assert (slow.gpus, slow.it_power, slow.flops_per_s) == (8, pytest.approx(0.4), pytest.approx(1e15 / 1.1))
    # 0.8 of the power for 1.1 of the time is 0.88 of the energy.
    assert slow.it_power / slow.flops_per_s == pytest.approx(0.88 * MODE.it_power / MODE.flops_per_s)


def test_a_capped_mode_that_another_layout_beats_is_dropped() -> None:
    other = Mode((2, 1, 4), gpus=8, flops_per_s=0.95e15, it_power=0.38)
    assert "1·1·8@80%" not in [mode.label for mode in FRONTIER.modes([MODE, other])]


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("formulation", ["time", "literal"])
def test_capped_modes_equal_enumeration(seed: int, formulation: str) -> None:
    price = np.random.default_rng(seed).uniform(5, 100, 8)
    compare_with_enumeration(capped(), Slots.uniform(8), price, formulation)


def test_the_layout_without_a_cap_is_that_of_its_size() -> None:
    assert capped().mode((1, 1, 8)) == MODE
    with pytest.raises(InputError, match="once a cap"):
        TrainingLoad("A", HOUR, (MODE, MODE))


def test_caps_are_kept_in_networks() -> None:
    n = pypsa.Network(snapshots=range(8))
    n.add("Bus", "grid")
    n.add("Generator", "market", bus="grid", p_nom=5, marginal_cost=[9, 8, 7, 6, 5, 4, 3, 2])
    n.aidc.add("dc", bus="grid", gpus=8, jobs=[capped()])
    (load,) = n.aidc.sites["dc"].loads.values()
    assert load.modes == capped().modes


def test_points_that_are_no_frontier_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        Frontier(power=(1.2, 0.8), time=(0.9, 1.1), source="x")
    assert {fault.where for fault in caught.value.faults} == {"power", "time"}
    with pytest.raises(InputError, match="longer than"):
        Frontier(power=(0.9, 0.8), time=(1.2, 1.1), source="x")
    (tmp_path / "points.csv").write_text("power,time\n0.9,1.02\n0.7,much\n")
    with pytest.raises(InputError, match="row 2, time"):
        Frontier.read(tmp_path / "points.csv")
    (tmp_path / "points.csv").write_text("power,time\n0.9,1.02\n0.7,1.2\n")
    assert Frontier.read(tmp_path / "points.csv").time == (1.02, 1.2)
