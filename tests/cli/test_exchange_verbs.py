"""check, add, modes and freeze as their users call them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pypsa
import pytest
import xarray as xr

import pypsa_aidc as aidc
from tests.cli.running import Runner
from tests.conftest import ROOT
from tests.network.tiny import grid, job, once_solved, one_site, site

EXAMPLE = ROOT / "docs" / "site.yaml"
FEW_MODES = ("--set", "sites.0.jobs.LLM-A.candidates={pipeline: [4], tensor: [4]}")
"""A small graph where what counts is something else."""


@pytest.fixture
def network(tmp_path: Path) -> Path:
    grid(24, p_nom=50.0).export_to_netcdf(tmp_path / "network.nc")
    return tmp_path / "network.nc"


@pytest.fixture
def solved(tmp_path: Path) -> Path:
    n = once_solved(one_site)
    n.export_to_netcdf(tmp_path / "solved.nc")
    return tmp_path / "solved.nc"


class TestAdd:
    def test_the_documented_example(self, run: Runner, network: Path, tmp_path: Path) -> None:
        done = run("add", network, EXAMPLE, "-o", tmp_path / "out.nc", "--set", "sites.dc1.gpus=1024", *FEW_MODES)
        assert (done.code, done.err) == (0, "")
        assert "LLM-B" in done.out
        n = aidc.load(tmp_path / "out.nc")
        spec = n.aidc.sites["dc1"]
        assert spec.spec.gpus == 1024
        assert spec.loads["dc1 LLM-A"].baseline.size == (4, 4, 32)
        assert spec.loads["dc1 LLM-B"].rules == aidc.Rules(segments=6, mode_changes="after_wait")
        assert [mode.gpus for mode in spec.loads["dc1 LLM-B"].modes] == [128, 256, 512]
        assert n.aidc.check().worst != "error", n.aidc.check().to_frame()
        result = n.aidc.optimize(output_flag=False, mip_rel_gap=0.1, time_limit=60)
        assert result.audit.passed

    def test_dry_run_writes_nothing(self, run: Runner, network: Path, tmp_path: Path) -> None:
        done = run("add", network, EXAMPLE, "--dry-run", "-o", tmp_path / "out.nc", "--json")
        assert done.code == 0
        assert [entry["job"] for entry in done.data["jobs"]] == ["LLM-A", "LLM-B"]
        assert done.data["written"] == []
        assert sorted(path.name for path in tmp_path.iterdir()) == ["network.nc"]

    def test_all_faults_of_all_sites_and_an_untouched_file(self, run: Runner, network: Path, tmp_path: Path) -> None:
        (tmp_path / "out.nc").write_bytes(b"old")
        arguments = ["--set", "sites.dc1.bus=gird", "--set", "sites.dc1.pue=0.8"]
        done = run("add", network, EXAMPLE, "-o", tmp_path / "out.nc", *arguments)
        assert done.code == 2
        assert "'gird'" in done.err
        assert "pue" in done.err
        assert "(2 faults)" in done.err
        assert (tmp_path / "out.nc").read_bytes() == b"old"

    def test_kilowatts_are_warned_of(self, run: Runner, network: Path, tmp_path: Path) -> None:
        # Row 30: a base load of 375 (kW) on a connection of 1.4 MW.
        arguments = ["--set", "sites.0.base_load=375", "--set", "sites.0.p_nom=1.4"]
        arguments += ["--set", "sites.0.jobs.LLM-A.rules.segments=2", *FEW_MODES]
        done = run("add", network, EXAMPLE, "-o", tmp_path / "out.nc", *arguments)
        assert done.code == 0
        assert "warning: AIDC 'dc1': base_load of 375 MW is 268 times the connection of 1.4 MW" in done.err
        checked = run("check", tmp_path / "out.nc", "--json")
        assert checked.code == 2
        assert any("375" in finding["what"] for finding in checked.data["findings"])

    def test_the_same_site_twice(self, run: Runner, network: Path, tmp_path: Path) -> None:
        # Row 28.
        run("add", network, EXAMPLE, "-o", tmp_path / "out.nc")
        done = run("add", tmp_path / "out.nc", EXAMPLE, "-o", tmp_path / "again.nc")
        assert done.code == 2
        assert "a new name" in done.err
        assert not (tmp_path / "again.nc").exists()

    @pytest.mark.parametrize("name", ["dc/1", "dç1", ""])
    def test_names_that_files_forbid(self, run: Runner, network: Path, name: str) -> None:
        done = run("add", network, EXAMPLE, "--dry-run", "--set", f"sites.0.name='{name}'")
        assert done.code == 2
        assert "name" in done.err

    def test_neither_out_nor_dry_run(self, run: Runner, network: Path) -> None:
        done = run("add", network, EXAMPLE)
        assert done.code == 2
        assert "--dry-run" in done.err

    def test_quiet(self, run: Runner, network: Path, tmp_path: Path) -> None:
        done = run("add", network, EXAMPLE, "-o", tmp_path / "out.nc", "-q")
        assert (done.code, done.out, done.err) == (0, "", "")

    def test_a_series_from_a_file(self, run: Runner, network: Path, tmp_path: Path) -> None:
        snapshots = pypsa.Network(network).snapshots
        pd.DataFrame({"pue": 1.3}, index=snapshots[::-1]).to_csv(tmp_path / "weather.csv")
        text = EXAMPLE.read_text().replace("pue: 1.25 ", "pue: {file: weather.csv, column: pue} ")
        (tmp_path / "site.yaml").write_text(text)
        (tmp_path / "site-modes.csv").write_bytes((ROOT / "docs" / "site-modes.csv").read_bytes())
        done = run("add", network, tmp_path / "site.yaml", "-o", tmp_path / "out.nc")
        assert done.code == 0, done.err
        efficiency = pypsa.Network(tmp_path / "out.nc").links_t.efficiency["dc1 import"]
        assert efficiency.to_numpy() == pytest.approx(1 / 1.3)


class TestModes:
    def test_tables_csv_and_figure(self, run: Runner, tmp_path: Path) -> None:
        done = run("modes", EXAMPLE, "-o", tmp_path / "modes", "--all")
        assert done.code == 0
        assert "memory: more than 80 GB" in done.out
        table = pd.read_csv(tmp_path / "modes" / "dc1_LLM-A_modes.csv", keep_default_na=False)
        assert {"", "pool", "memory"} <= set(table["reason"].str.split(":").str[0])
        assert (tmp_path / "modes" / "dc1_LLM-A_modes.png").stat().st_size > 10_000

    def test_json_is_what_python_gives(self, run: Runner) -> None:
        data = run("modes", EXAMPLE, "--job", "LLM-B", "--json").data["jobs"]
        assert [(entry["site"], entry["job"], entry["effective"]) for entry in data] == [("dc1", "LLM-B", 3)]
        assert [mode["gpus"] for mode in data[0]["modes"]] == [128, 256, 512]
        assert data[0]["modes"][0]["efficiency"] is None

    def test_an_unknown_job(self, run: Runner) -> None:
        done = run("modes", EXAMPLE, "--job", "LLM-C")
        assert done.code == 2
        assert "LLM-A, LLM-B" in done.err


class TestFreeze:
    def test_there_and_back(self, run: Runner, solved: Path, tmp_path: Path) -> None:
        done = run("freeze", solved, "-o", tmp_path / "frozen.nc")
        assert done.code == 0
        assert "fixed" in done.out
        assert pypsa.Network(tmp_path / "frozen.nc").generators_t.p_set["dc A"].notna().all()
        done = run("freeze", tmp_path / "frozen.nc", "-o", tmp_path / "free.nc", "--thaw", "--json")
        assert done.data["frozen"] is False
        assert "dc A" not in pypsa.Network(tmp_path / "free.nc").generators_t.p_set

    def test_nothing_solved_is_exit_code_3(self, run: Runner, tmp_path: Path) -> None:
        site(grid()).export_to_netcdf(tmp_path / "n.nc")
        done = run("freeze", tmp_path / "n.nc", "-o", tmp_path / "frozen.nc")
        assert done.code == 3
        assert "no schedule" in done.err
        assert "pypsa-aidc dispatch FILE" in done.err
        assert not (tmp_path / "frozen.nc").exists()


class TestCheck:
    def test_exit_code_by_severity(self, run: Runner, network: Path, tmp_path: Path) -> None:
        done = run("check", network)
        assert (done.code, done.err) == (0, "")
        assert "Findings(0 errors, 0 warnings, 0 notes)" in done.out
        site(grid(), jobs=[job()]).export_to_netcdf(tmp_path / "heavy.nc")
        done = run("check", tmp_path / "heavy.nc")
        assert done.code == 1
        assert "not solved" in done.out
        n = grid()
        n.generators.loc["market", "p_nom"] = -5.0
        n.export_to_netcdf(tmp_path / "negative.nc")
        done = run("check", tmp_path / "negative.nc", "--json")
        assert done.code == 2
        assert done.data["worst"] == "error"
        assert done.data["findings"][0]["component"] == "Generator 'market', p_nom"

    def test_data_of_another_kind(self, run: Runner, tmp_path: Path) -> None:
        weather = xr.Dataset({"t2m": ("time", np.ones(3))})
        weather.to_netcdf(tmp_path / "era5.nc")
        done = run("check", tmp_path / "era5.nc")
        assert (done.code, done.err) == (2, "")
        assert "no buses" in done.out
        for verb in ("headroom", "dispatch", "report", "freeze", "screen"):
            out = ("--out", tmp_path / "out.nc") if verb == "freeze" else ()
            done = run(verb, tmp_path / "era5.nc", *out)
            assert done.code == 2
            assert "there is no bus in it" in done.err

    def test_json_alone_is_on_stdout(self, run_process: Runner, tmp_path: Path) -> None:
        """Of all that the process writes: the solver that looks for a fitting pool writes to the terminal by itself."""
        site(grid(), jobs=[job("A"), job("B")], gpus=8).export_to_netcdf(tmp_path / "n.nc")
        done = run_process("check", tmp_path / "n.nc", "--json")
        assert (done.code, done.err) == (1, "")
        assert done.data["worst"] == "warning"

    def test_a_broken_specification_is_a_finding(self, run: Runner, tmp_path: Path) -> None:
        n = site(grid())
        n.links["aidc"] = n.links["aidc"].str.replace('"version": 1', '"version": 99')
        n.export_to_netcdf(tmp_path / "n.nc")
        done = run("check", tmp_path / "n.nc", "--json")
        assert done.code == 2
        assert "newer pypsa_aidc" in done.data["findings"][0]["remedy"]

    @pytest.mark.parametrize("name", ["nowhere.nc", "broken.nc", "text.txt", "."])
    def test_files_that_cannot_be_read(self, run: Runner, tmp_path: Path, name: str) -> None:
        for file in ("broken.nc", "text.txt"):
            (tmp_path / file).write_bytes(b"no netCDF at all")
        done = run("check", tmp_path / name)
        assert done.code == 2
        assert done.err.startswith("error: aidc.load")


def test_versions(run: Runner) -> None:
    done = run("--version")
    assert (done.code, done.out) == (0, f"pypsa-aidc {aidc.__version__}, PyPSA {pypsa.__version__}\n")


# PyPSA leaves the files that it writes to the collector.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_networks_in_a_csv_folder(run: Runner, tmp_path: Path) -> None:
    n = grid()
    n.export_to_csv_folder(tmp_path / "folder")
    done = run("headroom", tmp_path / "folder", "--redispatch", "--out", tmp_path / "out")
    assert (done.code, done.err) == (0, "")
    assert (tmp_path / "out" / "headroom.csv").is_file()
