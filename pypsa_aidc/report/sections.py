"""Sections of a report on a solved network: summary, balance, jobs, GPUs, fleets, prices, audit."""

from __future__ import annotations

import pandas as pd

from pypsa_aidc.markup import Table, shown, usd
from pypsa_aidc.network import AuditReport, Fleet, Network, Results
from pypsa_aidc.network.pypsa_api import rows
from pypsa_aidc.network.results.costs import TOTAL, rewards
from pypsa_aidc.network.results.scenarios import in_scenarios, probabilities
from pypsa_aidc.report.document import Fact, Picture, Section

MOST_DRAWN = 6
"""Sites, and fleets, that get figures of their own; with more, only an overview is shown."""

NO_PRICES = "none"
"""Origin of prices where there are none, as `Result.prices` says it."""

_USES = ["AIDC", "other load"]
_FORMS = {
    "firm": "no relief",
    "path": "relief along a series",
    "windows": "mean relief over every window",
    "calls": "calls by duration",
}


def facts(n: Network, audit: AuditReport) -> tuple[Fact, ...]:
    """The numbers that a reader looks for first."""
    accessor = Results(n)
    found = []
    if accessor.sites:
        jobs = sum(len(site.loads) for site in accessor.sites.values())
        found += [Fact("sites", str(len(accessor.sites))), Fact("jobs", str(jobs))]
    if accessor.fleets:
        found.append(Fact("fleets", str(len(accessor.fleets))))
    found.append(Fact("operating cost", usd(float(accessor.costs()["cost"].sum())), "USD"))
    if _has_prices(accessor):
        found.append(Fact("bill", usd(_paid(accessor)), "USD"))
    summary = _summary(n)
    meters = pd.DataFrame(accessor.expected(accessor.power()).xs("meter", axis=1, level="part")).sum(axis=1)
    found += [
        Fact("energy at the meters", shown(float(summary["energy"].sum())), "MWh"),
        Fact("peak of all meters", shown(float(meters.max())), "MW"),
    ]
    if accessor.sites:
        found.append(Fact("GPU-hours", shown(float(summary["gpu_hours"].sum())), "GPU-h"))
    if accessor.fleets:
        calls = accessor.calls()
        found += [Fact("calls", str(len(calls))), Fact("relief", shown(float(calls["energy"].sum())), "MWh")]
    found.append(Fact("audit", f"{int(audit.frame['passed'].sum())} of {len(audit.frame)}", "passed"))
    return tuple(found)


def summary(n: Network) -> Section:
    """How the solve ended, and what each site did."""
    accessor = Results(n)
    tables, text = [], []
    if accessor.sites:
        tables.append(Table("Sites", _summary(n).loc[list(accessor.sites)]))
        text.append(
            "Energy, peak and least power are those at the meter; waiting hours are summed over the jobs of a site, "
            "before they are done; boundary idle is what is left of the last slot of a training edge."
        )
    costs = accessor.costs()
    total = pd.DataFrame([{"component": "all", "carrier": "", **costs.drop(columns="energy").sum()}])
    every = pd.concat([costs.reset_index(), total], ignore_index=True)
    tables.append(Table("Operating costs", _without_dust(every), costs.attrs["units"]))
    tables.append(Table("What it pays", _payers(n, accessor, float(costs["cost"].sum())), {"value": "USD"}))
    return Section("Summary", tuple(text), (), tuple(tables))


def _payers(n: Network, accessor: Results, cost: float) -> pd.DataFrame:
    """From the objective of the solver to the operating cost of the network, and beside it the bill of the AIDCs."""
    status, rows = accessor.status, []
    if "objective" in status:
        objective, constant = float(str(status["objective"])), _expected_rewards(n)
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
    if _has_prices(accessor):
        told = "what its AIDCs pay for their energy at the price of their bus; above the cost where prices are marginal"
        rows.append(("bill of the AIDCs", _paid(accessor), told))
    return pd.DataFrame(rows, columns=["what", "value", "meaning"])


def _expected_rewards(n: Network) -> float:
    if not n.has_scenarios:
        return rewards(n)
    weights = probabilities(n)
    return sum(weights[name] * rewards(one) for name, one in in_scenarios(n).items())


def balance(n: Network) -> Section:
    """What fed the network, and what it fed."""
    accessor = Results(n)
    frame = accessor.expected(accessor.balance())
    energy = frame.mul(n.snapshot_weightings["stores"].loc[frame.index], axis=0).sum().round(9) + 0.0
    curtailed = energy["curtailment"]
    sources = energy.drop([*_USES, "curtailment"])
    main = str(sources.drop("storage").idxmax())
    alt = (
        f"Power by source over time. The AIDCs draw {shown(energy['AIDC'])} MWh; the largest source is {main} with "
        f"{shown(sources[main])} MWh; {shown(curtailed)} MWh are curtailed."
    )
    text = (
        "Storage counts positive when it feeds the network, over the whole time less what it took. "
        + (f"{shown(curtailed)} MWh that were available are curtailed." if curtailed else "Nothing is curtailed."),
    )
    both = (("Energy by source", "source", sources), ("Energy by use", "use", energy[_USES]))
    tables = [
        Table(title, each.rename("energy").rename_axis(axis).to_frame(), {"energy": "MWh"})
        for title, axis, each in both
    ]
    series = Table("Balance by snapshot", frame, long=True)
    return Section("Balance", text, (Picture("Power by source", alt, accessor.plot.balance()),), (*tables, series))


def jobs(n: Network) -> Section:
    """What each job may do, and what it runs when."""
    accessor = Results(n)
    steps, own = accessor.schedule(), accessor.jobs.loc[[name for name, site in accessor.sites.items() if site.loads]]
    named = steps.drop(columns=["pipeline", "tensor", "data"])
    restarts = int(steps["restart"].sum())
    alt = (
        f"Gantt chart of {len(own)} jobs: {len(steps)} training edges, each ending at a checkpoint, in "
        f"{len(steps.groupby(['site', 'job', 'mode']))} modes, with {restarts} restarts after waiting."
    )
    text = (
        "A bar is a training edge: the job stays in one mode, pipeline·tensor·data, until its next checkpoint. Between "
        "bars a job waits at a checkpoint and holds no GPUs.",
    )
    units = {"p_nom": "MW", "fastest run": "h", "deadline": "h"}
    tables = (
        Table("Jobs", own.rename(columns={"hours": "fastest run"}), units),
        Table("Schedule", named, {"energy": "MWh IT"}),
        Table("Modes by snapshot", accessor.modes(), long=True),
    )
    return Section("Jobs", text, (Picture("Jobs, modes and checkpoints", alt, accessor.plot.gantt()),), tables)


def execution(n: Network) -> Section:
    """GPUs, progress and composition of the load, site by site."""
    accessor = Results(n)
    found, pictures, text = accessor.sites, [], []
    power, gpus, progress = accessor.expected(accessor.power())[list(found)], accessor.gpus(), accessor.progress()
    if len(found) > 1:
        alt = f"Power at the meter, GPUs and progress of {len(found)} sites over time."
        pictures.append(Picture("All sites", alt, accessor.plot()))
    if len(found) > MOST_DRAWN:
        text.append(f"{len(found)} sites: none is drawn alone; all are in the workbook.")
        found = {}
    for site in (site for site in found.values() if site.loads):
        meter, used = power[site.name, "meter"], pd.DataFrame(accessor.expected(gpus)[site.name]).sum(axis=1)
        done = accessor.expected(progress)[site.name].iloc[-1]
        ended = ", ".join(f"{job} {100 * value:.0f} %" for job, value in done.items())
        alt = f"Power of {site.name} at the meter by part over time, {shown(meter.min())} to {shown(meter.max())} MW."
        title = f"{site.name}: what the load consists of"
        pictures.append(Picture(title, alt, accessor.plot.composition(site.name)))
        alt = (
            f"GPUs in use of {site.name} over time, at most {used.max():,.0f} of {site.spec.gpus:,}; progress at the "
            f"end: {ended}."
        )
        pictures.append(Picture(f"{site.name}: GPUs and progress", alt, accessor.plot.execution(site.name)))
    tables = (
        Table("Power by snapshot", power, dict.fromkeys(map(str, power.columns), "MW"), long=True),
        Table("GPUs by snapshot", gpus, dict.fromkeys(map(str, gpus.columns), "GPUs"), long=True),
        Table("Progress by snapshot", 100 * progress, dict.fromkeys(map(str, progress.columns), "%"), long=True),
    )
    return Section("GPUs and progress", tuple(text), tuple(pictures), tables)


def fleets(n: Network) -> Section:
    """Terms, power, calls and limits of all fleets."""
    accessor = Results(n)
    found, power, calls = accessor.fleets, accessor.expected(accessor.power()), accessor.calls()
    limits, sizes = accessor.fleet_limits(), accessor.expected(accessor.fleet_sizes())
    renamed = sizes.rename(columns={"energy": "relief", "hours": "hours_of_relief"})
    served = _summary(n).loc[list(found), ["energy", "peak", "least"]]
    both = renamed.join(served.rename(columns={"energy": "served"}))
    units = {"p_nom": "MW", "served": "MWh", "peak": "MW", "least": "MW", "relief": "MWh", "rebound": "MWh"}
    terms = pd.DataFrame([_terms(n, fleet) for fleet in found.values()]).set_index("fleet")
    tables = [
        Table("Fleets", both, units | {"hours_of_relief": "h"}),
        Table("Terms of fleets", terms, {"checkpoint": "h", "hours": "h"}),
    ]
    L = sizes["p_nom"].to_dict()
    depths = [row for name, fleet in found.items() for row in _depths(fleet, L[name])]
    if depths:
        units = {"duration": "h", "depth": "MW", "share_of_size": "%", "pause": "h"}
        tables.append(Table("Relief by duration", pd.DataFrame(depths).set_index("fleet"), units))
    if len(limits):
        tables.append(Table("Limits of fleets", limits.assign(binds=limits["reached"] > 0).set_index("fleet")))
    if len(calls):
        tables.append(Table("Calls", calls.set_index("fleet")))
    own = power[list(found)]
    tables.append(Table("Fleet power by snapshot", own, dict.fromkeys(map(str, own.columns), "MW"), long=True))
    absent = []
    pictures: tuple[Picture, ...] = ()
    if len(found) <= MOST_DRAWN:
        pictures = tuple(_calls(accessor, fleet, power[fleet, "meter"], calls) for fleet in found)
    else:
        absent.append(f"{len(found)} fleets: none is drawn; all are in the workbook.")
    text = (
        _bound(limits, calls, found),
        "The meter of a fleet is its load less relief plus rebound. Without calls by duration, each stretch of relief "
        "counts as a call. A limit binds where it is reached at least once; a budget, where no further call fits in.",
    )
    return Section("Fleets", text, pictures, tuple(tables), tuple(absent))


def _terms(n: Network, fleet: Fleet) -> dict[str, object]:
    terms, row = fleet.terms, n.generators.loc[rows(n.generators.index, fleet.name)].iloc[0]
    bounds = f"free, {shown(float(row['p_nom_min']))} to {shown(float(row['p_nom_max']))} MW"
    return {
        "fleet": fleet.name,
        "size": bounds if row["p_nom_extendable"] else "given",
        "relief": _FORMS[terms.form] + (", in blocks" if terms.block else ""),
        "hours": "any" if terms.hours is None else terms.hours,
        "events": "any" if terms.events is None else terms.events,
        "per": terms.per if terms.has_budget else "–",
        "rebound": terms.rebound,
        "checkpoint": terms.checkpoint,
        "source": (fleet.source or "not stated") + (" (synthetic)" if fleet.synthetic else ""),
    }


def _depths(fleet: Fleet, size: float) -> list[dict[str, object]]:
    terms = fleet.terms
    pauses = terms.recovery or (float("nan"),) * len(terms.durations)
    return [
        {"fleet": fleet.name, "duration": hours, "depth": depth * size, "share_of_size": 100 * depth, "pause": pause}
        for hours, depth, pause in zip(terms.durations, terms.depths, pauses, strict=True)
    ]


def _bound(limits: pd.DataFrame, calls: pd.DataFrame, found: dict[str, Fleet]) -> str:
    """What binds, in a sentence a fleet."""
    words = []
    for fleet, each in found.items():
        binding = limits[(limits["fleet"] == fleet) & (limits["reached"] > 0)]["limit"].to_list()
        if binding:
            words.append(f"{fleet} is held back by {', '.join(map(str, binding))}.")
        elif each.terms.form == "firm":
            words.append(f"{fleet} has no relief.")
        elif not (calls["fleet"] == fleet).any():
            words.append(f"{fleet} sheds nothing: at its cost there was no use for its relief.")
        else:
            words.append(f"No limit of {fleet} binds.")
    return " ".join(words)


def _calls(accessor: Results, fleet: str, meter: pd.Series, calls: pd.DataFrame) -> Picture:
    own = calls[calls["fleet"] == fleet]
    verb = "call sheds" if len(own) == 1 else "calls shed"
    shed = f"{len(own)} {verb} {shown(float(own['energy'].sum()))} MWh" if len(own) else "nothing is shed"
    alt = (
        f"Power of {fleet} at the meter over time, {shown(float(meter.min()))} to {shown(float(meter.max()))} MW, with "
        f"its calls marked: {shed}."
    )
    return Picture(f"{fleet}: power, relief and calls", alt, accessor.plot.calls(fleet))


def prices(n: Network, values: pd.DataFrame | None) -> Section:
    """Prices at the AIDCs, what each of their parts pays, and what flexibility is worth."""
    accessor = Results(n)
    pictures, tables, text, absent = [], [], [], []
    if not _has_prices(accessor):
        absent.append("There are no prices to show, and so no payments: see the notice at the top.")
    else:
        price, every = accessor.expected(accessor.grid_prices()), accessor.grid_prices()
        spread = ", ".join(f"{site} {shown(price[site].min())} to {shown(price[site].max())}" for site in price)
        whose = " and ".join(word for word, there in (("site", accessor.sites), ("fleet", accessor.fleets)) if there)
        title = f"Prices at the grid bus of each {whose}"
        pictures.append(Picture(title, f"{title} over time, USD/MWh: {spread}.", accessor.plot.prices()))
        tables.append(Table("Bill", _without_dust(accessor.bill())))
        tables.append(Table("Prices by snapshot", every, dict.fromkeys(map(str, every.columns), "USD/MWh"), long=True))
        text.append(
            "A price says what one more MWh would cost while every job keeps its schedule. Parts of a site are at IT "
            "level, before the PUE, and pay the price of its grid bus times the PUE. The value of timing is what the "
            "energy would cost at the mean price, less what it does cost; below 0, it is drawn in dear hours."
        )
    if values is None and accessor.sites:
        absent.append("Values of GPUs, connection and waiting need further solves; they were not asked for.")
    if values is not None:
        from pypsa_aidc.plots.money import plot_values

        known = ", ".join(f"{shown(key)} {shown(value)} USD" for key, value in values["value"].items())
        alt = f"Value of flexibility by site: {known}."
        pictures.append(Picture("Value of flexibility", alt, plot_values(values)))
        tables.append(Table("Value of flexibility", values, {"value": "USD", "uncertainty": "USD"}))
        text.append(
            "Values of flexibility come from solving again with one step more, or without waiting; discrete decisions "
            "have no marginal value. The uncertainty is the sum of the gaps of both solves."
        )
    return Section("Prices and value of flexibility", tuple(text), tuple(pictures), tuple(tables), tuple(absent))


def audit(report: AuditReport) -> Section:
    """Every constraint, checked again from the decoded schedule."""
    frame = report.to_frame()
    worst = report.by_check()
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


def _summary(n: Network) -> pd.DataFrame:
    """One row a site or fleet; with scenarios, what is expected over them."""
    accessor = Results(n)
    return accessor.expected(accessor.summary())


def _has_prices(accessor: Results) -> bool:
    return str(accessor.status.get("prices", NO_PRICES)) != NO_PRICES


def _paid(accessor: Results) -> float:
    """What all AIDCs pay together, USD: their totals, which hold the parts already."""
    return float(accessor.bill().xs(TOTAL, level="part")["payment"].sum())


def _without_dust(frame: pd.DataFrame) -> pd.DataFrame:
    """Round off what a solver leaves in the last digits, so that 2e-17 MWh reads 0."""
    numbers = frame.select_dtypes("float")
    return frame.assign(**{str(column): numbers[column].round(9) + 0.0 for column in numbers})
