"""Conversions between the units inside `training` and the MW, MWh and USD of every public boundary."""

W_PER_MW = 1e6
SECONDS_PER_HOUR = 3600.0
GB = 1e9
GIB = 2.0**30
TFLOP = 1e12

SLOT_TOLERANCE = 1e-9
"""Hours by which work may overrun a slot: a baseline that exactly fills its slots must not take one more."""
