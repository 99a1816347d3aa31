"""Adequacy against convolutions in closed form, published indices of a test system, and enumeration."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pypsa
import pytest
import typer
from typer.testing import CliRunner

from pypsa_aidc.cli.adequacy import adequacy as verb
from pypsa_aidc.cli.verb import offered
from pypsa_aidc.errors import InputError
from pypsa_aidc.headroom import adequacy, network_zones
from pypsa_aidc.headroom.capacity.units import draw_outages

# IEEE RTS Task Force, "IEEE Reliability Test System", IEEE Trans. PAS 98 (1979): MW, how many, MTTF and MTTR in h.
RTS_UNITS = (
    *((12, 5, 2940, 60), (20, 4, 450, 50), (50, 6, 1980, 20), (76, 4, 1960, 40), (100, 3, 1200, 50)),
    *((155, 4, 960, 40), (197, 3, 950, 50), (350, 1, 1150, 100), (400, 2, 1100, 150)),
)
RTS_PEAK = 2850.0
WEEKS = """86.2 90.0 87.8 83.4 88.0 84.1 83.2 80.6 74.0 73.7 71.5 72.7 70.4 75.0 72.1 80.0 75.4 83.7 87.0 88.0 85.6 81.1
90.0 88.7 89.6 86.1 75.5 81.6 80.1 88.0 72.2 77.6 80.0 72.9 72.6 70.5 78.0 69.5 72.4 72.4 74.3 74.4 80.0 88.1 88.5 90.9
94.0 89.0 94.2 97.0 100.0 95.2"""
DAYS = (93, 100, 98, 96, 94, 77, 75)
WINTER = (
    "67 63 60 59 59 60 74 86 95 96 96 95 95 95 93 94 99 100 100 96 91 83 73 63",
    "78 72 68 66 64 65 66 70 80 88 90 91 90 88 87 87 91 100 99 97 94 92 87 81",
)
SUMMER = (
    "64 60 58 56 56 58 64 76 87 95 99 100 99 100 100 97 96 96 93 92 92 93 87 72",
    "74 70 66 65 64 62 62 66 81 86 91 93 93 92 91 91 92 94 95 95 100 93 88 80",
)
BETWEEN = (
    "63 62 60 58 59 65 72 85 95 99 100 99 93 92 90 88 90 92 96 98 96 90 80 70",
    "75 73 69 66 65 65 68 74 83 89 92 94 91 90 90 86 85 88 92 100 97 95 90 85",
)


def rts_demand() -> pd.Series:
    """8,736 hours: weekly, daily and hourly peaks in per cent."""
    values = []
    for week, share in enumerate(map(float, WEEKS.split()), start=1):
        season = SUMMER if 18 <= week <= 30 else WINTER if week <= 8 or week >= 44 else BETWEEN
        for day, of_week in enumerate(DAYS):
            values += [RTS_PEAK * share * of_week * float(hour) / 1e6 for hour in season[day > 4].split()]
    return pd.Series(values, pd.date_range("2030-01-07", periods=len(values), freq="h"))


def rts_units() -> pd.DataFrame:
    rows = [(megawatts, up, down) for megawatts, count, up, down in RTS_UNITS for _ in range(count)]
    return pd.DataFrame(rows, columns=["p_nom", "mttf", "mttr"], index=[f"u{i}" for i in range(len(rows))])


def convolved(units: pd.DataFrame, demand: np.ndarray) -> tuple[float, float]:
    """LOLH and EUE by the table of outage probabilities, MW by MW."""
    table = np.ones(1)
    for row in units.itertuples():
        rate = row.mttr / (row.mttf + row.mttr)
        table = np.convolve(table, np.r_[1 - rate, np.zeros(int(row.p_nom) - 1), rate])
    # Above this many MW out, demand is not met.
    spare = units["p_nom"].sum() - demand
    first = np.floor(spare + 1e-9).astype(int) + 1
    tail = np.r_[np.cumsum(table[::-1])[::-1], 0.0]
    energy = np.r_[np.cumsum((table * np.arange(table.size))[::-1])[::-1], 0.0]
    return float(tail[first].sum()), float((energy[first] - spare * tail[first]).sum())


def test_the_reliability_test_system_has_its_published_indices() -> None:
    """9.394 h and 1,176 MWh a year: Billinton and Allan, Reliability Assessment of Large Electric Power Systems."""
    demand, units = rts_demand(), rts_units()
    hours, energy = convolved(units, demand.to_numpy())
    assert (hours, energy) == (pytest.approx(9.394, abs=2e-3), pytest.approx(1176, abs=1))
    found = adequacy(demand, units, load=100.0, resource=60.0, trials=250)
    row = found.table.loc["without the load"]
    assert abs(row["lolh"] - hours) < 3 * row["lolh_error"]
    assert abs(row["eue"] - energy) < 3 * row["eue_error"]
    with_load = convolved(units, demand.to_numpy() + 100.0)
    row = found.table.loc["with the load"]
    assert abs(row["lolh"] - with_load[0]) < 3 * row["lolh_error"]
    assert 0 < row["lolh_error"] < 0.1 * row["lolh"]
    # A unit without outages is worth its megawatts, and 100 MW of demand as many.
    assert found.elcc == pytest.approx(60.0, abs=1e-6)
    assert found.capacity == pytest.approx(100.0, abs=1e-6)
    assert found.replay["hours"] > row["lolh"] - 1e-9
    assert found.risk.sum() == pytest.approx(row["lolh"])


def test_outages_last_and_recur_as_their_means_say() -> None:
    trial, start, end = draw_outages(np.random.default_rng(1), 90.0, 10.0, 400, 2000)
    assert (end - start).sum() / (400 * 2000) == pytest.approx(0.1, abs=0.003)
    inner = (start > 0) & (end < 2000)
    assert (end - start)[inner].mean() == pytest.approx(10.0, rel=0.03)
    assert len(np.unique(trial)) == 400


def test_relief_is_worth_what_its_windows_allow() -> None:
    """One unit of 100 MW that is out, 24 hours of 100 MW of demand: relief of 40 MW for one hour, 10 MW over four."""
    hours = pd.date_range("2030-01-01", periods=24, freq="h")
    units = pd.DataFrame({"p_nom": [200.0, 100.0], "forced_outage_rate": [0.0, 0.5]}, ["safe", "old"])
    found = adequacy(
        pd.Series(200.0, hours), units, load=100.0, contract={1: 0.4, 4: 0.1}, mttr=1e6, trials=400, seed=3
    )
    out = found.table.at["with the load", "lole"]
    assert out == pytest.approx(0.5, abs=0.08)
    # An event of 24 hours: 40 MWh in the first four hours, and nothing beyond what K is known for.
    lost = found.table["eue"]
    assert lost["with the load"] == pytest.approx(2400 * out)
    assert lost["with the load and its relief"] == pytest.approx((2400 - 40) * out)
    assert found.elcc == pytest.approx(40 / 24)
    assert lost["without the load"] == 0
    assert found.replay["energy"] == pytest.approx(2400 * out)


def test_zones_share_what_transfer_allows() -> None:
    """Three zones in every state, against a linear programme of flows for each."""
    demand = pd.DataFrame({"a": [100.0], "b": [80.0], "c": [60.0]})
    units = pd.DataFrame(
        {"p_nom": [70.0, 70.0, 60.0, 50.0, 40.0], "zone": ["a", "a", "b", "b", "c"], "forced_outage_rate": 0.3},
        list("12345"),
    )
    transfer = {("a", "b"): 30.0, ("b", "c"): 15.0}
    n = pypsa.Network()
    n.add("Carrier", "AC")
    n.add("Bus", list("abc"), carrier="AC")
    n.add("Load", list("abc"), bus=list("abc"), p_set=demand.iloc[0].to_numpy())
    n.add("Generator", list("12345"), bus=units["zone"].to_numpy(), p_nom=units["p_nom"].to_numpy())
    n.add("Link", ["ab", "bc"], bus0=["a", "b"], bus1=["b", "c"], p_nom=[30.0, 15.0], p_min_pu=-1)
    read = network_zones(n, units[["forced_outage_rate"]], pd.Series(dict(zip("abc", "abc", strict=True))))
    assert read.transfer == transfer
    pd.testing.assert_frame_equal(read.units[units.columns], units, check_names=False, check_dtype=False)
    expected = 0.0
    for state in itertools.product((0, 1), repeat=5):
        capacity = (units["p_nom"] * np.array(state)).groupby(units["zone"]).sum()
        lack = demand.iloc[0] - capacity
        best = max(
            max(lack[list(chosen)].sum() - cut, 0.0)
            for chosen, cut in (
                *(("a", 30.0), ("b", 45.0), ("c", 15.0)),
                *(("ab", 15.0), ("bc", 30.0), ("ac", 45.0), ("abc", 0.0)),
            )
        )
        expected += best * 0.3 ** (5 - sum(state)) * 0.7 ** sum(state)
    options = {"zone": "a", "transfer": read.transfer, "mttr": 5.0, "trials": 20000}
    found = adequacy(read.demand, read.units, **options)
    row = found.table.loc["without the load"]
    assert abs(row["eue"] - expected) < 3 * row["eue_error"]
    assert row["eue_error"] < 0.02 * expected


def test_wrong_units_are_refused_together() -> None:
    units = pd.DataFrame({"p_nom": [10.0, -1.0], "forced_outage_rate": [1.5, 0.1]}, ["a", "b"])
    with pytest.raises(InputError) as error:
        adequacy(pd.Series([1.0, np.nan]), units, trials=1, zone="z")
    told = [fault.where for fault in error.value.faults]
    for name in ("demand", "zone", "trials", "units, b, p_nom", "units, a, forced_outage_rate", "units, b, mttr"):
        assert name in told


def test_the_verb_counts_units_and_no_aidc_of_a_network(tmp_path: Path) -> None:
    """Two of 50 MW, out one hour in ten: of 60 MW lack 10 with one out, 60 with both; of 80 MW 30 and 80."""
    n = pypsa.Network(snapshots=pd.date_range("2030-01-01", periods=48, freq="h"))
    n.add("Bus", "b")
    n.add("Generator", ["one", "two"], bus="b", p_nom=50.0, carrier="gas")
    n.add("Generator", "shedding", bus="b", p_nom=1e4, marginal_cost=1e4)
    n.add("Load", "L", bus="b", p_set=60.0)
    n.aidc.add_fleet("fleet", bus="b", p_nom=30.0, relief=0.5)
    n.export_to_netcdf(tmp_path / "n.nc")
    (tmp_path / "units.csv").write_text("carrier,forced_outage_rate\ngas,0.1\n")
    app = typer.Typer()
    app.command()(offered(verb))
    options = ["--units", tmp_path / "units.csv", "--mttr", 2, "--load", 20, "--resource", 10, "--trials", 4000]
    command = [str(each) for each in (tmp_path / "n.nc", *options, "--out", tmp_path / "out")]
    told = json.loads(CliRunner().invoke(app, [*command, "--json"]).output)
    rows = pd.read_csv(tmp_path / "out" / "adequacy.csv", index_col="case")
    exact = {"without the load": (10, 60), "with the load": (30, 80), "with the load and its relief": (20, 70)}
    for case, (one, both) in exact.items():
        row = rows.loc[case]
        assert abs(row["eue"] - 48 * (0.18 * one + 0.01 * both)) < 4 * row["eue_error"]
        assert abs(row["lolh"] - 48 * 0.19) < 4 * row["lolh_error"]
    assert told["elcc"] == pytest.approx(10.0)
    assert any("fleet" in note for note in told["notes"])
    assert any("shedding" in note for note in told["notes"])
    missing = CliRunner().invoke(app, [*command, "--region", "8910"])
    assert isinstance(missing.exception, InputError)
