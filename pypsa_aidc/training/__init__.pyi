from .calibration import Calibration, calibrate
from .candidates import Candidates
from .caps import Frontier
from .gpu import GPU
from .graph.graph import CheckpointGraph, Formulation, Step, checkpoint_graph, earliest_finish
from .graph.path import cheapest_path, cheapest_through
from .graph.slots import Slots
from .job import Job
from .layout import Layout
from .load import TrainingLoad
from .memory import CAMPUS_MEMORY, KORTHIKANTI_MEMORY, MemoryModel
from .mode_table import Mode, ModeTable
from .modes import generate_modes
from .paper import PaperModel
from .performance import PerformanceModel
from .power import ModePower
from .profile import read_profile
from .recipe import Recipe, Schedule
from .rules import Rules
from .run import Run
from .throughput import CAMPUS_EFFICIENCY, NARAYANAN_EFFICIENCY, EfficiencyModel
from .transformer import Experts, LatentAttention, Transformer
from .transitions import Transition

__all__ = [
    "CAMPUS_EFFICIENCY",
    "CAMPUS_MEMORY",
    "GPU",
    "KORTHIKANTI_MEMORY",
    "NARAYANAN_EFFICIENCY",
    "Calibration",
    "Candidates",
    "CheckpointGraph",
    "EfficiencyModel",
    "Experts",
    "Formulation",
    "Frontier",
    "Job",
    "LatentAttention",
    "Layout",
    "MemoryModel",
    "Mode",
    "ModePower",
    "ModeTable",
    "PaperModel",
    "PerformanceModel",
    "Recipe",
    "Rules",
    "Run",
    "Schedule",
    "Slots",
    "Step",
    "TrainingLoad",
    "Transformer",
    "Transition",
    "calibrate",
    "cheapest_path",
    "cheapest_through",
    "checkpoint_graph",
    "earliest_finish",
    "generate_modes",
    "read_profile",
]
