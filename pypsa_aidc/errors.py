"""The errors this package raises on purpose, and the collector that reports several faults of one input together."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from functools import wraps
from numbers import Real
from types import UnionType
from typing import Any, ParamSpec, TypeVar, Union, get_args, get_origin

P = ParamSpec("P")
R = TypeVar("R")


class AIDCError(Exception):
    """Base of every error that `pypsa_aidc` raises on purpose."""


@dataclass(frozen=True)
class Fault:
    """One thing wrong with an input: where, what was given, what was expected, and what to do."""

    where: str
    given: object
    expected: str
    remedy: str = ""
    bounds: Mapping[str, float] = field(default_factory=dict, compare=False, repr=False)
    """Where a number in a range was expected, the range in the words of JSON schema."""

    def __str__(self) -> str:
        remedy = f" {self.remedy}" if self.remedy else ""
        return f"{self.where}: given {_plain(self.given)!r}, expected {self.expected}.{remedy}"


class InputError(AIDCError, ValueError):
    """An input was refused; `faults` lists everything that is wrong with it.

    Parameters
    ----------
    subject
        What was being read or built, e.g. ``"Job 'A'"``.
    faults
        At least one fault.
    """

    def __init__(self, subject: str, faults: tuple[Fault, ...]) -> None:
        self.subject = subject
        self.faults = faults
        count = "" if len(faults) == 1 else f" ({len(faults)} faults)"
        super().__init__(f"{subject}{count}:\n" + "\n".join(f"  - {fault}" for fault in faults))

    def __reduce__(self) -> tuple[type[InputError], tuple[str, tuple[Fault, ...]]]:
        return type(self), (self.subject, self.faults)


class SpecError(InputError):
    """A specification stored in a network (the JSON in a string column) cannot be read."""


class StaleError(InputError):
    """What is stored in the network no longer fits it: other snapshots, other weightings, another solve."""


class UnsupportedError(AIDCError, NotImplementedError):
    """A PyPSA mode or a combination of options that would give a wrong answer, and is therefore refused."""


class NotSolvedError(AIDCError, RuntimeError):
    """There is no solution: the solver stopped without one, or nothing has been solved yet."""


class InfeasibleError(NotSolvedError):
    """No dispatch satisfies all constraints; `explanation` says in words which ones collide.

    Parameters
    ----------
    explanation
        Text for a person: which job, how many GPU-hours short, what would do.
    """

    def __init__(self, explanation: str) -> None:
        self.explanation = explanation
        super().__init__(explanation)


class AuditError(AIDCError):
    """A solution broke a constraint when it was checked again from the decoded result."""


class UnitWarning(UserWarning):
    """A number that is legal but looks as if it were given in another unit."""


class CaseWarning(UserWarning):
    """A part of a case file that a network cannot hold, and what was made of it."""


class SeriesWarning(UserWarning):
    """A series finer than the snapshots, or snapshots whose dates and weightings disagree: what was made of it."""


class PriceWarning(UserWarning):
    """A file from which plain PyPSA gets the right loads and objective, but not every price."""


def near(name: object, known: Iterable[object], most: int = 3) -> str:
    """Ask whether another name was meant, in any case, `most` of them at most, or return "" if none is near.

    Examples
    --------
    >>> near("nroth", ["north", "middle"])
    "Did you mean 'north'?"
    >>> near("h1", ["H100", "A100"])
    "Did you mean 'H100'?"
    """
    plain, asked = {str(one).casefold(): str(one) for one in known}, str(name).casefold()
    begun = [each for each in plain if len(asked) > 1 and each.startswith(asked)][:most]
    close = begun or get_close_matches(asked, plain, most)
    return f"Did you mean {' or '.join(repr(plain[each]) for each in close)}?" if close else ""


def _plain(value: Any) -> Any:
    """A scalar of NumPy as what it is in Python; NumPy itself would take longer to import than all of this."""
    return value.item() if type(value).__module__ == "numpy" and getattr(value, "ndim", 1) == 0 else value


class Faults:
    """Collects faults of one input so that they are reported together.

    Parameters
    ----------
    subject
        What is being read or built; becomes the first line of the error.

    Examples
    --------
    >>> faults = Faults("GPU 'X1'")
    >>> faults.number("memory", -80e9, above=0)
    >>> faults.number("peak", float("nan"), above=0)
    >>> try:
    ...     faults.raise_any()
    ... except InputError as error:
    ...     print(len(error.faults))
    2
    """

    def __init__(self, subject: str) -> None:
        self.subject = subject
        self._faults: list[Fault] = []

    def __iter__(self) -> Iterator[Fault]:
        return iter(self._faults)

    def __len__(self) -> int:
        return len(self._faults)

    def add(self, where: str, given: object, expected: str, remedy: str = "") -> None:
        """Note one fault."""
        self._faults.append(Fault(where, given, expected, remedy))

    def also(self, faults: Iterable[Fault], prefix: str = "") -> None:
        """Note faults of another error, each with a prefix to where it is."""
        self._faults += [replace(fault, where=f"{prefix}{fault.where}") for fault in faults]

    def require(self, ok: bool, where: str, given: object, expected: str, remedy: str = "") -> None:
        """Note a fault unless `ok`."""
        if not ok:
            self.add(where, given, expected, remedy)

    def number(
        self,
        where: str,
        value: object,
        *,
        above: float | None = None,
        at_least: float | None = None,
        at_most: float | None = None,
        integer: bool = False,
        remedy: str = "",
    ) -> None:
        """Note a fault unless `value` is a finite number in the given range (`integer`: a whole one)."""
        expected = "a whole number" if integer else "a finite number"
        expected += "" if above is None else f" above {above:g}"
        expected += "" if at_least is None else f" of at least {at_least:g}"
        expected += (
            ""
            if at_most is None
            else f"{' and' if above is not None or at_least is not None else ''} at most {at_most:g}"
        )
        ok = (
            not isinstance(value, bool)
            and isinstance(value, Real)
            and math.isfinite(value)
            and (not integer or float(value).is_integer())
            and (above is None or float(value) > above)
            and (at_least is None or float(value) >= at_least)
            and (at_most is None or float(value) <= at_most)
        )
        if not ok:
            bounds = {"exclusiveMinimum": above, "minimum": at_least, "maximum": at_most}
            known = {word: bound for word, bound in bounds.items() if bound is not None}
            self._faults.append(Fault(where, value, expected, remedy, known))

    def flag(self, where: str, value: object) -> None:
        """Note a fault unless `value` is True or False."""
        self.require(isinstance(_plain(value), bool), where, value, "True or False")

    def kind(self, where: str, value: object, kind: type | tuple[type, ...], expected: str, remedy: str = "") -> bool:
        """Note a fault unless `value` is of a kind, and return whether it is."""
        ok = isinstance(value, kind)
        self.require(ok, where, value, expected, remedy)
        return ok

    def listed(self, where: str, value: object, expected: str, remedy: str = "") -> list[Any]:
        """Note a fault unless `value` is a list of values, and return them; of anything else nothing."""
        ok = isinstance(value, Iterable) and not isinstance(value, str | bytes | Mapping)
        self.require(ok, where, value, expected, remedy)
        return list(value) if ok else []  # type: ignore[call-overload]

    def raise_any(self, error: type[InputError] = InputError) -> None:
        """Raise `error` with all noted faults, if there are any."""
        if self._faults:
            raise error(self.subject, tuple(self._faults))


def checked(function: Callable[P, R]) -> Callable[P, R]:
    """Refuse arguments of another class altogether by name, as far as the annotations of a function are classes.

    Numbers, choices and what is in a list are for the function itself to check: it knows their ranges.

    Examples
    --------
    >>> @checked
    ... def count(faults: Faults | None, names: Mapping[str, str]) -> int:
    ...     return len(names)
    >>> count(None, {"a": "b"})
    1
    >>> count(5, 3)
    Traceback (most recent call last):
    pypsa_aidc.errors.InputError: count (2 faults):
      - faults: given 5, expected Faults or None.
      - names: given 3, expected a mapping.
    """
    signature = inspect.signature(function)

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        faults = Faults(function.__qualname__)
        for name, value in signature.bind(*args, **kwargs).arguments.items():
            kinds = _classes(function, signature.parameters[name])
            if kinds:
                words = [_KINDS.get(kind, kind.__name__) for kind in kinds]
                faults.kind(name, value, tuple(kinds), " or ".join(words))
        faults.raise_any()
        return function(*args, **kwargs)

    return call


_KINDS: dict[type, str] = {Iterable: "a list", Mapping: "a mapping", str: "text", type(None): "None"}


def _classes(function: Callable[..., Any], parameter: inspect.Parameter) -> list[type]:
    """Classes that an argument is declared as; none where that is anything else, or not known at run time."""
    if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD) or parameter.annotation is parameter.empty:
        return []
    hint = parameter.annotation
    try:
        hint = eval(hint, inspect.unwrap(function).__globals__) if isinstance(hint, str) else hint
    except NameError:
        return []
    found = []
    for each in get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,):
        origin = get_origin(each) or each
        origin = type(None) if origin is None else origin
        if not isinstance(origin, type) or issubclass(origin, Real):
            return []
        # Arrays are as good as lists.
        lists = issubclass(origin, Iterable) and origin.__module__ == "collections.abc" and origin is not Mapping
        found.append(Iterable if lists else origin)
    return found
