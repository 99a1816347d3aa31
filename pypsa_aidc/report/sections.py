"""Sections of a report on a solved network: summary, balance, jobs, GPUs, prices, audit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pandas as pd

from pypsa_aidc.network import AuditReport, Site
from pypsa_aidc.network.pypsa_api import columns
from pypsa_aidc.network.results.accessor import Results
from pypsa_aidc.network.results.costs import TOTAL, objective_weight, rewards
from pypsa_aidc.network.results.scenarios import EXPECTED
from pypsa_aidc.plots import sites as plot
from pypsa_aidc.plots import solve as solve_plots
from pypsa_aidc.report import fleet_sections
from pypsa_aidc.report.document import Fact, Picture, Section, Table, shown

if TYPE_CHECKING:
    import pypsa

MOST_SITES = 6
"""Sites that get figures of their own; with more, only the overview of all is drawn."""

MOST_SOURCES = 6
"""Largest sources, each drawn apart; the others are drawn together, since colours run out before carriers do."""

NO_PRICES = "none"
"""Origin of prices where there are none, as `Result.prices` says it."""

_OTHERS, _NO_SOURCES = "other sources", ["storage", "curtailment", "AIDC", "other load"]
_FREE_COLOURS = (plot.BLUE, plot.ORANGE, plot.PURPLE, plot.SKY, plot.RED, plot.YELLOW)


def facts(n: pypsa.Network, audit: AuditReport) -> tuple[Fact, ...]:
    """The numbers that a reader looks for first."""
    accessor = Results(n)
    found, status = [], accessor.status
    if accessor.sites:
        jobs = sum(len(site.loads) for site in accessor.sites.values())
        found += [Fact("sites", str(len(accessor.sites))), Fact("jobs", str(jobs))]
    if accessor.fleets:
        found.append(Fact("fleets", str(len(accessor.fleets))))
    if not n.has_scenarios:
        found.append(Fact("operating cost", shown(float(accessor.costs()["cost"].sum())), "USD"))
        if str(status.get("prices", NO_PRICES)) != NO_PRICES:
            found.append(Fact("bill", shown(_paid(accessor)), "USD"))
    elif "objective" in status:
        found.append(Fact("objective", shown(status["objective"]), "USD"))
    meter = pd.DataFrame(accessor.expected_power().xs("meter", axis=1, level="part")).sum(axis=1)
    hours = n.snapshot_weightings["stores"].loc[meter.index]
    energy = float(meter.to_numpy(float) @ hours.to_numpy(float))
    found += [
        Fact("energy at the meters", shown(energy), "MWh"),
        Fact("peak of all meters", shown(float(meter.max())), "MW"),
    ]
    if accessor.sites:
        own = accessor.summary()["gpu_hours"]
        # Schedules are the same in all scenarios.
        own = own.xs(EXPECTED, level="scenario") if n.has_scenarios else own
        found.append(Fact("GPU-hours", shown(float(own.sum())), "GPU-h"))
    if accessor.fleets:
        calls = accessor.calls()
        found += [Fact("calls", str(len(calls))), Fact("relief", shown(float(calls["energy"].sum())), "MWh")]
    found.append(Fact("audit", f"{int(audit.frame['passed'].sum())} of {len(audit.frame)}", "checks passed"))
    return tuple(found)


def summary(n: pypsa.Network) -> Section:
    """How the solve ended, and what each site did."""
    accessor = Results(n)
    units = {
        "energy": "MWh",
        "training_energy": "MWh IT",
        "peak": "MW",
        "least": "MW",
        "gpu_hours": "GPU-h",
        "waiting_hours": "h",
        "boundary_idle": "GPU-h",
    }
    tables, text = [], []
    if accessor.sites:
        tables.append(Table("Sites", accessor.summary(), units))
        text.append(
            "Energy, peak and least power are those at the meter; waiting hours are summed over the jobs of a site, "
            "before they are done; boundary idle is what is left of the last slot of a training edge."
        )
    if not n.has_scenarios:
        costs = accessor.costs().reset_index()
        total = pd.DataFrame([{"component": "all", "carrier": "", "cost": costs["cost"].sum()}])
        every = pd.concat([costs, total], ignore_index=True)
        tables.append(Table("Operating costs", _without_dust(every), {"energy": "MWh", "cost": "USD"}))
        tables.append(Table("What it pays", _payers(n, accessor, float(costs["cost"].sum())), {"value": "USD"}))
    return Section("Summary", tuple(text), (), tuple(tables))


def _payers(n: pypsa.Network, accessor: Results, cost: float) -> pd.DataFrame:
    """From the objective of the solver to the operating cost of the network, and beside it the bill of the AIDCs."""
    status, rows = accessor.status, []
    if "objective" in status:
        objective, constant = float(str(status["objective"])), rewards(n)
        gap = (
            f"what the solver minimised, to a gap of {100 * float(str(status['gap'])):.3g} %; feed-in counts as revenue"
        )
        rows.append(("objective of the solver", objective, gap))
        if constant:
            told = "a constant: all feed-in that is available at its reward, so that what is curtailed is a cost"
            rows.append(("+ reward of all available feed-in", constant, told))
        others = objective + constant - cost
        if abs(others) > max(1e-3, 1e-6 * abs(cost)):
            rows.append(("- other terms of the objective", -others, "investment, start-ups, mode changes and the like"))
    rows.append(("operating cost of the network", cost, "what running the whole network costs, whoever pays"))
    if str(status.get("prices", NO_PRICES)) != NO_PRICES:
        told = "what its AIDCs pay for their energy at the price of their bus; above the cost where prices are marginal"
        rows.append(("bill of the AIDCs", _paid(accessor), told))
    return pd.DataFrame(rows, columns=["what", "value", "meaning"])


def balance(n: pypsa.Network) -> Section:
    """What fed the network, and what it fed."""
    if n.has_scenarios:
        return Section("Balance", absent=("The network has scenarios: there is no single balance to show.",))
    frame = Results(n).balance()
    hours = n.snapshot_weightings["stores"].loc[frame.index]
    energy = frame.mul(hours, axis=0).sum().rename("energy").rename_axis("source").to_frame()
    main = energy["energy"].drop(_NO_SOURCES).idxmax()
    alt = (
        f"Power by source over time. The AIDCs draw {shown(energy.at['AIDC', 'energy'])} MWh; the largest source is "
        f"{main} with {shown(energy.at[main, 'energy'])} MWh; {shown(energy.at['curtailment', 'energy'])} MWh are "
        "curtailed."
    )
    drawn = _fewer_sources(frame, energy["energy"])
    picture = Picture("Power by source", alt, plot.balance({"": drawn}, _colours(n, drawn)))
    text = ("Storage counts positive when it feeds the network.",)
    tables = (
        Table("Energy by source", _without_dust(energy), {"energy": "MWh"}),
        Table("Balance by snapshot", frame, dict.fromkeys(map(str, frame.columns), "MW"), long=True),
    )
    return Section("Balance", text, (picture,), tables)


def jobs(n: pypsa.Network) -> Section:
    """What each job may do, and what it runs when."""
    accessor = Results(n)
    steps, own = accessor.schedule(), accessor.jobs.loc[list(accessor.sites)]
    units = {"p_nom": "MW", "hours": "h", "deadline": "h", "it_power": "MW", "energy": "MWh IT"}
    restarts = int(steps["restart"].sum())
    alt = (
        f"Gantt chart of {len(own)} jobs: {len(steps)} training edges, each ending at a checkpoint, in "
        f"{len(steps.groupby(['site', 'job', 'mode']))} modes, with {restarts} restarts after "
        "waiting."
    )
    text = (
        "A bar is a training edge: the job stays in one mode, pipeline·tensor·data, until its next checkpoint. Between "
        "bars a job waits at a checkpoint and holds no GPUs.",
    )
    picture = Picture("Jobs, modes and checkpoints", alt, plot.gantt(steps, accessor.gpus().index))
    tables = (
        Table("Jobs", own, units),
        Table("Schedule", steps, units | {"boundary_idle": "GPU-h"}),
        Table("Modes by snapshot", accessor.modes(), long=True),
    )
    return Section("Jobs", text, (picture,), tables)


def execution(n: pypsa.Network) -> Section:
    """GPUs, progress and composition of the load, site by site."""
    accessor = Results(n)
    found, pictures, text = accessor.sites, [], []
    power, gpus, progress = accessor.expected_power()[list(found)], accessor.gpus(), accessor.progress()
    if len(found) > 1:
        alt = f"Power at the meter, GPUs and progress of {len(found)} sites over time."
        pictures.append(Picture("All sites", alt, plot.sites(power, gpus, progress)))
    if len(found) <= MOST_SITES:
        for site in found.values():
            pictures += _site_pictures(site, power, gpus, progress)
    else:
        text.append(f"{len(found)} sites: none is drawn alone; all are in the workbook.")
    tables = (
        Table("Power by snapshot", power, dict.fromkeys(map(str, power.columns), "MW"), long=True),
        Table("GPUs by snapshot", gpus, dict.fromkeys(map(str, gpus.columns), "GPUs"), long=True),
        Table("Progress by snapshot", 100 * progress, dict.fromkeys(map(str, progress.columns), "%"), long=True),
    )
    return Section("GPUs and progress", tuple(text), tuple(pictures), tables)


def prices(n: pypsa.Network, values: pd.DataFrame | None) -> Section:
    """Prices at the sites, what each job pays, and what flexibility is worth."""
    accessor = Results(n)
    origin, pictures = str(accessor.status.get("prices", NO_PRICES)), []
    tables, text, absent = [], [], []
    if origin == NO_PRICES or n.has_scenarios:
        absent.append("There are no prices to show, and so no payments: see the notice at the top.")
    else:
        price = _grid_prices(n, accessor)
        meter = pd.DataFrame(accessor.expected_power().xs("meter", axis=1, level="part"))
        spread = ", ".join(f"{site} {shown(price[site].min())} to {shown(price[site].max())}" for site in price)
        whose = " and ".join(word for word, there in (("site", accessor.sites), ("fleet", accessor.fleets)) if there)
        alt = f"Price and power at the meter of each {whose} over time; prices in USD/MWh: {spread}."
        figure = solve_plots.prices(price, meter, f"prices from the {origin}")
        pictures.append(Picture(f"Prices at the grid bus of each {whose}", alt, figure))
        units = {"energy": "MWh IT", "payment": "USD", "paid": "USD/MWh", "mean_price": "USD/MWh", "timing": "USD"}
        if accessor.sites:
            tables.append(Table("Payments", _payments(n, accessor), units))
        if accessor.fleets:
            paid = fleet_sections.payments(n, accessor, price)
            tables.append(Table("Payments of fleets", _without_dust(paid), units | {"energy": "MWh"}))
        tables.append(Table("Prices by snapshot", price, dict.fromkeys(map(str, price.columns), "USD/MWh"), long=True))
        text.append(
            "A price says what one more MWh would cost while every job keeps its schedule. The value of timing is what "
            "the energy of a part would cost at the mean price, less what it does cost; below 0, the part draws in "
            "dear hours. Prices behind a site's import are those of its grid bus times the PUE."
        )
    if values is None and accessor.sites:
        absent.append("Values of GPUs, connection and waiting need further solves; they were not asked for.")
    if values is not None:
        known = ", ".join(f"{shown(key)} {shown(value)} USD" for key, value in values["value"].items())
        alt = f"Value of flexibility by site: {known}."
        pictures.append(Picture("Value of flexibility", alt, solve_plots.flexibility(values)))
        tables.append(Table("Value of flexibility", values, {"value": "USD", "uncertainty": "USD"}))
        text.append(
            "Values of flexibility come from solving again with one step more, or without waiting; discrete decisions "
            "have no marginal value. The uncertainty is the sum of the gaps of both solves."
        )
    return Section("Prices and value of flexibility", tuple(text), tuple(pictures), tuple(tables), tuple(absent))


def audit(report: AuditReport) -> Section:
    """Every constraint, checked again from the decoded schedule."""
    frame = report.to_frame()
    worst = frame.groupby("check", sort=False).agg(
        checked=("where", "size"), worst=("violation", "max"), unit=("unit", "first"), passed=("passed", "all")
    )
    failed = int((~frame["passed"]).sum())
    alt = f"Worst violation of each of {len(worst)} kinds of checks; {failed} of {len(frame)} checks failed."
    tables = [Table("Audit", worst)]
    at_rest = "integrality" not in set(frame["check"])
    if failed:
        tables.append(Table("Violations", report.violations))
    text = (
        "Checked from the decoded schedule and the results in the network, not from the solver's model: a wrong model "
        "and loose tolerances would both show."
        + (" Integrality is not among them: only the model of the solve has it, where it was checked." * at_rest),
    )
    return Section("Audit", text, (Picture("Audit", alt, report.plot()),), tuple(tables))


def _site_pictures(site: Site, power: pd.DataFrame, gpus: pd.DataFrame, progress: pd.DataFrame) -> Sequence[Picture]:
    name, pool = site.name, site.spec.gpus
    parts, used, done = (pd.DataFrame(frame[name]) for frame in (power, gpus, progress))
    ended = ", ".join(f"{job} {100 * value:.0f} %" for job, value in done.iloc[-1].items())
    return [
        Picture(
            f"{name}: what the load consists of",
            f"Power of {name} at the meter by part over time, {shown(parts['meter'].min())} to "
            f"{shown(parts['meter'].max())} MW.",
            plot.composition(parts, name),
        ),
        Picture(
            f"{name}: GPUs and progress",
            f"GPUs in use of {name} over time, at most {used.sum(axis=1).max():,.0f} of {pool:,}; progress at the end: "
            f"{ended}.",
            plot.execution(used, done, pool, name),
        ),
    ]


def _fewer_sources(frame: pd.DataFrame, energy: pd.Series) -> pd.DataFrame:
    """Keep the largest sources that feed at all, and add up the others."""
    sources = energy.drop(_NO_SOURCES).sort_values(ascending=False, kind="stable")
    kept = list(sources.index[:MOST_SOURCES][sources.to_numpy()[:MOST_SOURCES] > 0])
    rest = frame[sources.index.difference(kept)].sum(axis=1)
    fewer = frame[[name for name in frame if name in kept]]
    fewer = fewer.assign(**{_OTHERS: rest}) if rest.abs().max() > 0 else fewer
    return fewer.join(frame[_NO_SOURCES])


def _colours(n: pypsa.Network, frame: pd.DataFrame) -> dict[str, str]:
    """Colours of carriers where they have one, and of Okabe and Ito where not; storage keeps its green."""
    given = n.carriers["color"].fillna("")
    free = iter(_FREE_COLOURS)
    colours = {}
    for source in map(str, frame.columns.drop(_NO_SOURCES)):
        colour = given.get(source, "")
        colours[source] = plot.GREY if source == _OTHERS else colour or next(free)
    return colours


def _grid_prices(n: pypsa.Network, accessor: Results) -> pd.DataFrame:
    """Price at the grid bus of each site and fleet, USD/MWh."""
    buses = {site.name: str(n.links.at[site.link, "bus0"]) for site in accessor.sites.values()}
    buses |= {fleet: str(n.generators.at[fleet, "bus"]) for fleet in accessor.fleets}
    chosen = accessor.expected_power().index
    price = columns(n.c.buses.dynamic["marginal_price"], sorted(set(buses.values()))).loc[chosen]
    return pd.DataFrame({site: price[bus] for site, bus in buses.items()}).rename_axis(columns="site")


def _paid(accessor: Results) -> float:
    """What all AIDCs pay together, USD: their totals, which hold the parts already."""
    return float(accessor.bill().xs(TOTAL, level="part")["payment"].sum())


def _payments(n: pypsa.Network, accessor: Results) -> pd.DataFrame:
    """Bill by part, with the price it paid, the mean price at its bus, and what its timing is worth."""
    chosen = accessor.expected_power().index
    bill = accessor.bill()[["energy", "payment"]].drop(TOTAL, level="part").loc[list(accessor.sites)]
    weight = objective_weight(n, chosen)
    mean = {}
    for name, site in accessor.sites.items():
        account = site.accounts(n)["base"]
        price = columns(n.c.buses.dynamic["marginal_price"], [account.bus])[account.bus] * account.metered
        mean[name] = float((price.loc[chosen] * weight).sum() / weight.sum())
    bill["paid"] = bill["payment"] / bill["energy"].where(bill["energy"] > 0)
    bill["mean_price"] = bill.index.get_level_values("site").map(mean)
    bill["timing"] = bill["mean_price"] * bill["energy"] - bill["payment"]
    return _without_dust(bill)


def _without_dust(frame: pd.DataFrame) -> pd.DataFrame:
    """Round off what a solver leaves in the last digits, so that 2e-17 MWh reads 0."""
    numbers = frame.select_dtypes("float")
    return frame.assign(**{str(column): numbers[column].round(9) + 0.0 for column in numbers})
