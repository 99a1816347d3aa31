from __future__ import annotations

import inspect

import numpy as np
import pandas as pd
import polars as pl
import pytest
import xarray as xr

from pypsa_aidc import fleet
from pypsa_aidc.errors import InputError
from pypsa_aidc.fleet.layers import LAYERS, layer_of


def layer(mapping, state, priority, workload):
    row = pl.DataFrame({"state": [state], "priority": [priority], "workload": [workload]})
    return row.select(layer_of(mapping)).item()


@pytest.mark.parametrize(
    ("state", "priority", "workload", "conservative", "central", "liberal"),
    [
        # Sec. 2.3 of [2], precedence standby > eligible > shift > floor.
        ("standby", "low", "training", "standby", "standby", "standby"),
        ("active", "low", "training", "eligible", "eligible", "eligible"),
        ("active", "low", "offline_inference", "eligible", "eligible", "eligible"),
        ("active", "low", "online_inference", "floor", "eligible", "eligible"),
        ("active", "low", "other", "floor", "eligible", "eligible"),
        ("active", "high", "training", "shift", "shift", "shift"),
        ("active", "high", "offline_inference", "shift", "shift", "eligible"),
        ("active", "high", "online_inference", "floor", "floor", "floor"),
        ("active", "other", "training", "floor", "floor", "floor"),
    ],
)
def test_mappings(state, priority, workload, conservative, central, liberal):
    expected = {"conservative": conservative, "central": central, "liberal": liberal}
    assert {mapping: layer(mapping, state, priority, workload) for mapping in expected} == expected


def test_layers_hold_all_workload_power_whatever_the_mapping(some_weeks):
    mapped = [fleet.Envelope.of(some_weeks, mapping) for mapping in ("conservative", "central", "liberal")]
    for other in mapped:
        np.testing.assert_allclose(other.workload, mapped[1].workload, rtol=1e-12)
    shares = [float(other.relief().sum()) for other in mapped]
    assert shares == sorted(shares)


def test_boundaries_are_ordered_and_node_sleep_is_attributed(envelope):
    retained, attributed, asleep = (envelope.relief(boundary=b) for b in ("idle-retained", "attributed", "node-sleep"))
    assert not (retained > attributed + 1e-12).any()
    np.testing.assert_array_equal(attributed, asleep)


def test_facility_is_pue_times_its_parts(envelope):
    data = envelope.data
    host = data["host_idle"].sum("cluster") + data["host_active"].sum(("cluster", "layer"))
    it = envelope.workload + host + data["unallocated"].sum("cluster")
    np.testing.assert_allclose(envelope.facility, (1.2 * it).where(envelope.valid), rtol=1e-12)


def test_peak_is_the_trailing_weekly_maximum(envelope):
    facility, peak = envelope.facility.to_numpy(), envelope.peak().to_numpy()
    for hour in (200, 1000, 4439):
        assert peak[hour] == np.nanmax(facility[hour - 167 : hour + 1])
    assert peak[0] == np.nanmax(facility[:24])
    assert not np.isnan(peak).any()


def test_portfolios_are_checked(envelope):
    assert len(envelope.portfolio()) == 15
    assert len(envelope.portfolio("supported")) == 13
    for wrong in (["C01", "C01"], ["nowhere"], []):
        with pytest.raises(InputError, match="portfolio"):
            envelope.portfolio(wrong)


def test_round_trip_through_netcdf_and_frame(tmp_path, envelope):
    envelope.save(tmp_path / "e.nc")
    xr.testing.assert_identical(fleet.Envelope.read(tmp_path / "e.nc").data, envelope.data)
    rows = envelope.to_frame().dropna()
    again = fleet.Envelope.from_frame(rows, source="table")
    np.testing.assert_array_equal(again.relief(), envelope.relief())


def rows(**changes):
    table = {
        "hour": [0, 1, 0, 1],
        "cluster": ["a", "a", "b", "b"],
        "layer": ["eligible"] * 4,
        "power": [1.0, 2.0, 3.0, 4.0],
    }
    return pd.DataFrame({**table, **changes})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"power": [1.0, -2.0, 3.0, 4.0]}, "power"),
        ({"power": [1.0, "x", 3.0, 4.0]}, "row 1"),
        ({"power": [1.0, np.inf, 3.0, 4.0]}, "row 1"),
        ({"hour": [0, 0.5, 0, 1]}, "whole hours"),
        ({"hour": [0, 0, 0, 1]}, "repeated"),
        ({"layer": ["eligible", "spare", "floor", "floor"]}, "spare"),
        ({"active": [2.0, 2.0, 3.0, 4.0]}, "active"),
    ],
)
def test_what_is_no_envelope_is_refused(changes, message):
    with pytest.raises(InputError, match=message):
        fleet.Envelope.from_frame(rows(**changes), source="table")


def test_an_empty_or_incomplete_table_is_refused():
    for table in (rows().iloc[:0], rows().drop(columns="layer")):
        with pytest.raises(InputError):
            fleet.Envelope.from_frame(table, source="table")


def test_a_dataset_that_is_no_envelope_is_refused(envelope):
    broken = {
        "variables": envelope.data.drop_vars("active"),
        "pue": envelope.data.assign_attrs(pue=0.5),
        "axis": envelope.data.isel(hour=[0, 2]),
        "layers": envelope.data.isel(layer=[1, 0, 2, 3]),
        "gap in one cluster": envelope.data.copy(deep=True),
    }
    broken["gap in one cluster"]["power"].loc[{"cluster": "C01", "hour": 5}] = np.nan
    for name, data in broken.items():
        with pytest.raises(InputError):
            pytest.fail(f"{name} accepted: {fleet.Envelope(data)}")


def test_missing_rows_of_an_hour_that_is_there_draw_nothing():
    # A layer that its cluster has no row of draws nothing; a cluster without any row makes the hour a missing one.
    table = fleet.Envelope.from_frame(pd.concat([rows().iloc[:3], rows().iloc[3:].assign(layer="floor")]), source="t")
    assert table.relief("b").to_numpy().ravel().tolist() == [3.0, 0.0]
    with pytest.warns(fleet.CoverageWarning, match="1 of 2 h"):
        silent = fleet.Envelope.from_frame(rows().iloc[:3], source="table")
    assert silent.valid.tolist() == [True, False]
    with pytest.warns(fleet.CoverageWarning, match="2 of 3 h"):
        gap = fleet.Envelope.from_frame(rows(hour=[0, 2, 0, 2]), source="table")
    assert gap.valid.tolist() == [True, False, True]
    assert tuple(gap.data["layer"].to_numpy()) == LAYERS


def test_no_supported_cluster_names_the_way_out(envelope):
    tiny = fleet.Envelope(envelope.data.assign(active=0.0 * envelope.data["active"]))
    with pytest.raises(InputError, match=r"none reaches it. Use portfolio=None \(on the command line: --portfolio all"):
        tiny.portfolio("supported")


def test_all_clusters_are_the_default_everywhere():
    for function in (
        fleet.Surface.of,
        fleet.Backtest.of,
        fleet.Contract.of,
        fleet.bootstrap,
        fleet.counterfactuals,
        fleet.portfolios,
        fleet.compare_eras,
        fleet.shaped,
        fleet.Envelope.relief,
    ):
        assert inspect.signature(function).parameters["portfolio"].default is None, function


def test_a_table_that_leaves_out_idle_hours_is_warned_of():
    table = pd.DataFrame({"hour": range(0, 100, 2), "cluster": "c", "layer": "eligible", "power": 2.0})
    with pytest.warns(fleet.CoverageWarning, match="50 of 99 h, longest hole 1 h"):
        fleet.Envelope.from_frame(table, source="a meter")
