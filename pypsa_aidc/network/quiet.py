"""PyPSA kept from talking about what this package does to a network."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def quiet_pypsa(name: str = "pypsa", level: int = logging.ERROR) -> Iterator[None]:
    """Let a logger of PyPSA, and all below it, tell nothing less than errors, or than a level.

    Examples
    --------
    >>> with quiet_pypsa("pypsa.network.io"):
    ...     logging.getLogger("pypsa.network.io").isEnabledFor(logging.WARNING)
    False
    """
    logger = logging.getLogger(name)
    before = logger.level
    logger.setLevel(level)
    try:
        yield
    finally:
        logger.setLevel(before)
