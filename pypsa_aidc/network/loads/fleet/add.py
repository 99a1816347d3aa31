"""Adding a fleet load to a network: everything checked first, then made of standard PyPSA Generators."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
import pandas as pd
import pypsa

from pypsa_aidc.errors import Faults, InputError, UnitWarning
from pypsa_aidc.fleet import Contract, Surface, TermSheet
from pypsa_aidc.network.carriers import refuse_not_electric
from pypsa_aidc.network.loads.fleet.agreed import agreed_terms
from pypsa_aidc.network.loads.fleet.budgets import budget_periods
from pypsa_aidc.network.loads.fleet.fleet import Fleet
from pypsa_aidc.network.loads.fleet.terms import Dependable, FleetTerms, Period, depths_of
from pypsa_aidc.network.loads.registry import check_new_name
from pypsa_aidc.network.model.horizon import windows
from pypsa_aidc.network.pypsa_api import names
from pypsa_aidc.network.spec.coverage import coverage
from pypsa_aidc.network.spec.series import Values, aligned

FLEET_CARRIER, RELIEF_CARRIER, REBOUND_CARRIER = "AIDC fleet", "AIDC relief", "AIDC rebound"
_COLOURS = {FLEET_CARRIER: "#54278f", RELIEF_CARRIER: "#9e9ac8", REBOUND_CARRIER: "#bcbddc"}
_LEAST_DEPTH = 1e-3
"""Relief as a share of the peak below which a unit mistake is more likely than such a fleet."""
_SUSPICIOUS_RATIO = 20.0
"""Size of a fleet per generating capacity of the network from which it is more likely given in kW."""
_ROUNDING = 1e-9


def add_fleet(
    n: pypsa.Network,
    name: str,
    *,
    bus: str,
    p_nom: float | None = None,
    p_nom_extendable: bool = False,
    p_nom_min: float = 0.0,
    p_nom_max: float = np.inf,
    capital_cost: float = 0.0,
    profile: Values = 1.0,
    relief: Values | None = None,
    surface: Dependable | None = None,
    contract: Contract | TermSheet | None = None,
    peak: float | None = None,
    reliability: float | None = None,
    durations: Sequence[int] | None = None,
    form: Literal["calls", "windows"] = "calls",
    q: float | None = None,
    hours: float | None = None,
    events: int | None = None,
    per: Period | None = None,
    recovery: float | Mapping[int, float] | None = None,
    spacing: float | None = None,
    block: bool = False,
    rebound: float | None = None,
    checkpoint: float | None = None,
    rebound_power: Values | None = None,
    marginal_cost: Values | None = None,
) -> None:
    """Add a GPU fleet as a load of given or free size that can shed dependable power.

    Builds a Generator ``name`` with ``sign=-1`` that draws `profile` times its size L at every snapshot; for a fleet
    with relief a Generator ``"<name> relief"``, whose `p` is the power not drawn, and with rebound a Generator
    ``"<name> rebound"`` with ``sign=-1``. Power at the grid is the first less the second plus the third. Relief is
    either up to a series (`relief`), or in calls by duration as deep as K allows (`surface`, `contract`); with
    neither, the load is firm. Solve with `n.aidc.optimize`, or with
    ``n.optimize(extra_functionality=aidc.extra_functionality)``: a plain ``n.optimize()`` does not know the terms and
    sheds in any hour.

    Parameters
    ----------
    n
        Network; unchanged if anything is wrong with the arguments.
    name
        Name of the fleet: letters, digits, space and ``_ . + -``.
    bus
        Existing bus.
    p_nom
        L, peak power in MW at the meter; needed unless the size is free.
    p_nom_extendable, p_nom_min, p_nom_max, capital_cost
        Whether the optimisation chooses L, its bounds in MW, and USD/MW, as for any Generator. A negative cost is what
        a connected MW is worth. Calls and budgets need a finite `p_nom_max`, close to what can be: it bounds their
        depth where they are not called.
    profile
        s_t, load over L, 0 … 1; a number, one for each snapshot, or a series.
    relief
        c_t, relief over L along one historical path, at least 0 and at most `profile` (1); like `profile`.
    surface
        K of a fleet of the given `peak`: a `Surface`, or a table {duration in h: MW}. K already contains the `q` of the
        surface. Between its durations, K is that of the next longer one (`Surface.at`).
    contract
        Terms of one product of a fleet of the given `peak`: duration, q, derating, rebound, checkpoint, recovery. Or a
        `TermSheet` of one year and season: conditional MW less floor over its longest event, pause, rebound, hours and
        events a year, price; arguments given beside it go before its fields. What an hourly model cannot keep is
        refused by name, also terms that it would need and that are missing; of notice and response nothing is modelled
        that is shorter than the hour, and all hours are known beforehand.
    peak
        Peak power in MW of the fleet that `surface` or `contract` was estimated on; κ_h = K_h / peak.
    reliability
        α of a single call; needed with a `Surface`.
    durations
        h, of the calls that may be made; `None` for those of K. With ``form="windows"``, `None` stands for windows of
        all whole hours up to the longest of K; with durations given, relief that lasts for a time between two of them
        may be deeper than K of the longer one.
    form
        ``"calls"``: each call with a binary, (2)–(6). ``"windows"``: mean relief over each window of h hours up to
        q·κ_h·L, for all h, without binaries; exact for relief of constant depth, else within what calls could do;
        without budgets, recovery and rebound.
    q
        Fraction of K that can really be shed, 0 … 1; `None` for 1, or that of the contract.
    hours, events
        Most hours with relief and most calls in each `per`, (5); along `relief`, hours only.
    per
        ``"horizon"``, for each investment period anew, or ``"year"``, by calendar year. `None` for the horizon, or of a
        term sheet the year where snapshots have dates.
    recovery
        Hours after a call without another one; a number, or one for each duration. `None` for one hour, or the recovery
        time of the contract. With 0, calls may follow each other, and relief then keeps to all windows too, since short
        calls would add up to a long one at the depth of short ones.
    spacing
        Hours from the start of a call to that of the next, in place of `recovery`.
    block
        Whether a call sheds the same power in all of its hours, instead of up to its depth in each.
    rebound, checkpoint
        ρ, share of what is shed that is drawn again after the call and before the next, and hours between checkpoints,
        half of which are lost and drawn again too, (6). `None` for 0, or those of the contract.
    rebound_power
        b over L, how fast it is drawn again, 0 … 1; like `profile`. `None` for what the contract says.
    marginal_cost
        Of relief, USD/MWh; like `profile`. `None` for 0, or the price of a term sheet.

    Raises
    ------
    InputError
        Anything wrong, all at once: unknown bus, name taken or not allowed, series that miss snapshots, NaN in a series
        or in K, K of a duration that is not known, more relief than load, terms that contradict each other.

    Warns
    -----
    UnitWarning
        A size or a peak out of proportion, as if given in kW.

    References
    ----------
    [2] M. Li, "Beyond Scalar Flexibility", arXiv 2609.05406, Eq. 2, Secs 3.6 and App. D.

    Examples
    --------
    >>> import pypsa, pypsa_aidc as aidc
    >>> n = pypsa.Network(snapshots=range(24))
    >>> _ = n.add("Bus", "grid")
    >>> n.aidc.add_fleet("f1", bus="grid", p_nom=100.0, profile=0.95, surface={1: 2.5, 4: 2.3}, peak=54.3, events=3)
    >>> list(n.generators.index)
    ['f1', 'f1 relief']
    >>> n.aidc.jobs["description"].item()
    'calls of 1 and 4 h, 4.24 to 4.6 % deep, pause 1 h, at most 3 events'
    """
    faults = Faults(f"n.aidc.add_fleet {name!r}")
    check_new_name(n, name, Fleet.parts_of(name), faults)
    faults.require(bus in names(n.buses.index), "bus", bus, "a bus of the network")
    refuse_not_electric(n, bus, faults)
    sheet = contract if isinstance(contract, TermSheet) else None
    if isinstance(contract, TermSheet):
        agreed = agreed_terms(contract, n, bus, faults, recovery, spacing, rebound, hours, events, form)
        faults.require(surface is None, "surface", "given", "nothing beside a term sheet")
        faults.require(peak is None, "peak", peak, "nothing beside a term sheet, which has its megawatts")
        faults.require(q is None, "q", q, "nothing beside a term sheet, whose megawatts have it in them")
        faults.require(
            reliability is None, "reliability", reliability, "nothing beside a term sheet, which has its own"
        )
        faults.raise_any()
        contract, surface, peak = None, agreed.surface, agreed.peak
        recovery, spacing = (agreed.recovery, agreed.spacing) if recovery is spacing is None else (recovery, spacing)
        rebound = agreed.rebound if rebound is None else rebound
        rebound_power = agreed.rebound_power if rebound_power is None and rebound else rebound_power
        hours, events = agreed.hours if hours is None else hours, agreed.events if events is None else events
        per = agreed.per if per is None and (hours is not None or events is not None) else per
        marginal_cost = agreed.price if marginal_cost is None else marginal_cost
        if p_nom is None and not p_nom_extendable:
            p_nom = agreed.size
    per, marginal_cost = per or "horizon", 0.0 if marginal_cost is None else marginal_cost
    capacity = _capacity(p_nom, p_nom_extendable, p_nom_min, p_nom_max, capital_cost, faults)
    load = aligned(profile, n.snapshots, "profile", faults)
    shed = None if relief is None else aligned(relief, n.snapshots, "relief", faults)
    cost = aligned(marginal_cost, n.snapshots, "marginal_cost", faults)
    _check_share(load, "profile", faults)
    _check_relief(load, shed, n.snapshots, faults)
    given = {"relief": relief, "surface": surface, "contract": contract}
    sources = [key for key, value in given.items() if value is not None]
    faults.require(len(sources) <= 1, ", ".join(sources), "all of them", "one way to say what can be shed")
    by_duration = surface is not None or contract is not None
    needing_k = {"peak": peak, "reliability": reliability, "durations": durations, "spacing": spacing}
    for key, value in needing_k.items():
        faults.require(value is None or by_duration, key, value, "nothing without surface= or contract=")
    faults.require(form in ("calls", "windows"), "form", form, "'calls' or 'windows'")
    faults.require(form == "calls" or by_duration, "form", form, "'calls' without surface= or contract=")
    faults.require(q is None or bool(sources), "q", q, "nothing without relief")
    if q is not None:
        faults.number("q", q, at_least=0, at_most=1)
    faults.raise_any()

    asked: dict[str, object] = {"hours": hours, "events": events, "per": per, "block": block}
    asked |= {"rebound": rebound or 0.0, "checkpoint": checkpoint or 0.0}
    share = None if rebound_power is None else aligned(rebound_power, n.snapshots, "rebound_power", faults)
    source, synthetic = "", False
    if contract is not None:
        K: Dependable = {contract.duration: contract.derating * contract.power}
        faults.require(q is None, "q", q, "nothing with a contract, which has its own")
        faults.require(reliability is None, "reliability", reliability, "nothing with a contract, which has its own")
        q, source, synthetic = contract.q, contract.source or "contract", contract.synthetic
        asked["rebound"] = contract.rebound if rebound is None else rebound
        asked["checkpoint"] = (contract.checkpoint if asked["rebound"] else 0.0) if checkpoint is None else checkpoint
        if recovery is None and spacing is None and form == "calls":
            recovery = contract.recovery_time
        if share is None and asked["rebound"] and peak:
            share = contract.recovery_share * contract.noneligible / peak
    elif surface is not None:
        K = surface
        if sheet is not None:
            source = " of ".join(["term sheet " + sheet.id, *([sheet.study] if sheet.study else [])])
            synthetic = "synthetic" in (sheet.data or "")
        if isinstance(surface, Surface):
            attrs = surface.data.attrs
            source, synthetic = f"K at {reliability} of {attrs.get('source', '')}", bool(attrs.get("synthetic", 0))
    if by_duration:
        asked |= _by_duration(K, durations, reliability, peak, 1.0 if q is None else q, form, faults)
        if form == "calls" and "durations" in asked:
            asked["recovery"] = _recovery(asked["durations"], recovery, spacing, faults)
        elif form == "windows":
            asked["between"] = durations is None
            for key, pause in {"recovery": recovery, "spacing": spacing}.items():
                faults.require(pause is None, key, pause, "nothing with form='windows'", "It takes form='calls'.")
    else:
        asked["form"] = "firm" if shed is None else "path"
        faults.require(recovery is None, "recovery", recovery, "nothing without surface= or contract=")
        shed = shed if shed is None or q is None else q * shed
    _check_rebound(asked["rebound"], share, faults)
    terms = _terms(asked, faults)
    if terms is not None:
        _check_use(terms, capacity, cost, faults)
    faults.raise_any()
    assert terms is not None
    if terms.depths:
        shed = load.clip(upper=terms.depths[0]) if isinstance(load, pd.Series) else min(load, terms.depths[0])
    _warn_about_units(n, name, terms, capacity)
    series = coverage(n, profile=load, relief=shed, rebound_power=share, marginal_cost=cost)
    fleet = Fleet(name, terms, series, source, synthetic)
    for window in windows(n) if terms.has_budget else ():
        budget_periods(fleet, n.snapshots[window.positions], window.period)
    _write(n, fleet, bus, capacity, load, shed, share, cost)
    fleet.refresh(n)


def _capacity(
    p_nom: float | None, extendable: bool, least: float, most: float, cost: float, faults: Faults
) -> dict[str, float | bool]:
    faults.number("capital_cost", cost)
    if not extendable:
        faults.number("p_nom", p_nom, above=0, remedy="Give the size in MW, or p_nom_extendable=True.")
        faults.require(least == 0, "p_nom_min", least, "0 without p_nom_extendable")
        faults.require(most == np.inf, "p_nom_max", most, "nothing without p_nom_extendable")
        return {"p_nom": p_nom or 0.0, "p_nom_extendable": False, "capital_cost": float(cost)}
    faults.require(p_nom is None, "p_nom", p_nom, "nothing with p_nom_extendable", "Give p_nom_min and p_nom_max.")
    faults.number("p_nom_min", least, at_least=0)
    faults.require(most > 0 and most >= least, "p_nom_max", most, f"MW above 0 and at least p_nom_min = {least:g}")
    return {
        "p_nom_extendable": True,
        "p_nom_min": float(least),
        "p_nom_max": float(most),
        "capital_cost": float(cost),
    }


def _check_share(value: float | pd.Series, where: str, faults: Faults) -> None:
    values = value if isinstance(value, pd.Series) else pd.Series([value], ["every snapshot"])
    outside = values[(values < 0) | (values > 1 + _ROUNDING)]
    if len(outside):
        faults.add(
            where,
            f"{outside.iloc[0]:g} at {outside.index[0]} ({len(outside)} values)",
            "a share of the size, 0 … 1",
            "Divide MW by the peak, and percent by 100.",
        )


def _check_relief(load: float | pd.Series, shed: float | pd.Series | None, snapshots: pd.Index, faults: Faults) -> None:
    if shed is None:
        return
    _check_share(shed, "relief", faults)
    excess = pd.Series(shed, snapshots) - load
    beyond = excess[excess > _ROUNDING]
    if len(beyond):
        faults.add(
            "relief",
            f"{beyond.iloc[0]:g} above profile at {beyond.index[0]} ({len(beyond)} snapshots)",
            "at most the profile: no load can shed more than it draws",
            "Cut it with np.minimum(relief, profile).",
        )


def _by_duration(
    K: Dependable,
    durations: Sequence[int] | None,
    reliability: float | None,
    peak: float | None,
    q: float,
    form: str,
    faults: Faults,
) -> dict[str, object]:
    faults.number("peak", peak, above=0, remedy="Give the peak in MW of the fleet that K was estimated on.")
    faults.require(
        reliability is None or isinstance(K, Surface), "reliability", reliability, "nothing with a table of K"
    )
    if durations is None:
        known = K.data["duration"].to_numpy().tolist() if isinstance(K, Surface) else sorted(K)
    else:
        known = sorted(durations)
        faults.require(bool(known), "durations", known, "at least one", "Leave it out for those of K.")
    before = len(faults)
    for duration in known:
        faults.number("durations", duration, at_least=1, integer=True)
    if len(faults) > before:
        return {}
    depths = depths_of(K, known, reliability, float(peak or 1.0), faults)
    for duration, depth in zip(known, depths, strict=True):
        if peak and depth > 1:
            faults.add(f"K at {duration} h", depth * peak, f"at most {peak:g} MW, the peak")
    return {"form": form, "durations": tuple(map(int, known)), "depths": tuple(q * depth for depth in depths)}


def _recovery(
    durations: object, recovery: float | Mapping[int, float] | None, spacing: float | None, faults: Faults
) -> tuple[float, ...]:
    assert isinstance(durations, tuple)
    if spacing is not None:
        faults.require(recovery is None, "recovery", recovery, "nothing with spacing=")
        faults.number("spacing", spacing, at_least=durations[-1], remedy="It counts from start to start.")
        return tuple(spacing - duration for duration in durations)
    if isinstance(recovery, Mapping):
        wrong = sorted(set(recovery) ^ set(durations))
        faults.require(not wrong, "recovery", dict(recovery), f"hours for each of the durations {list(durations)}")
        return tuple(recovery.get(duration, 1.0) for duration in durations)
    return (1.0 if recovery is None else recovery,) * len(durations)


def _terms(asked: Mapping[str, object], faults: Faults) -> FleetTerms | None:
    if len(faults):
        return None
    try:
        return FleetTerms(**asked)  # type: ignore[arg-type]
    except InputError as error:
        for fault in error.faults:
            faults.add(fault.where, fault.given, fault.expected, fault.remedy)
        return None


def _check_rebound(rebound: object, share: float | pd.Series | None, faults: Faults) -> None:
    if not rebound:
        faults.require(share is None, "rebound_power", "a value", "nothing without rebound=")
        return
    faults.require(share is not None, "rebound_power", None, "how fast rebound is drawn, as a share of the size")
    if share is not None:
        _check_share(share, "rebound_power", faults)


def _check_use(
    terms: FleetTerms,
    capacity: Mapping[str, float | bool],
    cost: float | pd.Series,
    faults: Faults,
) -> None:
    """Refuse arguments that the terms have no use for, and those they lack."""
    faults.require(terms.form != "firm" or not np.any(cost), "marginal_cost", "a value", "0 for a load without relief")
    bounded = not capacity["p_nom_extendable"] or np.isfinite(capacity["p_nom_max"])
    faults.require(
        bounded or not (terms.form == "calls" or terms.has_budget),
        "p_nom_max",
        capacity.get("p_nom_max"),
        "a finite size in MW",
        "Calls and budgets of a fleet of free size need a bound: one that is close makes solving quicker.",
    )


def _warn_about_units(n: pypsa.Network, name: str, terms: FleetTerms, capacity: Mapping[str, float | bool]) -> None:
    if terms.depths and 0 < terms.depths[0] < _LEAST_DEPTH:
        text = f"fleet {name!r}: relief is at most {100 * terms.depths[0]:.2g} % of the peak. Is peak in kW? Give MW."
        warnings.warn(text, UnitWarning, stacklevel=3)
    supply = n.generators.loc[(n.generators["sign"] > 0) & ~n.generators["p_nom_extendable"].astype(bool), "p_nom"]
    size, built = float(capacity.get("p_nom", 0.0)), float(supply.sum())
    if 0 < built < np.inf and size > _SUSPICIOUS_RATIO * built:
        text = f"fleet {name!r}: p_nom of {size:g} MW is {size / built:.0f} times the {built:g} MW of all generators"
        warnings.warn(f"{text}. Is it in kW? Give MW.", UnitWarning, stacklevel=3)


def _write(
    n: pypsa.Network,
    fleet: Fleet,
    bus: str,
    capacity: Mapping[str, Any],
    load: float | pd.Series,
    shed: float | pd.Series | None,
    share: float | pd.Series | None,
    cost: float | pd.Series,
) -> None:
    for carrier, colour in _COLOURS.items():
        if carrier not in n.carriers.index:
            n.add("Carrier", carrier, color=colour)
    own = {key: value for key, value in capacity.items() if key != "capital_cost"}
    n.add("Generator", fleet.name, bus=bus, sign=-1, carrier=FLEET_CARRIER, p_min_pu=load, p_max_pu=load, **capacity)
    if shed is not None:
        n.add("Generator", fleet.relief, bus=bus, carrier=RELIEF_CARRIER, p_max_pu=shed, marginal_cost=cost, **own)
    if share is not None:
        n.add("Generator", fleet.rebound, bus=bus, sign=-1, carrier=REBOUND_CARRIER, p_max_pu=share, **own)
    fleet.store(n)
