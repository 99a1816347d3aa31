"""The front door: a solved network in, one file out."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import matplotlib.style
import pandas as pd

from pypsa_aidc.errors import Faults, UnsupportedError
from pypsa_aidc.fleet import Contract, Surface
from pypsa_aidc.network import audit, loads
from pypsa_aidc.network.results.accessor import Results
from pypsa_aidc.plain import counted
from pypsa_aidc.report import fleet_sections, sections
from pypsa_aidc.report import provenance as origins
from pypsa_aidc.report.attachments import Attachments, Headroom
from pypsa_aidc.report.document import Document, Notice, shown
from pypsa_aidc.report.html import html
from pypsa_aidc.report.notices import notices
from pypsa_aidc.report.pdf import pdf
from pypsa_aidc.report.xlsx import xlsx

if TYPE_CHECKING:
    import pypsa

WRITERS: Mapping[str, Callable[[Document], bytes]] = {".html": html, ".xlsx": xlsx, ".pdf": pdf}
"""What writes a document, by the suffix of the file."""

_NEEDED = {".xlsx": "xlsxwriter", ".pdf": "reportlab"}
_COLUMNS = {"step", "unit", "value", "uncertainty"}


def report(
    n: pypsa.Network,
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
) -> Path:
    """Write a report on a solved network with sites, fleets or both: one file, whole or not at all.

    Parameters
    ----------
    n
        Network solved by `n.aidc.optimize`, just now or read from a file. It is not changed.
    path
        File ending in ``.html`` (self-contained: no scripts, no network), ``.xlsx`` (one sheet a table, the series
        too) or ``.pdf``; an earlier file is replaced once the new one is complete.
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
    given = Attachments(surface, contract, headroom, values, provenance or {}, tuple(synthetic), peak, backtest)
    write_report(n, Path(path), given, tuple(exclusive), title)
    return Path(path)


def write_report(
    n: pypsa.Network, path: Path, given: Attachments, exclusive: tuple[str, ...] = (), title: str = ""
) -> Document:
    """Write a report and return what it says; parameters and errors as for `report`."""
    _check(n, path, given.values, exclusive)
    faults = Faults("n.aidc.report")
    for name, value in (("peak", given.peak), ("backtest", given.backtest)):
        faults.require(value is None or given.contract is not None, name, value, "nothing without a contract")
    if given.peak is not None:
        faults.number("peak", given.peak, above=0)
    faults.raise_any()
    # Figures are drawn as if the user had set no style of theirs, so that a report is the same for everyone.
    with matplotlib.style.context("default"):
        document = compose(n, given, exclusive, title)
        content = WRITERS[path.suffix.lower()](document)
    replace_file(path, content)
    return document


def compose(n: pypsa.Network, given: Attachments, exclusive: tuple[str, ...] = (), title: str = "") -> Document:
    """Put a report together; parameters as for `report`."""
    accessor = Results(n)
    meters = pd.DataFrame(accessor.expected_power().xs("meter", axis=1, level="part"))
    chosen, found, loads = meters.index, accessor.sites, accessor.fleets
    checked, made_up = audit(n, exclusive=exclusive), origins.made_up(n, given)
    parts = (
        sections.summary(n),
        sections.balance(n),
        *((sections.jobs(n), sections.execution(n)) if found else ()),
        *((fleet_sections.section(n),) if loads else ()),
        sections.prices(n, given.values),
        *given.sections(meters.max()),
        sections.audit(checked),
        origins.section(n, given, made_up),
    )
    whose = [_counted(word, list(names)) for word, names in (("AI data center", found), ("fleet", loads)) if names]
    subtitle = f"{' and '.join(whose)}, {len(chosen):,} snapshots from {shown(chosen[0])} to {shown(chosen[-1])}"
    return Document(
        title or f"Dispatch of AI data centers: {n.name or 'network without a name'}",
        subtitle,
        (*notices(n, checked, made_up), *_oversized(given, meters.max())),
        sections.facts(n, checked),
        parts,
    )


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


def _check(n: pypsa.Network, path: Path, values: pd.DataFrame | None, exclusive: Sequence[str]) -> None:
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
    library = _NEEDED.get(suffix)
    if library is not None and find_spec(library) is None:
        raise UnsupportedError(f"a {suffix} report needs {library}: install pypsa-aidc[report], or write .html")
