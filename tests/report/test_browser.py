"""The report in a real browser; Chromium is no Python package, and where there is none, test_html.py stands alone."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from pypsa_aidc import fleet
from tests.report.page import Page

playwright = pytest.importorskip("playwright.sync_api", reason="playwright, which drives the browser, is not installed")
BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None)

pytestmark = pytest.mark.skipif(BROWSER is None, reason="no Chromium on this machine to open the report in")

LEAST_LETTER = 9.0
"""CSS pixels below which letters of 10 points in a figure count as unreadable."""


@pytest.fixture(scope="module")
def browser() -> Iterator[object]:
    with playwright.sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
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
    images = page.evaluate("[...document.images].map(i => [i.complete, i.naturalWidth, i.clientWidth, i.alt])")
    assert len(images) == 8
    for complete, natural, drawn, alt in images:
        assert complete
        assert natural > 300
        assert alt
        # Figures are drawn at 96 pixels an inch with letters of 10 points, 13.3 pixels.
        assert 13.3 * drawn / natural >= LEAST_LETTER
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
def test_the_campus_report_has_the_numbers_of_its_study(path) -> None:
    # 378.26 USD: S6 of Table IV, see studies/green_campus. 24.776 MWh and 1920 GPUs belong to the same optimum.
    page = Page(path)
    assert page.notices == []
    assert page.tables["Operating costs"][-1][-1] == "378.26"
    assert page.tables["Sites"][1][1] == "24.776"
    assert "exclusive charge and discharge" in [row[0] for row in page.tables["Audit"]]
