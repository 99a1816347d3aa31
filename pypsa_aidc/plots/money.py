"""Prices at the AIDCs, and what flexibility is worth there."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from pypsa_aidc.plots.style import (
    BLACK,
    BLUE,
    GREY,
    canvas,
    label_bars,
    legend,
    power_unit,
    slot_edges,
    styled,
    time_axis,
    under,
)

_WORDS = {"gpus": "more GPUs", "p_nom": "a larger connection", "waiting": "permission to wait"}


@styled
def plot_prices(price: pd.DataFrame, meter: pd.DataFrame, origin: str = "") -> Figure:
    """Draw the price at the grid bus of each AIDC above the power it draws there.

    Parameters
    ----------
    price, meter
        USD/MWh and MW; one row a snapshot, one column a site or fleet.
    origin
        Where the prices come from, as the status of the solve says it.
    """
    figure, axes = canvas(2, 1, sharex=True)
    upper, lower = axes[:, 0]
    edges, count = slot_edges(price.index), price.shape[1]
    unit, scale = power_unit(float(meter.to_numpy().max()))
    for number, name in enumerate(price):
        style = under(number, count)
        upper.stairs(price[name].to_numpy(), edges, baseline=None, label=str(name), **style)
        lower.stairs(scale * meter[name].to_numpy(), edges, baseline=None, label=str(name), **style)
    upper.set(ylabel="price (USD/MWh)", title=f"price at the grid bus, from the {origin}" if origin else "price")
    lower.set(ylabel=f"power ({unit})", ylim=(0, None), title="power at the meter")
    legend(upper)
    time_axis(lower, price.index)
    return figure


@styled
def plot_values(values: pd.DataFrame) -> Figure:
    """Draw what GPUs, connection and waiting are worth at each site, with the uncertainty of the gaps.

    Parameters
    ----------
    values
        From ``n.aidc.values()``: index (site, what), `step`, `unit`, `value` and `uncertainty` in USD. An infinite
        value is written out: without it the jobs cannot be done.
    """
    steps = [f" ({step:+,g} {unit})" if unit else "" for step, unit in zip(values["step"], values["unit"], strict=True)]
    parts = [(str(site), str(what)) for site, what in values.index]
    names = [f"{site}: {_WORDS.get(what, what)}{step}" for (site, what), step in zip(parts, steps, strict=True)]
    finite = np.isfinite(values["value"])
    errors = values["uncertainty"].where(finite, 0.0)
    figure, axes = canvas(height=1.1 + 0.32 * len(values))
    axis = axes[0, 0]
    error = {"ecolor": BLACK, "capsize": 3, "linewidth": 1}
    bars = axis.barh(names, values["value"].where(finite, 0.0), 0.55, xerr=errors, color=BLUE, error_kw=error)
    texts = [f"{value:,.2f} USD" if known else "needed" for value, known in zip(values["value"], finite, strict=True)]
    label_bars(axis, bars, texts, errors.to_list())
    axis.axvline(0, color=GREY, linewidth=0.8)
    axis.invert_yaxis()
    axis.grid(visible=False, axis="y")
    low, high = (values["value"] - errors)[finite].min(), (values["value"] + errors)[finite].max()
    axis.set_xlim(min(1.3 * low, 0.0), 1.35 * max(high, 0.0) or None)
    axis.set(xlabel="value over the horizon (USD)")
    return figure
