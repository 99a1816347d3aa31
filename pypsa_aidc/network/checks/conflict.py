"""Constraints of an infeasible model that cannot hold together, with the names of their components."""

from __future__ import annotations

import highspy
import linopy
import numpy as np

_SHOWN = 8
_SECONDS = 20.0
_NOTICEABLE = 1e-6


def conflict(m: linopy.Model | None) -> str:
    """Say which constraints of an infeasible model collide.

    The solver's irreducible infeasible set where it has one, which is where even the relaxation is infeasible. Where
    only whole schedules do not fit, there is none: then the least violation that would make the model feasible, with
    the schedules kept and every other constraint allowed to give.

    Parameters
    ----------
    m
        Model just found infeasible; `None` if there is none.

    Returns
    -------
    str
        One sentence with constraint names, snapshots and components; empty if nothing was found.
    """
    if m is None:
        return ""
    try:
        labels = m.compute_infeasibilities()
    except (RuntimeError, ValueError, NotImplementedError):
        labels = []
    if labels:
        return f"Constraints in conflict: {_listed([_name(m, label) for label in labels])}."
    violations = _least_violation(m)
    if violations:
        parts = [f"{_name(m, label)} by {amount:.6g}" for label, amount in violations]
        return f"It would be feasible if these gave way: {_listed(parts)}."
    return ""


def _least_violation(m: linopy.Model) -> list[tuple[int, float]]:
    """Labels of the constraints that give way, and how much, with the least sum of violations."""
    highs = m.to_highspy()
    highs.setOptionValue("output_flag", False)
    highs.setOptionValue("time_limit", _SECONDS)
    columns, labels = len(m.matrices.vlabels), np.asarray(m.matrices.clabels)
    highs.changeColsCost(columns, np.arange(columns, dtype=np.int32), np.zeros(columns))
    own = [m.constraints[name].labels.values.ravel() for name in m.constraints if name.startswith("AIDC-")]
    elastic = np.flatnonzero(~np.isin(labels, np.concatenate(own))).astype(np.int32)
    count = len(elastic)
    for sign in (1.0, -1.0):
        starts = np.arange(count, dtype=np.int32)
        free = np.full(count, highspy.kHighsInf)
        highs.addCols(count, np.ones(count), np.zeros(count), free, count, starts, elastic, np.full(count, sign))
    highs.run()
    solution = np.asarray(highs.getSolution().col_value)
    if len(solution) != columns + 2 * count or not np.isfinite(highs.getInfo().objective_function_value):
        return []
    given = solution[columns : columns + count] + solution[columns + count :]
    worst = np.argsort(-given, kind="stable")
    return [(int(labels[elastic[row]]), float(given[row])) for row in worst if given[row] > _NOTICEABLE]


def _name(m: linopy.Model, label: int) -> str:
    name, where = m.constraints.get_label_position(label)
    return f"{name} at {', '.join(map(str, where.values()))}"


def _listed(parts: list[str]) -> str:
    more = f" and {len(parts) - _SHOWN} more" if len(parts) > _SHOWN else ""
    return "; ".join(parts[:_SHOWN]) + more
