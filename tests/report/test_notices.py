from __future__ import annotations

import json
from types import SimpleNamespace

import pytest
import xarray as xr

import pypsa_aidc as aidc
from pypsa_aidc import fleet
from pypsa_aidc.network.pypsa_api import copy_network
from pypsa_aidc.network.solve.result import RESULT
from pypsa_aidc.report import provenance
from pypsa_aidc.report.attachments import Attachments
from tests.network.tiny import QUIET, grid
from tests.report.composed import composed


def ended(n, **changes):
    """A copy of a solved network whose solve ended otherwise."""
    copy = copy_network(n)
    copy.links[RESULT] = json.dumps(copy.aidc.status | changes)
    return copy


def test_a_time_limit(solved) -> None:
    # 70 USD against a bound of 63: at most 7 USD, 10 %, above the optimum.
    told = composed(ended(solved, status="time_limit", objective=70.0, bound=63.0, gap=0.1))
    assert told.levels == ["danger"]
    assert "Not optimal: the solver stopped at its time limit." in told.words
    assert "at most 7 USD (10 %) above the optimum" in told.words


def test_no_bound(solved) -> None:
    told = composed(ended(solved, status="time_limit", bound=float("nan"), gap=float("nan")))
    assert "the solver gave no bound" in told.words


@pytest.mark.parametrize(("gap", "expected"), [(0.9e-4, False), (0.01, True)])
def test_a_gap_within_the_tolerance_that_was_asked_for(solved, gap, expected) -> None:
    told = composed(ended(solved, objective=70.0, bound=70.0 * (1 - gap), gap=gap))
    assert told.levels == ["warning"] * expected
    assert ("Optimal only within the tolerance" in told.words) == expected


def test_outages_left_out(solved) -> None:
    outages = [f"Line {number}" for number in range(7)]
    told = composed(ended(solved, skipped_outages=outages))
    assert told.levels == ["warning"]
    assert "Line 0, Line 1, Line 2, Line 3, Line 4 and 2 more" in told.words


def test_absent_prices_are_never_shown_as_zero(short) -> None:
    short.aidc.optimize(prices=False, **QUIET)
    told = composed(short)
    assert told.levels == ["warning"]
    assert "No prices: the solve was told to do without." in told.words
    assert "Bill" not in told.tables
    assert not any("Price" in title for title in told.pictures)


def test_a_solve_by_the_hook_does_not_say_how_it_ended(short) -> None:
    # PyPSA leaves prices of 0.0 after a MILP; nothing in the network says so.
    short.optimize(extra_functionality=aidc.extra_functionality, **QUIET)
    assert (short.buses_t.marginal_price == 0).all(axis=None)
    told = composed(short)
    assert told.levels == ["danger", "warning"]
    assert "was not solved by n.aidc.optimize" in told.words
    assert "Bill" not in told.tables


def test_a_failed_audit(solved) -> None:
    broken = copy_network(solved)
    broken.links_t.p0["dc import"] += 0.5
    told = composed(broken)
    assert told.levels == ["danger"]
    # 0.5 MW more than what the job draws, and more than the connection, which is sized for the fast mode.
    assert "3 of 12 checks of the audit failed" in told.words
    assert {row[0] for row in told.tables["Violations"][1:]} == {"connection", "energy of the site", "nodal balance"}
    assert "no" in [row[4] for row in told.tables["Audit"][1:]]


def test_what_is_synthetic_says_so(solved, envelope) -> None:
    K = fleet.Surface.of(envelope)
    made_up = fleet.Surface(K.data.assign_attrs(synthetic=1, source="a made-up fleet"))
    terms = fleet.Contract(power=2.0, duration=4, reliability=0.95, noneligible=20.0, synthetic=True)
    told = composed(solved, surface=made_up, contract=terms, synthetic=("price of gas",))
    assert told.levels == ["warning"]
    for name in ("surface K (a made-up fleet)", "contract (synthetic fleet)", "price of gas"):
        assert name in told.words


def test_a_network_that_says_it_is_synthetic(solved) -> None:
    n = copy_network(solved)
    n.meta["synthetic"] = "all loads"
    assert "Synthetic, not measured: network (all loads)." in composed(n).words


@pytest.mark.parametrize(
    ("said", "expected"), [("true", ("Generator market",)), ("false", ()), ("0", ()), ('"x"', ("Generator market",))]
)
def test_a_specification_that_says_it_is_synthetic(said, expected) -> None:
    n = grid()
    n.generators["aidc"] = f'{{"synthetic": {said}}}'
    assert provenance.made_up(n, Attachments()) == expected


def test_a_headroom_that_says_it_is_synthetic() -> None:
    made_up = SimpleNamespace(data=xr.Dataset(attrs={"synthetic": 1}))
    assert provenance.made_up(grid(), Attachments(headroom=made_up)) == ("headroom",)


def test_the_worst_comes_first(short) -> None:
    short.aidc.optimize(prices=False, **QUIET)
    told = composed(ended(short, status="time_limit"), synthetic=("all",))
    assert told.levels == ["danger", "warning", "warning"]
