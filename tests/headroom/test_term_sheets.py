"""Term sheets: from a study and from a contract, to a file and back, into a network, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pypsa
import pytest
from typer.testing import CliRunner

from pypsa_aidc.cli import app
from pypsa_aidc.errors import InputError
from pypsa_aidc.fleet import Contract, Megawatts, ReliefSource, TermSheet, product, profiles
from pypsa_aidc.headroom import Budget, Request, ServiceStudy

PUBLISHED = Contract(power=2.3199, duration=4, reliability=0.95, noneligible=23.264, source="trace")


@pytest.fixture(scope="module")
def study() -> ServiceStudy:
    """Two lines of 100 MW to a load of 60 MW, in one hour in four of 90 MW: with one lost, 40 and 10 MW are left."""
    n = pypsa.Network(snapshots=pd.date_range("2030-07-01", periods=4, freq="h"))
    n.add("Bus", ["A", "B"], v_nom=230.0)
    n.add("Line", ["1", "2"], bus0="A", bus1="B", x=0.1, s_nom=100.0)
    power = [60.0, 90.0, 60.0, 60.0]
    n.add("Generator", "G", bus="A", p_nom=300.0, p_set=power)
    n.add("Load", "L", bus="B", p_set=power)
    batch = [
        Request(name="east", bus="B", nameplate=50.0, budget=Budget(hours=1, longest=1), contract={1: 0.5, 2: 0.25}),
        Request(name="at the plant", bus="A", nameplate=20.0),
    ]
    return n.aidc.study(batch, contingencies="all", redispatch=False)


def test_a_study_makes_a_sheet_of_what_it_knows(study: ServiceStudy) -> None:
    sheets = study.term_sheets()
    east = sheets["east"]
    assert (east.firm, east.conditional) == ((Megawatts(10.0),), (Megawatts(40.0),))
    # The depth of the budget is open, and still no firm megawatt is cut.
    assert east.floor == (Megawatts(10.0),)
    assert (east.point_of_interconnection, east.voltage_kv, east.nameplate_mw) == ("B", 230.0, 50.0)
    assert (east.hours_per_year, east.longest_event_h, east.events_per_year) == (1, 1, None)
    assert east.trigger is not None
    assert "Line 2 after outage of Line 1" in east.trigger or "Line 1 after outage of Line 2" in east.trigger
    assert east.sources == (ReliefSource("windows", 20.0, 1.0), ReliefSource("windows", 10.0, 2.0))
    assert east.replay is not None
    assert (east.replay[0].hours, east.replay[0].energy_mwh, east.replay[0].undelivered_mwh) == (1.0, 30.0, 10.0)
    assert east.study == study.digest
    assert {"notice_minutes", "price_usd_per_mwh", "events_per_year", "exit_date"} <= set(east.missing)
    firm = sheets["at the plant"]
    assert (firm.floor, firm.hours_per_year) == ((Megawatts(20.0),), 0.0)
    with pytest.raises(InputError, match="dispatch"):
        study.term_sheets("redispatch")


def test_a_file_keeps_a_sheet_and_is_checked(study: ServiceStudy, tmp_path: Path) -> None:
    sheet = study.term_sheets()["east"]
    path = sheet.write(tmp_path / "east.terms.json")
    assert TermSheet.read(path) == sheet
    content = json.loads(path.read_text())
    assert all(content[name] is None for name in content["missing"])
    wrong = content | {"reliability": 95, "events_per_day": 1.5, "colour": "red"}
    with pytest.raises(InputError) as error:
        TermSheet.from_dict(wrong)
    assert len(error.value.faults) == 3
    with pytest.raises(InputError, match="missing"):
        TermSheet.from_dict(content | {"missing": []})
    with pytest.raises(InputError, match=r"firm 2030.*at most the 40 MW"):
        TermSheet(id="x", firm=(Megawatts(50.0, 2030),), conditional=(Megawatts(40.0, 2030),))


def test_a_contract_fills_what_a_study_leaves_empty(study: ServiceStudy) -> None:
    own = TermSheet.of(PUBLISHED, "fleet", peak=54.3)
    assert own.floor is not None
    assert own.floor[0].mw == pytest.approx(54.3 - 2.3199)
    assert own.recovery_h == pytest.approx(4.487, abs=1e-3)  # App. D of [2]: 10.44 MWh at 2.3264 MW
    assert own.recovery_h * own.rebound_mw == pytest.approx(PUBLISHED.rebound_energy)
    filled = study.term_sheets()["east"].filled(own)
    assert (filled.reliability, filled.hours_per_year) == (0.95, 1)
    # The megawatts of another load are not those of this one; scaled they are.
    assert filled.rebound_mw is None
    scaled = TermSheet.of(PUBLISHED, "east", peak=54.3, size=40.0)
    assert study.term_sheets()["east"].filled(scaled).rebound_mw == pytest.approx(2.3264 * 40 / 54.3)


def test_every_product_asks_for_fields_of_the_sheet() -> None:
    small = TermSheet(id="x", nameplate_mw=50.0, notice_minutes=15.0)
    for name in profiles():
        asked = small.under(name)
        assert len(asked) == sum(len(each["fields"]) for each in product(name)["asks"])
    states = small.under("texas_sb6").set_index("field")["state"].to_dict()
    assert states == {"nameplate_mw": "below 75", "sources": "missing", "notice_minutes": "given"}
    with pytest.raises(InputError, match="pjm"):
        small.under("pjn")


def evening() -> pypsa.Network:
    """Six hours, of which two are short of cheap supply."""
    n = pypsa.Network(snapshots=pd.date_range("2030-01-01", periods=6, freq="h"))
    n.add("Carrier", "AC")
    n.add("Bus", "region", carrier="AC")
    n.add("Generator", "base", bus="region", p_nom=100.0, marginal_cost=20.0)
    n.add("Generator", "peaker", bus="region", p_nom=100.0, marginal_cost=200.0)
    n.add("Load", "town", bus="region", p_set=[0.0, 0.0, 20.0, 20.0, 0.0, 0.0])
    return n


SHEET = TermSheet(
    id="east", conditional=(Megawatts(100.0),), floor=(Megawatts(90.0),), longest_event_h=2, hours_per_year=1,
    recovery_h=2, rebound_mw=0.0, price_usd_per_mwh=50.0, study="SHA-256 0123",
)  # fmt: skip


def test_a_network_keeps_the_terms_of_a_sheet() -> None:
    n = evening()
    n.aidc.add_fleet("fleet", bus="region", contract=SHEET)
    assert n.generators.at["fleet", "p_nom"] == 100.0
    n.aidc.optimize(solver_options={"output_flag": False})
    # One hour a year of 10 MW, at 50 USD/MWh, in place of a peaker of 200.
    assert sorted(n.generators_t.p["fleet relief"]) == pytest.approx([0, 0, 0, 0, 0, 10], abs=1e-6)
    assert n.objective == pytest.approx(20 * 600 + 200 * 30 + 50 * 10)
    assert "term sheet east of SHA-256 0123" in n.generators.at["fleet", "aidc"]


def test_a_network_refuses_by_name_what_it_cannot_keep() -> None:
    n = evening()
    full = TermSheet.from_dict(
        SHEET.to_dict()
        | {"trigger": "overload", "events_per_day": 1, "ramp_mw_per_min": 0.1, "rebound_mw": None, "recovery_h": None}
        | {
            "missing": sorted(
                {*SHEET.missing, "rebound_mw", "recovery_h"} - {"trigger", "events_per_day", "ramp_mw_per_min"}
            )
        }
    )
    with pytest.raises(InputError) as error:
        n.aidc.add_fleet("fleet", bus="region", contract=full)
    told = " ".join(fault.where for fault in error.value.faults)
    for name in ("trigger", "events_per_day", "ramp_mw_per_min", "spacing_h or recovery_h", "rebound_mw"):
        assert name in told
    assert "fleet" not in n.generators.index
    with pytest.raises(InputError, match=r"sheet\.at"):
        n.aidc.add_fleet(
            "f", bus="region", contract=TermSheet(id="x", conditional=(Megawatts(1, 2030), Megawatts(2, 2031)))
        )
    kept = full.without("trigger", "events_per_day", "ramp_mw_per_min")
    n.aidc.add_fleet("fleet", bus="region", contract=kept, recovery=2, rebound=0.0)
    assert "fleet relief" in n.generators.index


def run(*words: str) -> str:
    result = CliRunner().invoke(app, list(words))
    if result.exception:
        raise result.exception
    return result.output


def test_sheets_on_the_command_line(study: ServiceStudy, tmp_path: Path) -> None:
    for name, sheet in study.term_sheets().items():
        sheet.write(tmp_path / f"{name}.terms.json")
    TermSheet(id="trial", response_minutes=10).write(tmp_path / "trial.json")
    out = tmp_path / "out"
    told = run(
        "terms", str(tmp_path), "--fill", str(tmp_path / "trial.json"), "--profile", "epri_flex_mosaic", "-o", str(out)
    )
    assert "EPRI Flex MOSAIC" in told
    assert TermSheet.read(out / "east.terms.json").response_minutes == 10
    table = pd.read_csv(out / "east.epri_flex_mosaic.csv").set_index("field")["state"]
    assert (table["response_minutes"], table["notice_minutes"]) == ("given", "missing")
    with pytest.raises(InputError, match="profile"):
        run("terms", str(tmp_path), "--profile", "none")
