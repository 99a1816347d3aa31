"""Values in plain form: checked fields as Python's own numbers, and counts as words that agree with them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

from pypsa_aidc.errors import Faults, InputError

T = TypeVar("T")

ALL = "all"
"""Label of what is the same in all scenarios."""


def read_saved(made: Callable[[Any], T], path: str | Path, writer: str) -> T:
    """Make something of the xarray.Dataset in a file that `writer`, such as ``"Surface.save"``, has written.

    Raises
    ------
    InputError
        The file cannot be read or holds something else.
    """
    import xarray as xr  # heavy, for counts in words

    try:
        with xr.open_dataset(path) as data:
            return made(data.load())
    except InputError:
        raise
    except (OSError, ValueError, KeyError) as error:
        faults = Faults(f"{writer.partition('.')[0]} in '{path}'")
        faults.add("file", str(error).splitlines()[0], f"netCDF written by {writer}")
        raise InputError(faults.subject, tuple(faults)) from error


def counted(count: int, noun: str) -> str:
    """Return a count with its noun.

    Examples
    --------
    >>> counted(1, "error"), counted(0, "note"), counted(3, "Bus")
    ('1 error', '0 notes', '3 Buses')
    """
    many = "es" if noun.endswith(("s", "x", "ch", "sh")) else "s"
    return f"{count:,} {noun}{'' if count == 1 else many}"


def large(count: float) -> str:
    """Return a large count in words.

    Examples
    --------
    >>> large(1.5e13), large(2.5e9), large(800_000)
    ('15 trillion', '2.5 billion', '800,000')
    """
    for size, word in ((1e12, "trillion"), (1e9, "billion"), (1e6, "million")):
        if count >= size:
            return f"{count / size:.6g} {word}"
    return f"{count:,.6g}"


def settle(record: Any, *, whole: Iterable[str] = (), real: Iterable[str] = ()) -> None:
    """Turn fields of a frozen dataclass that were checked to be numbers, of NumPy or any kind, into int and float.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True)
    ... class Pool:
    ...     gpus: int
    ...     hours: float | None
    ...     def __post_init__(self) -> None:
    ...         settle(self, whole=["gpus"], real=["hours"])
    >>> Pool(8.0, None)
    Pool(gpus=8, hours=None)
    """
    for fields, kind in ((whole, int), (real, float)):
        for field in fields:
            value = getattr(record, field)
            if value is not None:
                object.__setattr__(record, field, kind(value))
