"""The gap of a MILP while HiGHS solves it, for the line that shows a solve going on."""

from __future__ import annotations

import math
from typing import Any

import pypsa


class Gap:
    """Present relative gap of a network's solve, in words.

    linopy lets HiGHS ask, many times a second, whether Ctrl-C was pressed. This reads the gap off the same question:
    the search, and so the result, stays the same.

    Parameters
    ----------
    n
        Network that is being solved.
    """

    def __init__(self, n: pypsa.Network) -> None:
        self._n = n
        self._listening: Any = None
        self._words = ""

    def __call__(self) -> str:
        """Words such as ``"gap 0.31 %"``; empty before HiGHS searches, for an LP and for other solvers."""
        if self._listening is None:
            model = self._n._model
            solver: Any = None if model is None or model.solver is None else model.solver.solver_model
            if hasattr(solver, "cbMipInterrupt"):
                self._listening = solver
                solver.cbMipInterrupt.subscribe(self._note)
        return self._words

    def _note(self, event: Any) -> None:
        gap = event.data_out.mip_gap
        self._words = f"gap {100 * gap:.2g} %" if math.isfinite(gap) else "no solution yet"
