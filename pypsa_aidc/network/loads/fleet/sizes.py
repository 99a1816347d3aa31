"""The size L of fleets in constraints: a number, or the capacity variable of a Generator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import linopy
import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from pypsa_aidc.network.model.linear import over, weighted_sum
from pypsa_aidc.network.model.recourse import View

if TYPE_CHECKING:
    from pypsa_aidc.network.loads.fleet.fleet import Fleet

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_BLOCK = 168
"""Snapshots that have a limit in common."""


class Sizes:
    """Sizes of some fleets in a network with a built model.

    Attributes
    ----------
    limit
        Largest size of each fleet in MW: `p_nom`, or `p_nom_max` where the size is free.
    extendable
        Whether the size is free.
    """

    def __init__(self, view: View, fleets: Sequence[Fleet]) -> None:
        static = view.n.generators.loc[[fleet.name for fleet in fleets]]
        self.extendable = static["p_nom_extendable"].to_numpy(bool)
        self.limit = static["p_nom"].where(~self.extendable, static["p_nom_max"]).to_numpy(float)
        if self.extendable.any():
            self._view, self._size = view, view.variable("Generator-p_nom")
            self._entry = self._size.indexes["name"].get_indexer(static.index)

    def allowed(
        self, owner: Ints, share: Floats, position: Ints, index: pd.Index
    ) -> linopy.LinearExpression | xr.DataArray:
        """At most ``share[i] * L`` of fleet ``owner[i]``, for constraints that must not exceed it.

        Where L is free, rows of the same share in the same week of snapshots have a variable in common that is at most
        its share of L. With L itself in each row, its column would be dense, and HiGHS would take a minute instead of
        seconds to presolve a year.

        Parameters
        ----------
        owner, share
            Of each row; position of the fleet, and factor of L.
        position
            Snapshot that each row begins with.
        index
            Of the rows; its name also names the variable.
        """
        free = self.extendable[owner]
        fixed = over(np.where(free, 0.0, share * np.where(free, 0.0, self.limit[owner])), index)
        rows = np.flatnonzero(free)
        if not len(rows):
            return fixed
        key = np.stack([owner[rows], position[rows] // _BLOCK, share[rows]])
        (owners, _, shares), row = np.unique(key, axis=1, return_inverse=True)
        coords = {f"{index.name}_limit": pd.RangeIndex(len(owners), name=f"{index.name}_limit")}
        name = self._view.named(f"AIDC-{str(index.name).removeprefix('aidc_')}_limit")
        limit = self._view.m.add_variables(lower=0, coords=list(coords.values()), name=name)
        sizes = weighted_sum(self._size, self._entry[owners.astype(int)], np.arange(len(owners)), shares, coords)
        self._view.m.add_constraints(limit - sizes <= 0, name=name)
        return weighted_sum(limit, row.ravel(), rows, np.ones(len(rows)), {str(index.name): index}) + fixed
