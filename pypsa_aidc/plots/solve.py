"""How a solve ended: bounds, size and time, and the audit of what came out."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from matplotlib.figure import Figure

from pypsa_aidc.plots.style import BLUE, BROWN, GREEN, GREY, canvas, label_bars, styled

if TYPE_CHECKING:
    from pypsa_aidc.network.checks.after import AuditReport
    from pypsa_aidc.network.solve.result import Result


@styled
def plot_result(result: Result) -> Figure:
    """Draw objective and bound, binaries of the jobs before and after pruning, and where the time went.

    What is not known, such as the bound of a solver that was stopped early, is left out.
    """
    figure, axes = canvas(3, 1, height=4.2)
    panels: tuple[tuple[dict[str, float], str, str, str], ...] = (
        ({"objective": result.objective, "bound": result.bound}, "cost (USD)", "{:,.2f}", BLUE),
        ({"edges": result.edges, "before pruning": result.edges_before_pruning}, "binaries (count)", "{:,.0f}", GREY),
        ({"build": result.build_seconds, "solve": result.solve_seconds}, "time (s)", "{:,.2f}", GREEN),
    )
    for axis, (values, label, form, colour) in zip(axes[:, 0], panels, strict=True):
        known = {name: float(value) for name, value in values.items() if np.isfinite(value)}
        bars = axis.barh(list(known), list(known.values()), 0.6, color=colour)
        label_bars(axis, bars, [form.format(value) for value in known.values()])
        axis.invert_yaxis()
        axis.grid(visible=False, axis="y")
        axis.set_xlabel(label)
        axis.margins(x=0.2)
    gap = f"gap {result.gap:.3%}" if np.isfinite(result.gap) else "no bound yet"
    axes[0, 0].set_title(f"{result.status}, {gap}")
    return figure


@styled
def plot_audit(report: AuditReport) -> Figure:
    """Draw the worst violation of each kind of check; what failed is brown and hatched, an exact 0 has no bar."""
    checks = report.to_frame()
    worst = checks.groupby("check", sort=False).agg({"violation": "max", "unit": "first", "passed": "all"})
    names = [f"{check} ({unit})" if unit else str(check) for check, unit in worst["unit"].items()]
    violation, passed = worst["violation"].to_numpy(float), worst["passed"].to_numpy(bool)
    drawn = np.isfinite(violation) & (violation > 0)
    least = min(float(violation[drawn].min(initial=1e-6)), 1e-6)
    most = max(float(violation[drawn].max(initial=1e-6)), 1e-6)
    left = 10.0 ** (np.floor(np.log10(least)) - 1)
    figure, axes = canvas(height=1.1 + 0.24 * len(worst))
    axis = axes[0, 0]
    places = np.arange(len(worst))
    lengths = np.where(drawn, violation, np.where(np.isinf(violation), most * 1e3, left))
    axis.barh(
        places,
        lengths - left,
        0.6,
        left,
        color=[BLUE if fine else BROWN for fine in passed],
        hatch=["" if fine else "////" for fine in passed],
        edgecolor="white",
    )
    for place, length, value in zip(places, lengths, violation, strict=True):
        text = "0" if value == 0 else "without bound" if np.isinf(value) else f"{value:.1e}"
        axis.annotate(text, (length, place), (4, 0), textcoords="offset points", va="center", fontsize=8)
    axis.set_yticks(places, names)
    axis.set_xscale("log")
    right = max(float(lengths.max()), most)
    axis.set_xlim(left, right * (right / left) ** 0.2)
    axis.invert_yaxis()
    axis.grid(visible=False, axis="y")
    axis.set_xlabel("worst violation (in the unit of the check)")
    failed = int((~checks["passed"]).sum())
    axis.set_title(f"{len(checks) - failed:,} of {len(checks):,} checks passed")
    return figure
