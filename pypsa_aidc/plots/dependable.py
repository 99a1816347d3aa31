"""Figures of dependable power: 4, 13, 14, 15 and 16 of [2]."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pypsa_aidc.plots.style import (
    BLACK,
    BLUE,
    CYCLE,
    GREEN,
    GREY,
    HATCHES,
    MAP,
    ORANGE,
    SKY,
    canvas,
    duration_axis,
    label_bars,
    legend,
    line,
    styled,
)

if TYPE_CHECKING:
    from pypsa_aidc.fleet.contract import Contract
    from pypsa_aidc.fleet.studies.backtest import Backtest
    from pypsa_aidc.fleet.studies.counterfactual import Counterfactuals
    from pypsa_aidc.fleet.studies.portfolio import Portfolios
    from pypsa_aidc.fleet.studies.uncertainty import Bootstrap
    from pypsa_aidc.fleet.surface import Surface
    from pypsa_aidc.fleet.term_sheet import TermSheet

_REPRESENTATIONS = ("mean share", "tail-calibrated share", "time-shuffled", "independent, detrended")
"""What is drawn beside the observed one."""


@styled
def plot_surface(surface: Surface) -> Figure:
    """Draw K over duration, one line for each reliability."""
    figure, axes = canvas(1, 1, synthetic=bool(surface.data.attrs.get("synthetic")))
    axis = axes[0, 0]
    for number, alpha in enumerate(surface.data["reliability"].to_numpy()):
        axis.plot(
            surface.data["duration"],
            surface.K.sel(reliability=alpha),
            markersize=4,
            label=f"α = {alpha:g}",
            **line(number),
        )
    duration_axis(axis, surface.data["duration"].to_numpy().tolist())
    axis.set(
        ylabel="dependable power K (MW)",
        ylim=(0, None),
        title=f"by duration and reliability, realised fraction q = {surface.data.attrs.get('q', 1):g}",
    )
    legend(axis)
    return figure


@styled
def plot_bootstrap(bootstrap: Bootstrap, quantiles: tuple[float, float] = (0.05, 0.95)) -> Figure:
    """Draw K over duration with its bootstrap band, one colour for each reliability."""
    figure, axes = canvas(1, 1, synthetic=bool(bootstrap.data.attrs["synthetic"]))
    axis = axes[0, 0]
    low, middle, high = bootstrap.band((quantiles[0], 0.5, quantiles[1]))
    durations = bootstrap.data["duration"].to_numpy().tolist()
    for number, alpha in enumerate(bootstrap.data["reliability"].to_numpy()):
        style = line(number)
        band = [edge.sel(reliability=alpha) for edge in (low, high)]
        axis.fill_between(durations, *band, color=style["color"], alpha=0.15, linewidth=0)
        axis.plot(durations, middle.sel(reliability=alpha), markersize=4, label=f"α = {alpha:g}", **style)
    duration_axis(axis, durations)
    span = f"P{100 * quantiles[0]:g}–P{100 * quantiles[1]:g}"
    count = bootstrap.data.sizes["replicate"]
    axis.set(ylabel="dependable power K (MW)", ylim=(0, None), title=f"median and {span} of {count} replicates")
    legend(axis)
    return figure


@styled
def plot_contract(contract: Contract) -> Figure:
    """Draw what one call asks of the load: relief, then rebound until it is recovered, then the next call."""
    figure, axes = canvas(1, 1, synthetic=contract.synthetic)
    axis = axes[0, 0]
    hours, recovery = float(contract.duration), contract.recovery_time
    rise = contract.rebound_energy / recovery if recovery else 0.0
    parts = (
        ("call: dependable relief", 0.0, hours, -contract.offer, GREEN),
        ("recovery: rebound", hours, hours + recovery, rise, ORANGE),
        ("next call, at the earliest", hours + recovery, 2 * hours + recovery, -contract.offer, GREY),
    )
    for label, start, end, level, colour in parts:
        axis.fill_between([start, end], [level, level], color=colour, alpha=0.75, linewidth=0, label=label)
    axis.axhline(0, color=BLACK, linewidth=0.8)
    if contract.power > contract.offer:
        label = f"K before q = {contract.q:.3g} and derating = {contract.derating:.3g}"
        axis.plot([0, hours], [-contract.power] * 2, color=BLACK, linestyle="--", linewidth=1.2, label=label)
    low, high = -contract.power, max(rise, 0.3 * contract.offer)
    axis.set(
        xlabel="time from the start of a call (h)",
        ylabel="change of workload power (MW)",
        xlim=(0, parts[-1][2]),
        title=f"{contract.offer:.3g} MW for {contract.duration} h at α = {contract.reliability:g}",
    )
    axis.set_ylim(1.1 * low if low else -1.0, 1.2 * high if high > low else 1.0)
    legend(axis)
    return figure


@styled
def plot_term_sheet(sheet: TermSheet) -> Figure:
    """Draw the megawatts of a term sheet, by year and season where given, and its sources of relief."""
    rows: list[tuple[str, float, str, str]] = []
    for name, colour in (("ramp", SKY), ("conditional", ORANGE), ("firm", BLUE), ("floor", GREY)):
        for each in getattr(sheet, name) or ():
            when = " ".join(str(part) for part in (each.year, each.season) if part is not None)
            rows.append((f"{name} {when}".strip(), each.mw, colour, f"{each.mw:,.4g} MW"))
    for source in sheet.sources or ():
        if source.mw is not None:
            hours = "" if source.hours is None else f" for {source.hours:g} h"
            rows.append((f"relief: {source.source}", source.mw, GREEN, f"{source.mw:,.4g} MW{hours}"))
    # Where the data come from, the sheet says in words.
    synthetic = "synthetic fleet" in (sheet.data or "")
    figure, axes = canvas(height=1.1 + 0.32 * max(len(rows), 1), synthetic=synthetic)
    axis = axes[0, 0]
    # Places, not names: a sheet may have two batteries.
    bars = axis.barh(range(len(rows)), [mw for _, mw, _, _ in rows], 0.6, color=[colour for _, _, colour, _ in rows])
    label_bars(axis, bars, [text for *_, text in rows])
    axis.set_yticks(range(len(rows)), [name for name, *_ in rows])
    axis.invert_yaxis()
    axis.grid(visible=False, axis="y")
    axis.set_xlim(0, 1.35 * max((mw for _, mw, _, _ in rows), default=1.0) or 1.0)
    known = "" if rows else "no megawatts, "
    axis.set(xlabel="power at the meter (MW)", title=f"{sheet.id}: {known}{len(sheet.missing)} fields missing")
    return figure


@styled
def plot_counterfactuals(
    result: Counterfactuals,
    portfolios: Portfolios | None = None,
    independent: pd.Series[float] | None = None,
    reliability: float = 0.95,
) -> Figure:
    """Draw K over duration against what a planner might assume, and firmness over portfolio size (Fig. 4 of [2]).

    Parameters
    ----------
    result
        From `pypsa_aidc.fleet.counterfactuals`.
    portfolios
        Adds the second panel.
    independent
        Firmness of independent clusters by portfolio size, for that panel.
    reliability
        Level to draw.
    """
    panels = 1 if portfolios is None else 2
    figure, axes = canvas(panels, 1, synthetic=bool(result.data.attrs["synthetic"]))
    left = axes[0, 0]
    K = result.data["K"].sel(reliability=reliability)
    durations = K["duration"].to_numpy().tolist()
    left.plot(durations, K.sel(representation="observed"), linewidth=2.2, label="observed", **line(0))
    for number, name in enumerate(_REPRESENTATIONS, 1):
        left.plot(durations, K.sel(representation=name), linewidth=1.2, label=name, **line(number))
    duration_axis(left, durations)
    left.set(ylabel="dependable power K (MW)", ylim=(0, None), title=f"(a) K at α = {reliability:g}")
    legend(left)
    if portfolios is not None:
        curve = portfolios.curve(reliability=reliability)
        right = axes[1, 0]
        _subsets(right, curve, "observed, mean of subsets")
        if independent is not None:
            right.plot(
                independent.index,
                independent,
                color=GREEN,
                linestyle="--",
                marker="s",
                markersize=3.5,
                label="independent clusters",
            )
        right.set(
            xlabel="clusters in the portfolio",
            ylabel="four-hour firmness K / mean",
            ylim=(0, 1),
            title="(b) portfolio size",
        )
        legend(right)
    return figure


def _subsets(axis: Axes, curve: pd.DataFrame, label: str) -> None:
    low, high = curve["lowest"], curve["highest"]
    axis.fill_between(curve.index, low, high, color=BLUE, alpha=0.15, linewidth=0, label="range of subsets")
    axis.plot(curve.index, curve["firmness"], color=BLUE, marker="o", markersize=4, label=label)


@styled
def plot_portfolios(portfolios: Portfolios) -> Figure:
    """Draw firmness over portfolio size (Fig. 4b of [2])."""
    data = portfolios.data
    duration, alpha = int(data["duration"][-1]), float(data["reliability"][-1])
    curve = portfolios.curve(duration, alpha)
    figure, axes = canvas(1, 1, synthetic=bool(data.attrs["synthetic"]))
    axis = axes[0, 0]
    _subsets(axis, curve, "mean of subsets")
    axis.set(xlabel="clusters in the portfolio", ylabel=f"firmness at {duration} h, α = {alpha:g}", ylim=(0, 1))
    legend(axis)
    return figure


@styled
def plot_eras(surface: Surface, eras: pd.DataFrame) -> Figure:
    """Draw firmness over the whole grid, and four-hour firmness by era (Fig. 13 of [2]).

    Parameters
    ----------
    surface
        Of the whole trace.
    eras : pandas.DataFrame
        Index era, column `firmness`.
    """
    rows = surface.firmness.shape[0] + len(eras)
    figure, axes = canvas(2, 1, height=2.4 + 0.28 * rows, synthetic=bool(surface.data.attrs.get("synthetic")))
    left, right = axes[:, 0]
    firmness = surface.firmness.to_numpy()
    image = left.imshow(firmness, cmap=MAP, vmin=0.3, vmax=1.0, aspect="auto")
    left.grid(visible=False)
    left.set_xticks(range(firmness.shape[1]), [f"{alpha:g}" for alpha in surface.data["reliability"].to_numpy()])
    left.set_yticks(range(firmness.shape[0]), [f"{h} h" for h in surface.data["duration"].to_numpy()])
    for row, column in np.ndindex(*firmness.shape):
        shade = "white" if firmness[row, column] < 0.75 else "black"
        left.text(column, row, f"{firmness[row, column]:.2f}", ha="center", va="center", color=shade, fontsize=8)
    left.set(xlabel="reliability", title="(a) firmness K / mean")
    figure.colorbar(image, ax=left, shrink=0.9, label="firmness")
    bars = right.barh(range(len(eras)), eras["firmness"], color=BLUE, height=0.65)
    label_bars(right, bars, [f"{value:.2f}" for value in eras["firmness"]])
    right.grid(visible=False, axis="y")
    right.set_yticks(range(len(eras)), eras.index)
    right.invert_yaxis()
    right.set(xlabel="four-hour firmness at α = 0.95", xlim=(0, 1.08), title="(b) eras and thirty-day windows")
    return figure


@styled
def plot_realised(
    surface: Surface, offers: Sequence[float] = (1.0, 1.8), duration: int = 4, reliability: float = 0.95
) -> Figure:
    """Draw dependable power over the realised fraction q, with the q that an offer needs (Fig. 14 of [2])."""
    figure, axes = canvas(1, 1, synthetic=bool(surface.data.attrs.get("synthetic")))
    axis = axes[0, 0]
    full = float(surface.K.sel(duration=duration, reliability=reliability)) / surface.data.attrs["q"]
    axis.plot([0, 1], [0, full])
    for offer in (offer for offer in offers if offer <= full):
        axis.plot([0, offer / full, offer / full], [offer, offer, 0], color=GREY, linestyle=":", linewidth=1)
        axis.annotate(
            f"{offer:g} MW needs q ≥ {offer / full:.3f}", (0.01, offer), (0, 3), textcoords="offset points", fontsize=8
        )
    axis.set(
        xlim=(0, 1),
        ylim=(0, 1.05 * full),
        xlabel="realised fraction q",
        ylabel=f"K at {duration} h, α = {reliability:g} (MW)",
    )
    return figure


@styled
def plot_backtest(absolute: Backtest, normalised: Backtest | None = None) -> Figure:
    """Draw test coverage by origin, and the derating that the mean coverage needs (Fig. 15 of [2])."""
    figure, axes = canvas(2, 1, synthetic=absolute.synthetic)
    left, right = axes[:, 0]
    for number, (h, folds) in enumerate(absolute.folds.groupby("duration")):
        left.plot(folds["origin"] / 24, folds["coverage"], markersize=4, label=f"{h} h", **line(number))
    aim = {"color": BLACK, "linestyle": ":", "linewidth": 1.2, "label": f"α = {absolute.reliability:g}"}
    left.axhline(absolute.reliability, **aim)
    left.set(xlabel="origin (day)", ylabel="coverage of the next weeks", ylim=(0, 1.03), title="(a) absolute MW")
    legend(left)
    tests = {"absolute, same folds": absolute.summary["factor"]}
    if normalised is not None:
        tests["normalised, same folds"] = normalised.summary["factor"]
    last = absolute.folds.dropna(subset="nested_factor").groupby("duration")["nested_factor"].last()
    tests["absolute, past folds only"] = last.reindex(absolute.summary.index)
    width = 0.8 / len(tests)
    for number, (name, factors) in enumerate(tests.items()):
        positions = np.arange(len(factors)) + (number - (len(tests) - 1) / 2) * width
        right.bar(positions, factors, width, label=name, color=CYCLE[number], hatch=HATCHES[number], edgecolor="white")
    right.axhline(1, color=BLACK, linestyle=":", linewidth=1)
    right.set_xticks(range(len(absolute.summary)), [f"{h} h" for h in absolute.summary.index])
    right.set(ylabel="factor on K", ylim=(0, 1.5), title="(b) derating")
    legend(right)
    return figure


@styled
def plot_net_energy(
    durations: Sequence[float] = (1, 2, 4, 8, 24),
    rebounds: Sequence[float] = (0.25, 0.5, 0.75, 1.0),
    checkpoints: Sequence[float] = (0.5, 1.0, 4.0),
    synthetic: bool = False,
) -> Figure:
    """Draw net over gross curtailed energy of a call (Fig. 16 of [2])."""
    from pypsa_aidc.fleet.contract import net_energy_ratio

    figure, axes = canvas(1, len(checkpoints), synthetic=synthetic, sharey=True)
    for axis, checkpoint in zip(axes[0], checkpoints, strict=True):
        for number, rebound in enumerate(rebounds):
            values = [net_energy_ratio(h, rebound, checkpoint) for h in durations]
            axis.plot(durations, values, markersize=4, label=f"rebound {rebound:g}", **line(number))
        axis.axhline(0, color=BLACK, linewidth=0.8)
        duration_axis(axis, [int(h) for h in durations])
        axis.set_title(f"checkpoint every {checkpoint:g} h")
    axes[0, 0].set_ylabel("net / gross curtailed energy")
    handles = axes[0, 0].get_legend_handles_labels()
    figure.legend(*handles, loc="outside lower center", ncols=len(rebounds))
    return figure
