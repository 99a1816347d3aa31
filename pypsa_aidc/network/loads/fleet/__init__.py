"""Fleets: loads of given or free size that shed dependable power on terms."""
