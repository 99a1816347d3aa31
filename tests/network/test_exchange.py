"""Files and copies: rows 7 to 10 of the collected user reports."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pypsa
import pytest

import pypsa_aidc as aidc
from tests.network.tiny import QUIET, site, two_sites


@pytest.fixture
def solved() -> pypsa.Network:
    n = two_sites()
    aidc.optimize(n, **QUIET)
    return n


def assert_same_results(read: pypsa.Network, n: pypsa.Network) -> None:
    pd.testing.assert_frame_equal(read.aidc.schedule(), n.aidc.schedule(), check_dtype=False, check_index_type=False)
    for ours, theirs in ((read.aidc.gpus(), n.aidc.gpus()), (read.aidc.progress(), n.aidc.progress())):
        np.testing.assert_allclose(ours, theirs)
    assert aidc.sites(read) == aidc.sites(n)
    assert aidc.audit(read).passed


def test_netcdf(solved: pypsa.Network, tmp_path: Path) -> None:
    solved.export_to_netcdf(tmp_path / "n.nc")
    read = pypsa.Network(tmp_path / "n.nc")
    assert_same_results(read, solved)
    assert read.aidc.status == solved.aidc.status


@pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")  # PyPSA leaves them to be closed
def test_csv_folder(solved: pypsa.Network, tmp_path: Path) -> None:
    solved.export_to_csv_folder(tmp_path / "n")
    assert_same_results(pypsa.Network(tmp_path / "n"), solved)


def test_the_same_attribute_on_two_components_is_not_swapped(solved: pypsa.Network, tmp_path: Path) -> None:
    # Row 7: netCDF files of neighbouring tools swapped series of equal names.
    for component in ("generators", "links"):
        names = solved.c[component].static.index
        values = np.arange(8.0)[:, None] + (100.0 if component == "links" else 0.0) + np.zeros(len(names))
        solved.c[component].dynamic["aidc_note"] = pd.DataFrame(values, solved.snapshots, names)
    solved.export_to_netcdf(tmp_path / "n.nc")
    read = pypsa.Network(tmp_path / "n.nc")
    assert (read.c.generators.dynamic["aidc_note"].max() == 7).all()
    assert (read.c.links.dynamic["aidc_note"].min() == 100).all()


def test_components_added_later_do_not_break_the_export(solved: pypsa.Network, tmp_path: Path) -> None:
    # Row 8: a string column must not turn into a mixture that netCDF refuses.
    solved.add("Generator", "late", bus="far", p_nom=1.0, marginal_cost=9.0)
    solved.add("Link", "late", bus0="far", bus1="grid", p_nom=1.0)
    solved.export_to_netcdf(tmp_path / "n.nc")
    read = pypsa.Network(tmp_path / "n.nc")
    assert list(aidc.sites(read)) == ["one", "two"]
    aidc.optimize(read, **QUIET)
    assert aidc.audit(read).passed


def test_copies_and_slices(solved: pypsa.Network) -> None:
    solved.model.solver_model = None  # PyPSA wants it so before any copy of a solved network
    assert_same_results(solved.copy(), solved)
    assert_same_results(solved.copy(snapshots=solved.snapshots), solved)
    other = two_sites()
    aidc.remove(other, "two")
    assert list(solved.aidc.sites) == ["one", "two"]
    assert list(other.aidc.sites) == ["one"]


def test_a_file_passes_through_plain_pypsa(solved: pypsa.Network, tmp_path: Path) -> None:
    """Row 10: read, changed and saved by a process that does not know us; nothing of ours is lost."""
    solved.export_to_netcdf(tmp_path / "ours.nc")
    script = """
import sys, pypsa
n = pypsa.Network(sys.argv[1])
n.add("Load", "new", bus="grid", p_set=0.5)
n.export_to_netcdf(sys.argv[2])
assert "pypsa_aidc" not in sys.modules
"""
    arguments = [sys.executable, "-W", "ignore", "-c", script, tmp_path / "ours.nc", tmp_path / "theirs.nc"]
    subprocess.run([str(argument) for argument in arguments], check=True, cwd=tmp_path, capture_output=True)
    read = pypsa.Network(tmp_path / "theirs.nc")
    assert aidc.sites(read) == aidc.sites(solved)
    pd.testing.assert_frame_equal(
        read.aidc.schedule(), solved.aidc.schedule(), check_dtype=False, check_index_type=False
    )
    aidc.optimize(read, **QUIET)
    assert read.loads_t.p["new"].eq(0.5).all()


def test_importing_us_leaves_other_networks_untouched(tmp_path: Path) -> None:
    """The model of a network without AIDCs, and its results, are the same to the last bit."""
    script = """
import sys
if sys.argv[2] == "with":
    import pypsa_aidc
import pypsa
n = pypsa.Network(snapshots=range(6))
n.add("Bus", ["a", "b"])
n.add("Line", "l", bus0="a", bus1="b", x=0.1, s_nom=3.0)
n.add("Generator", "g", bus="a", p_nom=5.0, marginal_cost=[1.0, 2, 3, 4, 5, 6])
n.add("Generator", "h", bus="b", p_nom=9.0, marginal_cost=2.5, committable=True, p_min_pu=0.3)
n.add("StorageUnit", "s", bus="b", p_nom=1.0, max_hours=2.0, cyclic_state_of_charge=True)
n.add("Load", "d", bus="b", p_set=[3.0, 4, 5, 4, 3, 2])
n.optimize.create_model()
n.model.to_file(sys.argv[1] + ".lp")
n.optimize(output_flag=False)
frames = [n.generators_t.p, n.lines_t.p0, n.buses_t.marginal_price, n.storage_units_t.p]
open(sys.argv[1] + ".txt", "w").write(repr([frame.to_numpy().tolist() for frame in frames]) + repr(n.objective))
"""
    root = Path(aidc.__file__).parents[1]
    for kind in ("with", "without"):
        arguments = [sys.executable, "-W", "ignore", "-c", script, str(tmp_path / kind), kind]
        subprocess.run(arguments, check=True, cwd=root, capture_output=True)
    for suffix in (".lp", ".txt"):
        assert (tmp_path / f"with{suffix}").read_bytes() == (tmp_path / f"without{suffix}").read_bytes()


def test_accessor_says_what_is_there() -> None:
    assert "none" in repr(pypsa.Network().aidc)
    assert "one, two (3 jobs)" in repr(two_sites().aidc)
    with pytest.raises(aidc.NotSolvedError):
        site(two_sites(), "three").aidc.summary()
