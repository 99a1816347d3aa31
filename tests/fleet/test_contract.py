from __future__ import annotations

import re
from datetime import date

import numpy as np
import pandas as pd
import pytest

from pypsa_aidc import fleet
from pypsa_aidc.errors import InputError

# App. D of [2]: 2.3199 MW at q = 1, 23.264 MW of floor and shift, a tenth of which absorbs the rebound.
PUBLISHED = fleet.Contract(power=2.3199, duration=4, reliability=0.95, noneligible=23.264)


def test_published_terms():
    assert PUBLISHED.net_energy == -0.125
    assert PUBLISHED.rebound_energy == pytest.approx(10.44, abs=0.005)
    assert PUBLISHED.recovery_time == pytest.approx(4.49, abs=0.005)
    assert PUBLISHED.spacing == pytest.approx(8.49, abs=0.005)
    assert PUBLISHED.calls_per_week == pytest.approx(19.8, abs=0.05)


@pytest.mark.parametrize(
    ("power", "offer", "needed"),
    [(2.3168, 1.0, 0.432), (2.3168, 1.8, 0.777), (2.3199, 1.0, 0.431), (2.3199, 1.8, 0.776)],
)
def test_published_thresholds_of_q(power, offer, needed):
    # Sec. 3.6 and App. D of [2], 13 and 15 clusters.
    terms = fleet.Contract(power=power, duration=4, reliability=0.95, noneligible=23.264)
    assert terms.required_q(offer) == pytest.approx(needed, abs=0.0005)


def test_offer_scales_with_q_and_derating():
    half = fleet.Contract(power=2.3168, duration=4, reliability=0.95, noneligible=23.264, q=0.5)
    assert half.offer == pytest.approx(1.16, abs=0.005)  # Sec. 3.6 of [2]
    assert half.offer_average == pytest.approx(1.2 * half.offer)
    derated = fleet.Contract(power=2.0, duration=4, reliability=0.95, noneligible=23.264, derating=0.885)
    assert derated.offer == pytest.approx(1.77)


def test_union_bound_of_many_calls():
    assert PUBLISHED.all_delivered(1) == pytest.approx(0.95)
    assert PUBLISHED.all_delivered(10) == pytest.approx(0.5)
    assert PUBLISHED.all_delivered(100) == 0.0


def test_recalibration_counts_from_the_signature():
    signed = fleet.Contract(
        power=1.0, duration=4, reliability=0.95, noneligible=10.0, signed=date(2026, 9, 4), recalibrate_after=4
    )
    assert signed.recalibration == date(2026, 10, 2)
    assert PUBLISHED.recalibration is None
    assert "2026-10-02" in str(signed)


def test_contract_from_a_fleet(envelope):
    terms = fleet.Contract.of(envelope, 4, 0.95, q=0.5, portfolio="supported")
    K = fleet.Surface.of(envelope, (4,), (0.95,), portfolio="supported")
    assert terms.offer == 0.5 * K.at(4, 0.95)
    layers = envelope.data["power"].sel(cluster=list(envelope.portfolio("supported")))
    assert terms.noneligible == pytest.approx(
        float(layers.sel(layer=["floor", "shift"]).sum(("cluster", "layer"), skipna=False).mean())
    )
    assert "synthetic" in str(terms)
    assert terms.synthetic


def test_all_faults_are_reported_together():
    with pytest.raises(InputError) as error:
        fleet.Contract(power=-1.0, duration=0, reliability=1.5, noneligible=0.0, q=2.0)
    assert len(error.value.faults) == 5
    with pytest.raises(InputError, match="calls"):
        PUBLISHED.all_delivered(1.5)


def test_a_derating_above_one_is_refused_and_a_backtest_gives_none():
    with pytest.raises(InputError, match="derating.*at most 1.*Backtest.derating"):
        fleet.Contract(power=1.0, duration=4, reliability=0.95, noneligible=1.0, derating=1.264)
    # Growing power: K of the past is held always, and the factor that would reach 95 % lies above 1.
    test = fleet.Backtest.of(np.linspace(1.0, 2.0, 16 * 168), (4,))
    assert test.summary.loc[4, "factor"] > 1
    assert test.derating.to_dict() == {4: 1.0}
    falling = fleet.Backtest.of(np.linspace(2.0, 1.0, 16 * 168), (4,))
    assert falling.derating[4] == falling.summary.loc[4, "factor"] < 1


def test_the_term_sheet_says_what_k_stands_on(envelope):
    terms = fleet.Contract.of(envelope, 4, 0.95, boundary="attributed", derating=0.9)
    sheet = str(terms)
    assert terms.basis["hours used"] == "4,439 of 4,440 h, longest hole 1 h"
    assert terms.basis["estimate of K"] == "sup, 4,433 windows"
    for text in ("central", "attributed", "curves ANCHORED", "PUE 1.2", *terms.basis):
        assert text in sheet
    assert re.search(r"reliability of a single call +95 %", sheet)
    assert re.search(r"net over gross curtailed energy +-12.5 %", sheet)
    assert not terms.to_frame()["unit"].eq("1").any()


def daily(weeks: int = 16) -> fleet.Envelope:
    """Eligible power of 2 MW at night and 1 MW by day, by the calendar; Monday, 5 January 2026, is hour 0."""
    hours = np.arange(weeks * 168)
    power = np.where(hours % 24 < 12, 2.0, 1.0)
    rows = [{"hour": hours, "cluster": "c", "layer": "eligible", "power": power}]
    rows.append({"hour": hours, "cluster": "c", "layer": "floor", "power": np.full(hours.size, 3.0)})
    made = fleet.Envelope.from_frame(pd.concat(map(pd.DataFrame, rows)), source="by hand")
    return fleet.Envelope(made.data.assign_attrs(origin="2026-01-05T00:00Z"))


def test_the_derating_of_the_rolling_origin_is_applied_by_choice_and_always_told():
    rng = np.random.default_rng(0)
    falling = np.linspace(2.0, 1.0, 16 * 168) + rng.uniform(0, 0.1, 16 * 168)
    frame = pd.DataFrame({"hour": range(falling.size), "cluster": "c", "layer": "eligible", "power": falling})
    floor = frame.assign(layer="floor", power=1.0)
    envelope = fleet.Envelope.from_frame(pd.concat([frame, floor]), source="falling")
    found = fleet.Backtest.of(envelope, (4,)).derating[4]
    assert found < 1
    plain, applied = (fleet.Contract.of(envelope, 4, 0.95, derating=choice) for choice in (1.0, "measured"))
    assert applied.derating == pytest.approx(found)
    assert applied.offer == pytest.approx(found * plain.offer)
    assert plain.basis["derating of the rolling origin"] == f"{100 * found:.4g} %, not applied"
    assert applied.to_frame().set_index("term").loc["K before q and derating", "value"] == plain.power
    with pytest.raises(InputError, match="twelve weeks"):
        fleet.Contract.of(daily(8), 4, 0.95, derating="measured")


def test_terms_under_a_condition_need_enough_windows():
    envelope = daily()
    evenings = fleet.Condition(start_hours=[17], weekdays=range(5))
    assert fleet.Contract.of(envelope, 4, 0.95).power == 1.0
    nights = fleet.Contract.of(envelope, 4, 0.95, condition=fleet.Condition(start_hours=[2]))
    assert nights.power == 2.0
    assert nights.basis["estimate of K"] == "sup, 112 windows"
    # 80 weekday evenings say nothing about 99 %.
    with pytest.raises(InputError, match="80 windows.*at least 100"):
        fleet.Contract.of(envelope, 4, 0.99, condition=evenings)
    demand = pd.Series(
        np.where(np.arange(16 * 168) % 24 == 3, 9.0, 1.0),
        pd.date_range("2026-01-04T19:00", periods=16 * 168, freq="h", tz="America/New_York"),
    )
    peaks = fleet.Condition.peaks(demand, envelope.data["hour"].to_numpy(), envelope.origin, share=1 / 24)
    # Peaks at 22:00 in New York are at 03:00 UTC.
    assert fleet.Contract.of(envelope, 4, 0.95, condition=peaks).power == 2.0
