"""Draw every plot of the package from small seeded inputs, for docs/pages/gallery.md.

Run ``python docs/gallery.py`` from the root of the project; it takes less than a minute, and the same call draws the
same pictures but for the seconds of a solve. ``python docs/gallery.py --page`` also writes the page. Fleets are
synthetic, and their figures say so.
"""

from __future__ import annotations

import argparse
import importlib.util
import shutil
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from io import BytesIO
from pathlib import Path
from types import ModuleType

import numpy as np
import pandas as pd
import pypsa
from matplotlib.figure import Figure
from PIL import Image

import pypsa_aidc as aidc
from pypsa_aidc import fleet
from pypsa_aidc.headroom import (
    Budget,
    Offsets,
    Request,
    ServiceStudy,
    Upgrade,
    network_demand,
    profiles,
    screen_region,
)
from pypsa_aidc.network import scenario_network
from pypsa_aidc.plots import aggregation, dependable, envelope, money, power_model, screen
from pypsa_aidc.plots.bus_map import plot_sizes
from pypsa_aidc.plots.service import plot_allocation

ROOT = Path(__file__).resolve().parents[1]
PAGES = ROOT / "docs" / "pages"
IMAGES = PAGES / "gallery"
DPI = 200
"""1280 pixels for a figure's width."""
SOLVE = {"output_flag": False, "mip_rel_gap": 1e-4, "time_limit": 20}


@dataclass(frozen=True)
class Drawing:
    """A figure of the gallery.

    Parameters
    ----------
    subject
        Heading it stands under.
    name
        Name of the file.
    call
        How a user draws it.
    alt
        What it shows, for those who cannot see it.
    draw
        Draws it.
    """

    subject: str
    name: str
    call: str
    alt: str
    draw: Callable[[], Figure]


def drawings() -> Iterator[Drawing]:
    """All figures, in the order of the page."""
    jobs = "Training jobs on a network"
    yield Drawing(
        jobs,
        "overview",
        "n.aidc.plot()",
        "Three panels over a day: power at the meter of two sites, GPUs in use by each of three jobs, and their "
        "progress, which rises while they run and rests while they wait.",
        lambda: pair().aidc.plot(),
    )
    yield Drawing(
        jobs,
        "gantt",
        "n.aidc.plot.gantt()",
        "One row a job: bars as high as their GPUs, named by their mode, each ending at a checkpoint, with triangles "
        "where a job restarts after waiting.",
        lambda: pair().aidc.plot.gantt(),
    )
    yield Drawing(
        jobs,
        "composition",
        'n.aidc.plot.composition("AIDC")',
        "Power of the green campus at the meter over a day, stacked: base load and two training jobs.",
        lambda: campus().aidc.plot.composition("AIDC"),
    )
    yield Drawing(
        jobs,
        "execution",
        'n.aidc.plot.execution("AIDC")',
        "GPUs in use on the green campus by job, below the pool of 2,048, and the progress of both jobs to 100 %.",
        lambda: campus().aidc.plot.execution("AIDC"),
    )
    yield Drawing(
        jobs,
        "balance",
        "n.aidc.plot.balance()",
        "Wind, solar and import of the green campus, stacked over a day, with curtailment hatched above and the load "
        "of the campus as a line.",
        lambda: campus().aidc.plot.balance(),
    )
    yield Drawing(
        jobs,
        "balance_small",
        "n.aidc.plot.balance()",
        "Sources of a larger network over a day; its AIDCs are so small beside the other load that they have a panel "
        "of their own.",
        lambda: pair().aidc.plot.balance(),
    )
    yield Drawing(
        jobs,
        "prices",
        "n.aidc.plot.prices()",
        "Price at the grid bus of each site over a day, above the power that the site draws.",
        lambda: pair().aidc.plot.prices(),
    )
    yield Drawing(
        jobs,
        "values",
        "plot_values(n.aidc.values())",
        "Bars with error bars: what eight more GPUs, a larger connection and permission to wait are worth in USD.",
        lambda: money.plot_values(values()),
    )
    yield Drawing(
        jobs,
        "modes",
        "job.modes(...).plot()",
        "Two panels of the 135 feasible modes of a job: throughput over power, with the twelve effective modes on the "
        "frontier and memory as size, and memory over GPUs.",
        lambda: modes().plot(),
    )
    yield Drawing(
        jobs,
        "result",
        "n.aidc.optimize().plot()",
        "Bars: objective and bound, binaries before and after pruning, seconds to build and to solve.",
        lambda: solved_pair()[1].plot(),
    )
    yield Drawing(
        jobs,
        "audit",
        "n.aidc.audit().plot()",
        "Worst violation of each kind of check on a logarithmic axis; an exact zero has no bar.",
        lambda: pair().aidc.audit().plot(),
    )
    yield Drawing(
        jobs,
        "calls",
        'n.aidc.plot.calls("cluster")',
        "Power of a fleet with and without relief, its calls shaded with their hours, and relief and rebound below.",
        lambda: with_fleet().aidc.plot.calls("cluster"),
    )
    maps = "Maps"
    yield Drawing(
        maps,
        "map",
        "n.aidc.plot.map()",
        "Map of a small network: buses, lines and two AIDCs as squares, with the MW of their connection.",
        lambda: pair().aidc.plot.map(),
    )
    yield Drawing(
        maps,
        "headroom",
        'n.aidc.headroom(contingencies="all").plot()',
        "Map of nine buses coloured by headroom and named with their MW, limiting lines thick, buses without headroom "
        "crossed.",
        lambda: ring().aidc.headroom(contingencies="all").plot(),
    )
    service = "Service for a batch of requests"
    yield Drawing(
        service,
        "allocation",
        "plot_allocation(n.aidc.study(requests))",
        "Bars of firm megawatts of two requests in two years, with the conditional ones on top and the hours of cuts.",
        lambda: plot_allocation(batch()),
    )
    yield Drawing(
        service,
        "sizes",
        "plot_sizes(n.aidc.study(requests))",
        "Map of three buses: a large disc of firm megawatts at one, a small one in a circle of conditional megawatts "
        "at another, and the line that limits it in brown.",
        lambda: plot_sizes(batch()),
    )
    yield Drawing(
        service,
        "replay",
        'n.aidc.study(requests).plot("east", 2030)',
        "Mean cut of a request over hours and months, most on summer afternoons, and the duration of its cuts.",
        lambda: batch().plot("east", 2030),
    )
    region = "Headroom of a region"
    yield Drawing(
        region,
        "screen",
        "screen.plot()",
        "Headroom of MISO South over the margin of the cap, one line a profile with its band, and how much more than "
        "the first profile each allows.",
        lambda: region_screen().plot(),
    )
    yield Drawing(
        region,
        "screen_ratios",
        "screen.plot_ratios()",
        "Top of the load-duration curve of MISO South, and headroom ratios over margins and budgets.",
        lambda: screen.plot_ratios(region_screen()),
    )
    yield Drawing(
        region,
        "load_duration",
        "demand.plot()",
        "The 400 highest hours of demand of MISO South, falling.",
        lambda: region_screen().demand.plot(),
    )
    power = "Dependable power of a fleet"
    yield Drawing(
        power,
        "surface",
        "Surface.of(envelope).plot()",
        "Dependable power K over duration, one line for each reliability, falling with both.",
        lambda: surface().plot(),
    )
    yield Drawing(
        power,
        "contract",
        "Contract.of(envelope).plot()",
        "A call of four hours of relief below zero, the rebound above zero, and the next call.",
        lambda: fleet.Contract.of(load()).plot(),
    )
    yield Drawing(
        power,
        "term_sheet",
        'TermSheet.of(Contract.of(envelope), "site", peak=54.3).plot()',
        "Bars of the megawatts of a term sheet: ramp by year, conditional, firm and floor, and two sources of relief.",
        lambda: term_sheet().plot(),
    )
    yield Drawing(
        power,
        "bootstrap",
        "fleet.bootstrap(envelope).plot()",
        "Median of K over duration with its band from P5 to P95, for each reliability.",
        lambda: fleet.bootstrap(load(), replicates=20, seed=0).plot(),
    )
    yield Drawing(
        power,
        "counterfactuals",
        "plot_counterfactuals(fleet.counterfactuals(envelope), portfolios)",
        "K over duration against four representations that a planner might use, and firmness over portfolio size.",
        lambda: dependable.plot_counterfactuals(
            fleet.counterfactuals(load(), replicates=2),
            portfolios(),
            fleet.independent_curve(portfolios(), load())["firmness"],
        ),
    )
    yield Drawing(
        power,
        "portfolios",
        "fleet.portfolios(envelope).plot()",
        "Firmness over the number of clusters in a portfolio: mean and range of subsets.",
        lambda: portfolios().plot(),
    )
    yield Drawing(
        power,
        "eras",
        "plot_eras(surface, fleet.compare_eras(envelope))",
        "Firmness by duration and reliability as a table of colours, and four-hour firmness by era as bars.",
        lambda: dependable.plot_eras(surface(), eras()),
    )
    yield Drawing(
        power,
        "realised",
        "plot_realised(surface)",
        "K over the realised fraction q, with the q that an offer of 1 MW and of 1.8 MW needs.",
        lambda: dependable.plot_realised(surface()),
    )
    yield Drawing(
        power,
        "backtest",
        "Backtest.of(envelope).plot()",
        "Coverage of the weeks after each origin by duration, and the derating that the mean coverage needs.",
        lambda: fleet.Backtest.of(load()).plot(),
    )
    yield Drawing(
        power,
        "net_energy",
        "plot_net_energy()",
        "Net over gross curtailed energy of a call over its duration, for four rebounds and three checkpoints.",
        lambda: dependable.plot_net_energy(),
    )
    shape = "Load of a fleet"
    yield Drawing(
        shape,
        "load",
        "fleet.ensemble(statistics, draws).plot()",
        "Facility power over time with the band of power models, and its mean profile by clock hour.",
        lambda: ensemble().plot(),
    )
    yield Drawing(
        shape,
        "load_shape",
        "fleet.load_shape(power).plot()",
        "Mean profile by clock hour between trough and peak, and autocorrelation at three lags.",
        lambda: fleet.load_shape(ensemble().band().sel(quantile=0.5)).plot(),
    )
    yield Drawing(
        shape,
        "layers",
        "envelope.plot()",
        "Workload power by layer over time, correlation of clusters, and shares of the layers by thirty days.",
        lambda: load().plot(),
    )
    yield Drawing(
        shape,
        "boundary",
        "plot_boundary(envelope)",
        "Layers by clock hour, and eligible power on two boundaries as bars.",
        lambda: envelope.plot_boundary(load()),
    )
    yield Drawing(
        shape,
        "components",
        "plot_components(envelope)",
        "Shares of IT energy of allocated GPUs, hosts and unallocated GPUs, and autocorrelation over two weeks.",
        lambda: envelope.plot_components(load()),
    )
    yield Drawing(
        shape,
        "statistics",
        "statistics.plot()",
        "Used GPU-hours a day, stacked by workload.",
        lambda: made().statistics.plot(),
    )
    yield Drawing(
        shape,
        "coverage",
        "execution.plot()",
        "Share of GPU-hours whose delay is known, by day.",
        lambda: made().execution.plot(),
    )
    yield Drawing(
        shape,
        "trace_audit",
        "statistics.audit.plot()",
        "Rows that were read, and those skipped, rejected and noted by reason, on a logarithmic axis.",
        lambda: trace_audit().plot(),
    )
    study = "Aggregation and scheduling"
    yield Drawing(
        study,
        "scaling",
        "fleet.fluctuation_scaling(statistics).plot()",
        "Fluctuation over mean power of units, with the fitted power law.",
        lambda: fleet.fluctuation_scaling(made().statistics, replicates=20).plot(),
    )
    yield Drawing(
        study,
        "attribution",
        "plot_attribution(scalings, attribution)",
        "Fluctuation over mean power, and how much excess variance is left after calendar and capacity are removed.",
        lambda: aggregation.plot_attribution(
            {"clusters": fleet.fluctuation_scaling(made().statistics, replicates=20)}, attribution(), synthetic=True
        ),
    )
    yield Drawing(
        study,
        "ratios",
        "fleet.attribution(statistics).plot()",
        "Synchrony ratio of the fleet before and after calendar and capacity are taken out.",
        lambda: attribution().plot(),
    )
    yield Drawing(
        study,
        "plateaus",
        "plot_plateaus(attribution)",
        "Synchrony ratios within stretches of steady capacity beside the whole window.",
        lambda: aggregation.plot_plateaus(attribution(), synthetic=True),
    )
    yield Drawing(
        study,
        "synchrony",
        "synchrony.plot()",
        "Synchrony ratio of each parent, with the median and the 1 of independent children.",
        lambda: list(fleet.measure_synchrony(made().statistics).values())[-1].plot(),
    )
    yield Drawing(
        study,
        "training_share",
        "fleet.variability_by_training(statistics).plot()",
        "Coefficient of variation of clusters over their share of training, with a quadratic fit.",
        lambda: fleet.variability_by_training(made().statistics, replicates=20).plot(),
    )
    yield Drawing(
        study,
        "displacement",
        "plot_displacement(fleet.displacement(...), delays)",
        "Power that the scheduler displaced over time, its running integral, and the delays behind it.",
        lambda: aggregation.plot_displacement(
            fleet.displacement(*spans(), synthetic=True), fleet.delay_distribution(spans()[0])
        ),
    )
    yield Drawing(
        study,
        "backlog",
        "fleet.backlog(...).plot()",
        "Newly deferrable arrivals by delay against the running shift layer, daily means on a logarithmic axis.",
        lambda: fleet.backlog(*spans(), synthetic=True).plot(),
    )
    model = "Power model against measurements"
    yield Drawing(
        model,
        "anchors",
        "plot_anchors(measured)",
        "Measured shares of the rating by workload beside the range of the model; the points are made up.",
        lambda: power_model.plot_anchors(
            pd.DataFrame(
                {
                    "category": ["idle", "idle", "training", "training", "training", "online_inference"],
                    "share": [0.19, 0.22, 0.7, 0.78, 0.83, 0.55],
                }
            )
        ),
    )
    yield Drawing(
        model,
        "online_curve",
        "plot_online_curve()",
        "Power over utilisation of online inference, with and without its floor.",
        lambda: power_model.plot_online_curve(),
    )
    yield Drawing(
        model,
        "duty_cycle",
        "plot_duty_cycle()",
        "Error of an hourly mean for a duty cycle, and the largest error of any hour, by workload.",
        lambda: power_model.plot_duty_cycle(),
    )
    yield Drawing(
        model,
        "subhour",
        "plot_subhour(fleet.subhour_minima(log))",
        "How far windows from one to thirty minutes fall below the mean of their hour.",
        lambda: power_model.plot_subhour(fleet.subhour_minima(power_log())),
    )


# Inputs.


def _little(name: str, hours: float, segments: int, **rules: object) -> aidc.TrainingLoad:
    """A job with three modes, of so many hours in the slowest."""
    modes = tuple(
        aidc.training.Mode((1, 1, gpus), gpus=gpus, flops_per_s=speed * 1e15, it_power=power)
        for gpus, speed, power in ((128, 1.0, 0.9), (256, 1.8, 1.7), (512, 3.1, 3.2))
    )
    return aidc.TrainingLoad(name, hours * 3.6e18, modes, aidc.Rules(segments=segments, **rules), baseline=modes[0])  # type: ignore[arg-type]


def _grid() -> pypsa.Network:
    """Four buses with places, a day of wind, gas and a town."""
    hours = np.arange(24)
    n = pypsa.Network(snapshots=pd.date_range("2030-07-01", periods=24, freq="h"))
    for carrier, nice, colour in (("AC", "", ""), ("wind", "Onshore wind", "#5aaaf5"), ("gas", "Gas", "")):
        n.add("Carrier", carrier, nice_name=nice, color=colour)
    places = {"north": (9.7, 54.3), "east": (13.4, 52.5), "south": (11.6, 48.2), "west": (7.0, 51.5)}
    for bus, (x, y) in places.items():
        n.add("Bus", bus, carrier="AC", v_nom=380.0, x=x, y=y)
    for pair_, rating in {"north east": 300, "north west": 260, "west south": 200, "east south": 220}.items():
        a, b = pair_.split()
        n.add("Line", f"{a}-{b}", bus0=a, bus1=b, x=12.0, r=0.5, s_nom=rating, carrier="AC")
    wind = 0.5 + 0.35 * np.sin(hours / 24 * 2 * np.pi + 0.5)
    n.add("Generator", "wind", bus="north", carrier="wind", p_nom=420.0, p_max_pu=wind, marginal_cost=0.5)
    price = 60 + 30 * np.cos((hours - 7) / 12 * 2 * np.pi)
    n.add("Generator", "gas", bus="west", carrier="gas", p_nom=400.0, marginal_cost=price)
    n.add("Generator", "peaker", bus="south", carrier="gas", p_nom=200.0, marginal_cost=110.0)
    town = 150 + 60 * np.sin((hours - 8) / 24 * 2 * np.pi)
    n.add("Load", "south town", bus="south", carrier="AC", p_set=town)
    n.add("Load", "west town", bus="west", carrier="AC", p_set=0.8 * town)
    return n


@cache
def solved_pair() -> tuple[pypsa.Network, aidc.network.Result]:
    """A network with two sites, and how its solve ended."""
    n = _grid()
    jobs = [_little("A", 20.0, 8, jump=2, restart_hours=0.1, restart_energy=0.05), _little("B", 9.0, 6, jump=2)]
    n.aidc.add("dc1", bus="south", gpus=640, pue=1.2, base_load=1.0, jobs=jobs)
    n.aidc.add("dc2", bus="east", gpus=512, pue=1.3, base_load=0.5, jobs=[_little("C", 24.0, 12, jump=3, arrival=2.0)])
    return n, n.aidc.optimize(**SOLVE)


def pair() -> pypsa.Network:
    """The network with two sites, solved."""
    return solved_pair()[0]


@cache
def values() -> pd.DataFrame:
    """What flexibility is worth, as ``n.aidc.values()`` may say it; that takes seven solves, so it is made up here."""
    index = pd.MultiIndex.from_product([["dc1", "dc2"], ["gpus", "p_nom", "waiting"]], names=["site", "what"])
    return pd.DataFrame(
        {
            "step": [8, 1, 1] * 2,
            "unit": ["GPUs", "MW", ""] * 2,
            "value": [412.3, 0.0, 1840.5, 96.0, 12.4, np.inf],
            "uncertainty": [60.0, 5.0, 110.0, 20.0, 4.0, 0.0],
        },
        index,
    )


@cache
def with_fleet() -> pypsa.Network:
    """The network with a fleet that is called in its dear hours."""
    n = _grid()
    n.generators.loc["peaker", "p_nom"] = 20.0
    n.generators.loc["gas", "p_nom"] = 120.0
    n.add("Generator", "dear", bus="south", carrier="gas", p_nom=300.0, marginal_cost=900.0)
    depths = {1: 0.2, 2: 0.16, 4: 0.12}
    n.aidc.add_fleet("cluster", bus="south", p_nom=60.0, marginal_cost=80.0, surface=depths, peak=1.0)
    n.aidc.optimize(**SOLVE)
    return n


@cache
def _campus_module() -> ModuleType:
    specification = importlib.util.spec_from_file_location("green_campus", ROOT / "networks" / "green_campus.py")
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    sys.modules["green_campus"] = module
    specification.loader.exec_module(module)
    return module


@cache
def campus() -> pypsa.Network:
    """The green campus of [1] in S6."""
    n = scenario_network(pypsa.Network(ROOT / "networks" / "green_campus.nc"), "S6", ["battery"])
    n.aidc.optimize(exclusive=["battery"], **SOLVE)
    return n


def modes() -> aidc.training.ModeTable:
    """All modes of the first job of the campus."""
    module = _campus_module()
    return module.modes(module.jobs()[0])


@cache
def ring() -> pypsa.Network:
    """Nine buses in a ring with a spoke, some lines weak."""
    rng = np.random.default_rng(3)
    n = pypsa.Network()
    names = [f"bus {number}" for number in range(1, 10)]
    angle = np.linspace(0, 2 * np.pi, 9, endpoint=False)
    n.add("Bus", names, v_nom=230.0, x=10 + 2 * np.cos(angle), y=51 + np.sin(angle))
    for number in range(9):
        other = (number + 1) % 9
        rating = float(rng.uniform(120, 320))
        n.add("Line", f"L{number + 1}", bus0=names[number], bus1=names[other], x=10.0, s_nom=rating)
    n.add("Line", "spoke", bus0=names[0], bus1=names[4], x=10.0, s_nom=180.0)
    n.add("Generator", "plant", bus=names[0], p_nom=2000.0, p_set=120.0)
    n.add("Load", [f"town {number}" for number in (3, 5, 8)], bus=[names[i] for i in (2, 4, 7)], p_set=40.0)
    return n


@cache
def batch() -> ServiceStudy:
    """Two requests behind three lines, for a year of every eighth day; one line is uprated."""
    days = pd.date_range("2030-01-01", "2030-12-31", freq="8D")
    hours = pd.DatetimeIndex([day + pd.Timedelta(hours=hour) for day in days for hour in range(24)])
    n = pypsa.Network(snapshots=hours)
    n.snapshot_weightings *= 8760 / len(hours)
    summer = np.cos(2 * np.pi * (hours.dayofyear - 200) / 365)
    noise = np.random.default_rng(5).normal(0, 12, len(hours))
    load = 300 + 50 * summer + 60 * np.sin(2 * np.pi * (hours.hour - 9) / 24) * (1 + 0.3 * summer) + noise
    n.add("Bus", ["plant", "west", "east"], x=[8.0, 10.0, 11.0], y=[50.0, 51.0, 49.0], v_nom=230.0)
    ends = [("plant", "west"), ("plant", "east"), ("west", "east")]
    n.add("Line", ["1", "2", "3"], bus0=[a for a, _ in ends], bus1=[b for _, b in ends], x=10.0, s_nom=[540, 540, 560])
    n.add("Generator", "units", bus="plant", p_nom=2000.0, p_set=pd.Series(load, hours))
    n.add("Load", "town", bus="east", p_set=pd.Series(load, hours))
    budget = Budget(hours=200, longest=8, depth=0.6)
    built = [Upgrade("1", 2030, 60.0), Upgrade("2", 2030, 60.0)]
    terms = {"nameplate": {2028: 60.0, 2030: 110.0}, "budget": budget}
    requests = [Request(name=bus, bus=bus, **terms) for bus in ("west", "east")]
    return n.aidc.study(requests, years=[2028, 2030], contingencies="all", upgrades=built)


@cache
def made() -> fleet.SyntheticFleet:
    """The synthetic fleet."""
    return fleet.SyntheticFleet.generate()


@cache
def load() -> fleet.Envelope:
    """Its load by layer."""
    return fleet.Envelope.of(made().statistics)


@cache
def surface() -> fleet.Surface:
    """Its dependable power."""
    return fleet.Surface.of(load())


def term_sheet() -> fleet.TermSheet:
    """What is agreed on for a site of 300 MW with such a fleet and a battery."""
    sheet = fleet.TermSheet.of(fleet.Contract.of(load()), "east", peak=float(load().facility.max()), size=300.0)
    battery = fleet.ReliefSource("battery", 30.0, 2.0)
    ramp = (fleet.Megawatts(120.0, 2028), fleet.Megawatts(300.0, 2029))
    return replace(sheet, ramp=ramp, firm=(fleet.Megawatts(280.0),), sources=(*sheet.sources, battery))


@cache
def portfolios() -> fleet.Portfolios:
    """Portfolios of its clusters."""
    return fleet.portfolios(load(), samples=10, seed=0)


@cache
def eras() -> pd.DataFrame:
    """Its firmness by era."""
    return fleet.compare_eras(load())


@cache
def ensemble() -> fleet.Ensemble:
    """Its load under ten power models."""
    return fleet.ensemble(made().statistics, fleet.power_draws(10, 0))


@cache
def attribution() -> fleet.Attribution:
    """What makes its clusters swing together."""
    return fleet.attribution(made().statistics, replicates=20)


@cache
def spans() -> tuple[object, object, tuple[int, int]]:
    """Its executions, their power, and the hours from which they are complete."""
    matched = made().execution.matched
    return matched, fleet.span_power(matched, made().statistics), (2640, 4440)


def trace_audit() -> fleet.Audit:
    """What an audit of a trace may say."""
    found = fleet.Audit("a trace with faults", rows=120_000)
    for outcome, reason, count in (
        ("skipped", "CPU only", 21_300),
        ("rejected", "end before start", 412),
        ("noted", "no priority", 1),
    ):
        getattr(found, outcome)[reason] = count
    return found


@cache
def region_screen() -> aidc.headroom.Screen:
    """MISO South and the fleet."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        demand = network_demand(pypsa.Network(ROOT / "networks" / "miso_south.nc"))
    margins, budgets = (0.0, 0.02, 0.05, 0.1), (0.0025, 0.005, 0.01)
    chosen = {"margin": margins, "budget": budgets, "offsets": Offsets(count=6, seed=0)}
    return screen_region(demand, profiles(load()), period="year", **chosen)


def power_log() -> pd.DataFrame:
    """Half a day of made-up measurements."""
    rng = np.random.default_rng(0)
    seconds = np.arange(0, 12 * 3600, 10)
    return pd.DataFrame(
        {"seconds": seconds, "power": 300 + 60 * np.sin(seconds / 500) + rng.normal(0, 25, len(seconds))}
    )


def page(every: list[Drawing]) -> str:
    """The page in Markdown: a heading a subject, each figure with how to draw it."""
    parts = [
        "# Gallery",
        "Every plot of the package, drawn by `docs/gallery.py` from small inputs. Any figure is a "
        '`matplotlib.figure.Figure`: save it with `figure.savefig("name.svg")`. What says *synthetic fleet* is made of '
        "the synthetic fleet, not of measurements.",
    ]
    subject = ""
    for drawing in every:
        if drawing.subject != subject:
            subject = drawing.subject
            parts.append(f"## {subject}")
        parts += [f"`{drawing.call}`", f"![{drawing.alt}](gallery/{drawing.name}.png){{ loading=lazy }}"]
    return "\n\n".join(parts) + "\n"


def _write(figure: Figure, path: Path) -> None:
    """Write a picture of few colours, which takes a third of the bytes."""
    buffer = BytesIO()
    figure.savefig(buffer, dpi=DPI, metadata={"Software": None})
    Image.open(buffer).convert("RGB").quantize(128).save(path, optimize=True)


def main() -> None:
    """Draw them all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="figures to draw; all by default")
    parser.add_argument("--out", type=Path, default=IMAGES, help="folder for the pictures")
    parser.add_argument("--page", action="store_true", help="write docs/pages/gallery.md too")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    every = list(drawings())
    warnings.simplefilter("ignore")
    for drawing in every:
        if not options.names or drawing.name in options.names:
            _write(drawing.draw(), options.out / f"{drawing.name}.png")
    if not options.names or "composition" in options.names:
        shutil.copyfile(options.out / "composition.png", ROOT / "docs" / "images" / "composition.png")
    if options.page:
        (PAGES / "gallery.md").write_text(page(every), encoding="utf-8")


if __name__ == "__main__":
    main()
