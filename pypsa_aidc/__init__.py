"""AI data centers in PyPSA grid models: what training jobs and GPU fleets can really do for the grid.

Importing it gives every `pypsa.Network` the accessor ``n.aidc``: `add`, `optimize`, `headroom` and the rest.

>>> import pypsa, pypsa_aidc as aidc
>>> pypsa.Network().aidc
AIDCs of the network: none (0 jobs)
"""

from pypsa_aidc import fleet, headroom, network, training
from pypsa_aidc.accessor import register
from pypsa_aidc.errors import (
    AIDCError,
    AuditError,
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
from pypsa_aidc.fleet import Contract, Envelope, Surface
from pypsa_aidc.network import compose, extra_functionality, from_matpower, load
from pypsa_aidc.progress import show_progress
from pypsa_aidc.training import (
    GPU,
    Job,
    ModeTable,
    Rules,
    TrainingLoad,
    Transformer,
    generate_modes,
    read_profile,
)

register()

__version__ = "0.1.0"

__all__ = [
    "GPU",
    "AIDCError",
    "AuditError",
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
    "from_matpower",
    "generate_modes",
    "headroom",
    "load",
    "network",
    "read_profile",
    "show_progress",
    "training",
]
