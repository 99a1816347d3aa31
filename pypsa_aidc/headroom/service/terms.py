"""The term sheet of a request: what a service study says of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from pypsa_aidc.fleet import Contract, Megawatts, ReliefSource, Replayed, Surface, TermSheet
from pypsa_aidc.headroom.service.request import UNITS, Relief, Request
from pypsa_aidc.network import UPS, Genset

if TYPE_CHECKING:
    from pypsa_aidc.headroom.service.answer import ServiceStudy

_MOST_CAUSES = 10
_FIRM = 1e-6
_SUSTAINED = (1, 2, 4, 8)
"""Hours for which the sheet says what a store sustains."""


def term_sheet(study: ServiceStudy, request: Request, dispatch: str) -> TermSheet:
    """Put a sheet together; a term that neither the study nor the request knows stays empty."""
    rows = pd.DataFrame(study.allocation.xs((request.name, dispatch), level=("request", "dispatch")))
    years = {label: None if label == "" else int(label) for label in rows.index}
    largest = float(rows["conditional"].max())
    firm = bool((rows["conditional"] <= rows["firm"] * (1 + _FIRM) + _FIRM).all())
    relief = request.relief(next(iter(study.snapshots.values())), _ignored())
    depth = 0.0 if firm else _depth(request, relief)
    terms = _no_cuts() if firm else _terms(request, relief)
    source = request.contract
    voltage = float(study.places["v_nom"][request.name])
    return TermSheet(
        id=request.name,
        point_of_interconnection=request.bus,
        # PyPSA's default of 1 kV says that nobody gave one.
        voltage_kv=None if voltage == 1.0 else voltage,
        nameplate_mw=float(rows["nameplate"].max()) or None,
        ramp=_by_year(rows["nameplate"], years),
        firm=_by_year(rows["firm"], years),
        conditional=_by_year(rows["conditional"], years),
        # Whatever the terms allow, firm megawatts are not cut.
        floor=None if depth is None else _by_year((rows["conditional"] * (1 - depth)).clip(lower=rows["firm"]), years),
        trigger="none: the load is firm" if firm else _trigger(study, request.name, dispatch),
        reliability=request.reliability if isinstance(source, Surface) else getattr(source, "reliability", None),
        data=_data(source),
        delivered_share=source.q if isinstance(source, Contract) else None,
        sources=_sources(request, relief, largest) or None,
        exit_upgrade=None if firm else _upgrade(study, dispatch),
        exit_date=_exit(rows, years),
        replay=tuple(
            Replayed(
                years[label],
                float(row["hours"]),
                int(row["events"]),
                float(row["longest"]),
                float(row["energy"]),
                max(float(row["undelivered"]), 0.0),
            )
            for label, row in rows.iterrows()
        ),
        study=study.digest,
        **terms,
    )


def _ignored() -> Any:
    """Faults that nobody reads: the study has checked the relief."""
    from pypsa_aidc.errors import Faults

    return Faults("term sheet")


def _by_year(values: pd.Series, years: dict[Any, int | None]) -> tuple[Megawatts, ...]:
    return tuple(Megawatts(max(float(value), 0.0), years[label]) for label, value in values.items())


def _sources(request: Request, relief: Relief | None, largest: float) -> tuple[ReliefSource, ...]:
    """Relief by duration, and what the units behind the meter sustain."""
    found = []
    if relief is not None:
        longest = relief.longest if relief.source == "jobs" else None
        found = [ReliefSource(relief.source, kappa * largest, longest or hours) for hours, kappa in relief.windows]
    for unit in request.units:
        if isinstance(unit, Genset):
            found.append(ReliefSource("genset", unit.p_nom, permit_hours=unit.run_hours))
        else:
            stored = unit.battery if isinstance(unit, UPS) else unit
            found += [ReliefSource(UNITS[type(unit)], stored.sustained(hours), hours) for hours in _SUSTAINED]
    return tuple(found)


def _depth(request: Request, relief: Relief | None) -> float | None:
    """Largest share of its size by which the terms let it be cut; `None` where there are none."""
    if request.budget is not None:
        return request.budget.depth
    return None if relief is None else min(max(kappa for _, kappa in relief.windows), 1.0)


def _terms(request: Request, relief: Relief | None) -> dict[str, Any]:
    """Hours, events and the longest event that were asked for."""
    budget = request.budget
    if budget is not None:
        return {"longest_event_h": budget.longest, "events_per_year": budget.events, "hours_per_year": budget.hours}
    if relief is None:
        # Sizes that were given may be cut without any terms, and then none is known.
        return {}
    longest, hours = (value if np.isfinite(value) else None for value in (relief.longest, relief.hours))
    return {"longest_event_h": longest, "hours_per_year": hours}


def _no_cuts() -> dict[str, Any]:
    return {"longest_event_h": 0.0, "events_per_day": 0, "events_per_year": 0, "hours_per_year": 0.0}


def _trigger(study: ServiceStudy, name: str, dispatch: str) -> str:
    """Elements and outages that it is cut for in the replay, those of most energy first."""
    causes = study.causes.reset_index()
    mine = causes[(causes["request"] == name) & (causes["dispatch"] == dispatch)]
    energy = mine.groupby(["element", "outage"])["energy"].sum().sort_values(ascending=False, kind="stable")
    told = [f"{element} after outage of {outage}" if outage else element for element, outage in energy.index]
    more = f"; and {len(told) - _MOST_CAUSES} more" if len(told) > _MOST_CAUSES else ""
    return ("overload of " + "; ".join(told[:_MOST_CAUSES]) + more) if told else "overload; none in the replay"


def _data(source: object) -> str | None:
    if isinstance(source, Contract):
        return TermSheet.of(source, "contract").data
    return str(source.data.attrs.get("source", "")) or None if isinstance(source, Surface) else None


def _upgrade(study: ServiceStudy, dispatch: str) -> str | None:
    """Upgrades with which all nameplates of the batch are firm, in the last year that needs any."""
    table = study.upgrades.reset_index()
    table = table[table["dispatch"] == dispatch]
    if table.empty:
        return None
    last = table[table["year"] == table["year"].iloc[-1]]
    told = "; ".join(f"{row['element']} +{row['megawatts']:.4g} MW" for row in last.to_dict("records"))
    return f"{told} (all nameplates of the batch)"[:2000]


def _exit(rows: pd.DataFrame, years: dict[Any, int | None]) -> str | None:
    """First year from which all of its nameplate is firm to the end."""
    held = (rows["firm"] >= rows["nameplate"] * (1 - _FIRM)).to_numpy()
    if not held[-1] or years[rows.index[-1]] is None:
        return None
    begins = len(held) - int(np.argmin(held[::-1])) if not held.all() else 0
    return str(years[rows.index[begins]])
