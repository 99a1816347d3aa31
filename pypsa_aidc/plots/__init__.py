"""Figures of a fleet, from plain frames and result objects; numbers in the names are those of [2], arXiv 2609.05406."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
