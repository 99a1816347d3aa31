"""What an AC power flow says of loads that fit by the linear one: voltages, MVA and convergence, case by case."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, cast

import numpy as np
import pandas as pd
import pypsa
from scipy.sparse.linalg import MatrixRankWarning

from pypsa_aidc.errors import Faults, near
from pypsa_aidc.headroom.bus.base_case import BRANCHES, base_case, dispatched, ratings, refuse_modes
from pypsa_aidc.headroom.bus.factors import Branch
from pypsa_aidc.headroom.bus.slack import Slack, check_slack, generators_of, participation
from pypsa_aidc.network.carriers import electric
from pypsa_aidc.network.loads.registry import loads as aidcs
from pypsa_aidc.network.pypsa_api import copy_network, find_sub_networks, quiet_pypsa
from pypsa_aidc.network.spec.series import Values, aligned

Case = tuple[Any, "str | Branch | None"]
"""A snapshot, and a line, or (component, name), that is out; `None` for none."""

_WITHIN = 1e-6
"""Share of a limit by which it may be exceeded, as the linear answers bear it."""

_USUAL_FACTOR = 0.95
_UNITS = {"dc_loading": "", "ac_loading": "", "v_min": "p.u.", "v_max": "p.u.", "losses": "MW"}


class _Part(NamedTuple):
    name: str
    carrier: str
    buses: pd.Index


def ac_check(
    n: pypsa.Network,
    loads: Mapping[str, Values] | None = None,
    cases: Sequence[Case] | None = None,
    *,
    power_factor: float | Mapping[str, float] = 0.95,
    slack: Slack = "spare",
    voltages: tuple[float, float] = (0.95, 1.05),
    emergency: float = 1.0,
) -> pd.DataFrame:
    """Check loads by AC power flow, beside what the linear flows say of them. A check, not a certificate.

    Voltage collapse shows as a power flow that finds no solution. Stability, short circuits, limits of reactive power
    and taps that move are not looked at.

    Parameters
    ----------
    n
        Network with a dispatch: solved, or with set points. It is left as it is.
    loads
        MW that are added, by bus: a number, or one for each snapshot. `None`: the network as it is.
    cases
        Pairs (snapshot, outage): a line, (component, name), or `None` for no outage; all snapshots without outage if
        `None`.
    power_factor
        Of what is added, and of the AIDCs that the network has; lagging, above 0 and at most 1. Or of what is added by
        bus, and 0.95 of the others.
    slack
        What serves the added loads, as for `n.aidc.headroom`.
    voltages
        Limits of buses that have none (`v_mag_pu_min` of 0, `v_mag_pu_max` of inf), per unit.
    emergency
        Rating of branches after an outage, over their normal rating.

    Returns
    -------
    pandas.DataFrame
        By snapshot and outage (``""`` for none): `dc_loading` and `ac_loading`, the highest flow over rating, in MW and
        in MVA, with `dc_element` and `ac_element`; `v_min` and `v_max`, the voltages nearest to their limits (p.u.),
        with `v_min_bus` and `v_max_bus`; `losses` (MW); `converged`; and `fails`, the first that fails of generation,
        linear flows, convergence, voltages, MVA, with its element, or ``""``. What there is no figure of is NaN.

    Raises
    ------
    InputError
        Arguments that cannot be, all at once, and what `n.aidc.headroom` refuses in networks.
    NotSolvedError
        There is no dispatch.

    Notes
    -----
    Losses come from the slack bus of each sub-network: that of the network, or that of the largest generator.
    Generators keep the voltage of their bus (`v_mag_pu_set`) where their `control` says so; if it does for none of a
    sub-network, as networks made for optimisation leave it, all do.

    Examples
    --------
    190 MW at unity power factor over a line of 200 MVA: it carries what the far end draws, and its own losses.

    >>> import pypsa
    >>> n = pypsa.Network()
    >>> _ = n.add("Bus", ["A", "B"], v_nom=230.0)
    >>> _ = n.add("Line", "1", bus0="A", bus1="B", r=2.0, x=20.0, s_nom=200.0)
    >>> _ = n.add("Generator", "G", bus="A", p_nom=500.0, p_set=100.0)
    >>> _ = n.add("Load", "L", bus="B", p_set=100.0)
    >>> found = ac_check(n, {"B": 90.0}, power_factor=1.0)
    >>> found[["dc_loading", "ac_loading", "v_min"]].round(3).reset_index(drop=True)
       dc_loading  ac_loading  v_min
    0        0.95       0.959   0.99
    """
    refuse_modes(n)
    faults = Faults("ac_check")
    chosen = [(snapshot, None) for snapshot in n.snapshots] if cases is None else list(cases)
    added = _checked(n, loads or {}, chosen, faults)
    factors = dict(power_factor) if isinstance(power_factor, Mapping) else {}
    usual = _USUAL_FACTOR if isinstance(power_factor, Mapping) else power_factor
    for where, factor in {"": usual, **factors}.items():
        faults.number(f"power_factor{where and f', {where}'}", factor, above=0, at_most=1)
    lost = [bus for bus in factors if bus not in (loads or {})]
    faults.require(not lost, "power_factor", lost, "buses of loads")
    faults.number("emergency", emergency, at_least=1)
    ordered = len(voltages) == 2 and 0 < voltages[0] < voltages[1]
    faults.require(ordered, "voltages", voltages, "a lower and a higher limit above 0, per unit")
    check_slack(n, slack, faults)
    faults.raise_any()
    at = n.snapshots[n.snapshots.isin([snapshot for snapshot, _ in chosen])]
    case = base_case(n, at)
    dispatched(case, n)
    work, lacking = _prepared(
        case.network,
        added,
        {bus: _reactive(factors.get(bus, usual)) for bus in added.columns},
        _reactive(usual),
        slack,
    )
    rows: dict[tuple[Any, str], dict[str, Any]] = {}
    for outage in dict.fromkeys(_branch(each) for _, each in chosen):
        snapshots = at[at.isin([snapshot for snapshot, each in chosen if _branch(each) == outage])]
        label = "" if outage is None else " ".join(outage)
        found = _flows(work, snapshots, outage, lacking, voltages, emergency)
        rows |= {(snapshot, label): row for snapshot, row in zip(snapshots, found, strict=True)}
    keys = [(snapshot, "" if each is None else " ".join(_branch(each) or ())) for snapshot, each in chosen]
    index = pd.MultiIndex.from_tuples(keys, names=["snapshot", "outage"])
    table = pd.DataFrame([rows[key] for key in keys], index)
    table.attrs["units"] = _UNITS
    return table


def _reactive(power_factor: float) -> float:
    """MVAr for each MW."""
    return math.tan(math.acos(power_factor))


def _branch(outage: str | Branch | None) -> Branch | None:
    return None if outage is None else ("Line", outage) if isinstance(outage, str) else (outage[0], outage[1])


def _checked(n: pypsa.Network, loads: Mapping[str, Values], cases: Sequence[Case], faults: Faults) -> pd.DataFrame:
    """Series of what is added, by bus; all faults of loads and cases are noted."""
    added = pd.DataFrame(index=n.snapshots)
    grid = n.buses.index[electric(n)]
    for bus, power in loads.items():
        faults.require(bus in grid, "loads", bus, "a bus of the grid", near(bus, grid))
        known = len(faults)
        values = pd.Series(aligned(power, n.snapshots, f"loads, bus {bus!r}", faults), n.snapshots, dtype=float)
        if len(faults) == known:
            faults.require(bool((values >= 0).all()), f"loads, bus {bus!r}", float(values.min()), "at least 0 MW")
            added[bus] = values
    faults.require(len(cases) > 0, "cases", 0, "at least one (snapshot, outage)")
    for snapshot, outage in cases:
        faults.require(snapshot in n.snapshots, "cases", snapshot, "a snapshot of the network")
        branch = _branch(outage)
        there = branch is None or (branch[0] in BRANCHES and branch[1] in n.c[branch[0]].static.index)
        faults.require(there, "cases", outage, "a Line, or (component, name) of a Line or Transformer")
    return added


def _prepared(
    n: pypsa.Network, added: pd.DataFrame, by_bus: Mapping[str, float], reactive: float, slack: Slack
) -> tuple[pypsa.Network, dict[Any, str]]:
    """Put dispatch, added loads and what serves them into set points; where generation lacks, by snapshot."""
    lacking: dict[Any, str] = {}
    served: dict[str, pd.Series] = {}
    for name in n.sub_networks.index:
        buses = pd.Index(n.buses.index[n.buses["sub_network"] == name])
        part = _Part(str(name), str(n.sub_networks.at[name, "carrier"]), buses)
        own = added.loc[n.snapshots, added.columns.intersection(buses)]
        total = own.sum(axis=1).to_numpy(float)
        supplying = generators_of(n, part)
        if total.any():
            share = participation(n, part, slack)
            short = total > share.limit * (1 + _WITHIN)
            lacking |= dict.fromkeys(n.snapshots[short | bool(share.reason)], f"generation of sub-network {name}")
            supply = pd.DataFrame((share.weights * total).T, n.snapshots, buses)
            served |= {str(bus): power for bus, power in supply.items() if power.any()}
        static = n.generators.loc[supplying]
        regulating = supplying[static["control"].isin(["PV", "Slack"])]
        if not len(regulating) and len(supplying):
            n.generators.loc[supplying, "control"] = "PV"
            regulating = supplying
        if len(regulating) and not (n.generators.loc[regulating, "control"] == "Slack").any():
            n.generators.loc[n.generators.loc[regulating, "p_nom"].idxmax(), "control"] = "Slack"
    for component in ("Generator", "StorageUnit", "Store"):
        n.c[component].dynamic["p_set"] = n.c[component].dynamic["p"].copy()
    n.c.links.dynamic["p_set"] = n.c.links.dynamic["p0"].copy()
    drawn = {}
    for load in aidcs(n).values():
        buses_of = {account.bus for account in load.accounts(n).values()}
        drawn[load.name] = (next(iter(buses_of)), load.power(n)["meter"].reindex(n.snapshots))
    for name, (bus, power) in drawn.items():
        n.add("Load", f"reactive power of {name}", bus=bus, p_set=0.0, q_set=power * reactive)
    for bus in added.columns:
        power = added.loc[n.snapshots, bus]
        n.add("Load", f"added at {bus}", bus=bus, p_set=power, q_set=power * by_bus[bus])
    for bus, power in served.items():
        n.add("Load", f"serving at {bus}", bus=bus, p_set=-power)
    return n, lacking


def _flows(
    work: pypsa.Network,
    snapshots: pd.Index,
    outage: Branch | None,
    lacking: Mapping[Any, str],
    voltages: tuple[float, float],
    emergency: float,
) -> list[dict[str, Any]]:
    """Both power flows with one branch out, a row of the result for each snapshot."""
    n = work
    parts = len(work.sub_networks)
    if outage is not None:
        n = copy_network(work)
        n.c[outage[0]].static.loc[outage[1], "active"] = False
        find_sub_networks(n)
    if len(n.sub_networks) > parts:
        nothing = dict.fromkeys(("dc_loading", "ac_loading", "v_min", "v_max", "losses"), math.nan)
        named = dict.fromkeys(("dc_element", "ac_element", "v_min_bus", "v_max_bus"), "")
        row = _ordered({**nothing, **named, "converged": False, "fails": "the outage splits the network"})
        return [row for _ in snapshots]
    limit = ratings(n).loc[snapshots] * (emergency if outage is not None else 1.0)
    chosen = cast("Sequence[Any]", snapshots)
    with quiet_pypsa(level=50), warnings.catch_warnings(), np.errstate(all="ignore"):
        # A power flow without solution ends in such matrices and numbers, and says so itself.
        warnings.simplefilter("ignore", MatrixRankWarning)
        warnings.simplefilter("ignore", RuntimeWarning)
        n.lpf(chosen)
        linear = _by_branch(n, "p0", snapshots).abs() / limit
        converged = n.pf(chosen)["converged"].all(axis=1)
    active, other = _by_branch(n, "p0", snapshots), _by_branch(n, "p1", snapshots)
    near_end = np.hypot(active.to_numpy(float), _by_branch(n, "q0", snapshots).to_numpy(float))
    far_end = np.hypot(other.to_numpy(float), _by_branch(n, "q1", snapshots).to_numpy(float))
    loading = pd.DataFrame(np.maximum(near_end, far_end), snapshots, limit.columns) / limit
    losses = active.sum(axis=1) + other.sum(axis=1)
    grid = n.buses[electric(n) & (n.buses["carrier"] != "DC")]
    voltage = n.c.buses.dynamic["v_mag_pu"].loc[snapshots, grid.index]
    lower = grid["v_mag_pu_min"].where(grid["v_mag_pu_min"] > 0, voltages[0])
    upper = grid["v_mag_pu_max"].where(np.isfinite(grid["v_mag_pu_max"]), voltages[1])
    rows = []
    for snapshot in snapshots:
        ok = bool(converged[snapshot])
        row = {"converged": ok, "losses": float(losses[snapshot]) if ok else math.nan}
        for word, table in (("dc", linear), ("ac", loading)):
            row |= _highest(table.loc[snapshot], word, word == "dc" or ok)
        low, high = (voltage.loc[snapshot] - lower), (upper - voltage.loc[snapshot])
        for word, margin in (("v_min", low), ("v_max", high)):
            bus = str(margin.idxmin()) if ok and len(margin) else ""
            row |= {word: float(voltage.at[snapshot, bus]) if bus else math.nan, f"{word}_bus": bus}
        row["fails"] = _first_failure(row, lacking.get(snapshot, ""), low, high)
        rows.append(_ordered(row))
    return rows


def _by_branch(n: pypsa.Network, attribute: str, snapshots: pd.Index) -> pd.DataFrame:
    parts = {}
    for component in BRANCHES:
        static = n.c[component].static
        active = static.index[static["active"]]
        parts[component] = n.c[component].dynamic[attribute].reindex(index=snapshots, columns=active)
    joined: pd.DataFrame = pd.concat(parts, axis=1)
    return joined


def _highest(loading: pd.Series, word: str, known: bool) -> dict[str, Any]:
    """Highest loading with its element; nothing where there is no branch, or no solution."""
    if not known or loading.empty:
        return {f"{word}_loading": math.nan if not known else 0.0, f"{word}_element": ""}
    place = int(np.argmax(loading.to_numpy(float)))
    return {f"{word}_loading": float(loading.iloc[place]), f"{word}_element": " ".join(loading.index[place])}


def _first_failure(row: Mapping[str, Any], lacking: str, low: pd.Series, high: pd.Series) -> str:
    if lacking:
        return lacking
    if row["dc_loading"] > 1 + _WITHIN:
        return f"linear flow on {row['dc_element']}"
    if not row["converged"]:
        return "no solution of the AC power flow"
    for word, margin in (("v_min", low), ("v_max", high)):
        if len(margin) and margin.min() < -_WITHIN:
            return f"voltage of bus {row[f'{word}_bus']}"
    return f"MVA on {row['ac_element']}" if row["ac_loading"] > 1 + _WITHIN else ""


def _ordered(row: Mapping[str, Any]) -> dict[str, Any]:
    columns = ("dc_loading", "dc_element", "ac_loading", "ac_element", "v_min", "v_min_bus", "v_max", "v_max_bus")
    return {name: row[name] for name in (*columns, "losses", "converged", "fails")}
