"""Figures of how a solve ended: bounds and size, audit, prices, values of flexibility, headroom; from plain frames."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import cycle

import numpy as np
import pandas as pd
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure

from pypsa_aidc.plots.sites import (
    BLACK,
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    PURPLE,
    RED,
    SKY,
    YELLOW,
    format_time,
    positions,
    power_unit,
    slot_edges,
)

_SITE_COLOURS = (BLUE, ORANGE, GREEN, PURPLE, SKY, RED)
_LEAST_APART = 0.04
"""Share of the horizon between two calls of a fleet from which there is room for their durations."""
_LEAST_SHOWN = 1e-16
"""Violation that is drawn for an exact 0, which has no place on a logarithmic axis."""


def outcome(
    objective: float, bound: float, sizes: Mapping[str, float], seconds: Mapping[str, float], title: str = ""
) -> Figure:
    """Draw objective and bound, size of the problem, and where the time went.

    Parameters
    ----------
    objective, bound
        USD; a bound of NaN is left out.
    sizes
        Numbers of binaries by name.
    seconds
        Durations by name.
    title
        Title, for example the status.
    """
    figure = Figure(figsize=(9, 2.6), layout="constrained")
    panels = (
        ({"objective": objective, "bound": bound}, "USD", "{:,.2f}", BLUE),
        (sizes, "binaries of the jobs (count)", "{:,.0f}", ORANGE),
        (seconds, "time (s)", "{:.2f}", GREEN),
    )
    for ax, (values, label, form, colour) in zip(figure.subplots(1, 3), panels, strict=True):
        known = {name: value for name, value in values.items() if np.isfinite(value)}
        bars = ax.barh(list(known), list(known.values()), 0.6, color=colour)
        ax.bar_label(bars, [form.format(value) for value in known.values()], padding=3)
        ax.invert_yaxis()
        ax.set_xlabel(label)
        ax.margins(x=0.35)
    figure.suptitle(title)
    return figure


def audit(checks: pd.DataFrame) -> Figure:
    """Draw the worst violation of each kind of check on a logarithmic axis; what failed is red and hatched.

    Parameters
    ----------
    checks
        Columns `check`, `violation` (in `unit`), `unit`, `passed`.
    """
    worst = checks.groupby("check", sort=False).agg({"violation": "max", "unit": "first", "passed": "all"})
    names = [f"{check} ({unit})" if unit else str(check) for check, unit in worst["unit"].items()]
    highest = max(float(checks["violation"][np.isfinite(checks["violation"])].max()), 1e-6) * 1e3
    figure = Figure(figsize=(9, 1.2 + 0.28 * len(worst)), layout="constrained")
    ax = figure.subplots()
    bars = ax.barh(
        names,
        worst["violation"].clip(_LEAST_SHOWN, highest),
        0.65,
        color=[BLUE if passed else RED for passed in worst["passed"]],
        hatch=["" if passed else "///" for passed in worst["passed"]],
        edgecolor="white",
    )
    ax.bar_label(bars, [f"{value:.1e}" if value else "0" for value in worst["violation"]], padding=3, fontsize=8)
    ax.set_xscale("log")
    ax.set_xlim(_LEAST_SHOWN / 2, 50 * highest)
    ax.invert_yaxis()
    ax.set(xlabel="worst violation (in the unit of the check)")
    failed = int((~checks["passed"]).sum())
    ax.set_title(f"{len(checks) - failed} of {len(checks)} checks passed")
    return figure


def prices(price: pd.DataFrame, meter: pd.DataFrame, title: str = "") -> Figure:
    """Draw the price at the grid bus of each site above the power it draws there.

    Parameters
    ----------
    price, meter
        USD/MWh and MW; one row a snapshot, one column a site.
    title
        Title, for example where the prices come from.
    """
    figure = Figure(figsize=(9, 4.6), layout="constrained")
    upper, lower = figure.subplots(2, 1, sharex=True)
    edges = slot_edges(price.index)
    unit, scale = power_unit(float(meter.to_numpy().max()))
    for site, colour in zip(price, cycle(_SITE_COLOURS), strict=False):
        upper.stairs(price[site].to_numpy(), edges, baseline=None, color=colour, linewidth=1.8, label=str(site))
        lower.stairs(scale * meter[site].to_numpy(), edges, baseline=None, color=colour, linewidth=1.8, label=str(site))
    upper.set(ylabel="price (USD/MWh)", title=title)
    lower.set(ylabel=f"at the meter ({unit})", ylim=(0, None))
    for ax in (upper, lower):
        ax.margins(x=0)
        ax.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)
    format_time(lower, price.index)
    return figure


def fleet(power: pd.DataFrame, calls: pd.DataFrame, title: str = "") -> Figure:
    """Draw what a fleet draws at its meter, and below it relief and rebound, with the calls marked in both.

    Parameters
    ----------
    power
        MW; one row a snapshot, columns ``"load"``, ``"relief"``, ``"rebound"`` and ``"meter"``.
    calls
        Calls of this fleet: `start` and `last` (their first and last snapshots), `duration` (h).
    title
        Title, for example its name.
    """
    figure = Figure(figsize=(9, 4.6), layout="constrained")
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=[3, 2])
    edges = slot_edges(power.index)
    lefts, rights = edges[positions(power.index, calls["start"])], edges[positions(power.index, calls["last"]) + 1]
    unit, scale = power_unit(float(power[["load", "meter"]].to_numpy().max(initial=0.0)))
    for ax in (upper, lower):
        for call, (left, right) in enumerate(zip(lefts, rights, strict=True)):
            ax.axvspan(left, right, color=YELLOW, alpha=0.5, linewidth=0, zorder=0, label="" if call else "call")
    upper.stairs(scale * power["meter"].to_numpy(), edges, baseline=None, color=BLUE, linewidth=1.8, label="meter")
    load = {"color": BLACK, "linewidth": 1.0, "linestyle": "--", "label": "load without relief"}
    upper.stairs(scale * power["load"].to_numpy(), edges, baseline=None, **load)
    relief = {"fill": True, "color": ORANGE, "hatch": "////", "edgecolor": "white", "label": "relief"}
    lower.stairs(scale * power["relief"].to_numpy(), edges, **relief)
    if power["rebound"].any():
        lower.stairs(-scale * power["rebound"].to_numpy(), edges, fill=True, color=PURPLE, label="rebound")
    middles = (lefts + rights) / 2
    if np.diff(middles, prepend=-np.inf).min(initial=np.inf) > _LEAST_APART * (edges[-1] - edges[0]):
        for middle, hours in zip(middles, calls["duration"], strict=True):
            upper.text(
                middle, 0.97, f"{hours:g} h", transform=upper.get_xaxis_transform(), ha="center", va="top", fontsize=9
            )
    # Room above the power, for the durations.
    highest = scale * float(power[["load", "meter"]].to_numpy().max(initial=0.0))
    upper.set(ylabel=f"power ({unit})", ylim=(0, 1.2 * highest or 1.0), title=title)
    lower.axhline(0, color=GREY, linewidth=0.8)
    lower.set(ylabel=f"relief ({unit})")
    for ax in (upper, lower):
        ax.margins(x=0)
        ax.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)
    format_time(lower, power.index)
    return figure


def flexibility(table: pd.DataFrame) -> Figure:
    """Draw what GPUs, connection and waiting are worth at each site, with the uncertainty of the gaps.

    Parameters
    ----------
    table
        As `n.aidc.values` gives it: index (site, what), `step`, `unit`, `value` and `uncertainty` in USD. An infinite
        value is written out: without it the jobs cannot be done.
    """
    words = {"gpus": "more GPUs", "p_nom": "a larger connection", "waiting": "permission to wait"}
    steps = [f" ({step:+g} {unit})" if unit else "" for step, unit in zip(table["step"], table["unit"], strict=True)]
    parts = [(str(site), str(what)) for site, what in table.index]
    names = [f"{site}: {words.get(what, what)}{step}" for (site, what), step in zip(parts, steps, strict=True)]
    finite = np.isfinite(table["value"])
    figure = Figure(figsize=(9, 1.2 + 0.4 * len(table)), layout="constrained")
    ax = figure.subplots()
    bars = ax.barh(
        names, table["value"].where(finite, 0.0), 0.6, xerr=table["uncertainty"].where(finite, 0.0), color=BLUE
    )
    labels = [f"{value:.2f} USD" if known else "needed" for value, known in zip(table["value"], finite, strict=True)]
    ax.bar_label(bars, labels, padding=4)
    ax.axvline(0, color=GREY, linewidth=0.8)
    ax.invert_yaxis()
    ax.margins(x=0.2)
    ax.set(xlabel="value over the horizon (USD)")
    return figure


def headroom_map(headroom: pd.Series[float], buses: pd.DataFrame, branches: pd.DataFrame) -> Figure:
    """Draw buses where they lie, coloured by headroom, with the branches between them.

    Parameters
    ----------
    headroom
        MW by bus; infinite where nothing limits it.
    buses
        Columns `x` and `y` by bus.
    branches
        Columns `bus0` and `bus1`.
    """
    figure = Figure(figsize=(7, 6), layout="constrained")
    ax = figure.subplots()
    place = buses[["x", "y"]]
    ends = np.stack([place.reindex(branches[end]).to_numpy(float) for end in ("bus0", "bus1")], axis=1)
    ax.add_collection(LineCollection(list(ends), colors=GREY, linewidths=0.7, zorder=1))
    found = place.loc[headroom.index]
    finite = np.isfinite(headroom)
    points = ax.scatter(
        found["x"][finite], found["y"][finite], c=headroom[finite], cmap="cividis", s=28, zorder=2, edgecolors="white"
    )
    if not finite.all():
        ax.scatter(found["x"][~finite], found["y"][~finite], marker="s", s=24, color=SKY, label="not limited", zorder=2)
        ax.legend(frameon=False)
    figure.colorbar(points, ax=ax, label="headroom (MW)", shrink=0.8)
    ax.set(xlabel="x of the buses (degrees or m)", ylabel="y of the buses (degrees or m)", aspect="equal")
    return figure
