"""K of parts of a trace: halves, thirty-day windows, and what came before or after a change."""

from __future__ import annotations

import numpy as np
import pandas as pd

from pypsa_aidc.errors import Faults
from pypsa_aidc.fleet.condition import MONTH, Condition
from pypsa_aidc.fleet.envelope import Envelope, Portfolio
from pypsa_aidc.fleet.layers import Boundary
from pypsa_aidc.fleet.surface import Surface
from pypsa_aidc.fleet.windows import Method


def compare_eras(
    envelope: Envelope,
    duration: int = 4,
    reliability: float = 0.95,
    *,
    portfolio: Portfolio = None,
    boundary: Boundary = "idle-retained",
    method: Method = "sup",
    changes: dict[str, int] | None = None,
) -> pd.DataFrame:
    """Mean, K and firmness of each half, each thirty-day window, and before and after given hours (Fig. 13b of [2]).

    Windows lie in an era as a whole.

    Parameters
    ----------
    envelope, portfolio, boundary, method
        As for `pypsa_aidc.fleet.surface`.
    duration, reliability
        The product, h and share.
    changes
        Name → hour of changes, e.g. from `Statistics.eras`.

    Returns
    -------
    pandas.DataFrame
        Index era; columns `mean`, `K` (MW), `firmness`, `windows`.
    """
    hours = envelope.data["hour"].to_numpy()
    faults = Faults("Eras")
    for name, hour in (changes or {}).items():
        faults.require(hours[0] < hour <= hours[-1], f"changes['{name}']", hour, f"an hour in {hours[0]} … {hours[-1]}")
    faults.raise_any()
    middle = hours[hours.size // 2]
    masks = {"first half": hours < middle, "second half": hours >= middle}
    for name, hour in (changes or {}).items():
        masks |= {f"before {name}": hours < hour, f"from {name}": hours >= hour}
    for month in np.unique(hours // MONTH):
        days = hours[hours // MONTH == month] // 24
        masks[f"days {days[0]}–{days[-1]}"] = hours // MONTH == month
    rows = {}
    for name, mask in masks.items():
        own = Condition(within=mask)
        options = {"portfolio": portfolio, "boundary": boundary, "method": method, "condition": own}
        result = Surface.of(envelope, (duration,), (reliability,), **options)  # type: ignore[arg-type]
        rows[name] = {
            "mean": result.data.attrs["mean"],
            "K": result.K.item(),
            "firmness": result.firmness.item(),
            "windows": result.windows[duration],
        }
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("era").astype({"windows": int})
