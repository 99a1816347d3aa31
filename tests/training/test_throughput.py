from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pypsa_aidc import InputError, Job, Transformer
from pypsa_aidc.training import NARAYANAN_EFFICIENCY, EfficiencyModel

JOB = Job("A", Transformer.preset("LLaMA-13B"), 1e12, batch=1024, sequence=2048, tranche_ratio=0.05)
ONE = np.ones(1)


def test_narayanan_table_1(shared_data: Path) -> None:
    """Measured share of the A100's 312 TFLOP/s, Narayanan et al. 2021, Table 1: all ten rows with one set."""
    table = pd.read_csv(shared_data / "llm_training" / "narayanan2021_table1_A100.csv")
    assert len(table) == 10
    for row in table.itertuples():
        model = Transformer(row.model, row.layers, row.hidden, 4 * row.hidden, row.heads, row.vocab, tied=True)
        job = Job(row.model, model, 1e12, row.global_batch, row.seq_len, 0.01, chi_f=96.0)
        efficiency = EfficiencyModel(
            **{
                **{name: getattr(NARAYANAN_EFFICIENCY, name) for name in ("peak", "hidden_half", "tensor", "data")},
                "micro_batch": row.micro_batch,
            }
        )
        modelled = efficiency.efficiency(job, row.pp * ONE, row.tp * ONE, row.dp * ONE)[0]
        assert modelled == pytest.approx(row.tflops_per_gpu / row.peak_tflops, rel=0.06)


def test_bubble_is_that_of_narayanan() -> None:
    # Section 2.2.1: t_pb / t_id = (p - 1) / m; with B = 1024, d = 32, b = 1 there are m = 32 micro-batches.
    bare = EfficiencyModel(peak=0.5)
    assert bare.efficiency(JOB, 4 * ONE, ONE, 32 * ONE)[0] == pytest.approx(0.5 / (1 + 3 / 32))
    halved = EfficiencyModel(peak=0.5, interleave=2.0)
    assert halved.efficiency(JOB, 4 * ONE, ONE, 32 * ONE)[0] == pytest.approx(0.5 / (1 + 3 / 64))


@given(p=st.integers(1, 64), q=st.integers(1, 8), d=st.integers(1, 256))
def test_efficiency_lies_between_0_and_peak_and_falls_with_each_size(p: int, q: int, d: int) -> None:
    def at(*sizes: int) -> float:
        return float(NARAYANAN_EFFICIENCY.efficiency(JOB, *(size * ONE for size in sizes))[0])

    assert 0 < at(p, q, d) < NARAYANAN_EFFICIENCY.peak
    assert at(p + 1, q, d) < at(p, q, d)
    assert at(p, q + 1, d) < at(p, q, d)
    assert at(p, q, d + 1) < at(p, q, d)


def test_chunks_act_on_the_bubble_only_and_one_replica_exchanges_no_gradients() -> None:
    few = replace(JOB, batch=64)
    bare = EfficiencyModel(peak=0.5, data=1.0)
    assert bare.efficiency(few, ONE, ONE, 64 * ONE) == replace(bare, interleave=4.0).efficiency(few, ONE, ONE, 64 * ONE)
    assert replace(bare, micro_batch=4).efficiency(replace(JOB, batch=4), ONE, ONE, ONE) == pytest.approx(0.5)


def test_the_efficiency_of_a_small_model_can_be_calibrated() -> None:
    # MPT-125M reached 54 % of an A100 with sequences of 65,536 (llm-foundry): the peak of large ones is extrapolated.
    small = Transformer("MPT-125M", 12, 768, 3072, 12, 50368, tied=True)
    job = Job("m", small, 1e12, batch=16, sequence=65536, tranche_ratio=0.01)
    fitted = NARAYANAN_EFFICIENCY.calibrated(job, (1, 1, 8), 0.54)
    assert fitted.efficiency(job, ONE, ONE, 8 * ONE)[0] == pytest.approx(0.54)
    assert fitted.peak > 1


def test_faults_are_reported_together() -> None:
    with pytest.raises(InputError) as caught:
        EfficiencyModel(peak=1.2, tensor=-1, interleave=0.5, micro_batch=0)
    assert len(caught.value.faults) == 4
    with pytest.raises(InputError, match="efficiency"):
        EfficiencyModel(peak=0.5).calibrated(JOB, (1, 1, 1), 1.5)
