"""Cases of MATPOWER, PSS/E, PowerWorld and PSLF as networks, by PyPSA's own import of their tables."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
import pypsa
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from pypsa_aidc.errors import CaseWarning, Faults, UnsupportedError
from pypsa_aidc.network.files import foreign
from pypsa_aidc.network.files.matpower import (
    BRANCH_STATUS,
    BUS_TYPE,
    DC_STATUS,
    GENERATOR_STATUS,
    PIECEWISE,
    PMAX,
    PMIN,
    POLYNOMIAL,
    RATE_A,
    Case,
    Floats,
    case_tables,
)
from pypsa_aidc.network.pypsa_api import network_of_case
from pypsa_aidc.plain import counted

FORMATS = {".m": "MATPOWER", **foreign.FORMATS}
"""Programs whose cases are read, by suffix."""

_DC_PF, _DC_PMIN, _DC_PMAX, _DC_LOSS0, _DC_LOSS1 = 3, 9, 10, 15, 16
_SHIFT, _VM = 9, 7
_QG, _QMAX, _QMIN, _VG = 2, 3, 4, 5
_VOLTAGE, _MVAR = 1e-4, 1e-2
"""What tells a voltage from another one (per unit), and reactive power at its limit (MVAr)."""
_ISOLATED = 4
_UNLIMITED = 10.0
"""Limit of a branch without one, as a multiple of all generation and load: more can never flow."""

_PLACEHOLDER = 9999.0
"""Power in MW that PSS/E puts where no limit was given."""

_BLOCKS = 10
"""Blocks into which a quadratic cost is cut."""

_SHOWN = 3


def from_case(
    path: str | Path, *, quadratic: Literal["exact", "piecewise"] = "exact", dispatch: bool | None = None
) -> pypsa.Network:
    """Read a case of MATPOWER, PSS/E, PowerWorld or PSLF as a network with one snapshot.

    Buses, loads, shunts, generators with limits and costs, lines and transformers with ratings, and DC lines come
    along; what is out of service or at an isolated bus does not. Generators that can only consume (dispatchable loads)
    have a `p_max_pu` of at most 0. A branch without rating (0) gets one that never binds, angles of 0 and ±360 are no
    limits. A three-winding transformer becomes a bus with three transformers. Ratings are MVA: the first of the case.

    Parameters
    ----------
    path
        A file ending in ``.m`` (MATPOWER, format version 2; parsed as data, never run), ``.raw`` or ``.rawx`` (PSS/E
        32 to 35), ``.aux`` or ``.pwb`` (PowerWorld) or ``.epc`` (PSLF). All but the first are read by powerio, which
        comes with ``pip install 'pypsa-aidc[cases]'``.
    quadratic
        ``"exact"``: costs become `marginal_cost` and `marginal_cost_quadratic`, of a piecewise linear cost the mean
        slope. ``"piecewise"``: each generator becomes several, ``"G0"``, ``"G0 block 2"``, …, one for each block of
        its output, with `marginal_cost` alone, which HiGHS can solve beside decisions in whole numbers. Costs are
        right at the ends of the blocks (ten equal ones for a quadratic cost).
    dispatch
        Whether generators and DC lines keep the power of the case as `p_set`, which an optimisation then holds them
        to; by default those of cases without costs do, as nothing else would say who produces. Linear flows have no
        losses: the generators at the slack bus produce that much less.

    Returns
    -------
    pypsa.Network
        Buses are named by their numbers, as text; lines and transformers by those of their ends, circuits in parallel
        ``"1-2"``, ``"1-2 (2)"``, …. ``n.meta["case"]`` lists what was read and what left out.

    Raises
    ------
    UnsupportedError
        The case has cost functions above degree 2, or, with ``"piecewise"``, costs that fall with more output.
    InputError
        No such file, a damaged one, a MATPOWER case of another version, or with code after its tables, which may
        change them; a RAW file whose sections are not named; powerio is not installed.

    Warns
    -----
    CaseWarning
        What PyPSA has nothing like, or powerio left out.
    """
    source = Path(path)
    faults = Faults(f"aidc.from_case {str(path)!r}")
    known = f"a file ending in {', '.join(FORMATS)}"
    faults.require(source.is_file(), "path", str(path), "an existing case", known.capitalize() + ".")
    faults.require(source.suffix.lower() in FORMATS, "path", str(path), known)
    faults.require(quadratic in ("exact", "piecewise"), "quadratic", quadratic, "'exact' or 'piecewise'")
    if dispatch is not None:
        faults.flag("dispatch", dispatch)
    both = dispatch is True and quadratic == "piecewise"
    faults.require(not both, "dispatch", dispatch, "nothing with quadratic='piecewise', whose blocks share the power")
    faults.raise_any()
    stars: dict[int, str] = {}
    lost: list[str] = []
    notes: list[str] = []
    if source.suffix.lower() == ".m":
        case = case_tables(source.read_text(encoding="utf-8", errors="replace"), str(path), faults)
    else:
        case, stars, lost, notes = foreign.read_foreign(source, faults)
    notes += _in_service(case)
    generator, costs = case["gen"], case.get("gencost", [])
    branch = case["branch"]
    most = np.maximum(np.abs(generator[:, PMAX]), np.abs(generator[:, PMIN]))
    branch[branch[:, RATE_A] == 0, RATE_A] = _UNLIMITED * float(most.sum() + np.abs(case["bus"][:, 2]).sum() + 1.0)
    raw = network_of_case({"version": "2", **{name: case[name] for name in ("baseMVA", "bus", "gen", "branch")}})
    n = _cleaned(raw, source.stem, generator, costs if quadratic == "exact" else [])
    notes += _hold_reactive_power(n, case)
    endless = int((most >= _PLACEHOLDER).sum())
    if endless:
        lost.append(f"{counted(endless, 'generator')} of {_PLACEHOLDER:g} MW or more, which stands for no limit")
    lost += _limit_angles(n, raw)
    lost += _add_dc_lines(n, case.get("dcline", np.zeros((0, 17))))
    _name_branches(n, stars)
    if dispatch if dispatch is not None else not costs:
        notes += _keep_dispatch(n, raw, case)
    if quadratic == "piecewise" and costs:
        _cut_into_blocks(n, generator, costs)
    n.meta["case"] = [f"read from {source.name}", *lost, *notes]
    for text in lost:
        warnings.warn(f"{source.name}: {text}", CaseWarning, stacklevel=2)
    return n


def _in_service(case: Case) -> list[str]:
    """Leave out of the tables what is out of service, and say how much, and what else is worth knowing of the rest."""
    bus, generator, branch = case["bus"], case["gen"], case["branch"]
    alive = bus[bus[:, BUS_TYPE] != _ISOLATED]
    live = np.isin(generator[:, 0], alive[:, 0]) & (generator[:, GENERATOR_STATUS] > 0)
    closed = np.isin(branch[:, :2], alive[:, 0]).all(axis=1) & (branch[:, BRANCH_STATUS] > 0)
    if "gencost" in case:
        case["gencost"] = [row for row, used in zip(case["gencost"][: len(live)], live, strict=True) if used]
    case["bus"], case["gen"], case["branch"] = alive, generator[live], branch[closed]
    linked = np.zeros(0, bool)
    if "dcline" in case:
        rows = case["dcline"]
        linked = np.isin(rows[:, :2], alive[:, 0]).all(axis=1) & (rows[:, DC_STATUS] > 0)
        case["dcline"] = rows[linked]
    consuming = (case["gen"][:, PMAX] <= 0) & (case["gen"][:, PMIN] < 0)
    ends = pd.DataFrame(np.sort(case["branch"][:, :2], axis=1))
    counts = {
        "isolated bus left out": len(bus) - len(alive),
        "generator out of service left out": int((~live).sum()),
        "branch out of service left out": int((~closed).sum()),
        "DC line out of service left out": int((~linked).sum()),
        "DC line as links": int(linked.sum()),
        "generator that can only consume": int(consuming.sum()),
        "circuit parallel to another": int(ends.duplicated().sum()),
        "branch that shifts phase": int((case["branch"][:, _SHIFT] != 0).sum()),
        "branch without rating, which never limits": int((case["branch"][:, RATE_A] == 0).sum()),
    }
    return [f"{number} × {what}" for what, number in counts.items() if number]


def _cleaned(raw: pypsa.Network, name: str, generator: Floats, costs: list[Floats]) -> pypsa.Network:
    """Return what PyPSA knows of an imported network, with the limits and costs that its import leaves out.

    The import leaves columns of MATPOWER's behind, among them a `status`, empty transformers of text, the dispatch of
    the case as set points, and PyPSA's own equivalent circuit of transformers, where charging is in the middle.
    """
    least, most = generator[:, PMIN], generator[:, PMAX]
    generators = raw.generators.drop(columns="p_set")
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
        carried |= {"model": "pi"} if component == "Transformer" else {}
        n.add(component, labels, **{key: column.to_numpy() for key, column in values.items()}, **carried)
    return n


def _hold_reactive_power(n: pypsa.Network, case: Case) -> list[str]:
    """Let generators at a limit of reactive power hold that, instead of a voltage that they do not reach."""
    generator = case["gen"]
    reached = dict(zip(case["bus"][:, 0], case["bus"][:, _VM], strict=True))
    missed = np.array([abs(reached[row[0]] - row[_VG]) > _VOLTAGE for row in generator], dtype=bool)
    limited = np.abs(generator[:, [_QMAX, _QMIN]] - generator[:, [_QG]]).min(axis=1) < _MVAR
    # One that is within its limits keeps the voltage for all at its bus.
    limited &= ~np.isin(generator[:, 0], generator[~limited, 0])
    held = missed & limited & (n.generators["control"] == "PV").to_numpy()
    n.generators.loc[held, "control"] = "PQ"
    return [f"{int(held.sum())} × generator at a limit of reactive power, held there"] if held.any() else []


def _limit_angles(n: pypsa.Network, raw: pypsa.Network) -> list[str]:
    """Limit differences of angles where the case does: 0 and ±360 are no limits in MATPOWER."""
    told = []
    for component in ("Line", "Transformer"):
        static = raw.c[component].static
        if static.empty:
            continue
        low, high = static["v_ang_min"].to_numpy(float), static["v_ang_max"].to_numpy(float)
        lowest = np.where((low == 0) | (low <= -360), np.inf, -low)
        highest = np.where((high == 0) | (high >= 360), np.inf, high)
        if (lowest != highest).any():
            ends = static.loc[lowest != highest, ["bus0", "bus1"]].astype(int).astype(str).agg("-".join, axis=1)
            text = "limits of angles that differ by direction; PyPSA has one for both, and takes the wider"
            told.append(f"{component}s {', '.join(ends[:_SHOWN])}: {text}")
        n.c[component].static["v_ang_max"] = np.maximum(lowest, highest)
    return told


def _add_dc_lines(n: pypsa.Network, rows: Floats) -> list[str]:
    """Add DC lines as Links, one for each direction in which power may flow; losses at any power are told."""
    told: list[str] = []
    if not len(rows):
        return told
    n.add("Carrier", "DC")
    fixed, share = rows[:, _DC_LOSS0], rows[:, _DC_LOSS1]
    if (fixed != 0).any():
        lost = f"{counted(int((fixed != 0).sum()), 'DC line')} that lose {fixed.sum():g} MW at any power"
        told.append(f"{lost}, which a Link cannot: left out")
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
    return told


def _name_branches(n: pypsa.Network, stars: dict[int, str]) -> None:
    """Name branches by their ends, which is how people speak of them, and buses in the middle of transformers."""
    n.rename_component_names("Bus", **{str(number): name for number, name in stars.items()})
    for component in ("Line", "Transformer"):
        static = n.c[component].static
        if static.empty:  # no strings to join
            continue
        ends = static["bus0"] + "-" + static["bus1"]
        circuit = ends.groupby(ends).cumcount() + 1
        static.index = pd.Index(ends.where(circuit == 1, ends + " (" + circuit.astype(str) + ")"), name="name")


def _keep_dispatch(n: pypsa.Network, raw: pypsa.Network, case: Case) -> list[str]:
    """Set the power of generators and DC lines to that of the case; generators at the slack bus take up the losses."""
    power = pd.Series(raw.generators["p_set"].to_numpy(float), n.generators.index)
    for number, row in enumerate(case.get("dcline", np.zeros((0, 17)))):
        for name, flow in ((f"DC{number}", row[_DC_PF]), (f"DC{number} back", -row[_DC_PF] / (1 - row[_DC_LOSS1]))):
            if name in n.links.index:
                n.links.loc[name, "p_set"] = max(float(flow), 0.0)
    injected = power.groupby(n.generators["bus"]).sum().reindex(n.buses.index, fill_value=0.0)
    injected -= n.loads.groupby("bus")["p_set"].sum().reindex(n.buses.index, fill_value=0.0)
    for end, sign in (("bus0", -1.0), ("bus1", 1.0)):
        arriving = n.links["p_set"] * (n.links["efficiency"] if sign > 0 else 1.0)
        injected += sign * arriving.groupby(n.links[end]).sum().reindex(n.buses.index, fill_value=0.0)
    notes = [f"dispatch of the case, {power.sum():,.1f} MW, kept as p_set"]
    for part in _connected(n):
        there = n.generators[n.generators["bus"].isin(part)]
        missing = -float(injected[part].sum())
        if there.empty or not missing:
            continue
        slack = there.index[there["control"] == "Slack"]
        slack = slack if len(slack) else pd.Index([there["p_nom"].idxmax()])
        power[slack] += missing / len(slack)
        notes.append(
            f"{', '.join(slack[:_SHOWN])} at bus {there.at[slack[0], 'bus']} given {missing:+,.1f} MW of it, "
            "as linear flows have no losses"
        )
    n.generators["p_set"] = power
    return notes


def _connected(n: pypsa.Network) -> list[pd.Index]:
    """Buses of each part that lines and transformers hold together."""
    ends = pd.concat([n.lines[["bus0", "bus1"]], n.transformers[["bus0", "bus1"]]])
    rows, columns = (n.buses.index.get_indexer(ends[end]) for end in ("bus0", "bus1"))
    size = len(n.buses)
    matrix = csr_array((np.ones(len(ends)), (rows, columns)), shape=(size, size))
    count, label = connected_components(matrix, directed=False)
    return [n.buses.index[label == each] for each in range(count)]


def _cut_into_blocks(n: pypsa.Network, generator: Floats, costs: list[Floats]) -> None:
    """Put several generators of linear cost in place of each, whose outputs add up to its own."""
    names = list(n.generators.index)
    for name, least, most, cost in zip(names, generator[:, PMIN], generator[:, PMAX], costs, strict=True):
        blocks: list[dict[str, Any]] = [*_blocks(float(least), float(most), cost, name)]
        row = n.generators.loc[name]
        for number, block in enumerate(blocks, 1):
            if number == 1:
                n.generators.loc[name, list(block)] = list(block.values())
            else:
                n.add("Generator", f"{name} block {number}", bus=row["bus"], control=row["control"], **block)


def _blocks(least: float, most: float, cost: Floats, name: str) -> Iterator[dict[str, float]]:
    """Size, limits and slope of each block of output from 0 to the limits; those below the least output are fixed."""
    linear, quadratic = (0.0, 0.0) if cost[0] == PIECEWISE else _cost(cost)
    inside = np.zeros(0)
    if cost[0] == PIECEWISE:
        inside = cost[4::2]
    elif quadratic:
        inside = np.linspace(least, most, _BLOCKS + 1)
    points = np.unique(np.concatenate([[least, most, 0.0], inside[(inside > least) & (inside < most)]]))
    if cost[0] == PIECEWISE:
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
    if model == PIECEWISE:
        power, cost = data[0 : 2 * count : 2], data[1 : 2 * count : 2]
        return float((cost[-1] - cost[0]) / (power[-1] - power[0])), 0.0
    coefficients = data[:count][::-1]
    if model != POLYNOMIAL or (len(coefficients) > 3 and np.any(coefficients[3:])):
        raise UnsupportedError("gencost: only piecewise linear costs and polynomials up to degree 2 can be read")
    padded = np.concatenate([coefficients, np.zeros(3)])
    return float(padded[1]), float(padded[2])
