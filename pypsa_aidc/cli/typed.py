"""Nodes of a document into dataclasses by their type hints, with every fault named by its line."""

from __future__ import annotations

import inspect
import re
import types
import typing
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, Field, fields, is_dataclass
from typing import Any, Literal, TypeVar, Union, get_args, get_origin

from pypsa_aidc.cli.document import Node
from pypsa_aidc.errors import Faults, InputError, near

T = TypeVar("T")

_WORDS = {str: "text", float: "a number", int: "a whole number", bool: "true or false", type(None): "nothing"}


BAD: Any = type("Bad", (), {"__repr__": lambda _: "what has faults"})()
"""What a node with faults becomes."""


def build(kind: type[T], node: Node, faults: Faults) -> T:
    """Build a dataclass from a node.

    Parameters
    ----------
    kind
        A dataclass whose fields are numbers, text, truth values, sequences, mappings and dataclasses again.
    node
        The document.
    faults
        Names the file; faults are added to it and raised together.

    Raises
    ------
    InputError
        Unknown or missing keys, values of another type, or what the dataclasses themselves refuse; all at once.
    """
    result = _build(kind, node, "", faults)
    faults.raise_any()
    return typing.cast("T", result)


def _build(kind: Any, node: Node, path: str, faults: Faults) -> Any:
    origin = get_origin(kind)
    if origin in (Union, types.UnionType):
        return _union(get_args(kind), node, path, faults)
    if origin is Literal:
        return _accept(node.value in get_args(kind), node.value, kind, node, path, faults)
    if is_dataclass(kind):
        return _dataclass(kind, node, path, faults)
    if origin in (tuple, Sequence, Iterable):
        return _sequence(kind, node, path, faults)
    if origin is Mapping:
        return _mapping(kind, node, path, faults)
    return _scalar(kind, node, path, faults)


def _scalar(kind: Any, node: Node, path: str, faults: Faults) -> Any:
    value = node.value
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if kind is str:
        return _accept(not isinstance(value, list | dict) and node.text != "", node.text, kind, node, path, faults)
    if kind is float:
        return _accept(number, float(value) if number else value, kind, node, path, faults)  # type: ignore[arg-type]
    if kind is int:
        whole = number and float(value).is_integer()  # type: ignore[arg-type]
        return _accept(whole, int(value) if whole else value, kind, node, path, faults)  # type: ignore[arg-type]
    if kind is bool:
        return _accept(isinstance(value, bool), value, kind, node, path, faults)
    return _accept(value is None, value, kind, node, path, faults)


def _union(kinds: Sequence[Any], node: Node, path: str, faults: Faults) -> Any:
    """Take the first kind that fits; where one fits by its shape, its faults are the ones to tell."""
    if node.value is None and type(None) in kinds:
        return None
    fitting = [kind for kind in kinds if kind is not type(None) and _has_shape(kind, node)]
    for kind in fitting:
        trial = Faults(faults.subject)
        result = _build(kind, node, path, trial)
        if not len(trial):
            return result
    if len(fitting) == 1:
        return _build(fitting[0], node, path, faults)
    given = node.text or _shape(node)
    faults.add(node.where(path), given, " or ".join(_word(kind) for kind in kinds if kind is not type(None)))
    return BAD


def _has_shape(kind: Any, node: Node) -> bool:
    origin = get_origin(kind)
    if isinstance(node.value, dict):
        return is_dataclass(kind) or origin is Mapping
    if isinstance(node.value, list):
        return origin in (tuple, Sequence, Iterable)
    return origin is Literal or kind in _WORDS


def _dataclass(kind: Any, node: Node, path: str, faults: Faults) -> Any:
    if not isinstance(node.value, dict):
        faults.add(node.where(path), node.text or _shape(node), f"a mapping with the keys of {_word(kind)}")
        return BAD
    hints = typing.get_type_hints(kind)
    known = {field.name: field for field in fields(kind) if field.init}
    for key, entry in node.value.items():
        if key not in known:
            faults.add(entry.where(_join(path, key)), "unknown key", f"one of {', '.join(known)}", near(key, known, 1))
    for name, field in known.items():
        if _is_needed(field) and name not in node.value:
            faults.add(node.where(_join(path, name)), "nothing", "a value")
    values = {}
    for name in known:
        before = len(faults)
        built = _build(hints[name], node.value[name], _join(path, name), faults) if name in node.value else BAD
        if len(faults) > before or (name not in node.value and _is_needed(known[name])):
            values[name] = BAD
        elif name in node.value:
            values[name] = built
    return _made(kind, values, node, path, faults)


def _is_needed(field: Field[Any]) -> bool:
    return field.default is MISSING and field.default_factory is MISSING


def _made(kind: Any, values: Mapping[str, Any], node: Node, path: str, faults: Faults) -> Any:
    """Make a dataclass; where some fields are bad it is still asked about the others, so that all faults are told."""
    bad = {name for name, value in values.items() if value is BAD}
    try:
        made = kind(**values)
        return BAD if bad else made
    except InputError as error:
        for fault in error.faults:
            if _field(fault.where) not in bad:
                _place(fault.where, fault.given, fault.expected, fault.remedy, node, path, faults)
    except Exception:
        # What is checked of several fields together cannot be said while one of them is bad.
        if not bad:
            raise
    return BAD


def _field(where: str) -> str:
    """Name of the field that a fault is about."""
    return where.replace("[", " ").replace(",", " ").split()[0] if where else ""


def _place(where: str, given: object, expected: str, remedy: str, node: Node, path: str, faults: Faults) -> None:
    """Note what a dataclass refused at the line of the field that it names first."""
    assert isinstance(node.value, dict)
    field = _field(where)
    place = node.value[field].where(_join(path, where)) if field in node.value else node.where(_join(path, where))
    faults.add(place, given, expected, remedy)


def _sequence(kind: Any, node: Node, path: str, faults: Faults) -> Any:
    if not isinstance(node.value, list):
        faults.add(node.where(path), node.text or _shape(node), _word(kind))
        return BAD
    arguments = get_args(kind)
    repeated = len(arguments) == 1 or arguments[1] is Ellipsis
    if not repeated and len(node.value) != len(arguments):
        faults.add(node.where(path), f"{len(node.value)} entries", f"{len(arguments)} entries")
        return BAD
    entries = [
        _build(arguments[0] if repeated else arguments[position], entry, f"{path}[{position}]", faults)
        for position, entry in enumerate(node.value)
    ]
    return tuple(entry for entry in entries if entry is not BAD)


def _mapping(kind: Any, node: Node, path: str, faults: Faults) -> Any:
    if not isinstance(node.value, dict):
        faults.add(node.where(path), node.text or _shape(node), _word(kind))
        return BAD
    return {key: _build(get_args(kind)[1], entry, _join(path, key), faults) for key, entry in node.value.items()}


def _accept(ok: bool, value: Any, kind: Any, node: Node, path: str, faults: Faults) -> Any:
    if ok:
        return value
    faults.add(node.where(path), node.text or _shape(node), _word(kind))
    return BAD


def _shape(node: Node) -> str:
    return "a list" if isinstance(node.value, list) else "a mapping" if isinstance(node.value, dict) else "nothing"


def _word(kind: Any) -> str:
    origin = get_origin(kind)
    if origin is Literal:
        return f"one of {', '.join(map(str, get_args(kind)))}"
    if origin in (Union, types.UnionType):
        return " or ".join(_word(each) for each in get_args(kind) if each is not type(None))
    if origin in (tuple, Sequence, Iterable):
        return f"a list of {_word(get_args(kind)[0]).removeprefix('a ')}"
    if origin is Mapping:
        return "a mapping"
    return _WORDS.get(kind) or f"a mapping ({kind.__name__})"


def schema(kind: type) -> dict[str, Any]:
    """Describe the files that `build` reads, for editors: as JSON schema, of the draft that they all know.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> @dataclass
    ... class Pool:
    ...     gpus: int
    >>> schema(Pool)["definitions"]["Pool"]["properties"]
    {'gpus': {'type': 'integer'}}
    """
    shared: dict[str, Any] = {}
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "allOf": [_schema(kind, shared)],
        "definitions": shared,
    }


def _schema(kind: Any, shared: dict[str, Any]) -> dict[str, Any]:
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        return {"anyOf": [_schema(each, shared) for each in arguments]}
    if origin is Literal:
        return {"enum": list(arguments)}
    if origin is Mapping:
        return {"type": "object", "additionalProperties": _schema(arguments[1], shared)}
    if origin in (tuple, Sequence, Iterable):
        entries: dict[str, Any] = {"type": "array", "items": _schema(arguments[0], shared)}
        fixed = len(arguments) > 1 and arguments[1] is not Ellipsis
        return entries | ({"minItems": len(arguments), "maxItems": len(arguments)} if fixed else {})
    if isinstance(kind, type) and is_dataclass(kind):
        if kind.__name__ not in shared:
            shared[kind.__name__] = {}
            shared[kind.__name__] |= _object(kind, shared)
        return {"$ref": f"#/definitions/{kind.__name__}"}
    # Names such as 007 and true are text for us, and something else for whoever checks a file against the schema.
    types_of = {str: ["string", "number", "boolean"], float: "number", int: "integer", bool: "boolean"}
    return {"type": types_of.get(kind, "null")}


def _object(kind: Any, shared: dict[str, Any]) -> dict[str, Any]:
    hints, told = typing.get_type_hints(kind), descriptions(kind.__doc__ or "")
    ranges = _ranges(kind, hints)
    properties = {}
    for field in fields(kind):
        default = field.default if isinstance(field.default, str | float | int) else None
        about = {"description": told.get(field.name), "default": default, **field.metadata}
        entry = _schema(hints[field.name], shared) | {k: v for k, v in about.items() if v is not None}
        for each in entry.get("anyOf", [entry]):
            for shape, inner in (("array", "items"), ("object", "additionalProperties")):
                if each.get("type") == shape:
                    each[inner] |= ranges[shape].get(field.name, {})
        # In draft 7 a range is about numbers, whatever else a value may be.
        properties[field.name] = entry | ranges["number"].get(field.name, {})
    needed = [field.name for field in fields(kind) if _is_needed(field)]
    return {"type": "object", "properties": properties, "required": needed, "additionalProperties": False}


_OUTSIDE = float("-inf")
_SAMPLES: dict[str, Any] = {"number": _OUTSIDE, "array": (_OUTSIDE,), "object": {"1": _OUTSIDE}}


def _ranges(kind: Any, hints: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Ask a dataclass for the ranges of its numbers, also in lists and mappings: give it what is outside of all."""
    shapes = {name: _shapes(hint) for name, hint in hints.items()}
    ranges: dict[str, dict[str, Any]] = {}
    for shape in _SAMPLES:
        found = ranges[shape] = {}
        names = {field.name for field in fields(kind) if field.init}
        values = {
            name: _SAMPLES[shape if shape in of else of[0]] for name, of in shapes.items() if of and name in names
        }
        try:
            kind(
                **{field.name: "" if hints[field.name] is str else BAD for field in fields(kind) if _is_needed(field)}
                | values
            )
        except InputError as error:
            for fault in error.faults:
                if fault.bounds and shape in shapes.get(_field(fault.where), ()):
                    found.setdefault(_field(fault.where), fault.bounds)
        except Exception:
            # What is checked of several fields together cannot be asked this way.
            continue
    return ranges


def _shapes(kind: Any) -> list[str]:
    """Where numbers stand in values of a kind."""
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        return list(dict.fromkeys(shape for each in arguments for shape in _shapes(each)))
    if origin in (tuple, Sequence, Iterable, Mapping):
        return (
            ["object" if origin is Mapping else "array"] if _shapes(arguments[-1 if origin is Mapping else 0]) else []
        )
    return ["number"] if kind in (float, int) else []


def descriptions(doc: str) -> dict[str, str]:
    """What the section on parameters says of each."""
    _, _, section = inspect.cleandoc(doc).partition("\nParameters\n----------\n")
    section = re.split(r"\n\n\w+\n---", section)[0] + "\n"
    told: dict[str, str] = {}
    for names, text in re.findall(r"^(\w[\w, ]*)\n((?:(?: .*)?\n)+)", section, re.MULTILINE):
        told |= dict.fromkeys(names.split(", "), " ".join(text.split()))
    return told


def _join(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key
