"""What holds fleets back, by hand on eight hours in which 0.8 MW are missing in hours 3 and 4."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import pypsa_aidc as aidc
from tests.network.test_fleet import CONTRACT, TABLE, tight
from tests.network.tiny import QUIET, once_solved


def limits(**fleet: object) -> pd.DataFrame:
    n = tight(**fleet)
    n.aidc.optimize(**QUIET)
    frame = n.aidc.fleet_limits()
    assert set(frame["fleet"]) <= {"f"}
    return frame.set_index("limit")


def test_a_call_that_need_not_be_as_deep_as_it_may() -> None:
    """One call of 2 h sheds 0.8 of 0.9 MW; it is the only one that is allowed."""
    found = limits(**TABLE, events=1, marginal_cost=50.0)
    assert found.loc["depth of calls of 2 h"].to_list() == ["f", pytest.approx(0.8), pytest.approx(0.9), "MW", 0]
    assert found.loc["number of calls"].to_list() == ["f", 1.0, 1.0, "calls", 1]
    assert list(found.index) == ["depth of calls of 2 h", "number of calls"]


def test_a_contract_that_is_too_shallow() -> None:
    """Depth q·derating·K = 7.2 % of 9 MW; (0.648 · 2 + 0.324) MWh come back at up to 0.4 · 0.5 · 9 MW."""
    found = limits(contract=CONTRACT, peak=1.0, hours=3)
    assert found.loc["depth of calls of 2 h", ["used", "reached"]].to_list() == [pytest.approx(0.648), 1]
    assert found.loc["speed of the rebound", ["allowed", "reached"]].to_list() == [pytest.approx(1.8), 0]
    # One hour is left of three, and no call is as short.
    assert found.loc["hours of relief", ["used", "allowed", "reached"]].to_list() == [2.0, 3.0, 1]


def test_a_budget_with_room_for_another_call_does_not_bind() -> None:
    assert limits(contract=CONTRACT, peak=1.0, hours=5).loc["hours of relief", "reached"] == 0


def test_pauses_that_keep_a_call_from_coming_earlier() -> None:
    """Power is missing in hours 1, 3 and 6: the second call comes as soon as it may, the third later than that."""
    n = tight(surface={1: 0.2}, peak=1.0, recovery=1, marginal_cost=50.0)
    n.loads_t.p_set["town"] = [10, 11.8, 10, 11.8, 10, 10, 11.8, 10]
    n.aidc.optimize(**QUIET)
    pause = n.aidc.fleet_limits().set_index("limit").loc["pause after calls, at least"]
    assert pause[["used", "allowed", "unit", "reached"]].to_list() == [1.0, 1.0, "h", 1]


def test_windows_that_are_full() -> None:
    """K of 2 h is 5 % of 9 MW, 0.9 MWh in two hours: all of it is shed; without scarcity, none and nothing binds."""
    K = {"surface": {1: 0.2, 2: 0.05}, "peak": 1.0, "form": "windows", "marginal_cost": 50.0}
    found = limits(**K)
    assert found.loc["relief in windows of 2 h", ["used", "allowed", "reached"]].to_list() == [
        pytest.approx(0.9),
        pytest.approx(0.9),
        1,
    ]
    assert limits(**K | {"marginal_cost": 600.0})["reached"].sum() == 0


def test_relief_along_a_series_and_its_hours() -> None:
    """5 % of 9 MW, 0.45 MW, in the two hours that there are."""
    found = limits(relief=0.05, hours=2, marginal_cost=50.0)
    assert found.loc["relief along its series"].to_list() == ["f", pytest.approx(0.45), pytest.approx(0.45), "MW", 2]
    assert found.loc["hours of relief", ["used", "reached"]].to_list() == [2.0, 1]


def test_a_free_size_at_its_bound_and_within() -> None:
    """8.2 MW fit into hours 3 and 4 without the dear plant, which brings 5 more at 500 USD/MWh."""
    free = {"p_nom": None, "p_nom_extendable": True, "marginal_cost": 0.0, "capital_cost": -100.0}
    at_most = limits(**free, p_nom_max=8.0).loc["largest size"]
    assert at_most[["used", "allowed", "reached"]].to_list() == [pytest.approx(8.0), 8.0, 1]
    within = limits(**free, p_nom_max=50.0).loc["largest size"]
    assert within[["used", "allowed", "reached"]].to_list() == [pytest.approx(8.2), 50.0, 0]
    least = limits(**free | {"capital_cost": 1.0}, p_nom_min=3.0, p_nom_max=50.0).loc["least size"]
    assert least[["used", "reached"]].to_list() == [pytest.approx(3.0), 1]


def test_a_load_without_relief_has_no_limits() -> None:
    assert limits(marginal_cost=0.0).empty


def test_a_solve_without_the_terms_is_refused() -> None:
    n = once_solved(tight)
    n.generators_t.p["f relief"] = np.full(8, 1.8)
    with pytest.raises(aidc.StaleError, match=r"fleet f"):
        n.aidc.fleet_limits()
    with pytest.raises(aidc.NotSolvedError):
        tight().aidc.fleet_limits()
