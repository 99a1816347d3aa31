"""MATPOWER cases as networks, through the kept reader `matpowercaseframes` and PyPSA's own import of such tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pypsa
from numpy.typing import NDArray

from pypsa_aidc.errors import Faults, InputError, UnsupportedError
from pypsa_aidc.network.pypsa_api import quiet_pypsa

Floats = NDArray[np.float64]

_BUS_AND_GENERATOR_STATUS, _BRANCH_STATUS = 7, 10
_PMAX, _PMIN, _RATE_A = 8, 9, 5
_PIECEWISE, _POLYNOMIAL = 1, 2
_ISOLATED = 4
_UNLIMITED = 10.0
"""Limit of a branch without one, as a multiple of all generation and load: more can never flow."""


def from_matpower(path: str | Path) -> pypsa.Network:
    """Read a MATPOWER case, format version 2, as a network with one snapshot.

    Buses, loads, shunts, generators with limits and costs, lines and transformers with ratings come along; what is
    out of service does not. Costs become `marginal_cost` and `marginal_cost_quadratic`; of a piecewise linear cost
    the mean slope. A branch without rating (0) gets one that never binds. The dispatch of the case is left out, since
    PyPSA would keep it as a set point. DC lines and areas are not read.

    Parameters
    ----------
    path
        A file ending in ``.m``. It is parsed as data, never run.

    Returns
    -------
    pypsa.Network
        Buses are named by their numbers, as text.

    Raises
    ------
    UnsupportedError
        `matpowercaseframes` is not installed, or the case has cost functions above degree 2.
    InputError
        No such file, or not a case of version 2.
    """
    source = Path(path)
    faults = Faults(f"aidc.from_matpower {str(path)!r}")
    faults.require(source.is_file(), "path", str(path), "an existing MATPOWER case, a file ending in .m")
    faults.require(source.suffix == ".m", "path", str(path), "a file ending in .m")
    faults.raise_any()
    case = _read(source, faults)
    bus, generator, branch = case["bus"], case["gen"], case["branch"]
    in_service = generator[:, _BUS_AND_GENERATOR_STATUS] > 0
    costs = case["gencost"][: len(generator)][in_service] if "gencost" in case else None
    generator = generator[in_service]
    branch = branch[branch[:, _BRANCH_STATUS] > 0]
    bus = bus[bus[:, 1] != _ISOLATED]
    unlimited = _UNLIMITED * float(np.abs(generator[:, _PMAX]).sum() + np.abs(bus[:, 2]).sum() + 1.0)
    branch[branch[:, _RATE_A] == 0, _RATE_A] = unlimited
    tables = {"version": "2", "baseMVA": case["baseMVA"], "bus": bus, "gen": generator, "branch": branch}
    raw = pypsa.Network()
    with quiet_pypsa("pypsa.network.io"):
        raw.import_from_pypower_ppc(tables)
    return _cleaned(raw, source.stem, generator, costs)


def _read(path: Path, faults: Faults) -> dict[str, Any]:
    try:
        from matpowercaseframes import CaseFrames
    except ImportError as error:
        raise UnsupportedError(
            "reading MATPOWER cases needs matpowercaseframes: pip install 'pypsa-aidc[matpower]'"
        ) from error
    try:
        frames = CaseFrames(str(path), update_index=False)
        version = str(frames.version).strip("'\" ")
        case: dict[str, Any] = {name: getattr(frames, name).to_numpy(float) for name in ("bus", "gen", "branch")}
        case["baseMVA"] = float(frames.baseMVA)
        if "gencost" in frames.attributes:
            case["gencost"] = frames.gencost.to_numpy(float)
    except Exception as error:
        faults.add("path", str(path), f"a MATPOWER case ({type(error).__name__}: {error})")
        raise InputError(faults.subject, tuple(faults)) from error
    faults.require(version == "2", "mpc.version", version, "'2'", "Save the case again with a newer MATPOWER.")
    for name, columns in (("bus", 13), ("gen", 10), ("branch", 11)):
        shape = case[name].shape
        faults.require(
            shape[0] > 0 and shape[1] >= columns, f"mpc.{name}", shape, f"rows of at least {columns} columns"
        )
        faults.require(bool(np.isfinite(case[name][:, :columns]).all()), f"mpc.{name}", "NaN", "finite numbers")
    faults.raise_any()
    if "gencost" in case:
        # Rows are as long as the longest cost: what lies beyond a shorter one is no number, and not read.
        counts = np.nan_to_num(case["gencost"][:, 3]).astype(int)
        used = [
            row[: 4 + count * (2 if row[0] == _PIECEWISE else 1)]
            for row, count in zip(case["gencost"], counts, strict=True)
        ]
        ok = len(used) >= len(case["gen"]) and all(len(row) > 4 and np.isfinite(row).all() for row in used)
        faults.require(ok, "mpc.gencost", f"{len(used)} rows", "a row of finite numbers for each generator")
        faults.raise_any()
    known = case["bus"][:, 0]
    for name, ends in (("gen", [0]), ("branch", [0, 1])):
        unknown = np.setdiff1d(case[name][:, ends], known)
        faults.require(not len(unknown), f"mpc.{name}", unknown[:3].tolist(), "numbers of buses in mpc.bus")
    faults.raise_any()
    return case


def _cleaned(raw: pypsa.Network, name: str, generator: Floats, costs: Floats | None) -> pypsa.Network:
    """Return what PyPSA knows of an imported network, with the limits and costs that its import leaves out.

    The import leaves columns of MATPOWER's behind, among them a `status`, empty transformers of text, and the
    dispatch of the case as set points.
    """
    p_nom = generator[:, _PMAX]
    generators = raw.generators.drop(columns=["p_set", "q_set"])
    generators["p_min_pu"] = np.divide(generator[:, _PMIN], p_nom, out=np.zeros_like(p_nom), where=p_nom > 0)
    if costs is not None:
        linear, quadratic = np.array([_cost(row) for row in costs]).T
        generators["marginal_cost"], generators["marginal_cost_quadratic"] = linear, quadratic
    n = pypsa.Network(name=name)
    n.add("Carrier", "AC")
    for component in ("Bus", "Load", "Generator", "Line", "Transformer", "ShuntImpedance"):
        static = generators if component == "Generator" else raw.c[component].static
        if static.empty:
            continue
        defaults = raw.c[component].defaults
        known = defaults.index[defaults["status"].str.startswith("Input")].difference(["name", "carrier", "status"])
        values = {column: static[column] for column in static.columns.intersection(known)}
        for end in ("bus", "bus0", "bus1"):
            if end in values:
                values[end] = values[end].astype(int).astype(str)
        labels = static.index.astype(str)
        carried = {"carrier": "AC"} if component in ("Bus", "Line") else {}
        n.add(component, labels, **{key: column.to_numpy() for key, column in values.items()}, **carried)
    return n


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
