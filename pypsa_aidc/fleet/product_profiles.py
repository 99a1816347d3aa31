"""What products of grid operators and utilities ask for: one YAML file of facts each, no rule in code."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files
from typing import Any

import yaml

from pypsa_aidc.errors import Faults, near


def profiles() -> tuple[str, ...]:
    """Names of the products that a sheet can be held against; each a YAML file of the package.

    Examples
    --------
    >>> "pjm" in profiles()
    True
    """
    folder = files("pypsa_aidc.fleet") / "products"
    return tuple(sorted(each.name.removesuffix(".yaml") for each in folder.iterdir() if each.name.endswith(".yaml")))


def product(profile: str) -> Mapping[str, Any]:
    """Return what a product asks for: `product`, `asks`, and `notes`. Rules change: check their text before use.

    Raises
    ------
    InputError
        No such profile.
    """
    faults = Faults("term sheet")
    faults.require(
        profile in profiles(), "profile", profile, f"one of {', '.join(profiles())}", near(profile, profiles())
    )
    faults.raise_any()
    text = (files("pypsa_aidc.fleet") / "products" / f"{profile}.yaml").read_text(encoding="utf-8")
    return dict(yaml.safe_load(text))
