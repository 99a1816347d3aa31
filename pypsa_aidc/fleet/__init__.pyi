from .condition import Condition
from .contract import Contract, net_energy_ratio
from .envelope import Envelope
from .power import (
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
from .product_profiles import product, profiles
from .studies.anchors import (
    compare_anchors,
    duty_cycle_error,
    jensen_bound,
    read_power_distribution,
    subhour_minima,
)
from .studies.backtest import Backtest
from .studies.counterfactual import (
    Counterfactuals,
    counterfactuals,
    independent,
    representations,
    shuffled,
)
from .studies.eras import compare_eras
from .studies.load_shape import LoadShape, accounting, autocorrelation, composition, load_shape
from .studies.montecarlo import Ensemble, ensemble, relief_draws
from .studies.portfolio import Portfolios, independent_curve, portfolios
from .studies.scaling import (
    Composition,
    Scaling,
    fluctuation_scaling,
    unit_power,
    variability_by_training,
)
from .studies.scheduler import (
    Backlog,
    Displacement,
    backlog,
    delay_distribution,
    displacement,
    power_per_gpu,
    span_power,
)
from .studies.synchrony import Attribution, Synchrony, attribution, measure_synchrony
from .studies.uncertainty import Bootstrap, bootstrap
from .surface import Surface, shaped
from .synthetic import SyntheticFleet
from .term_sheet import Megawatts, ReliefSource, Replayed, TermSheet
from .trace.audit import Audit, Coverage, CoverageWarning, EraWarning
from .trace.execution import Execution
from .trace.jobs import inventory, job_spans
from .trace.layout import LAYOUTS, Layout
from .trace.schema import CAPACITY_TYPES, CELL_TYPES, JOBS, POD_HOURS, SERVER_HOURS, SPAN_TYPES
from .trace.statistics import Statistics
from .trace.trace import Trace

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
    "Megawatts",
    "Portfolios",
    "PowerModel",
    "PowerRanges",
    "ReliefSource",
    "Replayed",
    "Scaling",
    "Statistics",
    "Surface",
    "Synchrony",
    "SyntheticFleet",
    "TermSheet",
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
    "product",
    "profiles",
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
