"""What a site may leave undrawn: a relief profile, and dependable relief by duration in windows without binaries."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pandas as pd

from pypsa_aidc.errors import Faults
from pypsa_aidc.fleet import Contract, Surface
from pypsa_aidc.headroom.bus.base_case import Floats, Integers
from pypsa_aidc.network.spec.series import Values, aligned

Windows = Mapping[int, float]
_ROUNDS = 200
_SHARE = "a share of the site's size, at most 1"
_MW = "For K in MW, give contract=surface, and peak= in MW of the fleet that it was measured on."


@dataclass(frozen=True, eq=False)
class Response:
    """Relief r_t of a site of L MW: r_t ≤ c_t·L, and Σ_{j<h} r_{t+j} ≤ h·κ_h·L for each window of h hours.

    Attributes
    ----------
    load : numpy.ndarray
        s_t, draw of the site per MW of its size, shape (T,).
    relief : numpy.ndarray
        c_t within [0, s_t], shape (T,); equal to `load` where only windows bind.
    windows : tuple of (int, float)
        Hours h and depth κ_h per MW of size, ascending in h.
    """

    load: Floats
    relief: Floats
    windows: tuple[tuple[int, float], ...] = ()

    @property
    def firm(self) -> bool:
        """Whether the site has no response."""
        return not bool(self.relief.any())

    @property
    def needed(self) -> Floats:
        """Draw per MW of size that no response can spare, shape (T,)."""
        deepest = min((hours * depth for hours, depth in self.windows), default=np.inf)
        return np.maximum(self.load - np.minimum(self.relief, deepest), 0.0)

    @property
    def watched(self) -> Floats:
        """Draw per MW of size up to which a limit counts: all of it where relief in common is scarce, shape (T,)."""
        return self.load if self.windows else self.needed


def response(
    snapshots: pd.Index,
    load: Values,
    relief: Values | None,
    contract: Windows | Surface | Contract | None,
    peak: float | None,
    reliability: float,
    faults: Faults,
) -> Response:
    """Check load, relief and contract of `headroom` and bring them to one form; see there for the arguments."""
    profile = _profile(load, snapshots, "load", faults)
    faults.require(not (profile < 0).any(), "load", float(profile.min()), "a draw of at least 0 per MW of site")
    faults.require(bool((profile > 0).any()), "load", float(profile.max()), "a draw above 0 at some snapshot")
    windows = _windows(contract, peak, reliability, faults)
    most = max(1.0, float(profile.max(initial=0.0))) * (1 + 1e-9)
    if windows:
        _check_hourly(snapshots, faults)
    for hours, depth in windows:
        remedy = _MW if isinstance(contract, Mapping) else "The fleet that K was measured on is larger than that."
        where = f"contract at {hours} h" if isinstance(contract, Mapping) else "peak"
        given_depth = depth if isinstance(contract, Mapping) else f"{peak:g} MW, of which K is {depth:.3g} times"
        faults.require(depth <= most, where, given_depth, _SHARE, remedy)
    if relief is None:
        return Response(profile, profile if windows else np.zeros_like(profile), windows)
    given = _profile(relief, snapshots, "relief", faults)
    faults.require(not (given < 0).any(), "relief", float(given.min()), "at least 0 per MW of site")
    highest = float(given.max())
    faults.require(highest <= most, "relief", highest, _SHARE, f"{highest / 100:g} for {highest:g} %.")
    return Response(profile, np.clip(given, 0.0, profile), windows)


def is_synthetic(contract: Windows | Surface | Contract | None) -> bool:
    """Whether a contract says of itself that its numbers are those of the synthetic fleet."""
    if isinstance(contract, Surface):
        return bool(contract.data.attrs.get("synthetic", 0))
    return isinstance(contract, Contract) and contract.synthetic


def largest_site(draw: Floats, site: Response) -> tuple[Floats, Floats]:
    """Largest site at each bus whose draw, less its relief, stays within given draws.

    With the least relief r_t = (L·s_t − x_t)⁺, L is possible if (L·s_t − x_t)⁺ ≤ c_t·L at each snapshot and its
    sum over each window is at most h·κ_h·L. Both are convex in L and hold at 0, so the possible L are an interval,
    and Newton's method from above reaches its end in finitely many steps: no linear program is needed.

    Parameters
    ----------
    draw
        x_bt, largest draws, MW, at least 0, shape (B, T).
    site
        Load and response.

    Returns
    -------
    size, price
        L, MW, inf where nothing limits; dL/dx_bt, shape (B, T), nonzero at the snapshots that limit.

    References
    ----------
    [2] arXiv:2609.05406, Sec. 4; the window form is an inner approximation of its calls, exact for constant depth.
    """
    needed = site.load - site.relief
    sizes = np.divide(draw, needed, out=np.full(draw.shape, np.inf), where=needed > 0)
    first = np.argmin(sizes, axis=1)
    buses = np.arange(draw.shape[0])
    size = sizes[buses, first]
    price = np.zeros(draw.shape)
    limited = np.isfinite(size)
    price[buses[limited], first[limited]] = 1 / needed[first[limited]]
    if not site.windows:
        return size, price
    by_profile = size
    size = np.minimum(size, _from_infinity(draw, site))
    for _ in range(_ROUNDS):
        lower = np.minimum(size, _tangents(draw, site, size, exceeded_only=True)[0])
        if not (lower < size * (1 - 1e-13)).any():
            break
        size = lower
    _, hours, start = _tangents(draw, site, size, exceeded_only=False)
    for bus in np.flatnonzero(size < by_profile):
        part = slice(start[bus], start[bus] + hours[bus])
        active = size[bus] * site.load[part] >= draw[bus, part] * (1 - 1e-12)
        slope = float((site.load[part] * active).sum()) - hours[bus] * dict(site.windows)[int(hours[bus])]
        price[bus] = 0.0
        price[bus, part] = active / slope
    return size, price


def _from_infinity(draw: Floats, site: Response) -> Floats:
    """Upper bound of the size: the tangents of the windows where every limited hour is curtailed."""
    limited = np.isfinite(draw)
    load, room = site.load * limited, np.where(limited, draw, 0.0)
    bound = np.full(draw.shape[0], np.inf)
    for hours, depth in site.windows:
        slope = _sums(load, hours) - hours * depth
        allowed = np.where(slope > 1e-12, _sums(room, hours) / np.where(slope > 1e-12, slope, 1.0), np.inf)
        bound = np.minimum(bound, allowed.min(axis=1))
    return bound


def _tangents(draw: Floats, site: Response, size: Floats, exceeded_only: bool) -> tuple[Floats, Integers, Integers]:
    """Least root of the windows' tangents at a size, and of which window (hours, first snapshot) it is, by bus."""
    known = np.where(np.isfinite(size), size, 0.0)[:, None]
    active = (known * site.load >= draw * (1 - 1e-12)) & np.isfinite(size)[:, None]
    load, room = np.where(active, site.load, 0.0), np.where(active, draw, 0.0)
    best, buses = np.full(size.size, np.inf), np.arange(size.size)
    hours_of, start_of = np.zeros(size.size, np.int64), np.zeros(size.size, np.int64)
    for hours, depth in site.windows:
        slope = _sums(load, hours) - hours * depth
        total = _sums(room, hours)
        counts = slope > 1e-12
        if exceeded_only:
            counts &= slope * known > total
        root = np.where(counts, total / np.where(counts, slope, 1.0), np.inf)
        start = root.argmin(axis=1)
        better = root[buses, start] < best
        best = np.where(better, root[buses, start], best)
        hours_of, start_of = np.where(better, hours, hours_of), np.where(better, start, start_of)
    return best, hours_of, start_of


def _sums(values: Floats, hours: int) -> Floats:
    """Sums over each window of consecutive snapshots, shape (…, T − h + 1); over all if the horizon is shorter."""
    length = min(hours, values.shape[1])
    totals: Floats = np.lib.stride_tricks.sliding_window_view(values, length, axis=1).sum(axis=-1)
    return totals


def _profile(value: Values, snapshots: pd.Index, where: str, faults: Faults) -> Floats:
    before = len(faults)
    found = aligned(value, snapshots, where, faults)
    if len(faults) > before:
        faults.raise_any()
    return np.broadcast_to(np.asarray(found, dtype=float), len(snapshots)).copy()


def _windows(
    contract: Windows | Surface | Contract | None, peak: float | None, reliability: float, faults: Faults
) -> tuple[tuple[int, float], ...]:
    if contract is None:
        faults.require(peak is None, "peak", peak, "None: it belongs to a contract or a surface")
        return ()
    if isinstance(contract, Mapping):
        faults.require(peak is None, "peak", peak, "None: windows are already per MW of site")
        faults.require(bool(contract), "contract", contract, "at least one window")
        for hours, depth in contract.items():
            faults.number("contract, hours", hours, at_least=1, integer=True)
            faults.number(f"contract at {hours} h", depth, at_least=0)
        faults.raise_any()
        return tuple(sorted((int(hours), float(depth)) for hours, depth in contract.items()))
    faults.number("peak", peak, above=0, remedy="MW of the fleet whose K this is: K over it is the depth per MW.")
    faults.raise_any()
    assert peak is not None
    if isinstance(contract, Surface):
        depths = {hours: contract.at(hours, reliability) / peak for hours, valid in contract.windows.items() if valid}
        # K may rise across gaps of the data; a longer call is never deeper.
        ordered = sorted(depths.items())
        for (_, shorter), (hours, longer) in pairwise(ordered):
            assert longer <= shorter + 1e-9, f"Surface.at rises at {hours} h"
        return tuple(ordered)
    depth = contract.offer / peak
    spacing = math.ceil(contract.spacing - 1e-9)
    return ((1, depth), (spacing, depth * contract.duration / spacing))


def _check_hourly(snapshots: pd.Index, faults: Faults) -> None:
    """Windows count hours: snapshots must be consecutive hours."""
    if not isinstance(snapshots, pd.DatetimeIndex):
        return
    steps = np.diff(snapshots.to_numpy()) / np.timedelta64(1, "h")
    wrong = np.flatnonzero(np.abs(steps - 1) > 1e-6)
    if wrong.size:
        faults.add(
            f"snapshots after {snapshots[wrong[0]]}",
            f"a step of {steps[wrong[0]]:g} h",
            "consecutive hours, since a contract counts them",
            "Ask for hourly snapshots, or give a relief profile.",
        )
