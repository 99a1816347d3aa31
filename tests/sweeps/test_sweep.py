from __future__ import annotations

import json
import sys
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq
import pytest
import yaml

import pypsa_aidc as aidc
from pypsa_aidc.sweeps import FileFunction
from tests.cli.running import Runner
from tests.sweeps.points import mortal, square


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*.parquet")}


def test_points_in_the_order_of_the_grid_and_failures_beside(tmp_path: Path) -> None:
    frame = aidc.sweep(square, {"n": [13, 2, 3]}, tmp_path / "out", workers=1)
    assert frame["n"].tolist() == [13, 2, 2, 3, 3]
    assert frame["status"].tolist() == ["failed", *["done"] * 4]
    assert frame["error"].tolist() == ["ValueError: unlucky", *[""] * 4]
    assert frame["result"].tolist()[1:] == [2, 4, 3, 9]
    # Whoever has no pypsa_aidc reads the folder.
    assert sorted(pd.read_parquet(tmp_path / "out" / "done")["result"]) == [2, 3, 4, 9]
    (failed,) = (tmp_path / "out" / "failed").iterdir()
    told = json.loads(pq.read_metadata(failed).metadata[b"pypsa_aidc"])
    assert told["function"] == "tests.sweeps.points:square"
    assert told["arguments"] == {"n": 13}
    assert 'raise ValueError("unlucky")' in told["traceback"]
    assert told["versions"]["pypsa-aidc"] == aidc.__version__


@pytest.mark.smoke
def test_only_what_is_new_or_has_changed_is_made_again(tmp_path: Path) -> None:
    tables = [tmp_path / "a", tmp_path / "b"]
    for table in tables:
        table.write_text("0.5")

    def made(n: list[int], **options: bool) -> tuple[list[float], int]:
        frame = aidc.sweep(square, {"n": n, "table": tables}, tmp_path / "out", workers=1, **options)
        return frame["result"].tolist(), len(pd.read_csv(tmp_path / "out" / "times.csv"))

    assert made([2]) == ([2.5, 4.5] * 2, 2)
    assert made([2, 3]) == ([2.5, 4.5] * 2 + [3.5, 9.5] * 2, 4)
    tables[1].write_text("1.5")
    assert made([2, 3]) == ([2.5, 4.5, 3.5, 5.5, 3.5, 9.5, 4.5, 10.5], 6)
    tables[1].unlink()
    frame = aidc.sweep(square, {"n": [2], "table": tables}, tmp_path / "out", workers=1)
    assert frame["status"].tolist() == ["done", "done", "failed"]
    # What it was made of is gone, so it is not found as done; nor is what failed for want of a file.
    assert not any((tmp_path / "out" / "failed" / path.name).exists() for path in (tmp_path / "out" / "done").iterdir())
    tables[1].write_text("0.5")
    assert made([2]) == ([2.5, 4.5] * 2, 8)


def test_processes_give_the_bytes_of_one_and_survive_a_death(tmp_path: Path) -> None:
    """The process at point 3 dies once: all points are there, none made twice, each as if nothing had happened."""
    grid = {"n": range(6), "mark": [str(tmp_path / "mark")]}
    roots = aidc.sweep(mortal, grid, tmp_path / "two", workers=2)
    assert roots["value"].tolist() == [n**0.5 for n in range(6)]
    times = pd.read_csv(tmp_path / "two" / "times.csv")
    assert times["point"].is_unique
    assert (times["status"] == "done").all()
    assert (tmp_path / "mark").exists()  # left by the one that died
    assert aidc.sweep(mortal, grid, tmp_path / "one", workers=1).equals(roots)
    assert contents(tmp_path / "two") == contents(tmp_path / "one")


def test_everything_wrong_is_said_at_once(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(aidc.InputError) as caught:
        aidc.sweep(
            square,
            {"n": [object()], "m": [1]},
            tmp_path / "file" / "out",
            workers=0,
            memory=-1.0,
            scheduler="tcp://nowhere:1",
            inputs=["nowhere"],
        )
    places = [fault.where for fault in caught.value.faults]
    assert places == ["grid, n", "grid", "workers", "memory", "workers", "memory", "inputs", "out"]
    with pytest.raises(aidc.InputError, match=r"memory: given 1000000000.0, .* at most [\d.]+ for 2 workers"):
        aidc.sweep(square, {"n": [1]}, workers=2, memory=1e9)


def test_the_verb_reads_ranges_files_and_paths(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A file of its own beside the configuration; paths seen from there, whatever the working folder is."""
    (tmp_path / "own_points.py").write_text(
        "from pathlib import Path\ndef added(n: int, table: Path) -> float:\n    return n + float(table.read_text())\n"
    )
    for name in ("a", "b"):
        (tmp_path / f"{name}.txt").write_text("10")
    grid = {"n": {"first": 1, "last": 2}, "table": {"files": "*.txt"}}
    config, out = tmp_path / "sweep.yaml", tmp_path / "out"
    config.write_text(yaml.dump({"function": "own_points.py:added", "grid": grid}))
    # The verb lets modules beside the configuration be imported.
    monkeypatch.setattr(sys, "path", list(sys.path))
    run = Runner(monkeypatch, capsys)
    told = run("sweep", config, "--out", out, "--workers", 1, "--json").data
    assert (told["points"], told["made"], told["failed"]) == (4, 4, 0)
    assert [row["value"] for row in told["tables"]["points"]] == [11, 11, 12, 12]
    assert {row["table"] for row in told["tables"]["points"]} == {"../a.txt", "../b.txt"}
    (tmp_path / "a.txt").write_text("ten")
    more = run("sweep", config, "--out", out, "--workers", 1, "--set", "grid.table=a.txt")
    assert more.code == 1
    assert "n=1, table=../a.txt: ValueError" in more.out
    assert "2 points in" in more.out
    wrong = run("sweep", config, "--out", out, "--set", "function=own_points.py:aded")
    assert wrong.code == 2
    assert "Did you mean 'added'?" in wrong.err
    with pytest.raises(aidc.InputError, match="an existing Python file"):
        FileFunction(tmp_path / "nothing.py", "added")
