"""The first schedule and the edges it rules out: help for the solver that must never change the optimum."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pypsa
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import pypsa_aidc as aidc
from pypsa_aidc.network.loads.site.paths import PATH, Paths
from pypsa_aidc.network.solve.first_schedule import prepare
from tests.network.test_brute_force import Instance, instances, network
from tests.network.tiny import QUIET, grid, job, site


def prepared(n: pypsa.Network, file: Path) -> Paths:
    n.optimize.create_model()
    built: list[Paths] = []
    aidc.network.hook(on_built=built.extend)(n, n.snapshots)
    prepare(n, built[0], file)
    return built[0]


@given(batch=st.lists(instances(), min_size=5, max_size=5))
@settings(max_examples=3, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
def test_optimum_is_the_same_with_and_without(batch: list[Instance]) -> None:
    feasible = [one for one in batch if one.least_cost() < np.inf]
    if not feasible:
        return
    n = network(feasible)
    helped = n.aidc.optimize(prices=False, **QUIET)
    alone = n.aidc.optimize(prices=False, warm_start=False, **QUIET)
    assert helped.objective == pytest.approx(alone.objective, abs=1e-4)


def test_idle_gpus_and_own_constraints_count_in_the_bounds() -> None:
    """Rows that tie paths to anything else must be priced, or better schedules would be cut off."""

    def at_most_five_megawatts(n: pypsa.Network, snapshots: object) -> None:
        both = n.model["Generator-p"].sel(name=["dc A", "dc B"]).sum("name")
        n.model.add_constraints(both <= 5.0, name="mine")

    chip = aidc.GPU("X", {"bf16": 1e15}, 80e9, train_w=500_000, idle_w=200_000)
    for seed in range(3):
        price = np.random.default_rng(seed).integers(-20, 60, 8).astype(float)
        n = site(grid(prices=price), jobs=[job("A"), job("B", 2.0, 2)], gpus=12, gpu=chip, draw_idle=True)
        options = {"extra_functionality": at_most_five_megawatts, "prices": False, **QUIET}
        objectives = [n.aidc.optimize(warm_start=help, **options).objective for help in (True, False)]
        assert objectives[0] == pytest.approx(objectives[1], abs=1e-5)


def test_start_is_feasible_and_rules_out_edges(tmp_path: Path) -> None:
    n = site(grid(prices=[9.0, 1, 7, 3, 8, 2, 6, 4]), jobs=[job("A"), job("B", 2.0, 2)], gpus=12)
    prepared(n, tmp_path / "start.sol")
    text = (tmp_path / "start.sol").read_text()
    assert f"# Columns {len(n.model.matrices.vlabels)}" in text
    assert float(n.model.variables[PATH].upper.min()) == 0.0


@pytest.mark.parametrize("seed", range(2))
def test_parts_that_nothing_ties_together_are_searched_apart(seed: int, caplog, monkeypatch) -> None:
    """Two markets with a site each, and a third bus in one case; the whole model has the same optimum."""

    def case() -> pypsa.Network:
        n = site(grid(prices=price[0]), jobs=[job("A"), job("B", 2.0, 2)], gpus=12)
        n.add("Bus", "other")
        n.add("Generator", "far", bus="other", p_nom=50.0, marginal_cost=price[1])
        if seed:
            n.add("Bus", "third")
            n.add("Generator", "third", bus="third", p_nom=50.0, marginal_cost=7.0)
            n.add("Load", "town", bus="third", p_set=3.0)
        n.aidc.add("far dc", bus="other", gpus=12, jobs=[job("C"), job("D", 2.0, 2)], base_load=1.0)
        return n

    price = np.random.default_rng(seed).integers(-20, 60, (2, 8)).astype(float)
    whole = case().aidc.optimize(**QUIET)
    monkeypatch.setattr("pypsa_aidc.network.solve.first_schedule.LARGE", 1)
    n = case()
    with caplog.at_level("INFO", logger="pypsa_aidc"):
        apart = n.aidc.optimize(**QUIET)
    assert f"{2 + seed} parts apart" in caplog.text
    assert (apart.status, apart.prices, apart.audit.passed) == ("optimal", "fixed-path LP", True)
    assert [apart.objective, apart.bound] == pytest.approx([whole.objective] * 2, abs=1e-4)
    bounds = n.model.variables[PATH]
    assert (float(bounds.lower.max()), float(bounds.upper.min())) == (0.0, 1.0)
    # Where a search of a part is cut off, it says so; its bound stays one.
    cut = case().aidc.optimize(**QUIET | {"mip_max_nodes": 0, "presolve": "off", "prices": False})
    assert cut.bound - 1e-6 <= whole.objective <= cut.objective + 1e-6
    assert cut.status == ("optimal" if cut.gap < 1e-6 else "time_limit")


def test_nothing_is_written_where_no_start_is_looked_for(tmp_path: Path) -> None:
    committed = site(grid())
    committed.add("Generator", "coal", bus="grid", p_nom=5, p_min_pu=0.5, committable=True, marginal_cost=2)
    free = site(grid(), jobs=[job().idealized()])
    for n in (committed, free):
        prepared(n, tmp_path / "start.sol")
        assert not (tmp_path / "start.sol").exists()
        n.aidc.optimize(**QUIET)
