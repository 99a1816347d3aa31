"""From a GPU fleet's trace to hourly power, an envelope of what can be let go, and the dependable part of it.

The chain is `trace` → `statistics` → `envelope` → `surface`; `synthetic` starts it without a trace. Power is MW, energy
MWh, time h. Docstrings cite [2]: M. Li, "Beyond Scalar Flexibility", arXiv 2609.05406.
"""

from pypsa_aidc.fleet.condition import Condition
from pypsa_aidc.fleet.contract import Contract, net_energy_ratio
from pypsa_aidc.fleet.envelope import Envelope
from pypsa_aidc.fleet.power import (
    ANCHORED,
    DATASHEET_RATINGS,
    LINEAR,
    MEASURED_LOW,
    MEASURED_MID,
    RATINGS,
    PowerModel,
    PowerRanges,
    power_draws,
)
from pypsa_aidc.fleet.studies.anchors import (
    compare_anchors,
    duty_cycle_error,
    jensen_bound,
    read_power_distribution,
    subhour_minima,
)
from pypsa_aidc.fleet.studies.backtest import Backtest
from pypsa_aidc.fleet.studies.counterfactual import (
    Counterfactuals,
    counterfactuals,
    independent,
    representations,
    shuffled,
)
from pypsa_aidc.fleet.studies.eras import compare_eras
from pypsa_aidc.fleet.studies.load_shape import LoadShape, accounting, autocorrelation, composition, load_shape
from pypsa_aidc.fleet.studies.montecarlo import Ensemble, ensemble, relief_draws
from pypsa_aidc.fleet.studies.portfolio import Portfolios, independent_curve, portfolios
from pypsa_aidc.fleet.studies.scaling import (
    Composition,
    Scaling,
    fluctuation_scaling,
    unit_power,
    variability_by_training,
)
from pypsa_aidc.fleet.studies.scheduler import (
    Backlog,
    Displacement,
    backlog,
    delay_distribution,
    displacement,
    power_per_gpu,
    span_power,
)
from pypsa_aidc.fleet.studies.synchrony import Attribution, Synchrony, attribution, measure_synchrony
from pypsa_aidc.fleet.studies.uncertainty import Bootstrap, bootstrap
from pypsa_aidc.fleet.surface import Surface, shaped
from pypsa_aidc.fleet.synthetic import SyntheticFleet
from pypsa_aidc.fleet.trace.audit import Audit, Coverage, CoverageWarning, EraWarning
from pypsa_aidc.fleet.trace.execution import Execution
from pypsa_aidc.fleet.trace.jobs import inventory, job_spans
from pypsa_aidc.fleet.trace.layout import LAYOUTS, Layout
from pypsa_aidc.fleet.trace.schema import CAPACITY_TYPES, CELL_TYPES, JOBS, POD_HOURS, SERVER_HOURS, SPAN_TYPES
from pypsa_aidc.fleet.trace.statistics import Statistics
from pypsa_aidc.fleet.trace.trace import Trace

__all__ = [
    "ANCHORED",
    "CAPACITY_TYPES",
    "CELL_TYPES",
    "DATASHEET_RATINGS",
    "JOBS",
    "LAYOUTS",
    "LINEAR",
    "MEASURED_LOW",
    "MEASURED_MID",
    "POD_HOURS",
    "RATINGS",
    "SERVER_HOURS",
    "SPAN_TYPES",
    "Attribution",
    "Audit",
    "Backlog",
    "Backtest",
    "Bootstrap",
    "Composition",
    "Condition",
    "Contract",
    "Counterfactuals",
    "Coverage",
    "CoverageWarning",
    "Displacement",
    "Ensemble",
    "Envelope",
    "EraWarning",
    "Execution",
    "Layout",
    "LoadShape",
    "Portfolios",
    "PowerModel",
    "PowerRanges",
    "Scaling",
    "Statistics",
    "Surface",
    "Synchrony",
    "SyntheticFleet",
    "Trace",
    "accounting",
    "attribution",
    "autocorrelation",
    "backlog",
    "bootstrap",
    "compare_anchors",
    "compare_eras",
    "composition",
    "counterfactuals",
    "delay_distribution",
    "displacement",
    "duty_cycle_error",
    "ensemble",
    "fluctuation_scaling",
    "independent",
    "independent_curve",
    "inventory",
    "jensen_bound",
    "job_spans",
    "load_shape",
    "measure_synchrony",
    "net_energy_ratio",
    "portfolios",
    "power_draws",
    "power_per_gpu",
    "read_power_distribution",
    "relief_draws",
    "representations",
    "shaped",
    "shuffled",
    "span_power",
    "subhour_minima",
    "unit_power",
    "variability_by_training",
]
