"""How many copies of a site of LLM training jobs a bus carries: one schedule, as even against the limits as can be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import pypsa
import xarray as xr

from pypsa_aidc.errors import Faults, InfeasibleError
from pypsa_aidc.headroom.bus.answers import BusHeadroom
from pypsa_aidc.headroom.bus.base_case import Floats
from pypsa_aidc.headroom.bus.study import Prepared, bus_headroom
from pypsa_aidc.network import add, optimize
from pypsa_aidc.network.pypsa_api import model_of, quiet_pypsa, renew_limits
from pypsa_aidc.network.solve.optimize import solve_again
from pypsa_aidc.network.spec.series import Values
from pypsa_aidc.progress import track
from pypsa_aidc.training import GPU, Job, TrainingLoad

_SITE, _BUS, _ROOM, _FREE = "site", "grid", "room", "free"
_NOISE = 1e-6
_OWN = ("redispatch", "load", "relief", "contract", "peak", "reliability", "by_snapshot", "prepared")
"""Options of `headroom` that the training site decides itself."""


def training_headroom(
    n: pypsa.Network,
    /,
    buses: Sequence[str],
    *,
    gpus: int,
    jobs: Sequence[TrainingLoad | Job],
    gpu: GPU | str | None = None,
    pue: Values = 1.0,
    base_load: Values = 0.0,
    draw_idle: bool = False,
    solver: Mapping[str, Any] | None = None,
    **options: Any,
) -> BusHeadroom:
    """Find how many copies of a training site each bus carries if its jobs run when the grid has room for them.

    With x_t the most that can be drawn at a bus with the dispatch fixed (``headroom(..., by_snapshot=True)``), L copies
    that run alike and draw p_t each fit if L·p_t ≤ x_t at each snapshot. The largest L has the schedule with the least
    z = 1/L such that p_t ≤ z·x_t: one mixed-integer programme, in which z is the capacity of a generator with x_t as
    its availability.

    Parameters
    ----------
    n
        Network; left as it is.
    buses
        Buses to study; each takes one mixed-integer programme.
    gpus, jobs, gpu, pue, base_load, draw_idle
        One site, as in `n.aidc.add`; series are those of the snapshots studied.
    solver
        Options of `n.aidc.optimize`, such as ``{"mip_rel_gap": 1e-3, "time_limit": 60}``; HiGHS without output by
        default.
    options
        Of `headroom` without redispatch: `contingencies`, `snapshots`, `slack`, `emergency`, `overloads`, `cutoff`,
        `memory`.

    Returns
    -------
    BusHeadroom
        As of `headroom`; `headroom` is the highest draw of all copies in MW at the meter, and what limits is told for
        the schedule found. Besides, by bus, `copies` (L, not rounded), `copies_bound` (no schedule has more) and
        `schedule` (the solver's status; "" where no schedule was looked for), and `power`, p_t of one copy in MW at the
        meter.

    Raises
    ------
    InputError
        Anything wrong with the site, the network, or options that do not go with training.
    InfeasibleError
        The jobs cannot finish in time however much power there is.
    NotSolvedError, StaleError, UnsupportedError
        As `headroom` and `n.aidc.optimize`.

    Notes
    -----
    Copies that start at different hours may fit in larger number: L is then what can be had without telling them apart.
    With redispatch, limits do not hold for one bus alone; put a site of given size into a copy of the network with
    `n.aidc.add` and ask `n.aidc.optimize` whether it can be served.

    Examples
    --------
    A night with room for 9 MW and a day with room for 3 MW, four hours each. A job of 4 hours at 2 MW runs by night.

    >>> import pypsa, pypsa_aidc as aidc
    >>> n = pypsa.Network(snapshots=range(8))
    >>> _ = n.add("Bus", "A")
    >>> _ = n.add("Generator", "G", bus="A", p_nom=10.0, p_set=[1.0] * 4 + [7.0] * 4)
    >>> _ = n.add("Load", "L", bus="A", p_set=[1.0] * 4 + [7.0] * 4)
    >>> mode = aidc.training.Mode((1, 1, 8), gpus=8, flops_per_s=1e15, it_power=2.0)
    >>> job = aidc.TrainingLoad("job", 4 * 3600 * 1e15, (mode,), aidc.Rules(segments=4))
    >>> training_headroom(n, ["A"], gpus=8, jobs=[job]).to_frame()[["headroom", "copies"]].round(6).values.tolist()
    [[9.0, 4.5]]
    >>> bus_headroom(n, ["A"]).headroom.tolist()
    [3.0]
    """
    faults = Faults("training_headroom")
    for option in _OWN:
        faults.require(option not in options, option, options.get(option), "nothing: the training site decides it")
    faults.require(not isinstance(buses, str) and len(buses) > 0, "buses", buses, "a list of at least one bus")
    faults.raise_any()
    prepared = Prepared()
    room = bus_headroom(n, buses, by_snapshot=True, prepared=prepared, **options)
    site = {"gpus": gpus, "jobs": jobs, "gpu": gpu, "pue": pue, "base_load": base_load, "draw_idle": draw_idle}
    chosen = {"output_flag": False} if solver is None else dict(solver)
    weightings = n.snapshot_weightings.loc[n.snapshots if options.get("snapshots") is None else options["snapshots"]]
    site_alone = _one_bus(weightings, site)
    parts = []
    for bus in track(buses, "copies of the site, by bus"):
        limits = room.data.sel(bus=[bus])
        draw = limits["draw"].to_numpy()[0]
        if np.isposinf(draw).all():
            parts.append(_described(limits, np.inf, np.inf, "", np.full(draw.size, np.nan)))
            continue
        found = _schedule(draw, site_alone, chosen)
        if found is None:
            # Only a snapshot without any room can rule out every size, and that is what limits a constant load, too.
            parts.append(_described(limits, 0.0, 0.0, "infeasible", np.full(draw.size, np.nan)))
            continue
        power, bound, status = found
        peak = float(power.max())
        answer = bus_headroom(
            n,
            [bus],
            load=pd.Series(power / peak, weightings.index),
            by_snapshot=True,
            prepared=prepared,
            **options,
        ).data
        copies = float(answer["headroom"].item()) / peak
        parts.append(_described(answer, copies, max(copies, bound), status, power))
    data = xr.concat(parts, "bus", data_vars="minimal", coords="minimal", compat="override", join="override")
    data.attrs["response"] = f"copies of a site with {gpus} GPUs for training"
    return BusHeadroom(data)


def _schedule(draw: Floats, one: pypsa.Network, solver: Mapping[str, Any]) -> tuple[Floats, float, str] | None:
    """Power of one copy at the meter, MW, bound of the copies, and the solver's status; `None` if no size fits."""
    limited = np.isfinite(draw)
    scale = float(draw[limited].max())
    available = draw / scale if scale > 0 else np.zeros(draw.size)
    one.generators_t.p_max_pu[_ROOM] = np.where(limited, available, 0.0)
    one.generators_t.p_max_pu[_FREE] = np.where(limited, 0.0, 1.0)
    try:
        with quiet_pypsa():
            if model_of(one) is None:
                result = optimize(one, prices=False, **solver)
            else:  # another bus has another room, and nothing else
                renew_limits(one)
                result = solve_again(one, **solver)
    except InfeasibleError:
        unlimited = one.copy()
        unlimited.generators_t.p_max_pu[_FREE] = 1.0
        with quiet_pypsa():
            optimize(unlimited, prices=False, **solver)  # raises if the jobs themselves are the reason, and says why
        return None
    power = one.links_t.p0[f"{_SITE} import"].to_numpy(float)
    # What a solver leaves below its tolerance would not fit where there is no room.
    power = np.where(power > _NOISE * power.max(), power, 0.0)
    bound = scale / result.bound if result.bound > 0 else np.inf
    return power, bound, result.status


def _one_bus(weightings: pd.DataFrame, site: Mapping[str, Any]) -> pypsa.Network:
    """The site, with power from room for copies of it, and free power where nothing limits them."""
    n = pypsa.Network(snapshots=weightings.index)
    n.snapshot_weightings = weightings
    n.add("Carrier", "AC")
    n.add("Bus", _BUS, carrier="AC")
    add(n, _SITE, bus=_BUS, **site)
    connection = float(n.links.at[f"{_SITE} import", "p_nom"])
    n.add("Generator", _ROOM, bus=_BUS, carrier="AC", p_nom_extendable=True, capital_cost=1.0)
    n.add("Generator", _FREE, bus=_BUS, carrier="AC", p_nom=connection)
    return n


def _described(limits: xr.Dataset, copies: float, bound: float, status: str, power: Floats) -> xr.Dataset:
    """The answer at one bus with what is told of training besides."""
    return limits.assign(
        copies=("bus", [copies], {"long_name": "copies of the training site"}),
        copies_bound=("bus", [bound], {"long_name": "no schedule has more copies"}),
        schedule=("bus", np.array([status], dtype=object), {"long_name": "status of the solver"}),
        power=(("bus", "snapshot"), power[None], {"units": "MW", "long_name": "draw of one copy at the meter"}),
    )
