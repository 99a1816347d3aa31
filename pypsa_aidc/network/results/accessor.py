"""Results of a network with AIDCs as frames: schedules, progress, GPUs, calls, power and money."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import pypsa

from pypsa_aidc.errors import Faults, NotSolvedError, StaleError
from pypsa_aidc.network.checks.fleet_audit import fleet_checks
from pypsa_aidc.network.index import columns
from pypsa_aidc.network.loads.fleet_spec import Fleet, fleets
from pypsa_aidc.network.loads.site import Site, list_sites, sites
from pypsa_aidc.network.results import costs, schedule
from pypsa_aidc.network.results.balance import system_balance
from pypsa_aidc.network.results.fleet_limits import fleet_limits
from pypsa_aidc.network.results.fleet_results import call_table, operations, solved_snapshots
from pypsa_aidc.network.solve.result import RESULT

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_STALE = 100.0
"""Violations above so many tolerances of the audit come from another solve, not from a solver's rounding."""


_DUST = 1e-9
"""Power in MW below which a solver means zero."""


class Results:
    """What the AIDCs of a network did, read from the network each time, so that nothing goes stale.

    Every frame has units in ``frame.attrs["units"]``. All methods raise `NotSolvedError` where nothing has been
    solved, and `StaleError` where the network has been solved again without its AIDC jobs.

    Parameters
    ----------
    n
        Network; as ``n.aidc`` it also has the verbs of `AIDC`.
    """

    def __init__(self, n: pypsa.Network) -> None:
        self._n = n

    def __repr__(self) -> str:
        found, loads = sites(self._n), fleets(self._n)
        jobs = sum(len(site.loads) for site in found.values())
        more = f", {len(loads)} fleets" if loads else ""
        return f"AIDCs of the network: {', '.join([*found, *loads]) or 'none'} ({jobs} jobs{more})"

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
        return list_sites(self._n)

    def _refuse_none(self) -> None:
        if not (self.sites or self.fleets):
            raise NotSolvedError(
                "no AIDC in this network: add one with n.aidc.add or n.aidc.add_fleet, then n.aidc.optimize()"
            )

    @property
    def status(self) -> dict[str, object]:
        """Status, objective, bound, gap and origin of the prices of the last `n.aidc.optimize`; empty without one."""
        holders = [static[RESULT].fillna("") for static in (self._n.links, self._n.generators) if RESULT in static]
        texts = [text for stored in holders for text in stored if text]
        return dict(json.loads(texts[0])) if texts else {}

    def schedule(self) -> pd.DataFrame:
        """What each job runs when.

        Returns
        -------
        pandas.DataFrame
            One row a training edge: `site`, `job`, `start` and `last` (its first and its last snapshot: of hours from
            00:00 to 10:00, it runs until 11:00), `hours`, `pipeline`, `tensor`, `data`, `mode` (its label), `gpus`,
            `it_power` (MW), `energy` (MWh IT), `segments`, `restart` (whether it follows a wait, also one at the very beginning, and so
            pays `restart_hours` and `restart_energy` of the rules) and `boundary_idle` (GPU-hours in the last slot
            that no work was left for).
        """
        self._refuse_none()
        found, schedules = schedule.read(self._n)
        chosen = schedule.solved_snapshots(self._n)
        table = []
        for site in found.values():
            for generator, load in site.loads.items():
                for window, steps in schedules[generator]:
                    labels = chosen[window.positions]
                    done = load.rules.progress
                    for step in steps:
                        mode = load.modes[step.mode]
                        hours = float(window.slots.ends[step.stop] - window.slots.ends[step.start])
                        power = schedule.step_power((step,), load, window.slots)
                        if load.rules.continuity:
                            share = sum(load.rules.shares[done : done + round(step.segments)])
                            done += round(step.segments)
                            need = load.hours(mode) * share + round(step.segments) * load.rules.checkpoint_hours
                            need += load.rules.restart_hours * step.restart
                        else:
                            need = hours
                        table.append(
                            {
                                "site": site.name,
                                "job": load.name,
                                "start": labels[step.start],
                                "last": labels[step.stop - 1],
                                "hours": hours,
                                **dict(zip(("pipeline", "tensor", "data"), mode.size, strict=False)),
                                "mode": mode.label,
                                "gpus": mode.gpus,
                                "it_power": mode.it_power,
                                "energy": float((power * window.slots.hours).sum()),
                                "segments": step.segments,
                                "restart": step.restart,
                                "boundary_idle": mode.gpus * (hours - need),
                            }
                        )
        frame = pd.DataFrame(table)
        frame.attrs["units"] = {"it_power": "MW", "energy": "MWh", "hours": "h", "boundary_idle": "GPU-h"}
        return frame

    def modes(self) -> pd.DataFrame:
        """Mode of each job in each snapshot as text ``p·q·d``, empty while it waits; columns (site, job)."""
        frame = self._per_job(schedule.MODE)
        for site in self.sites.values():
            for load in site.loads.values():
                labels = {-1.0: "", **{float(k): mode.label for k, mode in enumerate(load.modes)}}
                frame[site.name, load.name] = frame[site.name, load.name].map(labels)
        return frame

    def gpus(self) -> pd.DataFrame:
        """GPUs in use by each job in each snapshot; columns (site, job)."""
        return self._per_job(schedule.GPUS)

    def progress(self) -> pd.DataFrame:
        """Share of the tranche each job has done by the end of each snapshot, Eq. 31 of [1]; columns (site, job)."""
        frame = self._per_job(schedule.PROGRESS)
        for site in self.sites.values():
            for load in site.loads.values():
                cumulative = np.concatenate([[0.0], np.cumsum(load.rules.shares)])
                done = frame[site.name, load.name].to_numpy(float)
                frame[site.name, load.name] = np.interp(done, np.arange(load.rules.count + 1), cumulative)
        return frame

    def calls(self) -> pd.DataFrame:
        """What each fleet shed when; without calls by duration, every stretch of relief counts as one.

        Returns
        -------
        pandas.DataFrame
            One row a call: `fleet`, `start` and `last` (its first and its last snapshot), `duration` (h), `depth` (MW
            that were called, or the most of the stretch), `power` (MW, the most that was shed), `energy` (MWh shed),
            `lost` (MWh of work to be done again), `rebound` (MWh drawn again before the next call).

        Raises
        ------
        StaleError
            The relief breaks the terms of a fleet: the network was solved again without them.
        """
        self._refuse_stale_fleets()
        return call_table(operations(self._n))

    def fleet_sizes(self) -> pd.DataFrame:
        """One row a fleet: `bus`, `p_nom` (MW), `calls`, `hours` with relief, `energy` shed and `rebound` (MWh).

        Raises
        ------
        StaleError
            As for `calls`.
        """
        table, sizes = self.calls(), {each.fleet.name: each.size for each in operations(self._n)}
        grouped = table.groupby("fleet")
        frame = pd.DataFrame({"bus": self._n.generators["bus"].reindex(list(sizes)), "p_nom": pd.Series(sizes)})
        frame["calls"] = grouped.size().reindex(frame.index, fill_value=0)
        for name in ("duration", "energy", "rebound"):
            frame["hours" if name == "duration" else name] = grouped[name].sum().reindex(frame.index, fill_value=0.0)
        frame.attrs = table.attrs | {"units": {"p_nom": "MW", "hours": "h", "energy": "MWh", "rebound": "MWh"}}
        return frame.rename_axis("fleet")

    def fleet_limits(self) -> pd.DataFrame:
        """What holds each fleet back: size, depth and pauses of calls, windows, budgets, speed of the rebound.

        Returns
        -------
        pandas.DataFrame
            One row a limit: `fleet`, `limit`, `used` and `allowed` in `unit`, and `reached`, how often it binds: calls,
            pauses, windows or snapshots at the limit; for a budget 1 where no further call fits into it. Durations that
            were not called are left out; of windows, those of the lengths that bind, else the fullest one.

        Raises
        ------
        StaleError
            As for `calls`.
        """
        self._refuse_stale_fleets()
        return fleet_limits(self._n)

    def power(self) -> pd.DataFrame:
        """Power of each site and fleet in each snapshot, MW; columns (site, part).

        Parts of a site: ``"base"`` and each job at IT level, ``"idle"`` where GPUs without a job draw apart, ``"IT"``
        their sum, and ``"meter"``, what the grid delivers (Eq. 29 of [1]). Parts of a fleet, all at the meter:
        ``"load"``, ``"relief"``, ``"rebound"`` and ``"meter"``, the first less the second plus the third.
        """
        parts, chosen = self._fleet_power()
        self._refuse_none()
        found: dict[str, Site] = {}
        if self.sites or not parts:
            found, _ = schedule.read(self._n)
            chosen = schedule.solved_snapshots(self._n)
        n = self._n
        base = columns(n.get_switchable_as_dense("Load", "p_set"), [site.base for site in found.values()])
        p = n.c.generators.dynamic["p"]
        imported = columns(n.c.links.dynamic["p0"], [site.link for site in found.values()])
        for site in found.values():
            parts[site.name, "base"] = base[site.base]
            for generator, load in site.loads.items():
                parts[site.name, load.name] = columns(p, [generator])[generator]
            if site.spec.idle_w:
                parts[site.name, "idle"] = columns(p, [site.idle])[site.idle]
            own = [parts[key] for key in parts if key[0] == site.name]
            parts[site.name, "IT"] = sum(own[1:], own[0])
            parts[site.name, "meter"] = imported[site.link]
        frame = pd.DataFrame(parts).loc[chosen]
        # What a solver leaves below its tolerance would be printed as -0.000000.
        frame = frame.where(frame.abs() >= _DUST, 0.0)
        frame.columns.names = ["site", "part"]
        frame.attrs["units"] = "MW"
        return frame

    def balance(self) -> pd.DataFrame:
        """What feeds the network and what it feeds in each snapshot, MW by source; see `balance.system_balance`."""
        power = self.power()
        own = [part for site in self.sites.values() for part in (*site.loads, site.idle, site.base)]
        own += [part for fleet in self.fleets.values() for part in fleet.parts]
        return system_balance(self._n, power.index, own, self._meter(power))

    def costs(self) -> pd.DataFrame:
        """Operating costs of the network by carrier, curtailment and storage stated as costs; see `costs.operating`.

        Raises
        ------
        NotSolvedError
            The network has no dispatch.
        """
        return costs.operating(self._n)

    def bill(self) -> pd.DataFrame:
        """What each site and fleet pays at the marginal prices of its bus, by part; see `costs.bill`."""
        return costs.bill(self._n, self.power())

    def summary(self) -> pd.DataFrame:
        """One row a site or fleet: energy at the meter (MWh), peak and least power (MW); of sites, GPUs and waiting.

        Returns
        -------
        pandas.DataFrame
            `energy`, `training_energy` (IT), `peak`, `least`, `peak_gpus`, `gpu_hours`, `waiting_hours` (of all
            jobs, before they are done), `boundary_idle` (GPU-hours), `modes_used`; NaN for fleets from
            `training_energy` on, but for `peak` and `least`.
        """
        power = self.power()
        hours = self._n.snapshot_weightings["stores"].loc[power.index]
        table: dict[str, dict[str, float]] = {}
        for name in (*self.sites, *self.fleets):
            meter = power[name, "meter"]
            table[name] = {
                "energy": float((meter * hours).sum()),
                "training_energy": np.nan,
                "peak": float(meter.max()),
                "least": float(meter.min()),
            }
        if self.sites:
            self._add_execution(table, power, hours)
        frame = pd.DataFrame.from_dict(table, orient="index").rename_axis("site")
        frame.attrs["units"] = {"energy": "MWh", "training_energy": "MWh IT", "peak": "MW", "least": "MW"}
        return frame

    def _add_execution(self, table: dict[str, dict[str, float]], power: pd.DataFrame, hours: pd.Series) -> None:
        """Add to the rows of sites what their jobs did."""
        gpus, steps, progress = self.gpus(), self.schedule(), self.progress()
        for site in self.sites.values():
            used, own = gpus[site.name], steps[steps["site"] == site.name]
            unfinished = progress[site.name].shift(fill_value=0.0) < 1 - 1e-9
            waiting = ((used == 0) & unfinished).mul(hours, axis=0).to_numpy().sum()
            jobs = [load.name for load in site.loads.values()]
            table[site.name] |= {
                "training_energy": float(power[site.name][jobs].mul(hours, axis=0).to_numpy().sum()),
                "peak_gpus": int(used.to_numpy().sum(axis=1).max()),
                "gpu_hours": float(used.mul(hours, axis=0).to_numpy().sum()),
                "waiting_hours": float(waiting),
                "boundary_idle": float(own["boundary_idle"].sum()),
                "modes_used": len(own.groupby(["job", "mode"])),
            }

    def plot(self) -> Figure:
        """Draw power, GPUs and progress of all sites over time (Figs. 10 and 11 of [1])."""
        from pypsa_aidc.plots import sites as plot

        return plot.sites(self.power(), self.gpus(), self.progress())

    def _fleet_power(self) -> tuple[dict[tuple[str, str], pd.Series], pd.Index]:
        """Power of the parts of all fleets, and the snapshots they are known for."""
        parts: dict[tuple[str, str], pd.Series] = {}
        if not self.fleets:
            return parts, self._n.snapshots
        self._refuse_stale_fleets()
        chosen, p = solved_snapshots(self._n), self._n.c.generators.dynamic["p"]
        for fleet in self.fleets.values():
            load, relief, rebound = (
                p[part].loc[chosen] if part in fleet.parts else pd.Series(0.0, chosen)
                for part in (fleet.name, fleet.relief, fleet.rebound)
            )
            series = {"load": load, "relief": relief, "rebound": rebound, "meter": load - relief + rebound}
            parts |= {(fleet.name, part): values for part, values in series.items()}
        return parts, chosen

    def _refuse_stale_fleets(self) -> None:
        faults = Faults("fleets of the network")
        for check, where, violation, unit, tolerance in fleet_checks(self._n):
            faults.require(
                violation <= _STALE * tolerance,
                f"fleet {where}, {check}",
                f"off by {violation:.6g} {unit}",
                "what the terms of the fleet allow",
                "The network was solved again without them: solve with n.aidc.optimize().",
            )
        faults.raise_any(StaleError)

    @staticmethod
    def _meter(power: pd.DataFrame) -> pd.Series:
        """Power of all sites at their meters, MW."""
        return pd.DataFrame(power.xs("meter", axis=1, level="part")).sum(axis=1)

    def _per_job(self, attribute: str) -> pd.DataFrame:
        found, _ = schedule.read(self._n)
        names = {generator: (site.name, load.name) for site in found.values() for generator, load in site.loads.items()}
        frame = columns(self._n.c.generators.dynamic[attribute], list(names)).loc[schedule.solved_snapshots(self._n)]
        columns_ = pd.MultiIndex.from_tuples([names[generator] for generator in frame.columns], names=["site", "job"])
        return frame.set_axis(columns_, axis=1)
