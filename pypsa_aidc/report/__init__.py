"""Reports on solved networks with AIDCs, as one file: HTML, workbook or PDF."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
