"""The JSON schema of the YAML file: it takes what the reader takes, and is the file that the documentation offers."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

import jsonschema
import pytest
import yaml

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


def test_an_editor_can_tell_what_a_key_means(schema: dict[str, Any]) -> None:
    keys = schema["definitions"]
    assert keys["SiteConfig"]["properties"]["gpus"]["description"] == "N_GPU, GPUs shared by all jobs of the site."
    assert "share of the whole run" in keys["JobConfig"]["properties"]["tranche_ratio"]["description"]
    assert keys["HeadroomOptions"]["properties"]["rows"]["minimum"] == 0
