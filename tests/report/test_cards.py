"""What a notebook shows of an object: its own numbers, in HTML that holds, whatever its names and however empty."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pypsa
import pytest

import pypsa_aidc as aidc
from pypsa_aidc import fleet, markup
from pypsa_aidc.headroom import Demand, Offsets, Profile, Screen, bus_headroom, screen_region
from pypsa_aidc.network import AuditReport, Finding, Findings, Result
from pypsa_aidc.network.pypsa_api import copy_network
from pypsa_aidc.training import Mode
from tests.network.tiny import grid, job, site
from tests.report.page import Page

HOSTILE = "<script>alert('1')</script>&amp;\""


def card(thing: object) -> Page:
    """What a notebook shows, well-formed and without anything that could run."""
    text = thing._repr_html_()
    page = Page(text)
    assert page.stack == []
    assert {tag for tag, _ in page.tags}.isdisjoint({"script", "iframe", "object", "link"})
    assert all(not name.startswith("on") for _, attrs in page.tags for name in attrs)
    assert all(len(content) <= markup.LARGEST_FIGURE for _, content, _ in page.images)
    return page


def numbers(cells: list[str]) -> list[float]:
    return [float(cell.replace(",", "").replace("∞", "inf").replace("–", "nan")) for cell in cells]


def result(**changes: object) -> Result:
    known = Result("optimal", 1234567.891, 1234567.0, 7e-7, "highs", "time", 1337, 3230, 0.5, 2.1, "none")
    return replace(known, **changes)  # type: ignore[arg-type]


def screened(hours: int = 48) -> Screen:
    index = pd.date_range("2030-01-01", periods=hours, freq="h")
    demand = Demand(pd.Series(1000.0 + 100 * np.sin(np.arange(hours)), index), source="made here", region=HOSTILE)
    return screen_region(
        demand, [Profile(HOSTILE, [1.0, 0.5], [0.2, 0.1])], period="whole", budget=0.25, offsets=Offsets("all")
    )


def test_result() -> None:
    page = card(result())
    rows = {row[0]: row[1:] for row in page.tables[""][1:]}
    assert rows["objective"] == ["1,234,568", "USD"]
    assert rows["edges before pruning"] == ["3,230", "1"]
    assert len(page.images) == 1
    unknown = card(result(bound=float("nan"), gap=float("nan"), status="time_limit", solver=HOSTILE))
    assert HOSTILE in unknown.words


def test_modes_and_load(green_campus) -> None:
    work = green_campus.jobs()[0]
    modes = green_campus.modes(work)
    page = card(modes)
    head, *rows = page.tables["Effective modes"]
    assert head[:5] == ["mode", "GPUs", "efficiency (%)", "throughput (PFLOP/s)", "IT power (MW)"]
    assert [numbers(row[1:2])[0] for row in rows] == [mode.gpus for mode in modes]
    assert [numbers(row[3:4])[0] for row in rows] == pytest.approx(
        [mode.flops_per_s / 1e15 for mode in modes], abs=5e-3
    )
    counts = {row[0]: int(row[1]) for row in page.tables["Candidates"][1:]}
    assert counts["effective"] == len(modes)
    assert sum(counts.values()) == len(modes.frame)
    assert len(page.images) == 1
    load = aidc.TrainingLoad.of(work, modes, segments=12)
    rows = card(load).tables["The whole of it in one mode"][1:]
    assert numbers([row[3] for row in rows]) == pytest.approx([load.hours(mode) for mode in modes], abs=5e-3)
    # A mode that is not there, and a table of modes without any.
    empty = card(aidc.ModeTable(HOSTILE, modes.frame.iloc[:0]))
    assert "Effective modes: none" in empty.words
    assert "No figure" in empty.words


def test_load_with_a_hostile_name() -> None:
    load = aidc.TrainingLoad(HOSTILE, 1e18, (Mode((1, 1, 8), gpus=8, flops_per_s=1e15, it_power=0.003),))
    assert HOSTILE in card(replace(load, description=HOSTILE)).tables["Job"][1][1]


def test_surface_contract_and_envelope(envelope) -> None:
    K = fleet.Surface.of(envelope, durations=(1, 4), reliabilities=(0.5, 0.95))
    page = card(K)
    head, *rows = page.tables["Dependable power K"]
    assert head == ["duration (h)", "K at 0.5 (MW)", "K at 0.95 (MW)", "windows"]
    np.testing.assert_allclose([numbers(row)[1:3] for row in rows], K.K.to_numpy(), rtol=1e-3)
    assert len(page.images) == 1
    terms = fleet.Contract.of(envelope)
    page = card(replace(terms, source=HOSTILE))
    assert numbers(page.tables[""][1][1:2])[0] == pytest.approx(terms.offer, rel=1e-4)
    assert len(page.tables[""]) - 1 == len(terms.to_frame())
    page = card(envelope)
    eligible = page.tables["Mean power"][0].index("eligible (MW)")
    first = envelope.data["power"].sel(cluster="c1", layer="eligible").mean().item()
    assert numbers([page.tables["Mean power"][1][eligible]])[0] == pytest.approx(first, rel=1e-3)
    hostile = fleet.Envelope(envelope.data.assign_coords(cluster=[HOSTILE, "c2"]))
    assert card(hostile).tables["Mean power"][1][0] == HOSTILE


def test_screen() -> None:
    found = screened()
    head, *rows = card(found).tables["Headroom"]
    assert rows[0][0] == HOSTILE
    column = head.index("headroom (MW)")
    assert numbers([row[column] for row in rows]) == pytest.approx(found.summary()["headroom"].to_list(), rel=1e-3)


def test_bus_headroom(solved_pair) -> None:
    n = copy_network(solved_pair)
    found = bus_headroom(n)
    page = card(found)
    rows = page.tables[""][1:]
    assert numbers([row[1] for row in rows]) == pytest.approx(sorted(found.headroom, reverse=True), rel=1e-3)
    assert "No figure" in page.words
    assert page.images == []
    n.buses.loc[["grid", "far"], ["x", "y"]] = [[1.0, 2.0], [3.0, 5.0]]
    assert len(card(bus_headroom(n)).images) == 1


def test_audit_and_findings(solved_pair) -> None:
    report = solved_pair.aidc.audit()
    page = card(report)
    assert "Violations: none" in page.words
    checked = [int(row[1]) for row in page.tables["Checks"][1:]]
    assert sum(checked) == len(report.frame)
    failed = AuditReport(report.frame.assign(where=HOSTILE, violation=3.0, passed=False))
    assert card(failed).tables["Violations"][1][1] == HOSTILE
    assert "Findings: none" in card(Findings(())).words
    found = Findings((Finding("note", HOSTILE, "odd", HOSTILE), Finding("error", "Bus", "absent")))
    assert card(found).tables["Findings"][1:] == [["error", "Bus", "absent", ""], ["note", HOSTILE, "odd", HOSTILE]]


def test_a_network_solved_stale_unsolved_and_empty(solved_pair) -> None:
    page = card(solved_pair.aidc)
    summary = solved_pair.aidc.summary()
    rows = page.tables["Results"][1:]
    assert numbers([row[1] for row in rows]) == pytest.approx(summary["energy"].to_list())
    assert [row[0] for row in rows] == list(summary.index)
    assert len(page.images) == 1
    stale = copy_network(solved_pair)
    stale.c.generators.dynamic["p"]["one A"] = 0.0
    page = card(stale.aidc)
    assert len(page.tables["Jobs and fleets"]) == 4
    assert "solved again" in page.words
    assert page.images == []
    described = replace(job("A", 2.0, 2), description=HOSTILE)
    unsolved = card(site(grid(), jobs=[described]).aidc)
    assert unsolved.tables["Jobs and fleets"][1][-1] == HOSTILE
    assert "n.aidc.optimize" in unsolved.words
    empty = card(pypsa.Network().aidc)
    assert "none" in empty.words
    assert "add one with n.aidc.add" in empty.words
    # A specification that cannot be read is said, too.
    broken = site(grid(), jobs=[job("A", 2.0, 2)])
    broken.generators["aidc"] = broken.generators["aidc"].where(broken.generators["aidc"].eq(""), "{no JSON")
    assert "expected JSON" in card(broken.aidc).words


def test_long_tables_say_where_the_rest_is() -> None:
    found = markup.Table("t", pd.DataFrame({"x": range(30)})).html(20, "in .to_frame()")
    assert found.count("<tr>") == 21
    assert "10 more rows in .to_frame()." in found


def test_a_heavy_figure_becomes_pixels() -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 3.2))
    figure.subplots().plot(np.random.default_rng(0).normal(size=(5000, 3)).cumsum(0))
    address = markup.small(figure)
    assert address.startswith("data:image/png;base64,")
    assert len(address) <= markup.LARGEST_FIGURE


@pytest.mark.parametrize(
    ("values", "unit", "texts"),
    [
        ([377.7, 0.5573, 0.0], "USD", ["377.70", "0.56", "0.00"]),
        ([1079.0128, 35.146], "USD", ["1,079.01", "35.15"]),
        ([2.0, 24.0], "USD", ["2", "24"]),
        ([137.5], "USD", ["137.50"]),
        ([1e7 / 3], "USD", ["3,333,333"]),
        ([8.30541, 0.027423, 0.0], "MWh", ["8.3054", "0.0274", "0.0000"]),
        ([12.0, 1e-7], "MW", ["12.000", "1e-07"]),
        ([1e-9, 0.0], "MW", ["1.00e-09", "0"]),
        ([0.25, np.inf, np.nan], "MW", ["0.25", "∞", "–"]),
    ],
)
def test_decimals_stand_under_each_other(values, unit, texts) -> None:
    assert [row[0] for row in markup.Table("t", pd.DataFrame({"x": values}), {"x": unit}).cells(9)] == texts


def test_years_are_no_amounts() -> None:
    assert markup.Table("t", pd.DataFrame({"year": [2030], "megawatts": [2030]})).cells(1) == [["2030", "2,030"]]
