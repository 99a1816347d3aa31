"""From a GPU fleet's trace to hourly power, an envelope of what can be let go, and the dependable part of it.

The chain is `trace` → `statistics` → `envelope` → `surface`; `synthetic` starts it without a trace. Power is MW, energy
MWh, time h. Docstrings cite [2]: M. Li, "Beyond Scalar Flexibility", arXiv 2609.05406.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
