"""AI data centers in PyPSA grid models: what training jobs and GPU fleets can really do for the grid.

>>> import pypsa_aidc as aidc
>>> sorted(name for name in aidc.__all__ if name in ("add", "optimize", "prices", "audit"))
['add', 'audit', 'optimize', 'prices']
"""

from pypsa_aidc import fleet
from pypsa_aidc.errors import (
    AIDCError,
    AuditError,
    InfeasibleError,
    InputError,
    NotSolvedError,
    SpecError,
    StaleError,
    UnitWarning,
    UnsupportedError,
)
from pypsa_aidc.fleet import Contract, Envelope, Surface, contract, envelope, load_envelope, load_surface, surface
from pypsa_aidc.network import (
    AuditReport,
    Result,
    add,
    audit,
    check_network,
    compose,
    explain,
    extra_functionality,
    hook,
    optimize,
    prices,
    record,
    refresh,
    remove,
    sites,
    update,
    values,
)
from pypsa_aidc.network import list_sites as list  # noqa: A004 - read as aidc.list(n)
from pypsa_aidc.report import report
from pypsa_aidc.training import (
    GPU,
    Candidates,
    EfficiencyModel,
    Job,
    MemoryModel,
    Mode,
    ModeTable,
    PowerModel,
    Rules,
    TrainingLoad,
    Transformer,
    generate_modes,
    read_profile,
)

__version__ = "0.1.0"

__all__ = [
    "GPU",
    "AIDCError",
    "AuditError",
    "AuditReport",
    "Candidates",
    "Contract",
    "EfficiencyModel",
    "Envelope",
    "InfeasibleError",
    "InputError",
    "Job",
    "MemoryModel",
    "Mode",
    "ModeTable",
    "NotSolvedError",
    "PowerModel",
    "Result",
    "Rules",
    "SpecError",
    "StaleError",
    "Surface",
    "TrainingLoad",
    "Transformer",
    "UnitWarning",
    "UnsupportedError",
    "add",
    "audit",
    "check_network",
    "compose",
    "contract",
    "envelope",
    "explain",
    "extra_functionality",
    "fleet",
    "generate_modes",
    "hook",
    "list",
    "load_envelope",
    "load_surface",
    "optimize",
    "prices",
    "read_profile",
    "record",
    "refresh",
    "remove",
    "report",
    "sites",
    "surface",
    "update",
    "values",
]
