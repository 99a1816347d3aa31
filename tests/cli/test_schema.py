"""The JSON schema of the YAML file: it takes what the reader takes, and is the file that the documentation offers."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

import pypsa_aidc as aidc
from pypsa_aidc.cli.config import load_config
from tests.cli.running import Runner
from tests.cli.test_sections import WHOLE
from tests.conftest import ROOT

EXAMPLE = (ROOT / "docs" / "site.yaml").read_text()
FILE = ROOT / "docs" / "pages" / "pypsa-aidc.schema.json"


@pytest.fixture
def schema(run: Runner) -> dict[str, Any]:
    return dict(run("schema").data)


def document(text: str) -> Any:
    """A file as an editor reads it: 1e12 is a number, as in YAML 1.2."""
    return yaml.safe_load(text.replace("1e12", "1.0e+12").replace("4e11", "4.0e+11").replace("1e-4", "1.0e-4"))


def test_documentation_has_the_schema_of_the_code(schema: dict[str, Any]) -> None:
    """Written by `pypsa-aidc schema > docs/pages/pypsa-aidc.schema.json`."""
    assert json.loads(FILE.read_text(encoding="utf-8")) == schema


@pytest.mark.parametrize("text", [EXAMPLE, WHOLE, EXAMPLE + WHOLE])
def test_what_the_reader_takes_is_valid(schema: dict[str, Any], text: str) -> None:
    validator = jsonschema.Draft7Validator(schema)
    validator.check_schema(schema)
    assert [error.message for error in validator.iter_errors(document(text))] == []


@pytest.mark.parametrize(
    "spoil",
    [
        lambda d: d["sites"][0].update(gpu_count=3),
        lambda d: d["sites"][0].pop("gpus"),
        lambda d: d["sites"][0].update(gpus="many"),
        lambda d: d["sites"][0]["jobs"][0]["rules"].update(mode_changes="sometimes"),
        lambda d: d["sites"][0]["jobs"][0].update(baseline=[4, 4]),
        lambda d: d["dispatch"].update(gap=-1),
        lambda d: d["screen"].update(period="month"),
        lambda d: d.update(surfaces={}),
    ],
)
def test_what_the_reader_refuses_is_not(schema: dict[str, Any], spoil: Callable[[Any], None]) -> None:
    wrong = copy.deepcopy(document(EXAMPLE + WHOLE))
    spoil(wrong)
    assert not jsonschema.Draft7Validator(schema).is_valid(wrong)


NUMBERS = """
  - name: mine
    gpu: {name: G, peak_flops: {bf16: 3.0e+14}, memory: 8.0e+10, train_w: 400, matmul: 0.8}
    gpus: 8
    pue: [1.1, 1.2]
    gpu_value: 2
    ramp_up: 1
    jobs:
      - name: C
        model: {name: M, layers: 4, hidden: 64, ffn: 256, heads: 4, vocabulary: 100, kv_heads: 2}
        tokens: 1.0e+12
        batch: 8
        sequence: 16
        tranche_ratio: 1
        communication_w: 1
        gpu_value: 3
        memory: {recomputation_ratio: 0.5, chunks: 1}
        transitions: [{before: a, after: b, cost: 1, hours: 1}]
        rules: {segments: [0.5, 0.5], jump: 2, progress: 1, restart_energy: 1}
requests:
  - {name: east, bus: B, nameplate: {"2027": 300}, budget: {hours: 1, depth: 0.4}, power_factor: 0.9, reliability: 0.9}
  - name: west
    bus: B
    nameplate: 300
    budget: {hours: 1}
    battery: {p_nom: 1, e_nom: 1, efficiency: 0.9, marginal_cost: 1}
    genset: {p_nom: 1, run_hours: 1, units: 2, marginal_cost: 1}
    ups: {p_nom: 1, minutes: 2, ride_through_minutes: 1, efficiency: 0.9}
    cooling: {heat: 1, e_nom: 1, cop: 4, recharge: 1, loss: 0.1}
upgrades: [{element: L, year: 2027, megawatts: 3}]
ratings: {season: {"1": 1.1}, emergency: 1.2, outage_hours: 2}
"""


def replaced(value: Any, number: float) -> Any:
    """The same document with another number in place of each."""
    if isinstance(value, dict):
        return {key: replaced(each, number) for key, each in value.items()}
    if isinstance(value, list):
        return [replaced(each, number) for each in value]
    return number if isinstance(value, int | float) and not isinstance(value, bool) else value


@pytest.mark.parametrize(("number", "named"), [(-1000, 79), (1000, 16)])
def test_the_schema_has_the_ranges_of_the_reader(
    schema: dict[str, Any], tmp_path: Path, number: int, named: int
) -> None:
    """Both name the same numbers of a file, in sites and requests."""
    wrong = replaced(document(EXAMPLE.replace("[4, 4, 32]", "null") + NUMBERS), number)
    (tmp_path / "wrong.yaml").write_text(yaml.safe_dump(wrong))
    with pytest.raises(aidc.InputError) as caught:
        load_config(tmp_path / "wrong.yaml")
    told = {place(re.sub(r"^line \d+, ", "", fault.where)) for fault in caught.value.faults}
    errors = list(jsonschema.Draft7Validator(schema).iter_errors(wrong))
    for error in errors:
        errors += error.context or []
    kinds = ("minimum", "exclusiveMinimum", "maximum", "enum")
    assert {place(error.json_path[2:]) for error in errors if error.validator in kinds} == told
    assert len(told) == named


def place(path: str) -> str:
    """Where a fault is, up to the name of the field: `sites[0].pue` for its second entry, too."""
    return re.sub(r"(\w)(\['?\w+'?\]|[ ,].*|\.(bf16|\d+))$", r"\1", path)


def test_an_editor_can_tell_what_a_key_means(schema: dict[str, Any]) -> None:
    keys = schema["definitions"]
    assert keys["SiteConfig"]["properties"]["gpus"]["description"] == "N_GPU, GPUs shared by all jobs of the site."
    assert "share of the whole run" in keys["JobConfig"]["properties"]["tranche_ratio"]["description"]
    assert keys["HeadroomOptions"]["properties"]["rows"]["minimum"] == 0
