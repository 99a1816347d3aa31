"""Networks of the bus headroom tests, and a second formulation of their answers that knows no distribution factors."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pypsa
from scipy.optimize import linprog
from scipy.sparse import block_diag, csr_array, hstack, vstack

from tests.conftest import ROOT

RATINGS = {"AB": 100.0, "BC": 90.0, "AC": 110.0}


def triangle(load: float = 30.0, **ratings: float) -> pypsa.Network:
    """Three buses, three equal reactances, a generator at A that serves a load at C."""
    n = pypsa.Network()
    n.add("Bus", list("ABC"), v_nom=230.0, x=[0.0, 2.0, 1.0], y=[0.0, 0.0, 1.5])
    for line, rating in (RATINGS | ratings).items():
        n.add("Line", line, bus0=line[0], bus1=line[1], x=10.0, s_nom=rating)
    n.add("Generator", "G", bus="A", p_nom=1000.0, p_set=load)
    n.add("Load", "L", bus="C", p_set=load)
    return n


def solved(n: pypsa.Network, **options: object) -> pypsa.Network:
    status, condition = n.optimize(log_to_console=False, progress=False, **options)
    assert (status, condition) == ("ok", "optimal")
    n.model.solver_model = None
    return n


def random_grid(seed: int, buses: int = 7, hours: int = 5, rating: float = 1.0) -> pypsa.Network:
    """Loops, one radial bus, a phase shifter with a tap, generators and storage with set points."""
    rng = np.random.default_rng(seed)
    n = pypsa.Network(snapshots=pd.date_range("2030-01-01", periods=hours, freq="h"))
    names = [f"b{i}" for i in range(buses)]
    n.add("Bus", names, v_nom=220.0)
    pairs = {(i, i + 1) for i in range(buses - 1)} | {(0, buses - 2)}
    while len(pairs) < buses + 2:
        i, j = sorted(rng.choice(buses - 1, 2, replace=False))
        pairs.add((int(i), int(j)))
    for i, j in sorted(pairs):
        limit = rating * rng.uniform(80, 160)
        n.add("Line", f"{i}-{j}", bus0=names[i], bus1=names[j], x=rng.uniform(5, 40), s_nom=limit)
    n.add(
        "Transformer",
        "pst",
        bus0="b1",
        bus1="b3",
        x=0.1 * rating,
        s_nom=120.0 * rating,
        phase_shift=rng.uniform(-2, 2),
        tap_ratio=1.02,
    )
    loads = names[1::2]
    demand = pd.DataFrame(rng.uniform(10, 35, (hours, len(loads))), n.snapshots, [f"{bus} load" for bus in loads])
    n.add("Load", demand.columns, bus=loads, p_set=demand)
    stored = pd.Series(rng.uniform(-10, 10, hours), n.snapshots)
    n.add("StorageUnit", "s", bus="b2", p_nom=20.0, max_hours=6.0, p_set=stored, cyclic_state_of_charge=True)
    generators = [f"g{i}" for i in range(len(names[::2]))]
    share = rng.dirichlet(np.ones(len(generators)), hours)
    power = pd.DataFrame(share, n.snapshots, generators).mul(demand.sum(axis=1) - stored, axis=0)
    n.add(
        "Generator", generators, bus=names[::2], p_nom=power.max() + rng.uniform(30, 90, len(generators)), p_set=power
    )
    return n


def without_redispatch(
    n: pypsa.Network,
    bus: str,
    weights: pd.DataFrame,
    spare: pd.Series,
    load: pd.Series | float = 1.0,
    outages: Sequence[tuple[str, str]] = (),
) -> float:
    """Headroom at one bus as a linear programme in voltage angles, with everything but slack and site fixed.

    Each snapshot, without outage and with each one, has angles of its own; a branch that is out is left out. All are
    tied by the size of the site. `n` must hold flows.
    """
    n.calculate_dependent_values()
    kinds = [kind for kind in ("Line", "Transformer") if len(n.c[kind].static)]
    everything = pd.concat({kind: n.c[kind].static for kind in kinds})
    # Alternating and direct current are parts of their own; the other one is not touched.
    like = everything["bus0"].map(n.buses["carrier"]).to_numpy() == n.buses.at[bus, "carrier"]
    table = everything[like]
    flow = pd.concat({kind: n.c[kind].dynamic["p0"] for kind in kinds}, axis=1)[table.index].to_numpy()
    rating = np.hstack([n.get_switchable_as_dense(kind, "s_max_pu") * n.c[kind].static["s_nom"] for kind in kinds])
    rating = rating[:, like]
    reactance = table["r_pu_eff" if "DC" in n.buses.at[bus, "carrier"] else "x_pu_eff"].to_numpy()
    shift = np.radians(table.get("phase_shift", pd.Series(0.0, table.index)).fillna(0.0).to_numpy())
    buses = n.buses.index
    count, branches = len(buses), len(table)
    incidence = np.zeros((count, branches))
    incidence[buses.get_indexer(table["bus0"]), np.arange(branches)] = 1.0
    incidence[buses.get_indexer(table["bus1"]), np.arange(branches)] -= 1.0
    profile = np.broadcast_to(np.asarray(load, dtype=float), len(n.snapshots))
    blocks, draws, known, limits = [], [], [], []
    for t, snapshot in enumerate(n.snapshots):
        drawn = -weights.loc[snapshot, buses].to_numpy() * profile[t]
        drawn[buses.get_loc(bus)] += profile[t]
        for outage in (None, *outages):
            there = np.array([key != outage for key in table.index])
            flows = (incidence[:, there] / reactance[there]).T  # flow = flows @ angles - shift / reactance
            constant = shift[there] / reactance[there]
            blocks.append((incidence[:, there] @ flows, flows))
            draws.append(drawn)
            known.append(incidence @ flow[t] + incidence[:, there] @ constant)
            limits.append((rating[t, there] + constant, rating[t, there] - constant))
    equal = hstack([csr_array(np.concatenate(draws)[:, None]), block_diag([block for block, _ in blocks])])
    flows = block_diag([block for _, block in blocks])
    upper = hstack([csr_array((flows.shape[0], 1)), flows])
    lower = hstack([csr_array((flows.shape[0], 1)), -flows])
    highest = min(spare[s] / profile[t] if profile[t] > 0 else np.inf for t, s in enumerate(n.snapshots))
    angles = equal.shape[1] - 1
    found = linprog(
        np.r_[-1.0, np.zeros(angles)],
        A_ub=vstack([upper, lower]),
        b_ub=np.concatenate([*[top for top, _ in limits], *[bottom for _, bottom in limits]]),
        A_eq=equal,
        b_eq=np.concatenate(known),
        bounds=[(0, highest), *[(None, None)] * angles],
    )
    assert found.status in (0, 2), found.message
    return float(found.x[0]) if found.status == 0 else 0.0


def spare_weights(n: pypsa.Network, buses: pd.Index | None = None) -> tuple[pd.DataFrame, pd.Series]:
    """Shares by bus, and the whole of the unused available power of generators; of the given buses."""
    buses = n.buses.index if buses is None else buses
    generators = n.generators[n.generators["bus"].isin(buses)]
    nominal = generators["p_nom"]
    limit = n.get_switchable_as_dense("Generator", "p_max_pu")[generators.index] * nominal
    spare = (limit - n.generators_t.p[generators.index]).clip(lower=0)
    spare = spare.where(spare > 1e-6, 0.0)
    by_bus = spare.T.groupby(generators["bus"]).sum().T.reindex(columns=n.buses.index, fill_value=0.0)
    total = by_bus.sum(axis=1)
    return by_bus.div(total.where(total > 0, 1.0), axis=0), total


def rts_gmlc(folder: Path, snapshots: pd.DatetimeIndex) -> pypsa.Network:
    """The network of networks/rts_gmlc.py."""
    specification = importlib.util.spec_from_file_location("rts_gmlc", ROOT / "networks" / "rts_gmlc.py")
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    sys.modules["rts_gmlc"] = module
    specification.loader.exec_module(module)
    found: pypsa.Network = module.network(folder, snapshots)
    return found
