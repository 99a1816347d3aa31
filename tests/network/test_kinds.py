"""Kinds of load: a third one in one module and one line, and specifications of none."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pandas as pd
import pypsa
import pytest

import pypsa_aidc as aidc
from pypsa_aidc.network.loads import registry
from pypsa_aidc.network.spec.column import COLUMN
from tests.network.capped import Capped, add_capped
from tests.network.tiny import QUIET, grid, site, two_sites


@pytest.fixture
def third(monkeypatch: pytest.MonkeyPatch) -> None:
    """The one line that a new kind needs."""
    monkeypatch.setattr(registry, "KINDS", (*registry.KINDS, Capped))


def capped(cap: float = 5.5, **options: float) -> pypsa.Network:
    """10 MW, and 1 MW of a town, at prices of 8, 7, …, 1 USD/MWh."""
    n = grid(**options)
    n.add("Load", "town", bus="grid", p_set=1.0)
    add_capped(n, "cap", bus="grid", p_nom=10.0, cap=cap)
    return n


@pytest.mark.usefixtures("third")
class TestThirdKind:
    def test_from_adding_to_removing(self, tmp_path: Path) -> None:
        """Below 5.5 USD/MWh are the prices 5, 4, 3, 2, 1: 50 MWh for 150 USD, worth 275 USD; the town pays 36."""
        n = capped()
        result = n.aidc.optimize(**QUIET)
        assert result.optimal
        assert result.objective == pytest.approx(36 + 150 - 275)
        assert n.aidc.audit().passed
        assert n.aidc.power()["cap", "load"].tolist() == pytest.approx([0.0] * 3 + [10.0] * 5)
        assert n.aidc.bill().loc[("cap", "total"), ["energy", "payment"]].tolist() == pytest.approx([50, 150])
        assert n.aidc.costs()["cost"].sum() == pytest.approx(36 + 150 - 275)
        assert n.aidc.summary().loc["cap", "peak"] == pytest.approx(10)
        assert n.aidc.balance()["AIDC"].sum() == pytest.approx(50)
        assert n.aidc.jobs.loc[("cap", "capped"), "description"] == "price cap of 5.5 USD/MWh"
        assert n.aidc.status["status"] == "optimal"
        assert not [each for each in n.aidc.check() if each.severity == "error"]

        read = aidc.load(n.aidc.export(tmp_path / "capped.nc"))
        assert read.aidc.power().equals(n.aidc.power())
        plain = read.copy()
        plain.optimize(output_flag=False)
        assert plain.objective == pytest.approx(result.objective)
        np.testing.assert_allclose(plain.buses_t.marginal_price, n.buses_t.marginal_price, atol=1e-6)
        read.generators_t.marginal_cost["market"] = 9.0
        assert read.aidc.optimize(**QUIET).objective == pytest.approx(8 * 9)  # free again, and too dear

        read.aidc.remove("cap")
        assert "cap" not in read.generators.index
        assert not read.aidc.jobs.size

    def test_a_market_too_small_is_shared_at_the_cap(self) -> None:
        n = capped(p_nom=6.0)
        n.aidc.optimize(**QUIET)
        assert n.aidc.power()["cap", "meter"].tolist() == pytest.approx([0.0] * 3 + [5.0] * 5)
        assert n.buses_t.marginal_price["grid"].tolist()[3:] == pytest.approx([5.5] * 5)
        with pytest.warns(aidc.PriceWarning, match="'cap' sets the price in 5 snapshots, the first"):
            n.aidc.freeze()

    def test_beside_the_others(self) -> None:
        n = site(capped())
        n.aidc.add_fleet("fleet", bus="grid", p_nom=5.0)
        n.aidc.optimize(**QUIET)
        assert list(n.aidc.summary().index) == ["dc", "fleet", "cap"]
        assert list(n.aidc.jobs.index) == [("dc", "A"), ("fleet", "fleet"), ("cap", "capped")]
        alone = site(grid())
        alone.aidc.optimize(**QUIET)
        assert n.aidc.bill().loc["dc", "payment"].tolist() == pytest.approx(
            alone.aidc.bill().loc["dc", "payment"].tolist()
        )

    def test_a_broken_cap_shows(self) -> None:
        n = capped()
        n.aidc.optimize(**QUIET)
        n.generators_t.p.loc[n.snapshots[0], "cap"] = 10.0
        broken = n.aidc.audit().violations["check"].tolist()
        assert set(broken) == {"not drawn above the cap", "nodal balance"}

    def test_other_snapshots_are_refused(self) -> None:
        n = grid()
        add_capped(n, "cap", bus="grid", p_nom=10.0, cap=5.0, profile=np.linspace(0.5, 1, 8))
        n.set_snapshots(n.snapshots.append(pd.DatetimeIndex(["2030-01-01 08:00"])))
        n.generators_t.marginal_cost["market"] = 1.0
        with pytest.raises(aidc.StaleError, match="profile of 'cap'"):
            n.aidc.optimize(**QUIET)


@pytest.mark.parametrize("component", ["generators", "links"])
def test_a_specification_of_no_known_kind_is_refused_by_name(component: str) -> None:
    n = site(grid())
    n.add("Generator", "new", bus="grid")
    getattr(n, component).loc[getattr(n, component).index[-1], COLUMN] = (
        '{"schema": "pypsa_aidc/inference", "version": 1}'
    )
    for ask in (lambda: n.aidc.sites, n.aidc.optimize, lambda: n.aidc.power()):
        with pytest.raises(aidc.SpecError, match="pypsa_aidc/inference") as caught:
            ask()
    assert str(getattr(n, component).index[-1]) in str(caught.value)
    assert n.aidc.check().worst == "error"


def test_threads_solve_as_one_after_the_other() -> None:
    """Nothing that a solve touches is shared by the process."""

    def networks() -> list[pypsa.Network]:
        first, second = two_sites(), site(grid(12))
        second.aidc.add_fleet("f", bus="grid", p_nom=10.0, surface={1: 4.0, 2: 2.0}, peak=10.0, events=2)
        return [first, second]

    def solved(n: pypsa.Network) -> tuple[float, pd.DataFrame, pd.DataFrame]:
        result = n.aidc.optimize(**QUIET)
        return result.objective, n.aidc.power(), n.buses_t.marginal_price.copy()

    expected = [solved(n) for n in networks()]
    with ThreadPoolExecutor(2) as pool:
        for _ in range(2):
            found = list(pool.map(solved, networks()))
            for (objective, power, price), (wanted, power_wanted, price_wanted) in zip(found, expected, strict=True):
                assert objective == wanted
                pd.testing.assert_frame_equal(power, power_wanted)
                pd.testing.assert_frame_equal(price, price_wanted)
