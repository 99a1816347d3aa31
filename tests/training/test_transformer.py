from __future__ import annotations

import pytest

from pypsa_aidc import InputError, Transformer
from pypsa_aidc.training import presets


@pytest.mark.parametrize("name", presets.names("transformers"))
def test_presets_count_to_their_published_parameters(name: str) -> None:
    model = Transformer.preset(name)
    assert model.counted_parameters == pytest.approx(model.parameters, rel=0.006)


@pytest.mark.parametrize(
    ("name", "published"),
    # Grattafiori et al. 2024, Table 3 and the model cards: 8.03, 70.6 and 405.9 billion parameters.
    [("LLaMA-3 8B", 8.03e9), ("LLaMA-3 70B", 70.55e9), ("LLaMA-3 405B", 405.85e9)],
)
def test_grouped_query_attention_and_gate_are_counted(name: str, published: float) -> None:
    assert Transformer.preset(name).counted_parameters == pytest.approx(published, rel=2e-3)


def test_unknown_preset_lists_the_known_ones() -> None:
    with pytest.raises(InputError, match="LLaMA-13B"):
        Transformer.preset("LLaMA-14B")


def test_all_faults_are_reported_together() -> None:
    with pytest.raises(InputError) as caught:
        Transformer("x", layers=0, hidden=-5, ffn=1.5, heads=8, vocabulary=32000)  # type: ignore[arg-type]
    assert {fault.where for fault in caught.value.faults} == {"layers", "hidden", "ffn"}


def test_parameters_in_billions_are_refused() -> None:
    with pytest.raises(InputError, match="not billions"):
        Transformer("x", layers=40, hidden=5120, ffn=13824, heads=40, vocabulary=32000, parameters=13.0, gated=True)


def test_heads_must_divide_hidden_and_kv_heads_must_divide_heads() -> None:
    with pytest.raises(InputError, match="multiple of heads"):
        Transformer("x", layers=2, hidden=100, ffn=400, heads=3, vocabulary=1000)
    with pytest.raises(InputError, match="divisor of heads"):
        Transformer("x", layers=2, hidden=96, ffn=400, heads=8, kv_heads=3, vocabulary=1000)


LLAMA_3_8B = {
    "model_type": "llama",
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_attention_heads": 32,
    "num_hidden_layers": 32,
    "num_key_value_heads": 8,
    "vocab_size": 128256,
    "tie_word_embeddings": False,
}


def test_hugging_face_config_equals_the_preset() -> None:
    read, preset = Transformer.from_hf(LLAMA_3_8B, "LLaMA-3 8B"), Transformer.preset("LLaMA-3 8B")
    assert read.layer_weights == preset.layer_weights
    assert read.counted_parameters == preset.counted_parameters
    assert read.parameters == read.counted_parameters


def test_head_dim_of_the_config_is_used() -> None:
    # Qwen3-4B has 32 heads of 128 on a hidden size of 2560.
    config = LLAMA_3_8B | {"model_type": "qwen3", "hidden_size": 2560, "head_dim": 128}
    assert Transformer.from_hf(config).attention_width == 4096


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"num_local_experts": 8}, "num_local_experts"),
        ({"model_type": "mixtral", "num_local_experts": 8}, "num_experts_per_tok"),
        ({"model_type": "deepseek_v3", "kv_lora_rank": 512}, "qk_nope_head_dim"),
        ({"model_type": "t5", "is_encoder_decoder": True}, "is_encoder_decoder"),
        ({"model_type": "something_new"}, "model_type"),
        ({"hidden_size": None}, "hidden_size"),
        ({"num_hidden_layers": "many"}, "layers"),
    ],
)
def test_configs_that_are_no_dense_decoder_are_refused(change: dict[str, object], named: str) -> None:
    with pytest.raises(InputError, match=named):
        Transformer.from_hf(LLAMA_3_8B | change)


DEEPSEEK_V3 = {
    "model_type": "deepseek_v3",
    "hidden_size": 7168,
    "intermediate_size": 18432,
    "moe_intermediate_size": 2048,
    "num_hidden_layers": 61,
    "num_attention_heads": 128,
    "num_key_value_heads": 128,
    "n_routed_experts": 256,
    "n_shared_experts": 1,
    "num_experts_per_tok": 8,
    "moe_layer_freq": 1,
    "first_k_dense_replace": 3,
    "q_lora_rank": 1536,
    "kv_lora_rank": 512,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "v_head_dim": 128,
    "n_group": 8,
    "topk_group": 4,
    "vocab_size": 129280,
    "tie_word_embeddings": False,
}
MIXTRAL = LLAMA_3_8B | {"model_type": "mixtral", "num_local_experts": 8, "num_experts_per_tok": 2, "vocab_size": 32000}
QWEN3_MOE = {
    "model_type": "qwen3_moe",
    "hidden_size": 4096,
    "intermediate_size": 12288,
    "moe_intermediate_size": 1536,
    "num_hidden_layers": 94,
    "num_attention_heads": 64,
    "head_dim": 128,
    "num_key_value_heads": 4,
    "num_experts": 128,
    "num_experts_per_tok": 8,
    "decoder_sparse_step": 1,
    "mlp_only_layers": [],
    "vocab_size": 151936,
    "tie_word_embeddings": False,
}
QWEN2_MOE = {
    "model_type": "qwen2_moe",
    "hidden_size": 3584,
    "intermediate_size": 18944,
    "moe_intermediate_size": 2560,
    "shared_expert_intermediate_size": 20480,
    "num_hidden_layers": 28,
    "num_attention_heads": 28,
    "num_key_value_heads": 4,
    "num_experts": 64,
    "num_experts_per_tok": 8,
    "decoder_sparse_step": 1,
    "vocab_size": 151936,
    "tie_word_embeddings": False,
}


@pytest.mark.parametrize(
    ("config", "total", "active"),
    # Model cards: DeepSeek-V3 671B-A37B, Mixtral 46.7B-A12.9B, Qwen3 235B-A22B, Qwen2 57B-A14B.
    [(DEEPSEEK_V3, 671e9, 37.5e9), (MIXTRAL, 46.7e9, 12.9e9), (QWEN3_MOE, 235e9, 22.2e9), (QWEN2_MOE, 57.4e9, 14.2e9)],
)
def test_mixtures_of_experts_count_to_their_published_parameters(
    config: dict[str, object], total: float, active: float
) -> None:
    model = Transformer.from_hf(config)
    assert model.parameters == pytest.approx(total, rel=5e-3)
    assert model.active_parameters == pytest.approx(active, rel=1e-2)
    assert model.experts is not None
    assert (model.experts.groups == 4) is (config is DEEPSEEK_V3)


def test_the_text_part_of_a_multimodal_config_is_read() -> None:
    nested = {"model_type": "llama4", "text_config": LLAMA_3_8B, "vision_config": {"hidden_size": 1408}}
    assert Transformer.from_hf(nested).counted_parameters == Transformer.from_hf(LLAMA_3_8B).counted_parameters
    # Llama 4 Maverick, 400B-A17B: every other of 48 layers has 128 experts beside a shared one.
    maverick = LLAMA_3_8B | {
        "model_type": "llama4_text",
        "hidden_size": 5120,
        "intermediate_size": 8192,
        "intermediate_size_mlp": 16384,
        "num_attention_heads": 40,
        "num_hidden_layers": 48,
        "num_local_experts": 128,
        "num_experts_per_tok": 1,
        "interleave_moe_layer_step": 2,
        "vocab_size": 202048,
    }
    model = Transformer.from_hf({"text_config": maverick})
    assert model.parameters == pytest.approx(400e9, rel=0.01)
    assert model.active_parameters == pytest.approx(17e9, rel=0.02)


def test_experts_of_a_preset_are_those_of_its_config() -> None:
    assert Transformer.preset("DeepSeek-V3").matrix_weights == Transformer.from_hf(DEEPSEEK_V3).matrix_weights
