"""Functions of a file that is in no package."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from pypsa_aidc.errors import Faults, near

Function = Callable[..., Any]


@dataclass(frozen=True)
class FileFunction:
    """A function in a Python file, which each process reads by itself: the file need not be in a package.

    Parameters
    ----------
    path
        The file; modules beside it can be imported.
    name
        Of the function in it.

    Raises
    ------
    InputError
        No such file or function.
    """

    path: Path
    name: str

    def __post_init__(self) -> None:
        self.function  # noqa: B018 - it checks itself

    @property
    def function(self) -> Function:
        """The function itself."""
        faults = Faults(f"function {self.name!r}")
        path = self.path.resolve()
        faults.require(path.is_file(), "file", str(path), "an existing Python file")
        faults.raise_any()
        if str(path.parent) not in sys.path:
            sys.path.insert(0, str(path.parent))
        module = import_module(path.stem)
        other = module.__file__ or "a built-in module"
        faults.require(Path(other) == path, "file", str(path), f"another name: {other} has this one")
        found: Function = getattr(module, self.name, None)  # type: ignore[assignment]
        faults.require(callable(found), "name", self.name, f"a function of {path}", near(self.name, vars(module)))
        faults.raise_any()
        return found

    def __call__(self, **arguments: Any) -> Any:
        """Call the function."""
        return self.function(**arguments)
