"""A YAML file as values that know their line, so that every fault in it can be found again."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import yaml

from pypsa_aidc.errors import Faults, InputError

_LARGEST = 2_000_000
_MOST_NODES = 200_000
_INTEGER = re.compile(r"[-+]?[0-9]+")
_NUMBER = re.compile(r"[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?")
_WORDS = {"true": True, "false": False, "null": None, "~": None, "": None}

Scalar = str | float | int | bool | None


@dataclass(frozen=True)
class Node:
    """A value of a document.

    Parameters
    ----------
    value
        A scalar, a list of nodes, or nodes by key.
    line
        Line in the file, the first being 1; 0 for what a setting gave.
    text
        A scalar as it is written, for names such as ``007`` or ``NO``.
    """

    value: Scalar | list[Node] | dict[str, Node]
    line: int
    text: str = ""

    def where(self, path: str) -> str:
        """Place of the node for messages."""
        place = f"line {self.line}" if self.line else "--set"
        return f"{place}, {path}" if path else place


def read(path: Path, settings: Sequence[str] = ()) -> Node:
    """Read a YAML file, and change it by settings.

    Scalars are read as people mean them: ``1e12`` is a number, ``no`` and ``2030-01-01`` are text, only ``true`` and
    ``false`` are truth values. Tags are refused: a file names no code.

    Parameters
    ----------
    path
        The file.
    settings
        ``key=value`` each, with a dotted key: ``sites.dc1.gpus=1024``, ``sites.0.jobs.0.rules.segments=24``. Entries
        of a list are named by position or by their `name`.

    Returns
    -------
    Node
        The document.

    Raises
    ------
    InputError
        No such file, too large, no YAML, the same key twice, or a setting that leads nowhere.
    """
    faults = Faults(str(path))
    try:
        size = path.stat().st_size
        faults.require(size <= _LARGEST, "file", f"{size} bytes", f"at most {_LARGEST}")
        faults.raise_any()
        tree = yaml.compose(path.read_text(encoding="utf-8"), yaml.SafeLoader)
    except (OSError, UnicodeDecodeError) as error:
        faults.add("file", str(path), f"a readable text file ({error})")
        raise InputError(faults.subject, tuple(faults)) from error
    except (yaml.YAMLError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        place = "file" if mark is None else f"line {mark.line + 1}, column {mark.column + 1}"
        faults.add(place, getattr(error, "problem", None) or type(error).__name__, "YAML")
        raise InputError(faults.subject, tuple(faults)) from error
    faults.require(tree is not None, "file", "nothing", "a mapping with the key sites, or with those of verbs")
    faults.raise_any()
    assert tree is not None
    node = _Converter(faults).node(tree)
    faults.raise_any()
    for setting in settings:
        node = _set(node, setting, faults)
    faults.raise_any()
    return node


class _Converter:
    """Turns PyYAML's nodes into ours, each alias once for each use, up to a number that no person writes."""

    def __init__(self, faults: Faults) -> None:
        self.faults = faults
        self.count = 0

    def node(self, tree: yaml.Node) -> Node:
        line = tree.start_mark.line + 1
        self.count += 1
        if self.count > _MOST_NODES:
            self.faults.add(f"line {line}", "aliases upon aliases", f"at most {_MOST_NODES} values")
            self.faults.raise_any()
        if not tree.tag.startswith("tag:yaml.org,2002:") or tree.tag.startswith("tag:yaml.org,2002:python"):
            self.faults.add(f"line {line}", tree.tag, "plain YAML without tags")
            return Node(None, line)
        if isinstance(tree, yaml.MappingNode):
            return Node(self._mapping(tree), line)
        if isinstance(tree, yaml.SequenceNode):
            return Node([self.node(entry) for entry in tree.value], line)
        plain = isinstance(tree, yaml.ScalarNode) and tree.style is None
        return Node(scalar(tree.value) if plain else tree.value, line, tree.value)

    def _mapping(self, tree: yaml.MappingNode) -> dict[str, Node]:
        result: dict[str, Node] = {}
        for key, value in tree.value:
            line = key.start_mark.line + 1
            if not isinstance(key, yaml.ScalarNode) or key.value == "<<":
                self.faults.add(f"line {line}", "a key that is no word", "a word")
                continue
            self.faults.require(key.value not in result, f"line {line}", key.value, "each key once")
            result[key.value] = replace(self.node(value), line=line)
        return result


def scalar(text: str) -> Scalar:
    """Read a plain scalar.

    Examples
    --------
    >>> [scalar(text) for text in ("1e12", "64", "no", "true", "")]
    [1000000000000.0, 64, 'no', True, None]
    """
    if text in _WORDS:
        return _WORDS[text]
    if _INTEGER.fullmatch(text):
        return int(text) if len(text) < 40 else float(text)
    return float(text) if _NUMBER.fullmatch(text) else text


def _set(root: Node, setting: str, faults: Faults) -> Node:
    key, equals, text = setting.partition("=")
    where = f"--set {setting}"
    if not (key and equals):
        faults.add("--set", setting, "key=value")
        return root
    try:
        tree = yaml.compose(text, yaml.SafeLoader)
    except yaml.YAMLError:
        faults.add(where, text, "a YAML value")
        return root
    value = Node(None, 0) if tree is None else _unplaced(_Converter(faults).node(tree))
    return _with(root, key.split("."), value, where, faults)


def _with(node: Node, keys: Sequence[str], value: Node, where: str, faults: Faults) -> Node:
    """Return the node with the value at the end of the keys."""
    if not keys:
        return value
    first, rest = keys[0], keys[1:]
    if isinstance(node.value, list):
        by_name = {
            each.value["name"].text: position
            for position, each in enumerate(node.value)
            if isinstance(each.value, dict) and "name" in each.value
        }
        position = int(first) if first.isdigit() and first not in by_name else by_name.get(first, -1)
        if not 0 <= position < len(node.value):
            faults.add(where, first, f"a position below {len(node.value)}, or one of {', '.join(by_name)}")
            return node
        entries = list(node.value)
        entries[position] = _with(entries[position], rest, value, where, faults)
        return replace(node, value=entries)
    if isinstance(node.value, dict):
        inner = node.value.get(first, Node({} if rest else None, 0))
        return replace(node, value={**node.value, first: _with(inner, rest, value, where, faults)})
    faults.add(where, first, "a key within a mapping or a list")
    return node


def _unplaced(node: Node) -> Node:
    if isinstance(node.value, list):
        return Node([_unplaced(entry) for entry in node.value], 0)
    if isinstance(node.value, dict):
        return Node({key: _unplaced(entry) for key, entry in node.value.items()}, 0)
    return replace(node, line=0)
