"""Why a network has no feasible dispatch, in words: loads that cannot work, else constraints in conflict."""

from __future__ import annotations

import linopy
import pandas as pd
import pypsa

from pypsa_aidc.network.loads.registry import loads
from pypsa_aidc.network.pypsa_api import irreducible_set, least_violations, model_of
from pypsa_aidc.training import Formulation

_SHOWN = 8
_SECONDS = 20.0


def explain(n: pypsa.Network, snapshots: pd.Index | None = None, *, formulation: Formulation = "time") -> str:
    """Say in words why a network with AIDCs has no feasible dispatch.

    Looks at each site alone first: can each job finish, do the jobs fit into the GPU pool together, into the grid
    connection? Then at the fleets: which size would fit on their terms? If all is well, the conflict lies in the
    network, and the solver's irreducible infeasible set is translated into component names, where it has one.

    Parameters
    ----------
    n
        Network; the model of the failed solve, if it is still there, is used for the conflict set.
    snapshots
        Part of ``n.snapshots`` that was optimised.
    formulation
        Formulation of the graphs.

    Returns
    -------
    str
        One paragraph a site or fleet that cannot work, or the conflict, or a sentence that no cause was found. What
        could not be proven within some seconds is told as open.
    """
    found = loads(n).values()
    reasons = [reason for load in found if (reason := load.reason_alone(n, snapshots, formulation))]
    proven = [reason.text for reason in reasons if reason.proven]
    if not proven:
        proven = [reason.text for load in found if (reason := load.reason(n, snapshots)) and reason.proven]
    if proven:
        return "\n".join(proven)
    model, still_open = model_of(n), [reason.text for reason in reasons]
    if model is None or model.status == "ok":
        alone = "\n".join(still_open) or "each AIDC site works alone"
        return f"{alone.rstrip('.')}; whether the whole network does is only known once a solve has failed"
    collision = _conflict(model)
    if still_open:
        return "\n".join([*still_open, *([collision] if collision else [])])
    told = f". {collision}" if collision else "; no constraints in conflict were found"
    return f"each AIDC site works alone, but not in this network{told}"


def reasons_alone(
    n: pypsa.Network, snapshots: pd.Index | None = None, *, formulation: Formulation = "time"
) -> dict[str, str]:
    """Say for each load that provably cannot work even alone, by name, why: jobs, GPU pool or grid connection."""
    found = {name: load.reason_alone(n, snapshots, formulation) for name, load in loads(n).items()}
    return {name: reason.text for name, reason in found.items() if reason is not None and reason.proven}


def _conflict(m: linopy.Model) -> str:
    """Say which constraints of an infeasible model collide.

    The solver's irreducible infeasible set where it has one, which is where even the relaxation is infeasible. Where
    only whole schedules do not fit, there is none: then the least violation that would make the model feasible, with
    the schedules kept and every other constraint allowed to give.
    """
    together = irreducible_set(m)
    if together:
        return f"Constraints in conflict: {_listed(together)}."
    giving = [f"{name} by {amount:.6g}" for name, amount in least_violations(m, "AIDC-", _SECONDS)]
    return f"It would be feasible if these gave way: {_listed(giving)}." if giving else ""


def _listed(parts: list[str]) -> str:
    more = f" and {len(parts) - _SHOWN} more" if len(parts) > _SHOWN else ""
    return "; ".join(parts[:_SHOWN]) + more
