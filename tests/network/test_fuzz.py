"""Networks assembled at random from all PyPSA components: with jobs that have no choice, plain PyPSA or a refusal."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pypsa
import pytest

import pypsa_aidc as aidc
from pypsa_aidc.errors import InputError, NotSolvedError, UnsupportedError
from tests.network.tiny import QUIET

HOURS = 4
PUE = 1.25
REFUSED = (InputError, UnsupportedError)


def assemble(seed: int) -> pypsa.Network:
    """A network of two to five buses in which anything may be odd, but for the bus of the AIDC."""
    rng = np.random.default_rng(seed)
    n = pypsa.Network(snapshots=pd.date_range("2030-01-01", periods=HOURS, freq="h"))
    n.add("Carrier", ["AC", "DC", "wind", "gas", "battery", "H2", "load"], co2_emissions=[0, 0, 0, 0.4, 0, 0, 0])
    buses = [f"b{position}" for position in range(rng.integers(2, 6))]
    n.add("Bus", buses, carrier="AC", v_nom=230.0)

    def some(most: int) -> range:
        return range(int(rng.integers(0, most + 1)))

    def maybe(share: float) -> bool:
        return bool(rng.random() < share)

    def pair() -> dict[str, str]:
        first, second = rng.choice(buses, 2, replace=False)
        return {"bus0": str(first), "bus1": str(second)}

    n.add("Generator", "market", bus="b0", carrier="gas", p_nom=50.0, marginal_cost=rng.uniform(20, 60, HOURS))
    for position in some(4):
        n.add(
            "Generator",
            f"g{position}",
            bus=str(rng.choice(buses)),
            carrier=str(rng.choice(["wind", "gas"])),
            p_nom=float(rng.choice([0.0, 3.0, 9.0])),
            p_max_pu=rng.uniform(0, 1, HOURS) if maybe(0.5) else 1.0,
            p_min_pu=float(rng.choice([0.0, 0.0, 0.2])),
            marginal_cost=float(rng.choice([-5.0, 0.0, 15.0, 40.0])),
            marginal_cost_quadratic=float(rng.choice([0.0, 0.0, 0.0, 0.1])),
            sign=float(rng.choice([1.0, 1.0, 1.0, -1.0])),
            active=not maybe(0.15),
            p_nom_extendable=maybe(0.15),
            p_nom_max=20.0,
            capital_cost=float(rng.choice([1.0, 30.0])),
            committable=maybe(0.15),
            start_up_cost=float(rng.choice([0.0, 5.0])),
            ramp_limit_up=float(rng.choice([np.nan, np.nan, 0.5])),
        )
    for position in some(5):
        n.add(
            "Line",
            f"l{position}",
            **pair(),
            carrier="AC",
            x=float(rng.choice([0.1, 0.3])),
            r=0.01,
            s_nom=float(rng.choice([0.0, 4.0, 20.0, np.inf])),
            active=not maybe(0.15),
            s_nom_extendable=maybe(0.1),
            s_nom_max=30.0,
            capital_cost=2.0,
        )
    for position in some(2):
        phase, tap = float(rng.choice([0.0, 10.0])), float(rng.choice([1.0, 1.05]))
        n.add("Transformer", f"t{position}", **pair(), x=0.1, r=0.01, s_nom=10.0, phase_shift=phase, tap_ratio=tap)
    for position in some(3):
        port = {"bus2": str(rng.choice(buses)), "efficiency2": 0.3} if maybe(0.3) else {}
        n.add(
            "Link",
            f"k{position}",
            **pair(),
            **port,
            carrier="DC",
            p_nom=float(rng.choice([0.0, 5.0, 15.0])),
            p_min_pu=float(rng.choice([0.0, -1.0])),
            efficiency=float(rng.choice([1.0, 0.9])),
            marginal_cost=float(rng.choice([0.0, 1.0])),
            active=not maybe(0.15),
        )
    for position in some(2):
        n.add(
            "StorageUnit",
            f"s{position}",
            bus=str(rng.choice(buses)),
            carrier="battery",
            p_nom=2.0,
            max_hours=3.0,
            efficiency_store=0.9,
            inflow=float(rng.choice([0.0, 0.5])),
            cyclic_state_of_charge=maybe(0.5),
            state_of_charge_initial=1.0,
            active=not maybe(0.15),
        )
    for position in some(2):
        cyclic = maybe(0.5)
        n.add("Store", f"e{position}", bus=str(rng.choice(buses)), carrier="H2", e_nom=5.0, e_cyclic=cyclic)
    for position in some(4):
        demand = rng.uniform(-1, 6, HOURS) if maybe(0.7) else float(rng.uniform(0, 4))
        n.add("Load", f"d{position}", bus=str(rng.choice(buses)), p_set=demand, active=not maybe(0.1))
    if maybe(0.2):
        n.add("GlobalConstraint", "co2", sense="<=", constant=float(rng.choice([0.0, 30.0, 300.0])))
    if maybe(0.3):
        n.snapshot_weightings.loc[:, ["objective", "generators"]] = float(rng.choice([2, 91]))
    return n


def plain(n: pypsa.Network) -> float | None:
    """Objective with the meter power of the job as a load; `None` if there is none."""
    m = n.copy()
    meter = PUE * (0.5 + np.array([0.0, 2.0, 2.0, 0.0]))
    m.add("Load", "AIDC", bus="b0", p_set=meter)
    status, condition = m.optimize(**QUIET)
    return float(m.objective) if (status, condition) == ("ok", "optimal") else None


def ours(n: pypsa.Network) -> float | None:
    """Objective with a job that has no choice: from hour 1 to hour 3 in its only mode."""
    mode = aidc.training.Mode((1, 1, 8), 8, 1e15, 2.0)
    rules = aidc.Rules(segments=2, waiting=False, arrival=1.0)
    n.aidc.add("dc", bus="b0", gpus=8, jobs=[aidc.TrainingLoad("A", 7.2e18, (mode,), rules)], pue=PUE, base_load=0.5)
    try:
        return float(n.aidc.optimize(**QUIET).objective)
    except NotSolvedError:
        return None


def compare(seed: int) -> str:
    """How one network ended: ``"equal"``, ``"infeasible"`` or ``"refused"``."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        n = assemble(seed)
        try:
            found = ours(n.copy())
        except REFUSED:
            return "refused"
        wanted = plain(n)
    if wanted is None:
        assert found is None, f"{seed}: {found} USD where plain PyPSA has no solution"
        return "infeasible"
    assert found == pytest.approx(wanted, rel=1e-5, abs=1e-4), seed
    return "equal"


def test_networks_at_random_are_as_in_plain_pypsa() -> None:
    ended = pd.Series([compare(seed) for seed in range(16)]).value_counts()
    assert ended["equal"] >= 3
