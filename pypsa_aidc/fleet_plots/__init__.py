"""Figures of a fleet, from plain frames and result objects; numbers in the names are those of [2], arXiv 2609.05406."""

from pypsa_aidc.fleet_plots.anchors import plot_anchors, plot_duty_cycle, plot_online_curve, plot_subhour
from pypsa_aidc.fleet_plots.availability import (
    plot_backtest,
    plot_counterfactuals,
    plot_eras,
    plot_net_energy,
    plot_portfolios,
    plot_realised,
    plot_surface,
)
from pypsa_aidc.fleet_plots.diagnostics import (
    plot_attribution,
    plot_backlog,
    plot_composition,
    plot_displacement,
    plot_plateaus,
)
from pypsa_aidc.fleet_plots.load import (
    plot_boundary,
    plot_components,
    plot_layers,
    plot_load,
)

__all__ = [
    "plot_anchors",
    "plot_attribution",
    "plot_backlog",
    "plot_backtest",
    "plot_boundary",
    "plot_components",
    "plot_composition",
    "plot_counterfactuals",
    "plot_displacement",
    "plot_duty_cycle",
    "plot_eras",
    "plot_layers",
    "plot_load",
    "plot_net_energy",
    "plot_online_curve",
    "plot_plateaus",
    "plot_portfolios",
    "plot_realised",
    "plot_subhour",
    "plot_surface",
]
