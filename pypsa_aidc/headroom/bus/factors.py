"""Distribution factors of the synchronous parts of a network: PTDF, LODF, and the outages that split it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
import pypsa
from numpy.typing import NDArray
from scipy.sparse.linalg import splu

from pypsa_aidc.errors import Faults, StaleError
from pypsa_aidc.headroom.bus.base_case import Floats, flows, injections, ratings

Branch = tuple[str, str]
_BRIDGE_TOLERANCE = 1e-6
"""Distance of a branch's own distribution factor from 1 below which its outage splits the network."""
_FLOW_TOLERANCE = 1e-3
_COLUMNS = 512
"""Buses whose factors are computed together."""


@dataclass(frozen=True, eq=False)
class Losses:
    """What the loss of each branch of an island does, computed when it is asked for: it is L × L numbers.

    Parameters
    ----------
    ptdf
        Of all buses of the island, shape (L, B).
    ends
        Positions of the buses at both ends of each branch, shape (2, L).
    """

    ptdf: Floats
    ends: NDArray[np.int64]

    @cached_property
    def splitting(self) -> NDArray[np.bool_]:
        """Branches whose loss splits the island, shape (L,)."""
        every = np.arange(len(self.ptdf))
        own: Floats = self.ptdf[every, self.ends[0]] - self.ptdf[every, self.ends[1]]
        return np.asarray(np.abs(1 - own) < _BRIDGE_TOLERANCE, dtype=np.bool_)

    @cached_property
    def lodf(self) -> Floats:
        """Factors of all outages, see `Island`."""
        transfer = self.ptdf[:, self.ends[0]]
        transfer -= self.ptdf[:, self.ends[1]]
        return outage_factors(transfer)


@dataclass(frozen=True, eq=False)
class Island:
    """One synchronous part (a PyPSA sub-network) with its distribution factors.

    Attributes
    ----------
    name : str
        Name of the sub-network.
    carrier : str
        ``"AC"`` or ``"DC"``.
    buses : pandas.Index
        Buses, length B.
    branches : pandas.MultiIndex
        (component, name) of the active lines and transformers, length L.
    ptdf : numpy.ndarray
        Flow on each branch for 1 MW injected at each bus and taken out at the reference bus, shape (L, B).
    losses : Losses
        What follows the loss of each branch; of all buses, where `ptdf` is of some.
    rating : numpy.ndarray
        s_nom · s_max_pu, MW, shape (L, T).
    """

    name: str
    carrier: str
    buses: pd.Index
    branches: pd.MultiIndex
    ptdf: Floats
    losses: Losses
    rating: Floats

    @property
    def lodf(self) -> Floats:
        """Share of the flow on branch k (column) that moves to branch l (row) when k is lost, shape (L, L).

        −1 on the diagonal, NaN in the columns of outages that split the island.
        """
        return self.losses.lodf

    @property
    def splitting(self) -> NDArray[np.bool_]:
        """Branches whose outage splits the island, shape (L,)."""
        return self.losses.splitting

    def label(self, branch: int) -> str:
        """Name of a branch for people, e.g. ``"Line 12"``."""
        component, name = self.branches[branch]
        return f"{component} {name}"

    def cut_off_by(self) -> list[list[str]]:
        """For each bus, the single outages that cut it off from the larger part of the island."""
        found: list[list[str]] = [[] for _ in self.buses]
        for branch in np.flatnonzero(self.splitting):
            # Across a bridge flows all or nothing: the factor is 0 on the side of the reference bus, ±1 beyond.
            beyond = np.abs(self.ptdf[branch]) > 0.5
            smaller = beyond if 2 * beyond.sum() <= beyond.size else ~beyond
            for bus in np.flatnonzero(smaller):
                found[bus].append(self.label(int(branch)))
        return found


def islands(n: pypsa.Network) -> list[Island]:
    """Compute the distribution factors of every sub-network of a base case.

    Parameters
    ----------
    n
        Network whose topology and per-unit values have been determined, as `base_case` does.

    References
    ----------
    [1] Wood, Wollenberg and Sheblé, Power Generation, Operation and Control (2013), Sec. 7.
    """
    rating = ratings(n)
    found = []
    for name, sub in n.sub_networks["obj"].items():
        sub.find_bus_controls()
        branches = sub.branches_i(active_only=True)
        if len(branches) == 0:
            ptdf, ends = np.zeros((0, len(sub.buses_o))), np.zeros((2, 0), np.int64)
            branches = pd.MultiIndex.from_arrays([[], []], names=["component", "name"])
        else:
            sub.calculate_B_H(skip_pre=True)
            ptdf = _distribution(sub)
            table = sub.branches().loc[branches]
            ends = np.array([pd.Index(sub.buses_o).get_indexer(table[end]) for end in ("bus0", "bus1")])
        limit = rating.reindex(columns=branches).to_numpy(float).T if len(branches) else np.zeros((0, len(n.snapshots)))
        carrier = str(n.sub_networks.at[name, "carrier"])
        found.append(Island(str(name), carrier, pd.Index(sub.buses_o), branches, ptdf, Losses(ptdf, ends), limit))
    return found


def _distribution(sub: Any) -> Floats:
    """PTDF by columns, from a sparse factorisation: PyPSA inverts a dense matrix of all buses."""
    flow = sub.H.tocsr()[:, 1:]
    branches, others = flow.shape
    factors: Floats = np.zeros((branches, 1 + others), order="F")
    if not others:
        return factors
    nodal = splu(sub.B.tocsc()[1:, 1:])
    for start in range(0, others, _COLUMNS):
        stop = min(start + _COLUMNS, others)
        one = np.zeros((others, stop - start))
        one[np.arange(start, stop), np.arange(stop - start)] = 1.0
        factors[:, 1 + start : 1 + stop] = flow @ nodal.solve(one)
    return factors


def outage_factors(transfer: Floats) -> Floats:
    """Turn transfer factors between the ends of branches into line outage distribution factors.

    Parameters
    ----------
    transfer
        Flow on branch l for 1 MW from bus0 to bus1 of branch k, shape (L, L), of floats; it is overwritten.

    Returns
    -------
    numpy.ndarray
        LODF_lk = T_lk/(1 − T_kk), −1 on the diagonal, NaN where 1 − T_kk is 0: there is no other path.

    Examples
    --------
    Three equal reactances in a triangle: 2/3 of a transfer goes the direct way, and all of it the other way if the
    direct line is lost.

    >>> outage_factors(np.array([[2, 1, 1], [1, 2, -1], [1, -1, 2]]) / 3).round(12).tolist()
    [[-1.0, 1.0, 1.0], [1.0, -1.0, -1.0], [1.0, -1.0, -1.0]]
    """
    left = 1 - np.diag(transfer)
    bridge = np.abs(left) < _BRIDGE_TOLERANCE
    factors = np.divide(transfer, np.where(bridge, np.nan, left), out=transfer)
    np.fill_diagonal(factors, np.where(bridge, np.nan, -1.0))
    return factors


def base_flows(n: pypsa.Network, island: Island) -> Floats:
    """Base flows of an island, MW, shape (L, T), after checking that they are flows of this network.

    The loop flows that injections do not explain must be those of phase-shifting transformers, which are constant in
    power flow and cancel in every difference of two flows.

    Raises
    ------
    StaleError
        Flows that obey other reactances: the network was changed after it was solved.
    """
    stored = flows(n)[list(island.branches)].to_numpy(float).T if len(island.branches) else island.rating
    if not len(island.branches):
        return stored
    sub = n.sub_networks.at[island.name, "obj"]
    shift = np.asarray(sub.p_branch_shift, dtype=float)[:, None]
    explained = island.ptdf @ (sub.K @ (stored - shift)) + shift
    wrong = np.abs(stored - explained)
    if wrong.max() > _FLOW_TOLERANCE * max(1.0, float(np.abs(stored).max())) and not _shifts_are_decided(n):
        branch, snapshot = np.unravel_index(int(np.argmax(wrong)), wrong.shape)
        faults = Faults("base case of headroom")
        faults.add(
            f"{island.label(int(branch))} at snapshot {n.snapshots[int(snapshot)]}",
            float(stored[branch, snapshot]),
            f"{explained[branch, snapshot]:.6g} MW, by the reactances of the network",
            "Impedances, taps or branches were changed after the solve: solve the network again.",
        )
        faults.raise_any(StaleError)
    return stored


def flows_of_set_points(n: pypsa.Network, island: Island) -> Floats:
    """Linear power flow of an island's injections, MW, shape (L, T).

    Raises
    ------
    InputError
        The set points do not add up: what is missing would have to come from somewhere.
    """
    injected = injections(n)[island.buses].to_numpy(float).T
    missing = injected.sum(axis=0)
    worst = int(np.argmax(np.abs(missing)))
    faults = Faults("base case of headroom")
    faults.require(
        bool(abs(missing[worst]) <= _FLOW_TOLERANCE * max(1.0, float(np.abs(injected).max()))),
        f"set points in sub-network {island.name} at snapshot {n.snapshots[worst]}",
        f"generation less load of {missing[worst]:.6g} MW",
        "0 MW",
        "Give p_set that add up, or solve the network with n.optimize().",
    )
    faults.raise_any()
    if not len(island.branches):
        return island.rating
    sub = n.sub_networks.at[island.name, "obj"]
    shift = np.asarray(sub.p_branch_shift, dtype=float)[:, None]
    flow: Floats = island.ptdf @ (injected - sub.K @ shift) + shift
    return flow


def chosen_outages(
    found: Sequence[Island], contingencies: str | Sequence[str | Branch] | None
) -> tuple[list[NDArray[np.int64]], tuple[str, ...]]:
    """Sort contingencies into those of each island that can be studied, and those that split it.

    Parameters
    ----------
    found
        Islands of the network.
    contingencies
        `None`, ``"all"`` lines and transformers, names of lines, or (component, name).

    Returns
    -------
    outages, splitting
        Positions of branches by island; labels of outages that split an island and so have no power flow.

    Raises
    ------
    InputError
        A name that is no active line or transformer.
    """
    if contingencies is None:
        return [np.zeros(0, np.int64) for _ in found], ()
    known = {branch for island in found for branch in island.branches}
    faults = Faults("headroom")
    everything = contingencies == "all"
    faults.require(
        everything or not isinstance(contingencies, str),
        "contingencies",
        contingencies,
        "None, 'all', or a list of lines",
    )
    faults.raise_any()
    wanted = known if everything else {("Line", c) if np.isscalar(c) else tuple(c) for c in contingencies}
    for branch in sorted(wanted - known, key=str):
        faults.add(
            "contingencies",
            branch if branch[0] != "Line" else branch[1],
            "an active Line, or (component, name) of a Line or Transformer",
            "Outages of links and generators are not distribution factors: deactivate the component and ask again.",
        )
    faults.raise_any()
    outages, splitting = [], []
    for island in found:
        asked = np.fromiter((branch in wanted for branch in island.branches), bool, len(island.branches))
        outages.append(np.flatnonzero(asked & ~island.splitting))
        splitting += [island.label(int(k)) for k in np.flatnonzero(asked & island.splitting)]
    return outages, tuple(splitting)


def _shifts_are_decided(n: pypsa.Network) -> bool:
    """Whether phase shifts vary over time or were optimised, so that `phase_shift` does not tell the flows."""
    static = n.transformers
    if not n.transformers_t["phase_shift"].empty:
        return True
    if "phase_shift_min" not in static:
        return False
    return bool((static["phase_shift_min"] < static["phase_shift_max"]).any())
