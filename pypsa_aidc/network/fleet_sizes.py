"""The size L of fleets in constraints: a number, or the capacity variable of a Generator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import linopy
import numpy as np
import pandas as pd
import pypsa
import xarray as xr
from numpy.typing import NDArray

from pypsa_aidc.network.fleet_spec import Fleet
from pypsa_aidc.network.terms import weighted_sum

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class Sizes:
    """Sizes of some fleets in a network with a built model.

    Attributes
    ----------
    limit
        Largest size of each fleet in MW: `p_nom`, or `p_nom_max` where the size is free.
    extendable
        Whether the size is free.
    """

    def __init__(self, n: pypsa.Network, fleets: Sequence[Fleet]) -> None:
        static = n.generators.loc[[fleet.name for fleet in fleets]]
        self.extendable = static["p_nom_extendable"].to_numpy(bool)
        self.limit = static["p_nom"].where(~self.extendable, static["p_nom_max"]).to_numpy(float)
        if self.extendable.any():
            self._variable = n.model["Generator-p_nom"]
            self._position = self._variable.indexes["name"].get_indexer(static.index)

    def times(
        self, fleet: Ints, weight: Floats, coords: Mapping[str, pd.Index]
    ) -> linopy.LinearExpression | xr.DataArray:
        """``weight[i] * L`` of fleet ``fleet[i]``, one row each over the one dimension of `coords`."""
        free = self.extendable[fleet]
        (index,) = coords.values()
        fixed = over(np.where(free, 0.0, weight * np.where(free, 0.0, self.limit[fleet])), index)
        if not free.any():
            return fixed
        rows = np.flatnonzero(free)
        return weighted_sum(self._variable, self._position[fleet[rows]], rows, weight[rows], coords) + fixed


def over(values: Floats, *indexes: pd.Index) -> xr.DataArray:
    """Values with named indexes as coordinates, for linopy."""
    coords = xr.Coordinates()
    for index in indexes:
        single = (
            xr.Coordinates.from_pandas_multiindex(index, str(index.name))
            if isinstance(index, pd.MultiIndex)
            else {str(index.name): index}
        )
        coords = coords.merge(single).coords
    return xr.DataArray(np.asarray(values), coords=coords, dims=[str(index.name) for index in indexes])
