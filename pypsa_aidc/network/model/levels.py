"""Sums of what is chosen over time, such as the power of a path, written as changes from one snapshot to the next."""

from __future__ import annotations

from collections.abc import Mapping

import linopy
import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray
from scipy.sparse import csr_array

from pypsa_aidc.network.model.linear import coordinates, weighted_sum

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

EVERY = 16
"""Snapshots after which a sum is written out anew: so what a solver tolerates in a row adds up over that many only."""


def add_levels(
    x: linopy.Variable,
    entry: Ints,
    start: Ints,
    stop: Ints,
    base: Ints,
    level: Floats,
    coords: Mapping[str, pd.Index],
    name: str,
) -> linopy.LinearExpression:
    """Add a variable that sums, at each snapshot, the levels of all stretches of chosen entries that cover it.

    ``sum_t - sum_(t-1) = levels that start at t - levels that end at t`` has two entries a stretch, however long it is,
    and, being a linear one-to-one change of rows, the same relaxation as a row with all that cover t.

    Parameters
    ----------
    x
        One-dimensional, what is chosen.
    entry, start, stop, level
        A stretch each: `level` times ``x[entry]`` in the snapshots ``start .. stop - 1``; any number for each entry.
    base
        Row of each stretch at the first snapshot; rows count through `coords`, the last dimension fastest.
    coords
        Coordinates of the result, one of them ``snapshot``.
    name
        Of the variable; the constraint is called ``{name}_changes``.

    Returns
    -------
    linopy.LinearExpression
        Over `coords`, at least 0.
    """
    dims = list(coords)
    shape = [len(coords[dim]) for dim in dims]
    count = len(coords["snapshot"])
    stride = int(np.prod(shape[dims.index("snapshot") + 1 :]))
    inside = (stop - 1) // EVERY - start // EVERY
    again = np.repeat(np.arange(len(entry)), inside)
    nth = np.arange(len(again)) - np.repeat(np.cumsum(inside) - inside, inside)
    ending = np.flatnonzero((stop < count) & (stop % EVERY != 0))
    stretch = np.concatenate([np.arange(len(entry)), again, ending])
    at = np.concatenate([start, (start[again] // EVERY + 1 + nth) * EVERY, stop[ending]])
    sign = np.concatenate([np.ones(len(entry) + len(again)), -np.ones(len(ending))])
    size = int(np.prod(shape))
    matrix = csr_array((sign * level[stretch], (base[stretch] + at * stride, entry[stretch])), shape=(size, x.size))
    # Where a stretch follows another of the same entry, one entry is left of the two, or none.
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    rows = np.repeat(np.arange(size), np.diff(matrix.indptr))
    m = x.model
    total = m.add_variables(lower=xr.DataArray(np.zeros(shape), coordinates(coords), dims), name=name)
    later = np.flatnonzero(np.arange(size) // stride % count % EVERY)
    before = weighted_sum(total, later - stride, later, np.ones(len(later)), coords)
    changes = weighted_sum(x, matrix.indices.astype(np.int64), rows, matrix.data, coords)
    m.add_constraints(total - before - changes == 0, name=f"{name}_changes")
    return 1 * total
