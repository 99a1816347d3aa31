from . import fleet, headroom, network, training
from .errors import (
    AIDCError,
    AuditError,
    CaseWarning,
    InfeasibleError,
    InputError,
    NotSolvedError,
    PriceWarning,
    SeriesWarning,
    SpecError,
    StaleError,
    UnitWarning,
    UnsupportedError,
)
from .fleet import Contract, Envelope, Surface
from .network import compose, extra_functionality, from_case, load
from .progress import show_progress
from .sweeps import sweep
from .training import (
    GPU,
    Job,
    ModeTable,
    Rules,
    TrainingLoad,
    Transformer,
    generate_modes,
    read_profile,
)

__version__: str

__all__ = [
    "GPU",
    "AIDCError",
    "AuditError",
    "CaseWarning",
    "Contract",
    "Envelope",
    "InfeasibleError",
    "InputError",
    "Job",
    "ModeTable",
    "NotSolvedError",
    "PriceWarning",
    "Rules",
    "SeriesWarning",
    "SpecError",
    "StaleError",
    "Surface",
    "TrainingLoad",
    "Transformer",
    "UnitWarning",
    "UnsupportedError",
    "compose",
    "extra_functionality",
    "fleet",
    "from_case",
    "generate_modes",
    "headroom",
    "load",
    "network",
    "read_profile",
    "show_progress",
    "sweep",
    "training",
]
