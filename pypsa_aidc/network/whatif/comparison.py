"""What a site costs a network, and what its freedom saves: without it, fixed, waiting and free, each solved."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd
import pypsa

from pypsa_aidc.errors import Faults, NotSolvedError
from pypsa_aidc.network.index import columns
from pypsa_aidc.network.loads.addition import update
from pypsa_aidc.network.loads.site import Site, copy_network, remove, sites
from pypsa_aidc.network.solve.optimize import optimize
from pypsa_aidc.network.whatif.values import tight
from pypsa_aidc.training import TrainingLoad

_JOBS: dict[str, Callable[[TrainingLoad], TrainingLoad]] = {
    "fixed": TrainingLoad.fixed,
    "waiting": TrainingLoad.pausable,
    "free": lambda load: load,
}
_CASES = ("without", *_JOBS)


def compare(
    n: pypsa.Network,
    /,
    site: str | None = None,
    snapshots: pd.Index | None = None,
    *,
    only: Sequence[str] = _CASES,
    **options: Any,
) -> pd.DataFrame:
    """Cost of a network without a site, and with its jobs fixed, free to wait, and free in modes too.

    Other sites, fleets and all storage stay as they are in every case. The network itself is not changed.

    Parameters
    ----------
    n
        Network with sites; it need not be solved.
    site
        Name of the site; may be left out where there is one.
    snapshots
        Part of ``n.snapshots`` to optimise.
    only
        Some of the cases, in any order: ``"without"`` the site; ``"fixed"``, every job in its baseline mode from
        arrival to completion (S1 of [1]); ``"waiting"``, in that mode but free to wait at checkpoints; ``"free"``, the
        jobs as they are (S4).
    options
        Passed to `optimize`; ``mip_rel_gap`` is 1e-6 where nothing else is said.

    Returns
    -------
    pandas.DataFrame
        Index `case`, in the order of `only`; `cost` (objective of PyPSA, USD over the horizon), `added` (USD, against
        ``"without"``), `saved` (USD, against ``"fixed"``), `price` (USD/MWh, mean at the grid bus of the site over the
        hours), `status` and `gap` (relative). Without a solution, `status` is ``"no solution"`` and all else NaN;
        ``attrs["failures"]`` says why, by case.

    Raises
    ------
    InputError
        No such site, a case that does not exist, or a job without baseline in ``"fixed"`` or ``"waiting"``.

    References
    ----------
    [1] Tong et al., arXiv:2610.13047 (2026), Table III.
    """
    known = sites(n)
    chosen = _chosen(known, site, only)
    bus = str(n.links.loc[chosen.link, "bus0"])
    rows, failures = {}, {}
    for case in only:
        copy = copy_network(n)
        if case == "without":
            remove(copy, chosen.name)
        else:
            update(copy, chosen.name, jobs=[_JOBS[case](load) for load in chosen.loads.values()])
        try:
            result = optimize(copy, snapshots, **tight(options))
        except NotSolvedError as error:
            rows[case] = {"cost": np.nan, "price": np.nan, "status": "no solution", "gap": np.nan}
            failures[case] = str(error)
            continue
        price = _mean_price(copy, bus)
        rows[case] = {"cost": result.objective, "price": price, "status": result.status, "gap": result.gap}
    frame = pd.DataFrame.from_dict(rows, orient="index").rename_axis("case")
    for position, (name, reference, sign) in enumerate((("added", "without", 1), ("saved", "fixed", -1)), start=1):
        against = frame["cost"].get(reference, np.nan)
        frame.insert(position, name, sign * (frame["cost"] - against) + 0.0)
    # No site, no jobs that could save anything.
    frame.loc[frame.index == "without", "saved"] = np.nan
    frame.attrs["units"] = {"cost": "USD", "added": "USD", "saved": "USD", "price": "USD/MWh", "gap": "1"}
    frame.attrs["failures"] = failures
    return frame


def _chosen(known: dict[str, Site], site: str | None, only: Sequence[str]) -> Site:
    faults = Faults("n.aidc.compare")
    single = site is None and len(known) == 1
    faults.require(single or site in known, "site", site, f"one of {sorted(known)}")
    faults.require(bool(only), "only", only, f"some of {', '.join(_CASES)}")
    for case in only:
        faults.require(case in _CASES, "only", case, f"some of {', '.join(_CASES)}")
        faults.require([*only].count(case) == 1, "only", case, "each case once")
    faults.raise_any()
    found = next(iter(known.values())) if site is None else known[site]
    for load in found.loads.values():
        lacking = load.baseline is None and bool({"fixed", "waiting"} & set(only))
        remedy = "Give TrainingLoad.of(..., baseline=(p, q, d)), or only=['without', 'free']."
        faults.require(not lacking, f"job {load.name!r}, baseline", None, "the mode of fixed training", remedy)
    faults.raise_any()
    return found


def _mean_price(n: pypsa.Network, bus: str) -> float:
    price = columns(n.c.buses.dynamic["marginal_price"], [bus])[bus].dropna()
    weight = n.snapshot_weightings["objective"].loc[price.index]
    return float((price * weight).sum() / weight.sum()) if len(price) else np.nan
