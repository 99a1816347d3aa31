"""Rolling horizons: one window is the single solve, segments add up, and no foresight is no cheaper."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pypsa
import pytest

import pypsa_aidc as aidc
from pypsa_aidc.errors import InputError, StaleError, UnsupportedError
from tests.network.tiny import QUIET, grid, site

HOURS = 10


def random_case(seed: int) -> pypsa.Network:
    """A bus with wind, a costly plant and a battery, and a site with two jobs that remember and share a pool."""
    rng = np.random.default_rng(seed)
    n = pypsa.Network(snapshots=pd.date_range("2030-01-01", periods=HOURS, freq="h"))
    n.add("Carrier", ["AC", "wind", "gas", "battery"])
    n.add("Bus", "grid", carrier="AC")
    n.add("Generator", "wind", bus="grid", carrier="wind", p_nom=4.0, p_max_pu=rng.integers(0, 5, HOURS) / 4)
    n.add("Generator", "gas", bus="grid", carrier="gas", p_nom=20.0, marginal_cost=rng.integers(10, 90, HOURS) * 1.0)
    n.add("StorageUnit", "battery", bus="grid", carrier="battery", p_nom=1.0, max_hours=2, efficiency_store=0.9)
    jobs = []
    for name in ("A", "B"):
        segments = int(rng.integers(1, 4))
        modes = tuple(
            aidc.training.Mode((1, 1, gpus), gpus, speed * 1e15, power)
            for gpus, speed, power in ((2, 1.0, 0.5), (4, 2.0, 1.2))
        )
        rules = aidc.Rules(
            segments=segments,
            restart_hours=rng.choice([0.0, 0.4]),
            restart_energy=rng.choice([0.0, 0.1]),
            min_run=rng.choice([0.0, 2.0]),
            mode_changes=str(rng.choice(["free", "after_wait"])),
        )
        jobs.append(aidc.TrainingLoad(name, segments * 1.5 * 3.6e18, modes, rules, deadline=float(HOURS)))
    n.aidc.add("dc", bus="grid", gpus=6, jobs=jobs, pue=1.25, base_load=0.2)
    return n


def cost(n: pypsa.Network) -> float:
    return float(n.aidc.costs()["cost"].sum())


@pytest.mark.parametrize("seed", range(2))
def test_one_window_is_the_single_solve(seed: int) -> None:
    once, rolled = random_case(seed), random_case(seed)
    result = once.aidc.optimize(**QUIET)
    windows = rolled.aidc.optimize_with_rolling_horizon(horizon=HOURS, **QUIET)
    assert windows.windows["objective"].tolist() == pytest.approx([result.objective], abs=1e-4)
    assert cost(rolled) == pytest.approx(cost(once), abs=1e-4)
    assert windows.audit
    pd.testing.assert_frame_equal(rolled.buses_t.marginal_price, once.buses_t.marginal_price, atol=1e-4)


@pytest.mark.parametrize("seed", [0, 2, 3])
def test_any_windows_finish_the_jobs_and_no_foresight_is_no_cheaper(seed: int) -> None:
    """With windows, overlaps and errors of the forecast of wind drawn at random."""
    rng = np.random.default_rng(100 + seed)
    n, actual = random_case(seed), None
    horizon = int(rng.integers(2, HOURS))
    overlap = int(rng.integers(0, horizon))
    if seed % 2:
        wind = pd.DataFrame({"wind": rng.integers(0, 5, HOURS) / 4}, n.snapshots)
        actual = {("Generator", "p_max_pu"): wind}
    result = n.aidc.optimize_with_rolling_horizon(horizon=horizon, overlap=overlap, actual=actual, **QUIET)
    assert result.audit
    done = n.aidc.schedule().groupby("job")["segments"].sum()
    wanted = {job.name: job.rules.count for job in n.aidc.sites["dc"].loads.values()}
    assert done.to_dict() == wanted
    if actual is not None:
        np.testing.assert_array_equal(n.generators_t.p_max_pu["wind"], actual["Generator", "p_max_pu"]["wind"])
    rolled = cost(n)
    n.aidc.optimize(**QUIET)
    assert rolled >= cost(n) - 1e-6


def test_another_process_goes_on_where_one_stopped(tmp_path: Path) -> None:
    class StoppedError(Exception):
        pass

    def stop(n: pypsa.Network, row: object) -> None:
        n.export_to_netcdf(tmp_path / "half.nc")
        raise StoppedError

    whole, half = random_case(4), random_case(4)
    options = {"horizon": 4, "overlap": 1, "expected": 40.0, **QUIET}
    whole.aidc.optimize_with_rolling_horizon(**options)
    with pytest.raises(StoppedError):
        half.aidc.optimize_with_rolling_horizon(on_window=stop, **options)
    read = aidc.load(tmp_path / "half.nc")
    assert read.aidc.optimize_with_rolling_horizon(resume=True, **options).audit
    pd.testing.assert_frame_equal(read.aidc.schedule(), whole.aidc.schedule())
    np.testing.assert_allclose(read.generators_t.p[whole.generators.index], whole.generators_t.p, atol=1e-6)
    with pytest.raises(StaleError, match="without resume=True"):
        read.aidc.optimize_with_rolling_horizon(read.snapshots[:5], resume=True, horizon=3, **QUIET)


def test_expected_prices_decide_what_waits() -> None:
    """Two hours of work, a window of three dear hours at 50; what comes after is expected at 10 or at 90."""
    for expected, within in ((10.0, 0), (90.0, 2)):
        n = pypsa.Network(snapshots=range(6))
        n.add("Carrier", ["AC", "gas"])
        n.add("Bus", "grid", carrier="AC")
        n.add("Generator", "gas", bus="grid", carrier="gas", p_nom=9.0, marginal_cost=50.0)
        mode = aidc.training.Mode((1, 1, 8), 8, 1e15, 2.0)
        n.aidc.add("dc", bus="grid", gpus=8, jobs=[aidc.TrainingLoad("A", 7.2e18, (mode,), aidc.Rules(segments=2))])
        n.aidc.optimize_with_rolling_horizon(horizon=3, expected=expected, **QUIET)
        assert n.aidc.gpus()["dc", "A"].iloc[:3].sum() == 8 * within


def test_a_job_that_has_fallen_behind_is_told_with_the_cost_of_catching_up() -> None:
    """Four hours in a mode of 2 MW; three hours at 500 USD/MWh are left out, and of the other three two run at 4 MW."""
    n = site(grid(6, prices=[500.0] * 3 + [50.0] * 3), base_load=0.0, pue=1.0)
    result = n.aidc.optimize_with_rolling_horizon(horizon=3, expected=50.0, **QUIET)
    assert result.to_frame()[["done dc A", "behind dc A"]].to_numpy().tolist() == [[0.0, 0.5], [1.0, 0.0]]
    assert result.to_frame()["catch_up dc A"].tolist() == pytest.approx([(2 + 4 + 4 - 4 * 2) * 50.0, 0.0])
    assert result.behind == (
        "dc A is behind at 2030-01-01 02:00:00: 0% done where a steady pace has 50%; catching up is expected to cost "
        "100 USD",
    )


def fleet_case(seed: int) -> pypsa.Network:
    """A fleet with calls, with calls as blocks, or along a series with a budget; pauses and budgets at random."""
    rng = np.random.default_rng(seed)
    n = grid(12, prices=rng.integers(10, 90, 12) * 1.0)
    shape = {"profile": rng.integers(4, 10, 12) / 10, "surface": {1: 4.0, 2: 3.0, 4: 2.0}, "peak": 10.0}
    terms = {"recovery": float(rng.integers(1, 4)), "hours": (None, 5)[rng.integers(2)], "block": seed % 3 == 1}
    if seed % 3 == 2:
        shape = {"profile": 0.9, "relief": rng.integers(0, 4, 12) / 10}
        terms = {"hours": int(rng.integers(1, 5))}
    n.aidc.add_fleet("f", bus="grid", p_nom=10.0, marginal_cost=25.0, **shape, **terms)
    return n


@pytest.mark.parametrize(("seed", "horizon", "overlap"), [(4, 9, 0), (8, 7, 3)])
def test_calls_and_budgets_are_carried_over(seed: int, horizon: int, overlap: int, tmp_path: Path) -> None:
    """With the right prices expected, windows are as good as foresight, also in another process from a file."""
    once, rolled = fleet_case(seed), fleet_case(seed)
    once.aidc.optimize(**QUIET)
    options = {"horizon": horizon, "overlap": overlap, "expected": once.generators_t.marginal_cost["market"], **QUIET}
    file = tmp_path / "n.nc"
    result = rolled.aidc.optimize_with_rolling_horizon(
        on_window=lambda n, _: None if file.exists() else n.export_to_netcdf(file), **options
    )
    assert result.audit
    assert cost(rolled) == pytest.approx(cost(once))
    read = aidc.load(file)
    rest = read.aidc.optimize_with_rolling_horizon(resume=True, **options)
    assert len(rest.windows) == len(result.windows) - 1
    pd.testing.assert_frame_equal(read.aidc.calls(), rolled.aidc.calls())


def test_fleets_after_an_error_of_the_forecast() -> None:
    n = fleet_case(3)
    actual = {("Generator", "marginal_cost"): n.generators_t.marginal_cost[["market"]][::-1].set_axis(n.snapshots)}
    assert n.aidc.optimize_with_rolling_horizon(horizon=5, overlap=2, actual=actual, **QUIET).audit
    with pytest.raises(InputError, match="on_window: given 5"):
        n.aidc.optimize_with_rolling_horizon(horizon=5, on_window=5)


def test_what_cannot_be_rolled_is_refused() -> None:
    n = random_case(0)
    with pytest.raises(InputError, match=r"(?s)horizon.*overlap"):
        n.aidc.optimize_with_rolling_horizon(horizon=0, overlap=-1)
    with pytest.raises(InputError, match="less than horizon = 3"):
        n.aidc.optimize_with_rolling_horizon(horizon=3, overlap=3)
    ideal = [load.idealized() for load in n.aidc.sites["dc"].loads.values()]
    n.aidc.update("dc", jobs=ideal)
    with pytest.raises(UnsupportedError, match="without checkpoint continuity"):
        n.aidc.optimize_with_rolling_horizon(horizon=3)


@pytest.mark.parametrize(
    "actual",
    [
        ["wind"],
        {"Generator": 1.0},
        {("Generator", "p_max_pu"): pd.Series(1.0, range(HOURS), name="wind")},
        {("Generator", "p_max_pu"): 1.0},
        {("Generator", "p_max_pu"): "nan"},
        {("Generator", "p_max_pu"): "text"},
        {("Generator", "p_max_pu"): "twice"},
        {("Generator", "p_max_pu"): "digits"},
        {("Generator", "p_max_pu"): "infinite"},
        {("Generator", "p"): "output"},
    ],
)
def test_actual_values_that_are_none_are_refused(actual: object) -> None:
    n = random_case(0)
    wind = pd.DataFrame({"wind": 0.5}, n.snapshots)
    odd = {
        "nan": wind.mask(np.arange(HOURS)[:, None] < 2),
        "text": wind.astype(str) + " MW",
        "digits": wind.astype(str),
        "infinite": wind.replace(0.5, np.inf),
        "output": wind,
        "twice": wind.iloc[[0, *range(HOURS)]],
    }
    if isinstance(actual, dict):
        actual = {key: odd.get(value, value) if isinstance(value, str) else value for key, value in actual.items()}
    with pytest.raises(InputError, match="actual"):
        n.aidc.optimize_with_rolling_horizon(horizon=3, expected=5.0, actual=actual, **QUIET)


def test_whole_numbers_of_numpy_and_floats_are_windows() -> None:
    n = random_case(0)
    result = n.aidc.optimize_with_rolling_horizon(horizon=np.int64(HOURS), overlap=0.0, prices=False, **QUIET)
    assert len(result.windows) == 1
