"""What is checked of a site before a solve: whether it fits the network, and whether its figures fit each other."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import pypsa

from pypsa_aidc.errors import Faults
from pypsa_aidc.network.checks.supply import BRANCHES, static_by_name, supply_at
from pypsa_aidc.network.loads.protocol import Finding
from pypsa_aidc.network.loads.site.derived import least_energy, most_change, peak_power
from pypsa_aidc.network.loads.site.gpu_value import GPU_VALUE
from pypsa_aidc.network.pypsa_api import dense, names, rows
from pypsa_aidc.network.spec.coverage import check_coverage
from pypsa_aidc.training import TrainingLoad
from pypsa_aidc.units import W_PER_MW

if TYPE_CHECKING:
    from pypsa_aidc.network.loads.site.site import Site

_HIGHEST_PUE = 4.0
"""Above what any data center has been reported with."""
SUSPICIOUS_RATIO = 20.0
"""Base load per training power (or connection) from which a unit mistake is more likely than such a site."""

_WATTS_PER_GPU = (50.0, 5000.0)
"""IT power of a training GPU with its share of the host, in W: rated boards run from 300 to 1200 W."""


def check_fit(n: pypsa.Network, site: Site, snapshots: pd.Index, faults: Faults) -> None:
    """Note what no longer fits the network: other snapshots, blanked series, decided power left in `p_set`."""
    check_coverage(site.name, site.spec.series, n, snapshots, faults)
    _check_held(n, site, faults)
    for _, series in dense(n, "Link", "efficiency", site.link).loc[snapshots].items():
        bad = series.index[~((series > 0) & (series <= 1))]
        faults.require(
            not len(bad), f"Link {site.link!r}, efficiency", list(series[bad][:1]), "1/PUE, above 0 and at most 1"
        )
    for attribute, limit in most_change(n, site, snapshots).items():
        held = dense(n, "Link", attribute, site.link).loc[snapshots].iloc[:, 0]
        p_nom = float(n.links.loc[rows(n.links.index, site.link), "p_nom"].max())
        short = pd.Series(False, snapshots) if limit is None else ~(held * p_nom <= limit.loc[snapshots] * (1 + 1e-6))
        short &= False if limit is None else limit.loc[snapshots].notna()
        faults.require(
            not short.any(),
            f"Link {site.link!r}, {attribute}",
            f"{int(short.sum())} snapshots, the first {short.idxmax()}",
            "the ramp limit of the site, as a share of the present p_nom",
            "Call n.aidc.refresh(), or solve with n.aidc.optimize.",
        )
    horizon = site.windows(n, snapshots)
    for generator, load in site.loads.items():
        stored = n.generators.loc[rows(n.generators.index, generator)]
        least = least_energy(load, n, snapshots, horizon)
        given = float(stored["e_sum_min"].max())
        faults.require(
            given <= least * (1 + 1e-9),
            f"Generator {generator!r}, e_sum_min",
            given,
            f"at most {least:.6g} MWh with the present snapshots and weightings",
            "Call n.aidc.refresh(), or solve with n.aidc.optimize.",
        )
        faults.require(
            bool(dense(n, "Generator", "p_set", generator).loc[snapshots].isna().all(axis=None)),
            f"Generator {generator!r}, p_set",
            "decided power of an earlier solve",
            "no set point, for the job to be free",
            "Call n.aidc.refresh(), or solve with n.aidc.optimize.",
        )


def _check_held(n: pypsa.Network, site: Site, faults: Faults) -> None:
    """A series that was dropped reads as the default: a base load of 0 MW, an efficiency of 1."""
    held = {"base_load": (n.loads_t.p_set, site.base), "pue": (n.links_t.efficiency, site.link)}
    held["gpu_value"] = (n.c.links.dynamic.get(GPU_VALUE, pd.DataFrame()), site.link)
    for attribute, (first, last, count, _) in site.spec.series.items():
        if attribute not in held:  # windows, which are in the specification itself
            continue
        frame, component = held[attribute]
        faults.require(
            component in names(frame.columns),
            f"{attribute} of {site.name!r}",
            f"no series of {component!r} in the network",
            f"the {count} values from {first} to {last} that were given",
            "n.aidc.remove the site and add it again.",
        )


def peak_it_power(n: pypsa.Network, site: Site) -> float:
    """Most IT power in MW that jobs and idle GPUs of a site can draw, without its base load; baselines included."""
    horizon = site.windows(n)
    jobs = sum(max(peak_power(load, horizon), _baseline(load)) for load in site.loads.values())
    return jobs + site.spec.gpus * (site.spec.idle_w or 0.0) / W_PER_MW


def _baseline(load: TrainingLoad) -> float:
    return 0.0 if load.baseline is None else load.baseline.it_power


def unit_doubts(n: pypsa.Network, site: Site) -> Iterator[str]:
    """Say what is out of proportion, as if given in another unit; what is extendable is as large as need be."""
    base, overhead, link = _series(n, site)
    most, peak = float(base.max()), float((overhead * (base + peak_it_power(n, site))).max())
    p_nom = np.nan if link["p_nom_extendable"] else float(link["p_nom"])
    each = [mode.it_power / mode.gpus for load in site.loads.values() for mode in load.modes]
    # Nothing is known of the jobs of a site that has none yet.
    training = max(each, default=np.inf) * site.spec.gpus
    kilowatts = ": is it in kW? Give MW."
    if most > p_nom:
        yield f"base_load of {most:g} MW is {most / p_nom:.0f} times the connection of {p_nom:g} MW{kilowatts}"
    elif most > SUSPICIOUS_RATIO * training:
        yield f"base_load of {most:g} MW is {most / training:.0f} times the {training:g} MW of all GPUs{kilowatts}"
    elif each and p_nom > SUSPICIOUS_RATIO * peak:
        yield f"p_nom of {p_nom:g} MW is {p_nom / peak:.0f} times the {peak:g} MW that the site can draw{kilowatts}"
    highest = float(overhead.max())
    if highest > _HIGHEST_PUE:
        more = f"for each MW of IT {highest - 1:g} MW more at the meter"
        yield f"pue of {highest:g}: {more}: is it in per cent? Give 1.25 for 25 % more."


def sizes(n: pypsa.Network, site: Site) -> Iterator[Finding]:
    """Yield what is out of proportion; only fixed capacities are compared, since what is extendable can be built."""
    yield from _proportions(n, site)
    yield from _bus(n, site)


def _proportions(n: pypsa.Network, site: Site) -> Iterator[Finding]:
    """Base load, GPUs and connection of a site against each other."""
    base, overhead, link = _series(n, site)
    peak = float((overhead * (base + peak_it_power(n, site))).max())
    fixed = not link["p_nom_extendable"]
    p_nom = float(link["p_nom"]) if fixed else None
    where = f"AIDC {site.name!r}"
    for doubt in unit_doubts(n, site):
        what, _, remedy = doubt.partition("? ")
        yield Finding("warning", where, f"{what}?", remedy)
    alone = float((overhead * base).max())
    if p_nom is not None and alone > p_nom * (1 + 1e-9):
        what = f"the base load alone takes {alone:g} MW at the meter, more than the connection of {p_nom:g} MW"
        yield Finding("error", where, what, "A larger p_nom, or a smaller base load.")
    elif p_nom is not None and peak > p_nom * (1 + 1e-9):
        what = f"all jobs at full power take {peak:g} MW at the meter, the connection is {p_nom:g} MW"
        yield Finding("note", where, what, "They will take turns; a larger p_nom would let them run at once.")
    for attribute, limit in most_change(n, site).items():
        if limit is not None and limit.min() >= peak:
            what = f"allows {limit.min():g} MW from one snapshot to the next, the site draws {peak:g} MW at most"
            remedy = "It limits nothing in snapshots of this length: what modes do within a minute is not modelled."
            yield Finding("note", f"Link {site.link!r}, {attribute}", what, remedy)
    for generator, load in site.loads.items():
        watts = [mode.it_power / mode.gpus * W_PER_MW for mode in load.modes]
        low, high = _WATTS_PER_GPU
        if min(watts) < low or max(watts) > high:
            what = f"modes draw {min(watts):g} to {max(watts):g} W for each GPU, usual is {low:g} to {high:g} W"
            yield Finding("warning", f"Generator {generator!r}", what, "Check the unit of the modes' power: MW.")


def _bus(n: pypsa.Network, site: Site) -> Iterator[Finding]:
    """What the branches and the supply at the grid bus can deliver, against what the site must and may draw."""
    base, overhead, link = _series(n, site)
    bus, deliverable = str(link["bus0"]), 0.0
    supply, extendable = supply_at(n, {bus})
    for component, attribute in BRANCHES.items():
        static = static_by_name(n, component)
        ends = [column for column in static if str(column).removeprefix("bus").isdigit()]
        at_bus = static[(static[ends] == bus).any(axis=1) & static["active"]]
        at_bus = at_bus[at_bus.index != site.link]
        extendable |= bool(at_bus[f"{attribute}_extendable"].any())
        deliverable += float(at_bus[attribute].sum())
    capacity = supply + deliverable
    if extendable or not np.isfinite(capacity):
        return
    least = float((overhead * base).max())
    peak = min(float((overhead * (base + peak_it_power(n, site))).max()), float(link["p_nom"]))
    what = f"branches and supply at bus {bus!r} can deliver {capacity:g} MW, the site draws "
    if least > capacity * (1 + 1e-9):
        what += f"{least:g} MW without any job"
        yield Finding("error", f"AIDC {site.name!r}", what, "Reinforce the bus, or move the site.")
    elif not link["p_nom_extendable"] and peak > capacity * (1 + 1e-9):
        what += f"up to {peak:g} MW"
        yield Finding("warning", f"AIDC {site.name!r}", what, "Jobs will run slower, if they can at all.")


def _series(n: pypsa.Network, site: Site) -> tuple[pd.Series, pd.Series, pd.Series]:
    """Base IT load in MW and PUE by snapshot, and the Link of the site."""
    base = dense(n, "Load", "p_set", site.base).iloc[:, 0]
    efficiency = dense(n, "Link", "efficiency", site.link).iloc[:, 0]
    return base, 1 / efficiency.clip(lower=1e-3), n.links.loc[rows(n.links.index, site.link)].iloc[0]
