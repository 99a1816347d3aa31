from .checks.after import AuditReport, audit
from .checks.before import check_network
from .checks.explain import explain
from .checks.findings import Findings, check
from .files.cases import from_case
from .files.exchange import export, load
from .files.freeze import freeze, is_frozen, thaw
from .information import mean_network, value_of_information
from .loads.behind import UPS, Battery, Cooling, Genset, add_behind_the_meter
from .loads.decisions import record
from .loads.fleet.add import add_fleet
from .loads.fleet.fleet import Fleet
from .loads.fleet.model import add_fleet_constraints
from .loads.fleet.terms import FleetTerms
from .loads.protocol import Finding, Load
from .loads.registry import KINDS, fleets, list_loads, refresh, remove, sites
from .loads.site.add import add, update
from .loads.site.site import Site
from .model.hook import compose, extra_functionality, hook
from .placement import place
from .pypsa_api import Network
from .results.accessor import Results
from .results.costs import operating_costs
from .results.indicators import indicators
from .solve.optimize import optimize
from .solve.prices import price
from .solve.result import Result, clear_results
from .solve.rolling import RollingResult, optimize_with_rolling_horizon
from .solve.scenarios import SCENARIOS, describe, scenario_network, uses_storage
from .whatif import break_even, compare, values

__all__ = [
    "KINDS",
    "SCENARIOS",
    "UPS",
    "AuditReport",
    "Battery",
    "Cooling",
    "Finding",
    "Findings",
    "Fleet",
    "FleetTerms",
    "Genset",
    "Load",
    "Network",
    "Result",
    "Results",
    "RollingResult",
    "Site",
    "add",
    "add_behind_the_meter",
    "add_fleet",
    "add_fleet_constraints",
    "audit",
    "break_even",
    "check",
    "check_network",
    "clear_results",
    "compare",
    "compose",
    "describe",
    "explain",
    "export",
    "extra_functionality",
    "fleets",
    "freeze",
    "from_case",
    "hook",
    "indicators",
    "is_frozen",
    "list_loads",
    "load",
    "mean_network",
    "operating_costs",
    "optimize",
    "optimize_with_rolling_horizon",
    "place",
    "price",
    "record",
    "refresh",
    "remove",
    "scenario_network",
    "sites",
    "thaw",
    "update",
    "uses_storage",
    "value_of_information",
    "values",
]
