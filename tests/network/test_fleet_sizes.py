"""Sizes of fleets against closed forms, a shortest path, the published 3-bus network, and laws."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pypsa
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import pypsa_aidc as aidc
from tests.network import three_bus
from tests.network.calls_path import fits, largest_size

TIGHT = {"output_flag": False, "mip_rel_gap": 1e-9, "primal_feasibility_tolerance": 1e-9}
KNOWN = {"surface": three_bus.K, "peak": three_bus.PEAK}
CALLS = KNOWN | {"hours": 12, "events": 3, "recovery": 4}
REBOUND = CALLS | {
    "rebound": 1.0,
    "checkpoint": 1.0,
    "rebound_power": 0.1 * three_bus.NONELIGIBLE / three_bus.PEAK,
}
PROFILE, RELIEF = (three_bus.SERIES[name].to_numpy() for name in ("profile", "relief"))


def one_bus(room: np.ndarray, **fleet: object) -> pypsa.Network:
    """A bus with so much power to spare in each hour, and a fleet of free size unless it has one."""
    n = pypsa.Network(snapshots=range(len(room)))
    n.add("Carrier", "AC")
    n.add("Bus", "b", carrier="AC")
    n.add(
        "Generator",
        "spare",
        bus="b",
        carrier="AC",
        p_nom=float(max(room.max(), 1.0)),
        p_max_pu=room / max(room.max(), 1.0),
    )
    free = {"p_nom_extendable": True, "p_nom_max": 2 * float(room.max()) + 100.0, "capital_cost": -1.0}
    n.aidc.add_fleet("f", bus="b", **({} if "p_nom" in fleet else free) | fleet)  # type: ignore[arg-type]
    return n


def size(n: pypsa.Network, **options: object) -> float:
    result = n.aidc.optimize(**TIGHT | options)
    assert result.optimal
    assert result.audit is not None
    assert result.audit.passed
    return float(n.generators.at["f", "p_nom_opt"])


# --- the 3-bus network: GW as computed by the prototype of the design (Sec. 5), 72 hours


@pytest.mark.parametrize(
    ("expected", "terms", "outages"),
    [
        pytest.param(1.1707, {}, None, id="none"),
        pytest.param(1.2671, {"relief": RELIEF}, None, id="path"),
        pytest.param(1.2261, KNOWN | {"form": "windows", "durations": list(three_bus.K)}, None, id="windows"),
        pytest.param(1.2213, CALLS, None, id="calls"),
        pytest.param(1.2213, REBOUND, None, id="rebound"),
        pytest.param(0.6772, REBOUND, "all", id="rebound, N-1"),
        pytest.param(0.6491, {}, "all", id="none, N-1"),
        pytest.param(1.4634, {"relief": 0.2 * PROFILE}, None, id="20 % tier"),
    ],
)
def test_three_buses(expected: float, terms: dict[str, object], outages: str | None) -> None:
    n = three_bus.with_fleet(**terms)
    assert size(n, branch_outages=outages, mip_rel_gap=1e-6) / 1e3 == pytest.approx(expected, abs=6e-5)


@pytest.mark.slow
def test_short_calls_do_not_add_up_to_a_long_one() -> None:
    """Settlement 12: without a pause, calls reached 1.2299 GW, more than the 1.2261 GW of the windows of K.

    Even those windows let 1 h and 3 h add up to 4 h; with K of all durations by the rule of `Surface.at`, none do.
    """
    chained = size(three_bus.with_fleet(**KNOWN, recovery=0), mip_rel_gap=1e-6)
    windows = size(three_bus.with_fleet(**KNOWN, form="windows"))
    paused = size(three_bus.with_fleet(**KNOWN, recovery=1), mip_rel_gap=1e-6)
    assert chained / 1e3 == pytest.approx(1.2213, abs=6e-5)
    assert windows == pytest.approx(chained, rel=1e-6)
    assert paused >= chained * (1 - 1e-6)


def test_two_calls_of_one_hour_are_no_call_of_two() -> None:
    # Two tight hours: 100 MW load, 99 and 99 MW of room. K of 2 h (1 %) carries 100; K of 1 h (5 %) must not.
    table: Case = {"room": np.array([200.0, 99.0, 99.0, 200.0]), "surface": {1: 0.05, 2: 0.01}, "peak": 1.0}
    cases = [table | {"recovery": 0}, table | {"recovery": 1}, table | {"form": "windows"}]
    np.testing.assert_allclose(sizes(cases, range(4)), 100.0, rtol=1e-6)


# --- closed form of the screen, Sec. 4 of the design, on random hours; one network has a bus for each random case

HOURS = 9
FEW = settings(max_examples=2, phases=[Phase.generate])
"""Each example is a network with many cases, and takes seconds; shrinking it would take minutes."""
Case = dict[str, object]


def sizes(cases: list[Case], snapshots: object = None, hours: object = 1.0) -> np.ndarray:
    """Sizes of fleets on buses of their own, each with `room` and the terms of a case."""
    n = pypsa.Network(snapshots=range(HOURS) if snapshots is None else snapshots)
    n.snapshot_weightings.loc[:, :] = np.broadcast_to(np.asarray(hours, dtype=float), len(n.snapshots))[:, None]
    n.add("Carrier", "AC")
    for number, case in enumerate(cases):
        terms = dict(case)
        room = np.asarray(terms.pop("room"), dtype=float)
        n.add("Bus", f"b{number}", carrier="AC")
        top = max(room.max(), 1.0)
        n.add("Generator", f"g{number}", bus=f"b{number}", carrier="AC", p_nom=top, p_max_pu=room / top)
        free = {"p_nom_extendable": True, "p_nom_max": most(room), "capital_cost": -1.0}
        n.aidc.add_fleet(f"f{number}", bus=f"b{number}", **free | terms)  # type: ignore[arg-type]
    result = n.aidc.optimize(**TIGHT)
    assert result.optimal
    assert result.audit is not None
    assert result.audit.passed
    return n.generators.loc[[f"f{number}" for number in range(len(cases))], "p_nom_opt"].to_numpy()


def most(room: np.ndarray) -> float:
    return 3 * float(np.max(room)) + 10


@st.composite
def screens(draw: st.DrawFn) -> Case:
    """Room, load and relief with ties, relief above load before it is cut, and budgets of no hour to all."""
    s = np.array([draw(st.sampled_from([0.25, 0.5, 0.75, 1.0])) for _ in range(HOURS)])
    c = np.array([draw(st.sampled_from([0.0, 0.25, 0.5, 1.0])) for _ in range(HOURS)])
    room = np.array([draw(st.integers(0, 40)) for _ in range(HOURS)], dtype=float)
    return {"room": room, "profile": s, "relief": np.minimum(c, s), "hours": draw(st.integers(0, HOURS)) + 0.5}


def closed_form(case: Case, budget: bool) -> float:
    """L* = max(0, min(min over s > c of H/(s − c), the (floor(B) + 1)-th smallest of H/s)), up to the largest asked."""
    room, s, c = (np.asarray(case[name]) for name in ("room", "profile", "relief"))
    firm = np.min(np.append(room[s > c] / (s - c)[s > c], most(room)))
    ranked = np.append(np.sort(room / s), np.inf)[int(case["hours"])] if budget else np.inf  # type: ignore[call-overload]
    return float(max(0.0, min(firm, ranked)))


@FEW
@given(st.lists(screens(), min_size=8, max_size=12))
def test_relief_along_a_path_is_the_closed_form(cases: list[Case]) -> None:
    expected = [closed_form(case, budget=True) for case in cases]
    np.testing.assert_allclose(sizes(cases), expected, rtol=1e-6, atol=1e-5)


@FEW
@given(st.lists(screens(), min_size=8, max_size=12))
def test_without_a_budget_it_is_the_closed_form_to_the_last_digits(cases: list[Case]) -> None:
    expected = [closed_form(case, budget=False) for case in cases]
    np.testing.assert_allclose(sizes([case | {"hours": None} for case in cases]), expected, rtol=1e-9, atol=1e-9)


# --- calls by duration against the shortest path


@st.composite
def call_cases(draw: st.DrawFn) -> Case:
    room = np.array([draw(st.integers(50, 120)) for _ in range(HOURS)], dtype=float)
    s = np.array([draw(st.sampled_from([0.8, 0.9, 1.0])) for _ in range(HOURS)])
    durations = sorted(draw(st.sets(st.sampled_from([1, 2, 3, 4]), min_size=1, max_size=3)))
    depths = sorted((draw(st.sampled_from([0.0, 0.1, 0.2, 0.3, 0.5])) for _ in durations), reverse=True)
    case: Case = {"room": room, "profile": s, "surface": dict(zip(durations, depths, strict=True)), "peak": 1.0}
    return case | {
        "recovery": draw(st.integers(1, 3)),
        "hours": draw(st.integers(0, 8)),
        "events": draw(st.integers(0, 3)),
    }


def by_path(case: Case) -> tuple[object, ...]:
    return tuple(case[name] for name in ("room", "profile", "surface", "recovery", "hours", "events"))


@FEW
@given(st.lists(call_cases(), min_size=8, max_size=12))
def test_calls_are_the_shortest_path(cases: list[Case]) -> None:
    expected = [min(largest_size(*by_path(case)), most(case["room"])) for case in cases]  # type: ignore[arg-type]
    np.testing.assert_allclose(sizes(cases), expected, rtol=1e-6)


@FEW
@given(st.lists(call_cases(), min_size=8, max_size=12), st.floats(0.9, 0.9999))
def test_given_sizes_fit_where_the_shortest_path_says(cases: list[Case], share: float) -> None:
    given_sizes = [share * largest_size(*by_path(case)) for case in cases]  # type: ignore[arg-type]
    assert all(fits(size, *by_path(case)) for size, case in zip(given_sizes, cases, strict=True))  # type: ignore[arg-type]
    fixed = {"p_nom_extendable": False, "p_nom_max": np.inf, "capital_cost": 0.0, "marginal_cost": 1.0}
    sizes([case | fixed | {"p_nom": value} for case, value in zip(cases, given_sizes, strict=True)])


def test_a_size_that_does_not_fit_is_told_what_would() -> None:
    # One call of 4 h a day: 90 / (1 − 0.1) = 100 MW fit. Without the budget both tight spells can be called.
    room = np.array([200.0, 90.0, 200.0, 200.0, 200.0, 200.0, 80.0, 200.0, 200.0])
    terms: Case = {"profile": 1.0, "surface": {1: 0.1}, "peak": 1.0, "recovery": 2, "events": 1, "marginal_cost": 1.0}
    assert largest_size(room, np.ones(HOURS), {1: 0.1}, 2, np.inf, 1) == pytest.approx(80 / 0.9)
    n = one_bus(room, **terms, p_nom=95.0)
    with pytest.raises(aidc.InfeasibleError, match=r"fleet 'f': 95 MW do not fit \(calls of 1 h, 10 % deep") as caught:
        n.aidc.optimize(**TIGHT)
    assert "at most 88.8889 MW do on these terms" in caught.value.explanation
    n = one_bus(room + np.where(room < 85, 10, 0), **terms, p_nom=95.0)
    with pytest.raises(aidc.InfeasibleError, match="at most 90 MW do on these terms; 95 MW or more without limits"):
        n.aidc.optimize(**TIGHT)


# --- laws


@settings(FEW, max_examples=1)
@given(st.lists(call_cases(), min_size=5, max_size=6), st.sampled_from([2, 3]))
def test_more_k_is_no_less_headroom(cases: list[Case], which: int) -> None:
    """And K at all is no less than none; in calls and in windows."""
    for form in ("calls", "windows"):
        left_out = {} if form == "calls" else {"recovery": None, "hours": None, "events": None}
        plain = [case | left_out | {"form": form} for case in cases]
        more = [
            case | {"surface": {h: min(K + 0.1, 1.0) if h <= which else K for h, K in case["surface"].items()}}  # type: ignore[attr-defined]
            for case in plain
        ]
        less, enough = sizes(plain), sizes(more)
        firm = [float(np.min(case["room"] / case["profile"])) for case in cases]  # type: ignore[operator]
        assert (enough >= less * (1 - 1e-7)).all()
        assert (less >= np.array(firm) * (1 - 1e-7)).all()


def test_relief_is_never_more_than_the_load() -> None:
    # At s = 0.1 a call of depth 0.5 sheds at most a tenth: 10 MW of room carry any size only where nothing is drawn.
    n = one_bus(np.array([100.0, 10.0, 100.0]), profile=[1.0, 0.1, 1.0], surface={1: 0.5}, peak=1.0, recovery=1)
    assert size(n) == pytest.approx(100.0)
    assert (n.generators_t.p["f relief"] <= n.generators_t.p["f"] + 1e-7).all()


def test_the_fraction_realised_scales_k() -> None:
    room = np.full(HOURS, 200.0)
    room[4] = 90.0
    cases: list[Case] = [{"room": room, "surface": {1: 0.2}, "peak": 1.0, "q": q} for q in (0.0, 0.5, 1.0)]
    np.testing.assert_allclose(sizes(cases), [90.0, 100.0, 112.5])  # 90 / (1 − 0.2 q)


def test_budgets_by_calendar_year() -> None:
    # One tight hour on either side of new year: one event a year carries both, one event in all does not.
    room = np.array([200.0, 90.0, 200.0, 200.0, 200.0, 200.0, 90.0, 200.0])
    cases: list[Case] = [
        {"room": room, "surface": {1: 0.1}, "peak": 1.0, "per": per, budget: 1}
        for per in ("year", "horizon")
        for budget in ("events", "hours")
    ]
    cases += [{"room": room, "relief": 0.1, "per": per, "hours": 1} for per in ("year", "horizon")]
    found = sizes(cases, pd.date_range("2029-12-31 20:00", periods=8, freq="h"))
    np.testing.assert_allclose(found, [100.0, 100.0, 90.0, 90.0, 100.0, 90.0])
    with pytest.raises(aidc.InputError, match="dates as snapshots"):
        one_bus(room, surface={1: 0.1}, peak=1.0, per="year", events=1)


def test_two_hour_snapshots_count_in_hours() -> None:
    # Row 5. K of 1 h does not carry a 2-h snapshot; K of 2 h does, and takes two hours of the budget.
    room = np.array([200.0, 90.0, 200.0, 200.0])
    common: Case = {"room": room, "peak": 1.0}
    cases: list[Case] = [
        common | {"surface": {2: 0.1}, "hours": 2},
        common | {"surface": {2: 0.1}, "hours": 1},
        common | {"surface": {1: 0.3, 2: 0.1}, "hours": 2},
        common | {"surface": {1: 0.3, 2: 0.1}, "form": "windows"},
        common | {"surface": {1: 0.3}, "form": "windows"},
        {"room": room, "relief": 0.1, "hours": 1},
    ]
    dates = pd.date_range("2030", periods=4, freq="2h")
    np.testing.assert_allclose(sizes(cases, dates, 2.0), [100.0, 90.0, 100.0, 100.0, 90.0, 90.0])
    with pytest.raises(aidc.InputError, match="fits into 8 h of snapshots of 2 h"):
        sizes([common | {"surface": {1: 0.3}}], dates, 2.0)


def test_snapshots_of_different_length() -> None:
    # 1 h and 3 h: a call of 4 h spans both, one of 1 h only the first; relief in both only as deep as 4 h.
    common: Case = {"room": np.array([200.0, 90.0, 90.0, 200.0]), "peak": 1.0, "surface": {1: 0.5, 4: 0.1}}
    cases = [common | {"form": form} for form in ("calls", "windows")]
    np.testing.assert_allclose(sizes(cases, range(4), [1.0, 1.0, 3.0, 1.0]), [100.0, 100.0])
