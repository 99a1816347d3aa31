"""Load shedding is no supply, and what is no bus of the grid takes no AIDC; MW by hand on two buses."""

from __future__ import annotations

from typing import Any

import pypsa
import pytest

from pypsa_aidc.errors import InputError
from tests.network.tiny import QUIET, site

SHEDDING: dict[str, dict[str, Any]] = {
    "by carrier": {"carrier": "load shedding", "p_nom": 1e6, "marginal_cost": 90.0},
    "as PyPSA adds it": {"carrier": "load", "sign": 1e-3, "p_nom": 1e9, "marginal_cost": 1e2},
    "by price": {"p_nom": 1e6, "marginal_cost": 1e4},
    "by name": {"suffix": " load shedding", "p_nom": 1e6, "marginal_cost": 90.0},
}


def two_buses(suffix: str = " more", **shedding: Any) -> pypsa.Network:
    """Gas 300 MW at A, a line of 200 MW to B with a load of 100 MW, shedding at both."""
    n = pypsa.Network()
    n.add("Carrier", ["AC", "load shedding", "load", "heat", "gas"])
    n.add("Bus", ["A", "B"], v_nom=230.0, carrier="AC")
    n.add("Line", "l", bus0="A", bus1="B", x=0.1, r=0.01, s_nom=200.0, carrier="AC")
    n.add("Generator", "gas", bus="A", p_nom=300.0, marginal_cost=50.0, carrier="gas")
    n.add("Load", "town", bus="B", p_set=100.0)
    n.add("Generator", ["A" + suffix, "B" + suffix], bus=["A", "B"], **{"carrier": "gas", **shedding})
    n.optimize(**QUIET)
    return n


@pytest.mark.parametrize("kind", SHEDDING)
def test_load_shedding_makes_no_room(kind: str) -> None:
    n = two_buses(**SHEDDING[kind])
    for redispatch in (True, False):
        study = n.aidc.headroom(redispatch=redispatch)
        assert study.headroom.to_dict() == pytest.approx({"A": 200.0, "B": 100.0})
        assert "2 generators for load shedding" in study.data.attrs["notes"]


def test_a_plant_is_supply() -> None:
    n = two_buses(p_nom=50.0, marginal_cost=400.0)
    assert n.aidc.headroom(redispatch=True).headroom.to_dict() == pytest.approx({"A": 300.0, "B": 150.0})


def test_buses_of_heat_have_no_headroom() -> None:
    n = two_buses(p_nom=50.0, marginal_cost=400.0)
    n.add("Bus", "boiler", carrier="urban heat")
    assert list(n.aidc.headroom(redispatch=True).headroom.index) == ["A", "B"]
    with pytest.raises(InputError, match=r"(?s)boiler.*'urban heat' takes no AI data center.*Did you mean 'boiler'"):
        n.aidc.headroom(["boiler", "boilr"])


def test_a_contingency_that_is_no_name() -> None:
    with pytest.raises(InputError, match="contingencies: given 0, expected an active Line"):
        two_buses(p_nom=50.0, marginal_cost=400.0).aidc.headroom(contingencies=[0])


def test_they_are_named_before_a_solve_and_heat_takes_no_site() -> None:
    n = two_buses(**SHEDDING["by carrier"])
    (found,) = [each for each in n.aidc.check() if "load shedding" in each.what]
    assert str(found).startswith("note: Generator 'A more': stands for load shedding, by carrier 'load shedding'")
    n.add("Bus", "boiler", carrier="urban heat")
    for add in (lambda: site(n, bus="boiler"), lambda: n.aidc.add_fleet("f", bus="boiler", p_nom=5.0)):
        with pytest.raises(InputError, match="'urban heat' takes no AI data center"):
            add()
    assert list(n.links.index) == []
