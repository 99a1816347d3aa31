"""Solving a network with AIDCs: first schedule, prices, outages, scenarios."""
