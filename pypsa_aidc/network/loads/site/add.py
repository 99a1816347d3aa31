"""Adding an AIDC to a network: everything checked first, then made of standard PyPSA components."""

from __future__ import annotations

import warnings
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import pandas as pd
import pypsa

from pypsa_aidc.errors import Faults, UnitWarning
from pypsa_aidc.network.carriers import refuse_not_electric
from pypsa_aidc.network.loads.decisions import outdate
from pypsa_aidc.network.loads.registry import check_new_name, is_name, sites
from pypsa_aidc.network.loads.site.checks import peak_it_power, unit_doubts
from pypsa_aidc.network.loads.site.derived import assign, derive, write_derived, write_ramps
from pypsa_aidc.network.loads.site.gpu_value import GPU_VALUE
from pypsa_aidc.network.loads.site.site import Site
from pypsa_aidc.network.loads.site.spec import SiteSpec
from pypsa_aidc.network.model.horizon import Split, runs_of
from pypsa_aidc.network.pypsa_api import names, rows
from pypsa_aidc.network.spec.coverage import Span, coverage
from pypsa_aidc.network.spec.series import Values, aligned
from pypsa_aidc.training import GPU, Job, TrainingLoad, generate_modes
from pypsa_aidc.units import W_PER_MW

Windows = Literal["each", "once"] | Sequence[Any] | pd.Series | None
"""How jobs read the horizon."""

BASE_CARRIER, JOB_CARRIER, IMPORT_CARRIER = "AIDC base", "AIDC training", "AIDC import"
_COLOURS = {BASE_CARRIER: "#7f7f7f", JOB_CARRIER: "#6a51a3", IMPORT_CARRIER: "#c7c7c7"}

_RESERVED = ("IT", "import", "base", "idle", "meter", "total")
"""Parts of a site that are no jobs."""


def add(
    n: pypsa.Network,
    name: str,
    *,
    bus: str,
    gpus: int,
    jobs: Sequence[TrainingLoad | Job],
    gpu: GPU | str | None = None,
    pue: Values = 1.0,
    base_load: Values = 0.0,
    p_nom: float | None = None,
    p_nom_extendable: bool = False,
    capital_cost: float = 0.0,
    draw_idle: bool = False,
    gpu_value: Values = 0.0,
    windows: Windows = None,
    ramp_up: float | None = None,
    ramp_down: float | None = None,
) -> None:
    """Add an AI data center with LLM training jobs to a network.

    Builds a Bus ``"<name> IT"``, a Link ``"<name> import"`` from the grid with efficiency 1/PUE, a Load
    ``"<name> base"`` and one Generator with ``sign=-1`` a job, ``"<name> <job>"``, whose `p` is the IT power of the
    job. Solve with `n.aidc.optimize`, or with ``n.optimize(extra_functionality=aidc.extra_functionality)``. A plain
    ``n.optimize()`` still makes each job draw its least energy (`e_sum_min`), but at times no job could run.

    Parameters
    ----------
    n
        Network; unchanged if anything is wrong with the arguments.
    name
        Name of the site: letters, digits, space and ``_ . + -``.
    bus
        Existing bus of the grid connection.
    gpus
        N_GPU, GPUs shared by all jobs of the site.
    jobs
        At least one. A `Job` gets its modes from `generate_modes` and default rules; a `TrainingLoad` says
        everything itself; its modes that need more than `gpus` wait for a larger pool.
    gpu
        Type of the GPUs, a `GPU` or the name of a preset; needed for a `Job` and for `draw_idle`.
    pue
        Power usage effectiveness, at least 1; a number, one for each snapshot, or a series.
    base_load
        IT power in MW (not at the meter: divide by the PUE) of everything but training; a number, one for each
        snapshot, or a series.
    p_nom
        Grid connection in MW at the meter, Eq. 30b of [1]; `None` is the most the site can draw. With
        `p_nom_extendable` it is the least capacity to build.
    p_nom_extendable, capital_cost
        Whether the connection is built by the optimisation, and its cost in USD/MW, as for any Link.
    draw_idle
        Whether GPUs without a job draw `gpu.idle_w` each, as a Generator ``"<name> idle"``. Without, `base_load`
        contains them, as in the paper's case.
    gpu_value
        USD for each GPU-hour that a job occupies, at least 0: a number, one for each snapshot, or a series. It enters
        the objective, so that waiting and slower modes pay only where they save more. GPUs that no job occupies are
        released to others and earn it. A job with a `gpu_value` of its own has that. What a GPU is rented for is some
        2 USD/GPU-h in 2026.
    windows
        In what part of the horizon each job does its tranche once. ``"each"``: in each stretch between jumps of the
        dates and in each investment period, as for representative days. ``"once"``: over all snapshots of the network
        (or of an investment period), one after the other as if no dates were missing. Labels, one a snapshot as a list
        or series: over the snapshots of each label, e.g. typical periods under consecutive dates; where there is none
        (`None`, NaN), jobs do not run. `None`: as ``"each"``, but gaps smaller than the stretches beside them are
        refused, since a missing hour would make each job run twice. Deadlines and arrivals count in each window anew.
    ramp_up, ramp_down
        How fast the meter may rise and fall, MW a minute, as interconnection agreements ask; `None` for no limit. What
        is limited is the mean power of the meter from one snapshot to the next: to R over the minutes between their
        middles, 60 R in hourly snapshots. A change of mode is a step in seconds, whatever its size, and no hourly
        model shows it; storage at the bus ``"<name> IT"`` smooths what the meter sees. For a connection of given size.

    Raises
    ------
    InputError
        Anything wrong, all at once: unknown bus, name taken or not allowed, series that miss snapshots, NaN. Whether
        the jobs can finish in time is asked when the network is solved.

    Warns
    -----
    UnitWarning
        The base load is out of proportion to the connection or to the GPUs, as if given in kW; a PUE above 4.

    References
    ----------
    [1] Tong et al., arXiv:2610.13047 (2026), Eqs. 1, 29 and 30.

    Examples
    --------
    >>> import pypsa, pypsa_aidc as aidc
    >>> n = pypsa.Network(snapshots=range(24))
    >>> _ = n.add("Bus", "grid")
    >>> job = aidc.Job("A", aidc.Transformer.preset("LLaMA-13B"), tokens=1e12, batch=1024, sequence=2048,
    ...                tranche_ratio=0.02)
    >>> n.aidc.add("dc1", bus="grid", gpus=512, gpu="A100-80GB", pue=1.25, base_load=0.1, jobs=[job])
    >>> list(n.generators.index)
    ['dc1 A']
    """
    faults = Faults(f"n.aidc.add {name!r}")
    check_new_name(n, name, Site.parts_of(name), faults)
    known_bus = isinstance(bus, str) and bus in names(n.buses.index)
    faults.require(known_bus, "bus", bus, "a bus of the network")
    refuse_not_electric(n, bus, faults)
    faults.number("gpus", gpus, at_least=1, integer=True)
    for label, switch in (("p_nom_extendable", p_nom_extendable), ("draw_idle", draw_idle)):
        faults.flag(label, switch)
    jobs = _listed(jobs, faults)
    if p_nom is not None:
        faults.number("p_nom", p_nom, above=0)
    elif not jobs and not p_nom_extendable:
        faults.add("p_nom", None, "MW of the connection, where no job says how much it is to bear")
    faults.number("capital_cost", capital_cost, at_least=0)
    chips = GPU.preset(gpu) if isinstance(gpu, str) else gpu
    needs_gpu = draw_idle or any(isinstance(job, Job) for job in jobs)
    absent = (type(None),) if not needs_gpu else ()
    faults.kind("gpu", chips, (GPU, *absent), "a GPU or the name of a preset", "E.g. gpu='A100-80GB'.")
    overhead = _at_least(1.0, pue, n, "pue", faults)
    base = _at_least(0.0, base_load, n, "base_load", faults)
    split, declared = _split(windows, n, faults)
    ramps = _ramps(ramp_up, ramp_down, extendable=p_nom_extendable, faults=faults)
    worth = _at_least(0.0, gpu_value, n, "gpu_value", faults)
    faults.raise_any()
    loads = _loads(n, name, jobs, chips, int(gpus), faults)
    spec = SiteSpec(
        name,
        int(gpus),
        chips.idle_w if draw_idle and chips else None,
        coverage(n, base_load=base, pue=overhead, gpu_value=worth) | declared,
        0.0 if isinstance(worth, pd.Series) else worth,
        split,
        ramps,
    )
    site = Site(spec, {f"{name} {load.name}": load for load in loads})
    peak = float(np.max(overhead)) * (float(np.max(base)) + peak_it_power(n, site))
    connection = {
        "p_nom": (p_nom or 0.0) if p_nom_extendable else (p_nom or peak),
        "p_nom_min": (p_nom or 0.0) if p_nom_extendable else 0.0,
        "p_nom_extendable": p_nom_extendable,
        "capital_cost": float(capital_cost),
    }
    least_and_peak = derive(n, [site])
    _write(n, site, bus, overhead, base, connection)
    _write_value(n, site, worth)
    write_derived(n, least_and_peak)
    write_ramps(n, site)
    _warn_about_units(n, site)


def update(
    n: pypsa.Network,
    name: str,
    *,
    gpus: int | None = None,
    jobs: Sequence[TrainingLoad] | None = None,
    pue: Values | None = None,
    base_load: Values | None = None,
    p_nom: float | None = None,
    gpu_value: Values | None = None,
    windows: Windows = None,
    ramp_up: float | None = None,
    ramp_down: float | None = None,
) -> None:
    """Give a site another pool, other jobs, PUE, base load, connection, windows or ramps, and leave the rest as it is.

    Results of an earlier solve are stale from then on.

    Parameters
    ----------
    n
        Network; unchanged if anything is wrong with the arguments.
    name
        Name of the site.
    gpus
        New size of the pool; modes of the jobs that need more wait for a larger one.
    jobs
        New loads, in place of all old ones.
    pue, base_load, p_nom
        As for `add`; a `p_nom` that was left out there does not follow a larger pool by itself.
    gpu_value
        As for `add`.
    windows
        As for `add`; `None` leaves them as they are.
    ramp_up, ramp_down
        As for `add`; `None` leaves them as they are, and infinity takes a limit away.

    Raises
    ------
    InputError
        No such site, or as for `add`.

    Warns
    -----
    UnitWarning
        As for `add`.
    """
    known = sites(n)
    faults = Faults(f"n.aidc.update {name!r}")
    faults.require(name in known, "name", name, f"one of {sorted(known)}")
    if gpus is not None:
        faults.number("gpus", gpus, at_least=1, integer=True)
    chosen = None if jobs is None else _listed(jobs, faults)
    for job in chosen or ():
        remedy = "Make one with TrainingLoad.of(job, generate_modes(...))."
        faults.kind("jobs", job, TrainingLoad, "a TrainingLoad", remedy)
    overhead = None if pue is None else _at_least(1.0, pue, n, "pue", faults)
    base = None if base_load is None else _at_least(0.0, base_load, n, "base_load", faults)
    split, declared = _split(windows, n, faults)
    worth = None if gpu_value is None else _at_least(0.0, gpu_value, n, "gpu_value", faults)
    if p_nom is not None:
        faults.number("p_nom", p_nom, above=0)
    faults.raise_any()
    old = known[name]
    extendable = bool(n.links.loc[rows(n.links.index, old.link), "p_nom_extendable"].any())
    before = old.spec.ramps or (None, None)
    rates = [new if new is not None else kept for new, kept in zip((ramp_up, ramp_down), before, strict=True)]
    ramps = _ramps(*rates, extendable=extendable, faults=faults)
    pool = old.spec.gpus if gpus is None else int(gpus)
    loads = _loads(n, name, list(old.jobs.values()) if chosen is None else chosen, None, pool, faults, old.loads)
    given = {"pue": pue, "base_load": base_load, "gpu_value": gpu_value, "windows": windows}
    for key in ("pue", "base_load") if "cooling" in old.spec.series else ():
        remedy = "n.aidc.remove the site, and add it again with its cooling."
        faults.require(
            given[key] is None, key, "another", "the one that the cooling behind its meter was added to", remedy
        )
    faults.raise_any()
    series = {key: span for key, span in old.spec.series.items() if given.get(key) is None}
    series |= coverage(n, pue=overhead, base_load=base, gpu_value=worth) | declared
    flat = old.spec.gpu_value if worth is None else 0.0 if isinstance(worth, pd.Series) else worth
    kept = old.spec.windows if windows is None else split
    spec = replace(old.spec, gpus=pool, series=series, gpu_value=flat, windows=kept, ramps=ramps)
    new = Site(spec, {f"{name} {load.name}": load for load in loads})
    least_and_peak = derive(n, [new])
    gone = [generator for generator in old.loads if generator not in new.loads]
    if gone:
        n.remove("Generator", gone)
    for generator in new.loads:
        if generator not in old.loads:
            n.add("Generator", generator, bus=new.bus, sign=-1, carrier=JOB_CARRIER)
    if base is not None:
        assign(n, "Load", new.base, "p_set", base)
    if overhead is not None:
        assign(n, "Link", new.link, "efficiency", 1 / overhead)
    if worth is not None:
        _write_value(n, new, worth)
    if p_nom is not None:
        labels = rows(n.links.index, new.link)
        n.links.loc[labels, "p_nom"] = p_nom
        n.links.loc[labels, "p_nom_min"] = p_nom * n.links.loc[labels, "p_nom_extendable"].astype(float)
    if new.spec.idle_w:
        n.generators.loc[rows(n.generators.index, new.idle), "p_nom"] = pool * new.spec.idle_w / W_PER_MW
    new.store(n)
    write_derived(n, least_and_peak)
    write_ramps(n, new)
    if not n.c.generators.dynamic["p"].empty:
        outdate(n, f"n.aidc.update of {name!r}")
    _warn_about_units(n, new)


def _split(windows: Windows, n: pypsa.Network, faults: Faults) -> tuple[Split, dict[str, Span]]:
    """Windows as they are kept, and the snapshots that labels were given for."""
    if windows is None or isinstance(windows, str):
        faults.require(windows in (None, "each", "once"), "windows", windows, "'each', 'once' or labels by snapshot")
        return ("once" if windows == "once" else "each" if windows == "each" else None), {}
    remedy = "A label for each snapshot, such as [1] * 24 + [2] * 24."
    if not faults.kind("windows", windows, (Sequence, pd.Series, np.ndarray), "'each', 'once' or labels", remedy):
        return None, {}
    if isinstance(windows, pd.Series):
        same = windows.index.equals(n.snapshots)
        faults.require(same, "windows", "a series over other labels", "one over the snapshots of the network")
    labels = list(windows)
    return runs_of(labels, n.snapshots, faults), coverage(n, windows=pd.Series(labels, dtype=object))


def _ramps(
    up: float | None, down: float | None, *, extendable: bool, faults: Faults
) -> tuple[float | None, float | None] | None:
    """Ramp limits as they are kept, `None` without any."""
    for where, rate in (("ramp_up", up), ("ramp_down", down)):
        if rate is not None and rate != np.inf:
            faults.number(where, rate, above=0)
            remedy = "Give p_nom: PyPSA's limit is a share of it, which a free size does not know."
            faults.require(not extendable, where, rate, "nothing with p_nom_extendable", remedy)
    kept = [None if rate is None or rate == np.inf else float(rate) for rate in (up, down)]
    return None if kept == [None, None] else (kept[0], kept[1])


def _listed(jobs: object, faults: Faults) -> list[TrainingLoad | Job]:
    listed = list(jobs) if isinstance(jobs, Iterable) and not isinstance(jobs, str | Mapping) else None
    faults.require(listed is not None, "jobs", jobs, "a list of jobs", "Put a single job into a list.")
    return [job for job in listed or () if faults.kind("jobs", job, (TrainingLoad, Job), "a TrainingLoad or a Job")]


def _loads(
    n: pypsa.Network,
    site: str,
    jobs: Sequence[TrainingLoad | Job],
    chips: GPU | None,
    gpus: int,
    faults: Faults,
    own: Container[str] = (),
) -> list[TrainingLoad]:
    """Loads, each with a mode that fits into the pool; their Generators must be new, or among the site's `own`."""
    loads: list[TrainingLoad] = []
    for job in jobs:
        generator = f"{site} {job.name}"
        taken = generator in names(n.generators.index) and generator not in own
        faults.require(not taken, "job", job.name, f"another name: Generator {generator!r} exists")
        allowed = is_name(job.name) and job.name not in _RESERVED
        faults.require(allowed, "job", job.name, f"letters, digits, space and _ . + -; not {', '.join(_RESERVED)}")
        faults.require(job.name not in [load.name for load in loads], "job", job.name, "each name once")
        if isinstance(job, Job):
            assert chips is not None
            loads.append(TrainingLoad.of(job, generate_modes(job, chips, gpus)))
            continue
        least = min(mode.gpus for mode in job.modes)
        faults.require(least <= gpus, "gpus", gpus, f"at least {least}, the smallest mode of job {job.name!r}")
        held = job.rules.held_gpus
        faults.require(held <= gpus, "gpus", gpus, f"at least {held}, which job {job.name!r} holds")
        loads.append(job)
    faults.raise_any()
    return loads


def _at_least(least: float, given: Values, n: pypsa.Network, where: str, faults: Faults) -> float | pd.Series:
    """Values over the snapshots of a network, none of them below the least."""
    value = aligned(given, n.snapshots, where, faults)
    low = float(value.min()) if isinstance(value, pd.Series) else value
    if low < least:
        faults.number(where, low, at_least=least, remedy="At every snapshot.")
    return value


def _write_value(n: pypsa.Network, site: Site, worth: float | pd.Series) -> None:
    """Keep a series of GPU values with the Link of the site; a number stands in its specification."""
    dynamic, labels = n.c.links.dynamic, rows(n.links.index, site.link)
    if isinstance(worth, pd.Series) or GPU_VALUE in dynamic:
        kept = dynamic.get(GPU_VALUE, pd.DataFrame(index=n.snapshots, columns=n.links.index[:0], dtype=float))
        kept = kept.drop(columns=labels, errors="ignore")
        own = {label: worth for label in labels if isinstance(worth, pd.Series)}
        dynamic[GPU_VALUE] = pd.concat([kept, pd.DataFrame(own, n.snapshots, columns=labels[: len(own)])], axis=1)


def _warn_about_units(n: pypsa.Network, site: Site) -> None:
    for doubt in unit_doubts(n, site):
        warnings.warn(f"AIDC {site.name!r}: {doubt}", UnitWarning, stacklevel=3)


def _write(
    n: pypsa.Network,
    site: Site,
    bus: str,
    overhead: float | pd.Series,
    base: float | pd.Series,
    connection: dict[str, Any],
) -> None:
    for carrier, colour in _COLOURS.items():
        if carrier not in n.carriers.index:
            n.add("Carrier", carrier, color=colour)
    # A bus carrier of its own: clustering merges buses of one carrier and would lose the PUE without a word.
    n.add("Carrier", site.bus, color=_COLOURS[JOB_CARRIER])
    place = n.buses.loc[rows(n.buses.index, bus), ["x", "y"]].iloc[0]
    n.add("Bus", site.bus, carrier=site.bus, x=float(place["x"]), y=float(place["y"]))
    n.add("Link", site.link, bus0=bus, bus1=site.bus, efficiency=1 / overhead, carrier=IMPORT_CARRIER, **connection)
    n.add("Load", site.base, bus=site.bus, p_set=base, carrier=BASE_CARRIER)
    n.add("Generator", list(site.loads), bus=site.bus, sign=-1, carrier=JOB_CARRIER)
    if site.spec.idle_w:
        idle = site.spec.gpus * site.spec.idle_w / W_PER_MW
        n.add("Generator", site.idle, bus=site.bus, sign=-1, carrier=BASE_CARRIER, p_nom=idle)
    site.store(n)
