"""Figures of a fleet, from plain frames and result objects; numbers in the names are those of [2], arXiv 2609.05406."""

from pypsa_aidc.plots.fleet_anchors import plot_anchors, plot_duty_cycle, plot_online_curve, plot_subhour
from pypsa_aidc.plots.fleet_availability import (
    plot_backtest,
    plot_bootstrap,
    plot_contract,
    plot_counterfactuals,
    plot_eras,
    plot_net_energy,
    plot_portfolios,
    plot_realised,
    plot_surface,
)
from pypsa_aidc.plots.fleet_diagnostics import (
    plot_attribution,
    plot_backlog,
    plot_composition,
    plot_displacement,
    plot_plateaus,
    plot_ratios,
    plot_scaling,
    plot_synchrony,
)
from pypsa_aidc.plots.fleet_load import (
    plot_boundary,
    plot_components,
    plot_layers,
    plot_load,
    plot_load_shape,
)
from pypsa_aidc.plots.fleet_records import plot_audit, plot_execution, plot_statistics

__all__ = [
    "plot_anchors",
    "plot_attribution",
    "plot_audit",
    "plot_backlog",
    "plot_backtest",
    "plot_bootstrap",
    "plot_boundary",
    "plot_components",
    "plot_composition",
    "plot_contract",
    "plot_counterfactuals",
    "plot_displacement",
    "plot_duty_cycle",
    "plot_eras",
    "plot_execution",
    "plot_layers",
    "plot_load",
    "plot_load_shape",
    "plot_net_energy",
    "plot_online_curve",
    "plot_plateaus",
    "plot_portfolios",
    "plot_ratios",
    "plot_realised",
    "plot_scaling",
    "plot_statistics",
    "plot_subhour",
    "plot_surface",
    "plot_synchrony",
]
