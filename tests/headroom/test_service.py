"""The service study against all rows of a second formulation, PyPSA's own security, enumeration, and headroom."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pypsa
import pytest
from scipy.optimize import linprog

from pypsa_aidc.errors import InputError
from pypsa_aidc.headroom import Budget, Contingency, Ratings, Request, ServiceStudy, Upgrade
from pypsa_aidc.headroom.service.allocation import Hours, Terms, _Model, within_budget
from pypsa_aidc.headroom.service.limits import Rows
from pypsa_aidc.headroom.service.replay import delivered
from pypsa_aidc.headroom.service.request import Relief
from pypsa_aidc.plots.bus_map import plot_sizes
from pypsa_aidc.report import service_report
from pypsa_aidc.training import Mode, Rules, TrainingLoad
from tests.headroom.grids import random_grid, solved, spare_weights
from tests.labelled import assert_labelled

BUSES = ("b0", "b3", "b4")
TOTAL = 1e3


def batch(**terms: object) -> list[Request]:
    """Three requests that are too large."""
    return [Request(name=f"at {bus}", bus=bus, nameplate=TOTAL, **terms) for bus in BUSES]  # type: ignore[arg-type]


def flown(seed: int, buses: int = 7, hours: int = 3) -> pypsa.Network:
    """A random grid whose ratings leave room in every outage."""
    n = random_grid(seed, buses, hours)
    n.lpf()
    for kind in ("Line", "Transformer"):
        n.c[kind].static["s_nom"] *= 2.5 if kind == "Line" else 1.0
        if kind == "Transformer":
            n.c[kind].static["s_max_pu"] = 2.5
    return n


def every_row(
    n: pypsa.Network, outages: Sequence[Sequence[tuple[str, str]]]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Factors (R, I), room (R,) and hour of each row, from power flows that know no distribution factors."""
    n.calculate_dependent_values()
    table = pd.concat({kind: n.c[kind].static for kind in ("Line", "Transformer")})
    flow = pd.concat({kind: n.c[kind].dynamic["p0"] for kind in ("Line", "Transformer")}, axis=1)[table.index]
    rating = (table["s_nom"] * table["s_max_pu"]).to_numpy()
    shift = np.radians(table["phase_shift"].fillna(0.0).to_numpy())
    susceptance = 1 / table["x_pu_eff"].to_numpy()
    incidence = np.zeros((len(n.buses), len(table)))
    incidence[n.buses.index.get_indexer(table["bus0"]), np.arange(len(table))] = 1.0
    incidence[n.buses.index.get_indexer(table["bus1"]), np.arange(len(table))] -= 1.0
    weights, spare = spare_weights(n)
    factors, rooms, hours = [], [], []
    for outage in ((), *outages):
        there = np.array([key not in outage for key in table.index])
        laplacian = (incidence[:, there] * susceptance[there]) @ incidence[:, there].T
        if np.linalg.matrix_rank(laplacian) < len(n.buses) - 1:
            continue
        inverse = np.linalg.pinv(laplacian)
        for t, snapshot in enumerate(n.snapshots):
            injected = incidence @ flow.loc[snapshot].to_numpy()
            pushed = incidence[:, there] @ (susceptance * shift)[there]
            angle = inverse @ (injected + pushed)
            flows = susceptance[there] * (incidence[:, there].T @ angle - shift[there])
            change = np.zeros((len(BUSES), there.sum()))
            for load, bus in enumerate(BUSES):
                moved = weights.loc[snapshot].to_numpy().copy()
                moved[n.buses.index.get_loc(bus)] -= 1.0
                change[load] = susceptance[there] * (incidence[:, there].T @ (inverse @ moved))
            for sign in (1.0, -1.0):
                factors.append(sign * change.T)
                rooms.append(rating[there] - sign * flows)
                hours.append(np.full(there.sum(), t))
            if not outage:
                factors.append(np.ones((1, len(BUSES))))
                rooms.append(np.array([spare[snapshot]]))
                hours.append(np.array([t]))
    return np.concatenate(factors), np.concatenate(rooms), np.concatenate(hours)


def outages_of(n: pypsa.Network) -> list[list[tuple[str, str]]]:
    """Each branch, and one pair."""
    singles = [[("Line", name)] for name in n.lines.index] + [[("Transformer", "pst")]]
    return [*singles, [("Line", n.lines.index[0]), ("Line", n.lines.index[-1])]]


def largest(factor: np.ndarray, room: np.ndarray, fairness: str) -> np.ndarray:
    """Sizes by plain linear programmes over all rows."""
    count = factor.shape[1]
    if fairness == "largest sum":
        found = linprog(-np.ones(count), A_ub=factor, b_ub=room, bounds=[(0, TOTAL)] * count)
        return np.array(found.x)
    if fairness == "queue":
        sizes = np.zeros(count)
        for load in range(count):
            cost = -np.eye(count)[load]
            bounds = [(size, size) for size in sizes[:load]] + [(0, TOTAL)] + [(0, 0)] * (count - load - 1)
            sizes[load] = linprog(cost, A_ub=factor, b_ub=room + 1e-9, bounds=bounds).x[load]
        return sizes
    tied = np.hstack([-np.eye(count), np.full((count, 1), TOTAL)])
    share = linprog(
        -np.eye(count + 1)[count],
        A_ub=np.vstack([np.hstack([factor, np.zeros((len(room), 1))]), tied]),
        b_ub=np.r_[room, np.zeros(count)],
        bounds=[(0, TOTAL)] * count + [(0, 1)],
    )
    return np.array([TOTAL * share.x[count]])


def sizes(study: ServiceStudy, column: str = "firm", dispatch: str = "fixed") -> np.ndarray:
    return study.allocation.xs(dispatch, level="dispatch")[column].to_numpy(float)


@pytest.mark.parametrize(("seed", "counterflow"), [(0, False), (3, True)])
def test_joint_sizes_are_those_of_all_rows(seed: int, counterflow: bool) -> None:
    """Each fairness against plain linear programmes; draws of cut loads break no row either."""
    n = flown(seed, buses=6 + seed)
    outages = outages_of(n)
    factor, room, hours = every_row(n, outages)
    factor = factor if counterflow else np.maximum(factor, 0.0)
    options = {"contingencies": [Contingency(tuple(each)) for each in outages], "counterflow": counterflow}
    for fairness in ("queue", "pro rata", "largest sum"):
        study = n.aidc.study(batch(), fairness=fairness, redispatch=False, **options)
        found, expected = sizes(study), largest(factor, room, fairness)
        assert (factor @ found <= room + 1e-5).all()
        if fairness == "queue":
            np.testing.assert_allclose(found, expected, atol=1e-5)
        elif fairness == "pro rata":
            assert found.min() == pytest.approx(expected[0], abs=1e-4)
        else:
            assert found.sum() == pytest.approx(expected.sum(), abs=1e-4)
        cut = n.aidc.study(batch(budget=Budget(hours=1)), fairness=fairness, redispatch=False, **options)
        alike = np.tile(sizes(cut, "conditional"), (len(n.snapshots), 1))
        draws = pd.DataFrame(alike, n.snapshots, [each.name for each in batch()])
        for (_, name, _, snapshot), row in cut.replay.iterrows():
            draws.loc[snapshot, name] -= row["cut"]
        used = np.einsum("ri,ri->r", factor, draws.to_numpy()[hours])
        assert (used <= room + 1e-3).all()
        assert (cut.allocation["hours"] <= 1).all()
        assert (sizes(cut, "conditional") >= found - 1e-4).all()
        assert sizes(cut, "conditional").sum() > found.sum()


def test_one_load_alone_is_headroom() -> None:
    """Without redispatch and with it, firm and with relief by duration, in every fairness."""
    n = flown(1)
    n.remove("StorageUnit", "s")
    n.generators_t.p_set = n.generators_t.p_set.iloc[:, :0]
    n.generators["marginal_cost"] = np.arange(len(n.generators)) + 1.0
    solved(n)
    contract = {1: 0.2, 3: 0.1}
    bus = BUSES[1]
    request = [Request(name="one", bus=bus, nameplate=TOTAL, contract=contract)]
    for fairness, dispatch, redispatch in (("queue", "fixed", False), ("pro rata", "redispatch", True)):
        study = n.aidc.study(request, contingencies="all", fairness=fairness, redispatch=redispatch)
        for column, relief in (("firm", None), ("conditional", contract)):
            alone = n.aidc.headroom([bus], contingencies="all", redispatch=redispatch, contract=relief)
            assert sizes(study, column, dispatch)[0] == pytest.approx(alone.headroom[bus], rel=1e-5, abs=1e-5)


def test_redispatch_is_the_security_constrained_optimum() -> None:
    """The largest sum against PyPSA's own optimisation with draws of free size."""
    n = flown(2)
    n.remove("StorageUnit", "s")
    n.generators_t.p_set = n.generators_t.p_set.iloc[:, :0]
    outages = [("Line", name) for name in n.lines.index if name != f"{len(n.buses) - 2}-{len(n.buses) - 1}"]
    q = n.copy()
    names = [f"draw at {bus}" for bus in BUSES]
    free = {"p_nom_extendable": True, "p_nom_max": TOTAL, "p_min_pu": 1.0, "capital_cost": -1.0}
    q.add("Generator", names, bus=list(BUSES), sign=-1, **free)
    secure = pd.MultiIndex.from_tuples(outages)
    ended = q.optimize.optimize_security_constrained(branch_outages=secure, log_to_console=False, progress=False)
    assert ended == ("ok", "optimal")
    n.generators["marginal_cost"] = 1.0
    solved(n)
    study = n.aidc.study(batch(), contingencies=outages, fairness="largest sum", overloads="worsened")
    expected = q.generators.loc[names, "p_nom_opt"].sum()
    assert sizes(study, dispatch="redispatch").sum() == pytest.approx(expected, rel=1e-6)


def test_monotone() -> None:
    """More hours, longer events, more relief and more of a rating never make the sum smaller."""
    n = flown(4)
    common = {"contingencies": "all", "fairness": "largest sum", "redispatch": False}

    def total(column: str = "conditional", **terms: object) -> float:
        return float(sizes(n.aidc.study(batch(**terms), **common), column).sum())

    budgets = [
        total(budget=Budget(hours=hours, longest=longest)) for hours, longest in ((1, 1), (2, 1), (2, 2), (3, 2))
    ]
    assert (np.diff(budgets) >= -1e-3).all()
    reliefs = [total(contract=contract) for contract in ({1: 0.1}, {1: 0.2, 2: 0.1})]
    assert (np.diff(reliefs) >= -1e-3).all()
    before = total("firm")
    n.lines["s_nom"] *= 1.1
    assert total("firm") >= before - 1e-3


@pytest.mark.parametrize("seed", range(6))
def test_size_within_a_budget_is_that_of_enumeration(seed: int) -> None:
    """Every size between the rooms of the hours, one after another, until one breaks the budget."""
    rng = np.random.default_rng(seed)
    room = rng.integers(1, 12, 24).astype(float)
    first = np.zeros(24, dtype=bool)
    first[[0, 13]] = True
    hours = Hours(rng.choice([1.0, 2.0], 24), 1.0, first)
    budget = Budget(hours=int(rng.integers(2, 15)), longest=2, events=int(rng.integers(1, 3)), depth=0.75)

    def allowed(size: float) -> bool:
        cut = room < size - 1e-9
        runs = [0]
        events = 0
        for t in range(24):
            grows = cut[t] and runs[-1] > 0 and not first[t]
            events += bool(cut[t] and not grows)
            runs.append(runs[-1] + 1 if grows else int(cut[t]))
        deep = (size - room.min()) / size <= 0.75 + 1e-9
        inside = hours.weight[cut].sum() <= (budget.hours or 0) and events <= (budget.events or 0)
        return bool(deep and inside and max(runs) <= 2)

    found = within_budget(room, 20.0, budget, hours)
    steps = np.arange(0.05, 20.0001, 0.05)
    largest_step = 0.0
    for size in steps:
        if not allowed(float(size)):
            break
        largest_step = float(size)
    assert largest_step == pytest.approx(found, abs=0.0501)


def two_lines(load: Sequence[float] = (60.0, 90.0, 60.0, 60.0)) -> pypsa.Network:
    """Two lines of 100 MW from a generator to a load."""
    n = pypsa.Network(snapshots=pd.date_range("2030-07-01", periods=len(load), freq="h"))
    n.add("Bus", ["A", "B"], v_nom=230.0, x=[0.0, 1.0], y=[0.0, 0.5])
    n.add("Line", ["1", "2"], bus0="A", bus1="B", x=0.1, s_nom=100.0)
    n.add("Generator", ["G", "H"], bus="A", p_nom=[200.0, 150.0])
    n.generators_t.p_set = pd.DataFrame({"G": load, "H": 0.0}, n.snapshots)
    n.add("Load", "L", bus="B", p_set=list(load))
    return n


def test_outages_ratings_and_replay_by_hand() -> None:
    """One line left of 100 MW: 10 MW at 90 MW of load. Loss of G, which feeds 60 to 90 MW, leaves 150 − 90 of H."""
    n = two_lines()
    request = Request(
        name="one", bus="B", nameplate=50.0, budget=Budget(hours=1, longest=1), contract={1: 0.5}, power_factor=0.8
    )
    row = n.aidc.study([request], contingencies="all").allocation.loc[("", "one", "fixed")]
    assert row[["firm", "conditional", "hours", "events", "energy"]].tolist() == pytest.approx([10, 40, 1, 1, 30])
    # K covers half of the size; the remaining 10 MW are told.
    assert row[["delivered", "undelivered", "not_delivered", "mvar"]].tolist() == pytest.approx([20, 10, 10, 30])
    assert row["outage"] in ("Line 1", "Line 2")
    lost = n.aidc.study(
        [Request(name="one", bus="B", nameplate=500.0)], contingencies=[("Generator", "G"), Contingency(("1", "2"))]
    )
    # Both lines are the whole cut: no power flow, said in a note. With redispatch H has 150 MW in reserve for G.
    assert sizes(lost)[0] == pytest.approx(60)
    assert sizes(lost, dispatch="redispatch")[0] == pytest.approx(60)
    assert "Line 1 + Line 2" in " ".join(lost.notes)
    season = Ratings(season={7: 0.9}, emergency={0.25: 1.5, 4: 1.2}, outage_hours=1)
    firm = n.aidc.study([request], contingencies="all", ratings=season).allocation["firm"]
    assert firm.tolist() == pytest.approx([100 * 0.9 * 1.2 - 90] * 2)


def test_a_budget_of_all_hours_is_told() -> None:
    """Four hours studied: a budget of four lets a load be cut in each of them, one of three does not."""
    n = two_lines()
    for hours, told in ((4, True), (3, False)):
        request = [Request(name="one", bus="B", nameplate=50.0, budget=Budget(hours=hours))]
        notes = n.aidc.study(request, contingencies="all", redispatch=False).notes
        assert any("budget of one" in note for note in notes) == told


def test_upgrades_make_all_firm() -> None:
    """What the study says is missing is built; then every nameplate is firm, both ways, and nothing is missing."""
    n = two_lines()
    request = [Request(name="one", bus="B", nameplate=50.0)]
    costs = {"Line 1": 100.0, "Line": 200.0}
    study = n.aidc.study(request, contingencies="all", unit_costs=costs)
    for dispatch in ("fixed", "redispatch"):
        needed = study.upgrades.xs(dispatch, level="dispatch")
        assert needed.loc[("", "Line 1"), ["megawatts", "cost"]].tolist() == pytest.approx([40.0, 4000.0])
        assert needed.loc[("", "Line 2"), ["megawatts", "cost"]].tolist() == pytest.approx([40.0, 8000.0])
    built = [Upgrade("1", 2031, 40.0), Upgrade("2", 2031, 40.0)]
    later = n.aidc.study(request, contingencies="all", years=[2030, 2031], upgrades=built)
    assert later.allocation["firm"].tolist() == pytest.approx([10.0, 10.0, 50.0, 50.0])
    assert set(later.upgrades.index.get_level_values("year")) == {2030}


def test_a_base_case_that_breaks_limits_itself_is_named_and_mended() -> None:
    """120 MW after an outage over a line of 100 MW: nothing fits with redispatch, and 50 MW more need 70 of each."""
    n = two_lines((60.0, 120.0))
    request = [Request(name="one", bus="B", nameplate=50.0)]
    costs = {"Line 1": 100.0, "Line": 200.0}
    study = n.aidc.study(request, contingencies="all", unit_costs=costs)
    row = study.allocation.loc[("", "one", "redispatch")]
    assert row["firm"] == 0
    assert (row["limiter"], row["outage"]) in {("base case: Line 1", "Line 2"), ("base case: Line 2", "Line 1")}
    assert any("1 snapshot no dispatch keeps all limits" in note and row["limiter"] in note for note in study.notes)
    needed = study.upgrades.xs("redispatch", level="dispatch").droplevel("year")
    assert needed["megawatts"].to_dict() == pytest.approx({"Line 1": 70.0, "Line 2": 70.0})
    assert needed["cost"].to_dict() == pytest.approx({"Line 1": 7e3, "Line 2": 14e3})
    built = [Upgrade("1", 2031, 70.0), Upgrade("2", 2031, 70.0)]
    later = n.aidc.study(request, contingencies="all", years=[2031], upgrades=built)
    assert later.allocation["firm"].tolist() == pytest.approx([50.0, 50.0])


def test_a_limit_without_any_load_is_no_crash() -> None:
    """A row may hold no load at all; the size is then that of the nameplate."""
    rows = Rows.of([(0, np.zeros(1), 5.0, 0.0, "Line 1", "")], 1)
    model = _Model(rows, np.array([7.0]), [Terms()], Hours(np.ones(2), 1.0, np.array([True, False])), np.zeros(1), {})
    assert model.maximise(np.ones(1))[0].tolist() == pytest.approx([7.0])


def test_years() -> None:
    """A third line from 2031 on, by `build_year` and as networks of each year; the nameplate grows."""
    n = two_lines()
    n.add("Line", "3", bus0="A", bus1="B", x=0.1, s_nom=100.0, build_year=2031)
    request = [Request(name="one", bus="B", nameplate={2030: 50.0, 2031: 80.0})]
    dated = n.aidc.study(request, contingencies="all", years=[2030, 2031], redispatch=False)
    assert dated.allocation["firm"].tolist() == pytest.approx([10.0, 80.0])
    networks = n.aidc.study(request, contingencies="all", years={2030: two_lines(), 2031: n}, redispatch=False)
    assert networks.allocation["firm"].tolist() == pytest.approx([10.0, 80.0])
    first = n.aidc.study(request, years=[2030], upgrades=[Upgrade("1", 2032, 5.0)], redispatch=False)
    told = [note for note in first.notes if "not studied" in note]
    assert [note.split(" is after")[0] for note in told] == ["nameplate of one in 2031", "Line 1 in 2032"]


def test_relief_delivers_what_its_windows_allow() -> None:
    hours = Hours(np.ones(6), 1.0, np.array([True, *[False] * 5]))
    cut = np.array([0.0, 5.0, 5.0, 5.0, 0.0, 5.0])
    relief = Relief(((1, 0.4), (2, 0.3)), longest=2.0)
    # 4 MW, then 6 MWh in two hours less 4, then longer than anything known.
    np.testing.assert_allclose(delivered(cut, 10.0, relief, hours), [0, 4, 2, 0, 0, 4])


def test_jobs_that_may_wait_are_relief() -> None:
    """A job of two hours in four has two to spare: a fifth of the size may wait, so that 10 MW become 10/0.8."""
    mode = Mode((1, 1, 8), gpus=8, flops_per_s=1e15, it_power=10.0)
    job = TrainingLoad("job", 2 * 3600 * 1e15, (mode,), Rules(segments=2))
    request = Request(name="one", bus="B", nameplate=50.0, jobs=[job])
    row = two_lines().aidc.study([request], contingencies="all", redispatch=False).allocation.iloc[0]
    assert row[["firm", "conditional", "energy", "undelivered"]].tolist() == pytest.approx([10.0, 12.5, 2.5, 0.0])


def test_what_is_wrong_is_refused_together() -> None:
    n = two_lines()
    wrong = [Request(name="one", bus="C", nameplate=1.0), Request(name="one", bus="B", nameplate=1.0)]
    with pytest.raises(InputError) as error:
        n.aidc.study(wrong, contingencies=["9", ("Bus", "A")], years=[2030, 2030], fairness="best", sizes={"x": 1.0})
    told = str(error.value)
    for word in ("'C'", "each name once", "'Line 9'", "'Bus'", "each year once", "'best'", "'x'"):
        assert word in told
    with pytest.raises(InputError) as error:
        n.aidc.study(wrong[:1], years={2030: n, 2031: None})
    assert "'C'" in str(error.value)
    assert "2031" in str(error.value)
    with pytest.raises(InputError) as error:
        Budget(hours=2, longest=4, events=3)
    assert len(error.value.faults) == 2


def test_sizes_that_are_given_are_replayed(tmp_path: Path) -> None:
    """The last of the queue is cut first; the report of it is the same each time."""
    n = two_lines()
    pair = [Request(name=name, bus="B", nameplate=30.0) for name in ("first", "second")]
    study = n.aidc.study(pair, contingencies="all", sizes={"first": 10.0, "second": 20.0}, redispatch=False)
    assert study.allocation["energy"].tolist() == pytest.approx([0.0, 20.0])
    written = [service_report(study, tmp_path / name, interactive=True).read_bytes() for name in ("a.html", "b.html")]
    assert written[0] == written[1]
    assert b"Line 2" in written[0]
    assert b"There is no map" in written[0]
    with pytest.raises(InputError, match=r"interactive.*\.html"):
        service_report(study, tmp_path / "a.xlsx", interactive=True)
    study.basis.networks[None].buses.loc[["A", "B"], ["x", "y"]] = [[8.0, 50.0], [9.0, 51.0]]
    service_report(study, tmp_path / "placed.html", interactive=True)
    page = (tmp_path / "placed.html").read_text()
    assert "conditional megawatts (MW)" in page
    assert "There is no map" not in page
    texts = [text.get_text() for text in assert_labelled(plot_sizes(study)).axes[0].texts]
    assert "first: 10 MW" in texts
    assert study.cut("second")["cut"].tolist() == pytest.approx([0.0, 20.0, 0.0, 0.0])


def test_investment_periods_are_networks_of_their_years() -> None:
    """Lines of 100 MW, a third one in the second period: with one out 100 − 90 MW are left, and then 200 − 90."""
    year, later = two_lines(), two_lines()
    later.add("Line", "3", bus0="A", bus1="B", x=0.1, s_nom=100.0)
    n = pypsa.Network()
    n.set_snapshots(pd.MultiIndex.from_product([[2030, 2035], year.snapshots], names=["period", "timestep"]))
    n.investment_periods = [2030, 2035]
    n.add("Bus", ["A", "B"], v_nom=230.0, x=[0.0, 1.0], y=[0.0, 0.5])
    for name, built in (("1", 2000), ("2", 2000), ("3", 2033)):
        n.add("Line", name, bus0="A", bus1="B", x=0.1, s_nom=100.0, build_year=built, lifetime=50.0)
    load = np.tile(year.generators_t.p_set["G"].to_numpy(), 2)
    n.add("Generator", ["G", "H"], bus="A", p_nom=[200.0, 150.0])
    n.generators_t.p_set = pd.DataFrame({"G": load, "H": 0.0}, n.snapshots)
    n.add("Load", "L", bus="B", p_set=load)
    request = [Request(name="a", bus="B", nameplate=400.0)]
    periods = n.aidc.study(request, contingencies="all")
    networks = year.aidc.study(request, years={2030: year, 2035: later}, contingencies="all")
    columns = ["firm", "conditional", "limiter", "outage"]
    pd.testing.assert_frame_equal(periods.allocation[columns], networks.allocation[columns])
    assert periods.allocation.xs("fixed", level="dispatch")["firm"].tolist() == pytest.approx([10.0, 110.0])
