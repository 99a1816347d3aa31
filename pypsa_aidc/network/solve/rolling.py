"""Solving a horizon window by window: jobs go on where the window before left them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import pypsa
from numpy.typing import NDArray
from pandas.api.types import is_numeric_dtype

from pypsa_aidc.errors import Faults, StaleError, UnsupportedError
from pypsa_aidc.network.checks.after import AuditReport, audit
from pypsa_aidc.network.checks.before import check_network
from pypsa_aidc.network.loads.registry import check_loads, fleets, loads, refresh, remove, sites
from pypsa_aidc.network.loads.site.paths import Paths
from pypsa_aidc.network.loads.site.schedule import decode
from pypsa_aidc.network.loads.site.site import Site
from pypsa_aidc.network.loads.site.step_power import step_power
from pypsa_aidc.network.model.ahead import Ahead
from pypsa_aidc.network.model.hook import ExtraFunctionality
from pypsa_aidc.network.model.horizon import network_snapshots, windows
from pypsa_aidc.network.pypsa_api import columns, copy_network, quiet_pypsa, solve_network
from pypsa_aidc.network.solve.optimize import solve_window
from pypsa_aidc.network.solve.result import clear_results
from pypsa_aidc.network.spec.series import aligned
from pypsa_aidc.progress import track
from pypsa_aidc.training import Formulation, Step, TrainingLoad
from pypsa_aidc.units import SLOT_TOLERANCE, W_PER_MW

STATE = "aidc_state"
"""Column of `n.generators` with what has been decided of each job, and until when, in a rolling horizon, as JSON.

What fleets have decided is in their series of calls.
"""

_ROUNDING = 1e-9
"""Share by which the connection is taken to be larger after a window: solvers keep limits to a tolerance."""

Floats = NDArray[np.float64]
Prices = float | pd.Series | pd.DataFrame
Steps = Mapping[str, tuple[Step, ...]]
Actual = Mapping[tuple[str, str], pd.DataFrame]


@dataclass(frozen=True)
class RollingResult:
    """How the windows of a rolling horizon ended.

    Parameters
    ----------
    windows
        One row a window: `start` and `last` (its snapshots), `kept` (the last one whose dispatch stays), `status`,
        `gap`, `objective` (USD, of the window and of the jobs' expected cost after it), and the share of its tranche
        that each job has done at `kept`, in a column ``"done <generator>"``. ``"behind <generator>"`` is the share by
        which that falls short of a steady pace from arrival to deadline, and ``"catch_up <generator>"`` the USD that
        the rest, as planned and at expected prices, costs above its leanest mode at their mean until the deadline.
    audit
        Audit of the whole horizon, if it was solved to its end.
    behind
        A sentence for each job and window in which it falls behind and catching up costs something.
    """

    windows: pd.DataFrame = field(repr=False)
    audit: AuditReport | None = None
    behind: tuple[str, ...] = ()

    def __repr__(self) -> str:
        worst = self.windows["gap"].max()
        checked = "not at its end yet" if self.audit is None else repr(self.audit)
        return f"RollingResult({len(self.windows)} windows, largest gap {worst:.3%}, {checked})"

    def to_frame(self) -> pd.DataFrame:
        """Return a copy of the windows."""
        return self.windows.copy()


def optimize_with_rolling_horizon(
    n: pypsa.Network,
    /,
    snapshots: pd.Index | None = None,
    *,
    horizon: int,
    overlap: int = 0,
    expected: Prices | None = None,
    actual: Actual | None = None,
    resume: bool = False,
    on_window: Callable[[pypsa.Network, Mapping[str, object]], None] | None = None,
    formulation: Formulation = "time",
    prices: bool = True,
    raise_on_violation: bool = True,
    extra_functionality: ExtraFunctionality | None = None,
    **kwargs: Any,
) -> RollingResult:
    """Solve a network window by window, with jobs that go on where the window before left them.

    Each window is optimised with the network's series as they are then. Of its jobs the whole rest is planned: within
    the window against the network, after it at expected prices and within pool, connection and deadline. What starts
    before the next window is decided: progress, an edge that is still running, and what the rules of the job remember
    are carried over. Storage goes on from its level, as in PyPSA's own rolling horizon.

    Parameters
    ----------
    n
        Network with sites or fleets. Calls that have started, pauses after them and what is left of budgets are carried
        over like jobs: calls are planned to the end of the horizon, after the window at what they save at expected
        prices, so that no window spends what a later one needs more.
    snapshots
        Part of ``n.snapshots``, the whole horizon of the jobs; `None` for all.
    horizon
        Snapshots of a window, at least 1.
    overlap
        Snapshots at the end of a window that the next one decides again, less than `horizon`.
    expected
        Expected price in USD/MWh at the bus of the loads, for energy after a window: a number, a series over the
        snapshots, or a frame with a column for each site, and each fleet with calls or budgets. `None`: the prices of
        the window solved last go on, by time of day (for the first window, those of the network without its AIDCs).
    actual
        What series turn out to be, by (component, attribute), e.g. ``{("Generator", "p_max_pu"): frame}``; frames over
        snapshots with columns of components. The network then holds the forecast: jobs are decided on it, and the
        dispatch until the next window is found again with the actual values.
    resume
        Whether to go on where an earlier call stopped, also in another process, from what the network holds.
    on_window
        Called after each window with the network and its row of the result: to write a file, or to change forecasts.
    formulation, prices, raise_on_violation, extra_functionality, kwargs
        As for `n.aidc.optimize`.

    Returns
    -------
    RollingResult
        One row a window; an audit of the whole horizon at its end.

    Raises
    ------
    InputError
        Arguments that do not go together, or as for `n.aidc.optimize`.
    UnsupportedError
        Investment periods, scenarios, jobs without checkpoint continuity, fleets of free size, with rebound or
        windows of relief; ramp limits of sites.
    InfeasibleError
        A window without a dispatch: it says which one.
    StaleError
        `resume` in a network that holds no state of this horizon.
    AuditError
        The joined solution breaks a constraint.

    Examples
    --------
    >>> import pypsa, pypsa_aidc as aidc
    >>> n = pypsa.Network(snapshots=range(6))
    >>> _ = n.add("Bus", "grid")
    >>> n.add("Generator", "market", bus="grid", p_nom=10, marginal_cost=[9.0, 1.0, 9.0, 1.0, 9.0, 9.0])
    >>> mode = aidc.training.Mode((1, 1, 8), gpus=8, flops_per_s=1e15, it_power=2.0)
    >>> job = aidc.TrainingLoad("A", 2 * 3600 * 1e15, (mode,), aidc.Rules(segments=2))
    >>> n.aidc.add("dc", bus="grid", gpus=8, jobs=[job])
    >>> result = n.aidc.optimize_with_rolling_horizon(horizon=3, overlap=1, expected=5.0, output_flag=False)
    >>> n.aidc.gpus()["dc", "A"].tolist()
    [0.0, 8.0, 0.0, 8.0, 0.0, 0.0]
    """
    chosen = network_snapshots(n, snapshots)
    _check_arguments(n, chosen, horizon, overlap, actual, on_window)
    horizon, overlap = int(horizon), int(overlap)
    check_network(n, chosen)
    refresh(n, chosen)
    check_loads(n, chosen)
    found = sites(n)
    tied = {name: fleet for name, fleet in fleets(n).items() if fleet.terms.spans_horizon}
    (whole, *_), *_ = parts = [windows(n, chosen, "once"), *(site.windows(n, chosen) for site in found.values())]
    parts += [windows(n, chosen)] * bool(tied)
    if any(len(part) > 1 or len(part[0].positions) < len(chosen) for part in parts):
        raise UnsupportedError(
            "a rolling horizon over more than one window, or a part of the snapshots: jobs do their tranche in each of "
            "them. Roll over one of them at a time, with snapshots=, or give the sites windows='once'."
        )
    generators = {generator: load for site in found.values() for generator, load in site.loads.items()}
    least = _own_energy(n, list(generators))
    first, steps = _stored(n, [*generators, *tied], chosen) if resume else (0, dict.fromkeys(generators, ()))
    if not resume:
        clear_results(n)
    levels = {component: n.c[component].static[initial].copy() for component, _, initial in _LEVELS}
    buses = {site.name: str(n.links.at[site.link, "bus0"]) for site in found.values()}
    buses |= {name: str(n.generators.at[name, "bus"]) for name in tied}
    given = None if expected is None else _expected(list(buses), expected, chosen)
    owner = {generator: site.name for site in found.values() for generator in site.loads}
    table: list[dict[str, object]] = []
    behind: list[str] = []
    try:
        for start in track(list(range(first, len(chosen), horizon - overlap)), "windows"):
            window = chosen[start : start + horizon]
            kept = len(window) if start + horizon >= len(chosen) else horizon - overlap
            _continue_storage(n, chosen, start, levels)
            grid = _persistent(n, buses, chosen, start, window) if given is None else given
            ahead = Ahead(chosen, whole.slots, start, start, steps, *_at_site(n, found, grid, chosen), whole.weight)
            call = partial(
                _solve,
                n,
                window,
                formulation=formulation,
                prices=prices,
                extra_functionality=extra_functionality,
                options=kwargs,
            )
            condition, objective, bound, decided = call(ahead)
            if actual is not None:
                _reveal(n, actual, window[:kept])
                condition, objective, bound, decided = call(replace(ahead, decided=start + kept, steps=decided))
            steps = {
                generator: tuple(step for step in own if step.start < start + kept)
                for generator, own in decided.items()
            }
            _store(n, {**steps, **dict.fromkeys(tied, ())}, chosen, start + kept)
            gap = abs(objective - bound) / max(abs(objective), 1e-9)
            row: dict[str, object] = {"start": window[0], "last": window[-1], "kept": window[kept - 1]}
            row |= {"status": condition, "gap": gap, "objective": objective}
            done = {generator: _share_done(generators[generator], own) for generator, own in steps.items()}
            row |= {f"done {generator}": share for generator, share in done.items()}
            for generator, load in generators.items():
                late = _late(load, ahead, ahead.price[owner[generator]], decided[generator], start + kept)
                row |= {f"behind {generator}": late[0], f"catch_up {generator}": late[1]}
                was = bool(table) and float(str(table[-1][f"behind {generator}"])) > 0
                if late[0] > 0 and late[1] > 0 and not was:
                    behind.append(
                        f"{generator} is behind at {window[kept - 1]}: {done[generator]:.0%} done where a steady pace "
                        f"has {done[generator] + late[0]:.0%}; catching up is expected to cost {late[1]:.6g} USD"
                    )
            table.append(row)
            if on_window is not None:
                on_window(n, row)
            if start + kept >= len(chosen):
                break
    finally:
        for component, _, initial in _LEVELS:
            n.c[component].static[initial] = levels[component]
        n.generators.loc[least.index, "e_sum_min"] = least
    report = audit(n)
    if raise_on_violation:
        report.raise_if_violated()
    return RollingResult(pd.DataFrame(table), report, tuple(behind))


_LEVELS = (
    ("Store", "e", "e_initial"),
    ("StorageUnit", "state_of_charge", "state_of_charge_initial"),
)
"""What storage holds, by component: series of the solution, and attribute from which a window starts."""


def _check_arguments(
    n: pypsa.Network, chosen: pd.Index, horizon: int, overlap: int, actual: Actual | None, on_window: object
) -> None:
    faults = Faults("n.aidc.optimize_with_rolling_horizon")
    faults.number("horizon", horizon, at_least=1, integer=True)
    faults.number("overlap", overlap, at_least=0, integer=True)
    if not len(faults):
        faults.require(overlap < horizon, "overlap", overlap, f"less than horizon = {horizon}")
    if actual is not None and faults.kind("actual", actual, Mapping, "a dict of frames by (component, attribute)"):
        for key, frame in actual.items():
            _check_actual(n, chosen, key, frame, faults)
    given = on_window is None or callable(on_window)
    faults.require(given, "on_window", on_window, "a function of the network and the row of its window")
    faults.raise_any()
    if n.has_scenarios or n.has_investment_periods:
        raise UnsupportedError(
            "a rolling horizon with scenarios or investment periods: what is carried from window to window would be "
            "one state for each. Take one scenario or one period at a time."
        )
    tied = [
        name
        for name, fleet in fleets(n).items()
        if fleet.terms.form == "windows" or fleet.terms.chains or fleet.terms.rebound
    ]
    if tied:
        raise UnsupportedError(
            f"a rolling horizon with fleets that keep to windows of relief or draw again what they shed "
            f"({', '.join(tied)}): what a window leaves of that is not carried over. Solve all snapshots at once, or "
            "give the fleet calls with a pause and without rebound, or a series."
        )
    free_size = [
        name
        for name, fleet in fleets(n).items()
        if fleet.terms.spans_horizon and n.generators.at[name, "p_nom_extendable"]
    ]
    if free_size:
        raise UnsupportedError(
            f"a rolling horizon with fleets of free size with calls or budgets ({', '.join(free_size)}): each window "
            "would size them again. Give them the p_nom of a solve of all snapshots."
        )
    ramping = [site.name for site in sites(n).values() if site.spec.ramps]
    if ramping:
        raise UnsupportedError(
            f"a rolling horizon with ramp limits of {', '.join(ramping)}: schedules are planned beyond each window "
            "without the network, and what a ramp leaves to them there is not known. Solve all snapshots at once, or "
            "take the limits away: n.aidc.update(..., ramp_up=np.inf, ramp_down=np.inf)."
        )
    free = [
        f"{site.name} {load.name}"
        for site in sites(n).values()
        for load in site.loads.values()
        if not load.rules.continuity
    ]
    if free:
        raise UnsupportedError(
            f"a rolling horizon with jobs without checkpoint continuity ({', '.join(free)}): they are a bound that no "
            "job can execute, and have no state to carry over. Solve all snapshots at once."
        )


def _check_actual(n: pypsa.Network, chosen: pd.Index, key: object, frame: object, faults: Faults) -> None:
    """Note what keeps a frame from being a series of the network over the horizon."""
    component, attribute = map(str, key) if isinstance(key, tuple) and len(key) == 2 else ("", "")
    known = component in {each.name for each in n.components} and attribute in n.c[component].dynamic
    known = known and str(n.c[component].defaults.at[attribute, "status"]).startswith("Input")
    faults.require(known, "actual", key, "a component and one of its input series")
    if not known or not faults.kind(f"actual {key}", frame, pd.DataFrame, "a frame over snapshots"):
        return
    assert isinstance(frame, pd.DataFrame)
    there = frame.columns.isin(n.c[component].static.index)
    faults.require(bool(there.all()), "actual", list(frame.columns[~there][:3]), f"names of n.c.{component}")
    repeated = [*frame.columns[frame.columns.duplicated()], *frame.index[frame.index.duplicated()]]
    faults.require(not repeated, f"actual {key}", repeated[:3], "each snapshot and each name once")
    missing = chosen.difference(frame.index)
    faults.require(not len(missing), "actual", list(missing[:3]), "a row for each snapshot")
    if repeated or len(missing):
        return
    rows = frame.loc[chosen]
    bad = [name for name in rows if not (is_numeric_dtype(rows[name]) and np.isfinite(rows[name].astype(float)).all())]
    faults.require(not bad, f"actual {key}", bad[:3], "finite numbers at all snapshots, in columns of these names")


def _own_energy(n: pypsa.Network, generators: Sequence[str]) -> pd.Series:
    """Take the least energy, which PyPSA would ask of each window, off the jobs; what it was."""
    labels = n.generators.index[n.generators.index.isin(list(generators))]
    least: pd.Series = n.generators.loc[labels, "e_sum_min"].copy()
    n.generators.loc[labels, "e_sum_min"] = -np.inf
    return least


def _continue_storage(n: pypsa.Network, chosen: pd.Index, start: int, levels: Mapping[str, pd.Series]) -> None:
    if not start:
        return
    for component, attribute, initial in _LEVELS:
        static = n.c[component].static
        if len(static):
            static[initial] = (
                n.c[component].dynamic[attribute].loc[chosen[start - 1]].reindex(static.index).fillna(levels[component])
            )


def _solve(n: pypsa.Network, window: pd.Index, ahead: Ahead, **options: Any) -> tuple[str, float, float, Steps]:
    """Solve a window; status, objective, bound, and all steps that are decided or planned, by generator."""
    condition, objective, bound, built = solve_window(n, window, ahead, **options)
    paths = [each for each in built if isinstance(each, Paths)]
    steps = {generator: own for each in paths for (generator, _), own in decode(n, each).items()}
    return condition, objective, bound, steps


def _at_site(
    n: pypsa.Network, found: Mapping[str, Site], grid: Mapping[str, Floats], chosen: pd.Index
) -> tuple[dict[str, Floats], dict[str, Floats]]:
    """Expected price of IT energy, and IT power that the connection leaves to jobs, by site."""
    price, connection = dict(grid), {}
    for site in found.values():
        efficiency = columns(n.get_switchable_as_dense("Link", "efficiency"), [site.link]).loc[chosen, site.link]
        base = columns(n.get_switchable_as_dense("Load", "p_set"), [site.base]).loc[chosen, site.base]
        link = n.links.loc[site.link]
        idle = site.spec.gpus * (site.spec.idle_w or 0.0) / W_PER_MW
        price[site.name] = grid[site.name] / efficiency.to_numpy(float)
        most = np.inf if link["p_nom_extendable"] else float(link["p_nom"])
        left = most * efficiency.to_numpy(float) - base.to_numpy(float) - idle
        connection[site.name] = np.maximum(left * (1 + _ROUNDING), 0.0)
    return price, connection


def _expected(names: Sequence[str], expected: Prices, chosen: pd.Index) -> dict[str, Floats]:
    """Expected price at the grid bus of each load, over the horizon."""
    faults = Faults("n.aidc.optimize_with_rolling_horizon")
    result = {}
    for name in names:
        own: float | pd.Series
        if isinstance(expected, pd.DataFrame):
            faults.require(name in expected, "expected", list(expected.columns), f"a column {name!r}")
            own = expected[name] if name in expected else pd.Series(0.0, chosen)
        else:
            own = expected
        values = aligned(own, chosen, "expected", faults)
        result[name] = np.broadcast_to(np.asarray(values, dtype=float), len(chosen)).copy()
    faults.raise_any()
    return result


def _persistent(
    n: pypsa.Network, buses: Mapping[str, str], chosen: pd.Index, start: int, window: pd.Index
) -> dict[str, Floats]:
    """Prices of the window solved last, or of this one without AIDCs, that go on by time of day."""
    known = n.buses_t.marginal_price.reindex(columns=list(buses.values())).reindex(chosen[:start]).dropna()
    if known.empty:
        bare = copy_network(n)
        for name in loads(bare):
            remove(bare, name)
        with quiet_pypsa():
            solve_network(bare, window, output_flag=False)
        known = bare.buses_t.marginal_price.reindex(columns=list(buses.values())).loc[window]
    known = known.loc[:, ~known.columns.duplicated()].iloc[-len(window) :]
    clock = _clock(known.index)
    by_clock = known.groupby(clock).mean()
    wanted = by_clock.reindex(_clock(chosen)).fillna(known.mean())
    return {name: wanted[bus].to_numpy(float) for name, bus in buses.items()}


def _clock(labels: pd.Index) -> pd.Index:
    """Time of day of dates; position in a day of 24 of other labels."""
    if isinstance(labels, pd.DatetimeIndex):
        return pd.Index(labels.hour * 60 + labels.minute)
    return pd.Index(np.arange(len(labels)) % 24)


def _reveal(n: pypsa.Network, actual: Actual, labels: pd.Index) -> None:
    """Put what series turned out to be in place of their forecast."""
    for (component, attribute), frame in actual.items():
        dynamic = n.c[component].dynamic
        dense = n.get_switchable_as_dense(component, attribute)[list(frame.columns)]
        dense.loc[labels] = frame.loc[labels].to_numpy()
        for name in frame.columns:
            dynamic[attribute][name] = dense[name]


def _share_done(load: TrainingLoad, steps: Sequence[Step]) -> float:
    done = load.rules.progress + round(sum(step.segments for step in steps))
    return float(sum(load.rules.shares[:done]))


def _late(load: TrainingLoad, ahead: Ahead, price: Floats, steps: Sequence[Step], border: int) -> tuple[float, float]:
    """Share of its tranche by which a job is behind a steady pace at a border, and USD that catching up costs."""
    slots, total = ahead.slots, ahead.slots.total
    past = [step for step in steps if step.start < border]
    done, deadline = _share_done(load, past), total if load.deadline is None else min(load.deadline, total)
    first = load.rules.progress
    begun, span = float(sum(load.rules.shares[:first])), deadline - load.rules.arrival
    elapsed = min(max((float(slots.ends[border]) - load.rules.arrival) / span, 0.0), 1.0)
    steady = begun + (1 - begun) * elapsed
    if done >= steady - SLOT_TOLERANCE or border >= len(slots):
        return 0.0, 0.0
    worth = price * ahead.weight
    planned = step_power(steps, load, slots) - step_power(past, load, slots)
    cost = float((planned * slots.hours * worth)[border:].sum())
    left = slice(border, max(slots.ceil(deadline), border + 1))
    mean = float(np.average(worth[left], weights=slots.hours[left]))
    lean = min(mode.it_power * load.hours(mode) for mode in load.modes)
    return steady - done, max(cost - lean * (1 - done) * mean, 0.0)


def _store(n: pypsa.Network, steps: Steps, chosen: pd.Index, decided: int) -> None:
    """Keep what has been decided as text with each job generator, so that another process can go on."""
    span = [str(chosen[0]), str(chosen[-1]), len(chosen)]
    if STATE not in n.generators:
        n.generators[STATE] = ""
    for generator, own in steps.items():
        listed = [[step.start, step.stop, step.mode, step.segments, step.restart] for step in own]
        content = {"version": 1, "horizon": span, "decided": decided, "steps": listed}
        n.generators.loc[generator, STATE] = json.dumps(content)


def _stored(n: pypsa.Network, generators: Sequence[str], chosen: pd.Index) -> tuple[int, Steps]:
    """Read what an earlier call has decided."""
    span = [str(chosen[0]), str(chosen[-1]), len(chosen)]
    texts = n.generators[STATE].fillna("") if STATE in n.generators else pd.Series("", n.generators.index)
    faults, states = Faults("n.aidc.optimize_with_rolling_horizon"), {}
    for generator in generators:
        text = str(texts[generator])
        state = json.loads(text) if text else {}
        fits = state.get("horizon") == span
        remedy = "Call it without resume=True to begin anew."
        faults.require(fits, f"state of {generator!r}", state.get("horizon"), f"one of the horizon {span}", remedy)
        states[generator] = state
    faults.raise_any(StaleError)
    steps = {
        generator: tuple(
            Step(int(start), int(stop), int(mode), float(segments), bool(restart))
            for start, stop, mode, segments, restart in state["steps"]
        )
        for generator, state in states.items()
    }
    return min(int(state["decided"]) for state in states.values()) if states else 0, steps
