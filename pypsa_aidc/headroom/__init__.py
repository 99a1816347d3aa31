"""Planners' questions: how many megawatts fit, and what limits them.

Docstrings cite [2]: M. Li, "Beyond Scalar Flexibility", arXiv 2609.05406.
"""

from pypsa_aidc.headroom.cleaning import clean
from pypsa_aidc.headroom.demand import Demand, DemandWarning
from pypsa_aidc.headroom.eia930 import read_demand
from pypsa_aidc.headroom.offsets import Offsets
from pypsa_aidc.headroom.profile import Profile, profiles
from pypsa_aidc.headroom.screen import Screen
from pypsa_aidc.headroom.screening import screen

__all__ = [
    "Demand",
    "DemandWarning",
    "Offsets",
    "Profile",
    "Screen",
    "clean",
    "profiles",
    "read_demand",
    "screen",
]
