from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pypsa_aidc import GPU, InputError, Job, Transformer, generate_modes
from pypsa_aidc.training import (
    CAMPUS_MEMORY,
    Candidates,
    EfficiencyModel,
    MemoryModel,
    Mode,
    ModePower,
    PaperModel,
    Recipe,
    Schedule,
)
from pypsa_aidc.training.modes import mark_dominated

pytestmark = pytest.mark.smoke

JOB = Job("A", Transformer.preset("LLaMA-13B"), 1e12, batch=1024, sequence=2048, tranche_ratio=0.05)
A100 = GPU.preset("A100-80GB")


@pytest.mark.parametrize(("position", "file", "feasible", "effective"), [(0, "a", 135, 12), (1, "b", 111, 21)])
def test_campus_modes_are_those_of_the_paper(
    green_campus: ModuleType, shared_data: Path, position: int, file: str, feasible: int, effective: int
) -> None:
    """Counts: arXiv:2610.13047, section V.D. The table of effective modes comes from an independent prototype."""
    table = green_campus.modes(green_campus.jobs()[position])
    assert (len(table.feasible), len(table.effective)) == (feasible, effective)
    expected = pd.read_csv(shared_data / "campus" / f"expected_modes_llm_{file}.csv")
    ours = table.to_frame().query("reason == ''").reset_index(drop=True)
    sizes = ["gpus", "pipeline", "tensor", "data"]
    pd.testing.assert_frame_equal(ours[sizes], expected[sizes])
    job = green_campus.jobs()[position]
    np.testing.assert_allclose(ours["efficiency"], expected["efficiency"], atol=1e-6)
    np.testing.assert_allclose(ours["it_power"] * 1e3, expected["it_power_kw"], rtol=1e-9)
    np.testing.assert_allclose(ours["memory_gb"], expected["memory_gb"], atol=1e-3)
    segments_per_hour = ours["flops_per_s"] * 3600 / job.segment_flops(12)
    np.testing.assert_allclose(segments_per_hour, expected["segments_per_hour"], atol=1e-7)


def test_counts_with_the_first_term_of_eq_14b_divided_by_tensor_ranks(green_campus: ModuleType) -> None:
    """Eq. 14b prints its first term without q, which gives the counts of the paper; with q there are more modes."""
    divided = replace(CAMPUS_MEMORY, sequence_parallel=True)
    counts = []
    for job in green_campus.jobs():
        model = PaperModel(divided, green_campus.efficiency_of(job))
        table = generate_modes(job, A100, 2048, candidates=green_campus.CANDIDATES, model=model)
        counts.append((len(table.feasible), len(table.effective)))
    assert counts == [(140, 13), (115, 23)]


def test_counts_of_the_second_preset(green_campus: ModuleType) -> None:
    tables = [green_campus.modes(job, "P1") for job in green_campus.jobs()]
    assert [len(table.feasible) for table in tables] == [135, 111]
    kappa = next(mode for mode in tables[0] if mode.gpus == 1280).it_power / (1280 * 0.4e-3)
    assert kappa == pytest.approx(0.9003)


def test_every_candidate_has_its_reason() -> None:
    paper = PaperModel()
    table = generate_modes(JOB, A100, 256, candidates=Candidates((1, 3, 40), (1, 3), (1, 6, 1024)), model=paper)
    reasons = {(r.pipeline, r.tensor, r.data): r.reason for r in table.to_frame().itertuples()}
    assert len(reasons) == 18
    assert reasons[3, 1, 1] == "divisibility: 40 layers by pipeline"
    assert reasons[1, 3, 1] == "divisibility: hidden 5120 by tensor"
    assert reasons[1, 1, 6] == "divisibility: batch 1024 by data x 1"
    assert reasons[1, 1, 1024] == "pool: more than 256 GPUs"
    assert reasons[1, 1, 1] == "memory: more than 80 GB"
    assert reasons[40, 1, 1] == ""


def test_uneven_pipelines_are_rejected_where_the_paper_is_kept() -> None:
    # 60 layers over 7 stages: the heaviest stage is longer than the rest.
    job = replace(JOB, model=Transformer.preset("LLaMA-33B"), batch=768)
    assert len(generate_modes(job, A100, 4096, candidates=Candidates(pipeline=(7,)))) > 0
    table = generate_modes(job, A100, 4096, candidates=Candidates(pipeline=(7,)), strict=True)
    assert set(table.to_frame()["reason"]) == {"divisibility: 60 layers by pipeline"}
    assert len(table) == 0


def test_micro_batches_must_divide_the_share_of_a_replica() -> None:
    table = generate_modes(JOB, A100, 4096, candidates=Candidates((40,), (8,), (512,), micro_batch=(4,)))
    assert table.to_frame()["reason"].iloc[0] == "divisibility: batch 1024 by data x 4"


frames = st.lists(
    st.tuples(st.integers(1, 4), st.integers(1, 4), st.integers(1, 4), st.integers(1, 4)), min_size=1, max_size=12
).map(lambda rows: pd.DataFrame(rows, columns=["gpus", "it_power", "flops_per_s", "memory_gb"]).astype(float))


@given(frames)
def test_pruning_is_dominance_by_definition(frame: pd.DataFrame) -> None:
    """Eq. 20 checked pair by pair; of modes equal in all three attributes exactly one may stay."""
    frame = frame.assign(pipeline=np.arange(1, len(frame) + 1), tensor=1, data=1, reason="")
    marked = mark_dominated(frame, prune=True)
    kept = marked[marked["reason"] == ""]
    for row in marked.itertuples():
        beaten = any(
            b.gpus <= row.gpus
            and b.it_power <= row.it_power
            and b.flops_per_s >= row.flops_per_s
            and (b.gpus, b.it_power, b.flops_per_s) != (row.gpus, row.it_power, row.flops_per_s)
            for b in marked.itertuples()
        )
        assert not (beaten and row.reason == "")
        if not beaten:
            twins = kept[
                (kept[["gpus", "it_power", "flops_per_s"]] == [row.gpus, row.it_power, row.flops_per_s]).all(axis=1)
            ]
            assert len(twins) == 1


@given(seed=st.integers(0, 1000))
def test_order_of_candidates_does_not_matter(seed: int) -> None:
    rng = np.random.default_rng(seed)
    shuffled = Candidates(tuple(rng.permutation([1, 2, 4, 8, 20, 40])), tuple(rng.permutation([1, 2, 4, 8])))
    ordered = Candidates((1, 2, 4, 8, 20, 40), (1, 2, 4, 8))
    tables = [generate_modes(JOB, A100, 512, candidates=c).to_frame() for c in (shuffled, ordered)]
    pd.testing.assert_frame_equal(*tables)


def test_unpruned_modes_contain_the_pruned_ones() -> None:
    pruned, whole = (generate_modes(JOB, A100, 512, prune=prune) for prune in (True, False))
    assert set(pruned.effective) < set(whole.effective)
    assert set(whole.effective) == set(pruned.feasible)


def test_mode_power_adds_communication_and_coefficients() -> None:
    power = ModePower(communication_w=50, coefficients={(1, 8, 1): 0.5})
    sizes = np.array([[1, 8, 1, 1, 1, 1, 1], [1, 8, 2, 1, 1, 1, 1]])
    watts = np.array([400.0, 400.0])
    np.testing.assert_allclose(power.it_power(watts, sizes), [8 * (0.5 * 400 + 50) / 1e6, 16 * 450 / 1e6])


def test_full_recomputation_must_be_counted_in_the_work_of_the_paper() -> None:
    full = PaperModel(MemoryModel(recomputation="full"))
    with pytest.raises(InputError, match="chi_f"):
        generate_modes(JOB, A100, 512, model=full)
    assert len(generate_modes(replace(JOB, chi_f=96.0), A100, 512, model=full))


def test_time_of_a_mode_does_not_depend_on_how_its_flops_are_counted() -> None:
    full = Recipe(recomputation="full")
    rates = {
        chi: generate_modes(replace(JOB, chi_f=chi), A100, 512, recipe=full).mode((8, 4, 16)) for chi in (72.0, 96.0)
    }
    hours = [replace(JOB, chi_f=chi).iteration_flops / mode.flops_per_s for chi, mode in rates.items()]
    assert hours[0] == pytest.approx(hours[1], rel=1e-12)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"model": PaperModel(), "recipe": Recipe()}, "recipe"),
        ({"model": PaperModel(), "strict": False}, "strict"),
        ({"model": PaperModel(), "candidates": Candidates(micro_batch=(2,))}, "micro_batch"),
        ({"candidates": Candidates(expert=(8,))}, "expert"),
        ({"recipe": Recipe(schedule=Schedule("zero-bubble")), "candidates": Candidates(chunks=(2,))}, "chunks"),
        ({"recipe": Recipe(precision="bf16"), "precision": "fp8"}, "precision"),
        ({"recipe": Recipe(precision="fp8")}, "precision"),
    ],
)
def test_settings_that_contradict_each_other_are_refused_by_name(options: dict[str, object], named: str) -> None:
    with pytest.raises(InputError, match=named):
        generate_modes(JOB, A100, 512, **options)  # type: ignore[arg-type]


def test_memory_and_efficiency_of_the_paper_cannot_contradict_each_other() -> None:
    # A memory of micro-batches of one beside a speed of micro-batches of four; 1F1B beside seven chunks.
    with pytest.raises(InputError) as caught:
        PaperModel(MemoryModel(micro_batch=1), EfficiencyModel(0.6, interleave=7, micro_batch=4))
    assert {fault.where for fault in caught.value.faults} == {"efficiency.micro_batch", "efficiency.interleave"}
    chunks = MemoryModel(schedule="interleaved", chunks=7)
    paper = PaperModel(chunks, EfficiencyModel(0.6, interleave=7))
    job = replace(JOB, model=Transformer.preset("LLaMA-3 70B"))
    table = generate_modes(job, "H100", 2048, candidates=Candidates((8,), (8,), (16,)), model=paper)
    assert set(table.to_frame()["reason"]) == {"divisibility: 80 layers by chunks"}


LLAMA_405B = Job("L", Transformer.preset("LLaMA-3 405B"), 15e12, batch=2048, sequence=8192, tranche_ratio=0.001)


def test_the_layout_of_llama_3_is_among_its_modes_and_found_in_time() -> None:
    # Grattafiori et al. 2024, Table 4: 16 stages of 126 layers, 8 tensor ranks, 128 replicas on 16,384 H100.
    start = time.perf_counter()
    table = generate_modes(LLAMA_405B, "H100", 16384)
    assert time.perf_counter() - start < 2.0
    trained = table.mode((16, 8, 128, 1, 1, 1, 4))
    assert trained in table.effective
    assert trained.label == "16·8·128·v4"
    assert trained.flops_per_s / trained.gpus / 1e12 == pytest.approx(400, rel=0.1)
    low, high = trained.interval()
    assert low < trained.flops_per_s < high
    assert len(table) < 40


def test_waiting_lowers_the_power_of_a_mode() -> None:
    table = generate_modes(LLAMA_405B, "H100", 16384, candidates=Candidates((16,), (8,), (32, 128), chunks=(1,)))
    few, many = (table.mode((16, 8, d)) for d in (32, 128))
    bubble = {32: 15 / (64 + 15), 128: 15 / (16 + 15)}
    assert few.it_power / few.gpus > many.it_power / many.gpus
    frame = table.to_frame().query("micro_batch == 1").set_index("data")
    for d, idle in bubble.items():
        assert frame.loc[d, "busy"] < 1 - 0.8 * idle
    assert many.it_power / many.gpus < 700e-6


def test_baseline_may_be_dominated_but_not_infeasible(green_campus: ModuleType) -> None:
    table = green_campus.modes(green_campus.jobs()[0])
    assert (4, 4, 32) not in [mode.size for mode in table]
    assert table.mode((4, 4, 32)).gpus == 512
    with pytest.raises(InputError, match="memory"):
        table.mode((1, 1, 1))
    with pytest.raises(InputError, match="candidates"):
        table.mode((7, 1, 1))


@pytest.mark.parametrize("gpus", [0, -5, 1.5, float("nan")])
def test_pool_must_be_a_whole_positive_number(gpus: float) -> None:
    with pytest.raises(InputError, match="gpus"):
        generate_modes(JOB, A100, gpus)  # type: ignore[arg-type]


def test_unknown_precision_and_candidates_are_refused() -> None:
    with pytest.raises(InputError, match="bf16"):
        generate_modes(JOB, A100, 512, precision="fp8")
    with pytest.raises(InputError, match="tensor"):
        Candidates(tensor=(0,))
    with pytest.raises(InputError, match="flops_per_s"):
        Mode((1, 1, 1), 1, 0.0, 0.1)
    with pytest.raises(InputError, match="not 80"):
        GPU("mine", {"bf16": 312e12}, memory=80, train_w=400)


def test_figure_shows_feasible_and_effective_modes(green_campus: ModuleType) -> None:
    table = green_campus.modes(green_campus.jobs()[0])
    upper, lower = table.plot().axes
    assert "135 feasible, 12 effective" in upper.get_title(loc="left")
    for axes in (upper, lower):
        dominated, effective = (points.get_offsets() for points in axes.collections[:2])
        assert (len(dominated), len(effective)) == (123, 12)
    frontier = upper.get_lines()[0]
    best = table.to_frame().query("reason == ''").sort_values("it_power")
    np.testing.assert_allclose(frontier.get_ydata(), best["flops_per_s"] / 1e15)
    np.testing.assert_allclose(frontier.get_xdata(), 1e3 * best["it_power"])
    # Memory is size: the fuller of two GPUs is drawn larger.
    sizes = upper.collections[1].get_sizes()
    assert list(np.argsort(sizes)) == list(np.argsort(best["memory_gb"].to_numpy()[np.argsort(best.index)]))


def test_a_mixture_of_experts_on_16384_gpus_has_its_modes_in_time() -> None:
    """All seven dimensions, at a sequence that context parallelism is tried for: 140,400 candidates."""
    job = Job("D", Transformer.preset("DeepSeek-V3"), 15e12, batch=512, sequence=131_072, tranche_ratio=0.001)
    start = time.process_time()
    table = generate_modes(job, "H800", 16384)
    assert time.process_time() - start < 2.0
    assert 0 < len(table) < 40
    assert any(mode.size[4] > 1 or mode.size[3] > 1 for mode in table)
