from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pypsa_aidc import InputError, Job, Transformer
from pypsa_aidc.training import KORTHIKANTI_MEMORY, MemoryModel
from pypsa_aidc.units import GIB

JOB = Job("A", Transformer.preset("LLaMA-13B"), 1e12, batch=1024, sequence=2048, tranche_ratio=0.05)
ONE = np.ones(1)


def test_korthikanti_memory_per_gpu(shared_data: Path) -> None:
    """Korthikanti et al. 2022, the four configurations of their Table 3, as computed from their Eqs. 2 and 6."""
    table = pd.read_csv(shared_data / "llm_training" / "korthikanti2022_memory_gib.csv")
    assert len(table) == 4
    for row in table.itertuples():
        model = Transformer(row.model, row.layers, row.hidden, 4 * row.hidden, row.heads, row.vocab)
        job = Job(row.model, model, 1e12, row.global_batch, row.seq_len, 0.01)
        schedule = "interleaved" if row.interleave > 1 else "1f1b"
        memory = replace(KORTHIKANTI_MEMORY, micro_batch=row.micro_batch, schedule=schedule, chunks=row.interleave)
        sizes = (row.pipeline * ONE, row.tensor * ONE, ONE)
        lean = replace(memory, sequence_parallel=True, recomputation="selective")
        assert memory.states(job, *sizes) / GIB == pytest.approx(row.params_and_optimizer_gib, rel=0.01)
        assert memory.activations(job, *sizes) / GIB == pytest.approx(row.activations_gib_no_recompute, rel=0.05)
        expected = row.activations_gib_sequence_parallel_selective
        assert lean.activations(job, *sizes) / GIB == pytest.approx(expected, rel=0.05)


def test_zero_stages_divide_states_by_data_parallel_size() -> None:
    # Rajbhandari et al. 2020 (ZeRO), Fig. 1: 16 bytes a parameter at 0, 4 + 12/d, 2 + 14/d, 16/d at stages 1, 2, 3.
    bytes_per_parameter = [
        float(MemoryModel(zero_stage=stage).states(JOB, ONE, ONE, 64 * ONE)[0]) / JOB.model.parameters  # type: ignore[arg-type]
        for stage in range(4)
    ]
    assert bytes_per_parameter == pytest.approx([16, 4 + 12 / 64, 2 + 14 / 64, 16 / 64])


@given(p=st.sampled_from([1, 2, 4, 8]), q=st.sampled_from([1, 2, 4, 8]), d=st.sampled_from([1, 4, 16, 64]))
def test_recomputation_needs_less_memory_step_by_step(p: int, q: int, d: int) -> None:
    sizes = (p * ONE, q * ONE, d * ONE)
    none, selective, full = (
        MemoryModel(recomputation=kind).activations(JOB, *sizes)[0]  # type: ignore[arg-type]
        for kind in ("none", "selective", "full")
    )
    assert full < selective < none


@given(p=st.sampled_from([1, 2, 4, 8]), q=st.sampled_from([1, 2, 4]), d=st.sampled_from([1, 4, 16]))
def test_memory_falls_with_each_parallel_size(p: int, q: int, d: int) -> None:
    memory = MemoryModel(zero_stage=3)
    here = memory.total(JOB, p * ONE, q * ONE, d * ONE)
    for sizes in ((2 * p, q, d), (p, 2 * q, d), (p, q, 2 * d)):
        assert memory.total(JOB, *(size * ONE for size in sizes)) <= here * (1 + 1e-12)


def test_a_pipeline_longer_than_its_micro_batches_is_not_filled() -> None:
    few = replace(JOB, batch=2)
    short, long = (MemoryModel().activations(few, p * ONE, ONE, ONE)[0] for p in (2, 8))
    assert long < short


def test_faults_are_reported_together() -> None:
    with pytest.raises(InputError) as caught:
        MemoryModel(zero_stage=4, recomputation="some", overhead=-1.0, micro_batch=0, schedule="gpipe")  # type: ignore[arg-type]
    assert len(caught.value.faults) == 5


def test_interleaving_with_one_chunk_is_1f1b() -> None:
    plain, chunked = (
        MemoryModel(schedule=kind).activations(JOB, 8 * ONE, ONE, ONE) for kind in ("1f1b", "interleaved")
    )  # type: ignore[arg-type]
    assert chunked == plain
    few = replace(JOB, batch=2)
    held = MemoryModel(schedule="interleaved", chunks=4).activations(few, 8 * ONE, ONE, ONE)
    assert held == MemoryModel().activations(few, 8 * ONE, ONE, ONE)
