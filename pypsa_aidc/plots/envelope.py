"""Figures of load and layers: 1, 3, 7 and 12 of [2]."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from pypsa_aidc.plots.style import (
    BLACK,
    BLUE,
    BROWN,
    GREEN,
    GREY,
    LAYER_COLOURS,
    LAYER_NAMES,
    ORANGE,
    canvas,
    label_bars,
    legend,
    styled,
)

if TYPE_CHECKING:
    from pypsa_aidc.fleet.envelope import Envelope
    from pypsa_aidc.fleet.studies.load_shape import LoadShape
    from pypsa_aidc.fleet.studies.montecarlo import Ensemble

_MONTH = 720
"""Hours of a window of thirty days."""


@styled
def plot_load(ensemble: Ensemble) -> Figure:
    """Draw the facility band over time and its clock-hour profile (Fig. 1 of [2])."""
    band = ensemble.to_frame()
    figure, axes = canvas(2, 1, height=4.8, synthetic=bool(ensemble.data.attrs["synthetic"]))
    top, bottom = axes[:, 0]
    days = band.index.to_numpy() / 24
    top.fill_between(days, band["p5"], band["p95"], color=BLUE, alpha=0.2, linewidth=0, label="P5–P95 of power models")
    top.plot(days, band["p50"], color=BLUE, linewidth=0.6, label="median")
    top.set(xlabel="day", ylabel="facility power (MW)", xlim=(days[0], days[-1]), title="hourly facility power")
    legend(top)
    clock = band.groupby(band.index.to_numpy() % 24).mean()
    bottom.plot(clock.index, clock["p50"], color=BLUE, marker="o", markersize=3)
    bottom.set(
        xlabel="clock hour (trace-local)", ylabel="median (MW)", xticks=range(0, 24, 3), title="mean clock-hour profile"
    )
    return figure


@styled
def plot_load_shape(shape: LoadShape) -> Figure:
    """Draw the mean clock-hour profile of a load between its trough and peak, and its autocorrelation."""
    figure, axes = canvas(2, 1, height_ratios=[3, 2])
    left, right = axes[:, 0]
    left.plot(range(24), shape.clock, color=BLUE, marker="o", markersize=3, label="mean of the clock hour")
    for name, colour, dashes in (("peak", BROWN, "--"), ("mean", GREY, "-"), ("trough", ORANGE, ":")):
        left.axhline(getattr(shape, name), color=colour, linestyle=dashes, linewidth=1.4, label=name)
    left.set(xlabel="clock hour (trace-local)", ylabel="power (MW)", xticks=range(0, 24, 3))
    left.set_title(f"load factor {shape.load_factor:.2f}")
    legend(left)
    right.bar([f"{lag} h" for lag in shape.autocorrelation], list(shape.autocorrelation.values()), 0.5, color=BLUE)
    right.axhline(0, color=BLACK, linewidth=0.8)
    right.set(xlabel="lag (h)", ylabel="autocorrelation", ylim=(None, 1.0))
    return figure


@styled
def plot_boundary(envelope: Envelope) -> Figure:
    """Draw the mean clock-hour envelope, and eligible power on both boundaries (Fig. 3 of [2])."""
    figure, axes = canvas(2, 1, synthetic=envelope.synthetic, height_ratios=[3, 1])
    left, right = axes[:, 0]
    hours = envelope.data["hour"].to_numpy()
    layers = envelope.layers().to_pandas()
    clock = pd.DataFrame(layers).groupby(hours % 24).mean()
    base = np.zeros(len(clock))
    for layer in LAYER_NAMES:
        left.fill_between(
            clock.index, base, base + clock[layer], color=LAYER_COLOURS[layer], label=LAYER_NAMES[layer], linewidth=0
        )
        base = base + clock[layer].to_numpy()
    relief = envelope.relief().sum("cluster", skipna=False).to_series().groupby(hours % 24).mean()
    left.plot(
        clock.index,
        base - relief.to_numpy(),
        color=BLACK,
        linestyle="--",
        label="with eligible work preempted, GPUs idle",
    )
    left.set(xlabel="clock hour (trace-local)", ylabel="workload power (MW)", xlim=(0, 23), title="(a) layers")
    left.set_ylim(0, None)
    legend(left)
    means = [
        float(envelope.relief(boundary=boundary).sum("cluster", skipna=False).mean())
        for boundary in ("attributed", "idle-retained")
    ]
    bars = right.barh(["attributed", "idle retained"], means, 0.6, color=[GREY, GREEN])
    label_bars(right, bars, [f"{mean:,.2f}" for mean in means])
    right.invert_yaxis()
    right.margins(x=0.12)
    right.grid(visible=False, axis="y")
    right.set(xlabel="mean eligible power (MW)", title="(b) boundary")
    return figure


@styled
def plot_components(envelope: Envelope, lags: Sequence[int] = tuple(range(0, 15 * 24, 3))) -> Figure:
    """Draw the components of IT power and the autocorrelation of the facility (Fig. 7 of [2])."""
    from pypsa_aidc.fleet.studies.load_shape import autocorrelation, composition

    figure, axes = canvas(2, 1, synthetic=envelope.synthetic, height_ratios=[2, 3])
    left, right = axes[:, 0]
    shares = (100 * composition(envelope)).tolist()
    bars = left.barh(["allocated GPUs", "hosts", "unallocated GPUs"], shares, 0.6, color=[BLUE, ORANGE, GREY])
    label_bars(left, bars, [f"{share:.1f} %" for share in shares])
    left.invert_yaxis()
    left.margins(x=0.15)
    left.grid(visible=False, axis="y")
    left.set_xlabel("share of IT energy (%)")
    left.set_title("(a) IT power before PUE")
    values = envelope.facility.to_numpy()
    right.plot(np.array(lags) / 24, [autocorrelation(values, lag) for lag in lags])
    right.set(
        xlabel="lag (days)",
        ylabel="autocorrelation",
        ylim=(None, 1.0),
        title="(b) raw autocorrelation, growth included",
    )
    return figure


@styled
def plot_layers(envelope: Envelope) -> Figure:
    """Draw the layers over time, the correlation of clusters, and thirty-day shares (Fig. 12 of [2])."""
    figure, axes = canvas(2, 2, height=6.4, synthetic=envelope.synthetic)
    for axis in axes[0]:
        axis.remove()
    top = figure.add_subplot(axes[0, 0].get_gridspec()[0, :])
    hours = envelope.data["hour"].to_numpy()
    layers = pd.DataFrame(envelope.layers().to_pandas())
    days = hours / 24
    base = np.zeros(len(layers))
    for layer in LAYER_NAMES:
        level = layers[layer].to_numpy()
        top.fill_between(days, base, base + level, color=LAYER_COLOURS[layer], label=LAYER_NAMES[layer], linewidth=0)
        base = base + level
    top.set(xlabel="day", ylabel="workload power (MW)", xlim=(days[0], days[-1]), title="semantic layers")
    top.set_ylim(0, None)
    legend(top)
    relief = pd.DataFrame(envelope.relief().to_pandas())
    relief = relief.loc[:, relief.std() > 0]
    left, right = axes[1]
    image = left.imshow(relief.corr(), vmin=-1, vmax=1, cmap="PuOr_r")
    left.grid(visible=False)
    left.set_xticks(range(relief.shape[1]), relief.columns, rotation=90, fontsize=6)
    left.set_yticks(range(relief.shape[1]), relief.columns, fontsize=6)
    left.set_title("correlation of eligible power")
    figure.colorbar(image, ax=left, shrink=0.8, label="correlation")
    monthly = layers.groupby(hours // _MONTH).sum()
    monthly = 100 * monthly.div(monthly.sum(axis=1), axis=0)
    bottom = np.zeros(len(monthly))
    for layer in LAYER_NAMES:
        right.bar(monthly.index * 30, monthly[layer], bottom=bottom, width=24, color=LAYER_COLOURS[layer], align="edge")
        bottom += monthly[layer].to_numpy()
    right.set(xlabel="first day of window", ylabel="share of workload power (%)", title="thirty-day shares")
    return figure
