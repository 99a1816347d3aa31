"""Calls by shortest path against enumeration of all plans, a MILP, and the closed form."""

from __future__ import annotations

import linopy
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pypsa_aidc import fleet
from pypsa_aidc.errors import InputError
from pypsa_aidc.headroom import (
    CallRules,
    Demand,
    Offsets,
    Profile,
    call_depths,
    cover,
    largest_size,
    screen_calls,
    screen_region,
)


def fewest_hours(size: float, slack: np.ndarray, load: np.ndarray, rules: CallRules) -> int | None:
    """Every plan, one by one."""
    hours = len(slack)
    fits = [slack[t] / load[t] >= size for t in range(hours)]

    def deep_enough(t: int, depth: float) -> bool:
        return fits[t] or load[t] <= depth or slack[t] / (load[t] - depth) >= size

    def plans(t: int, used: int, calls: int):
        if t >= hours:
            yield used
            return
        if fits[t]:
            yield from plans(t + 1, used, calls)
        if rules.events is not None and calls >= rules.events:
            return
        for h, depth in rules.depths.items():
            end, rest = t + h, min(hours, t + h + rules.after(h))
            if end > hours or (rules.hours is not None and used + h > rules.hours):
                continue
            if all(deep_enough(j, depth) for j in range(t, end)) and all(fits[end:rest]):
                yield from plans(rest, used + h, calls + 1)

    return min(plans(0, 0, 0), default=None)


@st.composite
def cases(draw: st.DrawFn):
    hours = draw(st.integers(1, 8))
    slack = draw(st.lists(st.integers(0, 12), min_size=hours, max_size=hours))
    load = draw(st.lists(st.sampled_from([0.5, 0.9, 1.0]), min_size=hours, max_size=hours))
    depths = draw(
        st.dictionaries(st.sampled_from([1, 2, 3, 9]), st.sampled_from([0.0, 0.1, 0.2, 0.5, 1.0]), min_size=1)
    )
    budget, events = (draw(st.none() | st.integers(0, most)) for most in (7, 3))
    pause = draw(st.integers(0, 3))
    return np.array(slack, float), np.array(load), CallRules(depths, budget, events, pause)


@settings(max_examples=400)
@given(cases(), st.data())
def test_path_is_the_best_of_all_plans(case, data: st.DataObject) -> None:
    slack, load, rules = case
    ratios = np.unique(np.concatenate([slack / load, slack / np.maximum(load - 0.1, 1e-9)]))
    size = float(data.draw(st.sampled_from(ratios.tolist())))
    calls = cover(size, slack, load, rules)
    assert (None if calls is None else sum(h for _, h in calls)) == fewest_hours(size, slack, load, rules)
    plan = largest_size(slack, load, rules)
    if np.isfinite(plan.size):
        assert fewest_hours(plan.size, slack, load, rules) is not None
        assert fewest_hours(plan.size * (1 + 1e-9) + 1e-9, slack, load, rules) is None
        assert (plan.calls["duration"].sum() or 0) == fewest_hours(plan.size, slack, load, rules)
        # The plan keeps the load under the cap when it is laid over it hour by hour.
        relief = np.zeros(len(slack))
        for start, h, depth in plan.calls.to_numpy():
            assert depth <= rules.depths[int(h)] * plan.size + 1e-9
            relief[int(start) : int(start + h)] = rules.depths[int(h)] * plan.size
        assert (plan.size * load - relief <= slack + 1e-9).all()


def milp(slack: np.ndarray, load: np.ndarray, rules: CallRules, most: float) -> float:
    """Constraints (2) to (5) of a load of free size with calls, on one bus, in plain linopy."""
    m = linopy.Model()
    hours = pd.RangeIndex(len(slack), name="t")
    durations = pd.Index(list(rules.depths), name="h")
    size = m.add_variables(lower=0, upper=most, name="size")
    x = m.add_variables(lower=0, coords=[durations, hours], name="depth")
    u = m.add_variables(binary=True, coords=[durations, hours], name="start")
    relief, busy = 0, 0
    for h, depth in rules.depths.items():
        own_x, own_u = x.sel(h=h, drop=True), u.sel(h=h, drop=True)
        m.add_constraints(own_x - depth * size <= 0, name=f"depth {h}")
        m.add_constraints(own_x - depth * most * own_u <= 0, name=f"only when called {h}")
        m.add_constraints(
            own_u.where(hours.to_series().to_xarray() > len(slack) - h).sum() <= 0, name=f"ends inside {h}"
        )
        relief = relief + (1 * own_x).rolling(t=h).sum()
        busy = busy + (1 * own_u).rolling(t=h + rules.after(h)).sum()
    m.add_constraints(busy <= 1, name="spacing")
    m.add_constraints(
        size * pd.Series(load, hours).to_xarray() - relief <= pd.Series(slack, hours).to_xarray(), name="cap"
    )
    if rules.events is not None:
        m.add_constraints(u.sum() <= rules.events, name="events")
    if rules.hours is not None:
        m.add_constraints((pd.Series(durations, durations, float).to_xarray() * u).sum() <= rules.hours, name="hours")
    m.add_objective(size, sense="max")
    m.solve("highs", output_flag=False, mip_rel_gap=0.0, mip_feasibility_tolerance=1e-9)
    return float(size.solution)


@pytest.mark.parametrize("seed", range(4))
def test_path_is_a_milp(seed: int) -> None:
    rng = np.random.default_rng(seed)
    slack, load = rng.uniform(8, 20, 30), rng.uniform(0.9, 1.0, 30)
    depths = {1: 0.2, 2: 0.15, 4: 0.1}
    rules = CallRules(
        depths, int(rng.integers(3, 12)), int(rng.integers(1, 5)), {1: 1, 2: 0, 4: int(rng.integers(0, 4))}
    )
    assert largest_size(slack, load, rules).size == pytest.approx(milp(slack, load, rules, 50.0), rel=1e-6)


def test_one_hour_calls_of_full_depth_are_the_closed_form() -> None:
    """κ = 1 for one hour without recovery is full curtailment with a budget of hours."""
    rng = np.random.default_rng(1)
    demand = Demand(pd.Series(rng.integers(60, 101, 200).astype(float), pd.date_range("2024", periods=200, freq="h")))
    shape = Profile("full", rng.uniform(0.8, 1.0, 60), np.ones(60))
    offset = Offsets("given", hours_given=(17,))
    for share in (0.0, 0.05, 0.2):
        closed = screen_region(demand, [shape], period="whole", margin=0.02, budget=share, offsets=offset).data
        load, _ = shape.laid(demand.clock, 17)
        plan = largest_size(demand.peak * 1.02 - demand.mw, load, CallRules({1: 1.0}, hours=int(share * 200)))
        assert plan.size == closed["headroom"].item()
        assert len(plan.calls) == closed["hours"].item()


def test_without_recovery_short_calls_are_chained() -> None:
    """Settlement 12: two needed hours, by hand; a 1-h call sheds 20 %, a 2-h call 10 %."""
    slack, load = np.array([50.0, 8.0, 8.0, 50.0]), np.ones(4)
    depths = {1: 0.2, 2: 0.1}
    assert largest_size(slack, load, CallRules(depths)).size == pytest.approx(8 / 0.8)
    apart = largest_size(slack, load, CallRules(depths, recovery=1))
    assert apart.size == pytest.approx(8 / 0.9)
    assert apart.calls[["start", "duration"]].to_numpy().tolist() == [[1, 2]]
    assert apart.calls["depth"].item() == pytest.approx(8 / 0.9 - 8)
    none = largest_size(slack, load, CallRules(depths, events=0, recovery=1))
    assert (none.size, none.budget_binds, none.hour) == (8.0, True, 1)


def test_faults_of_rules_and_series() -> None:
    with pytest.raises(InputError, match=r"(?s)depths, duration.*0.*hours.*-1.*recovery"):
        CallRules({0: 0.1}, hours=-1, recovery={4: 1})
    with pytest.raises(InputError, match=r"(?s)slack, hour 1.*-1.0.*load, hour 0.*nan"):
        largest_size([1.0, -1.0], [np.nan, 1.0], CallRules({1: 0.1}))
    with pytest.raises(InputError, match="at least one duration"):
        CallRules({})


def test_calls_limited_by_k_on_miso_south(miso_south, shapes, envelope) -> None:
    """K at 95 % lies below what the trace shows in most hours, and a floor remains: between none and the trace."""
    surface = fleet.Surface.of(envelope, portfolio="supported")
    depths = call_depths(surface, 0.95, float(envelope.peak().mean()))
    # K of [2] over the mean peak: 2.32 MW at four hours, 54.5 MW.
    assert depths[4] == pytest.approx(2.32 / 54.476, rel=0.01)
    assert sorted(depths.values(), reverse=True) == [depths[h] for h in sorted(depths)]
    offsets = Offsets("given", hours_given=(5, 1000, 2222))
    limited = screen_calls(miso_south, shapes[0], depths, events=20, recovery=4, offsets=offsets)
    free = screen_region(miso_south, shapes, period="whole", offsets=offsets).data["headroom"]
    size = limited.data["headroom"].squeeze()
    assert (size > free.sel(profile="none").squeeze()).all()
    assert (size < free.sel(profile="constant tier").squeeze()).all()
    assert (limited.data["events"] <= 20).all()
    assert limited.synthetic
    with pytest.raises(InputError, match=r"recovery.*at least 1"):
        screen_calls(miso_south, shapes[0], depths, recovery=0)


def test_calls_need_consecutive_hours() -> None:
    hours = pd.date_range("2024", periods=6, freq="h").delete(3)
    demand = Demand(pd.Series([60.0, 70, 80, 90, 100], hours))
    with pytest.raises(InputError, match="no hour 2024-01-01 03:00:00 UTC"):
        screen_calls(demand, Profile("x", [1.0], [0.0]), {1: 0.1})
