"""The gap of a MILP while HiGHS solves it, for the line that shows a solve going on."""

from __future__ import annotations

import math

import pypsa

from pypsa_aidc.network.pypsa_api import listen_to_search


class Gap:
    """Present relative gap of a network's solve, in words.

    Parameters
    ----------
    n
        Network that is being solved.
    """

    def __init__(self, n: pypsa.Network) -> None:
        self._n = n
        self._listening = False
        self._words = ""

    def __call__(self) -> str:
        """Words such as ``"gap 0.31 %"``; empty before HiGHS searches, for an LP and for other solvers."""
        if not self._listening:
            self._listening = listen_to_search(self._n, self._note)
        return self._words

    def _note(self, gap: float) -> None:
        self._words = f"gap {100 * gap:.2g} %" if math.isfinite(gap) else "no solution yet"
