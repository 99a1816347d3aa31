"""Versions that results depend on."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version

import pypsa_aidc

_PACKAGES = ("pypsa-aidc", "pypsa", "linopy", "highspy", "pandas", "xarray", "numpy")


def versions() -> dict[str, str]:
    """Return the versions of Python and of the packages the results depend on."""
    found = {"Python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = pypsa_aidc.__version__ if package == "pypsa-aidc" else "not installed"
    return found
