"""Planners' questions: how many megawatts fit, and what limits them.

Docstrings cite [2]: M. Li, "Beyond Scalar Flexibility", arXiv 2609.05406.
"""

from pypsa_aidc.headroom.bus.answers import Answer, BusHeadroom
from pypsa_aidc.headroom.bus.study import bus_headroom
from pypsa_aidc.headroom.bus.training_site import training_headroom
from pypsa_aidc.headroom.region.call_screen import call_depths, screen_calls
from pypsa_aidc.headroom.region.calls_path import CallPlan, CallRules, cover, largest_size
from pypsa_aidc.headroom.region.cleaning import clean
from pypsa_aidc.headroom.region.demand import Demand, DemandWarning
from pypsa_aidc.headroom.region.eia930 import read_demand
from pypsa_aidc.headroom.region.offsets import Offsets
from pypsa_aidc.headroom.region.peak_cap import can_bind
from pypsa_aidc.headroom.region.profile import Profile, profiles
from pypsa_aidc.headroom.region.regional import network_demand, regional_network
from pypsa_aidc.headroom.region.screen import Screen
from pypsa_aidc.headroom.region.screening import screen_region

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
    "bus_headroom",
    "call_depths",
    "can_bind",
    "clean",
    "cover",
    "largest_size",
    "network_demand",
    "profiles",
    "read_demand",
    "regional_network",
    "screen_calls",
    "screen_region",
    "training_headroom",
]
