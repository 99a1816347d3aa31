"""Results of a network with AIDCs as frames: schedules, progress, GPUs, calls, power and money."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, TypeVar, cast

import numpy as np
import pandas as pd
import pypsa

from pypsa_aidc.network.loads.decisions import keep
from pypsa_aidc.network.loads.fleet.fleet import Fleet
from pypsa_aidc.network.loads.fleet.limits import limit_table
from pypsa_aidc.network.loads.fleet.operation import call_table, operations, size_table
from pypsa_aidc.network.loads.protocol import Load
from pypsa_aidc.network.loads.registry import fleets, list_loads, loads, sites, solved
from pypsa_aidc.network.loads.site import schedule
from pypsa_aidc.network.loads.site.site import Site
from pypsa_aidc.network.pypsa_api import columns
from pypsa_aidc.network.results import costs
from pypsa_aidc.network.results.balance import system_balance
from pypsa_aidc.network.results.scenarios import (
    EXPECTED,
    in_scenarios,
    one_below_the_other,
    probabilities,
    side_by_side,
    with_expectation,
)
from pypsa_aidc.network.solve.result import stored_result

if TYPE_CHECKING:
    from pypsa_aidc.plots.network import NetworkPlots

L = TypeVar("L", bound=Load)

_DUST = 1e-9
"""Power in MW below which a solver means zero."""


class Results:
    """What the AIDCs of a network did, read from the network each time, so that nothing goes stale.

    Every frame has units in ``frame.attrs["units"]``. In a network with scenarios, frames are labelled by scenario, and
    numbers have the ``"expected"`` value beside them. All methods raise
    `NotSolvedError` where nothing has been solved, and `StaleError` where the network has been solved again without
    its AIDC jobs.

    Parameters
    ----------
    n
        Network; as ``n.aidc`` it also has the verbs of `AIDC`.
    """

    def __init__(self, n: pypsa.Network) -> None:
        self._n = n

    def __repr__(self) -> str:
        jobs = sum(len(site.loads) for site in self.sites.values())
        more = f", {len(self.fleets)} fleets" if self.fleets else ""
        return f"AIDCs of the network: {', '.join(loads(self._n)) or 'none'} ({jobs} jobs{more})"

    def _repr_html_(self) -> str:
        """Return what a notebook shows: the jobs and fleets, what they did once solved, and the figure."""
        from pypsa_aidc.markup import Table, card

        def tables() -> Iterator[Table]:
            yield Table("Jobs and fleets", self.jobs, {"p_nom": "MW", "hours": "h", "deadline": "h"})
            if len(self.jobs):
                yield Table("Results", self.summary())

        return card(self, tables, self.plot, more="in .jobs or .summary()")

    @property
    def sites(self) -> dict[str, Site]:
        """The sites by name."""
        return sites(self._n)

    @property
    def fleets(self) -> dict[str, Fleet]:
        """The fleets by name."""
        return fleets(self._n)

    @property
    def jobs(self) -> pd.DataFrame:
        """All jobs, and fleets, with their site, GPUs and modes."""
        return list_loads(self._n)

    @property
    def status(self) -> dict[str, object]:
        """Status, objective, bound, gap and origin of the prices of the last `n.aidc.optimize`; empty without one."""
        return stored_result(self._n)

    def schedule(self) -> pd.DataFrame:
        """What each job runs when.

        Returns
        -------
        pandas.DataFrame
            One row a training edge: `site`, `job`, `start` and `last` (its first and its last snapshot: of hours from
            00:00 to 10:00, it runs until 11:00), `hours`, `pipeline`, `tensor`, `data`, `mode` (its label), `gpus`,
            `it_power` (MW), `energy` (MWh IT), `segments`, `restart` (whether it follows a wait, also one at the very
            beginning, and so pays `restart_hours` and `restart_energy` of the rules) and `boundary_idle` (GPU-hours in
            the last slot that no work was left for). With scenarios, `scenario` stands in front: ``"all"`` where a step
            is the same in all of them.
        """
        if self._n.has_scenarios:
            return one_below_the_other(self._frames(Results.schedule))
        return schedule.step_table(self._n, self._solved(Site))

    def modes(self) -> pd.DataFrame:
        """Mode of each job in each snapshot as text ``p·q·d``, empty while it waits; columns (site, job).

        With scenarios, columns (scenario, site, job).
        """
        if self._n.has_scenarios:
            return side_by_side(self._frames(Results.modes), 1, None)
        return schedule.mode_labels(self._n, self._solved(Site))

    def gpus(self) -> pd.DataFrame:
        """GPUs in use by each job in each snapshot; columns (site, job), with scenarios (scenario, site, job)."""
        if self._n.has_scenarios:
            return self._labelled(Results.gpus, axis=1)
        return schedule.job_series(self._n, self._solved(Site), schedule.GPUS)

    def progress(self) -> pd.DataFrame:
        """Share of the tranche each job has done by the end of each snapshot, Eq. 31 of [1]; columns (site, job).

        With scenarios, columns (scenario, site, job).
        """
        if self._n.has_scenarios:
            return self._labelled(Results.progress, axis=1)
        return schedule.work_done(self._n, self._solved(Site))

    def calls(self) -> pd.DataFrame:
        """What each fleet shed when; without calls by duration, every stretch of relief counts as one.

        Returns
        -------
        pandas.DataFrame
            One row a call: `fleet`, `start` and `last` (its first and its last snapshot), `duration` (h), `depth` (MW
            that were called, or the most of the stretch), `power` (MW, the most that was shed), `energy` (MWh shed),
            `lost` (MWh of work to be done again), `rebound` (MWh drawn again before the next call). With scenarios,
            `scenario` stands in front: ``"all"`` where a call is the same in all of them.

        Raises
        ------
        StaleError
            The relief breaks the terms of a fleet: the network was solved again without them.
        """
        if self._n.has_scenarios:
            return one_below_the_other(self._frames(Results.calls))
        return call_table(operations(self._n, self._solved(Fleet)))

    def fleet_sizes(self) -> pd.DataFrame:
        """One row a fleet: `bus`, `p_nom` (MW), `calls`, `hours` with relief, `energy` shed and `rebound` (MWh).

        With scenarios, index (scenario, fleet).

        Raises
        ------
        StaleError
            As for `calls`.
        """
        if self._n.has_scenarios:
            return self._labelled(Results.fleet_sizes, axis=0)
        return size_table(self._n, self._solved(Fleet))

    def fleet_limits(self) -> pd.DataFrame:
        """What holds each fleet back: size, depth and pauses of calls, windows, budgets, speed of the rebound.

        Returns
        -------
        pandas.DataFrame
            One row a limit: `fleet`, `limit`, `used` and `allowed` in `unit`, and `reached`, how often it binds: calls,
            pauses, windows or snapshots at the limit; for a budget 1 where no further call fits into it. Durations that
            were not called are left out; of windows, those of the lengths that bind, else the fullest one. With
            scenarios, `scenario` stands in front: ``"all"`` where a limit is used alike in all of them.

        Raises
        ------
        StaleError
            As for `calls`.
        """
        if self._n.has_scenarios:
            return one_below_the_other(self._frames(Results.fleet_limits))
        return limit_table(self._n, self._solved(Fleet))

    def power(self) -> pd.DataFrame:
        """Power of each site and fleet in each snapshot, MW; columns (site, part).

        Parts of a site: ``"base"`` and each job at IT level, ``"idle"`` where GPUs without a job draw apart, ``"IT"``
        their sum, and ``"meter"``, what the grid delivers (Eq. 29 of [1]). Parts of a fleet, all at the meter:
        ``"load"``, ``"relief"``, ``"rebound"`` and ``"meter"``, the first less the second plus the third. With
        scenarios, columns (scenario, site, part).
        """
        if self._n.has_scenarios:
            return self._labelled(Results.power, axis=1)
        chosen = solved(self._n)
        parts = {
            (name, part): series
            for name, load in loads(self._n).items()
            for part, series in load.power(self._n).items()
        }
        frame = pd.DataFrame(parts).loc[chosen]
        # What a solver leaves below its tolerance would be printed as -0.000000.
        frame = frame.where(frame.abs() >= _DUST, 0.0)
        frame.columns.names = ["site", "part"]
        frame.attrs["units"] = "MW"
        return frame

    def balance(self) -> pd.DataFrame:
        """What feeds the network and what it feeds in each snapshot, MW by source; see `balance.system_balance`.

        With scenarios, columns (scenario, source).
        """
        if self._n.has_scenarios:
            return self._labelled(Results.balance, axis=1)
        power = self.power()
        own = [part for load in loads(self._n).values() for parts in load.parts.values() for part in parts]
        return system_balance(self._n, power.index, own, self._meter(power))

    def costs(self) -> pd.DataFrame:
        """Costs of the network by component and carrier, curtailment stated as a cost; see `operating_costs`.

        With scenarios, expected values, and beside them the cost in each. With a risk preference, the row ``"Risk"`` is
        what the conditional value at risk of the operating costs is above their expectation, times omega, so that the
        total stays that of the objective; both are in ``attrs["risk"]``.

        Raises
        ------
        NotSolvedError
            The network has no dispatch.
        """
        if self._n.has_scenarios:
            frames = self._frames(Results.costs)
            frame = with_expectation(frames, probabilities(self._n), "cost")
            return costs.with_risk(frame, *self._risk(frames))
        return costs.operating_costs(self._n)

    def bill(self) -> pd.DataFrame:
        """What each site and fleet pays at the marginal prices of the bus of its meter, by part; see `costs.bill`.

        With scenarios, expected values, and beside them the payment in each.
        """
        if self._n.has_scenarios:
            frames = self._frames(Results.bill)
            frame = with_expectation(frames, probabilities(self._n), "payment")
            frame["price"] = frame["payment"] / frame["energy"].where(frame["energy"] != 0)
            return frame
        return costs.bill(self._n, self.power())

    def summary(self) -> pd.DataFrame:
        """One row a site or fleet: energy at the meter (MWh), peak and least power (MW); of sites, GPUs and waiting.

        Returns
        -------
        pandas.DataFrame
            `energy`, `training_energy` (IT), `peak`, `least`, `peak_gpus`, `gpu_hours`, `waiting_hours` (of all
            jobs, before they are done), `boundary_idle` (GPU-hours), `modes_used`; NaN for fleets from
            `training_energy` on, but for `peak` and `least`. With scenarios, index (scenario, site).
        """
        if self._n.has_scenarios:
            return self._labelled(Results.summary, axis=0)
        power = self.power()
        hours = self._n.snapshot_weightings["stores"].loc[power.index]
        table: dict[str, dict[str, float]] = {}
        for name, load in loads(self._n).items():
            meter = power[name, "meter"]
            table[name] = {
                "energy": float((meter * hours).sum()),
                "training_energy": np.nan,
                "peak": float(meter.max()),
                "least": float(meter.min()),
                **load.summary(self._n, power),
            }
        frame = pd.DataFrame.from_dict(table, orient="index").rename_axis("site")
        hours_of = {"waiting_hours": "h", "gpu_hours": "GPU-h", "boundary_idle": "GPU-h"}
        frame.attrs["units"] = {"energy": "MWh", "training_energy": "MWh IT", "peak": "MW", "least": "MW"} | hours_of
        return frame

    def grid_prices(self) -> pd.DataFrame:
        """Price at the grid bus of each AIDC in each snapshot, USD/MWh; with scenarios, columns (scenario, site)."""
        if self._n.has_scenarios:
            return self._labelled(Results.grid_prices, axis=1)
        buses = self.jobs["bus"].groupby(level="site", sort=False).first().astype(str)
        price = columns(self._n.c.buses.dynamic["marginal_price"], sorted(set(buses))).loc[self.power().index]
        return pd.DataFrame({name: price[bus] for name, bus in buses.items()}).rename_axis(columns="site")

    def expected(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Expectation in a frame of this object that is labelled by scenario; any other frame as it is."""
        if not self._n.has_scenarios:
            return frame
        return pd.DataFrame(frame.xs(EXPECTED, level="scenario", axis=1 if "scenario" in frame.columns.names else 0))

    def _risk(self, frames: Mapping[str, pd.DataFrame]) -> tuple[Mapping[str, float], dict[str, tuple[float, float]]]:
        """Risk preference, as solved with or set; probability and operating cost in the objective of each scenario."""
        risk = cast("Mapping[str, float]", self._n.risk_preference or self.status.get("risk") or {})
        if not risk:
            return {}, {}
        weights, networks = probabilities(self._n), in_scenarios(self._n)
        return risk, {
            name: (weights[name], costs.operating_objective(frame, networks[name])) for name, frame in frames.items()
        }

    def _frames(self, frame: Callable[[Results], pd.DataFrame]) -> dict[str, pd.DataFrame]:
        return {name: frame(Results(one)) for name, one in in_scenarios(self._n).items()}

    def _labelled(self, frame: Callable[[Results], pd.DataFrame], axis: int) -> pd.DataFrame:
        return side_by_side(self._frames(frame), axis, probabilities(self._n))

    @property
    def plot(self) -> NetworkPlots:
        """Draw: ``n.aidc.plot()`` for power, GPUs and progress over time, ``n.aidc.plot.gantt()`` and so on."""
        from pypsa_aidc.plots.network import NetworkPlots

        return NetworkPlots(self, self._n)

    def _solved(self, kind: type[L]) -> dict[str, L]:
        """Loads of a kind by name; refused where their decisions are not those of the results."""
        keep(self._n)
        solved(self._n, kind)
        return kind.read(self._n)

    @staticmethod
    def _meter(power: pd.DataFrame) -> pd.Series:
        """Power of all sites at their meters, MW."""
        return pd.DataFrame(power.xs("meter", axis=1, level="part")).sum(axis=1)
