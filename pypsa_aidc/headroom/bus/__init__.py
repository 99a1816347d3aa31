"""Headroom at the buses of a network."""
