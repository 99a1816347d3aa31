"""No status may look like an optimum, and no zero like a result: rows 10 to 16 and 30 of the collected user reports."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from types import ModuleType

import numpy as np
import pypsa
import pytest

import pypsa_aidc as aidc
from pypsa_aidc.network.checks.explain import reasons_alone
from pypsa_aidc.network.loads.site import explain as infeasible
from tests.network.tiny import QUIET, grid, job, once_solved, one_site, site, two_sites


def has_no_results(n: object) -> bool:
    power = n.generators_t.p  # type: ignore[attr-defined]
    return power.empty and n.buses_t.marginal_price.empty and n.objective is None  # type: ignore[attr-defined]


class TestTimeLimit:
    def test_without_a_schedule_nothing_is_left_behind(self, green_campus: ModuleType) -> None:
        n = green_campus.network()
        with pytest.raises(aidc.NotSolvedError, match="time_limit"):
            n.aidc.optimize(time_limit=0.05, warm_start=False, output_flag=False)
        assert has_no_results(n)
        with pytest.raises(aidc.NotSolvedError):
            n.aidc.schedule()

    def test_with_a_schedule_status_and_gap_are_told(self, green_campus: ModuleType) -> None:
        """Without checkpoints it takes hours to prove, and seconds for a schedule; on a slow machine some more."""
        n = green_campus.network()
        base = [load.idealized() for load in green_campus.loads()]
        n.aidc.update("AIDC", jobs=base)
        for seconds in (3, 12, 60):
            with suppress(aidc.NotSolvedError):
                result = n.aidc.optimize(time_limit=seconds, output_flag=False, mip_rel_gap=1e-9)
                break
        assert result.status == "time_limit"
        assert not result.optimal
        assert result.bound < result.objective
        assert result.gap == pytest.approx((result.objective - result.bound) / abs(result.objective))
        assert n.aidc.status["status"] == "time_limit"
        assert "time_limit" in repr(result)


def test_a_solve_without_bound_says_so() -> None:
    n = site(grid())
    result = replace(n.aidc.optimize(**QUIET), status="time_limit", bound=-np.inf, gap=np.inf)
    assert "no bound yet" in repr(result)
    assert "inf" not in repr(result)


class TestInfeasible:
    @pytest.mark.slow
    @pytest.mark.parametrize("gpus", [768, 1152])
    def test_too_few_gpus_for_the_campus(self, green_campus: ModuleType, gpus: int) -> None:
        """Fig. 12b of arXiv:2610.13047: 768 to 1152 GPUs are infeasible, 1280 restore feasibility."""
        n = green_campus.network()
        n.aidc.update("AIDC", gpus=gpus)
        with pytest.raises(aidc.InfeasibleError) as caught:
            n.aidc.optimize(output_flag=False)
        text = str(caught.value)
        assert f"do not fit into {gpus} GPUs over 24 h, {gpus * 24:,} GPU-hours" in text
        assert "'LLM-A' needs at least 11,002 GPU-hours" in text
        assert "'LLM-B' needs at least 15,603 GPU-hours" in text
        assert "smallest pool that would do with these modes is 1,280 GPUs" in text
        assert f"With {gpus} GPUs, a deadline of hour" in text
        assert has_no_results(n)

    def test_the_pool_and_deadline_that_are_named_would_do(self) -> None:
        jobs = [job("A", 4.0, 4), job("B", 4.0, 4)]
        n = site(grid(6), jobs=jobs, gpus=6)
        with pytest.raises(aidc.InfeasibleError) as caught:
            n.aidc.optimize(**QUIET)
        text = str(caught.value)
        assert "smallest pool that would do with these modes is 8 GPUs" in text
        assert "deadline of hour 8 for all jobs would do" in text
        site(grid(6), jobs=jobs, gpus=8).aidc.optimize(**QUIET)
        site(grid(8), jobs=jobs, gpus=6).aidc.optimize(**QUIET)

    def test_too_small_a_connection(self) -> None:
        with pytest.raises(aidc.InfeasibleError, match="at least 3.75 MW, of which the base load alone takes 1.25 MW"):
            site(grid(), p_nom=3.0).aidc.optimize(**QUIET)

    def test_what_was_only_found_is_not_told_as_the_least(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Three 4-GPU jobs of 2 h in 6 h: one after the other 2 MW of IT do, side by side 6 MW."""
        n = site(grid(6), jobs=[job(name, 2.0, 2) for name in "ABC"], gpus=16, p_nom=5.0)
        found = infeasible._Need(proven=3.75, found=8.75)
        monkeypatch.setattr(infeasible, "_least_connection", lambda *_, **__: found)
        text = n.aidc.explain()
        assert "connection of 5 MW may be too small" in text
        assert "takes at least 3.75 MW" in text
        assert "A connection of 8.75 MW is enough; what lies between is open" in text
        assert reasons_alone(n) == {}
        assert not [each for each in n.aidc.check() if each.severity == "error"]
        monkeypatch.undo()
        assert "too small" not in n.aidc.explain()

    def test_a_search_that_finds_nothing_leaves_it_open(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(infeasible, "_SEARCH_SECONDS", 0.0)
        text = site(grid(), jobs=[job("A"), job("B")]).aidc.explain()
        assert "open" in text
        assert "inf" not in text

    def test_idle_gpus_count_for_the_least_connection(self) -> None:
        """Half of eight GPUs idle at 0.25 MW each, 2 MW of the slow mode, 1 MW base: 4 MW of IT, 5 MW at the meter."""
        gpu = aidc.GPU("X", {"bf16": 1e15}, memory=80e9, train_w=0.5e6, idle_w=0.25e6)
        n = site(grid(), p_nom=4.9, gpu=gpu, draw_idle=True)
        assert "takes at least 5 MW" in n.aidc.explain()
        n.links.loc["dc import", "p_nom"] = 5.0
        assert "too small" not in n.aidc.explain()

    def test_kilowatts_as_megawatts(self) -> None:
        with pytest.warns(aidc.UnitWarning):
            n = site(grid(), base_load=375.0, p_nom=1.4)
        with pytest.raises(aidc.InfeasibleError, match="335 times the connection: is it in kW"):
            n.aidc.optimize(**QUIET)

    def test_too_little_supply_is_named_by_component(self) -> None:
        n = site(grid(p_nom=3.0))
        with pytest.raises(aidc.InfeasibleError) as caught:
            n.aidc.optimize(**QUIET)
        text = str(caught.value)
        # 1 MW of base load and 2 MW of the slow mode behind a PUE of 1.25 take 3.75 MW: 0.75 MW, or 0.6 of IT, short.
        assert "works alone, but not in this network. It would be feasible if these gave way: Bus-nodal_balance" in text
        assert "dc IT by 0.6" in text

    def test_supply_too_small_even_for_the_base_load(self) -> None:
        with pytest.raises(aidc.InfeasibleError, match="Constraints in conflict: .*market"):
            site(grid(p_nom=1.0)).aidc.optimize(**QUIET)

    def test_a_job_that_cannot_finish_alone(self) -> None:
        with pytest.raises(
            aidc.InfeasibleError, match="'A' cannot finish by hour 8.*earliest finish with whole slots is hour 12"
        ):
            site(grid(), jobs=[job(hours=20.0, segments=1)]).aidc.optimize(**QUIET)

    def test_earlier_results_do_not_survive_a_failure(self) -> None:
        n = once_solved(one_site)
        n.generators.loc["market", "p_nom"] = 0.5
        with pytest.raises(aidc.InfeasibleError):
            n.aidc.optimize(**QUIET)
        assert has_no_results(n)


class TestBorder:
    def test_negative_capacity_is_named(self) -> None:
        n = site(grid())
        n.links.loc["dc import", "p_nom"] = -5.0
        with pytest.raises(aidc.InputError, match="Link 'dc import', p_nom: given -5"):
            n.aidc.optimize(**QUIET)

    def test_nan_in_any_load_is_named(self) -> None:
        n = site(grid())
        n.add("Load", "town", bus="grid", p_set=[1, 2, np.nan, 4, 5, 6, 7, np.nan])
        with pytest.raises(aidc.InputError, match=r"Load 'town', p_set: given 'NaN at 2030-01-01 02:00:00 and 1 more"):
            n.aidc.optimize(**QUIET)

    def test_a_line_without_reactance_is_named(self) -> None:
        # PyPSA 1.4 does not return from building such a network.
        n = two_sites()
        n.add("Bus", "third", carrier="AC")
        n.add("Line", "short", bus0="far", bus1="third", x=0.0, s_nom=5.0, carrier="AC")
        with pytest.raises(aidc.InputError, match="Line 'short': given 'no impedance"):
            n.aidc.optimize(**QUIET)

    def test_an_island_without_generation_is_named(self) -> None:
        n = site(grid())
        n.add("Bus", "island", carrier="AC")
        n.add("Load", "village", bus="island", p_set=1.0)
        with pytest.raises(aidc.InputError, match="load 'village' in an island of 1 buses without generation"):
            n.aidc.optimize(**QUIET)

    def test_a_site_in_an_island_is_named(self) -> None:
        n = grid()
        n.add("Bus", "island", carrier="AC")
        site(n, bus="island")
        with pytest.raises(aidc.InputError, match="load 'dc base' in an island of 2 buses"):
            n.aidc.optimize(**QUIET)


class TestStale:
    def test_other_snapshots_with_series_are_refused(self) -> None:
        # Row 3: PyPSA would fill the base load with 0 MW and the efficiency with 1.
        n = grid()
        site(n, base_load=np.linspace(1, 2, 8), pue=np.linspace(1.1, 1.3, 8))
        n.set_snapshots(n.snapshots + np.timedelta64(365, "D"))
        with pytest.raises(aidc.StaleError) as caught:
            n.aidc.optimize(**QUIET)
        assert {fault.where for fault in caught.value.faults} >= {"base_load of 'dc'", "pue of 'dc'"}

    def test_a_part_of_the_old_snapshots_is_fine(self) -> None:
        n = grid(12)
        site(n, base_load=np.linspace(1, 2, 12))
        part = n.copy(snapshots=n.snapshots[2:10])
        part.loads_t.p_set = part.loads_t.p_set.astype(float)
        n.aidc.optimize(n.snapshots[2:10], **QUIET)
        assert part.aidc.sites["dc"].loads

    def test_other_snapshots_with_numbers_are_rebuilt(self) -> None:
        n = once_solved(one_site)
        n.set_snapshots(n.snapshots[:6] + np.timedelta64(365, "D"))
        n.generators_t.marginal_cost["market"] = np.arange(6.0) + 1
        n.aidc.optimize(**QUIET)
        schedule = n.aidc.schedule()
        assert schedule["segments"].sum() == 4
        assert schedule["start"].min().year == 2031

    def test_the_hook_alone_says_when_to_refresh(self) -> None:
        n = site(grid())
        n.snapshot_weightings["generators"] = 0.5
        with pytest.raises(aidc.StaleError, match=r"aidc\.refresh"):
            n.optimize(extra_functionality=aidc.extra_functionality, **QUIET)
        n.aidc.refresh()
        n.optimize(extra_functionality=aidc.extra_functionality, **QUIET)
        assert n.aidc.audit().passed

    def test_results_of_an_earlier_solve_are_refused(self) -> None:
        n = once_solved(one_site)
        n.optimize(**QUIET)
        with pytest.raises(aidc.StaleError, match="solved again without AIDC jobs"):
            n.aidc.schedule()

    def test_decided_power_left_as_set_point_is_refused_by_the_hook_and_cleared_by_optimize(self) -> None:
        n = once_solved(one_site)
        n.generators_t.p_set["dc A"] = n.generators_t.p["dc A"]
        with pytest.raises(aidc.StaleError, match="p_set"):
            n.optimize(extra_functionality=aidc.extra_functionality, **QUIET)
        n.generators_t.marginal_cost["market"] = np.arange(8.0)
        n.aidc.optimize(**QUIET)
        assert n.aidc.schedule()["start"].min() == n.snapshots[0]


def test_a_plain_solve_never_leaves_a_job_idle() -> None:
    n = site(grid())
    n.optimize(**QUIET)
    assert n.generators_t.p["dc A"].sum() == pytest.approx(4.0 * 2.0, rel=1e-6)  # the lean mode: 4 h of 2 MW
    with pytest.raises(aidc.NotSolvedError, match="plain"):
        n.aidc.schedule()


class TestAudit:
    @pytest.mark.parametrize(
        ("tamper", "check"),
        [
            (
                lambda n: n.generators_t.aidc_progress.__setitem__(
                    "dc A", n.generators_t.aidc_progress["dc A"].clip(upper=3.0)
                ),
                "completion",
            ),
            (lambda n: n.links.__setitem__("p_nom", 1.3), "connection"),
            (lambda n: n.loads.__setitem__("p_set", 0.9), "energy of the site"),
            (lambda n: n.generators_t.p.__setitem__("market", n.generators_t.p["market"] + 0.01), "nodal balance"),
        ],
    )
    def test_a_broken_constraint_is_reported(self, tamper: object, check: str) -> None:
        """Row 13: whatever the solver says, a broken bound shows in the results."""
        n = once_solved(one_site)
        assert n.aidc.audit().passed
        tamper(n)  # type: ignore[operator]
        report = n.aidc.audit()
        assert check in set(report.violations["check"])
        with pytest.raises(aidc.AuditError, match=check):
            report.raise_if_violated()

    def test_too_many_gpus_are_reported(self) -> None:
        n = once_solved(one_site)
        n.links["aidc"] = n.links["aidc"].str.replace('"gpus": 8', '"gpus": 4')
        violation = n.aidc.audit().violations.set_index("check")["violation"]
        assert violation["GPU pool"] == pytest.approx(4.0)

    def test_rules_are_checked_again(self) -> None:
        n = once_solved(one_site)
        schedule = n.aidc.schedule()
        assert schedule["start"].min() > n.snapshots[0]  # prices fall, so the job waits
        n.generators["aidc"] = n.generators["aidc"].str.replace('"waiting": true', '"waiting": false')
        assert "waiting" in set(n.aidc.audit().violations["check"])

    def test_too_short_edges_are_reported(self) -> None:
        n = once_solved(one_site)
        n.generators["aidc"] = (
            n.generators["aidc"].str.replace("1e+15", "5e+14").str.replace("1000000000000000.0", "5e14")
        )
        assert "enough time in each edge" in set(n.aidc.audit().violations["check"])

    def test_fractional_paths_are_reported(self) -> None:
        """Row 14: a solver that ignores integrality (here HiGHS told to solve the relaxation)."""

        def crowded() -> pypsa.Network:
            """In six hours a pool of 6 GPUs holds the 32 GPU-hours of both jobs by halves of paths alone."""
            return site(grid(6), jobs=[job("A", 4.0, 4), job("B", 4.0, 4)], gpus=6)

        n = crowded()
        with pytest.raises(aidc.AuditError, match="fractional"):
            n.aidc.optimize(solver_options={"solve_relaxation": True}, **QUIET)
        assert has_no_results(n)
        result = crowded().aidc.optimize(raise_on_violation=False, solver_options={"solve_relaxation": True}, **QUIET)
        assert result.audit is not None
        assert not result.audit.passed
        assert result.prices == "none"

    def test_an_unsolved_network_cannot_be_audited(self) -> None:
        with pytest.raises(aidc.NotSolvedError):
            site(grid()).aidc.audit()

    def test_a_load_of_the_other_sign_counts_as_supply(self) -> None:
        # Row 6: PyPSA lets a Load have sign=+1.
        n = site(grid())
        n.add("Load", "feeder", bus="grid", sign=1.0, p_set=0.5)
        result = n.aidc.optimize(**QUIET)
        assert result.audit is not None
        assert result.audit.passed
