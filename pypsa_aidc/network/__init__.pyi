from .checks.after import AuditReport, audit
from .checks.before import check_network
from .checks.explain import explain
from .checks.findings import Finding, Findings, check
from .files.cases import from_matpower
from .files.exchange import export, load
from .files.freeze import freeze, is_frozen, thaw
from .loads.addition import add, update
from .loads.derived import refresh
from .loads.fleet_addition import add_fleet
from .loads.fleet_spec import Fleet, fleets
from .loads.fleet_terms import FleetTerms
from .loads.site import Site, list_sites, remove, sites
from .model.fleet_model import add_fleet_constraints
from .model.hook import compose, extra_functionality, hook
from .results.accessor import Results
from .results.costs import operating_costs
from .results.indicators import indicators
from .results.recording import record
from .solve.optimize import optimize
from .solve.prices import price
from .solve.result import Result, clear_results
from .solve.scenarios import SCENARIOS, describe, scenario_network, uses_storage
from .whatif.comparison import compare
from .whatif.values import values

__all__ = [
    "SCENARIOS",
    "AuditReport",
    "Finding",
    "Findings",
    "Fleet",
    "FleetTerms",
    "Result",
    "Results",
    "Site",
    "add",
    "add_fleet",
    "add_fleet_constraints",
    "audit",
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
    "from_matpower",
    "hook",
    "indicators",
    "is_frozen",
    "list_sites",
    "load",
    "operating_costs",
    "optimize",
    "price",
    "record",
    "refresh",
    "remove",
    "scenario_network",
    "sites",
    "thaw",
    "update",
    "uses_storage",
    "values",
]
