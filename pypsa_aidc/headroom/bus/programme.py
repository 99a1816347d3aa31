"""The linear programme of headroom with redispatch: built once from PyPSA's model, pointed at one bus after another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import highspy
import numpy as np
import pandas as pd
import pypsa
from numpy.typing import NDArray

from pypsa_aidc.errors import NotSolvedError
from pypsa_aidc.headroom.bus.base_case import BRANCHES, Floats
from pypsa_aidc.headroom.bus.factors import Island
from pypsa_aidc.headroom.bus.response import Response
from pypsa_aidc.network.pypsa_api import quiet_pypsa

Integers = NDArray[np.int64]
_PROBE = " headroom probe"
_LIMITING = (*BRANCHES, "Link", "Generator", "StorageUnit", "Store", "Process")
_LARGEST = 1e9
"""MW beyond which a site counts as unlimited."""


class Programme:
    """PyPSA's operational model with a draw x_bt at each bus, all tied to one size: Σ_b x_bt = s_t·L − r_t.

    The draws are the power of one more generator with ``sign=-1`` at each bus, so that PyPSA itself puts them into the
    nodal balances. Only the bus in question has a draw that is not fixed at 0: changing the bus changes T bounds and
    nothing else. All costs are 0 but that of the size.

    Parameters
    ----------
    n
        Base case; gets the probes.
    site
        Load and response.

    Attributes
    ----------
    elements : pandas.DataFrame
        For each row of the programme, `component`, `name` and `snapshot` (position) if it is a limit of a component,
        component "" otherwise; rows added later stand at the end.
    """

    def __init__(self, n: pypsa.Network, site: Response) -> None:
        self._buses = n.buses.index
        probes = self._buses + _PROBE
        n.add("Generator", probes, bus=self._buses, sign=-1, p_nom=0.0, marginal_cost=1.0)
        with quiet_pypsa():
            model = n.optimize.create_model(cast("Sequence[Any]", n.snapshots), include_objective_constant=False)
        self.solver = _solver(model)
        columns = model.variables.label_index.label_to_pos
        rows = model.constraints.label_index.label_to_pos
        self._draw = _positions(model.variables["Generator-p"].sel(name=probes), columns)
        self.flow = {
            (component, name): position
            for component in BRANCHES
            if f"{component}-s" in model.variables
            for name, position in _by_name(model.variables[f"{component}-s"], columns)
        }
        self.elements = _elements(model, rows, self.solver.getNumRow())
        probing = self.elements["name"].str.endswith(_PROBE) & (self.elements["component"] == "Generator")
        self._free(np.flatnonzero(probing))
        self.elements.loc[probing, "component"] = ""
        self._bound(self._draw.ravel(), 0.0)
        self.size = self.solver.getNumCol()
        self.solver.addCol(0.0, 0.0, 0.0, 0, np.zeros(0, np.int32), np.zeros(0))
        self._tie(site)
        self._at: int | None = None

    def add_rows(
        self,
        lower: Floats,
        upper: Floats,
        columns: Sequence[Integers],
        values: Sequence[Floats],
        elements: pd.DataFrame,
    ) -> None:
        """Add rows; `elements` says what they are, as the attribute does."""
        starts = np.cumsum([0, *[len(part) for part in columns]])[:-1].astype(np.int32)
        index, value = np.concatenate(columns).astype(np.int32), np.concatenate(values)
        self.solver.addRows(len(lower), lower, upper, len(index), starts, index, value)
        self.elements = pd.concat([self.elements, elements], ignore_index=True)

    def point_at(self, bus: str | None) -> None:
        """Let the site be at one bus, of a size to be made as large as possible; at none, of size 0."""
        if self._at is not None:
            self._bound(self._draw[self._at], 0.0)
        self._at = None if bus is None else int(self._buses.get_loc(bus))
        if self._at is not None:
            self._bound(self._draw[self._at], np.inf)
        self.solver.changeColBounds(self.size, 0.0, 0.0 if bus is None else _LARGEST)
        self.solver.changeColCost(self.size, 0.0 if bus is None else -1.0)
        # From the basis of another bus, HiGHS can do no presolve and takes longer than from nothing.
        self.solver.clearSolver()

    def solve(self) -> bool:
        """Solve; False if there is no feasible dispatch.

        Raises
        ------
        NotSolvedError
            The solver stopped for another reason.
        """
        self.solver.run()
        status = self.solver.getModelStatus()
        if status == highspy.HighsModelStatus.kOptimal:
            return True
        if status in (highspy.HighsModelStatus.kInfeasible, highspy.HighsModelStatus.kUnboundedOrInfeasible):
            return False
        raise NotSolvedError(f"headroom: HiGHS stopped with {self.solver.modelStatusToString(status)!r}.")

    @property
    def headroom(self) -> float:
        """Size of the site in the last solution, MW; inf if nothing limits it."""
        size = float(self.solver.getSolution().col_value[self.size])
        return np.inf if size > 0.999 * _LARGEST else max(size, 0.0)

    def flows(self, island: Island) -> Floats:
        """Flows of an island's branches in the last solution, MW, shape (L, T)."""
        values = np.asarray(self.solver.getSolution().col_value)
        flows: Floats = values[np.array([self.flow[branch] for branch in island.branches])]
        return flows

    def duals(self) -> Floats:
        """MW of headroom for each MW of right-hand side, without sign, by row."""
        values: Floats = np.abs(np.asarray(self.solver.getSolution().row_dual))
        return values

    def violations(self, relaxed: Integers) -> Floats | None:
        """Least total violation of some rows that makes the programme feasible, MW, shape of `relaxed`.

        `None` if no violation of these rows does. The programme is of no use afterwards.
        """
        count = relaxed.size
        first = self.solver.getNumCol()
        rows = np.r_[relaxed, relaxed].astype(np.int32)
        self.solver.addCols(
            2 * count,
            np.ones(2 * count),
            np.zeros(2 * count),
            np.full(2 * count, np.inf),
            2 * count,
            np.arange(2 * count, dtype=np.int32),
            rows,
            np.r_[np.ones(count), -np.ones(count)],
        )
        self.solver.clearSolver()
        if not self.solve():
            return None
        values = np.asarray(self.solver.getSolution().col_value)[first:]
        found: Floats = values[:count] + values[count:]
        return found

    def _tie(self, site: Response) -> None:
        snapshots = np.arange(self._draw.shape[1])
        zero = np.zeros(snapshots.size)
        relief = self.solver.getNumCol() + snapshots
        self.solver.addCols(
            snapshots.size, zero, zero, np.full(snapshots.size, np.inf), 0, zero.astype(np.int32),
            np.zeros(0, np.int32), np.zeros(0),
        )  # fmt: skip
        ones = np.ones(len(self._draw))
        self.add_rows(
            zero,
            zero,
            [np.r_[self._draw[:, t], self.size, relief[t]] for t in snapshots],
            [np.r_[ones, -site.load[t], 1.0] for t in snapshots],
            _no_elements(snapshots.size),
        )
        self.add_rows(
            zero - np.inf,
            zero,
            [np.array([relief[t], self.size]) for t in snapshots],
            [np.array([1.0, -site.relief[t]]) for t in snapshots],
            _no_elements(snapshots.size),
        )
        for hours, depth in site.windows:
            length = min(hours, snapshots.size)
            starts = snapshots[: snapshots.size - length + 1]
            self.add_rows(
                np.full(starts.size, -np.inf),
                np.zeros(starts.size),
                [np.r_[relief[t : t + length], self.size] for t in starts],
                [np.r_[np.ones(length), -hours * depth]] * starts.size,
                _no_elements(starts.size),
            )

    def _bound(self, columns: Integers, upper: float) -> None:
        index = columns.astype(np.int32)
        self.solver.changeColsBounds(index.size, index, np.zeros(index.size), np.full(index.size, upper))

    def _free(self, rows: Integers) -> None:
        """Take the limits of the probes out, which PyPSA states as rows."""
        index = rows.astype(np.int32)
        self.solver.changeRowsBounds(index.size, index, np.full(index.size, -np.inf), np.full(index.size, np.inf))


def _positions(variable: Any, positions: Integers) -> Integers:
    """Columns of a variable, shape (names, snapshots)."""
    found: Integers = positions[variable.labels.transpose("name", "snapshot").to_numpy()]
    return found


def _by_name(variable: Any, positions: Integers) -> list[tuple[str, Integers]]:
    return list(zip(variable.indexes["name"], _positions(variable, positions), strict=True))


def _elements(model: Any, positions: Integers, rows: int) -> pd.DataFrame:
    """What each row of PyPSA's model limits; empty where it is an identity or a balance."""
    table = _no_elements(rows)
    for label, constraint in model.constraints.items():
        component = str(label).split("-")[0]
        is_limit = component in _LIMITING and str(label).endswith(("-upper", "-lower"))
        if not is_limit or "name" not in constraint.dims:
            continue
        labels = constraint.labels.transpose("name", "snapshot")
        known = labels.to_numpy() >= 0
        row = positions[labels.to_numpy()[known]]
        name, snapshot = np.nonzero(known)
        table.loc[row, "component"] = component
        table.loc[row, "name"] = labels.indexes["name"].to_numpy(dtype=object)[name]
        table.loc[row, "snapshot"] = snapshot
    return table


def _no_elements(count: int) -> pd.DataFrame:
    return pd.DataFrame({"component": "", "name": "", "outage": "", "snapshot": np.full(count, -1)}, dtype=object)


def _solver(model: Any) -> Any:
    """A silent HiGHS that holds the constraints of a linopy model, in its order of variables and constraints."""
    matrices = model.matrices
    rows = matrices.A.tocsc()
    lp = highspy.HighsLp()
    lp.num_row_, lp.num_col_ = rows.shape
    lp.col_cost_ = np.zeros(rows.shape[1])  # PyPSA's costs do not count, nor that of the probes, without which it balks
    lp.col_lower_, lp.col_upper_ = matrices.lb, matrices.ub
    lp.row_lower_ = np.where(matrices.sense == "<", -np.inf, matrices.b)
    lp.row_upper_ = np.where(matrices.sense == ">", np.inf, matrices.b)
    lp.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    lp.a_matrix_.start_, lp.a_matrix_.index_, lp.a_matrix_.value_ = rows.indptr, rows.indices, rows.data
    solver = cast("Any", highspy).Highs()
    solver.setOptionValue("output_flag", False)
    solver.passModel(lp)
    return solver
