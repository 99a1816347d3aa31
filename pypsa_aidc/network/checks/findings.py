"""What is wrong or odd with a network before anybody optimises it: findings that can be printed, filtered, tested."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass

import networkx as nx
import numpy as np
import pandas as pd
import pypsa

from pypsa_aidc.errors import AIDCError, InputError, NotSolvedError, StaleError
from pypsa_aidc.network.carriers import backstops
from pypsa_aidc.network.checks.explain import reasons_alone
from pypsa_aidc.network.checks.refusals import Refusal, refusals
from pypsa_aidc.network.checks.supply import static_by_name, supply_at
from pypsa_aidc.network.files.freeze import is_frozen
from pypsa_aidc.network.loads.protocol import SOLVE, Finding, Severity
from pypsa_aidc.network.loads.registry import check_loads, loads, solved
from pypsa_aidc.network.model.horizon import doubts, windows
from pypsa_aidc.network.pypsa_api import columns, copy_network, names
from pypsa_aidc.network.solve.result import gap_words, stored_result
from pypsa_aidc.plain import counted

SEVERITIES: tuple[Severity, ...] = ("error", "warning", "note")
_SHOWN = 3
_ISLANDS_SHOWN = 5
_THOUSAND = 300.0
"""A ratio from which a factor of 1000 is the likelier reason."""


@dataclass(frozen=True)
class Findings:
    """All findings of a network, the most severe first.

    Parameters
    ----------
    found
        The findings.
    """

    found: tuple[Finding, ...]

    def __post_init__(self) -> None:
        ordered = sorted(dict.fromkeys(self.found), key=lambda finding: SEVERITIES.index(finding.severity))
        object.__setattr__(self, "found", tuple(ordered))

    def __iter__(self) -> Iterator[Finding]:
        return iter(self.found)

    def __len__(self) -> int:
        return len(self.found)

    def __repr__(self) -> str:
        counts = [sum(each.severity == kind for each in self) for kind in SEVERITIES]
        return f"Findings({', '.join(map(counted, counts, SEVERITIES))})"

    def __str__(self) -> str:
        return "\n".join(map(str, self)) or "nothing found"

    def _repr_html_(self) -> str:
        """Return what a notebook shows: all findings."""
        from pypsa_aidc.markup import Table, card

        return card(self, lambda: [Table("Findings", self.to_frame())])

    @property
    def worst(self) -> Severity | None:
        """The highest severity, or `None` without findings."""
        return self.found[0].severity if self.found else None

    def of(self, severity: Severity) -> Findings:
        """Findings of one severity."""
        return Findings(tuple(each for each in self if each.severity == severity))

    def to_frame(self) -> pd.DataFrame:
        """One row a finding: `severity`, `component`, `what`, `remedy`."""
        rows = [(each.severity, each.component, each.what, each.remedy) for each in self]
        return pd.DataFrame(rows, columns=["severity", "component", "what", "remedy"])


def check(n: pypsa.Network) -> Findings:
    """Look a network over before it is optimised; nothing is changed or raised.

    Whatever `n.aidc.optimize` refuses, but for its arguments, is an error here in the same words. Found are
    no buses, components at buses that do not exist, NaN in series, missing snapshots, islands without supply, lines and
    transformers without impedance, rating or any limit; specifications that cannot be read, stale series, jobs that
    cannot finish, sites larger than their connection or than what their bus can deliver, figures out of proportion by
    units; frozen jobs, missing and stale results. Of a case file, also what was made of it.

    Parameters
    ----------
    n
        Network, with or without AIDCs.

    Returns
    -------
    Findings
        Empty if nothing was found.

    Examples
    --------
    >>> n = pypsa.Network(snapshots=range(2))
    >>> _ = n.add("Bus", "grid")
    >>> _ = n.add("Load", "town", bus="gird", p_set=3.0)
    >>> print(check(n))
    error: Load 'town', bus: 'gird', expected a bus of the network. Correct the name, or add the bus.
    """
    if n.buses.empty:
        remedy = "Read a file that PyPSA has written, or add buses."
        return Findings((Finding("error", "network", "no buses: there is no network in it", remedy),))
    notes = [Finding("note", "case", str(text)) for text in n.meta.get("case", ())]
    found = [*_refused(n), *_series(n), *_ratings(n), *_backstops(n), *notes]
    if _faults(lambda: loads(n), "error") or not loads(n):
        return Findings((*found, *_faults(lambda: windows(n), "warning")))
    if not _faults(lambda: windows(n), "error"):
        doubt = doubts(n, explained=all(load.explains_windows for load in loads(n).values()))
        remedy = "Set n.snapshot_weightings['stores'] to the hours of each snapshot, or give the missing ones."
        found += [Finding("warning", "snapshots", doubt, remedy)] if doubt else []
    if not any(finding.severity == "error" for finding in found):
        found += _unworkable(n)
    found += _demand(n)
    for load in loads(n).values():
        with suppress(InputError):  # told above
            found.extend(load.sizes(n))
    return Findings((*found, *_results(n)))


def _faults(call: Callable[[], object], severity: Severity) -> list[Finding]:
    """Turn the faults that a check raises into findings."""
    try:
        call()
    except InputError as error:
        return _findings(error, severity)
    return []


def _findings(refusal: Refusal, severity: Severity) -> list[Finding]:
    if isinstance(refusal, InputError):
        return [
            Finding(severity, fault.where, f"{_told(fault.given)}, expected {fault.expected}", fault.remedy)
            for fault in refusal.faults
        ]
    # The part before the colon says what is refused, and of which components.
    component, _, why = str(refusal).partition(": ")
    return [Finding(severity, component, why.removesuffix("."))]


def _backstops(n: pypsa.Network) -> Iterator[Finding]:
    """Generators that stand for load which is not served, each name once."""
    found = backstops(n)
    first = dict(zip(names(found.index), found, strict=True))
    if first:
        name, why = next(iter(first.items()))
        others = f", as do {len(first) - 1} others" if len(first) > 1 else ""
        what = f"stands for load shedding, by {why}{others}"
        remedy = "It is no supply of headroom; where it runs, load is not served."
        yield Finding("note", f"Generator {name!r}", what, remedy)


def _told(given: object) -> str:
    return given if isinstance(given, str) and " " in given else repr(given)


def _series(n: pypsa.Network) -> Iterator[Finding]:
    """NaN and infinite numbers in input series, which PyPSA drops or passes on to the solver without a word."""
    for component in n.components.values():
        defaults = component.defaults
        inputs = defaults.index[defaults["status"].str.startswith("Input") & defaults["varying"]]
        for attribute in inputs.intersection(list(component.dynamic)):
            frame = component.dynamic[attribute]
            if (
                frame.empty
                or pd.isna(defaults.at[attribute, "default"])
                or (component.name, attribute)
                == (
                    "Load",
                    "p_set",
                )
            ):
                continue
            numbers = frame.apply(pd.to_numeric, errors="coerce").to_numpy(float)
            for column in np.flatnonzero(np.isnan(numbers).any(axis=0))[:_SHOWN]:
                missing = frame.index[np.isnan(numbers[:, column])]
                yield Finding(
                    "error",
                    f"{component.name} {frame.columns[column]!r}, {attribute}",
                    f"NaN at {len(missing)} of {len(frame)} snapshots, the first {missing[0]}",
                    "Give a number for each snapshot.",
                )


def _ratings(n: pypsa.Network) -> Iterator[Finding]:
    """Ratings of 0, which is PyPSA's default, and of inf; NaN and negative ones are faults of the network."""
    for component in ("Line", "Transformer"):
        static = n.c[component].static
        fixed = static[static["active"] & ~static["s_nom_extendable"]]
        transformer = component == "Transformer"
        for name in fixed.index[fixed["s_nom"] == 0][:_SHOWN]:
            what = "a rating of 0 MVA, which is PyPSA's default: nothing can flow, and its ends share one angle"
            if transformer:
                what = "a rating of 0 MVA, which is PyPSA's default: its impedance, per unit of it, cannot be used"
            remedy = "Give its rating, or make it extendable."
            yield Finding("error" if transformer else "warning", f"{component} {name!r}, s_nom", what, remedy)
        for name in fixed.index[np.isinf(fixed["s_nom"])][:_SHOWN]:
            what = "a rating of inf: it never limits anything"
            if transformer:
                what = "a rating of inf: its impedance, per unit of it, becomes 0"
            remedy = "Give its rating, if it has one."
            yield Finding("error" if transformer else "note", f"{component} {name!r}, s_nom", what, remedy)


def _refused(n: pypsa.Network) -> list[Finding]:
    """Why `optimize` would refuse the network; what it brings up to date by itself is only a warning."""
    refreshed = copy_network(n)
    lasting = [finding for refusal in refusals(refreshed) for finding in _findings(refusal, "error")]
    if _faults(lambda: loads(n), "error"):
        return lasting
    frozen = is_frozen(n)
    told = {finding.component for finding in lasting}
    passing = [
        each
        for each in _faults(lambda: check_loads(n), "warning")
        if each.component not in told and not (frozen and each.component.endswith("p_set"))
    ]
    if frozen:
        what = "jobs carry decided power as p_set: plain PyPSA keeps it, n.aidc.optimize decides again"
        passing.append(Finding("note", "AIDCs of the network", what, "n.aidc.thaw() frees them."))
    return [*lasting, *passing]


def _unworkable(n: pypsa.Network) -> list[Finding]:
    """Sites whose jobs cannot be done even alone."""
    reasons: dict[str, str] = {}
    faults = _faults(lambda: reasons.update(reasons_alone(n)), "error")
    remedy = "Change the jobs, the pool or the connection as said."
    alone = [Finding("error", f"AIDC {name!r}", reason.rstrip("."), remedy) for name, reason in reasons.items()]
    return [*faults, *alone]


def _demand(n: pypsa.Network) -> Iterator[Finding]:
    """Demand against supply, island by island."""
    loads = static_by_name(n, "Load")
    demand = columns(n.get_switchable_as_dense("Load", "p_set"), list(loads.index)).T.groupby(loads["bus"]).sum().T
    islands = [set(island) for island in nx.connected_components(nx.Graph(n.graph(include_inactive=False)))]
    if len(islands) > 1:
        sizes = sorted((len(island) for island in islands), reverse=True)
        listed = ", ".join(map(str, sizes[:_ISLANDS_SHOWN])) + (", ..." if len(sizes) > _ISLANDS_SHOWN else "")
        what = f"{len(islands)} islands without connection; buses in each: {listed}"
        yield Finding("note", "network", what, "Each needs supply of its own; connect them if that is not meant.")
    for island in islands:
        peak = float(demand[[bus for bus in demand.columns if bus in island]].sum(axis=1).max())
        supply, extendable = supply_at(n, island)
        if extendable or not peak > 0:
            continue
        where = "network" if len(islands) == 1 else f"island of bus {min(island)!r}"
        figures = f"demand peaks at {peak:g} MW, all supply is {supply:g} MW"
        if peak > supply > 0:
            ratio = peak / supply
            doubt = f", {ratio:.0f} times less: is the demand in kW?" if ratio > _THOUSAND else ""
            yield Finding("error", where, figures + doubt, "Give loads and capacities in MW, or add supply.")
        elif supply > _THOUSAND * peak:
            what = f"{figures}, {supply / peak:.0f} times more: is the demand in GW, or capacity in kW?"
            yield Finding("warning", where, what, "Give loads and capacities in MW.")


def _results(n: pypsa.Network) -> Iterator[Finding]:
    """Results in the network that are not an optimum, or of another solve."""
    status = stored_result(n)
    if status and status.get("status") != "optimal":
        gap = float(str(status.get("gap", "nan")))
        what = f"the stored solution stopped at {status.get('status')!r}, {gap_words(gap)}"
        yield Finding("note", "results", what, "Solve longer for a smaller gap.")
    try:
        solved(n)
    except NotSolvedError:
        powered = set(names(n.c.generators.dynamic["p"].columns))
        drawing = [part for load in loads(n).values() for part in load.decided if part in powered]
        if drawing:
            what = (
                "power of a solve without AIDC jobs; in PyPSA's own rolling horizon each window draws all their energy"
            )
            yield Finding("warning", f"Generator {drawing[0]!r}, p", what, SOLVE)
            return
        yield Finding("note", "AIDCs of the network", "not solved: their jobs have no schedule yet", SOLVE)
    except StaleError as error:
        for fault in error.faults:
            yield Finding("warning", fault.where, _told(fault.given), fault.remedy)
    except AIDCError as error:
        yield Finding("warning", "schedule", str(error).splitlines()[0], "Solve again with n.aidc.optimize.")
