"""Options of every verb in the one file: types, ranges, places, precedence, and rehearsals that write nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
import typer
from typer.main import get_command

import pypsa_aidc as aidc
from pypsa_aidc.cli import app
from pypsa_aidc.cli.config import VERBS
from tests.cli.running import Runner
from tests.network.tiny import grid

WHOLE = """\
check: {network: mine.nc}
modes: {job: LLM-A, all: true, out: tables}
add: {network: mine.nc, out: with.nc}
dispatch: {network: mine.nc, scenario: [S1, S4], storage: battery, out: d, gap: 1e-4, time_limit: 60}
freeze: {network: with.nc, out: frozen.nc, thaw: true}
report: {network: with.nc, out: r.html, duration: 4, reliability: 0.99, values: true, title: Mine}
fleet: {trace: pods, layout: openb-2023, utilisation: percent, mapping: liberal, draws: 30, figures: false}
surface: {envelope: envelope.nc, portfolio: all, boundary: attributed, q: 0.7, seed: 3}
screen: {margin: [0.05, 0.1], budget: 0.005, period: year, offsets: week, figures: false, out: s}
headroom: {network: mine.nc, bus: [1, north], relief: 0.2, rows: 5, slack: load, redispatch: false}
"""


def parsed(verb: str, *arguments: str) -> dict[str, object]:
    """Values that a verb would be called with."""
    group = get_command(app)
    with group.make_context("pypsa-aidc", [verb], resilient_parsing=True) as root:
        command = group.commands[verb]  # type: ignore[attr-defined]
        return dict(command.make_context(verb, list(arguments), parent=root, resilient_parsing=False).params)


@pytest.fixture
def whole(tmp_path: Path) -> Path:
    path = tmp_path / "whole.yaml"
    path.write_text(WHOLE)
    return path


def faults(path: Path, verb: str = "screen", *settings: str) -> list[str]:
    with pytest.raises(aidc.InputError) as caught:
        parsed(verb, "--config", str(path), *(word for each in settings for word in ("--set", each)))
    return [str(fault) for fault in caught.value.faults]


def test_every_verb_has_a_section() -> None:
    """All but the schema itself, and the file of a sweep, which is function and grid."""
    assert list(get_command(app).commands) == [*VERBS, "sweep", "schema"]  # type: ignore[attr-defined]


def test_a_section_is_the_command_line(whole: Path) -> None:
    folder = whole.parent
    assert parsed("screen", "-c", str(whole)) == parsed("screen") | {
        "margin": [0.05, 0.1],
        "budget": [0.005],
        "period": "year",
        "offsets": "week",
        "figures": False,
        "out": folder / "s",
        "config": whole,
    }
    dispatch = parsed("dispatch", "-c", str(whole))
    assert dispatch["network"] == folder / "mine.nc"
    assert (dispatch["scenario"], dispatch["storage"]) == (["S1", "S4"], ["battery"])
    assert (dispatch["gap"], dispatch["time_limit"]) == (1e-4, 60.0)
    modes = parsed("modes", str(whole))
    assert (modes["job"], modes["every"], modes["out"]) == (["LLM-A"], True, folder / "tables")
    assert parsed("headroom", "-c", str(whole))["bus"] == ["1", "north"]
    assert parsed("freeze", "-c", str(whole))["thaw"] is True
    assert parsed("fleet", "-c", str(whole))["trace"] == folder / "pods"


def test_the_command_line_comes_first_then_settings(whole: Path) -> None:
    got = parsed("screen", "-c", str(whole), "--margin", "0", "--set", "screen.q=0.5", "--set", "screen.out=t")
    assert (got["margin"], got["q"], got["out"]) == ([0.0], 0.5, whole.parent / "t")


def test_faults_of_all_sections_at_once_by_line(whole: Path) -> None:
    text = WHOLE.replace("layout: openb-2023, utilisation: percent", "layout: openb-2023, utilisation: watts")
    text = text.replace("margin: [0.05, 0.1]", "margin: [0.05, x]").replace("slack: load", "slak: load")
    whole.write_text(text.replace("gap: 1e-4", "gap: -1").replace("surface:", "surfaces:"))
    told = faults(whole)
    assert len(told) == 5
    for line, words in {
        4: "dispatch.gap: given -1.0, expected greater than or equal to 0",
        7: "fleet.utilisation: given 'watts', expected one of percent, fraction, absent",
        8: "surfaces: given 'unknown key'",
        9: "screen.margin[1]: given 'x', expected a number",
        10: "headroom.slak: given 'unknown key'",
    }.items():
        assert any(each.startswith(f"line {line}, {words}") for each in told), (line, told)


def test_faults_across_types_ranges_and_sections_at_once(whole: Path) -> None:
    """A wrong type hides no range, neither within a mapping nor between its neighbours."""
    sites = """\
sites:
  - name: dc1
    bus: grid
    gpus: 0
    gpu: A100-80GB
    pue: 0.9
    p_nom: -1
    capital_cost: cheap
    jobs:
      - name: A
        model: {name: mine, layers: 0, hidden: wide, ffn: -1, heads: 8, vocabulary: 100}
        tokens: 1e12
        batch: many
        sequence: 0
        tranche_ratio: 3
        rules: {segments: 12, jump: -1, restart_hours: soon, min_run: -2}
"""
    text = WHOLE.replace("gap: 1e-4, time_limit: 60", "gap: small, time_limit: -60")
    whole.write_text(sites + text)
    assert sorted(told.split(":")[0].split(", ", 1)[1] for told in faults(whole)) == sorted(
        [
            *(f"sites[0].{key}" for key in ("gpus", "pue", "p_nom", "capital_cost")),
            *(f"sites[0].jobs[0].model.{key}" for key in ("layers", "hidden", "ffn")),
            *(f"sites[0].jobs[0].{key}" for key in ("batch", "sequence", "tranche_ratio")),
            *(f"sites[0].jobs[0].rules.{key}" for key in ("jump", "restart_hours", "min_run")),
            "dispatch.gap",
            "dispatch.time_limit",
        ]
    )


@pytest.mark.parametrize(
    ("setting", "named"),
    [
        ("screen.json=true", "screen.json: given 'unknown key'"),
        ("screen.q=much", "--set, screen.q: given 'much', expected a number"),
        ("report.duration=0", "report.duration: given 0, expected greater than or equal to 1"),
        ("headroom.redispatch=yes", "expected true or false"),
        ("margin=3", "margin: given 'unknown key'"),
    ],
)
def test_settings_are_checked_like_the_file(whole: Path, setting: str, named: str) -> None:
    [told] = faults(whole, "screen", setting)
    assert named in told


def test_settings_need_a_file_and_help_needs_none() -> None:
    with pytest.raises(aidc.InputError, match="a --config that it overrides"):
        parsed("screen", "--set", "screen.q=0.5")
    with pytest.raises(typer.Exit):
        parsed("screen", "--config", "nowhere.yaml", "--help")


def test_sites_of_the_file_are_checked_by_every_verb(whole: Path) -> None:
    whole.write_text(WHOLE + "sites:\n  - name: dc1\n")
    assert any("line 12, sites[0].gpus" in told for told in faults(whole))


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("screen", "--offsets", "some"), "'some' is not one of 'random', 'day', 'week', 'all'. See"),
        (("screen", "--nope"), "No such option"),
        (("report",), "Missing argument 'network'. See"),
        (("nope",), "No such command 'nope'. See"),
        (("headroom", "n.nc", "--relief", "-1"), "expected greater than or equal to 0. See"),
        (("headroom", "n.nc", "--portfolio", "all,"), "nothing without --envelope"),
        (("headroom", "n.nc", "--emergency", "1.2"), "nothing without --outages"),
        (("headroom", "n.nc", "--out", "taken"), "'taken', expected a folder"),
    ],
)
def test_a_faulty_command_line_is_one_message(
    run: Runner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], named: str
) -> None:
    n = grid(2)
    n.add("Load", "town", bus="grid", p_set=1.0)
    n.optimize(output_flag=False)
    n.export_to_netcdf(tmp_path / "n.nc")
    (tmp_path / "taken").write_text("a file")
    monkeypatch.chdir(tmp_path)
    done = run(*arguments)
    assert done.code == 2
    assert done.err.startswith("error: ")
    assert named in done.err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["n.nc", "taken"]
