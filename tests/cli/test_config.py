"""The YAML schema: every fault at once and by line, settings, and scalars as people mean them."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pypsa_aidc as aidc
from pypsa_aidc.cli.config import Config, load_config
from pypsa_aidc.cli.document import read
from tests.conftest import ROOT

pytestmark = pytest.mark.smoke

EXAMPLE = ROOT / "docs" / "site.yaml"
TEXT = EXAMPLE.read_text()


def config(tmp_path: Path, text: str, *settings: str) -> Config:
    (tmp_path / "site.yaml").write_text(text)
    return load_config(tmp_path / "site.yaml", settings)


def line_of(text: str, word: str) -> int:
    return next(number for number, line in enumerate(text.splitlines(), 1) if word in line)


def test_all_faults_at_once_and_by_line(tmp_path: Path) -> None:
    wrong = {
        "gpus: 2048": ("gpus: 0.5", "gpus: given '0.5', expected a whole number"),
        "restart_hours: 0.1": ("restart_hour: 0.1", "rules.restart_hour: given 'unknown key'"),
        "batch: 512": ("batch: many", "jobs[1].batch: given 'many', expected a whole number"),
        "layers: 48": ("layers: 0", "jobs[1].model.layers: given 0, expected a whole number of at least 1"),
        "mode_changes: after_wait": ("mode_changes: sometimes", "one of free, after_wait, never"),
    }
    text = TEXT
    for old, (new, _) in wrong.items():
        text = text.replace(old, new)
    with pytest.raises(aidc.InputError) as caught:
        config(tmp_path, text)
    faults = [str(fault) for fault in caught.value.faults]
    assert len(faults) == len(wrong)
    for new, named in wrong.values():
        line = f"line {line_of(text, new)}, "
        assert any(fault.startswith(line) and named in fault for fault in faults), (line, named, faults)
    assert "Did you mean 'restart_hours'?" in str(caught.value)


@pytest.mark.parametrize(
    ("old", "new", "named"),
    [
        ("tranche_ratio: 0.03 ", "tranche_ratio: 3.0 ", "tranche_ratio: given 3.0"),
        ("gpu: A100-80GB", "gpu: A10", "one of A100-40GB"),
        ("model: LLaMA-13B", "model: LLaMA-14B", "model: given 'LLaMA-14B'"),
        ("layers: 48", "layers: -48", "jobs[1].model.layers: given -48"),
        ("segments: 12", "segments: [0.5, 0.4]", "rules.segments"),
        ("gpus: 2048", "gpus: 2048.5", "gpus: given '2048.5', expected a whole number"),
        ("baseline: [4, 4, 32]", "baseline: [4, 4]", "baseline: given '2 entries', expected 3 entries"),
        ("pue: 1.25 ", "pue: good ", "pue: given 'good'"),
        ("deadline: 24 ", "deadline: true ", "deadline: given 'true', expected a number"),
        ("zero_stage: 1", "zero_stage: 7", "zero_stage: given '7', expected one of 0, 1, 2, 3"),
        ("modes: site-modes.csv", "modes: site-modes.csv\n        precision: fp8", "nothing beside measured modes"),
        ("  - name: LLM-B", "  - name: LLM-A", "each name once"),
        ("    gpus: 2048\n", "", "sites[0].gpus: given 'nothing'"),
        ("sites:", "site:", "unknown key"),
    ],
)
def test_each_fault_names_its_line(tmp_path: Path, old: str, new: str, named: str) -> None:
    assert old in TEXT
    with pytest.raises(aidc.InputError) as caught:
        config(tmp_path, TEXT.replace(old, new))
    assert named in str(caught.value)
    assert "line " in str(caught.value)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("", "a mapping"),
        ("- 1", "a mapping"),
        ("sites: [", "YAML"),
        ("sites: []", "at least one site"),
        ("a: 1\na: 2", "each key once"),
        ("sites: !!python/object/apply:os.system [echo]", "without tags"),
        ("sites: !mine 3", "without tags"),
        (
            "a: &a [1, 2, 3, 4, 5, 6, 7, 8, 9]\n"
            + "".join(f"{chr(98 + i)}: &{chr(98 + i)} [{', '.join(['*' + chr(97 + i)] * 9)}]\n" for i in range(8)),
            "aliases upon aliases",
        ),
        ("? [1]\n: 2", "a key that is no word"),
    ],
)
def test_what_is_no_configuration(tmp_path: Path, text: str, named: str) -> None:
    with pytest.raises(aidc.InputError, match=named):
        config(tmp_path, text)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(aidc.InputError, match="readable text file"):
        load_config(tmp_path / "nowhere.yaml")


def test_scalars_as_people_mean_them(tmp_path: Path) -> None:
    """YAML 1.1 reads NO as false, 1e12 as text, 010 as eight, 1:30 as ninety."""
    (tmp_path / "a.yaml").write_text("a: NO\nb: 1e12\nc: 010\nd: 1:30\ne: '7'\nf: 2030-01-01\ng: -3\nh: .5\ni: on")
    values = {key: node.value for key, node in read(tmp_path / "a.yaml").value.items()}
    assert values == {
        "a": "NO", "b": 1e12, "c": 10, "d": "1:30", "e": "7", "f": "2030-01-01", "g": -3, "h": 0.5, "i": "on"
    }  # fmt: skip
    assert config(tmp_path, TEXT.replace("bus: grid ", "bus: 007 ")).sites[0].bus == "007"


def test_settings_by_name_and_position() -> None:
    changed = load_config(
        EXAMPLE, ["sites.dc1.gpus=1024", "sites.0.jobs.LLM-A.rules.segments=24", "sites.0.jobs.1.deadline=20"]
    )
    site = changed.sites[0]
    assert site.gpus == 1024
    assert site.jobs[0].rules == aidc.Rules(segments=24, restart_hours=0.1)
    assert site.jobs[1].deadline == 20.0


@pytest.mark.parametrize(
    ("setting", "named"),
    [
        ("gpus", "key=value"),
        ("sites.dc2.gpus=3", "one of dc1"),
        ("sites.0.gpus.more=3", "within a mapping"),
        ("sites.0.gpu_count=3", "--set, sites[0].gpu_count"),
        ("sites.0.gpus=many", "--set, sites[0].gpus"),
        ("sites.0.gpus=[", "a YAML value"),
    ],
)
def test_settings_that_lead_nowhere(setting: str, named: str) -> None:
    with pytest.raises(aidc.InputError) as caught:
        load_config(EXAMPLE, [setting])
    assert named in str(caught.value)


@settings(max_examples=150)
@given(position=st.integers(0, len(TEXT) - 1), text=st.text("{}[]:,-!&*#'\"\n 0aé", max_size=3), cut=st.integers(0, 9))
def test_damaged_files_are_our_errors(
    tmp_path_factory: pytest.TempPathFactory, position: int, text: str, cut: int
) -> None:
    path = tmp_path_factory.getbasetemp() / "damaged.yaml"
    path.write_text(TEXT[:position] + text + TEXT[position + cut :])
    # Anything but our own error fails the test, and whatever is accepted is whole.
    with suppress(aidc.InputError):
        assert isinstance(load_config(path), Config)
