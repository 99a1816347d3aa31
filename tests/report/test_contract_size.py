"""What a report says on costs, and on a contract of a fleet that is not of the network's size."""

from __future__ import annotations

import pytest

import pypsa_aidc as aidc
from tests.network.test_costs import solved as rewarded  # noqa: F401 - a fixture
from tests.report.composed import composed


def test_cards_are_cost_and_bill_and_a_table_leads_to_them(rewarded) -> None:  # noqa: F811
    told = composed(rewarded)
    facts = {fact.name: fact.value for fact in told.document.facts}
    assert "objective" not in facts
    names = [row[0] for row in told.tables["What it pays"][1:]]
    objective, constant, cost, bill = (float(row[1].replace(",", "")) for row in told.tables["What it pays"][1:])
    assert names == [
        "objective of the solver",
        "+ reward of all available feed-in",
        "operating cost of the network",
        "bill of the AIDCs",
    ]
    # 10 MW for 2.6 h at 15 USD/MWh, as in tests/network/test_costs.py.
    assert constant == pytest.approx(15.0 * 26.0, rel=1e-4)
    assert objective + constant == pytest.approx(cost, rel=1e-3)
    assert facts["operating cost"] == told.tables["What it pays"][3][1]
    # Not from the bill: what the meter takes, at the price of the grid bus.
    drawn = rewarded.links_t.p0["dc import"]
    assert bill == pytest.approx((drawn * rewarded.buses_t.marginal_price["grid"]).sum(), rel=1e-4)
    assert facts["bill"] == told.tables["What it pays"][4][1]


def test_an_offer_above_the_peak_of_the_site(solved) -> None:
    most = float(solved.aidc.power()["dc", "meter"].max())
    terms = aidc.fleet.Contract(power=2 * most, duration=4, reliability=0.95, noneligible=1.0)
    peak = 50 * most
    told = composed(solved, contract=terms, peak=peak)
    assert "more than the" in told.document.notices[-1].text
    fleet_row, site_row = told.tables["Offer by size"][1:]
    assert float(fleet_row[2]) == pytest.approx(terms.offer, rel=1e-4)
    assert float(site_row[2]) == pytest.approx(terms.offer / peak * most, rel=1e-4)
    small = aidc.fleet.Contract(power=most / 2, duration=4, reliability=0.95, noneligible=1.0)
    assert not [notice for notice in composed(solved, contract=small).document.notices if "offers" in notice.text]
