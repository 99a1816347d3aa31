"""What can be signed: an offer in megawatts, how often it may be called, what it costs in energy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, timedelta
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd

from pypsa_aidc.errors import Faults, checked
from pypsa_aidc.fleet.condition import Condition
from pypsa_aidc.fleet.envelope import Envelope, Portfolio
from pypsa_aidc.fleet.layers import Boundary
from pypsa_aidc.fleet.studies.backtest import WEEK, Backtest
from pypsa_aidc.fleet.studies.uncertainty import paired_interval
from pypsa_aidc.fleet.surface import Surface, window_minima
from pypsa_aidc.fleet.windows import Method, dependable, least_windows

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LEAST_WEEKS = 12
"""Of a trace whose K can be tested: eight weeks of training, four of test."""


def net_energy_ratio(duration: float, rebound: float = 1.0, checkpoint: float = 1.0) -> float:
    """Net over gross curtailed energy of a call: 1 − ρ·[1 + T/(2h)] (App. D of [2]).

    Parameters
    ----------
    duration
        h of the call, above 0.
    rebound
        Share ρ of the curtailed energy that is drawn later, at least 0.
    checkpoint
        Checkpoint interval T, h, at least 0; half of it is lost and done again.

    Examples
    --------
    >>> net_energy_ratio(4)
    -0.125
    """
    return 1 - rebound * (1 + checkpoint / (2 * duration))


@dataclass(frozen=True)
class Contract:
    """Terms of a dependable relief product (Secs 3.6 and App. D of [2]).

    Attributes
    ----------
    power
        Historical K at full realisation, MW at the workload; at least 0.
    duration
        h of a call; whole, at least 1.
    reliability
        Of a single call, in (0, 1]; unconditional, per event.
    noneligible
        Mean power of floor and shift layer, MW, that absorbs the rebound; above 0.
    q
        Fraction that a field trial has shown to be realised, 0 … 1.
    derating
        Factor from a backtest, in (0, 1]: above 1, the offer would be more than K and its reliability less than stated.
    rebound
        Share ρ of the curtailed energy drawn later, at least 0.
    checkpoint
        Checkpoint interval, h, at least 0.
    recovery_share
        Share of `noneligible` by which the load may rise to recover, in (0, 1].
    pue
        Facility over IT power, at least 1.
    recalibrate_after
        Weeks after which K must be estimated anew, above 0; a backtest tests no further than its test weeks.
    signed
        Day from which `recalibrate_after` counts; None if not signed.
    notice
        h from the announcement of a call to its start, for which `power` holds; None if it holds for all eligible work
        that would have run, whenever it began.
    response
        h that a stop takes, e.g. to write checkpoints, at most `notice`; None if not said.
    floor
        Power at the meter that stays on in a call, MW, not exceeded with the reliability; None if not known.
    interval
        `power` in the 5th and the 95th percentile of a block bootstrap, MW; None if the trace is too short for one.
    portfolio
        The clusters.
    source
        Where K comes from.
    synthetic
        Whether K comes from the synthetic fleet.
    basis
        What K stands on, in words, e.g. ``{"mapping": "central"}``: mapping, boundary, power model, hours, method.

    Raises
    ------
    InputError
        A term outside its range.

    Examples
    --------
    >>> terms = Contract(power=2.3199, duration=4, reliability=0.95, noneligible=23.264)
    >>> round(terms.rebound_energy, 2), round(terms.recovery_time, 2), round(terms.calls_per_week, 1)
    (10.44, 4.49, 19.8)
    >>> round(terms.all_delivered(5), 2)
    0.75
    """

    power: float
    duration: int
    reliability: float
    noneligible: float
    q: float = 1.0
    derating: float = 1.0
    rebound: float = 1.0
    checkpoint: float = 1.0
    recovery_share: float = 0.1
    pue: float = 1.2
    recalibrate_after: float = 4.0
    signed: date | None = None
    notice: float | None = None
    response: float | None = None
    floor: float | None = None
    interval: tuple[float, float] | None = None
    portfolio: tuple[str, ...] = field(default=(), repr=False)
    source: str = ""
    synthetic: bool = False
    basis: Mapping[str, str] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        faults = Faults("Contract")
        faults.number("power", self.power, at_least=0)
        faults.number("duration", self.duration, at_least=1, integer=True)
        faults.number("reliability", self.reliability, above=0, at_most=1)
        remedy = "Read what stays on, too: other layers or feeds, beside which the rebound has room."
        faults.number("noneligible", self.noneligible, above=0, remedy=remedy)
        faults.number("q", self.q, at_least=0, at_most=1)
        remedy = "A factor above 1 would offer more than K: the smaller of it and 1, as Backtest.derating gives it."
        faults.number("derating", self.derating, above=0, at_most=1, remedy=remedy)
        faults.number("rebound", self.rebound, at_least=0)
        faults.number("checkpoint", self.checkpoint, at_least=0)
        faults.number("recovery_share", self.recovery_share, above=0, at_most=1)
        faults.number("pue", self.pue, at_least=1)
        faults.number("recalibrate_after", self.recalibrate_after, above=0)
        for name in ("notice", "response", "floor"):
            if getattr(self, name) is not None:
                faults.number(name, getattr(self, name), at_least=0)
        slow = self.response is not None and self.notice is not None and self.response > self.notice
        remedy = "A stop that takes longer than the notice is late for the call."
        faults.require(not slow, "response", self.response, f"at most the notice, {self.notice} h", remedy)
        faults.raise_any()

    @property
    def offer(self) -> float:
        """MW at the workload: q·derating·K; the same at the meter if cooling does not follow (marginal response)."""
        return self.q * self.derating * self.power

    @property
    def offer_average(self) -> float:
        """MW at the meter if cooling follows in proportion (average PUE)."""
        return self.pue * self.offer

    @property
    def net_energy(self) -> float:
        """Net over gross curtailed energy of a call; below 0 if a call costs energy."""
        return net_energy_ratio(self.duration, self.rebound, self.checkpoint)

    @property
    def rebound_energy(self) -> float:
        """MWh drawn after a call: ρ·offer·(h + T/2)."""
        return self.rebound * self.offer * (self.duration + self.checkpoint / 2)

    @property
    def recovery_time(self) -> float:
        """Hours until the rebound is absorbed at `recovery_share` of `noneligible`."""
        return self.rebound_energy / (self.recovery_share * self.noneligible)

    @property
    def spacing(self) -> float:
        """Hours from the start of a call to the earliest start of the next one."""
        return self.duration + self.recovery_time

    @property
    def calls_per_week(self) -> float:
        """Most calls a week that the spacing leaves room for."""
        return WEEK / self.spacing

    @property
    def recalibration(self) -> date | None:
        """Day on which the terms lapse unless K is estimated anew; None if not signed."""
        return None if self.signed is None else self.signed + timedelta(weeks=self.recalibrate_after)

    def all_delivered(self, calls: int) -> float:
        """Probability, at least, that all of `calls` calls are met: 1 − N·(1 − α), whatever their dependence.

        Raises
        ------
        InputError
            A count that is no whole number of at least 0.
        """
        faults = Faults("Contract")
        faults.number("calls", calls, at_least=0, integer=True)
        faults.raise_any()
        return max(0.0, 1 - calls * (1 - self.reliability))

    def required_q(self, offer: float) -> float:
        """Smallest realised fraction at which `offer` MW can be promised; above 1 if it never can."""
        faults = Faults("Contract")
        faults.number("offer", offer, above=0)
        faults.raise_any()
        full = self.derating * self.power
        return offer / full if full else float("inf")

    def to_frame(self) -> pd.DataFrame:
        """Columns `term`, `value`, `unit`; shares in %, and the basis of K in words."""
        rows: list[tuple[str, object, str]] = [
            ("offer at the workload, and at the meter if cooling does not follow", self.offer, "MW"),
            ("offer at the meter if cooling follows in proportion", self.offer_average, "MW"),
            ("duration of a call", self.duration, "h"),
            ("reliability of a single call", 100 * self.reliability, "%"),
            ("reliability of ten calls, at least", 100 * self.all_delivered(10), "%"),
            ("realised fraction q", 100 * self.q, "%"),
            ("derating", 100 * self.derating, "%"),
            ("K before q and derating", self.power, "MW"),
            *([] if self.interval is None else [("K before them, 5 … 95 %", _span(self.interval), "MW")]),
            *([] if self.notice is None else [("notice", self.notice, "h")]),
            *([] if self.response is None else [("response time", self.response, "h")]),
            *([] if self.floor is None else [("stays on at the meter, at most", self.floor, "MW")]),
            ("clusters", len(self.portfolio), ""),
            ("net over gross curtailed energy", 100 * self.net_energy, "%"),
            ("rebound of a call", self.rebound_energy, "MWh"),
            ("recovery", self.recovery_time, "h"),
            ("from call to call", self.spacing, "h"),
            ("calls a week, at most", self.calls_per_week, ""),
            ("recalibration", self.recalibration or f"after {self.recalibrate_after:g} weeks", ""),
            *((name, text, "") for name, text in self.basis.items()),
        ]
        return pd.DataFrame(rows, columns=["term", "value", "unit"])

    def _repr_html_(self) -> str:
        """Return what a notebook shows: the terms, and a call with its rebound."""
        from pypsa_aidc.markup import Table, card

        word = " (synthetic fleet)" if self.synthetic else ""
        title = f"Contract: {self.offer:.4g} MW for {self.duration} h at {self.reliability:g}{word}"
        return card(self, lambda: [Table("", self.to_frame())], self.plot, title=title, rows=len(self.to_frame()))

    def plot(self) -> Figure:
        """Draw one call: relief, rebound until it is recovered, and the earliest next call."""
        from pypsa_aidc.plots.dependable import plot_contract

        return plot_contract(self)

    def __str__(self) -> str:
        """Terms as text for a person."""
        head = f"Dependable relief{' (synthetic fleet)' if self.synthetic else ''}: {self.source}"
        lines = [
            f"  {term:<68} {format(value, '.4g') if isinstance(value, float) else str(value):>12} {unit}".rstrip()
            for term, value, unit in self.to_frame().itertuples(index=False)
            if term not in self.basis
        ]
        return "\n".join([head, *lines, *(f"  {name}: {text}" for name, text in self.basis.items())])

    @classmethod
    @checked
    def of(
        cls,
        envelope: Envelope,
        duration: int = 4,
        reliability: float = 0.95,
        *,
        portfolio: Portfolio = None,
        boundary: Boundary = "idle-retained",
        method: Method = "sup",
        q: float = 1.0,
        derating: float | Literal["measured"] = 1.0,
        rebound: float = 1.0,
        checkpoint: float = 1.0,
        recovery_share: float = 0.1,
        recalibrate_after: float = 4.0,
        signed: date | None = None,
        notice: float | None = None,
        response: float | None = None,
        condition: Condition | None = None,
    ) -> Contract:
        """Terms that the history of a fleet supports.

        Parameters
        ----------
        envelope, portfolio, boundary, method
            As for `pypsa_aidc.fleet.surface`.
        duration, reliability
            The product.
        derating
            See `Contract`; ``"measured"`` takes what the rolling origin of `Backtest.of` finds for this product. If the
            trace is long enough for it, `basis` says what it finds, applied or not.
        q, rebound, checkpoint, recovery_share, recalibrate_after, signed, response
            See `Contract`.
        notice
            K of the work that is running when a call is announced, h before it, and goes on to its end
            (`Envelope.lasting`), instead of all that would have run; `basis` says that K, too.
        condition
            Windows that count, e.g. those of stress hours; at least `least_windows` of them.

        Returns
        -------
        Contract

        Raises
        ------
        InputError
            A term outside its range, no window of that duration, too few under a condition, or a trace too short to
            measure the derating.
        """
        names = envelope.portfolio(portfolio)
        usual: dict[str, Any] = {"portfolio": names, "boundary": boundary, "method": method}
        # Lasting work is by the hour in which a call starts: K of the call is its K over one hour.
        load, span = (envelope, duration) if notice is None else (envelope.lasting(notice, duration), 1)
        K = Surface.of(load, (span,), (reliability,), condition=condition, **usual)
        windows, attrs = K.windows[span], K.data.attrs
        faults = Faults("Contract")
        least = least_windows(reliability)
        remedy = "Take a longer trace, a wider condition or a lower reliability."
        enough = condition is None or windows >= least
        faults.require(enough, "condition", f"{windows} windows", f"at least {least}", remedy)
        tested = _tested(load, span, reliability, usual)
        measured = derating == "measured"
        if measured and tested is None:
            remedy = "Give a number, or 1 for none."
            faults.add("derating", "measured", "a trace of at least twelve weeks that offers anything", remedy)
        faults.raise_any()
        applied = float(derating) if not isinstance(derating, str) or tested is None else tested
        rolling = "trace too short" if tested is None else f"{100 * tested:.4g} %"
        rest = envelope.data["power"].sel(cluster=list(names), layer=["floor", "shift"])
        interval, compared = _confidence(envelope, load, (duration, span), reliability, condition, usual)
        return Contract(
            power=K.at(span, reliability),
            duration=duration,
            reliability=reliability,
            noneligible=float(rest.sum(("cluster", "layer"), skipna=False).mean()),
            q=q,
            derating=applied,
            rebound=rebound,
            checkpoint=checkpoint,
            recovery_share=recovery_share,
            # Of the coolest hour: cooling that follows may take off no more.
            pue=float(envelope.pue_by_hour.to_numpy()[envelope.valid].min()),
            recalibrate_after=recalibrate_after,
            signed=signed,
            notice=notice,
            response=response,
            floor=_floor(envelope, duration, reliability, condition, names, boundary),
            interval=interval,
            portfolio=names,
            source=str(envelope.data.attrs["source"]),
            synthetic=envelope.synthetic,
            basis={
                "eligible work (mapping)": str(attrs["mapping"]),
                "boundary": boundary,
                "power model": str(attrs.get("power_model", "not recorded")),
                "hours used": str(envelope.coverage),
                "estimate of K": f"{method}, {windows:,} windows",
                **compared,
                **({} if condition is None else {"windows that count": repr(condition)}),
                "derating of the rolling origin": f"{rolling}{', applied' if measured else ', not applied'}",
                **_measured_within_the_hour(envelope, names),
            },
        )


def _span(pair: tuple[float, float]) -> str:
    return " … ".join(f"{edge:.4g}" for edge in pair)


def _confidence(
    envelope: Envelope,
    load: Envelope,
    durations: tuple[int, int],
    reliability: float,
    condition: Condition | None,
    usual: dict[str, Any],
) -> tuple[tuple[float, float] | None, dict[str, str]]:
    """Interval of K; K of all windows and all work beside it, with the interval of the ratio, of the same blocks."""
    hours, origin = envelope.data["hour"].to_numpy(), envelope.origin
    powers = [
        one.relief(usual["portfolio"], usual["boundary"]).sum("cluster", skipna=False) for one in (envelope, load)
    ]
    plain, own = (
        window_minima(power.to_numpy(), hours, (h,), condition if one else None, origin)[h]
        for one, power, h in zip((False, True), powers, durations, strict=True)
    )
    own = own[: plain.size]
    band = paired_interval(own, plain, durations[0], reliability, usual["method"])
    if load is envelope and condition is None:
        return (None, {}) if band is None else (band[0], {})
    raw = dependable(plain, (reliability,), usual["method"])[0]
    ratio = "" if band is None else f"; the K of these terms is {_span(band[1])} of it in 5 … 95 % of replicates"
    return None if band is None else band[0], {"K of all windows and all work": f"{raw:.4g} MW{ratio}"}


def _floor(
    envelope: Envelope,
    duration: int,
    reliability: float,
    condition: Condition | None,
    names: tuple[str, ...],
    boundary: Boundary,
) -> float:
    """Power at the meter of these clusters that stays on in a call, not exceeded with the reliability, MW."""
    part = Envelope(envelope.data.sel(cluster=list(names)))
    rest = (part.facility - part.relief(None, boundary).sum("cluster", skipna=False)).to_numpy()
    minima = window_minima(-rest, part.data["hour"].to_numpy(), (duration,), condition, part.origin)[duration]
    return max(0.0, -float(dependable(minima, (reliability,))[0]))


def _tested(envelope: Envelope, duration: int, reliability: float, usual: dict[str, Any]) -> float | None:
    """Derating that the rolling origin finds; None if the trace is too short or offers nothing."""
    if envelope.data.sizes["hour"] < LEAST_WEEKS * WEEK or reliability >= 1:
        return None
    test = Backtest.of(envelope, (duration,), reliability, **usual)
    found = float(test.derating[duration]) if duration in test.derating.index else float("nan")
    return found if np.isfinite(found) and found > 0 else None


def _measured_within_the_hour(envelope: Envelope, names: tuple[str, ...]) -> dict[str, str]:
    """What telemetry says of the inside of hours: its interval and the steepest ramp of eligible power."""
    if "ramp" not in envelope.data:
        return {}
    ramp = float(envelope.data["ramp"].sel(cluster=list(names), layer="eligible").sum("cluster").max())
    return {
        "telemetry interval": str(envelope.data.attrs.get("cadence", "")),
        "steepest ramp seen": f"{ramp:.4g} MW/min",
    }
