"""Whether the figures of a site fit each other, or look as if one were given in another unit."""

from __future__ import annotations

import pypsa

from pypsa_aidc.network.loads.derived import peak_power
from pypsa_aidc.network.loads.site import Site
from pypsa_aidc.training import TrainingLoad
from pypsa_aidc.units import W_PER_MW

SUSPICIOUS_RATIO = 20.0
"""Base load per training power (or connection) from which a unit mistake is more likely than such a site."""


def peak_it_power(n: pypsa.Network, site: Site) -> float:
    """Most IT power in MW that jobs and idle GPUs of a site can draw, without its base load; baselines included."""
    jobs = sum(max(peak_power(load, n), _baseline(load)) for load in site.loads.values())
    return jobs + site.spec.gpus * (site.spec.idle_w or 0.0) / W_PER_MW


def _baseline(load: TrainingLoad) -> float:
    return 0.0 if load.baseline is None else load.baseline.it_power


def unit_doubt(site: Site, base: float, peak: float, p_nom: float | None) -> str:
    """Say what is out of proportion, or nothing.

    Parameters
    ----------
    site
        The site.
    base
        Highest base IT load in MW.
    peak
        Most that the site can draw at the meter, MW.
    p_nom
        Grid connection in MW; `None` if none was given.
    """
    training = max(mode.it_power / mode.gpus for load in site.loads.values() for mode in load.modes) * site.spec.gpus
    if p_nom is not None and base > p_nom:
        return f"base_load of {base:g} MW is {base / p_nom:.0f} times the connection of {p_nom:g} MW"
    if base > SUSPICIOUS_RATIO * training:
        return f"base_load of {base:g} MW is {base / training:.0f} times the {training:g} MW of all GPUs"
    if p_nom is not None and p_nom > SUSPICIOUS_RATIO * peak:
        return f"p_nom of {p_nom:g} MW is {p_nom / peak:.0f} times the {peak:g} MW that the site can draw"
    return ""
