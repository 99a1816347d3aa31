"""Where the numbers of a report come from: versions, solver, data and seeds, and what of it is made up."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

import pandas as pd

from pypsa_aidc.fleet import Contract
from pypsa_aidc.markup import Table, shown
from pypsa_aidc.network import Network, Results
from pypsa_aidc.network.spec.column import COLUMN
from pypsa_aidc.plain import counted
from pypsa_aidc.report.attachments import Attachments
from pypsa_aidc.report.document import Section
from pypsa_aidc.versions import versions

_SOLVE = {
    "objective": "objective (USD)",
    "bound": "bound (USD)",
    "gap": "gap (relative)",
    "edges": "binaries of the jobs",
    "edges_before_pruning": "binaries before pruning",
    "prices": "origin of prices",
    "audit": "audit passed when solved",
}
_LONGEST = 300
"""Characters of a text from a file that are shown."""


def section(n: Network, given: Attachments, synthetic: tuple[str, ...]) -> Section:
    """Tables of versions, of the solve and of the data."""
    chosen = Results(n).power().index
    data: list[tuple[str, object]] = [
        ("network", n.name or "without a name"),
        ("snapshots", f"{len(chosen):,}, {shown(chosen[0])} to {shown(chosen[-1])}"),
        ("components", ", ".join(counted(len(n.c[name].static), name) for name in _components(n))),
        *((str(key), value) for key, value in given.provenance.items()),
        *((f"metadata: {key}", value) for key, value in n.meta.items()),
    ]
    surface = {} if given.surface is None else given.surface.data.attrs
    for name, attrs in (("surface K", surface), ("contract", _terms(given.contract))):
        data += [(f"{name}: {key}", value) for key, value in attrs.items() if key != "units"]
    data.append(("synthetic", "; ".join(synthetic) or "nothing that says so"))
    tables = (
        Table("Solve", _pairs({_SOLVE.get(key, key): value for key, value in Results(n).status.items()})),
        Table("Data", _pairs(dict(data))),
        Table("Versions", _pairs(versions())),
    )
    text = ("The same network, options and versions give the same file, byte for byte; that is why it bears no date.",)
    return Section("Provenance", text, (), tables)


def made_up(n: Network, given: Attachments) -> tuple[str, ...]:
    """Names of everything in a report that says of itself that it is synthetic, or is said to be."""
    found, surface, contract = [], given.surface, given.contract
    if surface is not None and surface.data.attrs.get("synthetic"):
        found.append(f"surface K ({surface.data.attrs.get('source', 'synthetic fleet')})")
    if contract is not None and contract.synthetic:
        found.append(f"contract ({contract.source or 'synthetic fleet'})")
    if _says_synthetic(getattr(getattr(given.headroom, "data", None), "attrs", {})):
        found.append("headroom")
    if _says_synthetic(n.meta):
        found.append(f"network ({_cut(n.meta['synthetic'])})")
    found += [f"{kind} {name}" for kind, name, spec in _specs(n) if _says_synthetic(spec)]
    return (*found, *given.synthetic)


def _specs(n: Network) -> Iterator[tuple[str, str, Mapping[str, object]]]:
    """Component, name and content of each specification that the network holds."""
    for component in ("Link", "Generator"):
        static = n.c[component].static
        if COLUMN in static:
            texts = static[COLUMN].fillna("").astype(str)
            for name, text in texts[texts != ""].items():
                yield component, str(name), json.loads(text)


def _says_synthetic(record: object) -> bool:
    return isinstance(record, Mapping) and str(record.get("synthetic", "")) not in ("", "0", "False", "no")


def _components(n: Network) -> list[str]:
    shown_ = ("Bus", "Line", "Transformer", "Link", "Generator", "Load", "StorageUnit", "Store")
    return [name for name in shown_ if len(n.c[name].static)]


def _terms(contract: Contract | None) -> dict[str, object]:
    if contract is None:
        return {}
    return {"source": contract.source or "not stated", "clusters": ", ".join(contract.portfolio) or "not stated"}


def _pairs(record: Mapping[str, object]) -> pd.DataFrame:
    """Two columns of text; values from files are cut to what a person reads."""
    rows = [(str(key).replace("_", " "), _cut(value)) for key, value in record.items()]
    return pd.DataFrame(rows, columns=["what", "value"])


def _cut(value: object) -> str:
    if isinstance(value, Mapping):
        value = [f"{key}: {shown(each)}" for key, each in value.items()]
    text = shown(value) if not isinstance(value, list) else ", ".join(map(str, value)) or "none"
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]} … ({len(text):,} characters)"
