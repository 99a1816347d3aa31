from .gpu import GPU
from .graph.graph import CheckpointGraph, Formulation, Step, checkpoint_graph, earliest_finish
from .graph.path import cheapest_path, cheapest_through
from .graph.slots import Slots
from .job import Job
from .load import TrainingLoad
from .memory import CAMPUS_MEMORY, KORTHIKANTI_MEMORY, MemoryModel
from .mode_table import Mode, ModeTable
from .modes import Candidates, generate_modes
from .power import PowerModel
from .profile import read_profile
from .rules import Rules
from .throughput import CAMPUS_EFFICIENCY, NARAYANAN_EFFICIENCY, EfficiencyModel
from .transformer import Transformer

__all__ = [
    "CAMPUS_EFFICIENCY",
    "CAMPUS_MEMORY",
    "GPU",
    "KORTHIKANTI_MEMORY",
    "NARAYANAN_EFFICIENCY",
    "Candidates",
    "CheckpointGraph",
    "EfficiencyModel",
    "Formulation",
    "Job",
    "MemoryModel",
    "Mode",
    "ModeTable",
    "PowerModel",
    "Rules",
    "Slots",
    "Step",
    "TrainingLoad",
    "Transformer",
    "cheapest_path",
    "cheapest_through",
    "checkpoint_graph",
    "earliest_finish",
    "generate_modes",
    "read_profile",
]
