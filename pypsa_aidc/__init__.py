"""AI data centers in PyPSA grid models: what training jobs and GPU fleets can really do for the grid.

Importing it gives every `pypsa.Network` the accessor ``n.aidc``: `add`, `optimize`, `headroom` and the rest.

>>> import pypsa, pypsa_aidc as aidc
>>> pypsa.Network().aidc
AIDCs of the network: none (0 jobs)
"""

from typing import Any

import lazy_loader
from wrapt import when_imported

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
__version__ = "0.1.0"


@when_imported("pypsa")
def _register(pypsa: Any) -> None:
    """Make `n.aidc` available on every network, now or whenever PyPSA is imported; what it needs comes with its use."""

    def aidc(n: Any) -> Any:
        from pypsa_aidc.accessor import AIDC

        return AIDC(n)

    # A property, so that copies never see another network's.
    pypsa.Network.aidc = property(aidc)
