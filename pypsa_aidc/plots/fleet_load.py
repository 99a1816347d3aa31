"""Figures of load and layers: 1, 3, 7 and 12 of [2]."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from pypsa_aidc.fleet.condition import MONTH
from pypsa_aidc.fleet.envelope import Envelope
from pypsa_aidc.fleet.layers import LAYERS
from pypsa_aidc.fleet.studies.load_shape import LoadShape, autocorrelation, composition
from pypsa_aidc.fleet.studies.montecarlo import Ensemble
from pypsa_aidc.plots.style import CYCLE, LAYER_COLOURS, LAYER_NAMES, canvas, label_bars, legend, styled


@styled
def plot_load(ensemble: Ensemble) -> Figure:
    """Draw the facility band over time and its clock-hour profile (Fig. 1 of [2])."""
    band = ensemble.to_frame()
    figure, axes = canvas(2, 1, height=4.8, synthetic=bool(ensemble.data.attrs["synthetic"]))
    top, bottom = axes[:, 0]
    days = band.index.to_numpy() / 24
    top.fill_between(
        days, band["p5"], band["p95"], color=CYCLE[0], alpha=0.2, linewidth=0, label="P5–P95 of power models"
    )
    top.plot(days, band["p50"], color=CYCLE[0], linewidth=0.6, label="median")
    top.set(xlabel="day", ylabel="facility power (MW)", xlim=(days[0], days[-1]), title="hourly facility power")
    legend(top, loc="upper left", ncols=2)
    clock = band.groupby(band.index.to_numpy() % 24).mean()
    bottom.plot(clock.index, clock["p50"], color=CYCLE[0], marker="o", markersize=3)
    bottom.set(
        xlabel="clock hour (trace-local)", ylabel="median (MW)", xticks=range(0, 24, 3), title="mean clock-hour profile"
    )
    return figure


@styled
def plot_load_shape(shape: LoadShape) -> Figure:
    """Draw the mean clock-hour profile of a load between its trough and peak, and its autocorrelation."""
    figure, axes = canvas(1, 2, width_ratios=[1.8, 1])
    left, right = axes[0]
    left.plot(range(24), shape.clock, color=CYCLE[0], marker="o", markersize=3, label="mean of the clock hour")
    for name, colour in (("peak", CYCLE[1]), ("mean", CYCLE[5]), ("trough", CYCLE[3])):
        left.axhline(getattr(shape, name), color=colour, linestyle="--", linewidth=1, label=name)
    left.set(xlabel="clock hour (trace-local)", ylabel="power (MW)", xticks=range(0, 24, 3))
    left.set_ylim(None, shape.peak + 0.25 * (shape.peak - shape.trough) + 1e-9)
    left.set_title(f"load factor {shape.load_factor:.2f}")
    legend(left, ncols=2)
    right.bar([f"{lag} h" for lag in shape.autocorrelation], list(shape.autocorrelation.values()), color=CYCLE[0])
    right.axhline(0, color="black", linewidth=0.8)
    right.set(xlabel="lag (h)", ylabel="autocorrelation", ylim=(None, 1.0))
    return figure


@styled
def plot_boundary(envelope: Envelope) -> Figure:
    """Draw the mean clock-hour envelope, and eligible power on both boundaries (Fig. 3 of [2])."""
    figure, axes = canvas(1, 2, synthetic=envelope.synthetic, width_ratios=[2, 1])
    left, right = axes[0]
    hours = envelope.data["hour"].to_numpy()
    layers = envelope.layers().to_pandas()
    clock = pd.DataFrame(layers).groupby(hours % 24).mean()
    base = np.zeros(len(clock))
    for layer in LAYERS:
        left.fill_between(
            clock.index, base, base + clock[layer], color=LAYER_COLOURS[layer], label=LAYER_NAMES[layer], linewidth=0
        )
        base = base + clock[layer].to_numpy()
    relief = envelope.relief().sum("cluster", skipna=False).to_series().groupby(hours % 24).mean()
    left.plot(
        clock.index,
        base - relief.to_numpy(),
        color="black",
        linestyle="--",
        label="with eligible work preempted, GPUs idle",
    )
    left.set(xlabel="clock hour (trace-local)", ylabel="workload power (MW)", xlim=(0, 23), title="(a) layers")
    left.set_ylim(0, 1.45 * base.max())
    legend(left, loc="upper left", fontsize=7)
    means = [
        float(envelope.relief(boundary=boundary).sum("cluster", skipna=False).mean())
        for boundary in ("attributed", "idle-retained")
    ]
    right.bar([0, 1], means, color=[LAYER_COLOURS["floor"], LAYER_COLOURS["eligible"]], width=0.6)
    label_bars(right, [0, 1], means)
    right.set(
        xticks=[0, 1], xticklabels=["attributed", "idle retained"], ylabel="eligible power (MW)", title="(b) boundary"
    )
    return figure


@styled
def plot_components(envelope: Envelope, lags: Sequence[int] = tuple(range(0, 15 * 24, 3))) -> Figure:
    """Draw the components of IT power and the autocorrelation of the facility (Fig. 7 of [2])."""
    figure, axes = canvas(1, 2, synthetic=envelope.synthetic)
    left, right = axes[0]
    shares = composition(envelope)
    left.bar(range(3), 100 * shares, color=[CYCLE[0], CYCLE[3], CYCLE[5]], width=0.6)
    label_bars(left, range(3), (100 * shares).tolist(), "{:.1f} %")
    left.set(
        xticks=range(3), xticklabels=["allocated GPUs", "hosts", "unallocated GPUs"], ylabel="share of IT energy (%)"
    )
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
    figure, axes = canvas(2, 2, height=6.0, synthetic=envelope.synthetic)
    for axis in axes[0]:
        axis.remove()
    top = figure.add_subplot(axes[0, 0].get_gridspec()[0, :])
    hours = envelope.data["hour"].to_numpy()
    layers = pd.DataFrame(envelope.layers().to_pandas())
    days = hours / 24
    base = np.zeros(len(layers))
    for layer in LAYERS:
        level = layers[layer].to_numpy()
        top.fill_between(days, base, base + level, color=LAYER_COLOURS[layer], label=LAYER_NAMES[layer], linewidth=0)
        base = base + level
    top.set(xlabel="day", ylabel="workload power (MW)", xlim=(days[0], days[-1]), title="semantic layers")
    top.set_ylim(0, 1.3 * np.nanmax(base))
    legend(top, loc="upper left", ncols=2)
    relief = pd.DataFrame(envelope.relief().to_pandas())
    relief = relief.loc[:, relief.std() > 0]
    left, right = axes[1]
    image = left.imshow(relief.corr(), vmin=-1, vmax=1, cmap="RdBu_r")
    left.grid(visible=False)
    left.set_xticks(range(relief.shape[1]), relief.columns, rotation=90, fontsize=6)
    left.set_yticks(range(relief.shape[1]), relief.columns, fontsize=6)
    left.set_title("correlation of eligible power")
    figure.colorbar(image, ax=left, shrink=0.8)
    monthly = layers.groupby(hours // MONTH).sum()
    monthly = 100 * monthly.div(monthly.sum(axis=1), axis=0)
    bottom = np.zeros(len(monthly))
    for layer in LAYERS:
        right.bar(monthly.index * 30, monthly[layer], bottom=bottom, width=24, color=LAYER_COLOURS[layer], align="edge")
        bottom += monthly[layer].to_numpy()
    right.set(xlabel="first day of window", ylabel="share of workload power (%)", title="thirty-day shares")
    return figure
