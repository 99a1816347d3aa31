"""Why a network would not be optimised: the one list that `optimize` goes through and `check` reads out."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pandas as pd
import pypsa

from pypsa_aidc.errors import InputError, UnsupportedError
from pypsa_aidc.network.checks.before import check_network
from pypsa_aidc.network.checks.quadratic import refuse_quadratic
from pypsa_aidc.network.loads.registry import check_loads, loads, refresh, refuse_unsupported

Refusal = InputError | UnsupportedError


def refusals(
    n: pypsa.Network, snapshots: pd.Index | None = None, *, quadratic: bool = False, linearized: bool = False
) -> Iterator[Refusal]:
    """Yield why a network is refused, whatever solves it; what `refresh` can bring up to date is first.

    Parameters
    ----------
    n
        Network; its loads are refreshed.
    snapshots
        Those to be optimised; `None` for all.
    quadratic
        Whether the solver can do quadratic costs and whole numbers at once.
    linearized
        Whether unit commitment is relaxed.
    """
    unreadable = _refusal(lambda: loads(n))
    if unreadable is not None:
        yield unreadable
        return
    steps: list[Callable[[], object]] = [
        lambda: check_network(n, snapshots),
        lambda: refresh(n, snapshots),
        lambda: refuse_unsupported(n, snapshots),
        lambda: check_loads(n, snapshots),
    ]
    if not quadratic:
        steps.append(lambda: refuse_quadratic(n, snapshots, linearized=linearized))
    for step in steps:
        refusal = _refusal(step)
        if refusal is not None:
            yield refusal


def _refusal(step: Callable[[], object]) -> Refusal | None:
    try:
        step()
    except (InputError, UnsupportedError) as error:
        return error
    return None
