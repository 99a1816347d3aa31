"""Files and copies: rows 7 to 10 of the collected user reports."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pypsa
import pytest

import pypsa_aidc as aidc
from tests.conftest import ROOT
from tests.network.plain import run_plainly
from tests.network.tiny import QUIET, once_solved, site, two_sites

pytestmark = pytest.mark.smoke


@pytest.fixture
def solved() -> pypsa.Network:
    return once_solved(two_sites)


def assert_same_results(read: pypsa.Network, n: pypsa.Network) -> None:
    pd.testing.assert_frame_equal(read.aidc.schedule(), n.aidc.schedule(), check_dtype=False, check_index_type=False)
    for ours, theirs in ((read.aidc.gpus(), n.aidc.gpus()), (read.aidc.progress(), n.aidc.progress())):
        np.testing.assert_allclose(ours, theirs)
    assert read.aidc.sites == n.aidc.sites
    assert read.aidc.audit().passed


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
    assert list(read.aidc.sites) == ["one", "two"]
    read.aidc.optimize(**QUIET)
    assert read.aidc.audit().passed


def test_copies_and_slices(solved: pypsa.Network) -> None:
    assert_same_results(solved.copy(), solved)
    assert_same_results(solved.copy(snapshots=solved.snapshots), solved)
    other = two_sites()
    other.aidc.remove("two")
    assert list(solved.aidc.sites) == ["one", "two"]
    assert list(other.aidc.sites) == ["one"]


def test_a_file_passes_through_plain_pypsa(solved: pypsa.Network, tmp_path: Path) -> None:
    """Row 10: read, changed and saved by a process that does not know us; nothing of ours is lost."""
    solved.export_to_netcdf(tmp_path / "ours.nc")
    script = """
import pypsa
n = pypsa.Network(arguments[0])
n.add("Load", "new", bus="grid", p_set=0.5)
n.export_to_netcdf(arguments[1])
"""
    run_plainly(script, tmp_path / "ours.nc", tmp_path / "theirs.nc")
    read = pypsa.Network(tmp_path / "theirs.nc")
    assert read.aidc.sites == solved.aidc.sites
    pd.testing.assert_frame_equal(
        read.aidc.schedule(), solved.aidc.schedule(), check_dtype=False, check_index_type=False
    )
    read.aidc.optimize(**QUIET)
    assert read.loads_t.p["new"].eq(0.5).all()


def test_importing_us_leaves_other_networks_untouched(tmp_path: Path) -> None:
    """The model of a network without AIDCs, and its results, are the same to the last bit."""
    script = """
import pypsa
n = pypsa.Network(snapshots=range(6))
n.add("Bus", ["a", "b"])
n.add("Line", "l", bus0="a", bus1="b", x=0.1, s_nom=3.0)
n.add("Generator", "g", bus="a", p_nom=5.0, marginal_cost=[1.0, 2, 3, 4, 5, 6])
n.add("Generator", "h", bus="b", p_nom=9.0, marginal_cost=2.5, committable=True, p_min_pu=0.3)
n.add("StorageUnit", "s", bus="b", p_nom=1.0, max_hours=2.0, cyclic_state_of_charge=True)
n.add("Load", "d", bus="b", p_set=[3.0, 4, 5, 4, 3, 2])
n.optimize.create_model()
n.model.to_file(arguments[0] + ".lp")
n.optimize(output_flag=False)
frames = [n.generators_t.p, n.lines_t.p0, n.buses_t.marginal_price, n.storage_units_t.p]
with open(arguments[0] + ".txt", "w") as file:
    file.write(repr([frame.to_numpy().tolist() for frame in frames]) + repr(n.objective))
"""
    run_plainly(script, tmp_path / "without")
    exec(script, {"arguments": [str(tmp_path / "with")]})
    for suffix in (".lp", ".txt"):
        assert (tmp_path / f"with{suffix}").read_bytes() == (tmp_path / f"without{suffix}").read_bytes()


def test_accessor_says_what_is_there() -> None:
    assert "none" in repr(pypsa.Network().aidc)
    assert "one, two (3 jobs)" in repr(two_sites().aidc)
    with pytest.raises(aidc.NotSolvedError):
        site(two_sites(), "three").aidc.summary()


OPERATIONS: dict[str, Callable[[pypsa.Network, Path], pypsa.Network]] = {
    "netCDF file": lambda n, folder: through_file(n, folder / "n.nc", n.export_to_netcdf),
    "CSV folder": lambda n, folder: through_file(n, folder / "n", n.export_to_csv_folder),
    "HDF5 file": lambda n, folder: through_file(n, folder / "n.h5", n.export_to_hdf5),
    "xlsx file": lambda n, folder: through_file(n, folder / "n.xlsx", n.export_to_excel),
    "`n.copy()`": lambda n, _: n.copy(),
    "`n.copy(snapshots=...)`": lambda n, _: n.copy(snapshots=n.snapshots[:5]),
    "`n[buses]`": lambda n, _: n[["grid", "one IT"]],
    "`other.merge(n)`": lambda n, _: neighbour(n).merge(n),
    "`n.merge(other)`": lambda n, _: n.copy().merge(neighbour(n)),
    "`n.cluster.spatial.cluster_by_busmap`": lambda n, _: clustered(n),
}
NEEDS = {"HDF5 file": ("tables",), "xlsx file": ("openpyxl", "python_calamine")}


def through_file(n: pypsa.Network, path: Path, write: Callable[[Path], object]) -> pypsa.Network:
    write(path)
    return aidc.load(path)


def neighbour(n: pypsa.Network) -> pypsa.Network:
    other = pypsa.Network(snapshots=n.snapshots)
    other.add("Bus", "other", carrier="")
    other.add("Generator", "other", bus="other", p_nom=1.0)
    return other


def clustered(n: pypsa.Network) -> pypsa.Network:
    """Merge both grid buses; a cable to a third keeps a line, without which PyPSA 1.4 cannot cluster at all."""
    m = n.copy()
    m.add("Bus", "sea", carrier="AC")
    m.add("Line", "cable", bus0="far", bus1="sea", carrier="AC", x=0.1, s_nom=1.0)
    busmap = pd.Series(m.buses.index, m.buses.index)
    busmap[["grid", "far"]] = "region"
    return m.cluster.spatial.cluster_by_busmap(busmap)


def documented() -> dict[str, list[str]]:
    """The table of docs/netcdf.md on what each operation keeps, by operation."""
    text = (ROOT / "docs" / "netcdf.md").read_text().split("## What keeps what")[1]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("|")]
    return {row[0]: row[1:5] for row in rows[2:]}


def test_the_documented_table_names_every_operation() -> None:
    assert list(documented()) == list(OPERATIONS)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("operation", OPERATIONS)
def test_each_operation_keeps_what_the_documentation_says(
    frozen: pypsa.Network, tmp_path: Path, operation: str
) -> None:
    for library in NEEDS.get(operation, ()):
        pytest.importorskip(library, reason=f"PyPSA needs {library} for this format")
    specs, schedule, set_points, status = documented()[operation]
    n, sites = frozen, frozen.aidc.sites
    m = OPERATIONS[operation](frozen, tmp_path)
    kept = {"kept": ["one", "two"], "those of its buses": ["one"]}[specs]
    assert m.aidc.sites == {name: sites[name] for name in kept}
    jobs = [column for column in n.aidc.gpus() if column[0] in kept]
    hours = {"kept": 8, "its part": 5}[schedule]
    assert list(m.aidc.gpus().index) == list(n.snapshots[:hours])
    assert list(m.aidc.gpus()) == jobs
    np.testing.assert_array_equal(m.aidc.gpus(), n.aidc.gpus()[jobs].iloc[:hours])
    np.testing.assert_array_equal(m.aidc.modes(), n.aidc.modes()[jobs].iloc[:hours])
    np.testing.assert_allclose(m.aidc.progress(), n.aidc.progress()[jobs].iloc[:hours])
    hours = {"kept": 8, "its part": 5}[set_points]
    generators = [generator for name in kept for generator in sites[name].loads]
    given = m.get_switchable_as_dense("Generator", "p_set")[generators]
    np.testing.assert_allclose(given, n.generators_t.p[generators].iloc[:hours])
    assert status == "kept"
    assert m.aidc.status == n.aidc.status


@pytest.fixture(scope="module")
def frozen() -> pypsa.Network:
    n = once_solved(two_sites)
    n.aidc.freeze()
    return n


class TestDamage:
    @pytest.mark.slow
    def test_files_truncated_at_a_hundred_places(self, frozen: pypsa.Network, tmp_path: Path) -> None:
        whole = frozen.aidc.export(tmp_path / "whole.nc").read_bytes()
        rng = np.random.default_rng(7)
        for place in (0, 1, *rng.integers(2, len(whole) - 1, 98)):
            (tmp_path / "cut.nc").write_bytes(whole[:place])
            with pytest.raises(aidc.InputError, match="cut.nc"):
                aidc.load(tmp_path / "cut.nc")
        assert (tmp_path / "whole.nc").read_bytes() == whole

    def test_an_interrupted_write_leaves_the_old_file(
        self, frozen: pypsa.Network, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        frozen.aidc.export(tmp_path / "n.nc")
        old = (tmp_path / "n.nc").read_bytes()
        for failure in (OSError("no space left on device"), KeyboardInterrupt()):

            def interrupted(self: pypsa.Network, path: Path, failure: BaseException = failure) -> None:
                Path(path).write_bytes(b"half")
                raise failure

            monkeypatch.setattr(pypsa.Network, "export_to_netcdf", interrupted)
            with pytest.raises((aidc.InputError, KeyboardInterrupt)):
                frozen.aidc.export(tmp_path / "n.nc")
            assert (tmp_path / "n.nc").read_bytes() == old
            assert [path.name for path in tmp_path.iterdir()] == ["n.nc"]

    def test_a_network_that_netcdf_cannot_hold(self, frozen: pypsa.Network, tmp_path: Path) -> None:
        n = frozen.copy()
        n.generators["owners"] = pd.Series([["a", "b"]] * len(n.generators), n.generators.index, dtype=object)
        with pytest.raises(aidc.InputError, match="plain numbers"):
            n.aidc.export(tmp_path / "n.nc")
        assert not list(tmp_path.iterdir())

    @pytest.mark.parametrize(
        ("name", "named"),
        [("n.h5", "ending in .nc"), ("folder.nc", "not a folder"), ("nowhere/n.nc", "existing folder")],
    )
    def test_paths_that_cannot_be_written(self, frozen: pypsa.Network, tmp_path: Path, name: str, named: str) -> None:
        (tmp_path / "folder.nc").mkdir()
        with pytest.raises(aidc.InputError, match=named):
            frozen.aidc.export(tmp_path / name)

    def test_files_that_are_no_networks(self, tmp_path: Path) -> None:
        (tmp_path / "empty").mkdir()
        for name in ("n.nc", "n.h5", "n.xlsx", "n.txt"):
            (tmp_path / name).write_text("no network")
        for name in ("nowhere.nc", "n.nc", "n.h5", "n.xlsx", "n.txt", "empty"):
            with pytest.raises(aidc.InputError, match=name):
                aidc.load(tmp_path / name)

    def test_a_newer_specification_in_a_file(self, frozen: pypsa.Network, tmp_path: Path) -> None:
        n = frozen.copy()
        n.links["aidc"] = n.links["aidc"].str.replace('"version": 1', '"version": 7')
        n.export_to_netcdf(tmp_path / "n.nc")
        with pytest.raises(aidc.SpecError, match=r"n\.nc.*\n.*newer pypsa_aidc"):
            aidc.load(tmp_path / "n.nc")
