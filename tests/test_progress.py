"""Progress of long work: what is counted, what is drawn, and that neither is anything unless asked for."""

from __future__ import annotations

import contextvars
import importlib
import io
import logging
import re
import sys
import threading
import time
import warnings
from collections.abc import Iterator
from pathlib import Path

import highspy
import pytest
from rich.console import Console

from pypsa_aidc.cli.reply import Reply
from pypsa_aidc.cli.verb import offered
from pypsa_aidc.errors import InputError
from pypsa_aidc.network.solve.gap import Gap
from pypsa_aidc.progress import _shown, show_progress, track, waiting
from tests.cli.running import Runner
from tests.network.tiny import grid, job, site

MODULE = importlib.import_module("pypsa_aidc.progress")
ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
ERASED = "\x1b[2K"
CLOCK = r"\d:\d\d:\d\d"


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True

    @property
    def text(self) -> str:
        """What was drawn, without colours and moves."""
        return ESCAPES.sub("", self.getvalue())

    @property
    def left_over(self) -> str:
        """What is still to be seen: all that came after the last line was erased."""
        return ESCAPES.sub("", self.getvalue().rpartition("\x1b[2K")[2]).strip()


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines at once, drawn a hundred times a second."""
    monkeypatch.setattr(MODULE, "PATIENCE", 0.0)
    monkeypatch.setattr(MODULE, "PERIOD", 0.01)


def wait_for(stream: Terminal, pattern: str) -> None:
    """Give the drawing thread the time it needs; fail after ten seconds."""
    end = time.monotonic() + 10
    while not re.search(pattern, stream.text):
        assert time.monotonic() < end, stream.text
        time.sleep(0.005)


def test_items_come_in_order_and_once_whether_drawn_or_not(eager: None) -> None:
    items = [3, 1, 2]
    assert list(track(items, "items")) == items
    stream = Terminal()
    with show_progress(stream):
        assert list(track(items, "items")) == items
        assert list(track(iter(items), "items", 3)) == items
        assert list(track([], "none")) == []


def test_silent_is_the_plain_iterator_of_the_items() -> None:
    assert type(track([1], "items")) is type(iter([1]))
    assert _shown.get() is None


def test_nothing_is_drawn_where_nobody_asked(eager: None, capfd: pytest.CaptureFixture[str]) -> None:
    for _ in track(range(3), "items"):
        with waiting("inner", 1.0, lambda: "never asked"):
            time.sleep(0.02)
    assert capfd.readouterr() == ("", "")


def test_a_stream_that_is_no_terminal_stays_empty_unless_forced(eager: None, monkeypatch: pytest.MonkeyPatch) -> None:
    # Both make rich believe that everything is a terminal; whether one reads it is another matter.
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    stream = io.StringIO()
    with show_progress(stream):
        for _ in track(range(3), "items"):
            time.sleep(0.02)
    assert stream.getvalue() == ""


def test_a_dumb_terminal_stays_empty(eager: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")
    stream = Terminal()
    with show_progress(stream):
        for _ in track(range(3), "items"):
            time.sleep(0.02)
    assert stream.getvalue() == ""


def test_forced_lines_tell_label_amount_and_time_left(eager: None) -> None:
    stream = io.StringIO()
    with show_progress(stream, force=True):
        for _ in track(range(8), "partitions"):
            time.sleep(0.05)
    drawn = ESCAPES.sub("", stream.getvalue())
    assert re.search(rf"partitions \S+ 3/8 {CLOCK} {CLOCK} left", drawn)
    assert re.search(rf"partitions \S+ 0/8 {CLOCK} +\r", drawn), "no time left is known before the first is done"


def test_without_a_total_there_is_no_time_left(eager: None) -> None:
    stream = Terminal()
    with show_progress(stream):
        for position in track(iter(range(3)), "unknown"):
            if position:
                wait_for(stream, rf"unknown \S+ {position} {CLOCK}")
    assert "left" not in stream.text


def test_nothing_is_left_to_see_afterwards(eager: None) -> None:
    stream = Terminal()
    with show_progress(stream):
        for _ in track(range(2), "items"):
            wait_for(stream, "items")
    assert ERASED in stream.getvalue()
    assert stream.left_over == ""
    assert stream.getvalue().count("\x1b[?25l") == stream.getvalue().count("\x1b[?25h"), "the cursor is back"


def test_an_exception_within_a_loop_leaves_no_line_and_is_told(eager: None) -> None:
    stream = Terminal()

    def broken(label: str) -> None:
        for _ in track(range(2), label):
            wait_for(stream, label)
            raise ZeroDivisionError

    with show_progress(stream):
        with pytest.raises(ZeroDivisionError):
            broken("items")
        assert stream.left_over == ""
        drawn = stream.getvalue()
        time.sleep(0.05)
        assert stream.getvalue() == drawn
    with pytest.raises(ZeroDivisionError), show_progress(stream):
        broken("others")
    assert stream.left_over == ""
    assert _shown.get() is None


def test_a_loop_left_behind_goes_with_the_display(eager: None) -> None:
    stream = Terminal()
    with show_progress(stream):
        loop = track(range(3), "items")
        next(loop)
        wait_for(stream, "items")
    assert stream.left_over == ""
    assert list(loop) == [1, 2], "and can be gone through to its end"
    assert stream.left_over == ""


def test_nested_loops_have_a_line_each(eager: None) -> None:
    stream = Terminal()
    with show_progress(stream):
        for _ in track(range(2), "outer"):
            for _ in track(range(3), "inner"):
                with waiting("solve", 60.0, lambda: "gap 1 %"):
                    time.sleep(0.03)
    assert re.search(r"outer \S+ 1/2", stream.text)
    assert re.search(r"inner \S+ 2/3", stream.text)
    assert re.search(rf"solve +\S+ gap 1 % +{CLOCK} at most 0:01:00 left", stream.text)


def test_nested_progress_of_the_same_file_is_one_display(eager: None) -> None:
    stream = Terminal()
    before = threading.active_count()
    with show_progress(stream):
        outer = _shown.get()
        with show_progress(stream):
            assert _shown.get() is outer
        assert _shown.get() is outer
        other = Terminal()
        with show_progress(other):
            for _ in track(range(2), "others"):
                wait_for(other, "others")
        assert "others" not in stream.text
    end = time.monotonic() + 10
    while threading.active_count() > before:
        assert time.monotonic() < end


def test_progress_within_a_drawn_loop_knows_its_own_stderr(eager: None, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    with show_progress():
        for _ in track(range(1), "items"):
            wait_for(stream, "items")
            assert sys.stderr is not stream, "a proxy that writes above the lines"
            outer = _shown.get()
            with show_progress():
                assert _shown.get() is outer
            print("a warning", file=sys.stderr)
        assert sys.stderr is stream
    assert "a warning\n" in stream.text


def test_stdout_is_nobodys_but_the_results(
    eager: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    with show_progress():
        for position in track(range(2), "items"):
            wait_for(stream, "items")
            print(position)
    assert capsys.readouterr().out == "0\n1\n"


def test_threads_are_silent_unless_they_run_in_the_context(eager: None) -> None:
    stream, counted = Terminal(), []

    def work(label: str) -> None:
        counted.append((label, sum(1 for _ in track(range(5), label) if not time.sleep(0.02))))

    with show_progress(stream):
        copies = [contextvars.copy_context() for _ in range(4)]
        threads = [threading.Thread(target=copy.run, args=(work, f"inside{i}")) for i, copy in enumerate(copies)]
        threads.append(threading.Thread(target=work, args=("outside",)))
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted(counted) == [*((f"inside{i}", 5) for i in range(4)), ("outside", 5)]
    assert "outside" not in stream.text
    assert all(f"inside{i}" in stream.text for i in range(4))
    assert stream.left_over == ""


def test_time_left_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 100 parts 50 lie on disk already; the others take 20 s each, so that 35 are still 700 s of work."""
    now = [0.0]
    lines = MODULE._Lines(Console(file=Terminal(), force_terminal=True))
    monkeypatch.setattr(lines, "get_time", lambda: now[0])
    with lines.line("partitions", 100) as task:
        assert MODULE._left(lines.tasks[0]) == ""
        for position in range(65):
            now[0] += 0.01 if position < 50 else 20.0
            lines.count(task)
        # The last five minutes: 15 parts.
        assert MODULE._left(lines.tasks[0]) == "0:11:40 left"


@pytest.mark.parametrize("total", [-1, 2.5, float("nan"), "3"])
def test_a_total_that_is_none_is_refused(total: object) -> None:
    with pytest.raises(InputError, match="total"):
        track([1], "items", total)  # type: ignore[arg-type]


def test_short_work_has_no_line() -> None:
    stream = Terminal()
    with show_progress(stream):
        for _ in track(range(3), "items"):
            time.sleep(0.05)
    assert stream.getvalue() == ""


def test_values_count_one_solve_for_each_question(eager: None, monkeypatch: pytest.MonkeyPatch) -> None:
    solved = []

    def solve(*_: object) -> tuple[float, float]:
        time.sleep(0.05)
        solved.append(5.0)
        return 5.0, 0.0

    monkeypatch.setattr(importlib.import_module("pypsa_aidc.network.whatif"), "_solve", solve)
    stream = Terminal()
    with show_progress(stream):
        table = site(grid()).aidc.values(only=["gpus", "p_nom", "waiting"])
    assert table["value"].tolist() == [0.0, 0.0, 0.0]
    drawn = re.findall(r"values, one solve each \S+ (\d/\d)", stream.text)
    # A busy machine may skip one, and draw the last.
    assert drawn == sorted(drawn)
    assert {"0/3", "1/3"} <= {*drawn} <= {f"{done}/3" for done in range(4)}
    assert len(solved) == 1 + 3  # as it is, and for each question


def knapsack(seed: int = 0) -> highspy.Highs:
    """A market split: small, and far from done within any second."""
    model = highspy.Highs()
    model.setOptionValue("output_flag", False)
    state = seed
    columns = [model.addBinary() for _ in range(40)]
    for _ in range(5):
        weights = []
        for _ in columns:
            state = (1103515245 * state + 12345) % 2**31
            weights.append(state % 100)
        over, under = model.addVariable(obj=1.0), model.addVariable(obj=1.0)
        total = sum(weight * column for weight, column in zip(weights, columns, strict=True))
        model.addConstr(total + over - under == sum(weights) // 2)
    return model


def test_the_gap_of_highs_is_told_while_it_solves_and_changes_nothing() -> None:
    """The callback is the one linopy has on for Ctrl-C."""
    plain, heard = knapsack(), knapsack()
    told: list[str] = []

    class Network:
        class _model:  # noqa: N801 - PyPSA's name
            class solver:  # noqa: N801 - linopy's name
                solver_model = heard

    gap = Gap(Network())  # type: ignore[arg-type]
    assert gap() == ""
    heard.cbMipInterrupt.subscribe(lambda event: told.append(gap()))
    for model in (plain, heard):
        model.setOptionValue("mip_max_nodes", 300)
        model.run()
    assert re.fullmatch(r"gap [\d.e+]+ %|no solution yet", gap())
    assert any(words.startswith("gap") for words in told)
    nodes = [model.getInfo().mip_node_count for model in (plain, heard)]
    assert nodes[0] == nodes[1] > 1
    assert plain.getInfo().objective_function_value == heard.getInfo().objective_function_value


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Runner]:
    levels = {name: logging.getLogger(name).level for name in ("pypsa", "linopy", "pypsa_aidc")}
    with warnings.catch_warnings():
        yield Runner(monkeypatch, capsys)
    for name, level in levels.items():
        logging.getLogger(name).setLevel(level)


def test_a_verb_shows_it_on_a_terminal(
    eager: None, run: Runner, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    site(grid(), jobs=[job("A", 2.0, 2)]).export_to_netcdf(tmp_path / "network.nc")
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    done = run("dispatch", tmp_path / "network.nc", "-s", "S4", "--out", tmp_path / "out")
    assert done.code == 0, stream.text
    for line in (r"scenarios +\S+ 0/1", r"S4: checkpoints \+ modes +\S+", r"building the model +\S+"):
        assert re.search(rf"{line} +{CLOCK}", stream.text), line
    assert re.search(rf"solving +\S+ .*at most {CLOCK} left", stream.text)
    assert stream.left_over == ""
    assert "\x1b" not in done.out


@pytest.mark.parametrize(("option", "drawn"), [("", True), ("as_json", False), ("quiet", False), ("verbose", False)])
def test_json_and_quiet_silence_it(option: str, drawn: bool, eager: None, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)

    def verb(reply: Reply) -> None:
        for _ in track(range(3), "items"):
            time.sleep(0.03)

    offered(verb)(**{each: each == option for each in ("as_json", "quiet", "verbose")})
    assert ("items" in stream.text) == drawn
