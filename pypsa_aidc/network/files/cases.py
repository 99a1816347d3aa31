"""MATPOWER cases as networks: tables of numbers read as data, and PyPSA's own import of such tables."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pypsa
from numpy.typing import NDArray

from pypsa_aidc.errors import Faults, UnsupportedError
from pypsa_aidc.network.pypsa_api import network_of_case

Floats = NDArray[np.float64]

_BUS_AND_GENERATOR_STATUS, _BRANCH_STATUS = 7, 10
_PMAX, _PMIN, _RATE_A = 8, 9, 5
_DC_STATUS, _DC_PMIN, _DC_PMAX, _DC_LOSS0, _DC_LOSS1 = 2, 9, 10, 15, 16
_PIECEWISE, _POLYNOMIAL = 1, 2
_ISOLATED = 4
_UNLIMITED = 10.0
"""Limit of a branch without one, as a multiple of all generation and load: more can never flow."""

_BLOCKS = 10
"""Blocks into which a quadratic cost is cut."""

_TABLES = {"bus": 13, "gen": 10, "branch": 11, "gencost": 5, "dcline": 11}
"""Tables that are read, and how many columns they have at least."""

_WHOLE = {"gen": 21, "branch": 13, "dcline": 17}
_SHOWN = 3

_COMMENT = re.compile(r"('(?:[^'\n]|'')*')|[%#].*")
_HEADER = re.compile(r"^\s*function\s+(\w+)\s*=\s*\w+[^\n]*\n")
_NUMBER = r"[-+]?(?:[Ii]nf|[Nn]a[Nn]|(?:\d+\.?\d*|\.\d+)(?:[eEdD][-+]?\d+)?)"


def from_matpower(path: str | Path, *, quadratic: Literal["exact", "piecewise"] = "exact") -> pypsa.Network:
    """Read a MATPOWER case, format version 2, as a network with one snapshot.

    Buses, loads, shunts, generators with limits and costs, lines and transformers with ratings and DC lines come along;
    what is out of service does not. Generators that can only consume (dispatchable loads) have a `p_max_pu` of at most
    0. A branch without rating (0) gets one that never binds, angles of 0 and ±360 are no limits. The dispatch of the
    case is left out, since PyPSA would keep it as a set point.

    Parameters
    ----------
    path
        A file ending in ``.m``. It is parsed as data, never run.
    quadratic
        ``"exact"``: costs become `marginal_cost` and `marginal_cost_quadratic`, of a piecewise linear cost the mean
        slope. ``"piecewise"``: each generator becomes several, ``"G0"``, ``"G0 block 2"``, …, one for each block of
        its output, with `marginal_cost` alone, which HiGHS can solve beside decisions in whole numbers. Costs are
        right at the ends of the blocks (ten equal ones for a quadratic cost).

    Returns
    -------
    pypsa.Network
        Buses are named by their numbers, as text.

    Raises
    ------
    UnsupportedError
        The case has cost functions above degree 2, or, with ``"piecewise"``, costs that fall with more output.
    InputError
        No such file, not a case of version 2, or one with code after its tables, which may change them.

    Warns
    -----
    UserWarning
        Parts of DC lines, or limits of angles, that PyPSA has nothing like.
    """
    source = Path(path)
    faults = Faults(f"aidc.from_matpower {str(path)!r}")
    faults.require(source.is_file(), "path", str(path), "an existing MATPOWER case, a file ending in .m")
    faults.require(source.suffix == ".m", "path", str(path), "a file ending in .m")
    faults.require(quadratic in ("exact", "piecewise"), "quadratic", quadratic, "'exact' or 'piecewise'")
    faults.raise_any()
    case = _checked(_tables(source, faults), faults)
    bus, generator, branch = case["bus"], case["gen"], case["branch"]
    in_service = generator[:, _BUS_AND_GENERATOR_STATUS] > 0
    costs = case["gencost"][: len(generator)] if "gencost" in case else []
    costs = [row for row, used in zip(costs, in_service, strict=True) if used] if costs else []
    generator = generator[in_service]
    branch = branch[branch[:, _BRANCH_STATUS] > 0]
    bus = bus[bus[:, 1] != _ISOLATED]
    most = np.maximum(np.abs(generator[:, _PMAX]), np.abs(generator[:, _PMIN]))
    unlimited = _UNLIMITED * float(most.sum() + np.abs(bus[:, 2]).sum() + 1.0)
    branch[branch[:, _RATE_A] == 0, _RATE_A] = unlimited
    tables = {"version": "2", "baseMVA": case["baseMVA"], "bus": bus, "gen": generator, "branch": branch}
    raw = network_of_case(tables)
    n = _cleaned(raw, source.stem, generator, costs if quadratic == "exact" else [])
    _limit_angles(n, raw)
    _add_dc_lines(n, case.get("dcline", np.zeros((0, 17))))
    if quadratic == "piecewise" and costs:
        _cut_into_blocks(n, generator, costs)
    return n


def _tables(path: Path, faults: Faults) -> dict[str, Any]:
    """Read all assignments of literal tables, and refuse anything else that is in the file."""
    text = path.read_text(encoding="utf-8", errors="replace").replace("\r", "\n")
    text = _COMMENT.sub(lambda found: found.group(1) or "", re.sub(r"\.\.\.[^\n]*\n", " ", text))
    header = _HEADER.search(text.lstrip("\n \t") + "\n")
    if header is None:
        faults.add("path", str(path), "a MATPOWER case, which begins with 'function mpc = ...'")
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
    return found


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


def _checked(found: dict[str, Any], faults: Faults) -> dict[str, Any]:
    version = str(found.get("version", "nothing"))
    remedy = "Save the case again with a newer MATPOWER."
    faults.require(version == "2", "mpc.version", version, "'2'", remedy)
    case: dict[str, Any] = {}
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
    least, most = case["gen"][:, _PMIN], case["gen"][:, _PMAX]
    wrong = np.flatnonzero((least > most) & (case["gen"][:, _BUS_AND_GENERATOR_STATUS] > 0))
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
    length = 4 + count * (2 if row[0] == _PIECEWISE else 1)
    used = row[:length]
    needed = 2 if row[0] == _PIECEWISE else 1
    faults.require(
        count >= needed and len(used) == length and bool(np.isfinite(used).all()),
        where,
        row.tolist(),
        f"a cost of at least {needed} finite points or coefficients",
    )
    if row[0] == _PIECEWISE and len(used) == length:
        ascending = bool((np.diff(used[4::2]) > 0).all())
        faults.require(ascending, where, used[4::2].tolist(), "ascending powers at the points of the cost")
    return used


def _cleaned(raw: pypsa.Network, name: str, generator: Floats, costs: list[Floats]) -> pypsa.Network:
    """Return what PyPSA knows of an imported network, with the limits and costs that its import leaves out.

    The import leaves columns of MATPOWER's behind, among them a `status`, empty transformers of text, and the
    dispatch of the case as set points.
    """
    least, most = generator[:, _PMIN], generator[:, _PMAX]
    generators = raw.generators.drop(columns=["p_set", "q_set"])
    # What can only consume has a size all the same.
    p_nom = np.where(most > 0, most, -least)
    generators["p_nom"] = p_nom
    for limit, power in (("p_min_pu", least), ("p_max_pu", most)):
        generators[limit] = np.divide(power, p_nom, out=np.zeros_like(p_nom), where=p_nom > 0)
    if costs:
        linear, quadratic = np.array([_cost(row) for row in costs]).T
        generators["marginal_cost"], generators["marginal_cost_quadratic"] = linear, quadratic
    n = pypsa.Network(name=name)
    n.add("Carrier", "AC")
    for component in ("Bus", "Load", "Generator", "Line", "Transformer", "ShuntImpedance"):
        static = generators if component == "Generator" else raw.c[component].static
        if static.empty:
            continue
        defaults = raw.c[component].defaults
        known = defaults.index[defaults["status"].str.startswith("Input")].difference(
            ["name", "carrier", "status", "v_ang_min", "v_ang_max"]
        )
        values = {column: static[column] for column in static.columns.intersection(known)}
        for end in ("bus", "bus0", "bus1"):
            if end in values:
                values[end] = values[end].astype(int).astype(str)
        labels = static.index.astype(str)
        carried: dict[str, Any] = {"carrier": "AC"} if component in ("Bus", "Line") else {}
        n.add(component, labels, **{key: column.to_numpy() for key, column in values.items()}, **carried)
    return n


def _limit_angles(n: pypsa.Network, raw: pypsa.Network) -> None:
    """Limit differences of angles where the case does: 0 and ±360 are no limits in MATPOWER."""
    for component in ("Line", "Transformer"):
        static = raw.c[component].static
        if static.empty:
            continue
        low, high = static["v_ang_min"].to_numpy(float), static["v_ang_max"].to_numpy(float)
        lowest = np.where((low == 0) | (low <= -360), np.inf, -low)
        highest = np.where((high == 0) | (high >= 360), np.inf, high)
        if (lowest != highest).any():
            told = f"{component}s {', '.join(static.index[lowest != highest].astype(str)[:_SHOWN])}"
            text = "limits of angles that differ by direction; PyPSA has one for both, and takes the wider"
            warnings.warn(f"{told}: {text}", UserWarning, stacklevel=4)
        n.c[component].static["v_ang_max"] = np.maximum(lowest, highest)


def _add_dc_lines(n: pypsa.Network, rows: Floats) -> None:
    """Add DC lines as Links, one for each direction in which power may flow; losses at any power are told."""
    rows = rows[rows[:, _DC_STATUS] > 0] if len(rows) else rows
    if not len(rows):
        return
    n.add("Carrier", "DC")
    fixed, share = rows[:, _DC_LOSS0], rows[:, _DC_LOSS1]
    if (fixed != 0).any():
        told = f"{(fixed != 0).sum()} DC lines lose {fixed.sum():g} MW at any power, which a Link cannot: left out"
        warnings.warn(told, UserWarning, stacklevel=4)
    for number, (row, loss) in enumerate(zip(rows, share, strict=True)):
        ends = [str(int(row[0])), str(int(row[1]))]
        least, most = float(row[_DC_PMIN]), float(row[_DC_PMAX])
        if most > 0:
            limits: dict[str, Any] = {"p_nom": most, "p_min_pu": max(least, 0.0) / most}
            n.add("Link", f"DC{number}", bus0=ends[0], bus1=ends[1], efficiency=1 - loss, carrier="DC", **limits)
        if least < 0:
            limits = {"p_nom": -least, "p_min_pu": max(-most, 0.0) / -least}
            back = f"DC{number} back"
            n.add("Link", back, bus0=ends[1], bus1=ends[0], efficiency=1 - loss, carrier="DC", **limits)


def _cut_into_blocks(n: pypsa.Network, generator: Floats, costs: list[Floats]) -> None:
    """Put several generators of linear cost in place of each, whose outputs add up to its own."""
    names = list(n.generators.index)
    for name, least, most, cost in zip(names, generator[:, _PMIN], generator[:, _PMAX], costs, strict=True):
        blocks: list[dict[str, Any]] = [*_blocks(float(least), float(most), cost, name)]
        row = n.generators.loc[name]
        for number, block in enumerate(blocks, 1):
            if number == 1:
                n.generators.loc[name, list(block)] = list(block.values())
            else:
                n.add("Generator", f"{name} block {number}", bus=row["bus"], control=row["control"], **block)


def _blocks(least: float, most: float, cost: Floats, name: str) -> Iterator[dict[str, float]]:
    """Size, limits and slope of each block of output from 0 to the limits; those below the least output are fixed."""
    linear, quadratic = (0.0, 0.0) if cost[0] == _PIECEWISE else _cost(cost)
    inside = np.zeros(0)
    if cost[0] == _PIECEWISE:
        inside = cost[4::2]
    elif quadratic:
        inside = np.linspace(least, most, _BLOCKS + 1)
    points = np.unique(np.concatenate([[least, most, 0.0], inside[(inside > least) & (inside < most)]]))
    if cost[0] == _PIECEWISE:
        value = _along(points, cost[4::2], cost[5::2])
    else:
        value = linear * points + quadratic * points**2
    slopes = np.diff(value) / np.diff(points)
    if (np.diff(slopes) < -1e-9 * np.abs(slopes).max(initial=1.0)).any():
        raise UnsupportedError(f"gencost of {name}: costs that fall with more output cannot be cut into blocks")
    if not len(slopes):
        yield {"p_nom": 0.0, "p_min_pu": 0.0, "p_max_pu": 0.0, "marginal_cost": linear}
    for low, high, slope in zip(points[:-1], points[1:], slopes, strict=True):
        size = {"p_nom": float(high - low), "marginal_cost": float(slope)}
        if low >= 0:
            yield {**size, "p_min_pu": float(high <= least), "p_max_pu": 1.0}
        else:
            yield {**size, "p_min_pu": -1.0, "p_max_pu": -float(low >= most)}


def _along(points: Floats, power: Floats, cost: Floats) -> Floats:
    """Piecewise linear cost at some powers; beyond its ends it goes on with the slope there."""
    value = np.interp(points, power, cost)
    first, last = np.diff(cost)[[0, -1]] / np.diff(power)[[0, -1]]
    value = value + np.minimum(points - power[0], 0.0) * first
    return np.asarray(value + np.maximum(points - power[-1], 0.0) * last)


def _cost(row: Floats) -> tuple[float, float]:
    """Linear and quadratic coefficient of a row of `gencost`, USD/MWh and USD/MW²h."""
    model, count, data = int(row[0]), int(row[3]), row[4:]
    if model == _PIECEWISE:
        power, cost = data[0 : 2 * count : 2], data[1 : 2 * count : 2]
        return float((cost[-1] - cost[0]) / (power[-1] - power[0])), 0.0
    coefficients = data[:count][::-1]
    if model != _POLYNOMIAL or (len(coefficients) > 3 and np.any(coefficients[3:])):
        raise UnsupportedError("gencost: only piecewise linear costs and polynomials up to degree 2 can be read")
    padded = np.concatenate([coefficients, np.zeros(3)])
    return float(padded[1]), float(padded[2])
