"""Figures as bytes that are the same for the same figure."""

from __future__ import annotations

from io import BytesIO

import matplotlib as mpl
from matplotlib.figure import Figure


def svg(figure: Figure) -> bytes:
    """Return a figure as SVG without date, letters drawn as paths so that no font is needed."""
    with mpl.rc_context({"svg.hashsalt": "pypsa_aidc", "svg.fonttype": "path"}):
        return _written(figure, "svg", {"Date": None, "Creator": None})


def png(figure: Figure, dpi: int) -> bytes:
    """Return a figure as PNG."""
    with mpl.rc_context({"savefig.dpi": dpi}):
        return _written(figure, "png", {"Software": None})


def _written(figure: Figure, kind: str, metadata: dict[str, None]) -> bytes:
    buffer = BytesIO()
    figure.savefig(buffer, format=kind, metadata=metadata)
    return buffer.getvalue()
