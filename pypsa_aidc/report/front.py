"""The front door: a solved network in, one file out."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pandas as pd

from pypsa_aidc.errors import Faults, UnsupportedError
from pypsa_aidc.fleet import Contract, Surface
from pypsa_aidc.markup import shown
from pypsa_aidc.network import AuditReport, Network, Results, audit
from pypsa_aidc.network.loads.registry import loads
from pypsa_aidc.plain import counted
from pypsa_aidc.report import provenance as origins
from pypsa_aidc.report import sections
from pypsa_aidc.report.attachments import Attachments, Headroom
from pypsa_aidc.report.document import Document, Notice
from pypsa_aidc.report.html import html
from pypsa_aidc.report.pdf import pdf
from pypsa_aidc.report.xlsx import xlsx

WRITERS: Mapping[str, Callable[[Document], bytes]] = {".html": html, ".xlsx": xlsx, ".pdf": pdf}
"""What writes a document, by the suffix of the file."""

TIGHT = 1e-4
"""Relative gap up to which an objective counts as optimal without a further word; the default of HiGHS."""

NEEDED = {".xlsx": "xlsxwriter", ".pdf": "reportlab"}
_COLUMNS = {"step", "unit", "value", "uncertainty"}


def report(
    n: Network,
    path: str | Path,
    *,
    surface: Surface | None = None,
    contract: Contract | None = None,
    headroom: Headroom | None = None,
    values: pd.DataFrame | None = None,
    exclusive: Sequence[str] = (),
    title: str = "",
    provenance: Mapping[str, object] | None = None,
    synthetic: Sequence[str] = (),
    peak: float | None = None,
    backtest: pd.DataFrame | None = None,
    interactive: bool = False,
) -> Path:
    """Write a report on a solved network with sites, fleets or both: one file, whole or not at all.

    Parameters
    ----------
    n
        Network solved by `n.aidc.optimize`, just now or read from a file. It is not changed.
    path
        File ending in ``.html`` (it fetches nothing, and has no scripts but those of a map), ``.xlsx`` (one sheet a
        table, the series too) or ``.pdf``; an earlier file is replaced once the new one is complete.
    surface
        Surface K to show.
    contract
        Terms to show.
    headroom
        Any result with ``to_frame()`` (units in ``attrs["units"]``) and ``plot()``.
    values
        Values of flexibility, from `n.aidc.values`; it solves several times, so it is not done here.
    exclusive
        Storages that must not charge and discharge at once, for the audit; those of `n.aidc.optimize`.
    title
        Title; the name of the network if empty.
    provenance
        What else is known of the data, such as files and seeds; shown as it is.
    synthetic
        Names of further inputs that are made up. A surface, a contract and specifications that say so are found.
    peak
        MW at the meter of the fleet that the contract is of, to show its offer for the sizes of the network's sites.
    backtest
        How K has held, ``Backtest.summary``, shown with the contract.
    interactive
        Whether an HTML report has a map to move about in, 4 MB large and with scripts, which some mail programs refuse;
        `headroom` colours its buses. Without places of the buses, the report says so instead.

    Returns
    -------
    pathlib.Path
        The file. The same call gives the same bytes.

    Raises
    ------
    InputError
        Another suffix, no such folder, a network without AIDC, `values` that are not those of `n.aidc.values`.
    NotSolvedError
        The network has not been solved with its AIDC jobs and fleets.
    StaleError
        It has been solved again without them.
    UnsupportedError
        The library that writes this kind of file is not installed.
    """
    given = Attachments(
        surface, contract, headroom, values, provenance or {}, tuple(synthetic), peak, backtest, interactive
    )
    write_report(n, Path(path), given, tuple(exclusive), title)
    return Path(path)


def write_report(
    n: Network, path: Path, given: Attachments, exclusive: tuple[str, ...] = (), title: str = ""
) -> Document:
    """Write a report and return what it says; parameters and errors as for `report`."""
    _check(n, path, given.values, exclusive)
    faults = Faults("n.aidc.report")
    for name, value in (("peak", given.peak), ("backtest", given.backtest)):
        faults.require(value is None or given.contract is not None, name, value, "nothing without a contract")
    if given.peak is not None:
        faults.number("peak", given.peak, above=0)
    maps = not given.interactive or path.suffix.lower() == ".html"
    faults.require(maps, "interactive", True, "a file ending in .html for a map to move about in")
    faults.raise_any()
    document = compose(n, given, exclusive, title)
    replace_file(path, WRITERS[path.suffix.lower()](document))
    return document


def compose(n: Network, given: Attachments, exclusive: tuple[str, ...] = (), title: str = "") -> Document:
    """Put a report together; parameters as for `report`."""
    accessor = Results(n)
    meters = pd.DataFrame(accessor.expected(accessor.power()).xs("meter", axis=1, level="part"))
    chosen, found, served = meters.index, accessor.sites, accessor.fleets
    checked, made_up = audit(n, exclusive=exclusive), origins.made_up(n, given)
    parts = (
        sections.summary(n),
        sections.balance(n),
        *((sections.jobs(n), sections.execution(n)) if found else ()),
        *((sections.fleets(n),) if served else ()),
        sections.prices(n, given.values),
        *given.sections(accessor, meters.max()),
        sections.audit(checked),
        origins.section(n, given, made_up),
    )
    whose = [_counted(word, list(names)) for word, names in (("AI data center", found), ("fleet", served)) if names]
    subtitle = f"{' and '.join(whose)}, {len(chosen):,} snapshots from {shown(chosen[0])} to {shown(chosen[-1])}"
    return Document(
        title or f"Dispatch of AI data centers: {n.name or 'network without a name'}",
        subtitle,
        (*_notices(n, checked, made_up), *_oversized(given, meters.max())),
        sections.facts(n, checked),
        parts,
    )


def _notices(n: Network, audit: AuditReport, synthetic: Sequence[str]) -> tuple[Notice, ...]:
    """Everything a reader must know before the numbers, worst first.

    Parameters
    ----------
    n
        Solved network.
    audit
        Of this network, made now.
    synthetic
        What of the report is made up, by name.
    """
    status = Results(n).status
    found = [*_on_status(status), *_on_prices(status)]
    if not audit.passed:
        worst = audit.violations.iloc[0]
        text = (
            f"{len(audit.violations)} of {len(audit.frame)} checks of the audit failed, worst {worst['check']} at "
            f"{worst['where']}: off by {shown(worst['violation'])} {worst['unit']}.".rstrip()
        )
        found.append(Notice("danger", text))
    if synthetic:
        found.append(Notice("warning", f"Synthetic, not measured: {'; '.join(synthetic)}."))
    if n.has_scenarios:
        told = "drawings show the expectation over them, schedules and calls each of them."
        found.append(Notice("note", f"The network has {len(n.scenarios)} scenarios: {told}"))
    return tuple(sorted(found, key=lambda notice: ("danger", "warning", "note").index(notice.level)))


def _on_status(status: Mapping[str, object]) -> list[Notice]:
    if not status:
        text = (
            "The network does not say how its solve ended: it was not solved by n.aidc.optimize. It may be far from "
            "the optimum."
        )
        return [Notice("danger", text)]
    objective, bound, gap = (float(str(status[key])) for key in ("objective", "bound", "gap"))
    known = np.isfinite(bound)
    above = (
        f"The objective of {shown(objective)} USD is at most {shown(abs(objective - bound))} USD ({100 * gap:.3g} %) "
        "above the optimum."
        if known
        else f"How far its {shown(objective)} USD are from the optimum is not known: the solver gave no bound."
    )
    found = []
    if status["status"] != "optimal":
        found.append(
            Notice(
                "danger", f"Not optimal: the solver stopped at its {str(status['status']).replace('_', ' ')}. {above}"
            )
        )
    elif not known or gap > TIGHT:
        found.append(Notice("warning", f"Optimal only within the tolerance that was asked for. {above}"))
    skipped = status.get("skipped_outages")
    if isinstance(skipped, list) and skipped:
        names = ", ".join(map(str, skipped[:5])) + (f" and {len(skipped) - 5} more" if len(skipped) > 5 else "")
        found.append(Notice("warning", f"Not secured, because they split the network: outages of {names}."))
    return found


def _on_prices(status: Mapping[str, object]) -> list[Notice]:
    if str(status.get("prices", sections.NO_PRICES)) != sections.NO_PRICES:
        return []
    why = "the solve was told to do without" if status else "it is not known where those in the file come from"
    remedy = "Solve with n.aidc.optimize(), which prices with all schedules fixed."
    return [Notice("warning", f"No prices: {why}. {remedy}")]


def _oversized(given: Attachments, peaks: pd.Series[float]) -> Iterator[Notice]:
    """Warn of a contract that offers more than a site of the network draws at its peak."""
    if given.contract is None:
        return
    for name, most in peaks[peaks < given.contract.offer].items():
        yield Notice(
            "warning",
            f"The contract offers {shown(given.contract.offer)} MW, more than the {shown(float(most))} MW that {name} "
            "draws at its peak: it is of another fleet. Its term sheet says what share of that fleet it is.",
        )


def _counted(word: str, names: Sequence[str]) -> str:
    """How many there are, and the first names."""
    more = " and more" if len(names) > 4 else ""
    return f"{counted(len(names), word)} ({', '.join(names[:4])}{more})"


def replace_file(path: Path, content: bytes) -> None:
    """Write a file beside its place and move it there, so that nobody ever sees half of it."""
    partial = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        partial.write_bytes(content)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def _check(n: Network, path: Path, values: pd.DataFrame | None, exclusive: Sequence[str]) -> None:
    faults = Faults("n.aidc.report")
    suffix = path.suffix.lower()
    faults.require(suffix in WRITERS, "path", str(path), f"a file ending in {', '.join(WRITERS)}")
    faults.require(path.parent.is_dir(), "path", str(path), "a file in an existing folder")
    faults.require(not path.is_dir(), "path", str(path), "a file, not a folder")
    there = bool(loads(n))
    remedy = "Add one with n.aidc.add or n.aidc.add_fleet, and solve."
    faults.require(there, "network", n.name or "without a name", "at least one AIDC: a site or a fleet", remedy)
    if values is not None:
        fits = set(values.columns) >= _COLUMNS and values.index.names == ["site", "what"]
        faults.require(fits, "values", list(values.columns), "the table of n.aidc.values")
    storages = {*n.stores.index, *n.storage_units.index}
    for name in exclusive:
        faults.require(name in storages, "exclusive", name, f"one of {sorted(map(str, storages))}")
    faults.raise_any()
    library = NEEDED.get(suffix)
    if library is not None and find_spec(library) is None:
        raise UnsupportedError(f"a {suffix} report needs {library}: install pypsa-aidc[report], or write .html")
