"""The gallery has every figure with words for those who cannot see it."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path

import pytest
from matplotlib.figure import Figure

from tests.conftest import ROOT
from tests.labelled import assert_labelled


@pytest.fixture(scope="module")
def gallery():
    specification = importlib.util.spec_from_file_location("gallery", ROOT / "docs" / "gallery.py")
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    sys.modules["gallery"] = module
    specification.loader.exec_module(module)
    return module


def test_the_page_is_that_of_the_script_and_shows_pictures_with_words(gallery) -> None:
    every = list(gallery.drawings())
    page = (gallery.PAGES / "gallery.md").read_text(encoding="utf-8")
    assert page == gallery.page(every)
    shown = re.findall(r"!\[([^]]+)\]\((\S+)\)", page)
    assert len(shown) == len({name for _, name in shown}) == len(every)
    for alt, name in shown:
        assert len(alt) > 30
        assert (gallery.PAGES / name).read_bytes().startswith(b"\x89PNG")


def test_every_drawing_of_the_package_is_in_the_gallery(gallery) -> None:
    # Functions that draw are called by name or through an object; a name in the words of neither would be missing.
    functions = {
        name
        for path in sorted((ROOT / "pypsa_aidc" / "plots").glob("*.py"))
        for name in re.findall(r"@styled\ndef (plot_\w+)", path.read_text())
    }
    source = Path(gallery.__file__).read_text()
    through = {
        "plot_overview": ".aidc.plot()",
        "plot_network": ".aidc.plot.map()",
        "plot_headroom": ".headroom(contingencies",
        "plot_balances": ".aidc.plot.balance()",
        "plot_modes": "modes().plot()",
        "plot_replay": 'batch().plot("east", 2030)',
        "plot_result": "solved_pair()[1].plot()",
        "plot_screen": "region_screen().plot()",
        "plot_load_duration": ".demand.plot()",
        "plot_surface": "surface().plot()",
        "plot_contract": "Contract.of(load()).plot()",
        "plot_term_sheet": "term_sheet().plot()",
        "plot_bootstrap": "fleet.bootstrap(",
        "plot_portfolios": "portfolios().plot()",
        "plot_backtest": "Backtest.of(load()).plot()",
        "plot_load": "ensemble().plot()",
        "plot_load_shape": "fleet.load_shape(",
        "plot_layers": "load().plot()",
        "plot_statistics": "made().statistics.plot()",
        "plot_scaling": "replicates=20).plot()",
        "plot_synchrony": "[-1].plot()",
        "plot_composition": ".plot.composition(",
        "plot_execution": ".plot.execution(",
        "plot_gantt": ".plot.gantt()",
        "plot_calls": ".plot.calls(",
        "plot_prices": ".plot.prices()",
        "plot_audit": ".audit().plot()",
        "plot_backlog": "fleet.backlog(",
    }
    assert not [name for name in functions if f".{name}(" not in source and through.get(name, name) not in source]


@pytest.mark.parametrize("name", ["values", "subhour", "trace_audit", "headroom"])
def test_quick_figures_are_drawn_as_the_others_are(gallery, name: str) -> None:
    (drawing,) = [each for each in gallery.drawings() if each.name == name]
    figure = drawing.draw()
    assert isinstance(figure, Figure)
    assert figure.get_figwidth() == 6.4
    assert_labelled(figure)
