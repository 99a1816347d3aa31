from __future__ import annotations

import subprocess
import sys

from pypsa_aidc import fleet


def test_the_package_knows_nothing_of_power_system_models():
    code = "import sys, pypsa_aidc.fleet, pypsa_aidc.fleet_plots; print({'pypsa', 'linopy'} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "set()\n"


def test_every_public_name_is_there_and_documented():
    for name in fleet.__all__:
        thing = getattr(fleet, name)
        if callable(thing):
            assert thing.__doc__, name


def test_functions_keep_their_names_beside_modules_of_the_same_name():
    for name in ("trace", "statistics", "envelope", "surface", "portfolios", "contract", "synthetic", "backtest"):
        assert callable(getattr(fleet, name)), name
