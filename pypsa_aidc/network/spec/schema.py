"""The JSON in a network's string columns: bounded, versioned, migrated and checked against one schema file."""

from __future__ import annotations

import json
import re
import reprlib
from collections import Counter
from collections.abc import Callable, Mapping
from functools import cache
from importlib.resources import files
from itertools import islice
from numbers import Real
from typing import Any

import numpy as np
from jsonschema import Draft202012Validator, ValidationError

from pypsa_aidc.errors import Faults, SpecError

MAX_CHARACTERS = 4_000_000
"""Longest specification that is read: a bound on what a file from somewhere can make us do."""

_PREFIX = "pypsa_aidc/"
_SHOWN = 20
_REMEDY = "Add the site again with n.aidc.add."

Content = dict[str, Any]


@cache
def definitions() -> dict[str, Any]:
    """Return the schema file: a JSON schema for each kind of object under ``kinds``, shared parts under ``$defs``."""
    text = (files("pypsa_aidc.network.spec") / "aidc.schema.json").read_text(encoding="utf-8")
    return dict(json.loads(text))


def declare(kind: str, version: int, properties: Mapping[str, Any]) -> None:
    """Say what the objects of a kind look like, where the kind is not in the schema file; all keys are required.

    Parameters
    ----------
    kind
        Last word of the schema.
    version
        Of what is written.
    properties
        JSON schema of each key, but for ``schema`` and ``version``.

    Raises
    ------
    ValueError
        Another kind of this name is there.
    """
    first = {"schema": {"const": _PREFIX + kind}, "version": {"const": version}}
    every = {**first, **properties}
    definition = {"type": "object", "properties": every, "required": [*every], "additionalProperties": False}
    Draft202012Validator.check_schema(definition)
    if kind in kinds() or _declared.setdefault(kind, definition) != definition:
        raise ValueError(f"the kind {kind!r} is taken")


_declared: dict[str, dict[str, Any]] = {}
"""Schemas of kinds that are not in the schema file."""


def _definition(kind: str) -> dict[str, Any]:
    whole: dict[str, Any] = definitions()["kinds"]
    return dict(_declared[kind] if kind in _declared else whole[kind])


def kinds() -> tuple[str, ...]:
    """Kinds of objects that the schema file describes.

    Examples
    --------
    >>> kinds()[:2]
    ('site', 'training')
    """
    return tuple(definitions()["kinds"])


def version(kind: str) -> int:
    """Version of a kind of object that is written, and the newest that is read.

    Examples
    --------
    >>> version("training")
    2
    """
    return int(_definition(kind)["properties"]["version"]["const"])


def kind_of(text: str) -> str | None:
    """Return the kind that a text claims to be, or `None`; nothing of it is checked.

    Examples
    --------
    >>> kind_of(dump("site", {"name": "dc1", "gpus": 8, "idle_w": None, "series": {}}))
    'site'
    """
    found = re.match(rf'\s*\{{\s*"schema"\s*:\s*"{_PREFIX}([a-z_]{{1,40}})"', text)
    return None if found is None else found.group(1)


def word_of(text: str, where: str) -> str:
    """Return the kind that a specification claims to be, wherever its ``schema`` stands; nothing else is checked.

    Raises
    ------
    SpecError
        Too long, no JSON, or without a schema of this package.

    Examples
    --------
    >>> word_of('{"version": 1, "schema": "pypsa_aidc/site"}', "here")
    'site'
    """
    word = kind_of(text)
    if word is not None:
        return word
    faults = Faults(where)
    data = _json(text, faults)
    given = data.get("schema") if isinstance(data, dict) else None
    known = isinstance(given, str) and given.startswith(_PREFIX)
    faults.require(known, "schema", _short(given), f"{_PREFIX!r} and a kind of load", _REMEDY)
    faults.raise_any(SpecError)
    return str(given).removeprefix(_PREFIX)


def dump(kind: str, content: Mapping[str, Any]) -> str:
    """Write an object as one line of JSON with its kind and version, `schema` first."""
    whole = {"schema": _PREFIX + kind, "version": version(kind), **content}
    return json.dumps(whole, allow_nan=False, default=_plain)


def _plain(value: object) -> object:
    """Numbers of any kind, such as those of numpy that users get from their tables, as JSON knows them."""
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    if isinstance(value, Real):
        return float(value)
    raise TypeError(f"{value!r} cannot be written")


def parse(text: str, kind: str, where: str) -> Content:
    """Read an object of a kind, of this or an older version.

    The text is data only: it is bounded, parsed as JSON, migrated to the present version and checked against the
    schema. Nothing in it names code or files.

    Parameters
    ----------
    text
        The JSON.
    kind
        One of `kinds`.
    where
        Where it stands, for messages.

    Returns
    -------
    dict
        The object in the present version, without `schema` and `version`.

    Raises
    ------
    SpecError
        Too long, no JSON, another kind, a newer or unknown version, or against the schema: all faults at once.
    """
    faults = Faults(where)
    data = _json(text, faults)
    given = data.get("schema") if isinstance(data, dict) else None
    faults.require(given == _PREFIX + kind, "schema", _short(given), repr(_PREFIX + kind))
    faults.raise_any(SpecError)
    data = _migrated(data, kind, faults)
    try:
        # No more than are told: a file from somewhere may hold a fault in each of its millions of characters.
        errors = list(islice(_validator(kind).iter_errors(data), _SHOWN + 1))
    except RecursionError as error:
        faults.add("specification", text[:60], "JSON of a few levels")
        raise SpecError(where, tuple(faults)) from error
    for found in sorted(errors[:_SHOWN], key=lambda error: [str(part) for part in error.path]):
        _add(faults, found)
    if len(errors) > _SHOWN:
        faults.add("specification", "more faults", "an object of this schema")
    faults.raise_any(SpecError)
    return {key: value for key, value in data.items() if key not in ("schema", "version")}


def _json(text: str, faults: Faults) -> Any:
    """Read JSON of a bounded length in which no key stands twice, or raise `SpecError`."""
    if len(text) > MAX_CHARACTERS:
        faults.add("specification", f"{len(text)} characters", f"at most {MAX_CHARACTERS}")
        faults.raise_any(SpecError)
    try:
        return json.loads(text, parse_constant=_refuse_constant, object_pairs_hook=_each_key_once)
    except (ValueError, RecursionError) as error:
        faults.add("specification", text[:60], f"JSON ({error})", _REMEDY)
        raise SpecError(faults.subject, tuple(faults)) from error


@cache
def _validator(kind: str) -> Draft202012Validator:
    return Draft202012Validator({**_definition(kind), "$defs": definitions()["$defs"]})


def _migrated(data: Content, kind: str, faults: Faults) -> Content:
    given, present = data.get("version"), version(kind)
    number = given if isinstance(given, int) and not isinstance(given, bool) else -1
    newer = number > present
    remedy = "It was written by a newer pypsa_aidc: upgrade." if newer else _REMEDY
    oldest = min((old for of, old in MIGRATIONS if of == kind), default=present)
    readable = f"{oldest} to {present}" if oldest < present else str(present)
    faults.require(oldest <= number <= present, f"version of {_PREFIX}{kind}", _short(given), readable, remedy)
    faults.raise_any(SpecError)
    for old in range(number, present):
        data = {**MIGRATIONS[kind, old](data), "version": old + 1}
    return data


_UNITS_INTO_KEYS = {
    "work": "work_flops",
    "deadline": "deadline_hours",
    "it_power": "it_power_mw",
    "memory": "memory_bytes",
    "arrival": "arrival_hours",
    "restart_energy": "restart_energy_mwh",
    "min_run": "min_run_hours",
    "min_wait": "min_wait_hours",
    "mode_change_cost": "mode_change_cost_usd",
}


def _training_1(data: Content) -> Content:
    """Version 1 left units to the documentation; since version 2 the keys carry them."""

    def renamed(value: object) -> object:
        if not isinstance(value, dict):
            return value
        return {_UNITS_INTO_KEYS.get(key, key): entry for key, entry in value.items()}

    result = dict(data)
    modes = result.get("modes")
    result["modes"] = [renamed(mode) for mode in modes] if isinstance(modes, list) else modes
    for key in ("rules", "baseline"):
        if key in result:
            result[key] = renamed(result[key])
    return {_UNITS_INTO_KEYS.get(key, key): value for key, value in result.items()}


MIGRATIONS: dict[tuple[str, int], Callable[[Content], Content]] = {("training", 1): _training_1}
"""For each kind and old version, what turns an object into one of the next version."""


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is not a JSON number")


def _each_key_once(pairs: list[tuple[str, Any]]) -> Content:
    result = dict(pairs)
    if len(result) < len(pairs):
        repeated = Counter(key for key, _ in pairs).most_common(1)[0][0]
        raise ValueError(f"the key {repeated[:60]!r} stands twice in one object")
    return result


def _add(faults: Faults, error: ValidationError) -> None:
    place = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in error.absolute_path).lstrip(".")
    given: Any = error.instance
    if error.validator == "required":
        # There is one such error for each missing key, and none says which.
        missing: Any = [key for key in error.validator_value if key not in given]  # type: ignore[union-attr]
        told = {fault.where for fault in faults}
        for where in [f"{place}.{key}".lstrip(".") for key in missing]:
            faults.require(where in told, where, "nothing", "a value", _REMEDY)
    elif error.validator == "additionalProperties" and error.validator_value is False:
        schema: Any = error.schema
        for key in sorted(given.keys() - schema["properties"].keys())[:_SHOWN]:
            faults.add(f"{place}.{_short(key)}".lstrip("."), _short(given[key]), "no such key")
    else:
        faults.add(place or "specification", _short(given), _expected(error))


def _expected(error: ValidationError) -> str:
    value = error.validator_value
    if error.validator == "type":
        return " or ".join(value) if isinstance(value, list) else str(value)
    words = {
        "minimum": "at least {}",
        "exclusiveMinimum": "above {}",
        "maximum": "at most {}",
        "maxLength": "at most {} characters",
        "minLength": "at least {} characters",
        "minItems": "at least {} entries",
        "maxItems": "at most {} entries",
        "maxProperties": "at most {} keys",
        "enum": "one of {}",
        "anyOf": "one of the forms of the schema",
        "const": "{!r}",
    }
    return words.get(str(error.validator), str(error.validator) + " {}").format(value)


def _short(value: object) -> object:
    """Keep what fits into a message; long or deep values are cut."""
    if value is None or (isinstance(value, bool | int | float) and abs(value) < 1e18):
        return value
    return value[:60] if isinstance(value, str) else reprlib.repr(value)
