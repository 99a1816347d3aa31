"""The worth of GPU-hours in the objective, its accounts and its break-even value, on cases computed by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pypsa
import pytest

import pypsa_aidc as aidc
from pypsa_aidc.training import Mode, Transition
from tests.network.tiny import QUIET, SLOW, grid, job, site

PRICES = [6.0, 6.0, 9.0, 1.0, 9.0, 1.0]


def two_hours(**rules: object) -> pypsa.Network:
    """A job of two hours in its slow mode of 4 GPUs and 2 MW; PUE 1.25; two cheap hours, apart and late."""
    n = grid(6, PRICES)
    return site(n, jobs=[replace(job("A", 2.0, 2, **rules), modes=(SLOW,))], base_load=0.0)


def test_break_even_by_hand() -> None:
    """Fixed it pays 2.5 MWh at 6 and 6 USD/MWh, 30 USD for 8 GPU-hours; waiting pays 5 USD and holds 4 GPUs for 6 h.

    The 16 GPU-hours more are worth the 25 USD at 25/16 USD/GPU-h. Done by hour 4 it saves 12.5 USD for 8 GPU-hours
    more, at 12.5/8, the same; by hour 3 nothing.
    """
    n = two_hours(held_gpus=4)
    table = n.aidc.break_even(**QUIET)
    assert table.attrs["break_even"] == pytest.approx(25 / 16)
    assert table.iloc[0].to_dict() == pytest.approx({"energy_saved": 25.0, "more_gpu_hours": 16.0, "saved": 25.0})
    assert table["saved"].iloc[-1] == pytest.approx(0.0, abs=1e-6)
    n.aidc.update("dc", gpu_value=1.6)
    n.aidc.optimize(**QUIET)
    assert n.objective == pytest.approx(30 + 1.6 * 8)
    assert n.aidc.summary()["waiting_hours"].item() == 0
    released = two_hours().aidc.break_even(case="waiting", **QUIET)
    assert released.attrs["break_even"] == np.inf


def test_costs_and_bill_carry_the_worth_of_gpu_hours(tmp_path) -> None:
    """A value by hour: 4 GPUs in two of six hours, those at 1 USD/MWh unless GPUs are dear there."""
    n = two_hours()
    value = pd.Series([0.0, 0.0, 0.0, 2.0, 0.0, 1.0], n.snapshots)
    n.aidc.update("dc", gpu_value=value)
    n.export_to_netcdf(tmp_path / "n.nc")
    n = pypsa.Network(tmp_path / "n.nc")
    n.aidc.optimize(**QUIET)
    # At 1 USD/MWh the hour costs 2.5 USD and 8 or 4 USD of GPUs, at 6 USD/MWh 15 USD and none.
    assert n.objective == pytest.approx(2.5 + 8 + 2.5 + 4)
    costs = n.aidc.costs()["cost"]
    assert costs["GPUs", "dc"] == pytest.approx(12.0)
    assert costs.sum() == pytest.approx(n.objective)
    bill = n.aidc.bill()
    assert bill.loc[("dc", "A"), "gpu_cost"] == bill.loc[("dc", "total"), "gpu_cost"] == pytest.approx(12.0)
    assert bill.loc[("dc", "total"), "payment"] == pytest.approx(5.0)
    assert n.aidc.audit().passed
    whole = n.objective
    n.aidc.freeze()
    n.optimize(**QUIET)
    assert n.objective == pytest.approx(whole - 12.0), "plain PyPSA has no place for it"


def test_gpu_hours_of_scenarios() -> None:
    """Held GPUs in two scenarios, by probability 0.6 and 0.4; b is cheap in hours 2 and 4 at 1 and 3 USD/MWh.

    At once, the job takes hours 0 and 1: 30 USD in a, 25 in b, and 8 GPU-hours. Deciding in hour 2, it waits in a for
    hours 3 and 5 and pays 5 USD with 24 GPU-hours, in b for hours 2 and 4 and pays 10 USD with 20.
    """
    n = grid(6, PRICES)
    n.set_scenarios({"a": 0.6, "b": 0.4})
    n.c.generators.dynamic["marginal_cost"]["b", "market"] = [2.0, 8.0, 1.0, 9.0, 3.0, 4.0]
    none = pd.Series(0.0, n.snapshots)
    site(n, jobs=[replace(job("A", 2.0, 2, held_gpus=4), modes=(SLOW,))], base_load=0.0, gpu_value=none)
    later = {"recourse": n.snapshots[2]} | QUIET
    table = n.aidc.compare(only=["fixed", "free"], **later)
    assert table["cost"].tolist() == pytest.approx([0.6 * 30 + 0.4 * 25, 0.6 * 5 + 0.4 * 10])
    assert table["gpu_hours"].tolist() == pytest.approx([8.0, 0.6 * 24 + 0.4 * 20])
    value = pd.Series([0.5, 0.0, 0.0, 1.0, 0.0, 0.0], n.snapshots)
    n.aidc.update("dc", gpu_value=value)
    n.aidc.optimize(**later)
    # Hours 0 and 3 are worth 2 and 4 USD for 4 GPUs.
    assert n.objective == pytest.approx(7.0 + 2 + 4)
    assert n.aidc.costs()["cost"].sum() == pytest.approx(n.objective)
    assert n.aidc.costs().loc[("GPUs", "dc"), "cost"] == pytest.approx(6.0)
    n.set_risk_preference(0.5, 0.5)
    with pytest.raises(aidc.UnsupportedError, match="risk preference and recourse"):
        n.aidc.break_even(**later)


def test_a_value_of_zero_changes_no_byte() -> None:
    n, other = two_hours(), two_hours()
    other.aidc.update("dc", gpu_value=0.0, jobs=[replace(each, transitions=()) for each in _jobs(n)])
    assert n.links["aidc"].tolist() == other.links["aidc"].tolist()
    assert n.generators["aidc"].tolist() == other.generators["aidc"].tolist()
    assert not any("gpu_value" in text for text in n.links["aidc"])


def _jobs(n: pypsa.Network) -> list[aidc.TrainingLoad]:
    return list(n.aidc.sites["dc"].jobs.values())


def test_held_gpus_are_not_there_for_others() -> None:
    """A holds all 8 GPUs until it is done, so B starts after its last segment; released, they overlap."""
    jobs = [replace(job("A", 2.0, 2), modes=(SLOW,)), replace(job("B", 2.0, 2), modes=(SLOW,), deadline=5.0)]
    n = site(grid(6, PRICES), jobs=jobs, base_load=0.0)
    n.aidc.optimize(**QUIET)
    assert n.objective == pytest.approx(5 + 2.5 * 7, abs=1e-6)
    n.aidc.update("dc", jobs=[jobs[0].with_rules(held_gpus=8), jobs[1]])
    n.aidc.optimize(**QUIET)
    # A at once in two hours at 6 USD/MWh, B in the hours at 1 and 9.
    assert n.objective == pytest.approx(2.5 * (6 + 6) + 2.5 * (1 + 9))
    assert n.aidc.audit().passed
    with pytest.raises(aidc.InputError, match="at least 9"):
        n.aidc.update("dc", jobs=[jobs[0].with_rules(held_gpus=9)])


@pytest.mark.parametrize(
    ("there", "back", "cost"),
    [
        ({"cost": 1.0, "energy": 0.2}, {}, 8.75),  # 7.5, 1 USD, and 0.2 MWh at 1.25 USD/MWh
        ({"allowed": False}, {}, 11.25),
        ({"hours": 0.1}, {"allowed": False}, 15.0),  # the fast mode has no tenth of an hour left
    ],
)
def test_changes_of_mode_by_pair(there: dict[str, float], back: dict[str, float], cost: float) -> None:
    """Three segments in two hours at 2 and 1 USD/MWh: lean (1 MW, one an hour), then fast (4 MW, two an hour).

    That is 1.25 · (2·1 + 1·4) = 7.5 USD; the other way round 11.25 USD, and fast all along 15 USD.
    """
    lean, fast = Mode((1, 1, 4), 4, 1e15, 1.0), Mode((1, 1, 8), 8, 2e15, 4.0)
    pairs = (Transition(lean.label, fast.label, **there), Transition(fast.label, lean.label, **back))
    load = aidc.TrainingLoad("A", 3 * 3.6e18, (lean, fast), aidc.Rules(segments=3), transitions=pairs)
    n = site(grid(2, [2.0, 1.0]), jobs=[load], base_load=0.0)
    n.aidc.optimize(**QUIET)
    assert n.objective == pytest.approx(cost)
    assert n.aidc.costs()["cost"].sum() == pytest.approx(cost)
    assert n.aidc.audit().passed
    assert n.aidc.sites["dc"].jobs["dc A"] == load


def test_faults_of_transitions() -> None:
    with pytest.raises(aidc.InputError, match="one of") as caught:
        replace(job(), transitions=(Transition("1·1·1", "2·1·1"), Transition("1·1·1", "2·1·1")))
    assert len(caught.value.faults) == 3
    with pytest.raises(aidc.InputError, match="allowed"):
        Transition("1·1·4", "1·1·8", cost=1.0, allowed=False)


def test_the_job_whose_delay_costs_more_goes_first() -> None:
    """Two jobs of two hours on 4 GPUs each, in a pool of 4, at 1 USD/MWh: 2 · 2.5 USD each, whoever is first.

    B at 3 USD/h goes before A at 2 USD/h: 3·2 + 2·4 = 14 USD of delay, 16 the other way round.
    """
    jobs = [replace(job(name, 2.0, 2, delay_cost=cost), modes=(SLOW,)) for name, cost in (("A", 2.0), ("B", 3.0))]
    n = site(grid(6, [1.0] * 6), jobs=jobs, gpus=4, base_load=0.0)
    assert [load.rules.delay_cost for load in n.aidc.sites["dc"].jobs.values()] == [2.0, 3.0]
    n.aidc.optimize(**QUIET)
    assert n.objective == pytest.approx(4 * 2.5 + 14)
    costs = n.aidc.costs()["cost"]
    assert costs["Delay", "dc"] == pytest.approx(14)
    assert costs.sum() == pytest.approx(n.objective)
    first = n.aidc.schedule().groupby("job")["start"].min()
    assert (first == n.snapshots[[2, 0]]).all()
    n.aidc.update("dc", jobs=[jobs[0].with_rules(delay_cost=6.0), jobs[1]])
    n.aidc.optimize(**QUIET)
    assert n.aidc.costs()["cost"]["Delay", "dc"] == pytest.approx(6 * 2 + 3 * 4)
    with pytest.raises(aidc.InputError, match=r"delay_cost.*continuity=False"):
        aidc.Rules(continuity=False, delay_cost=1.0)
