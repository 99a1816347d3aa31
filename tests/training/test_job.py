from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pypsa_aidc import GPU, InputError, Job, Transformer
from pypsa_aidc.training import Experts

GPT_LIKE = Transformer("GPT", layers=24, hidden=2304, ffn=9216, heads=24, vocabulary=51200, tied=True)


def job(**changes: object) -> Job:
    values = {"tokens": 1e12, "batch": 1024, "sequence": 2048, "tranche_ratio": 0.049} | changes
    return Job("A", Transformer.preset("LLaMA-13B"), **values)  # type: ignore[arg-type]


def test_paper_case_iterations_and_work() -> None:
    # Table I of arXiv:2610.13047 with the calibrated batch of the design: 23,366 iterations, 5.3097e21 FLOPs.
    paper = job(chi_f=96.0, flops="eq5")
    assert paper.tranche_iterations == 23366
    assert paper.tranche_flops == pytest.approx(5.3097e21, rel=1e-4)
    llm_b = Job("B", Transformer.preset("LLaMA-33B"), 1.4e12, 768, 2048, 0.02021, chi_f=96.0, flops="eq5")
    assert llm_b.tranche_iterations == 17989
    assert llm_b.tranche_flops == pytest.approx(7.6266e21, rel=1e-4)


def test_iteration_flops_of_narayanan_2021() -> None:
    # Narayanan et al. 2021, Eq. 3, first row of Table 1 (1.7 B): 96 B s l h² (1 + s/6h + V/16lh) with B = 512.
    narayanan = Job("n", GPT_LIKE, 1e12, batch=512, sequence=2048, tranche_ratio=0.01, chi_f=96.0)
    assert narayanan.iteration_flops == pytest.approx(1.5466830067924994e16, rel=1e-12)


@given(
    hidden=st.integers(1, 40).map(lambda k: 128 * k),
    layers=st.integers(1, 100),
    sequence=st.integers(1, 8192),
    vocabulary=st.integers(1, 200_000),
)
def test_both_ways_of_counting_agree_for_plain_decoders(
    hidden: int, layers: int, sequence: int, vocabulary: int
) -> None:
    model = Transformer("x", layers, hidden, 4 * hidden, 1, vocabulary)
    architecture = Job("x", model, 1e12, 64, sequence, 0.5)
    assert architecture.iteration_flops == pytest.approx(replace(architecture, flops="eq5").iteration_flops, rel=1e-12)


def test_grouped_query_attention_changes_the_work() -> None:
    with_gqa = Job("x", Transformer.preset("LLaMA-3 8B"), 1e12, 64, 8192, 0.5)
    weights = 32 * (2 * 4096**2 + 2 * 4096 * 1024 + 3 * 4096 * 14336)
    attention, logits = 32 * 12 * 4096 * 8192, 6 * 4096 * 128256
    assert with_gqa.flops_per_token == pytest.approx(6 * weights + attention + logits, rel=1e-12)


def test_recomputation_costs_a_third_more_in_the_layers_and_nothing_in_the_vocabulary() -> None:
    # Korthikanti et al. 2022, Eq. 7: the projection to the vocabulary is 6 h V a token with and without recomputation.
    plain, again = (job(chi_f=chi) for chi in (72.0, 96.0))
    vocabulary = 6 * 5120 * 32000
    assert again.flops_per_token - vocabulary == pytest.approx((plain.flops_per_token - vocabulary) * 4 / 3)
    gpt2 = Transformer.from_hf({"model_type": "gpt2", "n_layer": 12, "n_embd": 768, "n_head": 12, "vocab_size": 50257})
    small = Job("g", gpt2, 1e11, batch=512, sequence=1024, tranche_ratio=0.01)
    by_hand = 6 * (12 * 12 * 768**2 + 768 * 50257) + 12 * 12 * 768 * 1024
    assert small.flops_per_token == pytest.approx(by_hand, rel=1e-12)


def test_only_active_experts_are_counted_and_eq5_knows_none() -> None:
    mixtral = Transformer("m", 32, 4096, 14336, 32, 32000, kv_heads=8, gated=True, experts=Experts(8, 2, 14336))
    layer = 2 * 4096**2 + 2 * 4096 * 1024 + 2 * 3 * 4096 * 14336 + 4096 * 8
    one = Job("m", mixtral, 1e12, 64, 4096, 0.5)
    assert one.flops_per_token == pytest.approx(6 * (32 * layer + 4096 * 32000) + 12 * 32 * 4096 * 4096, rel=1e-12)
    with pytest.raises(InputError, match="eq5"):
        replace(one, flops="eq5")


@given(progress=st.floats(0, 1), segments=st.integers(1, 500))
def test_remaining_work_and_segments_share_the_tranche(progress: float, segments: int) -> None:
    a = job()
    assert a.remaining_flops(progress) == pytest.approx((1 - progress) * a.tranche_flops)
    assert a.segment_flops(segments) * segments == pytest.approx(a.tranche_flops)


def test_all_faults_are_reported_together() -> None:
    with pytest.raises(InputError) as caught:
        job(tokens=-1, batch=0.5, tranche_ratio=4.9, deadline=0, chi_f=float("nan"), flops="eq6")
    assert {fault.where for fault in caught.value.faults} == {
        "tokens",
        "batch",
        "tranche_ratio",
        "deadline",
        "chi_f",
        "flops",
    }


@pytest.mark.parametrize("progress", [-0.1, 1.1, float("nan")])
def test_progress_outside_of_its_range_is_refused(progress: float) -> None:
    with pytest.raises(InputError, match="progress"):
        job().remaining_flops(progress)


@pytest.mark.parametrize("name", ["LLaMA-3 8B", "llama-3 8b", "llama3 8B", "LLAMA_3_8B"])
def test_a_preset_by_its_name_in_any_case(name: str) -> None:
    assert Transformer.preset(name) == Transformer.preset("LLaMA-3 8B")
    assert Transformer.preset(name).name == "LLaMA-3 8B"


@pytest.mark.parametrize(("kind", "name", "near"), [(Transformer, "llama-12b", "LLaMA-13B"), (GPU, "H10", "H100")])
def test_an_unknown_preset_has_neighbours(kind: type[GPU] | type[Transformer], name: str, near: str) -> None:
    with pytest.raises(InputError, match=rf"Did you mean .*'{near}'"):
        kind.preset(name)
