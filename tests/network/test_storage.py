"""Storage that must not charge and discharge at once, Eq. 34d of arXiv:2610.13047."""

from __future__ import annotations

import numpy as np
import pypsa
import pytest

import pypsa_aidc as aidc
from pypsa_aidc.network.model.storage import charging_and_discharging
from tests.network.tiny import QUIET, grid, site


def with_unit(prices: object = None) -> pypsa.Network:
    n = grid(prices=prices)
    n.add("StorageUnit", "unit", bus="grid", p_nom=2.0, max_hours=2.0, efficiency_store=0.8, efficiency_dispatch=0.8)
    return site(n)


def with_store(prices: object = None) -> pypsa.Network:
    n = grid(prices=prices)
    n.add("Bus", "tank")
    n.add("Store", "unit", bus="tank", e_nom=4.0)
    n.add("Link", "in", bus0="grid", bus1="tank", p_nom=2.0, efficiency=0.8)
    n.add("Link", "out", bus0="tank", bus1="grid", p_nom=2.5, efficiency=0.8)
    return site(n)


def simultaneous(n: pypsa.Network) -> float:
    charge, discharge = charging_and_discharging(n, "unit", n.snapshots)
    return float(np.minimum(charge, discharge).max())


# Where energy is paid to be taken, burning it in a round trip pays.
NEGATIVE = [-50.0] * 6 + [10.0] * 2


@pytest.mark.parametrize("build", [with_unit, with_store])
def test_negative_prices_make_storage_burn_energy_unless_forbidden(build) -> None:
    free, bound = build(NEGATIVE), build(NEGATIVE)
    cheap = free.aidc.optimize(**QUIET)
    honest = bound.aidc.optimize(exclusive=["unit"], **QUIET)
    assert simultaneous(free) > 0.1
    assert simultaneous(bound) < 1e-6
    assert honest.objective > cheap.objective + 1.0
    assert honest.audit is not None
    assert "exclusive charge and discharge" in set(honest.audit.to_frame()["check"])


@pytest.mark.parametrize("build", [with_unit, with_store])
def test_binaries_from_the_start_give_the_same_optimum(build) -> None:
    lazy, eager = build(NEGATIVE), build(NEGATIVE)
    result = lazy.aidc.optimize(exclusive=["unit"], **QUIET)
    eager.optimize(extra_functionality=aidc.network.hook(exclusive=["unit"]), **QUIET)
    assert eager.objective == pytest.approx(result.objective, abs=1e-6)


@pytest.mark.parametrize("build", [with_unit, with_store])
def test_positive_prices_need_no_binaries(build) -> None:
    n = build()
    n.aidc.optimize(exclusive=["unit"], **QUIET)
    assert not [name for name in n.model.binaries if name.startswith("AIDC-charges")]
    assert simultaneous(n) < 1e-6


def test_audit_reports_storage_that_does_both() -> None:
    n = with_unit(NEGATIVE)
    n.aidc.optimize(**QUIET)
    assert "exclusive charge and discharge" in set(n.aidc.audit(exclusive=("unit",)).violations["check"])


def test_what_cannot_be_excluded_is_refused() -> None:
    n = with_store()
    n.links.loc["in", "p_nom_extendable"] = True
    n.add("Store", "direct", bus="grid", e_nom=1.0)
    with pytest.raises(aidc.InputError) as caught:
        n.aidc.optimize(exclusive=["unit", "direct", "ghost"], **QUIET)
    assert [fault.where for fault in caught.value.faults] == ["Link 'in'", "direct", "exclusive"]
