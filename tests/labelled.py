"""Whether a figure says on its axes what it shows, and in which unit."""

from __future__ import annotations

import re
from io import BytesIO

from matplotlib.figure import Figure

UNIT = re.compile(
    r"\((MW|kW|MWh|USD|USD/MWh|h|s|%|day|days|GB|GPU-h|count|trace-local|PFLOP/s|"
    r"\d{4}-\d\d-\d\d.*|height: .*|in the .*)\)"
)
PLAIN = re.compile(
    r"day|snapshot|snapshot, by period|longitude|latitude|GPUs|reliability|.*firmness.*|.*ratio|factor on K|"
    r"coverage of the next weeks|clusters in the portfolio|autocorrelation|first day of window|window|"
    r"lowest mean / hourly mean"
)
"""Labels of what needs no unit: dates, counts, shares of 1."""


def assert_labelled(drawn: object) -> Figure:
    """Each axis has a label with a unit, words as ticks, or no ticks of its own because it shares another's."""
    figure = drawn if isinstance(drawn, Figure) else drawn.figure  # type: ignore[attr-defined]
    figure.savefig(BytesIO(), dpi=30)
    assert figure.axes
    for axes in figure.axes:
        if axes.get_label() == "<colorbar>":
            continue
        for axis in (axes.xaxis, axes.yaxis):
            label = axis.get_label_text()
            ticks = [text.get_text() for text in axis.get_ticklabels() if text.get_visible()]
            if label:
                assert UNIT.search(label) or PLAIN.fullmatch(label), f"{label!r} has no unit"
            else:
                assert not ticks or any(re.search("[a-zA-Z]", text) for text in ticks), f"no label at ticks {ticks}"
    return figure
