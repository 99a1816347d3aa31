"""Frozen files: right loads, objective and prices for those without us, everything for those with us."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pypsa
import pytest

import pypsa_aidc as aidc
from pypsa_aidc.network.files.freeze import is_frozen
from pypsa_aidc.network.pypsa_api import copy_network
from tests.network.plain import optimize_plainly
from tests.network.test_fleet import TABLE, tight
from tests.network.tiny import HOUR, QUIET, grid, job, once_solved, site, two_sites

LEAN = aidc.training.Mode((1, 8, 4), gpus=32, flops_per_s=1e15, it_power=30.0)
WIDE = aidc.training.Mode((1, 8, 8), gpus=64, flops_per_s=1.85e15, it_power=64.0)

UNPRICED = pytest.mark.filterwarnings("ignore::pypsa_aidc.PriceWarning")


def assert_same_schedule(read: pypsa.Network, n: pypsa.Network) -> None:
    pd.testing.assert_frame_equal(read.aidc.schedule(), n.aidc.schedule(), check_dtype=False, check_index_type=False)
    assert read.aidc.sites == n.aidc.sites


def with_three_sites(n: pypsa.Network, buses: tuple[str, str, str], segments: int, scale: float = 1.0) -> pypsa.Network:
    """Add three AIDCs, each with a job that fills a good half of the horizon in its lean mode."""
    lean, wide = (replace(mode, it_power=scale * mode.it_power) for mode in (LEAN, WIDE))
    for bus, share in zip(buses, (0.6, 0.7, 0.5), strict=True):
        work = share * len(n.snapshots) * HOUR
        load = aidc.TrainingLoad("A", work, (lean, wide), aidc.Rules(segments=segments), baseline=lean)
        n.aidc.add(f"AIDC {bus}", bus=bus, gpus=80, pue=1.2, base_load=6.0 * scale, jobs=[load])
    return n


def hold_round_trip(n: pypsa.Network, folder: Path, gap: float) -> None:
    """Solved → frozen file → a process without us → back to us: the same all along."""
    options = {"output_flag": False, "mip_rel_gap": gap}
    result = n.aidc.optimize(**options)
    n.aidc.export(folder / "frozen.nc")
    plain = optimize_plainly(folder / "frozen.nc", folder / "plain")
    assert plain.objective == pytest.approx(n.objective, rel=1e-6)
    prices = n.buses_t.marginal_price[plain.prices.columns]
    links = n.links.loc[n.links["carrier"] == "AIDC import"]
    at_limit = n.links_t.p0[links.index] >= links["p_nom"] - 1e-6  # the price behind it is then not determined
    hidden = at_limit.set_axis(links["bus1"], axis=1).reindex(columns=prices.columns, fill_value=False)
    np.testing.assert_allclose(plain.prices.mask(hidden), prices.mask(hidden), atol=1e-6, rtol=1e-6)
    assert not hidden.all().any()
    for file in (folder / "frozen.nc", plain.file):
        read = aidc.load(file)
        assert is_frozen(read)
        assert_same_schedule(read, n)
    again = read.aidc.optimize(**options)
    assert not is_frozen(read)
    assert again.objective == pytest.approx(result.objective, rel=max(gap, 1e-6))
    np.testing.assert_allclose(read.generators["e_sum_min"], n.generators["e_sum_min"])


def test_round_trip_of_a_meshed_network(shared_data: Path, tmp_path: Path) -> None:
    """Lines, DC links, extendable capacity and a limit on emissions: all of PyPSA's own stays as it was."""
    n = pypsa.Network(shared_data / "networks" / "ac-dc-meshed.nc")
    n.set_snapshots(n.snapshots[:6])
    hold_round_trip(with_three_sites(n, ("London", "Frankfurt", "Norway"), 5), tmp_path, 1e-9)


@pytest.mark.slow
def test_round_trip_of_the_german_grid(shared_data: Path, tmp_path: Path) -> None:
    """585 buses over four hours, at the buses of the study (wind, a congested line, sun), and a fleet with relief."""
    n = pypsa.Network(shared_data / "networks" / "scigrid-de.nc")
    n.set_snapshots(n.snapshots[:4])
    n.aidc.add_fleet("fleet", bus="64", p_nom=100.0, surface={1: 20.0, 2: 12.0}, peak=100.0, marginal_cost=15.0)
    hold_round_trip(with_three_sites(n, ("21", "303", "64"), 3), tmp_path, 1e-6)


def test_everything_that_draws_power_is_frozen(tmp_path: Path) -> None:
    """Idle GPUs, a PUE and a base load that vary, two jobs: the file says all of it to plain PyPSA."""
    n = grid()
    chips = aidc.GPU("X", {"bf16": 1e15}, memory=80e9, train_w=5e5, idle_w=5e4)
    options = {"gpus": 12, "gpu": chips, "draw_idle": True, "jobs": [job("A"), job("B", 2.0, 2)]}
    site(n, pue=np.linspace(1.2, 1.3, 8), base_load=np.linspace(1.0, 0.5, 8), **options)
    hold_round_trip(n, tmp_path, 1e-9)
    idle = n.generators_t.p["dc idle"]
    assert idle.max() > idle.min()


def test_export_leaves_the_network_alone(tmp_path: Path) -> None:
    n = two_sites()
    n.aidc.optimize(**QUIET)
    before = copy_network(n)
    model = n.model
    n.aidc.export(tmp_path / "frozen.nc")
    assert n.model is model
    assert n.equals(before)


def test_a_solution_of_the_hook_is_frozen_too(tmp_path: Path) -> None:
    n = two_sites()
    n.optimize(extra_functionality=aidc.extra_functionality, **QUIET)
    n.aidc.export(tmp_path / "frozen.nc")
    read = aidc.load(tmp_path / "frozen.nc")
    assert_same_schedule(read, n)
    assert is_frozen(read)


def test_a_free_file_has_free_jobs(tmp_path: Path) -> None:
    n = once_solved(two_sites)
    n.aidc.export(tmp_path / "frozen.nc")
    frozen = aidc.load(tmp_path / "frozen.nc")
    frozen.aidc.export(tmp_path / "free.nc", frozen=False)
    free = aidc.load(tmp_path / "free.nc")
    assert not is_frozen(free)
    assert_same_schedule(free, n)
    free.optimize(extra_functionality=aidc.extra_functionality, **QUIET)
    assert free.objective == pytest.approx(n.objective, rel=1e-9)


def test_the_hook_refuses_frozen_jobs_until_they_are_thawed() -> None:
    n = once_solved(two_sites)
    n.aidc.freeze()
    frozen = copy_network(n)
    with pytest.raises(aidc.StaleError, match="aidc.refresh"):
        frozen.optimize(extra_functionality=aidc.extra_functionality, **QUIET)
    frozen.aidc.thaw()
    frozen.optimize(extra_functionality=aidc.extra_functionality, **QUIET)
    assert frozen.objective == pytest.approx(n.objective, rel=1e-9)


def test_mode_changes_cost_nothing_in_plain_pypsa(tmp_path: Path) -> None:
    """The one difference of objectives: PyPSA has no place for it, and the convention says so."""
    rules = {"segments": 6, "waiting": False, "mode_change_cost": 0.05}
    n = site(grid(prices=[0.1, 0.1, 0.1, 0.1, 0.1, 9.0, 9.0, 9.0]), jobs=[job(hours=6.0, **rules)])
    n.aidc.optimize(**QUIET)
    n.aidc.export(tmp_path / "frozen.nc")
    plain = optimize_plainly(tmp_path / "frozen.nc", tmp_path / "plain")
    steps = n.aidc.schedule().sort_values("start")
    joined = steps["start"].iloc[1:].to_numpy() - steps["last"].iloc[:-1].to_numpy() == np.timedelta64(1, "h")
    changes = int((joined & (steps["data"].diff().iloc[1:].to_numpy() != 0)).sum())
    assert changes > 0
    assert plain.objective == pytest.approx(n.objective - 0.05 * changes, rel=1e-9)


class TestModesOfPyPSA:
    """Frozen in place and solved again plainly: what has more than one dimension of time or of chance."""

    def assert_plain_optimum(self, n: pypsa.Network, **options: object) -> None:
        n.aidc.optimize(**QUIET, **options)
        schedule, objective, prices = n.aidc.schedule(), n.objective, n.buses_t.marginal_price.copy()
        n.aidc.freeze()
        frozen = copy_network(n)
        assert frozen.optimize(output_flag=False, **options) == ("ok", "optimal")
        assert frozen.objective == pytest.approx(objective, rel=1e-9)
        np.testing.assert_allclose(frozen.buses_t.marginal_price[prices.columns], prices, atol=1e-6)
        pd.testing.assert_frame_equal(frozen.aidc.schedule(), schedule)
        frozen.aidc.thaw()
        assert frozen.aidc.optimize(**QUIET, **options).objective == pytest.approx(objective, rel=1e-9)

    def test_scenarios(self) -> None:
        n = grid()
        n.set_scenarios({"rising": 0.7, "falling": 0.3})
        site(n)
        self.assert_plain_optimum(n)

    def test_investment_periods(self) -> None:
        n = grid()
        n.investment_periods = [2030, 2040]
        n.investment_period_weightings["objective"] = [10.0, 1.0]
        site(n)
        self.assert_plain_optimum(n, multi_investment_periods=True)

    def test_an_extendable_connection(self) -> None:
        # A base load that rises: with one hour at the peak, its price alone bears the capital cost.
        load = 1 + 0.01 * np.arange(8)
        self.assert_plain_optimum(site(grid(), base_load=load, p_nom=1.5, p_nom_extendable=True, capital_cost=3.0))

    def test_unit_commitment(self) -> None:
        """Commitment stays a matter of integers: the objective is the same, and PyPSA itself has no prices then."""
        n = two_sites()
        n.generators.loc["local", ["committable", "p_min_pu", "start_up_cost"]] = [True, 0.3, 2.0]
        n.aidc.optimize(**QUIET)
        n.aidc.freeze()
        frozen = copy_network(n)
        frozen.optimize(**QUIET)
        assert frozen.objective == pytest.approx(n.objective, rel=1e-9)


class TestRefused:
    def test_without_a_schedule(self, tmp_path: Path) -> None:
        (tmp_path / "old.nc").write_bytes(b"old")
        with pytest.raises(aidc.NotSolvedError):
            two_sites().aidc.export(tmp_path / "old.nc")
        with pytest.raises(aidc.InputError, match="no AIDC"):
            grid().aidc.export(tmp_path / "old.nc")
        assert (tmp_path / "old.nc").read_bytes() == b"old"

    def test_with_a_schedule_of_another_solve(self, tmp_path: Path) -> None:
        n = once_solved(two_sites)
        n.optimize(output_flag=False)
        with pytest.raises(aidc.AIDCError):
            n.aidc.export(tmp_path / "n.nc")
        assert not list(tmp_path.iterdir())

    def test_where_a_part_of_the_snapshots_was_solved(self, tmp_path: Path) -> None:
        n = grid(12)
        site(n)
        n.aidc.optimize(n.snapshots[:8], **QUIET)
        with pytest.raises(aidc.StaleError, match=r"4 of 12 snapshots.*n.copy\(snapshots"):
            n.aidc.export(tmp_path / "n.nc")
        part = copy_network(n).copy(snapshots=n.snapshots[:8])
        part.aidc.export(tmp_path / "n.nc")
        plain = optimize_plainly(tmp_path / "n.nc", tmp_path / "plain")
        assert plain.objective == pytest.approx(n.objective, rel=1e-9)

    def test_where_binaries_keep_storage_exclusive(self, tmp_path: Path) -> None:
        n = grid(prices=[-5.0, -5.0, -5.0, -5.0, 1.0, 1.0, 1.0, 1.0])
        n.generators.loc["market", "p_min_pu"] = 0.2
        n.add("Generator", "sink", bus="grid", carrier="AC", p_nom=200.0, sign=-1, marginal_cost=0.01)
        n.add("StorageUnit", "battery", bus="grid", p_nom=2.0, max_hours=2.0, efficiency_store=0.5)
        site(n)
        result = n.aidc.optimize(exclusive=["battery"], **QUIET)
        assert result.exclusive == ("battery",)
        with pytest.raises(aidc.UnsupportedError, match="battery"):
            n.aidc.export(tmp_path / "n.nc")
        n.aidc.export(tmp_path / "n.nc", frozen=False)
        assert aidc.load(tmp_path / "n.nc").aidc.status["exclusive"] == ["battery"]
        with pytest.raises(aidc.UnsupportedError, match="battery"):
            aidc.load(tmp_path / "n.nc").aidc.export(tmp_path / "m.nc")


@UNPRICED
def test_fleets_keep_their_relief(tmp_path: Path) -> None:
    n = tight()
    site(n, jobs=[job(hours=2.0, segments=2)])
    n.aidc.optimize(**QUIET)
    n.aidc.export(tmp_path / "frozen.nc")
    plain = optimize_plainly(tmp_path / "frozen.nc", tmp_path / "plain")
    assert plain.objective == pytest.approx(n.objective, rel=1e-6)
    read = aidc.load(plain.file)
    pd.testing.assert_frame_equal(read.aidc.calls(), n.aidc.calls(), check_dtype=False)
    assert n.aidc.calls()["energy"].sum() > 0
    assert read.aidc.optimize(**QUIET).objective == pytest.approx(n.objective, rel=1e-6)
    assert not is_frozen(read)


def test_hours_that_relief_prices_are_told() -> None:
    """0.8 of the 0.9 MW that a call of two hours may shed: relief sets the price of 50 USD/MWh there."""
    n = once_solved(tight)
    with pytest.warns(aidc.PriceWarning, match="'f' sheds less than it may in 2 snapshots, the first 2030-01-01 03"):
        n.aidc.freeze()


@UNPRICED
@pytest.mark.parametrize("hook", [False, True])
def test_fleets_alone_are_frozen_too(hook: bool, tmp_path: Path) -> None:
    n = tight()
    if hook:
        n.optimize(extra_functionality=aidc.extra_functionality, **QUIET)
    else:
        n.aidc.optimize(**QUIET)
    n.aidc.export(tmp_path / "frozen.nc")
    plain = optimize_plainly(tmp_path / "frozen.nc", tmp_path / "plain")
    assert plain.objective == pytest.approx(n.objective, rel=1e-6)
    pd.testing.assert_frame_equal(aidc.load(plain.file).aidc.calls(), n.aidc.calls(), check_dtype=False)
    part = tight()
    part.aidc.optimize(part.snapshots[:6], **QUIET)
    with pytest.raises(aidc.StaleError, match="2 of 8 snapshots"):
        part.aidc.freeze()


FREE = {"p_nom": None, "p_nom_extendable": True, "p_nom_max": 30.0, "marginal_cost": 0.0, "capital_cost": -100.0}


def test_a_firm_fleet_of_free_size_stays_free(tmp_path: Path) -> None:
    """20 MW less 11.8 MW in hour 3 alone: plain PyPSA finds the size, and one more MWh there costs a MW of fleet."""
    n = tight(**FREE)
    n.loads_t.p_set["town"] = [10, 10, 10, 11.8, 11.4, 10, 10, 10]
    n.aidc.optimize(**QUIET)
    assert n.generators.at["f", "p_nom_opt"] == pytest.approx(8.2)
    # A MW of fleet is worth 100 USD and costs 10 in each of eight hours, and once more what hour 3 is short of.
    assert n.buses_t.marginal_price["grid"].tolist() == pytest.approx([10, 10, 10, 30, 10, 10, 10, 10])
    n.aidc.export(tmp_path / "frozen.nc")
    plain = optimize_plainly(tmp_path / "frozen.nc", tmp_path / "plain")
    assert plain.objective == pytest.approx(n.objective, rel=1e-6)
    np.testing.assert_allclose(plain.prices, n.buses_t.marginal_price, atol=1e-6, rtol=1e-6)
    assert aidc.load(plain.file).generators.at["f", "p_nom_opt"] == pytest.approx(8.2)


def test_a_firm_fleet_of_free_size_beside_a_job(tmp_path: Path) -> None:
    n = tight(**FREE)
    n.loads_t.p_set["town"] = [10, 10, 10, 11.8, 11.4, 10, 5, 5]
    site(n, jobs=[job(hours=2.0, segments=2)])
    hold_round_trip(n, tmp_path, 1e-9)
    assert n.generators.at["f", "p_nom_opt"] == pytest.approx(8.2 - 1.25)


def test_a_fleet_of_free_size_with_relief_is_not_frozen() -> None:
    """At a size that is data, plain PyPSA had 500 USD/MWh in hours 3 and 4, where the size is worth 230 in one."""
    n = tight(**TABLE, p_nom=None, p_nom_extendable=True, p_nom_max=9.0, capital_cost=-100.0)
    n.aidc.optimize(**QUIET)
    with pytest.raises(aidc.UnsupportedError, match="fleets of free size, f"):
        n.aidc.freeze()
