"""The closed form against bisection and against PyPSA."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pypsa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pypsa_aidc.errors import InputError
from pypsa_aidc.headroom import Demand, Offsets, Profile, can_bind, screen_region
from pypsa_aidc.headroom.region.peak_cap import budget_limit, residual_limit
from tests.headroom.naive import SITE, bisected, optimised, place_site

Case = tuple[list[int], list[float], list[float], float, int, int]
LOADS, RELIEFS = (0.0, 0.5, 0.8, 1.0), (0.0, 0.1, 0.5, 0.8, 1.0, 1.2)


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Few levels, so that ties are frequent; c above, at and below s; no call, some, all."""
    hours = draw(st.integers(1, 9))
    demand = draw(st.lists(st.sampled_from([20, 60, 90, 99, 100]), min_size=hours, max_size=hours))
    length = draw(st.integers(1, 5))
    load = draw(st.lists(st.sampled_from(LOADS), min_size=length, max_size=length).filter(any))
    relief = draw(st.lists(st.sampled_from(RELIEFS), min_size=length, max_size=length))
    margin, calls, offset = (
        draw(st.sampled_from([0.0, 0.02, 0.05, 0.5])),
        draw(st.integers(0, hours)),
        draw(st.integers(0, 4)),
    )
    return demand, load, relief, margin, calls, offset


def demand_of(values: list[int] | np.ndarray) -> Demand:
    return Demand(pd.Series(values, pd.date_range("2024-01-01", periods=len(values), freq="h"), dtype=float))


def close(size: float, expected: float) -> bool:
    return size == expected if np.isinf(expected) else size == pytest.approx(expected, rel=1e-9, abs=1e-7)


@pytest.mark.slow
@settings(max_examples=2000)
@given(cases())
def test_closed_form_is_bisection(case: Case) -> None:
    values, load, relief, margin, calls, offset = case
    demand, s, c = (np.array(part, dtype=float) for part in (values, load, relief))
    order = np.argsort(-demand, kind="stable")
    slack, clock, delay = (
        (demand.max() * (1 + margin) - demand)[order],
        np.arange(len(values))[order],
        np.array([offset]),
    )
    residual = residual_limit(slack, clock, s, np.minimum(c, s), delay).size[0]
    budget = budget_limit(slack, clock, s, delay, np.array([calls])).size[0, 0]
    place = (clock - offset) % s.size
    expected = bisected(slack, s[place], c[place], calls)
    assert close(min(residual, budget), expected)
    if np.isfinite(expected):
        kept = can_bind(slack, s[place], np.minimum(c, s)[place], calls)
        assert close(bisected(slack[kept], s[place][kept], c[place][kept], calls), expected)


@settings(max_examples=250)
@given(cases())
@example(([100, 100, 100], [1.0], [1.0], 0.0, 2, 0))
@example(([100, 60], [1.0], [1.2], 0.0, 2, 1))
@example(([100], [0.5], [0.0], 0.0, 0, 0))
def test_screen_is_bisection_and_counts_and_names_rightly(case: Case) -> None:
    values, load, relief, margin, calls, offset = case
    demand, shape = demand_of(values), Profile("x", load, relief)
    alignment = Offsets("given", hours_given=(offset,))
    found = screen_region(
        demand, [shape], period="whole", margin=margin, budget=calls / len(values), offsets=alignment
    ).data
    own = {name: found[name].item() for name in ("headroom", "hours", "events", "longest", "limiter", "hour")}
    s, c = shape.laid(demand.clock, offset)
    slack, size = demand.peak * (1 + margin) - demand.mw, own["headroom"]
    assert close(size, bisected(slack, s, c, calls))
    # Called hours at that size, one by one.
    called = [bool(share > 0 and room / share < size) for room, share in zip(slack, s, strict=True)]
    events = [part for part in "".join("x" if one else "." for one in called).split(".") if part]
    assert (own["hours"], own["events"]) == (sum(called), len(events))
    assert own["longest"] == max((len(part) for part in events), default=0)
    assert own["hours"] <= calls
    if own["limiter"] == "nothing":
        assert np.isinf(size)
        return
    hour = demand.hours.get_loc(pd.Timestamp(own["hour"]))
    need = s[hour] - c[hour] if own["limiter"] == "residual hour" else s[hour]
    assert slack[hour] / need == pytest.approx(size, rel=1e-12)
    if own["limiter"] == "call budget":
        # One hour more would have to be called beyond that size.
        assert sum(share > 0 and room / share <= size for room, share in zip(slack, s, strict=True)) > calls


@pytest.mark.parametrize("seed", range(10))
def test_closed_form_is_pypsa(seed: int) -> None:
    """LP where every hour may be called, MILP where not; margins down to 0, relief above the load."""
    rng = np.random.default_rng(seed)
    hours = int(rng.integers(4, 14))
    demand = demand_of(rng.integers(60, 101, hours))
    shape = Profile(
        "x", rng.uniform(0.7, 1.0, hours), rng.uniform(0.0, 0.4, hours) * (1 + 3 * rng.integers(0, 2, hours))
    )
    margin, calls = float(rng.choice([0.0, 0.05, 0.2])), int(rng.integers(0, hours + 1))
    options = {"margin": margin, "budget": calls / hours, "offsets": Offsets("given", hours_given=(3,))}
    found = screen_region(demand, [shape], period="whole", **options).data
    n = pypsa.Network(snapshots=demand.hours)
    n.add("Bus", "bus")
    n.add("Load", "demand", bus="bus", p_set=demand.mw)
    n.add("Generator", "cap", bus="bus", p_nom=demand.peak * (1 + margin))
    most = 1e4
    place_site(n, "bus", *shape.laid(demand.clock, 3), most)
    expected = min(float(found["headroom"].item()), most)
    assert optimised(n, calls, most) == pytest.approx(expected, rel=1e-9, abs=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "margin"), [("none", 0.05), ("trace, marginal", 0.05), ("constant tier", 0.1)])
def test_two_years_in_one_linear_programme(miso_network, miso_south, shapes, name: str, margin: float) -> None:
    """The bundled network, all 17,544 hours; the budget is slack in these cases, as in the text of [2]."""
    (shape,) = (one for one in shapes if one.name == name)
    n = miso_network
    n.generators.loc["cap", "p_nom"] = miso_south.peak * (1 + margin)
    place_site(n, "MISO South", *shape.laid(miso_south.clock, 1234), 1e5)
    given = Offsets("given", hours_given=(1234,))
    found = screen_region(miso_south, [shape], period="whole", margin=margin, offsets=given).data
    assert found["limiter"].item() == "residual hour"
    assert optimised(n) == pytest.approx(found["headroom"].item(), rel=1e-9)


@pytest.mark.parametrize(
    ("name", "margin", "budget"), [("full", 0.0, 0.0025), ("full", 0.05, 0.005), ("attributed", 0.05, 1.0)]
)
def test_hours_that_can_bind_in_the_bundled_network(
    miso_network, miso_south, shapes, name: str, margin: float, budget: float
) -> None:
    """The reduced set of hours: a MILP where the budget binds, else an LP."""
    (shape,) = (one for one in shapes if one.name == name)
    load, relief = shape.laid(miso_south.clock, 77)
    cap, calls = miso_south.peak * (1 + margin), int(budget * len(miso_south.hours))
    kept = can_bind(cap - miso_south.mw, load, relief, calls)
    assert kept.sum() < 200
    n = miso_network
    n.set_snapshots(n.snapshots[kept])
    n.generators.loc["cap", "p_nom"] = cap
    place_site(n, "MISO South", load[kept], relief[kept], 1e4)
    given = Offsets("given", hours_given=(77,))
    found = screen_region(miso_south, [shape], period="whole", margin=margin, budget=budget, offsets=given).data
    assert found["limiter"].item() == ("call budget" if name == "full" else "residual hour")
    assert optimised(n, calls, 1e4) == pytest.approx(found["headroom"].item(), rel=1e-9)
    assert SITE in n.generators.index


def test_flat_load_on_the_real_demand(miso_south) -> None:
    """No call at 5 %: 32,436 · 0.05. All callable at zero margin: the peak less the (⌊B⌋ + 1)-th highest demand."""
    flat = [Profile("firm", [1.0], [0.0]), Profile("callable", [1.0], [1.0])]
    options = {"period": "whole", "budget": (0.0025, 0.005, 0.01, 0.02), "offsets": Offsets("all")}
    found = screen_region(miso_south, flat, margin=(0.0, 0.05), **options).data["headroom"].squeeze()
    assert found.sel(profile="firm", margin=0.05).to_numpy() == pytest.approx(1621.8, abs=1e-9)
    assert found.sel(profile="callable", margin=0.0).to_numpy().tolist() == [903, 1331, 2055, 2981]


def test_budget_over_years_is_that_of_the_tightest_year() -> None:
    """Two years of three hours by hand: at one call each, 2024 admits 100 − 95, 2025 admits 100 − 70."""
    hours = pd.DatetimeIndex(pd.to_datetime(["2024-12-31 21:00", "2024-12-31 22:00", "2024-12-31 23:00"]))
    hours = hours.append(hours + pd.Timedelta(hours=3))
    demand = Demand(pd.Series([100.0, 95.0, 80.0, 70.0, 60.0, 90.0], hours))
    shape = [Profile("callable", [1.0], [1.0])]
    by_year = screen_region(demand, shape, period="year", margin=0.0, budget=1 / 3, offsets=Offsets("all")).data
    assert by_year["headroom"].item() == 5.0
    assert pd.Timestamp(by_year["hour"].item()) == pd.Timestamp("2024-12-31 22:00")
    whole = screen_region(demand, shape, period="whole", margin=0.0, budget=1 / 3, offsets=Offsets("all")).data
    assert whole["headroom"].item() == 10.0


def test_what_cannot_be_screened_is_named() -> None:
    gap = demand_of([100.0, np.nan, 90.0])
    shape = Profile("x", [1.0], [0.0])
    with pytest.raises(InputError, match=r"(?s)NaN in 1 of 3 hours, first 2024-01-01 01:00:00.*each name once.*budget"):
        screen_region(gap, [shape, shape], period="whole", budget=1.5)
    with pytest.raises(InputError, match="one length"):
        screen_region(
            demand_of([1, 2]), [Profile("a", [1, 1], [0, 0]), Profile("b", [1, 1, 1], [0, 0, 0])], period="whole"
        )
    with pytest.raises(InputError, match="one of whole, year"):
        screen_region(demand_of([1, 2]), [shape], period="month")
    with pytest.raises(InputError, match="None beside a cap"):
        screen_region(demand_of([1, 2]), [shape], period="whole", margin=0.1, cap=5.0)
    with pytest.raises(InputError, match=r"(?s)relief, hour 1.*nan.*load, hour 0|load, hour 0.*relief, hour 1"):
        Profile("broken", [-1.0, 1.0], [0.0, np.nan])


def test_demand_above_the_cap_is_infeasible_and_the_hour_named() -> None:
    demand = demand_of([80, 120, 110])
    found = screen_region(
        demand, [Profile("x", [1.0], [1.0])], period="whole", cap=115.0, budget=1.0, offsets=Offsets("all")
    ).data
    assert found["limiter"].item() == "infeasible"
    assert np.isnan(found["headroom"].item())
    assert pd.Timestamp(found["hour"].item()) == pd.Timestamp("2024-01-01 01:00")
    # The same as a margin below 0; a cap at the peak itself is no fault.
    below = screen_region(
        demand, [Profile("x", [1.0], [1.0])], period="whole", margin=-0.05, budget=1.0, offsets=Offsets("all")
    ).data
    assert below["limiter"].item() == "infeasible"
    at = screen_region(
        demand, [Profile("x", [1.0], [0.0])], period="whole", cap=120.0, budget=1.0, offsets=Offsets("all")
    ).data
    assert (at["headroom"].item(), at["limiter"].item()) == (0.0, "residual hour")
