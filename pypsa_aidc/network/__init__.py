"""AIDCs in PyPSA networks: added, solved, priced, audited. The only package that knows PyPSA and linopy."""

from pypsa_aidc.network.checks.after import AuditReport, audit
from pypsa_aidc.network.checks.before import check_network
from pypsa_aidc.network.checks.explain import explain
from pypsa_aidc.network.checks.findings import Findings, check
from pypsa_aidc.network.files.cases import from_matpower
from pypsa_aidc.network.files.exchange import export, load
from pypsa_aidc.network.files.freeze import freeze, is_frozen, thaw
from pypsa_aidc.network.loads.decisions import record
from pypsa_aidc.network.loads.fleet.add import add_fleet
from pypsa_aidc.network.loads.fleet.fleet import Fleet
from pypsa_aidc.network.loads.fleet.model import add_fleet_constraints
from pypsa_aidc.network.loads.fleet.terms import FleetTerms
from pypsa_aidc.network.loads.protocol import Finding, Load
from pypsa_aidc.network.loads.registry import KINDS, fleets, list_loads, loads, refresh, remove, sites
from pypsa_aidc.network.loads.site.add import add, update
from pypsa_aidc.network.loads.site.site import Site
from pypsa_aidc.network.model.hook import compose, extra_functionality, hook
from pypsa_aidc.network.results.accessor import Results
from pypsa_aidc.network.results.costs import operating as operating_costs
from pypsa_aidc.network.results.indicators import indicators
from pypsa_aidc.network.solve.optimize import optimize
from pypsa_aidc.network.solve.prices import price
from pypsa_aidc.network.solve.result import Result, clear_results
from pypsa_aidc.network.solve.rolling import RollingResult, optimize_with_rolling_horizon
from pypsa_aidc.network.solve.scenarios import SCENARIOS, describe, scenario_network, uses_storage
from pypsa_aidc.network.whatif import compare, values

__all__ = [
    "KINDS",
    "SCENARIOS",
    "AuditReport",
    "Finding",
    "Findings",
    "Fleet",
    "FleetTerms",
    "Load",
    "Result",
    "Results",
    "RollingResult",
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
    "list_loads",
    "load",
    "loads",
    "operating_costs",
    "optimize",
    "optimize_with_rolling_horizon",
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
