"""Figures of the power model against measurements: 5 and 6 of [2]."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from pypsa_aidc.plots.style import BLUE, BROWN, CYCLE, DASHES, GREY, canvas, legend, styled

if TYPE_CHECKING:
    from pypsa_aidc.fleet.power import PowerModel


@styled
def plot_anchors(measured: pd.DataFrame, model: PowerModel | None = None) -> Figure:
    """Draw measured power levels beside the range of the model (Fig. 5 of [2]); columns as for `compare_anchors`."""
    from pypsa_aidc.fleet.studies.anchors import compare_anchors

    table = compare_anchors(measured, model)
    figure, axes = canvas(1, 1)
    axis = axes[0, 0]
    for number, (category, row) in enumerate(table.iterrows()):
        points = pd.to_numeric(measured.loc[measured["category"] == category, "share"])
        spread = np.linspace(-0.18, 0.18, len(points)) if len(points) > 1 else [0.0]
        axis.scatter(
            number + np.array(spread), points, s=14, color=BLUE, zorder=3, label="measured" if not number else ""
        )
        axis.plot(
            [number - 0.3, number + 0.3],
            [row["model_low"]] * 2,
            color=BROWN,
            label="model, no and full load" if not number else "",
        )
        axis.plot([number - 0.3, number + 0.3], [row["model_high"]] * 2, color=BROWN)
    axis.set_xticks(range(len(table)), [str(name).replace("_", " ") for name in table.index])
    axis.set(ylabel="power / rating", ylim=(0, 1.15))
    legend(axis)
    return figure


@styled
def plot_online_curve(model: PowerModel | None = None, measured: pd.DataFrame | None = None) -> Figure:
    """Draw the curve of online inference with and without its floor (Fig. 6a of [2]).

    Parameters
    ----------
    model
        The central one if None.
    measured : pandas.DataFrame
        Columns `utilisation` (0 … 1) and `share` (power over rating), to draw as points.
    """
    from pypsa_aidc.fleet.power import PowerModel
    from pypsa_aidc.fleet.studies.anchors import modelled

    central = model or PowerModel()
    bare = PowerModel(curves=central.curves, idle_fraction=central.idle_fraction, online_floor=0.0)
    u = np.linspace(0, 1, 201)
    figure, axes = canvas(1, 1)
    axis = axes[0, 0]
    axis.plot(u, modelled(bare, "online_inference", u), linestyle="--", color=GREY, label="without floor")
    axis.plot(u, modelled(central, "online_inference", u), color=BROWN, label=f"with floor {central.online_floor:g}")
    if measured is not None:
        axis.scatter(measured["utilisation"], measured["share"], s=14, color=BLUE, label="measured")
    axis.set(xlabel="utilisation", ylabel="power / rating", xlim=(0, 1), ylim=(0, 1))
    legend(axis)
    return figure


@styled
def plot_duty_cycle(model: PowerModel | None = None) -> Figure:
    """Draw what an hourly mean hides: a duty cycle between 0 and twice the mean, and any hour (Fig. 6b of [2])."""
    from pypsa_aidc.fleet.power import LINEAR, PowerModel
    from pypsa_aidc.fleet.studies.anchors import duty_cycle_error, jensen_bound

    central = model or PowerModel()
    means = np.linspace(0.02, 0.98, 97)
    figure, axes = canvas(2, 1)
    kinds = {name: (central, name) for name in ("training", "online_inference", "offline_inference")}
    kinds["linear"] = (PowerModel(curves=LINEAR), "training")
    for number, (name, (own, workload)) in enumerate(kinds.items()):
        style = {"color": CYCLE[number], "linestyle": DASHES[number], "label": name.replace("_", " ")}
        axes[0, 0].plot(means, 100 * duty_cycle_error(own, workload, means), **style)
        axes[1, 0].plot(means, 100 * jensen_bound(own, workload, means), **style)
    axes[0, 0].set(
        xlabel="hourly mean utilisation", ylabel="model too high by (%)", title="(a) duty cycle 0 / twice the mean"
    )
    axes[1, 0].set(xlabel="hourly mean utilisation", ylabel="largest error (%)", title="(b) any hour")
    legend(axes[0, 0])
    return figure


@styled
def plot_subhour(minima: pd.DataFrame, quantiles: Sequence[float] = (0.1, 0.5, 0.9)) -> Figure:
    """Draw how far short windows fall below the mean of their hour (Fig. 6c of [2]); table from `subhour_minima`."""
    figure, axes = canvas(1, 1)
    axis = axes[0, 0]
    low, middle, high = (minima.quantile(q) for q in quantiles)
    positions = range(minima.shape[1])
    axis.vlines(
        positions,
        low,
        high,
        color=BLUE,
        linewidth=5,
        alpha=0.35,
        label=f"P{quantiles[0] * 100:g}–P{quantiles[2] * 100:g}",
    )
    axis.plot(positions, middle, "o", color=BLUE, label="median")
    axis.set_xticks(positions, minima.columns)
    axis.set(xlabel="window", ylabel="lowest mean / hourly mean", ylim=(0, 1.05))
    legend(axis)
    return figure
