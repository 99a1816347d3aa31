"""Weighted sums of a variable's entries into rows, built as padded term arrays: quicker than grouping."""

from __future__ import annotations

from collections.abc import Mapping

import linopy
import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray


def weighted_sum(
    variable: linopy.Variable,
    entry: NDArray[np.int64],
    row: NDArray[np.int64],
    weight: NDArray[np.float64],
    coords: Mapping[str, pd.Index],
) -> linopy.LinearExpression:
    """Sum ``weight[i] * variable[entry[i]]`` into row ``row[i]``.

    Parameters
    ----------
    variable
        Of any shape; entries count through it, the last dimension fastest.
    entry, row, weight
        One triple for each term, in any order.
    coords
        Coordinates of the result; rows count through their product, the last dimension fastest.

    Returns
    -------
    linopy.LinearExpression
        Over `coords`; rows without terms are 0.
    """
    shape = tuple(len(index) for index in coords.values())
    rows = int(np.prod(shape))
    order = np.argsort(row, kind="stable")
    counts = np.bincount(row, minlength=rows)
    column = np.arange(len(row)) - np.repeat(np.cumsum(counts) - counts, counts)
    width = int(counts.max(initial=1))
    labels = np.full((rows, width), -1, dtype=variable.labels.dtype)
    weights = np.full((rows, width), np.nan)
    labels[row[order], column] = variable.labels.values.ravel()[entry[order]]
    weights[row[order], column] = weight[order]
    dims = (*coords, "_term")
    data = xr.Dataset(
        {
            "coeffs": (dims, weights.reshape(*shape, width)),
            "vars": (dims, labels.reshape(*shape, width)),
        },
        coords=coordinates(coords),
    )
    return linopy.LinearExpression(data, variable.model)


def previous(variable: linopy.Variable, first: NDArray[np.bool_]) -> linopy.LinearExpression:
    """Shift a variable over (snapshot, name) by one snapshot.

    Parameters
    ----------
    variable
        Over snapshots and names, in this order.
    first
        Snapshots before which there is none, shape (snapshots,); the result is 0 there.
    """
    count = variable.sizes["name"]
    later = (np.flatnonzero(~first)[:, None] * count + np.arange(count)).ravel()
    coords = {"snapshot": variable.indexes["snapshot"], "name": variable.indexes["name"]}
    return weighted_sum(variable, later - count, later, np.ones(len(later)), coords)


def over(values: NDArray[np.float64], *indexes: pd.Index) -> xr.DataArray:
    """Values with named indexes as coordinates, for linopy."""
    coords = coordinates({str(index.name): index for index in indexes})
    return xr.DataArray(np.asarray(values), coords=coords, dims=[str(index.name) for index in indexes])


def coordinates(coords: Mapping[str, pd.Index]) -> xr.Coordinates:
    """Make coordinates of indexes, also of those with levels, such as periods and their snapshots."""
    result = xr.Coordinates()
    for dim, index in coords.items():
        single = xr.Coordinates.from_pandas_multiindex(index, dim) if isinstance(index, pd.MultiIndex) else {dim: index}
        result = result.merge(single).coords
    return result
