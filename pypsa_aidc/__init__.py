"""AI data centers in PyPSA grid models: what training jobs and GPU fleets can really do for the grid."""

__version__ = "0.1.0"
