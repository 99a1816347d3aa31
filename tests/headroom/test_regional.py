"""The bundled region, and demands of networks."""

from __future__ import annotations

import importlib.util
import warnings

import numpy as np
import pandas as pd
import pypsa
import pytest

from pypsa_aidc.errors import InputError
from pypsa_aidc.headroom import Demand, network_demand, regional_network
from tests.conftest import ROOT


def test_bundled_network_is_that_of_its_script(miso_network) -> None:
    specification = importlib.util.spec_from_file_location("miso_south", ROOT / "networks" / "miso_south.py")
    script = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(script)
    built = script.network()
    assert miso_network.snapshots.equals(built.snapshots)
    np.testing.assert_array_equal(miso_network.loads_t.p_set, built.loads_t.p_set)
    assert miso_network.meta == built.meta
    assert miso_network.generators.at["cap", "p_nom"] == built.generators.at["cap", "p_nom"] == 32436 * 1.05
    assert "public domain" in miso_network.meta["aidc_demand"]
    assert "CC BY 4.0" in miso_network.meta["aidc_demand"]


def test_bundled_demand_is_that_of_its_source(miso_south, shared_data) -> None:
    table = pd.read_csv(shared_data / "eia930" / "miso_south_8910_2024_2025.csv")
    known = table["demand_mw"].notna()
    np.testing.assert_array_equal(miso_south.mw[known], table["demand_mw"][known])
    ends = pd.to_datetime(table["utc_end"]).dt.tz_localize(None)
    assert (miso_south.hours == ends - pd.Timedelta(hours=1)).all()
    assert miso_south.touched.equals(miso_south.hours[~known])
    assert (miso_south.calendar, miso_south.region) == ("Etc/GMT+5", "MISO South")
    # Two whole years of MISO's clock.
    assert (miso_south.local[0].hour, miso_south.local[-1].hour) == (0, 23)


def test_demand_of_any_network() -> None:
    hours = pd.date_range("2024", periods=3, freq="h")
    n = pypsa.Network(name="two buses", snapshots=hours)
    n.add("Bus", ["a", "b"])
    n.add("Load", ["a", "b"], bus=["a", "b"], p_set=[10.0, 5.0])
    # A load of positive sign feeds in (row 6 of the reported faults).
    n.add("Load", "sun", bus="a", sign=1, p_set=[0.0, 2.0, 4.0])
    demand = network_demand(n)
    assert demand.mw.tolist() == [15.0, 13.0, 11.0]
    assert demand.region == "two buses"
    with pytest.raises(InputError, match="at least one Load"):
        network_demand(pypsa.Network(snapshots=hours))
    n.snapshot_weightings.loc[:, "objective"] = 2.0
    with pytest.raises(InputError, match=r"snapshot_weightings.*1 h for each"):
        network_demand(n)
    n.set_snapshots(pd.date_range("2024", periods=3, freq="3h"))
    with pytest.raises(InputError, match=r"0 days 03:00:00.*steps of one hour"):
        network_demand(n)
    n = pypsa.Network()
    n.add("Bus", "a")
    n.add("Load", "a", bus="a", p_set=10.0)
    with pytest.raises(InputError, match="DatetimeIndex"):
        network_demand(n)


def test_round_trip_keeps_provenance(tmp_path) -> None:
    audit = pd.DataFrame(
        [[pd.Timestamp("2024-01-01 01:00"), "missing", np.nan, 12.0, "interpolated"]],
        columns=["snapshot", "rule", "old", "new", "action"],
    )
    hours = pd.date_range("2024", periods=3, freq="h")
    before = Demand(pd.Series([10.0, 12.0, 14.0], hours), audit, "a meter", "R", "raw", "Etc/GMT+6")
    regional_network(before, attribution="ours").export_to_netcdf(tmp_path / "r.nc")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        after = network_demand(pypsa.Network(tmp_path / "r.nc"))
    pd.testing.assert_frame_equal(before.audit, after.audit, check_dtype=False)
    assert (after.source, after.region, after.column, after.calendar) == ("a meter", "R", "raw", "Etc/GMT+6")
    with pytest.raises(InputError, match="every hour"):
        regional_network(Demand(pd.Series([1.0, np.nan], hours[:2])))
