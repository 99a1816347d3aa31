"""Planners' questions: how many megawatts fit, and what limits them.

Docstrings cite [2]: M. Li, "Beyond Scalar Flexibility", arXiv 2609.05406.
"""

from pypsa_aidc.headroom.answers import Answer, BusHeadroom, load_headroom
from pypsa_aidc.headroom.bus import headroom
from pypsa_aidc.headroom.call_screen import call_depths, screen_calls
from pypsa_aidc.headroom.calls_path import CallPlan, CallRules, cover, largest_size
from pypsa_aidc.headroom.cleaning import clean
from pypsa_aidc.headroom.demand import Demand, DemandWarning
from pypsa_aidc.headroom.eia930 import read_demand
from pypsa_aidc.headroom.offsets import Offsets
from pypsa_aidc.headroom.peak_cap import can_bind
from pypsa_aidc.headroom.profile import Profile, profiles
from pypsa_aidc.headroom.regional import network_demand, regional_network
from pypsa_aidc.headroom.screen import Screen
from pypsa_aidc.headroom.screening import screen
from pypsa_aidc.headroom.training_site import training_headroom

__all__ = [
    "Answer",
    "BusHeadroom",
    "CallPlan",
    "CallRules",
    "Demand",
    "DemandWarning",
    "Offsets",
    "Profile",
    "Screen",
    "call_depths",
    "can_bind",
    "clean",
    "cover",
    "headroom",
    "largest_size",
    "load_headroom",
    "network_demand",
    "profiles",
    "read_demand",
    "regional_network",
    "screen",
    "screen_calls",
    "training_headroom",
]
