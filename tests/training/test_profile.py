from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from pypsa_aidc import InputError, Job, Transformer, read_profile
from pypsa_aidc.training import Recipe

JOB = Job("A", Transformer.preset("LLaMA-13B"), 1e12, batch=1024, sequence=2048, tranche_ratio=0.05)
TABLE = pd.DataFrame(
    {
        "pipeline": [4, 2, 8],
        "tensor": [8, 8, 8],
        "data": [8, 8, 8],
        "tokens_per_s": [3.7e5, 2.0e5, 3.0e5],
        "power_w": [1.05e5, 5.4e4, 2.2e5],
    }
)


def test_rates_and_power_are_converted_and_dominated_modes_marked(tmp_path: Path) -> None:
    TABLE.to_csv(tmp_path / "profile.csv", index=False)
    table = read_profile(tmp_path / "profile.csv", JOB)
    assert [mode.size for mode in table] == [(2, 8, 8), (4, 8, 8)]
    assert table.effective[0].flops_per_s == pytest.approx(2.0e5 * JOB.flops_per_token)
    assert table.effective[0].it_power == pytest.approx(0.054)
    assert table.to_frame()["reason"].iloc[2] == "dominated by 4·8·8"


def test_order_of_rows_does_not_matter() -> None:
    shuffled = TABLE.sample(frac=1, random_state=3)
    pd.testing.assert_frame_equal(read_profile(shuffled, JOB).to_frame(), read_profile(TABLE, JOB).to_frame())


def test_modes_beyond_the_pool_are_infeasible() -> None:
    assert [mode.gpus for mode in read_profile(TABLE, JOB, gpus=200)] == [128]


def test_all_bad_rows_are_named_together() -> None:
    bad = TABLE.astype(object)
    bad.loc[0, "tokens_per_s"] = np.nan
    bad.loc[1, "pipeline"] = 2.5
    bad.loc[2, "power_w"] = "much"
    with pytest.raises(InputError) as caught:
        read_profile(bad, JOB)
    wheres = [fault.where for fault in caught.value.faults]
    assert wheres == ["row 2, pipeline", "row 1, tokens_per_s", "row 3, power_w"]


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda t: t.drop(columns="power_w"), "power_w"),
        (lambda t: t.drop(columns="tokens_per_s"), "exactly one"),
        (lambda t: t.assign(flops_per_s=1e15), "exactly one"),
        (lambda t: t.rename(columns={"data": "dta"}), "dta"),
        (lambda t: t.iloc[:0], "at least one mode"),
        (lambda t: pd.concat([t, t.iloc[:1]]), "once"),
    ],
)
def test_malformed_tables_are_refused(change: object, named: str) -> None:
    with pytest.raises(InputError, match=named):
        read_profile(change(TABLE), JOB)  # type: ignore[operator]


def test_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="nowhere.csv"):
        read_profile(tmp_path / "nowhere.csv", JOB)


def test_holes_are_completed_and_what_was_measured_stays() -> None:
    """Four of six modes measured, a third slower than the default model: the two others follow them."""
    sizes = [(4, 4, 8), (4, 4, 16), (8, 4, 8), (4, 8, 8), (8, 4, 16), (4, 4, 32)]
    table = pd.DataFrame(sizes, columns=["pipeline", "tensor", "data"])
    from pypsa_aidc.training import GPU, PerformanceModel

    layouts = np.array([(*size, 1, 1, 1, 1) for size in sizes])
    exact = PerformanceModel({"speed": 1.35}).evaluate(JOB, GPU.preset("A100-80GB"), Recipe(), layouts)
    rates = JOB.iteration_flops / exact["seconds"].to_numpy()
    table["flops_per_s"] = np.where(np.arange(6) < 4, rates, np.nan)
    table["power_w"] = [5e4, np.nan, 9e4, np.nan, np.nan, np.nan]
    completed = read_profile(table, JOB, gpu="A100-80GB", recipe=Recipe(), prune=False).to_frame()
    keyed = completed.set_index(["pipeline", "tensor", "data"])
    for size, rate in zip(sizes, rates, strict=True):
        assert keyed.loc[size, "flops_per_s"] == pytest.approx(rate, rel=0.05)
    assert keyed.loc[(4, 4, 8), "flops_per_s"] == rates[0]
    assert keyed.loc[(4, 4, 8), "it_power"] == 0.05
    assert keyed["it_power"].notna().all()
    assert keyed["deviation"].notna().sum() == 2
    with pytest.raises(InputError, match="row 5, flops_per_s"):
        read_profile(table, JOB)
    with pytest.raises(InputError, match="recipe"):
        read_profile(TABLE, JOB, recipe=Recipe())
