"""The report in a real browser; Chromium is no Python package, and where there is none, test_html.py stands alone."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from pypsa_aidc import fleet
from pypsa_aidc.network.pypsa_api import copy_network
from tests.report.page import Page

playwright = pytest.importorskip("playwright.sync_api", reason="playwright, which drives the browser, is not installed")
BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None)

pytestmark = pytest.mark.skipif(BROWSER is None, reason="no Chromium on this machine to open the report in")

LEAST_LETTER = 8.0
"""CSS pixels below which the smallest letters of a figure count as unreadable."""


@pytest.fixture(scope="module")
def browser() -> Iterator[object]:
    with playwright.sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=BROWSER, args=["--no-sandbox", "--disable-gpu"])
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def path(campus, envelope, tmp_path_factory) -> Path:
    return campus.aidc.report(
        tmp_path_factory.mktemp("report") / "campus.html",
        surface=fleet.Surface.of(envelope),
        contract=fleet.Contract.of(envelope),
        exclusive=["battery"],
    )


@pytest.mark.slow
@pytest.mark.parametrize("width", [1280, 400])
def test_figures_show_nothing_is_fetched_and_the_page_fits(browser, path, width) -> None:
    page = browser.new_page(viewport={"width": width, "height": 900})
    told, asked = [], []
    page.on("console", lambda message: told.append(message.text))
    page.on("pageerror", lambda error: told.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    page.goto(path.as_uri())
    assert told == []
    assert [url for url in asked if not url.startswith(("data:", "file:"))] == []
    images = page.evaluate(
        "[...document.images].map(i => [i.complete, i.naturalWidth * (i.currentSrc.startsWith('data:image/png') ? "
        "96 / 150 : 1), i.clientWidth, i.alt])"
    )
    assert len(images) == 8
    for complete, natural, drawn, alt in images:
        assert complete
        assert natural > 300
        assert alt
        # The smallest letters of a figure have 8 points, 10.7 pixels where it is drawn at 96 pixels an inch.
        assert 10.67 * drawn / natural >= LEAST_LETTER
        # As wide as the page, neither cut off nor smaller.
        assert drawn == page.evaluate("document.querySelector('main').clientWidth")
    # The page itself never scrolls sideways; what is wider does so in its own box, which the keyboard reaches.
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    boxes = page.evaluate(
        "[...document.querySelectorAll('body *')].filter(e => !e.closest('.wide'))"
        ".map(e => e.getBoundingClientRect()).filter(b => b.right > innerWidth + 1 || b.left < -1).length"
    )
    assert boxes == 0
    assert page.evaluate("[...document.querySelectorAll('.wide')].every(e => e.tabIndex === 0)")
    smallest = page.evaluate(
        "Math.min(...[...document.querySelectorAll('p, td, th, dd, dt, li, caption, figcaption, span')]"
        ".map(e => parseFloat(getComputedStyle(e).fontSize)))"
    )
    assert smallest >= 12
    page.close()


@pytest.mark.slow
def test_the_dark_scheme(browser, path) -> None:
    page = browser.new_page(color_scheme="dark")
    page.goto(path.as_uri())
    ground, letters = page.evaluate(
        "(s => [s.backgroundColor, s.color].map(c => c.match(/\\d+/g).slice(0, 3).map(Number)))"
        "(getComputedStyle(document.body))"
    )
    assert max(ground) < 50
    assert min(letters) > 200
    # Figures keep the white that their colours are chosen for.
    plates = page.evaluate("[...document.images].map(i => getComputedStyle(i).backgroundColor)")
    assert set(plates) == {"rgb(255, 255, 255)"}
    page.close()


@pytest.mark.slow
def test_an_interactive_map_runs_in_its_frame_and_fetches_nothing(browser, solved_pair, tmp_path) -> None:
    n = copy_network(solved_pair)
    n.buses.loc[["grid", "far"], ["x", "y"]] = [[10.0, 50.0], [11.0, 51.0]]
    path = n.aidc.report(tmp_path / "map.html", interactive=True)
    page = browser.new_page()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(path.as_uri())
    frame = page.frames[1]
    frame.wait_for_selector("canvas", state="attached")
    assert [url for url in asked if not url.startswith(("data:", "blob:", path.as_uri(), "about:"))] == []
    # What runs in the frame cannot reach the report.
    assert frame.evaluate("(() => { try { return parent.document.title } catch { return 'closed' } })()") == "closed"
    page.close()


@pytest.mark.slow
def test_the_campus_report_has_the_numbers_of_its_study(path) -> None:
    # 378.26 USD: S6 of Table IV, see studies/green_campus. 24.776 MWh and 1920 GPUs belong to the same optimum.
    page = Page(path)
    assert page.notices == []
    assert page.tables["Operating costs"][-1][-1] == "378.26"
    assert page.tables["Sites"][1][1] == "24.776"
    assert "exclusive charge and discharge" in [row[0] for row in page.tables["Audit"]]
