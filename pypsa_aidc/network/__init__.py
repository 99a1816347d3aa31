"""AIDCs in PyPSA networks: added, solved, priced, audited. The only package that knows PyPSA and linopy."""

from pypsa_aidc.network.accessor import Accessor, register
from pypsa_aidc.network.addition import add, update
from pypsa_aidc.network.audit import AuditReport, audit
from pypsa_aidc.network.checks import check_network
from pypsa_aidc.network.comparison import compare
from pypsa_aidc.network.costs import operating as operating_costs
from pypsa_aidc.network.derived import refresh
from pypsa_aidc.network.exchange import export, load
from pypsa_aidc.network.findings import Finding, Findings, check
from pypsa_aidc.network.fleet_addition import add_fleet
from pypsa_aidc.network.fleet_model import add_fleet_constraints
from pypsa_aidc.network.fleet_spec import Fleet, fleets
from pypsa_aidc.network.fleet_terms import FleetTerms
from pypsa_aidc.network.frozen import freeze, is_frozen, thaw
from pypsa_aidc.network.hook import compose, extra_functionality, hook
from pypsa_aidc.network.indicators import indicators
from pypsa_aidc.network.infeasible import explain
from pypsa_aidc.network.matpower import from_matpower
from pypsa_aidc.network.prices import price as prices
from pypsa_aidc.network.recording import record
from pypsa_aidc.network.result import Result, clear_results
from pypsa_aidc.network.scenarios import SCENARIOS, describe, scenario_network, uses_storage
from pypsa_aidc.network.site import Site, list_sites, remove, sites
from pypsa_aidc.network.solve import optimize
from pypsa_aidc.network.values import values

register()

__all__ = [
    "SCENARIOS",
    "Accessor",
    "AuditReport",
    "Finding",
    "Findings",
    "Fleet",
    "FleetTerms",
    "Result",
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
    "prices",
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
