"""What a verb leaves behind: files whole or not at all, names whole, and characters that every terminal can show."""

from __future__ import annotations

import io
import logging
import sys
from pathlib import Path
from typing import get_args

import pandas as pd
import pypsa
import pytest

from pypsa_aidc import fleet
from pypsa_aidc.cli.fleet import LAYOUTS
from pypsa_aidc.cli.reply import Reply
from pypsa_aidc.headroom import Offsets
from pypsa_aidc.training import ModeTable
from tests.cli.running import Runner
from tests.conftest import ROOT

EXAMPLE = ROOT / "docs" / "site.yaml"
FILES = ["dc1_LLM-A_modes.csv", "dc1_LLM-A_modes.png", "dc1_LLM-B_modes.csv", "dc1_LLM-B_modes.png"]


def test_folders_are_made_and_what_is_replaced_is_told(run: Runner, tmp_path: Path) -> None:
    out = tmp_path / "a" / "b"
    first, second = (run("modes", EXAMPLE, "-o", out) for _ in range(2))
    assert sorted(path.name for path in out.iterdir()) == FILES
    assert f"wrote {out / FILES[0]}\n" in first.out
    assert f"wrote {out / FILES[0]}, in place of an older one\n" in second.out


@pytest.mark.parametrize("stopped", [KeyboardInterrupt, MemoryError])
def test_what_is_interrupted_leaves_older_files_and_nothing_else(
    run: Runner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stopped: type[BaseException]
) -> None:
    def plot(_: object) -> None:
        raise stopped

    (tmp_path / FILES[0]).write_text("older")
    monkeypatch.setattr(ModeTable, "plot", plot)
    with pytest.raises(stopped):
        run("modes", EXAMPLE, "-o", tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == FILES[:1]
    assert (tmp_path / FILES[0]).read_text() == "older"


@pytest.mark.parametrize(
    ("out", "expected"), [("file/results", "a folder, not a file"), ("file", "a folder, not a file")]
)
def test_a_file_where_a_folder_should_be(run: Runner, tmp_path: Path, out: str, expected: str) -> None:
    (tmp_path / "file").write_text("")
    done = run("modes", EXAMPLE, "--out", tmp_path / out)
    assert done.code == 2
    assert expected in done.err


def test_names_are_whole_in_a_pipe(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    name = "Substation " + "x" * 300
    Reply().table(pd.DataFrame({"bus": [name], "MW": [1.0]}), "t" * 100)
    out = capsys.readouterr().out
    assert name in out
    assert "t" * 100 in out


@pytest.mark.parametrize("encoding", ["ascii", "cp1252"])
def test_other_encodings_than_utf8(run: Runner, encoding: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = EXAMPLE.read_text().replace("LLM-A", "ΔLLM-→").replace("modes: site-modes.csv", "baseline: [1, 8, 4]")
    (tmp_path / "site.yaml").write_text(text, encoding="utf-8")
    terminal = io.TextIOWrapper(io.BytesIO(), encoding)
    monkeypatch.setattr(sys, "stdout", terminal)
    done = run("modes", tmp_path / "site.yaml", "--set", "sites.0.jobs.0.candidates={pipeline: [1], tensor: [8]}")
    assert (done.code, done.err) == (0, "")
    terminal.flush()
    assert b"dc1, ?LLM-?: " in terminal.buffer.getvalue()
    assert b"FLOP/s" in terminal.buffer.getvalue()


def test_hours_and_units_of_modes(run: Runner) -> None:
    (entry,) = run("modes", EXAMPLE, "--job", "LLM-B", "--json").data["jobs"]
    # 1 % of 4e11 tokens in batches of 512 x 4096: 1,908 iterations; FLOPs of each by Eq. 5 with h_f = 4 h, of which
    # the projection to the vocabulary is never computed again: 6 h V a token.
    layers, hidden, batch, sequence, vocabulary = 48, 6144, 512, 4096, 50304
    inner = layers * hidden**2 + layers * hidden * sequence / 6
    work = 1908 * batch * sequence * (72 * inner + 6 * hidden * vocabulary)
    for mode in entry["modes"]:
        assert mode["hours"] == pytest.approx(work / mode["flops_per_s"] / 3600, rel=1e-9)
    assert all(word in run("modes", EXAMPLE).out for word in ("hours", "IT MW", "FLOP/s", "GB a GPU"))


def test_libraries_talk_only_when_asked(run: Runner, tmp_path: Path) -> None:
    pypsa.Network(snapshots=range(2)).export_to_netcdf(tmp_path / "n.nc")
    for option, talks in (("-q", False), ("-v", True)):
        run("check", tmp_path / "n.nc", option)
        assert logging.getLogger("pypsa.optimization").isEnabledFor(logging.INFO) == talks


@pytest.mark.parametrize("option", ["--gap", "--time-limit", "--duration", "--q"])
def test_options_of_a_report_that_have_no_effect_are_refused(run: Runner, tmp_path: Path, option: str) -> None:
    network = pypsa.Network(snapshots=range(2))
    network.add("Bus", "grid")
    network.export_to_netcdf(tmp_path / "n.nc")
    done = run("report", tmp_path / "n.nc", option, "1")
    assert done.code == 2
    assert f"{option}: given 1" in done.err
    assert "expected nothing without" in done.err


def test_what_help_says_without_asking_the_packages() -> None:
    from pypsa_aidc.cli.screen import screen

    assert set(LAYOUTS) == {"found", *fleet.LAYOUTS}
    seed = get_args(screen.__annotations__["seed"]) or screen.__annotations__["seed"]
    assert f"Seed of random alignments; {Offsets().seed}." in str(seed)
