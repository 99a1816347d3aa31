"""A fleet of free size on the bundled region: one optimisation of two years gives the closed form of the screen."""

from __future__ import annotations

import numpy as np
import pypsa
import pytest

from tests.conftest import ROOT


@pytest.mark.slow
def test_two_years_with_relief_along_a_path_are_the_closed_form() -> None:
    n = pypsa.Network(ROOT / "networks" / "miso_south.nc")
    hours = np.arange(len(n.snapshots))
    load = 0.85 + 0.15 * np.sin(2 * np.pi * hours / 24)
    relief = load * (0.10 + 0.05 * np.cos(2 * np.pi * hours / 168))
    (bus,) = n.buses.index
    (cap,) = n.generators.index
    slack = float(n.generators.at[cap, "p_nom"]) - n.loads_t.p_set.sum(axis=1).to_numpy()
    options = {"p_nom_extendable": True, "p_nom_max": 5000.0, "capital_cost": -1.0}
    n.aidc.add_fleet("fleet", bus=bus, profile=load, relief=relief, **options)
    n.aidc.optimize(output_flag=False)
    # Without a budget L* is the least of H_t / (s_t − c_t): Sec. 4 of the screen, and App. E of arXiv 2609.05406.
    assert n.generators.at["fleet", "p_nom_opt"] == pytest.approx(np.min(slack / (load - relief)), rel=1e-9)
