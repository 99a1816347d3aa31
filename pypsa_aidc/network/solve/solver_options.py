"""What goes to the solver: its name, its options apart from PyPSA's arguments, and the time that is left."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pypsa

from pypsa_aidc.errors import Faults
from pypsa_aidc.network.pypsa_api import arguments_of_optimize, is_highs_option, solvers

MIXED_INTEGER_QUADRATIC = frozenset({"gurobi", "cplex", "xpress", "mosek", "copt", "scip"})
"""Solvers that can do quadratic costs and whole numbers at once."""

_OF_THE_SEARCH = ("objective_target", "objective_bound")
"""Options that stop a search for whole numbers, and would stop an LP before its optimum."""

_AT_THE_FIRST_SOLUTION = {"mip_max_improving_sols": 1}
"""Options with which HiGHS stops at the first solution in whole numbers."""

LARGE = 10_000
"""Edges from which on a model is large.

HiGHS then searches from an interior point, since the simplex method takes several times as long; and parts that nothing
ties together are searched one after the other.
"""

_LEAST_SECONDS = 0.1
_FOR_PRICES = 0.05
"""Share of a time limit that is kept for the prices where nothing is known of how long they take."""

_MOST_FOR_PRICES = 0.3
_FOR_FIRST_SCHEDULE = 0.4
"""Most of the time that is left which the prices, and the first schedule, may take."""


@dataclass
class SolverOptions:
    """Arguments of a solve, sorted.

    Parameters
    ----------
    name
        Name of the solver.
    arguments
        What ``n.optimize`` and linopy take themselves.
    options
        What the solver takes. PyPSA reads it when the model is complete, so that a time limit may be shortened by what
        went before.
    search_limit
        Seconds for the search for whole numbers alone, `None` without; see `optimize`.
    started
        Time of the clock `time.perf_counter` when the call began.
    """

    name: str
    arguments: dict[str, Any]
    options: dict[str, Any]
    search_limit: float | None = None
    started: float = field(default_factory=time.perf_counter)
    relaxation_seconds: float = math.inf
    words: str = ""
    """What is being done, for the line that shows a solve going on."""

    def __post_init__(self) -> None:
        limit = self.options.get("time_limit") if self.is_highs else None
        self.limit = math.inf if limit is None else float(limit)

    @classmethod
    def of(cls, given: Mapping[str, Any], search_limit: float | None = None) -> SolverOptions:
        """Sort the keyword arguments of `optimize`.

        Raises
        ------
        InputError
            A solver that is not there, an option that HiGHS does not know and would pass over, no time in a
            limit of time, two limits of time, a limit of the search for another solver.
        """
        defaults = pypsa.options.params.optimize
        name = given.get("solver_name") or defaults.solver_name
        own = given.get("solver_options")
        options = dict(defaults.solver_options if own is None else own)
        arguments = {key: value for key, value in given.items() if key not in ("solver_name", "solver_options")}
        faults = Faults("n.aidc.optimize")
        faults.require(name in solvers(), "solver_name", name, f"one of {solvers()}")
        if name == "highs":
            options |= {key: arguments.pop(key) for key in arguments.keys() - arguments_of_optimize()}
            for option in sorted(options.keys() - arguments_of_optimize()):
                there = is_highs_option(option)
                faults.require(there, option, options[option], "an argument of n.optimize or an option of HiGHS")
            limit = options.get("time_limit")
            if limit is not None and limit != math.inf:
                faults.number("time_limit", limit, above=0)
        if search_limit is not None:
            faults.number("search_limit", search_limit, above=0)
            faults.require(name == "highs", "search_limit", search_limit, "nothing with other solvers than HiGHS")
            faults.require(options.get("time_limit") is None, "search_limit", search_limit, "nothing beside time_limit")
        faults.raise_any()
        return cls(str(name), arguments, options, search_limit)

    @property
    def is_highs(self) -> bool:
        """Whether HiGHS solves, the only solver whose time we can bound and that takes a first schedule."""
        return self.name == "highs"

    @property
    def bears_quadratic_and_integers(self) -> bool:
        """Whether the solver can do quadratic costs and whole numbers at once."""
        return self.name in MIXED_INTEGER_QUADRATIC

    @property
    def left(self) -> float:
        """Seconds of the time limit that are left, at least a tenth; infinite without a limit."""
        return max(self.limit - (time.perf_counter() - self.started), _LEAST_SECONDS)

    @property
    def for_first_schedule(self) -> float:
        """Seconds that the first schedule may take."""
        return _FOR_FIRST_SCHEDULE * self.left

    @property
    def for_parts(self) -> float:
        """Seconds that the search of all parts of a model may take, infinite without a limit."""
        return self.left * (1 - 2 * _FOR_PRICES) if self.search_limit is None else self.search_limit

    def limit_search(self, *, prices: bool, whole_numbers: bool = True) -> float | None:
        """Give the search for whole numbers the time that is left, but for what the prices will take; return it."""
        if self.search_limit is not None and whole_numbers:
            self.options["time_limit"] = self.search_limit
            return self.search_limit
        if not math.isfinite(self.limit):
            return None
        known = math.isfinite(self.relaxation_seconds)
        wanted = 2 * self.relaxation_seconds if known else _FOR_PRICES * self.limit
        left = self.left
        kept = min(max(wanted, _FOR_PRICES * self.limit), _MOST_FOR_PRICES * left) if prices else 0.0
        self.options["time_limit"] = max(left - kept, _LEAST_SECONDS)
        return float(self.options["time_limit"])

    def fit_size(self, edges: int) -> None:
        """Let HiGHS begin its search of a large model with the interior point method, unless told otherwise."""
        option = "mip_lp_solver"
        if self.is_highs and edges >= LARGE and is_highs_option(option):
            self.options.setdefault(option, "ipm")

    def go_on_to_the_first(self) -> bool:
        """Let the next search end at its first solution, whenever that is; whether the last had a limit of its own."""
        if self.search_limit is None:
            return False
        self.search_limit = None
        del self.options["time_limit"]
        self.options |= _AT_THE_FIRST_SOLUTION
        return True

    @property
    def for_prices(self) -> dict[str, Any]:
        """Options of the LP with fixed paths: the same as those of the search, and the time that is left."""
        options = {key: value for key, value in self.options.items() if key not in _OF_THE_SEARCH}
        if self.search_limit is not None:
            options.pop("time_limit", None)
        if math.isfinite(self.limit):
            options["time_limit"] = self.left
        return options if self.is_highs else {**options, **_apart(self.arguments)}


def _apart(arguments: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in arguments.items() if key not in arguments_of_optimize()}
