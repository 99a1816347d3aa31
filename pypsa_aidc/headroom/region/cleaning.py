"""Cleaning of hourly demand: what looks wrong, what is done about it, and a list of both."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Collection
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt
import pandas as pd

from pypsa_aidc.errors import Faults, checked
from pypsa_aidc.headroom.region.demand import HOUR, Demand, DemandWarning, findings

Gaps = Literal["raise", "interpolate", "drop"]
Rule = Literal["negative", "zero", "spike", "repeated", "level"]
Mask = npt.NDArray[np.bool_]

NEIGHBOURS = 3
"""Hours before and after, of which the median is what a spike is measured against."""
DAYS_BESIDE = 3
"""Days before and after a filled hour in whose same clock hours a peak it may hide is looked for."""
NEAR_PEAK = 0.9
"""Share of the peak from which demand on those days leaves room for a hidden peak: of the hundred highest hours of each
year 2020–2024 in MISO South, at most three exceeded the same hour of all days beside them by more than a ninth."""
LEVEL_DAYS = 15
"""Days on either side whose same clock hours an hour is measured against: a plateau of two weeks still stands out."""
_SHOWN = 3


@checked
def clean(
    demand: Demand,
    *,
    gaps: Gaps = "raise",
    limit: int = 24,
    replace: Collection[Rule] = ("negative", "zero", "spike"),
    spike: float = 1.5,
    repeated: int = 4,
    level: float = 1.8,
) -> Demand:
    """Flag odd hours, fill or drop missing ones, and list each of them.

    Parameters
    ----------
    demand
        As read.
    gaps
        What happens to missing hours, and to flagged ones of the rules in `replace`. ``"raise"``: they are an error.
        ``"interpolate"``: a straight line between the known hours around them (as in [2]). ``"drop"``: the hours are
        left out, and nothing is screened in them.
    limit
        Longest gap that is interpolated, h, at least 1.
    replace
        Rules whose hours count as missing; hours of the other rules are only listed.
    spike
        An hour is a spike if it is more than so many times the median of the three hours on either side, or less than
        that median divided by it; above 1.
    repeated
        Hours of the same value in a row from which they count as stuck, at least 2.
    level
        Hours are off their level where a day or more of them is above so many times the median of the same clock
        hour of the 15 days on either side, or below that median divided by it; above 1. In MISO South 2020 to 2025 the
        highest such ratio of a single hour is 1.76, in a cold snap. Finds plateaus of another unit or region.

    Returns
    -------
    Demand
        Without missing hours. Its audit has one row for each missing, negative, zero, spiking or repeated hour, and
        each off its level: rule, old and new MW, and what was done.

    Raises
    ------
    InputError
        Parameters out of range; with ``"raise"`` any missing hour; with ``"interpolate"`` gaps that are longer than
        `limit` or at an end.

    Warns
    -----
    DemandWarning
        If an hour with a finding sets the peak, or may hide one: its old value was higher, or the same clock hour of a
        day beside it came near the peak.

    Examples
    --------
    >>> hours = pd.date_range("2024-01-01", periods=5, freq="h")
    >>> tidy = clean(Demand(pd.Series([90.0, np.nan, 70.0, 95.0, 80.0], hours)), gaps="drop")
    >>> tidy.audit[["rule", "old", "action"]].to_numpy().tolist()
    [['missing', nan, 'dropped']]
    """
    faults = Faults("Cleaning of demand")
    for name, value, kind in (("gaps", gaps, Gaps), *(("replace", rule, Rule) for rule in replace)):
        faults.require(value in get_args(kind), name, value, f"one of {', '.join(get_args(kind))}")
    faults.number("limit", limit, at_least=1, integer=True)
    faults.number("spike", spike, above=1)
    faults.number("level", level, above=1)
    faults.number("repeated", repeated, at_least=2, integer=True)
    faults.raise_any()
    old = demand.mw
    flags = _flags(demand, spike, repeated, level)
    gap = flags["missing"].copy()
    for rule in replace:
        gap |= flags[rule]
    if gaps == "interpolate":
        _check_gaps(demand, gap, limit, faults)
    elif gaps == "raise":
        _refuse_gaps(demand, gap, flags, faults)
    faults.raise_any()
    series = demand.series.mask(gap)
    new = series.interpolate().to_numpy() if gaps == "interpolate" else series.to_numpy()
    done = "interpolated" if gaps == "interpolate" else "dropped"
    audit = [
        findings(demand.hours[mask], rule, old[mask], new[mask], np.where(gap[mask], done, "kept"))
        for rule, mask in flags.items()
        if mask.any()
    ]
    entries = [part for part in (demand.audit, *audit) if len(part)]
    kept = ~np.isnan(new)
    faults.require(bool(kept.any()), "demand", "nothing left", "at least one hour that is not dropped")
    faults.raise_any()
    tidy = dataclasses.replace(
        demand,
        series=pd.Series(new[kept], demand.hours[kept]),
        audit=pd.concat(entries, ignore_index=True).sort_values("snapshot", kind="stable", ignore_index=True)
        if entries
        else demand.audit,
    )
    for text in doubts(tidy):
        warnings.warn(text, DemandWarning, stacklevel=2)
    return tidy


def _flags(demand: Demand, spike: float, repeated: int, level: float) -> dict[str, Mask]:
    """Find the odd hours by rule; only the first rule that applies counts."""
    values = demand.mw
    flags: dict[str, Mask] = {"missing": np.isnan(values)}
    flags["negative"] = values < 0
    flags["zero"] = values == 0
    sound = pd.Series(np.where(values > 0, values, np.nan))
    flags["level"] = _plateaus(_over_same_hours(demand.series.where(sound.notna().to_numpy())), level)
    # Pad: the ends have neighbours on one side only, which the median leaves out, as it does hours off their level.
    padded = np.pad(sound.mask(flags["level"]).to_numpy(), NEIGHBOURS, constant_values=np.nan)
    beside = np.lib.stride_tricks.sliding_window_view(padded, 2 * NEIGHBOURS + 1)
    beside = np.delete(beside, NEIGHBOURS, axis=1)
    median = pd.DataFrame(beside).median(axis=1).to_numpy()
    flags["spike"] = ((sound.to_numpy() > spike * median) | (sound.to_numpy() < median / spike)) & ~flags["level"]
    run = (sound != sound.shift()).cumsum()
    length = sound.groupby(run).transform("size").to_numpy()
    flags["repeated"] = sound.notna().to_numpy() & (length >= repeated) & ~flags["spike"] & ~flags["level"]
    return flags


def _plateaus(ratio: npt.NDArray[np.float64], level: float) -> Mask:
    """Hours off their level in stretches of a day or more; shorter ones are spikes."""
    off = (ratio > level) | (ratio < 1 / level)
    for first, end in _runs(off):
        off[first:end] = end - first >= 24
    return off


def _over_same_hours(series: pd.Series[float]) -> npt.NDArray[np.float64]:
    """Each hour over the median of the same clock hour of the days around it, NaN with fewer than a week of them."""
    hours = pd.date_range(series.index[0], series.index[-1], freq="h")
    days = -(-len(hours) // 24)
    table = np.full(days * 24, np.nan)
    table[: len(hours)] = series.reindex(hours).to_numpy()
    by_day = pd.DataFrame(table.reshape(days, 24))
    median = by_day.rolling(2 * LEVEL_DAYS + 1, center=True, min_periods=8).median()
    ratio = pd.Series((by_day / median).to_numpy().ravel()[: len(hours)], hours)
    return ratio.reindex(series.index).to_numpy()


def _runs(mask: Mask) -> list[tuple[int, int]]:
    """First and one-past-last position of each stretch of True."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], mask, [False]]).astype(np.int8)))
    return [(int(first), int(end)) for first, end in zip(edges[::2], edges[1::2], strict=True)]


def _check_gaps(demand: Demand, gap: Mask, limit: int, faults: Faults) -> None:
    for first, end in _runs(gap):
        where = f"{demand.hours[first]} to {demand.hours[end - 1]} UTC"
        if first == 0 or end == gap.size:
            faults.add(where, f"{end - first} h missing at an end", "known hours on both sides", "Cut or drop it.")
        elif end - first > limit:
            faults.add(where, f"a gap of {end - first} h", f"at most limit={limit} h", "Raise the limit, or drop it.")


def _refuse_gaps(demand: Demand, gap: Mask, flags: dict[str, Mask], faults: Faults) -> None:
    for rule, mask in flags.items():
        runs = _runs(mask & gap)
        for first, end in runs[:_SHOWN]:
            more = f" (one of {len(runs)} such stretches)" if len(runs) > 1 else ""
            faults.add(
                f"{demand.hours[first]} UTC",
                f"{end - first} h {rule}{more}",
                "a demand in every hour",
                "Choose gaps='interpolate' with a limit, or gaps='drop'.",
            )


def doubts(demand: Demand) -> list[str]:
    """Say in words which findings set the peak of a cleaned demand, or may hide a higher one."""
    audit = demand.audit[demand.audit["rule"] != "duplicate"]
    texts = []
    at_peak = audit[audit["snapshot"].isin(demand.hours[(demand.series == demand.peak).to_numpy()])]
    for row in at_peak.to_dict("records"):
        texts.append(
            f"the peak of {demand.peak:,.6g} MW at {row['snapshot']} UTC, which sets the cap, is a flagged hour: "
            f"{row['rule']} ({row['old']:,.6g} MW), {row['action']}{_without(demand, row['rule'])}"
        )
    higher = audit[(audit["old"] > demand.peak) & (audit["old"] != audit["new"])]
    if len(higher):
        top = higher.sort_values("old", kind="stable").iloc[-1]
        texts.append(
            f"hours above the peak of {demand.peak:,.6g} MW were replaced ({len(higher)} h), which lowers the cap: "
            f"{top['old']:,.6g} MW at {top['snapshot']} UTC ({top['rule']}), {top['action']}"
        )
    # Hours that were missing, and bad ones that were replaced: neither says what demand was.
    replaced = audit["rule"].isin(get_args(Rule)) & (audit["action"] != "kept") & (audit["old"] < demand.peak)
    unknown = audit["old"].isna() | replaced
    filled = pd.DatetimeIndex(audit.loc[unknown, "snapshot"])
    days = [day for day in range(-DAYS_BESIDE, DAYS_BESIDE + 1) if day]
    # Days beside that were filled themselves say nothing.
    sound = demand.series[~demand.hours.isin(filled)]
    beside = [sound.reindex(filled + day * 24 * HOUR).to_numpy(float) for day in days]
    highest = np.fmax.reduce(beside)
    near = highest >= NEAR_PEAK * demand.peak
    if near.any():
        first = int(np.flatnonzero(near)[0])
        which = "missing" if audit.loc[unknown, "old"].isna().all() else "missing or replaced"
        texts.append(
            f"{which} hours may hide the peak that sets the cap ({int(near.sum())} h, first {filled[first]} UTC): "
            f"within {DAYS_BESIDE} days the same hour reached {highest[first]:,.6g} of {demand.peak:,.6g} MW"
        )
    return texts


def _without(demand: Demand, rule: str) -> str:
    """Say which peak would be left without the hours of a rule that were kept."""
    audit = demand.audit
    kept = audit.loc[(audit["rule"] == rule) & (audit["action"] == "kept"), "snapshot"]
    rest = demand.series[~demand.hours.isin(pd.DatetimeIndex(kept))]
    if not len(kept) or rest.empty:
        return ""
    return f"; without the {len(kept)} h of this rule the peak is {rest.max():,.6g} MW"
