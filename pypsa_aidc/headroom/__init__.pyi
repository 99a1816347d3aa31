from .bus.ac_check import ac_check
from .bus.answers import Answer, BusHeadroom
from .bus.study import bus_headroom
from .bus.training_site import training_headroom
from .capacity.adequacy import Adequacy, adequacy
from .capacity.units import Zones, network_zones
from .region.call_screen import call_depths, screen_calls
from .region.calls_path import CallPlan, CallRules, cover, largest_size
from .region.cleaning import clean
from .region.demand import Demand, DemandWarning
from .region.eia930 import read_demand
from .region.offsets import Offsets
from .region.peak_cap import can_bind
from .region.profile import Profile, profiles
from .region.regional import network_demand, regional_network
from .region.screen import Screen
from .region.screening import screen_region
from .service.answer import ServiceStudy
from .service.contingency import Contingency
from .service.rating import Ratings
from .service.request import Budget, Request
from .service.site_envelope import SiteEnvelope, site_envelope
from .service.study import check_study, service_study
from .service.year import Upgrade

__all__ = [
    "Adequacy",
    "Answer",
    "Budget",
    "BusHeadroom",
    "CallPlan",
    "CallRules",
    "Contingency",
    "Demand",
    "DemandWarning",
    "Offsets",
    "Profile",
    "Ratings",
    "Request",
    "Screen",
    "ServiceStudy",
    "SiteEnvelope",
    "Upgrade",
    "Zones",
    "ac_check",
    "adequacy",
    "bus_headroom",
    "call_depths",
    "can_bind",
    "check_study",
    "clean",
    "cover",
    "largest_size",
    "network_demand",
    "network_zones",
    "profiles",
    "read_demand",
    "regional_network",
    "screen_calls",
    "screen_region",
    "service_study",
    "site_envelope",
    "training_headroom",
]
