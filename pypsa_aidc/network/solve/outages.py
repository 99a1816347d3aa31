"""Outages that a network can be secured against: those that do not split it."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import networkx as nx
import pandas as pd
import pypsa

from pypsa_aidc.errors import Faults

logger = logging.getLogger(__name__)


def secure_outages(
    n: pypsa.Network, outages: Sequence[str] | str | None
) -> tuple[pd.MultiIndex | None, tuple[str, ...]]:
    """Sort outages into those that leave all buses of an AC network connected and those that split it.

    Without power flow over another path, the distribution factors of an outage are infinite, and PyPSA's security
    constraints mean nothing.

    Parameters
    ----------
    n
        Network.
    outages
        Names of Lines, ``"all"`` active passive branches, or `None`.

    Returns
    -------
    secured, skipped
        (component, name) of the branches that can be secured, `None` if no outages were asked for; labels of those
        that split the network.

    Raises
    ------
    InputError
        An unknown line, nothing left to secure, or branches that are not alike in all scenarios.
    """
    if outages is None:
        return None, ()
    branches = _by_name(n.passive_branches())
    branches = branches[branches["active"].astype(bool)]
    everything = [(str(component), str(name)) for component, name in branches.index]
    wanted = everything if outages == "all" else [("Line", str(name)) for name in outages]
    faults = Faults("branch_outages")
    for branch in wanted:
        faults.require(branch in everything, "outage", branch[1], "an active Line of the network, or 'all'")
    faults.raise_any()
    splitting = _splitting(branches)
    skipped = tuple(f"{component} {name}" for component, name in wanted if (component, name) in splitting)
    secured = [branch for branch in wanted if branch not in splitting]
    faults.require(bool(secured), "branch_outages", outages, "at least one outage that does not split the network")
    faults.raise_any()
    if skipped:
        logger.warning("%d outages split the network and are not secured: %s", len(skipped), ", ".join(skipped))
    return pd.MultiIndex.from_tuples(secured), skipped


def _by_name(branches: pd.DataFrame) -> pd.DataFrame:
    """Branches by component and name; PyPSA takes the distribution factors of the first scenario for all of them."""
    if "scenario" not in branches.index.names:
        return branches
    grouped = branches.groupby([name for name in branches.index.names if name != "scenario"], sort=False)
    apart = grouped[["x", "r", "active"]].nunique().gt(1).any(axis=1)
    faults = Faults("branch_outages")
    for component, name in apart.index[apart]:
        expected = "the same in all scenarios: PyPSA takes the first for all of them"
        faults.add(f"{component} {name!r}", "another x, r or active in some scenario", expected)
    faults.raise_any()
    return grouped.first()


def _splitting(branches: pd.DataFrame) -> set[tuple[str, str]]:
    graph = nx.MultiGraph()
    for key, bus0, bus1 in zip(branches.index, branches["bus0"], branches["bus1"], strict=True):
        graph.add_edge(bus0, bus1, key=key)
    simple = nx.Graph(graph)
    bridges = {frozenset(pair) for pair in nx.bridges(simple) if graph.number_of_edges(*pair) == 1}
    return {
        (str(component), str(name))
        for (component, name), bus0, bus1 in zip(branches.index, branches["bus0"], branches["bus1"], strict=True)
        if frozenset((bus0, bus1)) in bridges
    }
