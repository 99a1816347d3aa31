from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pypsa_aidc import fleet
from pypsa_aidc.errors import InputError, UnitWarning
from pypsa_aidc.fleet.power import cell_power, coefficients
from pypsa_aidc.fleet.trace.schema import KNOTS, WORKLOADS

MODEL = fleet.PowerModel()


def cell(accelerator, workload, state, pods):
    """One cell of pods given as (GPU-hours, utilisation or None), as Sec. 2.2 of [2] defines its statistics."""
    known = [(w, u) for w, u in pods if u is not None]
    row = {"accelerator": accelerator, "workload": workload, "state": state, "gpu_hours": sum(w for w, _ in pods)}
    row["gpu_hours_null"] = sum(w for w, u in pods if u is None)
    row |= {f"s{100 * b:.0f}": sum(w * max(u - b, 0) for w, u in known) for b in KNOTS}
    return pl.DataFrame([row])


def eq_1(model, accelerator, workload, state, pods):
    """Eq. 1 of [2] pod by pod, MW; the online floor as settled: c0 + (1 - c0/g(1))·g, also where u is unknown."""
    rating, phi = model.ratings[accelerator] / 1e6, model.idle_fraction
    curve = model.curves[workload]
    total = 0.0
    for w, u in pods:
        g = model.null_value if u is None else float(np.interp(u, (0, 0.25, 0.5, 0.75, 1), curve))
        if workload == "online_inference":
            c0 = max(0.0, (model.online_floor - phi) / (1 - phi))
            g = c0 + max(0.0, 1 - c0 / curve[-1]) * g
        total += rating * w * (phi if state == "standby" else phi + (1 - phi) * g)
    return total


PODS = st.lists(st.tuples(st.floats(0, 100), st.one_of(st.none(), st.floats(0, 1))), min_size=1, max_size=8)


@given(
    PODS,
    st.sampled_from(WORKLOADS),
    st.sampled_from(["active", "standby"]),
    st.sampled_from(["anchored", "linear", "mid", "low"]),
    st.floats(0.1, 0.3),
    st.floats(0.0, 0.5),
)
def test_statistics_give_the_power_of_eq_1(pods, workload, state, family, phi, floor):
    curves = {"anchored": fleet.ANCHORED, "linear": fleet.LINEAR, "mid": fleet.MEASURED_MID, "low": fleet.MEASURED_LOW}
    model = fleet.PowerModel(curves=curves[family], idle_fraction=phi, online_floor=floor)
    idle, active = cell_power(cell("H20", workload, state, pods), model)
    assert float(idle[0] + active[0]) == pytest.approx(eq_1(model, "H20", workload, state, pods), rel=1e-12, abs=1e-15)


def test_floor_lifts_the_foot_and_leaves_saturation():
    # .43·T total power at φ = .2 is c0 = .2875 of the span (Sec. 2.2 of [2]); saturation stays at .55 of it.
    assert MODEL.floor_value == 0.2875
    foot, top = MODEL.idle_fraction + (1 - MODEL.idle_fraction) * MODEL.value("online_inference", [0.0, 1.0])
    assert foot == pytest.approx(0.43)
    assert top == pytest.approx(0.2 + 0.8 * 0.55)


def test_table_4_is_what_the_central_model_holds():
    assert dict(MODEL.ratings) == {
        "A10": 150,
        "A30": 165,
        "L20": 275,
        "A100": 400,
        "A800": 400,
        "H800": 700,
        "H20": 400,
        "H20-141GB": 400,
        **{f"XPU-{letter}": 475 for letter in "ABCDE"},
    }
    assert MODEL.curves["training"] == (0, 0.50, 0.75, 0.90, 1.00)
    assert MODEL.curves["online_inference"] == (0, 0.20, 0.35, 0.45, 0.55)
    assert MODEL.curves["offline_inference"] == (0, 0.30, 0.50, 0.70, 0.85)
    assert (MODEL.null_value, MODEL.host_idle, MODEL.host_peak, MODEL.pue) == (0.30, 1.5, 4.0, 1.2)


def test_draws_stay_in_the_ranges_of_table_4_and_fill_them():
    draws = fleet.power_draws(400, seed=3)
    ranges = {
        "idle_fraction": (0.15, 0.25),
        "online_floor": (0.35, 0.50),
        "null_value": (0.10, 0.50),
        "host_idle": (1.0, 2.0),
        "host_peak": (3.0, 6.0),
        "pue": (1.1, 1.4),
    }
    for name, (low, high) in ranges.items():
        values = np.array([getattr(draw, name) for draw in draws])
        assert low <= values.min() < low + 0.1 * (high - low)
        assert high - 0.1 * (high - low) < values.max() <= high
    for name, (low, high) in {"A800": (300, 460), "XPU-C": (250, 700), "H800": (595, 805)}.items():
        values = np.array([draw.ratings[name] for draw in draws])
        assert low <= values.min()
        assert values.max() <= high
    linear = np.mean([draw.curves is fleet.LINEAR for draw in draws])
    assert 0.4 < linear < 0.6
    # Buckets of undisclosed make draw one rating each, not one for all.
    assert abs(np.corrcoef([[d.ratings["XPU-A"], d.ratings["XPU-B"]] for d in draws], rowvar=False)[0, 1]) < 0.2


def test_the_same_seed_gives_the_same_draws_and_a_generator_moves_on():
    assert fleet.power_draws(3, seed=5) == fleet.power_draws(3, seed=5)
    rng = np.random.default_rng(5)
    first, second = fleet.power_draws(3, seed=rng), fleet.power_draws(3, seed=rng)
    assert first == fleet.power_draws(3, seed=5)
    assert first != second


def test_an_accelerator_without_rating_is_refused_by_name():
    with pytest.raises(InputError, match="TPU-9"):
        coefficients((MODEL,), pl.DataFrame({"accelerator": ["TPU-9"], "workload": ["training"], "state": ["active"]}))
    assert fleet.PowerModel(other_rating=123.0).rating("TPU-9") == 123.0


def test_all_faults_of_a_power_model_are_reported_together():
    with pytest.raises(InputError) as error:
        fleet.PowerModel(ratings={"A": -1.0}, curves={"training": (0, 1)}, pue=0.9, host_idle=5.0, host_peak=1.0)
    text = str(error.value)
    for part in ("ratings['A']", "curves['training']", "curves['other']", "pue", "host_peak"):
        assert part in text


def test_common_accelerators_have_the_rating_of_their_data_sheet():
    # NVIDIA data sheets: H100 SXM 700 W, T4 70 W.
    assert (fleet.PowerModel().rating("H100"), fleet.PowerModel().rating("T4")) == (700.0, 70.0)
    assert fleet.PowerModel(ratings={"H100": 350.0}).rating("H100") == 350.0
    assert fleet.PowerModel(other_rating=500.0).rating("H100") == 500.0
    with pytest.raises(InputError, match="H100"):
        fleet.PowerModel().rating("Z1")
    draws = [model.rating("H100") for model in fleet.power_draws(50, seed=1)]
    assert 0.85 * 700 <= min(draws) < 650
    assert 750 < max(draws) <= 1.15 * 700
    assert {model.rating("H100") for model in fleet.power_draws(5, central=fleet.PowerModel(other_rating=500.0))} == {
        500.0
    }


def test_a_rating_in_kilowatts_is_warned_of():
    with pytest.warns(UnitWarning, match=r"ratings\['A100'\] = 0.4 W"):
        fleet.PowerModel(ratings={"A100": 0.4})
    with pytest.warns(UnitWarning, match="other_rating = 0.7 W"):
        fleet.PowerModel(other_rating=0.7)
