"""The palette under simulated colour vision, axes as people read them, and figures that leave nothing behind."""

from __future__ import annotations

import ast
from concurrent.futures import ThreadPoolExecutor
from itertools import combinations
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from pypsa_aidc.plots import style
from tests.conftest import ROOT

# Machado, Oliveira and Fernandes, IEEE TVCG 15 (2009), Table 1, severity 1.0; they act on linear RGB.
VISION = {
    "normal": np.eye(3),
    "protanopia": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
    ),
    "deuteranopia": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
    ),
}
TO_XYZ = np.array(
    [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750], [0.0193339, 0.1191920, 0.9503041]]
)
WHITE = np.array([0.95047, 1.0, 1.08883])
LEAST_APART = 20.0
"""CIELAB units; 2.3 are just noticed side by side, and small marks far apart need several times that."""


def linear(colour: str) -> np.ndarray:
    share = np.array([int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)])
    return np.where(share <= 0.04045, share / 12.92, ((share + 0.055) / 1.055) ** 2.4)


def cielab(rgb: np.ndarray) -> np.ndarray:
    ratio = TO_XYZ @ np.clip(rgb, 0, 1) / WHITE
    f = np.where(ratio > (6 / 29) ** 3, np.cbrt(ratio), ratio / (3 * (6 / 29) ** 2) + 4 / 29)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def test_cielab_of_known_colours() -> None:
    # sRGB red and mid grey as colour tables give them.
    np.testing.assert_allclose(cielab(linear("#ff0000")), [53.24, 80.09, 67.20], atol=0.05)
    np.testing.assert_allclose(cielab(linear("#808080")), [53.59, 0.0, 0.0], atol=0.05)


@pytest.mark.parametrize("kind", VISION)
def test_colours_differ_for_everybody(kind: str) -> None:
    seen = {name: cielab(VISION[kind] @ linear(colour)) for name, colour in style.PALETTE.items()}
    apart = {pair: np.linalg.norm(seen[pair[0]] - seen[pair[1]]) for pair in combinations(seen, 2)}
    assert min(apart.values()) > LEAST_APART, min(apart, key=apart.__getitem__)


def test_the_test_finds_what_deuteranopes_confuse() -> None:
    # The purple and grey that the package once had side by side: 40 units apart for most, 7 for deuteranopes.
    purple, grey = (cielab(VISION["deuteranopia"] @ linear(colour)) for colour in ("#CC79A7", "#9a9a9a"))
    assert np.linalg.norm(purple - grey) < LEAST_APART


def test_lines_differ_without_colour() -> None:
    looks = [style.line(number) for number in range(12)]
    assert len({(look["marker"], str(look["linestyle"])) for look in looks}) == 12


def test_one_palette_and_no_circles() -> None:
    """No drawing has colours of its own; only `style` and plain things are imported when a drawing is."""
    for path in sorted((ROOT / "pypsa_aidc" / "plots").glob("*.py")):
        tree = ast.parse(path.read_text())
        for node in tree.body:
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("pypsa_aidc"):
                assert (node.module or "").split(".")[1] in ("plots", "errors", "plain", "units"), (
                    f"{path}: {node.module}"
                )
            assert not isinstance(node, ast.Import) or "pyplot" not in node.names[0].name
        assert "pyplot" not in {name.rsplit(".", 1)[-1] for name in _imported(tree)}, path


def test_drawings_are_imported_where_something_is_drawn() -> None:
    """The package starts without matplotlib's figures: no module imports a drawing when it is imported itself."""
    for path in sorted((ROOT / "pypsa_aidc").rglob("*.py")):
        if path.parent.name != "plots":
            top = [node for node in ast.parse(path.read_text()).body if isinstance(node, ast.ImportFrom)]
            assert not [node.module for node in top if (node.module or "").startswith("pypsa_aidc.plots")], path


def test_only_plots_draw() -> None:
    """matplotlib's artists are made in one package; the others import it where they type or write figures."""
    for path in sorted((ROOT / "pypsa_aidc").rglob("*.py")):
        if path.parent.name != "plots":
            text = path.read_text()
            assert not any(word in text for word in (".subplots(", ".add_subplot(", "pyplot")), path


def _imported(tree: ast.Module) -> set[str]:
    nodes = [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
    return {alias.name for node in nodes for alias in node.names} | {
        getattr(node, "module", "") or "" for node in nodes
    }


@pytest.mark.parametrize(
    ("index", "label", "ticks"),
    [
        (pd.date_range("2030-07-01", periods=24, freq="h"), "time (2030-07-01)", ["00:00", "03:00", "06:00"]),
        (
            pd.date_range("2030-07-01", periods=48, freq="h"),
            "time (2030-07-01 to 2030-07-02)",
            ["01 Jul", "06:00", "12:00"],
        ),
        (
            pd.date_range("2030-07-01", periods=72, freq="h"),
            "time (2030-07-01 to 2030-07-03)",
            ["01 Jul", "12:00", "02 Jul"],
        ),
        (
            pd.date_range("2030-07-01", periods=168, freq="h"),
            "time (2030-07-01 to 2030-07-07)",
            ["01 Jul", "02 Jul", "03 Jul"],
        ),
        (pd.RangeIndex(24), "snapshot", ["0", "5", "10"]),
        (
            pd.MultiIndex.from_product([[2030, 2040], pd.date_range("2030-01-01", periods=4, freq="h")]),
            "snapshot, by period",
            ["2030", "2040"],
        ),
    ],
)
def test_whole_dates_at_the_axis(index: pd.Index, label: str, ticks: list[str]) -> None:
    @style.styled
    def drawn() -> Figure:
        figure, axes = style.canvas()
        axes[0, 0].stairs(np.ones(len(index)), style.slot_edges(index))
        style.time_axis(axes[0, 0], index)
        return figure

    figure = drawn()
    figure.draw_without_rendering()
    axis = figure.axes[0].xaxis
    assert axis.get_label_text() == label
    assert [text.get_text() for text in axis.get_ticklabels()][: len(ticks)] == ticks
    # The end of the axis says nothing that looks like another date.
    assert axis.get_offset_text().get_text() == ""


@style.styled
def _bars(values: list[float], errors: list[float] | None = None, horizontal: bool = True) -> Figure:
    figure, axes = style.canvas()
    axis = axes[0, 0]
    draw = axis.barh if horizontal else axis.bar
    bars = draw([f"b{place}" for place in range(len(values))], values, **({"xerr": errors} if errors else {}))
    style.label_bars(axis, bars, [f"{value:,.0f}" for value in values], errors)
    axis.margins(x=0.2, y=0.2)
    return figure


@pytest.mark.parametrize("horizontal", [True, False])
def test_labels_do_not_strike_their_bar(horizontal: bool) -> None:
    figure = _bars([12000.0, -5000.0, 0.0], [800.0, 300.0, 0.0] if horizontal else None, horizontal)
    figure.draw_without_rendering()
    (axes,) = figure.axes
    assert [text.get_text() for text in axes.texts] == ["12,000", "-5,000", "0"]
    bars = [bar.get_window_extent() for bar in axes.patches]
    assert not any(
        text.get_window_extent().overlaps(bar) for text in axes.texts for bar in bars if bar.width * bar.height
    )
    if horizontal:
        # Beyond the error bar, which ends at 12,800.
        assert axes.texts[0].get_window_extent().x0 > axes.transData.transform((12800, 0))[0]
        assert "10,000" in [text.get_text() for text in axes.get_xticklabels()]


def test_names_on_a_map_do_not_hide_each_other() -> None:
    figure, axes = style.canvas()
    rng = np.random.default_rng(0)
    points = rng.uniform(0, 1, (40, 2))
    axes[0, 0].set(xlim=(0, 1), ylim=(0, 1))
    style.place_labels(axes[0, 0], [(x, y, f"bus {number}") for number, (x, y) in enumerate(points)])
    figure.draw_without_rendering()
    boxes = [text.get_window_extent() for text in axes[0, 0].texts]
    assert len(boxes) > 25
    assert axes[0, 0].texts[0].get_text() == "bus 0"
    assert not any(one.overlaps(other) for one, other in combinations(boxes, 2))


def test_threads_draw_the_same_and_leave_the_style_of_the_user(tmp_path: Path) -> None:
    before = dict(mpl.rcParams)
    with ThreadPoolExecutor(4) as pool:
        figures = list(pool.map(_bars, [[12000.0, 3.0]] * 8))
    assert dict(mpl.rcParams) == before
    drawn = set()
    for number, figure in enumerate(figures):
        figure.savefig(tmp_path / f"{number}.png", metadata={"Software": None}, dpi=50)
        drawn.add((tmp_path / f"{number}.png").read_bytes())
    assert len(drawn) == 1
