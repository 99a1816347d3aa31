"""Training sites at a bus: enumeration of all schedules, hand calculations, and what cannot be asked."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pypsa
import pytest
from hypothesis import Phase, assume, given, settings
from hypothesis import strategies as st

import pypsa_aidc as aidc
from pypsa_aidc.headroom import BusHeadroom, bus_headroom, training_headroom
from pypsa_aidc.training import Slots
from tests.brute_force import schedules
from tests.headroom.grids import random_grid
from tests.network.tiny import job
from tests.strategies import plain_loads

EXACT = {"output_flag": False, "mip_rel_gap": 1e-9}
PUE, BASE = 1.25, 0.2


def one_bus(room: list[float]) -> pypsa.Network:
    """A bus where at each hour so many MW are left of 50."""
    n = pypsa.Network(snapshots=range(len(room)))
    n.add("Bus", "A")
    used = 50.0 - np.array(room)
    n.add("Generator", "G", bus="A", p_nom=50.0, p_set=used)
    n.add("Load", "L", bus="A", p_set=used)
    return n


@pytest.mark.slow
@given(plain_loads("A"), st.lists(st.integers(1, 40), min_size=6, max_size=6))
@settings(max_examples=5, phases=[Phase.explicit, Phase.generate])
def test_equals_the_best_of_all_schedules(load: aidc.TrainingLoad, room: list[int]) -> None:
    """The largest L with L·p_t ≤ x_t over every schedule that exists."""
    best = 0.0
    for schedule in set(schedules(load, Slots.uniform(6))):
        if max(schedule.gpus) <= 8:
            best = max(best, float((np.array(room) / (PUE * (BASE + np.array(schedule.it_power)))).min()))
    assume(best > 0)
    ask = {"gpus": 8, "jobs": [load], "pue": PUE, "base_load": BASE, "solver": EXACT}
    n = one_bus([float(mw) for mw in room])
    found = training_headroom(n, ["A"], **ask)
    row = found.to_frame().loc["A"]
    assert row["copies"] == pytest.approx(best, rel=1e-6)
    assert row["copies_bound"] == pytest.approx(best, rel=1e-6)
    assert row["schedule"] == "optimal"
    drawn = row["copies"] * found.data["power"].sel(bus="A").to_numpy()
    assert (drawn <= np.array(room) + 1e-6).all()
    assert row["headroom"] == pytest.approx(drawn.max())


def test_outages_cost_copies_and_choice_of_hours_is_worth_some() -> None:
    """In a grid, at two buses: N-1 ≤ N-0; and no fewer copies than those that draw their most all the time."""
    n = random_grid(0, hours=8, rating=2.0)
    buses = ["b4", "b6"]
    ask = {"gpus": 8, "jobs": [job(hours=3.0, segments=3)], "pue": PUE, "base_load": 0.5, "solver": EXACT}
    normal = training_headroom(n, buses, **ask).to_frame()
    secure = training_headroom(n, buses, contingencies="all", **ask)
    frame = secure.to_frame()
    assert (frame["copies"] <= normal["copies"] * (1 + 1e-6)).all()
    most = PUE * (0.5 + 4.0)  # MW of a copy in its fast mode
    assert (frame["copies"] > bus_headroom(n, buses, contingencies="all").headroom / most * (1 + 1e-3)).all()
    draw = bus_headroom(n, buses, contingencies="all", by_snapshot=True).data["draw"].to_numpy()
    drawn = frame["copies"].to_numpy()[:, None] * secure.data["power"].to_numpy()
    assert (drawn <= draw + 1e-4).all()
    assert np.isclose(drawn, draw, rtol=1e-6).any(axis=1).all()
    assert frame["element"].str.match("Line|Transformer|generation").all()


def test_hours_of_the_snapshots_count() -> None:
    """Four hours of work at 2 MW in two snapshots of 2 h: the two with 9 MW, so 9/2 copies."""
    n = one_bus([9.0, 3.0, 9.0, 3.0])
    n.snapshot_weightings[["objective", "generators", "stores"]] = 2.0
    slow = aidc.training.Mode((1, 1, 8), gpus=8, flops_per_s=1e15, it_power=2.0)
    load = aidc.TrainingLoad("A", 4 * 3.6e18, (slow,), aidc.Rules(segments=2))
    found = training_headroom(n, ["A"], gpus=8, jobs=[load], solver=EXACT)
    assert found.to_frame().loc["A", "copies"] == pytest.approx(4.5)
    assert found.data["power"].to_numpy()[0] == pytest.approx([2.0, 0.0, 2.0, 0.0], abs=1e-6)


def test_an_hour_without_room() -> None:
    """With a base load no copy fits; without, the job waits through it."""
    n = one_bus([8.0, 0.0, 8.0, 8.0, 8.0, 8.0])
    ask = {"gpus": 4, "jobs": [job(hours=3.0, segments=3)], "solver": EXACT}
    frame = training_headroom(n, ["A"], base_load=0.1, **ask).to_frame()
    assert frame.loc["A", ["headroom", "copies", "schedule"]].to_list() == [0.0, 0.0, "infeasible"]
    assert frame.loc["A", "element"] == "generation of sub-network 0"
    assert frame.loc["A", "snapshot"] == "1"
    assert training_headroom(n, ["A"], **ask).to_frame().loc["A", "copies"] == pytest.approx(4.0)


def test_a_bus_that_nothing_limits() -> None:
    """Supplied by less load at the same bus, a site touches nothing."""
    n = one_bus([8.0] * 6)
    found = training_headroom(n, ["A"], gpus=8, jobs=[job()], slack="load")
    assert found.to_frame().loc["A", ["headroom", "status", "copies"]].to_list() == [np.inf, "unlimited", np.inf]


def test_a_job_that_cannot_finish_is_no_matter_of_the_grid() -> None:
    with pytest.raises(aidc.InfeasibleError, match="job 'A' cannot finish by hour 3"):
        training_headroom(one_bus([8.0, 0.0, 8.0]), ["A"], gpus=4, jobs=[job(hours=4.0)], solver=EXACT)


def test_options_that_training_decides_are_refused() -> None:
    with pytest.raises(aidc.InputError) as caught:
        training_headroom(one_bus([8.0] * 6), "A", gpus=8, jobs=[job()], redispatch=True, relief=0.2)
    assert {fault.where for fault in caught.value.faults} == {"buses", "redispatch", "relief"}
    with pytest.raises(aidc.InputError, match="gpus"):
        training_headroom(one_bus([8.0] * 6), ["A"], gpus=0, jobs=[job()])


def test_the_result_survives_a_file(tmp_path: Path) -> None:
    found = training_headroom(random_grid(1, hours=8), ["b6", "b2"], gpus=8, jobs=[job()], solver=EXACT)
    assert "copies of a site with 8 GPUs" in repr(found)
    # The model of one bus is solved again for the next: as for that bus alone.
    alone = training_headroom(random_grid(1, hours=8), ["b2"], gpus=8, jobs=[job()], solver=EXACT)
    pd.testing.assert_series_equal(found.to_frame().loc["b2"], alone.to_frame().loc["b2"])
    found.to_netcdf(tmp_path / "training.nc")
    again = BusHeadroom.read(tmp_path / "training.nc").to_frame()
    pd.testing.assert_frame_equal(again, found.to_frame(), check_dtype=False, check_index_type=False)
    assert list(again.index) == ["b6", "b2"]
