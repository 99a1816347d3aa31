"""Planners' questions: how many megawatts fit, and what limits them.

Docstrings cite [2]: M. Li, "Beyond Scalar Flexibility", arXiv 2609.05406.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
