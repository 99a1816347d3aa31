"""What a term sheet asks of a fleet in a network, and what of it an hourly model cannot keep."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pandas as pd
import pypsa

from pypsa_aidc.errors import Faults, InputError
from pypsa_aidc.fleet import TermSheet
from pypsa_aidc.network.loads.fleet.terms import Period
from pypsa_aidc.network.spec.series import Values

_OMIT = "sheet.without({}) leaves it out, knowingly."
_HOUR = 60.0


@dataclass(frozen=True)
class Agreed:
    """Arguments of `add_fleet` that a sheet stands for."""

    size: float
    surface: Mapping[int, float] | None = None
    peak: float | None = None
    recovery: float | None = None
    spacing: float | None = None
    rebound: float | None = None
    rebound_power: Values | None = None
    hours: float | None = None
    events: int | None = None
    per: Period | None = None
    price: float = 0.0


def agreed_terms(
    sheet: TermSheet,
    n: pypsa.Network,
    bus: str,
    faults: Faults,
    recovery: object,
    spacing: object,
    rebound: object,
    hours: object,
    events: object,
    form: str,
) -> Agreed:
    """Read a sheet as arguments of `add_fleet`; what cannot be kept or is missing is noted, with all else."""
    other = sheet.point_of_interconnection
    elsewhere = other is not None and other != bus and other in n.buses.index
    faults.require(
        not elsewhere, "contract, point_of_interconnection", other, f"the bus {bus!r}, or none of the network"
    )
    try:
        relief = sheet.relief_mw
    except InputError as error:
        for fault in error.faults:
            faults.add(f"contract, {fault.where}", fault.given, fault.expected, fault.remedy)
        return Agreed(0.0)
    assert sheet.conditional is not None
    size = sheet.conditional[0].mw
    faults.require(size > 0, "contract, conditional", size, "more than 0 MW")
    if relief == 0 or len(faults):
        return Agreed(size)
    _refuse(sheet, relief, faults)
    longest = sheet.longest_event_h
    whole = longest is not None and longest >= 1 and float(longest).is_integer()
    faults.require(whole, "contract, longest_event_h", longest, "whole hours, at least 1")
    calls = form == "calls"
    pauses = (sheet.spacing_h, sheet.recovery_h, recovery, spacing)
    _need(not calls or any(each is not None for each in pauses), "spacing_h or recovery_h", "recovery=", faults)
    known = sheet.recovery_h is not None and sheet.rebound_mw is not None
    _need(rebound is not None or known or sheet.rebound_mw == 0, "rebound_mw and recovery_h", "rebound=", faults)
    limits = (sheet.hours_per_year, sheet.events_per_year, hours, events)
    _need(not calls or any(each is not None for each in limits), "hours_per_year or events_per_year", "hours=", faults)
    if len(faults) or longest is None:
        return Agreed(size)
    again = (sheet.recovery_h or 0.0) * (sheet.rebound_mw or 0.0)
    return Agreed(
        size,
        # Events may be shorter, and then cost fewer of the hours.
        dict.fromkeys(range(1, int(longest) + 1), relief),
        size,
        sheet.recovery_h if sheet.spacing_h is None and calls else None,
        sheet.spacing_h if calls else None,
        again / (relief * longest),
        (sheet.rebound_mw or 0.0) / size if again else None,
        sheet.hours_per_year if calls else None,
        sheet.events_per_year if calls else None,
        "year" if isinstance(n.snapshots, pd.DatetimeIndex) else "horizon",
        sheet.price_usd_per_mwh or 0.0,
    )


def _need(ok: bool, field: str, argument: str, faults: Faults) -> None:
    faults.require(ok, f"contract, {field}", None, "a figure: the sheet does not say", f"Or give {argument} here.")


def _refuse(sheet: TermSheet, relief: float, faults: Faults) -> None:
    """Note the terms that calls in whole hours, at any hour, cannot keep."""
    for name, expected in (
        ("trigger", "nothing: calls here may be at any hour"),
        ("events_per_day", "nothing: budgets here are by year"),
    ):
        value = getattr(sheet, name)
        faults.require(value is None, f"contract, {name}", value, expected, _OMIT.format(repr(name)))
    response, ramp = sheet.response_minutes, sheet.ramp_mw_per_min
    slow = response is not None and response > _HOUR
    faults.require(not slow, "contract, response_minutes", response, "at most the hour of a snapshot")
    steep = ramp is not None and relief / ramp > _HOUR
    faults.require(not steep, "contract, ramp_mw_per_min", ramp, f"enough for {relief:g} MW within an hour")
    for source in sheet.sources or ():
        permit, asked = source.permit_hours, sheet.hours_per_year
        short = permit is not None and (asked is None or permit < asked)
        most = f"at least the hours_per_year of the sheet ({'missing' if asked is None else f'{asked:g}'})"
        faults.require(not short, f"contract, sources, {source.source}, permit_hours", permit, most)
