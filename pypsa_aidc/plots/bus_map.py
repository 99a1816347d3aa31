"""The map of bus headroom, drawn from the dataset of a `BusHeadroom`."""

from __future__ import annotations

import matplotlib as mpl
import numpy as np
import pandas as pd
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure

from pypsa_aidc.errors import Faults
from pypsa_aidc.plots import sites as plot


def draw_map(data: xr.Dataset, ax: Axes | None = None, labels: int = 5) -> Axes:
    """Draw buses coloured by headroom, all branches thin and grey, and the limiting ones thick.

    The width of a limiting branch tells how many buses it limits. Buses that nothing limits are ringed, those without
    headroom are crosses.

    Raises
    ------
    InputError
        Fewer than two buses have a place of their own.
    """
    x, y = data["x"].to_numpy(), data["y"].to_numpy()
    faults = Faults("map of bus headroom")
    places = {place for place in zip(x, y, strict=True) if np.isfinite(place).all()}
    faults.require(len(places) > 1 or x.size == 1, "x, y of the buses", f"{len(places)} places", "a place for each bus")
    faults.raise_any()
    if ax is None:
        ax = Figure(figsize=(8, 7), layout="constrained").add_subplot()
    ends = np.stack([np.column_stack([data[f"{end}_x"], data[f"{end}_y"]]) for end in ("bus0", "bus1")], axis=1)
    ax.add_collection(LineCollection(list(ends), colors=plot.GREY, linewidths=0.6, zorder=1))
    counts = pd.Series(data["element"].to_numpy().astype(str)).value_counts()
    branch = pd.Index(data["branch"].to_numpy().astype(str))
    limiting = [name for name in counts.index if name in branch]
    most = max((int(counts[name]) for name in limiting), default=1)
    for position, name in enumerate(limiting):
        (start, end) = ends[branch.get_loc(name)]
        ax.plot(
            *zip(start, end, strict=True),
            color=plot.RED,
            linewidth=1.5 + 3.5 * counts[name] / most,
            solid_capstyle="round",
            zorder=2,
        )
        if position < labels:
            ax.annotate(name, (start + end) / 2, fontsize=7, color=plot.BLACK, zorder=5)
    headroom = data["headroom"].to_numpy()
    limited, unlimited = np.isfinite(headroom) & (headroom > 0), np.isinf(headroom)
    colours = mpl.colormaps["viridis"]
    points = ax.scatter(x[limited], y[limited], c=headroom[limited], cmap=colours, s=26, zorder=3)
    ax.scatter(x[headroom <= 0], y[headroom <= 0], color=plot.BLACK, marker="x", s=14, linewidths=0.9, zorder=4)
    ax.scatter(x[unlimited], y[unlimited], facecolors="none", edgecolors=plot.BLUE, s=36, zorder=4)
    if limited.any():
        ax.figure.colorbar(points, ax=ax, label="headroom (MW)", shrink=0.8)
    ax.set(xlabel="longitude", ylabel="latitude", aspect="equal")
    ax.autoscale_view()
    mark = " (synthetic fleet)" if data.attrs.get("synthetic") else ""
    ax.set_title(f"{data.attrs['method']}, contingencies: {data.attrs['contingencies']}{mark}", fontsize=10)
    return ax
