"""Jobs that may run at any one of several sites: each placement is an optimisation, and the cheapest one stays."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pandas as pd
import pypsa

from pypsa_aidc.errors import Faults, InfeasibleError, NotSolvedError
from pypsa_aidc.network.loads.registry import sites
from pypsa_aidc.network.loads.site.add import update
from pypsa_aidc.network.loads.site.site import Site
from pypsa_aidc.network.pypsa_api import copy_network
from pypsa_aidc.network.solve.optimize import optimize
from pypsa_aidc.network.whatif import tight
from pypsa_aidc.progress import track
from pypsa_aidc.training import TrainingLoad

Movable = tuple[TrainingLoad, Sequence[str]]


def place(
    n: pypsa.Network,
    /,
    jobs: Iterable[Movable],
    snapshots: pd.Index | None = None,
    *,
    most: int = 64,
    **options: Any,
) -> pd.DataFrame:
    """Add each job to that one of its sites where all jobs together cost least, and optimise the network so.

    Every combination of sites is optimised, with the jobs that the sites have already free as ever, so that the result
    is the best of all placements in each mode of PyPSA. A job runs where it is placed from its first to its last
    checkpoint.

    Parameters
    ----------
    n
        Network with sites; the jobs are added to it and it is solved, unless something is raised.
    jobs
        Pairs of a load that no site has yet and the names of the sites at which it may run. Pool and connection
        of these sites stay as they are: a `p_nom` that was left out bears the jobs that a site was given by `add`.
    snapshots
        Part of ``n.snapshots`` to optimise.
    most
        Most combinations to solve; more are refused.
    options
        Passed to `optimize`; ``mip_rel_gap`` is 1e-6 where nothing else is said.

    Returns
    -------
    pandas.DataFrame
        One row a combination, cheapest first and those without a solution last: a column for each job with its site,
        `cost` (objective, USD over the horizon), `gap` (relative) and `status`. The first row is what the network
        holds; of equal ones it is the one whose sites were named first.

    Raises
    ------
    InputError
        A site that does not exist, a job without sites or whose name a site has already, or too many combinations.
    InfeasibleError
        No combination has a solution.
    NotSolvedError
        Within the limits of `options`, none was found.

    Examples
    --------
    >>> import pypsa_aidc as aidc
    >>> from pypsa_aidc.training import Mode
    >>> n = pypsa.Network(snapshots=pd.RangeIndex(4))
    >>> _ = n.add("Carrier", "AC")
    >>> for bus, price in (("north", 20.0), ("south", 30.0)):
    ...     _ = n.add("Bus", bus, carrier="AC")
    ...     _ = n.add("Generator", bus, bus=bus, carrier="AC", p_nom=50.0, marginal_cost=price)
    ...     n.aidc.add(f"dc {bus}", bus=bus, gpus=8, p_nom=5.0, jobs=[])
    >>> mode = Mode((1, 1, 8), 8, 1e15, 2.0)
    >>> job = aidc.TrainingLoad("A", 2 * 3.6e18, (mode,), aidc.Rules(segments=2))
    >>> n.aidc.place([(job, ["dc south", "dc north"])], output_flag=False)[["A", "cost"]]
              A   cost
    0  dc north   80.0
    1  dc south  120.0
    >>> n.aidc.schedule()["site"].unique().tolist()
    ['dc north']
    """
    movable, known = list(jobs), sites(n)
    _check(movable, known, most)
    combinations = list(itertools.product(*(names for _, names in movable)))
    rows, failures = [], []
    for chosen in track(combinations, "placements, one solve each"):
        row: dict[str, object] = {load.name: site for (load, _), site in zip(movable, chosen, strict=True)}
        copy = copy_network(n)
        _add(copy, movable, chosen)
        try:
            result = optimize(copy, snapshots, **{**tight(options), "prices": False})
            row |= {"cost": result.objective, "gap": result.gap, "status": result.status}
        except NotSolvedError as error:
            row |= {"cost": np.nan, "gap": np.nan, "status": "no solution"}
            failures.append(error)
        rows.append(row)
    if len(failures) == len(combinations):
        proven = all(isinstance(error, InfeasibleError) for error in failures)
        pairs = zip(movable, combinations[0], strict=True)
        first = ", ".join(f"{load.name!r} at {site!r}" for (load, _), site in pairs)
        text = f"none of {len(combinations)} placements has a solution. With {first}: {failures[0]}"
        raise InfeasibleError(text) if proven else NotSolvedError(text)
    table = pd.DataFrame(rows).sort_values("cost", kind="stable", na_position="last")
    _add(n, movable, combinations[int(table.index[0])])
    optimize(n, snapshots, **tight(options))
    table = table.reset_index(drop=True)
    table.attrs["units"] = {"cost": "USD", "gap": "1"}
    return table


def _check(movable: Sequence[Movable], known: dict[str, Site], most: int) -> None:
    faults = Faults("n.aidc.place")
    faults.number("most", most, at_least=1, integer=True)
    faults.require(bool(movable), "jobs", "none", "at least one pair of a TrainingLoad and names of sites")
    names = []
    for pair in movable:
        fits = isinstance(pair, tuple) and len(pair) == 2 and isinstance(pair[0], TrainingLoad)
        faults.require(fits, "jobs", pair, "pairs of a TrainingLoad and names of sites", "E.g. (load, ['dc1', 'dc2']).")
        if not fits:
            continue
        load, chosen = pair
        where = f"jobs, {load.name!r}"
        names.append(load.name)
        wanted = faults.listed(where, chosen, "a list of names of sites")
        faults.require(bool(wanted), where, "no site", "at least one")
        faults.require(len({*wanted}) == len(wanted), where, chosen, "each site once")
        for site in wanted:
            faults.require(site in known, where, site, f"one of {sorted(known)}", "Add it with n.aidc.add.")
            there = [job.name for job in known[site].jobs.values()] if site in known else []
            faults.require(
                load.name not in there, where, f"a job of that name at {site!r}", "a new one", "Give it another name."
            )
    faults.require(len({*names}) == len(names), "jobs", names, "names that differ", "Rename one.")
    faults.raise_any()
    count = math.prod(len(chosen) for _, chosen in movable)
    remedy = f"Name fewer sites, place some jobs first, or allow them by most={count}."
    faults.require(count <= most, "jobs", f"{count:,} combinations", f"at most {most}", remedy)
    faults.raise_any()


def _add(n: pypsa.Network, movable: Sequence[Movable], chosen: Sequence[str]) -> None:
    for name in dict.fromkeys(chosen):
        own = [load for (load, _), site in zip(movable, chosen, strict=True) if site == name]
        update(n, name, jobs=[*sites(n)[name].jobs.values(), *own])
