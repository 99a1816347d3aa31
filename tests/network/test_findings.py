"""`aidc.check`: each kind of finding is found, and a sound network has none."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pypsa
import pytest

import pypsa_aidc as aidc
from tests.conftest import ROOT
from tests.network.tiny import grid, job, once_solved, site, two_sites

LEAN = aidc.training.Mode((1, 8, 4), gpus=32, flops_per_s=1e15, it_power=0.03)
WIDE = aidc.training.Mode((1, 8, 8), gpus=64, flops_per_s=1.8e15, it_power=0.06)
WORK = 4 * 3600 * 1e15


def sound(**options: object) -> pypsa.Network:
    """A network with nothing to find: realistic power for each GPU, room at the connection."""
    n = grid()
    n.add("Load", "town", bus="grid", p_set=np.linspace(20, 40, 8))
    load = aidc.TrainingLoad("A", WORK, (LEAN, WIDE), aidc.Rules(segments=4))
    n.aidc.add("dc", **{"bus": "grid", "gpus": 64, "pue": 1.25, "base_load": 0.02, "jobs": [load]} | options)
    return n


@cache
def narrow() -> pypsa.Network:
    return sound(p_nom=0.2)


def found(n: pypsa.Network) -> list[tuple[str, str]]:
    return [(finding.severity, str(finding)) for finding in n.aidc.check()]


def odd(n: pypsa.Network) -> list[str]:
    """Findings but for the note that nothing is solved yet."""
    return [text for _, text in found(n) if not text.startswith("note: AIDCs of the network: not solved")]


def change(static: str, name: str, attribute: str, value: object) -> Callable[[pypsa.Network], None]:
    def apply(n: pypsa.Network) -> None:
        getattr(n, static).loc[name, attribute] = value

    return apply


def blank_hour(component: str, name: str, attribute: str) -> Callable[[pypsa.Network], None]:
    def apply(n: pypsa.Network) -> None:
        values = n.get_switchable_as_dense(component, attribute)[[name]].astype(float)
        values.iloc[5] = np.nan
        n.c[component].dynamic[attribute] = values

    return apply


def new_day(n: pypsa.Network) -> None:
    n.set_snapshots(pd.date_range("2031-05-05", periods=8, freq="h"))


def gap_in_snapshots(n: pypsa.Network) -> None:
    n.set_snapshots(n.snapshots.delete(4))


def island(n: pypsa.Network) -> None:
    n.add("Bus", "lonely")
    n.add("Load", "lost", bus="lonely", p_set=1.0)


def shorted(n: pypsa.Network) -> None:
    n.add("Bus", "far", carrier="AC")
    n.add("Line", "short", bus0="grid", bus1="far", carrier="AC", x=0.0, s_nom=5.0)


def rated(component: str, s_nom: float) -> Callable[[pypsa.Network], None]:
    def apply(n: pypsa.Network) -> None:
        n.add("Bus", "far", carrier="AC")
        n.add(component, "short", bus0="grid", bus1="far", x=0.1)
        # PyPSA takes NaN in `add` for its default.
        n.c[component].static.loc["short", "s_nom"] = s_nom

    return apply


def too_much_work(n: pypsa.Network) -> None:
    n.generators["aidc"] = n.generators["aidc"].str.replace(f'"work_flops": {WORK}', f'"work_flops": {5 * WORK}')


def test_a_sound_network_has_no_findings() -> None:
    assert odd(sound()) == []
    assert sound().aidc.check().worst == "note"
    assert grid().aidc.check().worst is None


def test_what_is_no_network() -> None:
    ((severity, text),) = found(pypsa.Network())
    assert severity == "error"
    assert "no buses: there is no network in it" in text


def test_the_bundled_campus_has_no_errors() -> None:
    findings = aidc.load(ROOT / "networks" / "green_campus.nc").aidc.check()
    assert findings.worst in (None, "note", "warning"), findings.to_frame()


@pytest.mark.parametrize(
    ("spoil", "severity", "named"),
    [
        (blank_hour("Load", "town", "p_set"), "error", "Load 'town', p_set: NaN at 2030-01-01 05:00"),
        (blank_hour("Generator", "market", "p_max_pu"), "error", "p_max_pu: NaN at 1 of 8 snapshots"),
        (blank_hour("Link", "dc import", "efficiency"), "error", "efficiency"),
        (change("loads", "town", "bus", "twon"), "error", "'twon', expected a bus of the network"),
        (change("links", "dc import", "bus0", "gone"), "error", "Link 'dc import', bus0: 'gone'"),
        (change("generators", "market", "p_nom", -5.0), "error", "p_nom: -5.0"),
        (change("generators", "market", "p_nom", 0.03), "error", "is the demand in kW?"),
        (change("generators", "market", "p_nom", 4e4), "warning", "is the demand in GW, or capacity in kW?"),
        (change("loads", "dc base", "p_set", 20.0), "error", "the base load alone takes 25 MW"),
        (change("loads", "dc base", "p_set", 20.0), "warning", "is it in kW?"),
        (change("links", "dc import", "p_nom", 0.05), "error", "grid connection of 0.05 MW is too small"),
        (change("links", "dc import", "p_nom", 0.08), "note", "all jobs at full power"),
        (change("links", "dc import", "p_nom", 80.0), "warning", "p_nom of 80 MW is 800 times"),
        (change("generators", "dc A", "e_sum_min", 99.0), "warning", "aidc.refresh"),
        (change("links", "dc import", "aidc", "{"), "error", "JSON"),
        (too_much_work, "error", "cannot finish by hour 8"),
        (gap_in_snapshots, "warning", "give the missing ones"),
        (island, "error", "without generation"),
        (island, "note", "2 islands"),
        (shorted, "error", "no impedance"),
        (rated("Line", 0.0), "warning", "Line 'short', s_nom: a rating of 0 MVA"),
        (rated("Line", np.inf), "note", "never limits anything"),
        (rated("Line", np.nan), "error", "Line 'short', s_nom: nan"),
        (rated("Transformer", 0.0), "error", "per unit of it, cannot be used"),
        (rated("Transformer", np.inf), "error", "per unit of it, becomes 0"),
        (lambda n: None, "note", "their jobs have no schedule yet. Solve it with n.aidc.optimize()"),
    ],
)
def test_each_fault_is_found(spoil: Callable[[pypsa.Network], None], severity: str, named: str) -> None:
    n = narrow().copy()
    spoil(n)
    assert any(kind == severity and named in text for kind, text in found(n)), found(n)


def called(n: pypsa.Network, **options: object) -> None:
    """A fleet that sheds 1 MW of 10 for an hour when called."""
    n.aidc.add_fleet("f", bus="grid", p_nom=10.0, **{"surface": {1: 1.0}, "peak": 10.0} | options)


def budget_over_days(n: pypsa.Network) -> None:
    called(n, events=1)
    n.set_snapshots(n.snapshots[:4].append(n.snapshots[:4] + pd.Timedelta("60D")))


def years_without_dates(n: pypsa.Network) -> None:
    called(n, events=1, per="year")
    n.set_snapshots(range(8))


def calls_of_minutes(n: pypsa.Network) -> None:
    called(n)
    n.snapshot_weightings["stores"] = 3.0


def apart(n: pypsa.Network) -> None:
    called(n)
    n.add("Bus", "far", carrier="AC")
    n.generators.loc["f relief", "bus"] = "far"


def weights(column: str, *values: float) -> Callable[[pypsa.Network], None]:
    def apply(n: pypsa.Network) -> None:
        n.aidc.update("dc", windows="once")
        n.snapshot_weightings[column] = np.resize(values, 8)

    return apply


def a_day_of_other_snapshots(n: pypsa.Network) -> None:
    n.aidc.update("dc", base_load=np.linspace(0.01, 0.02, 8))
    new_day(n)


@pytest.mark.filterwarnings("ignore::pypsa_aidc.errors.SeriesWarning")
@pytest.mark.parametrize(
    "spoil",
    [
        blank_hour("Load", "town", "p_set"),
        blank_hour("Generator", "market", "marginal_cost"),
        change("generators", "market", "p_nom", -5.0),
        change("loads", "town", "bus", "twon"),
        change("generators", "dc A", "active", False),
        change("generators", "dc A", "aidc", "{"),
        change("generators", "dc A", "aidc", '{"schema":"pypsa_aidc/ghost","version":1}'),
        change("links", "dc import", "efficiency", 1.5),
        change("generators", "market", "marginal_cost_quadratic", 0.5),
        shorted,
        island,
        lambda n: n.remove("Load", "dc base"),
        gap_in_snapshots,
        weights("stores", 0.0),
        weights("objective", 1.0, 2.0),
        a_day_of_other_snapshots,
        budget_over_days,
        years_without_dates,
        calls_of_minutes,
        apart,
    ],
)
def test_what_optimize_refuses_is_found_in_the_same_words(spoil: Callable[[pypsa.Network], None]) -> None:
    n = narrow().copy()
    spoil(n)
    errors = [str(finding) for finding in n.aidc.check().of("error")]
    with pytest.raises((aidc.InputError, aidc.UnsupportedError)) as caught:
        n.aidc.optimize(output_flag=False)
    if isinstance(caught.value, aidc.UnsupportedError):
        assert f"error: {caught.value}" in errors
    else:
        for fault in caught.value.faults:
            ending = f"expected {fault.expected}. {fault.remedy}".rstrip()
            told = [text for text in errors if text.startswith(f"error: {fault.where}: ") and text.endswith(ending)]
            assert told, (str(fault), errors)


def test_a_series_of_another_day_is_an_error() -> None:
    n = sound(base_load=np.linspace(0.01, 0.02, 8))
    new_day(n)
    assert any(kind == "error" and "base_load of 'dc': 8 values" in text for kind, text in found(n))


def test_a_site_larger_than_its_bus_can_deliver() -> None:
    n = grid()
    n.add("Bus", "far", carrier="AC")
    n.add("Line", "line", bus0="grid", bus1="far", carrier="AC", x=0.1, s_nom=0.05)
    load = aidc.TrainingLoad("A", WORK, (LEAN, WIDE), aidc.Rules(segments=4))
    for base, severity in ((0.02, "warning"), (0.2, "error")):
        n.aidc.add("dc", bus="far", gpus=64, base_load=base, jobs=[load])
        assert any(kind == severity and "can deliver 0.05 MW" in text for kind, text in found(n)), found(n)
        n.aidc.remove("dc")


def test_kilowatts_for_megawatts_of_the_gpus() -> None:
    # Row 30: 30 kW written as 30 MW for 32 GPUs.
    n = grid()
    mode = aidc.training.Mode((1, 8, 4), gpus=32, flops_per_s=1e15, it_power=30.0)
    n.aidc.add("dc", bus="grid", gpus=32, jobs=[aidc.TrainingLoad("A", WORK, (mode,), aidc.Rules(segments=4))])
    assert any("937500 W for each GPU" in text for _, text in found(n))


def test_row_30_of_the_user_reports() -> None:
    """A base load of 375 (kW) on a connection of 1.4 MW: the ratio is told, and what the site can do."""
    n = grid(p_nom=1000.0)
    with pytest.warns(aidc.UnitWarning, match="268 times"):
        n.aidc.add("dc", bus="grid", gpus=8, base_load=375.0, p_nom=1.4, jobs=[job()])
    texts = [text for _, text in found(n)]
    assert any("268 times the connection of 1.4 MW: is it in kW?" in text for text in texts)
    assert any("375 MW at the meter" in text for text in texts)


def test_frozen_and_stale_results_are_told(tmp_path: Path) -> None:
    n = once_solved(two_sites)
    assert not [finding for finding in n.aidc.check() if "schedule" in finding.what or finding.severity == "error"]
    assert not [finding for finding in n.aidc.check() if finding.what.startswith("not solved")]
    n.aidc.export(tmp_path / "frozen.nc")
    frozen = aidc.load(tmp_path / "frozen.nc").aidc.check()
    assert any(finding.severity == "note" and "decided power as p_set" in finding.what for finding in frozen)
    assert not any(finding.component.endswith("p_set") for finding in frozen)
    n.optimize(output_flag=False)
    assert any("solved again without AIDC jobs" in finding.remedy for finding in n.aidc.check().of("warning"))


def test_scenarios_and_periods_are_looked_over_as_well() -> None:
    n = grid()
    n.add("Load", "town", bus="grid", p_set=np.linspace(20, 60, 8))
    n.set_scenarios({"rising": 0.7, "falling": 0.3})
    load = aidc.TrainingLoad("A", WORK, (LEAN, WIDE), aidc.Rules(segments=4))
    n.aidc.add("dc", bus="grid", gpus=64, base_load=0.02, jobs=[load])
    assert odd(n) == []
    n.c.generators.static.loc[("falling", "market"), "p_nom"] = -5.0
    assert any(kind == "error" and "p_nom: -5.0" in text for kind, text in found(n))
    m = sound()
    m.investment_periods = [2030, 2040]
    assert odd(m) == []


def test_networks_of_pypsa_have_no_errors(shared_data: Path) -> None:
    for name in ("ac-dc-meshed", "scigrid-de"):
        assert found(pypsa.Network(shared_data / "networks" / f"{name}.nc")) == []


def test_findings_print_filter_and_compare() -> None:
    n = sound(p_nom=0.2)
    n.generators.loc["market", "p_nom"] = -5.0
    island(n)
    findings = n.aidc.check()
    frame = findings.to_frame()
    assert list(frame) == ["severity", "component", "what", "remedy"]
    assert len(frame) == len(findings) == len(list(findings))
    assert findings.worst == "error" == frame["severity"].iloc[0]
    assert set(findings.of("note").to_frame()["severity"]) == {"note"}
    assert repr(findings) == f"Findings({len(findings.of('error'))} errors, 0 warnings, 2 notes)"
    assert repr(pypsa.Network().aidc.check()) == "Findings(1 error, 0 warnings, 0 notes)"
    assert n.aidc.check() == findings


def test_findings_print_as_a_list_and_stop_once() -> None:
    n = grid()
    assert str(n.aidc.check()) == "nothing found"
    with pytest.warns(aidc.UnitWarning):
        site(n, base_load=375.0, p_nom=1.4)
    found = n.aidc.check()
    assert str(found).splitlines() == [str(each) for each in found]
    assert "is it in kW? " in str(found)
    assert "?." not in str(found)
    assert repr(found).startswith("Findings(")
