"""Specifications are data only: one schema, versions that migrate, and nothing but our errors for what is damaged."""

from __future__ import annotations

import importlib.util
import json
import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pypsa
import pytest
from jsonschema import Draft202012Validator

import pypsa_aidc as aidc
from pypsa_aidc.network.loads.site.spec import JobSpec, SiteSpec, dump_job, dump_site, load_job, load_site
from pypsa_aidc.network.spec import schema
from pypsa_aidc.network.spec.column import COLUMN
from tests.conftest import ROOT
from tests.network.tiny import FAST, grid, job, site

SITE = dump_site(SiteSpec("dc", 8, 40.0, {"pue": ("2030-01-01", "2030-01-02", 24)}))
JOB = dump_job(JobSpec("dc", job(mode_changes="after_wait", restart_hours=0.5)))
SHARES = dump_job(JobSpec("dc", job(segments=(0.25, 0.5, 0.25))))
OLD = Path(__file__).with_name("version_1.json").read_text()
JUNK: tuple[Any, ...] = (
    None, True, False, -1, 0, 1, 10**30, -(10**400), 1e308, float("inf"), "", "x", "\u0000", "8", [], {}, [1], [[]],
    {"a": 1}, 0.5, 2.0, "pypsa_aidc/site", ["__class__"], "../../etc/passwd", 99999999,
)  # fmt: skip


def read(text: str) -> SiteSpec | JobSpec:
    return load_job(text, "job") if '"pypsa_aidc/training"' in text else load_site(text, "site")


def places(data: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    entries = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    for key, value in entries:
        yield from places(value, (*path, key))


def mutated(text: str, rng: random.Random) -> str:
    """A text with one thing wrong: characters changed, or a value, key or entry replaced, dropped or doubled."""
    if rng.random() < 0.4:
        start = rng.randrange(len(text))
        return (
            text[:start]
            + rng.choice(["", "0", "-", '"', "{", "]", ",", "\\", "e9", "é"])
            + text[start + rng.randrange(4) :]
        )
    data = json.loads(text)
    path = rng.choice(list(places(data)))
    if not path:
        return json.dumps(rng.choice(JUNK))
    holder = data
    for key in path[:-1]:
        holder = holder[key]
    change = rng.choice(["replace", "replace", "drop", "rename", "double"])
    if change == "replace":
        holder[path[-1]] = rng.choice(JUNK)
    elif change == "drop":
        del holder[path[-1]]
    elif change == "rename" and isinstance(holder, dict):
        holder[rng.choice(["__init__", "", "gpu", "x" * 300])] = holder.pop(path[-1])
    elif isinstance(holder, list):
        holder.append(holder[path[-1]])
    return json.dumps(data)


@pytest.mark.parametrize("text", [SITE, JOB, SHARES, OLD], ids=["site", "job", "shares", "version 1"])
def test_a_thousand_mutations_raise_our_errors_only(text: str) -> None:
    rng, refused = random.Random(5), []
    for _ in range(1000):
        changed = mutated(text, rng)
        try:
            spec = read(changed)
        except aidc.SpecError as error:
            refused.append(error)
        else:
            # What is accepted is whole: it can be written and read again, and is then the same.
            dumped = dump_site(spec) if isinstance(spec, SiteSpec) else dump_job(spec)
            assert read(dumped) == spec
    assert len(refused) > 500
    assert all(error.faults and len(str(error)) < 20_000 for error in refused)


def test_mutations_in_a_network_overwrite_nothing(tmp_path: Path) -> None:
    rng = random.Random(1)
    n = site(grid())
    (tmp_path / "old.nc").write_bytes(b"old")
    for _ in range(30):
        text = mutated(n.generators.at["dc A", COLUMN], rng)
        damaged = n.copy()
        damaged.generators.loc["dc A", COLUMN] = text
        try:
            _ = damaged.aidc.sites
        except aidc.SpecError:
            findings = damaged.aidc.check()
            assert findings.worst == "error"
            for frozen in (True, False):
                with pytest.raises(aidc.SpecError):
                    damaged.aidc.export(tmp_path / "old.nc", frozen=frozen)
            assert (tmp_path / "old.nc").read_bytes() == b"old"
            assert len(list(tmp_path.iterdir())) == 1


class TestVersions:
    def test_version_1_of_a_job_gets_units_into_its_keys(self) -> None:
        """The text is that of LLM-A of the bundled campus, as version 1 wrote it; its description had other words."""
        load = load_job(OLD, "old").load
        now = pypsa.Network(ROOT / "networks" / "green_campus.nc").aidc.sites["AIDC"].loads["AIDC LLM-A"]
        assert load.description == "LLaMA-13B, 4.9000% of 1e+12 tokens, batch 1024"
        assert load == replace(now, description=load.description)
        assert json.loads(OLD)["version"] == 1
        assert json.loads(dump_job(JobSpec("AIDC", load)))["version"] == 2

    @pytest.mark.parametrize("wrong", ["3", "99", "0", "-1", "true", '"1"', "1.0", "null", "[1]"])
    def test_other_versions_are_refused_by_name(self, wrong: str) -> None:
        text = JOB.replace('"version": 2', f'"version": {wrong}')
        assert text != JOB
        with pytest.raises(aidc.SpecError, match=r"version of pypsa_aidc/training: .* expected 1 to 2") as caught:
            load_job(text, "job of Generator 'dc A'")
        assert "Generator 'dc A'" in str(caught.value)
        assert ("written by a newer pypsa_aidc" in str(caught.value)) == (wrong in ("3", "99"))

    def test_every_migration_leads_to_the_next_version(self) -> None:
        for kind, old in schema.MIGRATIONS:
            assert 1 <= old < schema.version(kind)
        for kind in schema.kinds():
            known = [old for of, old in schema.MIGRATIONS if of == kind]
            assert sorted(known) == list(range(schema.version(kind) - len(known), schema.version(kind)))


class TestSchema:
    def test_is_itself_a_schema_and_covers_what_is_written(self) -> None:
        whole = schema.definitions()
        for kind in schema.kinds():
            Draft202012Validator.check_schema({**whole["kinds"][kind], "$defs": whole["$defs"]})
        for text in (SITE, JOB, SHARES):
            data = json.loads(text)
            required = whole["kinds"][schema.kind_of(text)]["required"]
            assert list(data) == required

    def test_every_entry_is_described(self) -> None:
        whole = schema.definitions()
        for part in (*whole["kinds"].values(), *whole["$defs"].values()):
            for name, entry in part["properties"].items():
                assert "$ref" in entry or (entry.get("items", {}).get("$ref")) or entry["description"], name

    def test_a_text_is_bounded(self) -> None:
        with pytest.raises(aidc.SpecError, match="at most 4000000"):
            load_job(" " * (schema.MAX_CHARACTERS + 1), "job")
        with pytest.raises(aidc.SpecError, match="at most 100000"):
            load_job(JOB.replace('"segments": 4', '"segments": 1000000000'), "job")
        for deep in ("[" * 100_000, '{"schema":' * 5000, JOB.replace("null", "[" * 900 + "]" * 900, 1)):
            with pytest.raises(aidc.SpecError):
                load_job(deep, "job")

    def test_the_same_key_twice(self) -> None:
        with pytest.raises(aidc.SpecError, match="stands twice"):
            load_site(SITE.replace('"gpus": 8', '"gpus": 8, "gpus": 9'), "site")

    def test_every_fault_at_once(self) -> None:
        text = JOB.replace('"it_power_mw": 4.0', '"it_power_mw": "4"').replace('"jump": null', '"hop": null')
        text = text.replace('"work_flops": ', '"work_flops": -')
        with pytest.raises(aidc.SpecError) as caught:
            load_job(text, "job")
        assert {fault.where for fault in caught.value.faults} == {
            "work_flops", "modes[1].it_power_mw", "rules.jump", "rules.hop"
        }  # fmt: skip

    def test_whole_numbers_written_as_decimals_are_whole(self) -> None:
        load = load_job(JOB.replace('"gpus": 8', '"gpus": 8.0').replace('"segments": 4', '"segments": 4.0'), "job").load
        assert load.rules.segments == 4
        assert load.modes[1] == FAST
        assert isinstance(load.modes[1].gpus, int)


def test_the_documentation_has_the_tables_of_the_schema() -> None:
    specification = importlib.util.spec_from_file_location("tables_of_docs", ROOT / "docs" / "tables.py")
    assert specification is not None
    assert specification.loader is not None
    tables = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(tables)
    page = (ROOT / "docs" / "netcdf.md").read_text()
    assert tables.rendered(page) == page, "run python docs/tables.py"
    for kind in schema.kinds():
        assert f"### `pypsa_aidc/{kind}`, version {schema.version(kind)}\n" in page
