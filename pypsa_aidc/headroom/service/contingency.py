"""What may be out at the same time: single elements, groups with a common cause, and pairs of outages (N-1-1)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import pypsa

from pypsa_aidc.errors import Faults, near

Element = tuple[str, str]
COMPONENTS = ("Line", "Transformer", "Link", "Generator")
"""What may be out."""


@dataclass(frozen=True)
class Contingency:
    """Elements that are out together, with nothing redispatched between their outages.

    Parameters
    ----------
    elements
        (component, name) of lines, transformers, links and generators; a name alone is that of a line.
    name
        What it is called in results; its elements if empty.

    Examples
    --------
    >>> Contingency(("12", ("Generator", "coal 3"))).label
    'Line 12 + Generator coal 3'
    """

    elements: tuple[str | Element, ...]
    name: str = ""

    def __post_init__(self) -> None:
        named = tuple(
            ("Line", each) if isinstance(each, str) else (str(each[0]), str(each[1])) for each in self.elements
        )
        faults = Faults("Contingency")
        faults.require(bool(named), "elements", self.elements, "at least one element")
        faults.require(len(set(named)) == len(named), "elements", self.elements, "each element once")
        faults.raise_any()
        object.__setattr__(self, "elements", named)

    @property
    def members(self) -> tuple[Element, ...]:
        """(component, name) of each element."""
        return cast("tuple[Element, ...]", self.elements)

    @property
    def label(self) -> str:
        """Name in results."""
        return self.name or " + ".join(f"{each[0]} {each[1]}" for each in self.members)

    def present(self, n: pypsa.Network) -> Contingency | None:
        """What of it is active in a network, under the same name; `None` if nothing is."""
        there = tuple((kind, name) for kind, name in self.members if name in _active(n, kind))
        return Contingency(there, self.label) if there else None


Contingencies = str | Path | Sequence[str | Element | Contingency] | None


def contingencies(networks: Sequence[pypsa.Network], given: Contingencies, faults: Faults) -> list[Contingency]:
    """Read what may be out.

    Parameters
    ----------
    networks
        Those of all years; an element has to be in one of them.
    given
        `None`; ``"all"`` lines and transformers; a path of a file with one contingency a row, as `Contingency.label`
        writes it, with a name before a colon if it has one; or a list of names of lines, of (component, name), of rows
        as in a file, and of `Contingency`.
    faults
        Gets what is no active element, by name.
    """
    known = {
        component: list(dict.fromkeys(name for n in networks for name in _active(n, component)))
        for component in COMPONENTS
    }
    if given is None:
        return []
    if isinstance(given, str) and given == "all":
        return [Contingency(((kind, name),)) for kind in ("Line", "Transformer") for name in known[kind]]
    rows: Iterable[str | Element | Contingency]
    if isinstance(given, str | Path):
        path = Path(given)
        if not path.is_file():
            faults.add("contingencies", str(given), "None, 'all', a list, or a file with one a row")
            return []
        text = path.read_text(encoding="utf-8-sig")
        rows = [row.strip() for row in text.splitlines() if row.strip() and not row.lstrip().startswith("#")]
    else:
        rows = given
    found = []
    for row in rows:
        if isinstance(row, str):
            row = _read(row, known["Line"])
        elif isinstance(row, tuple):
            row = Contingency((row,))
        found.append(row)
        for component, name in row.members:
            if component not in COMPONENTS:
                faults.add("contingencies", component, f"one of {', '.join(COMPONENTS)}", f"In {row.label!r}.")
            elif name not in known[component]:
                faults.add(
                    "contingencies", f"{component} {name}", f"an active {component}", near(name, known[component])
                )
    labels = [each.label for each in found]
    for label in sorted({label for label in labels if labels.count(label) > 1}):
        faults.add("contingencies", label, "each once")
    return found


def _active(n: pypsa.Network, component: str) -> list[str]:
    static = n.c[component].static
    return [str(name) for name in static.index[static["active"]]]


def _read(row: str, lines: Iterable[str]) -> Contingency:
    """A row of a file; a text that is the name of a line is that line."""
    if row in lines:
        return Contingency((row,))
    before, colon, rest = row.partition(":")
    name, parts = (before.strip(), rest) if colon else ("", row)
    elements: list[str | Element] = []
    for part in parts.replace(",", " ").split(" + "):
        word, _, identity = part.strip().partition(" ")
        elements.append((word, identity.strip()) if word in COMPONENTS and identity else part.strip())
    return Contingency(tuple(elements), name)
