"""Checks before a solve, the audit after it, and why there is no solution."""
