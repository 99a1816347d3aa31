"""`aidc.compare` and `aidc.values` on cases small enough to be computed by hand."""

from __future__ import annotations

import numpy as np
import pypsa
import pytest

import pypsa_aidc as aidc
from tests.network.tiny import QUIET, grid, job, site


def cheap_later() -> pypsa.Network:
    """A job of two hours in its slow mode, 2 MW; a base load of 1 MW; PUE 1.25; two cheap hours, apart and late."""
    n = grid(6, [6.0, 6.0, 9.0, 1.0, 9.0, 1.0])
    n.add("Load", "town", bus="grid", carrier="AC", p_set=4.0)
    return site(n, jobs=[job("A", 2.0, 2)])


def test_each_case_by_hand() -> None:
    """The job draws 2 MW · 1.25 = 2.5 MWh an hour: fixed in the first two, waiting in the two at 1 USD/MWh.

    The fast mode takes 4 MW for 1.11 h, so two slots as well: free modes save nothing more.
    """
    n = cheap_later()
    table = n.aidc.compare(**QUIET)
    prices = np.array([6.0, 6.0, 9.0, 1.0, 9.0, 1.0])
    base = 1.25 * prices.sum()
    assert table.index.tolist() == ["without", "fixed", "waiting", "free"]
    assert table["cost"].tolist() == pytest.approx(4 * prices.sum() + np.array([0, base + 30, base + 5, base + 5]))
    assert table["added"].tolist() == pytest.approx([0, base + 30, base + 5, base + 5])
    assert table["saved"].tolist() == pytest.approx([np.nan, 0, 25, 25], nan_ok=True)
    assert table["price"].tolist() == pytest.approx([prices.mean()] * 4)
    assert (table["status"] == "optimal").all()
    assert (table["gap"] == 0).all()
    assert table.attrs["units"]["price"] == "USD/MWh"
    assert n.objective is None, "the network is not solved itself"


def test_a_case_without_solution_is_a_row() -> None:
    n = site(grid(10), jobs=[job("A", 4.0, 4), job("B", 4.0, 4)], gpus=5)
    table = n.aidc.compare(only=("free", "fixed"), **QUIET)
    assert table["status"].to_dict() == {"free": "optimal", "fixed": "no solution"}
    assert table.loc["fixed"].drop("status").isna().all()
    assert table["added"].isna().all()
    assert "do not fit into 5 GPUs" in table.attrs["failures"]["fixed"]


def test_faults_of_compare_come_together() -> None:
    n = site(grid(), jobs=[aidc.TrainingLoad("A", 3.6e18, job().modes), aidc.TrainingLoad("B", 3.6e18, job().modes)])
    with pytest.raises(aidc.InputError, match="baseline") as caught:
        n.aidc.compare()
    assert len(caught.value.faults) == 2
    with pytest.raises(aidc.InputError, match=r"one of \['dc'\]"):
        n.aidc.compare("nowhere")
    with pytest.raises(aidc.InputError, match="without, fixed, waiting, free"):
        n.aidc.compare(only=("fix",))


def test_value_of_a_later_deadline() -> None:
    """Due at hour 4, one segment runs at 1 and one at 6 USD/MWh; an hour more adds one at 9, two hours one at 1."""
    n = site(grid(6, [6.0, 6.0, 9.0, 1.0, 9.0, 1.0]), jobs=[due(job("A", 2.0, 2), 4.0)])
    by_hour = n.aidc.values(only=["deadline"], **QUIET).loc[("dc", "deadline")]
    assert (by_hour["step"], by_hour["unit"]) == (1.0, "h")
    assert by_hour["value"] == pytest.approx(0.0, abs=1e-6)
    assert not by_hour["significant"]
    two = n.aidc.values(only=["deadline"], deadline=2.0, **QUIET).loc[("dc", "deadline")]
    assert two["value"] == pytest.approx(2.5 * (6 - 1))
    assert two["significant"]
    # Beyond the horizon nothing can be done: 10 hours more are two.
    most = n.aidc.values(only=["deadline"], deadline=10.0, **QUIET)["value"].item()
    assert most == pytest.approx(two["value"])
    with pytest.raises(aidc.InputError, match="deadline"):
        n.aidc.values(only=["deadline"], deadline=0.0)
    with pytest.raises(aidc.InputError, match="at least one with deadline"):
        site(grid()).aidc.values(only=["deadline"])


def due(load: aidc.TrainingLoad, deadline: float) -> aidc.TrainingLoad:
    return aidc.TrainingLoad(load.name, load.work, load.modes, load.rules, deadline, load.baseline)
