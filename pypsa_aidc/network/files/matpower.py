"""MATPOWER cases, format version 2, as tables of numbers: read as data, never run."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pypsa_aidc.errors import Faults

Floats = NDArray[np.float64]
Case = dict[str, Any]
"""`baseMVA`; `bus`, `gen`, `branch` and, where there, `dcline` as arrays; `gencost` as rows of their own lengths."""

PMAX, PMIN, RATE_A = 8, 9, 5
BUS_TYPE, GENERATOR_STATUS, BRANCH_STATUS, DC_STATUS = 1, 7, 10, 2
PIECEWISE, POLYNOMIAL = 1, 2

_TABLES = {"bus": 13, "gen": 10, "branch": 11, "gencost": 5, "dcline": 11}
"""Tables that are read, and how many columns they have at least."""

_WHOLE = {"gen": 21, "branch": 13, "dcline": 17}
_SHOWN = 3

_COMMENT = re.compile(r"('(?:[^'\n]|'')*')|[%#].*")
_HEADER = re.compile(r"^\s*function\s+(\w+)\s*=\s*\w+[^\n]*\n")
_NUMBER = r"[-+]?(?:[Ii]nf|[Nn]a[Nn]|(?:\d+\.?\d*|\.\d+)(?:[eEdD][-+]?\d+)?)"


def case_tables(text: str, path: str, faults: Faults) -> Case:
    """Read all assignments of literal tables, and refuse anything else that is in the text.

    powerio reads such cases too, but passes over code that it does not know: of four lines that change a case, it
    carried out one and was silent about three (0.11.6). It also takes version 1 for 2.

    Parameters
    ----------
    text
        Of the file.
    path
        Its name, for messages.
    faults
        Raised, with all that is wrong.
    """
    text = text.replace("\r", "\n")
    # Comments first: those of every published case speak of "x1 y1 ... xn yn", which continues no line.
    text = re.sub(r"\.\.\.[^\n]*\n", " ", _COMMENT.sub(lambda found: found.group(1) or "", text))
    header = _HEADER.search(text.lstrip("\n \t") + "\n")
    if header is None:
        faults.add("path", path, "a MATPOWER case, which begins with 'function mpc = ...'")
        faults.raise_any()
    assert header is not None
    name = re.escape(header.group(1))
    literal = rf"\[([^\[\]]*)\]|\{{[^{{}}]*\}}|'([^'\n]*)'|({_NUMBER})"
    assignment = re.compile(rf"^\s*{name}\.(\w+)\s*=\s*(?:{literal})[ \t]*(?:;|,|$)", re.MULTILINE)
    found: dict[str, Any] = {}
    body = (text.lstrip("\n \t") + "\n")[header.end() :]
    for match in assignment.finditer(body):
        key, table, word, number = match.groups()
        if table is not None and key in _TABLES:
            found[key] = _numbers(table, key, faults)
        elif word is not None or number is not None:
            found[key] = word if word is not None else number
    rest = [line.strip() for line in assignment.sub("", body).splitlines()]
    code = [line for line in rest if line.strip(";") not in ("", "end", "endfunction", "return", "1")]
    faults.require(
        not code,
        "code in the case",
        "; ".join(code[:_SHOWN]) + (f" and {len(code) - _SHOWN} more lines" if len(code) > _SHOWN else ""),
        "tables of numbers only",
        "It may change them, and is never run: load the case in MATPOWER, and write it again with savecase.",
    )
    faults.raise_any()
    return _checked(found, faults)


def _numbers(table: str, name: str, faults: Faults) -> list[Floats]:
    rows = []
    for row in re.split(r"[;\n]", table):
        cells = row.replace(",", " ").split()
        bad = [cell for cell in cells if re.fullmatch(_NUMBER, cell) is None]
        if bad:
            faults.add(f"mpc.{name}", bad[0], "numbers")
            faults.raise_any()
        if cells:
            rows.append(
                np.array([float(re.sub("[dD]", "e", cell)) if _has_exponent(cell) else float(cell) for cell in cells])
            )
    return rows


def _has_exponent(cell: str) -> bool:
    return re.fullmatch(r"[-+.\d]+[dD][-+\d]+", cell) is not None


def _checked(found: dict[str, Any], faults: Faults) -> Case:
    version = str(found.get("version", "nothing"))
    remedy = "Save the case again with a newer MATPOWER."
    faults.require(version == "2", "mpc.version", version, "'2'", remedy)
    case: Case = {}
    base = str(found.get("baseMVA", "nothing"))
    faults.require(re.fullmatch(_NUMBER, base) is not None, "mpc.baseMVA", base, "a number")
    for name, columns in _TABLES.items():
        if name not in found and name in ("gencost", "dcline"):
            continue
        rows = found.get(name, [])
        lengths = {len(row) for row in rows}
        if name == "gencost":
            case[name] = [_used(row, number, faults) for number, row in enumerate(rows, 1)]
            continue
        faults.require(bool(rows) or name == "dcline", f"mpc.{name}", "nothing", "a table of a MATPOWER case")
        faults.require(len(lengths) <= 1, f"mpc.{name}", sorted(lengths), "rows of one length")
        faults.require(
            not lengths or min(lengths) >= columns,
            f"mpc.{name}",
            sorted(lengths),
            f"rows of at least {columns} columns",
        )
        if len(lengths) == 1 and min(lengths) >= columns:
            # PyPSA wants all columns of version 2; 0 is nothing in those that may be missing.
            case[name] = np.pad(np.array(rows), ((0, 0), (0, max(0, _WHOLE.get(name, 0) - min(lengths)))))
            faults.require(bool(np.isfinite(case[name][:, :columns]).all()), f"mpc.{name}", "NaN", "finite numbers")
    faults.raise_any()
    case["baseMVA"] = float(base)
    if "gencost" in case:
        count = f"{len(case['gencost'])} rows"
        faults.require(len(case["gencost"]) >= len(case["gen"]), "mpc.gencost", count, "a row for each generator")
    least, most = case["gen"][:, PMIN], case["gen"][:, PMAX]
    wrong = np.flatnonzero((least > most) & (case["gen"][:, GENERATOR_STATUS] > 0))
    faults.require(not len(wrong), f"mpc.gen, rows {(wrong + 1)[:_SHOWN].tolist()}", "Pmin above Pmax", "at most Pmax")
    known = case["bus"][:, 0]
    for name, ends in (("gen", [0]), ("branch", [0, 1]), ("dcline", [0, 1])):
        unknown = np.setdiff1d(case[name][:, ends], known).tolist() if name in case else []
        faults.require(not unknown, f"mpc.{name}", unknown[:_SHOWN], "numbers of buses in mpc.bus")
    faults.raise_any()
    return case


def _used(row: Floats, number: int, faults: Faults) -> Floats:
    """Cost of a generator without what fills its row, which is as long as that of the longest cost."""
    where = f"mpc.gencost, row {number}"
    count = int(row[3]) if len(row) > 4 and np.isfinite(row[3]) else 0
    length = 4 + count * (2 if row[0] == PIECEWISE else 1)
    used = row[:length]
    needed = 2 if row[0] == PIECEWISE else 1
    faults.require(
        count >= needed and len(used) == length and bool(np.isfinite(used).all()),
        where,
        row.tolist(),
        f"a cost of at least {needed} finite points or coefficients",
    )
    if row[0] == PIECEWISE and len(used) == length:
        ascending = bool((np.diff(used[4::2]) > 0).all())
        faults.require(ascending, where, used[4::2].tolist(), "ascending powers at the points of the cost")
    return used
