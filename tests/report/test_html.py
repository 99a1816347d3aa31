from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import matplotlib as mpl
import numpy as np
import pandas as pd
import pypsa
import pytest

import pypsa_aidc as aidc
from pypsa_aidc import fleet
from pypsa_aidc.markup import shown
from pypsa_aidc.plots import balance, style
from tests.network.tiny import QUIET, grid, job, site
from tests.report.composed import composed
from tests.report.page import Page


def number(text: str) -> float:
    return float(text.replace(",", "").replace("∞", "inf").replace("–", "nan"))


@pytest.fixture(scope="module")
def path(solved_pair, envelope, tmp_path_factory) -> Path:
    target = tmp_path_factory.mktemp("report") / "report.html"
    return solved_pair.aidc.report(target, surface=fleet.Surface.of(envelope), contract=fleet.Contract.of(envelope))


def test_the_page_is_well_formed_and_needs_nothing_else(path) -> None:
    page = Page(path)
    assert page.stack == []
    assert not [tag for tag, _ in page.tags if tag in ("script", "iframe", "object", "embed", "form")]
    for _, attrs in page.tags:
        assert not [name for name in attrs if name.startswith("on")]
        for name in ("src", "href"):
            assert str(attrs.get(name) or "#").startswith(("data:", "#"))
    style = path.read_text(encoding="utf-8").split("<style>")[1].split("</style>")[0]
    assert "url(" not in style
    assert "@import" not in style
    (policy,) = [attrs["content"] for attrs in page.all("meta") if attrs.get("http-equiv") == "Content-Security-Policy"]
    assert "default-src 'none'" in policy
    identifiers = [attrs["id"] for _, attrs in page.tags if attrs.get("id")]
    assert len(set(identifiers)) == len(identifiers)
    for link in page.all("a"):
        assert str(link["href"]).removeprefix("#") in identifiers
    for head in page.all("th"):
        assert head["scope"] == "col"
    # Balance, Gantt, both sites together and two figures each, prices, K, contract, audit.
    assert len(page.images) == 11
    for kind, content, alt in page.images:
        assert len(alt) > 30
        if "svg" in kind:
            assert ElementTree.fromstring(content).tag.endswith("svg")
        else:
            assert content.startswith(b"\x89PNG")
    assert len(page.tables) == len(page.all("table"))


def test_tables_hold_what_the_accessor_says(solved_pair, path) -> None:
    page, accessor = Page(path), solved_pair.aidc
    head, *rows = page.tables["Sites"]
    assert head[:3] == ["site", "energy (MWh)", "training energy (MWh IT)"]
    for row, (name, values) in zip(rows, accessor.summary().iterrows(), strict=True):
        assert row[0] == name
        assert [number(cell) for cell in row[1:]] == pytest.approx(values.to_list(), rel=1e-4)
    head, *rows = page.tables["Schedule"]
    assert len(rows) == len(accessor.schedule())
    assert [row[head.index("GPUs")] for row in rows] == [f"{gpus:,}" for gpus in accessor.schedule()["gpus"]]
    fed, used = (
        {name: number(value) for name, value in page.tables[title][1:]}
        for title in ("Energy by source", "Energy by use")
    )
    assert used["AIDC"] == pytest.approx(accessor.summary()["energy"].sum(), rel=1e-4)
    assert set(used) == {"AIDC", "other load"}
    # Sources and storage feed what the network feeds: lossless lines, no curtailment.
    assert sum(fed.values()) == pytest.approx(sum(used.values()), rel=1e-3)


def test_payments_by_hand(solved) -> None:
    # The price falls from 8 to 1 USD/MWh over 8 h, its mean is 4.5; behind a PUE of 1.25 it is 5.625. Four segments of
    # an hour in the slow mode in the last four hours cost 2 MW · 1.25 · (4 + 3 + 2 + 1) = 25 USD. The fast mode does
    # three of them in 3 / 1.8 = 1.67 h, so in the last two: 2 MW · 1.25 · 3 + 4 MW · 1.25 · (2 + 1) = 22.5 USD.
    head, *rows = composed(solved).tables["Bill"]
    rows = {row[1]: row for row in rows}
    assert head[2:4] == ["level", "energy (MWh)"]
    assert head[4:] == ["payment (USD)", "price (USD/MWh)", "mean price (USD/MWh)", "timing (USD)"]
    assert rows["A"][2] == "IT"
    assert [number(cell) for cell in rows["A"][3:]] == pytest.approx([10.0, 22.5, 2.25, 5.625, 33.75])
    # A base load of 1 MW all day pays the mean price, and its timing is worth nothing.
    assert [number(cell) for cell in rows["base"][3:]] == pytest.approx([8.0, 45.0, 5.625, 5.625, 0.0])
    # At the meter, 18 MWh · 1.25 at the mean price of 4.5 would cost 101.25 USD instead of 67.5.
    assert rows["total"][2] == "meter"
    assert [number(cell) for cell in rows["total"][3:]] == pytest.approx([22.5, 67.5, 3.0, 4.5, 33.75])


def test_an_optimal_solve_without_made_up_data_has_no_notice(solved) -> None:
    told = composed(solved)
    assert told.levels == []
    assert "optimal" in told.words
    assert "nothing that says so" in told.words
    assert pypsa.__version__ in told.words


def test_values_of_flexibility(solved) -> None:
    index = pd.MultiIndex.from_tuples([("dc", "gpus"), ("dc", "waiting")], names=["site", "what"])
    values = pd.DataFrame(
        {"step": [8, 1], "unit": ["GPUs", ""], "value": [3.25, np.inf], "uncertainty": [0.5, 0.0]}, index=index
    )
    told = composed(solved, values=values)
    assert told.tables["Value of flexibility"][1] == ["dc", "gpus", "8", "GPUs", "3.25", "0.50"]
    assert told.tables["Value of flexibility"][2][4] == "∞"
    assert "not asked for" not in told.words
    assert "not asked for" in composed(solved).words


def test_surface_and_contract(solved, envelope) -> None:
    K = fleet.Surface.of(envelope, durations=(1, 4), reliabilities=(0.5, 0.95))
    terms = fleet.Contract.of(envelope)
    told = composed(solved, surface=K, contract=terms)
    rows = told.tables["Surface K"]
    assert rows[0] == ["duration (h)", "K at 0.5 (MW)", "K at 0.95 (MW)", "windows"]
    assert [number(cell) for cell in rows[2][1:3]] == pytest.approx(K.K.sel(duration=4).to_numpy(), rel=1e-4)
    offer = told.tables["Terms"][1]
    assert number(offer[1]) == pytest.approx(terms.offer, rel=1e-4)
    assert offer[2] == "MW"
    assert told.levels == []
    assert "two clusters" in told.words


def test_what_stands_in_a_file_cannot_become_markup(short, tmp_path) -> None:
    short.name = "<script>alert(1)</script>"
    short.meta["note"] = "<img src=x onerror=alert(1)>" + "x" * 1000
    short.aidc.optimize(**QUIET)
    page = Page(short.aidc.report(tmp_path / "report.html", provenance={"<b>": "&"}, synthetic=["<i>"]))
    assert page.all("script") == []
    assert [attrs for attrs in page.all("img") if "onerror" in attrs] == []
    assert "<script>alert(1)</script>" in page.words
    assert "(1,028 characters)" in page.words


class Answers:
    """A result on headroom as others may build it; draws on axes or makes a figure."""

    def __init__(self, on_axes: bool) -> None:
        self.on_axes = on_axes

    def to_frame(self) -> pd.DataFrame:
        frame = pd.DataFrame(
            {"headroom": [12.5, np.inf], "element": ["Line 3", ""]}, index=pd.Index(["a", "b"], name="bus")
        )
        frame.attrs["units"] = {"headroom": "MW"}
        return frame

    def plot(self):
        figure = mpl.figure.Figure()
        axes = figure.subplots()
        axes.plot([0, 1])
        return axes if self.on_axes else figure


@pytest.mark.parametrize("on_axes", [True, False])
def test_any_headroom_with_a_frame_and_a_plot(solved, on_axes) -> None:
    told = composed(solved, headroom=Answers(on_axes))
    assert told.tables["Headroom"] == [["bus", "headroom (MW)", "element"], ["a", "12.5", "Line 3"], ["b", "∞", ""]]
    assert "headroom at 2 buses" in told.words


def test_many_sites_are_drawn_together() -> None:
    n = grid()
    for number_ in range(7):
        site(n, f"dc{number_}", [job("A", 2.0, 2)])
    n.aidc.optimize(**QUIET)
    told = composed(n)
    assert told.pictures[2:3] == ["All sites"]
    assert len(told.pictures) == 5
    assert "7 AI data centers (dc0, dc1, dc2, dc3 and more)" in told.words


def test_periods() -> None:
    n = grid()
    n.investment_periods = [2030, 2040]
    site(n)
    n.aidc.optimize(multi_investment_periods=True, **QUIET)
    told = composed(n)
    assert "16 snapshots from 2030, 2030-01-01 00:00" in told.words
    assert told.tables["Schedule"][1][2].startswith("2030, ")
    assert told.levels == []


def test_scenarios_are_announced_and_each_has_its_prices() -> None:
    n = site(grid())
    n.set_scenarios({"rising": 0.7, "falling": 0.3})
    n.aidc.optimize(**QUIET)
    told = composed(n)
    assert told.levels == ["note"]
    assert "drawings show the expectation over them" in told.words
    assert told.tables["Bill"][0][-2:] == ["payment in rising (USD)", "payment in falling (USD)"]
    # Eight hours whose price falls from 8 to 1 USD/MWh in both.
    assert told.tables["Prices by snapshot"][1] == ["2030-01-01 00:00", "8", "8", "8"]


def test_many_sources_are_drawn_together_and_lose_nothing() -> None:
    n = grid(prices=np.full(8, 90.0))
    n.add("Carrier", ["nuclear", "wind"], color=["#123456", ""])
    for number_, carrier in enumerate(["nuclear", "wind", *"cdefgh"]):
        n.add("Generator", carrier, bus="grid", carrier=carrier, p_nom=0.9 - 0.1 * number_, marginal_cost=number_)
    n.add("Load", "town", bus="grid", p_set=1.5)
    site(n, jobs=[job("A", 2.0, 2)])
    n.aidc.optimize(**QUIET)
    whole = n.aidc.balance()
    fewer = balance.fewer_sources(whole)
    assert fewer.shape[1] == balance.MOST_SOURCES + 5
    np.testing.assert_allclose(fewer.sum(axis=1), whole.sum(axis=1))
    colours = balance.source_colours(n.carriers, [name for name in fewer if name not in balance.NO_SOURCES])
    assert colours["nuclear"] == "#123456"
    assert colours["other sources"] == style.GREY
    assert len(set(colours.values())) == balance.MOST_SOURCES + 1


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (-0.125, "-0.125"),
        (123456.7, "123,457"),
        (99999.4, "99,999"),
        (1e-9, "1.00e-09"),
        (float("-inf"), "−∞"),
        (pd.NaT, "–"),
        (np.True_, "yes"),
        (("a", 1), "a, 1"),
        (np.int64(12345), "12,345"),
        (pd.Timestamp("2030-01-01 05:00"), "2030-01-01 05:00"),
    ],
)
def test_numbers_as_people_read_them(value, text) -> None:
    assert shown(value) == text


def test_a_map_needs_places_and_a_browser(solved, tmp_path) -> None:
    told = composed(solved, interactive=True)
    assert "There is no map: x, y of the buses" in told.words
    with pytest.raises(aidc.InputError, match=r"a file ending in \.html"):
        solved.aidc.report(tmp_path / "report.pdf", interactive=True)
    assert list(tmp_path.iterdir()) == []
