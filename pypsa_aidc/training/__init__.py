"""Training loads: from the descriptor of an LLM pre-training job to its checkpoint-state graph. Knows no network."""

from pypsa_aidc.training.calibration import Calibration, calibrate
from pypsa_aidc.training.candidates import Candidates
from pypsa_aidc.training.gpu import GPU
from pypsa_aidc.training.graph.graph import CheckpointGraph, Formulation, Step, checkpoint_graph, earliest_finish
from pypsa_aidc.training.graph.path import cheapest_path, cheapest_through
from pypsa_aidc.training.graph.slots import Slots
from pypsa_aidc.training.job import Job
from pypsa_aidc.training.layout import Layout
from pypsa_aidc.training.load import TrainingLoad
from pypsa_aidc.training.memory import CAMPUS_MEMORY, KORTHIKANTI_MEMORY, MemoryModel
from pypsa_aidc.training.mode_table import Mode, ModeTable
from pypsa_aidc.training.modes import generate_modes
from pypsa_aidc.training.paper import PaperModel
from pypsa_aidc.training.performance import PerformanceModel
from pypsa_aidc.training.power import ModePower
from pypsa_aidc.training.profile import read_profile
from pypsa_aidc.training.recipe import Recipe, Schedule
from pypsa_aidc.training.rules import Rules
from pypsa_aidc.training.run import Run
from pypsa_aidc.training.throughput import CAMPUS_EFFICIENCY, NARAYANAN_EFFICIENCY, EfficiencyModel
from pypsa_aidc.training.transformer import Experts, LatentAttention, Transformer

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
    "calibrate",
    "cheapest_path",
    "cheapest_through",
    "checkpoint_graph",
    "earliest_finish",
    "generate_modes",
    "read_profile",
]
