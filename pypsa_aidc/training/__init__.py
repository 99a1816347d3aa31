"""Training loads: from the descriptor of an LLM pre-training job to its checkpoint-state graph. Knows no network."""

from pypsa_aidc.training.gpu import GPU
from pypsa_aidc.training.graph.graph import CheckpointGraph, Formulation, Step, checkpoint_graph, earliest_finish
from pypsa_aidc.training.graph.path import cheapest_path, cheapest_through
from pypsa_aidc.training.graph.slots import Slots
from pypsa_aidc.training.job import Job
from pypsa_aidc.training.load import TrainingLoad
from pypsa_aidc.training.memory import CAMPUS_MEMORY, KORTHIKANTI_MEMORY, MemoryModel
from pypsa_aidc.training.mode_table import Mode, ModeTable
from pypsa_aidc.training.modes import Candidates, generate_modes
from pypsa_aidc.training.power import PowerModel
from pypsa_aidc.training.profile import read_profile
from pypsa_aidc.training.rules import Rules
from pypsa_aidc.training.throughput import CAMPUS_EFFICIENCY, NARAYANAN_EFFICIENCY, EfficiencyModel
from pypsa_aidc.training.transformer import Transformer

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
