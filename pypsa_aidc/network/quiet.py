"""PyPSA kept from talking about what this package does to a network."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def quiet_pypsa(name: str = "pypsa") -> Iterator[None]:
    """Let a logger of PyPSA, and all below it, tell nothing less than errors.

    Examples
    --------
    >>> with quiet_pypsa("pypsa.network.io"):
    ...     logging.getLogger("pypsa.network.io").isEnabledFor(logging.WARNING)
    False
    """
    logger = logging.getLogger(name)
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)
