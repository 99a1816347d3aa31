"""Reports on networks with fleets, alone and beside training sites."""

from __future__ import annotations

import openpyxl
import pandas as pd
import pypdf
import pypsa
import pytest

import pypsa_aidc as aidc
from tests.network.test_fleet import CONTRACT, TABLE, tight
from tests.network.tiny import QUIET, job, site
from tests.report.composed import composed
from tests.report.page import Page


@pytest.fixture(scope="module")
def loads() -> pypsa.Network:
    """A fleet with one call of 2 h and rebound, and a firm one; no site. Do not change it."""
    n = tight(contract=CONTRACT, peak=1.0, events=1)
    n.aidc.add_fleet("firm", bus="grid", p_nom=0.1)
    n.aidc.optimize(**QUIET)
    return n


@pytest.fixture(scope="module")
def beside() -> pypsa.Network:
    """A fleet beside a training site. Do not change it."""
    n = tight(**TABLE, events=3, marginal_cost=50.0)
    site(n, jobs=[job(hours=2.0, segments=2)])
    n.aidc.optimize(**QUIET)
    return n


def test_fleets_alone(loads) -> None:
    told = composed(loads)
    assert [section.title for section in told.document.sections] == [
        "Summary",
        "Balance",
        "Fleets",
        "Prices and value of flexibility",
        "Audit",
        "Provenance",
    ]
    assert told.document.subtitle.startswith("2 fleets (f, firm), 8 snapshots")
    facts = {fact.name: fact.value for fact in told.document.facts}
    # 0.648 MW in two hours; half an hour of 0.648 MW is done again, so the fleet draws 0.324 MWh more than its load.
    assert (facts["fleets"], facts["calls"], facts["relief"]) == ("2", "1", "1.296")
    assert facts["energy at the meters"] == "73.124"
    served = {row[0]: row for row in told.tables["Fleets"][1:]}
    assert told.tables["Fleets"][0][2] == "rated power (MW)"
    assert told.tables["Fleets"][0][7] == "served (MWh)"
    assert [float(served[name][2]) for name in ("f", "firm")] == [9, 0.1]
    assert [float(served[name][7]) for name in ("f", "firm")] == [72.324, 0.8]
    assert told.tables["Calls"][1][:5] == ["f", "2030-01-01 03:00", "2030-01-01 04:00", "2", "0.648"]
    assert told.tables["Relief by duration"][1][:4] == ["f", "2", "0.648", "7.2"]
    binds = {row[1]: row[-1] for row in told.tables["Limits of fleets"][1:]}
    assert binds == {"depth of calls of 2 h": "yes", "speed of the rebound": "no", "number of calls": "yes"}
    assert "f is held back by depth of calls of 2 h, number of calls." in told.words
    assert "firm has no relief." in told.words
    assert [title for title in told.pictures if "calls" in title] == [
        "f: power, relief and calls",
        "firm: power, relief and calls",
    ]


def test_payments_of_a_fleet_by_hand(loads) -> None:
    # 500 USD/MWh in hours 3 and 4, 10 in the others: 9 MW pay 9 · (6 · 10 + 2 · 500), what is shed saves 500.
    assert loads.buses_t.marginal_price["grid"].round(6).tolist() == [10, 10, 10, 500, 500, 10, 10, 10]
    rows = {row[1]: row for row in composed(loads).tables["Bill"][1:] if row[0] == "f"}
    assert rows["load"][2:5] == ["meter", "72.000", "9,540.00"]
    assert rows["relief"][3:6] == ["-1.296", "-648.00", "500.00"]
    assert rows["rebound"][3:5] == ["1.620", "16.20"]
    assert rows["total"][3:5] == ["72.324", "8,908.20"]


def test_the_picture_marks_the_calls(loads) -> None:
    (section,) = [section for section in composed(loads).document.sections if section.title == "Fleets"]
    upper, lower = section.pictures[0].figure.axes
    for ax in (upper, lower):
        (span,) = [patch for patch in ax.patches if patch.get_label() == "call"]
        assert 24 * span.get_width() == pytest.approx(2.0)
    assert [text.get_text() for text in upper.texts] == ["2 h"]
    assert "1 call sheds 1.296 MWh" in section.pictures[0].alt


def test_sites_and_fleets_together(beside) -> None:
    told = composed(beside)
    titles = [section.title for section in told.document.sections]
    assert titles[2:5] == ["Jobs", "GPUs and progress", "Fleets"]
    assert "1 AI data center (dc) and 1 fleet (f)" in told.document.subtitle
    # A fleet is no job, and its energy counts at the meters.
    facts = {fact.name: fact.value for fact in told.document.facts}
    assert (facts["sites"], facts["jobs"], facts["fleets"]) == ("1", "1", "1")
    power = beside.aidc.power()
    whole = float(power["dc", "meter"].sum() + power["f", "meter"].sum())
    assert float(facts["energy at the meters"]) == pytest.approx(whole, rel=1e-4)
    assert [row[1] for row in told.tables["Jobs"][1:]] == ["A"]
    assert {row[0] for row in told.tables["Bill"][1:]} == {"dc", "f"}
    assert "Prices at the grid bus of each site and fleet" in told.pictures
    # The load of a fleet is no source: operating costs have what relief costs, and nothing else of it.
    assert {row[1] for row in told.tables["Operating costs"][1:]} == {"AC", "AIDC relief", ""}
    assert told.tables["Operating costs"][-1][-1] == f"{beside.objective:,.5g}"


@pytest.mark.slow
def test_every_kind_of_file_has_the_fleets(loads, tmp_path) -> None:
    page = Page(loads.aidc.report(tmp_path / "fleets.html"))
    assert page.stack == []
    assert {"Fleets", "Terms of fleets", "Relief by duration", "Limits of fleets", "Calls"} <= set(page.tables)
    assert "Fleet power by snapshot" not in page.tables
    # Balance, two fleets, prices, audit.
    assert len(page.images) == 5
    book = loads.aidc.report(tmp_path / "fleets.xlsx")
    sheets = pd.read_excel(book, sheet_name=None, engine="openpyxl")
    assert sheets["Calls"]["energy (MWh)"].to_list() == pytest.approx(loads.aidc.calls()["energy"].to_list())
    series = sheets["Fleet power by snapshot"]["f meter (MW)"]
    assert series.to_list() == pytest.approx(loads.aidc.power()["f", "meter"].to_list())
    assert len(openpyxl.load_workbook(book)["Figures"]._images) == 5
    pages = pypdf.PdfReader(loads.aidc.report(tmp_path / "fleets.pdf")).pages
    text = " ".join(" ".join(each.extract_text() for each in pages).split())
    for words in ("Terms of fleets", "Limits of fleets", "f is held back by depth of calls of 2 h", "0.648"):
        assert words in text
    assert sum(len(each.images) for each in pages) == 5


def test_a_file_gives_the_same_section(loads, tmp_path) -> None:
    loads.export_to_netcdf(tmp_path / "loads.nc")
    read, told = composed(pypsa.Network(tmp_path / "loads.nc")), composed(loads)
    for name in ("Fleets", "Terms of fleets", "Limits of fleets", "Calls"):
        assert read.tables[name] == told.tables[name]


def test_a_fleet_that_is_not_solved_is_refused(tmp_path) -> None:
    with pytest.raises(aidc.NotSolvedError, match=r"aidc\.optimize"):
        tight().aidc.report(tmp_path / "never.html")
    assert list(tmp_path.iterdir()) == []


def test_a_synthetic_fleet_says_so() -> None:
    terms = aidc.Contract(power=0.1, duration=2, reliability=0.95, noneligible=0.5, synthetic=True)
    n = tight(contract=terms, peak=1.0)
    n.aidc.optimize(**QUIET)
    told = composed(n)
    assert told.levels == ["warning"]
    assert "Synthetic, not measured: Generator f." in told.words
    assert told.tables["Terms of fleets"][1][-1].endswith("(synthetic)")


def test_notes_tell_the_notices_and_what_is_not_shown() -> None:
    n = tight()
    site(n, jobs=[job(hours=2.0, segments=2)])
    n.aidc.optimize(prices=False, **QUIET)
    notes = composed(n, synthetic=("prices of gas",)).document.notes
    assert notes[0] == "Caution. No prices: the solve was told to do without. " + (
        "Solve with n.aidc.optimize(), which prices with all schedules fixed."
    )
    assert notes[1] == "Caution. Synthetic, not measured: prices of gas."
    assert [note.split(":")[0] for note in notes[2:]] == ["Prices and value of flexibility"] * 2
