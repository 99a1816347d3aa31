"""Planners' questions: how much AIDC fits at a bus of a network, and what limits it."""

from pypsa_aidc.headroom.answers import Answer, BusHeadroom, load_headroom
from pypsa_aidc.headroom.bus import headroom

__all__ = ["Answer", "BusHeadroom", "headroom", "load_headroom"]
