from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pypsa
import pytest

import pypsa_aidc as aidc
from pypsa_aidc.network.spec.column import COLUMN
from tests.network.tiny import FAST, QUIET, SLOW, grid, job, once_solved, one_site, site, two_sites

pytestmark = pytest.mark.smoke


def unchanged(n: pypsa.Network, before: pypsa.Network) -> bool:
    return all(
        n.c[c].static.equals(before.c[c].static) for c in ("Bus", "Link", "Load", "Generator", "Carrier")
    ) and n.generators_t.p_set.equals(before.generators_t.p_set)


def test_add_builds_standard_components() -> None:
    n = grid()
    n.buses.loc["grid", ["x", "y"]] = [-90.1, 29.9]
    site(n, jobs=[job("A"), job("B")], p_nom=12.0)
    assert n.buses.loc["dc IT", ["x", "y"]].tolist() == [-90.1, 29.9]
    assert n.links.loc["dc import", ["bus0", "bus1", "efficiency", "p_nom"]].tolist() == ["grid", "dc IT", 0.8, 12.0]
    assert n.loads.loc["dc base", ["bus", "p_set"]].tolist() == ["dc IT", 1.0]
    assert n.generators.loc["dc A", ["bus", "sign", "p_nom"]].tolist() == ["dc IT", -1.0, 4.0]
    assert np.isfinite(n.generators["p_nom"]).all()
    n.consistency_check(strict="all")


def test_default_connection_is_the_most_the_site_can_draw() -> None:
    n = site(grid(), pue=pd.Series(np.linspace(1.1, 1.4, 8), grid().snapshots), base_load=2.0)
    assert n.links.at["dc import", "p_nom"] == pytest.approx(1.4 * (2.0 + 4.0))


def test_remove_takes_everything_away() -> None:
    n = grid()
    before = n.copy()
    site(n, draw_idle=True, gpu="A100-80GB")
    n.aidc.remove("dc")
    for component in ("Bus", "Link", "Load", "Generator"):
        assert list(n.c[component].static.index) == list(before.c[component].static.index)
    assert n.aidc.jobs.empty
    with pytest.raises(aidc.InputError, match="dc"):
        n.aidc.remove("dc")


def test_list_shows_jobs_and_what_they_need() -> None:
    table = two_sites().aidc.jobs
    assert list(table.index) == [("one", "A"), ("one", "B"), ("two", "A")]
    assert table.loc[("two", "A"), "hours"] == pytest.approx(5.0 / 1.8)
    assert table.loc[("one", "B"), ["gpus", "modes", "segments"]].tolist() == [10, 2, 2]


def test_a_descriptor_gets_modes_of_the_pool() -> None:
    n = grid(24)
    descriptor = aidc.Job("A", aidc.Transformer.preset("LLaMA-13B"), 1e12, 1024, 2048, tranche_ratio=0.02)
    n.aidc.add("dc", bus="grid", gpus=512, gpu="A100-80GB", jobs=[descriptor])
    load = n.aidc.sites["dc"].loads["dc A"]
    assert max(mode.gpus for mode in load.modes) == 512
    assert load.work == descriptor.tranche_flops


def test_modes_beyond_the_pool_are_left_out() -> None:
    load = site(grid(), gpus=5).aidc.sites["dc"].loads["dc A"]
    assert load.modes == (SLOW,)
    with pytest.raises(aidc.InputError, match="at least 4"):
        site(grid(), gpus=3)


def test_update_changes_pool_and_jobs_only() -> None:
    n = site(grid(), p_nom=12.0)
    n.aidc.update("dc", gpus=20, jobs=[job("B"), job("C")])
    assert n.aidc.sites["dc"].spec.gpus == 20
    assert list(n.aidc.sites["dc"].loads) == ["dc B", "dc C"]
    assert "dc A" not in n.generators.index
    assert n.links.at["dc import", "p_nom"] == 12.0
    with pytest.raises(aidc.InputError, match="'ghost'"):
        n.aidc.update("ghost", gpus=3)


class TestSeries:
    """Rows 1-4 and 16 of the collected user reports: series that do not fit are named, never filled with 0."""

    def test_dates_that_do_not_meet_the_snapshots(self) -> None:
        n = grid()
        before = n.copy()
        series = pd.Series(1.0, pd.date_range("2024-01-01", periods=8, freq="h"))
        with pytest.raises(aidc.InputError, match="no value for 8 of 8 snapshots.*covers 2024-01-01"):
            site(n, base_load=series)
        assert unchanged(n, before)

    def test_nan_is_named_with_its_snapshot(self) -> None:
        values = np.ones(8)
        values[7] = np.nan
        with pytest.raises(aidc.InputError, match="NaN at 2030-01-01 07:00:00"):
            site(grid(), base_load=values)

    def test_order_of_a_series_does_not_matter(self) -> None:
        n = grid()
        series = pd.Series(np.linspace(1, 2, 8), n.snapshots)
        site(n, base_load=series.sample(frac=1, random_state=1))
        np.testing.assert_allclose(n.loads_t.p_set["dc base"], series)

    def test_time_zones_are_converted_to_utc(self) -> None:
        n = grid()
        local = pd.Series(np.arange(1.0, 9.0), n.snapshots.tz_localize("UTC").tz_convert("America/Chicago"))
        site(n, base_load=local)
        np.testing.assert_allclose(n.loads_t.p_set["dc base"], np.arange(1.0, 9.0))

    def test_a_series_in_local_time_misses_hours(self) -> None:
        n = grid()
        local = pd.Series(1.0, n.snapshots.tz_localize("America/Chicago"))
        with pytest.raises(aidc.InputError, match="no value for 6 of 8"):
            site(n, base_load=local)

    def test_repeated_snapshots_are_named(self) -> None:
        n = grid()
        series = pd.Series(1.0, [*n.snapshots, n.snapshots[3]])
        with pytest.raises(aidc.InputError, match="each snapshot once"):
            site(n, base_load=series)

    @pytest.mark.parametrize(
        ("pue", "named"), [(0.8, "at least 1"), (np.full(8, np.inf), "NaN"), (np.ones(7), "7 values")]
    )
    def test_pue_is_checked(self, pue: object, named: str) -> None:
        with pytest.raises(aidc.InputError, match=named):
            site(grid(), pue=pue)


class TestNamesAndCounts:
    """Rows 8, 28 and 29 of the collected user reports."""

    @pytest.mark.parametrize("name", ["dc/1", "dcä", "", " dc", "dc\n"])
    def test_names_that_file_formats_cannot_hold(self, name: str) -> None:
        with pytest.raises(aidc.InputError, match="letters, digits"):
            site(grid(), name)
        with pytest.raises(aidc.InputError, match="letters, digits"):
            site(grid(), jobs=[job(name)])

    def test_a_site_twice(self) -> None:
        n = site(grid())
        with pytest.raises(aidc.InputError, match="'dc IT' exists"):
            site(n)

    def test_a_job_twice(self) -> None:
        with pytest.raises(aidc.InputError, match="each name once"):
            site(grid(), jobs=[job("A"), job("A")])

    @pytest.mark.parametrize("name", ["IT", "import", "base", "idle"])
    def test_reserved_job_names(self, name: str) -> None:
        with pytest.raises(aidc.InputError, match="not IT, import, base, idle, meter, total"):
            site(grid(), jobs=[job(name)])

    def test_everything_wrong_is_said_at_once(self) -> None:
        n = grid()
        before = n.copy()
        with pytest.raises(aidc.InputError) as caught:
            n.aidc.add("dc/1", bus="nowhere", gpus=0, jobs=[3], p_nom=-5.0, pue=0.5, base_load=-1.0)
        wheres = [fault.where for fault in caught.value.faults]
        assert wheres == ["name", "bus", "gpus", "jobs", "p_nom", "pue", "base_load"]
        assert unchanged(n, before)

    def test_an_impossible_job_leaves_the_network_as_it_was(self) -> None:
        n = grid()
        before = n.copy()
        with pytest.raises(aidc.InfeasibleError):
            site(n.copy(), jobs=[job(hours=40.0)]).aidc.optimize()
        with pytest.raises(aidc.InputError):
            site(n, jobs=[job(), aidc.TrainingLoad("B", 1e18, (SLOW,), deadline=None)], gpus=2)
        assert unchanged(n, before)


class TestUnits:
    """Row 30 of the collected user reports: kW given as MW."""

    def test_base_load_beyond_the_connection_warns_with_the_ratio(self) -> None:
        with pytest.warns(aidc.UnitWarning, match="268 times the connection of 1.4 MW"):
            site(grid(), base_load=375.0, p_nom=1.4)

    def test_base_load_out_of_proportion_to_the_gpus_warns(self) -> None:
        with pytest.warns(aidc.UnitWarning, match="94 times the 4 MW of all GPUs"):
            site(grid(), base_load=375.0)

    def test_connection_out_of_proportion_warns(self) -> None:
        with pytest.warns(aidc.UnitWarning, match="224 times the 6.25 MW"):
            site(grid(), p_nom=1400.0)


class TestSpecification:
    def test_numbers_survive_json(self) -> None:
        n = site(grid(), gpus=np.int64(8), jobs=[job(hours=float(np.float32(4.1)), restart_hours=np.float64(0.25))])
        load = n.aidc.sites["dc"].loads["dc A"]
        assert load.rules.restart_hours == 0.25
        assert load.modes == (SLOW, FAST)
        assert load.baseline == SLOW

    @pytest.mark.parametrize(
        ("old", "new", "named"),
        [
            ('"version": 1', '"version": 2', "newer pypsa_aidc"),
            ('"version": 1', '"version": 0', "version"),
            ('"gpus": 8', '"gpus": -8', "gpus"),
            ('"gpus": 8, ', "", "gpus"),
            ('"gpus": 8', '"gpus": NaN', "NaN"),
            ('"gpus": 8', '"gpus": 8, "more": 1', "more"),
            ("{", "[", "JSON"),
            ("pypsa_aidc/site", "other", "schema"),
        ],
    )
    def test_a_damaged_site_is_named(self, old: str, new: str, named: str) -> None:
        n = site(grid())
        n.links[COLUMN] = n.links[COLUMN].str.replace(old, new, n=1)
        with pytest.raises(aidc.SpecError, match=named) as caught:
            _ = n.aidc.sites
        assert "dc import" in str(caught.value)

    @pytest.mark.parametrize(
        ("old", "new", "named"),
        [
            ('"work_flops": ', '"work_flops": -', "work_flops"),
            ('"segments": 4', '"segments": 0', "segments"),
            ('"it_power_mw": 2.0', '"it_power_mw": "2"', "it_power_mw"),
            ('"jump": null', '"hop": null', "rules"),
            ('"site": "dc"', '"site": "gone"', "gone"),
        ],
    )
    def test_a_damaged_job_is_named(self, old: str, new: str, named: str) -> None:
        n = site(grid())
        assert old in n.generators.at["dc A", COLUMN]
        n.generators[COLUMN] = n.generators[COLUMN].str.replace(old, new, n=1)
        with pytest.raises(aidc.SpecError, match=named) as caught:
            _ = n.aidc.sites
        assert "dc" in str(caught.value)

    def test_missing_gpu_count_of_one_of_two_sites_is_named_on_read(self, tmp_path: Path) -> None:
        # Row 9 of the collected user reports: a missing integer must not become a float or a guess.
        n = two_sites()
        n.links.loc["two import", COLUMN] = n.links.at["two import", COLUMN].replace('"gpus": 8, ', "")
        n.export_to_netcdf(tmp_path / "n.nc")
        with pytest.raises(aidc.SpecError, match="two import"):
            pypsa.Network(tmp_path / "n.nc").aidc.jobs  # noqa: B018

    def test_a_missing_component_is_named(self) -> None:
        n = site(grid())
        n.remove("Load", "dc base")
        with pytest.raises(aidc.SpecError, match="dc base"):
            _ = n.aidc.sites


def test_a_pue_in_per_cent_is_doubted() -> None:
    with pytest.warns(aidc.UnitWarning, match="pue of 125.*Give 1.25"):
        site(grid(p_nom=1000.0), pue=125.0)


def test_tokens_in_trillions_are_refused() -> None:
    with pytest.raises(aidc.InputError, match=r"at least 2.09715e\+06.*15e12, not 15"):
        aidc.Job("A", aidc.Transformer.preset("LLaMA-13B"), 15, 1024, 2048, 0.05)


def test_without_an_aidc_it_is_said() -> None:
    n = grid()
    n.optimize(output_flag=False)
    for call in (n.aidc.summary, n.aidc.power, n.aidc.schedule, n.aidc.bill):
        with pytest.raises(aidc.NotSolvedError, match="no AIDC in this network"):
            call()


def test_power_has_no_negative_zeros() -> None:
    n = once_solved(one_site)
    n.generators_t.p.loc[:, "dc A"] = n.generators_t.p["dc A"].where(n.generators_t.p["dc A"] > 0, -1e-12)
    power = n.aidc.power()["dc", "A"]
    assert (power == 0).any()
    assert not np.signbit(power).any()


def test_update_is_as_if_added_so(tmp_path: Path) -> None:
    """Number for series, series for number, and back: as a site that was added with the last of them."""
    hours = np.linspace(1.1, 1.5, 8)
    n = site(grid(), pue=hours, base_load=1.0, p_nom=9.0)
    n.aidc.update("dc", pue=1.3, base_load=hours, p_nom=8.0)
    wanted = site(grid(), pue=1.3, base_load=hours, p_nom=8.0)
    assert n.aidc.sites == wanted.aidc.sites
    for other in (n, wanted):
        other.aidc.optimize(**QUIET)
    pd.testing.assert_frame_equal(n.aidc.power(), wanted.aidc.power(), check_freq=False)
    assert n.objective == pytest.approx(wanted.objective)
    n.aidc.update("dc", pue=hours, base_load=1.0)
    assert n.links_t.efficiency["dc import"].tolist() == pytest.approx(1 / hours)
    assert n.get_switchable_as_dense("Load", "p_set")["dc base"].eq(1.0).all()
    assert aidc.load(n.aidc.export(tmp_path / "n.nc", frozen=False)).aidc.sites == n.aidc.sites


def test_update_refuses_all_at_once_and_changes_nothing() -> None:
    n = site(grid(), p_nom=9.0)
    with pytest.raises(aidc.InputError) as caught:
        n.aidc.update("dc", pue=0.9, base_load=[1.0], p_nom=-1.0)
    assert [fault.where for fault in caught.value.faults] == ["pue", "base_load", "p_nom"]
    assert n.links.at["dc import", "p_nom"] == 9.0
    with pytest.warns(aidc.UnitWarning, match="base_load of 375 MW"):
        n.aidc.update("dc", base_load=375.0, p_nom=1.4)


def test_idle_gpus_follow_the_pool() -> None:
    """Of twelve GPUs at 0.25 MW none is busy at first: 3 MW, where the eight before could draw 2."""
    gpu = aidc.GPU("X", {"bf16": 1e15}, memory=80e9, train_w=0.5e6, idle_w=0.25e6)
    n = site(grid(), gpu=gpu, draw_idle=True, p_nom=20.0)
    n.aidc.update("dc", gpus=12)
    n.aidc.optimize(**QUIET)
    assert n.aidc.power()["dc", "idle"].max() == pytest.approx(3.0)


class TestRamps:
    """A job of 2 MW for four hours, in hours that cost 9 and 1 USD/MWh in turn."""

    def network(self, **ramps: float) -> pypsa.Network:
        n = pypsa.Network(snapshots=range(8))
        n.add("Bus", "grid", carrier="AC")
        n.add("Generator", "market", bus="grid", p_nom=100.0, marginal_cost=[9.0, 1.0] * 4)
        return site(n, jobs=[job(hours=4.0, segments=4)], base_load=0.0, pue=1.0, **ramps)

    def test_the_meter_keeps_to_them_and_so_does_plain_pypsa(self, tmp_path: Path) -> None:
        assert self.network().aidc.optimize(**QUIET).objective == pytest.approx(4 * 2 * 1.0)
        # 1.5 MW an hour: a job may not begin after the first snapshot, before which nothing is known.
        n = self.network(ramp_up=1.5 / 60)
        result = n.aidc.optimize(**QUIET)
        assert result.objective == pytest.approx(2 * (9 + 1 + 9 + 1))
        assert "ramp up" in result.audit.to_frame()["check"].tolist()
        n.aidc.export(tmp_path / "frozen.nc")
        frozen = pypsa.Network(tmp_path / "frozen.nc")
        frozen.optimize(**QUIET)
        assert frozen.objective == pytest.approx(result.objective)
        n.links_t.p0.loc[6, "dc import"] = 5.0
        assert n.aidc.audit().to_frame().set_index("check").at["ramp up", "violation"] == pytest.approx(5.0 - 1.5)

    def test_storage_behind_the_meter_smooths(self) -> None:
        n = self.network(ramp_up=1.0 / 60, ramp_down=1.0 / 60)
        n.add("StorageUnit", "battery", bus="dc IT", p_nom=1.0, max_hours=4.0, cyclic_state_of_charge=True)
        n.aidc.optimize(**QUIET)
        assert n.links_t.p0["dc import"].diff().abs().max() <= 1.0 + 1e-6
        assert n.aidc.gpus().diff().abs().to_numpy()[1:].max() > 0

    def test_are_taken_away_followed_and_refused_by_name(self) -> None:
        n = self.network(ramp_up=1.5 / 60)
        n.aidc.update("dc", p_nom=8.0)
        assert n.links_t.ramp_limit_up["dc import"].iloc[1] == pytest.approx(1.5 / 8.0)
        with pytest.raises(aidc.UnsupportedError, match="ramp limits of dc"):
            n.aidc.optimize_with_rolling_horizon(horizon=4)
        n.links.loc["dc import", "p_nom"] = 4.0
        assert "a share of the present p_nom" not in str(n.aidc.check())
        n.links.loc["dc import", "p_nom"] = 16.0
        assert "a share of the present p_nom" in str(n.aidc.check())
        n.aidc.update("dc", ramp_up=np.inf)
        assert n.aidc.optimize(**QUIET).objective == pytest.approx(8.0)
        with pytest.raises(aidc.InputError, match="ramp_down: given 1"):
            site(grid(), p_nom_extendable=True, ramp_down=1.0)
