"""Headroom with redispatch: the largest site that generators, storage and links can serve at any cost, with N-1."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
import pypsa

from pypsa_aidc.errors import NotSolvedError
from pypsa_aidc.headroom.bus.answers import OVERLOADED, UNLIMITED, Answer
from pypsa_aidc.headroom.bus.base_case import BRANCHES
from pypsa_aidc.headroom.bus.factors import Island
from pypsa_aidc.headroom.bus.programme import Integers, Programme
from pypsa_aidc.headroom.bus.response import Response
from pypsa_aidc.headroom.bus.rooms import LIMITED
from pypsa_aidc.progress import track

_TOLERANCE = 1e-5
"""Share of a rating (at least 1 MW of it) by which a flow after an outage may exceed it."""
_ROWS_PER_ROUND = 4000
_ROUNDS = 60
_DUAL = 1e-9


def redispatched(
    n: pypsa.Network,
    islands: Sequence[Island],
    outages: Sequence[Integers],
    buses: Sequence[str],
    site: Response,
    emergency: float,
) -> dict[str, Answer]:
    """Solve for the largest site at each bus.

    Limits after outages, s_l + LODF_lk·s_k within ± the emergency rating, are put into the programme when a solution
    breaks them. They do not depend on the bus, and stay for the next one.

    Parameters
    ----------
    n
        Base case; changed (it gets the probes).
    islands, outages
        Distribution factors, and branches whose outage is studied, by island.
    buses
        Buses to study.
    site
        Load and response.
    emergency
        Rating after an outage over the normal rating.

    Returns
    -------
    dict
        Answers by bus.

    Raises
    ------
    NotSolvedError
        The solver stopped without a solution that is not infeasibility.
    """
    programme = Programme(n, site)
    security = _Security(programme, islands, outages, emergency)
    programme.point_at(None)
    if not security.solve():
        answer = _infeasible(n, programme)
        return dict.fromkeys(buses, answer)
    answers = {}
    for bus in track(buses, "headroom, by bus"):
        programme.point_at(bus)
        if not security.solve():
            raise NotSolvedError(f"headroom at bus {bus!r}: HiGHS calls infeasible what is feasible with a size of 0.")
        answers[bus] = _answer(n, programme, emergency)
    return answers


class _Security:
    """Limits after outages, added to the programme as they are broken."""

    def __init__(
        self, programme: Programme, islands: Sequence[Island], outages: Sequence[Integers], emergency: float
    ) -> None:
        self._programme, self._emergency = programme, emergency
        self._parts = [(island, lost) for island, lost in zip(islands, outages, strict=True) if len(lost)]

    def solve(self) -> bool:
        """Solve until no limit after an outage is broken; False if there is no feasible dispatch."""
        for _ in range(_ROUNDS):
            if not self._programme.solve():
                return False
            if not sum(self._secure(island, lost) for island, lost in self._parts):
                return True
        raise NotSolvedError(f"headroom: limits after outages were still broken after {_ROUNDS} rounds.")

    def _secure(self, island: Island, outages: Integers) -> int:
        """Add the limits that the last solution breaks, the worst first; return their number."""
        flow = self._programme.flows(island)
        limit = self._emergency * island.rating
        slack = _TOLERANCE * np.maximum(1.0, np.where(np.isfinite(limit), limit, 1.0))
        found = []
        for outage in outages:
            after = flow + np.outer(island.lodf[:, outage], flow[outage])
            excess = np.abs(after) - limit - slack
            excess[outage] = -1.0
            branch, snapshot = np.nonzero(excess > 0)
            found.append(np.column_stack([branch, np.full(branch.size, outage), snapshot, excess[branch, snapshot]]))
        broken = np.concatenate(found)
        broken = broken[np.argsort(-broken[:, 3], kind="stable")][:_ROWS_PER_ROUND]
        if not len(broken):
            return 0
        branch, outage, snapshot = broken[:, :3].astype(np.int64).T
        columns = np.array([self._programme.flow[key] for key in island.branches])
        share = island.lodf[branch, outage]
        upper = limit[branch, snapshot]
        names = island.branches.to_frame(index=False).to_numpy(dtype=object)
        labels = np.array([island.label(position) for position in range(len(island.branches))], dtype=object)
        self._programme.add_rows(
            -upper,
            upper,
            list(np.column_stack([columns[branch, snapshot], columns[outage, snapshot]])),
            list(np.column_stack([np.ones(branch.size), share])),
            pd.DataFrame(
                {
                    "component": names[branch, 0],
                    "name": names[branch, 1],
                    "outage": labels[outage],
                    "snapshot": snapshot,
                },
                dtype=object,
            ),
        )
        return len(broken)


def _answer(n: pypsa.Network, programme: Programme, emergency: float) -> Answer:
    size = programme.headroom
    if not np.isfinite(size):
        return Answer(np.inf, UNLIMITED, "nothing: neither a branch nor supply")
    rows = programme.elements.assign(value=programme.duals())
    rows = rows[(rows["component"] != "") & (rows["value"] > _DUAL)]
    if rows.empty:
        return Answer(size, LIMITED, "balances of storage or must-run generation")
    rows.loc[rows["outage"] != "", "value"] *= emergency
    total = rows.groupby(["component", "name"], sort=False)["value"].sum()
    component, name = total.index[int(total.argmax())]
    limiting = rows[(rows["component"] == component) & (rows["name"] == name)]
    row = limiting.loc[limiting["value"].idxmax()]
    value = float(total.max())
    return Answer(
        size, LIMITED, _label(component, name, total), str(row["outage"]), n.snapshots[int(row["snapshot"])], value
    )


def _label(component: str, name: str, total: pd.Series) -> str:
    """Name of a limiting element; of generators and the like, how many others limit as much."""
    if component in BRANCHES:
        return f"{component} {name}"
    equal = int((total > total.max() * (1 - 1e-6)).sum()) - 1
    word = "no spare generation: " if component == "Generator" else ""
    return f"{word}{component} {name}" + (f" and {equal} more" if equal else "")


def _infeasible(n: pypsa.Network, programme: Programme) -> Answer:
    """Name what is overloaded without any site: the branch that must exceed its limits the most, or supply."""
    branches = np.flatnonzero(programme.elements["component"].isin(BRANCHES))
    excess = programme.violations(branches)
    if excess is None:
        return Answer(0.0, OVERLOADED, "supply: the loads cannot be served even if branches had no limits")
    worst = int(np.argmax(excess))
    row = programme.elements.iloc[branches[worst]]
    return Answer(
        0.0,
        OVERLOADED,
        f"{row['component']} {row['name']}",
        str(row["outage"]),
        n.snapshots[int(row["snapshot"])],
        excess=float(excess[worst]),
    )
